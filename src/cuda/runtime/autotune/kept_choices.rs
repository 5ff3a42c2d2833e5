//! Choices of sustained trials, stored for later processes.

use crate::runtime::options::Options;
use crate::runtime::rank::kernels::CANDIDATES;
use crate::runtime::store_key::store_key;
use crate::sys::blas::{self, LAST_CUSTOM_OPTION, VARIED_PROPOSALS};
use hostir_gpu::codegen::wgmma_gemm::WgmmaGemm;
use hostir_gpu::gemm_shape::GemmShape;
use hostir_gpu::rank_memory::WORKSPACE;

/// The choice that an earlier process stored for a GEMM on this kind of device.
pub(super) fn kept_choice(options: &Options, kind: &str, shape: &GemmShape) -> Option<usize> {
    let kept = options.store.as_ref()?.get(&choice_key(options, kind, shape))?;
    kept.try_into().ok().map(u64::from_le_bytes).and_then(|choice| usize::try_from(choice).ok())
}

/// Stores a choice for later processes, unless it is stored already.
pub(super) fn keep_choice(options: &Options, kind: &str, shape: &GemmShape, choice: usize) {
    if kept_choice(options, kind, shape) == Some(choice) {
        return;
    }
    if let Some(store) = &options.store {
        store.put(&choice_key(options, kind, shape), &(choice as u64).to_le_bytes());
    }
}

/// The key of a choice. It has the library, device, GEMM and the rule that lists algorithms: with these the number of
/// an algorithm has one meaning.
fn choice_key(options: &Options, kind: &str, shape: &GemmShape) -> String {
    let (major, minor, patch) = blas::version();
    let library = format!("cublasLt {major}.{minor}.{patch}");
    let kernels = if options.gemm_kernels { WgmmaGemm::candidates(shape) } else { Vec::new() };
    let rule = format!("{CANDIDATES} {VARIED_PROPOSALS} {LAST_CUSTOM_OPTION} {WORKSPACE} {kernels:?}");
    store_key("hostir gemm algorithm", [&*library, kind, &rule, &format!("{shape:?}")])
}
