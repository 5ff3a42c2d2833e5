//! Runs that record what every rank does when.

use super::exchange::Exchange;
use super::model::Rates;
use super::rank::Rank;
use super::record::{Recorder, Time};
use super::{RunResult, Stats, deadlock, finish, follow, start};
use crate::backend::trace::{Clock, Part, Trace};
use crate::data::HostTensor;
use crate::diag::{Diag, codes};
use crate::plan::Prepared;
use std::time::Instant;

/// [`super::run`] with its timeline. Streams of one rank take turns in one thread, and communications of all
/// ranks are carried out by one, so nothing of a rank overlaps: it shows where the time of the CPU went.
pub fn run_traced(
    prepared: &Prepared,
    inputs: Vec<Vec<HostTensor>>,
) -> Result<(RunResult, Trace), Vec<Diag>> {
    let mut ranks = start(prepared, inputs)?;
    record(&mut ranks, Time::Host(Instant::now()));
    let stats = follow(prepared, &mut ranks)?;
    let trace = Trace::join(Clock::Host, parts(&mut ranks));
    Ok((finish(prepared, ranks, stats)?, trace))
}

/// The timeline of a run on a machine that is only thought of ([`Rates`]), without data, memory and
/// arithmetic. Finds deadlocks as [`super::follow_order`] does. Equal programs give equal timelines.
pub fn model(prepared: &Prepared, rates: &Rates) -> Result<Trace, Vec<Diag>> {
    let ranks: Result<Vec<Rank<'_>>, _> = prepared.plans.iter().map(Rank::dry).collect();
    let mut ranks = ranks.map_err(|_| vec![Diag::global(codes::NO_MEMORY, "no memory left")])?;
    record(&mut ranks, Time::Model(*rates));
    follow_time(prepared, &mut ranks)?;
    Ok(Trace::join(Clock::Model, parts(&mut ranks)))
}

fn record(ranks: &mut [Rank<'_>], time: Time) {
    for rank in ranks {
        rank.recorder = Some(Box::new(Recorder::new(rank.plan, time)));
    }
}

fn parts(ranks: &mut [Rank<'_>]) -> Vec<Part> {
    let parts = ranks.iter_mut().map(|rank| rank.recorder.take());
    parts.map(|recorder| recorder.map_or_else(Part::default, |it| it.into_part())).collect()
}

/// Follows the queues in order of time, so that a device does first what comes first. Communications
/// are carried out as soon as all sides are there: what has not been reached yet is later than every
/// stream that can go on, so it cannot come before them.
fn follow_time(prepared: &Prepared, ranks: &mut [Rank<'_>]) -> Result<(), Vec<Diag>> {
    let mut exchange = Exchange::new(prepared);
    let mut stats = Stats::default();
    loop {
        let mut moved = false;
        for rank in ranks.iter_mut() {
            moved |= rank.end_units();
        }
        moved |= exchange.step(prepared, ranks, &mut stats).map_err(|diag| vec![diag])?;
        if moved {
            continue;
        }
        let ready = ranks.iter().enumerate();
        let ready = ready.filter_map(|(rank, state)| Some((state.first_ready()?, rank)));
        match ready.min() {
            Some(((_, stream), rank)) => {
                ranks[rank].step(stream, prepared).map_err(|diag| vec![diag])?;
            }
            None if ranks.iter().all(Rank::is_done) => return Ok(()),
            None => return Err(vec![deadlock::report(prepared, &exchange, ranks)]),
        }
    }
}
