//! Pointwise ops: one kind, with the function in [`AttrKey::Function`]; [`crate::ir::functions`] lists the functions.

use super::literals::check_operand_literals;
use super::result_types::{DomainList, TensorType, stored_domains};
use super::spec::{Infer, Lower, OpSpec};
use super::tensor_checks;
use crate::axes::pairing::{AxisMismatch, ChosenAxes, LinkResult, LinkSide, link_equal_lists, result_side};
use crate::axes::stored_rank;
use crate::diag::message;
use crate::diag::{Diag, Diags, Message, codes};
use crate::ir::functions::{FunctionForm, FunctionRow, cast_result, find_function};
use crate::ir::places::with_declaration;
use crate::ir::{
    AttrKey, AttrValue, AxisLink, DType, IterDomain, Op, OpId, OpIdentity, OpKind, OpLayout, Program, StandaloneRule,
    Symbol, TensorId, Value, domain_text, first_free_number, mesh_text, quoted_type,
};
use crate::plan::{
    BufferView, Function, InstKind, KernelStep, PlanBuilder, PointwiseKernel, ScalarValue, StepOperand, apply_function,
    expanded_view,
};
use smallvec::SmallVec;

/// `pointwise`.
pub const POINTWISE: OpSpec = OpSpec {
    identity: OpIdentity {
        name: "pointwise",
        layout: OpLayout::Pointwise,
        standalone: StandaloneRule::Binary,
        ..OpIdentity::TENSOR_OP
    },
    spellings: &[],
    summary: "Applies a function to each element; operands broadcast.",
    args: &[],
    relate: Some(link_pointwise),
    infer: Infer::Result(infer_pointwise),
    checks: &[check_function, check_operand_literals],
    repair: None,
    lower: Lower::Instructions(lower_pointwise),
};

/// `where( T0, T1, T2 );`, without its result.
pub fn pointwise_op(function: Symbol, operands: SmallVec<[Value; 2]>) -> Op {
    Op { operands, attrs: vec![(AttrKey::Function, AttrValue::Word(function))], ..Op::new(OpKind::Pointwise) }
}

/// Pointwise ops: every tensor operand's stored axes with the result's.
///
/// # Errors
/// If the op has no result, or an operand and the result have different ranks.
pub fn link_pointwise(program: &Program, op: OpId, links: &mut Vec<AxisLink>) -> LinkResult {
    let operands: SmallVec<[TensorId; 4]> = program.op(op).input_tensors().collect();
    if operands.is_empty() {
        return Ok(());
    }
    let to = result_side(program, op)?;
    let axes = to.stored_positions();
    for tensor in operands {
        let from = LinkSide::new(program, tensor);
        let paired = link_equal_lists(
            program,
            op,
            ChosenAxes { side: &from, axes: &from.stored_positions() },
            ChosenAxes { side: &to, axes: &axes },
            links,
        );
        paired.map_err(|mismatch| {
            let fewer = from.stored_positions().len() < axes.len();
            let note = if fewer { broadcast_note(program, &from, axes.len()).into() } else { mismatch.note };
            AxisMismatch { note, ..mismatch }
        })?;
    }
    Ok(())
}

/// The `broadcast` that gives an operand its missing leading axes.
fn broadcast_note(program: &Program, from: &LinkSide, rank: usize) -> String {
    let number = first_free_number(program.tensors().iter().map(|(_, tensor)| tensor.number));
    let free = first_free_number(program.all_domains().filter_map(|domain| domain.number));
    let missing = rank - from.stored_positions().len();
    let stored = program.domains(from.tensor).iter().filter(|domain| !domain.is_reduction());
    let all = (0..missing).map(|_| None).chain(stored.map(Some));
    let axes = (free..).zip(all).map(|(number, domain)| match domain {
        None => format!("bS{number}{{1}}"),
        Some(domain) => domain_text(program, &IterDomain { number: Some(number), ..*domain }),
    });
    let axes: Vec<String> = axes.collect();
    let tensor = program.tensor(from.tensor);
    let (name, axes) = (program.tensor_name(from.tensor), axes.join(", "));
    let mesh = match tensor.mesh {
        Some(_) => format!(" ({})", mesh_text(program, tensor.mesh)),
        None => String::new(),
    };
    let flags: Vec<&str> = (0..rank).map(|k| if k < missing { "true" } else { "false" }).collect();
    format!(
        "operands of lower rank are not broadcast implicitly: write `T{number}_l_{}[{axes}]{mesh} = broadcast( {name}, flags = {{{}}} )` before the op, and use T{number} instead of {name}",
        tensor.dtype.name(),
        flags.join(", ")
    )
}

/// Axes are aligned from the right; each is that of the first operand that has no broadcast there.
fn infer_pointwise(program: &Program, op: &Op, operands: &[TensorId]) -> Option<TensorType> {
    let dtype = infer_element_type(program, op, operands)?;
    let first = *operands.first()?;
    let leading = stored_domains(program, first);
    let rank = operands.iter().map(|&tensor| stored_rank(program, tensor)).max()?;
    if leading.len() == rank && !leading.iter().any(IterDomain::is_broadcast) {
        return Some(TensorType { dtype, ..TensorType::of_copy(program, first) });
    }
    let lists: Vec<DomainList> = operands.iter().map(|&tensor| stored_domains(program, tensor)).collect();
    let axis = |from_right: usize| {
        let mut here = lists.iter().filter_map(|list| list.len().checked_sub(from_right + 1).map(|at| list[at]));
        let any = here.clone().next();
        here.find(|domain| !domain.is_broadcast()).or(any)
    };
    let domains: Option<DomainList> = (0..rank).rev().map(axis).collect();
    Some(TensorType { dtype, ..TensorType::with_domains_of(program, first, domains?) })
}

/// The element type of a pointwise result.
fn infer_element_type(program: &Program, op: &Op, operands: &[TensorId]) -> Option<DType> {
    let name = op.word_attr(AttrKey::Function).map(|name| program.name(name))?;
    let row = function_row(op, name)?;
    if row.is_predicate() {
        return Some(DType::Bool);
    }
    if let Some(target) = cast_result(name) {
        return Some(target);
    }
    // The operand does not determine the type of its bits.
    if matches!(row.form, FunctionForm::Reinterpretation) {
        return None;
    }
    if let Some(target) = complex_result(program, name, operands) {
        return Some(target);
    }
    // The first operand of `where` is the condition.
    let chosen = op.operands.iter().skip(usize::from(matches!(row.form, FunctionForm::Choice)));
    let tensor = chosen.filter_map(|value| value.as_tensor()).next().or(operands.first().copied())?;
    Some(program.tensor(tensor).dtype)
}

/// The element type of a part or of the absolute value of complex numbers, and of complex numbers made of parts.
fn complex_result(program: &Program, name: &str, operands: &[TensorId]) -> Option<DType> {
    let dtype = program.tensor(*operands.first()?).dtype;
    match (name, dtype) {
        ("std::real" | "std::imag" | "abs", dtype) => dtype.part_type(),
        ("std::complex", DType::Double) => Some(DType::ComplexDouble),
        ("std::complex", DType::Float) => Some(DType::ComplexFloat),
        _ => None,
    }
}

/// The row of a pointwise op's function.
fn function_row(op: &Op, name: &str) -> Option<&'static FunctionRow> {
    find_function(name, op.operands.len())
}

/// The rules of an op's function; it is looked up once.
fn check_function(program: &Program, id: OpId, diags: &mut Diags) {
    let op = program.op(id);
    let Some(name) = op.word_attr(AttrKey::Function).map(|name| program.name(name)) else { return };
    let Some(row) = function_row(op, name) else { return };
    check_operand_types(program, id, row, diags);
    if row.needs_integers() {
        check_integer_function(program, id, name, diags);
    }
    check_element_types(program, id, name, row, diags);
}

/// V51: functions of integers have no real operand or result.
fn check_integer_function(program: &Program, id: OpId, name: &str, diags: &mut Diags) {
    let op = program.op(id);
    let mut tensors = op.input_tensors().chain(op.output_tensors());
    if let Some(real) = tensors.find(|&tensor| program.tensor(tensor).dtype.is_float()) {
        let (text, dtype) = (program.quoted_tensor(real), quoted_type(program.tensor(real).dtype));
        let message = message!("`{}` needs integers, but `{}` is {}", name, text, dtype);
        let diag = Diag::error(codes::INTEGER_FUNCTION, program.op_span(id), message);
        let note = match program.is_hir2() {
            true => "use integers or truth values; a cast such as `i64(x)` converts reals to integers",
            false => {
                "use integers or truth values; a cast such as `__to_int64(..)`, `(int64_t)(..)` in older spellings, converts reals to integers"
            }
        };
        diags.push(with_declaration(diag, program, real, id).with_note(note));
    }
}

/// V54: `nextafter` is of `float` or `double`, and `bit_cast` keeps the number of bits.
fn check_element_types(program: &Program, id: OpId, name: &str, row: &FunctionRow, diags: &mut Diags) {
    let op = program.op(id);
    let Some(result) = op.output_tensors().next() else { return };
    let to = program.tensor(result).dtype;
    if row.needs_own_precision && !matches!(to, DType::Float | DType::Double) {
        let (float, double) = (quoted_type(DType::Float), quoted_type(DType::Double));
        let text = program.quoted_tensor(result);
        let message = message!("`{}` needs {} or {}, but `{}` is {}", name, float, double, text, quoted_type(to));
        let diag = Diag::error(codes::PRECISION_NEEDED, program.op_span(id), message)
            .with_note("convert the operand first; the next number of a wider type is not that of a narrower one");
        diags.push(with_declaration(diag, program, result, id));
    }
    let Some(operand) = op.input_tensors().next() else { return };
    let from = program.tensor(operand).dtype;
    if matches!(row.form, FunctionForm::Reinterpretation) && from.byte_size() != to.byte_size() {
        let (given, asked) = (program.quoted_tensor(operand), program.quoted_tensor(result));
        let (given_type, asked_type) = (quoted_type(from), quoted_type(to));
        let found = message!("`{}` is {} and `{}` is {}", given, given_type, asked, asked_type);
        let message = message!("`{}` keeps the bits, but {}", name, found);
        let diag = Diag::error(codes::BITS_DIFFER, program.op_span(id), message)
            .with_note("give the result a type of the same size, or use a cast, which keeps the value");
        diags.push(with_declaration(diag, program, result, id));
    }
}

/// V33: the operands of arithmetic have the result's element type, those of a comparison one type, and the condition of
/// `where` is a `bool`.
fn check_operand_types(program: &Program, id: OpId, row: &FunctionRow, diags: &mut Diags) {
    let op = program.op(id);
    let Some(result) = op.output_tensors().next() else { return };
    let tensors: SmallVec<[TensorId; 4]> = op.input_tensors().collect();
    let Some(&first) = tensors.first() else { return };
    if row.one_type {
        tensor_checks::check_one_dtype(program, id, diags);
    } else if matches!(row.form, FunctionForm::Comparison(_)) {
        if let Some(&other) =
            tensors.iter().find(|&&tensor| program.tensor(tensor).dtype != program.tensor(first).dtype)
        {
            tensor_checks::report_dtypes(program, id, first, other, diags);
        }
        require_bool(program, id, result, "a comparison produces", diags);
    } else if matches!(row.form, FunctionForm::Choice) {
        let condition = op.operands.first().and_then(|value| value.as_tensor());
        if report_misplaced_condition(program, id, diags) {
            return;
        }
        if let Some(condition) = condition {
            require_bool(program, id, condition, "the condition of `where` must be", diags);
        }
        let rest = if condition.is_some() { &tensors[1..] } else { &tensors[..] };
        if let Some(&other) = rest.iter().find(|&&tensor| program.tensor(tensor).dtype != program.tensor(result).dtype)
        {
            tensor_checks::report_dtypes(program, id, other, result, diags);
        }
    }
}

/// Reports a `where` whose condition is not its first operand. Returns false if it is, or if no operand is one.
fn report_misplaced_condition(program: &Program, id: OpId, diags: &mut Diags) -> bool {
    let op = program.op(id);
    let tensors: SmallVec<[Option<TensorId>; 3]> = op.operands.iter().map(|value| value.as_tensor()).collect();
    let [Some(first), ..] = tensors[..] else { return false };
    let found =
        tensors.iter().position(|tensor| tensor.is_some_and(|tensor| program.tensor(tensor).dtype == DType::Bool));
    let Some(condition) = found.filter(|at| *at > 0).and_then(|at| tensors[at]) else { return false };
    if op.output_tensors().any(|result| program.tensor(result).dtype == DType::Bool) {
        return false;
    }
    let [first, condition] = [first, condition].map(|tensor| program.quoted_tensor(tensor));
    let message = message!(
        "the condition of `where` is its first operand, but `{}` is no {} and `{}` is",
        first,
        quoted_type(DType::Bool),
        condition
    );
    let note = message!("move it to the front, before the two values: `where({}, {}, ..)`", condition, first);
    diags.push(Diag::error(codes::DTYPE, program.op_span(id), message).with_note(note));
    true
}

fn require_bool(program: &Program, id: OpId, tensor: TensorId, why: &str, diags: &mut Diags) {
    let found = program.tensor(tensor).dtype;
    if found != DType::Bool {
        let message = message!(
            "{} {}, but `{}` is {}",
            why,
            quoted_type(DType::Bool),
            program.quoted_tensor(tensor),
            quoted_type(found)
        );
        diags.push(with_declaration(Diag::error(codes::DTYPE, program.op_span(id), message), program, tensor, id));
    }
}

/// The function of a pointwise op.
fn function_name<'a>(cx: &PlanBuilder<'a>, op: &Op) -> &'a str {
    op.word_attr(AttrKey::Function).map_or("", |word| cx.program.name(word))
}

/// Gives the result of an op on scalars its value.
///
/// # Errors
/// If an operand has no value, or the function has none for these operands.
pub(crate) fn bind_scalar(cx: &mut PlanBuilder<'_>, op: &Op, function: &str) -> Result<(), Diag> {
    let name = op.results.iter().find_map(|v| cx.program.exprs().as_name(v.as_scalar()?));
    if let (true, [Value::Scalar(value)]) = (function.is_empty(), op.operands.as_slice()) {
        let value = cx.eval_value(*value)?;
        if let Some(name) = name {
            cx.scope.locals.push(name, value);
        }
        return Ok(());
    }
    let mut values = Vec::new();
    for operand in &op.operands {
        match operand {
            Value::Scalar(expr) => values.push(cx.eval_scalar(*expr)?),
            Value::Tensor(_) | Value::Stream(_) | Value::Handle(_) | Value::Unit(_) | Value::Op(_) => {
                return Err(cx.error_here(codes::CANNOT_RUN, "a scalar that depends on tensor elements"));
            }
        }
    }
    let value = apply_function(function, &values).map_err(|error| cx.eval_error(error))?;
    if let Some(name) = name {
        cx.scope.locals.push(name, value);
    }
    Ok(())
}

/// A pointwise function over tensors (or of scalars, at plan time).
///
/// # Errors
/// If the function is unknown or does not support the element types, an operand has no value on this rank, shapes do
/// not fit, or the result cannot be allocated.
pub fn lower_pointwise(cx: &mut PlanBuilder<'_>, id: OpId) -> Result<(), Diag> {
    let op = cx.program.op(id);
    let text = function_name(cx, op);
    if op.output_tensors().next().is_none() {
        return bind_scalar(cx, op, text);
    }
    let result = cx.result_tensor(op)?;
    let Some(function) = Function::parse(text, op.operands.len()) else {
        return Err(cx.error_here(codes::CANNOT_RUN, format!("`{text}` is not supported in a run")));
    };
    let mut sources = Vec::new();
    for operand in &op.operands {
        sources.push(match operand {
            Value::Tensor(tensor) => Ok((*tensor, cx.input_view(*tensor)?)),
            Value::Scalar(expr) => Err(cx.eval_scalar(*expr)?),
            Value::Stream(_) | Value::Handle(_) | Value::Unit(_) | Value::Op(_) => {
                return Err(cx.error_here(codes::CANNOT_RUN, format!("an operand of `{text}` has no value")));
            }
        });
    }
    let output = cx.output_view(result)?;
    let shape = output.shape();
    let mut inputs: SmallVec<[BufferView; 2]> = SmallVec::new();
    let mut args: SmallVec<[StepOperand; 3]> = SmallVec::new();
    for source in sources {
        match source {
            Ok((tensor, view)) => {
                let Some(fit) = expanded_view(&view, &shape) else {
                    return Err(cx.shape_error(tensor, &view.shape(), result, &shape));
                };
                args.push(StepOperand::Input(inputs.len() as u32));
                inputs.push(fit);
            }
            Err(value) => args.push(StepOperand::Const(value)),
        }
    }
    let compute = step_compute_type(function, &inputs, &args, output.dtype);
    if compute.is_complex() && !function.row().takes_complex() {
        return Err(cx
            .error_here(codes::COMPLEX_FUNCTION, format!("`{text}` is not defined for complex numbers"))
            .with_note(Message::advice(
                "`std::real`, `std::imag` and `abs` give real numbers",
                "`real(X)`, `imag(X)` and `abs(X)` give real numbers",
            )));
    }
    if function.needs_integers() && compute.is_float() {
        return Err(
            cx.error_here(codes::CANNOT_RUN, message!("`{}` needs integers, found `{}`", text, quoted_type(compute)))
        );
    }
    if function == Function::BitCast && inputs.is_empty() {
        return Err(cx.error_here(codes::CANNOT_RUN, format!("`{text}` of a scalar is not supported in a run")));
    }
    let step = KernelStep { function, args, compute, result: output.dtype };
    cx.emit_inst(InstKind::Kernel(Box::new(PointwiseKernel { inputs, output, steps: vec![step] })))
}

/// The type in which a function computes: its operands' for predicates, casts and `bit_cast`, else its result's.
fn step_compute_type(function: Function, inputs: &[BufferView], args: &[StepOperand], result: DType) -> DType {
    let complex = inputs.iter().map(|view| view.dtype).find(|dtype| dtype.is_complex());
    if !function.computes_in_operand_type() {
        return complex.unwrap_or(result);
    }
    let tensors = inputs.iter().map(|view| view.dtype);
    if let Some(complex) = complex {
        return complex;
    }
    tensors.reduce(promoted_type).unwrap_or_else(|| {
        let float = args.iter().any(|arg| matches!(arg, StepOperand::Const(ScalarValue::Float(_))));
        if float { DType::Double } else { DType::Int }
    })
}

/// The type to which operands of two types are promoted.
fn promoted_type(a: DType, b: DType) -> DType {
    let order = [
        DType::Bool,
        DType::Int8,
        DType::UInt8,
        DType::Int16,
        DType::UInt16,
        DType::Int32,
        DType::UInt32,
        DType::Int,
        DType::UInt64,
        DType::Float4E2M1,
        DType::Float8E8M0,
        DType::Float8E4M3,
        DType::Float8E5M2,
        DType::Half,
        DType::BFloat16,
        DType::Float,
        DType::Double,
    ];
    let [place_a, place_b] = [a, b].map(|dtype| order.iter().position(|&other| other == dtype).unwrap_or(order.len()));
    match (a, b) {
        (DType::Half, DType::BFloat16) | (DType::BFloat16, DType::Half) => DType::Float,
        _ if a != b && a.byte_size() == 1 && b.byte_size() == 1 && a.is_float() && b.is_float() => DType::Float,
        _ if place_a >= place_b => a,
        _ => b,
    }
}
