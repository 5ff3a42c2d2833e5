//! Runs on the CPU: `hostir.run`.

use crate::failure::Failure;
use crate::judge::Judged;
use crate::program::{NativeProgram, SourcedProgram};
use crate::settings::{Settings, unknown_input};
use crate::tensor::{Tensor, dtype_name};
use crate::worker::run_detached;
use hostir::backend::cpu;
use hostir::data::HostTensor;
use hostir::data::generate::{TensorGenerator, generate_tensor};
use hostir::diag::{Diag, nearest_candidate};
use hostir::ir::{DType, Program};
use hostir::lower::io_names::{find_named_tensor, tensor_ids};
use hostir::lower::{IoTensor, PreparedProgram, assemble_output, shard_input};
use hostir::plan_checks::prove_program;
use hostir_tool_support::errors;
use pyo3::prelude::*;
use std::collections::BTreeMap;
use std::sync::Arc;

/// An input: a whole tensor, or the name of a generator.
#[derive(FromPyObject)]
pub(crate) enum InputValue {
    /// A generator, as in `--input T0=randn`.
    #[pyo3(transparent)]
    Generate(String),
    /// A tensor.
    #[pyo3(transparent)]
    Tensor(Py<Tensor>),
}

/// The contents of an input.
enum InputContent {
    Generate(TensorGenerator),
    Tensor(Arc<HostTensor>),
}

/// The settings of a run beside sizes.
#[derive(Clone, Copy, FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct RunSettings {
    /// The seed of generated inputs, and of random numbers for which the program has none.
    seed: u64,
    /// The program is proved first.
    check: bool,
}

/// Runs a program on the CPU, and gives its outputs as whole tensors.
#[pyfunction]
#[pyo3(name = "run")]
pub(crate) fn run_for_python(
    py: Python<'_>,
    program: &NativeProgram,
    inputs: BTreeMap<String, InputValue>,
    settings: Settings,
    run: RunSettings,
) -> PyResult<Vec<(String, Tensor)>> {
    let inner = program.inner.clone();
    let mut contents = BTreeMap::new();
    for (name, value) in inputs {
        let content = value.into_content(&name).map_err(|diag| Failure::from(diag).into_exception(py))?;
        contents.insert(name, content);
    }
    let result = run_detached(py, move || run_program(&inner, contents, &settings, run))?;
    let outputs = result.map_err(|failure| failure.into_exception(py))?;
    Ok(outputs.into_iter().map(|(name, tensor)| (name, Tensor::new(tensor))).collect())
}

impl InputValue {
    fn into_content(self, name: &str) -> Result<InputContent, Diag> {
        let word = match self {
            InputValue::Tensor(tensor) => return Ok(InputContent::Tensor(tensor.get().host_tensor())),
            InputValue::Generate(word) => word,
        };
        if let Some(generator) = TensorGenerator::parse(&word) {
            return Ok(InputContent::Generate(generator));
        }
        let words = TensorGenerator::ALL.iter().map(|(_, word)| *word);
        let diag = Diag::global_error(errors::VALUE, format!("inputs: `{name}` has an unknown generator `{word}`"));
        Err(match nearest_candidate(&word, words.clone()) {
            Some(near) => diag.with_note(format!("did you mean `{near}`?")),
            None => diag.with_note(format!("write an array, or one of {}", words.collect::<Vec<_>>().join(", "))),
        })
    }
}

fn run_program(
    program: &SourcedProgram,
    contents: BTreeMap<String, InputContent>,
    settings: &Settings,
    run: RunSettings,
) -> Result<Vec<(String, HostTensor)>, Failure> {
    let program = &program.for_sizes(settings.given_sizes())?;
    program.verify().map_err(|diags| program.to_failure(diags, Judged::Text))?;
    let shapes = contents.iter().filter_map(|(name, content)| match content {
        InputContent::Tensor(tensor) => Some((name.clone(), tensor.shape().to_vec())),
        InputContent::Generate(_) => None,
    });
    let contents_by_place = bind_contents(&program.program, &contents)?;
    let settings = Arc::new(settings.with_shapes(shapes).with_random_seed(run.seed));
    let prepared = settings.prepare(&program.program);
    let prepared = prepared.map_err(|diags| program.to_failure(diags, Judged::Proof(settings.clone())))?;
    if run.check {
        let errors = prove_program(&prepared).errors;
        if !errors.is_empty() {
            return Err(program.to_failure(errors, Judged::Proof(settings)));
        }
    }
    cpu::check_memory(&prepared)?;
    let inputs = fill_inputs(&prepared, &contents_by_place, run.seed)
        .map_err(|diags| program.to_failure(diags, Judged::Text))?;
    run_on_cpu(program, &prepared, &inputs)
}

/// By input: its content, if the caller has given one.
fn bind_contents<'c>(
    program: &Program,
    contents: &'c BTreeMap<String, InputContent>,
) -> Result<Vec<Option<&'c InputContent>>, Failure> {
    let tensors = tensor_ids(program.inputs());
    let mut bound: Vec<Option<&InputContent>> = tensors.iter().map(|_| None).collect();
    for (key, content) in contents {
        let Some(at) = find_named_tensor(program, &tensors, key) else {
            return Err(unknown_input(program, "inputs", key).into());
        };
        if bound[at].replace(content).is_some() {
            let name = program.tensor_name(tensors[at]);
            return Err(Diag::global_error(errors::TWICE, format!("inputs: {name} is given twice")).into());
        }
    }
    Ok(bound)
}

/// All inputs as whole tensors; generates those that are not given.
fn fill_inputs(
    prepared: &PreparedProgram,
    contents: &[Option<&InputContent>],
    seed: u64,
) -> Result<Vec<Arc<HostTensor>>, Vec<Diag>> {
    let mut diags = Vec::new();
    let mut inputs = Vec::new();
    for (position, (io_tensor, content)) in prepared.inputs.iter().zip(contents).enumerate() {
        let generator = match content {
            Some(InputContent::Tensor(tensor)) => {
                diags.extend(check_tensor(io_tensor, tensor).err());
                inputs.push(with_type(tensor, io_tensor.dtype));
                continue;
            }
            Some(InputContent::Generate(generator)) => *generator,
            None => TensorGenerator::default(),
        };
        let mut tensor = generate_tensor(generator, io_tensor.dtype, &io_tensor.whole_shape(), seed, position);
        io_tensor.repeat_elements(&mut tensor);
        inputs.push(Arc::new(tensor));
    }
    if diags.is_empty() { Ok(inputs) } else { Err(diags) }
}

/// The tensor in a type whose elements are the same.
fn with_type(tensor: &Arc<HostTensor>, dtype: DType) -> Arc<HostTensor> {
    let same = (tensor.dtype() != dtype).then(|| HostTensor::from_bytes(dtype, tensor.shape(), tensor.bytes()));
    same.flatten().map_or_else(|| tensor.clone(), Arc::new)
}

/// Refuses a tensor that does not fit the program.
fn check_tensor(io_tensor: &IoTensor, tensor: &HostTensor) -> Result<(), Diag> {
    if !is_same_type(tensor.dtype(), io_tensor.dtype) {
        return Err(type_error(io_tensor, tensor.dtype()));
    }
    let shape = io_tensor.whole_shape();
    if tensor.shape() == shape {
        return io_tensor.check_repeated_elements(tensor);
    }
    let message =
        format!("inputs: {} has shape {shape:?}, but the array has shape {:?}", io_tensor.name, tensor.shape());
    Err(Diag::global_error(errors::SHAPE, message)
        .with_note("inputs are whole tensors; the program's meshes shard them"))
}

/// Returns true if elements of one type are elements of the other.
pub(crate) fn is_same_type(found: DType, needed: DType) -> bool {
    found == needed || (is_int64(found) && is_int64(needed))
}

/// The error for an array of another type than the program's.
pub(crate) fn type_error(io_tensor: &IoTensor, found: DType) -> Diag {
    input_type_error(&io_tensor.name, io_tensor.dtype, found)
}

/// The error of an array for an input of a name and type.
pub(crate) fn input_type_error(name: &str, needed: DType, found: DType) -> Diag {
    let (needed, found) = (dtype_name(needed), dtype_name(found));
    Diag::global_error(errors::DTYPE, format!("inputs: {name} is {needed}, but the array is {found}"))
        .with_note("convert the array: input data are never converted or rounded")
}

fn is_int64(dtype: DType) -> bool {
    matches!(dtype, DType::Int | DType::Index)
}

/// Shards the inputs, runs all ranks, and puts the outputs together.
fn run_on_cpu(
    program: &SourcedProgram,
    prepared: &PreparedProgram,
    inputs: &[Arc<HostTensor>],
) -> Result<Vec<(String, HostTensor)>, Failure> {
    let failure = |diags| Failure::new(&program.recipe.source, diags);
    let shards = (0..prepared.ranks).map(|rank| {
        let parts = inputs.iter().enumerate().map(|(at, whole)| shard_input(prepared, at, rank, whole));
        parts.collect()
    });
    let result = cpu::run_plans(prepared, shards.collect()).map_err(failure)?;
    let mut parts: Vec<Vec<(u32, HostTensor)>> = prepared.outputs.iter().map(|_| Vec::new()).collect();
    for (rank, outputs) in (0..).zip(result.outputs) {
        for ((io_tensor, parts), part) in prepared.outputs.iter().zip(&mut parts).zip(outputs) {
            parts.extend(part.filter(|_| io_tensor.is_on_rank(rank)).map(|part| (rank, part)));
        }
    }
    let assembled = prepared.outputs.iter().zip(parts).enumerate().map(|(at, (io_tensor, parts))| {
        let whole = assemble_output(prepared, at, parts).map_err(|diag| failure(vec![diag]))?;
        Ok((io_tensor.name.clone(), whole))
    });
    assembled.collect()
}
