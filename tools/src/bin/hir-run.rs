//! hir-run: see [`hostir_tools::run`].

/// Programs are many small vectors, which this allocator hands out and takes back faster than the system's.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> std::process::ExitCode {
    queues();
    hostir_tools::io::process_main(hostir_tools::run::main_with)
}

/// Asks the CUDA driver for as many hardware queues as there are. Streams that share one wait for each
/// other, and a stream that waits for a flag would keep the stream that raises it from going on.
#[allow(unsafe_code, reason = "the driver reads this from the environment when it starts")]
fn queues() {
    const QUEUES: &str = "CUDA_DEVICE_MAX_CONNECTIONS";
    if std::env::var_os(QUEUES).is_none() {
        // SAFETY: the process has one thread yet.
        unsafe { std::env::set_var(QUEUES, "32") };
    }
}
