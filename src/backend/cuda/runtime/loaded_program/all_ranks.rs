//! Work on all ranks of a process, and what becomes of it when one of them fails.
//!
//! A failure is told before anything is given up: first the threads of the other ranks ([`Alarm`]), then the other
//! processes ([`Joint::tell`]). Only then the rank lets go of what its device waits for, after which nobody can
//! take what others see of it for a result.
//!
//! [`Alarm`]: crate::runtime::failure_latch::Alarm

use crate::runtime::failure::{Cause, Failure};
use crate::runtime::loaded_program::Loaded;
use crate::runtime::process_group::Joint;
use crate::runtime::rank::Rank;
use crate::runtime::rank_threads::{joined, sort};
use crate::runtime::sequencer::Gate;
use hostir::diag::{Diag, codes};
use hostir::lower::Prepared;
use std::time::Duration;

/// Why a rank did not do its part.
#[derive(Debug)]
pub(crate) struct RankError {
    pub(crate) diag: Diag,
    /// Whether it only gave up because another rank of the process failed.
    pub(crate) follows: bool,
}

impl From<Diag> for RankError {
    fn from(diag: Diag) -> Self {
        Self { diag, follows: false }
    }
}

/// The program, processes and time limit that a failure is told of.
#[derive(Clone, Copy)]
pub(crate) struct Telling<'a> {
    pub(crate) prepared: &'a Prepared,
    pub(crate) joint: &'a Joint,
    pub(crate) timeout: Duration,
}

impl Telling<'_> {
    /// Tells everybody of a rank's failure, and begins to give up what the rank has under way.
    pub(crate) fn failed(self, rank: &mut Rank<'_>, failure: Failure) -> RankError {
        rank.alarm.raise(rank.plan.rank);
        let failure = rank.blame(failure);
        let follows = matches!(failure.cause, Cause::Sibling(_));
        let diag = failure.diag(self.prepared, rank.plan, self.timeout);
        if !follows {
            self.joint.tell(std::slice::from_ref(&diag));
        }
        rank.begin_abort();
        RankError { diag, follows }
    }
}

impl Loaded<'_> {
    /// Does something on all ranks, each in a thread of its own. After a failure of one of them all give up what
    /// they have under way: the others would wait for it.
    pub(crate) fn each<F>(&mut self, work: F) -> Result<(), Vec<Diag>>
    where
        F: Fn(&mut Rank<'_>) -> Result<(), Failure> + Sync,
    {
        self.check()?;
        let telling =
            Telling { prepared: self.prepared, joint: &self.joint, timeout: self.timeout };
        let work = &work;
        let one = |rank: &mut Rank<'_>| {
            let alarm = rank.alarm.clone();
            let _panic = alarm.guard(rank.plan.rank);
            let current = rank.device.make_current().map_err(Failure::from);
            let done = current.and_then(|()| work(rank));
            done.map_err(|failure| telling.failed(rank, failure))
        };
        let results = std::thread::scope(|scope| {
            let one = &one;
            let threads: Vec<_> =
                self.ranks.iter_mut().map(|rank| scope.spawn(move || one(rank))).collect();
            threads.into_iter().map(joined).collect()
        });
        let result = self.joint.end("step", merged(results));
        if result.is_err() {
            self.give_up();
        }
        result
    }

    /// A gate for the threads of all ranks.
    pub(crate) fn gate(&self) -> Gate {
        let alarm = self.ranks.first().map(|rank| rank.alarm.clone()).unwrap_or_default();
        Gate::new(self.ranks.len(), alarm)
    }

    /// Refuses everything after a failure.
    pub(crate) fn check(&self) -> Result<(), Vec<Diag>> {
        if self.has_failed() { Err(vec![failed_before()]) } else { Ok(()) }
    }

    /// Whether a rank failed or gave up.
    pub(crate) fn has_failed(&self) -> bool {
        self.ranks.iter().any(|rank| rank.alarm.first().is_some())
    }

    /// Ends the work of all ranks, of those too that did not fail themselves: a communication that waits for one
    /// that is gone must not be left in peace. Nothing of this program is for others any more.
    pub(crate) fn give_up(&mut self) {
        self.spoil();
        // Begun on all of them before any is waited for.
        self.ranks.iter_mut().for_each(Rank::begin_abort);
        self.ranks.iter_mut().for_each(Rank::abort);
    }
}

/// The distinct causes; what those who followed were doing is told with the first one.
pub(crate) fn merged(results: Vec<Result<(), RankError>>) -> Result<(), Vec<Diag>> {
    let mut followers = Vec::new();
    let own = results.into_iter().filter_map(|result| match result {
        Err(RankError { diag, follows: true }) => {
            followers.push(diag);
            None
        }
        Err(RankError { diag, follows: false }) => Some(Err(diag)),
        Ok(()) => Some(Ok(())),
    });
    let own: Vec<Result<(), Diag>> = own.collect();
    let Err(mut causes) = sort(own) else {
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
fn failed_before() -> Diag {
    let message = "an earlier run of this program failed, and its communications were aborted";
    let note = "load the program anew, or build a new session; what outputs hold that were bound is undefined";
    Diag::global(codes::FAILED_BEFORE, message).note(note)
}

#[cfg(test)]
mod tests {
    use super::*;
    use hostir::diag::Span;

    fn error(code: &'static str, start: u32, follows: bool) -> Result<(), RankError> {
        let diag =
            Diag::error(code, Span { start, end: start + 1 }, "x").note(format!("at {start}"));
        Err(RankError { diag, follows })
    }

    #[test]
    fn followers_are_told_with_the_cause() {
        let results = vec![
            error("H0530", 7, true),
            Ok(()),
            error("H0511", 3, false),
            error("H0511", 3, false),
        ];
        let diags = merged(results).unwrap_err();
        assert_eq!(diags.len(), 1);
        assert_eq!((diags[0].code, diags[0].notes.join(", ")), ("H0511", "at 3, at 7".to_owned()));
        assert_eq!(diags[0].labels[0].span.start, 7);
        assert_eq!(merged(vec![error("H0530", 7, true)]).unwrap_err().len(), 1);
        assert!(merged(vec![Ok(())]).is_ok());
    }

    #[test]
    fn after_a_failure() {
        let diag = failed_before();
        assert_eq!(diag.code, "H0529");
        assert!(diag.notes[0].contains("a new session"));
    }
}
