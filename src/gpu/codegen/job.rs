//! Kernel launches that carry out one instruction.

use super::note::Note;
use crate::operand::SymbolicAddress;

/// The name of every kernel.
pub const ENTRY: &str = "hir";

/// The start of every entry.
const HEAD: &str = "extern \"C\" __global__ void ";

/// The number of parameters in the text of a generated kernel, each of 64 bits.
pub fn parameter_count(text: &str) -> usize {
    let entry = text.rsplit_once(HEAD).map_or("", |(_, entry)| entry);
    let name = format!(" {ENTRY}(");
    let list = entry.split_once(&name).and_then(|(_, list)| list.split_once(')'));
    list.map_or(0, |(list, _)| if list.is_empty() { 0 } else { list.split(',').count() })
}

/// One kernel launch: `extern "C" __global__ void hir(...)` over [`KernelLaunch::params`] in order.
#[derive(Clone, PartialEq, Debug)]
pub struct KernelLaunch {
    /// CUDA C++.
    pub text: String,
    /// The memory that the parameters point to. Scratch memory is that of the job, from its start.
    pub params: Vec<SymbolicAddress>,
    /// Blocks along x, y and z.
    pub grid: [u32; 3],
    /// Threads a block along x, y and z.
    pub block: [u32; 3],
}

/// The launches of one instruction, in order on one stream.
#[derive(Clone, PartialEq, Default, Debug)]
pub struct KernelJob {
    /// The launches.
    pub launches: Vec<KernelLaunch>,
    /// Bytes of scratch memory that the launches need while they run.
    pub scratch: usize,
    /// The description of the computation, for stand-ins of devices (`codegen::note`).
    pub note: String,
}

impl KernelJob {
    /// Adds a note of a form, whose parts `write` appends.
    pub(super) fn noted(mut self, form: &str, write: impl FnOnce(Note<'_>) -> Note<'_>) -> Self {
        self.note = write(Note::new(&self, form)).finish();
        self
    }
}

#[cfg(test)]
mod tests {
    use super::parameter_count;

    #[test]
    fn parameters_are_counted_in_the_entry_alone() {
        let entry = |list: &str| {
            let own = "static __device__ float hir(int a, int b) { return 0; }\n";
            format!("{own}extern \"C\" __global__ void __launch_bounds__(256) hir({list}) {{\n  f(1, 2);\n}}\n")
        };
        assert_eq!(parameter_count(&entry("float* q")), 1);
        assert_eq!(parameter_count(&entry("const float* p0, const unsigned short* p1, float* q")), 3);
        assert_eq!(parameter_count(&entry("")), 0);
        assert_eq!(parameter_count("no kernel"), 0);
    }
}
