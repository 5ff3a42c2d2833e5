//! GEMMs that add: `P = matmul(A, B)` and `D = P + C` as one GEMM with `C` as its accumulator.
//!
//! Applies only to results in `float` and `double`, the types in which GEMMs accumulate: then `P` is not rounded, and
//! the GEMM gives the same sum as the two instructions. In narrower types it would round once instead of twice; a
//! program requests that by `matmul_add`, which the pass `fuse-accumulate` writes.

use crate::fused_inst::FusedInst;
use crate::gemm_lowering;
use hostir::ir::DType;
use hostir::plan::{BufferView, Function, GemmInst, GemmPair, InstKind, Plan, PointwiseKernel, StepOperand, WorkItem};
use hostir::plan::{are_disjoint, is_same_view, sole_reader_pairs};

/// Replaces each GEMM whose result is only added, and the sum, by one GEMM at the sum's place.
pub(super) fn join_sums(plan: &Plan, items: Vec<FusedInst>) -> Vec<FusedInst> {
    let found = sole_reader_pairs(plan, &items, |gemm, reader| {
        kernel_of_item(plan, reader).is_some_and(|kernel| accumulating_gemm(gemm, &kernel).is_some())
    });
    let mut items: Vec<Option<FusedInst>> = items.into_iter().map(Some).collect();
    for GemmPair { gemm, reader } in found {
        let joined = items[gemm].as_ref().zip(items[reader].as_ref()).and_then(|(gemm_item, sum)| {
            let gemm = accumulating_gemm(&gemm_item.own_gemm(plan)?, &kernel_of_item(plan, sum)?)?;
            let of = replaced_positions(gemm_item).chain(replaced_positions(sum)).chain([sum.plan_position()]);
            Some(FusedInst::Gemm { gemm: Box::new(gemm), at: gemm_item.plan_position(), of: of.collect() })
        });
        if joined.is_some() {
            items[gemm] = None;
            items[reader] = joined;
        }
    }
    items.into_iter().flatten().collect()
}

/// The positions that an item replaces besides its own.
fn replaced_positions(item: &FusedInst) -> impl Iterator<Item = hostir::plan::InstId> + '_ {
    let own = item.plan_position();
    let of = match item {
        FusedInst::Gemm { of, .. } | FusedInst::Kernel { of, .. } => of.as_slice(),
        _ => &[],
    };
    of.iter().copied().filter(move |&at| at != own)
}

fn kernel_of_item(plan: &Plan, item: &FusedInst) -> Option<PointwiseKernel> {
    match item {
        FusedInst::Kernel { kernel, .. } => Some((**kernel).clone()),
        FusedInst::Inst(at) => match &plan.inst(*at).kind {
            InstKind::Kernel(kernel) => Some((**kernel).clone()),
            _ => None,
        },
        _ => None,
    }
}

/// The GEMM that also adds another operand.
fn accumulating_gemm(gemm: &GemmInst, kernel: &PointwiseKernel) -> Option<GemmInst> {
    let wide = matches!(gemm.out.dtype, DType::Float | DType::Double);
    let added = added_view(kernel, &gemm.out).filter(|_| wide && gemm.bias.is_none())?;
    let out = &kernel.output;
    let shape = gemm.out.shape();
    if [added, out].iter().any(|view| view.shape() != shape || view.dtype != gemm.out.dtype) {
        return None;
    }
    let disjoint = gemm.read_views().all(|view| are_disjoint(view, out));
    let in_place = is_same_view(added, out) || are_disjoint(added, out);
    let joined = GemmInst { bias: Some(added.clone()), out: out.clone(), ..gemm.clone() };
    (disjoint && in_place && gemm_lowering::gemm_calls(&joined).is_some()).then_some(joined)
}

/// The view that a kernel adds to a GEMM's result, if that is all it does.
fn added_view<'k>(kernel: &'k PointwiseKernel, gemm_result: &BufferView) -> Option<&'k BufferView> {
    let (sum, copies) = kernel.steps.split_last()?;
    let dtype = gemm_result.dtype;
    let one_type = kernel.steps.iter().all(|step| step.compute == dtype && step.result == dtype);
    let copies_only = copies.iter().all(|step| step.function == Function::Identity);
    if sum.function != Function::Add || !one_type || !copies_only {
        return None;
    }
    let [x, y] = sum.args.as_slice() else { return None };
    let (x, y) = (operand_view(kernel, *x)?, operand_view(kernel, *y)?);
    match (is_same_view(x, gemm_result), is_same_view(y, gemm_result)) {
        (true, false) => Some(y),
        (false, true) => Some(x),
        _ => None,
    }
}

/// The input that an operand is, or copies.
fn operand_view(kernel: &PointwiseKernel, operand: StepOperand) -> Option<&BufferView> {
    match operand {
        StepOperand::Input(number) => kernel.inputs.get(number as usize),
        StepOperand::Step(number) => match kernel.steps.get(number as usize)?.args.as_slice() {
            [StepOperand::Input(number)] => kernel.inputs.get(*number as usize),
            _ => None,
        },
        StepOperand::Const(_) | StepOperand::Index(_) => None,
    }
}
