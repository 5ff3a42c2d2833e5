//! Fusion: joins pointwise instructions into as few kernels as their dependences allow.
//!
//! A kernel (or copy) whose result only later kernels and reductions of the same stream read moves into them, and its
//! result is never stored. A result that is read twice, or repeated along an axis, is computed again if that is cheap.
//! A kernel does not move past an instruction that another stream could observe or that changes its operands: events,
//! communications, writes to the operands. Memory that the kernel reads is freed after its new place. Fusion also
//! elides copies to and from GEMMs (`redirect`), sums with the result of a GEMM (`accumulate`) and messages that send
//! it (`direct`).

mod absorb;
mod accumulate;
mod direct;

pub use direct::{join_sends, join_stores};

use crate::codegen::alias;
use crate::codegen::types::{ComputeClass, compute_class};
use crate::fuse::absorb::absorb_producer;
use crate::fused_inst::FusedInst;
use crate::gemm_lowering;
use hostir::ir::IdVec;
use hostir::ir::functions::FunctionCost;
use hostir::plan::InstId;
use hostir::plan::{BufferId, BufferKind, BufferView, Function, GemmInst, InstKind, KernelStep, Plan, PointwiseKernel};
use hostir::plan::{ElidedCopies, are_disjoint, elide_copies, is_library_gemm};
use rustc_hash::{FxHashMap, FxHashSet};
use smallvec::smallvec;

/// An instruction while others move into it.
struct FusionItem {
    /// The computation for each element; `None` if the instruction takes no part in fusion.
    kernel: Option<PointwiseKernel>,
    /// The instructions in it.
    of: Vec<InstId>,
    /// True once the instruction has moved into others.
    gone: bool,
}

/// The instructions of a plan in order, with fused kernels, without allocations and frees of memory that is no longer
/// needed.
pub fn fuse_kernels(plan: &Plan) -> Vec<FusedInst> {
    let mut fusion = KernelFusion::new(plan);
    for (position, _) in plan.cursor() {
        fusion.absorb_into_readers(position);
    }
    fusion.absorb_postponed();
    let items = accumulate::join_sums(plan, fusion.into_fused());
    join_sends(plan, items, |gemm, _| is_library_gemm(gemm))
}

struct KernelFusion<'p> {
    plan: &'p Plan,
    items: IdVec<InstId, FusionItem>,
    /// Positions that read or write each buffer.
    readers: FxHashMap<BufferId, Vec<InstId>>,
    writers: FxHashMap<BufferId, usize>,
    outputs: FxHashSet<BufferId>,
    /// Buffers that nothing touches any more.
    dead: FxHashSet<BufferId>,
    /// For each buffer: the position of its last read, if that is later than in the plan.
    needed: FxHashMap<BufferId, InstId>,
    redirected: ElidedCopies,
    /// Kernels that several readers would have to compute again, until these readers are one kernel.
    postponed: Vec<InstId>,
}

impl<'p> KernelFusion<'p> {
    fn new(plan: &'p Plan) -> Self {
        let redirected = elide_copies(plan, takes_transposed_factors);
        let mut readers: FxHashMap<BufferId, Vec<InstId>> = FxHashMap::default();
        let mut writers: FxHashMap<BufferId, usize> = FxHashMap::default();
        let mut items = IdVec::default();
        for (position, inst) in plan.cursor() {
            if redirected.gone.contains(&position) {
                items.push(FusionItem { kernel: None, of: Vec::new(), gone: true });
                continue;
            }
            let gemm_inst = redirected.gemms.get(&position);
            let gemm_inst = gemm_inst.map(|(gemm, _)| InstKind::Gemm(Box::new(gemm.clone())));
            let kind = gemm_inst.as_ref().unwrap_or(&inst.kind);
            for view in kind.read_views() {
                let list = readers.entry(view.buffer).or_default();
                if list.last() != Some(&position) {
                    list.push(position);
                }
            }
            for view in kind.written_views() {
                *writers.entry(view.buffer).or_default() += 1;
            }
            items.push(FusionItem { kernel: elementwise_kernel(kind), of: vec![position], gone: false });
        }
        let outputs = plan.outputs.iter().flatten().map(|view| view.buffer).collect();
        let (dead, needed) = (FxHashSet::default(), FxHashMap::default());
        let postponed = Vec::new();
        Self { plan, items, readers, writers, outputs, dead, needed, redirected, postponed }
    }

    /// Moves a kernel into all readers of its result, if all can take it.
    fn absorb_into_readers(&mut self, position: InstId) {
        let Some((kernel, readers)) = self.movable_kernel(position) else { return };
        if readers.len() > 1 && !is_cheap(&kernel) {
            self.postponed.push(position);
            return;
        }
        let mut taken = Vec::new();
        for &reader in &readers {
            let consumer = self.items[reader].kernel.as_ref();
            let merged = consumer.and_then(|consumer| absorb_producer(consumer, &kernel));
            let inst = self.plan.inst(reader);
            let written = inst.kind.written_view();
            match merged {
                Some(merged) if can_generate(&merged, written) => taken.push(merged),
                _ => return,
            }
        }
        let own = std::mem::take(&mut self.items[position].of);
        for (&reader, merged) in readers.iter().zip(taken) {
            let item = &mut self.items[reader];
            item.kernel = Some(merged);
            item.of.extend(own.iter().copied());
            item.of.sort_unstable();
            item.of.dedup();
        }
        for view in &kernel.inputs {
            let list = self.readers.entry(view.buffer).or_default();
            list.retain(|&other| other != position);
            list.extend(readers.iter().copied());
            list.sort_unstable();
            list.dedup();
            let last = readers.last().copied().unwrap_or(position);
            let needed = self.needed.entry(view.buffer).or_insert(last);
            *needed = last.max(*needed);
        }
        self.items[position].gone = true;
        self.dead.insert(kernel.output.buffer);
    }

    /// Tries the kernels with several readers again. Two readers that were joined with a third one count as one, so the
    /// later kernels come first.
    fn absorb_postponed(&mut self) {
        let mut postponed = std::mem::take(&mut self.postponed);
        loop {
            let (before, mut left) = (postponed.len(), Vec::new());
            for position in postponed.into_iter().rev() {
                match self.has_one_reader(position) {
                    true => self.absorb_into_readers(position),
                    false => left.push(position),
                }
            }
            if left.len() == before {
                return;
            }
            left.reverse();
            postponed = left;
        }
    }

    fn has_one_reader(&self, position: InstId) -> bool {
        let output = self.items[position].kernel.as_ref().map(|kernel| kernel.output.buffer);
        output.and_then(|buffer| self.readers.get(&buffer)).is_some_and(|readers| readers.len() == 1)
    }

    /// The kernel at a position and the positions that read its result, if it may move to all of them.
    fn movable_kernel(&self, position: InstId) -> Option<(PointwiseKernel, Vec<InstId>)> {
        let (plan, item) = (self.plan, &self.items[position]);
        let stores = matches!(plan.inst(position).kind, InstKind::Kernel(_) | InstKind::Copy { .. });
        let kernel = item.kernel.as_ref().filter(|_| stores)?;
        let buffer = kernel.output.buffer;
        let private = !matches!(plan.buffers[buffer].kind, BufferKind::Input(_))
            && !self.outputs.contains(&buffer)
            && self.writers.get(&buffer) == Some(&1);
        let readers = self.readers.get(&buffer).filter(|_| private)?.clone();
        let (&first, &last) = (readers.first()?, readers.last()?);
        let stream = plan.inst(position).stream;
        let may_move = first > position
            && readers.iter().all(|&reader| plan.inst(reader).stream == stream)
            && plan.cursor_between(position, last).all(|(between, _)| self.can_move_across(kernel, position, between));
        may_move.then(|| (kernel.clone(), readers))
    }

    /// Returns true if a kernel may move across the instruction at a position.
    fn can_move_across(&self, kernel: &PointwiseKernel, position: InstId, between: InstId) -> bool {
        let (own, inst) = (self.plan.inst(position).stream, self.plan.inst(between));
        match &inst.kind {
            InstKind::Free { buffer } => inst.stream == own || kernel.inputs.iter().all(|view| view.buffer != *buffer),
            InstKind::Alloc { .. } => true,
            kind if kind.is_local() => {
                self.written_views(between).iter().all(|out| kernel.inputs.iter().all(|view| are_disjoint(view, out)))
            }
            _ => inst.stream != own && inst.kind.written_views().is_empty(),
        }
    }

    /// Returns the views that the instruction at a position writes at this stage of fusion.
    fn written_views(&self, position: InstId) -> Vec<BufferView> {
        match self.redirected.gemms.get(&position) {
            Some((gemm, _)) => vec![gemm.out.clone()],
            None if self.redirected.gone.contains(&position) => Vec::new(),
            None => self.plan.inst(position).kind.written_views().into_iter().cloned().collect(),
        }
    }

    /// Returns the remaining instructions and fused kernels, in order.
    fn into_fused(mut self) -> Vec<FusedInst> {
        let mut later: FxHashMap<InstId, Vec<InstId>> = FxHashMap::default();
        let mut fused = Vec::new();
        for (position, inst) in self.plan.cursor() {
            match inst.kind {
                InstKind::Alloc { buffer } | InstKind::Free { buffer } if self.dead.contains(&buffer) => {}
                InstKind::Free { buffer } => match self.needed.get(&buffer) {
                    Some(&needed) if needed > position => {
                        later.entry(needed).or_default().push(position);
                    }
                    _ => fused.push(FusedInst::Inst(position)),
                },
                _ => fused.extend(self.take_fused(position)),
            }
            fused.extend(later.remove(&position).into_iter().flatten().map(FusedInst::Inst));
        }
        fused
    }

    fn take_fused(&mut self, position: InstId) -> Option<FusedInst> {
        let item = &mut self.items[position];
        let of = std::mem::take(&mut item.of);
        if item.gone {
            return None;
        }
        if let Some((gemm, of)) = self.redirected.gemms.remove(&position) {
            return Some(FusedInst::Gemm { gemm: Box::new(gemm), at: position, of });
        }
        let Some(kernel) = item.kernel.take().filter(|_| of.len() > 1) else {
            return Some(FusedInst::Inst(position));
        };
        let kernel = Box::new(kernel);
        Some(match &self.plan.inst(position).kind {
            InstKind::Reduce(fold) => {
                let (axes, output) = (fold.axes.clone(), fold.output.clone());
                FusedInst::Reduce { kernel, op: fold.op, axes, output, of }
            }
            _ => FusedInst::Kernel { kernel, of },
        })
    }
}

/// Returns true if the library computes a GEMM whose factors have these strides, as it does for transposed matrices.
/// For 8-bit factors it needs the right one transposed. Scales do not matter: a kernel may apply them.
fn takes_transposed_factors(gemm: &GemmInst) -> bool {
    gemm_lowering::gemm_calls(&GemmInst { scales: None, ..gemm.clone() }).is_some()
}

/// Returns the computation of an instruction for each element of its input or output; for a reduction, that of the
/// values which it combines.
fn elementwise_kernel(kind: &InstKind) -> Option<PointwiseKernel> {
    match kind {
        InstKind::Kernel(kernel) => Some((**kernel).clone()),
        InstKind::Copy { src, dst } if compute_class(src.dtype).is_ok() => Some(identity_kernel(src, dst)),
        InstKind::Reduce(fold) => Some(identity_kernel(&fold.input, &fold.input)),
        _ => None,
    }
}

fn identity_kernel(input: &BufferView, output: &BufferView) -> PointwiseKernel {
    PointwiseKernel {
        inputs: smallvec![input.clone()],
        output: output.clone(),
        steps: vec![KernelStep {
            function: Function::Identity,
            args: smallvec![hostir::plan::StepOperand::Input(0)],
            compute: input.dtype,
            result: input.dtype,
        }],
    }
}

/// Returns true if a merged kernel can be generated: it has few enough operands, and the result overlaps none of them.
fn can_generate(kernel: &PointwiseKernel, written: Option<&BufferView>) -> bool {
    const INPUTS: usize = 12;
    const STEPS: usize = 96;
    kernel.inputs.len() <= INPUTS
        && kernel.steps.len() <= STEPS
        && written.is_none_or(|out| alias::check_overlap(&kernel.inputs, out, *out == kernel.output).is_ok())
}

/// Returns true if a kernel's arithmetic costs less than storing and loading its result.
fn is_cheap(kernel: &PointwiseKernel) -> bool {
    kernel.inputs.len() <= 2 && kernel.steps.len() <= 4 && kernel.steps.iter().all(is_cheap_step)
}

fn is_cheap_step(step: &KernelStep) -> bool {
    match step.function.row().cost {
        FunctionCost::Low => true,
        FunctionCost::LowInFloat => compute_class(step.compute) == Ok(ComputeClass::F32),
        FunctionCost::High => false,
    }
}
