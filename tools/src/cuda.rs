//! The CUDA backend, or what stands in its place in a build without it (feature `cuda`).

pub use hostir_gpu::transport::{Route, Routes};

#[cfg(feature = "cuda")]
pub use hostir_cuda::{
    Cuda, Error, ImageStore, Loaded, NcclFile, Options, Place, Pool, Watch, devices, has_driver,
    nvtx,
};

#[cfg(not(feature = "cuda"))]
mod absent;

#[cfg(not(feature = "cuda"))]
pub use absent::{
    Cuda, Error, ImageStore, Loaded, NcclFile, Options, Place, Pool, Watch, devices, has_driver,
    nvtx,
};
