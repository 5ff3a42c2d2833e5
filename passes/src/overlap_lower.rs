//! overlap-lower: the lowering that overlaps communication with GEMMs, as one pipeline.

use crate::allgather_matmul::{GATHER_INTO, OWN_PART};
use crate::framework::options::{OptionSpec, OptionType, Options};
use crate::framework::pass::{ChoiceRule, PassAction, PassExample, PassInfo, PipelineWay, PipelineWays};
use crate::matmul_reduce_scatter::INDEPENDENT_PRODUCTS;
use hostir::machine::Machine;
use hostir::ops::comm::BACKENDS;

/// The pass.
pub(crate) const PASS: PassInfo = PassInfo {
    name: "overlap-lower",
    summary: "Lower an annotated program so that GEMMs hide its communications",
    description: "\
Lowers a program in plain math, with meshes and device axes, for GPUs of one host that reach each other's memory.
Products of gathered rows become loops that multiply each part as it arrives (`allgather-matmul`), and products
that are summed over devices become rings of accumulating GEMMs (`matmul-reduce-scatter`). Products between exchanges of
all ranks with all become loops that exchange part by part (`alltoall-matmul`), whatever the options: no collective is
made of a `Set` that exchanges. Everything else is lowered as `host-ir-lower` does. Programs need no stream axes;
`--remarks` tells what became what, and why something stayed.

docs/overlap.md shows which pattern becomes which program. With `choose=model` the pass lowers in each of five ways,
for the sizes that the text proposes, and takes the fastest by the cost model of `--machine` or `machine=NAME`; the
serial way stays if the model cannot tell it from the fastest. A remark lists the times. To measure the ways, write
each to a file and give all to `hir-run --tune`.",
    example: Some(PassExample { options: "", before: EXAMPLE_BEFORE, after: EXAMPLE_AFTER }),
    options: &[
        OptionSpec {
            name: "allgather_matmul",
            ty: OptionType::Choice(&["push", "none"]),
            default: Some("push"),
            help: "Lowering of products of gathered rows: each rank pushes its part to the others, part by part; or as `host-ir-lower`",
        },
        GATHER_INTO,
        OWN_PART,
        OptionSpec {
            name: "matmul_reduce_scatter",
            ty: OptionType::Choice(&["ring-accumulate", "p2p", "direct", "none"]),
            default: Some("ring-accumulate"),
            help: "Lowering of products whose sum is scattered over the devices",
        },
        OptionSpec {
            name: "matmul_allreduce",
            ty: OptionType::Choice(&["ring-accumulate", "p2p", "direct", "none"]),
            default: Some("ring-accumulate"),
            help: "Lowering of products whose sum all devices keep",
        },
        OptionSpec {
            name: "reduce_scatter_chunks",
            ty: OptionType::Int { min: 0, max: 1024 },
            default: Some("0"),
            help: "Chunks of rows for each part of a reduce-scatter; 0 leaves the number to the pass",
        },
        OptionSpec {
            name: "allreduce_chunks",
            ty: OptionType::Int { min: 0, max: 1024 },
            default: Some("0"),
            help: "Chunks of rows for each part of an all-reduce; 0 leaves the number to the pass",
        },
        INDEPENDENT_PRODUCTS,
        OptionSpec {
            name: "communicator_backend",
            ty: OptionType::Choice(BACKENDS),
            default: Some("NCCL"),
            help: "Backend of all other communications",
        },
        OptionSpec {
            name: "choose",
            ty: OptionType::Choice(&["none", "model", "gemm"]),
            default: Some("none"),
            help: "Lower as the other options say; as the fastest of `serial`, `parts`, `ring`, `exchange` and `chunks` by the cost model, for the sizes of the text; or serially unless a GEMM takes 100 us",
        },
        OptionSpec {
            name: "machine",
            ty: OptionType::Choice(&["given", "h100x2", "h100x4", "h100x8", "h200x2", "h200x4", "h200x8"]),
            default: Some("given"),
            help: "Machine of the model; `given` is that of `--machine`",
        },
    ],
    statistics: &[],
    action: PassAction::Choice { steps: pipeline_steps, ways: pipeline_ways },
};

const EXAMPLE_BEFORE: &str = "\
hir 2
mesh d = 0..2

block(X: f32[x:2, m, k], W1: f32[x:2, b.1, k, f], W2: f32[x:2, b.1, f, n]) -> (Y: f32[r.2, x:2, m, n]) on d:
  G = broadcast(X, flags=[true, false, false, false])
  U: f32[x:2, 2, m, f, r.k] = matmul(G, W1)
  V: f32[x:2, 2, m, f] = relu(U)
  P: f32[x:2, 2, m, n, r.f] = matmul(V, W2)
  Y = reduction(P, op=add, init=f32(0), allreduce=false)
";
const EXAMPLE_AFTER: &str = "\
hir 2
mesh d = 0..2

kernel HostUnit0(U: f32[x:2, 2, m, f, r.k]) -> (V: f32[x:2, 2, m, f]) on d:
  V = relu(U)

block(X: f32[x:2, m, k], W1: f32[x:2, b.1, k, f], W2: f32[x:2, b.1, f, n]) -> (Y: f32[r.2, x:2, m, n]) on d:
  X.1: f32[2, m, k] = alloc
  U: f32[x:2, 2, m, f, r.k] = alloc
  for hop in 2 on streams:
    if hop == 0: U[own, (rank + hop) % 2] = matmul(X[own], W1[own, 0])
    else:
      h0 = recv(X.1[(rank + hop) % 2], from=(rank + hop) % 2, via=CUDA, protocol=put)
      stream streams:
        sync hop % streams
        h1 = send(X[own], to=(rank + 2 - hop) % 2, via=CUDA, protocol=put)
      wait h0
      U[own, (rank + hop) % 2] = matmul(X.1[(rank + hop) % 2], W1[own, 0])
      wait h1
  V: f32.g[x:2, 2, m, f] = HostUnit0(U)
  P.1: f32[1, m, n] = alloc
  P.2: f32[1, m, n] = alloc
  Y = alloc
  for hop1 in 2:
    if hop1 < 1:
      h2 = recv(P.1[hop1], from=(rank + 1) % 2, via=CUDA, protocol=put)
      if hop1 == 0: P.2[hop1] = matmul(V[own, (rank + 1 - hop1) % 2], W2[own, 0])
      else: P.2[hop1] = matmul_add(V[own, (rank + 1 - hop1) % 2], W2[own, 0], P.1[hop1 - 1])
      wait send(P.2[hop1], to=(rank + 1) % 2, via=CUDA, protocol=put)
      wait h2
    else: Y[own] = matmul_add(V[own, (rank + 1 - hop1) % 2], W2[own, 0], P.1[hop1 - 1])
";

/// The ways among which `choose` chooses; the serial one first.
fn pipeline_ways(options: &Options) -> PipelineWays {
    let rule = match options.word_value("choose") {
        "none" => return PipelineWays::default(),
        "gemm" => ChoiceRule::LongGemm,
        _ => ChoiceRule::LeastTime,
    };
    let backend = options.word_value("communicator_backend");
    let lower = format!("alltoall-matmul,host-ir-lower{{communicator_backend={backend},share_copies=true}}");
    let [place, own] = ["gather_into", "own_part"].map(|name| options.word_value(name));
    let parts = format!("allgather-matmul{{gather_into={place},own_part={own}}}");
    let mut ways = vec![
        PipelineWay { name: "serial", text: lower.clone() },
        PipelineWay { name: "parts", text: format!("{parts},{lower}") },
        PipelineWay { name: "exchange", text: format!("{parts},{},{lower}", sum_steps("p2p", "")) },
        PipelineWay { name: "chunks", text: format!("{parts},{},{lower}", sum_steps("ring-accumulate", ",chunks=2")) },
        PipelineWay { name: "ring", text: format!("{parts},{},{lower}", sum_steps("ring-accumulate", "")) },
    ];
    if rule == ChoiceRule::LongGemm {
        ways.retain(|way| ["serial", "ring"].contains(&way.name));
    }
    PipelineWays { rule, machine: Machine::find_builtin(options.word_value("machine")), ways }
}

/// The steps that lower sums over devices by a method.
fn sum_steps(method: &str, chunks: &str) -> String {
    let sums = ["reduce-scatter", "all-reduce"];
    sums.map(|sums| format!("matmul-reduce-scatter{{method={method},sums={sums}{chunks}}}")).join(",")
}

fn pipeline_steps(options: &Options) -> String {
    let takes = |name: &str| options.word_value(name) != "none";
    let mut steps = Vec::new();
    if takes("allgather_matmul") {
        let [place, own] = ["gather_into", "own_part"].map(|name| options.word_value(name));
        steps.push(format!("allgather-matmul{{gather_into={place},own_part={own}}}"));
    }
    for (option, sums, chunks) in [
        ("matmul_reduce_scatter", "reduce-scatter", "reduce_scatter_chunks"),
        ("matmul_allreduce", "all-reduce", "allreduce_chunks"),
    ] {
        if takes(option) {
            let (method, chunks) = (options.word_value(option), options.int_value(chunks));
            let divided = if chunks > 0 { format!(",chunks={chunks}") } else { String::new() };
            let products = match options.word_value("independent_products") {
                "behind" => String::new(),
                place => format!(",independent_products={place}"),
            };
            steps.push(format!("matmul-reduce-scatter{{method={method},sums={sums}{divided}{products}}}"));
        }
    }
    let backend = options.word_value("communicator_backend");
    steps.push("alltoall-matmul".to_owned());
    steps.push(format!("host-ir-lower{{communicator_backend={backend},share_copies=true}}"));
    steps.join(",")
}
