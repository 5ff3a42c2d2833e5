//! From a program and sizes to one plan for each rank.

use super::driver::{Driver, RankLimits};
use super::{Sizes, infer};
use crate::analysis::{shardings_differ, slice_moves};
use crate::diag::codes;
use crate::diag::{Diag, Diags};
use crate::ir::{DType, Mesh, OpId, ParallelType, Program, TensorId, Value};
use crate::ir::{Effect, OpKind, name_of};
use crate::plan::{AxesTable, Budget, Deadline, Env, Labels, Plan, PlanText, evaluate};
use rayon::prelude::*;
use smallvec::SmallVec;
use std::time::Duration;

/// One stored axis of an input or output.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PortAxis {
    /// Extent over all devices.
    pub extent: usize,
    /// What it is spread over, if over devices.
    pub device: Option<ParallelType>,
}

/// A tensor input or output as the user sees it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Port {
    /// The tensor.
    pub tensor: TensorId,
    /// Its name.
    pub name: String,
    /// Element type.
    pub dtype: DType,
    /// Stored axes in logical order.
    pub axes: Vec<PortAxis>,
    /// Who holds it; `None`: every rank.
    pub mesh: Option<Mesh>,
}

impl Port {
    /// Shape of the whole tensor.
    pub fn shape(&self) -> Vec<usize> {
        self.axes.iter().map(|axis| axis.extent).collect()
    }
    /// Shape of one rank's part: 1 along axes spread over devices.
    pub fn local_shape(&self) -> Vec<usize> {
        let local = |axis: &PortAxis| if axis.device.is_some() { 1 } else { axis.extent };
        self.axes.iter().map(local).collect()
    }
    /// Whether the rank holds a part.
    pub fn on(&self, rank: u32) -> bool {
        self.mesh.as_ref().is_none_or(|mesh| mesh.contains(rank))
    }
    /// First index of the rank's part along each axis; `None` off the mesh.
    pub fn origin(&self, rank: u32) -> Option<Vec<usize>> {
        let along = |axis: &PortAxis| match (axis.device, &self.mesh) {
            (Some(device), Some(mesh)) => mesh.coordinate(rank, device).map(|c| c as usize),
            (Some(_), None) => Some(rank as usize),
            (None, _) => Some(0),
        };
        if !self.on(rank) {
            return None;
        }
        self.axes.iter().map(along).collect()
    }
}

/// A program that is ready to run.
#[derive(Clone, Debug)]
pub struct Prepared {
    /// Sizes.
    pub env: Env,
    /// Number of ranks; 1 if the program is unlowered.
    pub ranks: u32,
    /// Whether the program has resharding ops and runs as plain math on whole tensors.
    pub unlowered: bool,
    /// Tensor inputs in order.
    pub inputs: Vec<Port>,
    /// Tensor outputs in order, then the tensors that were asked for besides.
    pub outputs: Vec<Port>,
    /// How many of `outputs` are the program's own.
    pub results: usize,
    /// One plan for each rank.
    pub plans: Vec<Plan>,
    /// Names for messages.
    pub labels: Labels,
    /// How long a run on the CPU may take.
    pub time: Option<Duration>,
}

impl Prepared {
    /// A rank's plan as text.
    pub fn plan_text(&self, rank: usize) -> Option<PlanText<'_>> {
        self.plans.get(rank).map(|plan| PlanText { plan, labels: &self.labels })
    }
    /// About how many bytes a run needs at one time: the buffers of all ranks, the operands and results
    /// that their largest instructions work on, and inputs and outputs once more as whole tensors.
    pub fn bytes(&self) -> u64 {
        let of_plan = |plan: &Plan| {
            let largest = plan.iter().map(|inst| inst.kind.bytes()).max().unwrap_or(0);
            plan.peak_bytes.saturating_add(largest.saturating_mul(2))
        };
        let whole = |port: &Port| {
            let size = port.dtype.size() as u64;
            port.shape().iter().fold(size, |bytes, &extent| bytes.saturating_mul(extent as u64))
        };
        let plans = self.plans.iter().map(of_plan);
        let ports = self.inputs.iter().chain(&self.outputs).map(whole);
        plans.chain(ports).fold(0, u64::saturating_add)
    }
    /// The input or output of a name or position.
    pub fn find(ports: &[Port], name: &str) -> Option<usize> {
        ports
            .iter()
            .position(|port| port.name == name)
            .or_else(|| name.parse().ok().filter(|&index: &usize| index < ports.len()))
    }
}

/// Binds the sizes and lowers the program for every rank.
pub fn prepare(program: &Program, sizes: &Sizes) -> Result<Prepared, Diags> {
    prepare_keeping(program, sizes, &[])
}

/// The plan of one rank alone, of a program that is that rank's only (`host-ir-lower{rank=R}`): what it
/// would be on other ranks, or whether it could be one there, does not matter.
///
/// # Errors
/// If sizes are open or contradict each other, or the rank cannot run the program.
pub fn prepare_rank(program: &Program, sizes: &Sizes, rank: u32) -> Result<Plan, Diags> {
    let mut diags = Diags::default();
    let Some(env) = infer(program, sizes, &mut diags) else { return Err(diags) };
    let axes = AxesTable::new(program, OpKind::View);
    let budget = Budget::share(&sizes.limits, env.ranks, Deadline::after(sizes.limits.time));
    let limit = sizes.memory_limit / u64::from(env.ranks.max(1));
    let limits = RankLimits { rank: Some(rank), memory: limit, budget };
    let plan = Driver::new(program, &env, &axes, limits).and_then(|driver| driver.run(&[]));
    plan.map_err(|diag| Diags { items: vec![diag] })
}

/// [`prepare`], and what these tensors are bound to at the end comes out as if they were outputs.
pub fn prepare_keeping(
    program: &Program,
    sizes: &Sizes,
    kept: &[TensorId],
) -> Result<Prepared, Diags> {
    let mut diags = Diags::default();
    let Some(env) = infer(program, sizes, &mut diags) else { return Err(diags) };
    let axes = AxesTable::new(program, OpKind::View);
    let unlowered = match unlowered(program) {
        Ok(unlowered) => unlowered,
        Err(diag) => {
            diags.push(diag);
            return Err(diags);
        }
    };
    let ranks = if unlowered { 1 } else { env.ranks };
    let limit = sizes.memory_limit / u64::from(ranks.max(1));
    let budget = Budget::share(&sizes.limits, ranks, Deadline::after(sizes.limits.time));
    let lower = |rank: u32| {
        let rank = (!unlowered).then_some(rank);
        let limits = RankLimits { rank, memory: limit, budget };
        Driver::new(program, &env, &axes, limits)?.run(kept)
    };
    let results: Vec<Result<Plan, Diag>> = (0..ranks).into_par_iter().map(lower).collect();
    let mut labels = Labels::new(program);
    let mut plans = Vec::new();
    for result in results {
        match result {
            Ok(plan) => {
                labels.add_indices(program, &plan);
                plans.push(plan);
            }
            Err(diag) => push_once(&mut diags, diag),
        }
    }
    let inputs = ports(program, &env, &axes, unlowered, program.inputs(), &mut diags);
    let mut outputs = ports(program, &env, &axes, unlowered, program.outputs(), &mut diags);
    let results = outputs.len();
    let kept: Vec<Value> = kept.iter().map(|&tensor| Value::Tensor(tensor)).collect();
    outputs.extend(ports(program, &env, &axes, unlowered, &kept, &mut diags));
    if diags.has_errors() {
        return Err(diags);
    }
    let time = sizes.limits.time;
    Ok(Prepared { env, ranks, unlowered, inputs, outputs, results, plans, labels, time })
}

/// Keeps the first of the errors that differ only in rank and iteration.
fn push_once(diags: &mut Diags, diag: Diag) {
    let place = |diag: &Diag| diag.primary.as_ref().map(|label| label.span);
    if !diags.items.iter().any(|old| old.code == diag.code && place(old) == place(&diag)) {
        diags.push(diag);
    }
}

fn ports(
    program: &Program,
    env: &Env,
    axes: &AxesTable,
    unlowered: bool,
    values: &[Value],
    diags: &mut Diags,
) -> Vec<Port> {
    let mut found = Vec::new();
    for tensor in values.iter().filter_map(|value| value.tensor()) {
        let mut port = Port {
            tensor,
            name: program.tensor_name(tensor),
            dtype: program.tensor(tensor).dtype,
            axes: Vec::new(),
            mesh: if unlowered { None } else { program.tensor_mesh(tensor).cloned() },
        };
        for axis in axes.stored(tensor) {
            let expr = axis.expanded.unwrap_or(axis.extent);
            let extent = evaluate(program, env, None, expr);
            let Some(extent) = extent.ok().and_then(|extent| usize::try_from(extent).ok()) else {
                let message = format!("the shape of {} is not known", port.name);
                diags.push(Diag::global(codes::SIZE, message));
                continue;
            };
            let device = (!unlowered && axis.is_sharded()).then_some(axis.parallel);
            port.axes.push(PortAxis { extent, device });
        }
        found.push(port);
    }
    found
}

/// Whether the program has a resharding op that is not a Communication; an error if it also has
/// communications or loops.
fn unlowered(program: &Program) -> Result<bool, Diag> {
    let mut resharding: Option<OpId> = None;
    let mut lowered: Option<OpId> = None;
    // At host level `select` is also the name that HirAliasSelect had: of a device axis it takes the rank's
    // own part then, as programs with loops and communications do.
    let mut select: Option<OpId> = None;
    program.walk(program.body(), &mut |id| {
        let kind = program.op(id).kind;
        match kind.effect() {
            _ if kind == OpKind::Select && select.is_none() && reshards(program, id) => {
                select = Some(id);
            }
            Effect::Alias if resharding.is_none() && slice_moves(program, id) => {
                resharding = Some(id);
            }
            Effect::Communicate | Effect::Control => lowered = lowered.or(Some(id)),
            Effect::Pure | Effect::Opaque if resharding.is_none() && reshards(program, id) => {
                resharding = Some(id);
            }
            _ => {}
        }
    });
    for (_, unit) in program.units().iter() {
        program.walk(unit.body, &mut |id| {
            if resharding.is_none() && reshards(program, id) {
                resharding = Some(id);
            }
        });
    }
    match (resharding, lowered) {
        (Some(op), Some(other)) => {
            let name = name_of(program, op);
            let what = program.op(other).kind.name();
            let message = format!(
                "this `{name}` moves data between devices but is not a Communication, in a program that has communications or loops"
            );
            Err(Diag::error(codes::HALF_LOWERED, program.op_span(op), message)
                .label(program.op_span(other), format!("`{what}` belongs to a lowered program"))
                .note("lower the whole program, or none of it"))
        }
        (None, None) => Ok(select.is_some()),
        (resharding, _) => Ok(resharding.is_some()),
    }
}

/// Whether an op needs data of other devices, as [`is_resharding`](crate::analysis::is_resharding) says,
/// but for what runs without communication: a tensor without a mesh lies on every rank, and a mesh of one
/// device has nobody to talk to.
fn reshards(program: &Program, id: OpId) -> bool {
    let op = program.op(id);
    if op.kind == OpKind::PostOnStream {
        return false;
    }
    let tensors = op.input_tensors().chain(op.output_tensors());
    let meshes: SmallVec<[&Mesh; 3]> =
        tensors.filter_map(|tensor| program.tensor_mesh(tensor)).collect();
    if meshes.iter().any(|mesh| mesh.devices != meshes[0].devices) {
        return true;
    }
    if meshes.iter().all(|mesh| mesh.devices.len() < 2) {
        return false;
    }
    let mut links = Vec::new();
    op.kind.spec().axes(program, id, &mut links);
    links.retain(|link| !link.broadcast);
    let differ = |p, c| shardings_differ(program, op.kind, (p, c), &links);
    op.input_tensors().any(|p| op.output_tensors().any(|c| differ(p, c)))
}
