//! Memory of other devices and processes, and the semaphores in it that streams signal and wait for.

use crate::sys::Error;
use crate::sys::driver::{CudaDevice, CudaStream};
use crate::sys::tables;
use cudarc::driver::sys::{
    CUipcMem_flags, CUipcMemHandle, CUresult, CUstreamBatchMemOpParams,
    CUstreamBatchMemOpParams_union_CUstreamMemOpWaitValueParams_st as WaitParams,
    CUstreamBatchMemOpParams_union_CUstreamMemOpWaitValueParams_st__bindgen_ty_1 as WaitedValue,
    CUstreamBatchMemOpParams_union_CUstreamMemOpWriteValueParams_st as WriteParams,
    CUstreamBatchMemOpParams_union_CUstreamMemOpWriteValueParams_st__bindgen_ty_1 as WrittenValue,
    CUstreamBatchMemOpType, CUstreamWaitValue_flags,
};
use std::ffi::{c_char, c_int};
use std::sync::Arc;

/// Allows the current device to read and write the memory of another one of this process.
pub(crate) fn enable_peer_access(from: &CudaDevice, to: &CudaDevice) -> Result<(), Error> {
    if from.ordinal() == to.ordinal() {
        return Ok(());
    }
    let mut able = 0;
    // SAFETY: both devices exist; the pointer is to an integer of this frame.
    unsafe { tables::driver().cuDeviceCanAccessPeer(&raw mut able, from.raw_handle(), to.raw_handle()) }
        .into_result()?;
    if able == 0 {
        let status = format!("device {} cannot access device {}", from.ordinal(), to.ordinal());
        return Err(Error::Call { call: "cuDeviceCanAccessPeer", status });
    }
    // SAFETY: both contexts are retained; the first one is current.
    let status = unsafe { tables::driver().cuCtxEnablePeerAccess(to.primary_context(), 0) };
    // Other code in this process may have done so.
    let is_enabled = status.code == CUresult::CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED as c_int;
    if is_enabled { Ok(()) } else { status.into_result() }
}

/// A name by which another process of this host opens an allocation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct MemoryHandle(pub(crate) [u8; MemoryHandle::BYTES]);

impl MemoryHandle {
    /// Length of a handle.
    pub(crate) const BYTES: usize = 64;

    /// The handle of an allocation, by its first address.
    pub(crate) fn for_allocation(address: u64) -> Result<Self, Error> {
        let mut handle = CUipcMemHandle { reserved: [0; Self::BYTES] };
        // SAFETY: the pointer is to a handle of this frame; the driver refuses addresses that it did
        // not allocate.
        unsafe { tables::driver().cuIpcGetMemHandle(&raw mut handle, address) }.into_result()?;
        Ok(Self(handle.reserved.map(|byte| byte as u8)))
    }
}

/// An allocation of another process, opened.
#[derive(Debug)]
pub(crate) struct PeerMemory {
    device: Arc<CudaDevice>,
    address: u64,
}

impl PeerMemory {
    /// Opens another process's allocation on the device, which must be current.
    pub(crate) fn new(device: &Arc<CudaDevice>, handle: MemoryHandle) -> Result<Self, Error> {
        let (raw, mut address) = (CUipcMemHandle { reserved: handle.0.map(|byte| byte as c_char) }, 0);
        let flags = CUipcMem_flags::CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS as u32;
        // SAFETY: the pointer is to an integer of this frame; the driver refuses what is no handle of its own.
        // Closed when this value is dropped.
        unsafe { tables::driver().cuIpcOpenMemHandle_v2(&raw mut address, raw, flags) }.into_result()?;
        Ok(Self { device: device.clone(), address })
    }

    /// The start address in this process.
    pub(crate) fn address(&self) -> u64 {
        self.address
    }
}

impl Drop for PeerMemory {
    fn drop(&mut self) {
        if self.device.make_current().is_ok() {
            // SAFETY: opened in `new`, closed once. Work on it has ended: that is what whoever enqueued it promised.
            let _ = unsafe { tables::driver().cuIpcCloseMemHandle(self.address) };
        }
    }
}

/// A stream's operation on a 32-bit word: a description without effect of its own.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct WordOp {
    address: u64,
    value: u32,
    /// True if the stream waits for the value, false if it writes it.
    waits: bool,
}

impl WordOp {
    /// The most operations of one call.
    pub(crate) const MOST: usize = 256;

    /// Writes a word once all earlier work of the stream is done and visible everywhere.
    pub(crate) fn write_word(address: u64, value: u32) -> Self {
        Self { address, value, waits: false }
    }

    /// Goes on when a word has a value.
    pub(crate) fn wait_for_word(address: u64, value: u32) -> Self {
        Self { address, value, waits: true }
    }

    /// The driver's parameters of the operation.
    #[allow(non_snake_case, reason = "the names of the driver's structures")]
    fn to_params(self) -> CUstreamBatchMemOpParams {
        let Self { address, value, waits } = self;
        if waits {
            let operation = CUstreamBatchMemOpType::CU_STREAM_MEM_OP_WAIT_VALUE_32;
            let flags = CUstreamWaitValue_flags::CU_STREAM_WAIT_VALUE_EQ as u32;
            let __bindgen_anon_1 = WaitedValue { value };
            let waitValue = WaitParams { operation, address, __bindgen_anon_1, flags, alias: 0 };
            CUstreamBatchMemOpParams { waitValue }
        } else {
            let operation = CUstreamBatchMemOpType::CU_STREAM_MEM_OP_WRITE_VALUE_32;
            let __bindgen_anon_1 = WrittenValue { value };
            let writeValue = WriteParams { operation, address, __bindgen_anon_1, flags: 0, alias: 0 };
            CUstreamBatchMemOpParams { writeValue }
        }
    }
}

impl CudaStream {
    /// Carries out operations on words, in order.
    ///
    /// # Safety
    /// [`CudaStream`]'s contract for the four bytes at each operation's address, a multiple of four; others may
    /// write them too.
    pub(crate) unsafe fn run_word_ops(&self, ops: &[WordOp]) -> Result<(), Error> {
        for ops in ops.chunks(WordOp::MOST) {
            let mut raw: smallvec::SmallVec<[CUstreamBatchMemOpParams; 8]> =
                ops.iter().map(|op| op.to_params()).collect();
            let (count, first) = (raw.len() as u32, raw.as_mut_ptr());
            // SAFETY: `first` points to `count` operations, which the driver copies; their addresses are the
            // caller's promise.
            unsafe { tables::driver().cuStreamBatchMemOp_v2(self.raw_handle(), count, first, 0) }.into_result()?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The operation, address, value and flags at the offsets at which a C compiler lays `CUstreamBatchMemOpParams`
    /// out.
    #[test]
    fn word_operations_are_laid_out_as_the_driver_reads_them() {
        assert_eq!(size_of::<CUstreamBatchMemOpParams>(), 48);
        for (op, operation, flags) in
            [(WordOp::write_word(0x7f00_1234_5678, 7), 2, 0), (WordOp::wait_for_word(0x7f00_1234_5678, 7), 1, 1)]
        {
            let params = op.to_params();
            let start = std::ptr::from_ref(&params).cast::<u8>();
            // SAFETY: the structure has 48 bytes, of which those at these offsets are initialised.
            let word = |offset: usize| unsafe { start.wrapping_add(offset).cast::<u32>().read() };
            assert_eq!([word(0), word(8), word(12), word(16), word(24)], [operation, 0x1234_5678, 0x7f00, 7, flags]);
        }
    }
}
