//! The reads of a thread of a reduction: its elements of a result, with several loads in flight.

use crate::codegen::index_space::{
    IndexInt, IndexSpace, KernelOperand, access_expression, vector_ctype, vector_element,
};
use crate::codegen::reduce::kernel::ReductionKernel;
use crate::codegen::source_writer::SourceWriter;
use crate::codegen::types::ClassSource as _;
use crate::unsupported::Unsupported;

/// The axes along which one access has several elements.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum AccessDirection {
    /// Elements of one result.
    Reduced,
    /// One element of each of several results.
    Kept,
}

/// The loads of a thread.
pub(super) struct ThreadReads<'a, 'b> {
    pub(super) reduction: &'a ReductionKernel<'b>,
    pub(super) ints: IndexInt,
    pub(super) along: AccessDirection,
    /// Elements an access.
    pub(super) width: usize,
    /// Accesses of an operand that are in flight.
    pub(super) unroll: usize,
    /// Between a thread's accesses.
    pub(super) step: usize,
}

impl ThreadReads<'_, '_> {
    fn read_space(&self) -> &IndexSpace {
        match self.along {
            AccessDirection::Reduced => &self.reduction.reduced,
            AccessDirection::Kept => &self.reduction.kept,
        }
    }
    /// Elements of an access along the kept and along the reduced axes.
    fn access_widths(&self) -> [usize; 2] {
        match self.along {
            AccessDirection::Reduced => [1, self.width],
            AccessDirection::Kept => [self.width, 1],
        }
    }
    fn read_operands(&self) -> impl Iterator<Item = (usize, &KernelOperand)> {
        self.reduction.kept.operands[..self.reduction.result_index()].iter().enumerate()
    }
    fn in_memory(&self) -> impl Iterator<Item = (usize, &KernelOperand)> {
        self.read_operands().filter(|(_, operand)| operand.kernel_param().is_some())
    }
    fn width_of(&self, operand: usize) -> usize {
        if self.read_space().is_row(operand) { self.width } else { 1 }
    }

    /// Writes `acc[..] = neutral`.
    pub(super) fn write_initialization(&self, w: &mut SourceWriter) {
        let join = &self.reduction.join;
        w.line(format!("{} acc[{}];", join.class.ctype(), self.width));
        w.open_unrolled_loop("v", self.width);
        w.line(format!("acc[v] = {};", join.neutral_element()));
        w.close_block();
    }
    /// First and last access of part number `part` (a text) of a range of accesses: names or literals.
    pub(super) fn access_range(&self, w: &mut SourceWriter, part: &str, count: usize) -> [String; 2] {
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
    pub(super) fn write_loop(
        &self,
        w: &mut SourceWriter,
        kept: &[String],
        [start, end]: [&str; 2],
    ) -> Result<(), Unsupported> {
        let (index, step) = (self.ints.ctype(), self.ints.literal(self.step * self.unroll));
        w.open_block(format!("for ({index} j = {start}; j < {end}; j += {step})"));
        for (k, operand) in self.in_memory() {
            let access = vector_ctype(operand.ctype, operand.size, self.width_of(k));
            w.line(format!("{access} x{k}[{}];", self.unroll));
        }
        self.write_loads(w, kept, end);
        self.write_accumulation(w, kept, end)?;
        w.close_block();
        Ok(())
    }

    /// Opens the loop over the accesses in flight; returns the names of the reduced indices.
    fn open_loop(&self, w: &mut SourceWriter, end: &str) -> Vec<String> {
        let ints = self.ints;
        w.open_unrolled_loop("u", self.unroll);
        w.line(format!("const {} i = j + u * {};", ints.ctype(), ints.literal(self.step)));
        w.open_block(format!("if (i < {end})"));
        let mut extents = self.reduction.reduced.extents.clone();
        if let Some(last) = extents.last_mut() {
            *last /= self.access_widths()[1];
        }
        ints.split_index(w, "i", &extents, "b")
    }
    /// The offset of an operand at the kept and reduced indices.
    fn operand_offset(&self, operand: usize, kept: &[String], reduced: &[String]) -> String {
        let (ints, [along_kept, along_reduced]) = (self.ints, self.access_widths());
        let [outer, inner] =
            [&self.reduction.kept, &self.reduction.reduced].map(|space| &space.operands[operand].strides);
        let outer = ints.linear_offset(kept, outer, along_kept);
        let inner = ints.linear_offset(reduced, inner, along_reduced);
        format!("{outer} + {inner}")
    }
    fn write_loads(&self, w: &mut SourceWriter, kept: &[String], end: &str) {
        let reduced = self.open_loop(w, end);
        for (k, operand) in self.in_memory() {
            let offset = self.operand_offset(k, kept, &reduced);
            let pointer = self.reduction.kept.pointer_name(k);
            let from = access_expression(operand, &pointer, &offset, self.width_of(k), true);
            w.line(format!("x{k}[u] = {from};"));
        }
        w.close_all_blocks(2);
    }
    fn write_accumulation(&self, w: &mut SourceWriter, kept: &[String], end: &str) -> Result<(), Unsupported> {
        let reduced = self.open_loop(w, end);
        w.open_unrolled_loop("v", self.width);
        let mut elements = Vec::new();
        for (k, operand) in self.read_operands() {
            elements.push(match operand.kernel_param() {
                Some(_) => vector_element(&format!("x{k}[u]"), self.width_of(k), "v"),
                None => {
                    let rest = if self.width_of(k) > 1 { " + v" } else { "" };
                    format!("(long long)({}{rest})", self.operand_offset(k, kept, &reduced))
                }
            });
        }
        let value = (self.reduction.element)(w, &elements)?;
        w.line(format!("acc[v] = join(acc[v], {});", value.text));
        w.close_all_blocks(3);
        Ok(())
    }
}
