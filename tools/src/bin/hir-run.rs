//! hir-run: see [`hostir_tools::run`].

fn main() -> std::process::ExitCode {
    hostir_tools::io::process_main(hostir_tools::run::main_with)
}
