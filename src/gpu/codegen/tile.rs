//! Elementwise kernels with transposed operands: the result's neighbours are along one axis, those of some operands
//! along another. A tile goes through shared memory, so that reads and writes are both contiguous.

use crate::codegen::index_space::{
    IndexInt, IndexSpace, KernelOperand, access_expression, allows_width, vector_ctype, vector_element,
};
use crate::codegen::job::KernelLaunch;
use crate::codegen::source_writer::{SourceWriter, kernel_source};
use crate::codegen::thread_mapping::{BLOCKS, ElementBody};
use crate::unsupported::Unsupported;

/// Lanes of a tile's row, and rows that a block takes at a time.
const LANES: usize = 32;
const ROWS: usize = 8;
/// Axes below this extent leave most of a tile empty.
const SHORTEST: usize = 16;
/// Bytes of shared memory that tiles may take.
const SHARED: usize = 40 << 10;

/// The division of an index space into tiles.
pub(super) struct TilePlan {
    /// The transposed operands.
    crosswise: Vec<usize>,
    /// Their axis of stride 1.
    across: usize,
    /// Elements an access.
    width: usize,
}

impl TilePlan {
    /// The plan for a space whose last operand is the result and is ordered by its strides; `None` if no operand is
    /// transposed or tiles do not pay.
    pub(super) fn new(space: &IndexSpace) -> Option<Self> {
        let (result, last) = (space.operands.len() - 1, space.extents.len().checked_sub(1)?);
        if !space.is_row(result) {
            return None;
        }
        let crosswise: Vec<usize> = (0..result)
            .filter(|&k| space.operands[k].kernel_param().is_some())
            .filter(|&k| space.operands[k].strides[last] > 1)
            .collect();
        let across = unit_stride_axis(&space.operands[*crosswise.first()?])?;
        let long = space.extents[across].min(space.extents[last]) >= SHORTEST;
        if !long || crosswise.iter().any(|&k| unit_stride_axis(&space.operands[k]) != Some(across)) {
            return None;
        }
        let mut plan = Self { crosswise, across, width: 1 };
        plan.width = plan.max_width(space);
        (plan.shared_bytes(space) <= SHARED).then_some(plan)
    }

    /// The largest width that all transposed operands and the result allow, up to 4 bytes an access.
    fn max_width(&self, space: &IndexSpace) -> usize {
        let result = space.operands.len() - 1;
        let involved = self.crosswise.iter().copied().chain([result]);
        let size = involved.map(|k| space.operands[k].size).max().unwrap_or(4);
        let mut turned = space.clone();
        let last = space.extents.len() - 1;
        let mut order: Vec<usize> = (0..=last).collect();
        order.swap(self.across, last);
        turned.arrange_axes(&order);
        let mut width = (4 / size).max(1);
        while width > 1 && !(self.allows_crosswise(&turned, width) && allows_width(space, None, result, width)) {
            width /= 2;
        }
        width
    }

    /// Returns true if a thread can read so many neighbours of each transposed operand at once.
    fn allows_crosswise(&self, turned: &IndexSpace, width: usize) -> bool {
        self.crosswise.iter().all(|&k| allows_width(turned, None, k, width))
    }
    fn tile_side(&self) -> usize {
        LANES * self.width
    }
    fn shared_bytes(&self, space: &IndexSpace) -> usize {
        let sizes: usize = self.crosswise.iter().map(|&k| space.operands[k].size).sum();
        sizes * self.tile_side() * (self.tile_side() + 1)
    }

    /// The launch.
    pub(super) fn build_launch(&self, space: &IndexSpace, body: &ElementBody<'_>) -> Result<KernelLaunch, Unsupported> {
        let last = space.extents.len() - 1;
        let tiles: Vec<usize> = (0..=last)
            .map(|axis| match axis == last || axis == self.across {
                true => space.extents[axis].div_ceil(self.tile_side()),
                false => space.extents[axis],
            })
            .collect();
        let count: usize = tiles.iter().product();
        let ints = IndexInt::for_sizes(space.index_count(), space.max_offset() + self.tile_side());
        let mut w = SourceWriter::kernel_body();
        for &k in &self.crosswise {
            let side = self.tile_side();
            w.line(format!("__shared__ {} t{k}[{side}][{}];", space.operands[k].ctype, side + 1));
        }
        w.open_block(format!(
            "for ({} tile = blockIdx.x; tile < {}; tile += gridDim.x)",
            ints.ctype(),
            ints.literal(count)
        ));
        let names = ints.split_index(&mut w, "tile", &tiles, "b");
        let cut = TileWriter { plan: self, space, ints, tiles: names };
        cut.write_loads(&mut w);
        w.line("__syncthreads();");
        cut.write_results(&mut w, body)?;
        w.line("__syncthreads();");
        w.close_block();
        let text = kernel_source(&space.param_ctypes(), (LANES * ROWS) as u32, "", w);
        let grid = [count.min(BLOCKS) as u32, 1, 1];
        Ok(KernelLaunch { text, params: space.kernel_params(), grid, block: [LANES as u32, ROWS as u32, 1] })
    }
}

fn unit_stride_axis(operand: &KernelOperand) -> Option<usize> {
    operand.strides.iter().position(|&stride| stride == 1)
}

/// The code generation of one tile of a space.
struct TileWriter<'a> {
    plan: &'a TilePlan,
    space: &'a IndexSpace,
    ints: IndexInt,
    /// Names of the tile's index along each axis.
    tiles: Vec<String>,
}

impl TileWriter<'_> {
    /// Opens the loop over a tile's rows; a row runs along axis `fast`. Returns the names of the indices.
    fn open_rows(&self, w: &mut SourceWriter, fast: usize, slow: usize) -> Vec<String> {
        let (plan, ints) = (self.plan, self.ints);
        let (ctype, side) = (ints.ctype(), ints.literal(plan.tile_side()));
        let rows = plan.tile_side();
        w.line("#pragma unroll");
        w.open_block(format!("for (int k = 0; k < {rows}; k += {ROWS})"));
        w.line("const int row = k + threadIdx.y;");
        w.line(format!("const int lane = threadIdx.x * {};", plan.width));
        w.line(format!("const {ctype} af = {} * {side} + lane;", self.tiles[fast]));
        w.line(format!("const {ctype} as = {} * {side} + row;", self.tiles[slow]));
        let [most_fast, most_slow] = [fast, slow].map(|axis| ints.literal(self.space.extents[axis]));
        w.open_block(format!("if (af < {most_fast} && as < {most_slow})"));
        let mut names = self.tiles.clone();
        names[fast] = "af".to_owned();
        names[slow] = "as".to_owned();
        names
    }

    fn write_loads(&self, w: &mut SourceWriter) {
        let width = self.plan.width;
        let names = self.open_rows(w, self.plan.across, self.space.extents.len() - 1);
        for &k in &self.plan.crosswise {
            let operand = &self.space.operands[k];
            let offset = self.ints.linear_offset(&names, &operand.strides, 1);
            let from = access_expression(operand, &self.space.pointer_name(k), &offset, width, true);
            w.line(format!("const {} x{k} = {from};", vector_ctype(operand.ctype, operand.size, width)));
            w.open_unrolled_loop("v", width);
            w.line(format!("t{k}[row][lane + v] = {};", vector_element(&format!("x{k}"), width, "v")));
            w.close_block();
        }
        w.close_all_blocks(2);
    }

    fn write_results(&self, w: &mut SourceWriter, body: &ElementBody<'_>) -> Result<(), Unsupported> {
        let (space, width) = (self.space, self.plan.width);
        let last = space.extents.len() - 1;
        let mut names = self.open_rows(w, last, self.plan.across);
        let result = &space.operands[space.operands.len() - 1];
        let offset = self.ints.linear_offset(&names, &result.strides, 1);
        w.line(format!("{} y;", vector_ctype(result.ctype, result.size, width)));
        w.open_unrolled_loop("v", width);
        w.line(format!("const {} ae = af + v;", self.ints.ctype()));
        names[last] = "ae".to_owned();
        let values: Vec<String> = (0..space.operands.len() - 1)
            .map(|k| {
                let operand = &space.operands[k];
                let offset = self.ints.linear_offset(&names, &operand.strides, 1);
                match operand.kernel_param() {
                    Some(_) if self.plan.crosswise.contains(&k) => format!("t{k}[lane + v][row]"),
                    Some(_) => format!("{}[{offset}]", space.pointer_name(k)),
                    None => format!("(long long)({offset})"),
                }
            })
            .collect();
        let value = body(w, &values)?;
        w.line(format!("{} = {value};", vector_element("y", width, "v")));
        w.close_block();
        w.line(format!("{} = y;", access_expression(result, "q", &offset, width, false)));
        w.close_all_blocks(2);
        Ok(())
    }
}
