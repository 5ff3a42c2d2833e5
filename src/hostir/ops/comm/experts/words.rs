//! The results of a Dispatch that nvFuser does not print: the words of the arguments that name them.

/// The experts of the received rows.
pub(super) const OUT_EXPERTS: &str = "out_topk_idx";
/// The weights of the received rows.
pub(super) const OUT_WEIGHTS: &str = "out_topk_weights";
/// The rows of the sender's tensor that were received.
pub(super) const OUT_SOURCES: &str = "out_src_idx";
/// The number of tokens that this rank sends to each rank.
pub(super) const OUT_SENT: &str = "out_n_tokens_to_rank";
/// The number of tokens that this rank receives from each.
pub(super) const OUT_RECEIVED: &str = "out_n_tokens_from_rank";
