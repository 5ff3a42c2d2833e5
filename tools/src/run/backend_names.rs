//! Answers to what backends are called elsewhere.

use clap::error::{ContextKind, ContextValue};

/// Names of backends elsewhere, and the backend that is meant.
const OTHER_BACKENDS: &[(&str, &str, &str)] = &[
    ("gpu", "cuda", "runs on NVIDIA GPUs"),
    ("gpus", "cuda", "runs on NVIDIA GPUs"),
    ("nvidia", "cuda", "runs on NVIDIA GPUs"),
    ("nccl", "cuda", "runs on NVIDIA GPUs, with NCCL where the program says so"),
    ("host", "cpu", "runs all ranks on the CPU"),
    ("interpreter", "cpu", "runs all ranks on the CPU"),
    ("none", "null", "simulates a run without computing anything"),
    ("dry", "null", "simulates a run without computing anything"),
];

/// The answer to `--backend=gpu` and the like.
pub(super) fn other_backend(error: &clap::Error) -> Option<String> {
    if !context_text(error, ContextKind::InvalidArg)?.starts_with("--backend ") {
        return None;
    }
    let given = context_text(error, ContextKind::InvalidValue)?;
    let found = OTHER_BACKENDS.iter().find(|(other, ..)| other.eq_ignore_ascii_case(given));
    found.map(|(_, ours, what)| format!("unknown backend `{given}`; `--backend={ours}` {what}"))
}

fn context_text(error: &clap::Error, kind: ContextKind) -> Option<&str> {
    match error.get(kind) {
        Some(ContextValue::String(text)) => Some(text.as_str()),
        _ => None,
    }
}
