//! What a thread of a reduction reads: its elements of a result, several loads under way at a time.

use crate::codegen::index_space::{Ints, Operand, Space, element, pack, place};
use crate::codegen::reduce::Reduction;
use crate::codegen::source_writer::Writer;
use crate::codegen::types::ClassSource as _;
use crate::unsupported::Unsupported;

/// Along which axes one access has several elements.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Along {
    /// Elements of one result.
    Reduced,
    /// One element of each of several results.
    Kept,
}

/// The loads of a thread.
pub(super) struct Reads<'a, 'b> {
    pub(super) reduction: &'a Reduction<'b>,
    pub(super) ints: Ints,
    pub(super) along: Along,
    /// Elements an access.
    pub(super) width: usize,
    /// Accesses of an operand that are under way.
    pub(super) unroll: usize,
    /// Between a thread's accesses.
    pub(super) step: usize,
}

impl Reads<'_, '_> {
    fn space(&self) -> &Space {
        match self.along {
            Along::Reduced => &self.reduction.reduced,
            Along::Kept => &self.reduction.kept,
        }
    }
    /// Elements an access along the kept and along the reduced axes.
    fn widths(&self) -> [usize; 2] {
        match self.along {
            Along::Reduced => [1, self.width],
            Along::Kept => [self.width, 1],
        }
    }
    fn operands(&self) -> impl Iterator<Item = (usize, &Operand)> {
        self.reduction.kept.operands[..self.reduction.result()].iter().enumerate()
    }
    fn in_memory(&self) -> impl Iterator<Item = (usize, &Operand)> {
        self.operands().filter(|(_, operand)| operand.param().is_some())
    }
    fn width_of(&self, operand: usize) -> usize {
        if self.space().is_row(operand) { self.width } else { 1 }
    }

    /// Writes `acc[..] = neutral`.
    pub(super) fn begin(&self, w: &mut Writer) {
        let join = &self.reduction.join;
        w.line(format!("{} acc[{}];", join.class.ctype(), self.width));
        w.unrolled("v", self.width);
        w.line(format!("acc[v] = {};", join.neutral()));
        w.close();
    }
    /// First and last access of part number `part` (a text) of a range of accesses: names or literals.
    pub(super) fn range(&self, w: &mut Writer, part: &str, count: usize) -> [String; 2] {
        let (ints, parts) = (self.ints, self.reduction.parts);
        let all = ints.literal(count);
        if parts == 1 {
            return [ints.literal(0), all];
        }
        let (index, chunk) = (ints.ctype(), ints.literal(count.div_ceil(parts)));
        w.line(format!("const {index} start = {part} * {chunk};"));
        w.line(format!("const {index} end = start + {chunk} < {all} ? start + {chunk} : {all};"));
        ["start".to_owned(), "end".to_owned()]
    }
    /// Writes the loop over a thread's accesses, from `start` to `end`, that adds them to `acc`.
    pub(super) fn run(
        &self,
        w: &mut Writer,
        kept: &[String],
        [start, end]: [&str; 2],
    ) -> Result<(), Unsupported> {
        let (index, step) = (self.ints.ctype(), self.ints.literal(self.step * self.unroll));
        w.open(format!("for ({index} j = {start}; j < {end}; j += {step})"));
        for (k, operand) in self.in_memory() {
            let access = pack(operand.ctype, operand.size, self.width_of(k));
            w.line(format!("{access} x{k}[{}];", self.unroll));
        }
        self.load(w, kept, end);
        self.add(w, kept, end)?;
        w.close();
        Ok(())
    }

    /// Opens the loop over the accesses under way; returns the names of the reduced indices.
    fn open(&self, w: &mut Writer, end: &str) -> Vec<String> {
        let ints = self.ints;
        w.unrolled("u", self.unroll);
        w.line(format!("const {} i = j + u * {};", ints.ctype(), ints.literal(self.step)));
        w.open(format!("if (i < {end})"));
        let mut extents = self.reduction.reduced.extents.clone();
        if let Some(last) = extents.last_mut() {
            *last /= self.widths()[1];
        }
        ints.split(w, "i", &extents, "b")
    }
    /// The offset of an operand at the kept and reduced indices.
    fn offset(&self, operand: usize, kept: &[String], reduced: &[String]) -> String {
        let (ints, [along_kept, along_reduced]) = (self.ints, self.widths());
        let strides = |space: &Space| space.operands[operand].strides.clone();
        let outer = ints.offset(kept, &strides(&self.reduction.kept), along_kept);
        let inner = ints.offset(reduced, &strides(&self.reduction.reduced), along_reduced);
        format!("{outer} + {inner}")
    }
    fn load(&self, w: &mut Writer, kept: &[String], end: &str) {
        let reduced = self.open(w, end);
        for (k, operand) in self.in_memory() {
            let offset = self.offset(k, kept, &reduced);
            let pointer = self.reduction.kept.pointer(k);
            let from = place(operand, &pointer, &offset, self.width_of(k), true);
            w.line(format!("x{k}[u] = {from};"));
        }
        w.close_all(2);
    }
    fn add(&self, w: &mut Writer, kept: &[String], end: &str) -> Result<(), Unsupported> {
        let reduced = self.open(w, end);
        w.unrolled("v", self.width);
        let mut elements = Vec::new();
        for (k, operand) in self.operands() {
            elements.push(match operand.param() {
                Some(_) => element(&format!("x{k}[u]"), self.width_of(k), "v"),
                None => {
                    let rest = if self.width_of(k) > 1 { " + v" } else { "" };
                    format!("(long long)({}{rest})", self.offset(k, kept, &reduced))
                }
            });
        }
        let value = (self.reduction.element)(w, &elements)?;
        w.line(format!("acc[v] = join(acc[v], {});", value.text));
        w.close_all(3);
        Ok(())
    }
}
