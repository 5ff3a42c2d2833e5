//! The start barrier of measured runs whose ranks are processes.
//!
//! Threads of one process wait at a barrier. Processes wait over the network and leave it some tens of microseconds
//! after one another; a device would spend that time in its first communication. All devices therefore synchronize once
//! more, by an allreduce of one number, before the clock starts.
#![allow(unsafe_code, reason = "only the rank knows that its addresses are right")]

use crate::sys::Error;
use crate::sys::driver::{CudaDevice, CudaStream, DeviceMemory};
use nccl_rs::{Config, DataType, NcclCommunicator, NcclRedOp, WaitLimits};
use std::sync::Arc;

/// A communicator of all ranks, and the number that they reduce.
pub(crate) struct StartBarrier {
    pub(crate) comm: NcclCommunicator,
    number: DeviceMemory,
}

impl StartBarrier {
    /// Creates the communicator, with the members of `all`.
    pub(crate) fn new(
        device: &Arc<CudaDevice>,
        all: &NcclCommunicator,
        patience: WaitLimits<'_>,
    ) -> Result<Option<Self>, nccl_rs::Error> {
        let call = "cuMemAlloc";
        let failed = |error: Error| nccl_rs::Error::Call { call, text: error.to_string() };
        let number = DeviceMemory::new(device, size_of::<f32>()).map_err(failed)?;
        let config = Config { blocking: true };
        let comm = all.split(Some(0), all.rank(), all.size(), config, patience)?;
        Ok(comm.map(|comm| Self { comm, number }))
    }

    /// The communicator and its number, for a rank that gives up. Freeing the number would wait for the device.
    pub(crate) fn into_parts(self) -> (NcclCommunicator, DeviceMemory) {
        (self.comm, self.number)
    }

    /// Issues the allreduce, whose end is the start of all ranks.
    pub(crate) fn issue_all_reduce(&mut self, stream: &CudaStream) -> Result<(), nccl_rs::Error> {
        let at = self.number.address();
        let (comm, stream) = (&mut self.comm, stream.as_nccl());
        // SAFETY: the number has an allocation of its own, kept beside the communicator; all ranks make this call.
        unsafe { comm.all_reduce(at, at, 1, DataType::Float32, NcclRedOp::Max, stream) }
    }
}
