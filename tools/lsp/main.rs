//! The program hir-lsp: a language server on standard input and output.

use std::process::ExitCode;

/// Programs are many small vectors, which this allocator hands out and takes back faster than the system's.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    hostir_lsp::run_on_stdio(std::env::args().skip(1))
}
