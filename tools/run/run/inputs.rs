//! Inputs: from files, whole or one for each rank, or generated.

use super::cli::InputContent;
use super::data_files::DataFile;
use super::failure::RunFailure;
use super::tensor_options::BoundOptions;
use crate::data::bracketed_list;
use hostir::data::HostTensor;
use hostir::data::generate::{TensorGenerator, generate_tensor};
use hostir::diag::message;
use hostir::diag::{Diag, codes};
use hostir::ir::{DType, Program, quoted_type};
use hostir::lower;
use hostir::lower::SizeSettings;
use hostir::lower::io_names::tensor_ids;
use hostir::lower::{IoTensor, PreparedProgram};
use hostir_tool_support::errors;
use hostir_tool_support::io::ToolIo;
use std::collections::btree_map::Entry;

/// Whole tensors read from files, by input.
pub(super) type WholeTensors = Vec<Option<HostTensor>>;

/// One input as it was handed over.
#[derive(Debug)]
pub(super) enum InputData {
    /// The whole tensor.
    Whole(HostTensor),
    /// The ranks' shards; off the tensor's mesh an empty one.
    Parts(Vec<HostTensor>),
}

/// Reads the files that hold whole tensors.
///
/// # Errors
/// Files that cannot be read.
pub(super) fn read_whole(
    program: &Program,
    bound: &BoundOptions<'_>,
    io: &ToolIo<'_>,
) -> Result<WholeTensors, RunFailure> {
    let mut diags = Vec::new();
    let inputs = tensor_ids(program.inputs()).into_iter().zip(&bound.inputs);
    let whole = inputs
        .map(|(tensor, content)| match content {
            Some(InputContent::File(file)) if !file.per_rank() => {
                file.read_tensor(program.tensor(tensor).dtype, io).map_err(|diag| diags.push(diag)).ok()
            }
            _ => None,
        })
        .collect();
    if diags.is_empty() { Ok(whole) } else { Err(diags.into()) }
}

/// Adds the shapes of files to those of flags.
pub(super) fn add_shapes(sizes: &mut SizeSettings, program: &Program, bound: &BoundOptions<'_>, whole: &WholeTensors) {
    let inputs = tensor_ids(program.inputs()).into_iter().zip(&bound.inputs).zip(whole);
    for ((tensor, content), whole) in inputs {
        if let (Some(InputContent::File(file)), Some(whole)) = (content, whole)
            && let Entry::Vacant(entry) = sizes.shapes.entry(program.tensor_name(tensor))
        {
            sizes.files.insert(entry.key().clone(), file.to_string());
            entry.insert(whole.shape().to_vec());
        }
    }
}

/// All inputs, checked against the program's shapes and types.
///
/// # Errors
/// If files cannot be read, or tensors have another type or shape.
pub(super) fn bind_inputs(
    prepared: &PreparedProgram,
    bound: &BoundOptions<'_>,
    whole: WholeTensors,
    seed: u64,
    io: &ToolIo<'_>,
) -> Result<Vec<InputData>, RunFailure> {
    let mut inputs = Vec::new();
    let mut diags = Vec::new();
    for (position, (io_tensor, whole)) in prepared.inputs.iter().zip(whole).enumerate() {
        match bind_input(prepared, io_tensor, position, bound.inputs[position], whole, seed, io) {
            Ok(input) => inputs.push(input),
            Err(diag) => diags.push(diag),
        }
    }
    if diags.is_empty() { Ok(inputs) } else { Err(diags.into()) }
}

fn bind_input(
    prepared: &PreparedProgram,
    io_tensor: &IoTensor,
    position: usize,
    content: Option<&InputContent>,
    whole: Option<HostTensor>,
    seed: u64,
    io: &ToolIo<'_>,
) -> Result<InputData, Diag> {
    match (content, whole) {
        (Some(InputContent::File(file)), Some(tensor)) => {
            check_tensor(io_tensor, &io_tensor.whole_shape(), file, &tensor)?;
            Ok(InputData::Whole(tensor))
        }
        (Some(InputContent::File(file)), None) => parts_of_files(prepared, io_tensor, file, io).map(InputData::Parts),
        (Some(InputContent::Generate(generator)), _) => generate_input(*generator, io_tensor, position, seed),
        (None, _) => generate_input(TensorGenerator::default(), io_tensor, position, seed),
    }
}

/// Explains an index that is out of range by the values of integer inputs that the run does not give.
pub(super) fn explain_default_integers(diags: &mut [Diag], prepared: &PreparedProgram, bound: &BoundOptions<'_>) {
    let defaults = prepared
        .inputs
        .iter()
        .zip(&bound.inputs)
        .filter(|(input, content)| content.is_none() && input.dtype.is_integer());
    let names: Vec<&str> = defaults.map(|(input, _)| input.name.as_str()).collect();
    let Some(first) = names.first() else { return };
    let note = message!(
        "integers that a run does not give are from -8 to 7 (here inputs of integers: {}): `--input {}=iota` counts from \
         0, `--input {}=FILE.npy` reads them",
        names.join(", "),
        first,
        first
    );
    diags.iter_mut().filter(|diag| diag.code == codes::INDEX).for_each(|diag| diag.notes.push(note.clone()));
}

fn generate_input(
    generator: TensorGenerator,
    io_tensor: &IoTensor,
    position: usize,
    seed: u64,
) -> Result<InputData, Diag> {
    let mut tensor = generate_tensor(generator, io_tensor.dtype, &io_tensor.whole_shape(), seed, position);
    io_tensor.repeat_elements(&mut tensor);
    Ok(InputData::Whole(tensor))
}

fn parts_of_files(
    prepared: &PreparedProgram,
    io_tensor: &IoTensor,
    file: &DataFile,
    io: &ToolIo<'_>,
) -> Result<Vec<HostTensor>, Diag> {
    if prepared.unlowered {
        let message = message!("`{}` is one file per rank, but this program runs on whole tensors", file.to_string());
        return Err(Diag::global_error(errors::CONFLICT, message).with_note("pass the whole tensor in one file"));
    }
    (0..prepared.ranks)
        .map(|rank| {
            if !io_tensor.is_on_rank(rank) {
                return Ok(HostTensor::zeros(io_tensor.dtype, &[0]));
            }
            let file = file.of_rank(rank);
            let tensor = file.read_tensor(io_tensor.dtype, io)?;
            check_tensor(io_tensor, &io_tensor.local_shape(), &file, &tensor)?;
            Ok(tensor)
        })
        .collect()
}

/// Refuses a file's tensor that does not fit the program.
fn check_tensor(io_tensor: &IoTensor, shape: &[usize], file: &DataFile, tensor: &HostTensor) -> Result<(), Diag> {
    let name = &io_tensor.name;
    if tensor.dtype().name() != io_tensor.dtype.name() && !both_int64(tensor, io_tensor) {
        let message = message!(
            "`{}` contains {}, but {} is {}",
            file.to_string(),
            quoted_type(tensor.dtype()),
            name,
            quoted_type(io_tensor.dtype)
        );
        let note = "convert the file: input data are never converted or rounded";
        return Err(Diag::global_error(errors::DTYPE, message).with_note(note));
    }
    if tensor.shape() == shape {
        return io_tensor.check_repeated_elements(tensor);
    }
    let part = if shape == io_tensor.whole_shape() { "" } else { "the shard of " };
    let (found, needed) = (bracketed_list(tensor.shape()), bracketed_list(shape));
    let message = message!("`{}` has shape {}, but {}{} has shape {}", file.to_string(), found, part, name, needed);
    let diag = Diag::global_error(errors::SHAPE, message);
    Err(if tensor.shape() == io_tensor.whole_shape() {
        diag.with_note(message!("the file contains the whole tensor: name it without `%r` (`--input {}=FILE`)", name))
    } else if tensor.shape() == io_tensor.local_shape() {
        diag.with_note("the file contains the shard of one rank: name the files of all ranks with `%r` (`x.%r.npy`)")
    } else {
        diag.with_note(message!("the axes of {} are {}", name, axes_text(io_tensor)))
    })
}

fn both_int64(tensor: &HostTensor, io_tensor: &IoTensor) -> bool {
    is_int64(tensor.dtype()) && is_int64(io_tensor.dtype)
}

/// `8 (over deviceIdx.x), 4, 6`.
fn axes_text(io_tensor: &IoTensor) -> String {
    let axes = io_tensor.axes.iter().map(|axis| match axis.device {
        Some(device) => format!("{} (over {})", axis.extent, device.name()),
        None => axis.extent.to_string(),
    });
    axes.collect::<Vec<_>>().join(", ")
}

/// The inputs of each rank; with `only`, of that rank alone.
pub(super) fn rank_inputs(prepared: &PreparedProgram, inputs: &[InputData], only: Option<u32>) -> Vec<Vec<HostTensor>> {
    (0..prepared.ranks)
        .map(|rank: u32| {
            if only.is_some_and(|only| only != rank) {
                return Vec::new();
            }
            inputs.iter().enumerate().map(|(index, input)| shard_input(prepared, rank, index, input)).collect()
        })
        .collect()
}

fn shard_input(prepared: &PreparedProgram, rank: u32, index: usize, input: &InputData) -> HostTensor {
    match input {
        InputData::Whole(whole) => lower::shard_input(prepared, index, rank, whole),
        InputData::Parts(parts) => parts[rank as usize].clone(),
    }
}

fn is_int64(dtype: DType) -> bool {
    matches!(dtype, DType::Int | DType::Index)
}
