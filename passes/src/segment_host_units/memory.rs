//! The tensors with memory: the outputs of a PostOnStream all have some, or none has.

use hostir::ir::OpEffect;
use hostir::ir::{OpId, Program, TensorId};
use rustc_hash::FxHashSet;

/// The tensors that have memory after the statements so far. Aliases are one memory, named by one of their tensors.
pub(super) struct AllocatedTensors {
    /// Tensors that have some for sure.
    has: FxHashSet<TensorId>,
    /// Tensors that have some on some path.
    may: FxHashSet<TensorId>,
}

impl AllocatedTensors {
    /// The tensors that have memory at the start of a program.
    pub(super) fn from_program(program: &Program) -> Self {
        let inputs = program.inputs().iter().filter_map(|value| value.as_tensor());
        let inputs: FxHashSet<TensorId> = inputs.map(|tensor| program.memory_tensor(tensor)).collect();
        Self { has: inputs.clone(), may: inputs }
    }

    /// A statement of the body.
    pub(super) fn pass_statement(&mut self, program: &Program, id: OpId) {
        self.apply_op(program, id, true);
        program.walk_inside(id, &mut |inner| self.apply_op(program, inner, false));
    }

    fn apply_op(&mut self, program: &Program, id: OpId, always: bool) {
        let op = program.op(id);
        match op.kind.effect() {
            OpEffect::Pure | OpEffect::Alias | OpEffect::Allocate | OpEffect::Opaque => {
                for memory in op.output_tensors().map(|tensor| program.memory_tensor(tensor)) {
                    self.may.insert(memory);
                    if always {
                        self.has.insert(memory);
                    }
                }
            }
            OpEffect::Free => op.input_tensors().for_each(|tensor| {
                let memory = program.memory_tensor(tensor);
                self.has.remove(&memory);
                if always {
                    self.may.remove(&memory);
                }
            }),
            OpEffect::Stream(_) | OpEffect::Communicate(_) | OpEffect::Control(_) | OpEffect::Observe => {}
        }
    }

    /// The outputs of a PostOnStream that need an ALLOCATE, since others have memory, or may have some.
    pub(super) fn missing_allocations(&self, program: &Program, post: OpId) -> Vec<TensorId> {
        let mut outputs: Vec<TensorId> = program.op(post).output_tensors().collect();
        if !outputs.iter().any(|&tensor| self.may.contains(&program.memory_tensor(tensor))) {
            return Vec::new();
        }
        outputs.retain(|&tensor| !self.has.contains(&program.memory_tensor(tensor)));
        outputs
    }
}
