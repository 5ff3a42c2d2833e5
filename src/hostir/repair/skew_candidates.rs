//! The candidate for communications of one queue: the loop, skewed.

use super::text_change::{Candidate, CandidateIdea};
use crate::ReadOptions;
use crate::diag::fix::line_edits;
use crate::diag::{SkewPlaces, Span};
use crate::ir::edit::Edit;
use crate::ir::{OpId, Program};
use crate::ops::OpRegistry;
use crate::print::{PrintOptions, VersionLine, print_into};
use crate::skew::{LoopSkew, skew_loop};

/// The effect of the change.
pub(super) const SKEWED: &str = "skew the loop: an iteration begins before the last stage of the one before";

/// Skews the loop at a place of a text in the printed form; `None` for a text in another layout than the printer's.
pub(super) fn skew_loop_at(text: &str, places: &SkewPlaces, ops: OpRegistry) -> Option<Candidate> {
    let (mut programs, diags) = crate::load_with_options(text, &ReadOptions::with_ops(ops));
    if diags.has_errors() || print_all(&programs) != text {
        return None;
    }
    let (at, skew) = programs.iter().enumerate().find_map(|(at, program)| Some((at, find_skew(program, places)?)))?;
    let mut edit = Edit::new(&mut programs[at]);
    if !skew_loop(&mut edit, &skew) {
        return None;
    }
    edit.commit();
    let skewed = print_all(&programs);
    let edits = line_edits(text, &skewed);
    Some(Candidate { edits, text: skewed, message: SKEWED.to_owned(), idea: CandidateIdea::Plain })
}

fn print_all(programs: &[Program]) -> String {
    let mut printed = String::new();
    for (number, program) in programs.iter().enumerate() {
        let version = if number == 0 { VersionLine::AsRead } else { VersionLine::Never };
        print_into(program, PrintOptions { version, ..PrintOptions::default() }, &mut printed);
    }
    printed
}

fn find_skew(program: &Program, places: &SkewPlaces) -> Option<LoopSkew> {
    let looped = op_at(program, places.looped)?;
    let stages = places.stages.iter().map(|&span| op_at(program, span)).collect::<Option<Vec<OpId>>>()?;
    Some(LoopSkew { looped, stages })
}

fn op_at(program: &Program, span: Span) -> Option<OpId> {
    let mut found = None;
    program.walk(program.body(), &mut |op| {
        if found.is_none() && program.op_span(op).start == span.start {
            found = Some(op);
        }
    });
    found
}
