//! Conversion between whole tensors and ranks' shards.
//!
//! Tensors are dense and row-major in their logical order of axes. A rank's shard has one index, or one part, of the
//! sharded axes and the whole extent of the others; without a mesh every rank has the whole tensor.

use super::{IoTensor, PreparedProgram, unravel_index};
use crate::data::HostTensor;
use crate::diag::message;
use crate::diag::{Diag, codes};
use crate::ir::{CommBackend, DType, quoted_type};
use crate::plan::{CollectiveKind, InstKind};

/// Returns the rank's shard of a whole input; an empty tensor of shape `[0]` outside of its mesh. `input` counts
/// the tensor inputs. The tensor must have the input's shape and type (see [`check_whole`]).
pub fn shard_input(prepared: &PreparedProgram, input: usize, rank: u32, whole: &HostTensor) -> HostTensor {
    let Some(io_tensor) = prepared.inputs.get(input) else {
        return HostTensor::zeros(whole.dtype(), &[0]);
    };
    let Some(origin) = io_tensor.shard_origin(rank) else { return HostTensor::zeros(io_tensor.dtype, &[0]) };
    let local = io_tensor.local_shape();
    if local == whole.shape() || check_whole(io_tensor, whole).is_err() {
        return whole.clone();
    }
    let mut part = HostTensor::zeros(io_tensor.dtype, &local);
    let size = io_tensor.dtype.byte_size();
    let row = local.last().copied().unwrap_or(1);
    for (index, to) in part.bytes_mut().chunks_exact_mut((row * size).max(1)).enumerate() {
        let from = row_offset(&origin, &local, whole.shape(), index) * size;
        to.copy_from_slice(&whole.bytes()[from..from + row * size]);
    }
    part
}

/// The element offset in the whole tensor of row `index` (along the last axis) of a shard.
fn row_offset(origin: &[usize], local: &[usize], whole: &[usize], mut index: usize) -> usize {
    let last = local.len().saturating_sub(1);
    let (mut offset, mut stride) = (0, 1);
    for axis in (0..local.len()).rev() {
        let within = if axis == last {
            0
        } else {
            let within = index % local[axis];
            index /= local[axis];
            within
        };
        offset += (origin[axis] + within) * stride;
        stride *= whole[axis];
    }
    offset
}

/// Checks that a tensor has the shape and type of the whole input.
///
/// # Errors
/// If shape or type differ.
pub fn check_whole(io_tensor: &IoTensor, whole: &HostTensor) -> Result<(), Diag> {
    if whole.dtype() != io_tensor.dtype {
        let message = message!(
            "{} is `{}`, but data of type `{}` was given",
            io_tensor.name,
            quoted_type(io_tensor.dtype),
            quoted_type(whole.dtype())
        );
        return Err(Diag::global_error(codes::SIZE, message));
    }
    if whole.shape() != io_tensor.whole_shape() {
        let message = message!(
            "{} has shape {}, but data of shape {} was given",
            io_tensor.name,
            format!("{:?}", io_tensor.whole_shape()),
            format!("{:?}", whole.shape())
        );
        return Err(Diag::global_error(codes::SIZE, message));
    }
    Ok(())
}

/// Assembles the whole output from the ranks' shards. Ranks that hold the same shard must agree bit for bit. In a
/// program with Reduces to several roots over NCCL they must agree within rounding, since each root accumulates in an
/// order of its own; the first rank's shard counts. `output` counts the tensor outputs. Errors: a shard is missing, has
/// another shape, or replicas differ (ranks, and the first index that differs).
///
/// # Errors
/// If there is no such output, a shard is missing or has another shape or type, or replicas differ.
pub fn assemble_output(
    prepared: &PreparedProgram,
    output: usize,
    parts: Vec<(u32, HostTensor)>,
) -> Result<HostTensor, Diag> {
    let Some(io_tensor) = prepared.outputs.get(output) else {
        return Err(Diag::global_error(codes::PORTS, message!("there is no output {}", output)));
    };
    let (shape, local) = (io_tensor.whole_shape(), io_tensor.local_shape());
    let mut whole = HostTensor::zeros(io_tensor.dtype, &shape);
    let mut owners: Vec<(Vec<usize>, u32, HostTensor)> = Vec::new();
    for (rank, part) in parts {
        let Some(origin) = io_tensor.shard_origin(rank) else { continue };
        if part.shape() != local || part.dtype() != io_tensor.dtype {
            let message =
                message!("rank {}'s shard of {} has shape {}", rank, io_tensor.name, format!("{:?}", part.shape()));
            return Err(Diag::global_error(codes::PORTS, message));
        }
        match owners.iter().find(|(other, ..)| *other == origin) {
            Some((_, first, replica)) => {
                let (first, second) = (Replica { rank: *first, part: replica }, Replica { rank, part: &part });
                compare_replicas(prepared, io_tensor, first, second)?;
            }
            None => {
                place_shard(&mut whole, &origin, &part);
                owners.push((origin, rank, part));
            }
        }
    }
    let needed: usize = io_tensor.axes.iter().map(|axis| axis.shards).product();
    if owners.len() != needed {
        return Err(unwritten_error(prepared, output, &owners));
    }
    Ok(whole)
}

/// The error for an output with missing shards.
fn unwritten_error(prepared: &PreparedProgram, output: usize, owners: &[(Vec<usize>, u32, HostTensor)]) -> Diag {
    let io_tensor = &prepared.outputs[output];
    let span = prepared.labels.tensor_span(io_tensor.tensor);
    let missing = |rank: &u32| {
        let origin = io_tensor.shard_origin(*rank);
        origin.is_some_and(|origin| owners.iter().all(|(other, ..)| *other != origin))
    };
    let missing: Vec<String> = (0..prepared.ranks).filter(missing).map(|rank| rank.to_string()).collect();
    let name = &io_tensor.name;
    let message = match (owners.is_empty(), output < prepared.results) {
        (true, true) => format!("output {name} is never written"),
        (true, false) => format!("output {name} has no memory at the end of the program"),
        _ => format!("output {name} has no memory on these ranks: {}", missing.join(", ")),
    };
    let diag = Diag::error(codes::UNWRITTEN_OUTPUT, span, message);
    if output < prepared.results {
        return diag;
    }
    diag.with_note("do not deallocate or rebind an output before the end of the program")
}

fn place_shard(whole: &mut HostTensor, origin: &[usize], part: &HostTensor) {
    let (shape, size) = (whole.shape().to_vec(), part.dtype().byte_size());
    let local = part.shape().to_vec();
    let row = local.last().copied().unwrap_or(1);
    for (index, from) in part.bytes().chunks_exact((row * size).max(1)).enumerate() {
        let to = row_offset(origin, &local, &shape, index) * size;
        whole.bytes_mut()[to..to + row * size].copy_from_slice(from);
    }
}

/// A rank's part of an output.
#[derive(Clone, Copy)]
struct Replica<'a> {
    rank: u32,
    part: &'a HostTensor,
}

fn compare_replicas(
    prepared: &PreparedProgram,
    io_tensor: &IoTensor,
    a: Replica<'_>,
    b: Replica<'_>,
) -> Result<(), Diag> {
    if a.part.bytes() == b.part.bytes() {
        return Ok(());
    }
    let unit = rounding_tolerance(prepared, io_tensor.dtype);
    let differs = match unit {
        Some(unit) => first_beyond_tolerance(unit, a.part, b.part),
        None => first_difference(a.part, b.part),
    };
    let Some(flat) = differs else { return Ok(()) };
    let mut index = unravel_index(a.part.shape(), flat);
    let origin = io_tensor.shard_origin(a.rank).unwrap_or_default();
    index.iter_mut().zip(origin).for_each(|(at, start)| *at += start);
    let message = message!(
        "replicas of {} differ{}: at {}, rank {} has {} and rank {} has {}",
        io_tensor.name,
        if unit.is_some() { " by more than rounding error" } else { "" },
        format!("{index:?}"),
        a.rank,
        a.part.get_f64(flat),
        b.rank,
        b.part.get_f64(flat)
    );
    Err(Diag::error(codes::REPLICAS, prepared.labels.tensor_span(io_tensor.tensor), message)
        .with_note("a tensor without a device axis must have the same elements on every rank of its mesh"))
}

/// The first element whose bits differ.
fn first_difference(a: &HostTensor, b: &HostTensor) -> Option<usize> {
    let size = a.dtype().byte_size();
    a.bytes().chunks(size).zip(b.bytes().chunks(size)).position(|(x, y)| x != y)
}

/// The relative difference that replicas may have, if any. If NCCL reduces to several roots, each of which accumulates
/// in an order of its own, it is one unit in the last place for each addition (Higham, Accuracy and Stability of
/// Numerical Algorithms, 4.2), of the coarsest reduced type.
fn rounding_tolerance(prepared: &PreparedProgram, dtype: DType) -> Option<f64> {
    let mut unit = type_epsilon(dtype)?;
    let mut roots = Vec::new();
    for plan in &prepared.plans {
        for inst in plan.iter() {
            let InstKind::Collective(one) = &inst.kind else { continue };
            if one.kind == CollectiveKind::Reduce && plan.communicators[one.comm].backend != CommBackend::Cuda {
                roots.push(one.root);
                let inputs = one.input.as_ref().and_then(|view| type_epsilon(view.dtype));
                unit = unit.max(inputs.unwrap_or(unit));
            }
        }
    }
    (roots.iter().any(|root| *root != roots[0])).then(|| unit * f64::from(prepared.ranks.max(4)))
}

/// The unit in the last place of 1, for types that are compared within rounding.
fn type_epsilon(dtype: DType) -> Option<f64> {
    match dtype {
        DType::Double => Some(f64::EPSILON),
        DType::Float => Some(f64::from(f32::EPSILON)),
        DType::Half => Some(2f64.powi(-10)),
        DType::BFloat16 => Some(2f64.powi(-7)),
        _ => None,
    }
}

/// The first element that differs by more than `unit` of its size, or of the tensor's typical size for small sums.
/// Infinities and NaN have to be equal.
fn first_beyond_tolerance(unit: f64, a: &HostTensor, b: &HostTensor) -> Option<usize> {
    let typical = typical_magnitude(a);
    (0..a.len()).find(|&index| {
        let (x, y) = (a.get_f64(index), b.get_f64(index));
        let same = x == y || (x.is_nan() && y.is_nan());
        let near = y.is_finite() && (x - y).abs() <= unit * x.abs().max(typical);
        !(same || (x.is_finite() && near))
    })
}

/// The median magnitude of the elements that are finite and not zero, from a sample of some thousand.
fn typical_magnitude(tensor: &HostTensor) -> f64 {
    let step = tensor.len().div_ceil(4096).max(1);
    let sizes = (0..tensor.len()).step_by(step).map(|index| tensor.get_f64(index).abs());
    let mut sizes: Vec<f64> = sizes.filter(|size| size.is_normal()).collect();
    let middle = sizes.len() / 2;
    if sizes.is_empty() { 0.0 } else { *sizes.select_nth_unstable_by(middle, f64::total_cmp).1 }
}
