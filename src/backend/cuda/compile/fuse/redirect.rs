//! Copies that products make needless: a product writes where its result is copied to, and reads what its
//! factor was copied from.
//!
//! Loops that overlap communication with products copy a rank's own part, which no message brings, to
//! where the others' parts arrive, so that all iterations look alike. On a device that copy competes
//! with the product beside it for the same memory.
//!
//! Both rewrites need memory that nobody else looks at: a buffer that is no input or output, and whose
//! copied elements only the product and the copy touch, in the whole plan. They do not rely on the order of
//! streams but for this: between a product and the copy of its result their stream neither waits nor
//! marks anything, so whoever is done with the copy's place before the copy is done before the product;
//! and nothing writes what was copied from after the copy.

use crate::codegen::alias;
use crate::codegen::alias::same;
use hostir::plan::InstId;
use hostir::plan::{BufferId, BufferKind, Dim, Gemm, InstKind, Plan, View};
use rustc_hash::{FxHashMap, FxHashSet};

/// What changes.
#[derive(Default)]
pub(super) struct Redirected {
    /// Products with their new operands, and the positions of the copies that they replace.
    pub(super) products: FxHashMap<InstId, (Gemm, Vec<InstId>)>,
    /// Copies that are not made.
    pub(super) gone: FxHashSet<InstId>,
}

/// One look at a buffer.
struct Access<'p> {
    position: InstId,
    view: &'p View,
    writes: bool,
}

struct Redirect<'p> {
    plan: &'p Plan,
    accesses: FxHashMap<BufferId, Vec<Access<'p>>>,
    found: Redirected,
}

/// Finds the copies of a plan that need not be made.
pub(super) fn redirect(plan: &Plan) -> Redirected {
    let mut accesses: FxHashMap<BufferId, Vec<Access<'_>>> = FxHashMap::default();
    for (position, inst) in plan.cursor() {
        let reads = inst.kind.reads().into_iter().map(|view| (view, false));
        for (view, writes) in reads.chain(inst.kind.writes().map(|view| (view, true))) {
            accesses.entry(view.buffer).or_default().push(Access { position, view, writes });
        }
    }
    let mut redirect = Redirect { plan, accesses, found: Redirected::default() };
    for (position, inst) in plan.cursor() {
        if let InstKind::Copy { src, dst } = &inst.kind
            && src.is_contiguous()
            && dst.is_contiguous()
            && !redirect.result(position, src, dst)
        {
            redirect.factor(position, src, dst);
        }
    }
    redirect.found
}

impl Redirect<'_> {
    /// Lets the product whose result is copied write to the copy's place.
    fn result(&mut self, copy: InstId, src: &View, dst: &View) -> bool {
        let Some([made, read]) = self.touching(src).and_then(|all| <[_; 2]>::try_from(all).ok())
        else {
            return false;
        };
        let private = self.is_private(src.buffer) && made.1 && read == (copy, false);
        let product = made.0;
        let Some(gemm) = self.product(product).filter(|_| private && product < copy) else {
            return false;
        };
        let straight = self.plan.inst(product).stream == self.plan.inst(copy).stream
            && self
                .plan
                .cursor_between(product, copy)
                .all(|(between, _)| self.is_apart(between, copy, dst));
        let Some(out) = moved(&gemm.out, src, dst).filter(|_| straight) else { return false };
        let apart = [&gemm.a, &gemm.b]
            .into_iter()
            .chain(&gemm.bias)
            .all(|view| alias::disjoint(view, &out));
        if !apart {
            return false;
        }
        self.replace(product, Gemm { out, ..gemm }, copy);
        true
    }

    /// Lets the products that read a copy, and nothing else does, read what it is a copy of.
    fn factor(&mut self, copy: InstId, src: &View, dst: &View) {
        let stream = self.plan.inst(copy).stream;
        let Some(all) = self.touching(dst).filter(|_| self.is_private(dst.buffer)) else { return };
        let stays = self.accesses.get(&src.buffer).is_none_or(|all| {
            let mut after = all.iter().filter(|access| access.writes && access.position > copy);
            after.all(|access| alias::disjoint(access.view, src))
        });
        if !stays || all.len() < 2 {
            return;
        }
        let mut changed: Vec<(InstId, Gemm)> = Vec::new();
        for (position, writes) in all {
            if position == copy && writes {
                continue;
            }
            let here = !writes && position > copy && self.plan.inst(position).stream == stream;
            let known = changed.iter().position(|(other, _)| *other == position);
            let gemm = match known {
                Some(at) => Some(changed.swap_remove(at).1),
                None => self.product(position),
            };
            let Some(gemm) = gemm.filter(|_| here).and_then(|gemm| reads_instead(gemm, src, dst))
            else {
                return;
            };
            changed.push((position, gemm));
        }
        for (position, gemm) in changed {
            self.replace(position, gemm, copy);
        }
    }

    fn replace(&mut self, product: InstId, gemm: Gemm, copy: InstId) {
        let entry =
            self.found.products.entry(product).or_insert_with(|| (gemm.clone(), Vec::new()));
        entry.0 = gemm;
        entry.1.push(copy);
        self.found.gone.insert(copy);
    }

    /// A product as it is by now.
    fn product(&self, position: InstId) -> Option<Gemm> {
        match (self.found.products.get(&position), &self.plan.inst(position).kind) {
            (Some((gemm, _)), _) => Some(gemm.clone()),
            (None, InstKind::Gemm(gemm)) => Some((**gemm).clone()),
            (None, _) => None,
        }
    }

    fn is_private(&self, buffer: BufferId) -> bool {
        !matches!(self.plan.buffers[buffer].kind, BufferKind::Input(_))
            && self.plan.outputs.iter().flatten().all(|view| view.buffer != buffer)
    }

    /// Positions that touch any element of a view, and whether they write; `None` if one of them touches
    /// other elements too.
    fn touching(&self, view: &View) -> Option<Vec<(InstId, bool)>> {
        let all = self.accesses.get(&view.buffer)?.iter();
        let near = all.filter(|access| !alias::disjoint(access.view, view));
        near.map(|access| same(access.view, view).then_some((access.position, access.writes)))
            .collect()
    }

    /// Whether an instruction between a product and the copy of its result keeps off the copy's stream,
    /// or at least off its place and off other streams.
    fn is_apart(&self, between: InstId, copy: InstId, dst: &View) -> bool {
        let inst = self.plan.inst(between);
        if inst.stream != self.plan.inst(copy).stream {
            return true;
        }
        let mut views = inst.kind.reads().into_iter().chain(inst.kind.writes());
        inst.kind.is_local() && views.all(|view| alias::disjoint(view, dst))
    }
}

/// The dims along which a view has several elements.
fn long(view: &View) -> impl Iterator<Item = &Dim> {
    view.dims.iter().filter(|dim| dim.extent > 1)
}

/// What `view` becomes when what it shows, `from`, lies at `to`.
fn moved(view: &View, from: &View, to: &View) -> Option<View> {
    let extents = |view| long(view).map(|dim: &Dim| dim.extent);
    if !same(view, from) || !extents(from).eq(extents(to)) {
        return None;
    }
    let mut strides = long(to).map(|dim| dim.stride);
    let mut view = View { buffer: to.buffer, offset: to.offset, ..view.clone() };
    for dim in view.dims.iter_mut().filter(|dim| dim.extent > 1) {
        dim.stride = strides.next()?;
    }
    Some(view)
}

/// The product with `src` in the place of its copy `dst`; `None` if its result lies there.
fn reads_instead(mut gemm: Gemm, src: &View, dst: &View) -> Option<Gemm> {
    let operands = [Some(&mut gemm.a), Some(&mut gemm.b), gemm.bias.as_mut()];
    for operand in operands.into_iter().flatten() {
        if let Some(view) = moved(operand, dst, src) {
            *operand = view;
        }
    }
    alias::disjoint(src, &gemm.out).then_some(gemm)
}
