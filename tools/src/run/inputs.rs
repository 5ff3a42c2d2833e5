//! Inputs: from files, whole or one a rank, or generated.

use super::cli::Content;
use super::data_files::DataFile;
use super::failure::Failure;
use super::tensor_options::{self, Bound};
use crate::data::brackets;
use crate::data::generate::{Generator, fill};
use hostir::data::HostTensor;
use hostir::diag::Diag;
use hostir::ir::{DType, Program};
use hostir::lower;
use hostir::lower::Sizes;
use hostir::lower::{Port, Prepared};
use hostir_tool_support::errors;
use hostir_tool_support::io::Io;
use std::collections::btree_map::Entry;

/// Whole tensors read from files, by input.
pub(super) type Whole = Vec<Option<HostTensor>>;

/// One input as it was handed over.
#[derive(Debug)]
pub(super) enum Input {
    /// The whole tensor.
    Whole(HostTensor),
    /// The ranks' parts; off the tensor's mesh an empty one.
    Parts(Vec<HostTensor>),
}

/// Reads the files that hold whole tensors.
///
/// # Errors
/// Files that cannot be read.
pub(super) fn read_whole(bound: &Bound<'_>, io: &Io<'_>) -> Result<Whole, Failure> {
    let mut diags = Vec::new();
    let whole = bound
        .inputs
        .iter()
        .map(|content: &Option<&Content>| match content {
            Some(Content::File(file)) if !file.per_rank() => {
                file.read(io).map_err(|diag| diags.push(diag)).ok()
            }
            _ => None,
        })
        .collect();
    if diags.is_empty() { Ok(whole) } else { Err(diags.into()) }
}

/// Adds the shapes of files to those that flags give.
pub(super) fn add_shapes(sizes: &mut Sizes, program: &Program, bound: &Bound<'_>, whole: &Whole) {
    let inputs =
        tensor_options::tensors(program.inputs()).into_iter().zip(&bound.inputs).zip(whole);
    for ((tensor, content), whole) in inputs {
        if let (Some(Content::File(file)), Some(whole)) = (content, whole)
            && let Entry::Vacant(entry) =
                sizes.shapes.entry(tensor_options::number(program, tensor))
        {
            sizes.files.insert(entry.key().clone(), file.to_string());
            entry.insert(whole.shape().to_vec());
        }
    }
}

/// All inputs, checked against the program's shapes and types.
///
/// # Errors
/// Files that cannot be read, and tensors of another type or shape.
pub(super) fn bind_inputs(
    prepared: &Prepared,
    bound: &Bound<'_>,
    whole: Whole,
    seed: u64,
    io: &Io<'_>,
) -> Result<Vec<Input>, Failure> {
    let mut inputs = Vec::new();
    let mut diags = Vec::new();
    for (position, (port, whole)) in prepared.inputs.iter().zip(whole).enumerate() {
        match one(prepared, port, position, bound.inputs[position], whole, seed, io) {
            Ok(input) => inputs.push(input),
            Err(diag) => diags.push(diag),
        }
    }
    if diags.is_empty() { Ok(inputs) } else { Err(diags.into()) }
}

fn one(
    prepared: &Prepared,
    port: &Port,
    position: usize,
    content: Option<&Content>,
    whole: Option<HostTensor>,
    seed: u64,
    io: &Io<'_>,
) -> Result<Input, Diag> {
    match (content, whole) {
        (Some(Content::File(file)), Some(tensor)) => {
            check(port, &port.shape(), file, &tensor)?;
            Ok(Input::Whole(tensor))
        }
        (Some(Content::File(file)), None) => {
            parts_of_files(prepared, port, file, io).map(Input::Parts)
        }
        (Some(Content::Generate(generator)), _) => generated(*generator, port, position, seed),
        (None, _) => generated(Generator::default(), port, position, seed),
    }
}

fn generated(generator: Generator, port: &Port, position: usize, seed: u64) -> Result<Input, Diag> {
    Ok(Input::Whole(fill(generator, port.dtype, &port.shape(), seed, position)))
}

fn parts_of_files(
    prepared: &Prepared,
    port: &Port,
    file: &DataFile,
    io: &Io<'_>,
) -> Result<Vec<HostTensor>, Diag> {
    if prepared.unlowered {
        let message = format!(
            "`{file}` has one file a rank, but this program is plain math on whole tensors"
        );
        return Err(
            Diag::global(errors::CONFLICT, message).note("hand over the whole tensor in one file")
        );
    }
    (0..prepared.ranks)
        .map(|rank| {
            if !port.on(rank) {
                return Ok(HostTensor::zeros(port.dtype, &[0]));
            }
            let file = file.of_rank(rank);
            let tensor = file.read(io)?;
            check(port, &port.local_shape(), &file, &tensor)?;
            Ok(tensor)
        })
        .collect()
}

/// Refuses a file's tensor that the program does not take.
fn check(port: &Port, shape: &[usize], file: &DataFile, tensor: &HostTensor) -> Result<(), Diag> {
    let name = &port.name;
    if tensor.dtype().name() != port.dtype.name() && !both_int64(tensor, port) {
        let message = format!(
            "`{file}` holds {}, but {name} is {}",
            tensor.dtype().name(),
            port.dtype.name()
        );
        let note = "convert the file: data is handed over as it is, never rounded";
        return Err(Diag::global(errors::DTYPE, message).note(note));
    }
    if tensor.shape() == shape {
        return Ok(());
    }
    let part = if shape == port.shape() { "" } else { "a rank's part of " };
    let (found, needed) = (brackets(tensor.shape()), brackets(shape));
    let message = format!("`{file}` has the shape {found}, but {part}{name} is {needed}");
    let diag = Diag::global(errors::SHAPE, message);
    Err(if tensor.shape() == port.shape() {
        diag.note(format!(
            "the file holds the whole tensor: name it without `%r` (`--input {name}=FILE`)"
        ))
    } else if tensor.shape() == port.local_shape() {
        diag.note(
            "the file holds one rank's part: name the files of all ranks with `%r` (`x.%r.npy`)",
        )
    } else {
        diag.note(format!("the axes of {name} are {}", axes(port)))
    })
}

fn both_int64(tensor: &HostTensor, port: &Port) -> bool {
    is_int64(tensor.dtype()) && is_int64(port.dtype)
}

/// `8 (over deviceIdx.x), 4, 6`.
fn axes(port: &Port) -> String {
    let axes = port.axes.iter().map(|axis| match axis.device {
        Some(device) => format!("{} (over {})", axis.extent, device.name()),
        None => axis.extent.to_string(),
    });
    axes.collect::<Vec<_>>().join(", ")
}

/// The inputs of each rank; with `only`, of that rank alone.
pub(super) fn rank_inputs(
    prepared: &Prepared,
    inputs: &[Input],
    only: Option<u32>,
) -> Vec<Vec<HostTensor>> {
    (0..prepared.ranks)
        .map(|rank: u32| {
            if only.is_some_and(|only| only != rank) {
                return Vec::new();
            }
            inputs
                .iter()
                .enumerate()
                .map(|(index, input)| shard_input(prepared, rank, index, input))
                .collect()
        })
        .collect()
}

fn shard_input(prepared: &Prepared, rank: u32, index: usize, input: &Input) -> HostTensor {
    match input {
        Input::Whole(whole) => lower::shard(prepared, index, rank, whole),
        Input::Parts(parts) => parts[rank as usize].clone(),
    }
}

fn is_int64(dtype: DType) -> bool {
    matches!(dtype, DType::Int | DType::Index)
}
