//! The types of results that a text may leave out.
//!
//! Reader and writer of `hir 2` share these rules: a type is left out exactly if they return it.

use crate::axes::{stored_axis_number, stored_axis_place, stored_rank};
use crate::ir::functions::{cast_result, find_function};
use crate::ir::{
    AttrKey, AttrValue, DType, Expr, ExprId, IterDomain, IterType, MeshId, Op, OpKind, ParallelType, Program, Symbol,
    TensorId, Value,
};
use rustc_hash::FxHashMap;
use smallvec::{SmallVec, smallvec};

/// Domains of a type.
pub type DomainList = SmallVec<[IterDomain; 4]>;
/// The types of an op's results.
pub type TypeList = SmallVec<[TensorType; 1]>;

/// The type of a tensor without its number, name and memory.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TensorType {
    /// Element type.
    pub dtype: DType,
    /// Domains in printed order, without numbers.
    pub domains: DomainList,
    /// The axes as positions among the domains; `None` if these are in axis order.
    pub axes: Option<Box<[u32]>>,
    /// Extents of the axes before splits.
    pub logical: Option<Box<[ExprId]>>,
    /// True if some domain is a part of a split axis.
    pub split: bool,
    /// Text such as `ca_pos( 3 )`; empty for none.
    pub positions: Symbol,
    /// The mesh.
    pub mesh: Option<MeshId>,
}

impl TensorType {
    /// The type of a tensor.
    pub fn of_tensor(program: &Program, id: TensorId) -> Self {
        let tensor = program.tensor(id);
        let domains = program.domains(id).iter().map(|domain| IterDomain { number: None, ..*domain });
        TensorType {
            dtype: tensor.dtype,
            domains: domains.collect(),
            axes: tensor.axes.clone(),
            logical: tensor.logical.clone(),
            split: tensor.split && tensor.logical.is_none(),
            positions: tensor.positions,
            mesh: tensor.mesh,
        }
    }

    fn plain(dtype: DType, domains: DomainList, mesh: Option<MeshId>) -> Self {
        TensorType { dtype, domains, axes: None, logical: None, split: false, positions: Symbol(0), mesh }
    }

    /// The type without the domains for which `drop` holds.
    fn without(mut self, drop: impl Fn(usize, &IterDomain) -> bool) -> Self {
        let kept: SmallVec<[bool; 8]> = self.domains.iter().enumerate().map(|(at, domain)| !drop(at, domain)).collect();
        let position = |at: u32| kept[..at as usize].iter().filter(|kept| **kept).count() as u32;
        let axes = self
            .axes
            .take()
            .map(|axes| -> Vec<u32> { axes.iter().filter(|&&at| kept[at as usize]).map(|&at| position(at)).collect() });
        self.axes = axes.filter(|axes| !axes.is_sorted()).map(Into::into);
        let mut at = 0;
        self.domains.retain(|_| {
            at += 1;
            kept[at - 1]
        });
        self
    }
}

/// Returns true if a type describes the storage of its tensor completely: nothing was split, and no position of a
/// kernel is recorded.
fn is_plain(program: &Program, id: TensorId) -> bool {
    let tensor = program.tensor(id);
    !tensor.split && tensor.logical.is_none() && tensor.positions == Symbol(0)
}

/// The domains of a tensor's stored axes, outermost first, without numbers.
fn stored_domains(program: &Program, id: TensorId) -> DomainList {
    let domains = program.domains(id);
    let axes = program.logical_axes(id);
    let stored = axes.iter().filter_map(|&at| domains.get(at as usize)).filter(|domain| !domain.is_reduction());
    stored.map(|domain| IterDomain { number: None, ..*domain }).collect()
}

/// The type of a slice: the operand's without the stored axis number `axis` (reductions are not counted, and stay).
/// `None` if there is no such axis.
pub fn select_type(program: &Program, operand: TensorId, axis: usize) -> Option<TensorType> {
    if !is_plain(program, operand) {
        return None;
    }
    let printed = stored_axis_place(program, operand, axis)? as usize;
    Some(TensorType::of_tensor(program, operand).without(|at, _| at == printed))
}

/// Gives results the element types that follow from those of the operands, in a program whose text has no element
/// types: a comparison is `bool`.
pub(crate) fn infer_element_types(program: &mut Program) {
    let mut ops = Vec::new();
    program.walk_with_units(&mut |id| ops.push(id));
    for id in ops {
        let op = program.op(id).clone();
        let Some(types) = result_types(program, &op) else { continue };
        for (tensor, found) in op.output_tensors().zip(types) {
            program.tensors[tensor].dtype = found.dtype;
        }
    }
}

/// The types of an op's results; `None` if the text must contain them. They depend on the op's operands, attributes and
/// number of results.
pub fn result_types(program: &Program, op: &Op) -> Option<TypeList> {
    if op.kind == OpKind::PostOnStream {
        return posted_types(program, op);
    }
    let operands: SmallVec<[TensorId; 4]> = op.input_tensors().collect();
    let first = *operands.first()?;
    if !operands.iter().all(|&tensor| is_plain(program, tensor)) {
        return None;
    }
    let ty = match op.kind {
        OpKind::Set | OpKind::SegmenterSet | OpKind::IndexPutAccumulate => copied_type(program, first),
        OpKind::SetPermute | OpKind::SegmenterSetPermute => permuted_type(program, op, first)?,
        OpKind::HirAliasSelect | OpKind::Select => select_type(program, first, selected_axis(program, op)?)?,
        OpKind::Pointwise => pointwise_type(program, op, &operands)?,
        OpKind::Matmul => matmul_type(program, first, *operands.get(1)?)?,
        OpKind::MatmulAdd => {
            let dtype = program.tensor(*operands.get(2)?).dtype;
            TensorType { dtype, ..matmul_type(program, first, *operands.get(1)?)? }
        }
        OpKind::ScaledMatmul => {
            let bias = op.kind.spec().named_operand(op, "bias").and_then(Value::as_tensor);
            let dtype = bias.map_or(DType::BFloat16, |bias| program.tensor(bias).dtype);
            TensorType { dtype, ..matmul_type(program, first, *operands.get(1)?)? }
        }
        OpKind::Linear => linear_type(program, first, *operands.get(1)?)?,
        OpKind::Broadcast => broadcast_type(program, op, first)?,
        OpKind::Squeeze => squeezed_type(program, op, first)?,
        OpKind::TakeAlongAxis | OpKind::TorchGather => {
            let domains = stored_domains(program, *operands.get(1)?);
            TensorType::plain(program.tensor(first).dtype, domains, program.tensor(first).mesh)
        }
        _ => return None,
    };
    Some(smallvec![ty])
}

/// The number of the stored axis that a select takes; `None` if the operand does not have its domain.
pub fn selected_axis(program: &Program, op: &Op) -> Option<usize> {
    let operand = op.input_tensors().next()?;
    let tensor = program.tensor(operand);
    let domain = op.domain_attr(AttrKey::Axis)?;
    let printed = domain.0.checked_sub(tensor.domains_start).filter(|_| domain.0 < tensor.domains_end)?;
    stored_axis_number(program, operand, printed)
}

/// The operand's type without reductions.
fn copied_type(program: &Program, operand: TensorId) -> TensorType {
    if !program.domains(operand).iter().any(IterDomain::is_reduction) && program.tensor(operand).axes.is_none() {
        return TensorType::of_tensor(program, operand);
    }
    TensorType::of_tensor(program, operand).without(|_, domain| domain.is_reduction())
}

fn permuted_type(program: &Program, op: &Op, operand: TensorId) -> Option<TensorType> {
    let domains = stored_domains(program, operand);
    let perm = op.ints_attr(AttrKey::Perm)?;
    let order = perm.iter().map(|&from| domains.get(usize::try_from(from).ok()?).copied());
    let tensor = program.tensor(operand);
    Some(TensorType::plain(tensor.dtype, order.collect::<Option<_>>()?, tensor.mesh))
}

/// Aligns axes from the right; each is that of the first operand without a broadcast there.
fn pointwise_type(program: &Program, op: &Op, operands: &[TensorId]) -> Option<TensorType> {
    let dtype = pointwise_dtype(program, op, operands)?;
    let first = *operands.first()?;
    let leading = stored_domains(program, first);
    let rank = operands.iter().map(|&tensor| stored_rank(program, tensor)).max()?;
    let mesh = program.tensor(first).mesh;
    if leading.len() == rank && !leading.iter().any(IterDomain::is_broadcast) {
        return Some(TensorType { dtype, ..copied_type(program, first) });
    }
    let lists: Vec<DomainList> = operands.iter().map(|&tensor| stored_domains(program, tensor)).collect();
    let axis = |from_right: usize| {
        let mut here = lists.iter().filter_map(|list| list.len().checked_sub(from_right + 1).map(|at| list[at]));
        let any = here.clone().next();
        here.find(|domain| !domain.is_broadcast()).or(any)
    };
    let domains: Option<DomainList> = (0..rank).rev().map(axis).collect();
    Some(TensorType::plain(dtype, domains?, mesh))
}

/// The element type of a pointwise result.
fn pointwise_dtype(program: &Program, op: &Op, operands: &[TensorId]) -> Option<DType> {
    let name = op.word_attr(AttrKey::Function).map(|name| program.name(name))?;
    let row = find_function(name, op.operands.len())?;
    if row.is_predicate() {
        return Some(DType::Bool);
    }
    if let Some(target) = cast_result(name) {
        return Some(target);
    }
    // The first operand of `where` is the condition.
    let chosen = op.operands.iter().skip(usize::from(row.name == "where"));
    let tensor = chosen.filter_map(|value| value.as_tensor()).next().or(operands.first().copied())?;
    Some(program.tensor(tensor).dtype)
}

/// [.., M, K] x [.., K, N] -> [.., M, N, r(K)]; one-dimensional operands lose M or N.
fn matmul_type(program: &Program, a: TensorId, b: TensorId) -> Option<TensorType> {
    let (left, right) = (stored_domains(program, a), stored_domains(program, b));
    let (&k, rows) = left.split_last()?;
    let (batch_a, m) = rows.split_at(rows.len().saturating_sub(1));
    let (batch_b, n) = match right.as_slice() {
        [] => return None,
        [_] => (&right[..0], None),
        [batch @ .., _, n] => (batch, Some(*n)),
    };
    let longer = if batch_a.len() >= batch_b.len() { batch_a } else { batch_b };
    let batch = (0..longer.len()).map(|at| {
        let side = |list: &[IterDomain]| {
            let at = (at + list.len()).checked_sub(longer.len())?;
            list.get(at).copied()
        };
        [side(batch_a), side(batch_b)].into_iter().flatten().find(|domain| !domain.is_broadcast()).unwrap_or(longer[at])
    });
    let domains = batch.chain(m.iter().copied()).chain(n).chain([contracted(k)]).collect();
    let tensor = program.tensor(a);
    Some(TensorType::plain(tensor.dtype, domains, tensor.mesh))
}

/// `[.., K] x [N, K] (+ [N]) -> [.., N, r(K)]`.
fn linear_type(program: &Program, a: TensorId, weight: TensorId) -> Option<TensorType> {
    let (left, right) = (stored_domains(program, a), stored_domains(program, weight));
    let (&k, rows) = left.split_last()?;
    let n = match right.as_slice() {
        [n, _] => Some(*n),
        [_] => None,
        _ => return None,
    };
    let domains = rows.iter().copied().chain(n).chain([contracted(k)]).collect();
    let tensor = program.tensor(a);
    Some(TensorType::plain(tensor.dtype, domains, tensor.mesh))
}

/// The reduction in a matmul's result for its contracted axis.
fn contracted(k: IterDomain) -> IterDomain {
    IterDomain { iter: IterType::Reduction, ..k }
}

fn flags(op: &Op) -> Option<&[bool]> {
    match op.attr(AttrKey::Flags)? {
        AttrValue::Bools(flags) => Some(flags),
        _ => None,
    }
}

/// Axes of extent 1 where a flag is set, the operand's elsewhere.
fn broadcast_type(program: &Program, op: &Op, operand: TensorId) -> Option<TensorType> {
    let one = program.exprs().find_expr(&Expr::Int(1))?;
    let new = IterDomain {
        iter: IterType::Broadcast,
        parallel: ParallelType::Serial,
        number: None,
        extent: one,
        start: None,
        stop: None,
        expanded: None,
        rfactor: false,
        padded: false,
        clustered: false,
    };
    let mut kept = stored_domains(program, operand).into_iter();
    let domains: Option<DomainList> =
        flags(op)?.iter().map(|&flag| if flag { Some(new) } else { kept.next() }).collect();
    let tensor = program.tensor(operand);
    kept.next().is_none().then_some(())?;
    Some(TensorType::plain(tensor.dtype, domains?, tensor.mesh))
}

fn squeezed_type(program: &Program, op: &Op, operand: TensorId) -> Option<TensorType> {
    let (domains, flags) = (stored_domains(program, operand), flags(op)?);
    let tensor = program.tensor(operand);
    let kept = domains.iter().zip(flags).filter(|(_, squeezed)| !**squeezed).map(|(domain, _)| *domain).collect();
    (domains.len() == flags.len()).then(|| TensorType::plain(tensor.dtype, kept, tensor.mesh))
}

/// The types of a HostUnit's outputs, with the extents of the values that a PostOnStream passes.
fn posted_types(program: &Program, op: &Op) -> Option<TypeList> {
    let unit = program.posted_unit(op)?;
    let mut extents: FxHashMap<ExprId, ExprId> = FxHashMap::default();
    for (given, input) in program.posted_inputs(op, unit) {
        match (given, input) {
            (Value::Tensor(given), Value::Tensor(input)) => {
                let pairs = stored_domains(program, input).into_iter().zip(stored_domains(program, given));
                pairs.for_each(|(inner, outer)| {
                    extents.entry(inner.extent).or_insert(outer.extent);
                });
            }
            (Value::Scalar(given), Value::Scalar(input)) => {
                extents.entry(input).or_insert(given);
            }
            _ => return None,
        }
    }
    let outputs = program.units()[unit].outputs.iter().map(|value| {
        let tensor = value.as_tensor().filter(|&tensor| is_plain(program, tensor))?;
        let mut ty = TensorType::of_tensor(program, tensor);
        for domain in &mut ty.domains {
            let known = extents.get(&domain.extent).copied();
            domain.extent = known.or_else(|| program.exprs().as_int(domain.extent).map(|_| domain.extent))?;
        }
        Some(ty)
    });
    outputs.collect()
}
