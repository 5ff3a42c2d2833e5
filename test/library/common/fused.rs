//! A plan with its kernels joined, as a plan again: a reduction of a kernel's results stores them first.

use hostir::ir::TensorId;
use hostir::plan::{Buffer, BufferKind, Inst, InstKind, Plan, View, row_major};
use hostir_gpu::fuse::{Fused, fuse};

/// The plan after fusion.
pub(crate) fn applied(plan: &Plan) -> Plan {
    let mut joined = plan.clone().with_insts(Vec::new());
    for fused in fuse(plan) {
        match fused {
            Fused::Inst(position) => {
                joined.push_inst(plan.inst(position).clone());
            }
            Fused::Gemm { gemm, at, .. } => {
                joined.push_inst(Inst { kind: InstKind::Gemm(gemm), ..plan.inst(at).clone() });
            }
            Fused::Kernel { kernel, of } => {
                let last = plan.inst(*of.last().unwrap());
                joined.push_inst(Inst { kind: InstKind::Kernel(kernel), ..last.clone() });
            }
            Fused::Reduce { mut kernel, op, axes, output, of } => {
                let last = plan.inst(*of.last().unwrap());
                let shape = kernel.output.shape();
                let (elements, dtype) = (shape.iter().product(), kernel.output.dtype);
                let (tensor, kind) = (TensorId(0), BufferKind::Temp);
                let buffer = joined.buffers.push(Buffer { elements, dtype, tensor, kind });
                let input = View { buffer, offset: 0, dims: row_major(&shape), dtype };
                kernel.output = input.clone();
                joined.push_inst(Inst { kind: InstKind::Kernel(kernel), ..last.clone() });
                let kind = InstKind::Reduce { op, axes, input, output };
                joined.push_inst(Inst { kind, ..last.clone() });
            }
        }
    }
    joined
}
