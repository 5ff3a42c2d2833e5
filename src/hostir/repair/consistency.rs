//! The cause of an error by consistency: a slip that makes the whole program right.
//!
//! Sizes, axes and names are reported where they meet, which may be far from the line that is wrong: any of the
//! declarations and statements between may be. So small changes of all of them are tried, the likeliest and nearest
//! first. If one makes the proof of the whole program pass, the cause is there, and what else was said follows from it.

use super::context::TextContext;
use super::judge::TextJudge;
use super::lines::line_number;
use super::refuted::{retract_fixes, retract_words};
use super::search::{count_errors, is_error};
use super::slips::{Slip, SlipContext};
use super::usage::count_unused;
use crate::diag::{Diag, Fix, Message, Notation, Severity, Span, codes};
use crate::symbols::{SymbolKind, SymbolTable};
use std::collections::VecDeque;

/// The longest text in which slips are tried.
const MOST_TEXT: usize = 1 << 13;

/// The maximum number of texts that are tried.
const MOST_TRIALS: usize = 220;

/// The texts that are tried after the first right one.
const MOST_COMPARED: usize = 60;

/// The most instructions of all tried plans together.
const MOST_INSTRUCTIONS: u64 = 60_000;

/// The errors of a text whose slips are tried.
const MOST_ERRORS: usize = 2;

/// The distance in lines beyond which all are equally far.
const FAR: u32 = 4;

/// The doubt by which another change may be meant rather than the first one found.
const CLOSE: u32 = 6;

/// The doubt by which another change is shown beside the first.
const SHOWN: u32 = 3;

/// The doubt beyond which a change is not shown.
const MOST_DOUBT: u32 = 13;

/// The doubt beyond which a change is not tried for replicas that differ, which is no error.
const MOST_OF_REPLICAS: u32 = 4;

/// The maximum number of changes that are shown.
const MOST_SHOWN: usize = 2;

/// The weight of the doubt about a slip beside its distance.
const DOUBT: u32 = 2;

/// The doubt about another type of an input or output: it is the contract with the caller.
const OF_CONTRACT: u32 = 4;

/// Errors of reading and planning that a slip of a name, an index or a type may cause.
const OF_TEXT: &[&str] = &[
    codes::MISSING_ARGUMENT,
    codes::NO_TYPE,
    codes::UNDEFINED_TENSOR,
    codes::OWN_INDEX,
    codes::NO_MESH,
    codes::DEVICE_EXTENT,
    codes::MESH_RANK,
    codes::UNDEFINED,
    codes::UNDEFINED_OUTPUT,
    codes::UNKNOWN_SCALAR,
    codes::RANK,
    codes::EXTENT,
    codes::DTYPE,
    codes::FLAGS,
    codes::PERMUTATION,
    codes::BROADCAST_EXTENT,
    codes::BAD_TEAM,
    codes::TEAM_MESH,
    codes::ROOT,
    codes::SIZE_CONFLICT,
    codes::OUT_OF_RANGE,
    codes::NO_MEMORY_HERE,
    codes::SHAPES,
    codes::LAYOUT,
    codes::TEAM,
    codes::HALF_LOWERED,
    codes::WRONG_RESULTS,
    codes::DECLARED_TWICE,
    codes::UNIT_PORT,
    codes::UNIT_TENSOR,
    codes::LAUNCH_REFERENCE,
    codes::LOCAL_PART,
];

/// Errors of the proof that a slip of a name, an index or an axis may cause.
const OF_PROOF: &[&str] = &[codes::UNWRITTEN_OUTPUT, codes::UNINITIALISED];

/// Errors that another operand, made on a line before, may repair.
const OF_OPERANDS: &[&str] = &[codes::DTYPE, codes::SIZE_CONFLICT];

/// Errors of the reader, which stop at a word.
const OF_READER: &str = "H00";

/// Returns true for errors about names, axes, sizes, elements, meshes and memory.
pub(super) fn may_be_slip(diag: &Diag) -> bool {
    is_error(diag) && diag.primary.is_some() && [OF_TEXT, OF_PROOF].concat().contains(&diag.code)
}

/// A slip whose text is right.
struct RightSlip {
    slip: Slip,
    /// The doubt with the distance.
    doubt: u32,
    warnings: usize,
    /// A digest of what the program computes; `None` if it is unknown.
    outputs: Option<u64>,
}

/// Proposes the slip that makes the whole text right for the first errors that have no sure fix, and drops what follows
/// from it.
pub(super) fn explain_by_slip(text: &str, diags: &mut Vec<Diag>, context: &TextContext<'_>, judge: &mut dyn TextJudge) {
    let errors = diags.iter().filter(|diag| is_error(diag));
    let is_read = !errors.clone().any(|diag| diag.code.starts_with(OF_READER));
    let is_sure = errors.clone().any(|diag| diag.fixes.iter().any(Fix::is_machine_applicable));
    if text.len() > MOST_TEXT || !is_read || !judge.is_proving() {
        return;
    }
    if is_sure {
        return drop_consequences(text, diags, judge);
    }
    let is_right = errors.clone().next().is_none();
    let of_replicas = diags.iter().filter(|diag| is_right && diag.code == codes::REPLICAS);
    let open: Vec<Diag> =
        errors.filter(|diag| may_be_slip(diag)).chain(of_replicas).take(MOST_ERRORS).cloned().collect();
    for diag in open {
        let found = right_slips(text, &diag, context.table(), judge);
        let chosen = choose_slips(found);
        if chosen.is_empty() {
            continue;
        }
        diags.retain(|other| !is_error(other) || *other == diag);
        if let Some(own) = diags.iter_mut().find(|other| **other == diag) {
            show_slips(text, own, chosen);
        }
        return;
    }
}

/// Drops the errors that follow from one with a sure fix: the whole text is right with it.
fn drop_consequences(text: &str, diags: &mut Vec<Diag>, judge: &mut dyn TextJudge) {
    let is_sure = |diag: &Diag| is_error(diag) && diag.fixes.iter().any(Fix::is_machine_applicable);
    let Some(at) = diags.iter().position(is_sure) else { return };
    let others = diags.iter().filter(|diag| is_error(diag)).count() - 1;
    let changed = diags[at].fixes.iter().find(|fix| fix.is_machine_applicable()).and_then(|fix| fix.apply_to(text));
    let Some(changed) = changed.filter(|_| others > 0 || may_be_slip(&diags[at])) else { return };
    let verdict = judge.judge_text(&changed);
    if count_errors(&verdict.diags) > 0 || verdict.instructions == 0 {
        return;
    }
    retract_words(&mut diags[at], &[text.to_owned(), changed]);
    let mut number = 0;
    diags.retain(|diag| {
        number += 1;
        number == at + 1 || !is_error(diag)
    });
}

/// Puts the changes in the place of what an error proposes.
fn show_slips(text: &str, diag: &mut Diag, chosen: Vec<Slip>) {
    let is_chosen = |fix: &Fix| chosen.iter().any(|slip| slip.fix.apply_to(text) == fix.apply_to(text));
    let others = (0..diag.fixes.len()).filter(|&at| !diag.fixes[at].edits.is_empty() && !is_chosen(&diag.fixes[at]));
    let others: Vec<usize> = others.collect();
    retract_fixes(diag, &others);
    diag.fixes.clear();
    let changed = chosen.iter().filter_map(|slip| slip.fix.apply_to(text));
    let texts: Vec<String> = std::iter::once(text.to_owned()).chain(changed).collect();
    retract_words(diag, &texts);
    // Another type is not what is wrong if none is proposed.
    if !chosen.iter().any(|slip| declares_type(&slip.fix.message)) {
        diag.notes.retain(|note| !declares_type(&note.in_notation(Notation::Hir2)));
    }
    diag.fixes.extend(chosen.into_iter().map(|slip| slip.fix));
}

/// Returns true for the proposal of another type.
fn declares_type(message: &Message) -> bool {
    message.as_str().starts_with("declare `")
}

/// The slips that make a text right, in the order of trial.
fn right_slips(text: &str, diag: &Diag, table: &SymbolTable, judge: &mut dyn TextJudge) -> Vec<RightSlip> {
    let mut found: Vec<RightSlip> = Vec::new();
    let (mut instructions, mut compared, mut tried) = (0, 0, 0);
    let of_replicas = diag.code == codes::REPLICAS;
    let mut ranked = ranked_slips(text, diag, table);
    if of_replicas {
        ranked.retain(|(doubt, _)| *doubt <= MOST_OF_REPLICAS);
    }
    for (doubt, slip) in ranked {
        compared += usize::from(!found.is_empty());
        let is_far = found.first().is_some_and(|first| doubt > first.doubt + CLOSE);
        if compared > MOST_COMPARED || is_far || instructions > MOST_INSTRUCTIONS {
            break;
        }
        // A tensor that nothing uses belongs somewhere.
        let Some(changed) = slip.fix.apply_to(text).filter(|text| count_unused(text, slip.line) == 0) else { continue };
        tried += 1;
        if tried > MOST_TRIALS {
            break;
        }
        let verdict = judge.judge_text(&changed);
        instructions = instructions.saturating_add(verdict.instructions);
        // Without instructions nothing has been proved.
        if count_errors(&verdict.diags) > 0 || verdict.instructions == 0 || instructions > MOST_INSTRUCTIONS {
            continue;
        }
        if of_replicas && verdict.diags.iter().any(|other| other.code == codes::REPLICAS) {
            continue;
        }
        let warnings = verdict.diags.iter().filter(|diag| diag.severity == Severity::Warning).count();
        let doubt = if divides_by_another(&changed) { doubt + CLOSE } else { doubt };
        let doubt = if has_odd_flags(text, &changed) { doubt + CLOSE } else { doubt };
        let outputs = judge.weigh_text(&changed).and_then(|weight| weight.outputs);
        found.push(RightSlip { slip, doubt, warnings, outputs });
    }
    found
}

/// The slips of the lines of a text, the likeliest first, each with its doubt.
fn ranked_slips(text: &str, diag: &Diag, table: &SymbolTable) -> Vec<(u32, Slip)> {
    let primary = diag.primary.iter().map(|label| (label.span, 0));
    let places: Vec<(Span, u32)> = primary.chain(diag.labels.iter().map(|label| (label.span, 1))).collect();
    let distances = line_distances(text, table, &places);
    let context = SlipContext::new(text, table, diag);
    let missing = missing_name(text, diag);
    let mut start = 0;
    let mut ranked: Vec<(u32, Slip)> = Vec::new();
    for (line, (content, distance)) in text.split_inclusive('\n').zip(distances).enumerate() {
        if let Some(distance) = distance {
            let mut slips = context.line_slips(line, start);
            slips.extend(context.added_parts(line, start));
            slips.extend(missing.and_then(|name| context.named_result(line, start, name)));
            if distance == 0 {
                slips.extend(context.missing_memory(start, named_text(text, diag)));
            }
            if distance == 0 && OF_OPERANDS.contains(&diag.code) {
                slips.extend(context.prepared_operands(line, start));
            }
            if distance <= 1 {
                slips.extend(context.added_names(line, start, distance == 0));
            }
            ranked.extend(slips.into_iter().map(|slip| (slip.doubt * DOUBT + distance.min(FAR), slip)));
        }
        start += content.len();
    }
    ranked.extend(proposed_slips(text, diag));
    ranked.retain(|(doubt, _)| *doubt <= MOST_DOUBT);
    let lines: Vec<&str> = text.lines().collect();
    for (doubt, slip) in &mut ranked {
        *doubt += if lines.get(slip.line).is_some_and(|line| is_program_head(line)) { OF_CONTRACT } else { 0 };
    }
    ranked.sort_by_key(|(doubt, _)| *doubt);
    ranked
}

/// Returns true for the line with the inputs and outputs of a program.
fn is_program_head(line: &str) -> bool {
    let is_other = ["kernel ", "sizes ", "mesh ", "//"].iter().any(|word| line.starts_with(word));
    line.starts_with(|c: char| c.is_ascii_alphabetic()) && line.contains('(') && !is_other
}

/// The name that nothing declares.
fn missing_name<'t>(text: &'t str, diag: &Diag) -> Option<&'t str> {
    let is_missing = [codes::UNKNOWN_SCALAR, codes::UNDEFINED_TENSOR].contains(&diag.code);
    is_missing.then(|| named_text(text, diag)).filter(|name| !name.is_empty())
}

/// The text at the place of an error.
fn named_text<'t>(text: &'t str, diag: &Diag) -> &'t str {
    diag.primary.as_ref().and_then(|label| text.get(label.span.as_usize_range())).unwrap_or_default()
}

/// The proposals of an error itself; a loop that ends earlier only leaves work out.
fn proposed_slips(text: &str, diag: &Diag) -> Vec<(u32, Slip)> {
    let fixes = diag.fixes.iter().filter(|fix| !fix.edits.is_empty());
    let slips = fixes.map(|fix| {
        let line = fix.edits.first().map_or(0, |edit| line_number(text, edit.span.start));
        let head = text.lines().nth(line).unwrap_or_default();
        let is_head = head.trim_start().starts_with("for ") || !head.starts_with(' ');
        let doubt = if is_head { 4 } else { 1 };
        (doubt * DOUBT, Slip { fix: fix.clone(), line, doubt })
    });
    slips.collect()
}

/// The distances of the lines from places with distances of their own, in tensors that two lines share; `None` for lines that share none.
fn line_distances(text: &str, table: &SymbolTable, places: &[(Span, u32)]) -> Vec<Option<u32>> {
    let count = text.split_inclusive('\n').count();
    let lines_of: Vec<Vec<usize>> = table
        .symbols()
        .iter()
        .filter(|symbol| {
            [SymbolKind::Tensor, SymbolKind::Kernel, SymbolKind::Handle, SymbolKind::Scalar].contains(&symbol.kind)
        })
        .map(|symbol| symbol.places.iter().map(|place| line_number(text, place.start)).collect())
        .collect();
    let mut distances = vec![None; count];
    let mut queue = VecDeque::new();
    for (place, distance) in places {
        let line = line_number(text, place.start);
        if distances.get(line).is_some_and(Option::is_none) {
            distances[line] = Some(*distance);
            queue.push_back((line, *distance));
        }
    }
    while let Some((line, distance)) = queue.pop_front() {
        for lines in lines_of.iter().filter(|lines| lines.contains(&line)) {
            for &next in lines {
                if distances.get(next).is_some_and(Option::is_none) {
                    distances[next] = Some(distance + 1);
                    queue.push_back((next, distance + 1));
                }
            }
        }
    }
    distances
}

/// The changes to show: the likeliest, and one that computes something else if it is hardly less likely. Of more that are
/// as likely nobody knows which is meant.
fn choose_slips(mut found: Vec<RightSlip>) -> Vec<Slip> {
    found.sort_by_key(|right| (right.doubt + right.warnings as u32 * DOUBT, right.slip.line));
    let mut chosen: Vec<RightSlip> = Vec::new();
    for right in found {
        let is_new = chosen.iter().all(|other| other.outputs != right.outputs || right.outputs.is_none());
        let is_close = chosen.first().is_none_or(|first| right.doubt <= first.doubt + SHOWN);
        if is_new && is_close {
            chosen.push(right);
        }
    }
    if let [first, .., last] = chosen.as_slice()
        && chosen.len() > MOST_SHOWN
        && first.doubt == last.doubt
    {
        return Vec::new();
    }
    chosen.truncate(MOST_SHOWN);
    chosen.into_iter().map(|right| right.slip).collect()
}

/// Returns true if a change makes the flags of one broadcast of several others than all have in the text.
fn has_odd_flags(text: &str, changed: &str) -> bool {
    let [old, new] = [text, changed].map(flag_lists);
    let is_less = old.iter().any(|list| {
        let [before, after] = [&old, &new].map(|lists| lists.iter().filter(|other| *other == list).count());
        before > 1 && after < before
    });
    is_less && new.iter().any(|list| !old.contains(list))
}

/// The lists of flags in the statements of a text.
fn flag_lists(text: &str) -> Vec<&str> {
    let code = text.lines().filter_map(|line| line.split("//").next());
    code.filter_map(|line| line.split_once("flags=[")?.1.split(']').next()).collect()
}

/// Returns true if a sum is divided by the extent of an axis that it does not reduce: no mean.
fn divides_by_another(text: &str) -> bool {
    let reduced = text.lines().filter_map(|line| {
        let (name, ty) = line.split_once(" = reduction(")?.0.split_once(": ")?;
        let axes = ty.split_once('[')?.1.split([',', ']', ' ']).filter_map(|axis| axis.strip_prefix("r."));
        Some((name.trim(), axes.collect::<Vec<&str>>()))
    });
    let reduced: Vec<(&str, Vec<&str>)> = reduced.collect();
    text.lines().filter_map(|line| line.split_once(" = ")?.1.split_once(" / ")).any(|(sum, count)| {
        let words = || count.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
        reduced.iter().any(|(name, axes)| *name == sum && axes.iter().any(|axis| words().all(|word| word != *axis)))
    })
}
