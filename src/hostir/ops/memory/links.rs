//! Axis links of ops that bind a tensor to a part of another.

use crate::axes::pairing::{
    AxisMismatch, AxisPositions, ChosenAxes, LinkResult, LinkSide, both_sides, has_split_axis, link_copy,
    link_equal_lists, link_pairs,
};
use crate::diag::message;
use crate::diag::{Message, codes};
use crate::ir::{AttrKey, AxisLink, OpId, Program, quoted_axis};

/// HirAliasSelect and select: the selected axis disappears, the others keep their order. The result may keep the
/// operand's reduced axes or drop them.
pub(super) fn link_select(program: &Program, op: OpId, links: &mut Vec<AxisLink>) -> LinkResult {
    let (from, to) = both_sides(program, op)?;
    let printed = selected_axis(program, op, &from)?;
    if has_split_axis(&[&from, &to]) {
        return Ok(());
    }
    // With `logical=` the printed axis may be a part of an axis, or no axis.
    let Some(axis) = printed.and_then(|printed| from.axes.of_printed(printed)) else {
        return Ok(());
    };
    let [all, stored] = [from.all_positions(), from.stored_positions()]
        .map(|axes| -> AxisPositions { axes.into_iter().filter(|&k| k != axis).collect() });
    if all.len() == to.all_positions().len() {
        link_pairs(&from, &to, &all, &to.all_positions(), links);
        return Ok(());
    }
    link_equal_lists(
        program,
        op,
        ChosenAxes { side: &from, axes: &stored },
        ChosenAxes { side: &to, axes: &to.stored_positions() },
        links,
    )
}

/// The printed position of the selected axis; `None` if the text does not determine it.
fn selected_axis(program: &Program, op: OpId, from: &LinkSide) -> Result<Option<u32>, AxisMismatch> {
    let tensor = program.tensor(from.tensor);
    let Some(domain) = program.op(op).domain_attr(AttrKey::Axis) else {
        let name = program.tensor_name(from.tensor);
        return Err(selection_mismatch(program, from, message!("the selected axis is not an axis of `{}`", name)));
    };
    if (tensor.domains_start..tensor.domains_end).contains(&domain.0) {
        return Ok(Some(domain.0 - tensor.domains_start));
    }
    if tensor.logical.is_some() || from.axes.split {
        return Ok(None);
    }
    let (axis, name) = (quoted_axis(program, program.domain(domain)), program.quoted_tensor(from.tensor));
    Err(selection_mismatch(program, from, message!("the selected axis `{}` is not an axis of `{}`", axis, name)))
}

fn selection_mismatch(program: &Program, from: &LinkSide, message: Message) -> AxisMismatch {
    let name = program.tensor_name(from.tensor);
    AxisMismatch {
        code: codes::SELECT_AXIS,
        message,
        note: message!("select one of the domains of `{}`, or a position among its axes", name),
        tensor: Some(from.tensor),
    }
}

/// ShardByStream: position by position; the result keeps the extent of the stream axis.
pub(super) fn link_shard_by_stream(program: &Program, op: OpId, links: &mut Vec<AxisLink>) -> LinkResult {
    link_copy(program, op, links)
}
