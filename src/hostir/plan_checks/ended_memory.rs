//! Uses of memory through other tensors after the Deallocate of the tensor that owns it.

use crate::diag::message;
use crate::diag::{Diag, Fix, codes};
use crate::ir::{OpId, bare_head};
use crate::lower::PreparedProgram;
use crate::plan::{EndedOwner, Plan};
use rustc_hash::FxHashSet;

/// The uses of memory after its owner's Deallocate, one for each Deallocate: warnings, and errors about a text in
/// `hir 2`.
pub(super) fn check_ended_memory(prepared: &PreparedProgram) -> Vec<Diag> {
    let mut known: FxHashSet<OpId> = FxHashSet::default();
    let ended = prepared.plans.iter().flat_map(|plan| plan.notes.ended_owners.iter().map(move |ended| (plan, ended)));
    let found = ended.filter_map(|(plan, ended)| Some((ended, first_use(plan, ended)?, plan)));
    found
        .filter(|(ended, _, _)| known.insert(ended.op))
        .map(|(ended, user, plan)| describe_use(prepared, plan, ended, user))
        .collect()
}

/// The first op that reads or writes the buffer after the Deallocate.
fn first_use(plan: &Plan, ended: &EndedOwner) -> Option<OpId> {
    let later = plan.cursor().skip(ended.issued);
    later.map(|(_, inst)| inst).find_map(|inst| {
        let reads = inst.kind.read_views();
        let mut views = reads.into_iter().chain(inst.kind.written_views());
        views.any(|view| view.buffer == ended.buffer).then_some(inst.origin.op)
    })
}

fn describe_use(prepared: &PreparedProgram, plan: &Plan, ended: &EndedOwner, user: OpId) -> Diag {
    let labels = &prepared.labels;
    let name = labels.quoted_tensor(plan.buffers[ended.buffer].tensor);
    let message = message!("`{}` uses the memory of {}, which has ended", labels.quoted_statement(user), name);
    let diag = Diag::error(codes::ENDED_NAME, labels.op_span(user), message)
        .with_label(labels.op_span(ended.op), message!("{} ends here", name));
    if labels.is_hir2() {
        return diag
            .with_note("with the name of a tensor its memory ends, whatever other names it has")
            .with_fix(Fix::in_words(message!("move `free {}` after the last use of its memory", name)));
    }
    diag.into_warning()
        .with_note("the memory stays while another tensor is bound to it")
        .with_fix(Fix::in_words(message!("move the {} after its last use", bare_head("Deallocate"))))
}
