//! One rank on its device: what it holds, and the loop that issues its calls.

use super::comm::{self, Part, Team, data_type};
use super::memory::{self, Layout};
use super::schedule::{Call, Place, Schedule, Step};
use super::sys::Error;
use super::sys::blas::{Blas, Operands, Product, Shape};
use super::sys::driver::{self, Device, Event, Function, Graph, Memory, Module, Priority, Stream};
use super::{Failure, Images};
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
/// How often each is timed.
const TRIALS: usize = 3;

/// A message or collective with its addresses.
#[derive(Clone, Copy, Debug)]
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
}

/// A rank that can run.
pub(super) struct Rank<'p> {
    pub(super) plan: &'p Plan,
    // Dropped in this order: what is used before what it uses.
    graph: Option<Graph>,
    comms: Vec<(usize, Communicator)>,
    together: Option<Together>,
    products: Vec<Product>,
    modules: Vec<Module>,
    events: Vec<Event>,
    timers: Vec<Event>,
    streams: Vec<Stream>,
    blas: Option<Blas>,
    memory: Memory,
    pub(super) device: Arc<Device>,
    layout: Layout,
    schedule: Schedule,
    ready: Vec<(Ready, usize)>,
    addresses: Vec<u64>,
    raw: Vec<(Raw, DataType)>,
    /// The other ranks, if they are processes.
    pub(super) peers: Option<Arc<dyn Exchange>>,
}

impl<'p> Rank<'p> {
    /// Memory, streams, events, modules and products; not yet communicators.
    pub(super) fn new(
        plan: &'p Plan,
        mut schedule: Schedule,
        ordinal: usize,
        images: &Images,
    ) -> Result<Self, Error> {
        let device = Device::open(ordinal)?;
        let kernels = schedule.scratch.clone();
        for step in &schedule.steps {
            if matches!(step.call, Call::Product { .. }) {
                schedule.scratch[step.stream] =
                    kernels[step.stream].next_multiple_of(memory::ALIGNMENT) + WORKSPACE;
            }
        }
        let layout = memory::assign(plan, &schedule.items, &schedule.scratch);
        let memory = Memory::new(&device, layout.bytes)?;
        let own = plan.streams as usize;
        let priority = |stream| if stream < own { Priority::Normal } else { Priority::High };
        let streams = (0..schedule.streams).map(|stream| Stream::new(&device, priority(stream)));
        let streams: Vec<Stream> = streams.collect::<Result<_, _>>()?;
        let events = (0..schedule.events).map(|_| Event::new(&device, false));
        let events: Vec<Event> = events.collect::<Result<_, _>>()?;
        let timers = [Event::new(&device, true)?, Event::new(&device, true)?];
        let blas = if schedule.shapes.is_empty() { None } else { Some(Blas::new()?) };
        let mut rank = Self {
            plan,
            graph: None,
            comms: Vec::new(),
            products: Vec::new(),
            modules: Vec::new(),
            events,
            timers: timers.into(),
            streams,
            blas,
            memory,
            device,
            layout,
            schedule,
            ready: Vec::new(),
            addresses: Vec::new(),
            raw: Vec::new(),
            peers: None,
            together: None,
        };
        // Memory of an earlier program must not look like results of this one.
        rank.streams[0].set_bytes(rank.memory.address(), 0xff, rank.memory.bytes())?;
        rank.streams[0].synchronize()?;
        rank.load(images)?;
        Ok(rank)
    }

    fn load(&mut self, images: &Images) -> Result<(), Error> {
        let mut functions = Vec::new();
        for text in &self.schedule.texts {
            let image =
                images.get(text).ok_or_else(|| Error::Compile { log: "no image".into() })?;
            let module = Module::load(&self.device, image)?;
            functions.push(module.function(super::codegen::ENTRY)?);
            self.modules.push(module);
        }
        if let Some(blas) = &self.blas {
            for shape in &self.schedule.shapes {
                self.products.push(Product::new(blas, shape, WORKSPACE, CANDIDATES)?);
            }
        }
        for step in std::mem::take(&mut self.schedule.steps) {
            let ready = self.resolve(&step, &functions)?;
            self.ready.push((ready, step.stream));
            self.schedule.steps.push(step);
        }
        Ok(())
    }

    // ---- addresses ----

    fn view(&self, view: &View) -> u64 {
        self.element(view, 0)
    }

    fn element(&self, view: &View, index: usize) -> u64 {
        let offset = self.layout.offsets[view.buffer.0 as usize].unwrap_or(0);
        let bytes = offset + (view.offset + index) * view.dtype.size();
        self.memory.address() + bytes as u64
    }

    fn part(&self, part: &Part) -> u64 {
        self.element(&part.view, part.start)
    }

    fn scratch(&self, stream: usize, bytes: usize) -> u64 {
        self.memory.address() + (self.layout.scratch.get(stream).unwrap_or(&0) + bytes) as u64
    }

    fn resolve(&mut self, step: &Step, functions: &[Function]) -> Result<Ready, Error> {
        Ok(match &step.call {
            Call::Launch { text, grid, block, places } => {
                let start = self.addresses.len();
                for place in places {
                    let address = match place {
                        Place::View(view) => self.view(view),
                        Place::Scratch(bytes) => self.scratch(step.stream, *bytes),
                    };
                    self.addresses.push(address);
                }
                let addresses = start..self.addresses.len();
                Ready::Launch { function: functions[*text], grid: *grid, block: *block, addresses }
            }
            Call::Copy { views, bytes } => {
                let [from, to] = views.each_ref().map(|view| self.view(view));
                Ready::Copy { to, from, bytes: *bytes }
            }
            Call::Product { shape, operands } => {
                let at = |index: usize| operands[index].as_ref().map_or(0, |view| self.view(view));
                let end = self.schedule.scratch[step.stream];
                let workspace = (self.scratch(step.stream, end - WORKSPACE), WORKSPACE);
                let operands = Operands { a: at(0), b: at(1), bias: at(2), d: at(3), workspace };
                Ready::Product { product: *shape, operands }
            }
            Call::Record { event } => Ready::Record { event: *event },
            Call::Wait { event } => Ready::Wait { event: *event },
            Call::Communicate { entry, calls } => {
                let place = self.schedule.members.iter().position(|(other, _)| other == entry);
                let start = self.raw.len();
                for call in calls {
                    let raw = self.communication(call)?;
                    self.raw.push(raw);
                }
                Ready::Communicate { comm: place.unwrap_or(0), calls: start..self.raw.len() }
            }
        })
    }

    fn communication(&self, call: &comm::Call) -> Result<(Raw, DataType), Error> {
        use comm::Call as C;
        let (raw, view) = match call {
            C::AllGather { send, recv } => {
                let (from, to) = (self.part(send), self.part(recv));
                (Raw::AllGather { send: from, recv: to, count: send.count }, &send.view)
            }
            C::AllReduce { send, recv, op } => {
                let (from, to) = (self.part(send), self.part(recv));
                (Raw::AllReduce { send: from, recv: to, count: send.count, op: *op }, &send.view)
            }
            C::Reduce { send, recv, op, root } => {
                let from = self.part(send);
                let to = recv.as_ref().map_or(from, |recv| self.part(recv));
                let raw =
                    Raw::Reduce { send: from, recv: to, count: send.count, op: *op, root: *root };
                (raw, &send.view)
            }
            C::ReduceScatter { send, recv, op } => {
                let (from, to) = (self.part(send), self.part(recv));
                (
                    Raw::ReduceScatter { send: from, recv: to, count: recv.count, op: *op },
                    &send.view,
                )
            }
            C::Broadcast { send, recv, root } => {
                let Some(any) = send.as_ref().or(recv.as_ref()) else {
                    return Err(Error::Compile { log: "a Broadcast without data".into() });
                };
                let at = |part: &Option<Part>| {
                    part.as_ref().map_or_else(|| self.part(any), |part| self.part(part))
                };
                let raw = Raw::Broadcast {
                    send: at(send),
                    recv: at(recv),
                    count: any.count,
                    root: *root,
                };
                (raw, &any.view)
            }
            C::Send { part, peer } => {
                (Raw::Send { from: self.part(part), count: part.count, peer: *peer }, &part.view)
            }
            C::Recv { part, peer } => {
                (Raw::Recv { to: self.part(part), count: part.count, peer: *peer }, &part.view)
            }
            C::Copy { send, recv } => {
                let bytes = send.count * send.view.dtype.size();
                let raw = Raw::Copy { to: self.part(recv), from: self.part(send), bytes };
                return Ok((raw, DataType::Uint8));
            }
        };
        let dtype = data_type(view.dtype).map_err(|log| Error::Compile { log })?;
        Ok((raw, dtype))
    }

    // ---- preparation ----

    /// Joins the communicators: the world of all ranks, and from it each team that has members to talk to.
    pub(super) fn connect(
        &mut self,
        library: &Arc<nccl_rs::Library>,
        id: nccl_rs::UniqueId,
        world: u32,
        teams: &[(String, Team)],
        deadline: Instant,
    ) -> Result<(), nccl_rs::Error> {
        self.device.make_current().map_err(|error| nccl_rs::Error::Call {
            call: "cuCtxSetCurrent",
            text: error.to_string(),
        })?;
        let rank = self.plan.rank;
        let all = Communicator::join(library, id, world, rank, deadline)?;
        let config = nccl_rs::Config { blocking: true };
        for (entry, (_, team)) in teams.iter().enumerate() {
            if team.ranks.len() < 2 {
                continue;
            }
            let place = team.ranks.iter().position(|&other| other == rank);
            let (color, key) = (place.map(|_| 0), place.unwrap_or(0) as u32);
            let size = team.ranks.len() as u32;
            if let Some(comm) = all.split(color, key, size, config, deadline)? {
                self.comms.push((entry, comm));
            }
        }
        self.join_together(&all, deadline)?;
        // Members of teams of one have no communicator and make no calls of NCCL.
        self.comms.sort_by_key(|(entry, _)| {
            self.schedule.members.iter().position(|(other, _)| other == entry)
        });
        Ok(())
    }

    /// Carries out every different communication once, so that the run makes no connection.
    pub(super) fn rehearse(&mut self) -> Result<(), Failure> {
        self.device.make_current()?;
        let mut seen: Vec<(usize, String)> = Vec::new();
        for at in 0..self.ready.len() {
            let (Ready::Communicate { comm, calls }, stream) = self.ready[at].clone() else {
                continue;
            };
            let shape = |call: &(Raw, DataType)| match call.0 {
                Raw::Send { peer, .. } => format!("send {peer}"),
                Raw::Recv { peer, .. } => format!("recv {peer}"),
                Raw::AllGather { count, .. } => format!("gather {count} {:?}", call.1),
                Raw::AllReduce { count, op, .. } => format!("all {op:?} {count} {:?}", call.1),
                Raw::Reduce { count, op, root, .. } => {
                    format!("{root} {op:?} {count} {:?}", call.1)
                }
                Raw::ReduceScatter { count, op, .. } => format!("part {op:?} {count} {:?}", call.1),
                Raw::Broadcast { count, root, .. } => format!("{root} {count} {:?}", call.1),
                Raw::Copy { .. } => "copy".to_owned(),
            };
            let shape: Vec<String> = self.raw[calls].iter().map(shape).collect();
            let key = (comm, shape.join(";"));
            if !seen.contains(&key) {
                seen.push(key);
                self.issue(at, stream)?;
            }
        }
        Ok(())
    }

    /// Times the algorithms of the products and keeps the fastest of each.
    pub(super) fn tune(&mut self) -> Result<(), Error> {
        self.device.make_current()?;
        let Some(blas) = &self.blas else { return Ok(()) };
        let stream = &self.streams[0];
        for index in 0..self.products.len() {
            let operands = self.ready.iter().find_map(|(call, _)| match call {
                Ready::Product { product, operands } if *product == index => Some(*operands),
                _ => None,
            });
            let Some(operands) = operands else { continue };
            let mut best = (f64::INFINITY, 0);
            for choice in 0..self.products[index].choices() {
                self.products[index].chosen = choice;
                let mut least = f64::INFINITY;
                for _ in 0..=TRIALS {
                    stream.record(&self.timers[0])?;
                    self.products[index].run(blas, &operands, stream)?;
                    stream.record(&self.timers[1])?;
                    stream.synchronize()?;
                    least = least.min(self.timers[1].since(&self.timers[0])?);
                }
                if least < best.0 {
                    best = (least, choice);
                }
            }
            self.products[index].chosen = best.1;
        }
        Ok(())
    }

    /// What was chosen for each product.
    pub(super) fn choices(&self) -> impl Iterator<Item = (&Shape, usize)> {
        self.schedule.shapes.iter().zip(self.products.iter().map(|product| product.chosen))
    }

    /// Chooses as others did.
    pub(super) fn follow(&mut self, choices: &[(Shape, usize)]) {
        for (shape, product) in self.schedule.shapes.iter().zip(&mut self.products) {
            if let Some((_, choice)) = choices.iter().find(|(other, _)| other == shape) {
                product.chosen = (*choice).min(product.choices() - 1);
            }
        }
    }

    // ---- data ----

    /// Copies inputs to the device.
    pub(super) fn upload(&self, inputs: &[HostTensor]) -> Result<(), Error> {
        self.device.make_current()?;
        for (view, tensor) in self.plan.inputs.iter().zip(inputs) {
            if let Some(view) = view {
                driver::upload(self.view(view), tensor.bytes())?;
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
            driver::download(tensor.bytes_mut(), self.view(view))?;
            return Ok(tensor);
        }
        let size = view.dtype.size();
        let last: usize = view.dims.iter().map(|dim| (dim.extent - 1) * dim.stride).sum();
        let mut range = vec![0; (last + 1) * size];
        driver::download(&mut range, self.view(view))?;
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
        if let Some(graph) = &self.graph {
            return Ok(self.streams[0].replay(graph)?);
        }
        for at in 0..self.ready.len() {
            let stream = self.ready[at].1;
            self.issue(at, stream).map_err(|failure| failure.at(self.schedule.steps[at].inst))?;
        }
        Ok(())
    }

    /// Records the program as a graph, which [`Rank::start`] then replays.
    pub(super) fn capture(&mut self) -> Result<(), Failure> {
        self.device.make_current()?;
        self.graph = None;
        self.streams[0].begin_capture()?;
        let issued = self.start();
        let graph = self.streams[0].end_capture();
        issued?;
        self.graph = Some(graph?);
        Ok(())
    }

    fn issue(&mut self, at: usize, stream: usize) -> Result<(), Failure> {
        let stream = &self.streams[stream];
        match &self.ready[at].0 {
            Ready::Launch { function, grid, block, addresses } => {
                stream.launch(*function, *grid, *block, &self.addresses[addresses.clone()])?;
            }
            Ready::Copy { to, from, bytes } => stream.copy(*to, *from, *bytes)?,
            Ready::Product { product, operands } => {
                if let Some(blas) = &self.blas {
                    self.products[*product].run(blas, operands, stream)?;
                }
            }
            Ready::Record { event } => stream.record(&self.events[*event])?,
            Ready::Wait { event } => stream.wait(&self.events[*event])?,
            Ready::Communicate { comm, calls } => {
                let entry = self.schedule.members[*comm].0;
                let found = self.comms.iter_mut().find(|(other, _)| *other == entry);
                communicate(found.map(|(_, comm)| comm), &self.raw[calls.clone()], stream)?;
            }
        }
        Ok(())
    }

    /// Makes stream 0 wait for all others.
    pub(super) fn drain(&mut self) -> Result<(), Error> {
        for stream in &self.streams[1..] {
            stream.record(&self.timers[0])?;
            self.streams[0].wait(&self.timers[0])?;
        }
        Ok(())
    }

    /// Waits for the end of what was issued. After `timeout` the communicators are aborted.
    pub(super) fn wait(&mut self, timeout: Duration) -> Result<(), Failure> {
        let deadline = Instant::now() + timeout;
        let mut looks = 0u32;
        while !self.streams[0].is_done()? {
            looks += 1;
            if looks.is_multiple_of(64) {
                for (_, comm) in &self.comms {
                    comm.in_progress("an NCCL communication")
                        .map_err(|error| Failure::from(error).at(self.unfinished()))?;
                }
                if let Some(error) = self.peers.as_ref().and_then(|peers| peers.failed()) {
                    return Err(Failure::peer(error).at(self.unfinished()));
                }
                if Instant::now() > deadline {
                    return Err(Failure::timeout().at(self.unfinished()));
                }
            }
            std::thread::yield_now();
        }
        Ok(())
    }

    /// The instruction of the first mark that is not reached.
    fn unfinished(&self) -> usize {
        let open = self.schedule.steps.iter().find(|step| match step.call {
            Call::Record { event } => !self.events[event].is_reached().unwrap_or(true),
            _ => false,
        });
        open.map_or(0, |step| step.inst)
    }

    /// Ends all communication, on the device too.
    pub(super) fn abort(&mut self) {
        let _ = self.device.make_current();
        let together = self.together.take().map(|together| together.comm);
        for comm in self.comms.drain(..).map(|(_, comm)| comm).chain(together) {
            let _ = comm.abort();
        }
    }

    /// Milliseconds of the program on the device, from an empty stream to the end of all its streams.
    pub(super) fn timed(&mut self, timeout: Duration) -> Result<f64, Failure> {
        self.start_together()?;
        self.streams[0].record(&self.timers[0])?;
        self.start()?;
        self.streams[0].record(&self.timers[1])?;
        self.wait(timeout)?;
        Ok(self.timers[1].since(&self.timers[0])?)
    }

    /// Seconds that the host spends on issuing the program once.
    pub(super) fn issue_time(&mut self, timeout: Duration) -> Result<f64, Failure> {
        let start = Instant::now();
        self.start()?;
        let spent = start.elapsed().as_secs_f64();
        self.wait(timeout)?;
        Ok(spent)
    }

    /// Bytes of device memory.
    pub(super) fn bytes(&self) -> usize {
        self.memory.bytes()
    }
}

/// Makes NCCL's calls, as a group if there are several.
fn communicate(
    comm: Option<&mut Communicator>,
    calls: &[(Raw, DataType)],
    stream: &Stream,
) -> Result<(), Failure> {
    for (raw, _) in calls {
        if let Raw::Copy { to, from, bytes } = raw {
            stream.copy(*to, *from, *bytes)?;
        }
    }
    let Some(comm) = comm else { return Ok(()) };
    let library = comm.library().clone();
    if calls.len() > 1 {
        library.group_start()?;
    }
    let result = calls.iter().try_for_each(|(raw, dtype)| one(comm, *raw, *dtype, stream.nccl()));
    if calls.len() > 1 {
        library.group_end()?;
    }
    Ok(result?)
}

fn one(
    comm: &mut Communicator,
    raw: Raw,
    dtype: DataType,
    stream: nccl_rs::Stream,
) -> Result<(), nccl_rs::Error> {
    match raw {
        Raw::AllGather { send, recv, count } => comm.all_gather(send, recv, count, dtype, stream),
        Raw::AllReduce { send, recv, count, op } => {
            comm.all_reduce(send, recv, count, dtype, op, stream)
        }
        Raw::Reduce { send, recv, count, op, root } => {
            comm.reduce(send, recv, count, dtype, op, root, stream)
        }
        Raw::ReduceScatter { send, recv, count, op } => {
            comm.reduce_scatter(send, recv, count, dtype, op, stream)
        }
        Raw::Broadcast { send, recv, count, root } => {
            comm.broadcast(send, recv, count, dtype, root, stream)
        }
        Raw::Send { from, count, peer } => comm.send(from, count, dtype, peer, stream),
        Raw::Recv { to, count, peer } => comm.recv(to, count, dtype, peer, stream),
        Raw::Copy { .. } => Ok(()),
    }
}
