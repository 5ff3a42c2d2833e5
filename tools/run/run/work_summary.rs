//! The work of a run in one line: kernels, communications, loop steps, streams, bytes.

use super::quantities::bytes_text;
use hostir::backend::RunStats;
use hostir::diag::count_text;
use hostir::ir::MessageDirection;
use hostir::lower::PreparedProgram;
use hostir::plan::{InstKind, Plan, RedOp};
use std::collections::BTreeSet;

/// `hir-run: each rank ran 4 matmuls, 3 sends and 3 receives in 4 loop steps on 4 streams; ...`
pub(super) fn summarize_work(prepared: &PreparedProgram, stats: RunStats) -> String {
    let of_ranks: Vec<InstTally> = prepared.plans.iter().map(InstTally::of_plan).collect();
    let alike = of_ranks.windows(2).all(|pair| pair[0] == pair[1]);
    let (who, tally) = match of_ranks.first() {
        Some(first) if of_ranks.len() == 1 => ("ran", first.clone()),
        Some(first) if alike => ("each rank ran", first.clone()),
        _ => ("the ranks together ran", InstTally::of_all(&of_ranks)),
    };
    let mut text = format!("hir-run: {who} {}", tally.to_text());
    if stats.bytes > 0 {
        text.push_str(&format!("; the ranks received {}", bytes_text(stats.bytes)));
    }
    text
}

/// The work of one rank.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
struct InstTally {
    /// The number of each kind, in the order of their first appearance.
    kinds: Vec<(&'static str, usize)>,
    steps: usize,
    streams: usize,
}

impl InstTally {
    fn of_plan(plan: &Plan) -> Self {
        let mut tally = Self::default();
        let (mut steps, mut streams) = (BTreeSet::new(), BTreeSet::new());
        for inst in plan.iter() {
            let Some(kind) = inst_noun(&inst.kind) else { continue };
            tally.add_count(kind, 1);
            streams.insert(inst.stream.0);
            if !plan.iteration_of(inst.origin).is_empty() {
                steps.insert(inst.origin.iteration.0);
            }
        }
        (tally.steps, tally.streams) = (steps.len(), streams.len());
        tally
    }
    fn of_all(ranks: &[InstTally]) -> Self {
        let mut all = Self::default();
        for rank in ranks {
            rank.kinds.iter().for_each(|&(kind, n)| all.add_count(kind, n));
            all.steps = all.steps.max(rank.steps);
            all.streams = all.streams.max(rank.streams);
        }
        all
    }
    fn add_count(&mut self, kind: &'static str, n: usize) {
        match self.kinds.iter_mut().find(|(other, _)| *other == kind) {
            Some((_, total)) => *total += n,
            None => self.kinds.push((kind, n)),
        }
    }
    fn to_text(&self) -> String {
        let parts: Vec<String> = self.kinds.iter().map(|&(kind, n)| count_text(n, kind).into()).collect();
        let mut text = match parts.split_last() {
            None => "nothing".to_owned(),
            Some((last, [])) => last.clone(),
            Some((last, first)) => format!("{} and {last}", first.join(", ")),
        };
        if self.steps > 0 {
            text.push_str(&format!(" in {}", count_text(self.steps, "loop step")));
        }
        if self.streams > 1 {
            text.push_str(&format!(" on {} streams", self.streams));
        }
        text
    }
}

/// The word for an instruction that computes or communicates.
fn inst_noun(kind: &InstKind) -> Option<&'static str> {
    Some(match kind {
        InstKind::Copy { .. } => "copy",
        InstKind::Fill { .. } => "fill",
        InstKind::Gemm(_) => "matmul",
        InstKind::Kernel(_) => "pointwise kernel",
        InstKind::Reduce(_) => "reduction",
        InstKind::Take(_) => "indexed read",
        InstKind::Accumulate(put) if put.combine == Some(RedOp::Sum) => "indexed sum",
        InstKind::Accumulate(_) => "indexed write",
        InstKind::Rows(rows) => rows.function.name,
        InstKind::Attention(_) => "attention",
        InstKind::Launch(_) => "user kernel",
        InstKind::Collective(collective) => collective.kind.name(),
        InstKind::Message { header, .. } => match header.direction {
            MessageDirection::Send => "send",
            MessageDirection::Recv => "receive",
        },
        InstKind::Alloc { .. }
        | InstKind::Free { .. }
        | InstKind::GroupBegin
        | InstKind::GroupEnd { .. }
        | InstKind::WaitWork { .. }
        | InstKind::Record { .. }
        | InstKind::WaitEvent { .. } => return None,
    })
}
