//! GEMMs that store their result in the memory of another rank ([`hostir::plan::direct_store_pairs`]).

use crate::fused_inst::FusedInst;
use hostir::plan::{GemmInst, GemmPair, InstId, Plan, WorkItem, direct_store_pairs};

/// Replaces each GEMM whose result only a message sends, and the message, by one item at the message's place, if
/// `accept` accepts the GEMM and the position of the message.
pub fn join_sends(plan: &Plan, items: Vec<FusedInst>, accept: impl Fn(&GemmInst, InstId) -> bool) -> Vec<FusedInst> {
    let found = direct_store_pairs(plan, &items, accept);
    let mut items: Vec<Option<FusedInst>> = items.into_iter().map(Some).collect();
    for GemmPair { gemm, reader } in found {
        let gemm_inst = items[gemm].as_ref().and_then(|item| item.own_gemm(plan));
        let (Some(gemm_inst), Some(FusedInst::Inst(send))) = (gemm_inst, &items[reader]) else { continue };
        let (gemm_inst, send) = (Box::new(gemm_inst), *send);
        items[reader] = match items[gemm].take() {
            Some(FusedInst::Gemm { at, of, .. }) => Some(FusedInst::DirectGemm { gemm: gemm_inst, at, of, send }),
            Some(FusedInst::Inst(at)) => Some(FusedInst::DirectGemm { gemm: gemm_inst, at, of: Vec::new(), send }),
            _ => continue,
        };
    }
    items.into_iter().flatten().collect()
}
