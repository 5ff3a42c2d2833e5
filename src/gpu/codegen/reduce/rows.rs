//! Reductions with contiguous elements: a group of lanes, up to a block, computes one result at a time.

use crate::codegen::index_space::{IndexInt, vector_width};
use crate::codegen::job::KernelLaunch;
use crate::codegen::reduce::kernel::ReductionKernel;
use crate::codegen::reduce::reads::{AccessDirection, ThreadReads};
use crate::codegen::source_writer::{SourceWriter, kernel_source};
use crate::codegen::thread_mapping::{BLOCKS, THREADS};
use crate::codegen::types::ClassSource as _;
use crate::unsupported::Unsupported;

/// Lanes of a warp.
const WARP: usize = 32;
/// Accesses of a lane from which on it pays to split a row.
const LONG: usize = 8;

/// The division of a row into accesses and threads.
struct RowTiling {
    /// Elements an access.
    width: usize,
    /// Accesses of a whole row.
    count: usize,
    /// Lanes of a row: a power of 2 up to [`WARP`], or [`THREADS`].
    lanes: usize,
    /// Accesses that a lane has in flight.
    unroll: usize,
}

impl RowTiling {
    fn new(reduction: &ReductionKernel<'_>) -> Self {
        let operands = reduction.result_index();
        let width = vector_width(&reduction.reduced, Some(&reduction.kept), operands);
        let count = reduction.reduced.index_count() / width;
        let chunk = count.div_ceil(reduction.parts);
        let lanes = match chunk {
            0..=32 => chunk.next_power_of_two(),
            33..=511 => WARP,
            _ => THREADS,
        };
        let most = if operands > 2 { 2 } else { 4 };
        let unroll = (chunk / lanes).clamp(1, most);
        Self { width, count, lanes, unroll: 1 << unroll.ilog2() }
    }
}

/// The number of parts into which each row is split, for a device with this many SMs.
pub(super) fn part_count(reduction: &ReductionKernel<'_>, sms: usize) -> usize {
    let shape = RowTiling::new(reduction);
    let rows = reduction.kept.index_count();
    let most = shape.count / (THREADS * LONG);
    let cut = shape.lanes == THREADS && rows < 2 * sms;
    if cut { (4 * sms).div_ceil(rows).min(most) } else { 1 }
}

/// The launch.
pub(super) fn build_launch(reduction: &ReductionKernel<'_>) -> Result<KernelLaunch, Unsupported> {
    let shape = RowTiling::new(reduction);
    let rows = reduction.kept.index_count() * reduction.parts;
    let groups = THREADS / shape.lanes;
    let ints = IndexInt::for_sizes(reduction.reduced.index_count().max(rows), reduction.max_offset());
    let mut w = SourceWriter::kernel_body();
    if shape.lanes > WARP {
        let ctype = reduction.join.class.ctype();
        w.line(format!("__shared__ {ctype} part[{}];", THREADS / WARP));
    }
    w.open_block(format!(
        "for ({} first = {} * {groups}; first < {}; first += gridDim.x * {groups})",
        ints.ctype(),
        ints.built_in("blockIdx.x"),
        ints.literal(rows)
    ));
    w.line(format!("const {} row = first + threadIdx.x / {};", ints.ctype(), shape.lanes));
    let body = RowReduction { reduction, shape: &shape, ints, rows };
    body.write_accumulation(&mut w)?;
    body.write_tree_fold(&mut w);
    body.write_store(&mut w)?;
    w.close_block();
    let own = reduction.join.join_function();
    let text = kernel_source(&reduction.param_ctypes(), THREADS as u32, &own, w);
    let grid = [rows.div_ceil(groups).min(BLOCKS) as u32, 1, 1];
    Ok(KernelLaunch { text, params: reduction.kernel_params(), grid, block: [THREADS as u32, 1, 1] })
}

struct RowReduction<'a, 'b> {
    reduction: &'a ReductionKernel<'b>,
    shape: &'a RowTiling,
    ints: IndexInt,
    rows: usize,
}

impl RowReduction<'_, '_> {
    /// Splits a row's number into the kept axes' indices; a row's parts are neighbours.
    fn write_row_indices(&self, w: &mut SourceWriter) -> Vec<String> {
        let row = match self.reduction.parts {
            1 => "row".to_owned(),
            parts => format!("row / {}", self.ints.literal(parts)),
        };
        self.ints.split_index(w, &row, &self.reduction.kept.extents, "a")
    }

    /// Each lane's own elements, into `acc`.
    fn write_accumulation(&self, w: &mut SourceWriter) -> Result<(), Unsupported> {
        let (reduction, shape, ints) = (self.reduction, self.shape, self.ints);
        let reads = ThreadReads {
            reduction,
            ints,
            along: AccessDirection::Reduced,
            width: shape.width,
            unroll: shape.unroll,
            step: shape.lanes,
        };
        reads.write_initialization(w);
        w.open_block(format!("if (row < {})", ints.literal(self.rows)));
        let kept = self.write_row_indices(w);
        let part = format!("row % {}", ints.literal(reduction.parts));
        let [start, end] = reads.access_range(w, &part, shape.count);
        let start = format!("{start} + threadIdx.x % {}", shape.lanes);
        reads.write_loop(w, &kept, [&start, &end])?;
        w.close_block();
        Ok(())
    }

    /// Combines the lanes' values as a tree: `total` of a group's first lane has the result.
    fn write_tree_fold(&self, w: &mut SourceWriter) {
        let (shape, ctype) = (self.shape, self.reduction.join.class.ctype());
        if shape.width > 1 {
            w.line("#pragma unroll");
            w.open_block(format!("for (int h = {}; h > 0; h /= 2)", shape.width / 2));
            w.line("#pragma unroll");
            w.line("for (int v = 0; v < h; ++v) acc[v] = join(acc[v], acc[v + h]);");
            w.close_block();
        }
        w.line(format!("{ctype} total = acc[0];"));
        let lanes = shape.lanes.min(WARP);
        if lanes > 1 {
            w.line("#pragma unroll");
            w.open_block(format!("for (int h = {}; h > 0; h /= 2)", lanes / 2));
            w.line("total = join(total, __shfl_xor_sync(0xffffffffu, total, h));");
            w.close_block();
        }
        if shape.lanes > WARP {
            let warps = THREADS / WARP;
            w.line("if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = total;");
            w.line("__syncthreads();");
            w.open_block("if (threadIdx.x == 0)");
            w.line(format!("for (int k = 1; k < {warps}; ++k) total = join(total, part[k]);"));
            w.close_block();
            w.line("__syncthreads();");
        }
    }

    fn write_store(&self, w: &mut SourceWriter) -> Result<(), Unsupported> {
        let (reduction, last) = (self.reduction, self.ints.literal(self.rows));
        w.open_block(format!("if (row < {last} && threadIdx.x % {} == 0)", self.shape.lanes));
        let offset = match reduction.parts {
            1 => {
                let names = self.write_row_indices(w);
                let result = &reduction.kept.operands[reduction.result_index()];
                self.ints.linear_offset(&names, &result.strides, 1)
            }
            _ => "row".to_owned(),
        };
        w.line(format!("q[{offset}] = {};", reduction.stored_value("total")?));
        w.close_block();
        Ok(())
    }
}
