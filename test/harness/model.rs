//! The cost model beside measured times: errors by row, and the way that it would choose.
//!
//! `tools/benchmark model` prints the table. `HIR_MACHINE=FILE.toml` tries another machine than the built-in one;
//! `HIR_FIT=1` looks for better constants, also with each row left out in turn.

#![allow(
    clippy::panic,
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "failures panic, and the table is for people"
)]

#[path = "model/fit.rs"]
mod fit;
#[path = "model/layers.rs"]
mod layers;
#[path = "model/programs.rs"]
mod programs;
#[path = "model/rows.rs"]
mod rows;

use hostir::backend::simulation::simulate_run;
use hostir::lower::{PreparedProgram, SizeSettings, prepare_program};
use hostir::machine::Machine;
use hostir::plan::cost::{CostModel, IssueMode, is_tie};
use hostir_passes::PASSES;
use hostir_passes::manager::{Config, SilentObserver, run_pipeline};
use hostir_passes::pipeline::parse_pipeline;
use programs::way_program;
use rows::{ALONE, ROWS, Row};

/// A way of a row with its plans and its times.
pub(crate) struct PreparedWay {
    row: usize,
    way: &'static str,
    prepared: PreparedProgram,
    /// In milliseconds, as calls and as a graph.
    measured: [f64; 2],
}

/// The ways of all rows.
fn prepare_ways() -> Vec<PreparedWay> {
    let rows = ROWS.iter().enumerate();
    let all = rows.flat_map(|(row, of)| of.ways.iter().map(move |way| (row, of, way)));
    let prepared = all.map(|(row, of, way)| PreparedWay {
        row,
        way: way.way,
        prepared: prepare_way(of, way.way),
        measured: [way.calls, way.graph],
    });
    prepared.collect()
}

fn prepare_way(row: &Row, way: &str) -> PreparedProgram {
    let found = way_program(row, way);
    let (mut programs, diags) = hostir::load(&found.text);
    assert!(!diags.has_errors(), "{} {way}: {diags:?}\n{}", row.name, found.text);
    let mut program = programs.remove(0);
    if !found.passes.is_empty() {
        let pipeline = parse_pipeline(found.passes, PASSES).unwrap();
        let ran = run_pipeline(&mut program, &pipeline, &Config::default(), &mut SilentObserver);
        assert!(ran.is_ok(), "{} {way}: {:?}", row.name, ran.err().map(|failure| failure.errors));
    }
    let sizes = SizeSettings { streams: found.streams, memory_limit: u64::MAX, ..SizeSettings::default() };
    prepare_program(&program, &sizes).unwrap_or_else(|diags| panic!("{} {way}: {diags:?}", row.name))
}

/// The modelled milliseconds of a way, as calls and as a graph.
pub(crate) fn modelled_times(way: &PreparedWay, machine: &Machine) -> [f64; 2] {
    let model = CostModel::of_machine(machine.clone());
    [IssueMode::Calls, IssueMode::Graph].map(|issue| {
        let trace = simulate_run(&way.prepared, &model.clone().with_issue(issue)).unwrap();
        trace.end_ns() as f64 / 1e6
    })
}

/// The values in the middle and at nine tenths of a list.
pub(crate) fn median_and_most(mut values: Vec<f64>) -> [f64; 2] {
    values.sort_by(f64::total_cmp);
    let at = |share: f64| values[((values.len() - 1) as f64 * share).round() as usize];
    [at(0.5), at(0.9)]
}

/// A choice among the ways of a row: the one that the model takes for the fastest, or the serial one if it cannot tell
/// them apart, as `overlap-lower{choose=model}` does.
pub(crate) struct RowChoice {
    pub(crate) chosen: &'static str,
    /// Its measured time over that of the fastest way.
    pub(crate) regret: f64,
}

/// The choices of all rows.
#[derive(Default)]
pub(crate) struct RowChoices {
    regrets: Vec<f64>,
    /// The rows whose choice is within 2% of the best way.
    pub(crate) right: usize,
    pub(crate) largest: f64,
}

impl RowChoices {
    pub(crate) fn add_regret(&mut self, regret: f64) {
        self.regrets.push(regret);
        self.right += usize::from(regret <= 1.02);
        self.largest = self.largest.max(regret);
    }

    pub(crate) fn mean_regret(&self) -> f64 {
        self.regrets.iter().sum::<f64>() / self.regrets.len() as f64
    }
}

pub(crate) fn choose_way(ways: &[(&PreparedWay, [f64; 2])], mode: usize) -> RowChoice {
    let whole = ways.iter().filter(|(way, _)| !ALONE.contains(&way.way));
    let fastest = whole.clone().min_by(|(_, a), (_, b)| a[mode].total_cmp(&b[mode])).unwrap();
    let modelled_ns = |(_, times): &(&PreparedWay, [f64; 2])| (times[mode] * 1e6) as u64;
    let serial = ways.iter().find(|(way, _)| way.way == "serial");
    let (chosen, _) = serial.filter(|own| is_tie(modelled_ns(own), modelled_ns(fastest))).unwrap_or(fastest);
    let best = whole.map(|(way, _)| way.measured[mode]).fold(f64::INFINITY, f64::min);
    RowChoice { chosen: chosen.way, regret: chosen.measured[mode] / best }
}

/// The figures of all rows.
pub(crate) struct ModelFigures {
    /// The median and the ninth tenth of the errors of ways.
    pub(crate) errors: [f64; 2],
    /// By mode: the rows whose choice is within 2% of the best way.
    right: [usize; 2],
    /// By mode: the mean and the largest regret.
    regrets: [[f64; 2]; 2],
    pub(crate) text: String,
}

/// Compares a machine with the measured times.
pub(crate) fn compare_rows(ways: &[PreparedWay], machine: &Machine) -> ModelFigures {
    use std::fmt::Write as _;
    let mut text = format!("model of {} ({})\n", machine.name, machine.short_hash());
    let (mut errors, mut choices) = (Vec::new(), [RowChoices::default(), RowChoices::default()]);
    for (number, row) in ROWS.iter().enumerate() {
        let own: Vec<(&PreparedWay, [f64; 2])> =
            ways.iter().filter(|way| way.row == number).map(|way| (way, modelled_times(way, machine))).collect();
        let _ = writeln!(text, "{} {} {:?}", row.name, row.kind, row.sizes);
        for (way, times) in &own {
            let found = [0, 1].map(|mode| times[mode] / way.measured[mode] - 1.0);
            errors.extend(found.map(f64::abs));
            let [calls, graph] = found.map(|error| error * 100.0);
            let _ = writeln!(
                text,
                "  {:12} calls {:7.3} ms, measured {:7.3}, {calls:+6.1}%   graph {:7.3} ms, measured {:7.3}, {graph:+6.1}%",
                way.way, times[0], way.measured[0], times[1], way.measured[1]
            );
        }
        for mode in [0, 1] {
            let RowChoice { chosen, regret } = choose_way(&own, mode);
            let name = ["calls", "graph"][mode];
            let _ = writeln!(text, "  chosen as {name}: {chosen}, {regret:.3}x the time of the best way");
            choices[mode].add_regret(regret);
        }
    }
    let errors = median_and_most(errors);
    let right = choices.each_ref().map(|of_mode| of_mode.right);
    let regrets = choices.map(|of_mode| [of_mode.mean_regret(), of_mode.largest]);
    let _ = writeln!(
        text,
        "error: median {:.1}%, nine tenths {:.1}%; right choices of {}: {right:?}; mean and largest regret: {regrets:.3?}",
        errors[0] * 100.0,
        errors[1] * 100.0,
        ROWS.len()
    );
    ModelFigures { errors, right, regrets, text }
}

/// The regret of the rule that overlaps if the GEMM alone takes 100 us: the first way that overlaps by copies or direct
/// stores, which `overlap-lower` writes, else the serial one. All rows have longer GEMMs.
fn rule_regrets() -> [f64; 2] {
    [0, 1].map(|mode| {
        let regrets = ROWS.iter().map(|row| {
            let time = |way: &rows::WayRow| [way.calls, way.graph][mode];
            let whole = row.ways.iter().filter(|way| !ALONE.contains(&way.way));
            let best = whole.clone().map(time).fold(f64::INFINITY, f64::min);
            let taken = whole.clone().find(|way| ["push", "accumulate", "overlap"].contains(&way.way)).unwrap();
            time(taken) / best
        });
        regrets.sum::<f64>() / ROWS.len() as f64
    })
}

#[test]
fn measured_rows() {
    let ways = prepare_ways();
    let machine = match std::env::var("HIR_MACHINE") {
        Ok(file) => Machine::from_toml(&std::fs::read_to_string(file).unwrap()).unwrap(),
        Err(_) => Machine::find_builtin("h100x4").unwrap(),
    };
    let figures = compare_rows(&ways, &machine);
    println!("{}", figures.text);
    println!("mean regret of the rule, calls and graph: {:.3?}", rule_regrets());
    if std::env::var("HIR_FIT").is_ok() {
        fit::fit_machine(&ways, machine);
        return;
    }
    let ModelFigures { errors, right, regrets, .. } = figures;
    assert!(errors[0] <= 0.08 && errors[1] <= 0.20, "{errors:?}");
    assert!(right.iter().all(|&right| right >= 8), "{right:?}");
    assert!(regrets.iter().all(|&[mean, most]| mean <= 1.008 && most <= 1.08), "{regrets:?}");
}

#[test]
fn llama_layers() {
    let found = layers::compare_layers(&Machine::find_builtin("h100x2").unwrap());
    println!("{}", found.text);
    let [middle, most] = median_and_most(found.regions);
    println!("regions: median {:.1}%, nine tenths {:.1}%", middle * 100.0, most * 100.0);
    assert!(middle <= 0.08 && most <= 0.20, "{middle} {most}");
    assert!(found.steps.iter().all(|error| *error <= 0.06), "{:?}", found.steps);
}
