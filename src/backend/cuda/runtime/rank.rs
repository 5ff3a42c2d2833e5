//! One rank on its device: what it holds, and the loop that issues its calls.
//!
//! Calls take addresses, which nobody checks, and so are `unsafe`. What they rely on holds for every rank
//! ("the rank's promise", as the calls say):
//!
//! - **Where.** An address is one of a buffer, of scratch memory or of a flag in the rank's own memory, within the
//!   layout that was made for the plan; of the same in another rank's memory ([`Peers`]); or of a tensor that a
//!   caller bound, who promised that it is there, and which was checked to lie within its allocation ([`ports`]).
//!   A plan's views lie within their buffers ([`crate::runtime::index_bounds`] looks).
//! - **How long.** The rank owns its memory, streams, functions, products and communicators, and [`Peers`] keeps
//!   the others' memory open or is shared with the ranks that own it. They are dropped when the rank's runs have
//!   ended: whoever drops a rank waits first or aborts it, and a rank whose device may still be at work is never
//!   dropped, nor are those that it may write to ([`Loaded`](crate::runtime::loaded_program::Loaded)). A graph is dropped before what it recorded.
//! - **Who else.** The schedule orders calls of several streams that touch the same memory, by events, and those
//!   of several ranks by flags or communicators. Host code touches the memory between runs only.
//! - **Alike.** All ranks of a communicator were made from one prepared program, so their calls agree.
#![allow(unsafe_code, reason = "only the rank knows that its addresses are right")]

mod completion;
mod resolve;

use crate::runtime::failure::Failure;
use crate::runtime::failure_latch::Alarm;
use crate::runtime::io_binding::rank_bindings;
use crate::runtime::kernel_images::Images;
use crate::runtime::nccl::start_barrier::Together;
use crate::runtime::p2p_map::Peers;
use crate::runtime::resource_cache::{Arena, Handle, Pool};
use crate::runtime::sequencer::Turns;
use crate::runtime::teardown::{Ending, Recorded};
use crate::runtime::watchdog::Watched;
use crate::sys::Error;
use crate::sys::blas::{Operands, Product};
use crate::sys::driver;
use crate::sys::driver::{Device, Event, Graph, Memory, Priority, Stream};
use crate::sys::module::Function;
use crate::sys::nvtx::NamedRanges;
use crate::sys::peer::WordOp;
use hostir::backend::control_plane::ControlPlane;
use hostir::data::HostTensor;
use hostir::plan::{Plan, View};
use hostir_gpu::memory_layout::Layout;
use hostir_gpu::rank_memory::WORKSPACE;
use hostir_gpu::schedule::Schedule;
use hostir_gpu::schedule::wait_marks;
use hostir_gpu::schedule::wait_marks::WaitMark;
use nccl_rs::{Communicator, DataType};
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Algorithms of a product that are timed.
const CANDIDATES: usize = 8;
/// Memory that another process opens is a multiple of this, and so not shared with other allocations.
const SHARED: usize = 2 << 20;

/// A message or collective with its addresses.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) enum Raw {
    AllGather { send: u64, recv: u64, count: usize },
    AllReduce { send: u64, recv: u64, count: usize, op: nccl_rs::RedOp },
    Reduce { send: u64, recv: u64, count: usize, op: nccl_rs::RedOp, root: u32 },
    ReduceScatter { send: u64, recv: u64, count: usize, op: nccl_rs::RedOp },
    Broadcast { send: u64, recv: u64, count: usize, root: u32 },
    Send { from: u64, count: usize, peer: u32 },
    Recv { to: u64, count: usize, peer: u32 },
    Copy { to: u64, from: u64, bytes: usize },
}

/// A call with everything looked up.
#[derive(Clone, Debug)]
pub(crate) enum Ready {
    Launch { function: Function, grid: [u32; 3], block: [u32; 3], addresses: Range<usize> },
    Copy { to: u64, from: u64, bytes: usize },
    Product { product: usize, operands: Operands },
    Record { event: usize },
    Wait { event: usize },
    Communicate { comm: usize, calls: Range<usize> },
    Words { ops: Range<usize> },
    Transfer { to: u64, from: u64, bytes: usize },
}

/// A rank that can run.
pub(crate) struct Rank<'p> {
    pub(crate) plan: &'p Plan,
    // Dropped in this order: what is used before what it uses.
    pub(crate) graph: Option<Graph>,
    /// Recorded runs with old addresses; they may still be going on.
    pub(crate) retired: Vec<Recorded>,
    pub(crate) comms: Vec<(usize, Communicator)>,
    /// The communicator of all ranks, while others are split off it.
    pub(crate) world: Option<Communicator>,
    /// Whether communicators of other programs were split off it too.
    pub(crate) lent: bool,
    pub(crate) together: Option<Together>,
    pub(crate) products: Vec<Product>,
    pub(crate) events: Vec<Event>,
    /// Events that a recorded run sets in the place of these, for who asks from outside.
    pub(crate) outside: BTreeMap<usize, Event>,
    pub(crate) timers: Vec<Event>,
    /// The end of what was issued.
    pub(crate) end: Event,
    pub(crate) streams: Vec<Stream>,
    /// For flags and their release while the other streams wait; none if there are no flags.
    pub(crate) aside: Option<Stream>,
    pub(crate) blas: Option<Handle>,
    pub(crate) memory: Arena,
    /// Room that buffers of a caller's stand in until the caller binds them.
    pub(crate) spare: Option<Memory>,
    pub(crate) device: Arc<Device>,
    pub(crate) pool: Arc<Pool>,
    pub(crate) layout: Layout,
    /// Address of each buffer.
    pub(crate) bases: Vec<u64>,
    pub(crate) schedule: Schedule,
    pub(crate) ready: Vec<(Ready, usize)>,
    pub(crate) addresses: Vec<u64>,
    pub(crate) raw: Vec<(Raw, DataType)>,
    /// Runs that were issued since the last wait.
    pub(crate) queued: usize,
    /// The other ranks, if they are processes.
    pub(crate) peers: Option<Arc<dyn ControlPlane>>,
    /// Which rank of this process failed first.
    pub(crate) alarm: Arc<Alarm>,
    /// The end of what was under way when it failed.
    pub(crate) ending: Option<Ending>,
    /// Instructions that wait for other ranks.
    pub(crate) waits: Vec<WaitMark>,
    /// Whether what is issued is recorded.
    pub(crate) recording: bool,
    /// Who looks whether its runs end.
    pub(crate) watched: Option<Watched>,
    /// Its place among ranks that share devices.
    pub(crate) turns: Option<Turns>,
    /// Where all ranks' memory lies.
    pub(crate) map: Option<Arc<Peers>>,
    /// Bytes of its flags, at the start of its memory. The last one is set by a rank that gives up.
    pub(crate) flags: usize,
    pub(crate) functions: Vec<Function>,
    pub(crate) words: Vec<WordOp>,
    pub(crate) ranges: Option<NamedRanges>,
}

impl<'p> Rank<'p> {
    /// Memory, streams, events, modules and products; not yet addresses and communicators. The inputs and
    /// outputs that are `outside` will lie in memory of a caller's ([`ports`]).
    pub(crate) fn new(
        plan: &'p Plan,
        schedule: Schedule,
        (layout, flags, outside): (Layout, usize, &[bool]),
        ordinal: usize,
        (images, pool): (&Images, &Arc<Pool>),
    ) -> Result<Self, Error> {
        let device = pool.device(ordinal)?;
        let memory = pool.arena(&device, bytes(&layout))?;
        let spare = rank_bindings::spare(plan, outside, &device, pool)?;
        let own = plan.streams as usize;
        let priority = |stream| if stream < own { Priority::Normal } else { Priority::High };
        let streams = (0..schedule.streams).map(|stream| Stream::new(&device, priority(stream)));
        let streams: Vec<Stream> = streams.collect::<Result<_, _>>()?;
        let events = (0..schedule.events).map(|_| Event::new(&device, false));
        let events: Vec<Event> = events.collect::<Result<_, _>>()?;
        let timers = [Event::new(&device, true)?, Event::new(&device, true)?];
        let end = Event::new(&device, false)?;
        let aside = (flags > 0).then(|| Stream::new(&device, Priority::High)).transpose()?;
        let waits = wait_marks::waits(&schedule.steps);
        let blas = if schedule.shapes.is_empty() { None } else { Some(pool.handle(&device)?) };
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
        let (start, bytes) = (rank.memory.address(), rank.bytes());
        // SAFETY: the rank's promise: this is all of its memory, which nobody uses yet.
        unsafe { rank.streams[0].set_bytes(start, 0xff, bytes) }?;
        rank.streams[0].synchronize()?;
        if let Some(aside) = &rank.aside {
            // A stream that was used once takes no more preparation when it is needed.
            // SAFETY: the rank's promise: flags are the first bytes of its memory.
            unsafe { aside.set_bytes(start, 0, flags) }?;
            aside.synchronize()?;
        }
        rank.bases = rank.first_bases();
        rank.load(images)?;
        Ok(rank)
    }

    fn load(&mut self, images: &Images) -> Result<(), Error> {
        for text in &self.schedule.texts {
            let image = images
                .get(text)
                .ok_or_else(|| Error::Internal { what: "a kernel was not compiled".to_owned() })?;
            let module = self.pool.module(&self.device, text, image)?;
            let parameters = hostir_gpu::codegen::job::parameters(text);
            self.functions.push(module.function(hostir_gpu::codegen::job::ENTRY, parameters)?);
        }
        if let Some(blas) = &self.blas {
            for shape in &self.schedule.shapes {
                self.products.push(Product::new(blas, shape, WORKSPACE, CANDIDATES)?);
            }
        }
        Ok(())
    }

    /// Turns the schedule into calls with addresses, its own and those of the ranks it exchanges
    /// messages with.
    pub(crate) fn address(&mut self, map: &Arc<Peers>) -> Result<(), Error> {
        self.map = Some(map.clone());
        let steps = std::mem::take(&mut self.schedule.steps);
        let ready = steps.iter().map(|step| Ok((self.resolve(step, map)?, step.stream)));
        let ready: Result<Vec<_>, Error> = ready.collect();
        self.schedule.steps = steps;
        self.ready = ready?;
        Ok(())
    }

    /// First address of its memory.
    pub(crate) fn base(&self) -> u64 {
        self.memory.address()
    }

    // ---- data ----

    /// Copies inputs to the device.
    pub(crate) fn upload(&self, inputs: &[HostTensor]) -> Result<(), Error> {
        self.device.make_current()?;
        for (view, tensor) in self.plan.inputs.iter().zip(inputs) {
            if let Some(view) = view {
                let fits = tensor.bytes().len() == view.len() * view.dtype.size();
                if !(fits && view.is_contiguous()) {
                    let status = "an input of another size than its buffer".to_owned();
                    return Err(Error::Call { call: "cuMemcpyHtoD", status });
                }
                // SAFETY: the rank's promise, between runs; the view has as many bytes as the tensor.
                unsafe { driver::upload(self.view(view), tensor.bytes()) }?;
            }
        }
        Ok(())
    }

    /// Copies outputs from the device, row-major.
    pub(crate) fn download(&self) -> Result<Vec<Option<HostTensor>>, Error> {
        self.device.make_current()?;
        self.plan
            .outputs
            .iter()
            .map(|view| view.as_ref().map(|view| self.tensor(view)).transpose())
            .collect()
    }

    pub(crate) fn tensor(&self, view: &View) -> Result<HostTensor, Error> {
        let mut tensor = HostTensor::zeros(view.dtype, &view.shape());
        if view.is_contiguous() {
            // SAFETY: the rank's promise, between runs; the tensor has the view's shape and type.
            unsafe { driver::download(tensor.bytes_mut(), self.view(view)) }?;
            return Ok(tensor);
        }
        let size = view.dtype.size();
        let mut range = vec![0; (view.reach() + 1) * size];
        // SAFETY: as above; the range ends with the view's last element.
        unsafe { driver::download(&mut range, self.view(view)) }?;
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
    pub(crate) fn start(&mut self) -> Result<(), Failure> {
        self.queued += 1;
        self.is_at(None);
        self.begin();
        if let Some(graph) = &self.graph {
            // SAFETY: the rank's promise: it holds all that was recorded, and a buffer that moves takes the
            // graph away.
            return Ok(unsafe { self.streams[0].replay(graph) }?);
        }
        self.in_turn(|rank, at| rank.step(at))
    }

    /// Does something for each of its steps, in their order; if ranks share devices, in that of all steps.
    pub(crate) fn in_turn(
        &mut self,
        mut work: impl FnMut(&mut Self, usize) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let Some(mut turns) = self.turns.take() else {
            return (0..self.ready.len()).try_for_each(|at| work(self, at));
        };
        let done = turns.each(|at| work(self, at));
        self.turns = Some(turns);
        done
    }

    pub(crate) fn step(&mut self, at: usize) -> Result<(), Failure> {
        let stream = self.ready[at].1;
        self.look_while_issuing(at)?;
        self.is_at(Some(self.schedule.steps[at].inst));
        if let Some(ranges) = &self.ranges {
            ranges.push_range(at);
        }
        let issued = self.issue(at, stream);
        if let Some(ranges) = &self.ranges {
            ranges.pop_range();
        }
        issued.map_err(|failure| failure.at(self.schedule.steps[at].inst))
    }

    /// Records the program as a graph, which [`Rank::start`] then replays.
    pub(crate) fn capture(&mut self, timeout: Duration) -> Result<(), Failure> {
        self.device.make_current()?;
        self.graph = None;
        self.make_outside_marks()?;
        self.streams[0].begin_capture()?;
        // What is recorded is not under way.
        let queued = self.queued;
        self.recording = true;
        let issued = self.start();
        self.recording = false;
        self.queued = queued;
        let graph = self.streams[0].end_capture();
        self.over();
        issued?;
        let graph = graph?;
        // A first launch must not bring anything to the device: other ranks may wait there already.
        self.streams[0].upload(&graph)?;
        self.graph = Some(graph);
        // Earlier runs may be under way.
        self.wait(timeout)
    }

    fn issue(&mut self, at: usize, stream: usize) -> Result<(), Failure> {
        let stream = &self.streams[stream];
        match &self.ready[at].0 {
            Ready::Launch { function, grid, block, addresses } => {
                let words = &self.addresses[addresses.clone()];
                // SAFETY: the rank's promise: these are the addresses that the kernel was generated for.
                unsafe { stream.launch(function, *grid, *block, words) }?;
            }
            Ready::Copy { to, from, bytes } => {
                // SAFETY: the rank's promise.
                unsafe { stream.copy(*to, *from, *bytes) }?;
            }
            Ready::Product { product, operands } => {
                if let Some(blas) = &self.blas {
                    // SAFETY: the rank's promise; the workspace has WORKSPACE bytes, as `Product::new` was told.
                    unsafe { self.products[*product].run(blas, operands, stream) }?;
                }
            }
            Ready::Record { event } => {
                stream.record(&self.events[*event])?;
                if self.recording {
                    self.mark_outside(*event, stream)?;
                }
            }
            Ready::Wait { event } => stream.wait(&self.events[*event])?,
            Ready::Communicate { comm, calls } => {
                let entry = self.schedule.members[*comm].0;
                let found = self.comms.iter_mut().find(|(other, _)| *other == entry);
                let (comm, calls) = (found.map(|(_, comm)| comm), &self.raw[calls.clone()]);
                // SAFETY: the rank's promise.
                unsafe { communicate(comm, calls, stream) }?;
            }
            Ready::Transfer { to, from, bytes } => {
                // SAFETY: the rank's promise.
                unsafe { stream.transfer(*to, *from, *bytes) }?;
            }
            Ready::Words { ops } => {
                // SAFETY: the rank's promise: these are words of flags.
                unsafe { stream.words(&self.words[ops.clone()]) }?;
            }
        }
        Ok(())
    }

    /// Milliseconds of the program on the device, from an empty stream to the end of all its streams.
    pub(crate) fn timed(&mut self, timeout: Duration) -> Result<f64, Failure> {
        self.start_together(timeout)?;
        self.streams[0].record(&self.timers[0])?;
        self.start()?;
        self.streams[0].record(&self.timers[1])?;
        self.wait(timeout)?;
        Ok(self.timers[1].since(&self.timers[0])?)
    }

    /// Seconds that the host spends on issuing the program once; with turns also on waiting for them.
    pub(crate) fn issue_time(&mut self, timeout: Duration) -> Result<f64, Failure> {
        let start = Instant::now();
        self.start()?;
        let spent = start.elapsed().as_secs_f64();
        self.wait(timeout)?;
        Ok(spent)
    }

    /// Bytes of device memory.
    pub(crate) fn bytes(&self) -> usize {
        bytes(&self.layout)
    }

    /// Lets the next programs have its memory and its handle when it is dropped. It is quiet.
    pub(crate) fn keep(&mut self) {
        // Other processes may have opened the memory.
        self.memory.keep = self.peers.is_none();
        if let Some(blas) = &mut self.blas {
            blas.keep = true;
        }
    }
}

/// Bytes of memory for a layout.
fn bytes(layout: &Layout) -> usize {
    layout.bytes.next_multiple_of(SHARED)
}

/// Makes NCCL's calls, as a group if there are several.
///
/// # Safety
/// The contracts of [`Stream`] and [`Communicator`] for these calls.
pub(crate) unsafe fn communicate(
    comm: Option<&mut Communicator>,
    calls: &[(Raw, DataType)],
    stream: &Stream,
) -> Result<(), Failure> {
    for (raw, _) in calls {
        if let Raw::Copy { to, from, bytes } = raw {
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
        unsafe { one(comm, *raw, *dtype, stream.nccl()) }
    });
    if calls.len() > 1 {
        library.group_end()?;
    }
    Ok(result?)
}

/// # Safety
/// [`Communicator`]'s contract for this call.
unsafe fn one(
    comm: &mut Communicator,
    raw: Raw,
    dtype: DataType,
    stream: nccl_rs::Stream<'_>,
) -> Result<(), nccl_rs::Error> {
    match raw {
        // SAFETY: as the caller promises.
        Raw::AllGather { send, recv, count } => unsafe {
            comm.all_gather(send, recv, count, dtype, stream)
        },
        // SAFETY: as the caller promises.
        Raw::AllReduce { send, recv, count, op } => unsafe {
            comm.all_reduce(send, recv, count, dtype, op, stream)
        },
        // SAFETY: as the caller promises.
        Raw::Reduce { send, recv, count, op, root } => unsafe {
            comm.reduce(send, recv, count, dtype, op, root, stream)
        },
        // SAFETY: as the caller promises.
        Raw::ReduceScatter { send, recv, count, op } => unsafe {
            comm.reduce_scatter(send, recv, count, dtype, op, stream)
        },
        // SAFETY: as the caller promises.
        Raw::Broadcast { send, recv, count, root } => unsafe {
            comm.broadcast(send, recv, count, dtype, root, stream)
        },
        // SAFETY: as the caller promises.
        Raw::Send { from, count, peer } => unsafe { comm.send(from, count, dtype, peer, stream) },
        // SAFETY: as the caller promises.
        Raw::Recv { to, count, peer } => unsafe { comm.recv(to, count, dtype, peer, stream) },
        Raw::Copy { .. } => Ok(()),
    }
}
