//! Operands and shapes of a listing's calls.

use crate::element_range::ViewRange;
use crate::gemm_shape::{GemmBias, GemmScales, GemmShape, MatrixElement, MatrixLayout};
use crate::nccl_lowering::{NcclCall, NcclFunction};
use crate::p2p::{CopyOrder, MessageTarget};
use hostir::plan::{BufferView, RedOp};

/// `b3+40 float [8:32, 4:1]`: buffer, offset in elements, type, and extent and stride of each axis.
pub(super) fn view_text(view: &BufferView) -> String {
    let dims: Vec<String> = view.dims.iter().map(|dim| format!("{}:{}", dim.extent, dim.stride)).collect();
    format!("b{}+{} {} [{}]", view.buffer.0, view.offset, view.dtype.name(), dims.join(", "))
}

/// A run of a view's elements.
pub(super) fn range_text(part: &ViewRange) -> String {
    format!("{} elements {}..+{}", view_text(&part.view), part.start, part.count)
}

fn optional_range_text(part: Option<&ViewRange>) -> String {
    part.map_or_else(|| "-".to_owned(), self::range_text)
}

/// A call of NCCL.
pub(super) fn nccl_call_text(call: &NcclCall) -> String {
    let send = optional_range_text(call.send.as_ref());
    let recv = match &call.recv {
        Some(MessageTarget::Staging(bytes)) => format!("staging+{bytes} {} {}", call.count, call.dtype.name()),
        target => optional_range_text(target.as_ref().and_then(MessageTarget::as_part)),
    };
    let op = call.reduction.map_or("", reduction_name);
    match call.function {
        NcclFunction::AllGather => format!("allgather {recv} <- {send}"),
        NcclFunction::AllReduce => format!("allreduce {op} {recv} <- {send}"),
        NcclFunction::Reduce { root } => format!("reduce {op} to {root} {recv} <- {send}"),
        NcclFunction::ReduceScatter => format!("reduce-scatter {op} {recv} <- {send}"),
        NcclFunction::Broadcast { root } => format!("broadcast from {root} {recv} <- {send}"),
        NcclFunction::Send { peer } => format!("send to {peer} {send}"),
        NcclFunction::Recv { peer } => format!("receive from {peer} {recv}"),
        NcclFunction::Copy => format!("copy {recv} <- {send}"),
    }
}

/// NCCL's word of an operation.
fn reduction_name(op: RedOp) -> &'static str {
    if op == RedOp::Product { "prod" } else { op.word() }
}

/// The name of the order of the messages of a batch.
pub(super) fn copy_order_name(pace: CopyOrder) -> &'static str {
    match pace {
        CopyOrder::Free => "independent",
        CopyOrder::InTurn => "serialized",
        CopyOrder::InARow => "batched",
    }
}

/// A GEMM of cuBLASLt.
pub(super) fn gemm_shape(shape: &GemmShape) -> String {
    let (a, b) = (factor_text(&shape.a.0, shape.a.1), factor_text(&shape.b.0, shape.b.1));
    let [left, right] = shape.factors.map(element_name);
    let bias = match &shape.bias {
        GemmBias::None => "no bias".to_owned(),
        GemmBias::Rows => "bias vector".to_owned(),
        GemmBias::Matrix(layout) => format!("bias {}", matrix_text(layout)),
    };
    let scales = match shape.scales {
        GemmScales::None => "",
        GemmScales::Whole => ", a scale for each factor",
        GemmScales::Vectors => ", a scale for each row and column",
    };
    let tf32 = if shape.numerics.tf32 { ", tf32" } else { "" };
    let fast = if shape.numerics.fp8_fast_accumulation { ", fast accumulation" } else { "" };
    let parts = if shape.parts > 1 { format!(", {} products in one launch", shape.parts) } else { String::new() };
    let remote = if shape.remote { ", stored in another rank's memory" } else { "" };
    format!(
        "{} {} = {left} {a} * {right} {b}{scales}, {bias}, batch {}, alignments {:?}{tf32}{fast}{parts}{remote}",
        element_name(shape.element),
        matrix_text(&shape.d),
        shape.batch,
        shape.alignments
    )
}

fn factor_text(layout: &MatrixLayout, transposed: bool) -> String {
    let suffix = if transposed { " transposed" } else { "" };
    format!("{}{suffix}", matrix_text(layout))
}

fn matrix_text(layout: &MatrixLayout) -> String {
    let MatrixLayout { rows, columns, leading, batch_stride } = layout;
    format!("{rows}x{columns} leading {leading} batch stride {batch_stride}")
}

fn element_name(element: MatrixElement) -> &'static str {
    match element {
        MatrixElement::F64 => "f64",
        MatrixElement::F32 => "f32",
        MatrixElement::F16 => "f16",
        MatrixElement::Bf16 => "bf16",
        MatrixElement::E4m3 => "e4m3",
        MatrixElement::E5m2 => "e5m2",
    }
}
