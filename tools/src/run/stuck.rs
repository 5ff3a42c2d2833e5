//! Runs on GPUs that do not end by themselves.
//!
//! A rank that fails, or hears of another one that did, clears away what it has under way and comes back with an
//! error. A call of the CUDA driver or of NCCL that does not return keeps it from that: the queue of a
//! stream is full, or a library waits for a process that is gone. Then a thread beside the run says what is
//! known and ends the process.

use super::engine::Engine;
use super::exec::Prepared;
use super::failure::Failure;
use super::progress::WIPE;
use super::spread::{End, Voice, ending};
use crate::cuda::Watch;
use crate::io::Io;
use crate::launch::Here;
use crate::render::Format;
use crate::source::Source;
use crate::staged::end_process;
use hostir::backend::exchange::ExchangeError;
use hostir::diag::{Diag, codes};
use std::io::Write as _;
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// The time that a rank may take to come back after another process failed: what it does for that is limited to less.
/// The guard of the connections, which knows less, waits longer.
const PATIENCE: Duration = Duration::from_secs(3);
/// The time that a run may take longer to end after its deadline.
const GRACE: Duration = Duration::from_millis(1800);
const CALL: &str =
    "a call of the CUDA driver or of NCCL does not return, and the process is ended without it";
/// Between two looks.
const LOOK: Duration = Duration::from_millis(100);

/// Does work that runs programs, in the order in which they are loaded, and sees to it that it ends.
pub(super) fn watched<T>(
    engine: &Engine,
    programs: Vec<(&Source, &Prepared)>,
    format: Format,
    here: Option<&Here>,
    io: &mut Io<'_>,
    work: impl FnOnce(&mut Io<'_>) -> T,
) -> T {
    // Somebody else's process is not ended.
    let (Engine::Cuda(cuda, _), true) = (engine, io.exe.is_some()) else { return work(io) };
    let (watch, timeout) = (&*cuda.options.watch, cuda.options.timeout);
    let run = Run { programs, watch, timeout, alone: here.is_none() };
    let (look, terminal, over) = (io.look(), io.terminal, Over::default());
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let Some(failure) = over.unless(|since| run.cause(failed(here), since)) else { return };
            let status = failure.status.code();
            let (voice, status) = here.map_or((Voice::Full, status), |here| ending(here, &failure));
            // In one piece: other processes may write to the same place. Nobody is left to tell if this fails.
            let mut text = Vec::new();
            if terminal {
                text.extend_from_slice(WIPE.as_bytes());
            }
            End::Failed(failure, voice, status).write(format, look, &mut text);
            let _ = std::io::stderr().write_all(&text);
            end_process(status);
        });
        let _over = Set(&over);
        work(io)
    })
}

/// The failure of another process. What failed here the work itself comes back with.
fn failed(here: Option<&Here>) -> Option<ExchangeError> {
    let error = here?.failed()?;
    let own = matches!(error, ExchangeError::Failed { rank, .. } if here?.place.rank == rank);
    (!own).then_some(error)
}

/// What is looked at.
struct Run<'a> {
    programs: Vec<(&'a Source, &'a Prepared)>,
    watch: &'a Watch,
    timeout: Duration,
    /// Whether this process has all ranks.
    alone: bool,
}

impl Run<'_> {
    /// Why the process has to be ended now. `since` is when the failure of another process was seen first.
    fn cause(&self, lost: Option<ExchangeError>, since: &mut Option<Instant>) -> Option<Failure> {
        if let Some(error) = lost
            && since.get_or_insert_with(Instant::now).elapsed() >= PATIENCE
        {
            return Some(self.located(error.diag()));
        }
        self.watch.is_stuck(self.timeout + GRACE).then(|| self.located(stuck(self.timeout)))
    }

    /// A failure of the program that runs, with where the ranks are.
    fn located(&self, cause: Diag) -> Failure {
        let ended = |diag: Diag| match (self.watch.is_open(), self.alone) {
            (true, false) => diag.note(CALL),
            (true, true) => {
                diag.note(CALL).note("`--processes` gives each rank a driver of its own")
            }
            (false, _) => {
                diag.note("this process did not come back from what it was at, and is ended")
            }
        };
        let places = self.watch.places();
        let number = places.first().map_or(0, |place| place.program);
        let known = !places.is_empty() || self.programs.len() == 1;
        let program = self.programs.get(number).filter(|_| known);
        let Some((source, prepared)) = program else { return ended(cause).into() };
        let places = places.into_iter().filter(|place| place.program == number);
        let located = places.fold(cause, |located, place| place.add_to(located, prepared));
        Failure::of((*source).clone(), vec![ended(located)])
    }
}

fn stuck(timeout: Duration) -> Diag {
    let message = format!("the run did not end within {} ms", timeout.as_millis());
    Diag::global(codes::TIMEOUT, message)
}

/// Whether the work is done.
#[derive(Default)]
pub(super) struct Over(Mutex<bool>, Condvar);

impl Over {
    /// Looks again and again until something is found or the work is done.
    pub(super) fn unless<T>(
        &self,
        mut look: impl FnMut(&mut Option<Instant>) -> Option<T>,
    ) -> Option<T> {
        let mut since = None;
        let mut over = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        while !*over {
            if let Some(found) = look(&mut since) {
                return Some(found);
            }
            over = self.1.wait_timeout(over, LOOK).unwrap_or_else(PoisonError::into_inner).0;
        }
        None
    }
}

/// Sets it when dropped, also by a panic.
pub(super) struct Set<'a>(pub(super) &'a Over);

impl Drop for Set<'_> {
    fn drop(&mut self) {
        *self.0.0.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.0.1.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hostir::plan::{Sizes, prepare};

    const COPY: &str = "%HostIrContainer { (T0_g_float[iS0{4}]) -> (T1_g_float[iS1{4}]) :
  T1_g_float[iS1{4}] = Set( T0_g_float[iS0{4}], cache_op=Streaming )
} // %HostIrContainer
";

    fn lost() -> Option<ExchangeError> {
        Some(ExchangeError::Lost { rank: 1, how: "it broke".to_owned() })
    }

    /// After a moment, in the words of the failure, with a note that says why the process ends.
    #[test]
    fn another_process_failed() {
        let (programs, _) = hostir::load(COPY);
        let prepared = prepare(&programs[0], &Sizes::default()).unwrap();
        let source = Source { name: "copy.hir".to_owned(), bytes: COPY.into() };
        let watch = Watch::default();
        let programs = vec![(&source, &prepared)];
        let run = Run { programs, watch: &watch, timeout: Duration::ZERO, alone: false };
        let mut since = None;
        assert!(run.cause(lost(), &mut since).is_none(), "the rank may still come back");
        since = Instant::now().checked_sub(PATIENCE);
        let failure = run.cause(lost(), &mut since).unwrap();
        let diag = &failure.diags[0];
        assert_eq!((diag.code, failure.source.name.as_str()), (codes::PROCESS, "copy.hir"));
        assert!(diag.notes[1].starts_with("this process did not come back"), "{:?}", diag.notes);
        assert!(run.cause(None, &mut None).is_none(), "no run is under way");
    }

    /// The work ends the looking, also by a panic; what is found ends it too.
    #[test]
    fn looking_ends() {
        let over = Over::default();
        let mut looks = 0;
        let third = |_: &mut Option<Instant>| {
            looks += 1;
            (looks == 3).then_some(looks)
        };
        assert_eq!(over.unless(third), Some(3));
        let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            let _over = Set(&over);
            panic!("on purpose");
        }));
        assert!(panicked.is_err());
        assert_eq!(over.unless(|_| Some(())), None);
    }
}
