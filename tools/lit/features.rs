//! The features that `REQUIRES:`, `UNSUPPORTED:` and `XFAIL:` may ask for.
//!
//! Looking for GPUs and libraries takes time, so each feature is looked for when a test first asks for it.

use crate::settings::FeatureRule;
use std::collections::{BTreeMap, BTreeSet};
use std::process::{Command, Stdio};
use std::sync::{Mutex, PoisonError};

/// Features that need no `lit.toml`, with what makes them hold.
pub const BUILT_IN: [(&str, &str); 6] = [
    ("cuda", "NVIDIA's driver"),
    ("gpus", "a GPU; `gpus-N`: N of them"),
    ("nccl", "NCCL, found as hir-run finds it"),
    ("nvrtc", "NVRTC, found as hir-run finds it"),
    ("python", "the program python3"),
    ("streams", "the program hir-run, whose CPU backend has any number of streams"),
];

/// The features that hold here, as far as tests asked for them.
#[derive(Default, Debug)]
pub struct FeatureSet {
    /// Features of the command line.
    given: BTreeSet<String>,
    /// Answers about built-in features.
    known: Mutex<BTreeMap<String, bool>>,
}

impl FeatureSet {
    /// The features of this machine, with some that the caller says to hold.
    pub fn with_given(given: impl IntoIterator<Item = String>) -> Self {
        Self { given: given.into_iter().collect(), known: Mutex::default() }
    }

    /// True if a feature holds for a folder with these rules.
    pub fn has(&self, name: &str, rules: &[FeatureRule]) -> bool {
        self.given.contains(name)
            || rules.iter().any(|rule| rule.name == name && self.remember(&rule_key(rule), || rule_holds(rule)))
            || self.remember(name, || is_here(name))
    }

    fn remember(&self, key: &str, find: impl FnOnce() -> bool) -> bool {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        *known.entry(key.to_owned()).or_insert_with(find)
    }
}

fn rule_key(rule: &FeatureRule) -> String {
    format!("{rule:?}")
}

fn rule_holds(rule: &FeatureRule) -> bool {
    rule.env.as_ref().is_none_or(|name| std::env::var_os(name).is_some())
        && rule.file.as_ref().is_none_or(|file| file.exists())
        && rule.command.as_ref().is_none_or(|command| succeeds("sh", &["-c", command]))
}

fn succeeds(program: &str, args: &[&str]) -> bool {
    let mut command = Command::new(program);
    command.args(args).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

/// True if this machine has a built-in feature.
fn is_here(name: &str) -> bool {
    match name {
        "python" => succeeds("python3", &["--version"]),
        "streams" => {
            let built_in = crate::context::built_in_tools().iter().any(|tool| tool.name == "hir-run");
            built_in || succeeds("hir-run", &["--version"])
        }
        "cuda" => std::path::Path::new("/proc/driver/nvidia/version").exists() || nvidia::has_driver(),
        "gpus" => nvidia::device_count() > 0,
        "nccl" => nvidia::has_nccl(),
        "nvrtc" => nvidia::has_nvrtc(),
        _ => {
            let number = name.strip_prefix("gpus-").and_then(|number| number.parse::<usize>().ok());
            number.is_some_and(|number| nvidia::device_count() >= number)
        }
    }
}

/// A condition with what makes it hold, for people.
pub fn describe(condition: &str, rules: &[FeatureRule]) -> String {
    let rule = rules.iter().find(|rule| rule.name == condition).and_then(|rule| rule.about.clone());
    let built_in = BUILT_IN.iter().find(|(name, _)| *name == condition).map(|(_, about)| (*about).to_owned());
    rule.or(built_in).unwrap_or_else(|| format!("`{condition}`"))
}

/// The questions to NVIDIA's libraries, if they were built in.
#[cfg(feature = "cuda")]
mod nvidia {
    pub(super) fn has_driver() -> bool {
        hostir_cuda::has_driver()
    }
    pub(super) fn device_count() -> usize {
        hostir_cuda::device_count().unwrap_or(0)
    }
    pub(super) fn has_nccl() -> bool {
        hostir_cuda::has_nccl()
    }
    pub(super) fn has_nvrtc() -> bool {
        hostir_cuda::nvrtc::is_present()
    }
}

/// Without those libraries there is nothing to find.
#[cfg(not(feature = "cuda"))]
mod nvidia {
    pub(super) fn has_driver() -> bool {
        false
    }
    pub(super) fn device_count() -> usize {
        0
    }
    pub(super) fn has_nccl() -> bool {
        false
    }
    pub(super) fn has_nvrtc() -> bool {
        false
    }
}
