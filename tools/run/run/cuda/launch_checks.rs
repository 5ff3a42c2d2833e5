//! `--check-launches`: errors for differences between kernels of the user and their launches.

use crate::data::compare::{GivenTolerances, TensorComparison, compare_tensors};
use hostir::diag::{Diag, Message, codes, count_text, message};
use hostir::ir::DType;
use hostir::lower::PreparedProgram;
use hostir::plan::{BufferId, BufferView, InstKind, LaunchInst, Plan};
use hostir_cuda::{LaunchCheck, LaunchFault, ReferenceResult};

/// The errors of all ranks, one for each kind of fault of an op.
pub(super) fn launch_errors(
    prepared: &PreparedProgram,
    checks: &[LaunchCheck],
    given: GivenTolerances,
) -> Result<(), Vec<Diag>> {
    let mut diags: Vec<Diag> = Vec::new();
    for check in checks {
        let plan = &prepared.plans[check.rank as usize];
        let inst = plan.inst(check.inst);
        let InstKind::Launch(launch) = &inst.kind else { continue };
        let reporter = LaunchReporter { prepared, plan, launch };
        let faults = check.faults.iter().map(|fault| reporter.fault_text(fault));
        let differences = check.results.iter().filter_map(|result| reporter.difference_text(result, given));
        for (message, note) in faults.chain(differences) {
            let place = prepared.labels.origin_text(plan, inst.origin);
            let diag = Diag::error(codes::LAUNCH_DIFFERS, prepared.labels.op_span(inst.origin.op), message);
            let diag = diag.with_note(note).with_note(message!("on rank {}, in {}", plan.rank, place));
            let is_known = diags.iter().any(|known| known.primary == diag.primary && known.notes[0] == diag.notes[0]);
            if !is_known {
                diags.push(diag);
            }
        }
    }
    if diags.is_empty() { Ok(()) } else { Err(diags) }
}

/// The texts about a launch.
struct LaunchReporter<'a> {
    prepared: &'a PreparedProgram,
    plan: &'a Plan,
    launch: &'a LaunchInst,
}

impl LaunchReporter<'_> {
    /// The sentence about a fault, and the repair.
    fn fault_text(&self, fault: &LaunchFault) -> (Message, &'static str) {
        let kernel = &*self.launch.kernel.entry;
        match fault {
            LaunchFault::UndeclaredWrite { place, bytes } => {
                let place = match place {
                    Some((buffer, element)) => message!("in {}, element {}", self.buffer_name(*buffer), *element),
                    None => Message::from("in memory of no tensor"),
                };
                let message = message!(
                    "the kernel `{}` writes {} that its launch does not declare, the first {}",
                    kernel,
                    count_text(*bytes, "byte"),
                    place
                );
                (message, "declare in `writes(..)` all tensors and slices that the kernel writes")
            }
            LaunchFault::UndeclaredRead(elements) => {
                let message = message!(
                    "the kernel `{}` reads memory that its launch does not declare: {} of {} depend on it, the first at {}",
                    kernel,
                    count_text(elements.count, "element"),
                    self.written_name(elements.written),
                    coordinates(&elements.first)
                );
                (message, "declare in `reads(..)` all that the kernel reads, also what it changes only in part")
            }
            LaunchFault::Unwritten(elements) => {
                let message = message!(
                    "the kernel `{}` does not write {} of {} that its launch declares, the first at {}",
                    kernel,
                    count_text(elements.count, "element"),
                    self.written_name(elements.written),
                    coordinates(&elements.first)
                );
                (
                    message,
                    "declare in `writes(..)` only slices of which every element is written, or in `reads(..)` as well",
                )
            }
        }
    }

    /// The worst difference from the reference; `None` if all elements are equal within the tolerance.
    fn difference_text(&self, result: &ReferenceResult, given: GivenTolerances) -> Option<(Message, &'static str)> {
        let roundings: Vec<DType> = self.launch.reads.iter().map(|view| view.dtype).collect();
        let compared = compare_tensors(&result.found, &result.expected, &roundings, given).ok()?;
        let TensorComparison { elements, mismatches, worst, .. } = &compared;
        let worst = worst.as_ref().filter(|_| !compared.is_equal())?;
        let message = message!(
            "the kernel `{}` computes something else than its reference: {} of {} elements of {} differ, at {} it gives {}, the reference {}",
            &*self.launch.kernel.entry,
            *mismatches,
            *elements,
            self.written_name(result.written),
            coordinates(&worst.index),
            worst.found.to_string(),
            worst.expected.to_string()
        );
        Some((message, "the reference gets what `reads(..)` names, in this order, and gives what `writes(..)` names"))
    }

    fn buffer_name(&self, buffer: BufferId) -> Message {
        message!("`{}`", self.prepared.labels.quoted_tensor(self.plan.buffers[buffer].tensor))
    }

    fn written_name(&self, written: usize) -> Message {
        let view: Option<&BufferView> = self.launch.writes.get(written);
        view.map_or_else(Message::default, |view| self.buffer_name(view.buffer))
    }
}

/// `[1, 0]`.
fn coordinates(at: &[usize]) -> String {
    let parts: Vec<String> = at.iter().map(ToString::to_string).collect();
    format!("[{}]", parts.join(", "))
}
