//! Axis links of Dispatch and Combine: tokens keep their elements; their order is data, so that rows have no links
//! across the communication.

use super::words::{OUT_EXPERTS, OUT_SOURCES, OUT_WEIGHTS};
use crate::axes::pairing::{
    AxisMismatch, AxisPositions, LinkResult, LinkSide, has_split_axis, link_pairs, operand_side, result_side,
};
use crate::diag::{Message, codes, count_text, message};
use crate::ir::{AxisLink, OpId, Program, TensorId, Value, quoted_op};

/// The axes of a tensor of tokens that are not spread over devices one by one, and those that are.
struct TokenAxes {
    side: LinkSide,
    rows: AxisPositions,
    devices: AxisPositions,
}

impl TokenAxes {
    fn new(side: LinkSide) -> Self {
        let (devices, rows) =
            side.stored_positions().into_iter().partition(|&at| side.axes.axes[at as usize].is_device_index());
        Self { side, rows, devices }
    }
    fn of_tensor(program: &Program, tensor: TensorId) -> Self {
        Self::new(LinkSide::new(program, tensor))
    }
    /// Fails unless the number of axes on each device is one of a range.
    fn require_count(&self, program: &Program, op: OpId, counts: &[usize]) -> LinkResult {
        if self.side.axes.split || counts.contains(&self.rows.len()) {
            return Ok(());
        }
        let (name, tensor) = (quoted_op(program, op), program.quoted_tensor(self.side.tensor));
        let found = count_text(self.rows.len(), "axis");
        let message = match counts {
            [2] => {
                message!("`{}` needs rows of elements, `[n, h]` on each device, but `{}` has {}", name, tensor, found)
            }
            _ => message!(
                "`{}` needs one element a row, `[n]` or `[n, 1]` on each device, but `{}` has {}",
                name,
                tensor,
                found
            ),
        };
        Err(AxisMismatch { code: codes::RANK, message, note: Message::default(), tensor: Some(self.side.tensor) })
    }
    /// Links the rows with those of another tensor of the same ranks.
    fn link_rows(&self, to: &Self, links: &mut Vec<AxisLink>) {
        if has_split_axis(&[&self.side, &to.side]) {
            return;
        }
        link_pairs(&self.side, &to.side, &self.rows[..1.min(self.rows.len())], &to.rows, links);
        if self.devices.len() == to.devices.len() {
            link_pairs(&self.side, &to.side, &self.devices, &to.devices, links);
        }
    }
    /// Links the elements of each row.
    fn link_elements(&self, to: &Self, links: &mut Vec<AxisLink>) {
        if let ([_, from], [_, into]) = (self.rows.as_slice(), to.rows.as_slice())
            && !has_split_axis(&[&self.side, &to.side])
        {
            link_pairs(&self.side, &to.side, &[*from], &[*into], links);
        }
    }
}

/// Dispatch: the elements of tokens; the rows of its operands, and those of its results.
pub(super) fn link_dispatch(program: &Program, op: OpId, links: &mut Vec<AxisLink>) -> LinkResult {
    let tokens = TokenAxes::new(operand_side(program, op, 0)?);
    let out = TokenAxes::new(result_side(program, op)?);
    for side in [&tokens, &out] {
        side.require_count(program, op, &[2])?;
    }
    tokens.link_elements(&out, links);
    for place in 1..3 {
        let column = TokenAxes::new(operand_side(program, op, place)?);
        column.require_count(program, op, &[1, 2])?;
        column.link_rows(&tokens, links);
    }
    for word in [OUT_EXPERTS, OUT_WEIGHTS, OUT_SOURCES] {
        let node = program.op(op);
        let Some(tensor) = node.kind.spec().named_result(node, word).and_then(Value::as_tensor) else { continue };
        let column = TokenAxes::of_tensor(program, tensor);
        column.require_count(program, op, &[1, 2])?;
        column.link_rows(&out, links);
    }
    Ok(())
}

/// Combine: the elements of rows; the rows of its operands.
pub(super) fn link_combine(program: &Program, op: OpId, links: &mut Vec<AxisLink>) -> LinkResult {
    let rows = TokenAxes::new(operand_side(program, op, 0)?);
    let out = TokenAxes::new(result_side(program, op)?);
    for side in [&rows, &out] {
        side.require_count(program, op, &[2])?;
    }
    rows.link_elements(&out, links);
    for place in 1..3 {
        let column = TokenAxes::new(operand_side(program, op, place)?);
        column.require_count(program, op, &[1, 2])?;
        column.link_rows(&rows, links);
    }
    Ok(())
}
