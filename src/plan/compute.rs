//! Lowering of ops that compute: copies, pointwise functions, reductions, matrix products, factories.

use super::{Arg, Dim, Function, Gemm, InstKind, Kernel, Lowering, RedOp, Scalar, Step, View};
use crate::diag::Diag;
use crate::diag::codes;
use crate::ir::{AttrKey, AttrValue, DType, Op, OpId, TensorId, Value};
use smallvec::{SmallVec, smallvec};

/// The view with axes of extent 1 repeated (stride 0) up to `shape`; missing outer axes are added.
/// `None` if it does not fit.
pub(super) fn expanded(view: &View, shape: &[usize]) -> Option<View> {
    let missing = shape.len().checked_sub(view.dims.len())?;
    let mut dims: super::Dims = smallvec![Dim { extent: 1, stride: 0 }; missing];
    dims.extend(view.dims.iter().copied());
    for (dim, &extent) in dims.iter_mut().zip(shape) {
        if dim.extent == 1 && extent != 1 {
            *dim = Dim { extent, stride: 0 };
        } else if dim.extent != extent {
            return None;
        }
    }
    Some(View { dims, ..view.clone() })
}

/// Copies a view of `input`, arranged as the result is, into the result.
pub(super) fn copy_into(
    cx: &mut Lowering<'_>,
    input: TensorId,
    src: View,
    result: TensorId,
) -> Result<(), Diag> {
    let dst = cx.output(result)?;
    let Some(src) = expanded(&src, &dst.shape()) else {
        return Err(cx.shape_error(input, &src.shape(), result, &dst.shape()));
    };
    if src == dst {
        return Ok(());
    }
    emit_copy(cx, src, dst)
}

/// A copy, or a cast where the types differ.
pub(super) fn emit_copy(cx: &mut Lowering<'_>, src: View, dst: View) -> Result<(), Diag> {
    if src.dtype == dst.dtype {
        return cx.emit(InstKind::Copy { src, dst });
    }
    let step = Step {
        function: Function::Cast,
        args: smallvec![Arg::Input(0)],
        compute: src.dtype,
        result: dst.dtype,
    };
    cx.emit(InstKind::Kernel(Box::new(Kernel {
        inputs: smallvec![src],
        output: dst,
        steps: vec![step],
    })))
}

/// `Set` of a tensor copies it; `Set` of a scalar names it.
pub fn lower_set(cx: &mut Lowering<'_>, id: OpId) -> Result<(), Diag> {
    let op = cx.program.op(id);
    if op.output_tensors().next().is_none() {
        return bind_scalar(cx, op, "");
    }
    let (input, result) = (cx.operand(op, 0)?, cx.result(op)?);
    let src = cx.input(input)?;
    copy_into(cx, input, src, result)
}

/// `Set.Permute`: the result's axes in printed order are the input's stored axes in the order of the
/// result's domain numbers, unless `perm=` says otherwise.
pub fn lower_set_permute(cx: &mut Lowering<'_>, id: OpId) -> Result<(), Diag> {
    let op = cx.program.op(id);
    let (input, result) = (cx.operand(op, 0)?, cx.result(op)?);
    let source = cx.input(input)?;
    let perm = permutation(cx, op, result)?;
    let mut sorted = perm.clone();
    sorted.sort_unstable();
    if sorted.len() != source.dims.len() || sorted.iter().enumerate().any(|(i, &p)| i != p) {
        let message = format!(
            "`perm` {perm:?} is not a permutation of the {} axes of {}",
            source.dims.len(),
            cx.name(input)
        );
        return Err(cx.error(codes::SHAPES, message));
    }
    let dims = perm.iter().map(|&from| source.dims[from]).collect();
    copy_into(cx, input, View { dims, ..source }, result)
}

fn permutation(cx: &Lowering<'_>, op: &Op, result: TensorId) -> Result<Vec<usize>, Diag> {
    let Some(perm) = op.ints(AttrKey::Perm) else {
        let message = format!("the permutation of {} is not known", cx.name(result));
        return Err(cx
            .error(codes::NEEDED, message)
            .note("the domains of the result have no numbers: give `perm={...}`"));
    };
    Ok(perm.iter().map(|&p| usize::try_from(p).unwrap_or(usize::MAX)).collect())
}

/// The function of a pointwise op.
fn function_name<'a>(cx: &Lowering<'a>, op: &Op) -> &'a str {
    op.word(AttrKey::Function).map_or("", |word| cx.program.name(word))
}

fn bind_scalar(cx: &mut Lowering<'_>, op: &Op, function: &str) -> Result<(), Diag> {
    let mut values = Vec::new();
    for operand in &op.operands {
        match operand {
            Value::Scalar(expr) => values.push(cx.scalar(*expr)?),
            Value::Tensor(_)
            | Value::Stream(_)
            | Value::Handle(_)
            | Value::Unit(_)
            | Value::Op(_) => {
                return Err(cx.error(codes::CANNOT_RUN, "a scalar that depends on tensor elements"));
            }
        }
    }
    let value = super::apply(function, &values).map_err(|error| cx.eval_error(error))?;
    let name = op.results.iter().find_map(|v| cx.program.exprs().as_name(v.scalar()?));
    if let Some(name) = name {
        cx.locals.push(name, value);
    }
    Ok(())
}

/// A pointwise function over tensors (or of scalars, at plan time).
pub fn lower_pointwise(cx: &mut Lowering<'_>, id: OpId) -> Result<(), Diag> {
    let op = cx.program.op(id);
    let text = function_name(cx, op);
    if op.output_tensors().next().is_none() {
        return bind_scalar(cx, op, text);
    }
    let result = cx.result(op)?;
    let Some(function) = Function::parse(text, op.operands.len()) else {
        return Err(cx.error(codes::CANNOT_RUN, format!("`{text}` cannot run yet")));
    };
    let mut sources = Vec::new();
    for operand in &op.operands {
        sources.push(match operand {
            Value::Tensor(tensor) => Ok((*tensor, cx.input(*tensor)?)),
            Value::Scalar(expr) => Err(cx.scalar(*expr)?),
            Value::Stream(_) | Value::Handle(_) | Value::Unit(_) | Value::Op(_) => {
                return Err(
                    cx.error(codes::CANNOT_RUN, format!("an operand of `{text}` is not a value"))
                );
            }
        });
    }
    let output = cx.output(result)?;
    let shape = output.shape();
    let mut inputs: SmallVec<[View; 2]> = SmallVec::new();
    let mut args: SmallVec<[Arg; 3]> = SmallVec::new();
    for source in sources {
        match source {
            Ok((tensor, view)) => {
                let Some(fit) = expanded(&view, &shape) else {
                    return Err(cx.shape_error(tensor, &view.shape(), result, &shape));
                };
                args.push(Arg::Input(inputs.len() as u32));
                inputs.push(fit);
            }
            Err(value) => args.push(Arg::Const(value)),
        }
    }
    let compute = compute_type(function, &inputs, &args, output.dtype);
    if function.needs_integers() && compute.is_float() {
        return Err(cx.error(
            codes::CANNOT_RUN,
            format!("`{text}` needs integers, not `{}`", compute.name()),
        ));
    }
    let step = Step { function, args, compute, result: output.dtype };
    cx.emit(InstKind::Kernel(Box::new(Kernel { inputs, output, steps: vec![step] })))
}

/// The type a function computes in: of predicates and casts the operands', else the result's.
fn compute_type(function: Function, inputs: &[View], args: &[Arg], result: DType) -> DType {
    if !function.is_predicate() && function != Function::Cast {
        return result;
    }
    let tensors = inputs.iter().map(|view| view.dtype);
    tensors.reduce(promote).unwrap_or_else(|| {
        let float = |arg: &Arg| matches!(arg, Arg::Const(Scalar::Float(_)));
        if args.iter().any(float) { DType::Double } else { DType::Int }
    })
}

/// The type that holds values of both.
fn promote(a: DType, b: DType) -> DType {
    let order = [
        DType::Bool,
        DType::Int32,
        DType::Int,
        DType::Float8E8M0,
        DType::Float8E4M3,
        DType::Float8E5M2,
        DType::Half,
        DType::BFloat16,
        DType::Float,
        DType::Double,
    ];
    let place =
        |dtype: DType| order.iter().position(|&other| other == dtype).unwrap_or(order.len());
    match (a, b) {
        (DType::Half, DType::BFloat16) | (DType::BFloat16, DType::Half) => DType::Float,
        _ if a != b && a.size() == 1 && b.size() == 1 && a.is_float() && b.is_float() => {
            DType::Float
        }
        _ if place(a) >= place(b) => a,
        _ => b,
    }
}

/// `reduction`: the axes that are reductions in the result are combined.
pub fn lower_reduction(cx: &mut Lowering<'_>, id: OpId) -> Result<(), Diag> {
    let op = cx.program.op(id);
    let (input, result) = (cx.operand(op, 0)?, cx.result(op)?);
    let word = op.word(AttrKey::ReduceOp).map_or("add", |word| cx.program.name(word));
    let Some(red_op) = RedOp::parse(word) else {
        return Err(cx.error(codes::CANNOT_RUN, format!("the reduction `{word}` cannot run yet")));
    };
    if op.attr(AttrKey::Allreduce) == Some(&AttrValue::Bool(true)) {
        return Err(
            cx.error(codes::CANNOT_RUN, "reductions with `allreduce = true` cannot run yet")
        );
    }
    let source = cx.input(input)?;
    let axes = cx.axes.of(result);
    let reduced: SmallVec<[usize; 2]> =
        (0..axes.len()).filter(|&axis| axes[axis].is_reduction()).collect();
    let counts = (axes.len(), source.dims.len());
    let output = cx.output(result)?;
    let kept: Vec<usize> = source
        .shape()
        .iter()
        .enumerate()
        .filter(|(i, _)| !reduced.contains(i))
        .map(|(_, &e)| e)
        .collect();
    if counts.0 != counts.1 || kept != output.shape() {
        return Err(cx.shape_error(input, &source.shape(), result, &output.shape()));
    }
    let fold = super::initial::fold(cx, op, red_op, source.dtype)?;
    if reduced.is_empty() && fold.initial.is_none() {
        return emit_copy(cx, source, output);
    }
    // Of no elements the initial value is left.
    if source.is_empty() && !output.is_empty() {
        let value = fold.initial.unwrap_or_else(|| red_op.identity(source.dtype));
        return cx.emit(InstKind::Fill { dst: output, value });
    }
    cx.emit(InstKind::Reduce { op: fold, axes: reduced, input: source, output })
}

/// `matmul`, as `torch.matmul`: leading axes are batches and broadcast.
pub fn lower_matmul(cx: &mut Lowering<'_>, id: OpId) -> Result<(), Diag> {
    let op = cx.program.op(id);
    let (left, right, result) = (cx.operand(op, 0)?, cx.operand(op, 1)?, cx.result(op)?);
    let (mut a, mut b) = (cx.input(left)?, cx.input(right)?);
    let mut out = cx.output(result)?;
    let misfit =
        |cx: &Lowering<'_>, a: &View, b: &View| cx.shape_error(left, &a.shape(), right, &b.shape());
    if a.dims.is_empty() || b.dims.is_empty() {
        return Err(misfit(cx, &a, &b));
    }
    let unit = Dim { extent: 1, stride: 0 };
    if a.dims.len() == 1 {
        a.dims.insert(0, unit);
        let place = out.dims.len() + 1 - b.dims.len().min(2);
        out.dims.insert(place.min(out.dims.len()), unit);
    }
    if b.dims.len() == 1 {
        b.dims.push(unit);
        out.dims.push(unit);
    }
    emit_gemm(cx, [left, right, result], a, b, None, out)
}

/// `linear`: `input @ weight^T + bias`.
pub fn lower_linear(cx: &mut Lowering<'_>, id: OpId) -> Result<(), Diag> {
    let op = cx.program.op(id);
    let (left, right, result) = (cx.operand(op, 0)?, cx.operand(op, 1)?, cx.result(op)?);
    let (mut a, mut w) = (cx.input(left)?, cx.input(right)?);
    let mut out = cx.output(result)?;
    if w.dims.len() > 2 {
        drop_device_axes(cx, right, &mut w);
        drop_device_axes(cx, left, &mut a);
        drop_device_axes(cx, result, &mut out);
    }
    if w.dims.len() == 1 {
        w.dims.insert(0, Dim { extent: 1, stride: 0 });
        out.dims.push(Dim { extent: 1, stride: 0 });
    }
    if w.dims.len() != 2 || a.dims.is_empty() {
        return Err(cx.shape_error(left, &a.shape(), right, &w.shape()));
    }
    w.dims.swap(0, 1);
    if a.dims.len() == 1 {
        a.dims.insert(0, Dim { extent: 1, stride: 0 });
        let place = out.dims.len().saturating_sub(1);
        out.dims.insert(place, Dim { extent: 1, stride: 0 });
    }
    let bias = match op.input_tensors().nth(2) {
        None => None,
        Some(tensor) => {
            let mut view = cx.input(tensor)?;
            if view.dims.len() > 1 {
                drop_device_axes(cx, tensor, &mut view);
            }
            let Some(fit) = expanded(&view, &out.shape()) else {
                return Err(cx.shape_error(tensor, &view.shape(), result, &out.shape()));
            };
            Some(fit)
        }
    };
    emit_gemm(cx, [left, right, result], a, w, bias, out)
}

/// Drops the axes spread over devices (locally of extent 1).
fn drop_device_axes(cx: &Lowering<'_>, tensor: TensorId, view: &mut View) {
    if cx.rank.is_none() {
        return;
    }
    let sharded: Vec<bool> = cx.axes.stored(tensor).map(|axis| axis.is_sharded()).collect();
    if sharded.len() == view.dims.len() {
        let mut place = 0;
        view.dims.retain(|_| {
            place += 1;
            !sharded[place - 1]
        });
    }
}

fn emit_gemm(
    cx: &mut Lowering<'_>,
    tensors: [TensorId; 3],
    a: View,
    b: View,
    bias: Option<View>,
    out: View,
) -> Result<(), Diag> {
    let (a_shape, b_shape, out_shape) = (a.shape(), b.shape(), out.shape());
    let (m, k) = (a_shape[a_shape.len() - 2], a_shape[a_shape.len() - 1]);
    let (k2, n) = (b_shape[b_shape.len() - 2], b_shape[b_shape.len() - 1]);
    if k != k2 {
        return Err(cx.shape_error(tensors[0], &a_shape, tensors[1], &b_shape));
    }
    let batch = out_shape.len().saturating_sub(2);
    if out_shape.len() < 2 || out_shape[batch..] != [m, n] {
        return Err(cx.shape_error(tensors[2], &out_shape, tensors[0], &a_shape));
    }
    let full = |last: [usize; 2]| [&out_shape[..batch], &last].concat();
    let Some(a) = expanded(&a, &full([m, k])) else {
        return Err(cx.shape_error(tensors[0], &a_shape, tensors[2], &out_shape));
    };
    let Some(b) = expanded(&b, &full([k, n])) else {
        return Err(cx.shape_error(tensors[1], &b_shape, tensors[2], &out_shape));
    };
    if a.dtype != b.dtype && !(a.dtype.is_fp8_factor() && b.dtype.is_fp8_factor()) {
        let message = format!(
            "{} is `{}` and {} is `{}`; a product needs one type",
            cx.name(tensors[0]),
            a.dtype.name(),
            cx.name(tensors[1]),
            b.dtype.name()
        );
        return Err(cx.error(codes::SHAPES, message));
    }
    cx.emit(InstKind::Gemm(Box::new(Gemm { a, b, bias, out })))
}

/// `full`: one value everywhere.
pub fn lower_full(cx: &mut Lowering<'_>, id: OpId) -> Result<(), Diag> {
    let op = cx.program.op(id);
    let result = cx.result(op)?;
    let scalar = op.operands.iter().rev().find_map(|value| value.scalar());
    let Some(expr) = op.expr(AttrKey::Fill).or(scalar) else {
        return Err(cx.error(codes::NEEDED, "the value of `full` is not known"));
    };
    let value = cx.scalar(expr)?;
    let dst = cx.output(result)?;
    cx.emit(InstKind::Fill { dst, value })
}

/// `iota`: `start + i * step`.
pub fn lower_iota(cx: &mut Lowering<'_>, id: OpId) -> Result<(), Diag> {
    let op = cx.program.op(id);
    let result = cx.result(op)?;
    let start = op.expr(AttrKey::Start).map_or(Ok(Scalar::Int(0)), |expr| cx.scalar(expr))?;
    let step = op.expr(AttrKey::Step).map_or(Ok(Scalar::Int(1)), |expr| cx.scalar(expr))?;
    let output = cx.output(result)?;
    if output.dims.len() != 1 {
        return Err(cx.error(codes::SHAPES, "the result of `iota` has one axis"));
    }
    let dtype = output.dtype;
    let binary =
        |function, a, b| Step { function, args: smallvec![a, b], compute: dtype, result: dtype };
    let steps = vec![
        binary(Function::Mul, Arg::Index(0), Arg::Const(step)),
        binary(Function::Add, Arg::Step(0), Arg::Const(start)),
    ];
    cx.emit(InstKind::Kernel(Box::new(Kernel { inputs: SmallVec::new(), output, steps })))
}
