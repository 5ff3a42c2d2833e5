//! The memory types that a text gives, and those that it leaves to the defaults.

use crate::hir2::defaults::default_memories;
use crate::ir::{AttrKey, AttrValue, MemoryType, OpId, Program, TensorId};

/// The tensors and allocations whose text says their memory.
#[derive(Default)]
pub(super) struct GivenMemory {
    /// By tensor: true if its type says its memory.
    tensors: Vec<bool>,
    /// ALLOCATEs without `mem=`.
    plain_allocations: Vec<OpId>,
}

impl GivenMemory {
    /// Notes a new tensor with the memory that its type says.
    pub(super) fn note_tensor(&mut self, tensor: TensorId, memory: Option<MemoryType>) {
        self.tensors.resize(tensor.0 as usize, false);
        self.tensors.push(memory.is_some());
    }

    /// Tensors up to this count that nobody has noted come from verbatim texts, which say their memory.
    pub(super) fn note_verbatim_tensors(&mut self, count: usize) {
        self.tensors.resize(count, true);
    }

    /// Notes an ALLOCATE without `mem=`.
    pub(super) fn note_plain_allocation(&mut self, op: OpId) {
        self.plain_allocations.push(op);
    }

    /// Gives the other tensors and allocations of the program the default memory.
    pub(super) fn fill_defaults(self, program: &mut Program) {
        let memories = default_memories(program);
        let tensors: Vec<TensorId> = program.tensors.ids().collect();
        for tensor in tensors {
            if !self.tensors.get(tensor.0 as usize).copied().unwrap_or(false) {
                program.tensors[tensor].memory = memories[tensor.0 as usize];
            }
        }
        for id in self.plain_allocations {
            let Some(tensor) = program.ops[id].output_tensors().next() else { continue };
            let word = program.names.intern(program.tensors[tensor].memory.word());
            program.ops[id].set_attr(AttrKey::MemType, &AttrValue::Word(word));
        }
    }
}
