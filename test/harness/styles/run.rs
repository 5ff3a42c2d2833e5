//! Runs of a program on the CPU, with the sizes that its file names or small ones.

use hostir::backend::cpu;
use hostir::data::HostTensor;
use hostir::diag::{Diag, render};
use hostir::ir::Program;
use hostir::lower;
use hostir::lower::{PreparedProgram, SizeSettings};
use hostir_test::values::values;
use regex::Regex;
use std::collections::BTreeMap;
use std::sync::LazyLock;

/// Lengths for extents that nothing gives one.
const LENGTHS: [i64; 5] = [4, 2, 8, 12, 24];

/// Larger tensors, or more instructions, would take too long for a test that runs everything often.
const ELEMENTS: usize = 1 << 14;
const INSTRUCTIONS: usize = 20_000;

/// The sizes of a command line.
#[derive(Clone, Default, PartialEq, Debug)]
pub(crate) struct Setting {
    set: BTreeMap<String, i64>,
    reals: BTreeMap<String, f64>,
    shapes: BTreeMap<String, Vec<usize>>,
    devices: Option<u32>,
    streams: Option<u32>,
}

/// The bits of the outputs.
#[derive(PartialEq, Debug)]
pub(crate) struct Ran(Vec<Vec<u64>>);

/// The sizes of the lines that run the file, and none at all.
pub(crate) fn settings(commands: &[&str]) -> Vec<Setting> {
    static FLAG: LazyLock<Regex> =
        LazyLock::new(|| Regex::new(r"--(set|shape|devices|streams)[ =]([\w.]+)(?:=([\w.-]+))?").expect("a pattern"));
    let mut all: Vec<Setting> = Vec::new();
    let runs = commands.iter().flat_map(|command| command.split('|')).filter(|c| c.contains("hir-run"));
    for command in runs {
        let mut setting = Setting::default();
        for flag in FLAG.captures_iter(command) {
            let text = |group: usize| flag.get(group).map_or("", |found| found.as_str());
            setting.flag(text(1), text(2), text(3));
        }
        if !all.contains(&setting) {
            all.push(setting);
        }
    }
    if !all.contains(&Setting::default()) {
        all.push(Setting::default());
    }
    all
}

impl Setting {
    fn flag(&mut self, flag: &str, name: &str, value: &str) {
        match flag {
            "set" => {
                if let Ok(number) = value.parse() {
                    self.set.insert(name.to_owned(), number);
                } else if let Ok(number) = value.parse() {
                    self.reals.insert(name.to_owned(), number);
                }
            }
            "shape" => {
                let extents = value.split('x').filter_map(|extent| extent.parse().ok());
                self.shapes.insert(name.to_owned(), extents.collect());
            }
            "devices" => self.devices = name.parse().ok(),
            _ => self.streams = name.parse().ok(),
        }
    }

    fn sizes(&self) -> SizeSettings {
        let usual = SizeSettings::default();
        SizeSettings {
            set: self.set.clone(),
            reals: self.reals.clone(),
            shapes: self.shapes.clone(),
            devices: self.devices,
            streams: self.streams.unwrap_or(usual.streams),
            ..usual
        }
    }
}

/// The first of the settings with which a program runs, completed, and what it computes.
pub(crate) fn first(program: &Program, settings: &[Setting]) -> Option<(Setting, Ran)> {
    for setting in settings {
        for length in LENGTHS {
            if let Some(complete) = complete(program, setting, length)
                && let Ok(ran) = with(program, &complete)
            {
                return Some((complete, ran));
            }
        }
    }
    None
}

/// A setting with this length for all that it leaves open; `None` if the program cannot have it.
fn complete(program: &Program, setting: &Setting, length: i64) -> Option<Setting> {
    static NAME: LazyLock<Regex> = LazyLock::new(|| Regex::new("`([a-z_]+[0-9]*)`").expect("a pattern"));
    let mut setting = setting.clone();
    for _ in 0..4 {
        let Err(diags) = lower::prepare_program(program, &setting.sizes()) else {
            return Some(setting);
        };
        let open = diags.items.iter().filter(|diag| diag.code == "H0401");
        let names: Vec<String> =
            open.flat_map(|diag| NAME.captures_iter(&diag.message)).map(|found| found[1].to_owned()).collect();
        if names.is_empty() {
            return None;
        }
        setting.set.extend(names.into_iter().map(|name| (name, length)));
    }
    None
}

/// Runs a program with complete sizes on data that depends on the inputs' places only.
pub(crate) fn with(program: &Program, setting: &Setting) -> Result<Ran, String> {
    let rendered = |diags: &[Diag]| render::to_string("text", &hostir::print::print_to_string(program), diags);
    let prepared = lower::prepare_program(program, &setting.sizes()).map_err(|d| rendered(&d.items))?;
    small(&prepared)?;
    let wholes: Vec<HostTensor> = (0..prepared.inputs.len()).map(|input| values(&prepared, input)).collect();
    let local = |rank: u32| {
        let parts = wholes.iter().enumerate();
        parts.map(|(input, whole)| lower::shard_input(&prepared, input, rank, whole)).collect::<Vec<_>>()
    };
    let parts = (0..prepared.ranks).map(local).collect();
    let result = cpu::run_plans(&prepared, parts).map_err(|diags| rendered(&diags))?;
    let mut outputs = Vec::new();
    // Every rank's part, so that outputs that differ between ranks count as well.
    for rank in &result.outputs {
        for output in rank {
            let output =
                output.as_ref().map(|tensor| (0..tensor.len()).map(|index| tensor.get_f64(index).to_bits()).collect());
            outputs.push(output.unwrap_or_default());
        }
    }
    Ok(Ran(outputs))
}

fn small(prepared: &PreparedProgram) -> Result<(), String> {
    let ports = prepared.inputs.iter().chain(&prepared.outputs);
    let elements: usize = ports.map(|port| port.whole_shape().iter().product::<usize>()).sum();
    let instructions: usize = prepared.plans.iter().map(|plan| plan.inst_count()).sum();
    if elements > ELEMENTS || instructions > INSTRUCTIONS {
        return Err(format!("{elements} elements and {instructions} instructions are too many"));
    }
    cpu::check_memory(prepared).map_err(|diag| diag.message.to_string())
}
