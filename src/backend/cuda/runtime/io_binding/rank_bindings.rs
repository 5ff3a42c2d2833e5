//! Inputs and outputs of a rank in memory of a caller's: binding them, moving their buffers there, and
//! the copies around a run where that cannot be.
//!
//! No buffer of an input or output has memory until it needs some: a tensor that can be used in place
//! takes the buffer's place, and only what is copied, uploaded or read back has memory of the session's
//! own. When a buffer moves, the calls that hold its address are written anew, and no others.
#![allow(unsafe_code, reason = "only the rank knows that its addresses are right")]

use crate::runtime::failure::Failure;
use crate::runtime::io_binding::binding_routes;
use crate::runtime::io_binding::binding_routes::{Clash, Home, Route};
use crate::runtime::io_binding::relocation::Touching;
use crate::runtime::io_binding::staging_copies;
use crate::runtime::io_binding::staging_copies::{Transfer, Way};
use crate::runtime::io_binding::tensor_check;
use crate::runtime::io_binding::tensor_check::{Expected, Strided};
use crate::runtime::io_binding::{DeviceTensor, Side};
use crate::runtime::rank::{Rank, Ready};
use crate::runtime::resource_cache::Pool;
use crate::sys::driver;
use crate::sys::driver::{Device, Event, Memory, Stream};
use crate::sys::module::{Function, Module};
use crate::sys::{Error, context};
use hostir::data::HostTensor;
use hostir::diag::Diag;
use hostir::diag::codes;
use hostir::lower::Prepared;
use hostir::plan::{BufferId, Plan};
use hostir_gpu::codegen::job;
use hostir_gpu::external_buffers;
use hostir_gpu::memory_layout;
use hostir_gpu::p2p::Messages;
use hostir_gpu::schedule::Call;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Room for the largest of the buffers outside: what is prepared before anything is bound works there.
pub(crate) fn spare(
    plan: &Plan,
    outside: &[bool],
    device: &Arc<Device>,
    pool: &Pool,
) -> Result<Option<Memory>, Error> {
    let sizes = outside.iter().enumerate().filter(|(_, is)| **is);
    let largest = sizes.map(|(buffer, _)| memory_layout::size(plan, buffer)).max();
    largest.map(|bytes| pool.memory(device, bytes)).transpose()
}

/// Why a run does not start.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum Trouble {
    /// What is bound cannot run; nothing has happened.
    Refused(Diag),
    /// A call failed.
    Failed(Failure),
}

impl From<Error> for Trouble {
    fn from(error: Error) -> Self {
        Trouble::Failed(error.into())
    }
}

impl From<Failure> for Trouble {
    fn from(failure: Failure) -> Self {
        Trouble::Failed(failure)
    }
}

/// A tensor that is bound, as given and as checked.
#[derive(Clone, Debug)]
struct Binding {
    given: DeviceTensor,
    checked: Strided,
}

/// A copy that only has to be issued.
#[derive(Clone, Debug)]
enum Move {
    Bytes { to: u64, from: u64, bytes: usize },
    Kernel { function: Function, grid: [u32; 3], block: [u32; 3], addresses: Vec<u64> },
}

/// The copies of one port, and what they were made for.
#[derive(Clone, Default, Debug)]
struct Moves {
    of: Option<(Strided, u64)>,
    before: Vec<Move>,
    after: Vec<Move>,
}

/// A rank's inputs and outputs.
pub(crate) struct Ports {
    /// Inputs, then outputs; so are the next three.
    homes: Vec<Option<Home>>,
    bound: Vec<Option<Binding>>,
    moves: Vec<Moves>,
    /// Whether the session's own memory holds an input.
    filled: Vec<bool>,
    /// Number of inputs.
    inputs: usize,
    /// Buffers without a place in the rank's memory.
    outside: Vec<bool>,
    touching: Touching,
    kernels: BTreeMap<String, Function>,
    /// Memory of the session's own, by buffer.
    own: Vec<Option<Memory>>,
    /// The stream that the next run goes on, if it is one of the caller's.
    pub(crate) caller: Option<Stream>,
    /// The ends of what the caller enqueued before a run, and of the run.
    marks: [Event; 2],
    changed: bool,
}

impl Ports {
    /// The ports of a rank that is prepared; gives the spare room back.
    pub(crate) fn new(rank: &mut Rank<'_>) -> Result<Self, Error> {
        let none = Messages::default();
        let messages = rank.map.as_ref().map_or(&none, |map| &map.messages);
        let outside = external_buffers::outside(rank.plan, messages);
        let homes = binding_routes::homes(rank.plan, &rank.schedule, &outside);
        for (base, _) in rank.bases.iter_mut().zip(&outside).filter(|(_, is)| **is) {
            *base = 0;
        }
        rank.spare = None;
        Ok(Self {
            bound: vec![None; homes.len()],
            moves: vec![Moves::default(); homes.len()],
            filled: vec![false; homes.len()],
            inputs: rank.plan.inputs.len(),
            touching: Touching::new(&rank.schedule, &outside),
            kernels: BTreeMap::new(),
            own: outside.iter().map(|_| None).collect(),
            caller: None,
            marks: [Event::new(&rank.device, false)?, Event::new(&rank.device, false)?],
            changed: true,
            homes,
            outside,
        })
    }

    fn number(&self, side: Side, position: usize) -> usize {
        if side == Side::Input { position } else { self.inputs + position }
    }

    fn home(&self, number: usize) -> Option<&Home> {
        self.homes.get(number).and_then(Option::as_ref)
    }

    // ---- binding ----

    /// Binds a tensor. What the rank has no part of is bound to nothing.
    ///
    /// # Safety
    /// As of [`Input::bind`](crate::session::Input::bind).
    pub(crate) unsafe fn bind(
        &mut self,
        rank: &Rank<'_>,
        prepared: &Prepared,
        (side, position): (Side, usize),
        tensor: &DeviceTensor,
    ) -> Result<(), Trouble> {
        let number = self.number(side, position);
        if self
            .bound
            .get(number)
            .is_some_and(|old| old.as_ref().is_some_and(|old| old.given == *tensor))
        {
            return Ok(());
        }
        let Some(home) = self.home(number) else { return Ok(()) };
        let expected = expected(home, prepared, rank.plan.rank);
        let checked = tensor_check::layout(&expected, tensor).map_err(Trouble::Refused)?;
        if !tensor.is_empty() {
            let about = context::about(&rank.device, checked.pointer())?;
            tensor_check::memory(&expected, &checked, &about, rank.device.ordinal())
                .map_err(Trouble::Refused)?;
        }
        self.bound[number] = Some(Binding { given: tensor.clone(), checked });
        self.filled[number] = false;
        self.changed = true;
        Ok(())
    }

    /// Goes back to memory of the session's own.
    pub(crate) fn release(&mut self, side: Side, position: usize) {
        let number = self.number(side, position);
        if let Some(bound) = self.bound.get_mut(number) {
            self.changed |= bound.take().is_some();
        }
    }

    /// Copies an input from the host to memory of the session's own. Runs under way have ended.
    pub(crate) fn upload(
        &mut self,
        rank: &mut Rank<'_>,
        prepared: &Prepared,
        position: usize,
        tensor: &HostTensor,
    ) -> Result<(), Trouble> {
        let Some(home) = self.home(position).cloned() else { return Ok(()) };
        let given = DeviceTensor::contiguous(0, tensor.dtype(), tensor.shape());
        tensor_check::layout(&expected(&home, prepared, rank.plan.rank), &given)
            .map_err(Trouble::Refused)?;
        let base = self.own_base(rank, home.view.buffer)?;
        // Memory that is new is still being filled.
        rank.streams[0].synchronize()?;
        let start = base + (home.view.offset * home.view.dtype.size()) as u64;
        // SAFETY: memory of the session's own for this buffer, whose runs have ended; the tensor was checked to
        // have the view's shape and type.
        unsafe { driver::upload(start, tensor.bytes()) }?;
        self.release(Side::Input, position);
        self.filled[position] = true;
        self.changed = true;
        Ok(())
    }

    /// Where the session itself keeps a buffer.
    fn own_base(&mut self, rank: &Rank<'_>, buffer: BufferId) -> Result<u64, Error> {
        let at = buffer.0 as usize;
        if !self.outside[at] {
            return Ok(rank.bases[at]);
        }
        if let Some(memory) = &self.own[at] {
            return Ok(memory.address());
        }
        let memory = rank.pool.memory(&rank.device, memory_layout::size(rank.plan, at))?;
        // As all memory of a rank: old results must not look like new ones.
        // SAFETY: all of memory that is new, which the session keeps.
        unsafe { rank.streams[0].set_bytes(memory.address(), 0xff, memory.bytes()) }?;
        let address = memory.address();
        self.own[at] = Some(memory);
        Ok(address)
    }

    // ---- before a run ----

    /// Moves buffers to where they are bound and makes the copies that are needed; `image` compiles. Does
    /// nothing if nothing was bound since the last time.
    pub(crate) fn settle(
        &mut self,
        rank: &mut Rank<'_>,
        prepared: &Prepared,
        image: &dyn Fn(&str) -> Result<Vec<u8>, Error>,
    ) -> Result<(), Trouble> {
        if !self.changed {
            return Ok(());
        }
        self.check_inputs(rank, prepared)?;
        let checked: Vec<Option<Strided>> =
            self.bound.iter().map(|one| Some(one.as_ref()?.checked.clone())).collect();
        let routes = binding_routes::decide(&self.homes, &checked)
            .map_err(|clash| self.clash(clash, rank, prepared))?;
        self.move_buffers(rank, &checked, &routes)?;
        for number in 0..routes.len() {
            let route = routes[number];
            match (&self.homes[number], &checked[number]) {
                (Some(home), Some(tensor)) if route == Route::Copied => {
                    let (home, tensor) = (home.clone(), tensor.clone());
                    self.make_moves(rank, number, &home, tensor, image)?;
                }
                _ => self.moves[number] = Moves::default(),
            }
        }
        self.changed = false;
        Ok(())
    }

    /// Every input has data.
    fn check_inputs(&self, rank: &Rank<'_>, prepared: &Prepared) -> Result<(), Trouble> {
        for (number, home) in self.homes.iter().enumerate().take(self.inputs) {
            let Some(home) = home else { continue };
            if self.bound[number].is_none() && !self.filled[number] && !home.view.is_empty() {
                let expected = expected(home, prepared, rank.plan.rank);
                return Err(Trouble::Refused(tensor_check::unbound(&expected)));
            }
        }
        Ok(())
    }

    fn clash(&self, Clash(a, b): Clash, rank: &Rank<'_>, prepared: &Prepared) -> Trouble {
        let name = |number: usize| {
            let home = self.home(number)?;
            let expected = expected(home, prepared, rank.plan.rank);
            Some((format!("{} {}", expected.side, expected.name), expected.span))
        };
        let unknown = || ("a tensor".to_owned(), Default::default());
        let ((first, span), (second, other)) =
            (name(a).unwrap_or_else(unknown), name(b).unwrap_or_else(unknown));
        let message = format!(
            "{first} and {second} of rank {} were bound to memory that they share, and the program writes there",
            rank.plan.rank
        );
        Trouble::Refused(
            Diag::error(codes::BOUND_STRIDES, span, message)
                .label(other, "the other one")
                .note("bind them to memory apart; an output may take the place of an input that the program only reads"),
        )
    }

    /// Gives every buffer outside its address.
    fn move_buffers(
        &mut self,
        rank: &mut Rank<'_>,
        checked: &[Option<Strided>],
        routes: &[Route],
    ) -> Result<(), Error> {
        let outside = self.outside.clone();
        let mut wanted: Vec<Option<u64>> = vec![None; outside.len()];
        for (number, home) in self.homes.iter().enumerate() {
            if let (Some(home), Some(tensor), Route::InPlace) =
                (home, &checked[number], routes[number])
            {
                wanted[home.view.buffer.0 as usize] = Some(tensor.pointer());
            }
        }
        for (at, wanted) in wanted.into_iter().enumerate().filter(|(at, _)| outside[*at]) {
            let buffer = BufferId(at as u32);
            let base = match wanted {
                Some(base) => base,
                None => self.own_base(rank, buffer)?,
            };
            if rank.rebase(buffer, base, &self.touching)? {
                rank.retire_graph();
            }
        }
        Ok(())
    }

    /// Makes a port's copies, unless they are made.
    fn make_moves(
        &mut self,
        rank: &Rank<'_>,
        number: usize,
        home: &Home,
        tensor: Strided,
        image: &dyn Fn(&str) -> Result<Vec<u8>, Error>,
    ) -> Result<(), Error> {
        let base = rank.bases[home.view.buffer.0 as usize];
        let of = Some((tensor.clone(), base));
        if self.moves[number].of == of {
            return Ok(());
        }
        let mut made = Moves { of, ..Moves::default() };
        let transfers =
            |way| staging_copies::transfers(&tensor, &home.view, base, way).map_err(Error::from);
        if home.side == Side::Input {
            made.before = self.loaded(rank, transfers(Way::In)?, image)?;
        }
        if home.written {
            made.after = self.loaded(rank, transfers(Way::Out)?, image)?;
        }
        self.moves[number] = made;
        Ok(())
    }

    /// Copies with their kernels loaded.
    fn loaded(
        &mut self,
        rank: &Rank<'_>,
        transfers: Vec<Transfer>,
        image: &dyn Fn(&str) -> Result<Vec<u8>, Error>,
    ) -> Result<Vec<Move>, Error> {
        let mut moves = Vec::new();
        for transfer in transfers {
            moves.push(match transfer {
                Transfer::Bytes { to, from, bytes } => Move::Bytes { to, from, bytes },
                Transfer::Kernel { text, grid, block, addresses } => {
                    let function = match self.kernels.get(&text) {
                        Some(function) => function.clone(),
                        None => {
                            let image = image(&text)?;
                            // SAFETY: NVRTC made it, now or before it came to the store.
                            let module = unsafe { Module::load(&rank.device, &image) }?;
                            let parameters = job::parameters(&text);
                            let function = module.function(job::ENTRY, parameters)?;
                            self.kernels.insert(text, function.clone());
                            function
                        }
                    };
                    Move::Kernel { function, grid, block, addresses }
                }
            });
        }
        Ok(moves)
    }

    // ---- the run ----

    /// Enqueues a run: behind what is on the caller's stream, which goes on behind it. The host waits for
    /// nothing.
    pub(crate) fn enqueue(&mut self, rank: &mut Rank<'_>) -> Result<(), Failure> {
        // The caller may destroy its stream when this call has returned.
        let caller = self.caller.take();
        let caller = caller.as_ref();
        let [before, after] = &self.marks;
        if let Some(caller) = caller {
            caller.record(before)?;
            rank.streams[0].wait(before)?;
        }
        for one in self.moves.iter().flat_map(|moves| &moves.before) {
            issue(one, &rank.streams[0])?;
        }
        rank.start()?;
        for one in self.moves.iter().flat_map(|moves| &moves.after) {
            issue(one, &rank.streams[0])?;
        }
        rank.streams[0].record(&rank.end)?;
        if let Some(caller) = caller {
            rank.streams[0].record(after)?;
            caller.wait(after)?;
        }
        Ok(())
    }

    /// Reports what failed since the last call, and lets go of what was only kept for it.
    pub(crate) fn look(&self, rank: &mut Rank<'_>) -> Result<(), Failure> {
        if rank.look()? {
            rank.retired.clear();
            rank.queued = 0;
        }
        Ok(())
    }

    /// An output where it lies after a run: the caller's tensor, or the session's own.
    pub(crate) fn output(
        &mut self,
        rank: &Rank<'_>,
        prepared: &Prepared,
        position: usize,
    ) -> Result<Option<DeviceTensor>, Trouble> {
        let number = self.number(Side::Output, position);
        let Some(home) = self.home(number).cloned() else { return Ok(None) };
        if let Some(Some(binding)) = self.bound.get(number) {
            return Ok(Some(binding.given.clone()));
        }
        let at = home.view.buffer.0 as usize;
        let base = match rank.bases[at] {
            0 if home.of_input => {
                let expected = expected(&home, prepared, rank.plan.rank);
                return Err(Trouble::Refused(tensor_check::unplaced(&expected)));
            }
            0 => self.own_base(rank, home.view.buffer)?,
            base => base,
        };
        let strides = home.view.dims.iter().map(|dim| dim.stride as i64);
        Ok(Some(DeviceTensor {
            pointer: base + (home.view.offset * home.view.dtype.size()) as u64,
            shape: home.view.shape(),
            strides: strides.collect(),
            dtype: home.view.dtype,
        }))
    }
}

fn issue(one: &Move, stream: &Stream) -> Result<(), Error> {
    match one {
        // SAFETY: the rank's promise: one end is a buffer of the rank, the other one a tensor of the caller's, who
        // promised for it when it was bound, and both were checked to have room for what is copied.
        Move::Bytes { to, from, bytes } => unsafe { stream.copy(*to, *from, *bytes) },
        // SAFETY: as above; the kernel was generated for these addresses.
        Move::Kernel { function, grid, block, addresses } => unsafe {
            stream.launch(function, *grid, *block, addresses)
        },
    }
}

fn expected<'a>(home: &'a Home, prepared: &'a Prepared, rank: u32) -> Expected<'a> {
    let ports = if home.side == Side::Input { &prepared.inputs } else { &prepared.outputs };
    let (name, span) = ports.get(home.position).map_or(("?", Default::default()), |port| {
        (port.name.as_str(), prepared.labels.tensor_span(port.tensor))
    });
    Expected { side: home.side, name, span, rank, view: &home.view, written: home.written }
}

impl Rank<'_> {
    /// Moves a buffer: writes the calls that hold its address anew. Whether it was somewhere else.
    fn rebase(&mut self, buffer: BufferId, base: u64, touching: &Touching) -> Result<bool, Error> {
        let old = &mut self.bases[buffer.0 as usize];
        if std::mem::replace(old, base) == base {
            return Ok(false);
        }
        for &number in touching.steps(buffer) {
            self.rewrite(number as usize)?;
        }
        Ok(true)
    }

    /// Looks the addresses of a call up again.
    fn rewrite(&mut self, number: usize) -> Result<(), Error> {
        let step = &self.schedule.steps[number];
        let ready = match (&self.ready[number].0, &step.call) {
            (Ready::Launch { addresses, .. }, Call::Launch { places, .. }) => {
                for (slot, place) in addresses.clone().zip(places) {
                    let address = self.place(place, step.stream);
                    self.addresses[slot] = address;
                }
                return Ok(());
            }
            (Ready::Communicate { calls: slots, .. }, Call::Communicate { calls, .. }) => {
                for (slot, call) in slots.clone().zip(calls) {
                    let raw = self.communication(call, step.stream)?;
                    self.raw[slot] = raw;
                }
                return Ok(());
            }
            (Ready::Copy { .. }, Call::Copy { views, bytes }) => self.copy(views, *bytes),
            (Ready::Product { operands: old, .. }, Call::Product { shape, operands }) => {
                self.product(*shape, operands, step.stream, old.workspace)
            }
            _ => return Ok(()),
        };
        self.ready[number].0 = ready;
        Ok(())
    }

    /// Whether everything that was enqueued is done; fails if something of it is known to have failed.
    fn look(&self) -> Result<bool, Failure> {
        self.look_at_others().map_err(|failure| failure.within(self.unfinished()))?;
        // As in `Rank::wait`, the event is asked and not the stream.
        Ok(self.end.is_reached()?)
    }

    /// Whether a recorded run is missing.
    pub(crate) fn lacks_graph(&self) -> bool {
        self.graph.is_none()
    }

    /// The rank's part of an output, from where the run left it.
    pub(crate) fn fetch(&self, position: usize) -> Result<Option<HostTensor>, Error> {
        let view = self.plan.outputs.get(position).and_then(Option::as_ref);
        view.map(|view| self.tensor(view)).transpose()
    }
}
