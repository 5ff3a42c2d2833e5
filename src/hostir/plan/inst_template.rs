//! Instructions without their numbers: what the iterations of a statement have in common.

use super::inst::{Inst, InstKind, StepOperand};
use super::inst_fields::take_numbers;
use crate::ir::functions::ScalarValue;
use rustc_hash::{FxHashMap, FxHasher};
use smallvec::SmallVec;
use std::hash::{Hash, Hasher};

/// An instruction whose numbers (events, buffers, offsets, peers, its iteration) are 0, and their count. Of an offset
/// only the low 32 bits are a number; the template keeps the others.
#[derive(Clone, Debug)]
pub(super) struct InstTemplate {
    /// The instruction.
    pub(super) inst: Inst,
    /// The count of its numbers, without the iteration.
    pub(super) numbers: u32,
}

/// An instruction in two parts.
#[derive(Debug)]
pub(super) struct SplitInst {
    /// The number of its template.
    pub(super) template: u32,
    /// Its iteration.
    pub(super) iteration: u32,
    /// Its other numbers.
    pub(super) numbers: SmallVec<[u32; 8]>,
    /// The bytes of its template, if that is new.
    template_bytes: usize,
}

impl SplitInst {
    /// The bytes of an instruction in a list, without its numbers.
    const LEAST_BYTES: usize = 3 * size_of::<u32>();

    /// The bytes that the instruction takes.
    pub(super) fn byte_count(&self) -> usize {
        let numbers = if self.numbers.len() < 2 { 0 } else { self.numbers.len() * size_of::<u32>() };
        Self::LEAST_BYTES + numbers + self.template_bytes
    }
}

/// The templates of a plan.
#[derive(Clone, Default, Debug)]
pub(super) struct TemplateTable {
    templates: Vec<InstTemplate>,
    /// By hash: the last templates with it. Empty once the plan is complete.
    index: FxHashMap<u64, SmallVec<[u32; 2]>>,
}

/// The bytes of a template in the index.
const INDEX_BYTES: usize = 48;

/// The number of templates of one hash that are compared with an instruction. What a hash leaves out rarely differs, so
/// more would be as many as there are iterations.
const MOST_COMPARED: usize = 4;

impl TemplateTable {
    /// The template of a number.
    pub(super) fn inst_template(&self, number: u32) -> &InstTemplate {
        &self.templates[number as usize]
    }

    /// The instructions of all templates, by their numbers.
    pub(super) fn template_insts(&self) -> impl Iterator<Item = &Inst> {
        self.templates.iter().map(|template| &template.inst)
    }

    /// Splits an instruction, and adds its template if it is new.
    pub(super) fn split_inst(&mut self, mut inst: Inst) -> SplitInst {
        let (iteration, numbers) = take_numbers(&mut inst);
        let key = template_hash(&inst);
        let known = self.index.entry(key).or_default();
        let found = known.iter().rev().find(|&&number| self.templates[number as usize].inst == inst);
        if let Some(&template) = found {
            return SplitInst { template, iteration, numbers, template_bytes: 0 };
        }
        let template = self.templates.len() as u32;
        if known.len() == MOST_COMPARED {
            known.remove(0);
        }
        known.push(template);
        let template_bytes = size_of::<InstTemplate>() + INDEX_BYTES + inst.kind.heap_bytes();
        self.templates.push(InstTemplate { inst, numbers: numbers.len() as u32 });
        SplitInst { template, iteration, numbers, template_bytes }
    }

    /// No templates follow: how they are found is dropped.
    pub(super) fn drop_build_state(&mut self) {
        self.index = FxHashMap::default();
        self.templates.shrink_to_fit();
    }
}

/// A hash of the parts of a template that often differ: its statement, its stream, the axes of its views, and constants.
fn template_hash(inst: &Inst) -> u64 {
    let mut hasher = FxHasher::default();
    (inst.origin.op, inst.stream, std::mem::discriminant(&inst.kind)).hash(&mut hasher);
    for view in inst.kind.read_views().into_iter().chain(inst.kind.written_views()) {
        view.dims.iter().for_each(|dim| (dim.extent, dim.stride).hash(&mut hasher));
    }
    match &inst.kind {
        InstKind::Fill { value, .. } => hash_value(*value, &mut hasher),
        InstKind::Kernel(kernel) => kernel.steps.iter().flat_map(|step| &step.args).for_each(|operand| {
            if let StepOperand::Const(value) = operand {
                hash_value(*value, &mut hasher);
            }
        }),
        _ => {}
    }
    hasher.finish()
}

fn hash_value(value: ScalarValue, hasher: &mut FxHasher) {
    match value {
        ScalarValue::Int(value) => value.hash(hasher),
        ScalarValue::Float(value) => value.to_bits().hash(hasher),
        ScalarValue::Bool(value) => value.hash(hasher),
        ScalarValue::Unsigned(value) => value.hash(hasher),
        ScalarValue::Complex(real, imaginary) => (real.to_bits(), imaginary.to_bits()).hash(hasher),
    }
}
