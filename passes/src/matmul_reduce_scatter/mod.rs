//! matmul-reduce-scatter: sums partial GEMMs over devices part by part.
//!
//! [`region`] finds a chain of GEMMs and the sum of its parts over devices; [`emit`] writes loops in their place, by a
//! ring of accumulating GEMMs ([`ring`]) or by an exchange of partial results ([`exchange`]), with functions of the
//! products ([`between`]), parts in [`chunks`] and other GEMMs between ([`independent`]).

mod between;
mod chunks;
mod emit;
mod exchange;
mod independent;
mod region;
mod ring;

use crate::framework::options::{OptionSpec, OptionType};
use crate::framework::pass::{PassAction, PassCx, PassExample, PassInfo, StatisticSpec};
use crate::support::builder::OpBuilder;
use crate::support::rewrite::rebuild_body;
use crate::support::slices::unused_index_name;
use chunks::{ChunkChoice, choose_chunks};
use emit::{LoopNames, SumPlan};
use hostir::diag::message;
use hostir::diag::{Diag, Diags};
use hostir::ir::edit::Edit;
use hostir::ir::{OpId, Program};
use independent::IndependentGemms;
use region::{SearchOutcome, SumMethod, SumResult, SumSearch};

/// matmul-reduce-scatter: a product and a sum over devices became loops.
const SUMMED: &str = "H0333";
/// matmul-reduce-scatter: a sum over devices that stays, and why.
const NOT_SUMMED: &str = "H0334";

/// The pass.
pub(crate) const PASS: PassInfo = PassInfo {
    name: "matmul-reduce-scatter",
    summary: "Sum the parts of a product over devices while later parts are multiplied",
    description: "\
Replaces a `matmul` whose contracted axis lies across devices, and the sum of its parts over these devices, by loops.
The product is `[device, part, m, n]`, with as many parts as devices; the sum reduces the device axis and leaves part
r on device r (reduce-scatter), or all parts on all devices (all-reduce).

With `method=ring-accumulate` the sums go around a ring. In each hop a rank multiplies its shards for one part, adds
the sum that arrived from the rank before (`matmul_add`), and sends the new sum to the next rank; the last hop is its
own part. Messages are copies with `protocol=put`, so that on GPUs each GEMM stores in the next rank's memory: nothing
is copied and there is no final sum. A part is rounded to the result's type after each hop. The sums that arrive take
memory for all parts but one.

With `method=p2p` each product travels to the rank that keeps its sum, by copies on a stream of their own, while later
ones are multiplied; at the end each rank adds up what arrived, in the order of the ranks, in `float` where types are
narrower. It takes memory for all parts twice, and is fastest with a stream for each part (`--streams`).

With `method=direct` the messages are on the stream of the GEMMs, after all receives. On GPUs each GEMM then stores in
the memory of the rank that keeps the sum, without copies and without memory for what is sent; with `--gemm-kernels`
one launch may do so for all parts. Parts have one chunk.

The product may be a `scaled_matmul` without a bias, whose scales lie across devices as its factors do,
`[device, part, m, 1]` and `[device, 1, 1, n]`, or are the same everywhere. What it adds to is its `bias=`.

The product may be a chain, a `matmul` and `matmul_add`s, each of which adds to the one before and whose result
nothing else reads: `A1 @ W1 + A2 @ W2` without copies of the factors. In each hop the first product adds the sum that
arrived and the last one is sent; a part is rounded after each product. Results inside of a chain take memory for one
part, for two in chains of more than two products; with `method=p2p`, for all parts.

Functions of products may stand before the sum, as scales, biases, conversions or tensors that are added: what makes
the summed tensor from products and from tensors `[device, part, m, n]`, `[device, part, m, 1]`, `[device, 1, 1, n]` or
`[device, 1, 1, 1]`, if nothing else reads what is between. Each hop computes them for its part, and then adds the sum
that arrived, in the type of the result; results in between take memory for one part each. Such parts have one chunk.

An all-reduce then sends each finished part to all ranks.

With several `chunks` the rows of a part are divided. Each chunk has a ring of its own, on streams, so that one
chunk is multiplied while the sum of another one travels, and an all-reduce sends finished chunks while later ones
are multiplied; with `method=p2p` smaller products travel. GEMMs of chunks are smaller, and slower. Chunks are slices
of tensors that share the memory of the left factor and of the result. Where rows do not divide, a part has one chunk.

With `independent_products=inside` a ring of one chunk also runs the GEMMs that follow the sum and do not need
it, such as gradients of weights: each in a hop, between the GEMM whose sum is sent and the wait for the next sum, whose
transfer they hide. Copies on a separate stream then send the sums concurrently with these GEMMs, so that no GEMM
stores in another rank's memory.

Other patterns are left for later passes; `--remarks` gives the reason.",
    example: Some(PassExample { options: "", before: EXAMPLE_BEFORE, after: EXAMPLE_AFTER }),
    options: &[
        OptionSpec {
            name: "method",
            ty: OptionType::Choice(METHODS),
            default: Some("ring-accumulate"),
            help: "The way in which the products of a part are summed",
        },
        OptionSpec {
            name: "sums",
            ty: OptionType::Choice(&["all", "reduce-scatter", "all-reduce"]),
            default: Some("all"),
            help: "Which sums become loops",
        },
        OptionSpec {
            name: "chunks",
            ty: OptionType::Int { min: 0, max: 1024 },
            default: Some("0"),
            help: "The number of chunks of rows for each part; 0 leaves it to the pass: 2 for an all-reduce of large parts by a ring, else 1",
        },
        INDEPENDENT_PRODUCTS,
    ],
    statistics: &[
        StatisticSpec { name: "sums", help: "sums over devices that became loops" },
        StatisticSpec { name: "sums-kept", help: "sums of products over devices that stay" },
        StatisticSpec { name: "products-inside", help: "GEMMs after a sum that run in its ring" },
    ],
    action: PassAction::Rewrite(run_matmul_reduce_scatter),
};

/// The place of GEMMs after a sum that do not need it.
pub(crate) const INDEPENDENT_PRODUCTS: OptionSpec = OptionSpec {
    name: "independent_products",
    ty: OptionType::Choice(&["behind", "inside"]),
    default: Some("behind"),
    help: "Place of GEMMs after a sum that do not need it: after its ring, or inside, while copies send sums",
};

/// The methods as users write them.
const METHODS: &[&str] = &["ring-accumulate", "p2p", "direct"];

const EXAMPLE_BEFORE: &str = "\
hir 2
mesh d = 0..4

sum(A: f32[x:4, 4, m, k], B: f32[x:4, b.1, k, n]) -> (Y: f32[r.4, x:4, m, n]) on d:
  P: f32[x:4, 4, m, n, r.k] = matmul(A, B)
  Y = reduction(P, op=add, init=f32(0), allreduce=false)
";
const EXAMPLE_AFTER: &str = "\
hir 2
mesh d = 0..4

sum(A: f32[x:4, 4, m, k], B: f32[x:4, b.1, k, n]) -> (Y: f32[r.4, x:4, m, n]) on d:
  P.1: f32[3, m, n] = alloc
  P.2: f32[3, m, n] = alloc
  Y = alloc
  for hop in 4:
    if hop < 3:
      h0 = recv(P.1[hop], from=(rank + 3) % 4, via=CUDA, protocol=put)
      if hop == 0: P.2[hop] = matmul(A[own, (rank + 3 - hop) % 4], B[own, 0])
      else: P.2[hop] = matmul_add(A[own, (rank + 3 - hop) % 4], B[own, 0], P.1[hop - 1])
      wait send(P.2[hop], to=(rank + 1) % 4, via=CUDA, protocol=put)
      wait h0
    else: Y[own] = matmul_add(A[own, (rank + 3 - hop) % 4], B[own, 0], P.1[hop - 1])
";

fn run_matmul_reduce_scatter(edit: &mut Edit<'_>, cx: &mut PassCx<'_>) -> Result<(), Diags> {
    let wanted = cx.options().word_value("sums").to_owned();
    let method = match cx.options().word_value("method") {
        "p2p" => SumMethod::P2p,
        "direct" => SumMethod::Direct,
        _ => SumMethod::RingAccumulate,
    };
    let program = edit.program();
    let mut search = SumSearch::new(program);
    let chunks_wanted = u32::try_from(cx.options().int_value("chunks")).unwrap_or(0);
    let mut choices: Vec<SumChoice> = Vec::new();
    // GEMMs of all sums, also of those that another run of the pass takes.
    let mut chains: Vec<OpId> = Vec::new();
    for &op in &program.block(program.body()).ops {
        match search.region_of_sum(op) {
            SearchOutcome::NoSum => {}
            SearchOutcome::Kept(reason) => {
                cx.add_count("sums-kept", 1);
                cx.add_remark(|| kept_remark(program, op, reason));
            }
            SearchOutcome::Found(region) => {
                chains.extend(region.moved_ops());
                if region.result.is_wanted(&wanted) {
                    let chunks = choose_chunks(program, &region, method, chunks_wanted);
                    let plan = SumPlan { region, method, chunks: chunks.count, inside: Vec::new() };
                    choices.push(SumChoice { plan, chunks, none_inside: None });
                }
            }
        }
    }
    if choices.is_empty() {
        return Ok(());
    }
    if cx.options().word_value("independent_products") == "inside" {
        let mut gemms = IndependentGemms::new(program, chains);
        for choice in &mut choices {
            match gemms.for_sum(&choice.plan, &mut search.motion) {
                Ok(found) => choice.plan.inside = found,
                Err(reason) => choice.none_inside = Some(reason),
            }
        }
    }
    let mut sums: Vec<(OpId, Option<SumPlan>)> = Vec::new();
    for choice in choices {
        cx.add_count("sums", 1);
        cx.add_count("products-inside", choice.plan.inside.len() as u64);
        cx.add_remark(|| summed_remark(program, &choice));
        let plan = choice.plan;
        let moved = plan.region.moved_ops().into_iter().chain(plan.inside.iter().copied());
        sums.extend(moved.map(|op| (op, None)));
        sums.push((plan.region.sum, Some(plan)));
    }
    sums.sort_by_key(|(op, _)| search.motion.place_of(*op));
    let mut build = OpBuilder::new(edit);
    let [hop, chunk, piece] = ["hop", "chunk", "piece"].map(|stem| unused_index_name(build.program(), stem));
    let names = LoopNames { hop, chunk, piece };
    rebuild_body(&mut build, sums, |build, _, plan, out| {
        if let Some(plan) = plan {
            emit::emit_sum(build, plan, &names, out);
        }
    });
    Ok(())
}

impl SumResult {
    fn is_wanted(self, option: &str) -> bool {
        option == "all" || option == self.option_word()
    }
    fn option_word(self) -> &'static str {
        match self {
            SumResult::Scattered => "reduce-scatter",
            SumResult::Replicated => "all-reduce",
        }
    }
}

/// The plan for a sum, and the reasons for its limits.
struct SumChoice {
    plan: SumPlan,
    chunks: ChunkChoice,
    /// The reason why a ring has no GEMMs inside, if they were requested.
    none_inside: Option<&'static str>,
}

fn summed_remark(program: &Program, choice: &SumChoice) -> Diag {
    let SumChoice { plan, chunks, none_inside } = choice;
    let (region, method) = (&plan.region, plan.method);
    let (name, kind) = (program.quoted_tensor(region.output), region.result.option_word());
    let gemms = region.ranks as usize * region.chain.len();
    let what = match method {
        SumMethod::RingAccumulate if !region.functions.is_empty() => {
            format!("a ring of {gemms} GEMMs and functions of their results")
        }
        SumMethod::RingAccumulate => format!("a ring of {gemms} accumulating GEMMs"),
        SumMethod::P2p => format!("an exchange of the products of {gemms} GEMMs"),
        SumMethod::Direct => format!("{gemms} GEMMs that store in the memory of their ranks, and a sum"),
    };
    let parts = match chunks {
        ChunkChoice { refused: Some(reason), .. } => format!(", whose parts have one chunk: {reason}"),
        ChunkChoice { count: 1, .. } => String::new(),
        ChunkChoice { count, .. } => format!(", for each of {count} chunks"),
    };
    let inside = match plan.inside.len() {
        0 => none_inside.map(|reason| format!(", with no products inside: {reason}")).unwrap_or_default(),
        1 => ", with 1 product after it inside".to_owned(),
        count => format!(", with {count} products after it inside"),
    };
    Diag::error(
        SUMMED,
        program.op_span(region.sum),
        message!("the {} of `{}` became {}{}{}", kind, name, what, parts, inside),
    )
}

fn kept_remark(program: &Program, sum: OpId, reason: &str) -> Diag {
    let result = program.op(sum).output_tensors().next();
    let name = result.map(|tensor| program.tensor_name(tensor)).unwrap_or_default();
    let message = message!("the sum `{}` over devices is not taken part by part: {}", name, reason);
    Diag::error(NOT_SUMMED, program.op_span(sum), message)
}
