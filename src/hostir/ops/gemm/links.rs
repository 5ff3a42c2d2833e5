//! Axis links of GEMMs, with PyTorch's shapes.
//!
//! The result may end in the contracted axis as a reduction (`rS8{i3}`).

use crate::axes::pairing::{AxisMismatch, LinkResult, LinkSide, has_split_axis, link_pairs, operand_side, result_side};
use crate::diag::message;
use crate::diag::{Message, codes, count_text};
use crate::ir::{AxisLink, OpId, ParallelType, Program, quoted_head};
use crate::ops::result_types::result_types;
use crate::ops::tensor_checks::type_text;

/// The axes of a GEMM: operands, result, contracted axis.
struct GemmAxes {
    a: LinkSide,
    b: LinkSide,
    out: LinkSide,
}

impl GemmAxes {
    fn new(program: &Program, op: OpId) -> Result<Self, AxisMismatch> {
        let (a, b) = (operand_side(program, op, 0)?, operand_side(program, op, 1)?);
        Ok(Self { a, b, out: result_side(program, op)? })
    }
    fn has_split_axis(&self) -> bool {
        has_split_axis(&[&self.a, &self.b, &self.out])
    }
    /// Links the contracted axes with each other and with the result's trailing reduction.
    fn link_contracted(&self, k_of_a: u32, k_of_b: u32, links: &mut Vec<AxisLink>) {
        link_pairs(&self.a, &self.b, &[k_of_a], &[k_of_b], links);
        let last = self.out.axes.axes.len().wrapping_sub(1);
        if self.out.axes.axes.last().is_some_and(|axis| axis.is_reduction()) {
            link_pairs(&self.a, &self.out, &[k_of_a], &[last as u32], links);
            link_pairs(&self.b, &self.out, &[k_of_b], &[last as u32], links);
        }
    }
}

fn scalar_operand_mismatch(program: &Program, op: OpId, side: &LinkSide) -> AxisMismatch {
    let name = quoted_head(program.op(op).kind.name());
    let tensor = program.quoted_tensor(side.tensor);
    AxisMismatch {
        code: codes::RANK,
        message: message!("`{}` needs operands with at least one axis, but `{}` has none", name, tensor),
        note: matrix_note(&program.tensor_name(side.tensor)),
        tensor: Some(side.tensor),
    }
}

/// The slice with two axes, for one with an index for each axis: `G[i]` for `G[i, 0, 0]`.
fn matrix_note(name: &str) -> Message {
    let Some((whole, items)) = name.split_once('[') else { return Message::default() };
    let items: Vec<&str> = items.trim_end_matches(']').split(", ").collect();
    let matrix = match items.len().checked_sub(2) {
        None => return Message::default(),
        Some(0) => whole.to_owned(),
        Some(kept) => format!("{whole}[{}]", items[..kept].join(", ")),
    };
    message!("each index takes an axis away: the matrix is `{}`", matrix)
}

/// The result has another number of axes than the operands make.
fn gemm_rank_mismatch(program: &Program, op: OpId, gemm: &GemmAxes, need: usize) -> AxisMismatch {
    let [a, b, out] = [&gemm.a, &gemm.b, &gemm.out]
        .map(|side| message!("`{}` has {}", program.quoted_tensor(side.tensor), side.stored_positions().len()));
    let message = message!(
        "`{}` makes a result of {}, since {} and {}, but {}",
        quoted_head(program.op(op).kind.name()),
        count_text(need, "axis"),
        a,
        b,
        out
    );
    let found = gemm.out.stored_positions().len();
    let batch = [&gemm.b, &gemm.a].into_iter().filter(|side| side.stored_positions().len() > found.max(2));
    let note = batch.max_by_key(|side| side.stored_positions().len()).map(|side| batch_note(program, side));
    let (tensor, type_note) = (Some(gemm.out.tensor), result_type_note(program, op));
    let note = match (note, type_note) {
        (Some(batch), Some(result)) => message!("{}; or {}", batch, result),
        (batch, result) => batch.or(result).unwrap_or_default(),
    };
    AxisMismatch { code: codes::RANK, message, note, tensor }
}

/// The repair of an operand with an axis in front of its matrices.
fn batch_note(program: &Program, side: &LinkSide) -> Message {
    let name = program.quoted_tensor(side.tensor);
    let first = side.stored_positions().first().copied();
    let index = if device_of(side, first.as_ref()).is_some() { "own" } else { "0" };
    let part = Message::advice("a Select", format!("`{}[{index}]`", program.tensor_name(side.tensor)));
    message!("the first axis of `{}` is a list of matrices, and stays in the result: take one of them, {}", name, part)
}

/// The type of the result that the operands make.
fn result_type_note(program: &Program, op: OpId) -> Option<Message> {
    let ty = result_types(program, program.op(op))?.into_iter().next()?.without(|_, domain| domain.is_reduction());
    Some(message!("the result is `{}`", type_text(program, &ty)))
}

/// matmul: [.., M, K] x [.., K, N] -> [.., M, N, r(K)]; one-dimensional operands lose M or N.
pub(super) fn link_matmul(program: &Program, op: OpId, links: &mut Vec<AxisLink>) -> LinkResult {
    let gemm = GemmAxes::new(program, op)?;
    if gemm.has_split_axis() {
        return Ok(());
    }
    let (a, b, c) = (gemm.a.stored_positions(), gemm.b.stored_positions(), gemm.out.stored_positions());
    let (Some(&k_a), false) = (a.last(), b.is_empty()) else {
        let side = if a.is_empty() { &gemm.a } else { &gemm.b };
        return Err(scalar_operand_mismatch(program, op, side));
    };
    let (m, n) = (usize::from(a.len() > 1), usize::from(b.len() > 1));
    let batch_a = &a[..a.len() - 1 - m];
    let (batch_b, k_b) = if n == 1 { (&b[..b.len() - 2], b[b.len() - 2]) } else { (&b[..0], b[0]) };
    let need = batch_a.len().max(batch_b.len()) + m + n;
    if c.len() != need {
        return Err(gemm_rank_mismatch(program, op, &gemm, need));
    }
    gemm.link_contracted(k_a, k_b, links);
    if m == 1 {
        link_pairs(&gemm.a, &gemm.out, &a[a.len() - 2..a.len() - 1], &c[need - m - n..=need - m - n], links);
    }
    if n == 1 {
        link_pairs(&gemm.b, &gemm.out, &b[b.len() - 1..], &c[need - 1..], links);
    }
    let batch = &c[..need - m - n];
    link_pairs(&gemm.a, &gemm.out, batch_a, &batch[batch.len() - batch_a.len()..], links);
    link_pairs(&gemm.b, &gemm.out, batch_b, &batch[batch.len() - batch_b.len()..], links);
    Ok(())
}

/// matmul_add: as matmul, and each axis of the accumulator with the result's.
pub(super) fn link_matmul_add(program: &Program, op: OpId, links: &mut Vec<AxisLink>) -> LinkResult {
    link_matmul(program, op, links)?;
    let (added, out) = (operand_side(program, op, 2)?, result_side(program, op)?);
    if has_split_axis(&[&added, &out]) {
        return Ok(());
    }
    let (from, to) = (added.stored_positions(), out.stored_positions());
    if from.len() != to.len() {
        let (name, result) = (program.quoted_tensor(added.tensor), program.quoted_tensor(out.tensor));
        return Err(AxisMismatch {
            code: codes::RANK,
            message: message!(
                "the accumulator of `matmul_add` needs the {} stored axes of `{}`, but `{}` has {}",
                to.len(),
                result,
                name,
                from.len()
            ),
            note: "`linear` adds a vector to each row".into(),
            tensor: Some(added.tensor),
        });
    }
    link_pairs(&added, &out, &from, &to, links);
    Ok(())
}

/// linear: `[.., K] x [N, K] (+ [N]) -> [.., N, r(K)]`; a weight `[K]` gives `[..]`.
pub(super) fn link_linear(program: &Program, op: OpId, links: &mut Vec<AxisLink>) -> LinkResult {
    let gemm = GemmAxes::new(program, op)?;
    if gemm.has_split_axis() {
        return Ok(());
    }
    let (a, w, c) = (gemm.a.stored_positions(), gemm.b.stored_positions(), gemm.out.stored_positions());
    let (Some(&k_a), Some(&k_w)) = (a.last(), w.last()) else {
        let side = if a.is_empty() { &gemm.a } else { &gemm.b };
        return Err(scalar_operand_mismatch(program, op, side));
    };
    gemm.link_contracted(k_a, k_w, links);
    if w.len() > 2 {
        return link_device_axes(program, op, &gemm, links);
    }
    let n = usize::from(w.len() == 2);
    let need = a.len() - 1 + n;
    if c.len() != need {
        return Err(gemm_rank_mismatch(program, op, &gemm, need));
    }
    link_pairs(&gemm.a, &gemm.out, &a[..a.len() - 1], &c[..a.len() - 1], links);
    if n == 1 {
        link_pairs(&gemm.b, &gemm.out, &w[..1], &c[need - 1..], links);
    }
    link_bias(program, op, &gemm.out, &c[need - n..], links)
}

/// Links a weight with leading axes over devices, which nvFuser squeezes out: the result begins with them.
fn link_device_axes(program: &Program, op: OpId, gemm: &GemmAxes, links: &mut Vec<AxisLink>) -> LinkResult {
    let (w, c) = (gemm.b.stored_positions(), gemm.out.stored_positions());
    let leading = &w[..w.len() - 2];
    if leading.iter().any(|axis| device_of(&gemm.b, Some(axis)).is_none()) {
        return Ok(());
    }
    let moved = (0..leading.len()).find(|&at| device_of(&gemm.b, leading.get(at)) != device_of(&gemm.out, c.get(at)));
    if moved.is_some() {
        let (weight, result) = (program.quoted_tensor(gemm.b.tensor), program.quoted_tensor(gemm.out.tensor));
        return Err(AxisMismatch {
            code: codes::RANK,
            message: message!(
                "`{}` needs a result that begins with the axes over devices of its weight `{}`, but `{}` does not",
                quoted_head(program.op(op).kind.name()),
                weight,
                result
            ),
            note: "if they are parts of axes that a split spread over devices, say what the axes are: `logical=`"
                .into(),
            tensor: Some(gemm.out.tensor),
        });
    }
    link_pairs(&gemm.b, &gemm.out, leading, &c, links);
    Ok(())
}

/// The device type of an axis of which each device stores one index.
fn device_of(side: &LinkSide, axis: Option<&u32>) -> Option<ParallelType> {
    let axis = side.axes.axes.get(*axis? as usize)?;
    axis.is_device_index().then_some(axis.parallel)
}

/// The bias `[N]`: its only stored axis is the result's last.
fn link_bias(program: &Program, op: OpId, out: &LinkSide, n: &[u32], links: &mut Vec<AxisLink>) -> LinkResult {
    let Ok(bias) = operand_side(program, op, 2) else { return Ok(()) };
    let axes = bias.stored_positions();
    if bias.axes.split {
        return Ok(());
    }
    if axes.len() != n.len() {
        let name = program.quoted_tensor(bias.tensor);
        return Err(AxisMismatch {
            code: codes::RANK,
            message: message!("the bias of `linear` needs {} stored axes, but `{}` has {}", n.len(), name, axes.len()),
            note: Message::default(),
            tensor: Some(bias.tensor),
        });
    }
    link_pairs(&bias, out, &axes, n, links);
    Ok(())
}
