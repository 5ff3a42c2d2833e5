//! Verdicts as diagnostics.

use super::verdict::{AccessPlace, AccessRace, DeadlockedStep, MemoryMisuse, ScheduleName, ScheduleVerdict};
use crate::diag::message;
use crate::diag::{Diag, Span, codes};
use crate::lower::PreparedProgram;
use crate::plan::{BufferId, Plan};

impl ScheduleVerdict {
    /// The errors of a verdict; none if all orders leave the same records.
    pub fn to_diags(&self, prepared: &PreparedProgram) -> Vec<Diag> {
        match self {
            ScheduleVerdict::Equal => Vec::new(),
            ScheduleVerdict::Race(races) => races.iter().map(|race| race_error(prepared, race)).collect(),
            ScheduleVerdict::Deadlock(steps) => vec![deadlock_error(prepared, steps)],
            ScheduleVerdict::Misuse(misuses) => {
                let mut diags: Vec<Diag> = Vec::new();
                for diag in misuses.iter().map(|misuse| misuse_error(prepared, misuse)) {
                    if !diags.iter().any(|known| (known.code, &known.primary) == (diag.code, &diag.primary)) {
                        diags.push(diag);
                    }
                }
                diags
            }
            ScheduleVerdict::TooLarge => {
                let message = "the program is too large to be run under many orders";
                vec![Diag::global_error(codes::TOO_LARGE, message).with_note("set smaller sizes")]
            }
        }
    }
}

fn plan_of(prepared: &PreparedProgram, rank: u32) -> Option<&Plan> {
    prepared.plans.get(rank as usize)
}

/// The statement of an access; `None` for the caller's.
fn place_span(prepared: &PreparedProgram, place: &AccessPlace) -> Option<Span> {
    let inst = plan_of(prepared, place.rank)?.find_inst(place.inst?)?;
    Some(prepared.labels.op_span(inst.origin.op))
}

/// ``rank 1: `T3 = matmul` at i=2 on stream 1 writes``.
fn place_text(prepared: &PreparedProgram, place: &AccessPlace) -> String {
    let verb = if place.writes { "writes" } else { "reads" };
    let inst = plan_of(prepared, place.rank).zip(place.inst).and_then(|(plan, id)| Some((plan, plan.find_inst(id)?)));
    let run = if place.run == 0 { "" } else { ", in the next run" };
    let rank = place.rank;
    match inst {
        Some((plan, inst)) => {
            let origin = prepared.labels.origin_text(plan, inst.origin);
            let stream = prepared.labels.stream_text(plan, inst.stream);
            format!("rank {rank}: {origin} on {stream}{run}, {verb}")
        }
        None => format!("rank {rank}: the caller {verb} after the end of its stream{run}"),
    }
}

/// `T3[2, 0] on rank 1`.
fn memory_text(prepared: &PreparedProgram, rank: u32, buffer: BufferId, element: usize) -> String {
    let text = plan_of(prepared, rank).map(|plan| prepared.element_text(plan, buffer, element));
    format!("{} on rank {rank}", text.as_deref().unwrap_or("?"))
}

fn race_error(prepared: &PreparedProgram, race: &AccessRace) -> Diag {
    let memory = memory_text(prepared, race.rank, race.buffer, race.element);
    let message = message!("nothing orders two accesses to {}", memory);
    let places = [&race.first, &race.second];
    let mut spans = places.iter().filter_map(|place| Some((place_span(prepared, place)?, place)));
    let mut diag = match spans.next() {
        Some((span, place)) => {
            Diag::error(codes::PERMUTED_ORDER, span, message).with_primary_text(place_text(prepared, place))
        }
        None => Diag::global_error(codes::PERMUTED_ORDER, message),
    };
    for (span, place) in spans {
        diag = diag.with_label(span, place_text(prepared, place));
    }
    for place in places.into_iter().filter(|place| place.inst.is_none()) {
        diag = diag.with_note(place_text(prepared, place));
    }
    let order = match race.schedule {
        ScheduleName::Delayed(place) => format!("in an order that delays this: {}", place_text(prepared, &place)),
        ScheduleName::Seeded(seed) => format!("in the order of seed {seed}"),
    };
    diag.with_note(message!("they come the other way round {}", order))
}

fn misuse_error(prepared: &PreparedProgram, misuse: &MemoryMisuse) -> Diag {
    let error = |code, place: &AccessPlace, message: String| match place_span(prepared, place) {
        Some(span) => Diag::error(code, span, message).with_primary_text(place_text(prepared, place)),
        None => Diag::global_error(code, message).with_note(place_text(prepared, place)),
    };
    match misuse {
        MemoryMisuse::Unwritten { place, rank, buffer, element } => {
            let code = if place.inst.is_some() { codes::UNINITIALISED } else { codes::UNWRITTEN_OUTPUT };
            let memory = memory_text(prepared, *rank, *buffer, *element);
            error(code, place, format!("{memory} is read, but nothing wrote it"))
        }
        MemoryMisuse::AfterFree { place, buffer } => {
            let plan = plan_of(prepared, place.rank);
            let tensor = plan.and_then(|plan| plan.buffers.get(*buffer)).map(|buffer| buffer.tensor);
            let name = tensor.map_or("?", |tensor| prepared.labels.tensor_name(tensor));
            error(
                codes::NO_MEMORY_HERE,
                place,
                format!("{name} is used on rank {}, but has no memory here", place.rank),
            )
        }
        MemoryMisuse::Disagreement { first, second } => {
            let diag = error(codes::DISAGREEMENT, first, "two sides of a communication do not agree".to_owned());
            match place_span(prepared, second) {
                Some(span) => diag.with_label(span, place_text(prepared, second)),
                None => diag,
            }
        }
    }
}

fn deadlock_error(prepared: &PreparedProgram, steps: &[DeadlockedStep]) -> Diag {
    let message = message!("deadlock: {} of {} ranks wait and nothing can run", steps.len(), prepared.plans.len());
    let mut diag = Diag::global_error(codes::DEADLOCK, message);
    for step in steps.iter().take(MOST_NOTES) {
        let inst = plan_of(prepared, step.rank).and_then(|plan| Some((plan, plan.find_inst(step.inst)?)));
        let Some((plan, inst)) = inst else { continue };
        let place = prepared.labels.origin_text(plan, inst.origin);
        diag = diag.with_note(message!("rank {} waits in {}", step.rank, place));
    }
    diag
}

/// The most ranks that are named.
const MOST_NOTES: usize = 16;
