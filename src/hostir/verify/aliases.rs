//! V9, V14: tensors that share memory.

use super::declarations::ReferencedTensors;
use crate::axes::logical_axes;
use crate::diag::message;
use crate::diag::{Diag, Diags, Message, codes};
use crate::ir::places::tensor_span;
use crate::ir::{IdVec, Program, TensorId, quoted_expr, quoted_parallel_type, quoted_type};
use crate::ops::memory::sharing::{check_own_memory, mesh_difference};
use rustc_hash::FxHashSet;

/// V9: aliases are between tensors of the program. A tensor that only aliases name is a link of a chain; for a chain
/// without a use, the first alias is reported.
pub(super) fn check_aliases(program: &Program, referenced: &ReferencedTensors, diags: &mut Diags) {
    let Some(aliases) = program.aliases() else { return };
    let mut known = IdVec::filled(false, program.tensors().len());
    for &tensor in &referenced.tensors {
        known[tensor] = true;
    }
    let host = referenced.tensors.iter().map(|&tensor| program.tensor(tensor)).filter(|tensor| tensor.unit.is_none());
    let numbers: FxHashSet<u32> = host.map(|tensor| tensor.number).collect();
    let (new_ones, originals): (FxHashSet<TensorId>, FxHashSet<TensorId>) = aliases.iter().copied().unzip();
    for &(new, original) in aliases {
        check_alias(program, new, original, diags);
        let ends = [(new, &originals), (original, &new_ones)];
        for (tensor, _) in ends.into_iter().filter(|(tensor, links)| !links.contains(tensor)) {
            let is_known = known[tensor] || numbers.contains(&program.tensor(tensor).number);
            if !is_known {
                known[tensor] = true;
                report_unknown(program, tensor, diags);
            }
        }
    }
}

fn report_unknown(program: &Program, tensor: TensorId, diags: &mut Diags) {
    let (list, name) = (if program.is_hir2() { "alias" } else { "Aliases:" }, program.quoted_tensor(tensor));
    let message = message!("`{}` names `{}`, which does not occur in the program", list, name);
    diags.push(Diag::error(codes::UNKNOWN_ALIAS, tensor_span(program, tensor), message));
}

/// An entry of the `Aliases:` section.
fn check_alias(program: &Program, new: TensorId, original: TensorId, diags: &mut Diags) {
    let names = (program.quoted_tensor(new), program.quoted_tensor(original));
    let span = tensor_span(program, new);
    if program.memory_tensor(new) == new {
        let message = message!("the aliases form a cycle from `{}` to `{}`", names.0, names.0);
        diags.push(
            Diag::error(codes::ALIAS_MEMORY, span, message)
                .with_note("remove one of the aliases: they must lead to a tensor that has memory"),
        );
        return;
    }
    let other = program.aliases().unwrap_or_default().iter().find(|(n, _)| *n == new);
    if let Some((_, first)) = other.filter(|(_, first)| *first != original) {
        let first = program.quoted_tensor(*first);
        let message = message!("`{}` is an alias of both `{}` and `{}`", names.0, first, names.1);
        diags.push(Diag::error(codes::ALIAS_MEMORY, span, message).with_note("remove one of the aliases"));
    }
    check_own_memory(program, new, span, diags);
    if let Some(what) = memory_difference(program, new, original) {
        let message = message!("`{}` cannot be an alias of `{}`: {}", names.0, names.1, what);
        let diag = Diag::error(codes::ALIAS_TYPE, span, message)
            .with_label(tensor_span(program, original), message!("`{}` is declared here", names.1))
            .with_note("an alias must have the element type, axes and mesh of its tensor");
        diags.push(diag);
    }
}

/// Describes a difference between two tensors that share one memory.
fn memory_difference(program: &Program, a: TensorId, b: TensorId) -> Option<Message> {
    let (x, y) = (program.tensor(a), program.tensor(b));
    if x.dtype != y.dtype {
        return Some(message!("their element types are `{}` and `{}`", quoted_type(x.dtype), quoted_type(y.dtype)));
    }
    if x.mesh != y.mesh {
        return Some(mesh_difference(program, a, b));
    }
    let (left, right) = (logical_axes(program, a), logical_axes(program, b));
    if left.split || right.split {
        return None;
    }
    let (i, k) = (left.stored_positions(), right.stored_positions());
    if i.len() != k.len() {
        return Some(message!("they store {} and {} axes", i.len(), k.len()));
    }
    let mut pairs = i.iter().zip(&k).map(|(&i, &k)| (left.axes[i as usize], right.axes[k as usize]));
    let differ = pairs.position(|(x, y)| {
        let extents = program.exprs().as_int(x.extent).zip(program.exprs().as_int(y.extent));
        x.device_type() != y.device_type() || extents.is_some_and(|(x, y)| x != y)
    })?;
    let axes = [left.axes[i[differ] as usize], right.axes[k[differ] as usize]];
    let [x, y] = axes
        .map(|axis| message!("`{}` over `{}`", quoted_expr(program, axis.extent), quoted_parallel_type(axis.parallel)));
    Some(message!("axis {} is {} and {}", differ, x, y))
}
