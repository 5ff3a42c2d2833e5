//! Operands and shapes of a listing's calls.

use crate::element_range::Part;
use crate::gemm_shape::{Bias, Element, Layout, Shape};
use crate::nccl_lowering::Call;
use crate::nccl_types::NcclReduction;
use crate::p2p::Pace;
use hostir::plan::View;

/// `b3+40 float [8:32, 4:1]`: buffer, offset in elements, type, and extent and stride of each axis.
pub(super) fn view(view: &View) -> String {
    let dims: Vec<String> =
        view.dims.iter().map(|dim| format!("{}:{}", dim.extent, dim.stride)).collect();
    format!("b{}+{} {} [{}]", view.buffer.0, view.offset, view.dtype.name(), dims.join(", "))
}

/// A run of a view's elements.
pub(super) fn part(part: &Part) -> String {
    format!("{} elements {}..+{}", view(&part.view), part.start, part.count)
}

fn optional(part: Option<&Part>) -> String {
    part.map_or_else(|| "-".to_owned(), self::part)
}

/// A call of NCCL.
pub(super) fn communicate(call: &Call) -> String {
    match call {
        Call::AllGather { send, recv } => format!("allgather {} <- {}", part(recv), part(send)),
        Call::AllReduce { send, recv, op } => {
            format!("allreduce {} {} <- {}", reduction(*op), part(recv), part(send))
        }
        Call::Reduce { send, recv, op, root } => {
            let (op, recv) = (reduction(*op), optional(recv.as_ref()));
            format!("reduce {op} to {root} {recv} <- {}", part(send))
        }
        Call::ReduceScatter { send, recv, op } => {
            format!("reduce-scatter {} {} <- {}", reduction(*op), part(recv), part(send))
        }
        Call::Broadcast { send, recv, root } => {
            let (send, recv) = (optional(send.as_ref()), optional(recv.as_ref()));
            format!("broadcast from {root} {recv} <- {send}")
        }
        Call::Send { part: sent, peer } => format!("send to {peer} {}", part(sent)),
        Call::Recv { part: received, peer } => format!("receive from {peer} {}", part(received)),
        Call::Stage { bytes, count, dtype, peer } => {
            format!("receive from {peer} staging+{bytes} {count} {}", dtype.name())
        }
        Call::Copy { send, recv } => format!("copy {} <- {}", part(recv), part(send)),
    }
}

fn reduction(op: NcclReduction) -> &'static str {
    match op {
        NcclReduction::Sum => "sum",
        NcclReduction::Prod => "prod",
        NcclReduction::Max => "max",
        NcclReduction::Min => "min",
        NcclReduction::Avg => "avg",
    }
}

/// The order in which messages of an exchange follow each other.
pub(super) fn pace(pace: Pace) -> &'static str {
    match pace {
        Pace::Free => "independent",
        Pace::InTurn => "serialized",
        Pace::InARow => "batched",
    }
}

/// A matrix product of cuBLASLt.
pub(super) fn gemm_shape(shape: &Shape) -> String {
    let (a, b) = (factor(shape.a), factor(shape.b));
    let [left, right] = shape.factors.map(element);
    let bias = match &shape.bias {
        Bias::None => "no bias".to_owned(),
        Bias::Rows => "bias vector".to_owned(),
        Bias::Matrix(layout) => format!("bias {}", matrix(layout)),
    };
    let tf32 = if shape.tf32 { ", tf32" } else { "" };
    format!(
        "{} {} = {left} {a} * {right} {b}, {bias}, batch {}, alignments {:?}{tf32}",
        element(shape.element),
        matrix(&shape.d),
        shape.batch,
        shape.alignments
    )
}

fn factor((layout, transposed): (Layout, bool)) -> String {
    let mark = if transposed { " transposed" } else { "" };
    format!("{}{mark}", matrix(&layout))
}

fn matrix(layout: &Layout) -> String {
    let Layout { rows, columns, leading, batch_stride } = layout;
    format!("{rows}x{columns} leading {leading} batch stride {batch_stride}")
}

fn element(element: Element) -> &'static str {
    match element {
        Element::F64 => "f64",
        Element::F32 => "f32",
        Element::F16 => "f16",
        Element::Bf16 => "bf16",
        Element::E4m3 => "e4m3",
        Element::E5m2 => "e5m2",
    }
}
