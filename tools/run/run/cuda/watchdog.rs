//! Runs on GPUs that do not end by themselves.
//!
//! A rank that fails, or hears of another one's failure, clears away its work in flight and returns an error. A call of
//! the CUDA driver or of NCCL that does not return prevents that: the queue of a stream is full, or a library waits for
//! a process that is gone. Then a thread beside the run reports what is known and ends the process.

use super::CudaBackend;
use crate::launch::LaunchedProcess;
use crate::run::completion::{CompleteOnDrop, Completion, PollState};
use crate::run::ending::{RunEnd, Verbosity, process_ending};
use crate::run::failure::RunFailure;
use hostir::backend::control_plane::ControlPlaneError;
use hostir::diag::message;
use hostir::diag::{Diag, codes};
use hostir::lower::PreparedProgram;
use hostir::plan_checks::report_hang;
use hostir_cuda::{RankLocation, RunWatchdog};
use hostir_tool_support::io::ToolIo;
use hostir_tool_support::render::DiagFormat;
use hostir_tool_support::source::NamedText;
use hostir_tool_support::staged::end_process;
use hostir_tool_support::terminal::WIPE_LINE;
use std::io::Write as _;
use std::time::{Duration, Instant};

/// The time that a rank may take to return after another process failed: its own limits are shorter. The watchdog of
/// the connections, which knows less, waits longer.
const PATIENCE: Duration = Duration::from_secs(3);
/// The time by which a run may exceed its deadline.
const GRACE: Duration = Duration::from_millis(1800);
/// The time that calls of libraries get to return before the process ends without its exit handlers.
const LIBRARIES: Duration = Duration::from_millis(200);
const CALL: &str = "a call of the CUDA driver or of NCCL did not return; terminating the process";

/// Work that runs programs, in the order in which they are loaded.
pub(in crate::run) struct WatchedRun<'a> {
    /// The programs and their plans.
    pub(in crate::run) programs: Vec<(&'a NamedText, &'a PreparedProgram)>,
    /// The form of diagnostics.
    pub(in crate::run) format: DiagFormat,
    /// This process among several.
    pub(in crate::run) here: Option<&'a LaunchedProcess>,
}

impl CudaBackend {
    /// Does work that runs programs, and ends the process if the work does not end.
    pub(in crate::run) fn run_watched<T>(
        &self,
        watched: WatchedRun<'_>,
        io: &mut ToolIo<'_>,
        work: impl FnOnce(&mut ToolIo<'_>) -> T,
    ) -> T {
        // Somebody else's process is not ended.
        if io.exe.is_none() {
            return work(io);
        }
        let WatchedRun { programs, format, here } = watched;
        let options = &self.cuda.options;
        let run =
            WatchdogState { programs, watchdog: &options.watchdog, timeout: options.timeout, alone: here.is_none() };
        let (look, terminal, over) = (io.stderr_style(), io.terminal, Completion::default());
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let found = over.poll_until(|state| run.termination_cause(remote_failure(here), state));
                let Some(failure) = found else { return };
                let status = failure.status.exit_code();
                let (verbosity, status) = here.map_or((Verbosity::Full, status), |here| process_ending(here, &failure));
                // In one piece: other processes may write to the same place. If this fails, there is nobody to report
                // to.
                let mut text = Vec::new();
                if terminal {
                    text.extend_from_slice(WIPE_LINE.as_bytes());
                }
                RunEnd::Failed(failure, verbosity, status).write_report(format, look, &mut text);
                let _ = std::io::stderr().write_all(&text);
                end_process(status, || hostir_cuda::finish_library_calls(LIBRARIES));
            });
            let _over = CompleteOnDrop(&over);
            work(io)
        })
    }
}

/// The failure of another process. The work itself returns failures of this one.
fn remote_failure(here: Option<&LaunchedProcess>) -> Option<ControlPlaneError> {
    let error = here?.run_failure()?;
    let own = matches!(error, ControlPlaneError::Failed { rank, .. } if here?.place.rank == rank);
    (!own).then_some(error)
}

/// The programs that are watched.
struct WatchdogState<'a> {
    programs: Vec<(&'a NamedText, &'a PreparedProgram)>,
    watchdog: &'a RunWatchdog,
    timeout: Duration,
    /// This process has all ranks.
    alone: bool,
}

impl WatchdogState<'_> {
    /// The reason to end the process now. [`PollState::since`] is the time at which the failure of another process was
    /// first seen.
    fn termination_cause(&self, lost: Option<ControlPlaneError>, state: &mut PollState) -> Option<RunFailure> {
        if let Some(gap) = state.suspension {
            self.watchdog.note_suspension(gap);
        }
        if let Some(error) = lost
            && state.since.get_or_insert_with(Instant::now).elapsed() >= PATIENCE
        {
            return Some(self.locate_failure(error.diag()));
        }
        self.watchdog.is_hung(self.timeout + GRACE).then(|| self.locate_failure(timeout_diag(self.timeout)))
    }

    /// A failure of the running program, with the positions of the ranks.
    fn locate_failure(&self, cause: Diag) -> RunFailure {
        let places = self.watchdog.rank_locations();
        let number = places.first().map_or(0, |place| place.program);
        let known = !places.is_empty() || self.programs.len() == 1;
        let program = self.programs.get(number).filter(|_| known);
        let Some((source, prepared)) = program else { return self.note_end(cause).into() };
        let places = places.into_iter().filter(|place| place.program == number);
        let located = match self.alone && cause.code == codes::TIMEOUT {
            true => report_hang(prepared, cause, &places.map(RankLocation::rank_position).collect::<Vec<_>>()),
            false => places.fold(cause, |located, place| place.annotate_diag(located, prepared)),
        };
        RunFailure::from_diags((*source).clone(), vec![self.note_end(located)])
    }

    /// Adds what is known about the call that did not end.
    fn note_end(&self, diag: Diag) -> Diag {
        match (self.watchdog.has_open_runs(), self.alone) {
            (true, false) => diag.with_note(CALL),
            (true, true) => diag.with_note(CALL).with_note("use `--processes` to give each rank its own driver"),
            (false, _) => diag.with_note("this process did not return from a library call; terminating it"),
        }
    }
}

fn timeout_diag(timeout: Duration) -> Diag {
    let message = message!("the run did not finish within {} ms", timeout.as_millis());
    Diag::global_error(codes::TIMEOUT, message)
}

#[cfg(test)]
mod tests {
    use super::*;
    use hostir::lower::{SizeSettings, prepare_program};

    const COPY: &str = "%HostIrContainer { (T0_g_float[iS0{4}]) -> (T1_g_float[iS1{4}]) :
  T1_g_float[iS1{4}] = Set( T0_g_float[iS0{4}], cache_op=Streaming )
} // %HostIrContainer
";

    fn lost() -> Option<ControlPlaneError> {
        Some(ControlPlaneError::Lost { rank: 1, how: "it broke".to_owned() })
    }

    /// After a moment the process ends with the words of the failure, and a note that says why.
    #[test]
    fn another_process_failed() {
        let (programs, _) = hostir::load(COPY);
        let prepared = prepare_program(&programs[0], &SizeSettings::default()).unwrap();
        let source = NamedText::new("copy.hir", COPY);
        let watch = RunWatchdog::default();
        let programs = vec![(&source, &prepared)];
        let run = WatchdogState { programs, watchdog: &watch, timeout: Duration::ZERO, alone: false };
        let mut state = PollState::default();
        assert!(run.termination_cause(lost(), &mut state).is_none(), "the rank may still come back");
        state.since = Instant::now().checked_sub(PATIENCE);
        let failure = run.termination_cause(lost(), &mut state).unwrap();
        let diag = &failure.diags[0];
        assert_eq!((diag.code, failure.source.name.as_str()), (codes::PROCESS, "copy.hir"));
        assert!(diag.notes[1].starts_with("this process did not return from a library call"), "{:?}", diag.notes);
        assert!(run.termination_cause(None, &mut PollState::default()).is_none(), "no run is under way");
    }
}
