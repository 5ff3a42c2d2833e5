//! GEMMs that store their result in the memory of another rank.
//!
//! A message on a stream whose sender is the initiator (`put`) copies what the sender has computed. If that is the
//! result of the GEMM in front of it on its stream, and nothing else reads the result, the GEMM can store in the
//! receiver's memory itself: it waits for what the message waits for, and the semaphore of the receiver is set behind
//! it. Then nothing is copied, the result has no memory at the sender, and the links carry it while the GEMM computes.
//!
//! The proof of the program holds for this order too. The GEMM starts no earlier than in the plan, and no later than the
//! message may: nothing on the stream lies between the two. It writes the receiver's memory in the span of time in
//! which the message may write it. That it does not write the sender's memory is seen by nobody.

use crate::codegen::alias;
use crate::codegen::alias::is_same_view;
use crate::fuse::FusedInst;
use crate::gemm_lowering;
use hostir::plan::{BufferId, BufferKind, BufferView, GemmInst, InstKind, Plan, StreamSlot};
use rustc_hash::{FxHashMap, FxHashSet};

/// A GEMM and the message that sends its result, by their places among the items.
#[derive(Clone, Copy)]
struct DirectPair {
    gemm: usize,
    send: usize,
}

/// Replaces each GEMM whose result only a message sends, and the message, by one item at the message's place.
pub(super) fn join_sends(plan: &Plan, items: Vec<FusedInst>) -> Vec<FusedInst> {
    let found = direct_pairs(plan, &items);
    if found.is_empty() {
        return items;
    }
    let mut items: Vec<Option<FusedInst>> = items.into_iter().map(Some).collect();
    for DirectPair { gemm, send } in found {
        let (Some(producer), Some(FusedInst::Inst(message))) = (items[gemm].take(), &items[send]) else { continue };
        let message = *message;
        let (product, at, of) = match producer {
            FusedInst::Gemm { gemm, at, of } => (gemm, at, of),
            FusedInst::Inst(at) => match &plan.inst(at).kind {
                InstKind::Gemm(gemm) => (gemm.clone(), at, Vec::new()),
                _ => continue,
            },
            FusedInst::Kernel { .. } | FusedInst::Reduce { .. } | FusedInst::DirectGemm { .. } => continue,
        };
        items[send] = Some(FusedInst::DirectGemm { gemm: product, at, of, send: message });
    }
    items.into_iter().flatten().collect()
}

/// The pairs whose results nothing else reads.
fn direct_pairs(plan: &Plan, items: &[FusedInst]) -> Vec<DirectPair> {
    let mut pairs = neighbouring_pairs(plan, items);
    let outputs: FxHashSet<BufferId> = plan.outputs.iter().flatten().map(|view| view.buffer).collect();
    pairs.retain(|pair| {
        let buffer = result_view(plan, &items[pair.gemm]).map(|view| view.buffer);
        buffer.is_some_and(|buffer| {
            !outputs.contains(&buffer) && !matches!(plan.buffers[buffer].kind, BufferKind::Input(_))
        })
    });
    // A pair that is given up is one more reader.
    loop {
        let readers = other_readers(plan, items, &pairs);
        let count = pairs.len();
        pairs.retain(|pair| is_unread(plan, &items[pair.gemm], &readers));
        if pairs.len() == count {
            return pairs;
        }
    }
}

/// The pairs of a GEMM and a message that follow each other on a stream.
fn neighbouring_pairs(plan: &Plan, items: &[FusedInst]) -> Vec<DirectPair> {
    let mut last: FxHashMap<StreamSlot, usize> = FxHashMap::default();
    let mut pairs = Vec::new();
    for (place, item) in items.iter().enumerate() {
        let inst = plan.inst(crate::memory_layout::inst_position(item));
        let before = match &inst.kind {
            InstKind::Alloc { .. } | InstKind::Free { .. } => continue,
            _ => last.insert(inst.stream, place),
        };
        if let (InstKind::Send { comm: None, put: true, view, .. }, Some(before)) = (&inst.kind, before)
            && gemm_of(plan, &items[before]).is_some_and(|gemm| can_store_at_peer(&gemm, view))
        {
            pairs.push(DirectPair { gemm: before, send: place });
        }
    }
    pairs
}

/// Whether a GEMM is the library's, and computes just what a message sends.
fn can_store_at_peer(gemm: &GemmInst, sent: &BufferView) -> bool {
    let narrow = gemm.a.dtype.is_fp8_factor() && gemm.b.dtype.is_fp8_factor();
    let fits = gemm.out.dtype == sent.dtype && is_same_view(&gemm.out, sent) && sent.is_contiguous();
    let reads_result = [&gemm.a, &gemm.b].into_iter().chain(&gemm.bias).any(|view| !alias::are_disjoint(view, sent));
    fits && !narrow && !reads_result && gemm_lowering::gemm_calls(gemm, false).is_some()
}

fn gemm_of(plan: &Plan, item: &FusedInst) -> Option<GemmInst> {
    match item {
        FusedInst::Gemm { gemm, .. } => Some((**gemm).clone()),
        FusedInst::Inst(at) => match &plan.inst(*at).kind {
            InstKind::Gemm(gemm) => Some((**gemm).clone()),
            _ => None,
        },
        FusedInst::Kernel { .. } | FusedInst::Reduce { .. } | FusedInst::DirectGemm { .. } => None,
    }
}

fn result_view(plan: &Plan, item: &FusedInst) -> Option<BufferView> {
    gemm_of(plan, item).map(|gemm| gemm.out)
}

/// For each buffer: the views of it that are read by others than the messages of the pairs.
fn other_readers(plan: &Plan, items: &[FusedInst], pairs: &[DirectPair]) -> FxHashMap<BufferId, Vec<BufferView>> {
    let messages: FxHashSet<usize> = pairs.iter().map(|pair| pair.send).collect();
    let mut found: FxHashMap<BufferId, Vec<BufferView>> = FxHashMap::default();
    for (_, item) in items.iter().enumerate().filter(|(place, _)| !messages.contains(place)) {
        for view in read_views(plan, item) {
            let list = found.entry(view.buffer).or_default();
            if !list.contains(&view) {
                list.push(view);
            }
        }
    }
    found
}

fn read_views(plan: &Plan, item: &FusedInst) -> Vec<BufferView> {
    match item {
        FusedInst::Inst(at) => plan.inst(*at).kind.read_views().into_iter().cloned().collect(),
        FusedInst::Kernel { kernel, .. } | FusedInst::Reduce { kernel, .. } => kernel.inputs.to_vec(),
        FusedInst::Gemm { gemm, .. } | FusedInst::DirectGemm { gemm, .. } => {
            [&gemm.a, &gemm.b].into_iter().chain(&gemm.bias).cloned().collect()
        }
    }
}

fn is_unread(plan: &Plan, item: &FusedInst, readers: &FxHashMap<BufferId, Vec<BufferView>>) -> bool {
    result_view(plan, item).is_some_and(|result| {
        let mut all = readers.get(&result.buffer).into_iter().flatten();
        all.all(|view| alias::are_disjoint(view, &result))
    })
}
