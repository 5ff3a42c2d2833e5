//! The options about kernels that a program launches from files.

use clap::Args;

/// These options on the command line.
#[derive(Args)]
#[command(next_help_heading = "Kernels of the program")]
pub(super) struct KernelArguments {
    #[arg(
        long,
        help = "Reads the files of kernels that the program launches, and runs them on GPUs: they can read and change \
                all GPU memory of the process"
    )]
    allow_kernels: bool,
    #[arg(long, requires = "allow_kernels", conflicts_with_all = ["graph", "bench", "trace", "timeline", "check_only"],
        help = "On GPUs, runs each kernel that the program launches also on copies of the memory, and compares what it \
                reads, writes and computes with its declarations and its reference")]
    check_launches: bool,
}

/// Their meaning.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(super) struct KernelOptions {
    /// True if files with kernels are read, and run on GPUs.
    pub(super) are_allowed: bool,
    /// True if each launch is compared with its declarations.
    pub(super) are_checked: bool,
}

impl From<KernelArguments> for KernelOptions {
    fn from(arguments: KernelArguments) -> Self {
        Self { are_allowed: arguments.allow_kernels, are_checked: arguments.check_launches }
    }
}
