//! `--print-calls`: the calls that the CUDA backend would make, which needs no device.

use super::cli::{Gpu, Transport, Transports};
use hostir::diag::Diag;
use hostir::lower::Prepared;
use hostir_gpu::listing::{self, ListingOptions};
use hostir_gpu::transport::{Route, Routes};

/// Lists the calls of all ranks: on one device that they share, or on one each.
///
/// # Errors
/// A program that the backend refuses.
pub(super) fn list_calls(
    prepared: &Prepared,
    gpu: &Gpu,
    shared: bool,
) -> Result<String, Vec<Diag>> {
    let routes = gpu_routes(&gpu.transports);
    let options = ListingOptions { tf32: gpu.tf32, routes, graph: gpu.graph, shared };
    listing::list_calls(prepared, options)
}

/// The transports as the backend names them.
pub(super) fn gpu_routes(transports: &Transports) -> Routes {
    Routes { nccl: gpu_route(transports.nccl), ucc: transports.ucc.map(gpu_route) }
}

fn gpu_route(transport: Transport) -> Route {
    match transport {
        Transport::Nccl => Route::Nccl,
        Transport::Copies => Route::Copies,
    }
}
