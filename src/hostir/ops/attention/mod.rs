//! Attention: `sdpa`, and `sdpa_bwd`, its gradients, with the shapes of PyTorch's `scaled_dot_product_attention`.
//!
//! Queries `[.., H, L, E]`, keys `[.., H / g, S, E]` and values `[.., H / g, S, D]` give
//! `softmax(scale * q @ k^T + bias) @ v`, of shape `[.., H, L, D]`, and the logarithm of each row's sum of exponentials,
//! `[.., H, L]`. A head of keys and values serves `g` heads of queries.

mod attributes;
mod backward;
mod checks;
mod forward;
mod links;
mod shapes;
mod single_inst;
mod types;

use super::spec::{ArgKind, ArgSpec, EqualsSpacing, Infer, Lower, OpSpec, UsualValue};
use crate::ir::{ArgumentsEnd, OpIdentity, OpLayout};
use attributes::{CAUSAL, DROPOUT, SCALE};

const NO_DROPOUT: UsualValue = UsualValue::Double("0");

/// `sdpa`.
pub const SDPA: OpSpec = OpSpec {
    identity: OpIdentity {
        name: "sdpa",
        layout: OpLayout::ArgumentLines(ArgumentsEnd::ByStyle),
        results: 4,
        reshapes: true,
        whole_results: 2,
        ..OpIdentity::TENSOR_OP
    },
    spellings: &[],
    summary: "Computes attention: a softmax of scaled scores of queries and keys, plus a bias and under a mask if given, times the values. Its other results are the logarithms of the sums of exponentials, and the seed and offset of a dropout, which are zero.",
    args: &[
        ArgSpec::operand(ArgKind::Tensor),
        ArgSpec::operand(ArgKind::Tensor),
        ArgSpec::operand(ArgKind::Tensor),
        ArgSpec::keyed_operand("bias").optional(),
        ArgSpec::keyed_operand("mask").optional(),
        ArgSpec::spaced("dropout_p", DROPOUT, ArgKind::Expr).with_usual(NO_DROPOUT),
        ArgSpec::spaced("is_causal", CAUSAL, ArgKind::Expr)
            .with_usual(UsualValue::False)
            .with_equals(EqualsSpacing::Attention),
        ArgSpec::spaced("scale", SCALE, ArgKind::Expr).optional().with_equals(EqualsSpacing::Attention),
    ],
    relate: Some(links::link_sdpa),
    infer: Infer::Results(types::infer_sdpa),
    checks: &[checks::check_sdpa],
    repair: None,
    lower: Lower::Instructions(forward::lower_sdpa),
};

/// `sdpa_bwd`.
pub const SDPA_BWD: OpSpec = OpSpec {
    identity: OpIdentity {
        name: "sdpa_bwd",
        layout: OpLayout::ArgumentLines(ArgumentsEnd::Commas),
        results: 3,
        reshapes: true,
        ..OpIdentity::TENSOR_OP
    },
    spellings: &[],
    summary: "Computes the gradients of attention by its queries, keys and values, from that of its result, its operands and its results.",
    args: &[
        ArgSpec::operand(ArgKind::Tensor),
        ArgSpec::operand(ArgKind::Tensor),
        ArgSpec::operand(ArgKind::Tensor),
        ArgSpec::operand(ArgKind::Tensor),
        ArgSpec::operand(ArgKind::Tensor),
        ArgSpec::keyed_operand("logsum_exp").with_equals(EqualsSpacing::Spaced),
        ArgSpec::spaced("dropout_p", DROPOUT, ArgKind::Expr).with_usual(NO_DROPOUT),
        ArgSpec::spaced("is_causal", CAUSAL, ArgKind::Expr).with_usual(UsualValue::False),
        ArgSpec::keyed_operand("philox_seed").with_equals(EqualsSpacing::Spaced),
        ArgSpec::keyed_operand("philox_offset").with_equals(EqualsSpacing::Spaced),
        ArgSpec::spaced("scale", SCALE, ArgKind::Expr).optional(),
    ],
    relate: Some(links::link_sdpa_bwd),
    infer: Infer::Results(types::infer_sdpa_bwd),
    checks: &[checks::check_sdpa_bwd],
    repair: None,
    lower: Lower::Instructions(backward::lower_sdpa_bwd),
};
