//! Compiled kernels on a device: modules, and their functions, which keep them loaded.

use crate::sys::Error;
use crate::sys::driver::CudaDevice;
use crate::sys::library::LACKING;
use crate::sys::tables;
use crate::sys::tensor_map::TensorMap;
use cudarc::driver::sys::{CUfunction, CUfunction_attribute, CUmodule};
use hostir_gpu::codegen::wgmma_gemm::MATRICES;
use hostir_gpu::cubin;
use std::ffi::{CString, c_int};
use std::sync::Arc;

/// Bytes of a word.
const WORD: usize = 8;

/// Bytes of dynamic shared memory that a kernel may have without a permission for more.
const USUAL_SHARED: u32 = 48 << 10;

/// The shape of a launch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct LaunchShape {
    /// Blocks along x, y and z.
    pub(crate) grid: [u32; 3],
    /// Threads of a block along x, y and z.
    pub(crate) block: [u32; 3],
    /// Bytes of dynamic shared memory.
    pub(crate) shared: u32,
}

/// A loaded module.
#[derive(Debug)]
pub(crate) struct KernelModule {
    device: Arc<CudaDevice>,
    handle: CUmodule,
}

// SAFETY: modules may be used from any thread.
unsafe impl Send for KernelModule {}
// SAFETY: and from several at once.
unsafe impl Sync for KernelModule {}

/// A kernel of a module, which it keeps loaded.
#[derive(Clone, Debug)]
pub(crate) struct KernelFunction {
    #[allow(dead_code, reason = "held for its Drop only")]
    module: Arc<KernelModule>,
    handle: CUfunction,
    /// Bytes of its parameters.
    parameters: Vec<usize>,
}

// SAFETY: functions may be used from any thread.
unsafe impl Send for KernelFunction {}

impl KernelModule {
    /// Loads a cubin to the current device. Fails if the image is truncated: the driver does not get its length.
    ///
    /// # Safety
    /// The image is a cubin that NVRTC made, not code of unknown origin.
    pub(crate) unsafe fn load(device: &Arc<CudaDevice>, image: &[u8]) -> Result<Arc<Self>, Error> {
        if !cubin::is_whole(image) {
            let status = "the compiled kernel is damaged or truncated".to_owned();
            return Err(Error::Call { call: "cuModuleLoadData", status });
        }
        // SAFETY: the image is a whole cubin, as its headers say how long it is.
        unsafe { Self::load_image(device, image) }
    }

    /// Loads code of a user to the current device.
    ///
    /// # Safety
    /// The image is a whole cubin or fatbin, or PTX that ends in zero. Its kernels run.
    pub(crate) unsafe fn load_user(device: &Arc<CudaDevice>, image: &[u8]) -> Result<Arc<Self>, Error> {
        // SAFETY: as the caller promises.
        unsafe { Self::load_image(device, image) }
    }

    /// Loads an image.
    ///
    /// # Safety
    /// Its headers, or a zero, say where it ends, and it ends there.
    unsafe fn load_image(device: &Arc<CudaDevice>, image: &[u8]) -> Result<Arc<Self>, Error> {
        // The driver reads words of 8 bytes, which a slice of bytes need not be aligned for.
        let mut aligned = vec![0u64; image.len().div_ceil(8)];
        bytemuck::cast_slice_mut::<u64, u8>(&mut aligned)[..image.len()].copy_from_slice(image);
        let mut handle = std::ptr::null_mut();
        // SAFETY: the image is whole, as the caller promises; the driver copies it.
        unsafe { tables::driver().cuModuleLoadData(&raw mut handle, aligned.as_ptr().cast()) }.into_result()?;
        Ok(Arc::new(Self { device: device.clone(), handle }))
    }

    /// Returns the user's kernel `name`, whose parameters have these sizes, for launches with up to so many bytes of
    /// dynamic shared memory.
    pub(crate) fn get_user_function(
        self: &Arc<Self>,
        name: &str,
        parameters: Vec<usize>,
        shared_bytes: u32,
    ) -> Result<KernelFunction, Error> {
        let function = KernelFunction { module: self.clone(), handle: self.find_handle(name)?, parameters };
        if shared_bytes > USUAL_SHARED {
            function.permit_shared_memory(shared_bytes)?;
        }
        Ok(function)
    }

    /// Returns its kernel `name` with so many parameters of 64 bits, loaded at once rather than at its first launch.
    /// Fails if the driver reports other parameters; drivers before CUDA 12.4 cannot tell.
    pub(crate) fn get_function(self: &Arc<Self>, name: &str, parameters: usize) -> Result<KernelFunction, Error> {
        self.find_function(name, vec![WORD; parameters])
    }

    /// Returns its kernel `name` with tensor maps and then words as parameters, and so many bytes of dynamic shared
    /// memory.
    pub(crate) fn get_tiled_function(
        self: &Arc<Self>,
        name: &str,
        maps: [usize; MATRICES],
        words: usize,
        shared_bytes: u32,
    ) -> Result<KernelFunction, Error> {
        let maps = maps.map(|count| count * TensorMap::BYTES);
        let function = self.find_function(name, [&maps[..], &vec![WORD; words]].concat())?;
        function.permit_shared_memory(shared_bytes)?;
        Ok(function)
    }

    fn find_handle(&self, name: &str) -> Result<CUfunction, Error> {
        let name = CString::new(name).unwrap_or_default();
        let mut handle = std::ptr::null_mut();
        // SAFETY: the module is loaded; the name ends in zero; the pointer is to a handle of this frame.
        unsafe { tables::driver().cuModuleGetFunction(&raw mut handle, self.handle, name.as_ptr()) }.into_result()?;
        Ok(handle)
    }

    fn find_function(self: &Arc<Self>, name: &str, parameters: Vec<usize>) -> Result<KernelFunction, Error> {
        let function = KernelFunction { module: self.clone(), handle: self.find_handle(name)?, parameters };
        match function.is_as_expected() {
            true => Ok(function),
            false => {
                let status = format!("the compiled kernel does not take {} parameters", function.parameters.len());
                Err(Error::Call { call: "cuFuncGetParamInfo", status })
            }
        }
    }
}

impl Drop for KernelModule {
    fn drop(&mut self) {
        if self.device.make_current().is_ok() {
            // SAFETY: loaded in `load`, unloaded once, after all functions: they hold it. Launches of them have
            // ended: that is part of what whoever launched them promised.
            let _ = unsafe { tables::driver().cuModuleUnload(self.handle) };
        }
    }
}

impl KernelFunction {
    /// The driver's handle.
    pub(super) fn raw_handle(&self) -> CUfunction {
        self.handle
    }

    /// Permits launches with so many bytes of dynamic shared memory.
    fn permit_shared_memory(&self, bytes: u32) -> Result<(), Error> {
        let attribute = CUfunction_attribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES as c_int;
        // SAFETY: the function is of a loaded module.
        unsafe { tables::driver().cuFuncSetAttribute(self.handle, attribute, bytes as c_int) }.into_result()
    }

    /// Refuses other numbers of tensor maps, of which a parameter may have several, and of words than its parameters
    /// hold.
    pub(super) fn check_arguments(&self, maps: usize, words: usize) -> Result<(), Error> {
        let of_maps = self.parameters.iter().filter(|bytes| bytes.is_multiple_of(TensorMap::BYTES));
        check_argument_count(of_maps.clone().sum::<usize>() / TensorMap::BYTES, maps)?;
        check_argument_count(self.parameters.len() - of_maps.count(), words)
    }

    /// Returns true if the driver knows it to have exactly these parameters, or cannot tell.
    fn is_as_expected(&self) -> bool {
        let bytes = |index: usize| {
            let (mut offset, mut bytes) = (0usize, 0usize);
            // SAFETY: the function is of a loaded module; both pointers are to integers of this frame.
            let status =
                unsafe { tables::driver().cuFuncGetParamInfo(self.handle, index, &raw mut offset, &raw mut bytes) };
            (status.code, (offset, bytes))
        };
        if bytes(0).0 == LACKING {
            return true;
        }
        // Parameters follow each other; the alignment of the first one determines its start.
        let ((_, (first, _)), sizes) = (bytes(0), &self.parameters);
        let known = |index: usize| bytes(index) == (0, (first + sizes[..index].iter().sum::<usize>(), sizes[index]));
        (0..self.parameters.len()).all(known) && bytes(self.parameters.len()).0 != 0
    }
}

fn check_argument_count(parameters: usize, words: usize) -> Result<(), Error> {
    if parameters == words {
        return Ok(());
    }
    let status = format!("{words} arguments were given for a kernel with {parameters} parameters");
    Err(Error::Call { call: "cuLaunchKernelEx", status })
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_launch_has_as_many_words_as_the_kernel_has_parameters() {
        assert_eq!(crate::sys::module::check_argument_count(3, 3), Ok(()));
        for words in [0, 2, 4] {
            let error = crate::sys::module::check_argument_count(3, words).unwrap_err().to_string();
            assert_eq!(
                error,
                format!("cuLaunchKernelEx failed: {words} arguments were given for a kernel with 3 parameters")
            );
        }
    }
}
