//! Elementwise kernels: every element of a result from the elements at the same index of the operands.
//!
//! A block takes chunks of the flat index space. Each thread loads all that it needs of a chunk before it
//! computes, so several loads are under way at a time and a result may lie in the place of an operand.

use crate::codegen::index_space::{Ints, Operand, Space, element, pack, place, vector};
use crate::codegen::job::Launch;
use crate::codegen::source_writer::{Writer, kernel};
use crate::codegen::tile;
use crate::unsupported::Unsupported;

/// Threads a block.
pub(super) const THREADS: usize = 256;
/// Most blocks of a launch; beyond, blocks take several chunks.
pub(super) const BLOCKS: usize = 1 << 20;

/// Writes what one element's result needs, given the operands' elements, and returns it as it lies in
/// memory.
pub(super) type Body<'a> = dyn Fn(&mut Writer, &[String]) -> Result<String, Unsupported> + 'a;

/// An elementwise kernel; the result is the last operand.
pub(super) struct Map<'a> {
    space: Space,
    body: &'a Body<'a>,
}

impl<'a> Map<'a> {
    /// A kernel over a space. The axes are put in the order of the result's strides.
    pub(super) fn new(mut space: Space, body: &'a Body<'a>) -> Result<Self, Unsupported> {
        let result = space.operands.len() - 1;
        space.order_by(result);
        space.collapse();
        let twice = space.operands[result].strides.contains(&0);
        if twice {
            return Err(Unsupported::Malformed("a result whose elements share memory"));
        }
        Ok(Self { space, body })
    }
    /// The launch.
    pub(super) fn launch(&self) -> Result<Launch, Unsupported> {
        match tile::Plan::new(&self.space) {
            Some(plan) => plan.launch(&self.space, self.body),
            None => self.plain(),
        }
    }

    fn plain(&self) -> Result<Launch, Unsupported> {
        let (space, result) = (&self.space, self.space.operands.len() - 1);
        let width = vector(space, None, space.operands.len());
        let count = space.count() / width;
        let ints = Ints::for_sizes(space.count(), space.reach());
        let unroll = self.unroll(count);
        let chunk = THREADS * unroll;
        let blocks = count.div_ceil(chunk).min(BLOCKS);
        let mut w = Writer::body();
        w.open(format!(
            "for ({} base = {} * {} + threadIdx.x; base < {}; base += gridDim.x * {})",
            ints.ctype(),
            ints.built_in("blockIdx.x"),
            ints.literal(chunk),
            ints.literal(count),
            ints.literal(chunk)
        ));
        let loads = Loads { space, ints, width, unroll, count, skip: result };
        loads.declare(&mut w);
        loads.load(&mut w);
        self.results(&mut w, &loads)?;
        w.close();
        let text = kernel(&space.ctypes(), THREADS as u32, "", w);
        let grid = [blocks as u32, 1, 1];
        Ok(Launch { text, params: space.params(), grid, block: [THREADS as u32, 1, 1] })
    }

    /// How many accesses of each operand a thread has under way: more for large spaces, as few registers
    /// as many operands leave.
    fn unroll(&self, count: usize) -> usize {
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

    fn results(&self, w: &mut Writer, loads: &Loads<'_>) -> Result<(), Unsupported> {
        let (space, result) = (&self.space, self.space.operands.len() - 1);
        let operand = &space.operands[result];
        let names = loads.open_index(w);
        let access = pack(operand.ctype, operand.size, loads.width);
        w.line(format!("{access} y;"));
        w.unrolled("v", loads.width);
        let values = loads.elements(&names);
        let value = (self.body)(w, &values)?;
        w.line(format!("{} = {value};", element("y", loads.width, "v")));
        w.close();
        let offset = loads.ints.offset(&names, &operand.strides, loads.width);
        w.line(format!("{} = y;", place(operand, "q", &offset, loads.width, false)));
        w.close_all(2);
        Ok(())
    }
}

/// The loads of a thread's part of a chunk.
struct Loads<'a> {
    space: &'a Space,
    ints: Ints,
    /// Elements an access.
    width: usize,
    /// Accesses of an operand.
    unroll: usize,
    /// Accesses of the whole space.
    count: usize,
    /// The operand that is not loaded.
    skip: usize,
}

impl Loads<'_> {
    fn loaded(&self) -> impl Iterator<Item = (usize, &Operand)> {
        let all = self.space.operands.iter().enumerate();
        all.filter(|(k, operand)| *k != self.skip && operand.param().is_some())
    }
    fn width_of(&self, operand: usize) -> usize {
        if self.space.is_row(operand) { self.width } else { 1 }
    }
    fn declare(&self, w: &mut Writer) {
        for (k, operand) in self.loaded() {
            let access = pack(operand.ctype, operand.size, self.width_of(k));
            w.line(format!("{access} x{k}[{}];", self.unroll));
        }
    }
    fn load(&self, w: &mut Writer) {
        if self.loaded().next().is_none() {
            return;
        }
        let names = self.open_index(w);
        for (k, operand) in self.loaded() {
            let offset = self.ints.offset(&names, &operand.strides, self.width);
            let from = place(operand, &self.space.pointer(k), &offset, self.width_of(k), true);
            w.line(format!("x{k}[u] = {from};"));
        }
        w.close_all(2);
    }
    /// Opens the loop over a thread's accesses, and the block of those that exist; returns the names of
    /// the indices.
    fn open_index(&self, w: &mut Writer) -> Vec<String> {
        let ints = self.ints;
        w.unrolled("u", self.unroll);
        let step = ints.literal(THREADS);
        w.line(format!("const {} i = base + u * {step};", ints.ctype()));
        let all = self.count.is_multiple_of(THREADS * self.unroll);
        w.open(if all { String::new() } else { format!("if (i < {})", ints.literal(self.count)) });
        let mut extents = self.space.extents.clone();
        if let Some(last) = extents.last_mut() {
            *last /= self.width;
        }
        ints.split(w, "i", &extents, "a")
    }
    /// Each operand's element `v` of access `u`.
    fn elements(&self, names: &[String]) -> Vec<String> {
        let one = |(k, operand): (usize, &Operand)| match operand.param() {
            Some(_) => element(&format!("x{k}[u]"), self.width_of(k), "v"),
            None => {
                let first = self.ints.offset(names, &operand.strides, self.width);
                let rest = if self.width > 1 && self.space.is_row(k) { " + v" } else { "" };
                format!("(long long)({first}{rest})")
            }
        };
        let all = self.space.operands.iter().enumerate();
        all.filter(|(k, _)| *k != self.skip).map(one).collect()
    }
}
