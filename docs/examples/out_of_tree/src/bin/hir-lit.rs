//! The program hir-lit, which runs hir-opt and hir-run with the op and the passes.

fn main() -> std::process::ExitCode {
    let args: Vec<_> = std::env::args_os().collect();
    hostir_lit::command::main_with(&args, axpy_tools::TOOLS.to_vec()).into()
}
