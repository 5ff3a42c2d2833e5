//! Mixtures of experts: `Dispatch` sends tokens to the ranks of their experts, `Combine` returns them.
//!
//! The experts are divided among the ranks in order. The result of a Dispatch has, on each rank, as many rows for each
//! sending rank: its slots. A row without a token is 0, its expert `num_experts`, its source -1. Sizes thus do not
//! depend on data, and the counts stay on the device.

mod checks;
mod links;
mod lowering;
mod words;

use super::BACKENDS;
use crate::diag::codes;
use crate::ir::{AttrKey, CommunicationEffect, OpEffect, OpIdentity, OpLayout};
use crate::ops::spec::{ArgKind, ArgSpec, Infer, Lower, OpSpec};
use crate::plan::ComputedIndexFault;
use words::{OUT_EXPERTS, OUT_RECEIVED, OUT_SENT, OUT_SOURCES, OUT_WEIGHTS};

/// A token that has no slot.
const CAPACITY_FAULT: ComputedIndexFault = ComputedIndexFault {
    code: codes::CAPACITY,
    item: "token",
    finding: "is beyond the capacity of its expert's rank",
    note: "the rows of `out=` are divided evenly among the sending ranks: give it as many rows as one rank has \
                   tokens, times the number of ranks, or fewer if no rank sends more to one other",
    counted: Some("expert"),
};

/// A source that is no token.
const SOURCE_FAULT: ComputedIndexFault = ComputedIndexFault {
    code: codes::TOKEN_INDEX,
    item: "returned element",
    finding: "names no token",
    note: "`src_idx=` is the `out_src_idx=` of the Dispatch: rows of the sender's tensor, or -1 in rows without \
                   a token",
    counted: None,
};

/// `Dispatch`.
pub const DISPATCH: OpSpec = OpSpec {
    identity: OpIdentity {
        name: "Dispatch",
        layout: OpLayout::Keyed,
        results: 0,
        effect: OpEffect::Communicate(CommunicationEffect::ExpertExchange),
        ..OpIdentity::TENSOR_OP
    },
    spellings: &[],
    summary: "Sends tokens to the ranks of their experts, in order of the expert and the token.",
    args: &[
        ArgSpec::tight("num_experts", AttrKey::NumExperts, ArgKind::Expr),
        ArgSpec::tight("backend", AttrKey::Backend, ArgKind::Word(BACKENDS)).optional(),
        ArgSpec::keyed_operand("in"),
        ArgSpec::keyed_operand("topk_idx"),
        ArgSpec::keyed_operand("topk_weights"),
        ArgSpec::keyed_result("out"),
        ArgSpec::keyed_result(OUT_EXPERTS).optional(),
        ArgSpec::keyed_result(OUT_WEIGHTS).optional(),
        ArgSpec::keyed_result(OUT_SOURCES).optional(),
        ArgSpec::keyed_result(OUT_SENT).optional(),
        ArgSpec::keyed_result(OUT_RECEIVED).optional(),
    ],
    relate: Some(links::link_dispatch),
    infer: Infer::Written,
    checks: &[checks::check_dispatch],
    repair: None,
    lower: Lower::Indexed(lowering::lower_dispatch, CAPACITY_FAULT),
};

/// `Combine`.
pub const COMBINE: OpSpec = OpSpec {
    identity: OpIdentity {
        name: "Combine",
        layout: OpLayout::Keyed,
        results: 0,
        effect: OpEffect::Communicate(CommunicationEffect::ExpertExchange),
        ..OpIdentity::TENSOR_OP
    },
    spellings: &[],
    summary: "Returns rows from the experts to the tokens that a Dispatch sent; adds up rows of one token.",
    args: &[
        ArgSpec::tight("backend", AttrKey::Backend, ArgKind::Word(BACKENDS)).optional(),
        ArgSpec::keyed_operand("in"),
        ArgSpec::keyed_operand("topk_weights"),
        ArgSpec::keyed_operand("src_idx"),
        ArgSpec::keyed_result("out"),
    ],
    relate: Some(links::link_combine),
    infer: Infer::Written,
    checks: &[checks::check_combine],
    repair: Some(checks::combine_repair),
    lower: Lower::Indexed(lowering::lower_combine, SOURCE_FAULT),
};
