//! Which tensors have memory: the outputs of a PostOnStream all have some, or none has.

use hostir::ir::Effect;
use hostir::ir::{OpId, Program, TensorId};
use rustc_hash::FxHashSet;

/// The tensors that have memory behind the statements that have passed. Aliases are one memory, named by one of
/// their tensors.
pub(super) struct Memory {
    /// Tensors that have some for sure.
    has: FxHashSet<TensorId>,
    /// Tensors that have some on some path.
    may: FxHashSet<TensorId>,
}

impl Memory {
    /// The tensors that have memory at the start of a program.
    pub(super) fn of(program: &Program) -> Self {
        let inputs = program.inputs().iter().filter_map(|value| value.tensor());
        let inputs: FxHashSet<TensorId> = inputs.map(|tensor| program.memory_of(tensor)).collect();
        Self { has: inputs.clone(), may: inputs }
    }

    /// A statement of the body.
    pub(super) fn pass(&mut self, program: &Program, id: OpId) {
        self.change(program, id, true);
        program.walk_inside(id, &mut |inner| self.change(program, inner, false));
    }

    fn change(&mut self, program: &Program, id: OpId, always: bool) {
        let op = program.op(id);
        match op.kind.effect() {
            Effect::Pure | Effect::Alias | Effect::Allocate | Effect::Opaque => {
                for memory in op.output_tensors().map(|tensor| program.memory_of(tensor)) {
                    self.may.insert(memory);
                    if always {
                        self.has.insert(memory);
                    }
                }
            }
            Effect::Free => op.input_tensors().for_each(|tensor| {
                let memory = program.memory_of(tensor);
                self.has.remove(&memory);
                if always {
                    self.may.remove(&memory);
                }
            }),
            Effect::Stream | Effect::Communicate | Effect::Control => {}
        }
    }

    /// The outputs of a post that need an ALLOCATE, since others have memory, or may have some.
    pub(super) fn missing(&self, program: &Program, post: OpId) -> Vec<TensorId> {
        let mut outputs: Vec<TensorId> = program.op(post).output_tensors().collect();
        if !outputs.iter().any(|&tensor| self.may.contains(&program.memory_of(tensor))) {
            return Vec::new();
        }
        outputs.retain(|&tensor| !self.has.contains(&program.memory_of(tensor)));
        outputs
    }
}
