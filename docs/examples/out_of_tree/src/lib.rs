//! An op and two passes that the toolchain does not have, and its tools with them.

use hostir::diag::{Diag, Diags, codes};
use hostir::ir::edit::Edit;
use hostir::ir::{AttrKey, Op, OpId, OpIdentity};
use hostir::ops::{ArgKind, ArgSpec, Infer, OpRegistry, OpSpec, pointwise, result_types, spec::Lower, tensor_checks};
use hostir::plan::{ComposedKernel, Function, PlanBuilder, StepOperand};
use hostir_lit::context::InProcessTool;
use hostir_passes::{PassAction, PassCx, PassExample, PassInfo, PassRegistry, StatisticSpec, ToolRegistries};
use hostir_tool_support::io::ToolIo;
use std::ffi::OsString;

/// `T2 = axpy(T0, T1, alpha=2)`: a multiple of a tensor, added to another one.
static AXPY: OpSpec = OpSpec {
    identity: OpIdentity { name: "axpy", spec: Some(&AXPY), ..OpIdentity::TENSOR_OP },
    summary: "Adds a multiple of the first tensor to the second.",
    args: &[
        ArgSpec::operand(ArgKind::Tensor),
        ArgSpec::operand(ArgKind::Tensor),
        ArgSpec::spaced("alpha", ALPHA, ArgKind::Expr),
    ],
    relate: Some(pointwise::link_pointwise),
    infer: Infer::Result(result_types::infer_copy),
    checks: &[tensor_checks::check_one_dtype],
    lower: Lower::Instructions(lower_axpy),
    ..OpSpec::TENSOR_OP
};

const ALPHA: AttrKey = AttrKey::Own(0);

/// One kernel of two steps: a loop on the CPU, generated code on GPUs, arithmetic in a proof.
fn lower_axpy(cx: &mut PlanBuilder<'_>, id: OpId) -> Result<(), Diag> {
    let op = cx.program.op(id);
    let Some(alpha) = op.expr_attr(ALPHA) else { return Err(cx.error_here(codes::NEEDED, "`alpha` is not known")) };
    let (alpha, result) = (StepOperand::Const(cx.eval_scalar(alpha)?), cx.result_tensor(op)?);
    let output = cx.output_view(result)?;
    let (dtype, shape) = (output.dtype, output.shape());
    let mut kernel = ComposedKernel::default();
    let a = kernel.input(cx.fitted_input(cx.operand_tensor(op, 0)?, result, &shape)?);
    let b = kernel.input(cx.fitted_input(cx.operand_tensor(op, 1)?, result, &shape)?);
    let scaled = kernel.apply_function(Function::Mul, dtype, &[a, alpha]);
    kernel.apply_function(Function::Add, dtype, &[scaled, b]);
    kernel.emit(cx, output)
}

/// `axpy(A, B, alpha=1)` becomes `A + B`.
static SIMPLIFY_AXPY: PassInfo = PassInfo {
    name: "simplify-axpy",
    summary: "Turn an axpy with alpha = 1 into a sum",
    description: "Other values of `alpha` stay, and so do those that are known only when a program runs.",
    example: Some(PassExample {
        options: "",
        before: "hir 2\n\nsum(A: f32[4], B: f32[4]) -> (C: f32[4]):\n  C = axpy(A, B, alpha=1)\n",
        after: "hir 2\n\nsum(A: f32[4], B: f32[4]) -> (C: f32[4]):\n  C = A + B\n",
    }),
    statistics: &[StatisticSpec { name: "sums", help: "ops that became sums" }],
    action: PassAction::Rewrite(simplify_axpy),
    ..PassInfo::DEFAULTS
};

fn simplify_axpy(edit: &mut Edit<'_>, cx: &mut PassCx<'_>) -> Result<(), Diags> {
    let (program, mut found) = (edit.program(), Vec::new());
    program.walk(program.body(), &mut |id| {
        let alpha = program.op(id).expr_attr(ALPHA).filter(|_| program.op(id).kind == AXPY.kind());
        found.extend(alpha.filter(|&alpha| program.exprs().as_int(alpha) == Some(1)).map(|_| id));
    });
    let plus = edit.intern_name("+");
    for &id in &found {
        let op = edit.program().op(id);
        let sum = Op { results: op.results.clone(), ..pointwise::pointwise_op(plus, op.operands.clone()) };
        edit.set_op(id, sum);
    }
    cx.add_count("sums", found.len() as u64);
    Ok(())
}

/// A pass that stands for others.
static TIDY_AXPY: PassInfo = PassInfo {
    name: "tidy-axpy",
    summary: "Simplify axpy ops, and remove ops whose results are never read",
    action: PassAction::Pipeline(|_| "simplify-axpy,dce".to_owned()),
    ..PassInfo::DEFAULTS
};

/// The ops and passes of the toolchain, and these.
pub static REGISTRIES: ToolRegistries = ToolRegistries {
    ops: OpRegistry::with_ops(&[AXPY.kind()]),
    passes: PassRegistry::with_passes(&[&SIMPLIFY_AXPY, &TIDY_AXPY]),
};

/// hir-opt with the op and the passes.
pub fn hir_opt(args: &[OsString], io: &mut ToolIo<'_>) -> i32 {
    hostir_opt::main_with_registries(args, io, REGISTRIES)
}

/// hir-run with the op.
pub fn hir_run(args: &[OsString], io: &mut ToolIo<'_>) -> i32 {
    hostir_run::run::main_with_ops(args, io, REGISTRIES.ops)
}

/// The programs that RUN lines call.
pub const TOOLS: [InProcessTool; 2] =
    [InProcessTool { name: "hir-opt", main: hir_opt }, InProcessTool { name: "hir-run", main: hir_run }];
