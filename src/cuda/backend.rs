//! The entry point: loads a program with the options of a backend.

use crate::runtime::io_binding::bound_program::{self, BoundProgram};
use crate::runtime::loaded_program::{self, LoadedProgram};
use crate::runtime::options::Options;
use hostir::diag::Diag;
use hostir::lower::PreparedProgram;

/// The CUDA backend.
#[derive(Clone, Default)]
pub struct CudaRuntime {
    /// Options for running programs.
    pub options: Options,
}

impl std::fmt::Debug for CudaRuntime {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Cuda").finish_non_exhaustive()
    }
}

impl CudaRuntime {
    /// Prepares a program to run: does everything that happens once.
    ///
    /// # Errors
    /// If there is no usable device or library, the devices cannot run an instruction, memory is short, a kernel does
    /// not compile, another process fails, or the program prints.
    pub fn load<'p>(&self, prepared: &'p PreparedProgram) -> Result<LoadedProgram<'p>, Vec<Diag>> {
        refuse_prints(prepared)?;
        loaded_program::load_program(prepared, &self.options, false)
    }

    /// Prepares a program to run on tensors that a caller binds ([`BoundProgram`]).
    ///
    /// # Errors
    /// As [`Self::load`].
    pub fn load_unbound<'p>(&self, prepared: &'p PreparedProgram) -> Result<BoundProgram<'p>, Vec<Diag>> {
        refuse_prints(prepared)?;
        bound_program::load_bound_program(prepared, &self.options)
    }
}

/// Devices show no values while they run.
fn refuse_prints(prepared: &PreparedProgram) -> Result<(), Vec<Diag>> {
    prepared.print_error().map_or(Ok(()), |error| Err(vec![error]))
}
