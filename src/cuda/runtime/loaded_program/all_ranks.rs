//! Work on all ranks of a process, and the handling of a failure of one of them.
//!
//! A failure is reported before any resource is released: first to the threads of the other ranks ([`FailureFlag`]),
//! then to the other processes ([`ProcessGroup::report_failure`]). Only then does the rank release what its device
//! waits for; from then on no other rank can mistake the effects for a result.
//!
//! [`FailureFlag`]: crate::runtime::failure_latch::FailureFlag

use crate::runtime::failure::{FailureCause, RankFailure, RankStanding, global_diag};
use crate::runtime::library_access::LibraryAccess;
use crate::runtime::loaded_program::LoadedProgram;
use crate::runtime::process_group::ProcessGroup;
use crate::runtime::rank::RankRuntime;
use crate::runtime::rank_threads::{collect_results, join_rank_thread};
use crate::runtime::sequencer::RankBarrier;
use crate::sys::context::relax_capture_mode;
use hostir::diag::message;
use hostir::diag::{Diag, Message, codes};
use hostir::lower::PreparedProgram;
use hostir::plan_checks::{RankPosition, RankProgress, report_hang};
use std::time::Duration;

/// The reason that a rank did not do its part.
#[derive(Debug)]
pub(crate) struct RankError {
    pub(crate) diag: Box<Diag>,
    /// True if the rank stopped only because another rank of the process failed.
    pub(crate) follows: bool,
    /// The rank's line in a report of a run that did not end.
    pub(crate) standing: Option<RankStanding>,
}

impl From<Diag> for RankError {
    fn from(diag: Diag) -> Self {
        Self { diag: Box::new(diag), follows: false, standing: None }
    }
}

/// The program, processes and time limit for the report of a failure.
#[derive(Clone, Copy)]
pub(crate) struct FailureContext<'a> {
    pub(crate) prepared: &'a PreparedProgram,
    pub(crate) process_group: &'a ProcessGroup,
    /// [`LoadedProgram::queue_note`].
    pub(crate) queue_note: Option<&'a str>,
    pub(crate) timeout: Duration,
}

impl FailureContext<'_> {
    /// Reports a rank's failure to all others, and begins to abort the rank's work in flight.
    pub(crate) fn report_failure(self, rank: &mut RankRuntime<'_>, failure: RankFailure) -> RankError {
        rank.failures.alarm.set_failed(rank.plan.rank);
        let failure = rank.failures.find_root_cause(failure);
        let follows = matches!(failure.cause, FailureCause::Sibling(_));
        let mut diag = failure.to_diag(self.prepared, rank.plan, self.timeout);
        if failure.cause == FailureCause::Timeout {
            diag.notes.extend(self.queue_note.map(Message::from));
        }
        if !follows {
            self.process_group.report_failure(std::slice::from_ref(&diag));
        }
        rank.begin_abort();
        RankError { diag: Box::new(diag), follows, standing: Some(failure.standing(rank.plan.rank)) }
    }
}

impl FailureContext<'_> {
    /// Merges results as [`merge_results`] does; if all ranks of the program are here and one exceeded its deadline,
    /// makes one report with the position of each rank.
    pub(crate) fn merge_ranks(self, results: Vec<Result<(), RankError>>) -> Result<(), Vec<Diag>> {
        let standings: Vec<RankStanding> =
            results.iter().filter_map(|result| result.as_ref().err().and_then(|error| error.standing)).collect();
        let has_all = results.len() == self.prepared.plans.len();
        if !has_all || !standings.iter().any(|standing| standing.is_late) {
            return merge_results(results);
        }
        let positions = results.iter().zip(&self.prepared.plans).map(|(result, plan)| match result {
            Ok(()) => RankPosition { rank: plan.rank, progress: RankProgress::Ended },
            Err(error) => {
                let unknown = RankPosition { rank: plan.rank, progress: RankProgress::Unknown };
                error.standing.map_or(unknown, |standing| standing.position)
            }
        });
        let positions: Vec<RankPosition> = positions.collect();
        let message = message!("the run did not finish within {} ms", self.timeout.as_millis());
        let mut error = Diag::global_error(codes::TIMEOUT, message);
        for hint in standings.iter().filter_map(|standing| standing.hint).chain(self.queue_note) {
            let hint = Message::from(hint);
            if !error.notes.contains(&hint) {
                error.notes.push(hint);
            }
        }
        Err(vec![report_hang(self.prepared, error, &positions)])
    }
}

impl LoadedProgram<'_> {
    /// Calls `work` on all ranks, each in a thread of its own. If one fails, all abort their work in flight: the others
    /// would wait for the failed one.
    pub(crate) fn for_each_rank<F>(&mut self, work: F) -> Result<(), Vec<Diag>>
    where
        F: Fn(&mut RankRuntime<'_>) -> Result<(), RankFailure> + Sync,
    {
        let _access = self.acquire_access()?;
        let failure_context = FailureContext {
            prepared: self.prepared,
            process_group: &self.process_group,
            queue_note: self.queue_note.as_deref(),
            timeout: self.timeout,
        };
        let work = &work;
        let one = |rank: &mut RankRuntime<'_>| {
            relax_capture_mode();
            let alarm = rank.failures.alarm.clone();
            let _panic = alarm.panic_guard(rank.plan.rank);
            let current = rank.device.make_current().map_err(RankFailure::from);
            let done = current.and_then(|()| work(rank));
            done.map_err(|failure| failure_context.report_failure(rank, failure))
        };
        let results = std::thread::scope(|scope| {
            let one = &one;
            let threads: Vec<_> = self.ranks.iter_mut().map(|rank| scope.spawn(move || one(rank))).collect();
            threads.into_iter().map(join_rank_thread).collect()
        });
        let result = self.process_group.finish_step("step", failure_context.merge_ranks(results));
        if result.is_err() {
            self.abort_all_ranks();
        }
        result
    }

    /// A gate for the threads of all ranks.
    pub(crate) fn rank_barrier(&self) -> RankBarrier {
        let alarm = self.ranks.first().map(|rank| rank.failures.alarm.clone()).unwrap_or_default();
        RankBarrier::new(self.ranks.len(), alarm)
    }

    /// Acquires access to CUDA's libraries for a call; refuses every call after a failure.
    pub(crate) fn acquire_access(&self) -> Result<LibraryAccess, Vec<Diag>> {
        self.check_usable()?;
        LibraryAccess::acquire().map_err(|error| vec![global_diag(&error)])
    }

    /// Refuses everything after a failure.
    pub(crate) fn check_usable(&self) -> Result<(), Vec<Diag>> {
        if self.has_failed() { Err(vec![failed_before_diag()]) } else { Ok(()) }
    }

    /// Whether a rank failed or gave up.
    pub(crate) fn has_failed(&self) -> bool {
        self.ranks.iter().any(|rank| rank.failures.alarm.first_failed().is_some())
    }

    /// Aborts the work of all ranks, also of those that did not fail: a communication that waits for a failed rank must
    /// end. No other program may reuse resources of this one.
    pub(crate) fn abort_all_ranks(&mut self) {
        self.poison_communicators();
        // All begin before the first wait.
        self.ranks.iter_mut().for_each(RankRuntime::begin_abort);
        self.ranks.iter_mut().for_each(RankRuntime::abort);
    }
}

/// Merges errors: the distinct causes, with the first of which the positions of the ranks that stopped because of it
/// are reported.
pub(crate) fn merge_results(results: Vec<Result<(), RankError>>) -> Result<(), Vec<Diag>> {
    let mut followers = Vec::new();
    let own = results.into_iter().filter_map(|result| match result {
        Err(RankError { diag, follows: true, .. }) => {
            followers.push(*diag);
            None
        }
        Err(RankError { diag, follows: false, .. }) => Some(Err(*diag)),
        Ok(()) => Some(Ok(())),
    });
    let own: Vec<Result<(), Diag>> = own.collect();
    let Err(mut causes) = collect_results(own) else {
        return if followers.is_empty() { Ok(()) } else { Err(followers) };
    };
    let first = &mut causes[0];
    for follower in followers {
        first.labels.extend(follower.primary);
        first.notes.extend(follower.notes);
    }
    if first.primary.is_none() && !first.labels.is_empty() {
        first.primary = Some(first.labels.remove(0));
    }
    Err(causes)
}

/// The error of every call after a failure.
fn failed_before_diag() -> Diag {
    let message = "an earlier run of this program failed, and its communications were aborted";
    let note = "load the program again, or build a new session; the contents of bound outputs are undefined";
    Diag::global_error(codes::FAILED_BEFORE, message).with_note(note)
}

#[cfg(test)]
mod tests {
    use super::*;
    use hostir::diag::Span;

    fn error(code: &'static str, start: u32, follows: bool) -> Result<(), RankError> {
        let diag = Diag::error(code, Span { start, end: start + 1 }, "x").with_note(format!("at {start}"));
        Err(RankError { diag: Box::new(diag), follows, standing: None })
    }

    #[test]
    fn followers_are_told_with_the_cause() {
        let results = vec![error("H0530", 7, true), Ok(()), error("H0511", 3, false), error("H0511", 3, false)];
        let diags = merge_results(results).unwrap_err();
        assert_eq!(diags.len(), 1);
        assert_eq!((diags[0].code, diags[0].notes.join(", ")), ("H0511", "at 3, at 7".to_owned()));
        assert_eq!(diags[0].labels[0].span.start, 7);
        assert_eq!(merge_results(vec![error("H0530", 7, true)]).unwrap_err().len(), 1);
        assert!(merge_results(vec![Ok(())]).is_ok());
    }

    #[test]
    fn after_a_failure() {
        let diag = failed_before_diag();
        assert_eq!(diag.code, "H0529");
        assert!(diag.notes[0].contains("a new session"));
    }
}
