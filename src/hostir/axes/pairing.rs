//! Pairing of the axes of an op's operands and results.
//!
//! An op's link function ([`LinkFn`]) appends links (equal extents, equal indices) and reports axes that cannot match.
//! The op table uses it twice: `OpSpec::axes` takes the links, `OpSpec::verify` also reports the [`AxisMismatch`]. It
//! links and reports nothing if an operand's printed domains come from splits.
//!
//! nvFuser's broadcasts are explicit: operands of pointwise ops have equal ranks and pair position by
//! position; a broadcast axis beside another one is linked as such ([`AxisLink::broadcast`]).

use super::{LogicalAxes, logical_axes};
use crate::diag::message;
use crate::diag::{Message, codes, count_text};
use crate::ir::{AxisLink, OpId, Program, TensorId, quoted_op, short_expr_text};
use smallvec::SmallVec;

/// The reason why an op's operands and results cannot match.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AxisMismatch {
    /// The verifier's code.
    pub code: &'static str,
    /// One sentence.
    pub message: Message,
    /// The repair hint shown as a note; may be empty.
    pub note: Message,
    /// The tensor to point at.
    pub tensor: Option<TensorId>,
}

/// The result of a link function.
pub type LinkResult = Result<(), AxisMismatch>;

/// Links axes, or reports axes that cannot match.
pub type LinkFn = fn(&Program, OpId, &mut Vec<AxisLink>) -> LinkResult;

/// Positions among the logical axes of a tensor.
pub type AxisPositions = SmallVec<[u32; 8]>;

/// A tensor of an op with its axes.
pub struct LinkSide {
    /// The tensor.
    pub tensor: TensorId,
    /// Its logical axes.
    pub axes: LogicalAxes,
}

impl LinkSide {
    /// A tensor with its axes.
    pub fn new(program: &Program, tensor: TensorId) -> Self {
        Self { tensor, axes: logical_axes(program, tensor) }
    }
    /// The axes that are stored, outermost first.
    pub fn stored_positions(&self) -> AxisPositions {
        self.axes.stored_positions()
    }
    /// All axes, reductions included.
    pub fn all_positions(&self) -> AxisPositions {
        self.axes.all_positions()
    }
}

pub(crate) fn too_few_tensors(program: &Program, op: OpId, what: &str, needs: usize, has: usize) -> AxisMismatch {
    let name = quoted_op(program, op);
    AxisMismatch {
        code: codes::OPERANDS,
        message: message!("`{}` needs {} but has {}", name, count_text(needs, what), has),
        note: Message::default(),
        tensor: None,
    }
}

/// The tensor operand number `index`.
///
/// # Errors
/// If the op has fewer.
pub fn operand_side(program: &Program, op: OpId, index: usize) -> Result<LinkSide, AxisMismatch> {
    let mut tensors = program.op(op).input_tensors();
    let has = program.op(op).input_tensors().count();
    let tensor = tensors.nth(index);
    tensor
        .map(|t| LinkSide::new(program, t))
        .ok_or_else(|| too_few_tensors(program, op, "tensor operand", index + 1, has))
}

/// The first result.
///
/// # Errors
/// If the op has none.
pub fn result_side(program: &Program, op: OpId) -> Result<LinkSide, AxisMismatch> {
    let tensor = program.op(op).output_tensors().next();
    tensor.map(|t| LinkSide::new(program, t)).ok_or_else(|| too_few_tensors(program, op, "tensor result", 1, 0))
}

/// The first operand and the first result.
///
/// # Errors
/// If the op lacks one of them.
pub fn both_sides(program: &Program, op: OpId) -> Result<(LinkSide, LinkSide), AxisMismatch> {
    Ok((operand_side(program, op, 0)?, result_side(program, op)?))
}

/// Links two lists of axes position by position.
pub fn link_pairs(from: &LinkSide, to: &LinkSide, a: &[u32], b: &[u32], links: &mut Vec<AxisLink>) {
    for (&x, &y) in a.iter().zip(b) {
        let (p, c) = (from.axes.axes[x as usize], to.axes.axes[y as usize]);
        let broadcast = p.is_broadcast() != c.is_broadcast();
        links.push(AxisLink { from: (from.tensor, x), to: (to.tensor, y), broadcast });
    }
}

/// Returns true if splits hide the axes of one of these tensors.
pub fn has_split_axis(sides: &[&LinkSide]) -> bool {
    sides.iter().any(|side| side.axes.split)
}

pub(crate) fn rank_mismatch(
    program: &Program,
    op: OpId,
    from: &LinkSide,
    need: usize,
    found: usize,
    to: &LinkSide,
) -> AxisMismatch {
    let name = quoted_op(program, op);
    AxisMismatch {
        code: codes::RANK,
        message: message!(
            "`{}` of `{}` needs a result of {}, but `{}` has {}",
            name,
            program.quoted_tensor(from.tensor),
            count_text(need, "axis"),
            program.quoted_tensor(to.tensor),
            found
        ),
        note: slice_note(program, [from.tensor, to.tensor], [need, found])
            .or_else(|| missing_index_note(program, from.tensor, [need, found]))
            .unwrap_or_default(),
        tensor: Some(from.tensor),
    }
}

/// The repair if the result is a slice, `B[i]`, which has as many axes as the slice of the operand that has the same
/// indices.
fn slice_note(program: &Program, [from, to]: [TensorId; 2], [need, found]: [usize; 2]) -> Option<Message> {
    let (from, to) = (program.tensor_name(from), program.tensor_name(to));
    let (_, items) = to.split_once('[')?;
    let items = items.strip_suffix(']').filter(|items| !from.contains('[') && !items.contains('['))?;
    let taken = items.split(", ").filter(|item| *item != ":").count();
    (need == found + taken).then(|| message!("`{}[{}]` has {}", from, items, count_text(found, "axis")))
}

/// The repair if the operand is a slice that has one axis too many: an index is missing.
fn missing_index_note(program: &Program, from: TensorId, [need, found]: [usize; 2]) -> Option<Message> {
    let name = program.tensor_name(from);
    let items = name.strip_suffix(']').filter(|_| need == found + 1 && program.is_hir2() && name.contains('['))?;
    let axes: Vec<String> = stored_extents(program, from);
    Some(message!(
        "`{}` is [{}]: with one index more, as in `{}, rank]`, it has {}",
        name.clone(),
        axes.join(", "),
        items,
        count_text(found, "axis")
    ))
}

/// The extents of a tensor's stored axes, as `hir 2` writes them.
fn stored_extents(program: &Program, tensor: TensorId) -> Vec<String> {
    let side = LinkSide::new(program, tensor);
    let stored = side.stored_positions();
    stored.iter().map(|&at| short_expr_text(program, side.axes.axes[at as usize].extent)).collect()
}

/// The stored axes of two sides, which must have equal numbers; `None` if splits hide the axes of either.
///
/// # Errors
/// Sides of different ranks.
pub fn equal_rank_positions(
    program: &Program,
    op: OpId,
    from: &LinkSide,
    to: &LinkSide,
) -> Result<Option<(AxisPositions, AxisPositions)>, AxisMismatch> {
    if has_split_axis(&[from, to]) {
        return Ok(None);
    }
    let (a, b) = (from.stored_positions(), to.stored_positions());
    if a.len() != b.len() {
        return Err(rank_mismatch(program, op, from, a.len(), b.len(), to));
    }
    Ok(Some((a, b)))
}

/// Axes of one side of an op, in the order in which they pair up.
#[derive(Clone, Copy)]
pub struct ChosenAxes<'a> {
    /// The side of the op.
    pub side: &'a LinkSide,
    /// Positions among the side's axes.
    pub axes: &'a [u32],
}

/// Pairs two lists that must have equal lengths.
///
/// # Errors
/// If they have not.
pub fn link_equal_lists(
    program: &Program,
    op: OpId,
    from: ChosenAxes<'_>,
    to: ChosenAxes<'_>,
    links: &mut Vec<AxisLink>,
) -> LinkResult {
    let (ChosenAxes { side: from, axes: a }, ChosenAxes { side: to, axes: b }) = (from, to);
    if has_split_axis(&[from, to]) {
        return Ok(());
    }
    if a.len() != b.len() {
        return Err(rank_mismatch(program, op, from, a.len(), b.len(), to));
    }
    link_pairs(from, to, a, b, links);
    Ok(())
}

/// Set, SegmenterSet, SymmetricContiguousView: the stored axes, position by position.
///
/// # Errors
/// If an operand or the result is missing, or their ranks differ.
pub fn link_copy(program: &Program, op: OpId, links: &mut Vec<AxisLink>) -> LinkResult {
    if program.op(op).input_tensors().next().is_none() {
        return Ok(());
    }
    let (from, to) = both_sides(program, op)?;
    link_equal_lists(
        program,
        op,
        ChosenAxes { side: &from, axes: &from.stored_positions() },
        ChosenAxes { side: &to, axes: &to.stored_positions() },
        links,
    )
}

/// Pairs the positions that are marked in `kept`.
pub fn link_kept_positions(
    from: &LinkSide,
    to: &LinkSide,
    a: &[u32],
    b: &[u32],
    links: &mut Vec<AxisLink>,
    kept: impl Fn(usize) -> bool,
) {
    for k in (0..a.len().min(b.len())).filter(|&k| kept(k)) {
        link_pairs(from, to, &a[k..=k], &b[k..=k], links);
    }
}

/// Returns true if an axis of one side has the extent of an axis of the other.
pub fn has_same_extent(from: &LinkSide, to: &LinkSide, a: u32, b: u32) -> bool {
    from.axes.axes[a as usize].extent == to.axes.axes[b as usize].extent
}
