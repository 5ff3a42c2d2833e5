//! Names of backends: answers to other tools' names, and backends that carry another one's communications.

use clap::error::{ContextKind, ContextValue};

/// Other tools' names of backends, and their equivalents.
const OTHER_BACKENDS: &[(&str, &str, &str)] = &[
    ("gpu", "cuda", "runs on NVIDIA GPUs"),
    ("gpus", "cuda", "runs on NVIDIA GPUs"),
    ("nvidia", "cuda", "runs on NVIDIA GPUs"),
    ("nccl", "cuda", "runs on NVIDIA GPUs, with NCCL where the program says so"),
    ("host", "cpu", "runs all ranks on the CPU"),
    ("interpreter", "cpu", "runs all ranks on the CPU"),
    ("none", "null", "follows a run without computing anything"),
    ("dry", "null", "follows a run without computing anything"),
    ("model", "sim", "computes the times of a run by the cost model"),
    ("simulate", "sim", "computes the times of a run by the cost model"),
    ("simulation", "sim", "computes the times of a run by the cost model"),
];

/// Other programs' options for the number of ranks.
const OTHER_COUNTS: &[&str] = &[
    "--ranks",
    "--num-ranks",
    "--nranks",
    "--gpus",
    "--num-gpus",
    "--ngpus",
    "--np",
    "--nproc",
    "--nproc-per-node",
    "--world-size",
];

/// A better message about an argument that two of ours begin with, or about a backend by another name.
pub(super) fn other_spelling(error: &clap::Error) -> Option<String> {
    match context_text(error, ContextKind::InvalidArg)? {
        "--check" => {
            Some("unexpected argument `--check`; `--check-only` proves a program without running it".to_owned())
        }
        found if OTHER_COUNTS.contains(&found) => Some(format!(
            "unexpected argument `{found}`; the number of ranks, one for each GPU, is `-n 4` or `--devices=4`"
        )),
        _ => other_backend(error),
    }
}

/// The answer to `--backend=gpu` and the like.
fn other_backend(error: &clap::Error) -> Option<String> {
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

/// A carrier of communications.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(super) enum Transport {
    /// NCCL.
    #[default]
    Nccl,
    /// Copies between devices.
    Copies,
}

/// The transports of communications whose backend is not CUDA.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(super) struct Transports {
    /// The transport of NCCL's communications.
    pub(super) nccl: Transport,
    /// The transport of UCC's communications, if there is one.
    pub(super) ucc: Option<Transport>,
}

impl Transports {
    /// The values of `--map-backend` that say the same.
    pub(super) fn mappings(self) -> impl Iterator<Item = &'static str> {
        let nccl = (self.nccl == Transport::Copies).then_some("NCCL=CUDA");
        let ucc = self.ucc.map(|ucc| if ucc == Transport::Copies { "UCC=CUDA" } else { "UCC=NCCL" });
        nccl.into_iter().chain(ucc)
    }
}

/// The transports that `--map-backend` sets. `UCC=NCCL` with `NCCL=CUDA` sends both over copies.
pub(super) fn map_transports(given: &[String]) -> Transports {
    let [nccl_by_copies, ucc_by_copies, ucc_by_nccl] =
        ["NCCL=CUDA", "UCC=CUDA", "UCC=NCCL"].map(|text| given.iter().any(|other| other == text));
    let nccl = if nccl_by_copies { Transport::Copies } else { Transport::Nccl };
    let ucc = match (ucc_by_copies, ucc_by_nccl) {
        (true, _) => Some(Transport::Copies),
        (false, true) => Some(nccl),
        (false, false) => None,
    };
    Transports { nccl, ucc }
}
