//! V30 to V32, V36: ranks, extents, element types and axis numbers that tensor ops require.

use super::result_types::{TensorType, result_types};
use crate::axes::pairing::LinkFn;
use crate::axes::{LastAxes, axis_place, logical_axes};
use crate::diag::message;
use crate::diag::{Diag, Diags, Message, codes};
use crate::ir::places::with_declaration;
use crate::ir::{
    AttrKey, AxisLink, DType, OpId, Program, TensorId, Transfer, quoted_axis, quoted_op, quoted_type, word_of_dtype,
};
use smallvec::SmallVec;

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

/// V31 for pairs of axes: their constant extents are equal. One error has all pairs of the op.
pub(crate) fn check_link_extents(program: &Program, id: OpId, links: &[AxisLink], diags: &mut Diags) {
    let (mut from, mut to) = (LastAxes::default(), LastAxes::default());
    let mut found: Vec<UnequalAxes> = Vec::new();
    for link in links.iter().filter(|link| !link.broadcast) {
        let source = from.axis_extent(program, link.from.0, link.from.1);
        let target = to.axis_extent(program, link.to.0, link.to.1);
        let (Some(a), Some(b)) = (source, target) else { continue };
        if a == b {
            continue;
        }
        // An axis may have several links: one with each result, say.
        if let (Some(x), Some(y)) = (program.exprs().as_int(a), program.exprs().as_int(b))
            && !found.iter().any(|axes| link.from == axes.link.from || link.to == axes.link.to)
        {
            found.push(UnequalAxes { link: *link, extents: [x, y] });
        }
    }
    report_extents(program, id, &found, diags);
}

/// Two axes that an op pairs, with different extents.
struct UnequalAxes {
    link: AxisLink,
    extents: [i64; 2],
}

impl UnequalAxes {
    /// `axis 1 of A has 3 and axis 0 of C has 4`
    fn describe(&self, program: &Program) -> Message {
        let [from, to] = [self.link.from, self.link.to].map(|(tensor, k)| {
            let axes = logical_axes(program, tensor).axes;
            let printed = axes.get(k as usize).map(|axis| axis.printed);
            let domain = printed.and_then(|printed| program.domains(tensor).get(printed as usize));
            // In `hir 2` an axis is its extent alone.
            match domain.filter(|_| !program.is_hir2()) {
                Some(domain) => message!("`{}` of `{}`", quoted_axis(program, domain), program.quoted_tensor(tensor)),
                None => axis_place(program, tensor, &axes, k),
            }
        });
        message!("{} has {} and {} has {}", from, self.extents[0], to, self.extents[1])
    }
}

fn report_extents(program: &Program, id: OpId, found: &[UnequalAxes], diags: &mut Diags) {
    let Some((first, others)) = found.split_first() else { return };
    let message = message!("`{}` needs equal extents, but {}", quoted_op(program, id), first.describe(program));
    let diag = Diag::error(codes::EXTENT, program.op_span(id), message);
    let [from, to] = [first.link.from.0, first.link.to.0];
    let diag = with_declaration(diag, program, from, id);
    let mut diag = if to == from { diag } else { with_declaration(diag, program, to, id) };
    let repair = repair_note(program, id, first).filter(|_| program.is_hir2());
    if repair.is_none() && !others.is_empty() {
        let others: Vec<Message> = others.iter().map(|axes| axes.describe(program)).collect();
        diag = diag.with_note(message!("likewise, {}", Message::join(&others, ", and ")));
    }
    diag.notes.extend(repair);
    diags.push(diag);
}

/// The text to write, in `hir 2`.
fn repair_note(program: &Program, id: OpId, found: &UnequalAxes) -> Option<Message> {
    let own = program.op(id).kind.spec().repair.and_then(|repair| repair(program, id));
    let turned = || turn_note(program, id, found).or_else(|| turned_copy_note(program, id, found));
    own.or_else(|| turned().map(Message::from)).or_else(|| result_note(program, id, found))
}

/// The extents of a tensor's axes, where they are constants.
pub(super) fn constant_extents(program: &Program, tensor: TensorId) -> Vec<Option<i64>> {
    logical_axes(program, tensor).axes.iter().map(|axis| program.exprs().as_int(axis.extent)).collect()
}

/// The repair if a copy's result is the transposed operand.
fn turned_copy_note(program: &Program, id: OpId, found: &UnequalAxes) -> Option<String> {
    let op = program.op(id);
    let ([input], Some(result)) = (&op.input_tensors().collect::<Vec<_>>()[..], op.output_tensors().next()) else {
        return None;
    };
    let [from, to] = [*input, result].map(|tensor| logical_axes(program, tensor).axes);
    let is_turned =
        from.len() == 2 && to.len() == 2 && from[0].extent == to[1].extent && from[1].extent == to[0].extent;
    let is_copy = op.kind.transfer() == Some(Transfer::Copy) && op.attr(AttrKey::Perm).is_none();
    let name = program.tensor_name(*input);
    (is_copy && is_turned && found.link.to.0 == result).then(|| format!("`Set.Permute({name}, perm=[1, 0])` turns it"))
}

/// The repair if a matrix has the wanted extent at its other axis, as a weight `[out, in]` that is a right factor.
fn turn_note(program: &Program, id: OpId, found: &UnequalAxes) -> Option<String> {
    let (tensor, k) = found.link.to;
    let axes = &logical_axes(program, tensor).axes;
    let other = axes.get(1 - usize::try_from(k).ok().filter(|k| *k < 2)?)?;
    let fits = axes.len() == 2 && program.exprs().as_int(other.extent) == Some(found.extents[0]);
    let is_input = program.op(id).input_tensors().any(|input| input == tensor);
    let name = program.tensor_name(tensor);
    (fits && is_input)
        .then(|| format!("turn it first: `{name}T = Set.Permute({name}, perm=[1, 0])`, and use `{name}T`"))
}

/// The type of the result, if that is what has another extent.
fn result_note(program: &Program, id: OpId, found: &UnequalAxes) -> Option<Message> {
    let op = program.op(id);
    let at = op.output_tensors().position(|result| result == found.link.to.0)?;
    let ty = result_types(program, op)?.into_iter().nth(at)?.without(|_, domain| domain.is_reduction());
    Some(message!("the result is `{}`", type_text(program, &ty)))
}

/// A type as `hir 2` writes it, without its mesh.
pub(crate) fn type_text(program: &Program, ty: &TensorType) -> Message {
    let axes: Vec<Message> = ty.domains.iter().map(|domain| message!("{}", quoted_axis(program, domain))).collect();
    message!("{}[{}]", quoted_type(ty.dtype), Message::join(&axes, ", "))
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
    diags.push(diag.with_note(conversion_note(program, id, a, b)));
}

/// The conversion that makes two element types equal: of the operand that differs from the result, or of the result.
fn conversion_note(program: &Program, id: OpId, a: TensorId, b: TensorId) -> Message {
    let op = program.op(id);
    let is_result = |tensor: TensorId| op.output_tensors().any(|result| result == tensor);
    let [operand, kept] = if is_result(a) { [b, a] } else { [a, b] };
    let [from, to] = [operand, kept].map(|tensor| word_of_dtype(program.tensor(tensor).dtype));
    let name = program.tensor_name(operand);
    let inputs: Vec<DType> = op.input_tensors().map(|tensor| program.tensor(tensor).dtype).collect();
    let are_alike = inputs.windows(2).all(|pair| pair[0] == pair[1]);
    let free = program.unused_tensor_name();
    let hir2 = match is_result(kept) && are_alike {
        // A communication has no result that another statement could name.
        true if op.kind.is_communication() => {
            "a communication converts nothing: its operand is converted on a line before it, or its result after it"
                .to_owned()
        }
        // Only the result differs.
        true => format!(
            "the result is {from}: convert it in a statement of its own, as in `{free} = ..` and `{} = {to}({free})`",
            program.tensor_name(kept)
        ),
        false => format!("write `{free} = {to}({name})` in front of this, and `{free}` here in the place of `{name}`"),
    };
    Message::advice("convert with a cast, for example `__to_float(..)`", hir2)
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
        let note = message!(
            "give both one type: `{}` in the call, or `{}` in the type of the result",
            quoted_type(found),
            quoted_type(named)
        );
        let diag = Diag::error(codes::DTYPE, program.op_span(id), message).with_note(note);
        diags.push(with_declaration(diag, program, result, id));
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

/// Checks an operand or a result of an op, called `role` in messages, whose elements must be integers that index a
/// tensor. Returns false after an error.
pub fn check_index_type(program: &Program, id: OpId, tensor: TensorId, role: &str, diags: &mut Diags) -> bool {
    let found = program.tensor(tensor).dtype;
    if found.is_index() {
        return true;
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
    let diag = with_declaration(Diag::error(codes::DTYPE, program.op_span(id), message), program, tensor, id);
    diags.push(match swapped_index(program, id, tensor) {
        Some(index) => {
            let [index, tensor] = [index, tensor].map(|tensor| program.quoted_tensor(tensor));
            diag.with_note(message!("are `{}` and `{}` swapped?", tensor, index))
        }
        None if program.op(id).output_tensors().any(|result| result == tensor) => {
            let name = program.quoted_tensor(tensor);
            // The values come first where positions are a second result.
            let order = message!("the results of `{}` are the values, then their positions", quoted_op(program, id));
            let has_values = role == "positions" && program.op(id).output_tensors().count() > 1;
            let diag = if has_values { diag.with_note(order) } else { diag };
            diag.with_note(message!("declare `{}` with elements of type `{}`", name, quoted_type(DType::Int)))
        }
        None => diag,
    });
    false
}

/// The operand that has the integers, if the one that is read as an index has none.
pub(super) fn swapped_index(program: &Program, id: OpId, index: TensorId) -> Option<TensorId> {
    let inputs: SmallVec<[TensorId; 4]> = program.op(id).input_tensors().collect();
    if !inputs.contains(&index) || program.tensor(index).dtype.is_index() {
        return None;
    }
    inputs.into_iter().find(|tensor| program.tensor(*tensor).dtype.is_index())
}
