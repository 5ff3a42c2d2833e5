//! V35, V36: ranges of a slice and the dimension of a cat.

use crate::axes::logical_axes;
use crate::diag::{Diag, Diags, codes};
use crate::ir::places::with_declaration;
use crate::ir::{AttrKey, AttrValue, OpId, Program, expr_text};

/// V35: constant ranges of a slice run forwards and stay inside their axes.
pub(crate) fn check_slice_ranges(program: &Program, id: OpId, diags: &mut Diags) {
    let op = program.op(id);
    let Some(AttrValue::Ranges(ranges)) = op.attr(AttrKey::Ranges) else { return };
    let Some(input) = op.input_tensors().next() else { return };
    let axes = logical_axes(program, input);
    for (range, k) in ranges.iter().zip(axes.stored_positions()) {
        let [start, stop, step] = range.map(|expr| program.exprs().as_int(expr));
        let extent = program.exprs().as_int(axes.axes[k as usize].extent);
        let backwards = matches!((start, stop), (Some(start), Some(stop)) if start > stop);
        let outside = matches!((stop, extent), (Some(stop), Some(extent)) if stop > extent);
        if backwards || outside || start.is_some_and(|s| s < 0) || step.is_some_and(|s| s <= 0) {
            let written: Vec<String> = range.iter().map(|expr| expr_text(program, *expr)).collect();
            let message = format!(
                "the range {{{}}} of axis {k} of `{}` is not within the axis",
                written.join(", "),
                program.tensor_name(input)
            );
            diags.push(Diag::error(codes::RANGES, program.op_span(id), message));
        }
    }
}

/// V36: the dimension of a cat is one of the result's.
pub(crate) fn check_cat_dim(program: &Program, id: OpId, diags: &mut Diags) {
    let op = program.op(id);
    let dim = op.expr_attr(AttrKey::Dim).and_then(|dim| program.exprs().as_int(dim));
    let (Some(dim), Some(result)) = (dim, op.output_tensors().next()) else { return };
    let rank = logical_axes(program, result).stored_positions().len();
    if !(0..rank as i64).contains(&dim) {
        let message = format!("dimension {dim} does not exist: `{}` has rank {rank}", program.tensor_name(result));
        diags.push(with_declaration(Diag::error(codes::DIM, program.op_span(id), message), program, result, id));
    }
}
