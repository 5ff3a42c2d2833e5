//! Outputs that the text declares as one tensor, and of which each rank computes another one.
//!
//! The proof is about accesses, not about values. A small program is run on whole numbers instead: what differs there
//! would be the error of a run, too.

use super::tensor_writers::writers_of;
use crate::backend::find_differing_replicas;
use crate::diag::{Diag, DiagLabel, message};
use crate::ir::{Program, TensorId, short_expr_text, word_of_dtype};
use crate::lower::PreparedProgram;
use crate::plan::{CollectiveMember, InstId, PlanMatching};

/// The maximum number of statements that a warning labels.
const MOST_WRITERS: usize = 4;

/// The warnings about outputs whose replicas differ.
pub(super) fn check_replicas(program: &Program, prepared: &PreparedProgram) -> Vec<Diag> {
    let mut found = find_differing_replicas(prepared);
    for diag in &mut found {
        let start = diag.primary.as_ref().map(|label| label.span.start);
        let mut outputs = program.outputs().iter().filter_map(|output| output.as_tensor());
        let output = outputs.find(|output| Some(program.tensor_span(*output).start) == start);
        if let Some(output) = output.filter(|_| program.is_hir2()) {
            match mixed_pair(prepared, output) {
                Some(pair) => advise_order(prepared, pair, diag),
                None => advise_axis(program, prepared, output, diag),
            }
        }
    }
    found.into_iter().map(Diag::into_warning).collect()
}

/// Two ranks' sides of one collective.
type RankPair = [(u32, InstId); 2];

/// The sides of a collective into an output for which another rank starts a statement with another result.
fn mixed_pair(prepared: &PreparedProgram, output: TensorId) -> Option<RankPair> {
    let plans = &prepared.plans;
    let matching = PlanMatching::new(plans);
    let numbers =
        matching.communicators.iter().flat_map(|of_all| (0..of_all.collectives.len()).map(move |at| (of_all, at)));
    let mut found = numbers.filter_map(|(of_all, number)| {
        let members = of_all.collective_members(number, plans);
        let result = |member: &CollectiveMember<'_>| {
            let view = member.collective.output.as_ref()?;
            Some(plans[member.rank as usize].buffers[view.buffer].tensor)
        };
        let own = members.iter().find(|member| result(member) == Some(output))?;
        let other = members.iter().find(|member| result(member).is_some_and(|other| other != output))?;
        let [first, second] = if own.rank < other.rank { [own, other] } else { [other, own] };
        Some([first, second].map(|member| (member.rank, member.inst)))
    });
    found.next()
}

/// Names the statements that ranks start as one collective.
fn advise_order(prepared: &PreparedProgram, pair: RankPair, diag: &mut Diag) {
    let [(rank, text), (other_rank, other_text)] = pair.map(|(rank, inst)| {
        let plan = &prepared.plans[rank as usize];
        let origin = plan.inst(inst).origin;
        let text = message!("rank {} starts this as one collective with the other", rank);
        diag.labels.push(DiagLabel { span: prepared.labels.op_span(origin.op), text });
        (rank, prepared.labels.origin_text(plan, origin))
    });
    diag.notes = vec![message!(
        "ranks pair different statements: rank {} starts {} where rank {} starts {}; collectives of a team match by their \
         order, so start them in one order on all ranks",
        rank,
        text,
        other_rank,
        other_text
    )];
}

/// Names the statements that write the output, and the type of one whose parts differ.
fn advise_axis(program: &Program, prepared: &PreparedProgram, output: TensorId, diag: &mut Diag) {
    let name = program.tensor_name(output);
    for writer in writers_of(program, &name).into_iter().take(MOST_WRITERS) {
        let text = format!("each rank writes its own values to `{name}`");
        diag.labels.push(DiagLabel { span: program.op_span(writer), text: text.into() });
    }
    let Some(mesh) = program.tensor_mesh(output).filter(|mesh| mesh.shape.len() == 1) else { return };
    let ranks = mesh.devices.len();
    let count = prepared.labels.rank_count().filter(|_| ranks == prepared.plans.len());
    let count = count.map_or_else(|| ranks.to_string(), str::to_owned);
    let mut extents: Vec<String> =
        program.domains(output).iter().map(|domain| short_expr_text(program, domain.extent)).collect();
    let has_slices = extents.first() == Some(&count);
    if has_slices {
        extents.remove(0);
    }
    let dtype = word_of_dtype(program.tensor(output).dtype);
    let axes: Vec<String> = std::iter::once(format!("x:{count}")).chain(extents).collect();
    let declared = format!("declare `{name}: {dtype}[{}]`, and write `{name}[own] = ..`", axes.join(", "));
    let shared = match has_slices {
        true => format!("send each slice to all ranks, as in `wait allgather(X -> {name})`"),
        false => format!("make one of all ranks' values, as in `wait allreduce(Z -> {name})`"),
    };
    diag.notes = vec![
        format!("`{name}` has no axis over devices, so all ranks have to return the same: {declared}, or {shared}")
            .into(),
    ];
}
