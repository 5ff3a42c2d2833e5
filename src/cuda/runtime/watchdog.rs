//! The watchdog's view of runs: whether they end, and where they are, for a thread that can end the process.
//!
//! A rank checks its deadline between driver calls. It cannot check during a call that never returns, and a thread in
//! such a call cannot be ended. Ranks therefore publish the start time of their runs and their location, where
//! another thread can read both.

use hostir::diag::message;
use hostir::diag::{Cause, Diag, DiagLabel};
use hostir::ir::Id;
use hostir::lower::PreparedProgram;
use hostir::plan::InstId;
use hostir::plan::Plan;
use hostir::plan_checks::{RankPosition, RankProgress};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};

/// The runs of all ranks of the programs that were loaded with it.
#[derive(Debug)]
pub struct RunWatchdog {
    zero: Instant,
    ranks: Mutex<Vec<Weak<WatchedState>>>,
    programs: AtomicUsize,
    /// Milliseconds during which the process was suspended, as far as the watchdog knows.
    suspended: AtomicU64,
}

/// The state that a rank publishes for the watchdog.
#[derive(Debug)]
struct WatchedState {
    program: usize,
    rank: u32,
    /// The start of its run, in active milliseconds since the watchdog's start; 0 without a run.
    began: AtomicU64,
    /// The instruction that it issues or failed in, or [`UNKNOWN`].
    inst: AtomicUsize,
}

const UNKNOWN: usize = usize::MAX;

impl Default for RunWatchdog {
    fn default() -> Self {
        let (programs, suspended) = (AtomicUsize::default(), AtomicU64::default());
        Self { zero: Instant::now(), ranks: Mutex::default(), programs, suspended }
    }
}

impl RunWatchdog {
    /// Returns true if a run has exceeded `limit` and was not cleared away after a failure. Time during which the
    /// process was suspended does not count ([`RunWatchdog::note_suspension`]).
    pub fn is_hung(&self, limit: Duration) -> bool {
        let now = self.elapsed_ms();
        self.open_runs().iter().any(|rank| {
            let began = rank.began.load(Ordering::Acquire);
            u128::from(now.saturating_sub(began)) > limit.as_millis()
        })
    }

    /// Records that the watchdog did not run for this long: the process was suspended, and its ranks did not run
    /// either.
    pub fn note_suspension(&self, gap: Duration) {
        self.suspended.fetch_add(u64::try_from(gap.as_millis()).unwrap_or(u64::MAX), Ordering::AcqRel);
    }

    /// Whether a run is in flight.
    pub fn has_open_runs(&self) -> bool {
        !self.open_runs().is_empty()
    }

    /// Returns the known locations of the ranks that have not ended their run, or have failed in it.
    pub fn rank_locations(&self) -> Vec<RankLocation> {
        let ranks = self.live_ranks();
        let mut places: Vec<RankLocation> = ranks.iter().filter_map(|rank| rank_location(rank)).collect();
        places.sort_by_key(|place| (place.program, place.rank));
        places
    }

    /// Ranks with a run in flight.
    fn open_runs(&self) -> Vec<Arc<WatchedState>> {
        let mut ranks = self.live_ranks();
        ranks.retain(|rank| rank.began.load(Ordering::Acquire) != 0);
        ranks
    }

    fn live_ranks(&self) -> Vec<Arc<WatchedState>> {
        let mut ranks = self.ranks.lock().unwrap_or_else(PoisonError::into_inner);
        ranks.retain(|rank| rank.strong_count() > 0);
        ranks.iter().filter_map(Weak::upgrade).collect()
    }

    /// Active milliseconds, never 0.
    fn elapsed_ms(&self) -> u64 {
        let elapsed = u64::try_from(self.zero.elapsed().as_millis()).unwrap_or(u64::MAX);
        elapsed.saturating_sub(self.suspended.load(Ordering::Acquire)).saturating_add(1)
    }

    /// The number of one more program.
    pub(crate) fn register_program(&self) -> usize {
        self.programs.fetch_add(1, Ordering::Relaxed)
    }

    /// Registers one more rank of a program, which is idle.
    pub(crate) fn register_rank(self: &Arc<Self>, program: usize, rank: u32) -> WatchedRank {
        let (began, inst) = (AtomicU64::default(), AtomicUsize::new(UNKNOWN));
        let state = Arc::new(WatchedState { program, rank, began, inst });
        let mut ranks = self.ranks.lock().unwrap_or_else(PoisonError::into_inner);
        ranks.push(Arc::downgrade(&state));
        WatchedRank { watchdog: self.clone(), state }
    }
}

fn rank_location(rank: &WatchedState) -> Option<RankLocation> {
    let inst = rank.inst.load(Ordering::Acquire);
    (inst != UNKNOWN).then(|| RankLocation { program: rank.program, rank: rank.rank, inst: InstId::new(inst) })
}

/// The location of a rank in its program.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RankLocation {
    /// The number of the program among those that were loaded with this watchdog, from 0 on.
    pub program: usize,
    /// The rank.
    pub rank: u32,
    inst: InstId,
}

impl RankLocation {
    /// The location as a position for a report of all ranks.
    pub fn rank_position(self) -> RankPosition {
        RankPosition { rank: self.rank, progress: RankProgress::At(self.inst) }
    }
    /// Adds to a diagnostic of this program the rank's location: its op and iteration.
    pub fn annotate_diag(self, diag: Diag, prepared: &PreparedProgram) -> Diag {
        match prepared.plans.iter().find(|plan| plan.rank == self.rank) {
            Some(plan) => note_location(diag, self.inst, prepared, plan),
            None => diag,
        }
    }
}

/// Adds to a diagnostic the instruction in which a rank gave up.
pub(crate) fn note_location(mut diag: Diag, inst: InstId, prepared: &PreparedProgram, plan: &Plan) -> Diag {
    let Some(inst) = plan.find_inst(inst) else { return diag };
    let text = message!("rank {} was here", plan.rank);
    let span = prepared.labels.op_span(inst.origin.op);
    match &mut diag.primary {
        Some(_) => diag.labels.push(DiagLabel { span, text }),
        primary => *primary = Some(DiagLabel { span, text }),
    }
    let place = prepared.labels.origin_text(plan, inst.origin);
    let aborted = message!("rank {} aborted in {}", plan.rank, place);
    diag.with_note(aborted.clone()).with_cause(Cause::Aborted(aborted))
}

/// A rank's part of a watch.
#[derive(Debug)]
pub(crate) struct WatchedRank {
    watchdog: Arc<RunWatchdog>,
    state: Arc<WatchedState>,
}

impl WatchedRank {
    /// A run begins.
    pub(crate) fn begin_run(&self) {
        self.state.began.store(self.watchdog.elapsed_ms(), Ordering::Release);
    }

    /// Publishes the instruction that the rank issues or fails in; `None` if it is not known.
    pub(crate) fn set_inst(&self, inst: Option<InstId>) {
        self.state.inst.store(inst.map_or(UNKNOWN, Id::index), Ordering::Release);
    }

    /// All runs have ended.
    pub(crate) fn end_runs(&self) {
        self.set_inst(None);
        self.end_failed_run();
    }

    /// Publishes that the failed run is cleared away; its location stays known.
    pub(crate) fn end_failed_run(&self) {
        self.state.began.store(0, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_began_and_did_not_end_is_stuck() {
        let watchdog = Arc::new(RunWatchdog::default());
        let (first, second) = (watchdog.register_rank(0, 0), watchdog.register_rank(0, 1));
        let limit = Duration::from_millis(20);
        first.begin_run();
        second.begin_run();
        assert!(!watchdog.is_hung(Duration::from_secs(60)));
        second.end_runs();
        std::thread::sleep(Duration::from_millis(40));
        assert!(watchdog.is_hung(limit));
        first.begin_run();
        assert!(!watchdog.is_hung(limit));
        first.end_runs();
        std::thread::sleep(Duration::from_millis(40));
        assert!(!watchdog.is_hung(limit));
        second.begin_run();
        drop(second);
        std::thread::sleep(Duration::from_millis(40));
        assert!(!watchdog.is_hung(limit), "a rank that is gone is no run");
    }

    #[test]
    fn a_suspension_is_no_part_of_a_run() {
        let watchdog = Arc::new(RunWatchdog::default());
        let rank = watchdog.register_rank(0, 0);
        rank.begin_run();
        let pause = Duration::from_millis(60);
        std::thread::sleep(pause);
        assert!(watchdog.is_hung(pause / 2));
        watchdog.note_suspension(pause);
        assert!(!watchdog.is_hung(pause / 2));
    }

    const COPY: &str = "%HostIrContainer { (T0_g_float[iS0{4}]) -> (T1_g_float[iS1{4}]) :
  T1_g_float[iS1{4}] = Set( T0_g_float[iS0{4}], cache_op=Streaming )
} // %HostIrContainer
";

    #[test]
    fn places_of_runs_under_way() {
        let watchdog = Arc::new(RunWatchdog::default());
        let program = (watchdog.register_program(), watchdog.register_program()).1;
        let (first, second) = (watchdog.register_rank(program, 0), watchdog.register_rank(program, 1));
        assert!(!watchdog.has_open_runs() && watchdog.rank_locations().is_empty(), "no run is under way");
        first.begin_run();
        second.begin_run();
        first.set_inst(Some(InstId(0)));
        let place = RankLocation { program: 1, rank: 0, inst: InstId(0) };
        assert_eq!(watchdog.rank_locations(), [place], "one rank does not know");
        first.end_failed_run();
        second.end_runs();
        assert_eq!(
            (watchdog.has_open_runs(), watchdog.rank_locations()),
            (false, vec![place]),
            "a failure stays known"
        );
        let (programs, _) = hostir::load(COPY);
        let prepared = hostir::lower::prepare_program(&programs[0], &hostir::lower::SizeSettings::default()).unwrap();
        let diag = place.annotate_diag(Diag::global_error("H0501", "lost"), &prepared);
        let label = diag.primary.unwrap();
        assert_eq!(
            (label.span.start, label.text.as_str()),
            (COPY.find("T1_g_float[iS1{4}] =").unwrap() as u32, "rank 0 was here")
        );
        assert_eq!(diag.notes, ["rank 0 aborted in `T1 = Set`"]);
        first.end_runs();
        assert_eq!(watchdog.rank_locations(), []);
    }
}
