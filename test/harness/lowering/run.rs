//! Runs of a program before and after lowering.

use super::generate::Generated;
use super::meaning::compare_meaning;
use hostir::backend::cpu;
use hostir::data::HostTensor;
use hostir::diag::{Diags, render};
use hostir::ir::OpEffect;
use hostir::ir::Program;
use hostir::lower;
use hostir::lower::{PreparedProgram, SizeSettings};
use hostir::plan_checks::prove_program;
use hostir_passes::{manager, pipeline};
use hostir_test::values::values;
use std::collections::BTreeMap;

/// The outcome of a comparison.
pub(crate) enum Outcome {
    /// Both compute the same.
    Equal,
    /// The pipeline does not take the program, and says why, with this code first.
    Refused(&'static str),
    /// Anything else, in words.
    Wrong(String),
}

/// Lowers a program and compares what both compute, element by element: all values are small whole
/// numbers, so that every order of additions gives the same sum.
pub(crate) fn compare(generated: &Generated, text: &str, streams: u32, renumber: bool) -> Outcome {
    match run(generated, text, streams, renumber) {
        Ok(outcome) => outcome,
        Err(text) => Outcome::Wrong(text),
    }
}

fn run(generated: &Generated, text: &str, streams: u32, renumber: bool) -> Result<Outcome, String> {
    let plain = load(&generated.text)?;
    let mut lowered = load(generated.lowers.as_ref().unwrap_or(&generated.text))?;
    if let Some(code) = apply(&mut lowered, &generated.text, text)? {
        return Ok(Outcome::Refused(code));
    }
    // New numbers change the names of extents, by which they are set.
    if renumber && generated.set.is_empty() {
        hostir::style::renumber_program(&mut lowered);
    }
    let printed = hostir::print::print_to_string(&lowered);
    let lowered = load(&printed)?;
    let (expected, found) = (outputs(&plain, &generated.set, 1), outputs(&lowered, &generated.set, streams));
    let found = match found {
        Ok(found) => found,
        Err(text) => return Err(format!("{text}\n{printed}")),
    };
    let expected = expected?;
    // A program that still moves data by plain ops runs as plain math, which says nothing about ranks.
    let converts = ["host-ir-lower", "convert-op-to-communication"];
    if found.prepared.unlowered && converts.iter().any(|pass| text.contains(pass)) {
        return Err(format!("something is left to lower\n{printed}"));
    }
    if expected.values == found.values {
        compare_meaning(&found.prepared, &expected.prepared).map_err(|text| format!("{text}\n{printed}"))?;
        return Ok(Outcome::Equal);
    }
    Err(format!("plain {:?}\nlowered {:?}\n{printed}", expected.values, found.values))
}

/// Runs a pipeline; gives the code of the error if it does not take the program. `text` is the program's.
pub(crate) fn apply(program: &mut Program, text: &str, passes: &str) -> Result<Option<&'static str>, String> {
    let pipeline = pipeline::parse_pipeline(passes, hostir_passes::PASSES)
        .map_err(|diags| render::to_string("pipeline", passes, &diags.items))?;
    let config = manager::Config::default();
    let Err(failure) = manager::run_pipeline(program, &pipeline, &config, &mut manager::SilentObserver) else {
        return Ok(None);
    };
    if failure.errors.items.iter().any(|diag| diag.code == "H0307") {
        return Err(render::to_string("program.hir", text, &failure.errors.items));
    }
    Ok(Some(failure.errors.items.first().map_or("", |diag| diag.code)))
}

/// The program for `devices` of them, if `resize-mesh` can tell what that is. It is lowered after it is
/// resized, or, where `late`, still as it was.
pub(crate) fn resized(generated: &Generated, devices: usize, late: bool) -> Option<Generated> {
    let (name, _) = generated.mesh.as_ref()?;
    let text = resize(devices);
    let pipeline = pipeline::parse_pipeline(&text, hostir_passes::PASSES).ok()?;
    let mut program = load(&generated.text).ok()?;
    let config = manager::Config::default();
    manager::run_pipeline(&mut program, &pipeline, &config, &mut manager::SilentObserver).ok()?;
    let mut set = generated.set.clone();
    if let Some(value) = set.get_mut(name) {
        *value = devices as i64;
    }
    let lowers = late.then(|| generated.text.clone());
    let mesh = Some((name.clone(), devices));
    let (text, own_names) = (hostir::print::print_to_string(&program), generated.own_names);
    Some(Generated { text, set, lowers, own_names, mesh })
}

/// `resize-mesh{devices=3}`
pub(crate) fn resize(devices: usize) -> String {
    format!("resize-mesh{{devices={devices}}}")
}

/// The first program of a text, if it is right.
pub(crate) fn load(text: &str) -> Result<Program, String> {
    let (mut programs, mut diags) = hostir::load(text);
    if let Some(program) = programs.first() {
        hostir::verify::verify(program, &mut diags);
    }
    match programs.pop() {
        Some(program) if !diags.has_errors() => Ok(program),
        _ => Err(format!("{}\n{text}", rendered(text, &diags))),
    }
}

fn rendered(text: &str, diags: &Diags) -> String {
    render::to_string("program.hir", text, &diags.items)
}

/// The results of a run.
pub(crate) struct Ran {
    /// The program that ran, with its plans.
    pub(crate) prepared: PreparedProgram,
    /// The values of all outputs.
    pub(crate) values: Vec<Vec<f64>>,
}

/// Lowers a program for all ranks and once more for each alone, and compares what the ranks' programs
/// compute together with what the one for all computes. `None` where the program cannot be lowered.
pub(crate) fn compare_ranks(generated: &Generated) -> Option<Result<(), String>> {
    let lower = |options: &str| {
        let text = format!("host-ir-lower{options}");
        let pipeline = pipeline::parse_pipeline(&text, hostir_passes::PASSES).ok()?;
        let mut program = load(&generated.text).ok()?;
        let config = manager::Config::default();
        manager::run_pipeline(&mut program, &pipeline, &config, &mut manager::SilentObserver).ok()?;
        Some(hostir::print::print_to_string(&program))
    };
    let common = lower("")?;
    let of_rank =
        |rank: u32| lower(&format!("{{rank={rank}}}")).ok_or_else(|| format!("rank {rank} is not lowered\n{common}"));
    Some(ranks(generated, &common, &of_rank))
}

fn ranks(generated: &Generated, common: &str, of_rank: &dyn Fn(u32) -> Result<String, String>) -> Result<(), String> {
    let program = load(common)?;
    let sizes = SizeSettings { set: generated.set.clone(), ..SizeSettings::default() };
    let mut prepared = lower::prepare_program(&program, &sizes).map_err(|diags| rendered(common, &diags))?;
    if prepared.unlowered {
        return Ok(());
    }
    let expected = outputs(&program, &generated.set, sizes.streams)?;
    let sizes = SizeSettings { devices: Some(prepared.ranks), ..sizes };
    let mut texts = String::new();
    for rank in 0..prepared.ranks {
        let text = of_rank(rank)?;
        others_compute_nothing(&text, rank)?;
        let plan = lower::prepare_rank(&load(&text)?, &sizes, rank);
        prepared.plans[rank as usize] = plan.map_err(|diags| rendered(&text, &diags))?;
        texts += &format!("// rank {rank}\n{text}");
    }
    let found = values_of(prepared, &texts)?;
    if expected.values == found.values {
        return compare_meaning(&found.prepared, &expected.prepared)
            .map_err(|text| format!("{text}\n{common}\n{texts}"));
    }
    Err(format!("common {:?}\nranks {:?}\n{common}\n{texts}", expected.values, found.values))
}

/// Checks that the text of a rank computes on the rank only.
fn others_compute_nothing(text: &str, rank: u32) -> Result<(), String> {
    let program = load(text)?;
    let mut foreign = None;
    program.walk(program.body(), &mut |id| {
        let op = program.op(id);
        let elsewhere = |tensor| program.tensor_mesh(tensor).is_some_and(|mesh| !mesh.contains(rank));
        let mut tensors = op.input_tensors().chain(op.output_tensors()).peekable();
        let computes = matches!(op.kind.effect(), OpEffect::Pure);
        if computes && tensors.peek().is_some() && tensors.all(elsewhere) {
            foreign = foreign.or(Some(id));
        }
    });
    match foreign {
        Some(_) => Err(format!("rank {rank} computes what is none of its own\n{text}")),
        None => Ok(()),
    }
}

/// Runs a program.
pub(crate) fn outputs(program: &Program, set: &BTreeMap<String, i64>, streams: u32) -> Result<Ran, String> {
    let text = hostir::print::print_to_string(program);
    let sizes = SizeSettings { set: set.clone(), streams, ..SizeSettings::default() };
    let prepared = lower::prepare_program(program, &sizes).map_err(|diags| rendered(&text, &diags))?;
    let errors = prove_program(&prepared).errors;
    if !errors.is_empty() {
        return Err(render::to_string("program.hir", &text, &errors));
    }
    values_of(prepared, &text)
}

/// Runs all ranks.
fn values_of(prepared: PreparedProgram, text: &str) -> Result<Ran, String> {
    let wholes: Vec<HostTensor> = (0..prepared.inputs.len()).map(|k| values(&prepared, k)).collect();
    let local = |rank: u32| {
        let parts = wholes.iter().enumerate();
        parts.map(|(k, whole)| lower::shard_input(&prepared, k, rank, whole)).collect::<Vec<_>>()
    };
    let parts = (0..prepared.ranks).map(local).collect();
    let result = cpu::run_plans(&prepared, parts).map_err(|diags| render::to_string("program.hir", text, &diags))?;
    let mut values = Vec::new();
    for output in 0..prepared.outputs.len() {
        let ranks = result.outputs.iter().zip(0u32..);
        let parts = ranks.filter_map(|(outputs, rank)| Some((rank, outputs[output].clone()?)));
        let whole = lower::assemble_output(&prepared, output, parts.collect())
            .map_err(|diag| render::to_string("program.hir", text, &[diag]))?;
        values.push((0..whole.len()).map(|index| whole.get_f64(index)).collect());
    }
    Ok(Ran { prepared, values })
}
