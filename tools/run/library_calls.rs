//! The end of calls of CUDA's libraries before the process exits; in a build without the feature `cuda` there are none.

#[cfg(feature = "cuda")]
pub use hostir_cuda::finish_library_calls;

/// Returns true: no library is in use.
#[cfg(not(feature = "cuda"))]
pub fn finish_library_calls(_limit: std::time::Duration) -> bool {
    true
}
