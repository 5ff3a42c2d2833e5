//! The inputs that a program writes.

use crate::ir::{OpEffect, Program, TensorId};
use rustc_hash::FxHashMap;

/// Returns the inputs that an op writes, also through an alias, a slice or an allocation that shares their memory.
pub fn written_inputs(program: &Program) -> Vec<TensorId> {
    let mut owners = FxHashMap::default();
    let mut written = Vec::new();
    program.walk(program.body(), &mut |id| {
        let op = program.op(id);
        let shared = match op.kind.effect() {
            OpEffect::Alias => op.operands.first().and_then(|value| value.as_tensor()),
            _ => op.shared_memory(),
        };
        for tensor in op.output_tensors() {
            match shared {
                Some(original) => drop(owners.insert(tensor, owner_of(program, &owners, original))),
                None => written.push(owner_of(program, &owners, tensor)),
            }
        }
    });
    let inputs = program.inputs().iter().filter_map(|value| value.as_tensor());
    inputs.filter(|input| written.contains(input)).collect()
}

/// The tensor that owns the memory of a tensor.
fn owner_of(program: &Program, owners: &FxHashMap<TensorId, TensorId>, tensor: TensorId) -> TensorId {
    let tensor = program.memory_tensor(tensor);
    owners.get(&tensor).copied().unwrap_or(tensor)
}
