//! Operands and shapes of a listing's calls.

use crate::element_range::ViewRange;
use crate::gemm_shape::{GemmBias, GemmScales, GemmShape, MatrixElement, MatrixLayout};
use crate::nccl_lowering::NcclCall;
use crate::nccl_types::NcclReduction;
use crate::p2p::CopyOrder;
use hostir::plan::BufferView;

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
    match call {
        NcclCall::AllGather { send, recv } => {
            format!("allgather {} <- {}", range_text(recv), range_text(send))
        }
        NcclCall::AllReduce { send, recv, op } => {
            format!("allreduce {} {} <- {}", reduction_name(*op), range_text(recv), range_text(send))
        }
        NcclCall::Reduce { send, recv, op, root } => {
            let (op, recv) = (reduction_name(*op), optional_range_text(recv.as_ref()));
            format!("reduce {op} to {root} {recv} <- {}", range_text(send))
        }
        NcclCall::ReduceScatter { send, recv, op } => {
            format!("reduce-scatter {} {} <- {}", reduction_name(*op), range_text(recv), range_text(send))
        }
        NcclCall::Broadcast { send, recv, root } => {
            let (send, recv) = (optional_range_text(send.as_ref()), optional_range_text(recv.as_ref()));
            format!("broadcast from {root} {recv} <- {send}")
        }
        NcclCall::Send { part: sent, peer } => format!("send to {peer} {}", range_text(sent)),
        NcclCall::Recv { part: received, peer } => {
            format!("receive from {peer} {}", range_text(received))
        }
        NcclCall::Stage { bytes, count, dtype, peer } => {
            format!("receive from {peer} staging+{bytes} {count} {}", dtype.name())
        }
        NcclCall::Copy { send, recv } => {
            format!("copy {} <- {}", range_text(recv), range_text(send))
        }
    }
}

fn reduction_name(op: NcclReduction) -> &'static str {
    match op {
        NcclReduction::Sum => "sum",
        NcclReduction::Prod => "prod",
        NcclReduction::Max => "max",
        NcclReduction::Min => "min",
        NcclReduction::Avg => "avg",
    }
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
    let remote = if shape.remote { ", stored in another rank's memory" } else { "" };
    format!(
        "{} {} = {left} {a} * {right} {b}{scales}, {bias}, batch {}, alignments {:?}{tf32}{fast}{remote}",
        element_name(shape.element),
        matrix_text(&shape.d),
        shape.batch,
        shape.alignments
    )
}

fn factor_text(layout: &MatrixLayout, transposed: bool) -> String {
    let mark = if transposed { " transposed" } else { "" };
    format!("{}{mark}", matrix_text(layout))
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
