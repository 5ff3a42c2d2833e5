//! The program hir-reduce.

/// Programs are many small vectors, which this allocator hands out and takes back faster than the system's.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> std::process::ExitCode {
    hostir_tool_support::process_limits::prepare_process();
    hostir_tool_support::io::process_main(hostir_reduce::main_with)
}
