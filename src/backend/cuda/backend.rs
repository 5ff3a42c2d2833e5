//! The entry point: options, and loading a program with them.

use crate::runtime::io_binding::bound_program::{self, Bound};
use crate::runtime::loaded_program::{self, Loaded};
use crate::runtime::options::Options;
use hostir::diag::Diag;
use hostir::lower::Prepared;

/// The CUDA backend.
#[derive(Clone, Default)]
pub struct Cuda {
    /// How programs run.
    pub options: Options,
}

impl std::fmt::Debug for Cuda {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Cuda").finish_non_exhaustive()
    }
}

impl Cuda {
    /// Gets a program ready to run: everything that happens once.
    pub fn load<'p>(&self, prepared: &'p Prepared) -> Result<Loaded<'p>, Vec<Diag>> {
        loaded_program::load(prepared, &self.options, false)
    }

    /// Gets a program ready to run on tensors that a caller binds ([`Bound`]).
    pub fn load_unbound<'p>(&self, prepared: &'p Prepared) -> Result<Bound<'p>, Vec<Diag>> {
        bound_program::load(prepared, &self.options)
    }
}
