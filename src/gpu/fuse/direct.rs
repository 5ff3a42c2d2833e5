//! GEMMs that store their result in the memory of another rank.
//!
//! A message on a stream whose sender is the initiator (`put`) copies data that the sender has computed. If that is the
//! result of the GEMM in front of it on its stream, and nothing else reads the result, the GEMM can store into the
//! receiver's memory itself: it waits for what the message waits for, and the receiver's semaphore is signalled after
//! it. Then there is no copy, the result has no memory at the sender, and the links carry it while the GEMM computes.
//!
//! The proof of the program holds for this order too. The GEMM starts no earlier than in the plan, and no later than
//! the message may: the stream has no work between the two. It writes the receiver's memory in the time in which the
//! message may write it. It does not write the sender's memory, which nothing reads.

use crate::codegen::alias;
use crate::codegen::alias::is_same_view;

use crate::fuse::gemm_pairs::{GemmPair, gemm_of_item, sole_reader_pairs};
use crate::fused_inst::FusedInst;
use crate::gemm_lowering;
use crate::gemm_lowering::fp8;
use hostir::plan::{BufferView, GemmInst, InstId, InstKind, Plan};

/// Replaces each GEMM whose result only a message sends, and the message, by one item at the message's place, if
/// `accept` accepts the GEMM and the position of the message.
pub fn join_sends(plan: &Plan, items: Vec<FusedInst>, accept: impl Fn(&GemmInst, InstId) -> bool) -> Vec<FusedInst> {
    let found = sole_reader_pairs(plan, &items, |gemm, reader| match reader {
        FusedInst::Inst(at) => match &plan.inst(*at).kind {
            InstKind::Message { header, view } if header.direction.is_send() && header.initiates_transfer() => {
                computes_message(gemm, view) && accept(gemm, *at)
            }
            _ => false,
        },
        _ => false,
    });
    let mut items: Vec<Option<FusedInst>> = items.into_iter().map(Some).collect();
    for GemmPair { gemm, reader } in found {
        let gemm_inst = items[gemm].as_ref().and_then(|item| gemm_of_item(plan, item));
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

/// Returns true if the library computes a GEMM wherever its result is. For 8-bit factors that depends on the device,
/// and on the place of the result.
pub(super) fn is_library_gemm(gemm: &GemmInst) -> bool {
    !fp8::has_fp8_factors(gemm) && gemm_lowering::gemm_calls(gemm).is_some()
}

/// Returns true if a GEMM computes exactly what a message sends.
fn computes_message(gemm: &GemmInst, sent: &BufferView) -> bool {
    let fits = gemm.out.dtype == sent.dtype && is_same_view(&gemm.out, sent) && sent.is_contiguous();
    let disjoint = gemm.read_views().all(|view| alias::are_disjoint(view, sent));
    fits && disjoint
}
