//! Common parts of the sharding passes: links between two tensors of an op, the transfer of one tensor's sharding to
//! another, and tensors that get new domains.

use crate::support::builder::{OpBuilder, printed_domain};
use hostir::axes::{LogicalAxis, logical_axes};
use hostir::diag::Diag;
use hostir::diag::message;
use hostir::ir::edit::Edit;
use hostir::ir::{
    AttrValue, AxisLink, DomainId, IterDomain, MeshId, OpEffect, OpId, ParallelType, Program, Tensor, TensorId,
    quoted_op,
};
use rustc_hash::FxHashMap;

/// A sharded tensor whose axes result from splits, in a pass that propagates shardings.
const SHARDED_SPLIT: &str = "H0360";
/// Some tensors of a program have a device mesh, but others have none.
const MIXED_MESHES: &str = "H0362";

/// The links of an op between axes that have one extent.
pub(crate) struct OpLinks(Vec<AxisLink>);

impl OpLinks {
    pub(crate) fn from_op(program: &Program, op: OpId) -> Self {
        let mut links = Vec::new();
        program.op(op).kind.spec().axes(program, op, &mut links);
        links.retain(|link| !link.broadcast);
        Self(links)
    }
    pub(crate) fn as_slice(&self) -> &[AxisLink] {
        &self.0
    }
    /// The axis of `to` that is an axis of `from`; either may be the operand.
    pub(crate) fn linked_axis(&self, from: TensorId, axis: u32, to: TensorId) -> Option<u32> {
        self.0.iter().find_map(|link| match (link.from, link.to) {
            (a, (tensor, k)) if a == (from, axis) && tensor == to => Some(k),
            ((tensor, k), b) if b == (from, axis) && tensor == to => Some(k),
            _ => None,
        })
    }
}

/// True if an op computes tensors or binds slices, which have a sharding. (Loops, streams and communications have none,
/// and kernels are opaque.)
pub(crate) fn is_tensor_op(program: &Program, op: OpId) -> bool {
    let op = program.op(op);
    matches!(op.kind.effect(), OpEffect::Pure | OpEffect::Alias) && op.output_tensors().next().is_some()
}

/// True if an axis takes memory: devices, reductions and broadcasts have one slice.
pub(crate) fn takes_room(axis: &LogicalAxis) -> bool {
    !(axis.parallel.is_device() || axis.is_reduction() || axis.is_broadcast())
}

/// True if an axis has one element by the text.
pub(crate) fn has_one_element(program: &Program, axis: &IterDomain) -> bool {
    axis.is_broadcast() || program.exprs().as_int(axis.extent) == Some(1)
}

/// The outermost axis before another one that makes a slice along that more than one range of memory.
pub(crate) fn strided_over<'a>(program: &Program, axes: &'a [LogicalAxis], sliced: u32) -> Option<&'a LogicalAxis> {
    let mut outside = axes.iter().take(sliced as usize).filter(|axis| takes_room(axis));
    outside.find(|axis| program.exprs().as_int(axis.extent) != Some(1))
}

/// The stored axes of a tensor: the logical position and the domain of each.
pub(crate) fn stored_axes(program: &Program, tensor: TensorId) -> Vec<(u32, IterDomain)> {
    let axes = (0..).zip(axes_with_domains(program, tensor));
    axes.filter(|(_, (axis, _))| !axis.is_reduction()).map(|(k, (_, domain))| (k, domain)).collect()
}

/// The domains of the stored axes of a tensor, in logical order.
pub(crate) fn stored_domains(program: &Program, tensor: TensorId) -> Vec<IterDomain> {
    stored_axes(program, tensor).into_iter().map(|(_, domain)| domain).collect()
}

/// The logical axes with their printed domains.
pub(crate) fn axes_with_domains(program: &Program, tensor: TensorId) -> Vec<(LogicalAxis, IterDomain)> {
    let domains = program.domains(tensor);
    let pairs = logical_axes(program, tensor).axes;
    pairs.iter().filter_map(|&a| Some((a, *domains.get(a.printed as usize)?))).collect()
}

/// The error for an op with a sharded tensor whose axes are made by splits: nothing determines the axis that is sharded
/// over devices.
pub(crate) fn refuse_splits(program: &Program, id: OpId) -> Result<(), Diag> {
    let op = program.op(id);
    let Some(tensor) = op.all_tensors().find(|&tensor| {
        let sharded = program.domains(tensor).iter().any(|domain| domain.parallel.is_device());
        let given = program.tensor(tensor).logical.is_some();
        sharded && (given || logical_axes(program, tensor).has_parts())
    }) else {
        return Ok(());
    };
    let name = program.quoted_tensor(tensor);
    let message = message!(
        "{} is sharded over devices along a part of an axis, so the sharding of `{}` is unknown",
        name,
        quoted_op(program, id)
    );
    let note = message!(
        "give {} a separate axis for the devices: `[ideviceIdx.x0{{4}}, iS1{{i0}}]` instead of a split of `4 * i0`",
        name
    );
    Err(Diag::error(SHARDED_SPLIT, program.op_span(id), message).with_note(note))
}

/// The error if some tensors of an op have a mesh and others have none.
pub(crate) fn refuse_mixed_meshes(program: &Program, id: OpId) -> Result<(), Diag> {
    let op = program.op(id);
    let mut with = None;
    let mut without = None;
    for tensor in op.all_tensors() {
        if program.tensor(tensor).mesh.is_some() {
            with = with.or(Some(tensor));
        } else {
            without = without.or(Some(tensor));
        }
    }
    match (with, without) {
        (Some(with), Some(without)) => Err(mixed_meshes_error(program, with, without, program.op_span(id))),
        _ => Ok(()),
    }
}

/// The error for two tensors.
pub(crate) fn mixed_meshes_error(
    program: &Program,
    with: TensorId,
    without: TensorId,
    span: hostir::diag::Span,
) -> Diag {
    let (with, without) = (program.quoted_tensor(with), program.quoted_tensor(without));
    let message = message!("{} has a device mesh, but {} has none", with, without);
    Diag::error(MIXED_MESHES, span, message)
        .with_note("write a mesh for all tensors, or for none; --pass=propagate-shardings propagates meshes")
}

/// The parallel types of the axes of `to` if it is sharded like `like`, by logical axis: device types, and streams too.
pub(crate) fn parallel_types_like(
    program: &Program,
    links: &OpLinks,
    like: TensorId,
    to: TensorId,
) -> Vec<ParallelType> {
    let mut types = vec![ParallelType::Serial; logical_axes(program, to).axes.len()];
    for (k, axis) in (0..).zip(&logical_axes(program, like).axes) {
        let counts = axis.parallel.is_device() || axis.parallel == ParallelType::Stream;
        if counts
            && !axis.is_reduction()
            && let Some(at) = links.linked_axis(like, k, to)
            && let Some(slot) = types.get_mut(at as usize)
        {
            *slot = axis.parallel;
        }
    }
    types
}

/// A new tensor with the stored axes of `tensor`, on the mesh of `like`, distributed over `types` (by logical axis of
/// `tensor`).
pub(crate) fn declare_stored_copy(
    build: &mut OpBuilder<'_, '_>,
    tensor: TensorId,
    mesh: Option<MeshId>,
    types: &[ParallelType],
) -> TensorId {
    let domains: Vec<IterDomain> = axes_with_domains(build.program(), tensor)
        .into_iter()
        .zip(types)
        .filter(|((axis, _), _)| !axis.is_reduction())
        .map(|((_, domain), &parallel)| IterDomain { parallel, rfactor: false, ..domain })
        .collect();
    declare_local_tensor(build, tensor, mesh, &domains)
}

/// A new local tensor of the element type of `like`.
pub(crate) fn declare_local_tensor(
    build: &mut OpBuilder<'_, '_>,
    like: TensorId,
    mesh: Option<MeshId>,
    domains: &[IterDomain],
) -> TensorId {
    let new = build.new_tensor(like, hostir::ir::MemoryType::Local, domains);
    let declaration = Tensor { mesh, ..build.program().tensor(new).clone() };
    build.edit.set_tensor(new, declaration);
    new
}

/// Domains that moved: attributes that name one follow.
#[derive(Default)]
pub(crate) struct MovedDomains(FxHashMap<DomainId, DomainId>);

impl MovedDomains {
    /// Gives a tensor its domains in another order (`order[k]` is the old place of the new k-th), some
    /// left out, in a new range.
    pub(crate) fn redeclare_tensor(
        &mut self,
        build: &mut OpBuilder<'_, '_>,
        tensor: TensorId,
        order: &[u32],
        change: &dyn Fn(usize, IterDomain) -> IterDomain,
    ) {
        let old = build.program().domains(tensor).to_vec();
        let mut ids = Vec::with_capacity(order.len());
        for (k, &at) in order.iter().enumerate() {
            let id = build.edit.add_domain(change(k, old[at as usize]));
            self.0.insert(printed_domain(build.program(), tensor, at), id);
            ids.push(id);
        }
        let declaration = build.program().tensor(tensor).clone();
        let start = ids.first().map_or(0, |id| id.0);
        // The axes stay, whatever the new positions of the domains.
        let axes = build.program().logical_axes(tensor);
        let axes: Vec<u32> =
            axes.iter().filter_map(|at| order.iter().position(|old| old == at).map(|place| place as u32)).collect();
        let axes = (!axes.is_sorted()).then(|| axes.into());
        let domains_end = start + ids.len() as u32;
        let new = Tensor { domains_start: start, domains_end, axes, ..declaration };
        build.edit.set_tensor(tensor, new);
    }
    /// A domain replaces another one.
    pub(crate) fn replace_domain(&mut self, old: DomainId, new: DomainId) {
        self.0.insert(old, new);
    }
    /// Puts the new domains into the attributes of all ops.
    pub(crate) fn apply_to_ops(&self, edit: &mut Edit<'_>) {
        if self.0.is_empty() {
            return;
        }
        let mut found = Vec::new();
        let program = edit.program();
        program.walk(program.body(), &mut |id| {
            let mut domains = program.op(id).attrs.iter().filter_map(|(_, value)| match value {
                AttrValue::Domain(domain) => Some(*domain),
                _ => None,
            });
            if domains.any(|domain| self.0.contains_key(&domain)) {
                found.push(id);
            }
        });
        for id in found {
            let mut op = edit.program().op(id).clone();
            for (_, value) in &mut op.attrs {
                if let AttrValue::Domain(domain) = value {
                    // A domain may have moved more than once.
                    while let Some(&new) = self.0.get(domain) {
                        *domain = new;
                    }
                }
            }
            edit.set_op(id, op);
        }
    }
}

/// Declares a tensor with other domains, under new numbers, and without axes of their own. Returns the new domains.
pub(crate) fn declare_domains(
    build: &mut OpBuilder<'_, '_>,
    tensor: TensorId,
    domains: &[IterDomain],
) -> Vec<DomainId> {
    let mut ids = Vec::with_capacity(domains.len());
    for &domain in domains {
        let number = build.next_domain_number();
        ids.push(build.edit.add_domain(IterDomain { number: Some(number), ..domain }));
    }
    let domains_start = ids.first().map_or(0, |id| id.0);
    let domains_end = domains_start + ids.len() as u32;
    let old = build.program().tensor(tensor).clone();
    build.edit.set_tensor(tensor, Tensor { domains_start, domains_end, axes: None, ..old });
    ids
}
