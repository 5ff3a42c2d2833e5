//! Attention that GPUs compute by one kernel, as one instruction.

use super::shapes::{AttentionFactors, AttentionSettings};
use crate::ir::DType;
use crate::plan::{AttentionInst, BufferView, ViewDim};

/// The most elements of a query or of a value for which a thread block has room.
const MOST_ELEMENTS: usize = 128;
/// Rows are copied in chunks of 16 bytes.
const CHUNK_ELEMENTS: usize = 8;
/// The outer axes of an instruction.
const OUTER_AXES: usize = 3;
/// The most heads of all batches together: a grid has no more blocks along y.
const MOST_HEADS: usize = 65_535;

/// The instruction without its composition; `None` for types, extents or memory that its kernel does not support.
pub(super) fn single_inst(
    factors: &AttentionFactors,
    settings: AttentionSettings,
    [out, logsumexp]: [&BufferView; 2],
) -> Option<AttentionInst> {
    let dtype = factors.query.view.dtype;
    let is_short = matches!(dtype, DType::BFloat16 | DType::Half) && logsumexp.dtype == DType::Float;
    let has_scale = settings.scale > 0.0 && (settings.scale as f32).is_normal();
    let in_rows = factors.views().chain([out]).all(|view| view.dtype == dtype && has_chunked_rows(view));
    let outer = factors.outer_shape();
    let has_heads = outer.iter().product::<usize>() <= MOST_HEADS;
    let kept: Vec<usize> = (0..outer.len()).filter(|&axis| outer[axis] != 1).collect();
    let is_written_once = [out, logsumexp].into_iter().all(|view| !view.dims.iter().any(ViewDim::repeats_element));
    if !(is_short && has_scale && in_rows && has_heads && kept.len() <= OUTER_AXES && is_written_once) {
        return None;
    }
    let [query, key, value] = [&factors.query, &factors.key, &factors.value].map(|factor| &factor.view);
    let [query, key, value, result, logsumexp] =
        [query, key, value, out, logsumexp].map(|view| with_outer_axes(view, outer.len(), &kept));
    let (is_causal, scale) = (settings.causal, settings.scale);
    Some(AttentionInst { query, key, value, result, logsumexp, is_causal, scale, composition: Vec::new() })
}

/// True if the rows of a view are contiguous, start at multiples of a chunk, and fit the kernel.
fn has_chunked_rows(view: &BufferView) -> bool {
    let Some((row, outer)) = view.dims.split_last() else { return false };
    let starts = outer.iter().filter(|dim| dim.extent > 1).map(|dim| dim.stride).chain([view.offset, row.extent]);
    row.stride == 1
        && (1..=MOST_ELEMENTS).contains(&row.extent)
        && starts.into_iter().all(|start| start.is_multiple_of(CHUNK_ELEMENTS))
}

/// The view with the outer axes of more than one index, and axes of one index in front of them.
fn with_outer_axes(view: &BufferView, outer: usize, kept: &[usize]) -> BufferView {
    let one = ViewDim { extent: 1, stride: 0 };
    let (before, inner) = view.dims.split_at(outer);
    let padding = (kept.len()..OUTER_AXES).map(|_| one);
    let dims = padding.chain(kept.iter().map(|&axis| before[axis])).chain(inner.iter().copied()).collect();
    BufferView { dims, ..view.clone() }
}
