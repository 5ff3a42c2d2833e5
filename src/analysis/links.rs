//! Which axes of an op's operands and results correspond, op by op.
//!
//! Each function appends links (equal extents, equal indices) and says what cannot match. The op
//! table uses them twice: [`OpSpec::axes`](crate::ops::OpSpec::axes) takes the links, the verifier
//! also reports the [`Mismatch`]. Where an operand's printed domains come from splits nothing is
//! linked and nothing is wrong.
//!
//! nvFuser's broadcasts are explicit: operands of pointwise ops have equal ranks and pair position by
//! position; a broadcast axis beside another one is linked as such ([`AxisLink::broadcast`]).

use super::axes::{Axes, logical_axes};
use crate::diag::codes;
use crate::ir::order::first_free_number;
use crate::ir::{AttrKey, AttrValue, IterDomain, Op, OpId, Program, TensorId};
use crate::ops::{AxisLink, name_of};
use crate::print::{domain_text, mesh_text};
use smallvec::SmallVec;

/// Why an op's operands and results cannot match.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Mismatch {
    /// The verifier's code.
    pub code: &'static str,
    /// One sentence.
    pub message: String,
    /// How to repair it; may be empty.
    pub note: String,
    /// The tensor to point at.
    pub tensor: Option<TensorId>,
}

/// What a link function returns.
pub type Related = Result<(), Mismatch>;

/// Links axes and says what cannot match.
pub type Relate = fn(&Program, OpId, &mut Vec<AxisLink>) -> Related;

pub(super) type Positions = SmallVec<[u32; 8]>;

/// A tensor of an op with its axes.
pub(super) struct Side {
    pub(super) tensor: TensorId,
    pub(super) axes: Axes,
}

impl Side {
    fn new(program: &Program, tensor: TensorId) -> Self {
        Self { tensor, axes: logical_axes(program, tensor) }
    }
    pub(super) fn stored(&self) -> Positions {
        self.axes.stored()
    }
    pub(super) fn all(&self) -> Positions {
        self.axes.all()
    }
}

fn plural(count: usize, word: &str) -> String {
    if count == 1 { format!("1 {word}") } else { format!("{count} {word}s") }
}

/// `1 axis`, `3 axes`.
pub(super) fn axes(count: usize) -> String {
    if count == 1 { "1 axis".to_owned() } else { format!("{count} axes") }
}

fn missing(program: &Program, op: OpId, what: &str, needs: usize, has: usize) -> Mismatch {
    let name = name_of(program, op);
    Mismatch {
        code: codes::OPERANDS,
        message: format!("`{name}` needs {} but has {has}", plural(needs, what)),
        note: String::new(),
        tensor: None,
    }
}

pub(super) fn operand(program: &Program, op: OpId, index: usize) -> Result<Side, Mismatch> {
    let mut tensors = program.op(op).input_tensors();
    let has = program.op(op).input_tensors().count();
    let tensor = tensors.nth(index);
    tensor
        .map(|t| Side::new(program, t))
        .ok_or_else(|| missing(program, op, "tensor operand", index + 1, has))
}

pub(super) fn result(program: &Program, op: OpId) -> Result<Side, Mismatch> {
    let tensor = program.op(op).output_tensors().next();
    tensor.map(|t| Side::new(program, t)).ok_or_else(|| missing(program, op, "tensor result", 1, 0))
}

pub(super) fn both(program: &Program, op: OpId) -> Result<(Side, Side), Mismatch> {
    Ok((operand(program, op, 0)?, result(program, op)?))
}

/// Links two lists of axes position by position.
pub(super) fn pair(from: &Side, to: &Side, a: &[u32], b: &[u32], links: &mut Vec<AxisLink>) {
    for (&x, &y) in a.iter().zip(b) {
        let (p, c) = (from.axes.axes[x as usize], to.axes.axes[y as usize]);
        let broadcast = p.is_broadcast() != c.is_broadcast();
        links.push(AxisLink { from: (from.tensor, x), to: (to.tensor, y), broadcast });
    }
}

pub(super) fn split(sides: &[&Side]) -> bool {
    sides.iter().any(|side| side.axes.split)
}

pub(super) fn rank_mismatch(
    program: &Program,
    op: OpId,
    from: &Side,
    need: usize,
    found: usize,
    to: &Side,
) -> Mismatch {
    let name = name_of(program, op);
    Mismatch {
        code: codes::RANK,
        message: format!(
            "`{name}` of `{}` needs a result of {}, but `{}` has {found}",
            program.tensor_name(from.tensor),
            axes(need),
            program.tensor_name(to.tensor),
        ),
        note: String::new(),
        tensor: Some(from.tensor),
    }
}

/// Pairs lists that must be of equal length.
fn pair_all(
    program: &Program,
    op: OpId,
    (from, a): (&Side, &[u32]),
    (to, b): (&Side, &[u32]),
    links: &mut Vec<AxisLink>,
) -> Related {
    if split(&[from, to]) {
        return Ok(());
    }
    if a.len() != b.len() {
        return Err(rank_mismatch(program, op, from, a.len(), b.len(), to));
    }
    pair(from, to, a, b, links);
    Ok(())
}

/// Set, SegmenterSet, SymmetricContiguousView: the stored axes, position by position.
pub fn copy(program: &Program, op: OpId, links: &mut Vec<AxisLink>) -> Related {
    if program.op(op).input_tensors().next().is_none() {
        return Ok(());
    }
    let (from, to) = both(program, op)?;
    pair_all(program, op, (&from, &from.stored()), (&to, &to.stored()), links)
}

/// Set.Permute: axis k of the result is axis `perm[k]` of the operand.
pub fn permute(program: &Program, op: OpId, links: &mut Vec<AxisLink>) -> Related {
    let (from, to) = both(program, op)?;
    if split(&[&from, &to]) {
        return Ok(());
    }
    let a = from.stored();
    let b: Positions = to.stored();
    if a.len() != b.len() {
        return Err(rank_mismatch(program, op, &from, a.len(), b.len(), &to));
    }
    // Without numbers nothing says which axis is which.
    let Some(perm) = program.op(op).ints(AttrKey::Perm) else { return Ok(()) };
    let order: Option<Positions> = perm.iter().map(|&k| u32::try_from(k).ok()).collect();
    let order = order.filter(|order| order.len() == b.len() && is_permutation(order));
    let Some(order) = order else { return Err(bad_permutation(program, &to, b.len())) };
    let sources: Positions = order.iter().map(|&k| a[k as usize]).collect();
    pair(&from, &to, &sources, &b, links);
    Ok(())
}

fn is_permutation(order: &[u32]) -> bool {
    let mut seen = 0u64;
    for &k in order {
        if k as usize >= order.len().min(64) || seen >> k & 1 == 1 {
            return false;
        }
        seen |= 1 << k;
    }
    true
}

fn bad_permutation(program: &Program, to: &Side, rank: usize) -> Mismatch {
    let name = program.tensor_name(to.tensor);
    Mismatch {
        code: codes::PERMUTATION,
        message: format!("`perm=` of `{name}` is not an order of its {} axes", rank),
        note: format!("it lists each of 0 to {} once", rank.saturating_sub(1)),
        tensor: Some(to.tensor),
    }
}

/// Pointwise ops: every tensor operand's stored axes with the result's.
pub fn pointwise(program: &Program, op: OpId, links: &mut Vec<AxisLink>) -> Related {
    let operands: SmallVec<[TensorId; 4]> = program.op(op).input_tensors().collect();
    if operands.is_empty() {
        return Ok(());
    }
    let to = result(program, op)?;
    let axes = to.stored();
    for tensor in operands {
        let from = Side::new(program, tensor);
        let paired = pair_all(program, op, (&from, &from.stored()), (&to, &axes), links);
        paired.map_err(|mismatch| {
            let fewer = from.stored().len() < axes.len();
            let note =
                if fewer { broadcast_note(program, &from, axes.len()) } else { mismatch.note };
            Mismatch { note, ..mismatch }
        })?;
    }
    Ok(())
}

/// The `broadcast` that gives an operand the leading axes that it lacks.
fn broadcast_note(program: &Program, from: &Side, rank: usize) -> String {
    let number = first_free_number(program.tensors().iter().map(|(_, tensor)| tensor.number));
    let free = first_free_number(program.all_domains().map(|domain| domain.number));
    let missing = rank - from.stored().len();
    let stored = program.domains(from.tensor).iter().filter(|domain| !domain.is_reduction());
    let all = (0..missing).map(|_| None).chain(stored.map(Some));
    let axis = |(number, domain): (u32, Option<&IterDomain>)| match domain {
        None => format!("bS{number}{{1}}"),
        Some(domain) => domain_text(program, &IterDomain { number, ..*domain }),
    };
    let axes: Vec<String> = (free..).zip(all).map(axis).collect();
    let tensor = program.tensor(from.tensor);
    let (name, axes) = (program.tensor_name(from.tensor), axes.join(", "));
    let mesh = match tensor.mesh {
        Some(_) => format!(" ({})", mesh_text(program, tensor.mesh)),
        None => String::new(),
    };
    let flags: Vec<&str> = (0..rank).map(|k| if k < missing { "true" } else { "false" }).collect();
    format!(
        "axes are not added by themselves: write `T{number}_l_{}[{axes}]{mesh} = broadcast( {name}, flags = {{{}}} )` before it, and T{number} instead of {name}",
        tensor.dtype.name(),
        flags.join(", ")
    )
}

/// reduction: the operand's stored axes with all axes of the result, reduced ones included.
pub fn reduction(program: &Program, op: OpId, links: &mut Vec<AxisLink>) -> Related {
    let (from, to) = both(program, op)?;
    pair_all(program, op, (&from, &from.stored()), (&to, &to.all()), links)?;
    if split(&[&from, &to]) || to.axes.axes.iter().any(|axis| axis.is_reduction()) {
        return Ok(());
    }
    let name = program.tensor_name(to.tensor);
    Err(Mismatch {
        code: codes::NO_REDUCED_AXIS,
        message: format!("`{name}` is the result of a reduction but has no reduced axis"),
        note: "a reduced axis stays in the result as `r`, for example `rS1{i1}`".to_owned(),
        tensor: Some(to.tensor),
    })
}

fn flags(op: &Op) -> &[bool] {
    match op.attr(AttrKey::Flags) {
        Some(AttrValue::Bools(flags)) => flags,
        _ => &[],
    }
}

/// Pairs the axes without a flag of `flagged` with those of `plain`, forwards or backwards.
fn by_flags(
    program: &Program,
    op: OpId,
    flagged: &Side,
    axes: &[u32],
) -> Result<Positions, Mismatch> {
    let flags = flags(program.op(op));
    if flags.len() != axes.len() {
        let name = name_of(program, op);
        let tensor = program.tensor_name(flagged.tensor);
        return Err(Mismatch {
            code: codes::FLAGS,
            message: format!(
                "`{name}` has {}, but `{tensor}` has {}",
                plural(flags.len(), "flag"),
                self::axes(axes.len())
            ),
            note: "there is one flag an axis".to_owned(),
            tensor: Some(flagged.tensor),
        });
    }
    Ok(axes.iter().zip(flags).filter(|(_, flag)| !**flag).map(|(k, _)| *k).collect())
}

/// broadcast: the operand's axes are the result's without a flag.
pub fn broadcast(program: &Program, op: OpId, links: &mut Vec<AxisLink>) -> Related {
    let (from, to) = both(program, op)?;
    if split(&[&from, &to]) {
        return Ok(());
    }
    let kept = by_flags(program, op, &to, &to.stored())?;
    pair_all(program, op, (&from, &from.stored()), (&to, &kept), links)
}

/// squeeze: the result's axes are the operand's without a flag.
pub fn squeeze(program: &Program, op: OpId, links: &mut Vec<AxisLink>) -> Related {
    let (from, to) = both(program, op)?;
    if split(&[&from, &to]) {
        return Ok(());
    }
    let kept = by_flags(program, op, &from, &from.stored())?;
    pair_all(program, op, (&from, &kept), (&to, &to.stored()), links)
}

/// expand: position by position; an expanded broadcast stays a broadcast.
pub fn expand(program: &Program, op: OpId, links: &mut Vec<AxisLink>) -> Related {
    copy(program, op, links)
}

/// repeat: the axes whose extent stays.
pub fn repeat(program: &Program, op: OpId, links: &mut Vec<AxisLink>) -> Related {
    let (from, to) = both(program, op)?;
    let (a, b) = (from.stored(), to.stored());
    if split(&[&from, &to]) {
        return Ok(());
    }
    if a.len() != b.len() {
        return Err(rank_mismatch(program, op, &from, a.len(), b.len(), &to));
    }
    keep(&from, &to, &a, &b, links, |k| same_extent(&from, &to, a[k], b[k]));
    Ok(())
}

/// Pairs the positions that `kept` says stay whole.
fn keep(
    from: &Side,
    to: &Side,
    a: &[u32],
    b: &[u32],
    links: &mut Vec<AxisLink>,
    kept: impl Fn(usize) -> bool,
) {
    for k in (0..a.len().min(b.len())).filter(|&k| kept(k)) {
        pair(from, to, &a[k..=k], &b[k..=k], links);
    }
}

fn same_extent(from: &Side, to: &Side, a: u32, b: u32) -> bool {
    from.axes.axes[a as usize].extent == to.axes.axes[b as usize].extent
}

/// view: leading and trailing axes of equal extents.
pub fn view(program: &Program, op: OpId, links: &mut Vec<AxisLink>) -> Related {
    let (from, to) = both(program, op)?;
    if split(&[&from, &to]) {
        return Ok(());
    }
    let (a, b) = (from.stored(), to.stored());
    let shorter = a.len().min(b.len());
    let lead = (0..shorter).take_while(|&k| same_extent(&from, &to, a[k], b[k])).count();
    pair(&from, &to, &a[..lead], &b[..lead], links);
    let (a, b) = (&a[lead..], &b[lead..]);
    let trail =
        a.iter().rev().zip(b.iter().rev()).take_while(|(x, y)| same_extent(&from, &to, **x, **y));
    let trail = trail.count();
    pair(&from, &to, &a[a.len() - trail..], &b[b.len() - trail..], links);
    Ok(())
}

/// slice: the axes taken whole (`{0, extent, 1}`).
pub fn slice(program: &Program, op: OpId, links: &mut Vec<AxisLink>) -> Related {
    let (from, to) = both(program, op)?;
    if split(&[&from, &to]) {
        return Ok(());
    }
    let (a, b) = (from.stored(), to.stored());
    if a.len() != b.len() {
        return Err(rank_mismatch(program, op, &from, a.len(), b.len(), &to));
    }
    let Some(AttrValue::Ranges(ranges)) = program.op(op).attr(AttrKey::Ranges) else {
        return Ok(());
    };
    if ranges.len() != a.len() {
        let name = program.tensor_name(from.tensor);
        return Err(Mismatch {
            code: codes::RANGES,
            message: format!(
                "`slice` has {}, but `{name}` has {} axes",
                plural(ranges.len(), "range"),
                a.len()
            ),
            note: "there is one range `{start, stop, step}` an axis".to_owned(),
            tensor: Some(from.tensor),
        });
    }
    let exprs = program.exprs();
    keep(&from, &to, &a, &b, links, |k| {
        let [start, stop, step] = ranges[k];
        exprs.as_int(start) == Some(0)
            && exprs.as_int(step) == Some(1)
            && stop == from.axes.axes[a[k] as usize].extent
    });
    Ok(())
}

/// pad: the axes that get no elements.
pub fn pad(program: &Program, op: OpId, links: &mut Vec<AxisLink>) -> Related {
    let (from, to) = both(program, op)?;
    if split(&[&from, &to]) {
        return Ok(());
    }
    let (a, b) = (from.stored(), to.stored());
    if a.len() != b.len() {
        return Err(rank_mismatch(program, op, &from, a.len(), b.len(), &to));
    }
    let Some(AttrValue::Exprs(widths)) = program.op(op).attr(AttrKey::Widths) else {
        return Ok(());
    };
    let zero = |k: usize| widths.get(k).is_some_and(|&w| program.exprs().as_int(w) == Some(0));
    keep(&from, &to, &a, &b, links, |k| zero(2 * k) && zero(2 * k + 1));
    Ok(())
}

/// cat: every axis but the one along which the operands are joined.
pub fn cat(program: &Program, op: OpId, links: &mut Vec<AxisLink>) -> Related {
    let to = result(program, op)?;
    let b = to.stored();
    let dim = program.op(op).expr(AttrKey::Dim).and_then(|dim| program.exprs().as_int(dim));
    let operands: SmallVec<[TensorId; 4]> = program.op(op).input_tensors().collect();
    for tensor in operands {
        let from = Side::new(program, tensor);
        let a = from.stored();
        if split(&[&from, &to]) {
            continue;
        }
        if a.len() != b.len() {
            return Err(rank_mismatch(program, op, &from, a.len(), b.len(), &to));
        }
        keep(&from, &to, &a, &b, links, |k| dim.is_some_and(|dim| dim != k as i64));
    }
    Ok(())
}

/// HirAliasSelect and select: the axis goes away, the others keep their order. The result may keep
/// the operand's reduced axes or drop them.
pub fn select(program: &Program, op: OpId, links: &mut Vec<AxisLink>) -> Related {
    let (from, to) = both(program, op)?;
    let printed = selected_axis(program, op, &from)?;
    if split(&[&from, &to]) {
        return Ok(());
    }
    // With `logical=` the printed axis may be a part of one, or of none.
    let Some(axis) = printed.and_then(|printed| from.axes.of_printed(printed)) else {
        return Ok(());
    };
    let rest = |axes: Positions| -> Positions { axes.into_iter().filter(|&k| k != axis).collect() };
    let (all, stored) = (rest(from.all()), rest(from.stored()));
    if all.len() == to.all().len() {
        pair(&from, &to, &all, &to.all(), links);
        return Ok(());
    }
    pair_all(program, op, (&from, &stored), (&to, &to.stored()), links)
}

/// The printed position of the selected axis; `None` where it cannot be told.
fn selected_axis(program: &Program, op: OpId, from: &Side) -> Result<Option<u32>, Mismatch> {
    let tensor = program.tensor(from.tensor);
    let name = program.tensor_name(from.tensor);
    let fail = |message: String| Mismatch {
        code: codes::SELECT_AXIS,
        message,
        note: format!("the axis is one of the domains of `{name}`, or a position among its axes"),
        tensor: Some(from.tensor),
    };
    let Some(domain) = program.op(op).domain(AttrKey::Axis) else {
        return Err(fail(format!("the selected axis is not an axis of `{name}`")));
    };
    if (tensor.domains_start..tensor.domains_end).contains(&domain.0) {
        return Ok(Some(domain.0 - tensor.domains_start));
    }
    if tensor.logical.is_some() || from.axes.split {
        return Ok(None);
    }
    let axis = crate::print::domain_text(program, program.domain(domain));
    Err(fail(format!("the selected axis `{axis}` is not an axis of `{name}`")))
}

/// ShardByStream: position by position; the result keeps the extent of the stream axis.
pub fn shard_by_stream(program: &Program, op: OpId, links: &mut Vec<AxisLink>) -> Related {
    copy(program, op, links)
}

/// PostOnStream: operand k with the unit's input k, result k with the unit's output k.
pub fn post(program: &Program, op: OpId, links: &mut Vec<AxisLink>) -> Related {
    let Some(unit) = program.posted_unit(program.op(op)) else { return Ok(()) };
    let unit = &program.units()[unit];
    let inputs = unit.inputs.iter().filter_map(|value| value.tensor());
    let outputs = unit.outputs.iter().filter_map(|value| value.tensor());
    let pairs = program
        .op(op)
        .input_tensors()
        .zip(inputs)
        .chain(program.op(op).output_tensors().zip(outputs));
    for (host, inner) in pairs {
        let (from, to) = (Side::new(program, host), Side::new(program, inner));
        if split(&[&from, &to]) {
            continue;
        }
        if from.stored().len() != to.stored().len() {
            return Err(Mismatch {
                code: codes::UNIT_TENSOR,
                message: format!(
                    "`{}` has {} axes, but HostUnit{} calls it `{}` with {}",
                    program.tensor_name(host),
                    from.stored().len(),
                    unit.number,
                    program.tensor_name(inner),
                    to.stored().len()
                ),
                note: String::new(),
                tensor: Some(inner),
            });
        }
        pair(&from, &to, &from.stored(), &to.stored(), links);
    }
    Ok(())
}

/// No axis of an operand is an axis of a result.
pub fn none(_: &Program, _: OpId, _: &mut Vec<AxisLink>) -> Related {
    Ok(())
}
