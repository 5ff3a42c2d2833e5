//! V30 to V36: ranks, extents and element types of tensor ops.

use super::places::declared;
use crate::analysis::axes::{LastAxes, logical_axes};
use crate::analysis::links::Relate;
use crate::diag::codes;
use crate::diag::{Diag, Diags};
use crate::ir::{AttrKey, AttrValue, DType, OpId, Program, TensorId};
use crate::ops::AxisLink;
use crate::print::{domain_text, expr_text};
use smallvec::SmallVec;

/// V30, V31: the op's axes pair up, and constant extents of pairs are equal.
pub(super) fn related(program: &Program, id: OpId, diags: &mut Diags, relate: Relate) {
    let mut links = Vec::with_capacity(16);
    if let Err(mismatch) = relate(program, id, &mut links) {
        let mut diag = Diag::error(mismatch.code, program.op_span(id), mismatch.message);
        if let Some(tensor) = mismatch.tensor {
            diag = declared(diag, program, tensor, id);
        }
        if !mismatch.note.is_empty() {
            diag = diag.note(mismatch.note);
        }
        diags.push(diag);
    }
    extents(program, id, &links, diags);
}

fn extents(program: &Program, id: OpId, links: &[AxisLink], diags: &mut Diags) {
    let (mut from, mut to) = (LastAxes::default(), LastAxes::default());
    for link in links.iter().filter(|link| !link.broadcast) {
        let (Some(a), Some(b)) = (from.extent(program, link.from), to.extent(program, link.to))
        else {
            continue;
        };
        if a == b {
            continue;
        }
        if let (Some(x), Some(y)) = (program.exprs().as_int(a), program.exprs().as_int(b)) {
            extent(program, id, link, (x, y), diags);
        }
    }
}

fn extent(program: &Program, id: OpId, link: &AxisLink, (x, y): (i64, i64), diags: &mut Diags) {
    let axis = |(tensor, k): (TensorId, u32)| {
        let printed = logical_axes(program, tensor).axes.get(k as usize).map(|axis| axis.printed);
        let domain = printed.and_then(|printed| program.domains(tensor).get(printed as usize));
        let axis = domain.map_or_else(|| format!("axis {k}"), |d| domain_text(program, d));
        format!("`{axis}` of `{}`", program.tensor_name(tensor))
    };
    let name = crate::ops::name_of(program, id);
    let message = format!(
        "`{name}` needs equal extents, but {} has {x} and {} has {y}",
        axis(link.from),
        axis(link.to)
    );
    let diag = Diag::error(codes::EXTENT, program.op_span(id), message);
    let diag = declared(diag, program, link.from.0, id);
    diags.push(if link.to.0 == link.from.0 {
        diag
    } else {
        declared(diag, program, link.to.0, id)
    });
}

/// V32: all tensors of the op have one element type.
pub(super) fn one_dtype(program: &Program, id: OpId, diags: &mut Diags) {
    let op = program.op(id);
    let Some(result) = op.output_tensors().next() else { return };
    let need = program.tensor(result).dtype;
    for tensor in op.input_tensors() {
        if program.tensor(tensor).dtype != need {
            dtype(program, id, (tensor, result), diags);
            return;
        }
    }
}

/// V32 for products: two 8-bit floats may differ, and give them or any wider float up to `float`; the
/// bias has the result's type.
pub(super) fn product_dtypes(program: &Program, id: OpId, diags: &mut Diags) {
    let op = program.op(id);
    let is = |tensor: TensorId| program.tensor(tensor).dtype;
    let mut tensors = op.input_tensors();
    let (Some(a), Some(b), Some(result)) =
        (tensors.next(), tensors.next(), op.output_tensors().next())
    else {
        return;
    };
    let wide = matches!(is(result), DType::Float | DType::Half | DType::BFloat16);
    if !is(a).is_fp8_factor() || !is(b).is_fp8_factor() || !(wide || is(result).is_fp8_factor()) {
        return one_dtype(program, id, diags);
    }
    if let Some(bias) = tensors.next().filter(|&bias| is(bias) != is(result)) {
        dtype(program, id, (bias, result), diags);
    }
}

/// V32 for two of an op's tensors.
pub(super) fn equal_dtypes(
    program: &Program,
    id: OpId,
    (a, b): (TensorId, TensorId),
    diags: &mut Diags,
) {
    if program.tensor(a).dtype != program.tensor(b).dtype {
        dtype(program, id, (a, b), diags);
    }
}

fn dtype(program: &Program, id: OpId, (a, b): (TensorId, TensorId), diags: &mut Diags) {
    let of = |tensor| {
        format!("`{}` is {}", program.tensor_name(tensor), program.tensor(tensor).dtype.name())
    };
    let name = crate::ops::name_of(program, id);
    let message = format!("`{name}` needs equal element types, but {} and {}", of(a), of(b));
    let diag = Diag::error(codes::DTYPE, program.op_span(id), message);
    let diag = declared(declared(diag, program, a, id), program, b, id);
    diags.push(diag.note("convert with a cast, for example `__to_float(..)`"));
}

/// Functions that return their operands' type.
const SAME: &[&str] = &[
    "+",
    "-",
    "*",
    "/",
    "%",
    "max",
    "min",
    "fmax",
    "fmin",
    "fmod",
    "pow",
    "remainder",
    "atan2",
    "gcd",
    "relu",
    "sigmoid",
    "silu",
    "reciprocal",
    "rsqrt",
    "sqrt",
    "exp",
    "exp2",
    "log",
    "log2",
    "sin",
    "cos",
    "tan",
    "tanh",
    "erf",
    "&",
    "|",
    "^",
    "<<",
    ">>",
    "clamp",
    "lerp",
];

/// Functions that return `bool`.
const COMPARE: &[&str] = &["==", "!=", ">=", ">", "<=", "<"];

/// Functions of integers and truth values.
const INTEGERS: &[&str] = &["~", "<<", ">>", "&", "|", "^", "gcd", "ceilDiv"];

/// V51: functions of integers have no real operand or result.
pub(super) fn integers(program: &Program, id: OpId, diags: &mut Diags) {
    let op = program.op(id);
    let name = op.word(AttrKey::Function).map_or("", |name| program.name(name));
    if !INTEGERS.contains(&name) {
        return;
    }
    let mut tensors = op.input_tensors().chain(op.output_tensors());
    if let Some(real) = tensors.find(|&tensor| program.tensor(tensor).dtype.is_float()) {
        let (text, dtype) = (program.tensor_name(real), program.tensor(real).dtype.name());
        let message = format!("`{name}` needs integers, but `{text}` is {dtype}");
        let diag = Diag::error(codes::INTEGER_FUNCTION, program.op_span(id), message);
        let note = "give it integers or truth values; a cast such as `__to_int64(..)`, `(int64_t)(..)` in older spellings, makes integers of reals";
        diags.push(declared(diag, program, real, id).note(note));
    }
}

/// V33: the operands of arithmetic have the result's element type, those of a comparison one type, and
/// `where` chooses by a `bool`.
pub(super) fn pointwise(program: &Program, id: OpId, diags: &mut Diags) {
    let op = program.op(id);
    let Some(name) = op.word(AttrKey::Function).map(|name| program.name(name)) else { return };
    let Some(result) = op.output_tensors().next() else { return };
    let tensors: SmallVec<[TensorId; 4]> = op.input_tensors().collect();
    let Some(&first) = tensors.first() else { return };
    let is = |tensor: TensorId| program.tensor(tensor).dtype;
    let plain = |list: &[&str]| {
        list.contains(&name) || name.strip_suffix('f').is_some_and(|n| list.contains(&n))
    };
    if plain(SAME) {
        one_dtype(program, id, diags);
    } else if COMPARE.contains(&name) {
        if let Some(&other) = tensors.iter().find(|t| is(**t) != is(first)) {
            dtype(program, id, (first, other), diags);
        }
        needs_bool(program, id, result, "a comparison gives", diags);
    } else if name == "where" {
        let condition = op.operands.first().and_then(|value| value.tensor());
        if let Some(condition) = condition {
            needs_bool(program, id, condition, "`where` chooses by", diags);
        }
        let rest = if condition.is_some() { &tensors[1..] } else { &tensors[..] };
        if let Some(&other) = rest.iter().find(|t| is(**t) != is(result)) {
            dtype(program, id, (other, result), diags);
        }
    }
}

fn needs_bool(program: &Program, id: OpId, tensor: TensorId, why: &str, diags: &mut Diags) {
    let found = program.tensor(tensor).dtype;
    if found != DType::Bool {
        let message =
            format!("{why} bool, but `{}` is {}", program.tensor_name(tensor), found.name());
        diags.push(declared(
            Diag::error(codes::DTYPE, program.op_span(id), message),
            program,
            tensor,
            id,
        ));
    }
}

/// V34: a constant index of a select is inside its axis.
pub(super) fn select_index(program: &Program, id: OpId, diags: &mut Diags) {
    let op = program.op(id);
    let (Some(index), Some(axis)) = (op.expr(AttrKey::Index), op.domain(AttrKey::Axis)) else {
        return;
    };
    let Some(index) = program.exprs().as_int(index) else { return };
    let domain = program.domain(axis);
    let extent = program.exprs().as_int(domain.extent).filter(|_| !domain.is_broadcast());
    if index < 0 || extent.is_some_and(|extent| index >= extent) {
        let axis = domain_text(program, domain);
        let message = format!("index {index} is outside of the selected axis `{axis}`");
        diags.push(Diag::error(codes::SELECT_INDEX, program.op_span(id), message));
    }
}

/// V35: constant ranges of a slice run forwards and stay inside their axes.
pub(super) fn slice_ranges(program: &Program, id: OpId, diags: &mut Diags) {
    let op = program.op(id);
    let Some(AttrValue::Ranges(ranges)) = op.attr(AttrKey::Ranges) else { return };
    let Some(input) = op.input_tensors().next() else { return };
    let axes = logical_axes(program, input);
    for (range, k) in ranges.iter().zip(axes.stored()) {
        let [start, stop, step] = range.map(|expr| program.exprs().as_int(expr));
        let extent = program.exprs().as_int(axes.axes[k as usize].extent);
        let backwards = matches!((start, stop), (Some(start), Some(stop)) if start > stop);
        let outside = matches!((stop, extent), (Some(stop), Some(extent)) if stop > extent);
        if backwards || outside || start.is_some_and(|s| s < 0) || step.is_some_and(|s| s <= 0) {
            let written: Vec<String> = range.iter().map(|expr| expr_text(program, *expr)).collect();
            let message = format!(
                "the range {{{}}} of axis {k} of `{}` is not inside the axis",
                written.join(", "),
                program.tensor_name(input)
            );
            diags.push(Diag::error(codes::RANGES, program.op_span(id), message));
        }
    }
}

/// V36: the dimension of a cat is one of the result's.
pub(super) fn cat_dim(program: &Program, id: OpId, diags: &mut Diags) {
    let op = program.op(id);
    let dim = op.expr(AttrKey::Dim).and_then(|dim| program.exprs().as_int(dim));
    let (Some(dim), Some(result)) = (dim, op.output_tensors().next()) else { return };
    let rank = logical_axes(program, result).stored().len();
    if !(0..rank as i64).contains(&dim) {
        let message = format!(
            "dimension {dim} is not one of the {rank} of `{}`",
            program.tensor_name(result)
        );
        diags.push(declared(
            Diag::error(codes::DIM, program.op_span(id), message),
            program,
            result,
            id,
        ));
    }
}
