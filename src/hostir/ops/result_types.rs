//! The types of results that a text may leave out.
//!
//! Each op's row has its rule ([`OpSpec::infer`](super::OpSpec)), next to its axis links and checks. Reader and writer
//! of `hir 2` share the rules: a type is left out exactly if they return it.

use super::spec::Infer;
use crate::diag::{Message, codes, count_text, message};
use crate::ir::{
    AttrKey, AttrValue, DType, ExprId, IterDomain, IterType, MeshId, OffsetExpr, Op, OpKind, Program, Symbol, TensorId,
    quoted_axis, quoted_head, quoted_type, short_expr_text,
};
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

    /// The type with these axes, in this order, with the element type and the mesh of an operand.
    pub fn with_domains_of(program: &Program, operand: TensorId, domains: DomainList) -> Self {
        let tensor = program.tensor(operand);
        let (dtype, mesh) = (tensor.dtype, tensor.mesh);
        TensorType { dtype, domains, axes: None, logical: None, split: false, positions: Symbol(0), mesh }
    }

    /// The operand's type without reductions.
    pub fn of_copy(program: &Program, operand: TensorId) -> Self {
        if !program.domains(operand).iter().any(IterDomain::is_reduction) && program.tensor(operand).axes.is_none() {
            return TensorType::of_tensor(program, operand);
        }
        TensorType::of_tensor(program, operand).without(|_, domain| domain.is_reduction())
    }

    /// The type without the domains for which `drop` holds.
    pub fn without(mut self, drop: impl Fn(usize, &IterDomain) -> bool) -> Self {
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
pub fn is_plain(program: &Program, id: TensorId) -> bool {
    let tensor = program.tensor(id);
    !tensor.split && tensor.logical.is_none() && tensor.positions == Symbol(0)
}

/// The domains of a tensor's stored axes, outermost first, without numbers.
pub fn stored_domains(program: &Program, id: TensorId) -> DomainList {
    let domains = program.domains(id);
    let axes = program.logical_axes(id);
    let stored = axes.iter().filter_map(|&at| domains.get(at as usize)).filter(|domain| !domain.is_reduction());
    stored.map(|domain| IterDomain { number: None, ..*domain }).collect()
}

/// The types of an op's results; `None` if the text must contain them. They depend on the op's operands, attributes and
/// number of results.
pub fn result_types(program: &Program, op: &Op) -> Option<TypeList> {
    match op.kind.spec().infer {
        Infer::Written => None,
        Infer::Results(infer) => infer(program, op),
        Infer::Result(infer) => {
            let operands: SmallVec<[TensorId; 4]> = op.input_tensors().collect();
            let is_known = !operands.is_empty() && operands.iter().all(|&tensor| is_plain(program, tensor));
            is_known.then(|| infer(program, op, &operands)).flatten().map(|ty| smallvec![ty])
        }
    }
}

/// The error for a result without a type whose op has none for its operands and attributes.
pub struct MissingType {
    /// The code.
    pub code: &'static str,
    /// The finding, if it is not that a type is missing.
    pub message: Option<Message>,
    /// The type to write, if it is known.
    pub proposed: Option<ProposedType>,
    /// The repair in words.
    pub note: Message,
}

/// A type that a text may lack.
pub struct ProposedType {
    /// The type: `f32[m, r.k]`.
    pub text: Message,
    /// True if the op has no other.
    pub is_only: bool,
}

/// Explains why an op's result of this name has no type; `None` if nothing more is known than that its op needs one.
pub fn explain_missing_type(program: &Program, op: &Op) -> Option<MissingType> {
    let operand = op.input_tensors().next().filter(|tensor| is_plain(program, *tensor))?;
    let stored = stored_domains(program, operand);
    if let Some(AttrValue::Bools(flags)) = op.attr(AttrKey::Flags) {
        return wrong_flags(program, op, operand, flags, stored.len());
    }
    if let Some(axes) = sliced_axes(program, op).or_else(|| joined_axes(program, op)) {
        let dtype = quoted_type(program.tensor(operand).dtype);
        let text = message!("{}[{}]", dtype, axes.join(", "));
        let proposed = Some(ProposedType { text, is_only: true });
        return Some(MissingType { code: codes::NO_TYPE, message: None, proposed, note: Message::default() });
    }
    op.attr(AttrKey::ReduceOp)?;
    let dtype = quoted_type(program.tensor(operand).dtype);
    let reduced = stored.len().checked_sub(1)?;
    let axes = axis_list(program, &stored, &[reduced]);
    let note = message!(
        "the type has all axes of {}, and `r.` at those that are reduced, as here at the last axis",
        program.quoted_tensor(operand)
    );
    let proposed = Some(ProposedType { text: message!("{}[{}]", dtype, axes), is_only: false });
    Some(MissingType { code: codes::NO_TYPE, message: None, proposed, note })
}

/// The extents of the result of a `slice` whose steps are 1: the length of each range.
fn sliced_axes(program: &Program, op: &Op) -> Option<Vec<String>> {
    let Some(AttrValue::Ranges(ranges)) = op.attr(AttrKey::Ranges) else { return None };
    let lengths = ranges.iter().filter(|_| program.is_hir2()).map(|&[start, stop, step]| {
        let exprs = program.exprs();
        exprs.as_int(step).filter(|step| *step == 1)?;
        Some(match exprs.as_int(start) {
            Some(start) => OffsetExpr::of_sum(program, stop, start.checked_neg()?).short_text(program),
            None => format!("{} - ({})", short_expr_text(program, stop), short_expr_text(program, start)),
        })
    });
    let lengths: Option<Vec<String>> = lengths.collect();
    lengths.filter(|lengths| !lengths.is_empty())
}

/// The extents of the result of a `cat`: along its axis the sum of the operands' extents.
fn joined_axes(program: &Program, op: &Op) -> Option<Vec<String>> {
    if op.kind != OpKind::Cat || !program.is_hir2() {
        return None;
    }
    let axis = usize::try_from(program.exprs().as_int(op.expr_attr(AttrKey::Dim)?)?).ok()?;
    let operands: Vec<DomainList> = op.input_tensors().map(|tensor| stored_domains(program, tensor)).collect();
    let first = operands.first()?;
    let extents = first.iter().enumerate().map(|(at, domain)| match at == axis {
        false => Some(short_expr_text(program, domain.extent)),
        true => {
            let parts: Option<Vec<String>> =
                operands.iter().map(|domains| Some(short_expr_text(program, domains.get(at)?.extent))).collect();
            Some(parts?.join(" + "))
        }
    });
    extents.collect()
}

/// The axes of a type, those at some positions as reductions: `m, r.k`.
pub fn axis_list(program: &Program, stored: &[IterDomain], reduced: &[usize]) -> Message {
    let axes = stored.iter().enumerate().map(|(at, domain)| {
        let iter = if reduced.contains(&at) { IterType::Reduction } else { domain.iter };
        Message::from(quoted_axis(program, &IterDomain { iter, ..*domain }))
    });
    Message::join(&axes.collect::<Vec<Message>>(), ", ")
}

/// Flags that are not one for each axis: of the result for a broadcast, of the operand for a squeeze.
fn wrong_flags(program: &Program, op: &Op, operand: TensorId, flags: &[bool], rank: usize) -> Option<MissingType> {
    let set = flags.iter().filter(|flag| **flag).count();
    let (name, tensor) = (quoted_head(op.kind.name()), program.quoted_tensor(operand));
    let adds = op.kind == OpKind::Broadcast;
    let needed = if adds { rank + set } else { rank };
    if flags.len() == needed {
        return None;
    }
    let message = message!(
        "`{}` has {}, {} of them true, but {} has {}: {} are needed",
        name,
        count_text(flags.len(), "flag"),
        set,
        tensor,
        count_text(rank, "axis"),
        needed
    );
    let note = match adds {
        true => message!("write a flag for each axis of the result: `false` is one of {}, `true` a new one", tensor),
        false => message!("write a flag for each axis of {}: `true` drops one of extent 1, `false` keeps it", tensor),
    };
    Some(MissingType { code: codes::FLAGS, message: Some(message), proposed: None, note })
}

/// The type of the first operand without reductions: the rule of ops that keep all axes.
pub fn infer_copy(program: &Program, _: &Op, operands: &[TensorId]) -> Option<TensorType> {
    Some(TensorType::of_copy(program, *operands.first()?))
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
