//! The work of kernels: the CPU backend runs a plan of the instructions on copies of the views' memory.

use crate::attention;
use crate::elements::{gathered_bytes, scattered_bytes};
use crate::note::{KernelMeaning, TEMPORARY};
use hostir::backend::cpu;
use hostir::data::HostTensor;
use hostir::ir::{CommBackend, DType, OpId, TensorId};
use hostir::lower::{PreparedProgram, SizeSettings};
use hostir::plan::{
    BufferId, BufferKind, BufferView, CollectiveInst, CollectiveKind, CommSlot, GemmInst, Inst, InstKind, InstOrigin,
    IterationId, Plan, PlanBuffer, PlanCommunicator, RedOp, USER_STREAM, WorkSlot,
};
use std::sync::OnceLock;

/// The bytes between a view's first and last element; without elements there are none.
pub(crate) fn range_bytes(view: &BufferView) -> usize {
    if view.is_empty() { 0 } else { (view.last_offset() + 1) * view.dtype.byte_size() }
}

/// The views that an instruction reads and the one that it writes.
fn instruction_views(kind: &InstKind) -> (Vec<&BufferView>, Option<&BufferView>) {
    (kind.read_views().into_iter().collect(), kind.written_view())
}

/// A use of memory.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct MemoryAccess {
    /// The number of the parameter that points to it.
    pub(crate) param: usize,
    /// The part of it.
    pub(crate) view: BufferView,
    /// Whether it is written.
    pub(crate) writes: bool,
}

/// All uses of memory, reads first.
pub(crate) fn memory_accesses(meaning: &KernelMeaning) -> Vec<MemoryAccess> {
    let mut all: Vec<(BufferView, bool)> = Vec::new();
    match meaning {
        KernelMeaning::Members { inputs, output, .. } => {
            all.extend(inputs.iter().map(|view| (view.clone(), false)));
            all.push((output.clone(), true));
        }
        KernelMeaning::Attention(attention) => {
            all.extend(
                attention
                    .views
                    .iter()
                    .zip([false, false, false, true, true])
                    .map(|(view, writes)| (view.clone(), writes)),
            );
        }
        KernelMeaning::Instructions(kinds) => {
            for (reads, writes) in kinds.iter().map(instruction_views) {
                all.extend(reads.into_iter().map(|view| (view.clone(), false)));
                all.extend(writes.map(|view| (view.clone(), true)));
            }
        }
    }
    let known = all.into_iter().filter(|(view, _)| view.buffer != TEMPORARY);
    known.map(|(view, writes)| MemoryAccess { param: view.buffer.0 as usize, view, writes }).collect()
}

/// Carries out a meaning. `contents` are the bytes of the accesses' ranges, in their order; returns the new bytes of
/// those that are written.
pub(crate) fn carry_out(meaning: &KernelMeaning, contents: &[Vec<u8>]) -> Result<Vec<Vec<u8>>, String> {
    match meaning {
        KernelMeaning::Members { op, inputs, .. } => {
            let dtype = inputs.first().map_or(DType::Float, |view| view.dtype);
            let dense = inputs.iter().zip(contents).map(|(view, bytes)| gathered_bytes(view, bytes));
            let dense: Vec<Vec<u8>> = dense.collect();
            let combined = combine_members(*op, dtype, &dense)?;
            let Some((last, old)) = memory_accesses(meaning).into_iter().zip(contents).next_back() else {
                return Ok(Vec::new());
            };
            Ok(vec![scattered_bytes(&last.view, old.clone(), &combined)])
        }
        KernelMeaning::Attention(attention) => attention::carry_out(attention, contents),
        KernelMeaning::Instructions(kinds) => carry_out_instructions(meaning, kinds, contents),
    }
}

/// Each access has a buffer of its own, since those of one instruction may overlap: it reads all before it writes.
fn carry_out_instructions(
    meaning: &KernelMeaning,
    kinds: &[InstKind],
    contents: &[Vec<u8>],
) -> Result<Vec<Vec<u8>>, String> {
    let mut plan = Plan::default();
    plan.streams = 1;
    plan.iterations = vec![Default::default()];
    let mut inputs = Vec::new();
    let mut next = 0;
    let mut written = Vec::new();
    let mut temporary = None;
    for kind in kinds {
        let mut kind = kind.clone();
        let mut failed = None;
        for (view, writes) in views_mut(&mut kind) {
            if view.buffer == TEMPORARY {
                let whole = BufferView { offset: 0, ..view.clone() };
                view.buffer = *temporary.get_or_insert_with(|| new_buffer(&mut plan, &whole, None));
                continue;
            }
            let Some(bytes) = contents.get(next) else { break };
            next += 1;
            let elements = bytes.len() / view.dtype.byte_size().max(1);
            match HostTensor::from_bytes(view.dtype, &[elements], bytes) {
                Some(tensor) => inputs.push(tensor),
                None => failed = Some(format!("{} bytes are no tensor", bytes.len())),
            }
            view.buffer = new_buffer(&mut plan, view, Some(inputs.len() - 1));
            if writes {
                written.push(view.buffer);
            }
        }
        match failed {
            Some(text) => return Err(text),
            None => {
                plan.push_inst(plan_instruction(kind));
            }
        }
    }
    debug_assert_eq!(next, memory_accesses(meaning).len());
    plan.outputs = written.iter().map(|id| Some(whole_view(&plan, *id))).collect();
    let outputs = run_plans(vec![plan], vec![inputs])?;
    Ok(outputs.into_iter().flatten().flatten().map(|tensor| tensor.bytes().to_vec()).collect())
}

/// An instruction's views, reads first, as [`memory_accesses`] lists them.
fn views_mut(kind: &mut InstKind) -> Vec<(&mut BufferView, bool)> {
    match kind {
        InstKind::Copy { src, dst } => vec![(&mut **src, false), (&mut **dst, true)],
        InstKind::Fill { dst, .. } => vec![(&mut **dst, true)],
        InstKind::Kernel(kernel) => {
            let inputs = kernel.inputs.iter_mut().map(|view| (view, false));
            inputs.chain([(&mut kernel.output, true)]).collect()
        }
        InstKind::Reduce(fold) => vec![(&mut fold.input, false), (&mut fold.output, true)],
        InstKind::Gemm(gemm) => {
            let GemmInst { a, b, bias, scales, out } = &mut **gemm;
            let scales = scales.iter_mut().flat_map(|scales| scales.iter_mut());
            let reads = [a, b].into_iter().chain(bias).chain(scales).map(|view| (view, false));
            reads.chain([(out, true)]).collect()
        }
        InstKind::Take(take) => {
            vec![(&mut take.input, false), (&mut take.index, false), (&mut take.output, true)]
        }
        InstKind::Accumulate(put) => {
            vec![(&mut put.base, false), (&mut put.index, false), (&mut put.value, false), (&mut put.output, true)]
        }
        _ => Vec::new(),
    }
}

/// A new buffer for a view: an input with its content, or memory without.
fn new_buffer(plan: &mut Plan, view: &BufferView, input: Option<usize>) -> BufferId {
    let elements = if view.is_empty() { 0 } else { view.last_offset() + 1 };
    let kind = input.map_or(BufferKind::Temp, |number| BufferKind::Input(number as u32));
    let id = plan.buffers.push(PlanBuffer { elements, dtype: view.dtype, tensor: TensorId(0), kind });
    if input.is_some() {
        plan.inputs.push(Some(whole_view(plan, id)));
    }
    id
}

/// All of a buffer.
fn whole_view(plan: &Plan, id: BufferId) -> BufferView {
    let PlanBuffer { elements, dtype, .. } = plan.buffers[id];
    BufferView { buffer: id, offset: 0, dims: hostir::plan::row_major(&[elements]), dtype }
}

fn plan_instruction(kind: InstKind) -> Inst {
    let origin = InstOrigin { op: OpId(0), iteration: IterationId(0) };
    Inst { kind, stream: USER_STREAM, origin }
}

/// Runs plans, one a rank.
fn run_plans(plans: Vec<Plan>, inputs: Vec<Vec<HostTensor>>) -> Result<Vec<Vec<Option<HostTensor>>>, String> {
    static EMPTY: OnceLock<Option<PreparedProgram>> = OnceLock::new();
    let empty = EMPTY.get_or_init(|| {
        let (programs, _) = hostir::load("%HostIrContainer { () -> () :\n} // %HostIrContainer\n");
        hostir::lower::prepare_program(programs.first()?, &SizeSettings::default()).ok()
    });
    let mut prepared = empty.clone().ok_or("the empty program is refused")?;
    prepared.ranks = plans.len() as u32;
    prepared.plans = plans;
    let text = |diags: Vec<hostir::diag::Diag>| {
        diags.iter().map(|diag| diag.message.to_string()).collect::<Vec<_>>().join("; ")
    };
    Ok(cpu::run_plans(&prepared, inputs).map_err(text)?.outputs)
}

/// The members' elements combined in their order, as the CPU backend combines those of a team.
pub(crate) fn combine_members(op: RedOp, dtype: DType, members: &[Vec<u8>]) -> Result<Vec<u8>, String> {
    let team: Vec<u32> = (0..members.len() as u32).collect();
    let (mut plans, mut inputs) = (Vec::new(), Vec::new());
    for (rank, bytes) in members.iter().enumerate() {
        let mut plan = Plan::default();
        plan.rank = rank as u32;
        plan.streams = 1;
        plan.works = 1;
        plan.iterations = vec![Default::default()];
        let elements = bytes.len() / dtype.byte_size();
        let tensor = HostTensor::from_bytes(dtype, &[elements], bytes);
        inputs.push(vec![tensor.ok_or("a member's bytes are no tensor")?]);
        plan.communicators.push(PlanCommunicator { team: team.clone(), backend: CommBackend::Nccl, name: None });
        let view = BufferView { buffer: BufferId(0), offset: 0, dims: hostir::plan::row_major(&[elements]), dtype };
        let own = whole_input(&mut plan, &view);
        let result = new_buffer(&mut plan, &view, None);
        let (input, output) = (Some(whole_view(&plan, own)), Some(whole_view(&plan, result)));
        plan.outputs.push(output.clone());
        plan.push_inst(plan_instruction(InstKind::Collective(Box::new(CollectiveInst {
            comm: CommSlot(0),
            kind: CollectiveKind::Allreduce,
            root: None,
            red_op: op,
            input,
            output,
            work: WorkSlot(0),
        }))));
        plan.push_inst(plan_instruction(InstKind::WaitWork { work: WorkSlot(0) }));
        plans.push(plan);
    }
    let outputs = run_plans(plans, inputs)?;
    let first = outputs.into_iter().next().and_then(|rank| rank.into_iter().next().flatten());
    Ok(first.ok_or("a reduction without a result")?.bytes().to_vec())
}

fn whole_input(plan: &mut Plan, view: &BufferView) -> BufferId {
    new_buffer(plan, view, Some(0))
}
