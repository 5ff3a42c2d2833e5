//! A rank's kernels: functions of loaded modules, and GEMMs.
#![allow(unsafe_code, reason = "only the rank knows that its addresses are right")]

use crate::runtime::kernel_images::KernelImages;
use crate::runtime::options::Options;
use crate::runtime::rank::rank_gemm::RankGemm;
use crate::runtime::resource_cache::CachedBlas;
use crate::sys::Error;
use crate::sys::blas::{GemmOperands, TunableGemm};
use crate::sys::driver::{CudaDevice, CudaStream};
use crate::sys::module::KernelFunction;
use hostir_gpu::codegen::job;
use hostir_gpu::rank_memory::WORKSPACE;
use hostir_gpu::schedule::RankSchedule;
use std::sync::Arc;

/// The number of algorithms that are requested from the library.
pub(crate) const CANDIDATES: usize = 8;

/// The kernels and GEMMs of a schedule.
pub(crate) struct LoadedKernels {
    // Dropped in this order.
    pub(crate) gemms: Vec<RankGemm>,
    pub(crate) functions: Vec<KernelFunction>,
    blas: Option<CachedBlas>,
}

impl LoadedKernels {
    /// Loads the modules of a schedule, and requests algorithms for its GEMMs.
    pub(crate) fn load(
        device: &Arc<CudaDevice>,
        schedule: &RankSchedule,
        images: &KernelImages,
        options: &Options,
    ) -> Result<Self, Error> {
        let cache = &options.cache;
        let blas = if schedule.shapes.is_empty() { None } else { Some(cache.take_blas(device)?) };
        let mut kernels = Self { gemms: Vec::new(), functions: Vec::new(), blas };
        for text in &schedule.texts {
            let image =
                images.get(text).ok_or_else(|| Error::Internal { what: "a kernel was not compiled".to_owned() })?;
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

    /// Issues a GEMM.
    ///
    /// # Safety
    /// The operands are addresses of the GEMM's shape, and the workspace has [`WORKSPACE`] bytes.
    pub(crate) unsafe fn run_gemm(
        &self,
        gemm: usize,
        operands: &GemmOperands,
        stream: &CudaStream,
    ) -> Result<(), Error> {
        match &self.blas {
            // SAFETY: as the caller promises.
            Some(blas) => unsafe { self.gemms[gemm].issue(blas, operands, stream) },
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
