//! Axis links of ops that read or write elements selected by an index tensor, with PyTorch's shapes.
//!
//! The axis that the index selects from has no link: any element of the result may come from (or go to) any position
//! along it, so it must not be sharded. Sharding along the other axes is kept.

use super::super::tensor_checks::swapped_index;
use crate::axes::pairing::{AxisMismatch, LinkResult, LinkSide, has_split_axis, link_pairs, operand_side, result_side};
use crate::diag::{Message, codes, count_text, message};
use crate::ir::{AttrKey, AxisLink, OpId, Program, quoted_head};

/// The mismatch for a tensor with another number of axes.
fn index_rank_mismatch(program: &Program, op: OpId, side: &LinkSide, need: String, note: &str) -> AxisMismatch {
    let name = quoted_head(program.op(op).kind.name());
    let tensor = program.quoted_tensor(side.tensor);
    AxisMismatch {
        code: codes::RANK,
        message: message!(
            "`{}` needs {}, but `{}` has {}",
            name,
            need,
            tensor,
            count_text(side.stored_positions().len(), "axis")
        ),
        note: note.into(),
        tensor: Some(side.tensor),
    }
}

/// The axis from which a gather selects, if the operand has it.
fn chosen_axis(program: &Program, op: OpId, rank: usize) -> Option<usize> {
    let dim = program.op(op).expr_attr(AttrKey::Dim).and_then(|dim| program.exprs().as_int(dim))?;
    usize::try_from(dim).ok().filter(|&dim| dim < rank)
}

/// Operand, index and result of a gather.
struct GatherSides {
    input: LinkSide,
    index: LinkSide,
    out: LinkSide,
}

impl GatherSides {
    fn new(program: &Program, op: OpId) -> Result<Self, AxisMismatch> {
        let (input, index) = (operand_side(program, op, 0)?, operand_side(program, op, 1)?);
        Ok(Self { input, index, out: result_side(program, op)? })
    }
    /// Returns true if the index has no integers and another operand has, which is one error.
    fn is_swapped(&self, program: &Program, op: OpId) -> bool {
        swapped_index(program, op, self.index.tensor).is_some()
    }
    fn has_split_axis(&self) -> bool {
        has_split_axis(&[&self.input, &self.index, &self.out])
    }
    /// The repair of an index without the axis from which it selects.
    fn index_advice(&self, program: &Program, op: OpId, rank: usize) -> Option<Message> {
        let dim = chosen_axis(program, op, rank)?;
        if self.index.stored_positions().len() + 1 != rank {
            return None;
        }
        let flags: Vec<&str> = (0..rank).map(|axis| if axis == dim { "true" } else { "false" }).collect();
        let (name, flags) = (program.tensor_name(self.index.tensor), flags.join(", "));
        let call = Message::advice(
            format!("`broadcast( {name}, flags = {{{flags}}} )`"),
            format!("`broadcast({name}, flags=[{flags}])`"),
        );
        Some(message!("{} gives {} an axis {} of extent 1", call, program.quoted_tensor(self.index.tensor), dim))
    }
    /// These have as many axes as the operand.
    fn check_ranks(&self, program: &Program, op: OpId, sides: &[&LinkSide]) -> LinkResult {
        let rank = self.input.stored_positions().len();
        let other = sides.iter().find(|side| side.stored_positions().len() != rank);
        let Some(side) = other.filter(|_| !self.has_split_axis() && !self.is_swapped(program, op)) else {
            return Ok(());
        };
        let what = if side.tensor == self.index.tensor { "an index" } else { "a result" };
        let note = format!("`{}` has {}", program.tensor_name(self.input.tensor), count_text(rank, "axis"));
        let mut mismatch =
            index_rank_mismatch(program, op, side, format!("{what} of {}", count_text(rank, "axis")), &note);
        if side.tensor == self.index.tensor
            && let Some(advice) = self.index_advice(program, op, rank)
        {
            mismatch.note = message!("{}: {}", mismatch.note, advice);
        }
        Err(mismatch)
    }
}

/// indexSelect: the operand's axes, with the index's in the place of the selected one.
pub(super) fn link_index_select(program: &Program, op: OpId, links: &mut Vec<AxisLink>) -> LinkResult {
    let gather = GatherSides::new(program, op)?;
    gather.check_ranks(program, op, &[&gather.out])?;
    let (a, x, b) = (gather.input.stored_positions(), gather.index.stored_positions(), gather.out.stored_positions());
    if gather.has_split_axis() || gather.is_swapped(program, op) {
        return Ok(());
    }
    if x.len() != 1 {
        let need = "an index of 1 axis".to_owned();
        return Err(index_rank_mismatch(program, op, &gather.index, need, ""));
    }
    let Some(dim) = chosen_axis(program, op, a.len()) else { return Ok(()) };
    for k in 0..a.len() {
        match k == dim {
            true => link_pairs(&gather.index, &gather.out, &x, &b[k..=k], links),
            false => link_pairs(&gather.input, &gather.out, &a[k..=k], &b[k..=k], links),
        }
    }
    Ok(())
}

/// takeAlongAxis: the index's axes, and the operand's except the selected one.
pub(super) fn link_take_along(program: &Program, op: OpId, links: &mut Vec<AxisLink>) -> LinkResult {
    link_other_axes(program, op, links, |_, _| true)
}

/// torchGather: the same, but the operand may be longer. Only axes that are known to be equal are linked; of others the
/// first elements are read.
pub(super) fn link_gather(program: &Program, op: OpId, links: &mut Vec<AxisLink>) -> LinkResult {
    link_other_axes(program, op, links, |(from, a), (to, b)| is_equal_axis(from, a, to, b))
}

fn link_other_axes(
    program: &Program,
    op: OpId,
    links: &mut Vec<AxisLink>,
    equal: impl Fn((&LinkSide, u32), (&LinkSide, u32)) -> bool,
) -> LinkResult {
    let gather = GatherSides::new(program, op)?;
    gather.check_ranks(program, op, &[&gather.index, &gather.out])?;
    let (a, x, b) = (gather.input.stored_positions(), gather.index.stored_positions(), gather.out.stored_positions());
    let is_wrong = gather.has_split_axis() || gather.is_swapped(program, op);
    let Some(dim) = chosen_axis(program, op, a.len()).filter(|_| !is_wrong) else {
        return Ok(());
    };
    for k in 0..a.len() {
        let whole = k == dim || equal((&gather.input, a[k]), (&gather.out, b[k]));
        if whole {
            link_pairs(&gather.index, &gather.out, &x[k..=k], &b[k..=k], links);
        }
        if whole && k != dim {
            link_pairs(&gather.input, &gather.out, &a[k..=k], &b[k..=k], links);
        }
    }
    Ok(())
}

/// scatter: the operand's axes except the chosen one; those of the index and the source where they are as long, so that
/// every element of the result has an index. Along longer ones the other elements remain.
pub(super) fn link_scatter(program: &Program, op: OpId, links: &mut Vec<AxisLink>) -> LinkResult {
    let (base, out) = (operand_side(program, op, 0)?, result_side(program, op)?);
    let rest = program.op(op).input_tensors().skip(1).map(|tensor| LinkSide::new(program, tensor));
    let rest: Vec<LinkSide> = rest.collect();
    let sides: Vec<&LinkSide> = [&base, &out].into_iter().chain(&rest).collect();
    if has_split_axis(&sides) {
        return Ok(());
    }
    let (a, b) = (base.stored_positions(), out.stored_positions());
    if let Some(side) = sides.iter().find(|side| side.stored_positions().len() != a.len()) {
        let note = format!("`{}` has {}", program.tensor_name(base.tensor), count_text(a.len(), "axis"));
        return Err(index_rank_mismatch(
            program,
            op,
            side,
            format!("tensors of {}", count_text(a.len(), "axis")),
            &note,
        ));
    }
    let Some(dim) = chosen_axis(program, op, a.len()) else { return Ok(()) };
    for k in (0..a.len()).filter(|&k| k != dim) {
        link_pairs(&base, &out, &a[k..=k], &b[k..=k], links);
        for side in &rest {
            let own = side.stored_positions();
            if is_equal_axis(side, own[k], &out, b[k]) {
                link_pairs(side, &out, &own[k..=k], &b[k..=k], links);
            }
        }
    }
    Ok(())
}

/// Returns true if two axes are known to be equally long and sharded.
fn is_equal_axis(one: &LinkSide, a: u32, other: &LinkSide, b: u32) -> bool {
    let [a, b] = [&one.axes.axes[a as usize], &other.axes.axes[b as usize]];
    a.extent == b.extent || (a.device_type().is_some() && a.device_type() == b.device_type())
}

/// indexPutAccumulate: all axes except the first; the index has as many elements as the value has rows.
pub(super) fn link_index_put(program: &Program, op: OpId, links: &mut Vec<AxisLink>) -> LinkResult {
    let (base, index) = (operand_side(program, op, 0)?, operand_side(program, op, 1)?);
    let (value, out) = (operand_side(program, op, 2)?, result_side(program, op)?);
    let is_swapped = swapped_index(program, op, index.tensor).is_some();
    if is_swapped || has_split_axis(&[&base, &index, &value, &out]) {
        return Ok(());
    }
    let (a, x, v, b) =
        (base.stored_positions(), index.stored_positions(), value.stored_positions(), out.stored_positions());
    if a.is_empty() {
        return Err(index_rank_mismatch(program, op, &base, "rows to add to".to_owned(), ""));
    }
    for (side, what) in [(&value, "a value"), (&out, "a result")] {
        if side.stored_positions().len() != a.len() {
            let note = format!("`{}` has {}", program.tensor_name(base.tensor), count_text(a.len(), "axis"));
            let need = format!("{what} of {}", count_text(a.len(), "axis"));
            return Err(index_rank_mismatch(program, op, side, need, &note));
        }
    }
    if !(1..=2).contains(&x.len()) {
        let note = "the second axis of the index must have extent 1";
        return Err(index_rank_mismatch(program, op, &index, "an index of 1 or 2 axes".to_owned(), note));
    }
    link_pairs(&index, &value, &x[..1], &v[..1], links);
    link_pairs(&base, &out, &a[1..], &b[1..], links);
    link_pairs(&value, &out, &v[1..], &b[1..], links);
    Ok(())
}
