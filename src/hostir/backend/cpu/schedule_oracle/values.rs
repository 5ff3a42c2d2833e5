//! A run that computes values in the order of a seed's schedule.
//!
//! A read step reads an instruction's operands, and a write step writes its result, so that another queue's work may
//! come between. Communications write their data after they have read it.

use super::super::communication::received_bytes;
use super::super::executor::CpuRank;
use super::super::run::{finish_run, start_ranks};
use super::schedules::{ChoiceRule, walk_schedule};
use super::steps::{QueueStep, StepRole, TransferModel};
use super::{OracleLimits, ScheduleVerdict, blocked_steps, model_program};
use crate::backend::fault::ExecutionFault;
use crate::backend::{RunResult, RunStats};
use crate::data::HostTensor;
use crate::diag::Diag;
use crate::ir::MessageDirection;
use crate::lower::PreparedProgram;
use crate::plan::{InstId, InstKind, PlanMatching, RankInst};
use crate::plan_checks::walk::CollectiveEnd;
use rustc_hash::FxHashMap;

/// Runs all ranks of a prepared program in an order of their queues that a seed chooses. `inputs` and the result are
/// those of [`run_plans`](crate::backend::cpu::run_plans).
///
/// # Errors
/// If the inputs do not fit, an instruction fails in this order, or the order does not reach its end.
pub fn run_seeded_schedule(
    prepared: &PreparedProgram,
    inputs: Vec<Vec<HostTensor>>,
    seed: u64,
) -> Result<RunResult, Vec<Diag>> {
    let ranks = start_ranks(prepared, inputs, None)?;
    let verdict = |verdict: ScheduleVerdict| verdict.to_diags(prepared);
    let model = model_program(&prepared.plans, 1, &OracleLimits::default()).map_err(verdict)?;
    let order = walk_schedule(&model.graph.waits_of(TransferModel::Causal), ChoiceRule::Seeded(seed));
    if order.len() < model.graph.steps.len() {
        return Err(verdict(ScheduleVerdict::Deadlock(blocked_steps(&model.graph, &order))));
    }
    let mut run = ValueRun::new(prepared, ranks);
    for id in order {
        run.take_step(&model.graph.steps[id.0 as usize]).map_err(|diag| vec![diag])?;
    }
    finish_run(prepared, run.ranks)
}

/// A collective: its communicator and its number there.
#[derive(Clone, Copy)]
struct CollectiveNumber {
    communicator: usize,
    number: usize,
}

/// The memory of all ranks, and the data that was read and is not written yet.
struct ValueRun<'p> {
    prepared: &'p PreparedProgram,
    matching: PlanMatching<'p>,
    collectives: FxHashMap<RankInst, CollectiveNumber>,
    ranks: Vec<CpuRank<'p>>,
    /// By instruction: the result of a local one, the sent data of a communication.
    read: FxHashMap<RankInst, Vec<u8>>,
}

impl<'p> ValueRun<'p> {
    fn new(prepared: &'p PreparedProgram, ranks: Vec<CpuRank<'p>>) -> Self {
        let matching = PlanMatching::new(&prepared.plans);
        let mut collectives = FxHashMap::default();
        for (communicator, of_all) in matching.communicators.iter().enumerate() {
            for number in 0..of_all.collectives.len() {
                for member in of_all.collective_members(number, &prepared.plans) {
                    let at = RankInst { rank: member.rank, inst: member.inst };
                    collectives.insert(at, CollectiveNumber { communicator, number });
                }
            }
        }
        Self { prepared, matching, collectives, ranks, read: FxHashMap::default() }
    }

    fn take_step(&mut self, step: &QueueStep) -> Result<(), Diag> {
        let Some(inst) = step.inst else { return Ok(()) };
        let at = RankInst { rank: step.rank, inst };
        let taken = match step.role {
            StepRole::Read => self.take_read(at),
            StepRole::Write => self.take_write(at),
            StepRole::Start | StepRole::Done => return Ok(()),
        };
        let plan = self.ranks[at.rank as usize].plan;
        taken.map_err(|fault| fault.into_diag(self.prepared, plan, plan.inst(inst).origin))
    }

    fn take_read(&mut self, at: RankInst) -> Result<(), ExecutionFault> {
        let rank = &mut self.ranks[at.rank as usize];
        let kind = &rank.plan.inst(at.inst).kind;
        let views = kind.read_views();
        let bytes = match views.first() {
            Some(view) if !kind.is_local() => rank.memory.read_bytes(view)?,
            _ => local_result(rank, at.inst)?,
        };
        rank.memory.release_views(views);
        self.read.insert(at, bytes);
        Ok(())
    }

    fn take_write(&mut self, at: RankInst) -> Result<(), ExecutionFault> {
        let bytes = self.written_bytes(at)?;
        let rank = &mut self.ranks[at.rank as usize];
        let kind = &rank.plan.inst(at.inst).kind;
        let mut rest = bytes.as_slice();
        for view in kind.written_views() {
            let own = rest.split_off(..(view.len() * view.dtype.byte_size()).min(rest.len())).unwrap_or_default();
            rank.memory.write_bytes(rank.plan, view, own)?;
            rank.memory.release_views([view]);
        }
        count_work(&mut rank.stats, kind, bytes.len() as u64);
        Ok(())
    }

    /// The bytes that an instruction writes.
    fn written_bytes(&mut self, at: RankInst) -> Result<Vec<u8>, ExecutionFault> {
        let rank = &self.ranks[at.rank as usize];
        match &rank.plan.inst(at.inst).kind {
            InstKind::Collective(_) => self.collective_bytes(at),
            kind if kind.is_message(MessageDirection::Recv) => {
                let partner = self.matching.message_partner(at.rank, at.inst);
                Ok(partner.and_then(|partner| self.read.remove(&partner)).unwrap_or_default())
            }
            _ => match self.read.remove(&at) {
                Some(bytes) => Ok(bytes),
                None => local_result(rank, at.inst),
            },
        }
    }

    /// The bytes that a member of a collective receives.
    fn collective_bytes(&self, at: RankInst) -> Result<Vec<u8>, ExecutionFault> {
        let Some(CollectiveNumber { communicator, number }) = self.collectives.get(&at).copied() else {
            return Ok(Vec::new());
        };
        let members = self.matching.communicators[communicator].collective_members(number, &self.prepared.plans);
        let place = members.iter().position(|member| (member.rank, member.inst) == (at.rank, at.inst));
        let places = members.iter().map(|member| RankInst { rank: member.rank, inst: member.inst });
        let sent: Vec<Option<Vec<u8>>> = places.map(|place| self.read.get(&place).cloned()).collect();
        let ends: Vec<CollectiveEnd<'_>> = members.into_iter().map(CollectiveEnd::of_member).collect();
        let mut received = received_bytes(&ends, &sent)?;
        Ok(place.and_then(|place| received.get_mut(place)?.take()).unwrap_or_default())
    }
}

/// The result of an instruction that accesses memory of its rank only, for the present memory.
fn local_result(rank: &CpuRank<'_>, inst: InstId) -> Result<Vec<u8>, ExecutionFault> {
    let kind = &rank.plan.inst(inst).kind;
    let memory = rank.memory.copy_buffers(kind.read_views());
    let mut copy = CpuRank { plan: rank.plan, memory, stats: RunStats::default(), done: None };
    copy.execute_local(kind)?;
    let written: Result<Vec<Vec<u8>>, ExecutionFault> =
        kind.written_views().into_iter().map(|view| copy.memory.read_bytes(view)).collect();
    Ok(written?.concat())
}

fn count_work(stats: &mut RunStats, kind: &InstKind, bytes: u64) {
    match kind {
        InstKind::Collective(_) => {
            stats.communications += 1;
            stats.bytes += bytes;
        }
        // A receive counts its send too.
        kind if kind.is_message(MessageDirection::Recv) => {
            stats.communications += 2;
            stats.bytes += bytes;
        }
        kind => stats.local_bytes += kind.traffic_bytes(),
    }
}
