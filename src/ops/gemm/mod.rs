//! GEMM ops: `matmul` and `linear`.

mod links;
mod lowering;

use super::spec::{ArgKind, ArgSpec, Lower, OpSpec};
use super::tensor_checks;
use crate::diag::Diags;
use crate::ir::{DType, OpId, OpIdentity, OpLayout, Program, StandaloneRule, TensorId};

/// `matmul`.
pub const MATMUL: OpSpec = OpSpec {
    identity: OpIdentity {
        name: "matmul",
        layout: OpLayout::Aligned,
        standalone: StandaloneRule::Yes,
        ..OpIdentity::TENSOR_OP
    },
    spellings: &[],
    summary: "Computes a batched GEMM.",
    args: &[ArgSpec::operand(ArgKind::Tensor), ArgSpec::operand(ArgKind::Tensor)],
    relate: Some(links::link_matmul),
    checks: &[check_gemm_dtypes],
    lower: Lower::Instructions(lowering::lower_matmul),
};

/// `linear`.
pub const LINEAR: OpSpec = OpSpec {
    identity: OpIdentity {
        name: "linear",
        layout: OpLayout::AlignedLoose,
        standalone: StandaloneRule::Yes,
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
    checks: &[check_gemm_dtypes],
    lower: Lower::Instructions(lowering::lower_linear),
};

/// V32 for products: two 8-bit floats may differ, and give them or any wider float up to `float`; the
/// bias has the result's type.
fn check_gemm_dtypes(program: &Program, id: OpId, diags: &mut Diags) {
    let op = program.op(id);
    let is = |tensor: TensorId| program.tensor(tensor).dtype;
    let mut tensors = op.input_tensors();
    let (Some(a), Some(b), Some(result)) = (tensors.next(), tensors.next(), op.output_tensors().next()) else {
        return;
    };
    let wide = matches!(is(result), DType::Float | DType::Half | DType::BFloat16);
    if !is(a).is_fp8_factor() || !is(b).is_fp8_factor() || !(wide || is(result).is_fp8_factor()) {
        return tensor_checks::check_one_dtype(program, id, diags);
    }
    if let Some(bias) = tensors.next().filter(|&bias| is(bias) != is(result)) {
        tensor_checks::report_dtypes(program, id, (bias, result), diags);
    }
}
