//! A rank's kernels: functions of loaded modules, and GEMMs.
#![allow(unsafe_code, reason = "only the rank knows that its addresses are right")]

use crate::runtime::failure::{FailureCause, RankFailure};
use crate::runtime::kernel_images::ProgramImages;
use crate::runtime::options::Options;
use crate::runtime::rank::rank_gemm::RankGemm;
use crate::runtime::resource_cache::CachedBlas;
use crate::runtime::user_kernels::UserImages;
use crate::sys::Error;
use crate::sys::blas::{GemmOperands, TunableGemm};
use crate::sys::driver::{CudaDevice, CudaStream};
use crate::sys::module::{KernelFunction, KernelModule};
use hostir_gpu::codegen::job;
use hostir_gpu::rank_memory::WORKSPACE;
use hostir_gpu::schedule::RankSchedule;
use hostir_gpu::schedule::user_launches::ScheduledKernel;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The number of algorithms that are requested from the library.
pub(crate) const CANDIDATES: usize = 8;

/// The kernels and GEMMs of a schedule.
pub(crate) struct LoadedKernels {
    // Dropped in this order.
    pub(crate) gemms: Vec<RankGemm>,
    pub(crate) functions: Vec<KernelFunction>,
    /// The kernels of the user.
    pub(crate) user_functions: Vec<KernelFunction>,
    blas: Option<CachedBlas>,
}

impl LoadedKernels {
    /// Loads the modules of a schedule, and requests algorithms for its GEMMs.
    pub(crate) fn load(
        device: &Arc<CudaDevice>,
        schedule: &RankSchedule,
        images: &ProgramImages,
        options: &Options,
    ) -> Result<Self, RankFailure> {
        let cache = &options.cache;
        let blas = if schedule.shapes.is_empty() { None } else { Some(cache.take_blas(device)?) };
        let user_functions = load_user_kernels(device, schedule, &images.user)?;
        let mut kernels = Self { gemms: Vec::new(), functions: Vec::new(), user_functions, blas };
        for text in &schedule.texts {
            let image = images.generated.get(text).ok_or_else(not_compiled)?;
            let module = cache.kernel_module(device, text, image)?;
            kernels.functions.push(module.get_function(job::ENTRY, job::parameter_count(text))?);
        }
        if let Some(blas) = &kernels.blas {
            for shape in &schedule.shapes {
                let library = TunableGemm::new(blas, shape, WORKSPACE, CANDIDATES)?;
                kernels.gemms.push(RankGemm::new(library, shape, device, options)?);
            }
        }
        Ok(kernels)
    }

    /// Issues a GEMM. `parts` has the addresses of the left factor and of the result of each part; none for a single
    /// GEMM.
    ///
    /// # Safety
    /// The operands are addresses of the GEMM's shape, and the workspace has [`WORKSPACE`] bytes.
    pub(crate) unsafe fn run_gemm(
        &self,
        gemm: usize,
        operands: &GemmOperands,
        parts: &[u64],
        stream: &CudaStream,
    ) -> Result<(), Error> {
        match &self.blas {
            // SAFETY: as the caller promises.
            Some(blas) => unsafe { self.gemms[gemm].issue(blas, operands, parts, stream) },
            None => Ok(()),
        }
    }

    /// Allows later programs to reuse the library's handle.
    pub(crate) fn keep_handle(&mut self) {
        if let Some(blas) = &mut self.blas {
            blas.keep = true;
        }
    }
}

fn not_compiled() -> Error {
    Error::Internal { what: "a kernel was not compiled".to_owned() }
}

/// The kernels of the user in the order of the schedule; those of a file share a module.
fn load_user_kernels(
    device: &Arc<CudaDevice>,
    schedule: &RankSchedule,
    images: &UserImages,
) -> Result<Vec<KernelFunction>, RankFailure> {
    let mut modules: BTreeMap<&str, Arc<KernelModule>> = BTreeMap::new();
    let mut functions = Vec::new();
    for scheduled in &schedule.user_kernels {
        let file = &*scheduled.kernel.file;
        let (image, name) = images.find_code(&scheduled.kernel).ok_or_else(not_compiled)?;
        let module = match modules.get(file) {
            Some(module) => module.clone(),
            None => {
                // SAFETY: the promise of `UserKernels::new`; the image is whole, or ends in zero if it is a text.
                let module = unsafe { KernelModule::load_user(device, image) };
                let module = module.map_err(|error| user_kernel_failure(scheduled, error))?;
                modules.insert(file, module.clone());
                module
            }
        };
        let function = module.get_user_function(name, scheduled.parameters.clone(), scheduled.shared);
        functions.push(function.map_err(|error| user_kernel_failure(scheduled, error))?);
    }
    Ok(functions)
}

/// The failure of a kernel that the driver does not load, at its first launch.
fn user_kernel_failure(scheduled: &ScheduledKernel, error: Error) -> RankFailure {
    let file = scheduled.kernel.file.to_string();
    RankFailure::from_cause(FailureCause::UserKernel(file, error)).at_inst(scheduled.inst)
}
