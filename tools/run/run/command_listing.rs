//! `--print-calls`: the calls that the CUDA backend would make, which needs no device.

use super::cli::{GpuOptions, Transport, Transports};
use hostir::diag::Diag;
use hostir::lower::PreparedProgram;
use hostir_gpu::gemm_shape::GemmNumerics;
use hostir_gpu::listing::{self, ListingOptions};
use hostir_gpu::transport::{BackendTransports, CommTransport};

/// Lists the calls of all ranks: on one shared device, or on one each.
///
/// # Errors
/// A program that the backend refuses.
pub(super) fn list_calls(prepared: &PreparedProgram, gpu: &GpuOptions, shared: bool) -> Result<String, Vec<Diag>> {
    let routes = gpu_routes(&gpu.transports);
    let GpuOptions { gemm_kernels, graph, .. } = *gpu;
    let options = ListingOptions { numerics: gemm_numerics(gpu), routes, graph, gemm_kernels, shared };
    listing::list_calls(prepared, options)
}

/// The losses of precision that the options permit.
pub(super) fn gemm_numerics(gpu: &GpuOptions) -> GemmNumerics {
    let GpuOptions { tf32, fp8_fast_accumulation, .. } = *gpu;
    GemmNumerics { tf32, fp8_fast_accumulation }
}

/// The transports as the backend names them.
pub(super) fn gpu_routes(transports: &Transports) -> BackendTransports {
    BackendTransports { nccl: gpu_route(transports.nccl), ucc: transports.ucc.map(gpu_route) }
}

fn gpu_route(transport: Transport) -> CommTransport {
    match transport {
        Transport::Nccl => CommTransport::Nccl,
        Transport::Copies => CommTransport::Copies,
    }
}
