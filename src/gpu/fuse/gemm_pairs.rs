//! GEMMs paired with the one item that reads their result.

use crate::codegen::alias;
use crate::fused_inst::FusedInst;
use hostir::plan::{BufferId, BufferKind, BufferView, GemmInst, InstKind, Plan, StreamSlot};
use rustc_hash::{FxHashMap, FxHashSet};

/// A GEMM and the item after it on its stream that reads its result, by their places among the items.
#[derive(Clone, Copy)]
pub(super) struct GemmPair {
    pub(super) gemm: usize,
    pub(super) reader: usize,
}

/// The pairs that `accept` accepts and whose results nothing else reads: no other item, and no caller.
pub(super) fn sole_reader_pairs(
    plan: &Plan,
    items: &[FusedInst],
    accept: impl Fn(&GemmInst, &FusedInst) -> bool,
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
fn neighbouring_pairs(
    plan: &Plan,
    items: &[FusedInst],
    accept: impl Fn(&GemmInst, &FusedInst) -> bool,
) -> Vec<GemmPair> {
    let mut last: FxHashMap<StreamSlot, usize> = FxHashMap::default();
    let mut pairs = Vec::new();
    for (reader, item) in items.iter().enumerate() {
        let inst = plan.inst(item.position());
        if matches!(inst.kind, InstKind::Alloc { .. } | InstKind::Free { .. }) {
            continue;
        }
        if let Some(gemm) = last.insert(inst.stream, reader)
            && gemm_of_item(plan, &items[gemm]).is_some_and(|gemm_inst| accept(&gemm_inst, item))
        {
            pairs.push(GemmPair { gemm, reader });
        }
    }
    pairs
}

/// The GEMM of an item that stores its result in the rank's own memory.
pub(super) fn gemm_of_item(plan: &Plan, item: &FusedInst) -> Option<GemmInst> {
    match item {
        FusedInst::Gemm { gemm, .. } => Some((**gemm).clone()),
        FusedInst::Inst(at) => match &plan.inst(*at).kind {
            InstKind::Gemm(gemm) => Some((**gemm).clone()),
            _ => None,
        },
        FusedInst::Kernel { .. } | FusedInst::Reduce { .. } | FusedInst::DirectGemm { .. } => None,
    }
}

/// For each buffer of a pair's result: the views that items other than the pairs' readers read.
fn other_reads(plan: &Plan, items: &[FusedInst], pairs: &[GemmPair]) -> FxHashMap<BufferId, Vec<BufferView>> {
    let results: FxHashMap<usize, BufferView> =
        pairs.iter().filter_map(|pair| Some((pair.reader, gemm_of_item(plan, &items[pair.gemm])?.out))).collect();
    let mut found: FxHashMap<BufferId, Vec<BufferView>> =
        results.values().map(|result| (result.buffer, Vec::new())).collect();
    for (place, item) in items.iter().enumerate() {
        let own = results.get(&place);
        for view in read_views(plan, item) {
            if let Some(list) = found.get_mut(&view.buffer)
                && own.is_none_or(|own| !alias::is_same_view(own, &view))
            {
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
        FusedInst::Gemm { gemm, .. } | FusedInst::DirectGemm { gemm, .. } => gemm.read_views().cloned().collect(),
    }
}

fn is_unread(plan: &Plan, item: &FusedInst, readers: &FxHashMap<BufferId, Vec<BufferView>>) -> bool {
    gemm_of_item(plan, item).is_some_and(|gemm| {
        let mut all = readers.get(&gemm.out.buffer).into_iter().flatten();
        all.all(|view| alias::are_disjoint(view, &gemm.out))
    })
}
