//! Views of axes that change.

use super::sizes::{ClassExtents, RESIZE_EXTENT, count_literal};
use hostir::axes::logical_axes;
use hostir::diag::Diag;
use hostir::ir::AxisLink;
use hostir::ir::{OpId, Program, TensorId};

/// The axes that a view regroups: of the operand or of the result.
struct ViewGroup {
    tensor: TensorId,
    /// Logical positions.
    axes: Vec<u32>,
}

impl ViewGroup {
    /// The class and the literal extent of each axis, if all have one.
    fn literals(&self, sizes: &ClassExtents<'_>) -> Option<Vec<(usize, i64)>> {
        let roots = self.axes.iter().map(|&k| sizes.axis_root(self.tensor, k));
        roots.map(|root| Some((root, sizes.old[root]?))).collect()
    }

    /// True if a literal extent changes.
    fn changes(&self, sizes: &ClassExtents<'_>, program: &Program) -> bool {
        self.axes.iter().any(|&k| sizes.has_changed_extent(program, self.tensor, k))
    }
}

/// Computes the extents of a view's result from those of its operand.
pub(super) fn solve_view(
    sizes: &mut ClassExtents<'_>,
    program: &Program,
    id: OpId,
    links: &[AxisLink],
) -> Result<(), Diag> {
    let op = program.op(id);
    let (Some(from), Some(to)) = (op.input_tensors().next(), op.output_tensors().next()) else {
        return Ok(());
    };
    let (a, b) = (view_group(program, from, links), view_group(program, to, links));
    let (Some(inside), Some(outside)) = (a.literals(sizes), b.literals(sizes)) else {
        return solve_symbolic_view(sizes, program, id, &a, &b);
    };
    for &(root, old) in &inside {
        sizes.new[root].get_or_insert(old);
    }
    let elements = checked_product(inside.iter().map(|&(root, old)| sizes.new[root].unwrap_or(old)));
    let open: Vec<usize> =
        outside.iter().filter(|(root, _)| sizes.new[*root].is_none()).map(|(root, _)| *root).collect();
    let rest = checked_product(outside.iter().filter_map(|&(root, _)| sizes.new[root]));
    match (open.as_slice(), elements, rest) {
        ([], Some(elements), Some(rest)) if elements == rest => Ok(()),
        (&[root], Some(elements), Some(rest)) if rest > 0 && elements % rest == 0 => {
            sizes.new[root] = Some(elements / rest);
            Ok(())
        }
        (open, Some(elements), _) if Some(elements) == checked_product(known_extents(sizes, &outside)) => {
            for &root in open {
                sizes.new[root] = sizes.old[root];
            }
            Ok(())
        }
        (open, Some(elements), _) => Err(no_solution_error(program, id, elements, open.len())),
        (_, None, _) => Err(no_solution_error(program, id, i64::MAX, 0)),
    }
}

/// Checks a view whose extents are all known: an axis that it pairs with one of extent 1 may not have followed it.
pub(super) fn check_view(sizes: &ClassExtents<'_>, program: &Program, id: OpId) -> Result<(), Diag> {
    let op = program.op(id);
    let [from, to] =
        [op.input_tensors().next(), op.output_tensors().next()].map(|tensor| element_count(sizes, program, tensor?));
    match (from, to) {
        (Some(from), Some(to)) if from != to => Err(no_solution_error(program, id, from, 2)),
        _ => Ok(()),
    }
}

/// The number of elements of a tensor for the new number of devices, if its extents are literals.
fn element_count(sizes: &ClassExtents<'_>, program: &Program, tensor: TensorId) -> Option<i64> {
    let axes = logical_axes(program, tensor);
    let extents = axes.stored_positions().into_iter().map(|k| {
        let old = program.exprs().as_int(axes.axes[k as usize].extent)?;
        Some(sizes.new_extent(sizes.axis_root(tensor, k), old).unwrap_or(old))
    });
    checked_product(extents.collect::<Option<Vec<i64>>>()?.into_iter())
}

fn known_extents(sizes: &ClassExtents<'_>, group: &[(usize, i64)]) -> impl Iterator<Item = i64> {
    group.iter().map(|&(root, old)| sizes.new[root].unwrap_or(old))
}

fn checked_product(values: impl Iterator<Item = i64>) -> Option<i64> {
    values.into_iter().try_fold(1i64, |product, value| product.checked_mul(value))
}

fn view_group(program: &Program, tensor: TensorId, links: &[AxisLink]) -> ViewGroup {
    let axes = logical_axes(program, tensor).stored_positions().into_iter();
    let axes = axes.filter(|&k| links.iter().all(|l| l.from != (tensor, k) && l.to != (tensor, k)));
    ViewGroup { tensor, axes: axes.collect() }
}

/// Solves a view of axes with names for extents: if a literal one changes, `( 4 * i1 )` on the other side does too.
fn solve_symbolic_view(
    sizes: &mut ClassExtents<'_>,
    program: &Program,
    id: OpId,
    a: &ViewGroup,
    b: &ViewGroup,
) -> Result<(), Diag> {
    let (left, right) = (a.changes(sizes, program), b.changes(sizes, program));
    if left == right {
        // No change, or the same on both sides: as many elements as before, by the verifier.
        return if left { Err(symbolic_extents_error(program, id)) } else { Ok(()) };
    }
    let other = if left { b } else { a };
    let axes = &logical_axes(program, other.tensor).axes;
    let old = sizes.devices.old;
    let composite = other.axes.iter().copied().find(|&k| {
        let extent = axes[k as usize].extent;
        program.exprs().as_int(extent).is_none() && count_literal(program, extent, old) == 1
    });
    let Some(axis) = composite else { return Err(symbolic_extents_error(program, id)) };
    let root = sizes.axis_root(other.tensor, axis);
    sizes.follows[root] = true;
    Ok(())
}

fn no_solution_error(program: &Program, id: OpId, elements: i64, open: usize) -> Diag {
    let message = match open {
        0 | 1 => format!(
            "the operand axes of this view have {elements} elements for the new number of devices, which its result cannot have"
        ),
        _ => "the axis of this view that depends on the number of devices is ambiguous".to_owned(),
    };
    let note = "use extents that divide, or reshape the device axis in a separate view";
    Diag::error(RESIZE_EXTENT, program.op_span(id), message).with_note(note)
}

fn symbolic_extents_error(program: &Program, id: OpId) -> Diag {
    let message =
        "this view combines an axis that depends on the number of devices with axes of symbolic extent".to_owned();
    let note =
        "give the device axis a symbolic extent, too, as in `[ideviceIdx.x0{i0}, iS1{i1}]` and `[iS2{( i0 * i1 )}]`";
    Diag::error(RESIZE_EXTENT, program.op_span(id), message).with_note(note)
}
