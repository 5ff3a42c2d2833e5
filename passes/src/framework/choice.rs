//! Chooses among pipelines that compute the same: each is run on a copy of the program, planned, and timed by the cost
//! model.

use crate::framework::manager::{Config, SilentObserver, VerifyEach, run_pipeline};
use crate::framework::pass::{ChoiceRule, PipelineWay, PipelineWays};
use crate::framework::pipeline;
use hostir::diag::{Diag, message};
use hostir::ir::Program;
use hostir::lower::{PreparedProgram, SizeSettings, prepare_program, stream_count};
use hostir::plan::InstKind;
use hostir::plan::cost::{CostModel, IssueMode, is_tie, time_text};
use hostir::verdict::model_time;

/// The way to lower a program that was chosen among several.
const CHOSEN: &str = "H0367";

/// The time of a GEMM from which communication is worth hiding, in nanoseconds.
const LONG_GEMM_NS: u64 = 100_000;

/// A choice among ways.
#[derive(Clone, Debug)]
pub(super) struct WayChoice {
    /// The place of the chosen way.
    pub(super) chosen: usize,
    /// By way: its time in nanoseconds; `None` where it does not run, or its sizes are open.
    times: Vec<Option<u64>>,
    /// The name and the hash of the machine.
    machine: String,
}

/// Chooses a way for a program; `None` if there are no ways, or none of them has a time.
pub(super) fn choose_way(program: &Program, ways: &PipelineWays, config: &Config) -> Option<WayChoice> {
    let first = ways.ways.first()?;
    let model = ways.machine.clone().map_or_else(|| config.model.clone(), CostModel::of_machine);
    // A run is issued call by call unless its user asks for a graph.
    let model = model.with_issue(IssueMode::Calls);
    let quiet = Config {
        remarks: false,
        verify_input: false,
        verify_each: VerifyEach::Never,
        contain_panics: true,
        ..config.clone()
    };
    let machine = format!("{} ({})", model.machine.name, model.machine.short_hash());
    if ways.rule == ChoiceRule::LongGemm {
        let is_long = longest_gemm_ns(&prepare_way(program, first, &quiet)?, &model) >= LONG_GEMM_NS;
        let chosen = if is_long { ways.ways.len() - 1 } else { 0 };
        return Some(WayChoice { chosen, times: Vec::new(), machine });
    }
    let times: Vec<Option<u64>> = ways
        .ways
        .iter()
        .map(|way| prepare_way(program, way, &quiet).and_then(|prepared| model_time(&prepared, &model)))
        .collect();
    let timed = times.iter().enumerate().filter_map(|(at, time)| Some((at, (*time)?)));
    let (fastest, least) = timed.min_by_key(|&(_, time)| time)?;
    let keeps_first = times[0].is_some_and(|first| is_tie(first, least));
    Some(WayChoice { chosen: if keeps_first { 0 } else { fastest }, times, machine })
}

/// The plans of a program after a way's pipeline, for the sizes that its text proposes.
fn prepare_way(program: &Program, way: &PipelineWay, config: &Config) -> Option<PreparedProgram> {
    let mut lowered = program.clone();
    let steps = pipeline::parse_pipeline(&way.text, config.passes).ok()?;
    run_pipeline(&mut lowered, &steps, config, &mut SilentObserver).ok()?;
    let streams = stream_count(&lowered, None);
    let settings = SizeSettings { streams, memory_limit: u64::MAX, ..SizeSettings::default() };
    prepare_program(&lowered, &settings).ok()
}

/// The time of the longest GEMM of a program alone on a device.
fn longest_gemm_ns(prepared: &PreparedProgram, model: &CostModel) -> u64 {
    let insts = prepared.plans.iter().flat_map(|plan| plan.iter());
    let gemms = insts.filter(|inst| matches!(inst.kind, InstKind::Gemm(_)));
    let times = gemms.map(|inst| {
        let demand = model.local_demand(&inst.kind);
        demand.launch_ns + demand.arithmetic_ns.max(demand.memory_ns) as u64
    });
    times.max().unwrap_or(0)
}

impl WayChoice {
    /// The remark with the time of each way.
    pub(super) fn describe_choice(&self, pass: &str, ways: &PipelineWays) -> Diag {
        let chosen = ways.ways.get(self.chosen).map_or("", |way| way.name);
        if ways.rule == ChoiceRule::LongGemm {
            let message = message!("`{}` takes `{}`, by the longest GEMM on {}", pass, chosen, self.machine);
            return Diag::global_error(CHOSEN, message);
        }
        let listed = ways.ways.iter().zip(&self.times).map(|(way, time)| match time {
            Some(time) => format!("{} {}", way.name, time_text(*time)),
            None => format!("{} does not run", way.name),
        });
        let listed = listed.collect::<Vec<_>>().join(", ");
        let least = self.times.iter().flatten().min();
        let is_close = self.chosen == 0 && self.times.first().and_then(Option::as_ref) != least;
        let why = if is_close { ", too close to the fastest to tell apart" } else { "" };
        let message = message!("`{}` takes `{}`{} by the model of {}: {}", pass, chosen, why, self.machine, listed);
        Diag::global_error(CHOSEN, message)
    }
}
