//! `--reference FILE`: another program on the same inputs, whole tensors against whole tensors.

use super::cli::Options;
use super::comparison::Checks;
use super::failure::Failure;
use super::inputs::{self, Input};
use super::outputs::Results;
use super::preparation::plan_ranks;
use super::program::Loaded;
use super::{progress, tensor_options};
use crate::data::brackets;
use hostir::axes::logical_axes;
use hostir::backend::cpu::{self, Steps};
use hostir::data::HostTensor;
use hostir::diag::{Diag, visible};
use hostir::ir::Definitions;
use hostir::ir::Program;
use hostir::lower::{Prepared, Sizes};
use hostir::plan::Limits;
use hostir_tool_support::errors;
use hostir_tool_support::io::Io;
use std::time::Duration;

/// Runs the reference and compares all outputs by position. Gives a line for each comparison.
///
/// # Errors
/// A reference that does not fit or does not run, and outputs that differ.
pub(super) fn compare_reference(
    file: &str,
    given: &[Input],
    prepared: &Prepared,
    results: &Results,
    options: &Options,
    io: &mut Io<'_>,
) -> Result<Vec<String>, Failure> {
    let loaded = Loaded::read(file, None, io)?;
    let whole: Vec<&HostTensor> = given.iter().map(whole).collect::<Result<_, _>>()?;
    count(file, "inputs", tensor_options::tensors(loaded.program.inputs()).len(), whole.len())?;
    count(
        file,
        "outputs",
        tensor_options::tensors(loaded.program.outputs()).len(),
        prepared.results,
    )?;
    same_axes(file, &loaded, &whole)?;
    let reference = plan_reference(&loaded, &whole, options, prepared.time)?;
    check_inputs(file, &reference, prepared, &whole)?;
    cpu::check_memory(&reference)?;
    let inputs: Vec<Input> = whole.into_iter().cloned().map(Input::Whole).collect();
    let parts = inputs::rank_inputs(&reference, &inputs, None);
    let steps = Steps::default();
    let run = progress::show_progress(
        progress::is_wanted(options, io),
        || progress::percent(&steps).map(|percent| format!("the reference: {percent}")),
        |_| cpu::run_counted(&reference, parts, &steps),
    );
    let run = run.map_err(|diags| loaded.fail(diags))?;
    let expected =
        Results::assemble(&reference, run, &[]).map_err(|diag| loaded.fail(vec![diag]))?;
    let mut checks = Checks::new(options);
    let what = format!("the reference `{}`", visible::line(file));
    for ((port, found), expected) in
        prepared.outputs.iter().zip(&results.whole).zip(&expected.whole)
    {
        if let (Some(found), Some(expected)) = (found, expected) {
            checks.pair(&port.name, found, &what, expected);
        }
    }
    checks.finish()
}

/// Refuses inputs of another type or shape than the reference's.
fn check_inputs(
    file: &str,
    reference: &Prepared,
    prepared: &Prepared,
    whole: &[&HostTensor],
) -> Result<(), Failure> {
    for ((port, theirs), own) in reference.inputs.iter().zip(&prepared.inputs).zip(whole) {
        if port.dtype != own.dtype() || port.shape() != own.shape() {
            let message = format!(
                "input {} of `{file}` is {} {:?}, but {} is {} {:?}",
                port.name,
                port.dtype.name(),
                port.shape(),
                theirs.name,
                own.dtype().name(),
                own.shape()
            );
            return Err(misfit(message).into());
        }
    }
    Ok(())
}

fn whole(input: &Input) -> Result<&HostTensor, Diag> {
    match input {
        Input::Whole(whole) => Ok(whole),
        Input::Parts(_) => {
            let message = "`--reference` needs whole inputs, but one is given as a file a rank";
            Err(Diag::global(errors::CONFLICT, message).note("hand the tensor over in one file"))
        }
    }
}

fn count(file: &str, what: &str, theirs: usize, own: usize) -> Result<(), Diag> {
    if theirs == own {
        return Ok(());
    }
    Err(misfit(format!("`{file}` has {theirs} tensor {what}, but the program has {own}")))
}

/// The reference's inputs have as many axes as what they are given.
fn same_axes(file: &str, loaded: &Loaded, whole: &[&HostTensor]) -> Result<(), Failure> {
    let program = &loaded.program;
    for (tensor, whole) in tensor_options::tensors(program.inputs()).into_iter().zip(whole) {
        let axes = logical_axes(program, tensor).stored().len();
        if axes != whole.shape().len() {
            let (name, shape) = (program.tensor_name(tensor), brackets(whole.shape()));
            let message =
                format!("input {name} of `{file}` has {axes} axes, but is given a tensor {shape}");
            return Err(misfit(message).into());
        }
    }
    Ok(())
}

fn misfit(message: String) -> Diag {
    Diag::global(errors::REFERENCE, message)
        .note("inputs and outputs of the two programs are matched by position")
}

/// Whether the extent of some axis of the host program has this name, or is computed from it.
fn is_extent(program: &Program, name: &str) -> bool {
    let Some(symbol) = program.names().find(name) else { return false };
    let tensors = program.tensors().iter().filter(|(_, tensor)| tensor.unit.is_none());
    let mut axes = tensors.flat_map(|(id, _)| logical_axes(program, id).axes);
    let definitions = Definitions::default();
    axes.any(|axis| {
        let mut extents = [Some(axis.extent), axis.expanded].into_iter().flatten();
        extents.any(|extent| definitions.depends(program, extent, symbol))
    })
}

fn is_scalar_input(program: &Program, name: &str) -> bool {
    let symbol = program.names().find(name);
    let mut scalars = program.inputs().iter().filter_map(|input| input.scalar());
    symbol.is_some() && scalars.any(|expr| program.exprs().as_name(expr) == symbol)
}

/// The reference's sizes are those of the inputs; scalar inputs of one name have one value.
fn plan_reference(
    loaded: &Loaded,
    whole: &[&HostTensor],
    options: &Options,
    time: Option<Duration>,
) -> Result<Prepared, Failure> {
    let tensors = tensor_options::tensors(loaded.program.inputs());
    let shapes = tensors.into_iter().zip(whole);
    let shapes = shapes.map(|(tensor, whole)| {
        (tensor_options::number(&loaded.program, tensor), whole.shape().to_vec())
    });
    let (mut set, mut reals) =
        (tensor_options::whole_numbers(&options.set), tensor_options::reals(&options.set));
    set.retain(|name, _| is_scalar_input(&loaded.program, name));
    reals.retain(|name, _| is_scalar_input(&loaded.program, name));
    let (shapes, streams) = (shapes.collect(), options.streams);
    let every = options.every;
    let limits = Limits { bytes: options.plan_memory.unwrap_or(Limits::BYTES), time };
    let sizes = Sizes { set, reals, shapes, streams, every, limits, ..Sizes::default() };
    // An extent that is given by name means the one of that name here, unless that does not fit the inputs.
    let mut named = sizes.clone();
    for (name, value) in tensor_options::whole_numbers(&options.set) {
        if is_extent(&loaded.program, &name) {
            named.set.entry(name).or_insert(value);
        }
    }
    if let Ok(prepared) = plan_ranks(&loaded.program, &named, &[]) {
        return Ok(prepared);
    }
    plan_ranks(&loaded.program, &sizes, &[]).map_err(|diags| loaded.fail(diags))
}
