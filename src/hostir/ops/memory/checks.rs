//! V37, V38: allocations.

use super::lowering::index_text;
use super::sharing::{check_own_memory, element_count, mesh_difference};
use crate::axes::{logical_axes, stored_position};
use crate::diag::message;
use crate::diag::{Applicability, Diag, Diags, Fix, Message, codes};
use crate::ir::places::with_declaration;
use crate::ir::{
    AttrKey, AttrValue, BinaryOp, Expr, ExprId, MemoryType, OffsetExpr, OpId, Program, TensorId, bare_head,
    domain_text, quoted_argument, quoted_expr, quoted_type,
};
use smallvec::SmallVec;

/// A product: a constant and factors in ascending order.
struct FactoredProduct {
    constant: i64,
    factors: SmallVec<[ExprId; 8]>,
}

impl FactoredProduct {
    fn one() -> Self {
        Self { constant: 1, factors: SmallVec::new() }
    }
    /// Multiplies by an expression, whose products are split into factors; `None` past 64 bits.
    fn multiply_by(&mut self, program: &Program, expr: ExprId) -> Option<()> {
        let mut stack: SmallVec<[ExprId; 8]> = SmallVec::from_slice(&[expr]);
        while let Some(expr) = stack.pop() {
            match program.expr(expr) {
                Expr::Int(value) => self.constant = self.constant.checked_mul(*value)?,
                Expr::Binary(BinaryOp::Mul, a, b) => stack.extend([*a, *b]),
                Expr::Set(inner) => stack.push(*inner),
                _ => self.factors.push(expr),
            }
        }
        Some(())
    }
    /// Removes the factors that both have.
    fn cancel_common(&mut self, other: &mut FactoredProduct) {
        self.factors.retain(|factor| match other.factors.iter().position(|f| f == factor) {
            Some(at) => {
                other.factors.swap_remove(at);
                false
            }
            None => true,
        });
    }
}

/// ALLOCATE: its memory (V38) and its size (V37).
pub(crate) fn check_allocate(program: &Program, id: OpId, diags: &mut Diags) {
    let op = program.op(id);
    let Some(tensor) = op.output_tensors().next() else { return };
    if let Some(word) = op.word_attr(AttrKey::MemType) {
        let need = program.tensor(tensor).memory;
        if MemoryType::from_word(program.name(word)).is_some_and(|memory| memory != need) {
            let message = message!(
                "`{}` is in {} memory, but its {} uses {} memory",
                program.quoted_tensor(tensor),
                need.word(),
                bare_head("ALLOCATE"),
                program.name(word)
            );
            let note = message!("write `{}`", quoted_argument("mem_type", need.word()));
            diags.push(Diag::error(codes::ALLOCATE_MEMORY, program.op_span(id), message).with_note(note));
        }
    }
    if let Some(AttrValue::Tensor(original)) = op.attr(AttrKey::Alias) {
        check_shared_memory(program, id, tensor, *original, diags);
    }
    if let Some(size) = op.expr_attr(AttrKey::Size)
        && size_differs(program, tensor, size) == Some(true)
    {
        report_wrong_size(program, id, tensor, size, diags);
    }
}

/// Returns true if a size cannot be the product of the extents of the stored axes.
fn size_differs(program: &Program, tensor: TensorId, size: ExprId) -> Option<bool> {
    let axes = logical_axes(program, tensor);
    if axes.split {
        return None;
    }
    let (mut need, mut found) = (FactoredProduct::one(), FactoredProduct::one());
    for axis in axes.axes.iter().filter(|axis| !axis.is_reduction()) {
        need.multiply_by(program, axis.extent)?;
    }
    found.multiply_by(program, size)?;
    need.cancel_common(&mut found);
    // Factors left on both sides may be equal because of other ops.
    let same = need.factors.is_empty() && found.factors.is_empty();
    Some(if same { need.constant != found.constant } else { need.factors.is_empty() != found.factors.is_empty() })
}

fn report_wrong_size(program: &Program, id: OpId, tensor: TensorId, size: ExprId, diags: &mut Diags) {
    let axes = logical_axes(program, tensor);
    let stored = axes.axes.iter().filter(|axis| !axis.is_reduction());
    let extents: Vec<Message> = stored.map(|axis| quoted_expr(program, axis.extent).into()).collect();
    let message = message!(
        "the {} of `{}` has size `{}`, but its stored axes have {} elements",
        bare_head("ALLOCATE"),
        program.quoted_tensor(tensor),
        quoted_expr(program, size),
        if extents.is_empty() { "`1`".into() } else { message!("`{}`", Message::join(&extents, " * ")) }
    );
    let note = "device axes count towards the size, reduction axes do not";
    diags.push(Diag::error(codes::ALLOCATE_SIZE, program.op_span(id), message).with_note(note).into_warning());
}

/// `n - 1` for the index -1 of an axis of n elements.
fn index_from_end(program: &Program, extent: ExprId, index: i64) -> String {
    OffsetExpr::of_sum(program, extent, index).short_text(program)
}

/// V34: a constant index of a select is inside its axis.
pub(crate) fn check_select_index(program: &Program, id: OpId, diags: &mut Diags) {
    let op = program.op(id);
    let (Some(index), Some(axis)) = (op.expr_attr(AttrKey::Index), op.domain_attr(AttrKey::Axis)) else {
        return;
    };
    let Some(index) = program.exprs().as_int(index) else { return };
    let domain = program.domain(axis);
    let extent = program.exprs().as_int(domain.extent).filter(|_| !domain.is_broadcast());
    if index < 0 || extent.is_some_and(|extent| index >= extent) {
        let tensor = op.input_tensors().next();
        let position = tensor.and_then(|tensor| Some((tensor, stored_position(program, tensor, axis)?)));
        let axis = match position {
            Some((tensor, position)) => format!("axis {position} of {}", program.tensor_name(tensor)),
            None => "the selected axis".to_owned(),
        };
        let text = if program.is_hir2() { String::new() } else { format!(", `{}`", domain_text(program, domain)) };
        let message = format!("index {index} is out of range for {axis}{text}");
        let note = match program.exprs().as_int(domain.extent) {
            Some(1) => "it has one element, with index 0".to_owned(),
            Some(extent) => format!("it has {extent} elements, with indices 0 to {}", extent - 1),
            None => "indices count from 0".to_owned(),
        };
        let part = position.filter(|_| index < 0 && program.is_hir2()).map(|(tensor, position)| {
            let meant = index_from_end(program, domain.extent, index);
            index_text(&program.tensor_name(tensor), position, &meant)
        });
        let span = program.op_span(id);
        let diag = Diag::error(codes::SELECT_INDEX, span, message);
        diags.push(match part {
            Some(part) => {
                let fix = Fix::replacement(format!("write `{part}`"), span, part.clone());
                diag.with_note(format!("indices count from 0, and none from the end: write `{part}`"))
                    .with_fix(Fix { applicability: Applicability::Untried, ..fix })
            }
            None => diag.with_note(note),
        });
    }
}

/// `.alias=` of an ALLOCATE.
fn check_shared_memory(program: &Program, id: OpId, new: TensorId, original: TensorId, diags: &mut Diags) {
    let span = program.op_span(id);
    let names = (program.quoted_tensor(new), program.quoted_tensor(original));
    if program.memory_tensor(new) == program.memory_tensor(original) {
        let message = message!("the {} of `{}` aliases its own memory", bare_head("ALLOCATE"), names.0);
        diags.push(
            Diag::error(codes::ALIAS_MEMORY, span, message)
                .with_note("name the tensor whose memory it should share, or omit `.alias=`"),
        );
        return;
    }
    check_own_memory(program, new, span, diags);
    let (a, b) = (program.tensor(new), program.tensor(original));
    let what = if a.dtype != b.dtype {
        Some(message!("it is `{}`, but the memory contains `{}`", quoted_type(a.dtype), quoted_type(b.dtype)))
    } else if a.mesh != b.mesh {
        Some(mesh_difference(program, new, original))
    } else {
        let (need, have) = (element_count(program, new), element_count(program, original));
        let larger = need.zip(have).filter(|(need, have)| need > have);
        larger.map(|(need, have)| message!("it has {} elements, but the memory has {}", need, have))
    };
    if let Some(what) = what {
        let message = message!("`{}` cannot share the memory of `{}`: {}", names.0, names.1, what);
        let diag = Diag::error(codes::ALIAS_TYPE, span, message)
            .with_note("omit `.alias=`, or name a tensor of the same type that is large enough");
        diags.push(with_declaration(diag, program, original, id));
    }
}
