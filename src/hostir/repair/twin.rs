//! Fixes of texts in `hir 2`: finds them in the printed form of the same programs, and converts them back.
//!
//! Candidates are changes of statements of the printed form. A text in `hir 2` has a twin in that form; the repaired
//! twin becomes `hir 2` again, and the lines that differ are the fix. Each fix is tested once more on the text itself.

use super::judge::{TextJudge, TextVerdict};
use super::layout::TextLayout;
use super::search::{RepairSearch, count_errors, is_error, is_repaired, is_wait_in_words};
use super::weighing::with_price;
use crate::ReadOptions;
use crate::diag::fix::{EditedLine, apply_edits, line_edits, list_edited};
use crate::diag::{Applicability, Diag, Fix, TextEdit};
use crate::hir2::defaults::is_host_select;
use crate::hir2::is_hir2;
use crate::hir2::write::write_file;
use crate::ir::edit::Edit;
use crate::ir::{BlockId, OpId, Program};
use crate::ops::OpRegistry;
use crate::print::{PrintOptions, VersionLine, print_into};
use std::borrow::Cow;

/// The printed form of a text in `hir 2`, and its canonical layout.
pub(super) struct PrintedTwin {
    pub(super) text: String,
    canonical: String,
    /// The ops that both may name.
    ops: OpRegistry,
}

impl PrintedTwin {
    /// The twin of a text that is read with these settings; `None` if the text or its twin cannot be read.
    pub(super) fn of_text(text: &str, options: &ReadOptions) -> Option<Self> {
        let (programs, diags) = crate::load_with_options(text, options);
        if diags.has_errors() || programs.is_empty() {
            return None;
        }
        let mut printed = String::new();
        for (number, program) in programs.iter().enumerate() {
            let version = if number == 0 { VersionLine::Always } else { VersionLine::Never };
            print_into(program, PrintOptions { version, ..PrintOptions::default() }, &mut printed);
        }
        // Reads the twin as a repaired one: comments before the programs may belong to another place than in the text.
        let (programs, diags) = crate::load_with_options(&printed, &ReadOptions::with_ops(options.ops));
        let canonical = canonical_text(programs);
        (!diags.has_errors()).then_some(Self { text: printed, canonical, ops: options.ops })
    }

    /// The edits of a text in `hir 2` that correspond to those of its twin.
    fn edits_for(&self, text: &str, repaired: &str) -> Option<Vec<TextEdit>> {
        let (mut programs, diags) = crate::load_with_options(repaired, &ReadOptions::with_ops(self.ops));
        if diags.has_errors() {
            return None;
        }
        programs.iter_mut().for_each(sink_slices);
        let (own, repaired) = (with_version_of(text, &self.canonical), canonical_text(programs));
        let canonical = with_line_ends_of(text, &own);
        let edits = line_edits(&canonical, &with_line_ends_of(text, &with_version_of(text, &repaired)));
        let moved = TextLayout::new(&canonical, text, self.ops).edits_of_author(&edits)?;
        Some(line_edits(text, &apply_edits(text, &moved)?))
    }
}

/// The first line of a text of the first version, and that of the later one.
const FIRST_VERSION: &str = "hir 2";
const LATER_VERSION: &str = "hir 2.1";

/// A canonical text in the version of the author's, which may be later than it needs.
fn with_version_of<'t>(text: &str, canonical: &'t str) -> Cow<'t, str> {
    let is_later = text.lines().any(|line| line.trim_end() == LATER_VERSION);
    let mut lines = canonical.lines().scan(0, |at, line| {
        let start = *at;
        *at += line.len() + 1;
        Some((start, line))
    });
    match lines.find(|(_, line)| *line == FIRST_VERSION).filter(|_| is_later) {
        Some((start, line)) => {
            Cow::Owned(format!("{}{LATER_VERSION}{}", &canonical[..start], &canonical[start + line.len()..]))
        }
        None => Cow::Borrowed(canonical),
    }
}

/// Converts a canonical text to the line ends of another one; otherwise all lines would differ.
fn with_line_ends_of<'t>(text: &str, canonical: &'t str) -> Cow<'t, str> {
    match text.contains("\r\n") {
        true => Cow::Owned(canonical.replace('\n', "\r\n")),
        false => Cow::Borrowed(canonical),
    }
}

/// Moves slices without names after the waits that were put between them and their use, so that they stay inside of the
/// statement that uses them. A slice only names memory: its order with a wait does not matter.
fn sink_slices(program: &mut Program) {
    let blocks: Vec<BlockId> = program.blocks.ids().collect();
    for block in blocks {
        let mut ops = program.block(block).ops.clone();
        for last in 1..ops.len() {
            let mut at = last;
            while at > 0 && is_wait(program, ops[at]) && is_hidden_slice(program, ops[at - 1]) {
                ops.swap(at - 1, at);
                at -= 1;
            }
        }
        if ops != program.block(block).ops {
            let mut edit = Edit::new(program);
            edit.set_block(block, ops);
            edit.commit();
        }
    }
}

/// Returns true if an op only waits: a Wait, a Synchronize, or a branch or loop with nothing else.
fn is_wait(program: &Program, id: OpId) -> bool {
    let op = program.op(id);
    if !op.kind.is_branch() && !op.kind.is_loop() {
        return op.kind.is_wait() || op.kind.is_synchronization();
    }
    op.blocks.iter().all(|block| program.block(*block).ops.iter().all(|inner| is_wait(program, *inner)))
}

fn is_hidden_slice(program: &Program, id: OpId) -> bool {
    let op = program.op(id);
    is_host_select(op.kind) && op.output_tensors().all(|tensor| program.tensor(tensor).name.is_none())
}

fn canonical_text(mut programs: Vec<Program>) -> String {
    for program in &mut programs {
        // The version determines the form of messages; the writer ignores it.
        program.frame.version = Some(2);
    }
    write_file(&mut programs)
}

/// Adds fixes to diagnostics about a text in `hir 2`.
pub(super) fn add_twin_fixes(text: &str, diags: &mut [Diag], judge: &mut dyn TextJudge) {
    let Some(twin) = PrintedTwin::of_text(text, &judge.read_options()) else { return };
    let verdict = judge.judge_text(text);
    let mut search = RepairSearch::new(&twin.text, judge);
    let (mut found, mut refuted): (Vec<(usize, Fix)>, Vec<usize>) = Default::default();
    for (position, diag) in diags.iter().enumerate() {
        let Some(mut same) = twin_diag(diag, &verdict, search.known_diags()) else { continue };
        let had_words = same.fixes.iter().any(|fix| is_wait_in_words(&same, fix));
        let price = search.add_fix(&mut same);
        if had_words && same.fixes.is_empty() {
            refuted.push(position);
        }
        let fix = same.fixes.into_iter().find(|fix| !fix.edits.is_empty());
        let moved = fix.and_then(|fix| {
            let repaired = fix.apply_to(&twin.text)?;
            let edits = twin.edits_for(text, &repaired)?;
            // The lines of a skewed loop are too many for a sentence.
            let message = match diag.skew() {
                Some(_) => fix.message,
                None => with_price(describe_edits(text, &edits), price.as_ref()).into(),
            };
            Some(Fix { message, edits, applicability: fix.applicability })
        });
        found.extend(moved.map(|fix| (position, fix)));
    }
    drop(search);
    for position in refuted {
        diags[position].fixes.retain(|fix| fix.applicability != Applicability::InWords);
    }
    for (position, fix) in found {
        if repairs(text, &fix, &diags[position], &verdict, judge) {
            let diag = &mut diags[position];
            diag.fixes.retain(|fix| !fix.edits.is_empty());
            diag.fixes.push(fix);
        }
    }
}

/// The twin's counterpart of a diagnostic: both texts are the same program, so the n-th with a code is the n-th.
fn twin_diag(diag: &Diag, verdict: &TextVerdict, twins: &[Diag]) -> Option<Diag> {
    let mut same_code = verdict.diags.iter().filter(|other| other.code == diag.code);
    let number =
        same_code.position(|other| other.primary == diag.primary && other.labels.len() == diag.labels.len())?;
    twins.iter().filter(|other| other.code == diag.code).nth(number).cloned()
}

/// Returns true if a fix removes a diagnostic, and causes no new error. The fix of a warning leaves fewer of them, too.
fn repairs(text: &str, fix: &Fix, diag: &Diag, before: &TextVerdict, judge: &mut dyn TextJudge) -> bool {
    let Some(repaired) = fix.apply_to(text) else { return false };
    let after = judge.judge_text(&repaired).diags;
    let (old, new) = (count_errors(&before.diags), count_errors(&after));
    let has_fewer_warnings = after.len() - new < before.diags.len() - old;
    is_repaired(diag, &before.diags, &after) && (is_error(diag) || has_fewer_warnings)
}

/// The edited lines with a sign that are neither empty nor comments.
fn code_lines(rows: &[EditedLine], sign: char) -> Vec<&str> {
    let lines = rows.iter().filter(|row| row.sign == sign).map(|row| row.line.trim());
    lines.filter(|line| !line.is_empty() && !line.starts_with("//")).collect()
}

fn quote_lines(lines: &[&str]) -> String {
    let quoted: Vec<String> = lines.iter().map(|line| format!("`{line}`")).collect();
    quoted.join(" and ")
}

/// Removes the two lines that stand on one now, `if c:` and its last statement; returns false if there are none.
fn takes_joined(gone: &mut Vec<&str>, line: &str) -> bool {
    let Some((head, statement)) = line.split_once(": ") else { return false };
    let place_of = |wanted: &str| gone.iter().position(|other| *other == wanted);
    let Some((first, second)) = place_of(&format!("{head}:")).zip(place_of(statement)) else { return false };
    let is_joined = gone.len() > 2 && first < second;
    if is_joined {
        gone.remove(second);
        gone.remove(first);
    }
    is_joined
}

/// ``insert `sync 0` ``, ``delete `wait h` ``, or both.
fn describe_edits(text: &str, edits: &[TextEdit]) -> String {
    let rows = list_edited(text, edits);
    let [mut gone, mut come] = ['-', '+'].map(|sign| {
        let lines = code_lines(&rows, sign);
        // The version that the change needs is a part of it, and says nothing about it.
        let without_version: Vec<&str> = lines.iter().copied().filter(|line| !is_hir2(line)).collect();
        if without_version.is_empty() { lines } else { without_version }
    });
    come.retain(|line| !takes_joined(&mut gone, line));
    let moved: Vec<&str> = come.iter().copied().filter(|line| gone.contains(line)).collect();
    match (gone.is_empty(), come.is_empty()) {
        (true, _) => format!("insert {}", quote_lines(&come)),
        (_, true) => format!("delete {}", quote_lines(&gone)),
        _ if moved.len() == come.len() && moved.len() == gone.len() => format!("move {}", quote_lines(&moved)),
        _ => format!("write {} in place of {}", quote_lines(&come), quote_lines(&gone)),
    }
}
