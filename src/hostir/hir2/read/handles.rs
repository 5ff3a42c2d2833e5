//! Handles: names of communications and groups, and elements of arrays of them.

use super::program::ProgramReader;
use super::report;
use super::report_names::{self, WritingPost};
use super::scope::Meaning;
use crate::diag::{Diag, Diags, PartKind, codes, message, syntax_error};
use crate::ir::{AttrKey, AttrValue, ExprId, Op};
use hostir_grammar::Span;
use hostir_grammar::ast;
use hostir_grammar::hir2::ast::{ExprNode, IndexItem, NameSyntax, NodeRange, StmtForm, TargetSyntax};
use rustc_hash::FxHashSet;

/// A handle as a statement names it: `h`, or `h[i]`.
#[derive(Clone, Copy)]
pub(super) struct HandleRef {
    pub(super) number: u32,
    /// The element of an array.
    pub(super) element: Option<ExprId>,
}

impl HandleRef {
    /// Gives the handle to what starts a communication or a group.
    pub(super) fn note_in(self, op: &mut Op) {
        op.number = Some(self.number);
        op.attrs.extend(self.element.map(|element| (AttrKey::Element, AttrValue::Expr(element))));
    }
}

impl ProgramReader<'_> {
    /// A handle of its own for a communication without a name.
    pub(super) fn unnamed_handle(&mut self) -> HandleRef {
        HandleRef { number: self.numbering.new_handle(), element: None }
    }

    /// The name and the element of `h[i]`.
    fn indexed_handle(
        &mut self,
        whole: ast::ExprId,
        base: ast::ExprId,
        items: NodeRange,
    ) -> Option<(NameSyntax, Option<ExprId>)> {
        let file = self.file;
        let span = file.expr_span(whole);
        let index = match file.index_items[items.indices()] {
            [IndexItem::At(index)] => Some(index),
            _ => None,
        };
        let is_own = |index| matches!(*file.expr(index), ExprNode::Name(name) if file.symbol_text(name) == "own");
        match (*file.expr(base), index.filter(|&index| !is_own(index))) {
            (ExprNode::Name(name), Some(index)) => {
                self.check_minor_version(span, "an array of handles");
                let element = self.scalar(index)?;
                Some((NameSyntax { name, span: file.expr_span(base) }, Some(element)))
            }
            (ExprNode::Error, _) => None,
            _ => {
                report_handle_index(span, self.diags);
                None
            }
        }
    }

    /// Reports a construct of `hir 2.1` in a text of `hir 2`, once for a file.
    pub(super) fn check_minor_version(&mut self, span: Span, construct: &str) {
        let asked = &mut self.tables.has_asked_version;
        if let Some(error) = self.file.head.minor_version_error(self.source, span, construct).filter(|_| !*asked) {
            *asked = true;
            self.diags.push(syntax_error(error));
        }
    }

    /// The handle on the left side: new, or one that another branch also uses.
    pub(super) fn handle_target(&mut self, target: &TargetSyntax) -> Option<HandleRef> {
        let (name, element) = match *self.file.expr(target.value) {
            ExprNode::Index(base, items) if !self.names_tensor(base) => {
                self.indexed_handle(target.value, base, items)?
            }
            _ => (self.plain_target(target)?, None),
        };
        if let Some(ty) = target.ty {
            report::report_handle_type(self.file.tensor_type(ty).span, self.diags);
        }
        if let Some(Meaning::Handle(number)) = self.tables.scope.get(name.name).map(|entry| entry.meaning) {
            return Some(HandleRef { number, element });
        }
        if !self.check_handle_name(name) {
            return None;
        }
        let number = self.new_handle(name.name);
        self.declare(name, Meaning::Handle(number)).then_some(HandleRef { number, element })
    }

    /// The number of a new name: its own (`h7`), or a free one.
    fn new_handle(&mut self, name: ast::Symbol) -> u32 {
        if let Some(number) = self.numbered(name, "h") {
            return number;
        }
        let number = self.numbering.new_handle();
        let symbol = self.symbol(name);
        self.program.given.handles.insert(number, symbol);
        number
    }

    /// The handle of a name; a loop may start its communication further down.
    pub(super) fn waited_handle(&mut self, value: ast::ExprId) -> Option<HandleRef> {
        let span = self.file.expr_span(value);
        let (name, element) = match *self.file.expr(value) {
            ExprNode::Name(name) => (NameSyntax { name, span }, None),
            ExprNode::Index(base, items) => self.indexed_handle(value, base, items)?,
            _ => return None,
        };
        Some(HandleRef { number: self.waited_number(name)?, element })
    }

    fn waited_number(&mut self, name: NameSyntax) -> Option<u32> {
        match self.tables.scope.get(name.name).map(|entry| entry.meaning) {
            Some(Meaning::Handle(number)) => Some(number),
            Some(Meaning::Poisoned) => None,
            None if self.numbered(name.name, "h").is_some() || self.is_posted(name.name) => {
                let number = self.new_handle(name.name);
                self.tables.scope.set_meaning(name.name, Meaning::Handle(number), name.span);
                Some(number)
            }
            Some(meaning) => {
                let (post, handles) = (self.post_into(name.name), self.handles_of_tensor(name.name));
                let text = self.name_text(name.name);
                report_names::report_no_wait(text, meaning, post, &handles, name.span, self.diags);
                None
            }
            // The statement that posts it cannot be read.
            None if self.is_set_in_error(self.file.symbol_text(name.name)) => None,
            None => {
                let mut posted: Vec<&str> =
                    self.posted_names().into_iter().map(|name| self.file.symbol_text(name)).collect();
                posted.sort_unstable();
                report_names::report_no_handle(self.file.symbol_text(name.name), &posted, name.span, self.diags);
                None
            }
        }
    }

    /// The last post before a wait that writes a tensor.
    fn post_into(&self, tensor: ast::Symbol) -> Option<WritingPost> {
        let file = self.file;
        file.stmts.iter().rev().find_map(|stmt| {
            let (handle, call) = match stmt.form {
                StmtForm::Assign { targets, value } if targets.len() == 1 => {
                    let target = file.targets[targets.start as usize].value;
                    (Some(self.source.get(file.expr_span(target).as_usize_range())?.to_owned()), value)
                }
                StmtForm::Call(value) => (None, value),
                _ => return None,
            };
            let ExprNode::Call(name, args) = *file.expr(call) else { return None };
            let is_received = self.file.symbol_text(name.name) == "recv";
            let writes = file.args[args.indices()].iter().any(|arg| match *file.expr(arg.value) {
                ExprNode::Arrow(_, to) => self.is_part_of(to, tensor),
                _ => is_received && arg.key.is_none() && self.is_part_of(arg.value, tensor),
            });
            let text = self.source.get(stmt.span.as_usize_range())?;
            writes.then(|| WritingPost { handle, text: text.to_owned() })
        })
    }

    /// Returns true for a tensor of this name or a slice of it.
    fn is_part_of(&self, id: ast::ExprId, tensor: ast::Symbol) -> bool {
        match *self.file.expr(id) {
            ExprNode::Name(name) => name == tensor,
            ExprNode::Index(base, _) => self.is_part_of(base, tensor),
            _ => false,
        }
    }

    /// Whether some statement of the file starts a communication with a name.
    fn is_posted(&mut self, name: ast::Symbol) -> bool {
        if self.tables.posted.is_none() {
            self.tables.posted = Some(self.posted_names());
        }
        self.tables.posted.as_ref().is_some_and(|posted| posted.contains(&name))
    }

    /// The names of the communications and groups that send or receive a tensor or a part of it.
    fn handles_of_tensor(&self, tensor: ast::Symbol) -> Vec<String> {
        let (file, tensor) = (self.file, self.name_text(tensor));
        let mut handles: Vec<String> = file
            .stmts
            .iter()
            .filter_map(|stmt| {
                let StmtForm::Assign { targets, value } = stmt.form else { return None };
                let is_post = match *file.expr(value) {
                    ExprNode::Group(_) => true,
                    ExprNode::Call(name, args) => self.is_post(name, args),
                    _ => false,
                };
                let text = self.source.get(file.expr_span(value).as_usize_range())?;
                let ExprNode::Name(name) = *file.expr(file.targets[targets.start as usize].value) else { return None };
                (is_post && transfers_tensor(text, tensor)).then(|| file.symbol_text(name).to_owned())
            })
            .collect();
        handles.dedup();
        handles
    }

    /// The names of the communications and groups of the file.
    fn posted_names(&self) -> FxHashSet<ast::Symbol> {
        let file = self.file;
        let names = file.stmts.iter().filter_map(|stmt| match stmt.form {
            StmtForm::Assign { targets, value } if targets.len() == 1 => {
                let is_post = match *file.expr(value) {
                    ExprNode::Group(_) => true,
                    ExprNode::Call(name, args) => self.is_post(name, args),
                    _ => false,
                };
                let mut target = *file.expr(file.targets[targets.start as usize].value);
                if let ExprNode::Index(base, _) = target {
                    target = *file.expr(base);
                }
                match target {
                    ExprNode::Name(name) if is_post => Some(name),
                    _ => None,
                }
            }
            _ => None,
        });
        names.collect()
    }
}

/// Returns true if the text of a communication or group sends or receives a tensor: `allgather(A -> G)`, `recv(G[s], ..)`.
fn transfers_tensor(text: &str, tensor: &str) -> bool {
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let mut places = text.match_indices(tensor);
    places.any(|(at, _)| {
        let (before, after) = (&text[..at], &text[at + tensor.len()..]);
        let is_operand = before.trim_end().ends_with(['(', '>']);
        is_operand && !after.starts_with(is_word)
    })
}

/// `h[i, j]`, `h[:]`, `h[own]`.
fn report_handle_index(span: Span, diags: &mut Diags) {
    let message = "an element of an array of handles is one integer in brackets";
    let note = "write `h[i]`; an array over two loops has elements such as `h[i * n + j]`, and `wait h` waits for all";
    diags.push(Diag::error(codes::HANDLE_INDEX, span, message).with_note(note));
}

/// `h[i] = Dispatch(..)`.
pub(super) fn report_no_element(word: &str, span: Span, diags: &mut Diags) {
    let message =
        message!("`{}` starts nothing that an element of an array of handles could name", PartKind::Op.quote(word));
    let note = "write it without a name: its stream waits for it, so no `wait` follows";
    diags.push(Diag::error(codes::HANDLE_INDEX, span, message).with_note(note));
}
