//! V9, V14: tensors that share memory.

use super::places::{declared, tensor_span};
use crate::analysis::axes::logical_axes;
use crate::diag::codes;
use crate::diag::{Diag, Diags, Span};
use crate::ir::{OpId, Program, TensorId};
use crate::print::{expr_text, mesh_text};

/// An entry of the `Aliases:` section.
pub(super) fn check(program: &Program, new: TensorId, original: TensorId, diags: &mut Diags) {
    let names = (program.tensor_name(new), program.tensor_name(original));
    let span = tensor_span(program, new);
    if program.memory_of(new) == new {
        let message = format!("the aliases lead from `{}` back to `{}`", names.0, names.0);
        diags
            .push(Diag::error(codes::ALIAS_MEMORY, span, message).note(
                "an alias stands for a tensor that has memory: leave one of the entries out",
            ));
        return;
    }
    let other = program.aliases().unwrap_or_default().iter().find(|(n, _)| *n == new);
    if let Some((_, first)) = other.filter(|(_, first)| *first != original) {
        let first = program.tensor_name(*first);
        let message = format!("`{}` is an alias of `{first}` and of `{}`", names.0, names.1);
        diags.push(
            Diag::error(codes::ALIAS_MEMORY, span, message).note("leave one of the entries out"),
        );
    }
    own_memory(program, new, span, diags);
    if let Some(what) = difference(program, new, original) {
        let message = format!("`{}` cannot be an alias of `{}`: {what}", names.0, names.1);
        let diag = Diag::error(codes::ALIAS_TYPE, span, message)
            .label(tensor_span(program, original), format!("`{}` is declared here", names.1))
            .note(
                "an alias is another name of a tensor, with the same element type, axes and mesh",
            );
        diags.push(diag);
    }
}

/// `.alias=` behind an ALLOCATE.
pub(super) fn allocation(
    program: &Program,
    id: OpId,
    new: TensorId,
    original: TensorId,
    diags: &mut Diags,
) {
    let span = program.op_span(id);
    let names = (program.tensor_name(new), program.tensor_name(original));
    if program.memory_of(new) == program.memory_of(original) {
        let message = format!("the allocation of `{}` shares its own memory", names.0);
        diags.push(
            Diag::error(codes::ALIAS_MEMORY, span, message)
                .note("name the tensor whose memory it shall have, or leave `.alias=` out"),
        );
        return;
    }
    own_memory(program, new, span, diags);
    let (a, b) = (program.tensor(new), program.tensor(original));
    let what = if a.dtype != b.dtype {
        Some(format!("it is `{}` and the memory holds `{}`", a.dtype.name(), b.dtype.name()))
    } else if a.mesh != b.mesh {
        Some(meshes(program, new, original))
    } else {
        let (need, have) = (elements(program, new), elements(program, original));
        let larger = need.zip(have).filter(|(need, have)| need > have);
        larger.map(|(need, have)| format!("it has {need} elements and the memory {have}"))
    };
    if let Some(what) = what {
        let message = format!("`{}` cannot share the memory of `{}`: {what}", names.0, names.1);
        let diag = Diag::error(codes::ALIAS_TYPE, span, message)
            .note("leave `.alias=` out, or name a tensor of the same type that is large enough");
        diags.push(declared(diag, program, original, id));
    }
}

/// An input has the caller's memory.
fn own_memory(program: &Program, new: TensorId, span: Span, diags: &mut Diags) {
    if program.inputs().iter().any(|input| input.tensor() == Some(new)) {
        let name = program.tensor_name(new);
        let message = format!("`{name}` is an input, which has memory of its own");
        diags.push(
            Diag::error(codes::ALIAS_MEMORY, span, message)
                .note("turn the alias round, or remove the tensor from the inputs"),
        );
    }
}

/// The number of elements that a tensor stores, where the text says so.
fn elements(program: &Program, tensor: TensorId) -> Option<i64> {
    let axes = logical_axes(program, tensor);
    if axes.split {
        return None;
    }
    let stored = axes.axes.iter().filter(|axis| !axis.is_reduction());
    stored.into_iter().try_fold(1i64, |all, axis| {
        let extent = axis.expanded.unwrap_or(axis.extent);
        let local = if axis.is_sharded() { 1 } else { program.exprs().as_int(extent)? };
        all.checked_mul(local)
    })
}

/// What two tensors that are one memory differ in.
fn difference(program: &Program, a: TensorId, b: TensorId) -> Option<String> {
    let (x, y) = (program.tensor(a), program.tensor(b));
    if x.dtype != y.dtype {
        return Some(format!("one is `{}`, the other `{}`", x.dtype.name(), y.dtype.name()));
    }
    if x.mesh != y.mesh {
        return Some(meshes(program, a, b));
    }
    let (left, right) = (logical_axes(program, a), logical_axes(program, b));
    if left.split || right.split {
        return None;
    }
    let (i, k) = (left.stored(), right.stored());
    if i.len() != k.len() {
        return Some(format!("one stores {} axes, the other {}", i.len(), k.len()));
    }
    let int = |expr| program.exprs().as_int(expr);
    let mut pairs =
        i.iter().zip(&k).map(|(&i, &k)| (left.axes[i as usize], right.axes[k as usize]));
    let differ = pairs.position(|(x, y)| {
        let extents = int(x.extent).zip(int(y.extent));
        x.device() != y.device() || extents.is_some_and(|(x, y)| x != y)
    })?;
    let axis = |axes: &crate::analysis::axes::Axes, at: u32| {
        let axis = axes.axes[at as usize];
        format!("`{}` over `{}`", expr_text(program, axis.extent), axis.parallel.name())
    };
    let (x, y) = (axis(&left, i[differ]), axis(&right, k[differ]));
    Some(format!("axis {differ} is {x} and {y}"))
}

fn meshes(program: &Program, a: TensorId, b: TensorId) -> String {
    let mesh = |tensor: TensorId| mesh_text(program, program.tensor(tensor).mesh);
    format!("their meshes are `{}` and `{}`", mesh(a), mesh(b))
}
