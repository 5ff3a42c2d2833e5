//! A plan with its kernels joined, as a plan again: a reduction of a kernel's results stores them first.

use hostir::ir::TensorId;
use hostir::plan::{BufferKind, BufferView, Inst, InstKind, Plan, PlanBuffer, ReduceInst, row_major};
use hostir_gpu::codegen::{self, KernelJob};
use hostir_gpu::fuse::fuse_kernels;
use hostir_gpu::fused_inst::FusedInst;
use hostir_gpu::unsupported::Unsupported;

/// The plan after fusion.
pub(crate) fn applied(plan: &Plan) -> Plan {
    let mut joined = plan.clone().with_insts(Vec::new());
    for fused in fuse_kernels(plan) {
        match fused {
            FusedInst::Inst(position) => {
                joined.push_inst(plan.inst(position).into_owned());
            }
            FusedInst::Gemm { gemm, at, .. } => {
                joined.push_inst(Inst { kind: InstKind::Gemm(gemm), ..plan.inst(at).into_owned() });
            }
            FusedInst::DirectGemm { gemm, at, send, .. } => {
                joined.push_inst(Inst { kind: InstKind::Gemm(gemm), ..plan.inst(at).into_owned() });
                joined.push_inst(plan.inst(send).into_owned());
            }
            FusedInst::StoreGemms(_) => unreachable!("only schedules join them"),
            FusedInst::Kernel { kernel, of } => {
                let last = plan.inst(*of.last().unwrap()).into_owned();
                joined.push_inst(Inst { kind: InstKind::Kernel(kernel), ..last.clone() });
            }
            FusedInst::Reduce { mut kernel, op, axes, output, of } => {
                let last = plan.inst(*of.last().unwrap()).into_owned();
                let shape = kernel.output.shape();
                let (elements, dtype) = (shape.iter().product(), kernel.output.dtype);
                let (tensor, kind) = (TensorId(0), BufferKind::Temp);
                let buffer = joined.buffers.push(PlanBuffer { elements, dtype, tensor, kind });
                let input = BufferView { buffer, offset: 0, dims: row_major(&shape), dtype };
                kernel.output = input.clone();
                joined.push_inst(Inst { kind: InstKind::Kernel(kernel), ..last.clone() });
                let kind = InstKind::Reduce(Box::new(ReduceInst { op, axes, input, output }));
                joined.push_inst(Inst { kind, ..last.clone() });
            }
        }
    }
    joined
}

/// The job of an instruction on a device with so many multiprocessors.
pub(crate) fn job(kind: &InstKind, sms: u32) -> Result<KernelJob, Unsupported> {
    match kind {
        InstKind::Kernel(kernel) => codegen::generate_pointwise(kernel),
        InstKind::Copy { src, dst } => codegen::generate_copy(src, dst),
        InstKind::Fill { dst, value } => codegen::generate_fill(dst, *value),
        InstKind::Reduce(fold) => codegen::generate_reduction(fold.op, &fold.axes, &fold.input, &fold.output, sms),
        InstKind::Gemm(gemm) => codegen::generate_gemm(gemm),
        InstKind::Take(take) => codegen::generate_take(take),
        InstKind::Accumulate(put) => codegen::generate_accumulate(put),
        _ => Ok(KernelJob::default()),
    }
}

/// The job of an item of a plan with joined kernels.
pub(crate) fn joined_job(plan: &Plan, item: FusedInst, sms: u32) -> Result<KernelJob, Unsupported> {
    match item {
        FusedInst::Inst(position) => job(&plan.inst(position).kind, sms),
        FusedInst::Gemm { gemm, .. } | FusedInst::DirectGemm { gemm, .. } => codegen::generate_gemm(&gemm),
        FusedInst::StoreGemms(_) => unreachable!("only schedules join them"),
        FusedInst::Kernel { kernel, .. } => codegen::generate_pointwise(&kernel),
        FusedInst::Reduce { kernel, op, axes, output, .. } => {
            codegen::generate_fused_reduction(&kernel, op, &axes, &output, sms)
        }
    }
}
