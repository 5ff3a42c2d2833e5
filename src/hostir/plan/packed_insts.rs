//! Lists of instructions in little memory: each is the number of its template, and the numbers that the template leaves
//! open. An event or a wait takes 12 bytes, a copy 28.

use super::inst_fields::InstNumbers;
use super::inst_template::{SplitInst, TemplateTable};
use std::ops::Range;

/// An instruction of a list.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct PackedInst {
    /// The number of its template.
    pub(super) template: u32,
    /// Its iteration.
    iteration: u32,
    /// Its only number besides the iteration, or the place of the first of several in the list's numbers.
    number: u32,
}

/// A list of instructions.
#[derive(Clone, Default, Debug)]
pub(super) struct PackedInsts {
    insts: Vec<PackedInst>,
    /// The numbers of the instructions that have several.
    numbers: Vec<u32>,
}

impl PackedInsts {
    /// The number of instructions.
    pub(super) fn len(&self) -> usize {
        self.insts.len()
    }
    /// Whether there is none.
    pub(super) fn is_empty(&self) -> bool {
        self.insts.is_empty()
    }
    /// The instructions.
    pub(super) fn packed_insts(&self) -> &[PackedInst] {
        &self.insts
    }
    /// The bytes of the list.
    pub(super) fn byte_count(&self) -> usize {
        size_of_val(self.insts.as_slice()) + size_of_val(self.numbers.as_slice())
    }
    /// Makes room for one more instruction; returns false if memory or places are short.
    pub(super) fn reserve_one(&mut self) -> bool {
        /// More numbers than an instruction has, except for very long ones.
        const NUMBERS: usize = 16;
        let has_places = u32::try_from(self.numbers.len()).is_ok();
        has_places && self.insts.try_reserve(1).is_ok() && self.numbers.try_reserve(NUMBERS).is_ok()
    }
    /// Appends an instruction.
    pub(super) fn push(&mut self, split: &SplitInst) {
        self.push_numbers(split.template, InstNumbers { iteration: split.iteration, others: &split.numbers });
    }
    /// Appends an instruction of a template.
    pub(super) fn push_numbers(&mut self, template: u32, numbers: InstNumbers<'_>) {
        let number = match numbers.others {
            [] => 0,
            [only] => *only,
            several => {
                self.numbers.extend_from_slice(several);
                (self.numbers.len() - several.len()) as u32
            }
        };
        self.insts.push(PackedInst { template, iteration: numbers.iteration, number });
    }
    /// The numbers of an instruction.
    pub(super) fn numbers<'p>(&'p self, at: usize, templates: &TemplateTable) -> InstNumbers<'p> {
        let inst = &self.insts[at];
        let others = match templates.inst_template(inst.template).numbers as usize {
            0 => &[],
            1 => std::slice::from_ref(&inst.number),
            count => &self.numbers[inst.number as usize..][..count],
        };
        InstNumbers { iteration: inst.iteration, others }
    }
    /// A copy of some of the instructions.
    pub(super) fn copy_range(&self, range: Range<usize>, templates: &TemplateTable) -> Self {
        let mut copy = Self::default();
        range.for_each(|at| copy.push_numbers(self.insts[at].template, self.numbers(at, templates)));
        copy
    }
    /// Appends the instructions of another list.
    pub(super) fn append(&mut self, other: &Self, templates: &TemplateTable) {
        (0..other.len()).for_each(|at| self.push_numbers(other.insts[at].template, other.numbers(at, templates)));
    }
    /// Drops the instructions from a place on.
    pub(super) fn truncate(&mut self, length: usize, templates: &TemplateTable) {
        let mut dropped = self.insts.iter().skip(length);
        if let Some(inst) = dropped.find(|inst| templates.inst_template(inst.template).numbers > 1) {
            self.numbers.truncate(inst.number as usize);
        }
        self.insts.truncate(length);
    }
    /// Gives the room for more instructions back.
    pub(super) fn shrink_to_fit(&mut self) {
        self.insts.shrink_to_fit();
        self.numbers.shrink_to_fit();
    }
}
