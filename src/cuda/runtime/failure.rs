//! Failures of ranks, and their diagnostics.

use crate::runtime::{oom, watchdog};
use crate::sys::Error;
use hostir::backend::control_plane::ControlPlaneError;
use hostir::diag::message;
use hostir::diag::{Diag, Message, codes};
use hostir::lower::PreparedProgram;
use hostir::plan::{InstId, Plan};
use hostir::plan_checks::{RankPosition, RankProgress};
use std::time::Duration;

/// The cause of a rank's failure, and the instruction in which it failed if known.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct RankFailure {
    pub(crate) cause: FailureCause,
    pub(crate) inst: Option<InstId>,
    /// The last instruction that may have failed, if there are several candidates.
    pub(crate) until: Option<InstId>,
    /// The reason why the instruction is not known, if the caller can change that.
    pub(crate) hint: Option<&'static str>,
    /// The rank's progress, if it is known.
    pub(crate) progress: Option<RunProgress>,
}

/// The progress of a run, as far as events show it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum RunProgress {
    /// The first instruction that is not known to have ended.
    Inst(InstId),
    /// One of the instructions that wait for other ranks, between these two.
    Among(InstId, InstId),
    /// Past all waits for other ranks; the rank's own work is not done.
    Own,
    /// Unknown: several runs are in flight, and events belong to the last one.
    Queued,
    /// Before the run: the rank waits at the start barrier.
    Before,
}

/// The note about instructions that share an event.
const SHARED_MARK: &str = "a run with `graph` reports which of the communications of a range it is";

/// The line of one rank in a report of a run that did not end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct RankStanding {
    /// The rank's progress.
    pub(crate) position: RankPosition,
    /// True if the rank's own deadline has passed.
    pub(crate) is_late: bool,
    /// A note for the caller.
    pub(crate) hint: Option<&'static str>,
}

#[derive(Clone, PartialEq, Debug)]
pub(crate) enum FailureCause {
    Cuda(Error),
    Nccl(nccl_rs::Error),
    /// The driver does not take the code of a file with kernels of the user.
    UserKernel(String, Error),
    Timeout,
    Peer(ControlPlaneError),
    /// Another rank of this process failed.
    Sibling(u32),
    /// A rank of another process gave up while this one worked, and has not reported why.
    Poisoned(u32),
}

impl From<Error> for RankFailure {
    fn from(error: Error) -> Self {
        Self::from_cause(FailureCause::Cuda(error))
    }
}

impl From<nccl_rs::Error> for RankFailure {
    fn from(error: nccl_rs::Error) -> Self {
        Self::from_cause(FailureCause::Nccl(error))
    }
}

impl RankFailure {
    pub(crate) fn from_cause(cause: FailureCause) -> Self {
        Self { cause, inst: None, until: None, hint: None, progress: None }
    }

    pub(crate) fn timed_out() -> Self {
        Self::from_cause(FailureCause::Timeout)
    }

    pub(crate) fn sibling_failed(rank: u32) -> Self {
        Self::from_cause(FailureCause::Sibling(rank))
    }

    pub(crate) fn poisoned_by(rank: u32) -> Self {
        Self::from_cause(FailureCause::Poisoned(rank))
    }

    pub(crate) fn peer_failed(error: ControlPlaneError) -> Self {
        Self::from_cause(FailureCause::Peer(error))
    }

    pub(crate) fn at_inst(self, inst: InstId) -> Self {
        Self { inst: self.inst.or(Some(inst)), ..self }
    }

    /// Adds the instruction that was reached, if it is known.
    pub(crate) fn with_progress(self, reached: RunProgress) -> Self {
        if matches!(self.cause, FailureCause::Cuda(_)) {
            // A failed call says nothing about what other calls wait for.
            return self;
        }
        let own = "all communications of the rank had finished; a compute op of the rank had not";
        let queued =
            "several runs were enqueued, so the op that did not finish is unknown; wait after each run to find it";
        let before = "the rank was between two runs and waited for the other ranks before the next one";
        let known = Self { progress: Some(reached), ..self };
        match reached {
            RunProgress::Inst(inst) => known.at_inst(inst),
            RunProgress::Among(first, last) => Self { until: Some(last), ..known.at_inst(first) },
            RunProgress::Own => Self { hint: Some(own), ..known },
            RunProgress::Before => Self { hint: Some(before), ..known },
            RunProgress::Queued => Self { hint: Some(queued), ..known },
        }
    }

    /// The progress for a report of all ranks.
    fn rank_progress(&self) -> RankProgress {
        match (self.progress, self.inst) {
            (Some(RunProgress::Among(first, last)), _) => RankProgress::Among(first, last),
            (Some(RunProgress::Own), _) => RankProgress::OwnWork,
            (Some(RunProgress::Before), _) => RankProgress::NotStarted,
            (Some(RunProgress::Inst(inst)), _) | (_, Some(inst)) => RankProgress::At(inst),
            (Some(RunProgress::Queued) | None, None) => RankProgress::Unknown,
        }
    }

    /// The rank's line in a report of a run that did not end.
    pub(crate) fn standing(&self, rank: u32) -> RankStanding {
        let hints = match self.progress {
            Some(RunProgress::Among(..)) => Some(SHARED_MARK),
            Some(RunProgress::Queued) => self.hint,
            _ => None,
        };
        let is_late = matches!(self.cause, FailureCause::Timeout);
        RankStanding { position: RankPosition { rank, progress: self.rank_progress() }, is_late, hint: hints }
    }

    /// As a diagnostic about a rank.
    pub(crate) fn to_diag(&self, prepared: &PreparedProgram, plan: &Plan, timeout: Duration) -> Diag {
        let mut diag = self.located_diag(prepared, plan, timeout);
        diag.notes.extend(self.hint.map(Message::from));
        if let Some(last) = self.until.and_then(|inst| plan.find_inst(inst)) {
            let place = prepared.labels.origin_text(plan, last.origin);
            let note = message!("or in a later communication, up to {}: a run with `graph` reports which", place);
            diag.notes.push(note);
        }
        diag
    }

    pub(crate) fn located_diag(&self, prepared: &PreparedProgram, plan: &Plan, timeout: Duration) -> Diag {
        let (code, message) = match &self.cause {
            FailureCause::Cuda(error @ Error::Missing { .. }) => (codes::DEVICE, error.to_string().into()),
            FailureCause::Cuda(error @ Error::NoMemory { .. }) => {
                return oom::out_of_memory_diag(error.to_string(), prepared, plan);
            }
            FailureCause::Cuda(Error::Unsupported(what)) => {
                (codes::BACKEND_TYPE, message!("the CUDA backend does not support {}", what.message()))
            }
            FailureCause::Cuda(error) => (codes::DEVICE_CALL, error.to_string().into()),
            FailureCause::UserKernel(file, error) => (
                codes::KERNEL_IMAGE,
                message!("the device does not take the code of `{}`: {}", file, error.to_string()),
            ),
            FailureCause::Nccl(error @ (nccl_rs::Error::Missing(_) | nccl_rs::Error::Symbol(_))) => {
                (codes::DEVICE, error.to_string().into())
            }
            FailureCause::Nccl(nccl_rs::Error::Timeout { call }) => {
                (codes::TIMEOUT, message!("{} did not finish within {} ms", call, timeout.as_millis()))
            }
            FailureCause::Nccl(error) => (codes::DEVICE_CALL, error.to_string().into()),
            FailureCause::Timeout => {
                (codes::TIMEOUT, message!("the run did not finish within {} ms", timeout.as_millis()))
            }
            FailureCause::Peer(error) => {
                return self.locate_peer_diag(error.diag(), prepared, plan);
            }
            FailureCause::Sibling(rank) => {
                let diag = Diag::global_error(codes::PROCESS, message!("rank {} failed", rank));
                return self.locate_peer_diag(diag, prepared, plan);
            }
            FailureCause::Poisoned(other) => {
                let message = message!(
                    "rank {} aborted before the run of rank {} had finished; its results are undefined",
                    other,
                    plan.rank
                );
                let diag = Diag::global_error(codes::PROCESS, message).with_note("check the last output of that rank");
                return self.locate_peer_diag(diag, prepared, plan);
            }
        };
        let labels = &prepared.labels;
        match self.inst.and_then(|inst| plan.find_inst(inst)) {
            None => Diag::global_error(code, message!("rank {}: {}", plan.rank, message)),
            Some(inst) => {
                let place = labels.origin_text(plan, inst.origin);
                Diag::error(code, labels.op_span(inst.origin.op), message).with_note(message!(
                    "on rank {}, in {}",
                    plan.rank,
                    place
                ))
            }
        }
    }

    /// Another process's failure, with the position of this rank.
    pub(crate) fn locate_peer_diag(&self, diag: Diag, prepared: &PreparedProgram, plan: &Plan) -> Diag {
        match self.inst {
            Some(inst) => watchdog::note_location(diag, inst, prepared, plan),
            None => diag,
        }
    }
}

pub(crate) fn global_diag(error: &Error) -> Diag {
    let code = match error {
        Error::Missing { .. } => codes::DEVICE,
        Error::NoMemory { .. } => codes::DEVICE_MEMORY,
        Error::Call { .. } | Error::Compile { .. } | Error::Internal { .. } | Error::NoAccess(_) => codes::DEVICE_CALL,
        Error::Unsupported(_) => codes::BACKEND_TYPE,
    };
    Diag::global_error(code, error.to_string())
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use hostir::lower::{SizeSettings, prepare_program};

    const COPY: &str = "%HostIrContainer { (T0_g_float[iS0{4}]) -> (T1_g_float[iS1{4}]) :
  T1_g_float[iS1{4}] = Set( T0_g_float[iS0{4}], cache_op=Streaming )
} // %HostIrContainer
";

    /// A program of one rank and one instruction, of four elements.
    pub(crate) fn prepared() -> PreparedProgram {
        let (programs, diags) = hostir::load(COPY);
        assert!(diags.is_empty());
        prepare_program(&programs[0], &SizeSettings::default()).unwrap()
    }

    /// Code, message and notes of a failure in the first instruction.
    fn reported(failure: RankFailure) -> (&'static str, String, String) {
        let prepared = prepared();
        let diag = failure.at_inst(InstId(0)).to_diag(&prepared, &prepared.plans[0], Duration::from_millis(1500));
        (diag.code, diag.message.to_string(), diag.notes.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))
    }

    #[test]
    fn failures_name_rank_and_op() {
        let (code, message, notes) = reported(RankFailure::timed_out());
        assert_eq!((code, message.as_str()), ("H0511", "the run did not finish within 1500 ms"));
        assert_eq!(notes, "on rank 0, in `T1 = Set`");
        let full = Error::NoMemory { bytes: 4096, free: 512 };
        let (code, message, notes) = reported(full.into());
        assert_eq!(
            (code, message.as_str()),
            ("H0521", "out of device memory: cannot allocate 4096 bytes (512 are free)")
        );
        assert!(notes.contains("the largest buffer is T0, 16 bytes, input number 0"), "{notes}");
        let call = Error::Call { call: "cuLaunchKernel", status: "CUDA_ERROR_X (why)".to_owned() };
        let (code, message, _) = reported(call.into());
        assert_eq!((code, message.as_str()), ("H0522", "cuLaunchKernel failed: CUDA_ERROR_X (why)"));
        let nccl = nccl_rs::Error::Timeout { call: "ncclCommInitRankConfig" };
        assert_eq!(reported(nccl.into()).0, "H0511");
    }

    #[test]
    fn how_far_runs_came() {
        let prepared = prepared();
        let plan = &prepared.plans[0];
        let failure = RankFailure::timed_out().with_progress(RunProgress::Own);
        let diag = failure.to_diag(&prepared, plan, Duration::from_millis(1500));
        assert_eq!(diag.message, "rank 0: the run did not finish within 1500 ms");
        assert!(diag.primary.is_none() && diag.notes[0].contains("a compute op of the rank had not"));
        let queued = RankFailure::timed_out().with_progress(RunProgress::Queued);
        let diag = queued.to_diag(&prepared, plan, Duration::from_millis(1500));
        assert!(diag.notes[0].starts_with("several runs were enqueued"));
        let failure = RankFailure::timed_out().with_progress(RunProgress::Inst(InstId(0)));
        let diag = failure.to_diag(&prepared, plan, Duration::from_millis(1500));
        assert_eq!(diag.notes, ["on rank 0, in `T1 = Set`"]);
    }

    #[test]
    fn failures_of_peers_name_both_places() {
        let lost = ControlPlaneError::Lost { rank: 3, how: "its connection closed".to_owned() };
        let (code, message, notes) = reported(RankFailure::peer_failed(lost));
        assert_eq!((code, message.as_str()), ("H0530", "rank 3 is lost: its connection closed"));
        assert!(notes.ends_with("; rank 0 aborted in `T1 = Set`"), "{notes}");
    }

    #[test]
    fn a_library_that_is_not_there() {
        // SAFETY: there is no such file.
        #[allow(unsafe_code, reason = "a library that is not there")]
        let opened = unsafe { nccl_rs::Library::open(Some("/nowhere/libnccl.so".into())) };
        let error = opened.err().unwrap();
        let (code, message, _) = reported(error.into());
        assert_eq!(code, "H0520");
        assert_eq!(message, "cannot open NCCL (searched: /nowhere/libnccl.so)");
    }

    #[test]
    fn several_that_share_a_mark_are_told() {
        let prepared = prepared();
        let failure = RankFailure::timed_out().with_progress(RunProgress::Among(InstId(0), InstId(0)));
        let diag = failure.to_diag(&prepared, &prepared.plans[0], Duration::from_millis(1500));
        assert_eq!(diag.notes[0], "on rank 0, in `T1 = Set`");
        assert!(diag.notes[1].starts_with("or in a later communication, up to `T1 = Set`"));
    }

    #[test]
    fn ranks_that_gave_up_are_named() {
        let (code, message, notes) = reported(RankFailure::poisoned_by(2));
        assert_eq!(code, "H0530");
        assert!(message.starts_with("rank 2 aborted before the run of rank 0"), "{message}");
        assert!(notes.ends_with("; rank 0 aborted in `T1 = Set`"), "{notes}");
        assert_eq!(reported(RankFailure::sibling_failed(1)).1, "rank 1 failed");
    }
}
