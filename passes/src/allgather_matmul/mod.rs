//! allgather-matmul: multiplies gathered rows, part by part as the parts arrive.
//!
//! [`region`] finds GEMMs that share an operand which is sharded over devices, [`operands`] finds the parts of the
//! other operands, and [`emit`] writes one loop for them.

mod emit;
mod operands;
mod region;

use crate::framework::options::{OptionSpec, OptionType};
use crate::framework::pass::{PassAction, PassCx, PassExample, PassInfo, StatisticSpec};
use crate::support::builder::OpBuilder;
use crate::support::rewrite::rebuild_body;
use crate::support::slices::unused_index_name;
use emit::CopyMethod;
use hostir::diag::message;
use hostir::diag::{Diag, Diags};
use hostir::ir::edit::Edit;
use hostir::ir::{OpId, Program};
use region::{GatherRegion, GatherSearch};

/// allgather-matmul: products became a loop that gathers.
const LOOP: &str = "H0335";
/// allgather-matmul: a product of gathered rows that stays, and why.
const NO_LOOP: &str = "H0336";

/// The pass.
pub(crate) const PASS: PassInfo = PassInfo {
    name: "allgather-matmul",
    summary: "Multiply the parts of a gathered operand as they arrive",
    description: "\
Replaces `matmul` and `linear` ops whose left operand is needed from all devices, `[device, m, k]` to
`[part, m, n]`, by a loop over the parts. Products that share the operand share the loop, so it is gathered once.
The loop begins with the rank's own part, for which nothing is sent, and goes round the devices; each rank sends its
part to each other rank itself, by copies on a stream of their own (`protocol=put`), while it multiplies. A `Set` of the
operand to `[part, m, k]`, for what else needs the gathered rows, is what the loop gathers into.

`gather_into=buffer` gathers into memory of the loop instead, and copies each part after its GEMMs. It is for results
that other ranks cannot reach, such as tensors of torch: these would be copied whole when the program ends.
`own_part=return` lets the rank's own part come back from its neighbor, which got it anyway: a GPU copies its own memory
on its multiprocessors, where it holds up GEMMs, and messages by copy engines.

With more axes, a `broadcast` of the operand to `[1, device, m, k]` and a right operand `[device, 1, k, n]` give a
product `[device, part, m, n]`: columns of a weight lie across devices, as in the first layer of a tensor-parallel
MLP. Of a `scaled_matmul` the scales of the rows, `[device, m, 1]`, are gathered with the rows; products share a loop
if they share these scales, too.

Gradients of weights contract the gathered rows. Their products are taken part by part, `[device, part, k, m]` and
`[device, part, m, n]`, one of which is a broadcast of the gathered operand or its transpose
(`Set.Permute(.., perm=[0, 1, 3, 2])`), and a `reduction` sums the parts. If nothing else reads the product, each
iteration adds its part to the sum (`matmul_add`), after the previous iteration; so the sum is rounded to its type once
for each part.

Other patterns are left for later passes; `--remarks` gives the reason.",
    example: Some(PassExample { options: "", before: EXAMPLE_BEFORE, after: EXAMPLE_AFTER }),
    options: &[GATHER_INTO, OWN_PART],
    statistics: &[
        StatisticSpec { name: "loops", help: "loops that gather" },
        StatisticSpec { name: "products", help: "products in these loops" },
        StatisticSpec { name: "products-kept", help: "products of gathered rows that stay" },
    ],
    action: PassAction::Rewrite(run_allgather_matmul),
};

/// The place where parts arrive; also an option of `overlap-lower`.
pub(crate) const GATHER_INTO: OptionSpec = OptionSpec {
    name: "gather_into",
    ty: OptionType::Choice(&["copy", "buffer"]),
    default: Some("copy"),
    help: "Where the parts of gathered rows that the program has as a tensor arrive: there, or in a buffer",
};
/// The source of the rank's own part; also an option of `overlap-lower`.
pub(crate) const OWN_PART: OptionSpec = OptionSpec {
    name: "own_part",
    ty: OptionType::Choice(&["copy", "return"]),
    default: Some("copy"),
    help: "How the rank's own part of such a tensor comes there: by a copy, or back from a neighbor",
};

const EXAMPLE_BEFORE: &str = "\
hir 2
mesh d = 0..4

products(X: f32[x:4, m, k], A: f32[k, n], B: f32[k, n]) -> (Y: f32[4, m, n], Z: f32[4, m, n]) on d:
  Y = matmul(X, A)
  Z = matmul(X, B)
";
const EXAMPLE_AFTER: &str = "\
hir 2
mesh d = 0..4

products(X: f32[x:4, m, k], A: f32[k, n], B: f32[k, n]) -> (Y: f32[4, m, n], Z: f32[4, m, n]) on d:
  X.1: f32[4, m, k] = alloc
  Y = alloc
  Z = alloc
  for hop in 4 on streams:
    if hop == 0:
      Y[(rank + hop) % 4] = matmul(X[own], A)
      Z[(rank + hop) % 4] = matmul(X[own], B)
    else:
      h0 = recv(X.1[(rank + hop) % 4], from=(rank + hop) % 4, via=CUDA, protocol=put)
      stream streams:
        sync hop % streams
        h1 = send(X[own], to=(rank + 4 - hop) % 4, via=CUDA, protocol=put)
      wait h0
      Y[(rank + hop) % 4] = matmul(X.1[(rank + hop) % 4], A)
      Z[(rank + hop) % 4] = matmul(X.1[(rank + hop) % 4], B)
      wait h1
";

fn run_allgather_matmul(edit: &mut Edit<'_>, cx: &mut PassCx<'_>) -> Result<(), Diags> {
    let program = edit.program();
    let mut search = GatherSearch::new(program);
    let regions = search.find_regions();
    for (op, reason) in &search.kept {
        cx.add_count("products-kept", 1);
        cx.add_remark(|| kept_remark(program, *op, reason));
    }
    let mut work: Vec<(OpId, Option<GatherRegion>)> =
        search.private_ops(&regions).into_iter().map(|op| (op, None)).collect();
    for region in regions {
        cx.add_count("loops", 1);
        cx.add_count("products", region.gemms.len() as u64);
        cx.add_remark(|| loop_remark(program, &region));
        work.extend(region.gemms.iter().skip(1).map(|gemm| (gemm.op, None)));
        work.extend(region.gemms.iter().filter_map(|gemm| gemm.sum).map(|sum| (sum, None)));
        work.extend(region.moved.iter().map(|&op| (op, None)));
        work.extend(region.copy.iter().map(|copy| (copy.op, None)));
        work.push((region.gemms[0].op, Some(region)));
    }
    if work.is_empty() {
        return Ok(());
    }
    work.sort_by_key(|(op, _)| search.motion.place_of(*op));
    let chosen = |name: &str, word: &str| cx.options().word_value(name) == word;
    let method = CopyMethod { in_buffer: chosen("gather_into", "buffer"), own_returns: chosen("own_part", "return") };
    let mut build = OpBuilder::new(edit);
    let hop = build.name_expr(&unused_index_name(build.program(), "hop"));
    rebuild_body(&mut build, work, |build, _, region, out| {
        if let Some(region) = region {
            out.extend(&region.moved);
            emit::emit_loop(build, &region, method, hop, out);
        }
    });
    Ok(())
}

fn loop_remark(program: &Program, region: &GatherRegion) -> Diag {
    let names: Vec<String> = region.gemms.iter().map(|gemm| program.tensor_name(gemm.result)).collect();
    let (gathered, made) = (program.quoted_tensor(region.source), names.join("`, `"));
    let message =
        message!("`{}` became a loop over the parts of `{}`, each multiplied when it arrives", made, gathered);
    Diag::error(LOOP, program.op_span(region.gemms[0].op), message)
}

fn kept_remark(program: &Program, gemm: OpId, reason: &str) -> Diag {
    let result = program.op(gemm).output_tensors().next();
    let name = result.map(|tensor| program.tensor_name(tensor)).unwrap_or_default();
    let message = message!("the product `{}` of gathered rows did not become a loop: {}", name, reason);
    Diag::error(NO_LOOP, program.op_span(gemm), message)
}
