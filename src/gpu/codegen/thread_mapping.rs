//! Elementwise kernels: each element of a result depends on the elements at the same index of the operands.
//!
//! A block takes chunks of the flat index space. Each thread loads all its elements of a chunk before it computes, so
//! several loads are in flight and a result may replace an operand.

use crate::codegen::index_space::{
    IndexInt, IndexSpace, KernelOperand, access_expression, vector_ctype, vector_element, vector_width,
};
use crate::codegen::job::KernelLaunch;
use crate::codegen::source_writer::{SourceWriter, kernel_source};
use crate::codegen::tile;
use crate::unsupported::Unsupported;

/// Threads a block.
pub(super) const THREADS: usize = 256;
/// The maximum number of blocks of a launch; beyond it, blocks take several chunks.
pub(super) const BLOCKS: usize = 1 << 20;

/// Writes the computation of one element of the result from the operands' elements, and returns the element in its
/// memory type.
pub(super) type ElementBody<'a> = dyn Fn(&mut SourceWriter, &[String]) -> Result<String, Unsupported> + 'a;

/// An elementwise kernel; the result is the last operand.
pub(super) struct ElementwiseKernel<'a> {
    space: IndexSpace,
    body: &'a ElementBody<'a>,
}

impl<'a> ElementwiseKernel<'a> {
    /// A kernel over a space. Sorts the axes in the order of the result's strides.
    pub(super) fn new(mut space: IndexSpace, body: &'a ElementBody<'a>) -> Result<Self, Unsupported> {
        let result = space.operands.len() - 1;
        space.order_by(result);
        space.collapse_axes();
        let twice = space.operands[result].strides.contains(&0);
        if twice {
            return Err(Unsupported::Malformed("a result whose elements share memory"));
        }
        Ok(Self { space, body })
    }
    /// The launch.
    pub(super) fn build_launch(&self) -> Result<KernelLaunch, Unsupported> {
        match tile::TilePlan::new(&self.space) {
            Some(plan) => plan.build_launch(&self.space, self.body),
            None => self.untiled_launch(),
        }
    }

    fn untiled_launch(&self) -> Result<KernelLaunch, Unsupported> {
        let (space, result) = (&self.space, self.space.operands.len() - 1);
        let width = vector_width(space, None, space.operands.len());
        let count = space.index_count() / width;
        let ints = IndexInt::for_sizes(space.index_count(), space.max_offset());
        let unroll = self.unroll_factor(count);
        let chunk = THREADS * unroll;
        let blocks = count.div_ceil(chunk).min(BLOCKS);
        let mut w = SourceWriter::kernel_body();
        w.open_block(format!(
            "for ({} base = {} * {} + threadIdx.x; base < {}; base += gridDim.x * {})",
            ints.ctype(),
            ints.built_in("blockIdx.x"),
            ints.literal(chunk),
            ints.literal(count),
            ints.literal(chunk)
        ));
        let loads = ChunkLoads { space, ints, width, unroll, count, skip: result };
        loads.declare_values(&mut w);
        loads.write_loads(&mut w);
        self.write_results(&mut w, &loads)?;
        w.close_block();
        let text = kernel_source(&space.param_ctypes(), THREADS as u32, "", w);
        let grid = [blocks as u32, 1, 1];
        Ok(KernelLaunch { text, params: space.kernel_params(), grid, block: [THREADS as u32, 1, 1] })
    }

    /// The number of accesses of each operand that a thread keeps in flight: more for large index spaces, fewer for
    /// many operands, which take registers.
    fn unroll_factor(&self, count: usize) -> usize {
        let by_size = match count {
            0..0x4_0000 => 1,
            0x4_0000..0x8_0000 => 2,
            _ => 4,
        };
        let by_operands = match self.space.operands.len() {
            0..=4 => 4,
            5..=8 => 2,
            _ => 1,
        };
        by_size.min(by_operands)
    }

    fn write_results(&self, w: &mut SourceWriter, loads: &ChunkLoads<'_>) -> Result<(), Unsupported> {
        let (space, result) = (&self.space, self.space.operands.len() - 1);
        let operand = &space.operands[result];
        let names = loads.open_index(w);
        let access = vector_ctype(operand.ctype, operand.size, loads.width);
        w.line(format!("{access} y;"));
        w.open_unrolled_loop("v", loads.width);
        let values = loads.element_names(&names);
        let value = (self.body)(w, &values)?;
        w.line(format!("{} = {value};", vector_element("y", loads.width, "v")));
        w.close_block();
        let offset = loads.ints.linear_offset(&names, &operand.strides, loads.width);
        w.line(format!("{} = y;", access_expression(operand, "q", &offset, loads.width, false)));
        w.close_all_blocks(2);
        Ok(())
    }
}

/// The loads of a thread's part of a chunk.
struct ChunkLoads<'a> {
    space: &'a IndexSpace,
    ints: IndexInt,
    /// Elements an access.
    width: usize,
    /// Accesses of an operand.
    unroll: usize,
    /// Accesses of the whole space.
    count: usize,
    /// The operand that is not loaded.
    skip: usize,
}

impl ChunkLoads<'_> {
    fn loaded_operands(&self) -> impl Iterator<Item = (usize, &KernelOperand)> {
        let all = self.space.operands.iter().enumerate();
        all.filter(|(k, operand)| *k != self.skip && operand.kernel_param().is_some())
    }
    fn width_of(&self, operand: usize) -> usize {
        if self.space.is_row(operand) { self.width } else { 1 }
    }
    fn declare_values(&self, w: &mut SourceWriter) {
        for (k, operand) in self.loaded_operands() {
            let access = vector_ctype(operand.ctype, operand.size, self.width_of(k));
            w.line(format!("{access} x{k}[{}];", self.unroll));
        }
    }
    fn write_loads(&self, w: &mut SourceWriter) {
        if self.loaded_operands().next().is_none() {
            return;
        }
        let names = self.open_index(w);
        for (k, operand) in self.loaded_operands() {
            let offset = self.ints.linear_offset(&names, &operand.strides, self.width);
            let from = access_expression(operand, &self.space.pointer_name(k), &offset, self.width_of(k), true);
            w.line(format!("x{k}[u] = {from};"));
        }
        w.close_all_blocks(2);
    }
    /// Opens the loop over a thread's accesses, and the block that checks that each exists; returns the names of the
    /// indices.
    fn open_index(&self, w: &mut SourceWriter) -> Vec<String> {
        let ints = self.ints;
        w.open_unrolled_loop("u", self.unroll);
        let step = ints.literal(THREADS);
        w.line(format!("const {} i = base + u * {step};", ints.ctype()));
        let all = self.count.is_multiple_of(THREADS * self.unroll);
        w.open_block(if all { String::new() } else { format!("if (i < {})", ints.literal(self.count)) });
        let mut extents = self.space.extents.clone();
        if let Some(last) = extents.last_mut() {
            *last /= self.width;
        }
        ints.split_index(w, "i", &extents, "a")
    }
    /// Each operand's element `v` of access `u`.
    fn element_names(&self, names: &[String]) -> Vec<String> {
        let operands = (0..self.space.operands.len()).filter(|&k| k != self.skip);
        operands.map(|k| self.element_name(names, k)).collect()
    }

    fn element_name(&self, names: &[String], k: usize) -> String {
        let operand = &self.space.operands[k];
        match operand.kernel_param() {
            Some(_) => vector_element(&format!("x{k}[u]"), self.width_of(k), "v"),
            None => {
                let first = self.ints.linear_offset(names, &operand.strides, self.width);
                let rest = if self.width > 1 && self.space.is_row(k) { " + v" } else { "" };
                format!("(long long)({first}{rest})")
            }
        }
    }
}
