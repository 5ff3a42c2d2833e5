//! V35: ranges of a slice.

use crate::axes::logical_axes;
use crate::diag::{Diag, Diags, PartKind, Quoted, codes, message};
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
            let written = written.join(", ");
            let range = Quoted::spelled(PartKind::Scalar, format!("{{{written}}}"), format!("[{written}]"));
            let message = message!(
                "the range {} of axis {} of `{}` is not within the axis",
                range,
                k,
                program.tensor_name(input)
            );
            let diag = Diag::error(codes::RANGES, program.op_span(id), message);
            diags.push(match extent {
                Some(extent) => {
                    diag.with_note(message!("the axis has {} elements; a range is start, stop and step", extent))
                }
                None => diag,
            });
        }
    }
}
