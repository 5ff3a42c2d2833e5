//! The RUN lines that run again on devices.

/// Words of RUN lines that are not run again on devices: they expect a failure, run nothing, or choose a backend.
const NOT_ON_DEVICES: [&str; 10] = [
    "not ",
    "! ",
    "--print-plan",
    "--print-calls",
    "--check-only",
    "%dumps",
    "--help",
    "--backend",
    "--version",
    "--permute-schedule",
];

/// True if a line can run on devices, with recorded runs if `graph`. A replayed graph can be neither traced nor checked.
pub fn is_for_devices(command: &str, graph: bool) -> bool {
    let traced = ["--trace", "--timeline", "--check-launches"].iter().any(|flag| command.contains(flag));
    !(graph && traced || NOT_ON_DEVICES.iter().any(|word| command.contains(word)))
}

/// Whether a line runs a program.
pub fn runs_program(command: &str) -> bool {
    command.contains("hir-run")
}
