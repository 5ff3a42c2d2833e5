//! The command line of hir-run: what was typed, without looking at the program.

use super::backends::other_backend;
use super::errors;
use super::failure::Failure;
use super::files::DataFile;
use super::traced::Wanted;
pub(super) use super::typed::{Content, Number};
use super::typed::{bytes, content, data_file, lacking, number, shape};
use crate::cuda::{Route, Routes};
use crate::data::compare::Given;
use crate::io::{Io, Status};
use crate::launch::Flags;
use crate::render::{self, Format};
use crate::terminal::{Coloring, color_arg, help_width, shown_error};
use clap::error::ErrorKind;
use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};
use hostir::diag::{Diag, visible};
use std::ffi::OsString;
use std::time::Duration;

/// Where a program runs.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(super) enum Backend {
    #[default]
    Auto,
    Cpu,
    Cuda,
    Null,
}

/// How programs run on GPUs.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(super) struct Gpu {
    pub(super) routes: Routes,
    pub(super) tf32: bool,
    pub(super) graph: bool,
    pub(super) timeout_ms: Option<u64>,
}

/// How often programs are timed, and where the figures go.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub(super) struct Bench {
    pub(super) iterations: u32,
    pub(super) warmup: u32,
    pub(super) json: Option<String>,
}

impl Bench {
    /// Runs of each program, those that warm up included.
    pub(super) fn rounds(&self) -> u32 {
        self.warmup.saturating_add(self.iterations)
    }
}

/// `T0=value`: an option about one thing.
pub(super) type Keyed<T> = Vec<(String, T)>;

/// The options.
#[derive(Clone, Default, Debug)]
pub(super) struct Options {
    pub(super) file: String,
    /// Programs that `--bench` compares with the first.
    pub(super) others: Vec<String>,
    pub(super) container: Option<usize>,
    pub(super) devices: Option<u32>,
    pub(super) backend: Backend,
    pub(super) streams: u32,
    pub(super) plan_memory: Option<u64>,
    pub(super) shapes: Keyed<Vec<usize>>,
    pub(super) set: Keyed<Number>,
    /// `--set '*=8'`: of extents that nothing else gives a value.
    pub(super) every: Option<i64>,
    pub(super) inputs: Keyed<Content>,
    pub(super) seed: u64,
    pub(super) outputs: Keyed<DataFile>,
    pub(super) out_dir: Option<String>,
    pub(super) expects: Keyed<DataFile>,
    pub(super) reference: Option<String>,
    pub(super) given: Given,
    pub(super) check_only: bool,
    pub(super) print_plan: bool,
    /// Lists the calls of the CUDA backend: for ranks that share a device, or that have one each.
    pub(super) print_calls: Option<bool>,
    pub(super) gpu: Gpu,
    /// Several processes, as far as the command line says.
    pub(super) launch: Flags,
    /// Timed runs, if asked for.
    pub(super) bench: Option<Bench>,
    /// Timelines that are asked for.
    pub(super) traced: Wanted,
    /// Whether a profiler is told what the host does.
    pub(super) nvtx: bool,
    pub(super) summary: bool,
    pub(super) quiet: bool,
    pub(super) format: Format,
    pub(super) coloring: Coloring,
}

impl Options {
    /// How long connecting, or one run, may take.
    pub(super) fn timeout(&self) -> Duration {
        self.gpu.timeout_ms.map_or(Duration::from_secs(60), Duration::from_millis)
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
    /// Whether the command line says with what outputs are compared.
    pub(super) fn compares(&self) -> bool {
        self.reference.is_some() || !self.expects.is_empty()
    }
    /// What has to be the same on all processes of a run, beside the program: options and their values.
    pub(super) fn shared(&self) -> Vec<(&'static str, String)> {
        let names = |keyed: &Keyed<DataFile>| {
            keyed.iter().map(|(name, _)| name.clone()).collect::<Vec<_>>()
        };
        let Options { container, streams, shapes, set, every, inputs, seed, gpu, .. } = self;
        // How long one waits is its own affair.
        let Gpu { routes, tf32, graph, timeout_ms: _ } = gpu;
        let bench = self.bench.as_ref().map(|bench| (bench.iterations, bench.warmup));
        vec![
            ("list of files", format!("{:?}", self.others)),
            ("`--container`", format!("{container:?}")),
            ("`--backend`", format!("{:?}", self.backend)),
            ("`--streams`", streams.to_string()),
            ("`--shape`", format!("{shapes:?}")),
            ("`--set`", format!("{set:?} {every:?}")),
            ("`--input`", format!("{inputs:?}")),
            ("`--seed`", seed.to_string()),
            ("`--map-backend`", format!("{routes:?}")),
            ("`--tf32`", tf32.to_string()),
            ("`--graph`", graph.to_string()),
            ("`--output`", format!("{:?}", names(&self.outputs))),
            ("`--expect`", format!("{:?}", names(&self.expects))),
            ("`--check-only`", self.check_only.to_string()),
            ("`--print-plan`", self.print_plan.to_string()),
            ("`--trace` or `--timeline`", self.traced.any().to_string()),
            ("`--bench`, `--iters` or `--warmup`", format!("{bench:?}")),
        ]
    }
}

const ABOUT: &str = "Runs a host program on all its ranks and checks what it computes";

const AFTER: &str = "\
Tensors are named by number (T0) or by position among the inputs (--input,
--shape) or outputs (--output, --expect), from 0.

Examples:
  hir-run docs/examples/ag_matmul_p2p.hir --set i1=64,i2=128,i3=32
      Run on as many ranks as the meshes name, with normally distributed inputs.
  hir-run lowered.hir --set '*=8' --reference unlowered.hir
      Run both programs on the same inputs and compare the outputs; what the
      programs leave open is 8 long.
  hir-run mlp.hir --input T0=x.npy --input T1=w.safetensors:fc1.weight \\
      --expect T5=y.npy --output T5=out.npy
      Files in and out; out.npy is written only if the run and the comparison
      succeed.
  hir-run mlp.hir --input T0=x.%r.npy
      One file a rank: x.0.npy, x.1.npy, ... hold the ranks' parts.
  hir-run a.hir b.hir --bench --set '*=1024' --json - | jq .programs
      Time two programs in turn; the figures go to another program.
  nvfuser_test 2>&1 | hir-run - --container=2 --check-only
      Check the second program of a log.

Several processes: torchrun, mpirun and srun say each process its rank; else
--rank, --world and --coordinator or HIR_RANK, HIR_WORLD and HIR_COORDINATOR do.
On several hosts all need one HIR_TOKEN, or a file of mode 0600 with it in
HIR_TOKEN_FILE. Without any of that all ranks run in this process; --processes
starts one for each. docs/launch.md has commands for two hosts.

Exit status: 0 success, 1 the program is wrong, 2 the command line is wrong, 3 a
file or device is missing or unfit, 4 a comparison differs, or replicas of what
is compared do, 5 deadlock or timeout. Results go to standard output, everything
else to standard error; a run that fails writes no file.";

/// Reads the arguments, the program's name first. An error was reported and is given as the exit
/// status; so are `--help` and `--version`.
pub(super) fn parse(args: &[OsString], io: &mut Io<'_>) -> Result<Options, Status> {
    match command().term_width(help_width(io)).try_get_matches_from(args) {
        Ok(matches) => {
            let coloring = Coloring::apply(&matches, io);
            let options = options(&matches).map(|options| Options { coloring, ..options });
            options.map_err(|(format, diags)| {
                let failure = Failure::from(diags);
                render::report(io, format, &failure.source, &failure.diags);
                Status::Usage
            })
        }
        Err(error)
            if matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion) =>
        {
            Err(io.print(&visible::block(&error.render().to_string())))
        }
        Err(error) => {
            let error = shown_error(error, args, command().term_width(help_width(io)));
            io.say(&match other_backend(&error) {
                Some(answer) => format!("error: {answer}"),
                None => error.render().to_string(),
            });
            Err(Status::Usage)
        }
    }
}

fn command() -> Command {
    let groups = [
        program_args(),
        size_args(),
        data_args(),
        check_args(),
        gpu_args(),
        launch_args(),
        bench_args(),
        trace_args(),
        print_args(),
    ];
    Command::new("hir-run")
        .version(env!("CARGO_PKG_VERSION"))
        .about(ABOUT)
        .after_help(AFTER)
        .args(groups.into_iter().flatten())
}

fn flag(name: &'static str, help: &'static str) -> Arg {
    Arg::new(name).long(name).help(help).action(ArgAction::SetTrue)
}

fn value(name: &'static str, value: &'static str, help: &'static str) -> Arg {
    Arg::new(name).long(name).value_name(value).help(help)
}

fn many(name: &'static str, text: &'static str, help: &'static str) -> Arg {
    value(name, text, help).action(ArgAction::Append)
}

fn program_args() -> Vec<Arg> {
    let file = Arg::new("FILE").required(true).num_args(1..);
    let backends = ["auto", "cpu", "cuda", "null"];
    vec![
        file.help("The program or a log that holds it; - is standard input"),
        value("container", "N", "Takes the N-th program of the file, from 1")
            .value_parser(value_parser!(u32).range(1..)),
        value("devices", "N", "Number of ranks; without it, as many as the meshes name")
            .short('n')
            .value_parser(value_parser!(u32).range(1..)),
        value("backend", "NAME", "Where it runs").value_parser(backends).default_value("auto"),
        value("streams", "N", "What numberOfStreams is")
            .value_parser(value_parser!(u32).range(1..))
            .default_value("4"),
        value(
            "timeout-ms",
            "N",
            "How long connecting to other ranks, or one run, may take [default: 60000]; on the CPU \
             planning, or one run [default: no limit]",
        )
        .value_parser(value_parser!(u64).range(1..)),
        value("plan-memory", "SIZE", "How much the plans of all ranks may take [default: 4G]"),
    ]
}

fn size_args() -> Vec<Arg> {
    let group = |arg: Arg| arg.help_heading("Sizes");
    vec![
        group(many("shape", "T0=4x8", "The whole shape of an input")),
        group(many(
            "set",
            "i0=8,...",
            "Values of extents and scalar inputs; *=8 is one for each extent that nothing else gives",
        )),
    ]
}

fn data_args() -> Vec<Arg> {
    let group = |arg: Arg| arg.help_heading("Data");
    let input = "What an input holds: randn (the default: mean 0, deviation 1), uniform (0 to 1), ones, zeros, \
                 iota, FILE.npy, FILE.safetensors[:NAME]; %r in a file's name stands for the rank";
    vec![
        group(many("input", "T0=WHAT", input)),
        group(
            value("seed", "N", "Seed of generated inputs")
                .value_parser(value_parser!(u64))
                .default_value("0"),
        ),
        group(many(
            "output",
            "T2=FILE",
            "Writes an output or any tensor that has memory at the end, whole, or with %r one part a rank",
        )),
        group(value("out-dir", "DIR", "Writes there all outputs that no --output names")),
    ]
}

fn check_args() -> Vec<Arg> {
    let group = |arg: Arg| arg.help_heading("Checks");
    let reals = |arg: Arg| arg.value_parser(value_parser!(f64)).allow_negative_numbers(true);
    vec![
        group(many("expect", "T2=FILE", "Compares an output or any such tensor with a file")),
        group(value(
            "reference",
            "FILE",
            "Runs this program on the same inputs and compares all outputs by position",
        )),
        group(reals(value(
            "rtol",
            "X",
            "Tolerance relative to the reference's element; the default depends on the type",
        ))),
        group(reals(value(
            "atol",
            "X",
            "Absolute tolerance; the default follows the reference's root mean square",
        ))),
        group(flag(
            "check-only",
            "Checks the program, plans it and looks for deadlocks, without data",
        )),
    ]
}

fn gpu_args() -> Vec<Arg> {
    let group = |arg: Arg| arg.help_heading("GPUs");
    vec![
        group(value("map-backend", "FROM=TO", "Runs communications of one backend over another"))
            .action(ArgAction::Append)
            .value_parser(["UCC=NCCL", "UCC=CUDA", "NCCL=CUDA"]),
        group(flag("tf32", "Lets products of floats round their factors to TF32")),
        group(flag("graph", "Records the run as a CUDA graph and replays it")),
    ]
}

fn launch_args() -> Vec<Arg> {
    let group = |arg: Arg| arg.help_heading("Several processes");
    let rank = || value_parser!(u32);
    vec![
        group(flag("processes", "Starts one process a rank on this machine")).conflicts_with_all([
            "rank",
            "world",
            "coordinator",
        ]),
        group(value("rank", "R", "This process is rank R of --world, without a launcher"))
            .value_parser(rank()),
        group(value("world", "N", "Number of processes")).value_parser(rank()),
        group(value("coordinator", "HOST:PORT", "Where rank 0 listens")),
        // Everybody can read arguments: it is known so that its error can say what to do.
        value("token", "TEXT", "Refused: set HIR_TOKEN").hide(true),
    ]
}

fn launch(matches: &ArgMatches) -> Flags {
    Flags {
        rank: matches.get_one("rank").copied(),
        world: matches.get_one("world").copied(),
        coordinator: matches.get_one("coordinator").cloned(),
        token: matches.contains_id("token"),
        processes: matches.get_flag("processes"),
    }
}

fn bench_args() -> Vec<Arg> {
    let group = |arg: Arg| arg.help_heading("Benchmarks");
    let count = |arg: Arg| arg.value_parser(value_parser!(u32));
    vec![
        group(flag(
            "bench",
            "Times the program; several FILEs run in turn and are compared with the first",
        )),
        group(count(value("iters", "N", "Timed runs of each program").default_value("50"))),
        group(count(value("warmup", "N", "Runs before them").default_value("5"))),
        group(value(
            "json",
            "FILE",
            "Writes the figures; - is standard output, and lines go to standard error",
        )),
    ]
}

fn trace_args() -> Vec<Arg> {
    let group = |arg: Arg| arg.help_heading("Timelines");
    let timeline = value(
        "timeline",
        "FILE.svg",
        "Draws what each stream did when, in the terminal or as a picture; with --check-only, what a model says",
    );
    vec![
        group(value("trace", "FILE.json", "Writes what each stream did when, for ui.perfetto.dev")),
        group(flag("nvtx", "Tells a profiler such as Nsight Systems which calls are of which op")),
        group(timeline.num_args(0..=1).require_equals(true).action(ArgAction::Append)),
    ]
}

fn print_args() -> Vec<Arg> {
    let group = |arg: Arg| arg.help_heading("What is printed");
    vec![
        group(flag("print-plan", "Prints each rank's plan instead of running it")),
        // For developers: tools/same-output compares what two versions print.
        group(value("print-calls", "own|shared", "Prints the CUDA backend's calls and kernels"))
            .value_parser(["own", "shared"])
            .conflicts_with_all(["print-plan", "check-only", "bench"])
            .hide(true),
        group(flag("summary", "Says more about inputs and outputs").conflicts_with("quiet")),
        group(flag("quiet", "Says nothing unless something is wrong").short('q')),
        group(value("error-format", "FORMAT", "How diagnostics are written"))
            .value_parser(["human", "json"])
            .default_value("human"),
        group(color_arg()),
    ]
}

fn options(matches: &ArgMatches) -> Result<Options, (Format, Vec<Diag>)> {
    let text = |name: &str| matches.get_one::<String>(name).cloned();
    let json = text("error-format").as_deref() == Some("json");
    let format = if json { Format::Json } else { Format::Human };
    let mut values = Values { matches, diags: Vec::new() };
    values.need_bench();
    let (set, every) = values.set();
    let options = Options {
        file: values.file(),
        others: values.others(),
        container: matches.get_one::<u32>("container").map(|n| *n as usize),
        devices: matches.get_one("devices").copied(),
        backend: match text("backend").as_deref() {
            Some("cpu") => Backend::Cpu,
            Some("cuda") => Backend::Cuda,
            Some("null") => Backend::Null,
            _ => Backend::Auto,
        },
        streams: matches.get_one("streams").copied().unwrap_or(4),
        plan_memory: values.size("plan-memory"),
        shapes: values.keyed("shape", shape),
        set,
        every,
        inputs: values.keyed("input", content),
        seed: matches.get_one("seed").copied().unwrap_or(0),
        outputs: values.keyed("output", data_file),
        out_dir: text("out-dir"),
        expects: values.keyed("expect", data_file),
        reference: text("reference"),
        given: Given { rtol: values.tolerance("rtol"), atol: values.tolerance("atol") },
        check_only: matches.get_flag("check-only"),
        print_plan: matches.get_flag("print-plan"),
        print_calls: text("print-calls").map(|devices| devices == "shared"),
        gpu: Gpu {
            routes: routes(matches),
            tf32: matches.get_flag("tf32"),
            graph: matches.get_flag("graph"),
            timeout_ms: matches.get_one("timeout-ms").copied(),
        },
        launch: launch(matches),
        bench: matches.get_flag("bench").then(|| Bench {
            iterations: matches.get_one("iters").copied().unwrap_or(50),
            warmup: matches.get_one("warmup").copied().unwrap_or(5),
            json: text("json"),
        }),
        traced: values.traced(),
        nvtx: matches.get_flag("nvtx"),
        summary: matches.get_flag("summary"),
        quiet: matches.get_flag("quiet"),
        format,
        coloring: Coloring::default(),
    };
    if values.diags.is_empty() { Ok(options) } else { Err((format, values.diags)) }
}

/// What carries communications. `UCC=NCCL` beside `NCCL=CUDA` sends both over copies.
fn routes(matches: &ArgMatches) -> Routes {
    let given = matches.get_many::<String>("map-backend");
    let given: Vec<&str> = given.into_iter().flatten().map(String::as_str).collect();
    let has = |text: &str| given.contains(&text);
    let nccl = if has("NCCL=CUDA") { Route::Copies } else { Route::Nccl };
    let ucc = match (has("UCC=CUDA"), has("UCC=NCCL")) {
        (true, _) => Some(Route::Copies),
        (false, true) => Some(nccl),
        (false, false) => None,
    };
    Routes { nccl, ucc }
}

/// Values that clap does not check, with what is wrong with them.
struct Values<'a> {
    matches: &'a ArgMatches,
    diags: Vec<Diag>,
}

impl Values<'_> {
    fn file(&mut self) -> String {
        let mut files = self.matches.get_many::<String>("FILE").into_iter().flatten();
        let first = files.next().cloned().unwrap_or_default();
        if let Some(second) = files.next().filter(|_| !self.matches.get_flag("bench")) {
            let message =
                format!("one program runs at a time, but `{first}` and `{second}` are given");
            let note = match [&first, second].into_iter().find(|file| file.ends_with(".svg")) {
                Some(picture) => format!("a picture is named behind `=`: `--timeline={picture}`"),
                None => "`--reference FILE` compares a program with another one, `--bench` times several"
                    .to_owned(),
            };
            self.diags.push(Diag::global(errors::CONFLICT, message).note(note));
        }
        first
    }
    fn others(&self) -> Vec<String> {
        self.matches.get_many::<String>("FILE").into_iter().flatten().skip(1).cloned().collect()
    }
    /// Reports options about timed runs where none are.
    fn need_bench(&mut self) {
        if self.matches.get_one::<u32>("iters") == Some(&0) {
            let message = "`--iters 0` times no run";
            let note =
                "give at least 1; without `--bench` the program runs once and nothing is timed";
            self.diags.push(Diag::global(errors::VALUE, message).note(note));
        }
        let given = |flag: &&str| self.matches.value_source(flag) == Some(ValueSource::CommandLine);
        let flags = ["iters", "warmup", "json"].into_iter();
        let without = flags.filter(given).filter(|_| !self.matches.get_flag("bench"));
        let diags = without.map(|flag| {
            let message = format!("`--{flag}` is about timed runs, but `--bench` is not given");
            Diag::global(errors::CONFLICT, message).note(match flag {
                "json" => "add `--bench`; `--error-format=json` writes diagnostics as JSON",
                _ => "add `--bench`",
            })
        });
        let diags: Vec<Diag> = diags.collect();
        self.diags.extend(diags);
    }
    /// The values of `--set i0=8,d1=0.5`, and that of `--set '*=8'`.
    fn set(&mut self) -> (Keyed<Number>, Option<i64>) {
        let texts = self.matches.get_many::<String>("set").into_iter().flatten();
        // A comma may stand behind the last one.
        let texts = texts.flat_map(|text| text.strip_suffix(',').unwrap_or(text).split(','));
        let mut all = self.pairs("set", texts, number);
        let mut every = None;
        for (_, value) in all.extract_if(.., |(name, _)| name == "*") {
            match value {
                Number::Int(value @ 0..) if every.is_none() => every = Some(value),
                Number::Int(0..) => {
                    self.diags.push(Diag::global(errors::TWICE, "`--set *` is given twice"));
                }
                other => {
                    let message =
                        format!("`--set *={other}`: an extent is a whole number from 0 up");
                    self.diags.push(Diag::global(errors::VALUE, message));
                }
            }
        }
        (all, every)
    }
    /// All `--flag key=value`.
    fn keyed<T>(&mut self, flag: &str, read: impl Fn(&str) -> Result<T, String>) -> Keyed<T> {
        let texts = self.matches.get_many::<String>(flag).into_iter().flatten();
        self.pairs(flag, texts.map(String::as_str), read)
    }
    fn pairs<'t, T>(
        &mut self,
        flag: &str,
        texts: impl Iterator<Item = &'t str>,
        read: impl Fn(&str) -> Result<T, String>,
    ) -> Keyed<T> {
        let mut found = Vec::new();
        for text in texts {
            let parts = text.split_once('=').filter(|(key, _)| !key.is_empty());
            let value = parts.ok_or_else(|| lacking(flag, text));
            match value.and_then(|(key, value)| Ok((key.to_owned(), read(value)?))) {
                Ok(pair) => found.push(pair),
                Err(why) => self
                    .diags
                    .push(Diag::global(errors::VALUE, format!("`--{flag} {text}`: {why}"))),
            }
        }
        found
    }
    /// `--trace FILE`, `--timeline` and `--timeline=FILE.svg`, which may both be given.
    fn traced(&mut self) -> Wanted {
        let mut wanted =
            Wanted { file: self.matches.get_one::<String>("trace").cloned(), ..Wanted::default() };
        let given = self.matches.get_occurrences::<String>("timeline").into_iter().flatten();
        for mut values in given {
            match values.next() {
                None => wanted.chart = true,
                Some(file) if file.ends_with(".svg") => wanted.picture = Some(file.clone()),
                Some(file) => {
                    let message = format!("`--timeline={file}`: a picture is a .svg file");
                    let note = "`--timeline` alone draws in the terminal";
                    self.diags.push(Diag::global(errors::VALUE, message).note(note));
                }
            }
        }
        wanted
    }
    /// A number of bytes, such as `512M`.
    fn size(&mut self, flag: &str) -> Option<u64> {
        let text = self.matches.get_one::<String>(flag)?;
        let bytes = bytes(text);
        if bytes.is_none() {
            let message = format!("`--{flag} {text}`: `{text}` is no size");
            let note = "a size is a number of bytes, or of K, M, G or T: `512M`, `8G`";
            self.diags.push(Diag::global(errors::VALUE, message).note(note));
        }
        bytes
    }
    fn tolerance(&mut self, flag: &str) -> Option<f64> {
        let value = self.matches.get_one::<f64>(flag).copied()?;
        if value.is_nan() || value < 0.0 {
            let message = format!("`--{flag} {value}`: a tolerance is a number from 0 up");
            self.diags.push(Diag::global(errors::VALUE, message));
        }
        Some(value)
    }
}
