//! Errors of later stages: a text is judged again after the repair of what was found.
//!
//! A text that cannot be read has no sizes, and one without sizes has no proof. So each error's own fix is applied
//! (`relu` for `rleu`), and a statement that computes and has none is left out. What is then said about other lines
//! holds for the text as it is, unless it is about a tensor that such a statement writes. Changes keep the lines: line 7
//! of the changed text is line 7 of the text.

use super::judge::TextJudge;
use super::poison::{NO_EFFECT, PoisonedLine};
use super::search::is_error;
use crate::diag::fix::apply_edits;
use crate::diag::{Diag, DiagLabel, Message, PartKind, Span, TextEdit, codes};
use crate::hir2::{is_hir2, own_text};
use rustc_hash::FxHashSet;
use std::ops::Range;

/// The maximum number of texts that are judged.
const MOST_ROUNDS: usize = 6;

/// Errors about communications that nothing has started, or that no `wait` follows.
const OF_HANDLES: &[&str] = &[codes::UNKNOWN_HANDLE, codes::UNKNOWN_WAIT, codes::POSTS];

/// The longest text that is judged again.
const MOST_TEXT: usize = 1 << 18;

/// Adds the errors that are found after the repair of those that a text has, in the order of their places.
pub fn add_further_errors(text: &str, diags: &mut Vec<Diag>, judge: &mut dyn TextJudge) {
    if text.len() > MOST_TEXT || !diags.iter().any(is_error) {
        return;
    }
    let mut mended = MendedText::new(text);
    mended.is_read_through =
        diags.iter().filter(|diag| is_error(diag)).any(|diag| is_of_reader(diag) && !is_at_head(diag, text));
    let mut known: FxHashSet<(&'static str, Message)> =
        diags.iter().map(|diag| (diag.code, diag.message.clone())).collect();
    let (mut found, before) = (diags.clone(), diags.len());
    for _ in 0..MOST_ROUNDS {
        if !mended.repair_errors(&found) {
            break;
        }
        found = judge.judge_text(&mended.text).diags;
        for diag in found.iter().filter(|diag| is_error(diag)) {
            if known.insert((diag.code, diag.message.clone())) {
                diags.extend(mended.own_diag(diag));
            }
        }
    }
    if diags.len() > before {
        sort_by_place(diags);
    }
}

/// Sorts diagnostics by place; those without one come last.
fn sort_by_place(diags: &mut [Diag]) {
    diags.sort_by_key(|diag| diag.primary.as_ref().map_or(u32::MAX, |label| label.span.start));
}

/// The change of a line.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum LineChange {
    None,
    /// Its spelling, which has one meaning.
    Spelling,
    /// A name by the nearest one, or another statement: what is said about it may follow from that.
    Guess,
}

/// A text with repairs that keep its lines.
struct MendedText<'t> {
    original: &'t str,
    text: String,
    /// For each line.
    changes: Vec<LineChange>,
    /// The names that statements without a repair define or write.
    poisoned: FxHashSet<String>,
    /// The names of tensors whose types were guessed.
    retyped: FxHashSet<String>,
    /// The names of tensors of which such statements write parts.
    unwritten: FxHashSet<String>,
    /// True if a statement with sizes that do not fit is left out: the next such error may have the same cause.
    has_conflict: bool,
    /// True if a communication is left out: what is said about others may be about it.
    has_lost_handle: bool,
    /// True if the reader has told the errors of all lines: another one is about a change.
    is_read_through: bool,
}

impl<'t> MendedText<'t> {
    fn new(original: &'t str) -> Self {
        let lines = original.split('\n').count();
        let (text, changes) = (original.to_owned(), vec![LineChange::None; lines]);
        let (poisoned, unwritten) = (FxHashSet::default(), FxHashSet::default());
        let retyped = FxHashSet::default();
        Self {
            original,
            text,
            changes,
            poisoned,
            retyped,
            unwritten,
            has_conflict: false,
            has_lost_handle: false,
            is_read_through: false,
        }
    }

    /// Repairs what can be repaired of the errors of the changed text. Returns true if that is something.
    fn repair_errors(&mut self, diags: &[Diag]) -> bool {
        let (own, starts) = (own_text(&self.text).len(), line_starts(&self.text));
        let mut edits: Vec<TextEdit> = Vec::new();
        for diag in diags.iter().filter(|diag| is_error(diag)) {
            let Some((change, added)) = self.own_edits(diag, &starts) else { continue };
            if added.iter().all(|new| new.span.end as usize <= own && edits.iter().all(|old| are_disjoint(new, old))) {
                added.iter().for_each(|edit| self.changes[line_at(&starts, edit.span.start)] = change);
                edits.extend(added);
            }
        }
        edits.sort_by_key(|edit| edit.span.start);
        let changed = apply_edits(&self.text, &edits).filter(|_| !edits.is_empty());
        let is_changed = changed.as_ref().is_some_and(|changed| *changed != self.text);
        self.text = changed.unwrap_or_else(|| std::mem::take(&mut self.text));
        is_changed
    }

    /// The edits that repair an error, or leave its statement out.
    fn own_edits(&mut self, diag: &Diag, starts: &[usize]) -> Option<(LineChange, Vec<TextEdit>)> {
        let mut fixes = diag.fixes.iter().filter(|fix| !fix.edits.is_empty());
        if let Some(fix) = fixes.find(|fix| fix.edits.iter().all(|edit| self.keeps_lines(edit))) {
            // The order of axes that is written then may not be the one that is meant.
            self.has_conflict |= diag.code == codes::PERMUTATION;
            self.retyped.extend(fix.edits.iter().filter_map(|edit| declared_name(&self.text, edit)));
            // That a communication of a guessed name has no other `wait` may follow from the guess.
            if diag.code == codes::UNKNOWN_HANDLE {
                self.poisoned.extend(fix.edits.iter().map(|edit| edit.text.clone()));
            }
            let change = if diag.code.starts_with("H00") { LineChange::Spelling } else { LineChange::Guess };
            return Some((change, fix.edits.clone()));
        }
        let is_early = ["H00", "H01", "H02", "H04"].iter().any(|stage| diag.code.starts_with(stage));
        let line = line_at(starts, diag.primary.as_ref()?.span.start);
        let is_new = self.changes[line] != LineChange::Guess;
        if !is_early || !is_new || !is_hir2(&self.text) {
            return None;
        }
        let range = line_range(&self.text, starts, line);
        if diag.code == codes::UNKNOWN_HANDLE {
            return Some((LineChange::Guess, vec![self.other_wait(diag.primary.as_ref()?.span)?]));
        }
        if diag.code == codes::NO_MEMORY_HERE {
            self.poisoned.extend(diag.message.texts_of(PartKind::Tensor).map(str::to_owned));
        }
        let is_of_type = is_conflict(diag) || [codes::RANK, codes::DTYPE].contains(&diag.code);
        let content = &self.text[range.clone()];
        let collective = PoisonedLine::of_collective(content);
        let is_collective = collective.is_some();
        let mut poisoned = collective.or_else(|| PoisonedLine::of_line(content, is_of_type))?;
        // The copy of an operand has the type of another output.
        let allocated = format!("  {} = alloc", poisoned.target);
        if !is_collective && is_output(&self.text[..range.start], &poisoned.target) && !self.text.contains(&allocated) {
            poisoned = poisoned.of_output();
        }
        self.has_lost_handle |= poisoned.handle.is_some();
        self.poisoned.extend(poisoned.handle);
        let names = if poisoned.is_part { &mut self.unwritten } else { &mut self.poisoned };
        names.insert(poisoned.target);
        self.has_conflict |= is_conflict(diag);
        let span = Span::new(range.start + poisoned.place.start, range.start + poisoned.place.end);
        Some((LineChange::Guess, vec![TextEdit { span, text: poisoned.text }]))
    }

    /// The edit of a `wait` for an unknown name: that of a communication that nothing waits for, or no statement.
    fn other_wait(&self, name: Span) -> Option<TextEdit> {
        let (before, after) = (self.text.get(..name.start as usize)?, self.text.get(name.start as usize..)?);
        let own = self.text.get(name.as_usize_range())?;
        if !self.poisoned.contains(own)
            && let Some(text) = self.handle_without_wait(before)
        {
            return Some(TextEdit { span: name, text });
        }
        let start = before.strip_suffix("wait ")?.len();
        let code = after.lines().next()?.split("//").next()?.trim_end();
        Some(TextEdit { span: Span::new(start, before.len() + code.len()), text: NO_EFFECT.to_owned() })
    }

    /// The last communication of the program at the end of a text that nothing waits for.
    fn handle_without_wait(&self, before: &str) -> Option<String> {
        let program = before.rfind("\n\n").map_or(before, |at| &before[at..]);
        let waits = self.text.match_indices("wait ").map(|(at, word)| &self.text[at + word.len()..]);
        let waits = waits.filter_map(|rest| rest.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').next());
        let waits: FxHashSet<&str> = waits.collect();
        let mut started = program.lines().rev().filter_map(|line| PoisonedLine::of_collective(line)?.handle);
        started.find(|handle| !waits.contains(handle.as_str()))
    }

    /// Returns true if an edit neither adds nor removes a line.
    fn keeps_lines(&self, edit: &TextEdit) -> bool {
        let old = self.text.get(edit.span.as_usize_range());
        old.is_some_and(|old| old.matches('\n').count() == edit.text.matches('\n').count())
    }

    /// The diagnostic for the text as it is; `None` if it may follow from a change.
    fn own_diag(&self, diag: &Diag) -> Option<Diag> {
        let primary = diag.primary.as_ref()?;
        let starts = line_starts(&self.text);
        // Sizes that only the command line gives are for a text that can be read.
        let follows = diag.code == codes::SIZE_UNKNOWN
            || is_of_version(diag)
            || (self.is_read_through && is_of_reader(diag))
            || (self.has_conflict && is_conflict(diag))
            || (self.has_lost_handle && OF_HANDLES.contains(&diag.code))
            || self.names_poisoned(diag);
        let is_own = !follows
            && self.change_at(primary, &starts).is_none()
            && diag.labels.iter().all(|label| self.change_at(label, &starts) != Some(LineChange::Guess));
        if !is_own {
            return None;
        }
        let mut own = diag.clone();
        own.fixes.retain(|fix| fix.edits.is_empty());
        let places = self.line_moves(&starts);
        own.spans_mut().for_each(|span| *span = places.moved_span(*span));
        own.cause = None;
        Some(own)
    }

    /// The first change of the lines that a label shows.
    fn change_at(&self, label: &DiagLabel, starts: &[usize]) -> Option<LineChange> {
        let first = line_at(starts, label.span.start);
        let last = line_at(starts, label.span.end.max(label.span.start + 1) - 1);
        self.changes[first..=last].iter().copied().find(|change| *change != LineChange::None)
    }

    /// These names, and those of what statements compute of them or that shares their memory.
    fn derived_names(&self, names: &FxHashSet<String>) -> FxHashSet<String> {
        let mut found = names.clone();
        for _ in 0..MOST_ROUNDS {
            let before = found.len();
            for statement in self.text.lines().filter_map(DerivedNames::of_line) {
                let is_derived = statement.sources.iter().any(|name| found.contains(*name));
                let shares = statement.is_shared && found.contains(statement.target);
                if is_derived {
                    found.insert(statement.target.to_owned());
                }
                if shares {
                    found.extend(statement.sources.iter().map(|name| (*name).to_owned()));
                }
            }
            if found.len() == before {
                break;
            }
        }
        found
    }

    /// Returns true if a diagnostic is about a name that a statement without a repair defines, or misses what it writes.
    fn names_poisoned(&self, diag: &Diag) -> bool {
        let misses_writes = [codes::UNINITIALISED, codes::UNWRITTEN_OUTPUT, codes::UNDEFINED, codes::UNDEFINED_OUTPUT]
            .contains(&diag.code);
        let texts = std::iter::once(&diag.message).chain(&diag.notes);
        let mut words = texts.flat_map(|text| text.as_str().split(|c: char| !c.is_ascii_alphanumeric() && c != '_'));
        let is_of_types =
            ["H02", "H04"].iter().any(|stage| diag.code.starts_with(stage)) || diag.code == codes::OWN_INDEX;
        let [poisoned, retyped, unwritten] =
            [&self.poisoned, &self.retyped, &self.unwritten].map(|names| self.derived_names(names));
        words.any(|word| {
            poisoned.contains(word)
                || (misses_writes && unwritten.contains(word))
                || (is_of_types && retyped.contains(word))
        })
    }

    fn line_moves<'s>(&self, starts: &'s [usize]) -> LineMoves<'s> {
        LineMoves { from: starts, to: line_starts(self.original), end: self.original.len() }
    }
}

/// The names of a statement: what it computes, and of what.
struct DerivedNames<'s> {
    target: &'s str,
    sources: Vec<&'s str>,
    /// True if the target is other axes of the memory of its source.
    is_shared: bool,
}

impl<'s> DerivedNames<'s> {
    /// The statement of a line; `None` if it writes no tensor.
    fn of_line(line: &'s str) -> Option<Self> {
        let code = line.split("//").next().unwrap_or_default();
        let names = |text: &'s str| {
            let words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
            words.filter(|word| word.starts_with(|c: char| c.is_ascii_alphabetic()))
        };
        if let Some((before, after)) = code.split_once(" -> ").filter(|_| code.starts_with(' ')) {
            let sources = names(before.rsplit('(').next().unwrap_or_default()).collect();
            return Some(Self { target: names(after).next()?, sources, is_shared: false });
        }
        let (head, value) = code.split_once(" = ")?;
        let head = head.rsplit(": ").find(|part| names(part).next().is_some()).unwrap_or(head);
        let target = names(code.trim_start().split([':', '[', ' ']).next().unwrap_or_default()).next();
        let target = target.filter(|word| !["if", "for", "else"].contains(word)).or_else(|| names(head).next())?;
        Some(Self { target, sources: names(value).collect(), is_shared: value.contains("share=") })
    }
}

/// The places of the lines of two texts with equally many.
struct LineMoves<'s> {
    from: &'s [usize],
    to: Vec<usize>,
    /// The end of the second text.
    end: usize,
}

impl LineMoves<'_> {
    /// The place in the second text of one in the first; a place in a changed line may be another word of it.
    fn moved_span(&self, span: Span) -> Span {
        let [start, end] = [span.start, span.end].map(|at| {
            let line = line_at(self.from, at);
            let next = self.to.get(line + 1).map_or(self.end, |next| next - 1);
            (self.to[line] + (at as usize - self.from[line])).min(next)
        });
        Span::new(start, end)
    }
}

/// Returns true if the program at the end of a text has an output of this name.
fn is_output(before: &str, name: &str) -> bool {
    let head = before.lines().rev().find(|line| line.starts_with(|c: char| c.is_ascii_alphabetic()));
    let outputs = head.and_then(|head| head.split_once("-> ("));
    outputs.is_some_and(|(_, outputs)| outputs.split([',', '(', ' ']).any(|word| word.strip_suffix(':') == Some(name)))
}

/// The name of the tensor whose type an edit changes: `G` for one of the axes of `G: f32[m, k]`.
fn declared_name(text: &str, edit: &TextEdit) -> Option<String> {
    let (head, ty) = text.get(..edit.span.start as usize)?.rsplit_once(':')?;
    let word = ty.trim_start().strip_suffix('[')?;
    let is_type = word.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'.');
    let name = head.rsplit(|c: char| !c.is_ascii_alphanumeric() && c != '_').next()?;
    (is_type && !name.is_empty()).then(|| name.to_owned())
}

/// Returns true for an error of the reader.
fn is_of_reader(diag: &Diag) -> bool {
    diag.code.starts_with("H00")
}

/// Returns true for an error about the version in the first line: of a changed line it would contradict the fix.
fn is_of_version(diag: &Diag) -> bool {
    diag.code == "H0017"
}

/// Returns true for an error in the first line, which may end the reading.
fn is_at_head(diag: &Diag, text: &str) -> bool {
    let line_end = text.find('\n').unwrap_or(text.len());
    diag.primary.as_ref().is_none_or(|label| label.span.start as usize <= line_end)
}

/// Returns true for sizes that do not fit: of several with one cause, only the first is reported.
fn is_conflict(diag: &Diag) -> bool {
    [codes::SIZE_CONFLICT, codes::EXTENT].contains(&diag.code)
}

/// Returns true if two edits neither overlap nor touch.
fn are_disjoint(one: &TextEdit, other: &TextEdit) -> bool {
    one.span.end < other.span.start || other.span.end < one.span.start
}

/// The offsets at which the lines of a text begin.
fn line_starts(text: &str) -> Vec<usize> {
    std::iter::once(0).chain(text.match_indices('\n').map(|(at, _)| at + 1)).collect()
}

fn line_at(starts: &[usize], at: u32) -> usize {
    starts.partition_point(|&start| start <= at as usize).saturating_sub(1)
}

/// The bytes of a line without its end.
fn line_range(text: &str, starts: &[usize], line: usize) -> Range<usize> {
    starts[line]..starts.get(line + 1).map_or(text.len(), |next| next - 1)
}
