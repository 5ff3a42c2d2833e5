//! Axis links of ops that read or write where an index tensor says, with PyTorch's shapes.
//!
//! The axis that the index chooses from has no link: any element of the result may come from (or go to) any
//! place along it, so it has to lie on one device. What lies across devices along the other axes stays there.

use super::links::{Mismatch, Related, Side, axes, operand, pair, result, split};
use crate::diag::codes;
use crate::ir::{AttrKey, OpId, Program};
use crate::ops::AxisLink;

/// The mismatch for a tensor with another number of axes.
fn wrong_rank(program: &Program, op: OpId, side: &Side, need: String, note: &str) -> Mismatch {
    let name = program.op(op).kind.spec().name;
    let tensor = program.tensor_name(side.tensor);
    Mismatch {
        code: codes::RANK,
        message: format!("`{name}` needs {need}, but `{tensor}` has {}", axes(side.stored().len())),
        note: note.to_owned(),
        tensor: Some(side.tensor),
    }
}

/// The axis that a gather chooses from, if it is one of so many.
fn chosen(program: &Program, op: OpId, rank: usize) -> Option<usize> {
    let dim = program.op(op).expr(AttrKey::Dim).and_then(|dim| program.exprs().as_int(dim))?;
    usize::try_from(dim).ok().filter(|&dim| dim < rank)
}

/// Operand, index and result of a gather.
struct Gather {
    input: Side,
    index: Side,
    out: Side,
}

impl Gather {
    fn new(program: &Program, op: OpId) -> Result<Self, Mismatch> {
        let (input, index) = (operand(program, op, 0)?, operand(program, op, 1)?);
        Ok(Self { input, index, out: result(program, op)? })
    }
    fn split(&self) -> bool {
        split(&[&self.input, &self.index, &self.out])
    }
    /// These have as many axes as the operand.
    fn check(&self, program: &Program, op: OpId, sides: &[&Side]) -> Related {
        let rank = self.input.stored().len();
        let other = sides.iter().find(|side| side.stored().len() != rank);
        let Some(side) = other.filter(|_| !self.split()) else { return Ok(()) };
        let what = if side.tensor == self.index.tensor { "an index" } else { "a result" };
        let note = format!("`{}` has {}", program.tensor_name(self.input.tensor), axes(rank));
        Err(wrong_rank(program, op, side, format!("{what} of {}", axes(rank)), &note))
    }
}

/// indexSelect: the operand's axes, and the index's in the place of the chosen one.
pub fn select(program: &Program, op: OpId, links: &mut Vec<AxisLink>) -> Related {
    let gather = Gather::new(program, op)?;
    gather.check(program, op, &[&gather.out])?;
    let (a, x, b) = (gather.input.stored(), gather.index.stored(), gather.out.stored());
    if gather.split() {
        return Ok(());
    }
    if x.len() != 1 {
        let need = "an index of 1 axis".to_owned();
        return Err(wrong_rank(program, op, &gather.index, need, ""));
    }
    let Some(dim) = chosen(program, op, a.len()) else { return Ok(()) };
    for k in 0..a.len() {
        match k == dim {
            true => pair(&gather.index, &gather.out, &x, &b[k..=k], links),
            false => pair(&gather.input, &gather.out, &a[k..=k], &b[k..=k], links),
        }
    }
    Ok(())
}

/// takeAlongAxis: the index's axes, and the operand's but for the chosen one.
pub fn take_along(program: &Program, op: OpId, links: &mut Vec<AxisLink>) -> Related {
    linked(program, op, links, |_, _| true)
}

/// torchGather: the same, but the operand may be longer. Only axes that are known to be equal are linked, of
/// others the first elements are read.
pub fn gather(program: &Program, op: OpId, links: &mut Vec<AxisLink>) -> Related {
    linked(program, op, links, |from, to| {
        let device = |side: &(&Side, u32)| side.0.axes.axes[side.1 as usize].device();
        let extent = |side: &(&Side, u32)| side.0.axes.axes[side.1 as usize].extent;
        extent(&from) == extent(&to) || (device(&from).is_some() && device(&from) == device(&to))
    })
}

fn linked(
    program: &Program,
    op: OpId,
    links: &mut Vec<AxisLink>,
    equal: impl Fn((&Side, u32), (&Side, u32)) -> bool,
) -> Related {
    let gather = Gather::new(program, op)?;
    gather.check(program, op, &[&gather.index, &gather.out])?;
    let (a, x, b) = (gather.input.stored(), gather.index.stored(), gather.out.stored());
    let Some(dim) = chosen(program, op, a.len()).filter(|_| !gather.split()) else {
        return Ok(());
    };
    for k in 0..a.len() {
        let whole = k == dim || equal((&gather.input, a[k]), (&gather.out, b[k]));
        if whole {
            pair(&gather.index, &gather.out, &x[k..=k], &b[k..=k], links);
        }
        if whole && k != dim {
            pair(&gather.input, &gather.out, &a[k..=k], &b[k..=k], links);
        }
    }
    Ok(())
}

/// indexPutAccumulate: all axes but the first; the index has as many elements as the value has rows.
pub fn put(program: &Program, op: OpId, links: &mut Vec<AxisLink>) -> Related {
    let (base, index) = (operand(program, op, 0)?, operand(program, op, 1)?);
    let (value, out) = (operand(program, op, 2)?, result(program, op)?);
    if split(&[&base, &index, &value, &out]) {
        return Ok(());
    }
    let (a, x, v, b) = (base.stored(), index.stored(), value.stored(), out.stored());
    if a.is_empty() {
        return Err(wrong_rank(program, op, &base, "rows to add to".to_owned(), ""));
    }
    for (side, what) in [(&value, "a value"), (&out, "a result")] {
        if side.stored().len() != a.len() {
            let note = format!("`{}` has {}", program.tensor_name(base.tensor), axes(a.len()));
            let need = format!("{what} of {}", axes(a.len()));
            return Err(wrong_rank(program, op, side, need, &note));
        }
    }
    if !(1..=2).contains(&x.len()) {
        let note = "a second axis has the extent 1";
        return Err(wrong_rank(program, op, &index, "an index of 1 or 2 axes".to_owned(), note));
    }
    pair(&index, &value, &x[..1], &v[..1], links);
    pair(&base, &out, &a[1..], &b[1..], links);
    pair(&value, &out, &v[1..], &b[1..], links);
    Ok(())
}
