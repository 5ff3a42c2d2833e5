//! The program hir-lsp with the op.

fn main() -> std::process::ExitCode {
    hostir_lsp::run_with_ops(std::env::args().skip(1), axpy_tools::REGISTRIES.ops)
}
