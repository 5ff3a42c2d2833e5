//! The I/O bindings of a rank: binding a caller's memory, relocating the rank's buffers to it, and copying before and
//! after a run where relocation is impossible.
//!
//! A buffer of an input or output gets memory only when it needs some. A tensor that can be used in place replaces the
//! buffer, and only data that is copied, uploaded or read back has memory of the session's own. When a buffer moves,
//! the runtime resolves only the commands that hold its address again.
#![allow(unsafe_code, reason = "only the rank knows that its addresses are right")]

use crate::runtime::failure::RankFailure;
use crate::runtime::io_binding::binding_routes;
use crate::runtime::io_binding::binding_routes::{BindingConflict, BindingRoute, BindingSlot};
use crate::runtime::io_binding::relocation::RelocationTable;
use crate::runtime::io_binding::shared_bindings::RankTensor;
use crate::runtime::io_binding::staging_copies;
use crate::runtime::io_binding::staging_copies::{BindingTransfer, CopyDirection};
use crate::runtime::io_binding::tensor_check;
use crate::runtime::io_binding::tensor_check::{BindingTarget, StridedTensor};
use crate::runtime::io_binding::{DeviceTensor, IoSide, SlotTensor};
use crate::runtime::rank::RankRuntime;
use crate::runtime::symmetric_buffers::SymmetricBuffers;
use crate::sys::driver;
use crate::sys::driver::{CudaEvent, CudaStream, DeviceMemory};
use crate::sys::module::{KernelFunction, KernelModule};
use crate::sys::{Error, context};
use hostir::data::HostTensor;
use hostir::diag::message;
use hostir::diag::{Diag, Span, codes};
use hostir::lower::PreparedProgram;
use hostir::plan::{BufferId, stored_input};
use hostir_gpu::codegen::job;
use hostir_gpu::external_buffers;
use hostir_gpu::memory_layout;
use hostir_gpu::p2p::MessagePlan;
use std::collections::BTreeMap;

/// The reason that a run does not start.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum EnqueueError {
    /// The bound tensors cannot be used; nothing has been issued.
    Refused(Diag),
    /// A call failed.
    Failed(RankFailure),
}

impl From<Error> for EnqueueError {
    fn from(error: Error) -> Self {
        EnqueueError::Failed(error.into())
    }
}

impl From<RankFailure> for EnqueueError {
    fn from(failure: RankFailure) -> Self {
        EnqueueError::Failed(failure)
    }
}

/// A bound tensor, as given and as checked.
#[derive(Clone, Debug)]
struct BoundTensor {
    given: DeviceTensor,
    checked: StridedTensor,
}

/// A copy that only has to be issued.
#[derive(Clone, Debug)]
enum LoadedTransfer {
    Bytes { to: u64, from: u64, bytes: usize },
    Kernel { function: KernelFunction, grid: [u32; 3], block: [u32; 3], addresses: Vec<u64> },
}

/// The copies of one binding slot, and the tensor that they were made for.
#[derive(Clone, Default, Debug)]
struct SlotTransfers {
    of: Option<(StridedTensor, u64)>,
    before: Vec<LoadedTransfer>,
    after: Vec<LoadedTransfer>,
}

/// A rank's inputs and outputs.
pub(crate) struct IoBindings {
    /// The binding slots of inputs, then outputs; the next three vectors have the same order.
    io_slots: Vec<Option<BindingSlot>>,
    bound: Vec<Option<BoundTensor>>,
    transfers: Vec<SlotTransfers>,
    /// For each input: true if the session's own memory holds its data.
    filled: Vec<bool>,
    /// Number of inputs.
    inputs: usize,
    /// By buffer: true if it has no place in the rank's memory.
    external: Vec<bool>,
    relocations: RelocationTable,
    kernels: BTreeMap<String, KernelFunction>,
    /// Memory of the session's own, by buffer.
    own: Vec<Option<DeviceMemory>>,
    /// The stream of the next run, if it is one of the caller's.
    pub(crate) caller: Option<CudaStream>,
    /// The events at the end of what the caller enqueued before a run, and at the end of the run.
    events: [CudaEvent; 2],
    changed: bool,
    /// True if all enqueued work is known to be complete.
    complete: bool,
}

impl IoBindings {
    /// The bindings of a prepared rank; frees its bind scratch.
    pub(crate) fn new(rank: &mut RankRuntime<'_>, symmetric: &SymmetricBuffers) -> Result<Self, Error> {
        let none = MessagePlan::default();
        let messages = rank.memory.map.as_ref().map_or(&none, |map| &map.messages);
        let external = external_buffers::externally_bound(rank.plan, messages);
        let mut io_slots = binding_routes::binding_slots(rank.plan, &rank.commands.schedule, &external);
        for io_slot in
            io_slots.iter_mut().flatten().filter(|io_slot| symmetric.has_slot(io_slot.side, io_slot.position))
        {
            io_slot.fixed = symmetric.address(rank.plan.rank, io_slot.view.buffer);
            io_slot.replaceable = true;
        }
        for (base, _) in rank.memory.bases.iter_mut().zip(&external).filter(|(_, is)| **is) {
            *base = 0;
        }
        let relocations = RelocationTable::new(&rank.commands.schedule, rank.plan.rank, messages, &external);
        rank.memory.bind_scratch = None;
        Ok(Self {
            bound: vec![None; io_slots.len()],
            transfers: vec![SlotTransfers::default(); io_slots.len()],
            filled: vec![false; io_slots.len()],
            inputs: rank.plan.inputs.len(),
            relocations,
            kernels: BTreeMap::new(),
            own: external.iter().map(|_| None).collect(),
            caller: None,
            events: [CudaEvent::new(&rank.device, false)?, CudaEvent::new(&rank.device, false)?],
            changed: true,
            complete: false,
            io_slots,
            external,
        })
    }

    fn slot_index(&self, side: IoSide, position: usize) -> usize {
        if side == IoSide::Input { position } else { self.inputs + position }
    }

    fn binding_slot(&self, number: usize) -> Option<&BindingSlot> {
        self.io_slots.get(number).and_then(Option::as_ref)
    }

    // ---- binding ----

    /// Binds the tensors in the caller's symmetric memory, for the life of the program.
    pub(crate) fn bind_symmetric(
        &mut self,
        rank: &RankRuntime<'_>,
        prepared: &PreparedProgram,
    ) -> Result<(), EnqueueError> {
        let fixed = self.io_slots.iter().flatten().filter_map(|io_slot| {
            let tensor = DeviceTensor::contiguous(io_slot.fixed?, io_slot.view.dtype, &io_slot.view.shape());
            Some((io_slot.side, io_slot.position, tensor))
        });
        let fixed: Vec<_> = fixed.collect();
        fixed.into_iter().try_for_each(|(side, position, tensor)| {
            // SAFETY: as the caller promised of its symmetric memory.
            unsafe { self.bind_tensor(rank, prepared, side, position, &tensor) }
        })
    }

    /// Binds a tensor; does nothing if the rank has no shard of it.
    ///
    /// # Safety
    /// As of [`InputHandle::bind`](crate::session::InputHandle::bind).
    pub(crate) unsafe fn bind_tensor(
        &mut self,
        rank: &RankRuntime<'_>,
        prepared: &PreparedProgram,
        side: IoSide,
        position: usize,
        tensor: &DeviceTensor,
    ) -> Result<(), EnqueueError> {
        let number = self.slot_index(side, position);
        if self.bound.get(number).is_some_and(|old| old.as_ref().is_some_and(|old| old.given == *tensor)) {
            return Ok(());
        }
        let Some(io_slot) = self.binding_slot(number) else { return Ok(()) };
        let expected = binding_target(io_slot, prepared, rank.plan.rank);
        let checked = tensor_check::check_layout(&expected, tensor).map_err(EnqueueError::Refused)?;
        tensor_check::check_fixed(&expected, &checked, io_slot.fixed).map_err(EnqueueError::Refused)?;
        if !tensor.is_empty() {
            let about = context::query_address(&rank.device, checked.data_address())?;
            tensor_check::check_memory(&expected, &checked, &about, rank.device.ordinal())
                .map_err(EnqueueError::Refused)?;
        }
        self.bound[number] = Some(BoundTensor { given: tensor.clone(), checked });
        self.filled[number] = false;
        self.changed = true;
        Ok(())
    }

    /// Binds a tensor at an address; does nothing if it is bound already.
    ///
    /// # Safety
    /// As of [`Input::bind`](crate::session::InputHandle::bind).
    pub(crate) unsafe fn bind_at(
        &mut self,
        rank: &RankRuntime<'_>,
        prepared: &PreparedProgram,
        slot: &SlotTensor,
        address: u64,
    ) -> Result<(), EnqueueError> {
        let bound = self.bound.get(self.slot_index(slot.side, slot.position)).and_then(Option::as_ref);
        if bound.is_some_and(|old| old.given.pointer == address && old.given.has_layout_of(&slot.tensor)) {
            return Ok(());
        }
        let tensor = DeviceTensor { pointer: address, ..slot.tensor.clone() };
        // SAFETY: as the caller promises.
        unsafe { self.bind_tensor(rank, prepared, slot.side, slot.position, &tensor) }
    }

    /// Returns a slot to memory of the session's own; symmetric memory stays bound.
    pub(crate) fn release_slot(&mut self, side: IoSide, position: usize) {
        let number = self.slot_index(side, position);
        if self.binding_slot(number).is_some_and(|io_slot| io_slot.fixed.is_some()) {
            return;
        }
        if let Some(bound) = self.bound.get_mut(number) {
            self.changed |= bound.take().is_some();
        }
    }

    /// Copies an input from the host to memory of the session's own. Runs in flight have ended.
    pub(crate) fn upload_input(
        &mut self,
        rank: &mut RankRuntime<'_>,
        prepared: &PreparedProgram,
        position: usize,
        tensor: &HostTensor,
    ) -> Result<(), EnqueueError> {
        let Some(io_slot) = self.binding_slot(position).cloned() else { return Ok(()) };
        let given = DeviceTensor::contiguous(0, tensor.dtype(), tensor.shape());
        tensor_check::check_layout(&binding_target(&io_slot, prepared, rank.plan.rank), &given)
            .map_err(EnqueueError::Refused)?;
        let base = match io_slot.fixed {
            Some(base) => base,
            None => self.own_allocation(rank, io_slot.view.buffer)?,
        };
        // Memory that is new is still being filled.
        rank.streams.main().synchronize()?;
        let start = base + (io_slot.view.offset * io_slot.view.dtype.byte_size()) as u64;
        let stored = io_slot.view.stored_places().map(|_| stored_input(&io_slot.view, tensor.clone()));
        // SAFETY: memory of the session's own for this buffer, whose runs have ended; the tensor was checked to
        // have the view's shape and type, and what is stored of it fills the buffer.
        unsafe { driver::upload_bytes(start, stored.as_ref().unwrap_or(tensor).bytes()) }?;
        self.release_slot(IoSide::Input, position);
        self.filled[position] = true;
        self.changed = true;
        Ok(())
    }

    /// Returns the address of a buffer in the session's own memory, which is allocated on first use.
    fn own_allocation(&mut self, rank: &mut RankRuntime<'_>, buffer: BufferId) -> Result<u64, Error> {
        let at = buffer.0 as usize;
        if !self.external[at] {
            return Ok(rank.memory.bases[at]);
        }
        if let Some(memory) = &self.own[at] {
            return Ok(memory.address());
        }
        let memory = rank.memory.cache.allocate_memory(&rank.device, memory_layout::padded_size(rank.plan, at))?;
        // As all memory of a rank: old results must not look like new ones.
        // SAFETY: all of memory that is new, which the session keeps.
        unsafe { rank.streams.fill_for_runs(memory.address(), 0xff, memory.byte_count()) }?;
        let address = memory.address();
        self.own[at] = Some(memory);
        Ok(address)
    }

    // ---- before a run ----

    /// Relocates buffers to the bound tensors and makes the copies that are needed; `image` compiles kernels. Does
    /// nothing if nothing was bound since the last call.
    pub(crate) fn finalize_bindings(
        &mut self,
        rank: &mut RankRuntime<'_>,
        prepared: &PreparedProgram,
        image: &dyn Fn(&str) -> Result<Vec<u8>, Error>,
    ) -> Result<(), EnqueueError> {
        if !self.changed {
            return Ok(());
        }
        self.check_inputs(rank, prepared)?;
        let checked: Vec<Option<StridedTensor>> =
            self.bound.iter().map(|one| Some(one.as_ref()?.checked.clone())).collect();
        let routes = binding_routes::choose_routes(&self.io_slots, &checked)
            .map_err(|clash| self.conflict_error(clash, rank, prepared))?;
        self.relocate_buffers(rank, &checked, &routes)?;
        for number in 0..routes.len() {
            let route = routes[number];
            match (&self.io_slots[number], &checked[number]) {
                (Some(io_slot), Some(tensor)) if route == BindingRoute::Copied => {
                    let (io_slot, tensor) = (io_slot.clone(), tensor.clone());
                    self.prepare_transfers(rank, number, &io_slot, tensor, image)?;
                }
                _ => self.transfers[number] = SlotTransfers::default(),
            }
        }
        self.changed = false;
        Ok(())
    }

    /// Refuses bound tensors of this rank that overlap where the program writes.
    pub(crate) fn check_overlaps(
        &self,
        rank: &RankRuntime<'_>,
        prepared: &PreparedProgram,
    ) -> Result<(), EnqueueError> {
        let checked: Vec<Option<StridedTensor>> =
            self.bound.iter().map(|one| Some(one.as_ref()?.checked.clone())).collect();
        let routes = binding_routes::choose_routes(&self.io_slots, &checked);
        routes.map(|_| ()).map_err(|clash| self.conflict_error(clash, rank, prepared))
    }

    /// The bound tensors of this rank; `place` is its index among the ranks of the process.
    pub(crate) fn bound_tensors(&self, place: usize) -> Vec<RankTensor> {
        let bound = self.bound.iter().zip(&self.io_slots).enumerate();
        bound
            .filter_map(|(slot, (bound, io_slot))| {
                let (tensor, written) = (bound.as_ref()?.checked.clone(), io_slot.as_ref()?.written);
                Some(RankTensor { place, slot, written, tensor })
            })
            .collect()
    }

    /// Returns true if a tensor was bound or released since the last run.
    pub(crate) fn has_changed(&self) -> bool {
        self.changed
    }

    /// A slot in words, and the place of its tensor in the program.
    pub(crate) fn slot_label(&self, slot: usize, prepared: &PreparedProgram, rank: u32) -> (String, Span) {
        match self.binding_slot(slot) {
            Some(io_slot) => {
                let expected = binding_target(io_slot, prepared, rank);
                (format!("{} {} of rank {rank}", expected.side, expected.name), expected.span)
            }
            None => ("a tensor".to_owned(), Span::default()),
        }
    }

    /// Every input has data.
    fn check_inputs(&self, rank: &RankRuntime<'_>, prepared: &PreparedProgram) -> Result<(), EnqueueError> {
        for (number, io_slot) in self.io_slots.iter().enumerate().take(self.inputs) {
            let Some(io_slot) = io_slot else { continue };
            if self.bound[number].is_none() && !self.filled[number] && !io_slot.view.is_empty() {
                let expected = binding_target(io_slot, prepared, rank.plan.rank);
                return Err(EnqueueError::Refused(tensor_check::unbound_input_error(&expected)));
            }
        }
        Ok(())
    }

    fn conflict_error(
        &self,
        BindingConflict(a, b): BindingConflict,
        rank: &RankRuntime<'_>,
        prepared: &PreparedProgram,
    ) -> EnqueueError {
        let [(first, span), (second, other)] = [a, b].map(|number| match self.binding_slot(number) {
            Some(io_slot) => {
                let expected = binding_target(io_slot, prepared, rank.plan.rank);
                (format!("{} {}", expected.side, expected.name), expected.span)
            }
            None => ("a tensor".to_owned(), Default::default()),
        });
        let message = message!(
            "{} and {} of rank {} are bound to overlapping memory, and the program writes to it",
            first,
            second,
            rank.plan.rank
        );
        EnqueueError::Refused(
            Diag::error(codes::BOUND_STRIDES, span, message).with_label(other, "the other binding").with_note(
                "bind them to disjoint memory; only an input that the program never writes may share memory with an output",
            ),
        )
    }

    /// Gives every buffer outside its address.
    fn relocate_buffers(
        &mut self,
        rank: &mut RankRuntime<'_>,
        checked: &[Option<StridedTensor>],
        routes: &[BindingRoute],
    ) -> Result<(), Error> {
        let external = self.external.clone();
        let mut wanted: Vec<Option<u64>> = vec![None; external.len()];
        for (number, io_slot) in self.io_slots.iter().enumerate() {
            if let (Some(io_slot), Some(tensor), BindingRoute::InPlace) = (io_slot, &checked[number], routes[number]) {
                wanted[io_slot.view.buffer.0 as usize] = Some(tensor.data_address());
            }
        }
        for (at, wanted) in wanted.into_iter().enumerate().filter(|(at, _)| external[*at]) {
            let buffer = BufferId(at as u32);
            let base = match wanted {
                Some(base) => base,
                None => self.own_allocation(rank, buffer)?,
            };
            if rank.memory.move_buffer(buffer, base) {
                rank.commands.relocate_buffer(buffer, rank.plan.rank, &rank.memory, &self.relocations)?;
                rank.recorder.retire_graph();
            }
        }
        Ok(())
    }

    /// Makes the copies of a slot, unless they exist.
    fn prepare_transfers(
        &mut self,
        rank: &RankRuntime<'_>,
        number: usize,
        io_slot: &BindingSlot,
        tensor: StridedTensor,
        image: &dyn Fn(&str) -> Result<Vec<u8>, Error>,
    ) -> Result<(), Error> {
        let base = rank.memory.bases[io_slot.view.buffer.0 as usize];
        let of = Some((tensor.clone(), base));
        if self.transfers[number].of == of {
            return Ok(());
        }
        let mut made = SlotTransfers { of, ..SlotTransfers::default() };
        let transfers = |way| staging_copies::binding_transfers(&tensor, &io_slot.view, base, way).map_err(Error::from);
        if io_slot.side == IoSide::Input {
            made.before = self.load_transfers(rank, transfers(CopyDirection::In)?, image)?;
        }
        if io_slot.written {
            made.after = self.load_transfers(rank, transfers(CopyDirection::Out)?, image)?;
        }
        self.transfers[number] = made;
        Ok(())
    }

    /// Copies with their kernels loaded.
    fn load_transfers(
        &mut self,
        rank: &RankRuntime<'_>,
        transfers: Vec<BindingTransfer>,
        image: &dyn Fn(&str) -> Result<Vec<u8>, Error>,
    ) -> Result<Vec<LoadedTransfer>, Error> {
        let mut loaded = Vec::new();
        for transfer in transfers {
            loaded.push(match transfer {
                BindingTransfer::Bytes { to, from, bytes } => LoadedTransfer::Bytes { to, from, bytes },
                BindingTransfer::Kernel { text, grid, block, addresses } => {
                    let function = match self.kernels.get(&text) {
                        Some(function) => function.clone(),
                        None => {
                            let image = image(&text)?;
                            // SAFETY: NVRTC made it, now or before it came to the store.
                            let module = unsafe { KernelModule::load(&rank.device, &image) }?;
                            let parameters = job::parameter_count(&text);
                            let function = module.get_function(job::ENTRY, parameters)?;
                            self.kernels.insert(text, function.clone());
                            function
                        }
                    };
                    LoadedTransfer::Kernel { function, grid, block, addresses }
                }
            });
        }
        Ok(loaded)
    }

    // ---- the run ----

    /// Enqueues a run after the work on the caller's stream, which continues after the run. The host does not wait. If
    /// the caller records the run, nothing is in flight afterwards.
    pub(crate) fn enqueue_run(&mut self, rank: &mut RankRuntime<'_>, recorded: bool) -> Result<(), RankFailure> {
        // The caller may destroy its stream after this call.
        match self.caller.take() {
            Some(caller) if !recorded && rank.may_run_on_caller() => self.enqueue_on_caller(rank, caller),
            caller => self.enqueue_between_events(rank, caller.as_ref(), recorded),
        }
    }

    /// A run whose first stream is the caller's.
    fn enqueue_on_caller(&mut self, rank: &mut RankRuntime<'_>, caller: CudaStream) -> Result<(), RankFailure> {
        rank.streams.begin_on_caller(caller, self.complete, &self.events[0])?;
        let issued = self.issue_with_transfers(rank);
        // Work that was issued needs an end event, even if not all was issued.
        let ended = rank.streams.end_on_caller();
        self.complete = false;
        issued.and(ended.map_err(RankFailure::from))
    }

    /// A run on the program's own streams.
    fn enqueue_between_events(
        &mut self,
        rank: &mut RankRuntime<'_>,
        caller: Option<&CudaStream>,
        recorded: bool,
    ) -> Result<(), RankFailure> {
        let queued = rank.tracker.queued;
        let [before, after] = &self.events;
        if !recorded {
            rank.streams.follow_caller()?;
        }
        if let Some(caller) = caller {
            caller.record(before)?;
            rank.streams.main().wait(before)?;
        }
        self.issue_with_transfers(rank)?;
        if recorded {
            rank.tracker.queued = queued;
        } else {
            rank.streams.main().record(&rank.streams.end)?;
            self.complete = false;
        }
        if let Some(caller) = caller {
            rank.streams.main().record(after)?;
            caller.wait(after)?;
        }
        Ok(())
    }

    /// Issues the copies before a run, the run, and the copies after it.
    fn issue_with_transfers(&self, rank: &mut RankRuntime<'_>) -> Result<(), RankFailure> {
        for one in self.transfers.iter().flat_map(|transfers| &transfers.before) {
            issue_transfer(one, rank.streams.issuing(0))?;
        }
        rank.issue_run()?;
        for one in self.transfers.iter().flat_map(|transfers| &transfers.after) {
            issue_transfer(one, rank.streams.issuing(0))?;
        }
        Ok(())
    }

    /// Reports the failures since the last call, and releases resources that were kept for the runs that have ended.
    /// Returns whether all enqueued work is done.
    pub(crate) fn check_completion(&mut self, rank: &mut RankRuntime<'_>) -> Result<bool, RankFailure> {
        self.complete = rank.is_run_complete()?;
        if self.complete {
            rank.recorder.retired.clear();
            rank.tracker.queued = 0;
        }
        Ok(self.complete)
    }

    /// An output after a run: the caller's tensor, or the session's own.
    pub(crate) fn output_tensor(
        &mut self,
        rank: &mut RankRuntime<'_>,
        prepared: &PreparedProgram,
        position: usize,
    ) -> Result<Option<DeviceTensor>, EnqueueError> {
        let number = self.slot_index(IoSide::Output, position);
        let Some(io_slot) = self.binding_slot(number).cloned() else { return Ok(None) };
        if let Some(Some(binding)) = self.bound.get(number) {
            return Ok(Some(binding.given.clone()));
        }
        let at = io_slot.view.buffer.0 as usize;
        let base = match rank.memory.bases[at] {
            0 if io_slot.of_input => {
                let expected = binding_target(&io_slot, prepared, rank.plan.rank);
                return Err(EnqueueError::Refused(tensor_check::unplaced_output_error(&expected)));
            }
            0 => self.own_allocation(rank, io_slot.view.buffer)?,
            base => base,
        };
        let strides = io_slot.view.dims.iter().map(|dim| dim.stride as i64);
        Ok(Some(DeviceTensor {
            pointer: base + (io_slot.view.offset * io_slot.view.dtype.byte_size()) as u64,
            shape: io_slot.view.shape(),
            strides: strides.collect(),
            dtype: io_slot.view.dtype,
        }))
    }
}

fn issue_transfer(one: &LoadedTransfer, stream: &CudaStream) -> Result<(), Error> {
    match one {
        // SAFETY: the rank's promise: one end is a buffer of the rank, the other one a tensor of the caller's, who
        // promised for it when it was bound, and both were checked to have room for what is copied.
        LoadedTransfer::Bytes { to, from, bytes } => unsafe { stream.copy(*to, *from, *bytes) },
        // SAFETY: as above; the kernel was generated for these addresses.
        LoadedTransfer::Kernel { function, grid, block, addresses } => unsafe {
            stream.launch(function, *grid, *block, addresses)
        },
    }
}

fn binding_target<'a>(io_slot: &'a BindingSlot, prepared: &'a PreparedProgram, rank: u32) -> BindingTarget<'a> {
    let io_tensors = if io_slot.side == IoSide::Input { &prepared.inputs } else { &prepared.outputs };
    let (name, span) = io_tensors
        .get(io_slot.position)
        .map_or(("?", Default::default()), |port| (port.name.as_str(), prepared.labels.tensor_span(port.tensor)));
    BindingTarget { side: io_slot.side, name, span, rank, view: &io_slot.view, written: io_slot.written }
}
