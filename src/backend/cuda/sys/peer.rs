//! Memory of other devices and processes, and flags in it that streams set and wait for.

use crate::sys::Error;
use crate::sys::driver::{CudaDevice, CudaStream, check_status};
use crate::sys::tables;
use crate::sys::tables::{IpcHandle, StreamWord};
use std::ffi::c_int;
use std::sync::Arc;

/// `CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED`.
const ALREADY_ENABLED: c_int = 704;
/// `CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS`.
const LAZY: u32 = 1;
/// `CUstreamBatchMemOpType`, of 32-bit words.
const WAIT: u64 = 1;
const WRITE: u64 = 2;
/// `CU_STREAM_WAIT_VALUE_EQ`.
const EQUAL: u64 = 1;

/// Lets the current device read and write the memory of another one of this process.
pub(crate) fn enable_peer_access(from: &CudaDevice, to: &CudaDevice) -> Result<(), Error> {
    if from.ordinal() == to.ordinal() {
        return Ok(());
    }
    let mut able = 0;
    // SAFETY: both devices exist; the pointer is to an integer of this frame.
    let status = unsafe { tables::driver().cuDeviceCanAccessPeer(&raw mut able, from.raw_handle(), to.raw_handle()) };
    check_status("cuDeviceCanAccessPeer", status)?;
    if able == 0 {
        let status = format!("device {} cannot access device {}", from.ordinal(), to.ordinal());
        return Err(Error::Call { call: "cuDeviceCanAccessPeer", status });
    }
    // SAFETY: both contexts are retained; the first one is current.
    match unsafe { tables::driver().cuCtxEnablePeerAccess(to.primary_context(), 0) } {
        // Somebody else in this process has done so.
        ALREADY_ENABLED => Ok(()),
        status => check_status("cuCtxEnablePeerAccess", status),
    }
}

/// A name by which another process of this host opens an allocation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct MemoryHandle(pub(crate) [u8; MemoryHandle::BYTES]);

impl MemoryHandle {
    /// Length of a handle.
    pub(crate) const BYTES: usize = 64;

    /// The handle of an allocation, by its first address.
    pub(crate) fn for_allocation(address: u64) -> Result<Self, Error> {
        let mut handle = IpcHandle([0; Self::BYTES]);
        // SAFETY: the pointer is to a handle of this frame; the driver refuses addresses that it did
        // not allocate.
        let status = unsafe { tables::driver().cuIpcGetMemHandle(&raw mut handle, address) };
        check_status("cuIpcGetMemHandle", status)?;
        Ok(Self(handle.0))
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
        let (raw, mut address) = (IpcHandle(handle.0), 0);
        // SAFETY: the pointer is to an integer of this frame; the driver refuses what is no handle of its own.
        // Closed when this value is dropped.
        let status = unsafe { tables::driver().cuIpcOpenMemHandle_v2(&raw mut address, raw, LAZY) };
        check_status("cuIpcOpenMemHandle", status)?;
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

/// An operation of a stream on a 32-bit word: a description, which does nothing by itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct WordOp(StreamWord);

impl WordOp {
    /// The most operations of one call.
    pub(crate) const MOST: usize = 256;

    /// Writes a word once all earlier work of the stream is done and visible everywhere.
    pub(crate) fn write_word(address: u64, value: u32) -> Self {
        Self([WRITE.to_le(), address, u64::from(value).to_le(), 0, 0, 0])
    }

    /// Goes on when a word has a value.
    pub(crate) fn wait_for_word(address: u64, value: u32) -> Self {
        Self([WAIT.to_le(), address, u64::from(value).to_le(), EQUAL.to_le(), 0, 0])
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
            let mut raw: smallvec::SmallVec<[StreamWord; 8]> = ops.iter().map(|op| op.0).collect();
            let (count, first) = (raw.len() as u32, raw.as_mut_ptr());
            // SAFETY: `first` points to `count` operations, which the driver copies; their addresses are the
            // caller's promise.
            let status = unsafe { tables::driver().cuStreamBatchMemOp_v2(self.raw_handle(), count, first, 0) };
            check_status("cuStreamBatchMemOp", status)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bytes as a C compiler lays `CUstreamBatchMemOpParams` out.
    #[test]
    fn word_operations_are_laid_out_as_the_driver_reads_them() {
        let bytes = |op: WordOp| -> Vec<u8> { bytemuck::cast_slice(&op.0).to_vec() };
        let mut expected = [0u8; 48];
        expected[..4].copy_from_slice(&2i32.to_ne_bytes());
        expected[8..16].copy_from_slice(&0x7f00_1234_5678_u64.to_ne_bytes());
        expected[16..20].copy_from_slice(&7u32.to_ne_bytes());
        assert_eq!(bytes(WordOp::write_word(0x7f00_1234_5678, 7)), expected);
        expected[..4].copy_from_slice(&1i32.to_ne_bytes());
        expected[24..28].copy_from_slice(&1u32.to_ne_bytes());
        assert_eq!(bytes(WordOp::wait_for_word(0x7f00_1234_5678, 7)), expected);
    }
}
