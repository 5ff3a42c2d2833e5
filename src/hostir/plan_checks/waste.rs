//! Waits that order nothing.

use super::races::WaitUse;
use crate::diag::message;
use crate::diag::{Diag, Fix, codes};
use crate::ir::OpId;
use crate::lower::PreparedProgram;
use rustc_hash::FxHashMap;

/// The ops whose waits order nothing new on any rank and in any iteration.
pub(super) fn redundant_waits(waits: &FxHashMap<OpId, WaitUse>) -> Vec<OpId> {
    let mut redundant: Vec<OpId> =
        waits.iter().filter(|(_, uses)| uses.needed == 0 && uses.redundant > 0).map(|(&op, _)| op).collect();
    redundant.sort_unstable();
    redundant
}

/// The warnings for ops that order nothing.
pub(super) fn report_waste(prepared: &PreparedProgram, redundant: &[OpId]) -> Vec<Diag> {
    redundant.iter().map(|&op| describe_redundant(prepared, op)).collect()
}

fn describe_redundant(prepared: &PreparedProgram, op: OpId) -> Diag {
    let labels = &prepared.labels;
    let message = message!("`{}` orders nothing: what it waits for has ended already", labels.quoted_statement(op));
    Diag::error(codes::REDUNDANT_WAIT, labels.op_span(op), message)
        .into_warning()
        .with_fix(Fix::in_words("remove it, unless other sizes or numbers of streams need it"))
}
