//! The arguments of hir-run as clap reads them; `cli` makes options of them.

use super::bench_options::BenchArguments;
use super::kernel_options::KernelArguments;
use super::option_values::{ContainerChoice, PermutedSchedules, parse_container, parse_hosts, parse_schedules};
use super::tune_options::TuneArguments;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, Parser, value_parser};
use hostir::ir::DType;
use hostir::machine::HostLinks;
use hostir_tool_support::command_line::{ColorArgument, GENERATED, format_parser, parse_element_type};
use hostir_tool_support::events::DebugArgument;
use hostir_tool_support::machines::MachineArgument;
use hostir_tool_support::render::DiagFormat;

/// The backend that a program runs on.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(super) enum BackendChoice {
    #[default]
    Auto,
    Cpu,
    Cuda,
    Null,
    Sim,
}

/// The form of printed plans.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum PlanForm {
    /// A line for each instruction.
    Text,
    /// The plans as data.
    Json,
}

const ABOUT: &str = "Runs a host program on all its ranks and checks its results";

const AFTER: &str = "\
Tensors are named by name (x), by number (T0) or by position among the inputs
(--input, --shape) or outputs (--output, --expect), from 0.

Examples:
  hir-run docs/examples/ag_matmul_p2p.hir --set n=64
      Run on as many ranks as the meshes name, with normally distributed inputs;
      the file has sizes for what is not set.
  hir-run docs/examples/ag_matmul_p2p.hir --reference=:plain --exact
      Compare with the program `plain` of the same file, and prove that both
      compute the same.
  hir-run lowered.hir --set '*=8' --reference unlowered.hir
      Run both programs on the same inputs and compare the outputs; what the
      programs leave open is 8 long.
  hir-run lowered.hir --set '*=8' --reference unlowered.hir --exact --check-only
      Prove that both compute the same for all inputs of these sizes.
  hir-run mlp.hir --input x=x.npy --input w1=w.safetensors:fc1.weight \\
      --expect y=y.npy --output y=out.npy
      Files in and out; out.npy is written only if the run and the comparison
      succeed.
  hir-run mlp.hir --input x=x.%r.npy
      One file a rank: x.0.npy, x.1.npy, ... hold the ranks' parts.
  hir-run a.hir b.hir --bench --set '*=1024' --json - | jq .programs
      Time two programs in turn; the figures go to another program.
  hir-run serial.hir ring.hir --tune --tune-file choices.toml
      Choose the faster one, by the cost model if that can tell, else by
      measuring both; the next call takes the times of choices.toml.
  hir-run prog.hir --check-only --fix
      Prove a program, and repair it in its file where that is sure.
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

/// The arguments, in the order of the help.
#[derive(Parser)]
#[command(name = "hir-run", version = hostir_tool_support::VERSION, about = ABOUT, after_help = AFTER)]
pub(super) struct Arguments {
    #[command(flatten)]
    pub(super) program: ProgramArguments,
    #[command(flatten)]
    pub(super) sizes: SizeArguments,
    #[command(flatten)]
    pub(super) data: DataArguments,
    #[command(flatten)]
    pub(super) checks: CheckArguments,
    #[command(flatten)]
    pub(super) model: ModelArguments,
    #[command(flatten)]
    pub(super) kernels: KernelArguments,
    #[command(flatten)]
    pub(super) gpus: GpuArguments,
    #[command(flatten)]
    pub(super) launch: LaunchArguments,
    #[command(flatten)]
    pub(super) bench: BenchArguments,
    #[command(flatten)]
    pub(super) tune: TuneArguments,
    #[command(flatten)]
    pub(super) timelines: TimelineArguments,
    #[command(flatten)]
    pub(super) print: PrintArguments,
}

/// The flags that need no program.
const FILELESS: [&str; GENERATED.len() + 1] = [GENERATED[0], GENERATED[1], GENERATED[2], "calibrate"];

#[derive(Args)]
pub(super) struct ProgramArguments {
    #[arg(value_name = "FILE", required_unless_present_any = FILELESS, num_args = 1..,
        help = "Program, or a log that contains it; - is standard input")]
    pub(super) files: Vec<String>,
    #[arg(long, value_name = "N|all", value_parser = parse_container,
        help = "Use the N-th program of the file, from 1; with --check-only, all proves every one")]
    pub(super) container: Option<ContainerChoice>,
    #[arg(long, value_name = "NAME", value_parser = parse_element_type,
        help = "Element type of tensors without one, as nvFuser printed them before December 2024 [default: float]")]
    pub(super) element_type: Option<DType>,
    #[arg(short = 'n', long, value_name = "N", value_parser = value_parser!(u32).range(1..),
        help = "Number of ranks, which gives the size of `mesh d = 0..p`; by default, as many as the meshes name")]
    pub(super) devices: Option<u32>,
    #[arg(long, value_name = "NAME", default_value = "auto", value_parser = backend_parser(),
        help = "Backend to run on")]
    pub(super) backend: BackendChoice,
    #[arg(long, value_name = "GPUS,GB/S,US", value_parser = parse_hosts,
        help = "Hosts of the cost model: GPUs of each, GB/s of a GPU over the network, us from host to host [default: one host]")]
    pub(super) hosts: Option<HostLinks>,
    #[arg(long, value_name = "N", value_parser = value_parser!(u32).range(1..),
        help = "Number of streams [default: what the program proposes, else 4]")]
    pub(super) streams: Option<u32>,
    #[arg(long, value_name = "N", value_parser = value_parser!(u64),
        help = "Time limit for connecting to other ranks and for one run [default: 60000]; on the CPU for planning and for one run [default: no limit]; 0 is no limit, also of silence of other processes: for debuggers")]
    pub(super) timeout_ms: Option<u64>,
    #[arg(long, value_name = "SIZE", help = "Memory limit for the plans of all ranks [default: 4G]")]
    pub(super) plan_memory: Option<String>,
}

#[derive(Args)]
#[command(next_help_heading = "Sizes")]
pub(super) struct SizeArguments {
    #[arg(long, value_name = "T0=4x8", help = "Whole shape of an input")]
    pub(super) shape: Vec<String>,
    #[arg(
        long,
        value_name = "i0=8,...",
        help = "Values of extents and scalar inputs; * sets all extents without another value"
    )]
    pub(super) set: Vec<String>,
}

#[derive(Args)]
#[command(next_help_heading = "Data")]
pub(super) struct DataArguments {
    #[arg(
        long,
        value_name = "T0=WHAT",
        help = "Contents of an input: randn (the default: mean 0, deviation 1), uniform (0 to 1), ones, zeros, iota, FILE.npy, FILE.safetensors[:NAME]; %r in the name of a file is the rank"
    )]
    pub(super) input: Vec<String>,
    #[arg(
        long,
        value_name = "N",
        default_value = "0",
        help = "Seed of generated inputs, and of random numbers for which the program has none"
    )]
    pub(super) seed: u64,
    #[arg(
        long,
        value_name = "T2=FILE",
        help = "Write an output, or any tensor that has memory at the end; whole, or one shard per rank with %r"
    )]
    pub(super) output: Vec<String>,
    #[arg(long, value_name = "DIR", help = "Write all outputs that no --output names to DIR")]
    pub(super) out_dir: Option<String>,
}

#[derive(Args)]
#[command(next_help_heading = "Checks")]
pub(super) struct CheckArguments {
    #[arg(
        long,
        value_name = "T2=FILE",
        help = "Compare an output, or any tensor that has memory at the end, with a file"
    )]
    pub(super) expect: Vec<String>,
    #[arg(
        long,
        value_name = "FILE|:NAME",
        help = "Run another program on the same inputs and compare all outputs by position; :NAME and :N are programs \
                of the same file"
    )]
    pub(super) reference: Option<String>,
    #[arg(
        long,
        help = "With --reference: prove that both programs compute the same for all inputs of these sizes, by runs \
                        modulo a prime, or show the parts of the inputs that are missing; with --check-only without data"
    )]
    pub(super) exact: bool,
    #[arg(
        long,
        value_name = "X",
        allow_negative_numbers = true,
        help = "Relative tolerance; the default is that of the coarsest type to which values are rounded on the way from the inputs to the output"
    )]
    pub(super) rtol: Option<f64>,
    #[arg(
        long,
        value_name = "X",
        allow_negative_numbers = true,
        help = "Absolute tolerance; the default depends on the reference's root mean square"
    )]
    pub(super) atol: Option<f64>,
    #[arg(
        long,
        help = "Checks and plans the program, and proves that it has no deadlocks and no races, without data; \
                        the cost models of several FILEs are compared with the first"
    )]
    pub(super) check_only: bool,
    #[arg(long, requires = "check_only", conflicts_with_all = ["processes", "rank"],
        help = "Applies the fixes of errors and warnings to FILE and checks it again; from standard input, writes the \
                repaired program to standard output")]
    pub(super) fix: bool,
    #[arg(long, help = "Makes warnings of the proof errors")]
    pub(super) strict: bool,
    #[arg(
        long,
        conflicts_with_all = ["check_only", "strict"],
        help = "Runs the program without the proof that it has no deadlocks and no races"
    )]
    pub(super) no_check: bool,
    #[arg(long, value_name = "SEED|all", value_parser = parse_schedules,
        help = "Runs the queues of all ranks, on the CPU, in an order that the seed chooses, and compares what each \
                access finds; all tries one order for each access and 10 more")]
    pub(super) permute_schedule: Option<PermutedSchedules>,
    #[arg(long, help = "Fills fresh memory with NaN, integers with the byte 0xa5")]
    pub(super) poison: bool,
}

#[derive(Args)]
#[command(next_help_heading = "Cost model")]
pub(super) struct ModelArguments {
    #[command(flatten)]
    pub(super) machine: MachineArgument,
    #[arg(long, value_name = "FILE", conflicts_with_all = ["files", "check_only", "bench", "processes", "rank"],
        help = "Measure the machine with -n GPUs, and write its file for --machine; --machine gives what they do not show")]
    pub(super) calibrate: Option<String>,
}

#[derive(Args)]
#[command(next_help_heading = "GPUs")]
pub(super) struct GpuArguments {
    #[arg(long, value_name = "FROM=TO", value_parser = ["UCC=NCCL", "UCC=CUDA", "NCCL=CUDA"],
        help = "Run communications of one backend with another")]
    pub(super) map_backend: Vec<String>,
    #[arg(long, help = "Allow GEMMs of floats to round their operands to TF32")]
    pub(super) tf32: bool,
    #[arg(long, help = "Allow GEMMs of 8-bit floats to add up products in fewer bits than float has")]
    pub(super) fp8_fast_accumulation: bool,
    #[arg(long, value_name = "HOW", default_value = "quick", value_parser = ["quick", "sustained"],
        help = "How to choose algorithms of GEMMs: sustained takes 4 s for each large one, at the power limit")]
    pub(super) tuning: String,
    #[arg(long, help = "With --tuning=sustained, also try kernels of hir-run's own for large GEMMs of bfloat16")]
    pub(super) gemm_kernels: bool,
    #[arg(long, help = "Record the run as a CUDA graph and replay it")]
    pub(super) graph: bool,
}

#[derive(Args)]
#[command(next_help_heading = "Several processes")]
pub(super) struct LaunchArguments {
    #[arg(long, conflicts_with_all = ["rank", "world", "coordinator"],
        help = "Start one process per rank on this machine")]
    pub(super) processes: bool,
    #[arg(long, value_name = "R", help = "Rank of this process out of --world, without a launcher")]
    pub(super) rank: Option<u32>,
    #[arg(long, value_name = "N", help = "Number of processes")]
    pub(super) world: Option<u32>,
    #[arg(long, value_name = "HOST:PORT", help = "Address at which rank 0 listens")]
    pub(super) coordinator: Option<String>,
    // Everybody can read arguments: it is known so that its error can say what to do.
    #[arg(long, value_name = "TEXT", hide = true, help = "Rejected: set HIR_TOKEN instead")]
    pub(super) token: Option<String>,
}

#[derive(Args)]
#[command(next_help_heading = "Timelines")]
pub(super) struct TimelineArguments {
    #[arg(long, value_name = "FILE.json", help = "Write a trace of all streams for ui.perfetto.dev")]
    pub(super) trace: Option<String>,
    #[arg(long, help = "Mark the ops of calls for a profiler such as Nsight Systems")]
    pub(super) nvtx: bool,
    #[arg(long, value_name = "FILE.svg|html", num_args = 0..=1, require_equals = true,
        help = "Draw the timeline of all streams in the terminal, or to a picture or page; with --check-only, that of the cost model")]
    pub(super) timeline: Vec<String>,
    #[arg(long, help = "Join each send in a timeline to its receive")]
    pub(super) timeline_pairs: bool,
}

#[derive(Args)]
#[command(next_help_heading = "Output")]
pub(super) struct PrintArguments {
    #[arg(long, value_name = "text|json", num_args = 0..=1, require_equals = true, default_missing_value = "text",
        value_parser = plan_form_parser(), help = "Print the plan of each rank instead of running it")]
    pub(super) print_plan: Option<PlanForm>,
    // For developers: tools/same-output compares what two versions print.
    #[arg(long, value_name = "own|shared", value_parser = ["own", "shared"], hide = true,
        conflicts_with_all = ["print_plan", "check_only", "bench"],
        help = "Print the calls and kernels of the CUDA backend")]
    pub(super) print_calls: Option<String>,
    #[arg(long, conflicts_with = "quiet", help = "Print more about inputs and outputs")]
    pub(super) summary: bool,
    #[arg(short, long, help = "Print errors only")]
    pub(super) quiet: bool,
    #[arg(long, value_name = "FORMAT", default_value = "human", value_parser = format_parser(),
        help = "Format of diagnostics")]
    pub(super) error_format: DiagFormat,
    #[command(flatten)]
    pub(super) debug: DebugArgument,
    #[command(flatten)]
    pub(super) color: ColorArgument,
}

fn plan_form_parser() -> impl TypedValueParser<Value = PlanForm> {
    PossibleValuesParser::new(["text", "json"]).map(|text| match text.as_str() {
        "json" => PlanForm::Json,
        _ => PlanForm::Text,
    })
}

fn backend_parser() -> impl TypedValueParser<Value = BackendChoice> {
    PossibleValuesParser::new(["auto", "cpu", "cuda", "null", "sim"]).map(|text| match text.as_str() {
        "cpu" => BackendChoice::Cpu,
        "cuda" => BackendChoice::Cuda,
        "null" => BackendChoice::Null,
        "sim" => BackendChoice::Sim,
        _ => BackendChoice::Auto,
    })
}
