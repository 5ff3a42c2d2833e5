//! GEMM ops: `matmul`, `matmul_add`, `linear`, `scaled_matmul` and `grouped_matmul`.

mod grouped;
mod links;
mod lowering;
mod scaled;
mod types;

pub use grouped::GROUPED_MATMUL;
pub use scaled::SCALED_MATMUL;

use super::spec::{ArgKind, ArgSpec, Infer, Lower, OpSpec};
use super::tensor_checks;
use crate::diag::Diags;
use crate::ir::{DType, GemmForm, Op, OpId, OpIdentity, OpKind, OpLayout, Program, StandaloneRule, TensorId, Value};

/// `matmul`.
pub const MATMUL: OpSpec = OpSpec {
    identity: OpIdentity {
        name: "matmul",
        layout: OpLayout::Aligned,
        standalone: StandaloneRule::Yes,
        gemm: Some(GemmForm::PLAIN),
        ..OpIdentity::TENSOR_OP
    },
    spellings: &[],
    summary: "Computes a batched GEMM.",
    args: &[ArgSpec::operand(ArgKind::Tensor), ArgSpec::operand(ArgKind::Tensor)],
    relate: Some(links::link_matmul),
    infer: Infer::Result(types::infer_matmul),
    checks: &[check_gemm_dtypes],
    lower: Lower::Instructions(lowering::lower_matmul),
};

/// `matmul_add`, which nvFuser does not have: the GEMM of a chain of partial sums.
pub const MATMUL_ADD: OpSpec = OpSpec {
    identity: OpIdentity {
        name: "matmul_add",
        layout: OpLayout::Aligned,
        standalone: StandaloneRule::Yes,
        gemm: Some(GemmForm { accumulates: true, ..GemmForm::PLAIN }),
        ..OpIdentity::TENSOR_OP
    },
    spellings: &[],
    summary: "Computes a batched GEMM plus an accumulator of the result's shape, and rounds once.",
    args: &[ArgSpec::operand(ArgKind::Tensor), ArgSpec::operand(ArgKind::Tensor), ArgSpec::operand(ArgKind::Tensor)],
    relate: Some(links::link_matmul_add),
    infer: Infer::Result(types::infer_matmul_add),
    checks: &[check_gemm_dtypes],
    lower: Lower::Instructions(lowering::lower_matmul_add),
};

/// `linear`.
pub const LINEAR: OpSpec = OpSpec {
    identity: OpIdentity {
        name: "linear",
        layout: OpLayout::AlignedLoose,
        standalone: StandaloneRule::Yes,
        gemm: Some(GemmForm { transposed: true, ..GemmForm::PLAIN }),
        ..OpIdentity::TENSOR_OP
    },
    spellings: &[],
    summary: "Computes a GEMM with a transposed weight, plus a bias if given.",
    args: &[
        ArgSpec::operand(ArgKind::Tensor),
        ArgSpec::operand(ArgKind::Tensor),
        ArgSpec::operand(ArgKind::Tensor).optional(),
    ],
    relate: Some(links::link_linear),
    infer: Infer::Result(types::infer_linear),
    checks: &[check_gemm_dtypes],
    lower: Lower::Instructions(lowering::lower_linear),
};

/// V32 for GEMMs: the factors may be two different 8-bit floats, with a result of either type or of any wider float up
/// to `float`; the added term has the result's type.
fn check_gemm_dtypes(program: &Program, id: OpId, diags: &mut Diags) {
    let op = program.op(id);
    let mut tensors = op.input_tensors();
    let (Some(a), Some(b), Some(result)) = (tensors.next(), tensors.next(), op.output_tensors().next()) else {
        return;
    };
    let [a, b, out] = [a, b, result].map(|tensor| program.tensor(tensor).dtype);
    let wide = matches!(out, DType::Float | DType::Half | DType::BFloat16);
    if !a.is_fp8_factor() || !b.is_fp8_factor() || !(wide || out.is_fp8_factor()) {
        return tensor_checks::check_one_dtype(program, id, diags);
    }
    if let Some(bias) = tensors.next().filter(|&bias| program.tensor(bias).dtype != out) {
        tensor_checks::report_dtypes(program, id, bias, result, diags);
    }
}

/// The GEMM of two factors, without its result: with scales of rows and columns, `scaled_matmul`, to which a bias is
/// added; otherwise `matmul_add` if a tensor is added.
pub fn gemm_op(factors: [TensorId; 2], scales: Option<[TensorId; 2]>, added: Option<TensorId>) -> Op {
    let mut op = Op::new(match (scales, added) {
        (Some(_), _) => OpKind::ScaledMatmul,
        (None, Some(_)) => OpKind::MatmulAdd,
        (None, None) => OpKind::Matmul,
    });
    op.operands.extend(factors.into_iter().chain(scales.into_iter().flatten()).chain(added).map(Value::Tensor));
    if added.is_some() {
        let spec = op.kind.spec();
        spec.list_given(&mut op, |place| spec.args[place].word == Some("bias"));
    }
    op
}
