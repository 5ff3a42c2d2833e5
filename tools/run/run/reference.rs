//! `--reference FILE`: another program on the same inputs, whole tensors against whole tensors.

use super::cli::Options;
use super::comparison::OutputChecks;
use super::failure::RunFailure;
use super::inputs::{self, InputData};
use super::outputs::OutputTensors;
use super::preparation::plan_ranks;
use super::program::{ProgramChoice, SourceProgram};
use super::{progress, tensor_options};
use crate::data::bracketed_list;
use hostir::axes::logical_axes;
use hostir::backend::cpu::{self, StepCounter};
use hostir::data::HostTensor;
use hostir::diag::message;
use hostir::diag::{Diag, Message, visible};
use hostir::ir::{IndexDefinitions, Program, quoted_type};
use hostir::lower::io_names::tensor_ids;
use hostir::lower::{PreparedProgram, SizeSettings, stream_count};
use hostir::plan::PlanLimits;
use hostir_tool_support::errors;
use hostir_tool_support::io::ToolIo;
use std::time::Duration;

/// A reference that fits the program.
pub(super) struct LoadedReference {
    /// The program.
    pub(super) loaded: SourceProgram,
    /// Its plans.
    pub(super) prepared: PreparedProgram,
}

impl LoadedReference {
    /// Reads and plans the reference of a program with these inputs.
    ///
    /// # Errors
    /// A reference that does not fit.
    pub(super) fn load_reference(
        file: &str,
        program: &SourceProgram,
        given: &[InputData],
        prepared: &PreparedProgram,
        options: &Options,
        io: &mut ToolIo<'_>,
    ) -> Result<Self, RunFailure> {
        let loaded = match file.strip_prefix(':') {
            Some(name) => program.read_sibling(name)?,
            None => {
                let choice = ProgramChoice { container: None, ..options.program_choice() };
                let found = SourceProgram::read_program(file, choice, io);
                found.map_err(|failure| with_program_of_name(failure, file, program))?
            }
        };
        let whole = whole_tensors(given)?;
        check_count(file, "inputs", tensor_ids(loaded.program.inputs()).len(), whole.len())?;
        check_count(file, "outputs", tensor_ids(loaded.program.outputs()).len(), prepared.results)?;
        same_axes(file, &loaded, &whole)?;
        let reference = plan_reference(&loaded, &whole, options, prepared.time).or_else(|failure| {
            // With its own sizes it may be right, and be one of other inputs.
            let sizes = reference_sizes(&loaded, &[], options, prepared.time);
            match plan_ranks(&loaded.program, &sizes, &[]) {
                Ok(alone) => check_inputs(file, &alone, prepared, &whole).and(Err(failure)),
                Err(_) => Err(failure),
            }
        })?;
        check_inputs(file, &reference, prepared, &whole)?;
        Ok(Self { loaded, prepared: reference })
    }
}

/// Adds to the error about a file that cannot be read that the program's file has a program of that name.
fn with_program_of_name(mut failure: RunFailure, file: &str, program: &SourceProgram) -> RunFailure {
    let is_unread = failure.diags.iter().any(|diag| diag.code == errors::READ);
    if is_unread && program.has_sibling(file) {
        let note = message!("the program `{}` of this file is `--reference=:{}`", file, file);
        failure.diags.iter_mut().for_each(|diag| diag.notes.push(note.clone()));
    }
    failure
}

/// The reference in messages: ``the reference `plain.hir` ``.
pub(super) fn reference_name(file: &str) -> String {
    format!("the reference `{}`", visible::escape_line(file))
}

/// Runs the reference and compares all outputs by position. Returns a line for each comparison.
///
/// # Errors
/// If the reference does not fit or does not run, or outputs differ.
pub(super) fn compare_reference(
    file: &str,
    program: &SourceProgram,
    given: &[InputData],
    prepared: &PreparedProgram,
    results: &OutputTensors,
    options: &Options,
    io: &mut ToolIo<'_>,
) -> Result<Vec<String>, RunFailure> {
    let LoadedReference { loaded, prepared: reference } =
        LoadedReference::load_reference(file, program, given, prepared, options, io)?;
    cpu::check_memory(&reference)?;
    let inputs: Vec<InputData> = whole_tensors(given)?.into_iter().cloned().map(InputData::Whole).collect();
    let parts = inputs::rank_inputs(&reference, &inputs, None);
    let steps = StepCounter::default();
    let run = progress::show_progress(
        progress::is_wanted(options, io),
        || progress::percent_done(&steps).map(|percent| format!("the reference: {percent}")),
        |_| cpu::run_with_progress(&reference, parts, &steps),
    );
    let run = run.map_err(|diags| loaded.to_failure(diags))?;
    let expected =
        OutputTensors::assemble_outputs(&reference, run, &[]).map_err(|diag| loaded.to_failure(vec![diag]))?;
    let mut checks = OutputChecks::new(options);
    let what = reference_name(file);
    let (own, theirs) = (prepared.output_roundings(), reference.output_roundings());
    let outputs = prepared.outputs.iter().zip(&results.whole).zip(&expected.whole);
    for (((io_tensor, found), expected), (own, theirs)) in outputs.zip(own.into_iter().zip(theirs)) {
        if let (Some(found), Some(expected)) = (found, expected) {
            checks.check_pair(&io_tensor.name, found, &what, expected, &[own, theirs].concat());
        }
    }
    checks.finish()
}

/// Refuses inputs of another type or shape than the reference's.
fn check_inputs(
    file: &str,
    reference: &PreparedProgram,
    prepared: &PreparedProgram,
    whole: &[&HostTensor],
) -> Result<(), RunFailure> {
    for ((io_tensor, theirs), own) in reference.inputs.iter().zip(&prepared.inputs).zip(whole) {
        if io_tensor.dtype != own.dtype() || io_tensor.whole_shape() != own.shape() {
            let message = message!(
                "input {} of `{}` is {} {}, but {} is {} {}",
                io_tensor.name,
                file,
                quoted_type(io_tensor.dtype),
                format!("{:?}", io_tensor.whole_shape()),
                theirs.name,
                quoted_type(own.dtype()),
                format!("{:?}", own.shape())
            );
            return Err(misfit_diag(message).into());
        }
    }
    Ok(())
}

/// The inputs as whole tensors.
///
/// # Errors
/// An input that was given in parts.
pub(super) fn whole_tensors(given: &[InputData]) -> Result<Vec<&HostTensor>, Diag> {
    given.iter().map(whole_tensor).collect()
}

fn whole_tensor(input: &InputData) -> Result<&HostTensor, Diag> {
    match input {
        InputData::Whole(whole) => Ok(whole),
        InputData::Parts(_) => {
            let message = "`--reference` needs whole inputs, but an input has one file per rank";
            Err(Diag::global_error(errors::CONFLICT, message).with_note("pass the whole tensor in one file"))
        }
    }
}

fn check_count(file: &str, what: &str, theirs: usize, own: usize) -> Result<(), Diag> {
    if theirs == own {
        return Ok(());
    }
    Err(misfit_diag(format!("`{file}` has {theirs} tensor {what}, but the program has {own}")))
}

/// Checks that the reference's inputs have as many axes as the tensors for them.
fn same_axes(file: &str, loaded: &SourceProgram, whole: &[&HostTensor]) -> Result<(), RunFailure> {
    let program = &loaded.program;
    for (tensor, whole) in tensor_ids(program.inputs()).into_iter().zip(whole) {
        let axes = logical_axes(program, tensor).stored_positions().len();
        if axes != whole.shape().len() {
            let (name, shape) = (program.quoted_tensor(tensor), bracketed_list(whole.shape()));
            let message =
                message!("input {} of `{}` has {} axes, but the given tensor has shape {}", name, file, axes, shape);
            return Err(misfit_diag(message).into());
        }
    }
    Ok(())
}

fn misfit_diag(message: impl Into<Message>) -> Diag {
    Diag::global_error(errors::REFERENCE, message)
        .with_note("inputs and outputs of the two programs are matched by position")
}

/// Returns true if the extent of some axis of the host program has this name, or is computed from it.
fn is_extent(program: &Program, name: &str) -> bool {
    let Some(symbol) = program.names().find_symbol(name) else { return false };
    let tensors = program.tensors().iter().filter(|(_, tensor)| tensor.unit.is_none());
    let mut axes = tensors.flat_map(|(id, _)| logical_axes(program, id).axes);
    let definitions = IndexDefinitions::default();
    axes.any(|axis| {
        let mut extents = [Some(axis.extent), axis.expanded].into_iter().flatten();
        extents.any(|extent| definitions.depends_on(program, extent, symbol))
    })
}

fn is_scalar_input(program: &Program, name: &str) -> bool {
    let symbol = program.names().find_symbol(name);
    let mut scalars = program.inputs().iter().filter_map(|input| input.as_scalar());
    symbol.is_some() && scalars.any(|expr| program.exprs().as_name(expr) == symbol)
}

/// Plans the reference: its sizes are those of the inputs, and scalar inputs of one name have one value.
fn plan_reference(
    loaded: &SourceProgram,
    whole: &[&HostTensor],
    options: &Options,
    time: Option<Duration>,
) -> Result<PreparedProgram, RunFailure> {
    let sizes = reference_sizes(loaded, whole, options, time);
    // An extent that is given by name is that of the same name here, unless that does not fit the inputs.
    let mut named = sizes.clone();
    for (name, value) in tensor_options::whole_numbers(&options.set) {
        if is_extent(&loaded.program, &name) {
            named.set.entry(name).or_insert(value);
        }
    }
    if let Ok(prepared) = plan_ranks(&loaded.program, &named, &[]) {
        return Ok(prepared);
    }
    plan_ranks(&loaded.program, &sizes, &[]).map_err(|diags| loaded.to_failure(diags))
}

/// The sizes of the reference on these inputs.
fn reference_sizes(
    loaded: &SourceProgram,
    whole: &[&HostTensor],
    options: &Options,
    time: Option<Duration>,
) -> SizeSettings {
    let tensors = tensor_ids(loaded.program.inputs());
    let shapes = tensors.into_iter().zip(whole);
    let shapes = shapes.map(|(tensor, whole)| (loaded.program.tensor_name(tensor), whole.shape().to_vec()));
    let (mut set, mut reals) = (tensor_options::whole_numbers(&options.set), tensor_options::real_values(&options.set));
    set.retain(|name, _| is_scalar_input(&loaded.program, name));
    reals.retain(|name, _| is_scalar_input(&loaded.program, name));
    let (shapes, streams) = (shapes.collect(), stream_count(&loaded.program, options.streams));
    let every = options.every;
    let limits = PlanLimits { bytes: options.plan_memory.unwrap_or(PlanLimits::BYTES), time };
    let random_seed = options.seed;
    SizeSettings { set, reals, shapes, streams, random_seed, every, limits, ..SizeSettings::default() }
}
