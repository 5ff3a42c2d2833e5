//! The work of a run in one line: kernels, communications, loop steps, streams, bytes.

use super::quantities::{count, size};
use hostir::backend::Stats;
use hostir::plan::Prepared;
use hostir::plan::{InstKind, Plan};
use std::collections::BTreeSet;

/// `hir-run: each rank ran 4 matmuls, 3 sends and 3 receives in 4 loop steps on 4 streams; ...`
pub(super) fn summarize_work(prepared: &Prepared, stats: Stats) -> String {
    let of_ranks: Vec<Tally> = prepared.plans.iter().map(Tally::of).collect();
    let alike = of_ranks.windows(2).all(|pair| pair[0] == pair[1]);
    let (who, tally) = match of_ranks.first() {
        Some(first) if of_ranks.len() == 1 => ("ran", first.clone()),
        Some(first) if alike => ("each rank ran", first.clone()),
        _ => ("the ranks together ran", Tally::of_all(&of_ranks)),
    };
    let mut text = format!("hir-run: {who} {}", tally.words());
    if stats.bytes > 0 {
        text.push_str(&format!("; the ranks received {}", size(stats.bytes)));
    }
    text
}

/// The work of one rank.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
struct Tally {
    /// The number of each kind, in the order of their first appearance.
    kinds: Vec<(&'static str, usize)>,
    steps: usize,
    streams: usize,
}

impl Tally {
    fn of(plan: &Plan) -> Self {
        let mut tally = Self::default();
        let (mut steps, mut streams) = (BTreeSet::new(), BTreeSet::new());
        for inst in plan.iter() {
            let Some(kind) = kind(&inst.kind) else { continue };
            tally.add(kind, 1);
            streams.insert(inst.stream.0);
            if !plan.iteration(inst.origin).is_empty() {
                steps.insert(inst.origin.iteration.0);
            }
        }
        (tally.steps, tally.streams) = (steps.len(), streams.len());
        tally
    }
    fn of_all(ranks: &[Tally]) -> Self {
        let mut all = Self::default();
        for rank in ranks {
            rank.kinds.iter().for_each(|&(kind, n)| all.add(kind, n));
            all.steps = all.steps.max(rank.steps);
            all.streams = all.streams.max(rank.streams);
        }
        all
    }
    fn add(&mut self, kind: &'static str, n: usize) {
        match self.kinds.iter_mut().find(|(other, _)| *other == kind) {
            Some((_, total)) => *total += n,
            None => self.kinds.push((kind, n)),
        }
    }
    fn words(&self) -> String {
        let parts: Vec<String> = self.kinds.iter().map(|&(kind, n)| count(n, kind)).collect();
        let mut text = match parts.split_last() {
            None => "nothing".to_owned(),
            Some((last, [])) => last.clone(),
            Some((last, first)) => format!("{} and {last}", first.join(", ")),
        };
        if self.steps > 0 {
            text.push_str(&format!(" in {}", count(self.steps, "loop step")));
        }
        if self.streams > 1 {
            text.push_str(&format!(" on {} streams", self.streams));
        }
        text
    }
}

/// The word for an instruction that computes or communicates.
fn kind(kind: &InstKind) -> Option<&'static str> {
    Some(match kind {
        InstKind::Copy { .. } => "copy",
        InstKind::Fill { .. } => "fill",
        InstKind::Gemm(_) => "matmul",
        InstKind::Kernel(_) => "pointwise kernel",
        InstKind::Reduce { .. } => "reduction",
        InstKind::Take(_) => "indexed read",
        InstKind::Accumulate(_) => "indexed sum",
        InstKind::Collective(collective) => collective.kind.name(),
        InstKind::Send { .. } => "send",
        InstKind::Recv { .. } => "receive",
        InstKind::Alloc { .. }
        | InstKind::Free { .. }
        | InstKind::GroupBegin
        | InstKind::GroupEnd { .. }
        | InstKind::WaitWork { .. }
        | InstKind::Record { .. }
        | InstKind::WaitEvent { .. } => return None,
    })
}
