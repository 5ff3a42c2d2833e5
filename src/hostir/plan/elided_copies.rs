//! The copies around GEMMs that cost nothing: a GEMM can write to the destination of its result's copy, and read the
//! source of its factor's copy, also if the copy is a transposition. The CUDA backend leaves such copies out, and the
//! cost model counts no time for them.
//!
//! Loops that overlap communication with GEMMs copy a rank's own shard, which no message brings, to the place of the
//! others' shards, so that all iterations look alike. On a device that copy competes with the GEMM beside it for memory
//! bandwidth.
//!
//! Both rewrites need memory that no other instruction accesses: a buffer that is no input or output, and whose copied
//! elements only the GEMM and the copy access, in the whole plan. They also need an order. Between a GEMM and the copy
//! of its result their stream neither waits for an event nor records one, so all earlier users of the copy's
//! destination have finished before the GEMM, too. And no instruction writes the source after the copy: work that is
//! ordered after the copy, on any stream, follows all writes to the source.

use super::Plan;
use super::inst::{BufferKind, GemmInst, InstId, InstKind};
use super::view::{BufferId, BufferView, ViewDim};
use super::view_overlap::{are_disjoint, is_same_view};
use rustc_hash::{FxHashMap, FxHashSet};

/// The GEMMs with redirected operands and the copies that they make unnecessary.
#[derive(Default, Debug)]
pub struct ElidedCopies {
    /// GEMMs with their new operands, and the positions of the copies that they replace.
    pub gemms: FxHashMap<InstId, (GemmInst, Vec<InstId>)>,
    /// Copies that are not made.
    pub gone: FxHashSet<InstId>,
}

/// One look at a buffer.
struct BufferAccess {
    position: InstId,
    view: BufferView,
    writes: bool,
}

struct CopyElision<'p> {
    plan: &'p Plan,
    takes_factors: fn(&GemmInst) -> bool,
    accesses: FxHashMap<BufferId, Vec<BufferAccess>>,
    found: ElidedCopies,
}

/// Finds the copies of a plan that can be left out. `takes_factors` says whether a GEMM is computed where its factors
/// are transposed.
pub fn elide_copies(plan: &Plan, takes_factors: fn(&GemmInst) -> bool) -> ElidedCopies {
    let mut accesses: FxHashMap<BufferId, Vec<BufferAccess>> = FxHashMap::default();
    for (position, inst) in plan.cursor() {
        let reads = inst.kind.read_views().into_iter().map(|view| (view, false));
        for (view, writes) in reads.chain(inst.kind.written_views().into_iter().map(|view| (view, true))) {
            let access = BufferAccess { position, view: view.clone(), writes };
            accesses.entry(view.buffer).or_default().push(access);
        }
    }
    let mut redirect = CopyElision { plan, takes_factors, accesses, found: ElidedCopies::default() };
    for (position, inst) in plan.cursor() {
        if let InstKind::Copy { src, dst } = &inst.kind
            && dst.is_contiguous()
            && !(src.is_contiguous() && redirect.redirect_result(position, src, dst))
        {
            redirect.redirect_factors(position, src, dst);
        }
    }
    redirect.found
}

impl CopyElision<'_> {
    /// Makes the GEMM whose result is copied write to the copy's destination.
    fn redirect_result(&mut self, copy: InstId, src: &BufferView, dst: &BufferView) -> bool {
        let Some([made, read]) = self.accesses_to(src).and_then(|all| <[_; 2]>::try_from(all).ok()) else {
            return false;
        };
        let private = self.is_private(src.buffer) && made.1 && read == (copy, false);
        let gemm_id = made.0;
        let Some(gemm) = self.current_gemm(gemm_id).filter(|_| private && gemm_id < copy) else {
            return false;
        };
        let straight = self.plan.inst(gemm_id).stream == self.plan.inst(copy).stream
            && self.plan.cursor_between(gemm_id, copy).all(|(between, _)| self.is_independent(between, copy, dst));
        let Some(out) = redirect_view(&gemm.out, src, dst).filter(|_| straight) else { return false };
        let disjoint = gemm.read_views().all(|view| are_disjoint(view, &out));
        if !disjoint {
            return false;
        }
        self.replace_gemm(gemm_id, GemmInst { out, ..gemm }, copy);
        true
    }

    /// Makes the GEMMs that read a copy, which has no other readers, read its source.
    fn redirect_factors(&mut self, copy: InstId, src: &BufferView, dst: &BufferView) {
        let Some(all) = self.accesses_to(dst).filter(|_| self.is_private(dst.buffer)) else {
            return;
        };
        let stays = self.accesses.get(&src.buffer).is_none_or(|all| {
            let mut after = all.iter().filter(|access| access.writes && access.position > copy);
            after.all(|access| are_disjoint(&access.view, src))
        });
        if !stays || all.len() < 2 {
            return;
        }
        let mut changed: Vec<(InstId, GemmInst)> = Vec::new();
        for (position, writes) in all {
            if position == copy && writes {
                continue;
            }
            let here = !writes && position > copy;
            let known = changed.iter().position(|(other, _)| *other == position);
            let gemm = match known {
                Some(at) => Some(changed.swap_remove(at).1),
                None => self.current_gemm(position),
            };
            let Some(gemm) = gemm.filter(|_| here).and_then(|gemm| read_from_source(gemm, src, dst)) else {
                return;
            };
            if !src.is_contiguous() && !(self.takes_factors)(&gemm) {
                return;
            }
            changed.push((position, gemm));
        }
        for (position, gemm) in changed {
            self.replace_gemm(position, gemm, copy);
        }
    }

    fn replace_gemm(&mut self, gemm_id: InstId, gemm: GemmInst, copy: InstId) {
        let entry = self.found.gemms.entry(gemm_id).or_insert_with(|| (gemm.clone(), Vec::new()));
        entry.0 = gemm;
        entry.1.push(copy);
        self.found.gone.insert(copy);
    }

    /// A GEMM in its current form.
    fn current_gemm(&self, position: InstId) -> Option<GemmInst> {
        match (self.found.gemms.get(&position), &self.plan.inst(position).kind) {
            (Some((gemm, _)), _) => Some(gemm.clone()),
            (None, InstKind::Gemm(gemm)) => Some((**gemm).clone()),
            (None, _) => None,
        }
    }

    fn is_private(&self, buffer: BufferId) -> bool {
        !matches!(self.plan.buffers[buffer].kind, BufferKind::Input(_))
            && self.plan.outputs.iter().flatten().all(|view| view.buffer != buffer)
    }

    /// The positions that access any element of a view, and whether they write; `None` if one of them accesses other
    /// elements too.
    fn accesses_to(&self, view: &BufferView) -> Option<Vec<(InstId, bool)>> {
        let all = self.accesses.get(&view.buffer)?.iter();
        let near = all.filter(|access| !are_disjoint(&access.view, view));
        near.map(|access| is_same_view(&access.view, view).then_some((access.position, access.writes))).collect()
    }

    /// Returns true if an instruction between a GEMM and the copy of its result is on another stream, or at least
    /// accesses neither the destination nor other streams.
    fn is_independent(&self, between: InstId, copy: InstId, dst: &BufferView) -> bool {
        let inst = self.plan.inst(between);
        if inst.stream != self.plan.inst(copy).stream {
            return true;
        }
        let mut views = inst.kind.read_views().into_iter().chain(inst.kind.written_views());
        inst.kind.is_local() && views.all(|view| are_disjoint(view, dst))
    }
}

/// The dims along which a view has several elements.
fn extended_dims(view: &BufferView) -> impl Iterator<Item = &ViewDim> {
    view.dims.iter().filter(|dim| dim.extent > 1)
}

/// Rewrites `view` for the case that the elements of `from` are in `to`; `None` if that is impossible.
fn redirect_view(view: &BufferView, from: &BufferView, to: &BufferView) -> Option<BufferView> {
    let [from_extents, to_extents] = [from, to].map(|view| extended_dims(view).map(|dim| dim.extent));
    if !is_same_view(view, from) || !from_extents.eq(to_extents) {
        return None;
    }
    let mut strides = extended_dims(to).map(|dim| dim.stride);
    let mut view = BufferView { buffer: to.buffer, offset: to.offset, ..view.clone() };
    for dim in view.dims.iter_mut().filter(|dim| dim.extent > 1) {
        dim.stride = strides.next()?;
    }
    Some(view)
}

/// The GEMM with `src` in the place of its copy `dst`; `None` if its result is in `dst`.
fn read_from_source(mut gemm: GemmInst, src: &BufferView, dst: &BufferView) -> Option<GemmInst> {
    for operand in gemm.read_views_mut() {
        if let Some(view) = redirect_view(operand, dst, src) {
            *operand = view;
        }
    }
    are_disjoint(src, &gemm.out).then_some(gemm)
}
