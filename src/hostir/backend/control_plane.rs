//! The control plane: communication between the processes of a run outside of the hot loop.
//!
//! A program may run with all ranks in one process, or with one process for each rank. In the second case the
//! caller provides a [`ControlPlane`]: the library opens no connection itself. `hir-run` has one over TCP; a
//! program under MPI or `torch.distributed` can wrap what these provide.
//!
//! The protocol lets no process wait for one that has failed: a process that fails calls
//! [`ControlPlane::report_failure`] before it gives up, and a process that waits in [`ControlPlane::all_gather`], or
//! polls [`ControlPlane::peer_failure`] while its device works, ends with that error.

use crate::diag::message;
use crate::diag::{Diag, DiagLabel, Span, codes, count_text};
use crate::lower::PreparedProgram;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::{Duration, Instant};

/// The interface to the other processes of a run, one for each rank.
pub trait ControlPlane: Send + Sync {
    /// The rank of this process.
    fn rank(&self) -> u32;
    /// Number of processes.
    fn world_size(&self) -> u32;
    /// A name that two processes share if and only if they run on the same host.
    fn host_name(&self) -> String;
    /// All-gather: every process passes a message under the same name and gets all messages in rank order. No process
    /// returns before all have called. Messages are small (kilobytes).
    ///
    /// # Errors
    /// If a process does not call within the time limit, fails, or is lost.
    fn all_gather(&self, what: &str, message: &[u8]) -> Result<Vec<Vec<u8>>, ControlPlaneError>;
    /// Reports to the other processes that this one gives up, and why ([`failure_report`] makes the text).
    fn report_failure(&self, why: &str);
    /// Returns the first known failure or loss of a process. Callers poll it in a spinning loop, so it has to be cheap
    /// while the answer is `None`.
    fn peer_failure(&self) -> Option<ControlPlaneError>;
}

/// The reason why the processes cannot continue together.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ControlPlaneError {
    /// Ranks did not reach a step in time.
    Late {
        /// The ranks.
        ranks: Vec<u32>,
        /// The step.
        what: String,
        /// The time for which the others waited.
        timeout: Duration,
    },
    /// A process is gone: it was killed, or its host or the network is down.
    Lost {
        /// Its rank.
        rank: u32,
        /// The observed symptom.
        how: String,
    },
    /// A message was altered between the two processes.
    Altered {
        /// The rank that sent the message.
        rank: u32,
        /// The difference that was found.
        how: String,
    },
    /// A process gave up.
    Failed {
        /// Its rank.
        rank: u32,
        /// The reason that the process gave to [`ControlPlane::report_failure`].
        why: String,
    },
    /// Processes are at different steps, or a message is malformed.
    Broken {
        /// The violation that was found.
        why: String,
    },
}

impl ControlPlaneError {
    /// Converts the error to a diagnostic, at the source location of another process's error if it reported one.
    pub fn diag(&self) -> Diag {
        match self {
            ControlPlaneError::Late { ranks, what, timeout } => Diag::global_error(
                codes::PROCESS_LATE,
                message!("{} did not reach the step `{}` within {} ms", rank_list(ranks), what, timeout.as_millis()),
            )
            .with_note("check the last output of these ranks; `--timeout-ms` sets the limit"),
            ControlPlaneError::Lost { rank, how } => {
                Diag::global_error(codes::PROCESS, message!("rank {} is lost: {}", rank, how))
                    .with_note("check the last output of this rank, and whether its host or the launcher terminated it")
            }
            ControlPlaneError::Altered { rank, how } => {
                let message = message!("messages from rank {} were altered in transit: {}", rank, how);
                Diag::global_error(codes::ALTERED, message)
                    .with_note("a third party between the hosts modifies the messages; none of them was used, and the run ends without results")
            }
            ControlPlaneError::Failed { rank, why } => reported_failure(*rank, why),
            ControlPlaneError::Broken { why } => Diag::global_error(codes::EXCHANGE, why.clone())
                .with_note("start the same version of the program on all ranks"),
        }
    }
}

/// Returns true if an error concerns other processes, which therefore know it already.
pub fn is_known_to_all(diag: &Diag) -> bool {
    [codes::PROCESS, codes::ALTERED].contains(&diag.code)
}

/// `rank 2`, `ranks 1, 2 and 3`.
pub fn rank_list(ranks: &[u32]) -> String {
    let list: Vec<String> = ranks.iter().map(ToString::to_string).collect();
    match list.split_last() {
        None => "no rank".to_owned(),
        Some((only, [])) => format!("rank {only}"),
        Some((last, first)) => format!("ranks {} and {last}", first.join(", ")),
    }
}

/// Encodes the first of these errors for [`ControlPlane::report_failure`]: lines of code, location, message and notes.
pub fn failure_report(diags: &[Diag]) -> String {
    let Some(diag) = diags.first() else { return String::new() };
    let place =
        diag.primary.as_ref().map_or_else(String::new, |label| format!("{}-{}", label.span.start, label.span.end));
    let mut lines = vec![diag.code.to_owned(), place, one_line(&diag.message)];
    lines.extend(diag.notes.iter().map(|note| one_line(note)));
    lines.join("\n")
}

fn one_line(text: &str) -> String {
    text.replace('\n', " ")
}

/// The failure that another process reported; all processes have the same text, so its location is valid here.
fn reported_failure(rank: u32, why: &str) -> Diag {
    let mut lines = why.lines();
    let (code, place) = (lines.next().unwrap_or("?"), lines.next().unwrap_or(""));
    let message = lines.next().unwrap_or("it reported no reason");
    let mut diag = Diag::global_error(codes::PROCESS, message!("rank {} failed with {}: {}", rank, code, message));
    let ends = place.split_once('-').map(|(start, end)| (start.parse(), end.parse()));
    if let Some((Ok(start), Ok(end))) = ends {
        let text = message!("rank {} failed here", rank);
        diag.primary = Some(DiagLabel { span: Span { start, end }, text });
    }
    lines.fold(diag, |diag, note| diag.with_note(note))
}

/// Completes a step on all processes: a failure here is reported to the others, and a failure there is returned.
/// Without a control plane the result is returned unchanged.
///
/// # Errors
/// This process's own error, or one ([`codes::PROCESS`] or [`codes::PROCESS_LATE`]) about the others.
pub fn agree_on_step<T>(
    control_plane: Option<&dyn ControlPlane>,
    what: &str,
    result: Result<T, Vec<Diag>>,
) -> Result<T, Vec<Diag>> {
    let Some(control_plane) = control_plane else { return result };
    match result {
        Ok(value) => {
            control_plane.all_gather(what, &[]).map_err(|error| vec![error.diag()])?;
            Ok(value)
        }
        Err(diags) => {
            // All processes already know an error that came from a peer.
            if !diags.first().is_some_and(is_known_to_all) {
                control_plane.report_failure(&failure_report(&diags));
            }
            Err(diags)
        }
    }
}

/// Checks that the number of processes is the program's number of ranks.
///
/// # Errors
/// If there is a control plane, and not one process for each rank.
pub fn check_process_count(
    prepared: &PreparedProgram,
    control_plane: Option<&dyn ControlPlane>,
) -> Result<(), Vec<Diag>> {
    let Some(control_plane) = control_plane else { return Ok(()) };
    let (world, ranks) = (control_plane.world_size(), prepared.plans.len());
    if world as usize == ranks {
        return Ok(());
    }
    if prepared.unlowered {
        let message = message!(
            "{} processes were started, but the program is not lowered: it runs in one process on whole tensors",
            world
        );
        return Err(vec![Diag::global_error(codes::WORLD, message).with_note(
            "lower the program for its devices (`hir-opt --pass=host-ir-lower`), or run it in one process",
        )]);
    }
    let message = message!("{} processes were started, but the program has {}", world, count_text(ranks, "rank"));
    Err(vec![Diag::global_error(codes::WORLD, message).with_note(message!(
        "start {}, or change the program's meshes (`hir-opt --pass=resize-mesh{{devices={}}}`)",
        count_text(ranks, "process"),
        world
    ))])
}

/// A control plane between threads of one process, for tests and for callers that start one thread for each rank.
pub struct ThreadControlPlane {
    rank: u32,
    world: u32,
    timeout: Duration,
    shared: Arc<SharedRound>,
}

#[derive(Default)]
struct SharedRound {
    state: Mutex<GatherRound>,
    changed: Condvar,
}

/// The state of the gathers: the open step, and the last completed one.
#[derive(Default)]
struct GatherRound {
    what: String,
    messages: Vec<Option<Vec<u8>>>,
    rounds: u64,
    ended: Vec<Vec<u8>>,
    failed: Option<ControlPlaneError>,
}

impl ThreadControlPlane {
    /// Makes the control planes of `world` ranks, which wait up to `timeout` for each other.
    pub fn new(world: u32, timeout: Duration) -> Vec<Self> {
        let shared = Arc::new(SharedRound::default());
        shared.lock_round().messages = vec![None; world as usize];
        (0..world).map(|rank| Self { rank, world, timeout, shared: shared.clone() }).collect()
    }
}

impl SharedRound {
    fn lock_round(&self) -> MutexGuard<'_, GatherRound> {
        // A thread that panicked left no partial change: every change is one assignment.
        self.state.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

impl GatherRound {
    /// Adds a message; the last of a step ends it.
    fn add_message(&mut self, rank: u32, what: &str, message: &[u8]) -> Result<(), ControlPlaneError> {
        if self.messages.iter().all(Option::is_none) {
            what.clone_into(&mut self.what);
        }
        if self.what != what {
            let why = format!("rank {rank} is at the step `{what}`, but other ranks are at `{}`", self.what);
            return Err(ControlPlaneError::Broken { why });
        }
        if let Some(place) = self.messages.get_mut(rank as usize) {
            *place = Some(message.to_vec());
        }
        if self.messages.iter().all(Option::is_some) {
            self.ended = self.messages.iter_mut().filter_map(Option::take).collect();
            self.rounds += 1;
        }
        Ok(())
    }

    fn absent_ranks(&self) -> Vec<u32> {
        let absent = self.messages.iter().enumerate().filter(|(_, message)| message.is_none());
        absent.map(|(rank, _)| rank as u32).collect()
    }
}

impl ControlPlane for ThreadControlPlane {
    fn rank(&self) -> u32 {
        self.rank
    }
    fn world_size(&self) -> u32 {
        self.world
    }
    fn host_name(&self) -> String {
        "this process".to_owned()
    }
    fn all_gather(&self, what: &str, message: &[u8]) -> Result<Vec<Vec<u8>>, ControlPlaneError> {
        let deadline = Instant::now() + self.timeout;
        let mut state = self.shared.lock_round();
        let round = state.rounds;
        state.add_message(self.rank, what, message)?;
        self.shared.changed.notify_all();
        while state.rounds == round {
            if let Some(error) = &state.failed {
                return Err(error.clone());
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                let (ranks, timeout) = (state.absent_ranks(), self.timeout);
                return Err(ControlPlaneError::Late { ranks, what: what.to_owned(), timeout });
            }
            let waited = self.shared.changed.wait_timeout(state, left);
            state = waited.unwrap_or_else(std::sync::PoisonError::into_inner).0;
        }
        Ok(state.ended.clone())
    }
    fn report_failure(&self, why: &str) {
        let error = ControlPlaneError::Failed { rank: self.rank, why: why.to_owned() };
        self.shared.lock_round().failed.get_or_insert(error);
        self.shared.changed.notify_all();
    }
    fn peer_failure(&self) -> Option<ControlPlaneError> {
        self.shared.lock_round().failed.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: Duration = Duration::from_secs(30);

    /// Calls `work` on every rank; returns the results by rank.
    fn on_all<T: Send>(world: u32, timeout: Duration, work: impl Fn(&ThreadControlPlane) -> T + Sync) -> Vec<T> {
        let ranks = ThreadControlPlane::new(world, timeout);
        std::thread::scope(|scope| {
            let threads: Vec<_> = ranks.iter().map(|rank| scope.spawn(|| work(rank))).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        })
    }

    #[test]
    fn gathers_in_rank_order_round_after_round() {
        let found = on_all(3, LONG, |rank| {
            let mut seen = Vec::new();
            for round in 0..50u8 {
                seen.push(rank.all_gather("step", &[round, rank.rank() as u8]).unwrap());
            }
            seen
        });
        let expected: Vec<Vec<Vec<u8>>> = (0..50).map(|round| (0..3).map(|rank| vec![round, rank]).collect()).collect();
        assert!(found.iter().all(|seen| *seen == expected));
    }

    #[test]
    fn an_error_of_one_rank_is_the_error_of_all() {
        let found = on_all(3, LONG, |rank| {
            let span = Span { start: 7, end: 9 };
            let full = || Diag::error("H0521", span, "no device memory").with_note("rank 1, in `Set`");
            let result = if rank.rank() == 1 { Err(vec![full()]) } else { Ok(()) };
            agree_on_step(Some(rank), "load", result).unwrap_err().remove(0)
        });
        assert_eq!((found[1].code, found[1].message.as_str()), ("H0521", "no device memory"));
        for other in [&found[0], &found[2]] {
            assert_eq!(other.code, "H0530");
            assert_eq!(other.message, "rank 1 failed with H0521: no device memory");
            assert_eq!(other.notes, ["rank 1, in `Set`"]);
            assert_eq!(other.primary.as_ref().unwrap().span, Span { start: 7, end: 9 });
        }
    }

    #[test]
    fn a_rank_that_does_not_come_is_named() {
        let found = on_all(3, Duration::from_millis(50), |rank| match rank.rank() {
            0 => Some(rank.all_gather("connect", &[]).unwrap_err().diag()),
            _ => None,
        });
        let diag = found[0].clone().unwrap();
        assert_eq!(diag.code, "H0531");
        assert_eq!(diag.message, "ranks 1 and 2 did not reach the step `connect` within 50 ms");
    }

    #[test]
    fn ranks_at_different_steps_are_told() {
        let found = on_all(2, LONG, |rank| {
            let what = if rank.rank() == 0 { "load" } else { "tune" };
            rank.all_gather(what, &[])
                .inspect_err(|error| rank.report_failure(&failure_report(&[error.diag()])))
                .unwrap_err()
        });
        let broken = found.iter().find(|error| matches!(error, ControlPlaneError::Broken { .. }));
        assert_eq!(broken.unwrap().diag().code, "H0532");
        assert!(found.iter().any(|error| matches!(error, ControlPlaneError::Failed { .. })));
    }

    #[test]
    fn reports_of_others_may_be_anything() {
        for why in ["", "\n\n\n", "H0521", "H0521\n3-x\nfull", "H0521\n99999999999-4"] {
            let diag = ControlPlaneError::Failed { rank: 3, why: why.to_owned() }.diag();
            assert!(diag.message.starts_with("rank 3 failed"), "{}", diag.message);
            assert_eq!(diag.primary, None);
        }
        let lost = ControlPlaneError::Lost { rank: 2, how: "its connection closed".to_owned() };
        assert_eq!(lost.diag().message, "rank 2 is lost: its connection closed");
    }

    #[test]
    fn alone_nothing_is_asked() {
        assert_eq!(agree_on_step(None, "load", Ok(1)), Ok(1));
    }
}
