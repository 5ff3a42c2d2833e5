//! Runs on the CPU of the shards that ranks hold: the oracle of `hostir.torch`.

use crate::failure::Failure;
use crate::judge::Judged;
use crate::program::{NativeProgram, SourcedProgram};
use crate::run::{is_same_type, type_error};
use crate::settings::{Settings, unknown_input};
use crate::shard_shape::{Extent, ShardAxis, match_shard};
use crate::tensor::{Tensor, dtype_name};
use crate::worker::run_detached;
use hostir::backend::cpu;
use hostir::data::HostTensor;
use hostir::diag::Diag;
use hostir::ir::{Expr, Program, TensorId};
use hostir::lower::io_names::{find_named_tensor, tensor_ids};
use hostir::lower::{IoTensor, PreparedProgram};
use hostir::plan::AxesTable;
use hostir::plan_checks::prove_program;
use hostir_tool_support::errors;
use pyo3::prelude::*;
use std::collections::BTreeMap;
use std::sync::Arc;

/// By input: the ranks' parts.
type RankParts = Vec<Vec<Arc<HostTensor>>>;

/// The outputs of one rank, each with its name, the part (`None` where the rank holds none), and the types to which
/// values are rounded on the way to it, in this program.
type RankOutputs = Vec<(String, Option<Tensor>, Vec<&'static str>)>;

/// Proves a program, runs it on the parts that its ranks hold, and gives the parts of the outputs, by rank. A part has
/// all axes of its tensor, or lacks those that are sharded over devices.
#[pyfunction]
pub(crate) fn run_ranks(
    py: Python<'_>,
    program: &NativeProgram,
    inputs: BTreeMap<String, Vec<Py<Tensor>>>,
    settings: Settings,
) -> PyResult<Vec<RankOutputs>> {
    let inner = program.inner.clone();
    let parts = inputs.into_iter().map(|(name, parts)| {
        let parts: Vec<_> = parts.iter().map(|part| part.get().host_tensor()).collect();
        (name, parts)
    });
    let parts = parts.collect();
    let result = run_detached(py, move || run_parts(&inner, &parts, settings))?;
    result.map_err(|failure| failure.into_exception(py))
}

fn run_parts(
    program: &SourcedProgram,
    inputs: &BTreeMap<String, Vec<Arc<HostTensor>>>,
    settings: Settings,
) -> Result<Vec<RankOutputs>, Failure> {
    let program = &program.for_sizes(settings.given_sizes())?;
    program.verify().map_err(|diags| program.to_failure(diags, Judged::Text))?;
    let parts = bind_parts(&program.program, inputs)?;
    let shapes: Vec<&[usize]> = parts.iter().map(|parts| parts.first().map_or(&[][..], |part| part.shape())).collect();
    let settings = Arc::new(settings.with_sizes(local_sizes(&program.program, &shapes)?));
    let prepared = settings.prepare(&program.program);
    let prepared = prepared.map_err(|diags| program.to_failure(diags, Judged::Proof(settings.clone())))?;
    check_lowered(program, &prepared)?;
    let errors = prove_program(&prepared).errors;
    if !errors.is_empty() {
        return Err(program.to_failure(errors, Judged::Proof(settings)));
    }
    cpu::check_memory(&prepared)?;
    let shards = shards_by_rank(&prepared, &parts)?;
    let result = cpu::run_plans(&prepared, shards);
    let result = result.map_err(|diags| Failure::new(&program.recipe.source, diags))?;
    let roundings = prepared.output_roundings();
    let names: Vec<Vec<&str>> = roundings.iter().map(|types| types.iter().copied().map(dtype_name).collect()).collect();
    let named = result.outputs.into_iter().map(|outputs| {
        let outputs = prepared.outputs.iter().zip(outputs).zip(&names);
        outputs
            .map(|((io_tensor, part), names)| (io_tensor.name.clone(), part.map(Tensor::new), names.clone()))
            .collect()
    });
    Ok(named.collect())
}

/// Refuses plain math, without a shard on any rank.
pub(crate) fn check_lowered(program: &SourcedProgram, prepared: &PreparedProgram) -> Result<(), Diag> {
    if !prepared.unlowered {
        return Ok(());
    }
    let message = format!("`{}` is plain math on whole tensors, which ranks cannot run", program.recipe.source.name);
    Err(Diag::global_error(errors::CONFLICT, message).with_note("lower it: passes=\"host-ir-lower\""))
}

/// The parts by input; each input needs some.
fn bind_parts(program: &Program, inputs: &BTreeMap<String, Vec<Arc<HostTensor>>>) -> Result<RankParts, Diag> {
    let tensors = tensor_ids(program.inputs());
    let mut parts: RankParts = tensors.iter().map(|_| Vec::new()).collect();
    for (key, given) in inputs {
        let at = find_named_tensor(program, &tensors, key).ok_or_else(|| unknown_input(program, "args", key))?;
        parts[at].clone_from(given);
    }
    for (tensor, parts) in tensors.iter().zip(&parts) {
        if parts.is_empty() {
            let message = format!("args: the program's input {} has no argument", program.tensor_name(*tensor));
            return Err(Diag::global_error(errors::TENSOR, message));
        }
    }
    Ok(parts)
}

/// The sizes that the shapes of a rank's parts, by input, fix: the named extents of axes that are not sharded.
pub(crate) fn local_sizes(program: &Program, parts: &[&[usize]]) -> Result<BTreeMap<String, i64>, Diag> {
    let axes = AxesTable::new(program);
    let mut sizes: BTreeMap<String, FoundSize> = BTreeMap::new();
    for (tensor, shape) in tensor_ids(program.inputs()).into_iter().zip(parts) {
        let extents: Vec<_> =
            axes.stored_axes(tensor).map(|axis| program.expr(axis.expanded.unwrap_or(axis.extent))).collect();
        let shard =
            axes.stored_axes(tensor).zip(&extents).map(|(axis, extent)| match (axis.is_device_index(), extent) {
                (_, _) if axis.parts.is_some() => ShardAxis { sharded: false, extent: None },
                (true, _) => ShardAxis { sharded: true, extent: Some(1) },
                (_, Expr::Int(extent)) => ShardAxis { sharded: false, extent: usize::try_from(*extent).ok() },
                _ => ShardAxis { sharded: false, extent: None },
            });
        let shard: Vec<ShardAxis> = shard.collect();
        let Some(found) = match_shard(&shard, &dense_extents(shape)) else {
            return Err(axes_error(program, tensor, &extents, shape));
        };
        let parts =
            axes.stored_axes(tensor).map(|axis| axis.parts.map_or(Some(1), |parts| program.exprs().as_int(parts)));
        for (((axis, extent), (found, _)), parts) in shard.iter().zip(extents).zip(found).zip(parts) {
            if let (false, Expr::Name(name), Some(parts)) = (axis.sharded, extent, parts) {
                let size = FoundSize { value: found as i64 * parts, tensor };
                let known = *sizes.entry(program.name(*name).to_owned()).or_insert(size);
                if known.value != size.value {
                    return Err(size_conflict(program, program.name(*name), known, size));
                }
            }
        }
    }
    Ok(sizes.into_iter().map(|(name, size)| (name, size.value)).collect())
}

/// An extent that an argument fixes.
#[derive(Clone, Copy)]
struct FoundSize {
    value: i64,
    tensor: TensorId,
}

/// The error for two arguments that fix one extent to two values, or for one that does.
fn size_conflict(program: &Program, name: &str, known: FoundSize, new: FoundSize) -> Diag {
    let (one, other) = (program.tensor_name(known.tensor), program.tensor_name(new.tensor));
    let message = format!("args: the extent {name} is {} in {one}, but {} in {other}", known.value, new.value);
    Diag::global_error(errors::SHAPE, message).with_note("are arguments exchanged, or is one of them transposed?")
}

/// The axes of a row-major tensor.
fn dense_extents(shape: &[usize]) -> Vec<Extent> {
    let mut stride = 1i64;
    let mut extents: Vec<Extent> = shape
        .iter()
        .rev()
        .map(|extent| {
            let own = stride;
            // The extents of a tensor without memory may overflow; nobody uses its strides.
            stride = i64::try_from(*extent).ok().and_then(|extent| own.checked_mul(extent)).unwrap_or(0);
            (*extent, own)
        })
        .collect();
    extents.reverse();
    extents
}

fn axes_error(program: &Program, tensor: TensorId, extents: &[&Expr], found: &[usize]) -> Diag {
    let name = program.tensor_name(tensor);
    let extents = extents.iter().map(|extent| match extent {
        Expr::Int(extent) => extent.to_string(),
        Expr::Name(extent) => program.name(*extent).to_owned(),
        _ => "..".to_owned(),
    });
    let extents = extents.collect::<Vec<_>>().join(", ");
    let message = format!("args: {name} has the axes [{extents}], but the argument has shape {found:?}");
    Diag::global_error(errors::SHAPE, message)
        .with_note("axes that are sharded over devices are left out, and axes behind numbers may be one with them")
}

/// The inputs of each rank in the shapes of its shards.
fn shards_by_rank(prepared: &PreparedProgram, parts: &RankParts) -> Result<Vec<Vec<HostTensor>>, Diag> {
    let ranks = (0..prepared.ranks).map(|rank| {
        let io_tensors = prepared.inputs.iter().zip(parts);
        io_tensors.map(|(io_tensor, parts)| shard_of_part(io_tensor, rank, parts)).collect()
    });
    ranks.collect()
}

fn shard_of_part(io_tensor: &IoTensor, rank: u32, parts: &[Arc<HostTensor>]) -> Result<HostTensor, Diag> {
    if !io_tensor.is_on_rank(rank) {
        return Ok(HostTensor::zeros(io_tensor.dtype, &[0]));
    }
    let Some(part) = parts.get(rank as usize) else {
        let message =
            format!("the program runs on more ranks than the group has: {} has {} parts", io_tensor.name, parts.len());
        return Err(Diag::global_error(errors::CONFLICT, message));
    };
    if !is_same_type(part.dtype(), io_tensor.dtype) {
        return Err(type_error(io_tensor, part.dtype()));
    }
    let shape = io_tensor.local_shape();
    let is_fitting = match_shard(&shard_axes(io_tensor), &dense_extents(part.shape())).is_some();
    let shard = HostTensor::from_bytes(io_tensor.dtype, &shape, part.bytes()).filter(|_| is_fitting);
    shard.ok_or_else(|| {
        let message = format!(
            "args: a part of {} has shape {shape:?}, but that of rank {rank} {:?}",
            io_tensor.name,
            part.shape()
        );
        Diag::global_error(errors::SHAPE, message)
    })
}

/// The axes of a rank's shard.
pub(crate) fn shard_axes(io_tensor: &IoTensor) -> Vec<ShardAxis> {
    let axes = io_tensor.axes.iter().map(|axis| match axis.device {
        Some(_) if axis.local_extent() == 1 => ShardAxis { sharded: true, extent: Some(1) },
        Some(_) => ShardAxis { sharded: false, extent: Some(axis.local_extent()) },
        None => ShardAxis { sharded: false, extent: Some(axis.extent) },
    });
    axes.collect()
}
