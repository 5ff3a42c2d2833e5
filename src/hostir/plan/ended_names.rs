//! The ends of tensors' names in the plan builder.

use super::tensor_bindings::EndedName;
use super::{BufferId, EndedOwner, PlanBuilder};
use crate::diag::message;
use crate::diag::{Diag, codes};
use crate::ir::{TensorId, bare_head, quoted_head};

impl PlanBuilder<'_> {
    /// Ends a tensor's name: memory without any remaining binding is freed.
    ///
    /// # Errors
    /// If the plan gets too large.
    pub(crate) fn end_tensor(&mut self, tensor: TensorId) -> Result<(), Diag> {
        let owned = self.tensor_binding(tensor).map(|view| view.buffer);
        self.rebind_tensor(tensor, None)?;
        if let Some(buffer) = owned.filter(|&buffer| self.is_lent(buffer, tensor)) {
            let issued = self.plan.inst_count();
            self.plan.notes.ended_owners.push(EndedOwner { buffer, op: self.op, issued });
        }
        let end = EndedName { op: self.op, indices: self.scope.indices.clone() };
        self.tensors.end_name(self.program.memory_tensor(tensor), end);
        Ok(())
    }

    /// Returns true if tensors are bound to a buffer that was created for this one.
    fn is_lent(&self, buffer: BufferId, owner: TensorId) -> bool {
        self.plan.buffers[buffer].tensor == owner && self.tensors.reference_count(buffer) > 0
    }

    /// The error for a read of a tensor that a Deallocate has freed in an earlier iteration.
    pub(super) fn freed_error(&self, tensor: TensorId) -> Option<Diag> {
        self.freed_error_of(tensor, "has no value here: its memory was")
    }

    /// The error for a communication into a tensor that a Deallocate has freed in an earlier iteration.
    pub(crate) fn freed_output_error(&self, tensor: TensorId) -> Option<Diag> {
        self.freed_error_of(tensor, "has no memory to receive into: it was")
    }

    fn freed_error_of(&self, tensor: TensorId, lack: &str) -> Option<Diag> {
        let end = self.tensors.ended_name(self.program.memory_tensor(tensor))?;
        let name = self.quoted_tensor(tensor);
        let when: Vec<String> =
            end.indices.iter().map(|(index, value)| format!("{}={value}", self.program.name(*index))).collect();
        let when = if when.is_empty() { String::new() } else { format!(" at {}", when.join(", ")) };
        let message = message!("{} {} freed{}", name, lack, when);
        Some(
            self.error_here(codes::NO_MEMORY_HERE, message)
                .with_label(self.program.op_span(end.op), message!("{} is freed here{}", name, when))
                .with_note(message!(
                    "move the `{}` after the loop, or give {} new memory in each iteration by `{}`",
                    quoted_head("Deallocate"),
                    name,
                    quoted_head("ALLOCATE")
                )),
        )
    }

    /// The error for a use of a tensor after its Deallocate, in the same iteration.
    pub(crate) fn ended_error(&self, tensor: TensorId) -> Option<Diag> {
        let end = self.tensors.ended_name(self.program.memory_tensor(tensor))?;
        let name = self.quoted_tensor(tensor);
        self.scope.indices.starts_with(&end.indices).then(|| {
            self.error_here(codes::ENDED_NAME, message!("{} is used after its {}", name, bare_head("Deallocate")))
                .with_label(self.program.op_span(end.op), message!("{} ends here", name))
                .with_note(message!(
                    "move the {} after the last use of {}, or {} {} again",
                    bare_head("Deallocate"),
                    name,
                    bare_head("ALLOCATE"),
                    name
                ))
        })
    }
}
