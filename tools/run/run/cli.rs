//! The command line of hir-run: what was typed, without looking at the program.

use super::arguments::{Arguments, CheckArguments, GpuArguments, LaunchArguments, ModelArguments};
pub(super) use super::arguments::{BackendChoice, PlanForm};
pub(super) use super::backend_names::{Transport, Transports};
use super::backend_names::{map_transports, other_spelling};
use super::bench_options::BenchArguments;
pub(super) use super::bench_options::BenchOptions;
use super::data_files::DataFile;
use super::failure::RunFailure;
pub(super) use super::kernel_options::KernelOptions;
pub(super) use super::option_values::{ContainerChoice, InputContent, PermutedSchedules, ScalarNumber, TimelineForms};
use super::option_values::{data_file, missing_part, parse_bytes, parse_content, parse_number, parse_shape};
use super::program::ProgramChoice;
use super::tensor_options::whole_numbers;
use super::tune_options::{FEWEST_RUNS, TuneArguments, TuneOptions};
use crate::data::compare::GivenTolerances;
use crate::launch::LaunchFlags;
use clap::ArgMatches;
use clap::parser::ValueSource;
use hostir::ReadOptions;
use hostir::diag::Diag;
use hostir::diag::message;
use hostir::ir::{DType, GivenSizes};
use hostir::machine::HostLinks;
use hostir::ops::OpRegistry;
use hostir::plan::cost::{CostModel, IssueMode};
use hostir_tool_support::command_line::{ToolWords, match_arguments};
use hostir_tool_support::errors;
use hostir_tool_support::io::ToolIo;
use hostir_tool_support::render::DiagFormat;
use hostir_tool_support::status::ToolStatus;
use hostir_tool_support::terminal::ColorMode;
use std::ffi::OsString;

/// The options of runs on GPUs.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(super) struct GpuOptions {
    pub(super) transports: Transports,
    pub(super) tf32: bool,
    pub(super) fp8_fast_accumulation: bool,
    /// True if GEMMs are tuned at the GPU's power limit.
    pub(super) tunes_sustained: bool,
    /// True if kernels of ours are tried for GEMMs.
    pub(super) gemm_kernels: bool,
    pub(super) graph: bool,
    pub(super) timeout_ms: Option<u64>,
}

/// `T0=value`: an option about one thing.
pub(super) type KeyedValues<T> = Vec<(String, T)>;

/// The options.
#[derive(Clone, Debug)]
pub(super) struct Options {
    /// The ops that programs may name.
    pub(super) ops: OpRegistry,
    pub(super) file: String,
    /// Programs that `--bench` compares with the first.
    pub(super) others: Vec<String>,
    pub(super) container: Option<ContainerChoice>,
    /// The element type of tensors whose text has none, if the command line gives it.
    pub(super) element_type: Option<DType>,
    pub(super) devices: Option<u32>,
    pub(super) backend: BackendChoice,
    /// Number of streams, if the command line gives it.
    pub(super) streams: Option<u32>,
    pub(super) plan_memory: Option<u64>,
    pub(super) shapes: KeyedValues<Vec<usize>>,
    pub(super) set: KeyedValues<ScalarNumber>,
    /// `--set '*=8'`: of extents that nothing else gives a value.
    pub(super) every: Option<i64>,
    pub(super) inputs: KeyedValues<InputContent>,
    pub(super) seed: u64,
    pub(super) outputs: KeyedValues<DataFile>,
    pub(super) out_dir: Option<String>,
    pub(super) expects: KeyedValues<DataFile>,
    pub(super) reference: Option<String>,
    /// Proves that the program computes what the reference does.
    pub(super) exact: bool,
    pub(super) given: GivenTolerances,
    pub(super) check_only: bool,
    /// Applies fixes to the file, or from standard input to standard output.
    pub(super) fix: bool,
    /// Refuses a program that waits in vain.
    pub(super) strict: bool,
    /// Runs the program without proving it first.
    pub(super) no_check: bool,
    /// Orders of the queues to run under.
    pub(super) permuted: Option<PermutedSchedules>,
    /// Memory that nothing has written holds patterns.
    pub(super) poison: bool,
    pub(super) kernels: KernelOptions,
    /// The machine for which times are modelled.
    pub(super) model: CostModel,
    /// True if the command line names that machine.
    pub(super) names_machine: bool,
    /// Hosts on the command line, in the place of the machine's.
    pub(super) hosts: Option<HostLinks>,
    /// The file for a machine that is measured.
    pub(super) calibrate: Option<String>,
    /// Prints the plan in this form in the place of a run.
    pub(super) print_plan: Option<PlanForm>,
    /// Lists the calls of the CUDA backend: for ranks that share a device, or that have one each.
    pub(super) print_calls: Option<bool>,
    pub(super) gpu: GpuOptions,
    /// Several processes, as far as the command line says.
    pub(super) launch: LaunchFlags,
    /// Timed runs, if asked for.
    pub(super) bench: Option<BenchOptions>,
    /// A choice among the programs, if asked for.
    pub(super) tune: Option<TuneOptions>,
    /// Timelines that are asked for.
    pub(super) traced: TimelineForms,
    /// A profiler is told the calls of the host.
    pub(super) nvtx: bool,
    pub(super) summary: bool,
    pub(super) quiet: bool,
    pub(super) format: DiagFormat,
    /// Components whose events are shown.
    pub(super) debug_only: Vec<String>,
    pub(super) coloring: ColorMode,
}

impl Options {
    /// The model of runs as the options say: as calls, or as a graph. Proofs and fixes compare orders, for which the
    /// host's time does not count.
    pub(super) fn run_model(&self) -> CostModel {
        let issue = if self.gpu.graph { IssueMode::Graph } else { IssueMode::Calls };
        let model = self.model.clone().with_issue(issue);
        match self.hosts {
            Some(hosts) => model.with_hosts(hosts),
            None => model,
        }
    }
    /// The program of a file that is meant, and the way it is read.
    pub(super) fn program_choice(&self) -> ProgramChoice {
        let container = self.container.and_then(ContainerChoice::number);
        ProgramChoice { container, element_type: self.element_type, read: self.read_options() }
    }
    /// The settings with which texts are read.
    pub(super) fn read_options(&self) -> ReadOptions {
        let set = whole_numbers(&self.set);
        let given = GivenSizes { set, devices: self.devices, every: self.every, as_numbers: false };
        ReadOptions { ops: self.ops, given }
    }
    /// The first option that looks at what was computed, or writes it.
    pub(super) fn wants_results(&self) -> Option<&'static str> {
        let asked = [
            ("--output", !self.outputs.is_empty()),
            ("--out-dir", self.out_dir.is_some()),
            ("--expect", !self.expects.is_empty()),
            ("--reference", self.reference.is_some()),
        ];
        asked.into_iter().find_map(|(flag, given)| given.then_some(flag))
    }
    /// True if outputs are compared with something.
    pub(super) fn compares_outputs(&self) -> bool {
        self.reference.is_some() || !self.expects.is_empty()
    }
}

const WORDS: ToolWords<'_> = ToolWords { answer: &other_spelling, with_values: &std::convert::identity };

/// Reads the arguments, the program's name first; programs may name these ops.
///
/// # Errors
/// The exit status of an error, which was reported; so are `--help` and `--version`.
pub(super) fn parse_args(args: &[OsString], ops: OpRegistry, io: &mut ToolIo<'_>) -> Result<Options, ToolStatus> {
    let (arguments, matches) = match_arguments::<Arguments>(args, io, WORDS)?;
    io.apply_coloring(arguments.print.color.when);
    let format = arguments.print.error_format;
    let model = CostModel::of_machine(arguments.model.machine.read_machine(format, io)?);
    read_options(arguments, &matches, ops, model).map_err(|diags| {
        let failure = RunFailure::from(diags);
        io.report(format, &failure.source, &failure.diags);
        ToolStatus::Usage
    })
}

/// Reads the values that clap does not check.
fn read_options(
    arguments: Arguments,
    matches: &ArgMatches,
    ops: OpRegistry,
    model: CostModel,
) -> Result<Options, Vec<Diag>> {
    let Arguments {
        program,
        sizes,
        data,
        checks,
        model: ModelArguments { machine, calibrate },
        kernels,
        gpus,
        launch,
        bench,
        tune,
        timelines,
        print,
    } = arguments;
    let mut values = ValueReader { matches, diags: Vec::new() };
    values.check_bench(&bench, &tune);
    values.check_tune(&program.files, &bench, &tune);
    values.check_exact(&checks, &bench, &tune);
    let set = values.read_set(&sizes.set);
    values.check_files(&program.files, bench.bench || tune.tune || checks.check_only);
    let (is_timed, runs) = (bench.bench, bench.into_runs());
    let mut files = program.files.into_iter();
    let options = Options {
        ops,
        file: files.next().unwrap_or_default(),
        others: files.collect(),
        container: program.container,
        element_type: program.element_type,
        devices: program.devices,
        backend: program.backend,
        streams: program.streams,
        plan_memory: values.read_size("plan-memory", program.plan_memory.as_deref()),
        shapes: values.read_keyed("shape", &sizes.shape, parse_shape),
        set: set.scalars,
        every: set.every,
        inputs: values.read_keyed("input", &data.input, parse_content),
        seed: data.seed,
        outputs: values.read_keyed("output", &data.output, data_file),
        out_dir: data.out_dir,
        expects: values.read_keyed("expect", &checks.expect, data_file),
        reference: checks.reference,
        exact: checks.exact,
        given: GivenTolerances {
            rtol: values.check_tolerance("rtol", checks.rtol),
            atol: values.check_tolerance("atol", checks.atol),
        },
        check_only: checks.check_only,
        fix: checks.fix,
        strict: checks.strict,
        no_check: checks.no_check,
        permuted: checks.permute_schedule,
        poison: checks.poison,
        kernels: kernels.into(),
        model,
        hosts: program.hosts,
        names_machine: machine.machine.is_some(),
        calibrate,
        print_plan: print.print_plan,
        print_calls: print.print_calls.map(|devices| devices == "shared"),
        gpu: gpus.into_options(program.timeout_ms),
        launch: launch.into_flags(),
        tune: tune.into_tune(&runs),
        bench: is_timed.then_some(runs),
        traced: values.read_timelines(timelines.trace, timelines.timeline_pairs),
        nvtx: timelines.nvtx,
        summary: print.summary,
        quiet: print.quiet,
        format: print.error_format,
        debug_only: print.debug.components,
        coloring: print.color.when,
    };
    if values.diags.is_empty() { Ok(options) } else { Err(values.diags) }
}

impl GpuArguments {
    fn into_options(self, timeout_ms: Option<u64>) -> GpuOptions {
        GpuOptions {
            transports: map_transports(&self.map_backend),
            tf32: self.tf32,
            fp8_fast_accumulation: self.fp8_fast_accumulation,
            tunes_sustained: self.tuning == "sustained",
            gemm_kernels: self.gemm_kernels,
            graph: self.graph,
            timeout_ms,
        }
    }
}

impl LaunchArguments {
    fn into_flags(self) -> LaunchFlags {
        LaunchFlags {
            rank: self.rank,
            world: self.world,
            coordinator: self.coordinator,
            token: self.token.is_some(),
            processes: self.processes,
        }
    }
}

/// The values of `--set`.
struct SetValues {
    scalars: KeyedValues<ScalarNumber>,
    /// The value of `*`.
    every: Option<i64>,
}

/// Whether a file is a picture or a page.
fn is_drawing(file: &str) -> bool {
    file.ends_with(".svg") || file.ends_with(".html")
}

/// Reads values that clap does not check, and collects what is wrong with them.
struct ValueReader<'a> {
    matches: &'a ArgMatches,
    diags: Vec<Diag>,
}

impl ValueReader<'_> {
    /// Refuses several programs where one runs.
    fn check_files(&mut self, files: &[String], may_be_several: bool) {
        let [first, second, ..] = files else { return };
        let picture = [first, second].into_iter().find(|file| is_drawing(file));
        if may_be_several && picture.is_none() {
            return;
        }
        let message = message!("one program runs at a time, but `{}` and `{}` were given", first, second);
        let note = match picture {
            Some(picture) => format!("write the name of a picture after `=`: `--timeline={picture}`"),
            None => {
                "`--reference FILE` compares results, `--bench` times, `--check-only` cost models; `--tune` chooses"
                    .to_owned()
            }
        };
        self.diags.push(Diag::global_error(errors::CONFLICT, message).with_note(note));
    }

    /// Reports a choice for which there are too few programs or runs, and turns, which it does not have.
    fn check_tune(&mut self, files: &[String], bench: &BenchArguments, tune: &TuneArguments) {
        if !tune.tune {
            return;
        }
        if let [only] = files {
            let message = message!("`--tune` chooses among programs, but only `{}` was given", only);
            let note = "name the files of programs that compute the same; `--bench` times one";
            self.diags.push(Diag::global_error(errors::CONFLICT, message).with_note(note));
        }
        if (1..FEWEST_RUNS).contains(&bench.iters) {
            let message = message!("`--iters {}`: {} runs are needed for a 95% interval", bench.iters, FEWEST_RUNS);
            self.diags.push(Diag::global_error(errors::VALUE, message));
        }
        if bench.turns {
            let message = "`--turns` cannot be combined with `--tune`, which times its programs in turn by itself";
            self.diags.push(Diag::global_error(errors::CONFLICT, message).with_note("use `--bench`"));
        }
        if !(tune.tune_margin >= 0.0 && tune.tune_margin.is_finite()) {
            let message = message!("`--tune-margin {}`: a margin must be a non-negative number", tune.tune_margin);
            self.diags.push(
                Diag::global_error(errors::VALUE, message)
                    .with_note("20 times the programs of up to 1.2 times the least modelled time"),
            );
        }
    }

    /// Reports options about timed runs where none are.
    fn check_bench(&mut self, bench: &BenchArguments, tune: &TuneArguments) {
        if bench.iters == 0 {
            let message = "`--iters 0` would time no run";
            let note = "use at least 1; without `--bench`, the program runs once and is not timed";
            self.diags.push(Diag::global_error(errors::VALUE, message).with_note(note));
        }
        if bench.turns && bench.json.as_deref() == Some("-") {
            let message = "`--turns` and `--json -` both write to standard output";
            self.diags.push(Diag::global_error(errors::CONFLICT, message).with_note("write the figures to a file"));
        }
        for flag in ["iters", "warmup", "turns", "json"] {
            let source = self.matches.value_source(flag);
            if bench.bench || tune.tune || source != Some(ValueSource::CommandLine) {
                continue;
            }
            let message = message!("`--{}` applies to timed runs, but `--bench` is not given", flag);
            self.diags.push(Diag::global_error(errors::CONFLICT, message).with_note(match flag {
                "json" => "add `--bench`; use `--error-format=json` to print diagnostics as JSON",
                _ => "add `--bench`",
            }));
        }
    }
    /// Reports a proof of equality without a program to compare with, and beside timed runs.
    fn check_exact(&mut self, checks: &CheckArguments, bench: &BenchArguments, tune: &TuneArguments) {
        if checks.exact && checks.reference.is_none() && !tune.tune {
            let message = "`--exact` proves that a program computes what another one does, but none is given";
            let note = "add `--reference FILE`, the plain math of the program";
            self.diags.push(Diag::global_error(errors::CONFLICT, message).with_note(note));
        } else if checks.exact && bench.bench {
            let message = "`--exact` cannot be combined with `--bench`, which only times programs";
            let note = "prove the program in a separate run";
            self.diags.push(Diag::global_error(errors::CONFLICT, message).with_note(note));
        }
    }
    /// The values of `--set i0=8,d1=0.5`, and that of `--set '*=8'`.
    fn read_set(&mut self, texts: &[String]) -> SetValues {
        // A comma may follow the last one.
        let texts = texts.iter().flat_map(|text| text.strip_suffix(',').unwrap_or(text).split(','));
        let mut all = self.read_pairs("set", texts, parse_number);
        let mut every = None;
        for (_, value) in all.extract_if(.., |(name, _)| name == "*") {
            match value {
                ScalarNumber::Int(value @ 0..) if every.is_none() => every = Some(value),
                ScalarNumber::Int(0..) => {
                    self.diags.push(Diag::global_error(errors::TWICE, "`--set *` is given twice"));
                }
                other => {
                    let message = message!("`--set *={}`: an extent must be a non-negative integer", other.to_string());
                    self.diags.push(Diag::global_error(errors::VALUE, message));
                }
            }
        }
        SetValues { scalars: all, every }
    }
    /// All `--flag key=value`.
    fn read_keyed<T>(
        &mut self,
        flag: &str,
        texts: &[String],
        read: impl Fn(&str) -> Result<T, String>,
    ) -> KeyedValues<T> {
        self.read_pairs(flag, texts.iter().map(String::as_str), read)
    }
    fn read_pairs<'t, T>(
        &mut self,
        flag: &str,
        texts: impl Iterator<Item = &'t str>,
        read: impl Fn(&str) -> Result<T, String>,
    ) -> KeyedValues<T> {
        let mut found = Vec::new();
        for text in texts {
            let parts = text.split_once('=').filter(|(key, _)| !key.is_empty());
            let value = parts.ok_or_else(|| missing_part(flag, text));
            match value.and_then(|(key, value)| Ok((key.to_owned(), read(value)?))) {
                Ok(pair) => found.push(pair),
                Err(why) => {
                    self.diags.push(Diag::global_error(errors::VALUE, message!("`--{} {}`: {}", flag, text, why)))
                }
            }
        }
        found
    }
    /// `--trace FILE`, `--timeline`, `--timeline=FILE.svg` and `--timeline=FILE.html`, which may all be given.
    fn read_timelines(&mut self, trace: Option<String>, pairs: bool) -> TimelineForms {
        let mut wanted = TimelineForms { file: trace, pairs, ..TimelineForms::default() };
        let given = self.matches.get_occurrences::<String>("timeline").into_iter().flatten();
        for mut values in given {
            match values.next() {
                None => wanted.chart = true,
                Some(file) if file.ends_with(".svg") => wanted.picture = Some(file.clone()),
                Some(file) if is_drawing(file) => wanted.page = Some(file.clone()),
                Some(file) => {
                    let message = message!("`--timeline={}`: a picture must be a .svg file, a page a .html file", file);
                    let note = "use `--timeline` without a file to draw in the terminal";
                    self.diags.push(Diag::global_error(errors::VALUE, message).with_note(note));
                }
            }
        }
        if pairs && !wanted.is_drawn() {
            let message = "`--timeline-pairs` joins sends to receives in a timeline, but none is drawn";
            self.diags.push(Diag::global_error(errors::CONFLICT, message).with_note("add `--timeline`"));
        }
        wanted
    }
    /// A number of bytes, such as `512M`.
    fn read_size(&mut self, flag: &str, text: Option<&str>) -> Option<u64> {
        let text = text?;
        let bytes = parse_bytes(text);
        if bytes.is_none() {
            let message = message!("`--{} {}`: `{}` is not a size", flag, text, text);
            let note = "write a size in bytes, or with a suffix K, M, G or T: `512M`, `8G`";
            self.diags.push(Diag::global_error(errors::VALUE, message).with_note(note));
        }
        bytes
    }
    fn check_tolerance(&mut self, flag: &str, value: Option<f64>) -> Option<f64> {
        let value = value?;
        if value.is_nan() || value < 0.0 {
            let message = message!("`--{} {}`: a tolerance must be a non-negative number", flag, value);
            self.diags.push(Diag::global_error(errors::VALUE, message));
        }
        Some(value)
    }
}
