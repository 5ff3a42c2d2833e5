//! hir-opt.

fn main() -> std::process::ExitCode {
    hostir_tools::io::process_main(hostir_tools::opt::main_with)
}
