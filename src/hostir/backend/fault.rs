//! Faults of instructions, and their diagnostics.

use crate::diag::message;
use crate::diag::{Diag, Message, codes};
use crate::ir::{DType, quoted_type};
use crate::lower::PreparedProgram;
use crate::plan::{BufferId, BufferKind, InstOrigin, Plan, UserKernel};

/// The repair of a launch that has no reference.
const REFERENCE_NOTE: &str =
    "add `reference=NAME`, a kernel of the program that computes what the launch writes from what it reads";

/// The reason why an instruction failed.
#[derive(Clone, PartialEq, Debug)]
pub(super) enum ExecutionFault {
    /// An element that nothing wrote.
    Uninitialised { buffer: BufferId, element: usize },
    /// No memory for this many bytes.
    NoMemory(usize),
    /// A type without kernels.
    Type(DType),
    /// An element of a buffer of indices that is outside of its axis.
    Index { buffer: BufferId, element: usize, value: i64, extent: usize },
    /// An input that does not fit.
    Input(Message),
    /// A number modulo a prime in a place that needs an integer.
    NoMeaning(String),
    /// A kernel of the user that this backend cannot run, and that has no reference.
    Kernel(UserKernel),
    /// Anything else.
    Invalid(String),
}

impl ExecutionFault {
    /// As a diagnostic at the instruction's op.
    pub(super) fn into_diag(self, prepared: &PreparedProgram, plan: &Plan, origin: InstOrigin) -> Diag {
        let labels = &prepared.labels;
        let index = self.computed_index_diag(prepared, plan, origin);
        if let Some(diag) = index.or_else(|| self.given_index_diag(prepared, plan, origin)) {
            return diag;
        }
        let note = match self {
            ExecutionFault::Kernel(_) => Some(REFERENCE_NOTE),
            _ => None,
        };
        let (code, message) = match self {
            ExecutionFault::Uninitialised { buffer, element } => (
                codes::UNINITIALISED,
                message!("{} is read before it is written", prepared.element_text(plan, buffer, element)),
            ),
            ExecutionFault::NoMemory(bytes) => {
                (codes::NO_MEMORY, message!("out of memory: cannot allocate {} bytes", bytes))
            }
            ExecutionFault::Type(DType::Float4E2M1x2) => (
                codes::BACKEND_TYPE,
                message!(
                    "an element of `{}` is two numbers, which ops move but do not compute with",
                    quoted_type(DType::Float4E2M1x2)
                ),
            ),
            ExecutionFault::Type(dtype) => (
                codes::BACKEND_TYPE,
                message!("the CPU backend does not support the element type `{}`", quoted_type(dtype)),
            ),
            ExecutionFault::Index { value, extent, .. } => {
                (codes::INDEX, message!("the index {} is not below {}", value, extent))
            }
            ExecutionFault::Input(text) => (codes::PORTS, text),
            ExecutionFault::NoMeaning(text) => (codes::NO_MEANING, text.into()),
            ExecutionFault::Kernel(UserKernel { file, entry }) => (
                codes::NO_REFERENCE,
                format!("the CPU cannot run the kernel `{entry}` of `{file}`, and the launch has no reference").into(),
            ),
            ExecutionFault::Invalid(text) => (codes::ARITHMETIC, text.into()),
        };
        let diag = Diag::error(code, labels.op_span(origin.op), message).with_note(fault_place(prepared, plan, origin));
        match note {
            Some(note) => diag.with_note(note),
            None => diag,
        }
    }

    /// The diagnostic of an index among the operands.
    fn given_index_diag(&self, prepared: &PreparedProgram, plan: &Plan, origin: InstOrigin) -> Option<Diag> {
        let ExecutionFault::Index { buffer, element, value, extent } = *self else { return None };
        let (labels, entry, last) = (&prepared.labels, plan.buffers.get(buffer)?, extent.saturating_sub(1));
        let name = labels.quoted_tensor(entry.tensor);
        let counted = labels.index_fault(origin.op).and_then(|fault| fault.counted);
        let message = match counted {
            Some(item) => {
                message!(
                    "element {} of {} is {}, but there are {} {}s, from 0 to {}",
                    element,
                    name,
                    value,
                    extent,
                    item,
                    last
                )
            }
            None => message!(
                "index element {} of {} is {}, but the indexed axis has {} elements: an index must be from 0 to {}",
                element,
                name,
                value,
                extent,
                last
            ),
        };
        let diag = Diag::error(codes::INDEX, labels.op_span(origin.op), message);
        let diag = diag.with_note(fault_place(prepared, plan, origin));
        Some(match (entry.kind, counted) {
            (BufferKind::Input(_), Some(item)) => {
                diag.with_note(message!("give {} an {} for each element, or compute them from `iota`", name, item))
            }
            _ => diag,
        })
    }

    /// The diagnostic of an index that the op itself has computed; `None` for other faults.
    fn computed_index_diag(&self, prepared: &PreparedProgram, plan: &Plan, origin: InstOrigin) -> Option<Diag> {
        let ExecutionFault::Index { buffer, element, .. } = *self else { return None };
        let entry = plan.buffers.get(buffer).filter(|entry| entry.kind == BufferKind::Temp)?;
        let fault = prepared.labels.index_fault(origin.op)?;
        let tensor = prepared.labels.quoted_tensor(entry.tensor);
        let message = message!("{} {} of {} {}", fault.item, element, tensor, fault.finding);
        let diag = Diag::error(fault.code, prepared.labels.op_span(origin.op), message);
        Some(diag.with_note(fault_place(prepared, plan, origin)).with_note(fault.note))
    }
}

/// The op, the rank and the iteration of a fault.
fn fault_place(prepared: &PreparedProgram, plan: &Plan, origin: InstOrigin) -> Message {
    let iteration = prepared.labels.iteration_text(plan.iteration_of(origin));
    let at = if iteration.is_empty() { String::new() } else { format!(" at {iteration}") };
    message!("in `{}` on rank {}{}", prepared.labels.quoted_statement(origin.op), plan.rank, at)
}
