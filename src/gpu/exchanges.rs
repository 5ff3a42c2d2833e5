//! Complete exchanges: sends of a stream that may all wait until every receiver is ready, and start together.
//!
//! In a complete exchange each rank of a team receives from all others and then sends to all others, on one stream:
//!
//! ```text
//! receives from all others; work, and sends to all others (put); waits for the receives, on the same stream
//! ```
//!
//! The plan lets the first send start before the second receiver is ready. If instead all sends of each rank wait for
//! all receivers, nothing can block that did not before: nothing of a stream's work from its first receive to its last
//! send waits for another rank, but for the receivers; and what comes after any of the sends, on its own stream or
//! after a wait for its receive, comes after the last send of some rank, for which all ranks had to reach their
//! receives anyway.

use crate::codegen::wgmma_gemm::MOST_PARTS;
use hostir::ir::MessageDirection;
use hostir::plan::{Inst, InstId, InstKind, MatchedMessage, MessageHeader, Plan, RankInst, StreamSlot, WorkSlot};
use rustc_hash::FxHashMap;
use std::collections::{BTreeMap, BTreeSet};

/// The receives and sends of a rank that follow each other on a stream.
#[derive(Default, Debug)]
struct MessageRun {
    receives: Vec<InstId>,
    sends: Vec<InstId>,
    /// The handles of the receives.
    arrivals: Vec<WorkSlot>,
    /// The handles of the sends, for which the stream need not wait.
    departures: Vec<WorkSlot>,
}

impl MessageRun {
    fn is_two_sided(&self) -> bool {
        !self.sends.is_empty() && !self.receives.is_empty()
    }
}

/// The runs of all ranks, and which of them exchange messages.
struct RunLinks {
    runs: Vec<(u32, MessageRun)>,
    /// By run: the runs to which it sends.
    targets: Vec<BTreeSet<usize>>,
    /// By run: the runs from which it receives.
    sources: Vec<BTreeSet<usize>>,
}

impl RunLinks {
    fn new(plans: &[Plan], messages: &[MatchedMessage]) -> Self {
        let mut runs = Vec::new();
        for plan in plans {
            runs.extend(message_runs(plan).into_iter().map(|run| (plan.rank, run)));
        }
        let mut run_of: BTreeMap<RankInst, usize> = BTreeMap::new();
        for (number, (rank, run)) in runs.iter().enumerate() {
            let insts = run.receives.iter().chain(&run.sends);
            run_of.extend(insts.map(|inst| (RankInst { rank: *rank, inst: *inst }, number)));
        }
        let [mut targets, mut sources] = [vec![BTreeSet::new(); runs.len()], vec![BTreeSet::new(); runs.len()]];
        for message in messages.iter().filter(|message| message.put) {
            if let (Some(&from), Some(&to)) = (run_of.get(&message.send), run_of.get(&message.receive)) {
                targets[from].insert(to);
                sources[to].insert(from);
            }
        }
        Self { runs, targets, sources }
    }

    /// The runs to which a run sends, and itself.
    fn team(&self, number: usize) -> BTreeSet<usize> {
        self.targets[number].iter().copied().chain([number]).collect()
    }

    /// True if a run sends one message to each of the runs from which it receives one, and has no others.
    fn is_symmetric(&self, number: usize) -> bool {
        let (run, targets, sources) = (&self.runs[number].1, &self.targets[number], &self.sources[number]);
        run.sends.len() == targets.len() && run.receives.len() == sources.len() && targets == sources
    }

    /// True if each run of the team exchanges messages with all others of it. Larger teams than a launch has parts are
    /// of no use.
    fn is_complete(&self, number: usize) -> bool {
        if self.targets[number].len() >= MOST_PARTS as usize {
            return false;
        }
        let team = self.team(number);
        team.len() > 1 && team.iter().all(|&other| self.is_symmetric(other) && self.team(other) == team)
    }
}

/// The sends of all complete exchanges, each with the first send of its rank in the exchange.
pub(crate) fn complete_exchanges(plans: &[Plan], messages: &[MatchedMessage]) -> BTreeMap<RankInst, InstId> {
    let links = RunLinks::new(plans, messages);
    let mut found = BTreeMap::new();
    for (number, (rank, run)) in links.runs.iter().enumerate() {
        if links.is_complete(number) {
            found.extend(run.sends.iter().map(|&inst| (RankInst { rank: *rank, inst }, run.sends[0])));
        }
    }
    found
}

/// The runs of a plan: receives, then sends, with nothing on their stream that waits or that another stream waits for.
fn message_runs(plan: &Plan) -> Vec<MessageRun> {
    let mut open: BTreeMap<StreamSlot, MessageRun> = BTreeMap::new();
    let mut closed: Vec<(StreamSlot, MessageRun)> = Vec::new();
    // By handle: the streams that wait for it.
    let mut waits: FxHashMap<WorkSlot, Vec<StreamSlot>> = FxHashMap::default();
    for (at, inst) in plan.cursor() {
        if let Some(work) = inst.kind.awaited_work() {
            waits.entry(work).or_default().push(inst.stream);
        }
        let run = open.remove(&inst.stream);
        let (ended, run) = continue_run(run, at, &inst);
        closed.extend(ended.map(|run| (inst.stream, run)));
        if let Some(run) = run {
            open.insert(inst.stream, run);
        }
    }
    closed.extend(open);
    closed.retain(|(stream, run)| {
        let mut streams = run.arrivals.iter().chain(&run.departures).filter_map(|work| waits.get(work)).flatten();
        run.is_two_sided() && streams.all(|waiting| waiting == stream)
    });
    closed.into_iter().map(|(_, run)| run).collect()
}

/// The run that ends in front of an instruction, and the one that includes it.
fn continue_run(run: Option<MessageRun>, at: InstId, inst: &Inst) -> (Option<MessageRun>, Option<MessageRun>) {
    match &inst.kind {
        InstKind::Message { header: MessageHeader { direction, comm: None, work, .. }, .. } => {
            let is_receive = *direction == MessageDirection::Recv;
            if inst.kind.initiates_transfer() == is_receive {
                return (run, None);
            }
            let begins = is_receive && run.as_ref().is_none_or(|run| !run.sends.is_empty());
            let (ended, mut run) = if begins { (run, Some(MessageRun::default())) } else { (None, run) };
            if let Some(run) = &mut run {
                let (insts, works) = match is_receive {
                    true => (&mut run.receives, &mut run.arrivals),
                    false => (&mut run.sends, &mut run.departures),
                };
                insts.push(at);
                works.push(*work);
            }
            (ended, run)
        }
        InstKind::WaitWork { work } if run.as_ref().is_some_and(|run| run.departures.contains(work)) => (None, run),
        InstKind::Record { .. } if run.as_ref().is_some_and(|run| run.sends.is_empty()) => (None, run),
        kind if kind.is_local() => (None, run),
        _ => (run, None),
    }
}
