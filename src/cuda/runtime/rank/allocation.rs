//! A rank's memory: its allocation, the address of each buffer in it, and copies of views from and to the host.
#![allow(unsafe_code, reason = "only the rank knows that its addresses are right")]

use crate::runtime::address_map::AddressMap;
use crate::runtime::resource_cache::{CachedMemory, ResourceCache};
use crate::sys::Error;
use crate::sys::driver;
use crate::sys::driver::{CudaDevice, DeviceMemory};
use crate::sys::peer::WordOp;
use hostir::data::HostTensor;
use hostir::plan::{BufferId, BufferView, Plan, stored_input};
use hostir_gpu::element_range::ViewRange;
use hostir_gpu::memory_layout;
use hostir_gpu::memory_layout::MemoryLayout;
use hostir_gpu::operand::SymbolicAddress;
use hostir_gpu::p2p::FLAG;
use std::sync::Arc;

/// The size of memory that other processes open is a multiple of this, so that no other allocation shares it.
const SHARED: usize = 2 << 20;

/// The layout of a rank's memory before it is allocated.
pub(crate) struct AllocationLayout<'a> {
    /// Offsets of buffers and scratch memory.
    pub(crate) layout: MemoryLayout,
    /// Bytes of semaphores.
    pub(crate) flags: usize,
    /// By buffer: true if a caller will bind it.
    pub(crate) external: &'a [bool],
}

/// A rank's memory and the addresses of its buffers.
pub(crate) struct RankAllocation {
    // Fields drop in this order: memory of other processes is closed before this rank's own memory is freed.
    /// The addresses of all ranks' memory.
    pub(crate) map: Option<Arc<AddressMap>>,
    pub(crate) memory: CachedMemory,
    /// Memory in the place of a caller's buffers until the caller binds them.
    pub(crate) bind_scratch: Option<DeviceMemory>,
    pub(crate) cache: Arc<ResourceCache>,
    layout: MemoryLayout,
    /// Address of each buffer.
    pub(crate) bases: Vec<u64>,
    /// The bytes of its semaphores, which are at the start of its memory. The last one is the poison word.
    pub(crate) flags: usize,
}

impl RankAllocation {
    /// Allocates memory for the layout of a plan's buffers.
    pub(crate) fn new(
        plan: &Plan,
        device: &Arc<CudaDevice>,
        AllocationLayout { layout, flags, external }: AllocationLayout<'_>,
        cache: &Arc<ResourceCache>,
    ) -> Result<Self, Error> {
        let memory = cache.take_memory(device, layout_bytes(&layout))?;
        let bind_scratch = allocate_bind_scratch(plan, external, device, cache)?;
        let mut allocation =
            Self { memory, bind_scratch, map: None, cache: cache.clone(), layout, bases: Vec::new(), flags };
        allocation.bases = allocation.initial_bases();
        Ok(allocation)
    }

    /// The start of each buffer: in the rank's memory, or in the bind scratch.
    fn initial_bases(&self) -> Vec<u64> {
        let start = self.base_address();
        let external = self.bind_scratch.as_ref().map_or(start, DeviceMemory::address);
        let base = |offset: &Option<usize>| offset.map_or(external, |bytes| start + bytes as u64);
        self.layout.offsets.iter().map(base).collect()
    }

    /// Returns true if a buffer has a place in the rank's own memory.
    pub(crate) fn has_memory(&self, buffer: BufferId) -> bool {
        self.layout.offsets.get(buffer.0 as usize).is_some_and(Option::is_some)
    }

    /// The base address of the memory.
    pub(crate) fn base_address(&self) -> u64 {
        self.memory.address()
    }

    /// Bytes of device memory.
    pub(crate) fn memory_bytes(&self) -> usize {
        layout_bytes(&self.layout)
    }

    /// Moves a buffer. Returns true if its address changes.
    pub(crate) fn move_buffer(&mut self, buffer: BufferId, base: u64) -> bool {
        std::mem::replace(&mut self.bases[buffer.0 as usize], base) != base
    }

    // ---- addresses ----

    pub(crate) fn view_address(&self, view: &BufferView) -> u64 {
        self.element_address(view, 0)
    }

    fn element_address(&self, view: &BufferView, index: usize) -> u64 {
        let bytes = (view.offset + index) * view.dtype.byte_size();
        self.bases[view.buffer.0 as usize] + bytes as u64
    }

    pub(crate) fn range_address(&self, part: &ViewRange) -> u64 {
        self.element_address(&part.view, part.start)
    }

    pub(crate) fn scratch_address(&self, stream: usize, bytes: usize) -> u64 {
        self.base_address() + (self.layout.scratch.get(stream).unwrap_or(&0) + bytes) as u64
    }

    pub(crate) fn operand_address(&self, place: &SymbolicAddress, stream: usize) -> u64 {
        match place {
            SymbolicAddress::View(view) => self.view_address(view),
            SymbolicAddress::Scratch(bytes) => self.scratch_address(stream, *bytes),
            // The caller looks it up in the map of all ranks' memory.
            SymbolicAddress::Peer { .. } => 0,
        }
    }

    // ---- semaphores ----

    /// The operations that signal all semaphores of this rank. They also set the counters of kernels, which nothing
    /// waits for; the last word is the poison.
    pub(crate) fn flag_release_ops(&self) -> Vec<WordOp> {
        let flags = (0..self.flags.saturating_sub(FLAG)).step_by(FLAG);
        flags.map(|offset| WordOp::write_word(self.base_address() + offset as u64, 1)).collect()
    }

    /// The address of the own poison word.
    pub(crate) fn poison_address(&self) -> u64 {
        self.base_address() + (self.flags - FLAG) as u64
    }

    /// The operations that write the poison of `own` to all other ranks whose memory is mapped.
    pub(crate) fn peer_poison_ops(&self, own: u32) -> Vec<WordOp> {
        let Some(map) = &self.map else { return Vec::new() };
        let others = (0..map.bases.len() as u32).filter(|rank| *rank != own);
        let word = |rank| Some(WordOp::write_word(map.poison_address(rank)?, own + 1));
        others.filter_map(word).collect()
    }

    // ---- data ----

    /// Copies a tensor to the elements that a view stores. The device is current, and no run is in flight.
    pub(crate) fn upload_view(&self, view: &BufferView, tensor: &HostTensor) -> Result<(), Error> {
        if view.stored_places().is_some() {
            return self.upload_view(&view.stored_part(), &stored_input(view, tensor.clone()));
        }
        let fits = tensor.bytes().len() == view.len() * view.dtype.byte_size();
        if !(fits && view.is_contiguous()) {
            let status = "an input of another size than its buffer".to_owned();
            return Err(Error::Call { call: "cuMemcpyHtoD", status });
        }
        // SAFETY: the rank's promise, between runs; the view has as many bytes as the tensor.
        unsafe { driver::upload_bytes(self.view_address(view), tensor.bytes()) }
    }

    /// Copies a view to a tensor, row-major. The device is current, and no run is in flight.
    pub(crate) fn download_view(&self, view: &BufferView) -> Result<HostTensor, Error> {
        let mut tensor = HostTensor::zeros(view.dtype, &view.shape());
        if view.is_contiguous() {
            // SAFETY: the rank's promise, between runs; the tensor has the view's shape and type.
            unsafe { driver::download_bytes(tensor.bytes_mut(), self.view_address(view)) }?;
            return Ok(tensor);
        }
        let size = view.dtype.byte_size();
        let mut range = vec![0; (view.last_offset() + 1) * size];
        // SAFETY: as above; the range ends with the view's last element.
        unsafe { driver::download_bytes(&mut range, self.view_address(view)) }?;
        let strides: Vec<usize> = view.dims.iter().map(|dim| dim.stride).collect();
        let shape = view.shape();
        for (index, element) in tensor.bytes_mut().chunks_exact_mut(size).enumerate() {
            let (mut rest, mut offset) = (index, 0);
            for (extent, stride) in shape.iter().zip(&strides).rev() {
                offset += rest % extent * stride;
                rest /= extent;
            }
            element.copy_from_slice(&range[offset * size..(offset + 1) * size]);
        }
        Ok(tensor)
    }
}

/// Bytes of memory for a layout.
fn layout_bytes(layout: &MemoryLayout) -> usize {
    layout.bytes.next_multiple_of(SHARED)
}

/// Allocates room for the largest of the buffers that callers bind: the preparation works there before anything is
/// bound.
fn allocate_bind_scratch(
    plan: &Plan,
    external: &[bool],
    device: &Arc<CudaDevice>,
    cache: &ResourceCache,
) -> Result<Option<DeviceMemory>, Error> {
    let sizes = external.iter().enumerate().filter(|(_, is)| **is);
    let largest = sizes.map(|(buffer, _)| memory_layout::padded_size(plan, buffer)).max();
    largest.map(|bytes| cache.allocate_memory(device, bytes)).transpose()
}
