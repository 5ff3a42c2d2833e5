//! Iterations of a loop that run one after another although they are on different streams.
//!
//! If a loop forks to another stream and joins it in the same iteration, the next iteration's fork waits for everything
//! that the join waited for. A scan of each plan finds such Synchronize ops ([`find_chained_waits`]). Their order is
//! unnecessary if the program remains right without it: each of them then waits, in every iteration, only for the work
//! that its first iteration waits for, and the two iterations may overlap.

use super::happens_before::{
    AccessEnd, MemoryAccess, OrderObserver, VectorClock, WaitInst, WalkOutcome, WalkedEnds, walk_order,
};
use super::races::MemoryObserver;
use crate::diag::message;
use crate::diag::{Diag, codes};
use crate::ir::{Id, OpId, Symbol, bare_head};
use crate::lower::PreparedProgram;
use crate::plan::{EventId, Inst, InstId, InstKind, Plan, PlanMatching, StreamSlot};
use rustc_hash::{FxHashMap, FxHashSet};
use std::rc::Rc;

/// The most ops that are tried one by one.
const MOST_OPS: usize = 8;

/// The warnings for loops whose iterations serialise without need; one for each Synchronize that chains them.
pub(super) fn check_serial_loops(prepared: &PreparedProgram) -> Vec<Diag> {
    let chained = find_chained_waits(&prepared.plans);
    let mut ops: Vec<OpId> = chained.iter().map(|wait| wait.op).collect();
    ops.sort_unstable();
    ops.dedup();
    let needless = match ops.len() {
        0 => return Vec::new(),
        _ => needless_waits(prepared, &chained, &ops),
    };
    let found = needless.unwrap_or_else(|| {
        let each = ops.iter().take(MOST_OPS).filter(|_| ops.len() > 1);
        each.filter_map(|&op| needless_waits(prepared, &chained, &[op])).flatten().collect()
    });
    let mut known: FxHashSet<OpId> = FxHashSet::default();
    found.iter().filter(|wait| known.insert(wait.op)).map(|wait| describe_chain(prepared, wait)).collect()
}

/// A Synchronize of an iteration that comes after the work of the previous iteration on another stream.
#[derive(Clone, Copy, Debug)]
struct ChainedWait {
    /// The place of the rank.
    rank: usize,
    /// The Synchronize.
    op: OpId,
    /// Its wait.
    wait: InstId,
    /// The wait in the previous iteration before the end of the other stream; `None` if the Synchronize names that.
    join: Option<InstId>,
    /// The last work of the iteration before.
    earlier: InstId,
    /// The first work of this iteration after the Synchronize.
    later: InstId,
}

/// By stream of a rank: the last work before a point of a stream.
#[derive(Clone, Default, Debug)]
struct KnownWork {
    work: Vec<Option<InstId>>,
    /// By stream: the wait that brought the order.
    through: Vec<Option<InstId>>,
}

/// The wait of an op in the last iteration that contains it.
#[derive(Clone, Copy)]
struct LastWait {
    wait: InstId,
    stream: StreamSlot,
}

/// The loop around an op: the indices of outer loops with their values, and the name of its own.
type LoopKey<'p> = (OpId, &'p [(Symbol, i64)], Symbol);

/// Follows the streams of one rank in issue order.
struct ChainScan<'p> {
    plan: &'p Plan,
    rank: usize,
    streams: Vec<KnownWork>,
    events: FxHashMap<EventId, Rc<(StreamSlot, KnownWork)>>,
    last_waits: FxHashMap<LoopKey<'p>, LastWait>,
    /// By stream: chained waits without work after them so far.
    open: Vec<Vec<ChainedWait>>,
    found: Vec<ChainedWait>,
}

/// The Synchronize ops that chain an iteration to the previous one on another stream; one for each op and rank.
fn find_chained_waits(plans: &[Plan]) -> Vec<ChainedWait> {
    plans.iter().enumerate().flat_map(|(rank, plan)| ChainScan::new(rank, plan).scan_plan()).collect()
}

impl<'p> ChainScan<'p> {
    fn new(rank: usize, plan: &'p Plan) -> Self {
        let count = plan.streams as usize;
        let known = KnownWork { work: vec![None; count], through: vec![None; count] };
        Self {
            plan,
            rank,
            streams: vec![known; count],
            events: FxHashMap::default(),
            last_waits: FxHashMap::default(),
            open: vec![Vec::new(); count],
            found: Vec::new(),
        }
    }

    fn scan_plan(mut self) -> Vec<ChainedWait> {
        for (id, inst) in self.plan.cursor() {
            match &inst.kind {
                InstKind::Record { event } => {
                    let known = self.streams[inst.stream.index()].clone();
                    self.events.insert(*event, Rc::new((inst.stream, known)));
                }
                InstKind::WaitEvent { event } => self.take_wait(id, &inst, *event),
                kind if kind.is_work() => self.take_work(id, &inst),
                _ => {}
            }
        }
        self.found
    }

    fn take_work(&mut self, id: InstId, inst: &Inst) {
        let stream = inst.stream.index();
        self.streams[stream].work[stream] = Some(id);
        let row = self.plan.iteration_of(inst.origin);
        for wait in self.open[stream].drain(..) {
            let around = self.plan.iteration_of(self.plan.inst(wait.wait).origin);
            if row.starts_with(around) {
                self.found.push(ChainedWait { later: id, ..wait });
            }
        }
    }

    fn take_wait(&mut self, id: InstId, inst: &Inst, event: EventId) {
        let Some(state) = self.events.get(&event).cloned() else { return };
        self.find_chain(id, inst, &state.1);
        let own = &mut self.streams[inst.stream.index()];
        for stream in 0..own.work.len() {
            if own.work[stream] < state.1.work[stream] {
                own.work[stream] = state.1.work[stream];
                own.through[stream] = Some(id);
            }
        }
    }

    /// Records the wait if the event orders it after work of the previous iteration on the stream that this iteration
    /// used.
    fn find_chain(&mut self, id: InstId, inst: &Inst, known: &KnownWork) {
        let row = self.plan.iteration_of(inst.origin);
        let Some(((index, _), outer)) = row.split_last() else { return };
        let last = LastWait { wait: id, stream: inst.stream };
        let Some(before) = self.last_waits.insert((inst.origin.op, outer, *index), last) else { return };
        let Some(earlier) = known.work[before.stream.index()] else { return };
        let of_before = self.plan.iteration_of(self.plan.inst(before.wait).origin);
        let is_in_iteration =
            earlier > before.wait && self.plan.iteration_of(self.plan.inst(earlier).origin).starts_with(of_before);
        if before.stream == inst.stream || !is_in_iteration {
            return;
        }
        let own = self.streams[inst.stream.index()].work[before.stream.index()];
        if own < Some(earlier) {
            let (rank, op, join) = (self.rank, inst.origin.op, known.through[before.stream.index()]);
            let chained = ChainedWait { rank, op, wait: id, join, earlier, later: id };
            self.open[inst.stream.index()].push(chained);
        }
    }
}

/// The chained waits of these ops without which their iterations overlap; `None` if the program is wrong without them.
fn needless_waits(prepared: &PreparedProgram, chained: &[ChainedWait], ops: &[OpId]) -> Option<Vec<ChainedWait>> {
    let plans: Vec<Plan> = prepared.plans.iter().map(|plan| wait_for_first(plan, ops)).collect();
    let matching = PlanMatching::new(&plans);
    let pairs = chained.iter().filter(|wait| ops.contains(&wait.op)).copied();
    let mut observer = OverlapObserver {
        memory: MemoryObserver::new(&plans),
        by_later: FxHashMap::default(),
        by_earlier: FxHashMap::default(),
        overlapping: Vec::new(),
    };
    for wait in pairs {
        observer.by_later.entry((wait.rank, wait.later)).or_default().push(wait);
        observer.by_earlier.insert((wait.rank, wait.earlier), None);
    }
    if walk_order(&plans, &matching, &mut observer) == WalkOutcome::Blocked {
        return None;
    }
    observer.memory.check_outputs(&prepared.outputs[..prepared.results]);
    observer.memory.findings.is_empty().then_some(observer.overlapping)
}

/// The plan in which these ops wait, in all iterations of a loop, only for the work that the first iteration waits for.
fn wait_for_first(plan: &Plan, ops: &[OpId]) -> Plan {
    let mut first: FxHashMap<LoopKey<'_>, EventId> = FxHashMap::default();
    let insts = plan.cursor().map(|(_, inst)| {
        let InstKind::WaitEvent { event } = &inst.kind else { return inst.into_owned() };
        let row = plan.iteration_of(inst.origin);
        match row.split_last() {
            Some(((index, _), outer)) if ops.contains(&inst.origin.op) => {
                let event = *first.entry((inst.origin.op, outer, *index)).or_insert(*event);
                Inst { kind: InstKind::WaitEvent { event }, ..inst.into_owned() }
            }
            _ => inst.into_owned(),
        }
    });
    let insts = insts.collect();
    plan.clone().with_insts(insts)
}

/// Searches races, and records the pairs of work without order.
struct OverlapObserver<'p> {
    memory: MemoryObserver<'p>,
    by_later: FxHashMap<(usize, InstId), Vec<ChainedWait>>,
    /// The ends of the earlier work, once the walk has reached them.
    by_earlier: FxHashMap<(usize, InstId), Option<AccessEnd>>,
    overlapping: Vec<ChainedWait>,
}

impl OrderObserver for OverlapObserver<'_> {
    fn observe_accesses(&mut self, ends: &WalkedEnds, accesses: &[MemoryAccess<'_>], clock: &mut VectorClock) {
        for access in accesses.iter().take(1) {
            let key = (access.rank, access.inst);
            for wait in self.by_later.get(&key).into_iter().flatten() {
                let earlier = self.by_earlier.get(&(wait.rank, wait.earlier)).copied().flatten();
                if !earlier.is_some_and(|end| ends.is_after(clock, end)) {
                    self.overlapping.push(*wait);
                }
            }
            if let Some(end) = self.by_earlier.get_mut(&key) {
                *end = Some(access.end);
            }
        }
        self.memory.observe_accesses(ends, accesses, clock);
    }

    fn observe_wait(&mut self, wait: WaitInst) {
        self.memory.observe_wait(wait);
    }

    fn observe_end(&mut self, ends: &WalkedEnds, rank: usize, clock: &VectorClock) {
        self.memory.observe_end(ends, rank, clock);
    }
}

/// The warning for a Synchronize that chains iterations.
fn describe_chain(prepared: &PreparedProgram, chain: &ChainedWait) -> Diag {
    let (labels, plan) = (&prepared.labels, &prepared.plans[chain.rank]);
    let wait = plan.inst(chain.wait);
    let row = plan.iteration_of(wait.origin);
    let (earlier, later) = (plan.inst(chain.earlier), plan.inst(chain.later));
    let place = |stream: StreamSlot| labels.stream_text(plan, stream);
    let message = "iterations of this loop run one after another although they are on different streams";
    let waits = format!("at {}, {} waits here", labels.iteration_text(row), place(wait.stream));
    let mut diag = Diag::error(codes::SERIAL_LOOP, labels.op_span(wait.origin.op), message).into_warning();
    diag = match chain.join.map(|join| plan.inst(join)) {
        Some(join) => {
            let before = labels.iteration_text(plan.iteration_of(join.origin));
            let forked = place(join.stream);
            diag.with_primary_text(message!("{} for {} ...", waits, forked)).with_label(
                labels.op_span(join.origin.op),
                message!("... which has waited here for the work of {}", before),
            )
        }
        None => diag
            .with_primary_text(message!("{} for {}", waits, place(earlier.stream)))
            .with_label(labels.op_span(earlier.origin.op), "which does this in the iteration before"),
    };
    let diag = diag.with_note(message!(
        "on rank {}, {} comes after {}, and no data needs this order",
        plan.rank,
        labels.origin_text(plan, later.origin),
        labels.origin_text(plan, earlier.origin)
    ));
    match chain.join {
        Some(_) => diag.with_note(message!("fork first and join last: move this {}, with its {}, to a loop of its own before this loop, and the other one to a loop of its own after it", bare_head("Synchronize"), bare_head("SetCurrentStream"))),
        None => diag.with_note("wait only for the work whose results this iteration uses"),
    }
}
