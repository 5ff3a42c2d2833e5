//! The settings that all commands of a test share.

use crate::interrupts::ProcessGroups;
use hostir_tool_support::SharedState;
use hostir_tool_support::io::ToolFn;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

/// A program that runs as a function of this process.
#[derive(Clone, Copy, Debug)]
pub struct InProcessTool {
    /// The name that RUN lines call it by.
    pub name: &'static str,
    /// The function.
    pub main: ToolFn,
}

/// The tools that this crate was built with.
pub fn built_in_tools() -> Vec<InProcessTool> {
    #[cfg(feature = "tools")]
    let tools = vec![
        InProcessTool { name: "hir-opt", main: hostir_opt::main_with },
        InProcessTool { name: "hir-run", main: hostir_run::run::main_with },
    ];
    #[cfg(not(feature = "tools"))]
    let tools = Vec::new();
    tools
}

/// The variables of the environment of a command.
pub type Environment = Arc<BTreeMap<String, String>>;

/// A call of FileCheck that was not carried out.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct UncheckedCall {
    /// Its arguments.
    pub args: Vec<String>,
    /// The text that it was to compare.
    pub input: String,
}

/// True if calls of FileCheck compare.
#[derive(Clone, Default, Debug)]
pub enum Checks {
    /// They do.
    #[default]
    Compare,
    /// They are left out: messages name the backend, which is another one than the test expects.
    Skip,
    /// They are collected for `--update`, and succeed.
    Collect(Arc<Mutex<Vec<UncheckedCall>>>),
}

impl Checks {
    /// Takes a call that is not carried out.
    pub(crate) fn take_call(&self, args: &[String], input: String) {
        if let Checks::Collect(calls) = self {
            let call = UncheckedCall { args: args.to_vec(), input };
            calls.lock().unwrap_or_else(PoisonError::into_inner).push(call);
        }
    }
}

/// The settings that all commands of a test share.
#[derive(Clone, Default, Debug)]
pub struct Context {
    /// Folder for temporary files, where commands start.
    pub scratch: PathBuf,
    /// `diff` replaces expectations below this folder that differ (`--bless`).
    pub bless: Option<PathBuf>,
    /// True if tools and FileCheck run as processes (`--spawn`).
    pub spawn: bool,
    /// Tools that run in this process otherwise.
    pub tools: Vec<InProcessTool>,
    /// Options that programs get where their command lines do not give them.
    pub default_options: BTreeMap<String, Vec<String>>,
    /// The flags that `hir-run` gets beside its command line, to run on GPUs.
    pub flags: Vec<String>,
    /// True if calls of FileCheck compare.
    pub checks: Checks,
    /// The environment of commands.
    pub environment: Environment,
    /// The folders of programs.
    pub search: Vec<PathBuf>,
    /// The end of the test's time.
    pub deadline: Option<Instant>,
    /// The processes that go on.
    pub groups: ProcessGroups,
    /// The state that programs on GPUs leave for later ones.
    pub gpus: SharedState,
}

impl Context {
    /// The settings of a test that has none of its own, in a folder for its temporary files.
    pub fn in_folder(scratch: &Path) -> Self {
        Self { scratch: scratch.to_path_buf(), tools: built_in_tools(), ..Self::default() }
    }

    /// The same with `hir-run` on GPUs: with these flags, the environment of this process, and without FileCheck.
    #[must_use]
    pub fn on_devices(mut self, flags: Vec<String>, gpus: &SharedState) -> Self {
        self.environment = Arc::new(std::env::vars().collect());
        Self { default_options: BTreeMap::new(), flags, checks: Checks::Skip, gpus: gpus.clone(), ..self }
    }
}
