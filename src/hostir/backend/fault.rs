//! Faults of instructions, and their diagnostics.

use crate::diag::Diag;
use crate::diag::codes;
use crate::ir::{DType, TensorId};
use crate::lower::PreparedProgram;
use crate::plan::{BufferId, InstOrigin, Plan};

/// The reason why an instruction failed.
#[derive(Clone, PartialEq, Debug)]
pub(super) enum ExecutionFault {
    /// An element that nothing wrote.
    Uninitialised { buffer: BufferId, element: usize },
    /// No memory for this many bytes.
    NoMemory(usize),
    /// A type without kernels.
    Type(DType),
    /// An index of a tensor that is outside of its axis.
    Index { tensor: TensorId, element: usize, value: i64, extent: usize },
    /// An input that does not fit.
    Input(String),
    /// A number modulo a prime in a place that needs an integer.
    NoMeaning(String),
    /// Anything else.
    Invalid(String),
}

impl ExecutionFault {
    /// As a diagnostic at the instruction's op.
    pub(super) fn into_diag(self, prepared: &PreparedProgram, plan: &Plan, origin: InstOrigin) -> Diag {
        let labels = &prepared.labels;
        let (code, message) = match self {
            ExecutionFault::Uninitialised { buffer, element } => (
                codes::UNINITIALISED,
                format!("{} is read before it is written", prepared.element_text(plan, buffer, element)),
            ),
            ExecutionFault::NoMemory(bytes) => {
                (codes::NO_MEMORY, format!("out of memory: cannot allocate {bytes} bytes"))
            }
            ExecutionFault::Type(dtype) => {
                (codes::BACKEND_TYPE, format!("the CPU backend does not support the element type `{}`", dtype.name()))
            }
            ExecutionFault::Index { tensor, element, value, extent } => (
                codes::INDEX,
                format!(
                    "index element {element} of {} is {value}, but the indexed axis has {extent} elements: an index must be from 0 to {}",
                    labels.tensor_name(tensor),
                    extent.saturating_sub(1)
                ),
            ),
            ExecutionFault::Input(text) => (codes::PORTS, text),
            ExecutionFault::NoMeaning(text) => (codes::NO_MEANING, text),
            ExecutionFault::Invalid(text) => (codes::ARITHMETIC, text),
        };
        let iteration = labels.iteration_text(plan.iteration_of(origin));
        let at = if iteration.is_empty() { String::new() } else { format!(" at {iteration}") };
        let place = format!("in `{}` on rank {}{at}", labels.op_label(origin.op), plan.rank);
        Diag::error(code, labels.op_span(origin.op), message).with_note(place)
    }
}
