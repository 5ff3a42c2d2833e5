//! The largest number of streams for which a program is right.
//!
//! A program that takes its streams by `numberOfStreams` may be right only because iterations share a stream. With as
//! many streams as the iterations of its longest loop, none do.

use crate::diag::{Diag, codes};
use crate::ir::Program;
use crate::lower::{PreparedProgram, prepare_with_streams};

/// The most streams that are tried.
const MOST_STREAMS: u32 = 1024;

/// One more than the number of streams from which fewer ones are tried for a program with a race.
const MOST_FEWER: u32 = 9;

/// The most instructions of all ranks of such a program.
const MOST_INSTS: usize = 1 << 12;

/// The maximum product of instructions and queues of all ranks for which other numbers of streams are tried.
const MOST_POINTS: u64 = 1 << 33;

/// The result of a proof with more streams.
pub(crate) struct MoreStreams {
    /// The largest number of streams that was tried; `None` if the given one is enough.
    pub(crate) checked: Option<u32>,
    /// The error with more streams, as a warning.
    pub(crate) warning: Option<Diag>,
}

/// Proves a right program with as many streams as the iterations of the longest loop. An error there becomes a warning
/// that states for how many streams the program is right.
pub(crate) fn examine_more_streams(program: &Program, prepared: &PreparedProgram) -> MoreStreams {
    let given = prepared.env.streams;
    let most = longest_loop(prepared).min(MOST_STREAMS).min(affordable_streams(prepared));
    if most <= given || program.names().find_symbol("numberOfStreams").is_none() {
        return MoreStreams { checked: None, warning: None };
    }
    let wrong = first_error(program, prepared, most);
    let warning = wrong.map(|wrong| warn_of_streams(program, prepared, most, wrong));
    MoreStreams { checked: Some(most), warning }
}

/// The warning that a program is wrong with `most` streams: the error for the smallest wrong number.
fn warn_of_streams(program: &Program, prepared: &PreparedProgram, most: u32, wrong: Diag) -> Diag {
    let (given, mut wrong) = (prepared.env.streams, wrong);
    let (mut right_with, mut wrong_with) = (given, most);
    while wrong_with - right_with > 1 {
        let middle = right_with + (wrong_with - right_with) / 2;
        match first_error(program, prepared, middle) {
            Some(error) => (wrong_with, wrong) = (middle, error),
            None => right_with = middle,
        }
    }
    let note = match right_with {
        1 => "right with 1 stream only".to_owned(),
        _ => format!("right with at most {right_with} streams; this is with {wrong_with}"),
    };
    wrong.into_warning().with_note(note)
}

/// The largest number of streams, from 2 to less than the given one, with which a program with a race is right.
pub(crate) fn find_fewer_streams(program: &Program, prepared: &PreparedProgram) -> Option<u32> {
    let given = prepared.env.streams.min(affordable_streams(prepared));
    if super::total_insts(&prepared.plans) > MOST_INSTS {
        return None;
    }
    program.names().find_symbol("numberOfStreams")?;
    (2..given.min(MOST_FEWER)).rev().find(|&streams| is_right_with(program, prepared, streams))
}

fn is_right_with(program: &Program, prepared: &PreparedProgram, streams: u32) -> bool {
    let again = prepare_with_streams(program, prepared, streams);
    again.is_ok_and(|again| super::prove_program(&again).errors.is_empty())
}

/// The largest number of streams whose proof takes a few seconds.
fn affordable_streams(prepared: &PreparedProgram) -> u32 {
    let insts = super::total_insts(&prepared.plans) as u64;
    let most = MOST_POINTS / (insts.max(1) * prepared.plans.len().max(1) as u64);
    u32::try_from(most).unwrap_or(u32::MAX)
}

/// The number of streams with which no two iterations of a loop share one.
fn longest_loop(prepared: &PreparedProgram) -> u32 {
    let indices = prepared.plans.iter().flat_map(|plan| plan.iterations.iter().flatten());
    let most = indices.map(|(_, value)| value.saturating_add(1)).max().unwrap_or(0);
    u32::try_from(most.max(0)).unwrap_or(u32::MAX)
}

/// The first error that a program has with this number of streams.
fn first_error(program: &Program, prepared: &PreparedProgram, streams: u32) -> Option<Diag> {
    let again = prepare_with_streams(program, prepared, streams).ok()?;
    super::prove_program(&again).errors.into_iter().next().filter(|error| error.code != codes::TIMEOUT)
}
