//! Memory of other devices and processes, and flags in it that streams set and wait for.

use super::Error;
use super::driver::{Device, Stream, done};
use cudarc::driver::sys;
use std::sync::Arc;

/// Lets the current device read and write the memory of another one of this process.
pub fn reach(from: &Device, to: &Device) -> Result<(), Error> {
    if from.ordinal() == to.ordinal() {
        return Ok(());
    }
    let mut able = 0;
    // SAFETY: both devices exist; the pointer is to an integer of this frame.
    let asked = unsafe { sys::cuDeviceCanAccessPeer(&raw mut able, from.raw(), to.raw()) };
    done("cuDeviceCanAccessPeer", asked.result())?;
    if able == 0 {
        let status = format!("device {} cannot access device {}", from.ordinal(), to.ordinal());
        return Err(Error::Call { call: "cuDeviceCanAccessPeer", status });
    }
    // SAFETY: both contexts are retained; the first one is current.
    match unsafe { sys::cuCtxEnablePeerAccess(to.context(), 0) } {
        // Somebody else in this process has done so.
        sys::CUresult::CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED => Ok(()),
        status => done("cuCtxEnablePeerAccess", status.result()),
    }
}

/// A name by which another process of this host opens an allocation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Handle(pub [u8; Handle::BYTES]);

impl Handle {
    /// Length of a handle.
    pub const BYTES: usize = 64;

    /// The handle of an allocation, by its first address.
    pub fn of(address: u64) -> Result<Self, Error> {
        let mut handle = sys::CUipcMemHandle { reserved: [0; Self::BYTES] };
        // SAFETY: the pointer is to a handle of this frame; the driver refuses addresses that it did
        // not allocate.
        let asked = unsafe { sys::cuIpcGetMemHandle(&raw mut handle, address) };
        done("cuIpcGetMemHandle", asked.result())?;
        Ok(Self(handle.reserved.map(|byte| byte.cast_unsigned())))
    }
}

/// An allocation of another process, opened.
#[derive(Debug)]
pub struct Opened {
    device: Arc<Device>,
    address: u64,
}

impl Opened {
    /// Opens another process's allocation on the device, which must be current.
    pub fn new(device: &Arc<Device>, handle: Handle) -> Result<Self, Error> {
        let raw = sys::CUipcMemHandle { reserved: handle.0.map(u8::cast_signed) };
        let lazy = sys::CUipcMem_flags::CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS as u32;
        let mut address = 0;
        // SAFETY: the pointer is to an integer of this frame; closed when this value is dropped.
        let opened = unsafe { sys::cuIpcOpenMemHandle_v2(&raw mut address, raw, lazy) };
        done("cuIpcOpenMemHandle", opened.result())?;
        Ok(Self { device: device.clone(), address })
    }

    /// Where it starts in this process.
    pub fn address(&self) -> u64 {
        self.address
    }
}

impl Drop for Opened {
    fn drop(&mut self) {
        if self.device.make_current().is_ok() {
            // SAFETY: opened in `new`, closed once.
            let _ = unsafe { sys::cuIpcCloseMemHandle(self.address) };
        }
    }
}

/// An operation of a stream on a 32-bit word.
#[derive(Clone, Copy)]
pub struct WordOp(sys::CUstreamBatchMemOpParams);

impl std::fmt::Debug for WordOp {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("WordOp").finish_non_exhaustive()
    }
}

// SAFETY: plain numbers.
unsafe impl Send for WordOp {}

impl WordOp {
    /// The most operations of one call.
    pub const MOST: usize = 256;

    /// Writes a word once all earlier work of the stream is done and visible everywhere.
    pub fn write(address: u64, value: u32) -> Self {
        use sys::CUstreamBatchMemOpParams_union_CUstreamMemOpWriteValueParams_st as Write;
        use sys::CUstreamBatchMemOpParams_union_CUstreamMemOpWriteValueParams_st__bindgen_ty_1 as Number;
        let operation = sys::CUstreamBatchMemOpType::CU_STREAM_MEM_OP_WRITE_VALUE_32;
        let number = Number { value };
        let write = Write { operation, address, __bindgen_anon_1: number, flags: 0, alias: 0 };
        Self(Self::padded(|op| op.writeValue = write))
    }

    /// Goes on when a word has a value.
    pub fn wait(address: u64, value: u32) -> Self {
        use sys::CUstreamBatchMemOpParams_union_CUstreamMemOpWaitValueParams_st as Wait;
        use sys::CUstreamBatchMemOpParams_union_CUstreamMemOpWaitValueParams_st__bindgen_ty_1 as Number;
        let operation = sys::CUstreamBatchMemOpType::CU_STREAM_MEM_OP_WAIT_VALUE_32;
        let flags = sys::CUstreamWaitValue_flags::CU_STREAM_WAIT_VALUE_EQ as u32;
        let number = Number { value };
        let wait = Wait { operation, address, __bindgen_anon_1: number, flags, alias: 0 };
        Self(Self::padded(|op| op.waitValue = wait))
    }

    /// Parameters with zeros behind what an operation uses.
    fn padded(
        fill: impl FnOnce(&mut sys::CUstreamBatchMemOpParams),
    ) -> sys::CUstreamBatchMemOpParams {
        let mut op = sys::CUstreamBatchMemOpParams { pad: [0; 6] };
        fill(&mut op);
        op
    }
}

impl Stream {
    /// Carries out operations on words, in order.
    pub fn words(&self, ops: &[WordOp]) -> Result<(), Error> {
        for ops in ops.chunks(WordOp::MOST) {
            let mut raw: smallvec::SmallVec<[_; 8]> = ops.iter().map(|op| op.0).collect();
            let (count, first) = (raw.len() as u32, raw.as_mut_ptr());
            // SAFETY: `first` points to `count` operations; their addresses are of memory that outlives
            // the run.
            let issued = unsafe { sys::cuStreamBatchMemOp_v2(self.handle(), count, first, 0) };
            done("cuStreamBatchMemOp", issued.result())?;
        }
        Ok(())
    }
}
