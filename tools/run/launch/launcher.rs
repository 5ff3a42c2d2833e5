//! Launchers, and the environment that they set.

/// A variable of the environment by its name; bytes that are not text are converted as in `os_text`; absent if it is
/// empty, unless it holds a token.
pub(crate) type EnvLookup<'a> = &'a dyn Fn(&str) -> Option<String>;

/// The origin of rank and world.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Launcher {
    /// `hir-run --processes`.
    Processes,
    /// `--rank` or `HIR_RANK`.
    Explicit,
    /// torchrun, or its variables set by hand.
    Torchrun,
    /// Open MPI's mpirun, 4 and 5.
    Mpirun,
    /// srun of Slurm.
    Srun,
    /// Another launcher that speaks PMIx.
    Pmix,
}

impl Launcher {
    /// As messages call it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Launcher::Processes => "--processes",
            Launcher::Explicit => "--rank",
            Launcher::Torchrun => "torchrun",
            Launcher::Mpirun => "mpirun",
            Launcher::Srun => "srun",
            Launcher::Pmix => "PMIx",
        }
    }
}
