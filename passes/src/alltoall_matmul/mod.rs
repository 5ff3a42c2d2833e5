//! alltoall-matmul: exchanges parts between all ranks while parts are multiplied.
//!
//! [`parts`] finds the axes by which tensors are divided and the exchanges between them, [`region`] the products and
//! functions beside exchanges, and [`emit`] writes one loop for them.

mod emit;
mod parts;
mod region;

use crate::framework::pass::{PassAction, PassCx, PassExample, PassInfo, StatisticSpec};
use crate::support::builder::OpBuilder;
use crate::support::rewrite::rebuild_body;
use crate::support::slices::unused_index_name;
use hostir::diag::message;
use hostir::diag::{Diag, Diags};
use hostir::ir::edit::Edit;
use hostir::ir::{OpId, Program};
use region::{ExchangeRegion, ExchangeSearch};

/// alltoall-matmul: exchanges and the products between them became a loop.
const LOOP: &str = "H0338";
/// alltoall-matmul: an exchange of parts that stays, and why.
const NO_LOOP: &str = "H0339";

/// The pass.
pub(crate) const PASS: PassInfo = PassInfo {
    name: "alltoall-matmul",
    summary: "Multiply exchanged parts as they arrive, and return results as they are made",
    description: "\
Replaces exchanges of all ranks with all, and the products beside them, by a loop over the parts: the layers of
experts, whose tokens travel to the ranks of their experts and whose results travel back. An exchange is a `Set` from
`[device, part, ..]` to `[part, device, ..]` or the other way, with as many parts as devices. One before the products,
one after them, or both become the loop; several tensors may be exchanged.

In step `hop` a rank receives the part of the rank `hop` places further, computes it, and sends the results back, while
other parts travel. Its own part does not travel: it is computed first, while others arrive, or last if nothing arrives.
Each rank copies its parts into memory of the program (`protocol=put`), by copies on a stream of their own, and gets its
results out of the memory of the others, so that inputs and outputs may be in memory without peer access, such as
tensors of torch. An output that also travels is copied once more.

Between the exchanges are `matmul` and `matmul_add`, and functions of their parts. Operands are parts,
`[part, device, ..]`, or the same for all parts, as weights and biases, `[1, device, ..]`, in the order of axes that the
parts have; tensors with two axes less may be the same on all devices. Weights may be permuted (`Set.Permute`). What
something else reads is whole; all other results take memory for the parts of one rank.

Other patterns are left for later passes; `--remarks` gives the reason.",
    example: Some(PassExample { options: "", before: EXAMPLE_BEFORE, after: EXAMPLE_AFTER }),
    options: &[],
    statistics: &[
        StatisticSpec { name: "loops", help: "loops over parts" },
        StatisticSpec { name: "products", help: "products in these loops" },
        StatisticSpec { name: "exchanges-kept", help: "exchanges of parts that stay" },
    ],
    action: PassAction::Rewrite(run_alltoall_matmul),
};

const EXAMPLE_BEFORE: &str = "\
hir 2
mesh d = 0..4

experts(X: f32[x:4, 4, c, h], W: f32[b.1, x:4, h, f], V: f32[b.1, x:4, f, h]) -> (Y: f32[x:4, 4, c, h]) on d:
  R: f32[4, x:4, c, h] = Set(X)
  U: f32[4, x:4, c, f] = matmul(R, W)
  G: f32[4, x:4, c, f] = silu(U)
  P: f32[4, x:4, c, h] = matmul(G, V)
  Y = Set(P)
";
const EXAMPLE_AFTER: &str = "\
hir 2
mesh d = 0..4

experts(X: f32[x:4, 4, c, h], W: f32[b.1, x:4, h, f], V: f32[b.1, x:4, f, h]) -> (Y: f32[x:4, 4, c, h]) on d:
  Y = alloc
  R.1: f32[4, c, h] = alloc
  U: f32[4, c, f] = alloc
  G: f32[4, c, f] = alloc
  P: f32[4, c, h] = alloc
  for hop in 4 on streams:
    if hop == 0:
      U[(rank + hop) % 4] = matmul(X[own, rank], W[0, own])
      G[(rank + hop) % 4] = silu(U[(rank + hop) % 4])
      P[(rank + hop) % 4] = matmul(G[(rank + hop) % 4], V[0, own])
      Y[own, rank] = Set(P[(rank + hop) % 4])
    else:
      h0 = recv(R.1[(rank + hop) % 4], from=(rank + hop) % 4, via=CUDA, protocol=put)
      stream streams:
        sync hop % streams
        h1 = send(X[own, (rank + 4 - hop) % 4], to=(rank + 4 - hop) % 4, via=CUDA, protocol=put)
      wait h0
      U[(rank + hop) % 4] = matmul(R.1[(rank + hop) % 4], W[0, own])
      G[(rank + hop) % 4] = silu(U[(rank + hop) % 4])
      P[(rank + hop) % 4] = matmul(G[(rank + hop) % 4], V[0, own])
      h2 = send(P[(rank + hop) % 4], to=(rank + hop) % 4, via=CUDA)
      h3 = recv(Y[own, (rank + 4 - hop) % 4], from=(rank + 4 - hop) % 4, via=CUDA)
      wait h2
      wait h3
      wait h1
";

fn run_alltoall_matmul(edit: &mut Edit<'_>, cx: &mut PassCx<'_>) -> Result<(), Diags> {
    let program = edit.program();
    let mut search = ExchangeSearch::new(program);
    let regions = search.find_regions();
    for (op, reason) in &search.kept {
        cx.add_count("exchanges-kept", 1);
        cx.add_remark(|| kept_remark(program, *op, reason));
    }
    let mut work: Vec<(OpId, Option<ExchangeRegion>)> = Vec::new();
    for region in regions {
        cx.add_count("loops", 1);
        cx.add_count("products", region.gemm_count(program) as u64);
        cx.add_remark(|| loop_remark(program, &region));
        let ops = region.ops(&search.motion);
        work.extend(ops.into_iter().filter(|&op| op != region.place).map(|op| (op, None)));
        work.push((region.place, Some(region)));
    }
    if work.is_empty() {
        return Ok(());
    }
    work.sort_by_key(|(op, _)| search.motion.place_of(*op));
    let mut build = OpBuilder::new(edit);
    let hop = build.name_expr(&unused_index_name(build.program(), "hop"));
    rebuild_body(&mut build, work, |build, _, region, out| {
        if let Some(region) = region {
            emit::emit_loop(build, &region, hop, out);
        }
    });
    Ok(())
}

fn loop_remark(program: &Program, region: &ExchangeRegion) -> Diag {
    let names: Vec<String> = region.exchanges().map(|exchange| program.tensor_name(exchange.result)).collect();
    let exchanges = if names.len() == 1 { "exchange" } else { "exchanges" };
    let products = match region.gemm_count(program) {
        1 => "1 product".to_owned(),
        count => format!("{count} products"),
    };
    let message = message!("the {} `{}` became a loop over parts, with {}", exchanges, names.join("`, `"), products);
    Diag::error(LOOP, program.op_span(region.place), message)
}

fn kept_remark(program: &Program, exchange: OpId, reason: &str) -> Diag {
    let result = program.op(exchange).output_tensors().next();
    let name = result.map(|tensor| program.tensor_name(tensor)).unwrap_or_default();
    let message = message!("the exchange `{}` is not in parts: {}", name, reason);
    Diag::error(NO_LOOP, program.op_span(exchange), message)
}
