//! CUDA C++ for the instructions of a plan that no library does: pointwise kernels, copies, fills,
//! reductions, reads and sums by index, and matrix products that cuBLASLt does not take.
//!
//! Extents, strides and constants stand in the text, offsets do not: kernels that differ only in
//! where their views start share one text (how far a start is aligned does show). A text is compiled
//! once ([`super::nvrtc`]). No headers are needed.
//!
//! What is computed equals the CPU backend up to rounding. Each function returns the job, or a reason
//! that completes "cannot generate ...": a type or function that kernels lack, or `overlap`. A job for an
//! empty result has no launches.
//!
//! What the caller keeps: buffers start at multiples of 256 bytes, as does the scratch memory; two
//! buffers share no memory; the launches of a job run in order on one stream, and no other job uses its
//! scratch memory meanwhile.

mod alias;
mod copy;
mod exchange;
mod functions;
mod fuse;
mod gemm;
mod map;
mod note;
mod pointwise;
mod reduce;
mod space;
mod take;
mod text;
mod tile;
mod types;

pub(crate) use alias::disjoint;
pub use copy::{copy, fill};
pub use exchange::{THREADS as EXCHANGE_THREADS, WORDS as EXCHANGE_WORDS, exchange};
pub use fuse::{Fused, fuse};
pub use gemm::gemm;
pub use pointwise::{members, pointwise};
pub use reduce::{reduce, reduce_of};
pub use take::{accumulate, take};

use crate::plan::View;
use note::Note;

/// The name of every kernel.
pub const ENTRY: &str = "hir";

/// The start of every entry.
const HEAD: &str = "extern \"C\" __global__ void ";

/// Number of parameters of a generated kernel, each of 64 bits: its text says so.
pub(crate) fn parameters(text: &str) -> usize {
    let entry = text.rsplit_once(HEAD).map_or("", |(_, entry)| entry);
    let name = format!(" {ENTRY}(");
    let list = entry.split_once(&name).and_then(|(_, list)| list.split_once(')'));
    list.map_or(0, |(list, _)| if list.is_empty() { 0 } else { list.split(',').count() })
}

/// What a kernel's parameter points to. All parameters are pointers.
#[derive(Clone, PartialEq, Debug)]
pub enum Param {
    /// The first element of a view.
    View(View),
    /// A place in the job's scratch memory, in bytes from its start (a multiple of 256).
    Scratch(usize),
}

/// One kernel launch: `extern "C" __global__ void hir(...)` over [`Launch::params`] in order.
#[derive(Clone, PartialEq, Debug)]
pub struct Launch {
    /// CUDA C++.
    pub text: String,
    /// What the parameters point to.
    pub params: Vec<Param>,
    /// Blocks along x, y and z.
    pub grid: [u32; 3],
    /// Threads a block along x, y and z.
    pub block: [u32; 3],
}

/// The launches of one instruction, in order on one stream.
#[derive(Clone, PartialEq, Default, Debug)]
pub struct Job {
    /// The launches.
    pub launches: Vec<Launch>,
    /// Bytes of scratch memory they need while they run.
    pub scratch: usize,
    /// What they compute, for stand-ins of devices ([`note`]).
    pub note: String,
}

impl Job {
    /// The job with a note of a form, whose parts `write` appends.
    fn noted(mut self, form: &str, write: impl FnOnce(Note<'_>) -> Note<'_>) -> Self {
        self.note = write(Note::new(&self, form)).finish();
        self
    }
}

#[cfg(test)]
mod tests {
    use super::parameters;

    #[test]
    fn parameters_are_counted_in_the_entry_alone() {
        let entry = |list: &str| {
            let own = "static __device__ float hir(int a, int b) { return 0; }\n";
            format!(
                "{own}extern \"C\" __global__ void __launch_bounds__(256) hir({list}) {{\n  f(1, 2);\n}}\n"
            )
        };
        assert_eq!(parameters(&entry("float* q")), 1);
        assert_eq!(parameters(&entry("const float* p0, const unsigned short* p1, float* q")), 3);
        assert_eq!(parameters(&entry("")), 0);
        assert_eq!(parameters("no kernel"), 0);
    }
}
