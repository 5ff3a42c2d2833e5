//! GEMM ops: `matmul`, `matmul_add`, `linear`, `scaled_matmul` and `grouped_matmul`.

mod grouped;
mod links;
mod lowering;
mod scaled;
mod types;

pub use grouped::GROUPED_MATMUL;
pub use scaled::SCALED_MATMUL;

use super::result_types::stored_domains;
use super::spec::{ArgKind, ArgSpec, Infer, Lower, OpSpec};
use super::tensor_checks::{self, constant_extents};
use crate::diag::{Diag, Diags, Message, PartKind, Quoted, codes, message};
use crate::ir::{
    DType, ExprId, GemmForm, Op, OpId, OpIdentity, OpKind, OpLayout, Program, StandaloneRule, TensorId, Value,
    quoted_expr,
};

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
    checks: &[check_gemm_dtypes, check_factor_order],
    repair: None,
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
    checks: &[check_gemm_dtypes, check_factor_order],
    repair: Some(addend_repair),
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
    repair: None,
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

/// Warns about factors whose extents have equal names only if they are exchanged: extents of one size hide that.
fn check_factor_order(program: &Program, id: OpId, diags: &mut Diags) {
    let op = program.op(id);
    let (Some(result), [a, b, ..]) = (op.output_tensors().next(), &op.input_tensors().collect::<Vec<_>>()[..]) else {
        return;
    };
    let extents = [*a, *b, result].map(|tensor| -> Vec<ExprId> {
        let named = stored_domains(program, tensor).into_iter().map(|domain| domain.extent);
        named.filter(|&extent| program.exprs().as_name(extent).is_some()).collect()
    });
    let [[m, k], [l, n], [rows, columns]] = [0, 1, 2].map(|at: usize| extents[at].as_slice()) else { return };
    let fits = k == l && m == rows && n == columns;
    let fits_exchanged = n == m && l == rows && k == columns;
    // The type of a result that is not written follows from the factors as they are: its uses tell which one is meant.
    let is_used_exchanged =
        k != l && n == m && m == rows && n == columns && is_used_as(program, result, [*l, *k], [*m, *n]);
    if fits || !(fits_exchanged || is_used_exchanged) {
        return;
    }
    let [x, y, product] = [*a, *b, result].map(|tensor| program.quoted_tensor(tensor));
    let message = message!(
        "are the factors `{}` and `{}` exchanged? as they are, `{}` must equal `{}`",
        x,
        y,
        quoted_expr(program, *k),
        quoted_expr(program, *l)
    );
    let note = match fits_exchanged {
        true => message!("the product of `{}` and `{}` has the axes of `{}`", y, x, product),
        false => message!(
            "with `{}` all names agree, also those of what uses `{}`",
            Quoted::new(PartKind::Statement, format!("matmul({}, {})", y.printed(), x.printed())),
            product
        ),
    };
    diags.push(Diag::error(codes::SWAPPED_FACTORS, program.op_span(id), message).with_note(note).into_warning());
}

/// Returns true if a statement uses a matrix, or a pointwise function of it, as one of the axes `meant`, which by name are
/// not those that the matrix has: a GEMM whose other factor has the inner extent that is meant, or a result of those axes.
fn is_used_as(program: &Program, matrix: TensorId, meant: [ExprId; 2], found: [ExprId; 2]) -> bool {
    let mut alike = vec![matrix];
    for (_, op) in program.ops().iter() {
        let inputs: Vec<TensorId> = op.input_tensors().collect();
        if !inputs.iter().any(|input| alike.contains(input)) {
            continue;
        }
        let gemm = op.kind.gemm().filter(|form| form.is_plain());
        if let (Some(_), [a, b, ..]) = (gemm, inputs.as_slice()) {
            let [left, right] = [*a, *b].map(|tensor| stored_extents(program, tensor));
            let is_left = right.len() == 2 && right.first() == Some(&meant[1]) && meant[1] != found[1];
            let is_right = left.len() == 2 && left.last() == Some(&meant[0]) && meant[0] != found[0];
            if alike.contains(a) && is_left || alike.contains(b) && is_right {
                return true;
            }
        } else if op.output_tensors().any(|result| stored_extents(program, result) == meant) {
            return true;
        }
        if op.kind.is_pointwise() {
            alike.extend(op.output_tensors().filter(|result| stored_extents(program, *result) == found));
        }
    }
    false
}

fn stored_extents(program: &Program, tensor: TensorId) -> Vec<ExprId> {
    stored_domains(program, tensor).into_iter().map(|domain| domain.extent).collect()
}

/// The repair if what is added to a product is written in front of its factors.
fn addend_repair(program: &Program, id: OpId) -> Option<Message> {
    let op = program.op(id);
    let inputs: Vec<TensorId> = op.input_tensors().collect();
    let &[addend, a, b] = &inputs[..] else { return None };
    let [first, result] = [addend, op.output_tensors().next()?].map(|tensor| constant_extents(program, tensor));
    let [addend, a, b] = [addend, a, b].map(|tensor| program.quoted_tensor(tensor));
    (first == result).then(|| message!("what is added comes last: `matmul_add({}, {}, {})`", a, b, addend))
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
