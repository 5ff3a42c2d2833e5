//! Changes the spelling of a program without changing its meaning.
//!
//! Most features of a [`Style`] only matter when a program is printed. Features stored in ops are changed here: the
//! form of ALLOCATE, `backend=`, the op that slices at host level, and the numbers of roots. If a reader would
//! understand the new spelling differently, the ops keep their meaning, and `print` adds the attribute that states it.

use crate::ir::edit::Edit;
use crate::ir::{AttrKey, AttrValue, Op, OpId, Value};
use crate::ir::{BinaryOp, Expr, ExprId};
use crate::ir::{BlockId, CommBackend, Program};
use crate::ir::{DType, Style};
use crate::ir::{IdVec, TensorId};
use crate::ir::{OpEffect, OpKind, ParallelType, StreamSpelling, Symbol};
use crate::ir::{RootAs, is_identity, set_root_as};

/// Gives a program another spelling, without changing its meaning.
pub fn restyle_program(edit: &mut Edit<'_>, style: Style) {
    let style = style_that_spells(edit.program(), style);
    let selects = edit.program().style().alias_select != style.alias_select;
    let selects = selects && is_host_program(edit.program());
    let statements = collect_statements(edit.program());
    for (id, same) in statements.iter().copied() {
        let op = edit.program().op(id);
        if !is_respelled(op, selects) || !style.short_allocate && is_long_allocate(op, same) {
            continue;
        }
        let mut new = op.clone();
        if op.kind.is_allocation() {
            restyle_allocate(edit, &mut new, style.short_allocate, same);
        } else if is_select(op.kind) {
            new.kind = if style.alias_select { OpKind::HirAliasSelect } else { OpKind::Select };
        } else {
            restyle_backend(edit, &mut new, style.backend);
        }
        replace_op(edit, id, new);
    }
    edit.set_style(style);
    // The meaning of roots depends on the rest of the text.
    let counted = edit.program().spelled_root();
    for (id, _) in statements {
        if edit.program().op(id).attr(AttrKey::Root).is_none() {
            continue;
        }
        let mut new = edit.program().op(id).clone();
        restyle_root(edit, &mut new, counted);
        replace_op(edit, id, new);
    }
}

/// A style, changed where it cannot spell something in a program. If it spells a maximum `fmax`, it has no spelling for
/// the function of that name, which leaves NaN out; and tensors without element types are read as `float`.
pub fn style_that_spells(program: &Program, style: Style) -> Style {
    let element_types = style.element_types || program.tensors().iter().any(|(_, tensor)| tensor.dtype != DType::Float);
    Style { short_max: style.short_max || has_fmax(program), element_types, ..style }
}

/// The style in which a program is printed: its own, with a spelling for `fmax` that is read as `fmax`.
pub fn printed_style(program: &Program) -> Style {
    let style = program.style();
    let std_fmax = has_fmax(program) && !(style.short_max && shows_short_max(program, style));
    Style { std_fmax, ..style }
}

/// Returns true if the text of a program in a style with `max(` shows that its `fmax(` is not Max: by a maximum or
/// minimum, or by another spelling that changed together with Max. The reader decides by the same rule
/// (`resolve/style.rs`).
fn shows_short_max(program: &Program, style: Style) -> bool {
    let mut found = false;
    program.walk_with_units(&mut |id| {
        let op = program.op(id);
        let words = [AttrKey::Function, AttrKey::ReduceOp].into_iter().filter_map(|key| op.attr(key));
        let maximum = words.flat_map(AttrValue::words).any(|word| matches!(program.name(*word), "max" | "min"));
        let streams =
            style.stream == StreamSpelling::LowerStreamIdx && op.all_tensors().any(|t| has_streams(program, t));
        found |= maximum || streams || style.reshape && op.kind.is_row_major_view();
    });
    program.walk(program.body(), &mut |id| {
        let kind = program.op(id).kind;
        found |= style.call_form && (kind.is_stream_op() || kind.is_wait());
    });
    found
}

fn has_streams(program: &Program, tensor: TensorId) -> bool {
    program.domains(tensor).iter().any(|domain| domain.parallel == ParallelType::Stream)
}

/// Returns true for a program that has `fmax` or `fmin` beside the maxima and minima that propagate NaN.
fn has_fmax(program: &Program) -> bool {
    program.ops().iter().flat_map(|(_, op)| &op.attrs).any(|(_, value)| has_fmax_word(program, value))
        || (0..program.exprs().len()).any(|at| calls_fmax(program, ExprId(at as u32)))
}

fn has_fmax_word(program: &Program, value: &AttrValue) -> bool {
    value.words().iter().any(|word| is_fmax(program, *word))
}

fn calls_fmax(program: &Program, expr: ExprId) -> bool {
    matches!(program.expr(expr), Expr::Call(name, _) if is_fmax(program, *name))
}

fn is_fmax(program: &Program, name: Symbol) -> bool {
    matches!(program.name(name), "fmax" | "fmin")
}

/// Returns true if the text of an op may differ between styles; for a select only if `selects`.
fn is_respelled(op: &Op, selects: bool) -> bool {
    op.kind.is_allocation() || op.kind.is_post() || selects && is_select(op.kind)
}

/// Returns true for the two ops that bind a slice, of which a style has one.
fn is_select(kind: OpKind) -> bool {
    kind == OpKind::HirAliasSelect || kind == OpKind::Select
}

/// Returns true if an ALLOCATE has all attributes of the long form, at its place. `same` as in [`restyle_allocate`].
fn is_long_allocate(op: &Op, same: bool) -> bool {
    let usual = [AttrKey::Buffer, AttrKey::MemType, AttrKey::Size, AttrKey::ZeroInit, AttrKey::ResetsToZero];
    let keeps = match op.attrs.as_slice() {
        [before @ .., (AttrKey::Keep, AttrValue::Bool(keeps))] if before.len() == usual.len() => *keeps,
        _ => return false,
    };
    op.kind.is_allocation() && (keeps || !same) && op.attrs.iter().zip(usual).all(|((key, _), known)| *key == known)
}

fn replace_op(edit: &mut Edit<'_>, id: OpId, new: Op) {
    if edit.program().op(id) != &new {
        edit.set_op(id, new);
    }
}

/// Returns true if a program does more than mathematics: allocates, communicates, loops or orders streams.
fn is_host_program(program: &Program) -> bool {
    let mut found = false;
    program.walk(program.body(), &mut |id| {
        found |= !matches!(program.op(id).kind.effect(), OpEffect::Pure | OpEffect::Alias);
    });
    found
}

/// The ops of the host program and those inside of them. Each has true if its first result certainly has no memory yet
/// when the op runs: it is in no loop, and no earlier op creates or binds that tensor.
fn collect_statements(program: &Program) -> Vec<(OpId, bool)> {
    let inputs = program.inputs().iter().filter_map(|value| value.as_tensor());
    let mut made = IdVec::filled(false, program.tensors().len());
    inputs.for_each(|tensor| made[tensor] = true);
    let mut walk = StatementWalk { program, made, loops: 0, found: Vec::with_capacity(program.ops().len()) };
    walk.walk_block(program.body());
    walk.found
}

struct StatementWalk<'p> {
    program: &'p Program,
    made: IdVec<TensorId, bool>,
    loops: u32,
    found: Vec<(OpId, bool)>,
}

impl StatementWalk<'_> {
    fn walk_block(&mut self, block: BlockId) {
        for &id in &self.program.block(block).ops {
            let op = self.program.op(id);
            let made = op.output_tensors().next().is_some_and(|t| self.made[t]);
            self.found.push((id, self.loops == 0 && !made));
            let inner = op.operands.iter().filter_map(|value| match value {
                Value::Op(inner) => Some((*inner, false)),
                _ => None,
            });
            self.found.extend(inner);
            op.output_tensors().for_each(|tensor| self.made[tensor] = true);
            let looped = u32::from(op.kind.is_loop());
            self.loops += looped;
            op.blocks.iter().for_each(|&block| self.walk_block(block));
            self.loops -= looped;
        }
    }
}

/// Writes the long or the short form. `same` means that both create new memory here.
fn restyle_allocate(edit: &mut Edit<'_>, op: &mut Op, short: bool, same: bool) {
    let Some(tensor) = op.output_tensors().next() else { return };
    let keeps = if same { !short } else { op.keeps_memory() };
    let size = stored_size(edit, tensor);
    if short {
        op.attrs.retain(|(key, value)| match (*key, value) {
            (AttrKey::Buffer | AttrKey::Keep, _) => false,
            (AttrKey::Size, AttrValue::Expr(expr)) => *expr != size,
            (AttrKey::ResetsToZero, AttrValue::Bool(resets)) => *resets,
            _ => true,
        });
    } else {
        if op.attr(AttrKey::Buffer).is_none() {
            op.attrs.insert(0, (AttrKey::Buffer, AttrValue::Bool(true)));
        }
        if op.attr(AttrKey::Size).is_none() {
            op.attrs.push((AttrKey::Size, AttrValue::Expr(size)));
        }
        if op.attr(AttrKey::ResetsToZero).is_none() {
            op.attrs.push((AttrKey::ResetsToZero, AttrValue::Bool(false)));
        }
        op.attrs.retain(|(key, _)| *key != AttrKey::Keep);
    }
    // Shared memory is bound anew each time: there is nothing to keep.
    if op.attr(AttrKey::Alias).is_none() {
        op.attrs.push((AttrKey::Keep, AttrValue::Bool(keeps)));
    }
}

/// The number of elements of a tensor over all devices: the product of the extents of its stored domains, from
/// the left; literals are folded together.
pub fn stored_size(edit: &mut Edit<'_>, tensor: TensorId) -> ExprId {
    let mut literal = 1i64;
    let mut product: Option<ExprId> = None;
    for at in 0..edit.program().domains(tensor).len() {
        let domain = &edit.program().domains(tensor)[at];
        if domain.is_reduction() {
            continue;
        }
        let extent = domain.extent;
        let value = edit.program().exprs().as_int(extent);
        // A factor that is too large to be folded stays a factor.
        match (value.and_then(|value| literal.checked_mul(value)), product) {
            (Some(folded), _) => literal = folded,
            (None, None) => product = Some(extent),
            (None, Some(before)) => {
                product = Some(edit.intern_expr(Expr::Binary(BinaryOp::Mul, before, extent)));
            }
        }
    }
    match product {
        Some(product) if literal == 1 => product,
        Some(product) => {
            let literal = edit.intern_expr(Expr::Int(literal));
            edit.intern_expr(Expr::Binary(BinaryOp::Mul, product, literal))
        }
        None => edit.intern_expr(Expr::Int(literal)),
    }
}

/// Older texts leave the usual backend out.
fn restyle_backend(edit: &mut Edit<'_>, op: &mut Op, printed: bool) {
    if !op.kind.is_post() {
        return;
    }
    let usual = edit.intern_name(CommBackend::default().word());
    if printed && op.attr(AttrKey::Backend).is_none() {
        op.attrs.push((AttrKey::Backend, AttrValue::Word(usual)));
    } else if !printed {
        op.attrs.retain(|attr| *attr != (AttrKey::Backend, AttrValue::Word(usual)));
    }
}

/// Converts a root to the meaning that a text has without `root_as=`, if possible: a number is converted, and a scalar
/// is the same for a team in which every member is at its own position.
fn restyle_root(edit: &mut Edit<'_>, op: &mut Op, counted: RootAs) {
    let (Some(root), Some(team)) = (op.expr_attr(AttrKey::Root), op.ints_attr(AttrKey::Team)) else {
        return;
    };
    if edit.program().root_as(op) == counted {
        return;
    }
    match edit.program().exprs().as_int(root) {
        Some(root) => {
            let Some(converted) = converted_root(root, team, counted) else { return };
            let number = edit.intern_expr(Expr::Int(converted));
            for (_, value) in op.attrs.iter_mut().filter(|(key, _)| *key == AttrKey::Root) {
                *value = AttrValue::Expr(number);
            }
        }
        None if is_identity(team) => {}
        None => return,
    }
    let position = counted == RootAs::Position;
    set_root_as(op, position.then(|| edit.intern_name(RootAs::Position.word())));
}

/// A root in the other meaning; `None` if the team does not determine it.
fn converted_root(root: i64, team: &[i64], counted: RootAs) -> Option<i64> {
    match counted {
        RootAs::Position => team.iter().zip(0..).find(|(device, _)| **device == root).map(|(_, at)| at),
        RootAs::Rank => team.get(usize::try_from(root).ok()?).copied().filter(|device| *device >= 0),
    }
}
