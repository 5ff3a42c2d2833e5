//! V30 to V32, V36: ranks, extents, element types and axis numbers that tensor ops require.

use crate::axes::pairing::LinkFn;
use crate::axes::{LastAxes, axis_place, logical_axes};
use crate::diag::message;
use crate::diag::{Diag, Diags, Message, codes};
use crate::ir::places::with_declaration;
use crate::ir::{AttrKey, AxisLink, DType, OpId, Program, TensorId, quoted_axis, quoted_op, quoted_type};

/// V30, V31: the op's axes pair up, and constant extents of pairs are equal. Appends the links to an empty list.
pub(crate) fn check_links(program: &Program, id: OpId, links: &mut Vec<AxisLink>, diags: &mut Diags, relate: LinkFn) {
    if let Err(mismatch) = relate(program, id, links) {
        let mut diag = Diag::error(mismatch.code, program.op_span(id), mismatch.message);
        if let Some(tensor) = mismatch.tensor {
            diag = with_declaration(diag, program, tensor, id);
        }
        if !mismatch.note.is_empty() {
            diag = diag.with_note(mismatch.note);
        }
        diags.push(diag);
    }
    check_link_extents(program, id, links, diags);
}

/// V31 for pairs of axes: their constant extents are equal.
pub(crate) fn check_link_extents(program: &Program, id: OpId, links: &[AxisLink], diags: &mut Diags) {
    let (mut from, mut to) = (LastAxes::default(), LastAxes::default());
    // An op with several results has several links for an axis: one error is enough.
    let (several, mut reported) = (program.op(id).results.len() > 1, Vec::new());
    for link in links.iter().filter(|link| !link.broadcast) {
        let source = from.axis_extent(program, link.from.0, link.from.1);
        let target = to.axis_extent(program, link.to.0, link.to.1);
        let (Some(a), Some(b)) = (source, target) else { continue };
        if a == b {
            continue;
        }
        if let (Some(x), Some(y)) = (program.exprs().as_int(a), program.exprs().as_int(b)) {
            if several && reported.iter().any(|axis| link.from == *axis || link.to == *axis) {
                continue;
            }
            reported.extend([link.from, link.to]);
            report_extents(program, id, link, [x, y], diags);
        }
    }
}

fn report_extents(program: &Program, id: OpId, link: &AxisLink, [x, y]: [i64; 2], diags: &mut Diags) {
    let [from, to] = [link.from, link.to].map(|(tensor, k)| {
        let axes = logical_axes(program, tensor).axes;
        let printed = axes.get(k as usize).map(|axis| axis.printed);
        let domain = printed.and_then(|printed| program.domains(tensor).get(printed as usize));
        // In `hir 2` an axis is its extent alone.
        match domain.filter(|_| !program.is_hir2()) {
            Some(domain) => message!("`{}` of `{}`", quoted_axis(program, domain), program.quoted_tensor(tensor)),
            None => axis_place(program, tensor, &axes, k),
        }
    });
    let name = quoted_op(program, id);
    let message = message!("`{}` needs equal extents, but {} has {} and {} has {}", name, from, x, to, y);
    let diag = Diag::error(codes::EXTENT, program.op_span(id), message);
    let diag = with_declaration(diag, program, link.from.0, id);
    let diag = match turn_note(program, id, link, x).filter(|_| program.is_hir2()) {
        Some(note) => diag.with_note(note),
        None => diag,
    };
    diags.push(if link.to.0 == link.from.0 { diag } else { with_declaration(diag, program, link.to.0, id) });
}

/// The repair if a matrix has the wanted extent at its other axis, as a weight `[out, in]` that is a right factor.
fn turn_note(program: &Program, id: OpId, link: &AxisLink, wanted: i64) -> Option<String> {
    let (tensor, k) = link.to;
    let axes = &logical_axes(program, tensor).axes;
    let other = axes.get(1 - usize::try_from(k).ok().filter(|k| *k < 2)?)?;
    let fits = axes.len() == 2 && program.exprs().as_int(other.extent) == Some(wanted);
    let is_input = program.op(id).input_tensors().any(|input| input == tensor);
    let name = program.tensor_name(tensor);
    (fits && is_input)
        .then(|| format!("turn it first: `{name}T = Set.Permute({name}, perm=[1, 0])`, and use `{name}T`"))
}

/// V32: all tensors of the op have one element type.
pub fn check_one_dtype(program: &Program, id: OpId, diags: &mut Diags) {
    let op = program.op(id);
    let Some(result) = op.output_tensors().next() else { return };
    let need = program.tensor(result).dtype;
    for tensor in op.input_tensors() {
        if program.tensor(tensor).dtype != need {
            report_dtypes(program, id, tensor, result, diags);
            return;
        }
    }
}

/// V32 for two of an op's tensors.
pub(crate) fn check_equal_dtypes(program: &Program, id: OpId, a: TensorId, b: TensorId, diags: &mut Diags) {
    if program.tensor(a).dtype != program.tensor(b).dtype {
        report_dtypes(program, id, a, b, diags);
    }
}

pub(crate) fn report_dtypes(program: &Program, id: OpId, a: TensorId, b: TensorId, diags: &mut Diags) {
    let [first, second] = [a, b]
        .map(|tensor| message!("`{}` is {}", program.quoted_tensor(tensor), quoted_type(program.tensor(tensor).dtype)));
    let name = quoted_op(program, id);
    let message = message!("`{}` needs equal element types, but {} and {}", name, first, second);
    let diag = Diag::error(codes::DTYPE, program.op_span(id), message);
    let diag = with_declaration(with_declaration(diag, program, a, id), program, b, id);
    diags.push(diag.with_note(Message::advice(
        "convert with a cast, for example `__to_float(..)`",
        "convert one of them in a statement of its own, as in `U = f32(X)`",
    )));
}

/// V55: the result of an op that names its element type has this type.
pub fn check_named_type(program: &Program, id: OpId, diags: &mut Diags) {
    let op = program.op(id);
    let named = op.word_attr(AttrKey::OutType).and_then(|word| DType::parse(program.name(word)));
    let (Some(named), Some(result)) = (named, op.output_tensors().next()) else { return };
    let found = program.tensor(result).dtype;
    if named != found {
        let (name, tensor) = (quoted_op(program, id), program.quoted_tensor(result));
        let message = message!("`{}` makes {}, but `{}` is {}", name, quoted_type(named), tensor, quoted_type(found));
        diags.push(with_declaration(Diag::error(codes::DTYPE, program.op_span(id), message), program, result, id));
    }
}

/// V36: the argument `dim` is an axis of the result.
pub fn check_dim_argument(program: &Program, id: OpId, diags: &mut Diags) {
    let op = program.op(id);
    let dim = op.expr_attr(AttrKey::Dim).and_then(|dim| program.exprs().as_int(dim));
    let (Some(dim), Some(result)) = (dim, op.output_tensors().next()) else { return };
    let rank = logical_axes(program, result).stored_positions().len();
    if !(0..rank as i64).contains(&dim) {
        let message = format!("dimension {dim} is not one of the {rank} of `{}`", program.tensor_name(result));
        diags.push(with_declaration(Diag::error(codes::DIM, program.op_span(id), message), program, result, id));
    }
}

/// An operand or a result of an op, called `role` in messages, whose elements must be integers that index a tensor.
pub fn check_index_type(program: &Program, id: OpId, tensor: TensorId, role: &str, diags: &mut Diags) {
    let found = program.tensor(tensor).dtype;
    if found.is_index() {
        return;
    }
    let message = message!(
        "the {} of `{}` must be {} or {}, but `{}` is {}",
        role,
        quoted_op(program, id),
        quoted_type(DType::Int32),
        quoted_type(DType::Int),
        program.quoted_tensor(tensor),
        quoted_type(found)
    );
    diags.push(with_declaration(Diag::error(codes::DTYPE, program.op_span(id), message), program, tensor, id));
}
