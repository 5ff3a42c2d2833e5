//! ring-accumulate: partial products are summed by a ring of accumulating GEMMs.
//!
//! [`region`] finds a product and the sum of its parts over devices; [`emit`] writes the ring in their place.

mod emit;
mod region;

use crate::framework::options::{OptionSpec, OptionType};
use crate::framework::pass::{PassAction, PassCx, PassExample, PassInfo, StatisticSpec};
use crate::support::builder::OpBuilder;
use crate::support::rewrite::rebuild_body;
use crate::support::slices::unused_index_name;
use hostir::diag::{Diag, Diags};
use hostir::ir::edit::Edit;
use hostir::ir::{OpId, Program};
use region::{RingRegion, RingSearch, SearchOutcome, SumResult};

/// ring-accumulate: a product and a sum over devices became a ring.
const RING: &str = "H0333";
/// ring-accumulate: a sum over devices that stays, and why.
const NO_RING: &str = "H0334";

/// The pass.
pub(crate) const PASS: PassInfo = PassInfo {
    name: "ring-accumulate",
    summary: "Sum partial products over devices by a ring of accumulating GEMMs",
    description: "\
Replaces a `matmul` whose contracted axis lies across devices, and the sum of its parts over these devices, by a
ring. The product is `[device, part, m, n]`, with as many parts as devices; the sum reduces the device axis and
leaves part r on device r (reduce-scatter), or all parts on all devices (all-reduce).

In each hop a rank multiplies its shards for one part, adds the sum that arrived from the rank before
(`matmul_add`), and sends the new sum to the next rank; the last hop is its own part. Messages are copies with
`protocol=put`, so that on GPUs each GEMM stores in the next rank's memory: nothing is copied and there is no
final sum. An all-reduce then sends each finished part to all ranks. The arrived sums take memory for all parts
but one.

A part is rounded to the result's type after each hop, where a sum at the end rounds once more than the GEMMs. What
has another form stays for the passes behind; `--remarks` tells the reason.",
    example: Some(PassExample { options: "", before: EXAMPLE_BEFORE, after: EXAMPLE_AFTER }),
    options: &[OptionSpec {
        name: "sums",
        ty: OptionType::Choice(&["all", "reduce-scatter", "all-reduce"]),
        default: Some("all"),
        help: "Which sums become rings",
    }],
    statistics: &[
        StatisticSpec { name: "rings", help: "sums over devices that became rings" },
        StatisticSpec { name: "sums-kept", help: "sums of products over devices that stay" },
    ],
    action: PassAction::Rewrite(run_ring_accumulate),
};

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

fn run_ring_accumulate(edit: &mut Edit<'_>, cx: &mut PassCx<'_>) -> Result<(), Diags> {
    let wanted = cx.options().word_value("sums").to_owned();
    let program = edit.program();
    let mut search = RingSearch::new(program);
    let mut rings: Vec<(OpId, Option<RingRegion>)> = Vec::new();
    for &op in &program.block(program.body()).ops {
        match search.region_of_sum(op) {
            SearchOutcome::NoSum => {}
            SearchOutcome::Kept(reason) => {
                cx.add_count("sums-kept", 1);
                cx.add_remark(|| kept_remark(program, op, reason));
            }
            SearchOutcome::Found(region) if !region.result.is_wanted(&wanted) => {}
            SearchOutcome::Found(region) => {
                cx.add_count("rings", 1);
                cx.add_remark(|| ring_remark(program, &region));
                rings.push((region.product, None));
                rings.push((op, Some(region)));
            }
        }
    }
    if rings.is_empty() {
        return Ok(());
    }
    rings.sort_by_key(|(op, _)| search.motion.place_of(*op));
    let mut build = OpBuilder::new(edit);
    let hop = build.name_expr(&unused_index_name(build.program()));
    rebuild_body(&mut build, rings, |build, _, region, out| {
        if let Some(region) = region {
            emit::emit_ring(build, &region, hop, out);
        }
    });
    Ok(())
}

impl SumResult {
    fn is_wanted(self, option: &str) -> bool {
        option == "all" || option == self.word()
    }
    fn word(self) -> &'static str {
        match self {
            SumResult::Scattered => "reduce-scatter",
            SumResult::Replicated => "all-reduce",
        }
    }
}

fn ring_remark(program: &Program, region: &RingRegion) -> Diag {
    let (name, kind) = (program.tensor_name(region.output), region.result.word());
    let message = format!("the {kind} of `{name}` became a ring of {} accumulating GEMMs", region.ranks);
    Diag::error(RING, program.op_span(region.sum), message)
}

fn kept_remark(program: &Program, sum: OpId, reason: &str) -> Diag {
    let result = program.op(sum).output_tensors().next();
    let name = result.map(|tensor| program.tensor_name(tensor)).unwrap_or_default();
    let message = format!("the sum `{name}` over devices did not become a ring: {reason}");
    Diag::error(NO_RING, program.op_span(sum), message)
}
