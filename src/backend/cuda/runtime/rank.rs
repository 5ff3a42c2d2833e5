//! One rank on its device: its resources, and the loop that issues its commands.
//!
//! Driver calls take unchecked addresses and are therefore `unsafe`. Their preconditions hold for every rank ("the rank's
//! promise" in the comments at the calls):
//!
//! - **Bounds.** An address belongs to a buffer, to scratch memory or to a semaphore in the rank's own memory, inside of
//!   the layout of the plan; to the same in another rank's memory ([`Peers`]); or to a tensor that a caller bound. The
//!   caller guarantees that the tensor exists, and it was checked to be inside of its allocation ([`ports`]). The
//!   views of a plan are inside of their buffers ([`crate::runtime::index_bounds`] checks this).
//! - **Lifetime.** The rank owns its memory, streams, functions, GEMMs and communicators; [`Peers`] keeps the others'
//!   memory open or is shared with the ranks that own it. They are dropped after the rank's runs have ended: code that
//!   drops a rank first waits for it or aborts it. A rank whose device may still be at work is never dropped, nor are
//!   ranks that it may write to ([`Loaded`](crate::runtime::loaded_program::Loaded)). A graph is dropped before the
//!   objects that it recorded.
//! - **Ordering.** The schedule orders accesses of several streams to the same memory by events, and those of several
//!   ranks by semaphores or communicators. Host code accesses the memory between runs only.
//! - **Agreement.** All ranks of a communicator were made from one prepared program, so their calls match.
#![allow(unsafe_code, reason = "only the rank knows that its addresses are right")]

mod completion;
mod resolve;

use crate::runtime::failure::RankFailure;
use crate::runtime::failure_latch::FailureFlag;
use crate::runtime::io_binding::rank_bindings;
use crate::runtime::kernel_images::KernelImages;
use crate::runtime::nccl::start_barrier::StartBarrier;
use crate::runtime::p2p_map::AddressMap;
use crate::runtime::resource_cache::{CachedBlas, CachedMemory, ResourceCache};
use crate::runtime::sequencer::IssueSequencer;
use crate::runtime::teardown::{RecordedGraph, TeardownTask};
use crate::runtime::watchdog::WatchedRank;
use crate::sys::Error;
use crate::sys::blas::{GemmOperands, TunableGemm};
use crate::sys::driver;
use crate::sys::driver::{CudaDevice, CudaEvent, CudaGraph, CudaStream, DeviceMemory, StreamPriority};
use crate::sys::module::KernelFunction;
use crate::sys::nvtx::NamedRanges;
use crate::sys::peer::WordOp;
use hostir::backend::control_plane::ControlPlane;
use hostir::data::HostTensor;
use hostir::plan::{BufferView, Plan};
use hostir_gpu::memory_layout::MemoryLayout;
use hostir_gpu::rank_memory::WORKSPACE;
use hostir_gpu::schedule::RankSchedule;
use hostir_gpu::schedule::wait_marks;
use hostir_gpu::schedule::wait_marks::PeerWait;
use nccl_rs::{DataType, NcclCommunicator};
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The number of a GEMM's algorithms that are timed.
const CANDIDATES: usize = 8;
/// Memory that another process opens is a multiple of this, and so not shared with other allocations.
const SHARED: usize = 2 << 20;

/// A message or collective with its addresses.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) enum ResolvedNcclCall {
    AllGather { send: u64, recv: u64, count: usize },
    AllReduce { send: u64, recv: u64, count: usize, op: nccl_rs::NcclRedOp },
    Reduce { send: u64, recv: u64, count: usize, op: nccl_rs::NcclRedOp, root: u32 },
    ReduceScatter { send: u64, recv: u64, count: usize, op: nccl_rs::NcclRedOp },
    Broadcast { send: u64, recv: u64, count: usize, root: u32 },
    Send { from: u64, count: usize, peer: u32 },
    Recv { to: u64, count: usize, peer: u32 },
    Copy { to: u64, from: u64, bytes: usize },
}

/// A call with everything looked up.
#[derive(Clone, Debug)]
pub(crate) enum ResolvedCommand {
    Launch { function: KernelFunction, grid: [u32; 3], block: [u32; 3], addresses: Range<usize> },
    Copy { to: u64, from: u64, bytes: usize },
    Product { product: usize, operands: GemmOperands },
    Record { event: usize },
    Wait { event: usize },
    Communicate { comm: usize, calls: Range<usize> },
    Words { ops: Range<usize> },
    Transfer { to: u64, from: u64, bytes: usize },
}

/// A rank that is ready to run.
pub(crate) struct RankRuntime<'p> {
    pub(crate) plan: &'p Plan,
    // Dropped in this order: what is used before what it uses.
    pub(crate) graph: Option<CudaGraph>,
    /// Graphs with old addresses, which may still be running.
    pub(crate) retired: Vec<RecordedGraph>,
    pub(crate) comms: Vec<(usize, NcclCommunicator)>,
    /// The world communicator, if sub-communicators are split off it.
    pub(crate) world: Option<NcclCommunicator>,
    /// True if the communicators of other programs were also split off this one.
    pub(crate) lent: bool,
    pub(crate) together: Option<StartBarrier>,
    pub(crate) products: Vec<TunableGemm>,
    pub(crate) events: Vec<CudaEvent>,
    /// Events that a graph records in place of these, for queries from outside of the graph.
    pub(crate) outside: BTreeMap<usize, CudaEvent>,
    pub(crate) timers: Vec<CudaEvent>,
    /// The event at the end of the issued work.
    pub(crate) end: CudaEvent,
    pub(crate) streams: Vec<CudaStream>,
    /// The stream for semaphores and their release while other streams wait; `None` without semaphores.
    pub(crate) aside: Option<CudaStream>,
    pub(crate) blas: Option<CachedBlas>,
    pub(crate) memory: CachedMemory,
    /// Memory that stands in for a caller's buffers until the caller binds them.
    pub(crate) spare: Option<DeviceMemory>,
    pub(crate) device: Arc<CudaDevice>,
    pub(crate) pool: Arc<ResourceCache>,
    pub(crate) layout: MemoryLayout,
    /// Address of each buffer.
    pub(crate) bases: Vec<u64>,
    pub(crate) schedule: RankSchedule,
    pub(crate) ready: Vec<(ResolvedCommand, usize)>,
    pub(crate) addresses: Vec<u64>,
    pub(crate) raw: Vec<(ResolvedNcclCall, DataType)>,
    /// The number of runs issued since the last wait.
    pub(crate) queued: usize,
    /// The other ranks, if they are processes.
    pub(crate) peers: Option<Arc<dyn ControlPlane>>,
    /// The failure latch of this process's ranks.
    pub(crate) alarm: Arc<FailureFlag>,
    /// The teardown of work that was in flight when the rank failed.
    pub(crate) ending: Option<TeardownTask>,
    /// Instructions that wait for other ranks.
    pub(crate) waits: Vec<PeerWait>,
    /// True while issued commands are captured.
    pub(crate) recording: bool,
    /// The watchdog's entry for this rank's runs.
    pub(crate) watched: Option<WatchedRank>,
    /// Its turns among ranks that share devices.
    pub(crate) turns: Option<IssueSequencer>,
    /// The addresses of all ranks' memory.
    pub(crate) map: Option<Arc<AddressMap>>,
    /// The bytes of its semaphores, which are at the start of its memory. A rank that gives up sets the last one.
    pub(crate) flags: usize,
    pub(crate) functions: Vec<KernelFunction>,
    pub(crate) words: Vec<WordOp>,
    pub(crate) ranges: Option<NamedRanges>,
}

impl<'p> RankRuntime<'p> {
    /// Memory, streams, events, modules and products; not yet addresses and communicators. The inputs and
    /// outputs that are `outside` will lie in memory of a caller's ([`ports`]).
    pub(crate) fn new(
        plan: &'p Plan,
        schedule: RankSchedule,
        (layout, flags, outside): (MemoryLayout, usize, &[bool]),
        ordinal: usize,
        (images, pool): (&KernelImages, &Arc<ResourceCache>),
    ) -> Result<Self, Error> {
        let device = pool.open_device(ordinal)?;
        let memory = pool.take_memory(&device, layout_bytes(&layout))?;
        let spare = rank_bindings::allocate_bind_scratch(plan, outside, &device, pool)?;
        let own = plan.streams as usize;
        let priority = |stream| if stream < own { StreamPriority::Normal } else { StreamPriority::High };
        let streams = (0..schedule.streams).map(|stream| CudaStream::new(&device, priority(stream)));
        let streams: Vec<CudaStream> = streams.collect::<Result<_, _>>()?;
        let events = (0..schedule.events).map(|_| CudaEvent::new(&device, false));
        let events: Vec<CudaEvent> = events.collect::<Result<_, _>>()?;
        let timers = [CudaEvent::new(&device, true)?, CudaEvent::new(&device, true)?];
        let end = CudaEvent::new(&device, false)?;
        let aside = (flags > 0).then(|| CudaStream::new(&device, StreamPriority::High)).transpose()?;
        let waits = wait_marks::peer_waits(&schedule.steps);
        let blas = if schedule.shapes.is_empty() { None } else { Some(pool.take_blas(&device)?) };
        let mut rank = Self {
            plan,
            graph: None,
            retired: Vec::new(),
            comms: Vec::new(),
            world: None,
            lent: false,
            products: Vec::new(),
            events,
            outside: BTreeMap::new(),
            timers: timers.into(),
            end,
            streams,
            aside,
            blas,
            memory,
            spare,
            device,
            pool: pool.clone(),
            layout,
            bases: Vec::new(),
            schedule,
            ready: Vec::new(),
            addresses: Vec::new(),
            raw: Vec::new(),
            queued: 0,
            peers: None,
            alarm: Arc::default(),
            ending: None,
            waits,
            recording: false,
            watched: None,
            together: None,
            turns: None,
            map: None,
            flags,
            functions: Vec::new(),
            words: Vec::new(),
            ranges: None,
        };
        // Memory of an earlier program must not look like results of this one.
        let (start, bytes) = (rank.memory.address(), rank.memory_bytes());
        // SAFETY: the rank's promise: this is all of its memory, which nobody uses yet.
        unsafe { rank.streams[0].fill_bytes(start, 0xff, bytes) }?;
        rank.streams[0].synchronize()?;
        if let Some(aside) = &rank.aside {
            // A stream that was used once takes no more preparation when it is needed.
            // SAFETY: the rank's promise: flags are the first bytes of its memory.
            unsafe { aside.fill_bytes(start, 0, flags) }?;
            aside.synchronize()?;
        }
        rank.bases = rank.initial_bases();
        rank.load_kernels(images)?;
        Ok(rank)
    }

    fn load_kernels(&mut self, images: &KernelImages) -> Result<(), Error> {
        for text in &self.schedule.texts {
            let image =
                images.get(text).ok_or_else(|| Error::Internal { what: "a kernel was not compiled".to_owned() })?;
            let module = self.pool.kernel_module(&self.device, text, image)?;
            let parameters = hostir_gpu::codegen::job::parameter_count(text);
            self.functions.push(module.get_function(hostir_gpu::codegen::job::ENTRY, parameters)?);
        }
        if let Some(blas) = &self.blas {
            for shape in &self.schedule.shapes {
                self.products.push(TunableGemm::new(blas, shape, WORKSPACE, CANDIDATES)?);
            }
        }
        Ok(())
    }

    /// Turns the schedule into calls with addresses, its own and those of the ranks it exchanges
    /// messages with.
    pub(crate) fn resolve_addresses(&mut self, map: &Arc<AddressMap>) -> Result<(), Error> {
        self.map = Some(map.clone());
        let steps = std::mem::take(&mut self.schedule.steps);
        let ready = steps.iter().map(|step| Ok((self.resolve_step(step, map)?, step.stream)));
        let ready: Result<Vec<_>, Error> = ready.collect();
        self.schedule.steps = steps;
        self.ready = ready?;
        Ok(())
    }

    /// The base address of its memory.
    pub(crate) fn base_address(&self) -> u64 {
        self.memory.address()
    }

    // ---- data ----

    /// Copies inputs to the device.
    pub(crate) fn upload_inputs(&self, inputs: &[HostTensor]) -> Result<(), Error> {
        self.device.make_current()?;
        for (view, tensor) in self.plan.inputs.iter().zip(inputs) {
            if let Some(view) = view {
                let fits = tensor.bytes().len() == view.len() * view.dtype.byte_size();
                if !(fits && view.is_contiguous()) {
                    let status = "the size of an input differs from that of its buffer".to_owned();
                    return Err(Error::Call { call: "cuMemcpyHtoD", status });
                }
                // SAFETY: the rank's promise, between runs; the view has as many bytes as the tensor.
                unsafe { driver::upload_bytes(self.view_address(view), tensor.bytes()) }?;
            }
        }
        Ok(())
    }

    /// Copies outputs from the device, row-major.
    pub(crate) fn download_outputs(&self) -> Result<Vec<Option<HostTensor>>, Error> {
        self.device.make_current()?;
        self.plan.outputs.iter().map(|view| view.as_ref().map(|view| self.download_view(view)).transpose()).collect()
    }

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

    // ---- the run ----

    /// Issues the whole program.
    pub(crate) fn issue_run(&mut self) -> Result<(), RankFailure> {
        self.queued += 1;
        self.publish_position(None);
        self.publish_run_begin();
        if let Some(graph) = &self.graph {
            // SAFETY: the rank's promise: it holds all that was recorded, and a buffer that moves takes the
            // graph away.
            return Ok(unsafe { self.streams[0].launch_graph(graph) }?);
        }
        self.issue_in_turn(|rank, at| rank.issue_step(at))
    }

    /// Does something for each of its steps, in their order; if ranks share devices, in that of all steps.
    pub(crate) fn issue_in_turn(
        &mut self,
        mut work: impl FnMut(&mut Self, usize) -> Result<(), RankFailure>,
    ) -> Result<(), RankFailure> {
        let Some(mut turns) = self.turns.take() else {
            return (0..self.ready.len()).try_for_each(|at| work(self, at));
        };
        let done = turns.run_in_turn(|at| work(self, at));
        self.turns = Some(turns);
        done
    }

    pub(crate) fn issue_step(&mut self, at: usize) -> Result<(), RankFailure> {
        let stream = self.ready[at].1;
        self.check_while_issuing(at)?;
        self.publish_position(Some(self.schedule.steps[at].inst));
        if let Some(ranges) = &self.ranges {
            ranges.push_range(at);
        }
        let issued = self.issue_command(at, stream);
        if let Some(ranges) = &self.ranges {
            ranges.pop_range();
        }
        issued.map_err(|failure| failure.at_inst(self.schedule.steps[at].inst))
    }

    /// Records the program as a graph, which [`Rank::start`] then replays.
    pub(crate) fn capture_graph(&mut self, timeout: Duration) -> Result<(), RankFailure> {
        self.device.make_current()?;
        self.graph = None;
        self.create_external_events()?;
        self.streams[0].begin_capture()?;
        // What is recorded is not under way.
        let queued = self.queued;
        self.recording = true;
        let issued = self.issue_run();
        self.recording = false;
        self.queued = queued;
        let graph = self.streams[0].end_capture();
        self.publish_run_end();
        issued?;
        let graph = graph?;
        // A first launch must not bring anything to the device: other ranks may wait there already.
        self.streams[0].upload_graph(&graph)?;
        self.graph = Some(graph);
        // Earlier runs may be under way.
        self.wait_for_end(timeout)
    }

    fn issue_command(&mut self, at: usize, stream: usize) -> Result<(), RankFailure> {
        let stream = &self.streams[stream];
        match &self.ready[at].0 {
            ResolvedCommand::Launch { function, grid, block, addresses } => {
                let words = &self.addresses[addresses.clone()];
                // SAFETY: the rank's promise: these are the addresses that the kernel was generated for.
                unsafe { stream.launch(function, *grid, *block, words) }?;
            }
            ResolvedCommand::Copy { to, from, bytes } => {
                // SAFETY: the rank's promise.
                unsafe { stream.copy(*to, *from, *bytes) }?;
            }
            ResolvedCommand::Product { product, operands } => {
                if let Some(blas) = &self.blas {
                    // SAFETY: the rank's promise; the workspace has WORKSPACE bytes, as `Product::new` was told.
                    unsafe { self.products[*product].run(blas, operands, stream) }?;
                }
            }
            ResolvedCommand::Record { event } => {
                stream.record(&self.events[*event])?;
                if self.recording {
                    self.record_external_event(*event, stream)?;
                }
            }
            ResolvedCommand::Wait { event } => stream.wait(&self.events[*event])?,
            ResolvedCommand::Communicate { comm, calls } => {
                let entry = self.schedule.members[*comm].0;
                let found = self.comms.iter_mut().find(|(other, _)| *other == entry);
                let (comm, calls) = (found.map(|(_, comm)| comm), &self.raw[calls.clone()]);
                // SAFETY: the rank's promise.
                unsafe { issue_nccl_calls(comm, calls, stream) }?;
            }
            ResolvedCommand::Transfer { to, from, bytes } => {
                // SAFETY: the rank's promise.
                unsafe { stream.copy_between_devices(*to, *from, *bytes) }?;
            }
            ResolvedCommand::Words { ops } => {
                // SAFETY: the rank's promise: these are words of flags.
                unsafe { stream.run_word_ops(&self.words[ops.clone()]) }?;
            }
        }
        Ok(())
    }

    /// Milliseconds of the program on the device, from an empty stream to the end of all its streams.
    pub(crate) fn time_run(&mut self, timeout: Duration) -> Result<f64, RankFailure> {
        self.wait_at_start_barrier(timeout)?;
        self.streams[0].record(&self.timers[0])?;
        self.issue_run()?;
        self.streams[0].record(&self.timers[1])?;
        self.wait_for_end(timeout)?;
        Ok(self.timers[1].elapsed_since(&self.timers[0])?)
    }

    /// Seconds that the host spends on issuing the program once; with turns also on waiting for them.
    pub(crate) fn issue_time(&mut self, timeout: Duration) -> Result<f64, RankFailure> {
        let start = Instant::now();
        self.issue_run()?;
        let spent = start.elapsed().as_secs_f64();
        self.wait_for_end(timeout)?;
        Ok(spent)
    }

    /// Bytes of device memory.
    pub(crate) fn memory_bytes(&self) -> usize {
        layout_bytes(&self.layout)
    }

    /// Lets later programs reuse its memory and its handle when it is dropped; the rank must be idle.
    pub(crate) fn return_resources(&mut self) {
        // Other processes may have opened the memory.
        self.memory.keep = self.peers.is_none();
        if let Some(blas) = &mut self.blas {
            blas.keep = true;
        }
    }
}

/// Bytes of memory for a layout.
fn layout_bytes(layout: &MemoryLayout) -> usize {
    layout.bytes.next_multiple_of(SHARED)
}

/// Makes NCCL's calls, as a group if there are several.
///
/// # Safety
/// The contracts of [`Stream`] and [`Communicator`] for these calls.
pub(crate) unsafe fn issue_nccl_calls(
    comm: Option<&mut NcclCommunicator>,
    calls: &[(ResolvedNcclCall, DataType)],
    stream: &CudaStream,
) -> Result<(), RankFailure> {
    for (raw, _) in calls {
        if let ResolvedNcclCall::Copy { to, from, bytes } = raw {
            // SAFETY: as the caller promises.
            unsafe { stream.copy(*to, *from, *bytes) }?;
        }
    }
    let Some(comm) = comm else { return Ok(()) };
    let library = comm.library().clone();
    if calls.len() > 1 {
        library.group_start()?;
    }
    let result = calls.iter().try_for_each(|(raw, dtype)| {
        // SAFETY: as the caller promises.
        unsafe { issue_nccl_call(comm, *raw, *dtype, stream.as_nccl()) }
    });
    if calls.len() > 1 {
        library.group_end()?;
    }
    Ok(result?)
}

/// # Safety
/// [`Communicator`]'s contract for this call.
unsafe fn issue_nccl_call(
    comm: &mut NcclCommunicator,
    raw: ResolvedNcclCall,
    dtype: DataType,
    stream: nccl_rs::StreamRef<'_>,
) -> Result<(), nccl_rs::Error> {
    match raw {
        // SAFETY: as the caller promises.
        ResolvedNcclCall::AllGather { send, recv, count } => unsafe {
            comm.all_gather(send, recv, count, dtype, stream)
        },
        // SAFETY: as the caller promises.
        ResolvedNcclCall::AllReduce { send, recv, count, op } => unsafe {
            comm.all_reduce(send, recv, count, dtype, op, stream)
        },
        // SAFETY: as the caller promises.
        ResolvedNcclCall::Reduce { send, recv, count, op, root } => unsafe {
            comm.reduce(send, recv, count, dtype, op, root, stream)
        },
        // SAFETY: as the caller promises.
        ResolvedNcclCall::ReduceScatter { send, recv, count, op } => unsafe {
            comm.reduce_scatter(send, recv, count, dtype, op, stream)
        },
        // SAFETY: as the caller promises.
        ResolvedNcclCall::Broadcast { send, recv, count, root } => unsafe {
            comm.broadcast(send, recv, count, dtype, root, stream)
        },
        // SAFETY: as the caller promises.
        ResolvedNcclCall::Send { from, count, peer } => unsafe { comm.send(from, count, dtype, peer, stream) },
        // SAFETY: as the caller promises.
        ResolvedNcclCall::Recv { to, count, peer } => unsafe { comm.recv(to, count, dtype, peer, stream) },
        ResolvedNcclCall::Copy { .. } => Ok(()),
    }
}
