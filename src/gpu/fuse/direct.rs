//! GEMMs that store their result in the memory of another rank ([`hostir::plan::direct_store_pairs`]), and several of
//! these as one item.

use crate::fused_inst::{FusedInst, StoredGemm};
use hostir::plan::{
    BufferId, BufferView, GemmInst, GemmPair, InstId, InstKind, Plan, StreamSlot, WorkItem, WorkSlot, are_disjoint,
    direct_store_pairs,
};

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

/// Joins GEMMs that store for the messages of one complete exchange, and the GEMM of the rank's own part after them, at
/// the place of the last one. They follow each other on a stream, on which only waits for these messages are between
/// them, and multiply by the same matrix. `exchange` has the exchange of a message; `accept` says whether GEMMs can be
/// one item.
pub fn join_stores(
    plan: &Plan,
    items: Vec<FusedInst>,
    exchange: impl Fn(InstId) -> Option<InstId>,
    accept: impl Fn(&[StoredGemm]) -> bool,
) -> Vec<FusedInst> {
    let groups = store_groups(plan, &items, exchange);
    let mut items: Vec<Option<FusedInst>> = items.into_iter().map(Some).collect();
    for StoreGroup { places, parts, .. } in groups {
        let Some(&last) = places.last().filter(|_| accept(&parts)) else { continue };
        places.iter().for_each(|place| items[*place] = None);
        items[last] = Some(FusedInst::StoreGemms(parts));
    }
    items.into_iter().flatten().collect()
}

/// GEMMs that may be joined.
struct StoreGroup {
    stream: StreamSlot,
    exchange: InstId,
    /// Their places among the items.
    places: Vec<usize>,
    parts: Vec<StoredGemm>,
}

impl StoreGroup {
    /// Returns true if a GEMM may be computed together with these: it has the form of the first one, and writes nothing
    /// that they read.
    fn takes_gemm(&self, gemm: &GemmInst) -> bool {
        let first = &self.parts[0].gemm;
        let plain = gemm.bias.is_none() && gemm.scales.is_none();
        let alike = gemm.b == first.b && has_form(&gemm.a, &first.a) && has_form(&gemm.out, &first.out);
        plain && alike
    }

    fn leaves_operands(&self, gemm: &GemmInst) -> bool {
        self.parts.iter().flat_map(|part| part.gemm.read_views()).all(|view| are_disjoint(view, &gemm.out))
    }

    fn push_part(&mut self, place: usize, part: StoredGemm) {
        self.places.push(place);
        self.parts.push(part);
    }

    fn reads_buffer(&self, buffer: BufferId) -> bool {
        self.parts.iter().flat_map(|part| part.gemm.read_views()).any(|view| view.buffer == buffer)
    }

    /// Returns true if the group has the message of a handle.
    fn has_message(&self, plan: &Plan, work: WorkSlot) -> bool {
        let mut sends = self.parts.iter().filter_map(|part| part.send);
        sends.any(|send| plan.inst(send).kind.message().is_some_and(|message| message.work == work))
    }
}

fn has_form(one: &BufferView, other: &BufferView) -> bool {
    one.dims == other.dims && one.dtype == other.dtype
}

/// The groups of two and more GEMMs.
fn store_groups(plan: &Plan, items: &[FusedInst], exchange: impl Fn(InstId) -> Option<InstId>) -> Vec<StoreGroup> {
    let (mut open, mut closed): (Vec<StoreGroup>, Vec<StoreGroup>) = Default::default();
    for (place, item) in items.iter().enumerate() {
        let inst = plan.inst(item.plan_position());
        match (item, &inst.kind) {
            (FusedInst::Inst(_), InstKind::Alloc { .. }) => {}
            (FusedInst::Inst(_), InstKind::Free { buffer }) => {
                closed.extend(open.extract_if(.., |group| group.reads_buffer(*buffer)));
            }
            (FusedInst::Inst(_), InstKind::WaitWork { work }) => {
                // A wait on the stream of the message itself orders nothing.
                closed.extend(
                    open.extract_if(.., |group| (group.stream == inst.stream) != group.has_message(plan, *work)),
                );
            }
            _ => {
                let group = open.extract_if(.., |group| group.stream == inst.stream).next();
                let (ended, group) = continue_group(group, plan, place, item, &exchange);
                closed.extend(ended);
                open.extend(group);
            }
        }
    }
    closed.extend(open);
    closed.retain(|group| group.parts.len() > 1);
    closed
}

/// The group that ends in front of an item, and the one that includes it.
fn continue_group(
    group: Option<StoreGroup>,
    plan: &Plan,
    place: usize,
    item: &FusedInst,
    exchange: &impl Fn(InstId) -> Option<InstId>,
) -> (Option<StoreGroup>, Option<StoreGroup>) {
    if let FusedInst::DirectGemm { gemm, at, of, send } = item {
        let Some(own) = exchange(*send) else { return (group, None) };
        let part = StoredGemm { gemm: gemm.clone(), at: *at, of: of.clone(), send: Some(*send) };
        return match group {
            Some(mut group) if group.exchange == own && group.takes_gemm(gemm) => {
                group.push_part(place, part);
                (None, Some(group))
            }
            group => {
                let stream = plan.inst(*send).stream;
                (group, Some(StoreGroup { stream, exchange: own, places: vec![place], parts: vec![part] }))
            }
        };
    }
    let (at, of) = match item {
        FusedInst::Gemm { at, of, .. } => (*at, of.clone()),
        item => (item.plan_position(), Vec::new()),
    };
    match (group, item.own_gemm(plan)) {
        (Some(mut group), Some(gemm)) if group.takes_gemm(&gemm) && group.leaves_operands(&gemm) => {
            let gemm = Box::new(gemm);
            group.push_part(place, StoredGemm { gemm, at, of, send: None });
            // What follows the rank's own part is not of this exchange.
            (Some(group), None)
        }
        (group, _) => (group, None),
    }
}
