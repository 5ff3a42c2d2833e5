//! Scalar names that nothing declares: an extent may be declared further down, so they are reported at the end.

use super::program::ProgramReader;
use super::report;
use super::report_names;
use super::scope::Meaning;
use crate::diag::{Diag, Diags};
use crate::ir::scalar_names::{RUNTIME, bound_names, defined_names, is_generated};
use crate::ir::{Symbol, is_reserved_word};
use hostir_grammar::Span;
use hostir_grammar::ast;
use hostir_grammar::hir2::ast::NameSyntax;
use rustc_hash::{FxHashMap, FxHashSet};

/// The maximum number of unknown names of a program for which a similar one is searched.
const MAX_SUGGESTIONS: usize = 100;

/// Names that were unknown at their uses, and the errors that depend on them.
#[derive(Default)]
pub(super) struct UnboundNames {
    /// Each with its first use, in text order.
    uses: Vec<UnboundUse>,
    known: FxHashSet<ast::Symbol>,
    /// Names in types.
    extents: FxHashSet<ast::Symbol>,
    /// The name that was used last.
    last: Option<NameSyntax>,
    /// True inside of a type, whose names are extents.
    pub(super) in_type: bool,
    /// True if a header has an error, so that the declared names are not known.
    pub(super) is_silent: bool,
    /// Scalars whose definition uses an unknown name, and that name: they may be tensors.
    doubtful: FxHashMap<ast::Symbol, ast::Symbol>,
    /// Errors that apply only if a name is known in the end.
    deferred: Vec<(ast::Symbol, Diag)>,
    /// The number of unknown names for which similar ones were searched.
    asked: usize,
}

/// The first use of an unknown name.
#[derive(Clone, Copy)]
struct UnboundUse {
    name: NameSyntax,
    /// A known scalar at the use, such as a loop's index, with a similar name.
    near: Option<ast::Symbol>,
}

/// Uses that are compared with the scalars that are known at their places.
const MOST_COMPARED: usize = 100;

impl UnboundNames {
    /// The last use of an unknown name.
    pub(super) fn last(&self) -> Option<NameSyntax> {
        self.last
    }

    /// Returns true if a type has had this name as an extent.
    pub(super) fn is_extent(&self, name: ast::Symbol) -> bool {
        self.extents.contains(&name)
    }

    /// Records the use of a scalar: of one that an unknown name defines as a use of that name.
    pub(super) fn carry_doubt(&mut self, used: NameSyntax) {
        if let Some(&unknown) = self.doubtful.get(&used.name) {
            self.last = Some(NameSyntax { name: unknown, span: used.span });
        }
    }

    /// Records that the last used name defines a scalar.
    pub(super) fn mark_doubtful(&mut self, scalar: ast::Symbol) {
        if let Some(last) = self.last {
            self.doubtful.insert(scalar, last.name);
        }
    }
}

impl<'f> ProgramReader<'f> {
    /// Records the use of a name that is not declared so far.
    pub(super) fn note_unbound(&mut self, name: ast::Symbol, span: Span) {
        let text = self.name_text(name);
        if self.unbound.in_type && !is_tensor_number(text) {
            self.unbound.extents.insert(name);
            let is_new = self.unbound.known.insert(name);
            if is_new && is_reserved_word(text) && !RUNTIME.contains(&text) && text != "streams" {
                report_names::report_reserved(text, span, self.diags);
            }
            return;
        }
        let found = NameSyntax { name, span };
        self.unbound.last = Some(found);
        if self.unbound.known.insert(name) {
            let near = if self.unbound.uses.len() < MOST_COMPARED { self.near_scalar(name) } else { None };
            self.unbound.uses.push(UnboundUse { name: found, near });
        }
    }

    fn near_scalar(&self, name: ast::Symbol) -> Option<ast::Symbol> {
        let known = self.tables.scope.names_where(|meaning| meaning == Meaning::Scalar);
        let texts = known.iter().map(|known| self.file.symbol_text(*known));
        let near = report::nearest_name(self.file.symbol_text(name), texts)?;
        self.file.strings.find_symbol(near)
    }

    /// Reports a scalar, communication or stream where a tensor is needed. A scalar that an unknown name defines may
    /// have been meant as a tensor.
    pub(super) fn report_other_meaning(&mut self, name: NameSyntax, meaning: Meaning) {
        let mut found = Diags::default();
        report_names::report_needs_tensor(self.file.symbol_text(name.name), meaning, name.span, &mut found);
        match self.unbound.doubtful.get(&name.name) {
            Some(&unknown) => {
                self.unbound.deferred.extend(found.items.into_iter().map(|diag| (unknown, diag)));
            }
            None => self.diags.items.append(&mut found.items),
        }
    }

    /// Returns true if a line with an error of syntax gives a name a value.
    pub(super) fn is_set_in_error(&self, name: &str) -> bool {
        let mut unread = self.diags.items.iter().filter(|diag| diag.code.starts_with("H00"));
        unread.any(|diag| {
            let Some(place) = diag.primary.as_ref().map(|label| label.span.start as usize) else { return false };
            let (Some(before), Some(after)) = (self.source.get(..place), self.source.get(place..)) else {
                return false;
            };
            let start = before.rfind('\n').map_or(0, |end| end + 1);
            let line = &self.source[start..place + after.find('\n').unwrap_or(after.len())];
            let mut set = line.match_indices(name).filter(|(at, _)| line[..*at].ends_with([' ', ':']));
            set.any(|(at, _)| line[at + name.len()..].starts_with(" = ") || line[at + name.len()..].starts_with('['))
        })
    }

    /// Reports an unknown name as the value of a tensor: `G: T = aloc`.
    pub(super) fn report_no_value(&mut self, name: NameSyntax) {
        let after = self.source.get(name.span.end as usize..).unwrap_or_default();
        if matches!(self.name_text(name.name), "keep" | "fresh" | "zero" | "resets") && after.starts_with(" alloc") {
            // The parser reports `G: T = keep alloc`.
            return;
        }
        let mut known = self.names_to_suggest(|meaning| matches!(meaning, Meaning::Tensor(_)));
        known.push("alloc");
        report_names::report_no_name(self.source, self.file.symbol_text(name.name), &known, name.span, self.diags);
    }

    /// The names that an unknown one may have been meant as: those with a meaning of some kind. None after many errors,
    /// since each search visits all names.
    pub(super) fn names_to_suggest(&mut self, wanted: impl Fn(Meaning) -> bool) -> Vec<&'f str> {
        self.unbound.asked += 1;
        if self.unbound.asked > MAX_SUGGESTIONS {
            return Vec::new();
        }
        let file = self.file;
        self.tables.scope.names_where(wanted).into_iter().map(|name| file.symbol_text(name)).collect()
    }

    /// Reports the names that nothing in the program declares.
    pub(super) fn report_unbound_names(&mut self) {
        let uses = std::mem::take(&mut self.unbound.uses);
        let deferred = std::mem::take(&mut self.unbound.deferred);
        if self.unbound.is_silent || uses.is_empty() {
            return;
        }
        let bound = bound_names(&self.program);
        // A definition that needs a loop's index is bound inside of that loop: the verifier reports uses outside of it.
        let is_bound: FxHashSet<Symbol> = bound.iter().copied().chain(defined_names(&self.program)).collect();
        let mut missing = FxHashSet::default();
        for UnboundUse { name: used, near } in uses {
            let text = self.file.symbol_text(used.name);
            let is_poisoned = self.tables.scope.get(used.name).is_some_and(|entry| entry.meaning == Meaning::Poisoned);
            if text == "streams" || RUNTIME.contains(&text) || is_generated(text) || is_poisoned {
                continue;
            }
            if is_bound.contains(&self.symbol(used.name)) && !is_tensor_number(text) {
                continue;
            }
            missing.insert(used.name);
            self.report_unbound_name(used, near, &bound);
        }
        let kept = deferred.into_iter().filter(|(unknown, _)| !missing.contains(unknown));
        self.diags.items.extend(kept.map(|(_, diag)| diag));
    }

    fn report_unbound_name(&mut self, used: NameSyntax, near: Option<ast::Symbol>, bound: &[Symbol]) {
        let before = self.source.get(..used.span.start as usize).unwrap_or_default().trim_end();
        if before.ends_with("sync") || before.ends_with("stream") {
            let known = self.names_to_suggest(|meaning| matches!(meaning, Meaning::Stream(_)));
            return report_names::report_no_stream(self.file.symbol_text(used.name), &known, used.span, self.diags);
        }
        let mut known: Vec<&str> = near.into_iter().map(|near| self.file.symbol_text(near)).collect();
        known.extend(self.names_to_suggest(|meaning| meaning != Meaning::Poisoned));
        if self.unbound.asked <= MAX_SUGGESTIONS {
            known.extend(bound.iter().map(|symbol| self.program.name(*symbol)));
        }
        known.extend(["rank", "streams"]);
        let text = self.file.symbol_text(used.name);
        match self.runtime_scalar_note(text) {
            Some(note) => report_names::report_runtime_scalar(text, note, used.span, self.diags),
            None => report_names::report_no_name(self.source, text, &known, used.span, self.diags),
        }
    }
}

/// Returns true if a name is that of a tensor without one, `T7`: no scalar may have it.
fn is_tensor_number(name: &str) -> bool {
    name.strip_prefix('T').is_some_and(|rest| !rest.is_empty() && rest.bytes().all(|byte| byte.is_ascii_digit()))
}
