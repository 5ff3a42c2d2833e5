//! hir-run: see [`hostir_run::run`].

/// Programs are many small vectors, which this allocator hands out and takes back faster than the system's.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> std::process::ExitCode {
    hostir_tool_support::process_limits::prepare_process();
    hostir_run::run::request_hardware_queues();
    hostir_tool_support::io::process_main_with(
        hostir_run::run::main_with,
        hostir_run::library_calls::finish_library_calls,
    )
}
