//! The ops of a loop on slices of one iteration.

use super::loop_body::LoopBody;
use super::loops::{DataRole, StreamLoop};
use super::{exchange, scatter};
use crate::support::builder::printed_domain;
use hostir::analysis::{AxisMap, MappedAxis};
use hostir::diag::message;
use hostir::diag::{Diag, Diags};
use hostir::ir::{
    AttrKey, AttrValue, AxisLink, Op, OpId, Program, TensorId, Value, domain_text, quoted_axis, quoted_head, quoted_op,
};
use smallvec::SmallVec;

/// stream-parallel-type: a tensor with two axes that correspond to the loop's.
const STREAM_TWICE: &str = "H0327";
/// stream-parallel-type: an op that needs other iterations' slices.
const STREAM_LINK: &str = "H0328";
/// stream-parallel-type: a collective in a loop whose ranks process different shards.
const STREAM_RING: &str = "H0331";
/// stream-parallel-type: an op that would combine different axes if it used slices.
const STREAM_PAIRS: &str = "H0392";

/// The axis of a tensor that is the loop's.
pub(super) fn mapped_axis(
    program: &Program,
    map: &AxisMap,
    tensor: TensorId,
    class: u32,
) -> Result<Option<MappedAxis>, String> {
    let mut hits = map.axes_of_class(tensor, class);
    let Some(first) = hits.next() else { return Ok(None) };
    if map.is_split(tensor) {
        return Err(format!("the axes of {} result from splits, so it cannot be sliced", program.tensor_name(tensor)));
    }
    if hits.next().is_none() {
        return Ok(Some(first));
    }
    let domains = program.domains(tensor);
    let texts: Vec<String> = map
        .axes_of_class(tensor, class)
        .filter_map(|axis| Some(domain_text(program, domains.get(axis.printed as usize)?)))
        .collect();
    Err(format!(
        "{} axes of {} correspond to the axis of the loop: {}",
        texts.len(),
        program.tensor_name(tensor),
        texts.join(", ")
    ))
}

/// Appends an op of a loop, with the slices it needs before it.
pub(super) fn emit_op(
    body: &mut LoopBody<'_, '_, '_>,
    map: &AxisMap,
    found: &StreamLoop,
    id: OpId,
    role: DataRole,
) -> Result<(), Diag> {
    let mapped = mapped_tensors(body.program(), map, found, id)?;
    let program = body.program();
    let op = program.op(id);
    match role {
        DataRole::Scatter => return scatter::emit_exchange(body, id),
        DataRole::Reduce => return scatter::emit_reduce(body, id),
        DataRole::Gather => {
            let sides = mapped.iter().copied();
            let mut inputs = sides.filter(|(tensor, _)| op.input_tensors().any(|t| t == *tensor));
            if let Some((input, axis)) = inputs.find(|&(t, axis)| is_device(program, t, axis)) {
                return exchange::emit_gather(body, id, input, axis);
            }
        }
        DataRole::Collective if found.is_offset(body.config) => {
            return Err(collective_on_ring_error(program, id));
        }
        DataRole::Collective | DataRole::Local => {}
    }
    let mut expected = axis_links(program, id);
    check_links(program, id, &mapped, &expected)?;
    let by_place = pairs_equal_positions(op, &mapped, &expected);
    let (mut new, mut cuts) = (op.clone(), AxisSlices::new());
    for (tensor, axis) in mapped {
        let slice = body.slice(tensor, axis);
        replace_operand(body.program(), &mut new, tensor, axis, slice);
        cuts.push((tensor, axis.axis, slice));
    }
    body.build.edit.set_op(id, new);
    body.ops.push(id);
    if by_place {
        return Ok(());
    }
    expected.retain_mut(|link| replace_by_slice(&cuts, &mut link.from) && replace_by_slice(&cuts, &mut link.to));
    let program = body.program();
    if paired_axes(&expected) == paired_axes(&axis_links(program, id)) && is_valid(program, id) {
        return Ok(());
    }
    Err(moved_axes_error(program, id, &cuts))
}

/// A tensor and one of its axes.
type LinkEnd = (TensorId, u32);

/// Tensors of an op whose axis is the loop's.
type Mapped = SmallVec<[(TensorId, MappedAxis); 4]>;

/// The tensors of an op that the loop slices, each once.
fn mapped_tensors(program: &Program, map: &AxisMap, found: &StreamLoop, id: OpId) -> Result<Mapped, Diag> {
    let mut mapped = Mapped::new();
    for tensor in program.op(id).all_tensors() {
        let axis = mapped_axis(program, map, tensor, found.class).map_err(|message| {
            let note = "write the result without the stream type: a loop slices one axis of a tensor";
            Diag::error(STREAM_TWICE, program.op_span(id), message).with_note(note)
        })?;
        if let Some(axis) = axis
            && !mapped.iter().any(|(known, _)| *known == tensor)
        {
            mapped.push((tensor, axis));
        }
    }
    Ok(mapped)
}

/// Tensors, the axis of each that the loop takes, and their slices.
type AxisSlices = SmallVec<[(TensorId, u32, TensorId); 4]>;

fn axis_links(program: &Program, id: OpId) -> Vec<AxisLink> {
    let mut links = Vec::new();
    program.op(id).kind.spec().axes(program, id, &mut links);
    links
}

/// True if an op pairs axes of equal positions only, and all its tensors lose the axis of one position: then slices
/// pair as the tensors do.
fn pairs_equal_positions(op: &Op, mapped: &[(TensorId, MappedAxis)], links: &[AxisLink]) -> bool {
    let Some((_, first)) = mapped.first() else { return true };
    links.iter().all(|link| link.from.1 == link.to.1)
        && op.all_tensors().all(|tensor| mapped.iter().any(|(t, axis)| *t == tensor && axis.axis == first.axis))
}

/// Replaces an axis of a tensor by that of its slice; returns false if the slice does not have it.
fn replace_by_slice(cuts: &AxisSlices, end: &mut LinkEnd) -> bool {
    let (tensor, axis) = end;
    let Some(&(_, gone, slice)) = cuts.iter().find(|(whole, ..)| whole == tensor) else {
        return true;
    };
    let kept = *axis != gone;
    *tensor = slice;
    *axis -= u32::from(*axis > gone);
    kept
}

/// True if an op may have its present operands and results: a slice of a vector has no range left to choose.
fn is_valid(program: &Program, id: OpId) -> bool {
    let mut found = Diags::default();
    program.op(id).kind.spec().verify(program, id, &mut found);
    !found.has_errors()
}

/// The pairs of axes that an op links.
fn paired_axes(links: &[AxisLink]) -> Vec<((TensorId, u32), (TensorId, u32))> {
    let mut pairs: Vec<_> = links.iter().map(|link| (link.from, link.to)).collect();
    pairs.sort_unstable();
    pairs
}

/// The error for an op that takes axes by position, if slices have them at other positions: a matrix of three axes
/// becomes one of two, which is no longer a batch.
fn moved_axes_error(program: &Program, id: OpId, cuts: &AxisSlices) -> Diag {
    let name = quoted_op(program, id);
    let whole: Vec<String> = cuts.iter().map(|&(tensor, ..)| program.tensor_name(tensor)).collect();
    let message = message!("`{}` would combine different axes if it used slices of {}", name, whole.join(" and "));
    let note = "make another axis stream-parallel, such as the outermost batch axis, or write the result without the stream type";
    Diag::error(STREAM_PAIRS, program.op_span(id), message).with_note(note)
}

/// The error for a collective whose ranks work on different parts, so that they cannot meet. (nvFuser lets them, and
/// mixes parts.)
fn collective_on_ring_error(program: &Program, id: OpId) -> Diag {
    let name = quoted_op(program, id);
    let message = message!("`{}` moves data between devices in a loop whose ranks process different shards", name);
    let note = "omit `allgather=ring`, or write the result of the op without the stream type";
    Diag::error(STREAM_RING, program.op_span(id), message).with_note(note)
}

fn is_device(program: &Program, tensor: TensorId, axis: MappedAxis) -> bool {
    let domain = &program.domains(tensor)[axis.printed as usize];
    domain.parallel.is_device() && !domain.is_reduction()
}

/// Checks that an op itself relates the sliced axes of operands and result: else the iterations would need each other's
/// slices.
fn check_links(program: &Program, id: OpId, mapped: &[(TensorId, MappedAxis)], links: &[AxisLink]) -> Result<(), Diag> {
    let op = program.op(id);
    let (results, operands): (Vec<_>, Vec<_>) =
        mapped.iter().partition(|(tensor, _)| op.output_tensors().any(|result| result == *tensor));
    let pairs = results.iter().flat_map(|to| operands.iter().map(move |from| (from, to)));
    for ((tensor, axis), (result, to)) in pairs {
        let pair = [(*tensor, axis.axis), (*result, to.axis)];
        if !links.iter().any(|link| [link.from, link.to] == pair) {
            let message = message!(
                "`{}` cannot be sliced along `{}` of {}, which other ops link to the axis of the loop",
                quoted_head(op.kind.name()),
                quoted_axis(program, &program.domains(*tensor)[axis.printed as usize]),
                program.quoted_tensor(*tensor)
            );
            let note = "move the op to another loop: write its result without the stream type";
            return Err(Diag::error(STREAM_LINK, program.op_span(id), message).with_note(note));
        }
    }
    Ok(())
}

/// Puts a slice in the place of a tensor.
fn replace_operand(program: &Program, op: &mut Op, tensor: TensorId, axis: MappedAxis, slice: TensorId) {
    let is_operand = op.input_tensors().any(|operand| operand == tensor);
    for value in op.operands.iter_mut().chain(&mut op.results) {
        if *value == Value::Tensor(tensor) {
            *value = Value::Tensor(slice);
        }
    }
    if !is_operand {
        return;
    }
    for (key, value) in &mut op.attrs {
        match value {
            // A select's axis is one of its operand's domains.
            AttrValue::Domain(domain) if *key == AttrKey::Axis => {
                let printed = domain.0 - program.tensor(tensor).domains_start;
                let order = program.logical_axes(tensor);
                let place = order.iter().filter(|&&p| p != axis.printed).position(|&p| p == printed);
                if let Some(place) = place {
                    *domain = printed_domain(program, slice, place as u32);
                }
            }
            // A slice has one range for each axis.
            AttrValue::Ranges(ranges) if (axis.axis as usize) < ranges.len() => {
                let mut rest = ranges.to_vec();
                rest.remove(axis.axis as usize);
                *value = AttrValue::Ranges(rest.into());
            }
            _ => {}
        }
    }
}
