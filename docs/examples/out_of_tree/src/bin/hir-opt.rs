//! The program hir-opt with the op and the passes.

fn main() -> std::process::ExitCode {
    hostir_tool_support::io::process_main(axpy_tools::hir_opt)
}
