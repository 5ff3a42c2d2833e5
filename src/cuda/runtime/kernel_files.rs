//! The files with kernels of the user that a caller hands over.

use hostir_gpu::user_kernel::KernelFiles;
use std::sync::Arc;

/// The files of kernels that a program may launch.
#[derive(Clone, Default, Debug)]
pub struct UserKernels {
    pub(crate) files: Arc<KernelFiles>,
    /// Folders of headers, such as that of `cuda_fp16.h`.
    pub(crate) include_folders: Arc<[String]>,
}

#[allow(unsafe_code, reason = "files of kernels are code that runs")]
impl UserKernels {
    /// Files, by the names that launches have, and the folders of headers that their source may include.
    ///
    /// # Safety
    /// The kernels in them access what the launches of the program declare, and nothing else: a kernel can reach all
    /// memory of its device, and of devices that are mapped to it.
    pub unsafe fn new(files: KernelFiles, include_folders: Vec<String>) -> Self {
        Self { files: Arc::new(files), include_folders: include_folders.into() }
    }
}
