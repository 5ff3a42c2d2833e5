//! Texts about a run for people.

use super::cli::{InputContent, Options};
use super::inputs::InputData;
use super::outputs::OutputTensors;
use super::program::ProgramPlace;
use super::quantities::{bytes_text, four_digits};
use super::tensor_options::BoundOptions;
use crate::data::bracketed_list;
use hostir::backend::RunStats;
use hostir::data::HostTensor;
use hostir::diag::count_text;
use hostir::hir2::defaults::word_of_dtype;
use hostir::ir::{DType, Program};
use hostir::lower::PreparedProgram;
use hostir::verdict::{TrustedLaunch, trusted_launches};
use std::fmt::Write as _;

/// The first line on standard error; without a backend nothing runs.
pub(super) fn header_line(prepared: &PreparedProgram, streams: u32, backend: Option<&str>) -> String {
    let (ranks, streams) = (count_text(prepared.ranks as usize, "rank"), count_text(streams as usize, "stream"));
    match (prepared.unlowered, backend) {
        (true, Some(backend)) => {
            format!("hir-run: plain math on whole tensors on the {backend} backend")
        }
        (true, None) => "hir-run: plain math on whole tensors; nothing runs".to_owned(),
        (false, Some(backend)) => format!("hir-run: {ranks} on the {backend} backend, {streams}"),
        (false, None) => format!("hir-run: {ranks}, {streams}; nothing runs"),
    }
}

/// The line about ranks that `--devices` adds and that have no work in the program.
pub(super) fn idle_ranks_line(prepared: &PreparedProgram, options: &Options) -> Option<String> {
    let ranks = prepared.plans.len();
    let busy = prepared.plans.iter().rposition(|plan| plan.iter().any(|inst| inst.kind.is_work()));
    let busy = busy.map_or(0, |last| last + 1);
    let asked = options.devices.is_some() && !prepared.unlowered;
    (asked && busy < ranks).then(|| {
        let (first, last, idle) = (busy, ranks - 1, ranks - busy);
        let who = match idle {
            1 => format!("rank {first}"),
            2 => format!("ranks {first} and {last}"),
            _ => format!("ranks {first} to {last}"),
        };
        format!(
            "hir-run: {idle} of {} have nothing to do: {who}; no mesh or team of the program names them",
            count_text(ranks, "rank")
        )
    })
}

/// The text that `--check-only` prints, with the program's place among several of its file.
pub(super) fn proof_line(prepared: &PreparedProgram, program: &Program, place: Option<&ProgramPlace>) -> String {
    let (ranks, instructions) = (
        count_text(prepared.ranks as usize, "rank"),
        prepared.plans.iter().map(|plan| plan.inst_count()).sum::<usize>(),
    );
    let peak = prepared.plans.iter().map(|plan| plan.peak_bytes).max().unwrap_or(0);
    let instructions = count_text(instructions, "instruction");
    let which = place.map_or_else(String::new, |place| format!(" {place}"));
    let mut text = format!(
        "checked{which}: {ranks}, {instructions}, at most {} a rank; no deadlock, no race, nothing read or returned unwritten\n",
        bytes_text(peak)
    );
    trusted_launches(program).iter().for_each(|launch| text.push_str(&trusted_line(launch)));
    text
}

/// The line about a declaration that the proof takes as it is.
fn trusted_line(launch: &TrustedLaunch) -> String {
    let TrustedLaunch { file, entry, reads, writes, .. } = launch;
    let reads = if reads.is_empty() { "nothing".to_owned() } else { reads.join(", ") };
    format!("trusted: the kernel `{entry}` of `{file}` reads {reads} and writes {}\n", writes.join(", "))
}

/// The text that a run on the null backend prints.
pub(super) fn null_run_summary(prepared: &PreparedProgram, stats: RunStats, options: &Options) -> String {
    if options.quiet {
        return String::new();
    }
    let ranks = count_text(prepared.ranks as usize, "rank");
    let instructions = count_text(stats.instructions as usize, "instruction");
    format!("followed: {ranks}, {instructions}; nothing was computed\n")
}

/// The text that a run prints: outputs, and a line for each comparison.
pub(super) fn run_summary(
    prepared: &PreparedProgram,
    inputs: &[InputData],
    bound: &BoundOptions<'_>,
    results: &OutputTensors,
    lines: &[String],
    options: &Options,
) -> String {
    let mut text = String::new();
    if options.quiet {
        return text;
    }
    if options.summary {
        for (index, (io_tensor, input)) in prepared.inputs.iter().zip(inputs).enumerate() {
            let shape = bracketed_list(&io_tensor.whole_shape());
            let origin = input_origin(bound.inputs[index], input, options.seed);
            let _ =
                writeln!(text, "{}: {} from {origin}", io_tensor.name, type_text(prepared, io_tensor.dtype, &shape));
        }
    }
    for (io_tensor, whole) in prepared.outputs.iter().zip(&results.whole) {
        let Some(whole) = whole else {
            let shape = bracketed_list(&io_tensor.local_shape());
            let _ = writeln!(text, "{}: {} on each rank", io_tensor.name, type_text(prepared, io_tensor.dtype, &shape));
            continue;
        };
        let shape = bracketed_list(whole.shape());
        let more = if options.summary { tensor_statistics(whole) } else { String::new() };
        let _ = writeln!(text, "{}: {}{more}", io_tensor.name, type_text(prepared, whole.dtype(), &shape));
    }
    text + &comparison_lines(lines, options)
}

/// A type in the form of the program's text: `float [4, 8]`, or `f32[4, 8]`.
fn type_text(prepared: &PreparedProgram, dtype: DType, shape: &str) -> String {
    match prepared.labels.is_hir2() {
        true => format!("{}{shape}", word_of_dtype(dtype)),
        false => format!("{} {shape}", dtype.name()),
    }
}

/// The lines of comparisons.
pub(super) fn comparison_lines(lines: &[String], options: &Options) -> String {
    let lines = lines.iter().filter(|_| !options.quiet);
    lines.map(|line| format!("{line}\n")).collect()
}

fn input_origin(content: Option<&InputContent>, input: &InputData, seed: u64) -> String {
    match (content, input) {
        (Some(InputContent::File(file)), InputData::Parts(parts)) => {
            format!("{file} ({} files)", parts.len())
        }
        (Some(InputContent::File(file)), InputData::Whole(_)) => file.to_string(),
        (Some(InputContent::Generate(generator)), _) => {
            format!("{} (seed {seed})", generator.name())
        }
        (None, _) => format!("randn (seed {seed})"),
    }
}

/// Minimum, maximum and mean of the finite elements, and the number of the others.
fn tensor_statistics(tensor: &HostTensor) -> String {
    if tensor.dtype().is_complex() {
        let parts = [("real parts", 0), ("imaginary parts", 1)].map(|(name, part)| {
            let values = (0..tensor.len()).map(|index| tensor.get_part(2 * index + part));
            value_statistics(&format!("{name} "), values, tensor.len())
        });
        return parts.concat();
    }
    let count = tensor.len() * tensor.parts_per_element();
    value_statistics("", (0..count).map(|index| tensor.get_part(index)), count)
}

/// The statistics of some numbers; `name` says what they are.
fn value_statistics(name: &str, values: impl Iterator<Item = f64> + Clone, count: usize) -> String {
    let values = values.filter(|value| value.is_finite());
    let finite = values.clone().count();
    let mut text = String::new();
    if finite > 0 {
        let least = values.clone().fold(f64::INFINITY, f64::min);
        let greatest = values.clone().fold(f64::NEG_INFINITY, f64::max);
        let mean = values.sum::<f64>() / finite as f64;
        let _ = write!(
            text,
            ", {name}from {} to {}, mean {}",
            four_digits(least),
            four_digits(greatest),
            four_digits(mean)
        );
    }
    if finite < count {
        let _ = write!(text, ", {} not finite", count_text(count - finite, "element"));
    }
    text
}
