//! Reductions with contiguous results: each lane accumulates its own results, and the rows of a block share them.

use crate::codegen::index_space::{IndexInt, access_expression, allows_width, vector_ctype, vector_width};
use crate::codegen::job::KernelLaunch;
use crate::codegen::reduce::kernel::{ReductionKernel, contiguous_strides};
use crate::codegen::reduce::reads::{AccessDirection, ThreadReads};
use crate::codegen::source_writer::{SourceWriter, kernel_source};
use crate::codegen::thread_mapping::{BLOCKS, THREADS};
use crate::codegen::types::ClassSource as _;
use crate::unsupported::Unsupported;

/// Lanes of a block along the results.
const LANES: usize = 32;
/// Elements of a lane from which on it pays to split a column.
const LONG: usize = 8;

/// The distribution of results among threads.
struct ColumnTiling {
    /// Results of a lane.
    width: usize,
    /// Results along the innermost kept axis, in units of `width`.
    count: usize,
    /// Lanes of a block along the results, and the number of blocks for them.
    lanes: usize,
    blocks: usize,
    /// Threads of a block that share a result.
    rows: usize,
    /// Loads that a thread has in flight.
    unroll: usize,
}

impl ColumnTiling {
    fn new(reduction: &ReductionKernel<'_>) -> Self {
        let operands = reduction.result_index();
        let width = vector_width(&reduction.kept, Some(&reduction.reduced), operands);
        let count = reduction.kept.extents.last().copied().unwrap_or(1) / width;
        let lanes = count.next_power_of_two().min(LANES);
        let chunk = reduction.reduced.index_count().div_ceil(reduction.parts);
        let rows = (THREADS / lanes).min(chunk.next_power_of_two());
        let most = if operands > 2 { 2 } else { 4 };
        let unroll = (chunk / rows).clamp(1, most);
        let blocks = count.div_ceil(lanes);
        Self { width, count, lanes, blocks, rows, unroll: 1 << unroll.ilog2() }
    }
}

/// Blocks of a part: the runs of results.
fn block_count(reduction: &ReductionKernel<'_>, shape: &ColumnTiling) -> usize {
    let outer = reduction.kept.extents.split_last().map_or(1, |(_, o)| o.iter().product());
    outer * shape.blocks
}

/// The number of parts into which each column is split, for a device with this many SMs.
pub(super) fn part_count(reduction: &ReductionKernel<'_>, sms: usize) -> usize {
    let shape = ColumnTiling::new(reduction);
    let blocks = block_count(reduction, &shape);
    let most = reduction.reduced.index_count() / (shape.rows * LONG);
    if blocks < 2 * sms { (4 * sms).div_ceil(blocks).min(most) } else { 1 }
}

/// The launch.
pub(super) fn build_launch(reduction: &ReductionKernel<'_>) -> Result<KernelLaunch, Unsupported> {
    let shape = ColumnTiling::new(reduction);
    let tiles = block_count(reduction, &shape) * reduction.parts;
    let reach = reduction.max_offset();
    let ints = IndexInt::for_sizes(reduction.reduced.index_count().max(tiles), reach);
    let mut w = SourceWriter::kernel_body();
    let ctype = reduction.join.class.ctype();
    if shape.rows > 1 {
        w.line(format!("__shared__ {ctype} part[{}][{}];", shape.rows / 2, shape.lanes * shape.width));
    }
    w.open_block(format!(
        "for ({} tile = blockIdx.x; tile < {}; tile += gridDim.x)",
        ints.ctype(),
        ints.literal(tiles)
    ));
    let body = ColumnReduction { reduction, shape: &shape, ints };
    let names = body.write_indices(&mut w);
    body.write_accumulation(&mut w, &names)?;
    body.write_tree_fold(&mut w);
    body.write_store(&mut w, &names)?;
    w.close_block();
    let own = reduction.join.join_function();
    let threads = (shape.lanes * shape.rows) as u32;
    let text = kernel_source(&reduction.param_ctypes(), threads, &own, w);
    let grid = [tiles.min(BLOCKS) as u32, 1, 1];
    let block = [shape.lanes as u32, shape.rows as u32, 1];
    Ok(KernelLaunch { text, params: reduction.kernel_params(), grid, block })
}

struct ColumnReduction<'a, 'b> {
    reduction: &'a ReductionKernel<'b>,
    shape: &'a ColumnTiling,
    ints: IndexInt,
}

impl ColumnReduction<'_, '_> {
    /// Splits the tile's number: the part, the kept indices and the lane's index among the results.
    fn write_indices(&self, w: &mut SourceWriter) -> Vec<String> {
        let mut extents = vec![self.reduction.parts];
        extents.extend(self.reduction.kept.extents.iter().copied());
        if let Some(last) = extents[1..].last_mut() {
            *last = self.shape.blocks;
        }
        let names = self.ints.split_index(w, "tile", &extents, "t");
        let mut kept = names[1..].to_vec();
        if let Some(last) = kept.last_mut() {
            let lanes = self.ints.literal(self.shape.lanes);
            let index = self.ints.ctype();
            w.line(format!("const {index} column = {last} * {lanes} + threadIdx.x;"));
            *last = "column".to_owned();
        } else {
            w.line("const int column = threadIdx.x;");
        }
        kept
    }

    /// Each thread's own elements, into `acc`.
    fn write_accumulation(&self, w: &mut SourceWriter, kept: &[String]) -> Result<(), Unsupported> {
        let (reduction, shape, ints) = (self.reduction, self.shape, self.ints);
        let reads = ThreadReads {
            reduction,
            ints,
            along: AccessDirection::Kept,
            width: shape.width,
            unroll: shape.unroll,
            step: shape.rows,
        };
        reads.write_initialization(w);
        let [start, end] = reads.access_range(w, "t0", reduction.reduced.index_count());
        w.open_block(format!("if (column < {})", ints.literal(shape.count)));
        reads.write_loop(w, kept, [&format!("{start} + threadIdx.y"), &end])?;
        w.close_block();
        Ok(())
    }

    /// Combines the values of a block's rows as a tree: `acc` of the first row has the result.
    fn write_tree_fold(&self, w: &mut SourceWriter) {
        let shape = self.shape;
        if shape.rows == 1 {
            return;
        }
        w.line("#pragma unroll");
        w.open_block(format!("for (int h = {}; h > 0; h /= 2)", shape.rows / 2));
        w.open_block("if (threadIdx.y >= h && threadIdx.y < 2 * h)");
        w.open_unrolled_loop("v", shape.width);
        let at = format!("[v * {} + threadIdx.x]", shape.lanes);
        w.line(format!("part[threadIdx.y - h]{at} = acc[v];"));
        w.close_all_blocks(2);
        w.line("__syncthreads();");
        w.open_block("if (threadIdx.y < h)");
        w.open_unrolled_loop("v", shape.width);
        w.line(format!("acc[v] = join(acc[v], part[threadIdx.y]{at});"));
        w.close_all_blocks(2);
        w.line("__syncthreads();");
        w.close_block();
    }

    fn write_store(&self, w: &mut SourceWriter, kept: &[String]) -> Result<(), Unsupported> {
        let (shape, reduction, ints) = (self.shape, self.reduction, self.ints);
        let count = ints.literal(shape.count);
        w.open_block(format!("if (threadIdx.y == 0 && column < {count})"));
        let result = reduction.result_index();
        let mut operand = reduction.kept.operands[result].clone();
        let mut whole = allows_width(&reduction.kept, None, result, shape.width);
        let mut offset = ints.linear_offset(kept, &operand.strides, shape.width);
        if reduction.parts > 1 {
            // Parts follow one another, each row-major.
            operand.ctype = reduction.join.class.ctype();
            operand.size = reduction.accumulator_bytes();
            operand.strides = contiguous_strides(&reduction.kept.extents);
            let rest = ints.linear_offset(kept, &operand.strides, shape.width);
            offset = format!("t0 * {} + {rest}", ints.literal(reduction.kept.index_count()));
            whole = true;
        }
        if whole && shape.width > 1 {
            w.line(format!("{} y;", vector_ctype(operand.ctype, operand.size, shape.width)));
            w.open_unrolled_loop("v", shape.width);
            w.line(format!("y.v[v] = {};", reduction.stored_value("acc[v]")?));
            w.close_block();
            w.line(format!("{} = y;", access_expression(&operand, "q", &offset, shape.width, false)));
        } else {
            let stride = ints.literal(operand.strides.last().copied().unwrap_or(0));
            w.open_unrolled_loop("v", shape.width);
            w.line(format!("q[{offset} + v * {stride}] = {};", reduction.stored_value("acc[v]")?));
            w.close_block();
        }
        w.close_block();
        Ok(())
    }
}
