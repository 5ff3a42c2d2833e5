//! One rank on its device: what it holds, and the loop that issues its calls.
//!
//! Calls take addresses, which nobody checks, and so are `unsafe`. What they rely on holds for every rank
//! ("the rank's promise", as the calls say):
//!
//! - **Where.** An address is one of a buffer, of scratch memory or of a flag in the rank's own memory, within the
//!   layout that was made for the plan; of the same in another rank's memory ([`Peers`]); or of a tensor that a
//!   caller bound, who promised that it is there, and which was checked to lie within its allocation ([`ports`]).
//!   A plan's views lie within their buffers ([`super::bounds`] looks).
//! - **How long.** The rank owns its memory, streams, functions, products and communicators, and [`Peers`] keeps
//!   the others' memory open or is shared with the ranks that own it. They are dropped when the rank's runs have
//!   ended: whoever drops a rank waits first, or has aborted it. A graph is dropped before what it recorded.
//! - **Who else.** The schedule orders calls of several streams that touch the same memory, by events, and those
//!   of several ranks by flags or communicators. Host code touches the memory between runs only.
//! - **Alike.** All ranks of a communicator were made from one prepared program, so their calls agree.
#![allow(unsafe_code, reason = "only the rank knows that its addresses are right")]

mod addresses;
pub(super) mod connect;
pub(super) mod ports;
mod ranges;
mod rehearse;
mod traced;
mod tune;

use super::gate::{Guard, Turns};
use super::memory::{self, Layout};
use super::peers::Peers;
use super::pool::{Arena, Handle, Pool};
use super::schedule::{Call, Schedule};
use super::sys::Error;
use super::sys::blas::{Operands, Product};
use super::sys::driver::{self, Device, Event, Graph, Memory, Priority, Stream};
use super::sys::module::Function;
use super::sys::peer::WordOp;
use super::watch::Watched;
use super::{Failure, Images, Reached};
use crate::backend::exchange::Exchange;
use crate::data::HostTensor;
use crate::plan::{Plan, View};
use nccl_rs::{Communicator, DataType};
use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};
use together::Together;

mod together;

/// Workspace of the products of one stream; what cuBLAS recommends for Hopper.
const WORKSPACE: usize = 32 << 20;
/// Algorithms of a product that are timed.
const CANDIDATES: usize = 8;
/// Memory that another process opens is a multiple of this, and so not shared with other allocations.
const SHARED: usize = 2 << 20;
/// How long a failed run's streams may take to end once all flags are raised.
const RELEASE: Duration = Duration::from_secs(2);

/// A message or collective with its addresses.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Raw {
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
enum Ready {
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
pub(super) struct Rank<'p> {
    pub(super) plan: &'p Plan,
    // Dropped in this order: what is used before what it uses.
    graph: Option<Graph>,
    pub(super) comms: Vec<(usize, Communicator)>,
    /// The communicator of all ranks, while others are split off it.
    pub(super) world: Option<Communicator>,
    /// Whether communicators of other programs were split off it too.
    pub(super) lent: bool,
    together: Option<Together>,
    products: Vec<Product>,
    events: Vec<Event>,
    timers: Vec<Event>,
    /// The end of what was issued.
    end: Event,
    streams: Vec<Stream>,
    blas: Option<Handle>,
    memory: Arena,
    /// Room that buffers of a caller's stand in until the caller binds them.
    spare: Option<Memory>,
    pub(super) device: Arc<Device>,
    pool: Arc<Pool>,
    layout: Layout,
    /// Address of each buffer.
    bases: Vec<u64>,
    schedule: Schedule,
    ready: Vec<(Ready, usize)>,
    addresses: Vec<u64>,
    raw: Vec<(Raw, DataType)>,
    /// Runs that were issued since the last wait.
    queued: usize,
    /// The other ranks, if they are processes.
    pub(super) peers: Option<Arc<dyn Exchange>>,
    /// Whether its communication was ended after a failure.
    aborted: bool,
    /// Who looks whether its runs end.
    pub(super) watched: Option<Watched>,
    /// Its place among ranks that share devices.
    pub(super) turns: Option<Turns>,
    /// Where all ranks' memory lies.
    pub(super) map: Option<Arc<Peers>>,
    /// Bytes of its flags, at the start of its memory.
    flags: usize,
    functions: Vec<Function>,
    words: Vec<WordOp>,
    ranges: Option<ranges::Ranges>,
}

/// Where a rank's buffers lie, behind its flags; those `outside` do not. Streams with products get a
/// workspace.
pub(super) fn layout(
    plan: &Plan,
    schedule: &mut Schedule,
    flags: usize,
    outside: &[bool],
) -> Layout {
    let kernels = schedule.scratch.clone();
    for step in &schedule.steps {
        if matches!(step.call, Call::Product { .. }) {
            schedule.scratch[step.stream] =
                kernels[step.stream].next_multiple_of(memory::ALIGNMENT) + WORKSPACE;
        }
    }
    memory::assign(plan, &schedule.items, &schedule.scratch, flags, outside)
}

impl<'p> Rank<'p> {
    /// Memory, streams, events, modules and products; not yet addresses and communicators. The inputs and
    /// outputs that are `outside` will lie in memory of a caller's ([`ports`]).
    pub(super) fn new(
        plan: &'p Plan,
        schedule: Schedule,
        (layout, flags, outside): (Layout, usize, &[bool]),
        ordinal: usize,
        (images, pool): (&Images, &Arc<Pool>),
    ) -> Result<Self, Error> {
        let device = pool.device(ordinal)?;
        let memory = pool.arena(&device, bytes(&layout))?;
        let spare = ports::spare(plan, outside, &device, pool)?;
        let own = plan.streams as usize;
        let priority = |stream| if stream < own { Priority::Normal } else { Priority::High };
        let streams = (0..schedule.streams).map(|stream| Stream::new(&device, priority(stream)));
        let streams: Vec<Stream> = streams.collect::<Result<_, _>>()?;
        let events = (0..schedule.events).map(|_| Event::new(&device, false));
        let events: Vec<Event> = events.collect::<Result<_, _>>()?;
        let timers = [Event::new(&device, true)?, Event::new(&device, true)?];
        let end = Event::new(&device, false)?;
        let blas = if schedule.shapes.is_empty() { None } else { Some(pool.handle(&device)?) };
        let mut rank = Self {
            plan,
            graph: None,
            comms: Vec::new(),
            world: None,
            lent: false,
            products: Vec::new(),
            events,
            timers: timers.into(),
            end,
            streams,
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
            aborted: false,
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
        // SAFETY: as above; flags are its first bytes.
        unsafe { rank.streams[0].set_bytes(start, 0, flags) }?;
        rank.streams[0].synchronize()?;
        rank.bases = rank.first_bases();
        rank.load(images)?;
        Ok(rank)
    }

    fn load(&mut self, images: &Images) -> Result<(), Error> {
        for text in &self.schedule.texts {
            let image =
                images.get(text).ok_or_else(|| Error::Compile { log: "no image".into() })?;
            let module = self.pool.module(&self.device, text, image)?;
            let parameters = super::codegen::parameters(text);
            self.functions.push(module.function(super::codegen::ENTRY, parameters)?);
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
    pub(super) fn address(&mut self, map: &Arc<Peers>) -> Result<(), Error> {
        self.map = Some(map.clone());
        let steps = std::mem::take(&mut self.schedule.steps);
        let ready = steps.iter().map(|step| Ok((self.resolve(step, map)?, step.stream)));
        let ready: Result<Vec<_>, Error> = ready.collect();
        self.schedule.steps = steps;
        self.ready = ready?;
        Ok(())
    }

    /// First address of its memory.
    pub(super) fn base(&self) -> u64 {
        self.memory.address()
    }

    // ---- data ----

    /// Copies inputs to the device.
    pub(super) fn upload(&self, inputs: &[HostTensor]) -> Result<(), Error> {
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
    pub(super) fn download(&self) -> Result<Vec<Option<HostTensor>>, Error> {
        self.device.make_current()?;
        self.plan
            .outputs
            .iter()
            .map(|view| view.as_ref().map(|view| self.tensor(view)).transpose())
            .collect()
    }

    fn tensor(&self, view: &View) -> Result<HostTensor, Error> {
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
    pub(super) fn start(&mut self) -> Result<(), Failure> {
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
    fn in_turn(
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

    fn step(&mut self, at: usize) -> Result<(), Failure> {
        let stream = self.ready[at].1;
        self.is_at(Some(self.schedule.steps[at].inst));
        self.enter(at);
        let issued = self.issue(at, stream);
        self.leave();
        issued.map_err(|failure| failure.at(self.schedule.steps[at].inst))
    }

    /// Records the program as a graph, which [`Rank::start`] then replays.
    pub(super) fn capture(&mut self) -> Result<(), Failure> {
        self.device.make_current()?;
        self.graph = None;
        self.streams[0].begin_capture()?;
        let issued = self.start();
        let graph = self.streams[0].end_capture();
        self.over();
        issued?;
        let graph = graph?;
        // A first launch must not bring anything to the device: other ranks may wait there already.
        self.streams[0].upload(&graph)?;
        self.streams[0].synchronize()?;
        self.graph = Some(graph);
        Ok(())
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
            Ready::Record { event } => stream.record(&self.events[*event])?,
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

    /// Waits for the end of what was issued. After `timeout` the communicators are aborted.
    ///
    /// It asks an event rather than the stream: asked about a stream with a recorded run that waits for
    /// another device, the driver does not answer before the run ends.
    pub(super) fn wait(&mut self, timeout: Duration) -> Result<(), Failure> {
        self.wait_in(timeout, Self::unfinished)
    }

    /// [`Rank::wait`], where `reached` says what a failure belongs to.
    fn wait_in(
        &mut self,
        timeout: Duration,
        reached: impl Fn(&Self) -> Reached,
    ) -> Result<(), Failure> {
        self.poll(timeout, reached).inspect_err(|failure| self.is_at(failure.inst))
    }

    /// Looks at the end of what was issued until it is there or something failed.
    fn poll(
        &mut self,
        timeout: Duration,
        reached: impl Fn(&Self) -> Reached,
    ) -> Result<(), Failure> {
        let deadline = Instant::now() + timeout;
        let mut looks = 0u32;
        self.is_at(None);
        self.begin();
        self.streams[0].record(&self.end)?;
        while !self.end.is_reached()? {
            looks += 1;
            if looks.is_multiple_of(64) {
                for (_, comm) in &self.comms {
                    comm.in_progress("an NCCL communication")
                        .map_err(|error| Failure::from(error).within(reached(self)))?;
                }
                if let Some(error) = self.peers.as_ref().and_then(|peers| peers.failed()) {
                    return Err(Failure::peer(error).within(reached(self)));
                }
                if Instant::now() > deadline {
                    return Err(Failure::timeout().within(reached(self)));
                }
            }
            std::thread::yield_now();
        }
        self.queued = 0;
        self.over();
        Ok(())
    }

    /// Lets others see that no run is under way.
    fn over(&self) {
        if let Some(watched) = &self.watched {
            watched.end();
        }
    }

    /// Lets others see that a run begins.
    pub(super) fn begin(&self) {
        if let Some(watched) = &self.watched {
            watched.begin();
        }
    }

    /// Lets others see where the run is.
    fn is_at(&self, inst: Option<usize>) {
        if let Some(watched) = &self.watched {
            watched.at(inst);
        }
    }

    /// The instruction of the first mark that is not reached. Marks of a recorded run are its own.
    fn unfinished(&self) -> Reached {
        if self.graph.is_some() {
            return Reached::Recorded;
        }
        if self.queued > 1 {
            return Reached::Queued;
        }
        let open = self.schedule.steps.iter().find(|step| match step.call {
            Call::Record { event } => !self.events[event].is_reached().unwrap_or(true),
            _ => false,
        });
        Reached::Inst(open.map_or(0, |step| step.inst))
    }

    /// Nobody waits for the turns of a rank whose thread panics while this is there.
    pub(super) fn guard(&self) -> Option<Guard> {
        self.turns.as_ref().map(Turns::guard)
    }

    /// Ends all communication, on the device too. Nobody waits for this rank's turns any more. A second time
    /// does nothing.
    pub(super) fn abort(&mut self) {
        if std::mem::replace(&mut self.aborted, true) {
            return;
        }
        if let Some(turns) = &self.turns {
            turns.open();
        }
        let _ = self.device.make_current();
        let together = self.together.take().map(|together| together.comm);
        let mut world = self.world.take();
        if self.lent {
            std::mem::forget(world.take());
        }
        let others = together.into_iter().chain(world);
        for comm in self.comms.drain(..).map(|(_, comm)| comm).chain(others) {
            let _ = comm.abort();
        }
        let _ = self.release();
        if let Some(watched) = &self.watched {
            watched.give_up();
        }
    }

    /// Raises all flags until nothing waits for one any more: what the streams then do with data that
    /// never came is of no consequence, but the driver could not free what a waiting stream uses. The words
    /// that kernels count in are set too, which nothing waits for. As [`Rank::wait`] it asks events.
    fn release(&mut self) -> Result<(), Error> {
        if self.flags == 0 {
            return Ok(());
        }
        let aside = Stream::new(&self.device, Priority::High)?;
        let deadline = Instant::now() + RELEASE;
        let raised: Vec<WordOp> = (0..self.flags)
            .step_by(super::messages::FLAG)
            .map(|offset| WordOp::write(self.memory.address() + offset as u64, 1))
            .collect();
        let ends = self.streams.iter().map(|_| Event::new(&self.device, false));
        let mut ends: Vec<Event> = ends.collect::<Result<_, _>>()?;
        for (stream, end) in self.streams.iter().zip(&ends) {
            stream.record(end)?;
        }
        while Instant::now() < deadline && !ends.is_empty() {
            // SAFETY: the rank's promise: flags are the first bytes of its memory, and what else uses them is what
            // is to be ended.
            unsafe { aside.words(&raised) }?;
            aside.synchronize()?;
            ends.retain(|end| !end.is_reached().unwrap_or(true));
        }
        Ok(())
    }

    /// Milliseconds of the program on the device, from an empty stream to the end of all its streams.
    pub(super) fn timed(&mut self, timeout: Duration) -> Result<f64, Failure> {
        self.start_together(timeout)?;
        self.streams[0].record(&self.timers[0])?;
        self.start()?;
        self.streams[0].record(&self.timers[1])?;
        self.wait(timeout)?;
        Ok(self.timers[1].since(&self.timers[0])?)
    }

    /// Seconds that the host spends on issuing the program once; with turns also on waiting for them.
    pub(super) fn issue_time(&mut self, timeout: Duration) -> Result<f64, Failure> {
        let start = Instant::now();
        self.start()?;
        let spent = start.elapsed().as_secs_f64();
        self.wait(timeout)?;
        Ok(spent)
    }

    /// Bytes of device memory.
    pub(super) fn bytes(&self) -> usize {
        bytes(&self.layout)
    }

    /// Whether nothing of it is under way any more, on its device and in its communicators.
    pub(super) fn is_quiet(&self) -> bool {
        let ready = |comm: &Communicator| comm.in_progress("ncclCommGetAsyncError") == Ok(false);
        self.device.make_current().is_ok()
            && self.streams.iter().all(|stream| stream.is_done() == Ok(true))
            && self.comms.iter().all(|(_, comm)| ready(comm))
    }

    /// Lets the next programs have its memory and its handle when it is dropped. It is quiet.
    pub(super) fn keep(&mut self) {
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
unsafe fn communicate(
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
