//! Prepares a program: binds its sizes and makes a plan for each rank.

use super::assertions::check_assertions;
use super::driver::{Driver, RankLimits};
use super::element_text::ShardedTensors;
use super::half_lowered::half_lowered_error;
use super::kernel_tensors::check_kernel_tensors;
use super::one_rank::check_one_rank_text;
use super::{SizeSettings, infer_sizes};
use crate::analysis::{moves_shards, needs_slice_resharding, shows_other_devices};
use crate::axes::LogicalAxis;
use crate::diag::components::PLAN;
use crate::diag::message;
use crate::diag::{Diag, Diags, codes};
use crate::ir::{DType, DeviceMesh, OpEffect, OpId, ParallelType, Program, TensorId, UnitId, Value, quoted_head};
use crate::ops::spec::Lower;
use crate::plan::{
    AxesTable, Deadline, DebugInfo, ExtentEnv, Plan, PlanBudget, PlanLimits, PlanText, RepeatedBody, evaluate_extent,
    shard_place,
};
use rayon::prelude::*;
use rustc_hash::FxHashSet;
use smallvec::SmallVec;
use std::time::Duration;

/// One stored axis of an input or output.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct IoTensorAxis {
    /// Extent over all devices.
    pub extent: usize,
    /// The device parallel type over which the axis is sharded; `None` if it is not.
    pub device: Option<ParallelType>,
    /// True for an expanded broadcast: all elements along it are the first one.
    pub expanded: bool,
    /// The number of devices over which it is sharded; 1 if it is not.
    pub shards: usize,
}

impl IoTensorAxis {
    /// The extent of a rank's shard.
    pub fn local_extent(&self) -> usize {
        self.extent.checked_div(self.shards).unwrap_or(1)
    }
}

/// A tensor input or output as the user sees it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct IoTensor {
    /// The tensor.
    pub tensor: TensorId,
    /// Its name.
    pub name: String,
    /// Element type.
    pub dtype: DType,
    /// Stored axes in logical order.
    pub axes: Vec<IoTensorAxis>,
    /// The ranks that hold it; `None` for every rank.
    pub mesh: Option<DeviceMesh>,
}

impl IoTensor {
    /// Shape of the whole tensor.
    pub fn whole_shape(&self) -> Vec<usize> {
        self.axes.iter().map(|axis| axis.extent).collect()
    }
    /// The shape of one rank's shard.
    pub fn local_shape(&self) -> Vec<usize> {
        self.axes.iter().map(IoTensorAxis::local_extent).collect()
    }
    /// Returns true if the rank holds a shard.
    pub fn is_on_rank(&self, rank: u32) -> bool {
        self.mesh.as_ref().is_none_or(|mesh| mesh.contains(rank))
    }
    /// The first index of the rank's shard along each axis; `None` if the rank is not in the mesh.
    pub fn shard_origin(&self, rank: u32) -> Option<Vec<usize>> {
        if !self.is_on_rank(rank) {
            return None;
        }
        let places = self.axes.iter().map(|axis| shard_place(axis.device, self.mesh.as_ref(), rank));
        places.zip(&self.axes).map(|(place, axis)| Some(place? * axis.local_extent())).collect()
    }
}

/// A program that is ready to run.
#[derive(Clone, Debug)]
pub struct PreparedProgram {
    /// Sizes.
    pub env: ExtentEnv,
    /// Number of ranks; 1 if the program is unlowered.
    pub ranks: u32,
    /// True if the program has resharding ops and runs without communication on whole tensors.
    pub unlowered: bool,
    /// Tensor inputs in order.
    pub inputs: Vec<IoTensor>,
    /// Tensor outputs in order, then the tensors that the caller requested in addition.
    pub outputs: Vec<IoTensor>,
    /// The number of `outputs` that are the program's own.
    pub results: usize,
    /// One plan for each rank.
    pub plans: Vec<Plan>,
    /// Names for messages about the plans.
    pub labels: DebugInfo,
    /// The tensors of which ranks hold shards, for messages.
    pub shards: ShardedTensors,
    /// The time limit of a run on the CPU.
    pub time: Option<Duration>,
    /// True if new memory holds NaN in a run on the CPU (integers: the byte 0xa5).
    pub poison: bool,
}

impl PreparedProgram {
    /// A rank's plan as text.
    pub fn plan_text(&self, rank: usize) -> Option<PlanText<'_>> {
        self.plans.get(rank).map(|plan| PlanText { plan, labels: &self.labels })
    }
    /// The error for a backend that shows no prints, if the program has one.
    pub fn print_error(&self) -> Option<Diag> {
        let print = self.plans.iter().find_map(|plan| plan.notes.prints.first())?;
        let span = self.labels.op_span(print.origin.op);
        let message = message!("`{}` shows values on the CPU backend only", quoted_head("Print"));
        Some(Diag::error(codes::PRINT_BACKEND, span, message).with_note("run the program with `--backend=cpu`"))
    }
    /// An estimate of the bytes that a run needs at one time: the buffers of all ranks, the operands and results of
    /// their largest instructions, and inputs and outputs once more as whole tensors.
    pub fn estimated_bytes(&self) -> u64 {
        let plans = self.plans.iter().map(plan_bytes);
        let io_tensors = self.inputs.iter().chain(&self.outputs).map(whole_tensor_bytes);
        plans.chain(io_tensors).fold(0, u64::saturating_add)
    }
}

/// The bytes of a plan's buffers, and of the operands of its largest instruction.
fn plan_bytes(plan: &Plan) -> u64 {
    let insts = plan.repeated_bodies().flat_map(RepeatedBody::first_round);
    let largest = insts.map(|inst| inst.template_inst().kind.traffic_bytes()).max().unwrap_or(0);
    plan.peak_bytes.saturating_add(largest.saturating_mul(2))
}

fn whole_tensor_bytes(io_tensor: &IoTensor) -> u64 {
    let size = io_tensor.dtype.byte_size() as u64;
    io_tensor.whole_shape().iter().fold(size, |bytes, &extent| bytes.saturating_mul(extent as u64))
}

/// Binds the sizes and lowers the program for every rank.
///
/// # Errors
/// If sizes are open or contradict each other, a statement cannot run, or the plans need more memory or time than
/// `sizes` allows.
///
/// ```
/// use hostir::lower::{SizeSettings, prepare_program};
///
/// let text = "\
/// %HostIrContainer { (T0_g_float[iS0{i0}]) -> (T1_g_float[iS1{i0}]) :
///   T1_g_float[iS1{i0}]
///      = relu(T0_g_float[iS0{i0}]);
/// } // %HostIrContainer
/// ";
/// let (programs, _) = hostir::load(text);
/// let mut sizes = SizeSettings::default();
/// let open = prepare_program(&programs[0], &sizes).expect_err("nothing gives i0");
/// assert_eq!(open.items[0].code, "H0401");
///
/// sizes.set.insert("i0".to_owned(), 1024);
/// let prepared = prepare_program(&programs[0], &sizes).expect("i0 is known");
/// assert_eq!(prepared.inputs[0].whole_shape(), [1024]);
/// ```
pub fn prepare_program(program: &Program, sizes: &SizeSettings) -> Result<PreparedProgram, Diags> {
    prepare_with_kept(program, sizes, &[])
}

/// Makes the plan of one rank for a program that belongs to that rank only (`host-ir-lower{rank=R}`). The program
/// need not be valid on other ranks.
///
/// # Errors
/// If sizes are open or contradict each other, or the rank cannot run the program.
pub fn prepare_rank(program: &Program, sizes: &SizeSettings, rank: u32) -> Result<Plan, Diags> {
    let mut diags = Diags::default();
    let Some(env) = infer_sizes(program, sizes, &mut diags) else { return Err(diags) };
    let axes = AxesTable::new(program);
    let memory = sizes.memory_limit / u64::from(env.ranks.max(1));
    let budget = PlanBudget::rank_share(&sizes.limits, env.ranks, memory, Deadline::after(sizes.limits.time));
    let limits = RankLimits { rank: Some(rank), budget };
    let plan = Driver::new(program, &env, &axes, limits).and_then(|driver| driver.lower_host(&[]));
    plan.map_err(|diag| Diags { items: vec![diag] })
}

/// Like [`prepare_program`]; the final values of these tensors are returned as additional outputs.
///
/// # Errors
/// Those of [`prepare_program`].
pub fn prepare_with_kept(program: &Program, sizes: &SizeSettings, kept: &[TensorId]) -> Result<PreparedProgram, Diags> {
    let mut diags = Diags::default();
    check_kernel_tensors(program, &mut diags);
    if diags.has_errors() {
        return Err(diags);
    }
    let Some(env) = infer_sizes(program, sizes, &mut diags) else { return Err(diags) };
    check_assertions(program, &env, &mut diags);
    if diags.has_errors() {
        return Err(diags);
    }
    let axes = AxesTable::new(program);
    check_one_rank_text(program, &mut diags);
    let unlowered = is_unlowered(program).map_err(|diag| diags.push(diag));
    let Some(unlowered) = unlowered.ok().filter(|_| !diags.has_errors()) else { return Err(diags) };
    let ranks = if unlowered { 1 } else { env.ranks };
    let whole = WholeProgram { program, env: &env, axes: &axes, ranks, unlowered };
    let (plans, labels) = whole.lower_ranks(sizes.memory_limit, &sizes.limits, kept, &mut diags);
    let inputs = collect_io_tensors(program, &env, &axes, unlowered, program.inputs(), &mut diags);
    let mut outputs = collect_io_tensors(program, &env, &axes, unlowered, program.outputs(), &mut diags);
    let results = outputs.len();
    let kept: Vec<Value> = kept.iter().map(|&tensor| Value::Tensor(tensor)).collect();
    outputs.extend(collect_io_tensors(program, &env, &axes, unlowered, &kept, &mut diags));
    if diags.has_errors() {
        return Err(diags);
    }
    report_plans(program, &env, unlowered, &plans);
    let time = sizes.limits.time;
    let shards = if unlowered { ShardedTensors::default() } else { ShardedTensors::new(program, &axes) };
    Ok(PreparedProgram { env, ranks, unlowered, inputs, outputs, results, plans, labels, shards, time, poison: false })
}

/// Tells who debugs the planning which sizes it found, and what each rank has to do.
fn report_plans(program: &Program, env: &ExtentEnv, unlowered: bool, plans: &[Plan]) {
    tracing::debug!(
        target: PLAN,
        sizes = ?env.host_values().map(|(name, value)| (program.name(name), value)).collect::<Vec<_>>(),
        ranks = plans.len(),
        streams = env.streams,
        unlowered,
        "sizes known",
    );
    for plan in plans {
        tracing::debug!(
            target: PLAN,
            rank = plan.rank,
            instructions = plan.inst_count(),
            buffers = plan.buffers.len(),
            communicators = plan.communicators.len(),
            streams = plan.streams,
            events = plan.events,
            handles = plan.works,
            peak_bytes = plan.peak_bytes,
            "planned",
        );
    }
}

/// Plans a program again for another number of streams, with its present sizes and ranks.
///
/// # Errors
/// If the program has no plan for this number of streams.
pub fn prepare_with_streams(
    program: &Program,
    prepared: &PreparedProgram,
    streams: u32,
) -> Result<PreparedProgram, Diags> {
    let mut diags = Diags::default();
    let env = prepared.env.with_streams(streams);
    let axes = AxesTable::new(program);
    let (ranks, unlowered) = (prepared.ranks, prepared.unlowered);
    let whole = WholeProgram { program, env: &env, axes: &axes, ranks, unlowered };
    let limits = PlanLimits { time: prepared.time, ..PlanLimits::default() };
    let (plans, labels) = whole.lower_ranks(u64::MAX, &limits, &[], &mut diags);
    let again = PreparedProgram { env, plans, labels, ..prepared.clone() };
    diags.or_value(again)
}

/// A program with its sizes and ranks.
struct WholeProgram<'a> {
    program: &'a Program,
    env: &'a ExtentEnv,
    axes: &'a AxesTable,
    ranks: u32,
    unlowered: bool,
}

impl WholeProgram<'_> {
    /// Makes the plan of each rank. `memory` is the limit of bytes for all ranks together.
    fn lower_ranks(
        &self,
        memory: u64,
        limits: &PlanLimits,
        kept: &[TensorId],
        diags: &mut Diags,
    ) -> (Vec<Plan>, DebugInfo) {
        let memory = memory / u64::from(self.ranks.max(1));
        let budget = PlanBudget::rank_share(limits, self.ranks, memory, Deadline::after(limits.time));
        let lower = |rank: u32| {
            let rank = (!self.unlowered).then_some(rank);
            let limits = RankLimits { rank, budget };
            Driver::new(self.program, self.env, self.axes, limits)?.lower_host(kept)
        };
        let results: Vec<Result<Plan, Diag>> = (0..self.ranks).into_par_iter().map(lower).collect();
        let mut labels = DebugInfo::new(self.program);
        add_index_faults(self.program, &mut labels);
        let mut plans = Vec::new();
        for result in results {
            match result {
                Ok(plan) => {
                    labels.add_names(self.program, &plan);
                    plans.push(plan);
                }
                Err(diag) => push_once(diags, diag),
            }
        }
        (plans, labels)
    }
}

/// Keeps the first of the errors that differ only in rank and iteration.
fn push_once(diags: &mut Diags, diag: Diag) {
    let span = diag.primary.as_ref().map(|label| label.span);
    let mut old = diags.items.iter();
    if !old.any(|old| old.code == diag.code && old.primary.as_ref().map(|label| label.span) == span) {
        diags.push(diag);
    }
}

fn collect_io_tensors(
    program: &Program,
    env: &ExtentEnv,
    axes: &AxesTable,
    unlowered: bool,
    values: &[Value],
    diags: &mut Diags,
) -> Vec<IoTensor> {
    let mut found = Vec::new();
    for tensor in values.iter().filter_map(|value| value.as_tensor()) {
        let mut io_tensor = IoTensor {
            tensor,
            name: program.tensor_name(tensor),
            dtype: program.tensor(tensor).dtype,
            axes: Vec::new(),
            mesh: if unlowered { None } else { program.tensor_mesh(tensor).cloned() },
        };
        for axis in axes.stored_axes(tensor) {
            match sized_axis(program, env, None, unlowered, axis) {
                Some(axis) => io_tensor.axes.push(axis),
                None => {
                    let message = message!("the shape of {} is unknown", io_tensor.name);
                    diags.push(Diag::global_error(codes::SIZE, message));
                }
            }
        }
        found.push(io_tensor);
    }
    found
}

/// A stored axis of a tensor of the host program or of a unit; `None` if its extent is unknown.
fn sized_axis(
    program: &Program,
    env: &ExtentEnv,
    unit: Option<UnitId>,
    unlowered: bool,
    axis: &LogicalAxis,
) -> Option<IoTensorAxis> {
    let extent = evaluate_extent(program, env, unit, axis.expanded.unwrap_or(axis.extent));
    let extent = extent.ok().and_then(|extent| usize::try_from(extent).ok())?;
    let device = (!unlowered && axis.is_sharded()).then_some(axis.parallel);
    let parts = axis.parts.map(|parts| evaluate_extent(program, env, unit, parts).ok());
    let shards = match (device, parts) {
        (None, _) => 1,
        (Some(_), None) => extent,
        (Some(_), Some(parts)) => parts.and_then(|parts| usize::try_from(parts).ok()).unwrap_or(1),
    };
    Some(IoTensorAxis { extent, device, expanded: axis.expanded.is_some(), shards })
}

/// The stored axes of any tensor of a program for these sizes, as every rank of its mesh has them; `None` if an extent
/// is unknown.
pub fn sized_axes(program: &Program, env: &ExtentEnv, axes: &AxesTable, tensor: TensorId) -> Option<Vec<IoTensorAxis>> {
    let unit = program.tensor(tensor).unit;
    axes.stored_axes(tensor).map(|axis| sized_axis(program, env, unit, false, axis)).collect()
}

/// Returns true if the program has a resharding op that is not a Communication; fails if it also has
/// communications or loops. A view of the shards of all devices is the whole tensor.
fn is_unlowered(program: &Program) -> Result<bool, Diag> {
    let mut resharding: Option<OpId> = None;
    let mut lowered: Option<OpId> = None;
    let (mut selects_slice, mut shows_others) = (false, false);
    program.walk(program.body(), &mut |id| {
        let kind = program.op(id).kind;
        match kind.effect() {
            OpEffect::Alias => {
                selects_slice |= kind.is_mathematics() && needs_resharding(program, id);
                shows_others |= shows_other_devices(program, id);
                if resharding.is_none() && needs_slice_resharding(program, id) {
                    resharding = Some(id);
                }
            }
            OpEffect::Communicate(_) | OpEffect::Control(_) => lowered = lowered.or(Some(id)),
            OpEffect::Pure | OpEffect::Opaque if resharding.is_none() && needs_resharding(program, id) => {
                resharding = Some(id);
            }
            _ => {}
        }
    });
    for (_, unit) in program.units().iter() {
        program.walk(unit.body, &mut |id| {
            if resharding.is_none() && needs_resharding(program, id) {
                resharding = Some(id);
            }
        });
    }
    match (resharding, lowered) {
        (Some(op), Some(other)) => Err(half_lowered_error(program, op, other)),
        (None, None) => Ok(shows_others || (selects_slice && !has_own_memory(program))),
        (resharding, _) => Ok(resharding.is_some()),
    }
}

/// Returns true if the program allocates memory or writes a view, as plain math does not. At host level HirAliasSelect
/// was also called `select`: on a device axis it takes the rank's own shard in programs with loops, communications or
/// such memory. Elsewhere `select` takes a slice of the whole tensor.
fn has_own_memory(program: &Program) -> bool {
    let (mut views, mut found) = (FxHashSet::default(), false);
    program.walk(program.body(), &mut |id| {
        let op = program.op(id);
        match op.kind.effect() {
            OpEffect::Alias => views.extend(op.output_tensors()),
            OpEffect::Allocate => found = true,
            _ => found |= op.output_tensors().any(|tensor| views.contains(&tensor)),
        }
    });
    found
}

/// Returns true if an op needs data of other devices, as in [`is_resharding`](crate::analysis::is_resharding), except
/// for ops that run without communication: a tensor without a mesh resides on every rank, and a mesh of one device has
/// no peers.
fn needs_resharding(program: &Program, id: OpId) -> bool {
    let op = program.op(id);
    if op.declares_accesses() {
        return false;
    }
    let tensors = op.input_tensors().chain(op.output_tensors());
    let meshes: SmallVec<[&DeviceMesh; 3]> = tensors.filter_map(|tensor| program.tensor_mesh(tensor)).collect();
    if meshes.iter().any(|mesh| mesh.devices != meshes[0].devices) {
        return true;
    }
    if meshes.iter().all(|mesh| mesh.devices.len() < 2) {
        return false;
    }
    moves_shards(program, id)
}

/// Adds the faults of indices that ops compute, from their rows.
fn add_index_faults(program: &Program, labels: &mut DebugInfo) {
    for (id, op) in program.ops().iter() {
        if let Lower::Indexed(_, fault) = op.kind.spec().lower {
            labels.add_index_fault(id, fault);
        }
    }
}
