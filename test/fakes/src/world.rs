//! The state of all devices, and the scheduler, which is as late and as unfair as it may be.
//!
//! Nothing runs by itself: a call that waits, or asks whether something has ended, carries operations out until it
//! is answered. Which one of those that can go on is next is drawn by lot, and for a while always in favour of the
//! same streams, so that others fall behind as far as events, flags and communicators let them. An order that a
//! program forgets to ask for is therefore not kept. `HIR_FAKE_SEED` chooses another draw.

use crate::capture::{RecordedGraph, UserObject};
use crate::communicators::CommunicatorTable;
use crate::compute;
use crate::memory::DeviceMemory;
use crate::module::LoadedKernel;
use crate::note::KernelMeaning;
use crate::task::{DeviceWork, StreamTask};
use crate::user_kernel::{HostKernel, LaunchShape};
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

/// Operations that a question carries out at most before it is answered.
const STEPS: usize = 4;
/// The time that a waiting thread sleeps between two looks.
const PAUSE: Duration = Duration::from_micros(30);
/// After so long a wait without an end is told.
const STUCK: Duration = Duration::from_secs(20);

/// A stream.
#[derive(Default)]
pub(crate) struct StreamQueue {
    pub(crate) device: usize,
    pub(crate) tasks: VecDeque<StreamTask>,
    /// The graph that its calls are recorded in.
    pub(crate) capture: Option<u64>,
    /// The recorded operations that the next one comes after.
    pub(crate) frontier: Vec<usize>,
    /// Parameters of the first launches of a job.
    pub(crate) params: Vec<u64>,
    pub(crate) destroyed: bool,
}

/// An event.
#[derive(Default)]
pub(crate) struct EventState {
    pub(crate) recorded: u64,
    pub(crate) reached: u64,
    pub(crate) time: Option<Instant>,
    /// The graph and the operations that it marks.
    pub(crate) captured: Option<(u64, Vec<usize>)>,
    pub(crate) destroyed: bool,
}

/// Everything.
pub(crate) struct FakeWorld {
    pub(crate) devices: usize,
    pub(crate) memory: DeviceMemory,
    pub(crate) streams: BTreeMap<u64, StreamQueue>,
    pub(crate) events: BTreeMap<u64, EventState>,
    pub(crate) graphs: BTreeMap<u64, RecordedGraph>,
    pub(crate) objects: BTreeMap<u64, Arc<UserObject>>,
    pub(crate) kernels: BTreeMap<u64, Arc<LoadedKernel>>,
    /// By kernel: the bytes of dynamic shared memory that it may have.
    pub(crate) permitted: BTreeMap<u64, u32>,
    pub(crate) communicators: CommunicatorTable,
    /// Pairs of devices of which the first one reaches the other one's memory.
    pub(crate) peers: BTreeSet<(usize, usize)>,
    /// The error that came up; every call fails from then on.
    pub(crate) broken: Option<i32>,
    handles: u64,
    random: fastrand::Rng,
    /// Operations until other streams are favoured.
    luck: u32,
    favour: u64,
}

/// Below it are the default streams of devices.
const FIRST_HANDLE: u64 = 0x1000;

/// `CUresult`.
pub(crate) const INVALID_VALUE: i32 = 1;
pub(crate) const INVALID_HANDLE: i32 = 400;
pub(crate) const NOT_READY: i32 = 600;
const LAUNCH_FAILED: i32 = 719;

/// The state, which one thread at a time has.
pub(crate) fn world() -> MutexGuard<'static, FakeWorld> {
    static WORLD: OnceLock<Mutex<FakeWorld>> = OnceLock::new();
    let world = WORLD.get_or_init(|| Mutex::new(FakeWorld::new()));
    world.lock().unwrap_or_else(PoisonError::into_inner)
}

fn number_from_environment(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

impl FakeWorld {
    fn new() -> Self {
        Self {
            devices: number_from_environment("HIR_FAKE_DEVICES").unwrap_or(8) as usize,
            memory: DeviceMemory::default(),
            streams: BTreeMap::new(),
            events: BTreeMap::new(),
            graphs: BTreeMap::new(),
            objects: BTreeMap::new(),
            kernels: BTreeMap::new(),
            permitted: BTreeMap::new(),
            communicators: CommunicatorTable::new(std::env::var_os("HIR_FAKE_NCCL").map(PathBuf::from)),
            peers: BTreeSet::new(),
            broken: None,
            handles: FIRST_HANDLE,
            random: fastrand::Rng::with_seed(number_from_environment("HIR_FAKE_SEED").unwrap_or(0)),
            luck: 0,
            favour: 0,
        }
    }

    /// A handle that nothing else has.
    pub(crate) fn handle(&mut self) -> u64 {
        self.handles += 16;
        self.handles
    }

    /// Tells people what went wrong, and fails every call from here on.
    #[allow(clippy::print_stderr, reason = "misuse has to be seen")]
    pub(crate) fn report_failure(&mut self, text: &str) -> i32 {
        eprintln!("fake CUDA: {text}");
        *self.broken.get_or_insert(LAUNCH_FAILED)
    }

    // ---- streams and events ----

    /// A stream by its handle; null is the default stream of a device.
    pub(crate) fn stream(&mut self, handle: u64, device: usize) -> Result<&mut StreamQueue, i32> {
        if handle == 0 {
            let own = self.streams.entry(device as u64 + 1).or_default();
            own.device = device;
            return Ok(own);
        }
        let stream = self.streams.get_mut(&handle).filter(|stream| !stream.destroyed);
        stream.ok_or(INVALID_HANDLE)
    }

    /// Ends a stream when its work is done.
    pub(crate) fn destroy_stream(&mut self, handle: u64) -> i32 {
        let Some(stream) = self.streams.get_mut(&handle) else { return INVALID_HANDLE };
        stream.destroyed = true;
        if stream.tasks.is_empty() {
            self.streams.remove(&handle);
        }
        // Nobody is left who could be misled by what went wrong.
        if self.streams.iter().all(|(id, stream)| *id < FIRST_HANDLE || stream.destroyed) {
            self.broken = None;
            self.streams.clear();
        }
        0
    }

    /// An event by its handle.
    pub(crate) fn event(&mut self, handle: u64) -> Result<&mut EventState, i32> {
        self.events.get_mut(&handle).filter(|event| !event.destroyed).ok_or(INVALID_HANDLE)
    }

    /// Ends an event; streams that wait for it keep what they need.
    pub(crate) fn destroy_event(&mut self, handle: u64) -> i32 {
        match self.event(handle) {
            Ok(event) => {
                event.destroyed = true;
                let awaited = self.streams.values().any(|stream| !stream.tasks.is_empty());
                if !awaited {
                    self.events.retain(|_, event| !event.destroyed);
                }
                0
            }
            Err(status) => status,
        }
    }

    // ---- the scheduler ----

    /// The operations that can go on.
    fn runnable_nodes(&mut self) -> Vec<(u64, usize)> {
        let heads = self.streams.iter().filter_map(|(id, stream)| Some((*id, stream.tasks.front()?)));
        let open = heads.flat_map(|(id, task)| task.open_nodes().map(move |node| (id, node)));
        let waits: Vec<(u64, usize, DeviceWork)> =
            open.map(|(id, node)| (id, node, self.streams[&id].tasks[0].nodes[node].work.clone())).collect();
        let mut ready = Vec::new();
        for (id, node, work) in waits {
            if self.is_ready(&work) {
                ready.push((id, node));
            }
        }
        ready
    }

    fn is_ready(&mut self, work: &DeviceWork) -> bool {
        match work {
            DeviceWork::Await { event, ticket } => self.events.get(event).is_none_or(|event| event.reached >= *ticket),
            DeviceWork::WaitWord { at, value, other } => match self.memory.read_word(*at) {
                Ok(word) => (word == *value) != *other,
                // Carried out, it fails.
                Err(_) => true,
            },
            DeviceWork::Meet { comm, turn } => {
                let FakeWorld { communicators, memory, .. } = self;
                match communicators.is_over(memory, *comm, *turn) {
                    Ok(over) => over,
                    Err(text) => {
                        self.report_failure(&text);
                        false
                    }
                }
            }
            _ => true,
        }
    }

    /// Carries out one operation; whether there was one that could go on.
    pub(crate) fn step_once(&mut self) -> bool {
        let ready = self.runnable_nodes();
        if ready.is_empty() || self.broken.is_some() {
            return false;
        }
        if self.luck == 0 {
            self.luck = self.random.u32(1..40);
            self.favour = self.random.u64(..);
        }
        self.luck -= 1;
        let favour = self.favour;
        let lot = |id: u64| (id ^ favour).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 7;
        let best = ready.iter().map(|(id, _)| *id).max_by_key(|id| lot(*id)).unwrap_or(0);
        let nodes: Vec<usize> = ready.iter().filter(|(id, _)| *id == best).map(|(_, node)| *node).collect();
        let node = nodes[self.random.usize(..nodes.len())];
        self.carry_out(best, node);
        true
    }

    /// Carries out a node of a stream's first task.
    fn carry_out(&mut self, id: u64, node: usize) {
        let Some(stream) = self.streams.get(&id) else { return };
        let (device, work) = (stream.device, stream.tasks[0].nodes[node].work.clone());
        if let Err(text) = self.execute_work(device, &work) {
            self.report_failure(&text);
            return;
        }
        let Some(stream) = self.streams.get_mut(&id) else { return };
        if let Some(task) = stream.tasks.front_mut() {
            task.complete_node(node);
            if task.left == 0 {
                stream.tasks.pop_front();
            }
        }
        if stream.destroyed && stream.tasks.is_empty() {
            self.streams.remove(&id);
        }
    }

    fn execute_work(&mut self, device: usize, work: &DeviceWork) -> Result<(), String> {
        match work {
            DeviceWork::Nothing | DeviceWork::Await { .. } | DeviceWork::Meet { .. } => Ok(()),
            DeviceWork::Mark { event, ticket } => {
                if let Some(event) = self.events.get_mut(event) {
                    event.reached = event.reached.max(*ticket);
                    event.time = Some(Instant::now());
                }
                Ok(())
            }
            DeviceWork::WriteWord { at, value } => {
                self.check_reach(device, *at)?;
                self.memory.write_bytes(*at, &value.to_le_bytes())
            }
            DeviceWork::WaitWord { at, .. } => {
                self.check_reach(device, *at)?;
                self.memory.read_word(*at).map(|_| ())
            }
            DeviceWork::Copy { to, from, bytes } => self.copy(*to, *from, *bytes),
            DeviceWork::Fill { to, byte, bytes } => self.memory.fill_bytes(*to, *byte, *bytes),
            DeviceWork::Compute { meaning, params } => self.compute(device, meaning, params),
            DeviceWork::UserKernel { kernel, params, shape } => self.run_user_kernel(device, kernel, params, *shape),
            DeviceWork::Arrive { comm, calls, turn } => {
                let FakeWorld { communicators, memory, .. } = self;
                communicators.arrive(memory, *comm, calls, *turn)
            }
        }
    }

    /// Fails unless a device reaches the memory at an address.
    fn check_reach(&self, device: usize, address: u64) -> Result<(), String> {
        match self.memory.find_memory(address) {
            Some(found)
                if found.device != device && !found.is_opened && !self.peers.contains(&(device, found.device)) =>
            {
                Err(format!("device {device} was not enabled to reach device {}", found.device))
            }
            _ => Ok(()),
        }
    }

    /// Copies between devices and the host.
    pub(crate) fn copy(&mut self, to: u64, from: u64, bytes: usize) -> Result<(), String> {
        let content = match self.memory.is_device(from) {
            true => self.memory.read_bytes(from, bytes)?,
            false => crate::abi::read_host(from, bytes),
        };
        match self.memory.is_device(to) {
            true => self.memory.write_bytes(to, &content),
            false => {
                crate::abi::write_host(to, &content);
                Ok(())
            }
        }
    }

    /// Runs a kernel of a user's on copies of the allocations that its parameters point into, and writes back what it has
    /// changed: other processes may write elsewhere in the same allocation meanwhile.
    fn run_user_kernel(
        &mut self,
        device: usize,
        kernel: &HostKernel,
        params: &[u64],
        shape: LaunchShape,
    ) -> Result<(), String> {
        let mut copies: BTreeMap<u64, (Vec<u8>, Vec<u128>)> = BTreeMap::new();
        let mut words = params.to_vec();
        for word in &mut words {
            if !self.memory.is_device(*word) {
                continue;
            }
            self.check_reach(device, *word)?;
            let found = self.memory.find_memory(*word).ok_or("a parameter points to no memory")?;
            let copy = match copies.entry(found.start) {
                Entry::Occupied(copied) => copied.into_mut(),
                Entry::Vacant(missing) => {
                    let bytes = self.memory.read_bytes(found.start, found.bytes as usize)?;
                    let mut copy = vec![0u128; bytes.len().div_ceil(size_of::<u128>())];
                    crate::abi::write_host(copy.as_mut_ptr() as u64, &bytes);
                    missing.insert((bytes, copy))
                }
            };
            *word = copy.1.as_ptr() as u64 + (*word - found.start);
        }
        kernel.launch(&words, shape)?;
        for (start, (before, copy)) in copies {
            let after = crate::abi::read_host(copy.as_ptr() as u64, before.len());
            let mut rest = 0;
            while let Some(first) = (rest..after.len()).find(|&at| after[at] != before[at]) {
                let end = (first..after.len()).find(|&at| after[at] == before[at]).unwrap_or(after.len());
                self.memory.write_bytes(start + first as u64, &after[first..end])?;
                rest = end;
            }
        }
        Ok(())
    }

    fn compute(&mut self, device: usize, meaning: &KernelMeaning, params: &[u64]) -> Result<(), String> {
        let accesses = compute::memory_accesses(meaning);
        let mut contents = Vec::new();
        for access in &accesses {
            let address = params.get(access.param).copied().unwrap_or(0);
            let bytes = compute::range_bytes(&access.view);
            if bytes > 0 {
                self.check_reach(device, address)?;
            }
            contents.push(self.memory.read_bytes(address, bytes)?);
        }
        let results = compute::carry_out(meaning, &contents)?;
        let written = accesses.iter().filter(|access| access.writes);
        for (access, bytes) in written.zip(results) {
            self.memory.write_bytes(params[access.param], &bytes)?;
        }
        Ok(())
    }
}

// ---- waiting ----

/// Carries out a few operations, then answers.
pub(crate) fn ask_devices(answer: impl Fn(&mut FakeWorld) -> Result<bool, i32>) -> i32 {
    let mut world = world();
    for _ in 0..STEPS {
        match (world.broken, answer(&mut world)) {
            (Some(status), _) | (None, Err(status)) => return status,
            (None, Ok(true)) => return 0,
            (None, Ok(false)) => {}
        }
        if !world.step_once() {
            drop(world);
            std::thread::sleep(PAUSE);
            return NOT_READY;
        }
    }
    NOT_READY
}

/// Carries out operations until something is over.
pub(crate) fn wait_for_devices(over: impl Fn(&mut FakeWorld) -> Result<bool, i32>) -> i32 {
    let start = Instant::now();
    let mut told = false;
    loop {
        let status = ask_devices(&over);
        if status != NOT_READY {
            return status;
        }
        if !told && start.elapsed() > STUCK {
            told = true;
            world().tell_stuck();
        }
    }
}

impl FakeWorld {
    /// Tells people what every stream waits for.
    #[allow(clippy::print_stderr, reason = "a hang has to be seen")]
    pub(crate) fn tell_stuck(&mut self) {
        eprintln!("fake CUDA: somebody waits for {} s, while streams stand at:", STUCK.as_secs());
        for (id, stream) in &self.streams {
            if let Some(task) = stream.tasks.front() {
                let open: Vec<_> = task.open_nodes().map(|node| &task.nodes[node].work).collect();
                eprintln!("  stream {id:#x} of device {}: {open:?}", stream.device);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The value that a second stream copies of memory that a first one fills, with or without an event between them.
    fn copied(seed: u64, ordered: bool) -> u8 {
        let mut world = FakeWorld::new();
        world.random = fastrand::Rng::with_seed(seed);
        let (from, to) = (world.memory.allocate_memory(0, 1), world.memory.allocate_memory(0, 1));
        let (first, second, event) = (world.handle(), world.handle(), world.handle());
        world.events.insert(event, EventState::default());
        for stream in [first, second] {
            world.streams.insert(stream, StreamQueue::default());
        }
        let fill = DeviceWork::Fill { to: from, byte: 7, bytes: 1 };
        assert_eq!(world.enqueue_task(first, 0, StreamTask::in_order([fill])), 0);
        assert_eq!(world.record(event, first, 0, false), 0);
        if ordered {
            assert_eq!(world.wait_event(second, event, 0), 0);
        }
        let copy = DeviceWork::Copy { to, from, bytes: 1 };
        assert_eq!(world.enqueue_task(second, 0, StreamTask::in_order([copy])), 0);
        while world.step_once() {}
        assert_eq!(world.broken, None);
        world.memory.read_bytes(to, 1).unwrap()[0]
    }

    #[test]
    fn an_order_that_is_not_asked_for_is_not_kept() {
        let found: BTreeSet<u8> = (0..64).map(|seed| copied(seed, false)).collect();
        assert_eq!(found, BTreeSet::from([7, 0xff]));
        let found: BTreeSet<u8> = (0..64).map(|seed| copied(seed, true)).collect();
        assert_eq!(found, BTreeSet::from([7]));
    }

    #[test]
    fn recorded_operations_keep_their_order() {
        let mut world = FakeWorld::new();
        let at = world.memory.allocate_memory(0, 4);
        let (first, second, event) = (world.handle(), world.handle(), world.handle());
        world.events.insert(event, EventState::default());
        for stream in [first, second] {
            world.streams.insert(stream, StreamQueue::default());
        }
        assert_eq!(world.begin_capture(first, 0, 1), 0);
        let write = |value| StreamTask::in_order([DeviceWork::WriteWord { at, value }]);
        assert_eq!(world.enqueue_task(first, 0, write(1)), 0);
        assert_eq!(world.record(event, first, 0, false), 0);
        assert_eq!(world.wait_event(second, event, 0), 0);
        assert_eq!(world.enqueue_task(second, 0, write(2)), 0);
        // The second stream is not joined.
        assert!(world.end_capture(first).is_err());
        world.broken = None;
        assert!(!world.step_once(), "what is recorded does not run");
    }

    #[test]
    fn misuse_is_an_error() {
        let mut world = FakeWorld::new();
        let at = world.memory.allocate_memory(1, 4);
        let stream = world.handle();
        world.streams.insert(stream, StreamQueue::default());
        let unreached = DeviceWork::WriteWord { at, value: 1 };
        assert_eq!(world.enqueue_task(stream, 0, StreamTask::in_order([unreached])), 0);
        world.step_once();
        assert!(world.broken.is_some());
        assert_ne!(world.enqueue_task(stream, 0, StreamTask::in_order([DeviceWork::Nothing])), 0);
        assert_eq!(world.destroy_stream(stream), 0);
        assert_eq!(world.broken, None);
        assert_eq!(world.enqueue_task(stream, 0, StreamTask::in_order([DeviceWork::Nothing])), INVALID_HANDLE);
        assert_eq!(world.record(16, stream, 0, false), INVALID_HANDLE);
    }
}
