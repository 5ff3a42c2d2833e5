//! Parts in several chunks of rows: while the sum of one chunk is in transit, the next one is multiplied.
//!
//! A chunk is a slice of tensors that share the memory of the left factor and of the result, with the rows as two axes,
//! `[.., chunk, m / chunks, ..]`.

use super::region::{ChainGemm, PARTS, SumMethod, SumRegion, SumResult};
use crate::support::builder::OpBuilder;
use crate::support::reshard::{axes_with_domains, has_one_element, stored_domains};
use hostir::ir::{Expr, ExprId, IterDomain, MemoryType, OpEffect, OpId, Program, TensorId};

/// The number of chunks for each part of a sum, and the reason if it differs from the requested one.
#[derive(Clone, Copy)]
pub(super) struct ChunkChoice {
    pub(super) count: u32,
    pub(super) refused: Option<&'static str>,
}

/// Chooses the number of chunks: the requested one, or for 0 the number that docs/overlap.md gives for the sum.
pub(super) fn choose_chunks(program: &Program, region: &SumRegion, method: SumMethod, wanted: u32) -> ChunkChoice {
    let [rows, columns] = part_extents(program, region.partial);
    let automatic = default_count(region, method, rows.zip(columns));
    let count = if wanted == 0 { automatic } else { wanted };
    let refused = if count < 2 {
        None
    } else if method == SumMethod::Direct {
        Some("GEMMs store whole parts in the memory of their ranks")
    } else if region.chain.iter().any(|gemm| has_sliced_rows(program, gemm)) {
        Some("its left factor is a slice")
    } else if !region.functions.is_empty() {
        Some("the sum adds functions of products")
    } else if rows.is_some_and(|rows| rows % i64::from(count) != 0) {
        Some("the rows of a part do not divide into as many")
    } else {
        None
    };
    ChunkChoice { count: if refused.is_some() { 1 } else { count }, refused }
}

/// Parts of a sum with more elements than this have two chunks if all ranks get it. On parts of 4096 x 8192 the second
/// GEMM costs nothing measurable, on parts of 2048 x 4096 as much as the copies that it hides
/// (docs/overlap.md#measured).
const LARGE_PART: i64 = 1 << 23;

/// An allreduce sends finished chunks to all ranks, which the GEMMs of later ones hide. A reduce-scatter
/// has nothing to send at its end, and smaller GEMMs are slower.
fn default_count(region: &SumRegion, method: SumMethod, part: Option<(i64, i64)>) -> u32 {
    let is_large = part.is_some_and(|(rows, columns)| rows.saturating_mul(columns) > LARGE_PART && rows % 2 == 0);
    match (region.result, method) {
        (SumResult::Replicated, SumMethod::RingAccumulate) if is_large => 2,
        _ => 1,
    }
}

/// The rows and columns of a part, from the text or its sizes.
fn part_extents(program: &Program, partial: TensorId) -> [Option<i64>; 2] {
    let domains = stored_domains(program, partial);
    [2, 1].map(|back| {
        let extent = domains.get(domains.len().checked_sub(back)?)?.extent;
        match *program.expr(extent) {
            Expr::Name(name) => {
                program.run_hints().sizes.iter().find(|(size, _)| *size == name).map(|&(_, value)| value)
            }
            _ => program.exprs().as_int(extent),
        }
    })
}

fn has_sliced_rows(program: &Program, gemm: &ChainGemm) -> bool {
    is_slice(program, gemm.factors[0]) || gemm.scales.is_some_and(|[rows, _]| is_slice(program, rows))
}

fn is_slice(program: &Program, tensor: TensorId) -> bool {
    program
        .ops()
        .iter()
        .any(|(_, op)| op.kind.effect() == OpEffect::Alias && op.output_tensors().any(|result| result == tensor))
}

/// The chunks of the parts of a sum.
#[derive(Clone)]
pub(super) struct PartChunks {
    pub(super) count: u32,
    /// The index of a chunk.
    pub(super) index: ExprId,
    /// The left factors of the GEMMs and the result, with the rows as two axes.
    pub(super) lefts: Vec<TensorId>,
    pub(super) output: TensorId,
    /// The scales of the rows of an only GEMM's left factor, likewise, if it has any.
    pub(super) row_scales: Option<TensorId>,
}

impl PartChunks {
    /// Appends the tensors that share memory with the left factors and with the result, whose memory is allocated
    /// before.
    pub(super) fn share_memory(
        build: &mut OpBuilder<'_, '_>,
        region: &SumRegion,
        count: u32,
        index: ExprId,
        out: &mut Vec<OpId>,
    ) -> Self {
        let lefts = region.chain.iter().map(|gemm| share_with_chunks(build, gemm.factors[0], count, out)).collect();
        let output = share_with_chunks(build, region.output, count, out);
        let scales = region.chain.iter().find_map(|gemm| gemm.scales);
        let scales = scales.map(|[rows, _]| rows).filter(|&rows| has_part_scales(build.program(), rows));
        let row_scales = scales.map(|rows| share_with_chunks(build, rows, count, out));
        Self { count, index, lefts, output, row_scales }
    }
}

/// True for scales with an element for each row of each part, `[device, part, m, 1]`.
pub(super) fn has_part_scales(program: &Program, scales: TensorId) -> bool {
    let domains = stored_domains(program, scales);
    let parts = domains.get(PARTS).filter(|_| domains.len() > 2);
    parts.is_some_and(|parts| !has_one_element(program, parts))
}

/// Appends a tensor that shares the memory of a whole one, with the rows as two axes.
fn share_with_chunks(build: &mut OpBuilder<'_, '_>, whole: TensorId, count: u32, out: &mut Vec<OpId>) -> TensorId {
    // A sum keeps the axis that it reduces, in front; a GEMM loses the one at its end.
    let mut domains: Vec<IterDomain> =
        axes_with_domains(build.program(), whole).into_iter().map(|(_, domain)| domain).collect();
    domains.truncate(domains.iter().rposition(|domain| !domain.is_reduction()).map_or(0, |last| last + 1));
    let domains = split_rows(build, domains, count);
    let chunks = build.new_tensor(whole, MemoryType::Global, &domains);
    out.push(build.build_shared_allocation(chunks, whole));
    chunks
}

/// Splits the last but one axis, the rows, into two: chunks, and the rows of a chunk.
pub(super) fn split_rows(build: &mut OpBuilder<'_, '_>, mut domains: Vec<IterDomain>, count: u32) -> Vec<IterDomain> {
    let place = domains.len().saturating_sub(2);
    let rows = domains[place];
    let extent = build.part_extent_expr(rows.extent, i64::from(count));
    domains[place].extent = extent;
    domains.insert(place, IterDomain { extent: build.int_expr(i64::from(count)), ..rows });
    domains
}
