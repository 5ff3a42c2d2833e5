//! GEMMs paired with the one item that reads their result, and those among them whose result a message sends.
//!
//! A message on a stream whose sender is the initiator (`put`) copies data that the sender has computed. If that is the
//! result of the GEMM in front of it on its stream, and nothing else reads the result, the GEMM can store into the
//! receiver's memory itself: it waits for what the message waits for, and the receiver's semaphore is signalled after
//! it. Then there is no copy, the result has no memory at the sender, and the links carry it while the GEMM computes.
//! The CUDA backend runs such GEMMs, and the cost model counts them.
//!
//! The proof of the program holds for this order too. The GEMM starts no earlier than in the plan, and no later than
//! the message may: the stream has no work between the two. It writes the receiver's memory in the time in which the
//! message may write it. It does not write the sender's memory, which nothing reads.

use super::Plan;
use super::inst::{BufferKind, GemmInst, InstId, InstKind, StreamSlot};
use super::view::{BufferId, BufferView};
use super::view_overlap::{are_disjoint, is_same_view};
use rustc_hash::{FxHashMap, FxHashSet};

/// Work of a plan: one of its instructions, or several that were joined.
pub trait WorkItem {
    /// The instruction that gives the work its stream.
    fn plan_position(&self) -> InstId;
    /// The instruction that the work is, if it is an unchanged one.
    fn plain_inst(&self) -> Option<InstId>;
    /// The GEMM that it computes, whose result is in the rank's own memory.
    fn own_gemm(&self, plan: &Plan) -> Option<GemmInst>;
    /// The views that it reads.
    fn read_views(&self, plan: &Plan) -> Vec<BufferView>;
}

/// A GEMM and the item after it on its stream that reads its result, by their places among the items.
#[derive(Clone, Copy, Debug)]
pub struct GemmPair {
    /// The place of the GEMM.
    pub gemm: usize,
    /// The place of the reader.
    pub reader: usize,
}

/// The pairs of a GEMM and a message that sends its result to another rank, in whose memory the GEMM can store it.
/// `accept` says whether a GEMM can, for the message at a position.
pub fn direct_store_pairs<I: WorkItem>(
    plan: &Plan,
    items: &[I],
    accept: impl Fn(&GemmInst, InstId) -> bool,
) -> Vec<GemmPair> {
    sole_reader_pairs(plan, items, |gemm, reader| {
        let Some(at) = reader.plain_inst() else { return false };
        match &plan.inst(at).kind {
            InstKind::Message { header, view } if header.direction.is_send() && header.initiates_transfer() => {
                computes_message(gemm, view) && accept(gemm, at)
            }
            _ => false,
        }
    })
}

/// Returns true if a GEMM computes exactly what a message sends.
fn computes_message(gemm: &GemmInst, sent: &BufferView) -> bool {
    let fits = gemm.out.dtype == sent.dtype && is_same_view(&gemm.out, sent) && sent.is_contiguous();
    let disjoint = gemm.read_views().all(|view| are_disjoint(view, sent));
    fits && disjoint
}

/// The pairs that `accept` accepts and whose results nothing else reads: no other item, and no caller.
pub fn sole_reader_pairs<I: WorkItem>(
    plan: &Plan,
    items: &[I],
    accept: impl Fn(&GemmInst, &I) -> bool,
) -> Vec<GemmPair> {
    let outputs: FxHashSet<BufferId> = plan.outputs.iter().flatten().map(|view| view.buffer).collect();
    let mut pairs = neighbouring_pairs(plan, items, |gemm, reader| {
        let buffer = gemm.out.buffer;
        let is_input = matches!(plan.buffers[buffer].kind, BufferKind::Input(_));
        !is_input && !outputs.contains(&buffer) && accept(gemm, reader)
    });
    // A pair that is given up is one more reader.
    while !pairs.is_empty() {
        let readers = other_reads(plan, items, &pairs);
        let count = pairs.len();
        pairs.retain(|pair| is_unread(plan, &items[pair.gemm], &readers));
        if pairs.len() == count {
            break;
        }
    }
    pairs
}

/// The pairs of a GEMM and the next item on its stream.
fn neighbouring_pairs<I: WorkItem>(plan: &Plan, items: &[I], accept: impl Fn(&GemmInst, &I) -> bool) -> Vec<GemmPair> {
    let mut last: FxHashMap<StreamSlot, usize> = FxHashMap::default();
    let mut pairs = Vec::new();
    for (reader, item) in items.iter().enumerate() {
        let inst = plan.inst(item.plan_position());
        if matches!(inst.kind, InstKind::Alloc { .. } | InstKind::Free { .. }) {
            continue;
        }
        if let Some(gemm) = last.insert(inst.stream, reader)
            && items[gemm].own_gemm(plan).is_some_and(|gemm_inst| accept(&gemm_inst, item))
        {
            pairs.push(GemmPair { gemm, reader });
        }
    }
    pairs
}

/// For each buffer of a pair's result: the views that items other than the pairs' readers read.
fn other_reads<I: WorkItem>(plan: &Plan, items: &[I], pairs: &[GemmPair]) -> FxHashMap<BufferId, Vec<BufferView>> {
    let results: FxHashMap<usize, BufferView> =
        pairs.iter().filter_map(|pair| Some((pair.reader, items[pair.gemm].own_gemm(plan)?.out))).collect();
    let mut found: FxHashMap<BufferId, Vec<BufferView>> =
        results.values().map(|result| (result.buffer, Vec::new())).collect();
    for (place, item) in items.iter().enumerate() {
        let own = results.get(&place);
        for view in item.read_views(plan) {
            if let Some(list) = found.get_mut(&view.buffer)
                && own.is_none_or(|own| !is_same_view(own, &view))
            {
                list.push(view);
            }
        }
    }
    found
}

fn is_unread(plan: &Plan, item: &impl WorkItem, readers: &FxHashMap<BufferId, Vec<BufferView>>) -> bool {
    item.own_gemm(plan).is_some_and(|gemm| {
        let mut all = readers.get(&gemm.out.buffer).into_iter().flatten();
        all.all(|view| are_disjoint(view, &gemm.out))
    })
}
