//! A GEMM of a rank with all algorithms for it: cuBLASLt's, then our own kernels.
#![allow(unsafe_code, reason = "only the rank knows that its addresses are right")]

use crate::runtime::kernel_images::load_or_compile;
use crate::runtime::options::Options;
use crate::sys::Error;
use crate::sys::blas::{BlasHandle, GemmOperands, TunableGemm};
use crate::sys::driver::{CudaDevice, CudaStream};
use crate::sys::module::KernelFunction;
use crate::sys::nvrtc;
use crate::sys::tensor_map::TensorMap;
use hostir_gpu::codegen::job::ENTRY;
use hostir_gpu::codegen::wgmma_gemm::{ARCHITECTURE, SIZE_WORDS, THREADS, WgmmaGemm};
use hostir_gpu::gemm_shape::GemmShape;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

/// A GEMM, and the algorithm in use.
pub(crate) struct RankGemm {
    library: TunableGemm,
    kernels: Vec<LoadedGemmKernel>,
    chosen: usize,
}

/// A kernel of our own, which is compiled and loaded at its first use.
struct LoadedGemmKernel {
    gemm: WgmmaGemm,
    loaded: Option<LoadedGemm>,
}

struct LoadedGemm {
    function: KernelFunction,
    blocks: u32,
    maps: Mutex<EncodedMaps<TensorMap>>,
}

impl RankGemm {
    /// The library's algorithms, and the kernels that options, device and NVRTC allow.
    pub(crate) fn new(
        library: TunableGemm,
        shape: &GemmShape,
        device: &CudaDevice,
        options: &Options,
    ) -> Result<Self, Error> {
        let mut kernels = Vec::new();
        if options.gemm_kernels && device.architecture()? == ARCHITECTURE && nvrtc::is_present() {
            let candidates = WgmmaGemm::candidates(shape).into_iter();
            kernels.extend(candidates.map(|gemm| LoadedGemmKernel { gemm, loaded: None }));
        }
        Ok(Self { library, kernels, chosen: 0 })
    }

    /// Number of algorithms to choose from.
    pub(crate) fn algorithm_count(&self) -> usize {
        self.library.algorithm_count() + self.kernels.len()
    }

    /// The number of algorithms that the library proposes, which come first.
    pub(crate) fn proposal_count(&self) -> usize {
        self.library.proposal_count()
    }

    /// Selects an algorithm, the last one if there are fewer; compiles and loads it if it is a kernel of our own.
    pub(crate) fn choose(&mut self, choice: usize, device: &Arc<CudaDevice>, options: &Options) -> Result<(), Error> {
        let choice = choice.min(self.algorithm_count() - 1);
        match choice.checked_sub(self.library.algorithm_count()) {
            None => self.library.chosen = choice,
            Some(kernel) => self.kernels[kernel].load(device, options)?,
        }
        self.chosen = choice;
        Ok(())
    }

    /// Launches the GEMM on a stream, or the GEMMs of these parts: in one launch, or one after the other by the library.
    ///
    /// # Safety
    /// As of [`TunableGemm::issue_gemm`].
    pub(crate) unsafe fn issue(
        &self,
        blas: &BlasHandle,
        operands: &GemmOperands,
        parts: &[u64],
        stream: &CudaStream,
    ) -> Result<(), Error> {
        let own = [operands.b, operands.d];
        let parts = if parts.is_empty() { &own[..] } else { parts };
        let kernel = self.chosen.checked_sub(self.library.algorithm_count());
        match kernel.and_then(|kernel| self.kernels.get(kernel)) {
            None => parts.chunks_exact(2).try_for_each(|part| {
                let operands = GemmOperands { b: part[0], d: part[1], ..*operands };
                // SAFETY: as the caller promises.
                unsafe { self.library.issue_gemm(blas, &operands, stream) }
            }),
            // SAFETY: as the caller promises, for the same matrices.
            Some(kernel) => unsafe { kernel.launch(operands.a, parts, stream) },
        }
    }
}

impl LoadedGemmKernel {
    fn load(&mut self, device: &Arc<CudaDevice>, options: &Options) -> Result<(), Error> {
        if self.loaded.is_some() {
            return Ok(());
        }
        let text = self.gemm.source();
        let image = load_or_compile(&text, ARCHITECTURE, options)?;
        let module = options.cache.kernel_module(device, &text, &image)?;
        let function =
            module.get_tiled_function(ENTRY, self.gemm.map_counts(), SIZE_WORDS, self.gemm.shared_bytes())?;
        let (blocks, maps) = (self.gemm.blocks(device.sm_count()?), Mutex::default());
        self.loaded = Some(LoadedGemm { function, blocks, maps });
        Ok(())
    }

    /// The maps of the left factors, of the right one and of the results.
    fn encode_maps(
        &self,
        maps: &mut EncodedMaps<TensorMap>,
        right: u64,
        parts: &[u64],
    ) -> Result<[Vec<TensorMap>; 3], Error> {
        let [left, shared, result] = &self.gemm.matrices;
        Ok([
            maps.at_addresses(0, parts, |address| TensorMap::encode(left, address))?,
            maps.at_addresses(1, &[right], |address| TensorMap::encode(shared, address))?,
            maps.at_addresses(2, &parts[1..], |address| TensorMap::encode(result, address))?,
        ])
    }

    /// `right` is the address of the right factor of the row-major GEMM, the library's left one.
    ///
    /// # Safety
    /// [`CudaStream`]'s contract for the matrices at these addresses.
    unsafe fn launch(&self, right: u64, parts: &[u64], stream: &CudaStream) -> Result<(), Error> {
        let Some(LoadedGemm { function, blocks, maps }) = &self.loaded else {
            return Err(Error::Internal { what: "the kernel of a product was not loaded".to_owned() });
        };
        let maps = self.encode_maps(&mut maps.lock().unwrap_or_else(PoisonError::into_inner), right, parts)?;
        let (shared_bytes, sizes) = (self.gemm.shared_bytes(), self.gemm.size_words());
        // SAFETY: the kernel reads and writes these matrices only, as the caller promises that it may.
        unsafe { stream.launch_tiled(function, [*blocks, THREADS], shared_bytes, &maps, &sizes) }
    }
}

/// The number of maps of a kernel that are kept.
const MOST_MAPS: usize = 1024;

/// The maps that launches of a kernel have encoded, by the number of the matrix and its address. Runs of a program use
/// the same memory again; tensors of a caller may be elsewhere each time, so old maps make room.
struct EncodedMaps<M>(BTreeMap<(usize, u64), M>);

impl<M> Default for EncodedMaps<M> {
    fn default() -> Self {
        Self(BTreeMap::default())
    }
}

impl<M: Copy> EncodedMaps<M> {
    /// The maps of a matrix at every second one of these addresses, of which those that are new are encoded.
    fn at_addresses(
        &mut self,
        matrix: usize,
        addresses: &[u64],
        encode: impl Fn(u64) -> Result<M, Error>,
    ) -> Result<Vec<M>, Error> {
        let mut found = Vec::with_capacity(addresses.len().div_ceil(2));
        for &address in addresses.iter().step_by(2) {
            if let Some(map) = self.0.get(&(matrix, address)) {
                found.push(*map);
                continue;
            }
            let map = encode(address)?;
            if self.0.len() >= MOST_MAPS {
                self.0.clear();
            }
            self.0.insert((matrix, address), map);
            found.push(map);
        }
        Ok(found)
    }
}

#[cfg(test)]
mod tests {
    use super::{EncodedMaps, MOST_MAPS};
    use std::cell::Cell;

    /// A run that is repeated encodes nothing again; others do not take memory without end.
    #[test]
    fn maps_are_encoded_once() {
        let (mut maps, encoded) = (EncodedMaps::default(), Cell::new(0));
        let mut launch = |matrix: usize, addresses: &[u64]| {
            let made = maps.at_addresses(matrix, addresses, |address| {
                encoded.set(encoded.get() + 1);
                Ok(address + 1)
            });
            (made.unwrap_or_default(), maps.0.len())
        };
        for _ in 0..3 {
            assert_eq!(launch(0, &[16, 32, 48, 64]).0, [17, 49]);
            assert_eq!(launch(1, &[16]).0, [17], "another matrix at the same address has a map of its own");
        }
        assert_eq!(encoded.get(), 3);
        let most = (0..3 * MOST_MAPS as u64).map(|at| launch(2, &[256 * at]).1).max();
        assert!(most.is_some_and(|most| most <= MOST_MAPS), "{most:?}");
    }
}
