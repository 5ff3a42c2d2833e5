//! The program hir-run with the op.

fn main() -> std::process::ExitCode {
    hostir_tool_support::io::process_main_with(axpy_tools::hir_run, hostir_run::library_calls::finish_library_calls)
}
