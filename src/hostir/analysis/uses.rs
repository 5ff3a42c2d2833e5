//! The ops that access the memory of each tensor, also through slices and other names of it.

use super::storage::{TensorAccess, visit_accesses};
use crate::ir::{OpEffect, OpId, Program, TensorId};
use rustc_hash::FxHashMap;

/// The uses of all tensors of a program and its units.
#[derive(Clone, Debug)]
pub struct TensorUses {
    /// The tensors that are slices or other names, each with the tensor whose memory it shares.
    owners: FxHashMap<TensorId, TensorId>,
    /// By the tensor that owns the memory, in the order of the text.
    uses: FxHashMap<TensorId, Vec<TensorUse>>,
}

/// An access of an op to the memory of a tensor.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TensorUse {
    /// The op.
    pub op: OpId,
    /// Its way of access.
    pub access: TensorAccess,
}

impl TensorUses {
    /// The uses in a program.
    ///
    /// ```
    /// use hostir::analysis::{TensorAccess, TensorUses};
    ///
    /// let text = "hir 2\nf(A: f32[2, n]) -> (B: f32[2, n]):\n  B = alloc\n  B[0] = relu(A[1])\n";
    /// let (programs, _) = hostir::load(text);
    /// let output = programs[0].outputs()[0].as_tensor().expect("a tensor");
    /// let uses = TensorUses::from_program(&programs[0]);
    /// assert!(uses.of_tensor(output).iter().any(|one| one.access == TensorAccess::Write));
    /// ```
    pub fn from_program(program: &Program) -> Self {
        let mut found = Self { owners: FxHashMap::default(), uses: FxHashMap::default() };
        program.walk_with_units(&mut |id| found.add_op(program, id));
        found
    }

    fn add_op(&mut self, program: &Program, id: OpId) {
        let op = program.op(id);
        let shared = match op.kind.effect() {
            OpEffect::Alias => op.operands.first().and_then(|value| value.as_tensor()),
            _ => op.shared_memory(),
        };
        if let Some(original) = shared {
            let owner = self.owner_of(program, original);
            self.owners.extend(op.output_tensors().filter(|tensor| *tensor != owner).map(|tensor| (tensor, owner)));
        }
        visit_accesses(program, id, &mut |tensor, access| {
            let owner = self.owner_of(program, tensor);
            let uses = self.uses.entry(owner).or_default();
            let one = TensorUse { op: id, access };
            if uses.last() != Some(&one) {
                uses.push(one);
            }
        });
    }

    /// The tensor that owns the memory of a tensor: the tensor itself, unless it is a slice or another name.
    pub fn owner_of(&self, program: &Program, tensor: TensorId) -> TensorId {
        let tensor = program.memory_tensor(tensor);
        self.owners.get(&tensor).copied().unwrap_or(tensor)
    }

    /// The uses of the memory that a tensor owns.
    pub fn of_tensor(&self, tensor: TensorId) -> &[TensorUse] {
        self.uses.get(&tensor).map_or(&[], Vec::as_slice)
    }
}
