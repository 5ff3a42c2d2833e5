//! Axes of tensors whose text has only their parts, because nvFuser prints domains after splits.
//!
//! A domain over devices or streams is the outer part of an axis if the rest of the axis is printed, too: with the
//! extent `ceilDiv(i0, n)`, or with the next number, where the number of the whole axis is missing. Numbers decide only
//! if the ops do not contradict. The reader stores the axes as [`Tensor::logical`](crate::ir::Tensor::logical) beside
//! [`Tensor::split`](crate::ir::Tensor::split), and `print` leaves them out wherever a reader infers the same.

use crate::axes::{is_quotient, is_quotient_by, logical_axes, merged_extent};
use crate::diag::Diags;
use crate::ir::order::{has_split_numbers, implied_axes, permuted_results, split_partner};
use crate::ir::{Expr, ExprId, Id, IterDomain, OpId, Program, Tensor, TensorId};
use rustc_hash::FxHashSet;

/// The axes of a tensor before splits.
struct MergedAxes {
    /// The order of the printed domains: each part over devices or streams comes before the rest of its axis.
    order: Vec<u32>,
    /// The extents of the stored axes.
    extents: Vec<Expr>,
}

/// The reading of a tensor's domains: as axes, or as parts of axes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum DomainReading {
    Axes,
    Parts,
}

/// Decides which domains are parts of axes, for tensors whose text gives neither order nor extents of the axes.
pub(crate) fn infer_split_axes(program: &mut Program, unsaid: &[TensorId]) {
    let unsaid: Vec<TensorId> =
        unsaid.iter().copied().filter(|&tensor| has_distributed_domain(program, tensor)).collect();
    if unsaid.is_empty() {
        return;
    }
    let permuted = &permuted_results(program);
    let mut in_doubt = Vec::new();
    for tensor in unsaid {
        let has_quotient = program.domains(tensor).iter().any(|domain| is_quotient(program, domain.extent));
        if !has_quotient && has_split_numbers(program.domains(tensor)) {
            in_doubt.push(tensor);
        } else if has_quotient
            && logical_axes(program, tensor).split
            && let Some(merged) = merge_parts(program, permuted, tensor)
        {
            set_axes(program, tensor, Some(&merged));
        }
    }
    decide_by_ops(program, permuted, &in_doubt);
}

/// Decides between the two readings by the ops. A gap in the numbers of hand-written domains need not be a split. If
/// the ops fit the printed domains as they are, those are the axes; if not, the domains are parts of axes. If they fit
/// both, the spelling of 2026 means parts.
fn decide_by_ops(program: &mut Program, permuted: &[bool], in_doubt: &[TensorId]) {
    if in_doubt.is_empty() {
        return;
    }
    let doubtful: FxHashSet<TensorId> = in_doubt.iter().copied().collect();
    let ops = program
        .ops()
        .iter()
        .filter(|(_, op)| op.posted_number().is_some() || op.all_tensors().any(|tensor| doubtful.contains(&tensor)));
    let touching: Vec<OpId> = ops.map(|(id, _)| id).collect();
    let merged: Vec<Option<MergedAxes>> =
        in_doubt.iter().map(|&tensor| merge_parts(program, permuted, tensor)).collect();
    let as_axes = count_faults(program, &touching);
    let before: Vec<Tensor> = in_doubt.iter().map(|&tensor| program.tensors[tensor].clone()).collect();
    for (&tensor, merged) in in_doubt.iter().zip(&merged) {
        set_axes(program, tensor, merged.as_ref());
    }
    let as_parts = count_faults(program, &touching);
    let told = program.style.call_form && merged.iter().all(Option::is_some);
    let reading = match as_axes.cmp(&as_parts) {
        std::cmp::Ordering::Greater => DomainReading::Parts,
        std::cmp::Ordering::Equal if told => DomainReading::Parts,
        _ => DomainReading::Axes,
    };
    if reading == DomainReading::Axes {
        in_doubt.iter().zip(before).for_each(|(&tensor, old)| program.tensors[tensor] = old);
    }
}

/// Counts the errors that the checks of single ops find.
fn count_faults(program: &Program, ops: &[OpId]) -> usize {
    let mut diags = Diags::default();
    ops.iter().for_each(|&op| program.op(op).kind.spec().verify(program, op, &mut diags));
    diags.items.len()
}

fn set_axes(program: &mut Program, tensor: TensorId, merged: Option<&MergedAxes>) {
    let logical = merged.map(|merged| {
        let extents = merged.extents.iter().map(|extent| program.exprs.intern(extent.clone()));
        extents.collect::<Vec<ExprId>>().into()
    });
    let old = &mut program.tensors[tensor];
    old.split = true;
    old.logical = logical;
    if let Some(merged) = merged {
        old.axes = (!merged.order.is_sorted()).then(|| merged.order.as_slice().into());
    }
}

/// Returns true if a stored domain of the tensor is over devices or streams.
fn has_distributed_domain(program: &Program, tensor: TensorId) -> bool {
    program.domains(tensor).iter().any(is_stored_and_distributed)
}

fn is_stored_and_distributed(domain: &IterDomain) -> bool {
    domain.is_distributed() && !domain.is_reduction()
}

/// The axes of a tensor whose domains over devices and streams are outer parts of axes. `None` if no domain is, or
/// another split remains.
fn merge_parts(program: &Program, permuted: &[bool], tensor: TensorId) -> Option<MergedAxes> {
    let domains = program.domains(tensor);
    let rests = find_rests(program, domains);
    if rests.iter().all(Option::is_none) {
        return None;
    }
    let plain = implied_axes(domains, permuted[tensor.index()]).into_iter().filter(|&at| rests[at as usize].is_none());
    let mut merged = MergedAxes { order: Vec::with_capacity(domains.len()), extents: Vec::new() };
    for at in plain {
        let domain = &domains[at as usize];
        let outer = rests.iter().position(|rest| *rest == Some(at));
        merged.order.extend(outer.map(|outer| outer as u32));
        merged.order.push(at);
        if domain.is_reduction() {
            continue;
        }
        if domain.rfactor {
            return None;
        }
        merged.extents.push(match outer {
            Some(outer) => merged_extent(program, domains[outer].extent, domain.extent)?,
            None if is_quotient(program, domain.extent) => return None,
            None => program.expr(domain.extent).clone(),
        });
    }
    Some(merged)
}

/// For each domain over devices or streams that is the outer part of an axis: the domain of the rest.
fn find_rests(program: &Program, domains: &[IterDomain]) -> Vec<Option<u32>> {
    let mut rests: Vec<Option<u32>> = vec![None; domains.len()];
    for (outer, domain) in domains.iter().enumerate().filter(|(_, domain)| is_stored_and_distributed(domain)) {
        let by_number = split_partner(domains, outer).filter(|&rest| is_free_rest(domains, &rests, rest));
        let mut free = (0..domains.len()).filter(|&rest| is_free_rest(domains, &rests, rest));
        let by_extent = free.find(|&rest| is_quotient_by(program, domains[rest].extent, domain.extent));
        rests[outer] = by_number.or(by_extent).map(|rest| rest as u32);
    }
    rests
}

/// Returns true if a domain may be the rest of an axis, and is not that of another one.
fn is_free_rest(domains: &[IterDomain], rests: &[Option<u32>], rest: usize) -> bool {
    let domain = &domains[rest];
    let plain = !domain.is_distributed() && !domain.is_reduction() && !domain.is_broadcast();
    plain && !rests.contains(&Some(rest as u32))
}

/// The program as its text is written: without the axes that a reader infers. If a reader would infer others, the text
/// contains them. `None` if no axes were inferred.
pub(crate) fn leave_inferred_axes_out(program: &Program) -> Option<Program> {
    let tensors = program.tensors().iter();
    let inferred: Vec<TensorId> = tensors.filter(|(_, tensor)| tensor.has_inferred_axes()).map(|(id, _)| id).collect();
    if inferred.is_empty() {
        return None;
    }
    if let Some(unsaid) = drop_inferred_axes(program, &inferred) {
        return Some(unsaid);
    }
    let mut said = program.clone();
    inferred.iter().for_each(|&tensor| said.tensors[tensor].split = false);
    Some(said)
}

/// The program without the axes of these tensors, if a reader of its text infers just them.
fn drop_inferred_axes(program: &Program, inferred: &[TensorId]) -> Option<Program> {
    let mut unsaid = program.clone();
    let permuted = permuted_results(program);
    for &tensor in inferred {
        let axes = implied_axes(program.domains(tensor), permuted[tensor.index()]);
        let old = &mut unsaid.tensors[tensor];
        (old.logical, old.split) = (None, false);
        old.axes = (!axes.is_sorted()).then(|| axes.as_slice().into());
    }
    let mut read = unsaid.clone();
    read.tensors.ids().for_each(|tensor| read.tensors[tensor].split = false);
    let open =
        unsaid.tensors().iter().filter(|(id, tensor)| tensor.logical.is_none() && is_implied(&unsaid, &permuted, *id));
    let open: Vec<TensorId> = open.map(|(id, _)| id).collect();
    infer_split_axes(&mut read, &open);
    let same = read.tensors().iter().zip(program.tensors().iter()).all(|((_, read), (_, meant))| {
        (read.split, &read.axes, extents_text(&read.logical))
            == (meant.split, &meant.axes, extents_text(&meant.logical))
    });
    same.then_some(unsaid)
}

/// Marks the axes of a program in `hir 2`, whose text has all of them, that a reader of the printed form infers: that
/// form leaves them out.
pub(crate) fn mark_inferred_axes(program: &mut Program) {
    let tensors = program.tensors().iter().filter(|(_, tensor)| tensor.logical.is_some() && !tensor.split);
    let said: Vec<TensorId> = tensors.map(|(id, _)| id).filter(|&id| has_distributed_domain(program, id)).collect();
    if said.is_empty() {
        return;
    }
    said.iter().for_each(|&tensor| program.tensors[tensor].split = true);
    if drop_inferred_axes(program, &said).is_none() {
        said.iter().for_each(|&tensor| program.tensors[tensor].split = false);
    }
}

/// Returns true if a text without `axes=` gives the tensor its axes.
fn is_implied(program: &Program, permuted: &[bool], tensor: TensorId) -> bool {
    program.logical_axes(tensor) == implied_axes(program.domains(tensor), permuted[tensor.index()])
}

fn extents_text(logical: &Option<Box<[ExprId]>>) -> &[ExprId] {
    logical.as_deref().unwrap_or_default()
}
