//! Ops of a caller: an op that is not in the table is read in both notations, printed, verified, proved and run.

use crate::common::{Case, render};
use hostir::ReadOptions;
use hostir::axes::pairing::{LinkResult, both_sides, equal_rank_positions, link_kept_positions};
use hostir::data::HostTensor;
use hostir::diag::{Diag, Diags};
use hostir::ir::{AttrKey, AxisLink, DType, OpId, OpIdentity, OpKind, Program};
use hostir::ops::result_types::infer_copy;
use hostir::ops::spec::Lower;
use hostir::ops::tensor_checks::{check_dim_argument, check_one_dtype};
use hostir::ops::{ArgKind, ArgSpec, Infer, OpRegistry, OpSpec};
use hostir::plan::{
    BufferView, InstKind, PlanBuilder, RowCall, RowElements, RowFunction, RowValues, RowsInst, emit_copy,
};

/// Reverses an axis.
static FLIP: OpSpec = OpSpec {
    identity: OpIdentity { name: "flip", spec: Some(&FLIP), ..OpIdentity::TENSOR_OP },
    spellings: &[],
    summary: "Reverses an axis.",
    args: &[
        ArgSpec::operand(ArgKind::Tensor),
        ArgSpec::spaced("dim", AttrKey::Dim, ArgKind::Int),
        ArgSpec::spaced("times", TIMES, ArgKind::Expr).optional(),
    ],
    relate: Some(link_flip),
    infer: Infer::Result(infer_copy),
    checks: &[check_one_dtype, check_dim_argument],
    repair: None,
    lower: Lower::Instructions(lower_flip),
};

const TIMES: AttrKey = AttrKey::Own(0);

/// Adds up each row.
static RUNNING_SUM: OpSpec = OpSpec {
    identity: OpIdentity { name: "runningSum", spec: Some(&RUNNING_SUM), ..OpIdentity::TENSOR_OP },
    spellings: &[],
    summary: "Sums of each row's elements up to each place.",
    args: &[ArgSpec::operand(ArgKind::Tensor)],
    relate: Some(link_running_sum),
    infer: Infer::Result(infer_copy),
    checks: &[check_one_dtype],
    repair: None,
    lower: Lower::Instructions(lower_running_sum),
};

static SUM_FUNCTION: RowFunction = RowFunction { name: "runningSum", compute: compute_running_sum };

static MORE: &[OpKind] = &[FLIP.kind(), RUNNING_SUM.kind()];

fn link_flip(program: &Program, op: OpId, links: &mut Vec<AxisLink>) -> LinkResult {
    let (from, to) = both_sides(program, op)?;
    let Some((a, b)) = equal_rank_positions(program, op, &from, &to)? else { return Ok(()) };
    let dim = program.op(op).expr_attr(AttrKey::Dim).and_then(|dim| program.exprs().as_int(dim));
    link_kept_positions(&from, &to, &a, &b, links, |k| dim.is_some_and(|dim| dim != k as i64));
    Ok(())
}

fn lower_flip(cx: &mut PlanBuilder<'_>, id: OpId) -> Result<(), Diag> {
    let op = cx.program.op(id);
    let (input, result) = (cx.operand_tensor(op, 0)?, cx.result_tensor(op)?);
    let dim = op.expr_attr(AttrKey::Dim).map_or(Ok(0), |dim| cx.eval_size(dim))?;
    let times = op.expr_attr(TIMES).map_or(Ok(1), |times| cx.eval_int(times))?;
    let (source, output) = (cx.input_view(input)?, cx.output_view(result)?);
    let extent = output.dims[dim].extent;
    for place in 0..extent {
        let from = if times % 2 == 0 { place } else { extent - 1 - place };
        emit_copy(cx, row(&source, dim, from), row(&output, dim, place))?;
    }
    Ok(())
}

fn row(view: &BufferView, axis: usize, place: usize) -> BufferView {
    let mut part = view.clone();
    part.offset += place * part.dims[axis].stride;
    part.dims[axis].extent = 1;
    part
}

fn link_running_sum(program: &Program, op: OpId, links: &mut Vec<AxisLink>) -> LinkResult {
    let (from, to) = both_sides(program, op)?;
    let Some((a, b)) = equal_rank_positions(program, op, &from, &to)? else { return Ok(()) };
    let last = a.len().saturating_sub(1);
    link_kept_positions(&from, &to, &a, &b, links, |k| k != last);
    Ok(())
}

fn lower_running_sum(cx: &mut PlanBuilder<'_>, id: OpId) -> Result<(), Diag> {
    let op = cx.program.op(id);
    let (input, result) = (cx.operand_tensor(op, 0)?, cx.result_tensor(op)?);
    let (source, output) = (cx.input_view(input)?, cx.output_view(result)?);
    let rows = RowsInst {
        function: &SUM_FUNCTION,
        result: 0,
        batch_axes: output.dims.len() - 1,
        inputs: [source].into_iter().collect(),
        arguments: [].into_iter().collect(),
        output,
    };
    cx.emit_inst(InstKind::Rows(Box::new(rows)))
}

fn compute_running_sum(call: &RowCall<'_>) -> Result<RowValues, String> {
    match call.operands[0].elements {
        RowElements::Integers(_) => Err("sums of integers are not defined here".to_owned()),
        RowElements::Reals(values) => {
            let sums = values.iter().scan(0.0, |sum, value| {
                *sum += value;
                Some(*sum)
            });
            Ok(RowValues::Reals(sums.collect()))
        }
    }
}

fn read(text: &str) -> (Vec<Program>, Diags) {
    hostir::load_with_options(text, &ReadOptions::with_ops(OpRegistry::with_ops(MORE)))
}

const TEXT: &str = "hir 2

flipped(A: f32[2, 3]) -> (C: f32[2, 3]):
  B = flip(A, dim=1)
  C = flip(B, dim=0, times=2)
";

#[test]
fn an_op_of_a_caller_is_an_op_in_both_notations() {
    let (mut programs, diags) = read(TEXT);
    assert!(!diags.has_errors(), "{}", render(TEXT, &diags.items));
    assert_eq!(hostir::hir2::write::write_file(&mut programs), TEXT);
    let printed = hostir::print::print_to_string(&programs[0]);
    assert!(printed.contains("flip( T0_g_float[iS0{2}, iS1{3}], dim = 1 )"), "{printed}");
    let (again, diags) = read(&printed);
    assert!(!diags.has_errors(), "{}", render(&printed, &diags.items));
    assert_eq!(hostir::print::print_to_string(&again[0]), printed);
}

#[test]
fn an_op_of_a_caller_is_unknown_to_others() {
    let (_, diags) = hostir::load(TEXT);
    assert_eq!(diags.items[0].code, "H0101", "{}", render(TEXT, &diags.items));
}

/// A static registry does not even compile; this one is made while the test runs.
#[test]
#[should_panic(expected = "a caller's op has the name of one of the table")]
fn an_op_of_a_caller_has_a_name_of_its_own() {
    static SET: OpSpec =
        OpSpec { identity: OpIdentity { name: "Set", spec: Some(&SET), ..OpIdentity::TENSOR_OP }, ..OpSpec::TENSOR_OP };
    let _registry = OpRegistry::with_ops(vec![SET.kind()].leak());
}

#[test]
fn an_op_of_a_caller_is_verified_and_runs() {
    let wrong = TEXT.replace("dim=1", "dim=2");
    let (programs, _) = read(&wrong);
    let mut diags = Diags::default();
    hostir::verify::verify(&programs[0], &mut diags);
    assert!(diags.items.iter().any(|diag| diag.code == "H0233"), "{}", render(&wrong, &diags.items));

    let mut input = HostTensor::zeros(DType::Float, &[2, 3]);
    (0..6).for_each(|index| input.set_f64(index, index as f64));
    let case = Case::with_ops(TEXT, &[], OpRegistry::with_ops(MORE));
    let outputs = case.run_whole(&[input]).unwrap_or_else(|text| panic!("{text}"));
    let values: Vec<f64> = (0..6).map(|index| outputs[0].get_f64(index)).collect();
    assert_eq!(values, [2.0, 1.0, 0.0, 5.0, 4.0, 3.0]);
}

#[test]
fn a_function_of_rows_runs() {
    let text = "hir 2

sums(A: f32[2, 3]) -> (B: f32[2, 3]):
  B = runningSum(A)
";
    let mut input = HostTensor::zeros(DType::Float, &[2, 3]);
    (0..6).for_each(|index| input.set_f64(index, index as f64));
    let case = Case::with_ops(text, &[], OpRegistry::with_ops(MORE));
    let outputs = case.run_whole(&[input]).unwrap_or_else(|text| panic!("{text}"));
    let values: Vec<f64> = (0..6).map(|index| outputs[0].get_f64(index)).collect();
    assert_eq!(values, [0.0, 1.0, 3.0, 3.0, 7.0, 12.0]);
}

#[test]
fn a_function_of_rows_that_fails_is_an_error_at_its_op() {
    let text = "hir 2

sums(A: i64[2, 3]) -> (B: i64[2, 3]):
  B = runningSum(A)
";
    let case = Case::with_ops(text, &[], OpRegistry::with_ops(MORE));
    let error = case.run_whole(&[HostTensor::zeros(DType::Int, &[2, 3])]).unwrap_err();
    assert!(error.contains("sums of integers are not defined here"), "{error}");
}
