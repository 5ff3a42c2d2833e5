//! V37, V38: allocations.

use super::sharing::{check_own_memory, element_count, mesh_difference};
use crate::axes::{logical_axes, stored_position};
use crate::diag::{Diag, Diags, codes};
use crate::ir::places::with_declaration;
use crate::ir::{
    AttrKey, AttrValue, BinaryOp, Expr, ExprId, MemoryType, OpId, Program, TensorId, domain_text, expr_text,
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
            let message = format!(
                "`{}` is in {} memory, but its ALLOCATE uses {} memory",
                program.tensor_name(tensor),
                need.word(),
                program.name(word)
            );
            let note = format!("write `mem_type={}`", need.word());
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
    let extents: Vec<String> =
        axes.axes.iter().filter(|axis| !axis.is_reduction()).map(|axis| expr_text(program, axis.extent)).collect();
    let message = format!(
        "the ALLOCATE of `{}` has size `{}`, but its stored axes have `{}` elements",
        program.tensor_name(tensor),
        expr_text(program, size),
        if extents.is_empty() { "1".to_owned() } else { format!("`{}`", extents.join(" * ")) },
    );
    let note = "device axes count towards the size, reduction axes do not";
    diags.push(Diag::error(codes::ALLOCATE_SIZE, program.op_span(id), message).with_note(note).into_warning());
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
        diags.push(Diag::error(codes::SELECT_INDEX, program.op_span(id), message).with_note(note));
    }
}

/// `.alias=` of an ALLOCATE.
fn check_shared_memory(program: &Program, id: OpId, new: TensorId, original: TensorId, diags: &mut Diags) {
    let span = program.op_span(id);
    let names = (program.tensor_name(new), program.tensor_name(original));
    if program.memory_tensor(new) == program.memory_tensor(original) {
        let message = format!("the ALLOCATE of `{}` aliases its own memory", names.0);
        diags.push(
            Diag::error(codes::ALIAS_MEMORY, span, message)
                .with_note("name the tensor whose memory it should share, or omit `.alias=`"),
        );
        return;
    }
    check_own_memory(program, new, span, diags);
    let (a, b) = (program.tensor(new), program.tensor(original));
    let what = if a.dtype != b.dtype {
        Some(format!("it is `{}`, but the memory contains `{}`", a.dtype.name(), b.dtype.name()))
    } else if a.mesh != b.mesh {
        Some(mesh_difference(program, new, original))
    } else {
        let (need, have) = (element_count(program, new), element_count(program, original));
        let larger = need.zip(have).filter(|(need, have)| need > have);
        larger.map(|(need, have)| format!("it has {need} elements, but the memory has {have}"))
    };
    if let Some(what) = what {
        let message = format!("`{}` cannot share the memory of `{}`: {what}", names.0, names.1);
        let diag = Diag::error(codes::ALIAS_TYPE, span, message)
            .with_note("omit `.alias=`, or name a tensor of the same type that is large enough");
        diags.push(with_declaration(diag, program, original, id));
    }
}
