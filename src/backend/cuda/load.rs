//! The prepare phase, and runs of all ranks.

pub(super) mod bound;
mod connect;
mod each;
mod traced;
mod tune;

use super::alarm::Alarm;
use super::bind::route;
use super::bounds;
use super::comm::{self, Team};
use super::gate::Turns;
use super::joint::{Joint, Placed};
use super::memory::Layout;
use super::messages::{self, Messages};
use super::peers;
use super::pool::{Link, Pool};
use super::rank::{self, Rank};
use super::room::Room;
use super::schedule::{self, Refusal, Schedule, Settings, order};
use super::sys::driver::{self, Device};
use super::sys::image::is_whole;
use super::sys::nvtx::Nvtx;
use super::sys::{Error, blas, nvrtc};
use super::teardown::{self, Belongings};
use super::{Failure, Images, Options, Reached};
use crate::backend::{RunResult, Stats, cpu};
use crate::data::HostTensor;
use crate::diag::Diag;
use crate::diag::codes;
use crate::plan::{InstKind, Origin, Plan, Prepared};
use sha2::{Digest, Sha256};
use std::sync::{Arc, Mutex};
use std::thread::ScopedJoinHandle;
use std::time::{Duration, Instant};

/// A program on its devices, ready to run any number of times.
pub struct Loaded<'p> {
    prepared: &'p Prepared,
    ranks: Vec<Rank<'p>>,
    timeout: Duration,
    about: String,
    phases: Vec<(&'static str, f64)>,
    joint: Joint,
    pool: Arc<Pool>,
    /// Teams whose communicators the next programs may have.
    lent: Vec<connect::Lent>,
    /// The world of its ranks, if the next programs may have that too.
    world: Option<Link>,
    /// Whether everything went well so far.
    sound: bool,
    /// Belongings of others, dropped with the ranks.
    left: Option<Belongings>,
    /// Room on its devices for blocks that wait.
    waiting: Vec<Room>,
}

/// Everything that happens once. With `callers` inputs and outputs get no memory yet, and no graph can be
/// recorded ([`bound`]).
pub(super) fn load<'p>(
    prepared: &'p Prepared,
    options: &Options,
    callers: bool,
) -> Result<Loaded<'p>, Vec<Diag>> {
    let mut clock = Clock::new();
    bounds::check(prepared)?;
    // A program that cannot end is reported as on the CPU, before anything starts.
    cpu::follow_order(prepared)?;
    let joint = Joint::new(prepared, options)?;
    clock.lap("follow");
    let teams = comm::teams(prepared);
    let opened = opened(prepared, &teams, &joint, options, callers, &mut clock);
    let (mut loaded, wiring) = joint.end("load", opened)?;
    clock.lap("load");
    // From here on every rank's memory exists.
    let wired = loaded.address(wiring);
    joint.end("memory", wired)?;
    clock.lap("address");
    tune::tune(&mut loaded, &options.pool)?;
    clock.lap("tune");
    if messages::over_nccl(&teams, options.routes) {
        let version = connect::connect(&mut loaded, &teams, options);
        loaded.about.push_str(&joint.end("connect", version)?);
    }
    clock.lap("connect");
    for entry in connect::entries(&teams, options.routes) {
        loaded.each(|rank| rank.rehearse_messages(entry, options.timeout))?;
        loaded.each(|rank| rank.rehearse_collectives(entry, options.timeout))?;
    }
    clock.lap("rehearse");
    if options.graph && !callers {
        loaded.each(|rank| rank.capture(options.timeout))?;
        clock.lap("capture");
    }
    loaded.phases = clock.laps;
    loaded.sound = true;
    Ok(loaded)
}

/// Puts the calls of ranks that share devices in order; the turns that they take in it.
fn order(schedules: &mut [Schedule], alarm: &Arc<Alarm>) -> Result<Vec<Turns>, Vec<Diag>> {
    let Some(order) = order::order(schedules) else {
        let message =
            "an internal error: the ranks' calls on shared GPUs have no order in which all end";
        return Err(vec![
            Diag::global(codes::DEVICE_CALL, message).note("`--backend=cpu` runs the program"),
        ]);
    };
    Ok(Turns::of(schedules.len(), order.into_iter(), alarm))
}

/// This process's ranks on their devices, not yet joined.
fn opened<'p>(
    prepared: &'p Prepared,
    teams: &[(String, Team)],
    joint: &Joint,
    options: &Options,
    callers: bool,
    clock: &mut Clock,
) -> Result<(Loaded<'p>, Wiring), Vec<Diag>> {
    let over_nccl = messages::over_nccl(teams, options.routes);
    let site = site(prepared, joint, options, (over_nccl, callers))?;
    clock.lap("devices");
    let about = about(&site).map_err(|error| vec![global(&error)])?;
    let messages = messages::messages(prepared, options.routes);
    let ordered = !site.apart && !messages.list.is_empty();
    if options.graph && ordered && !joint.is_several() {
        return Err(vec![recorded_copies()]);
    }
    let mut schedules = schedules(prepared, teams, &messages, &site, options)?;
    let alarm = Arc::new(Alarm::default());
    let turns = if ordered { order(&mut schedules, &alarm)? } else { Vec::new() };
    let wiring = Wiring::new(prepared, &mut schedules, messages, callers);
    let own = prepared.plans.iter().zip(schedules).filter(|(plan, _)| joint.owns(plan.rank));
    let own: Vec<(&Plan, Schedule)> = own.collect();
    clock.lap("plan");
    let images = compile(&own, &site.devices[0], options).map_err(|error| vec![global(&error)])?;
    clock.lap("compile");
    let Site { ordinals, mut waiting, .. } = site;
    let blocks = own.iter().map(|(_, schedule)| schedule.blocks).max().unwrap_or(0);
    waiting.iter_mut().for_each(|waiting| waiting.shrink(blocks));
    let mut ranks = open(prepared, own, &wiring, &ordinals, &images, options)?;
    let program = options.watch.program();
    for rank in &mut ranks {
        rank.alarm = alarm.clone();
        rank.peers = joint.exchange();
        rank.watched = Some(options.watch.rank(program, rank.plan.rank));
    }
    // Processes have hardware queues of their own: they keep to the order, but need no turns.
    for (rank, turns) in ranks.iter_mut().zip(turns).filter(|_| !joint.is_several()) {
        rank.turns = Some(turns);
    }
    let loaded = Loaded {
        prepared,
        ranks,
        timeout: options.timeout,
        about,
        phases: Vec::new(),
        joint: joint.clone(),
        pool: options.pool.clone(),
        lent: Vec::new(),
        world: None,
        sound: false,
        left: None,
        waiting,
    };
    Ok((loaded, wiring))
}

/// Where every rank's buffers will lie, and what goes between them.
struct Wiring {
    messages: Messages,
    /// By rank.
    layouts: Vec<Layout>,
    /// By rank and buffer: what a caller will bind.
    outside: Vec<Vec<bool>>,
}

impl Wiring {
    fn new(
        prepared: &Prepared,
        schedules: &mut [Schedule],
        messages: Messages,
        callers: bool,
    ) -> Self {
        let outside = prepared.plans.iter().map(|plan| match callers {
            true => route::outside(plan, &messages),
            false => Vec::new(),
        });
        let outside: Vec<Vec<bool>> = outside.collect();
        let ranks = prepared.plans.iter().zip(schedules).zip(&outside);
        let layout = |((plan, schedule), outside): ((&Plan, &mut Schedule), &Vec<bool>)| {
            rank::layout(plan, schedule, messages.flag_bytes(plan.rank), outside)
        };
        Self { layouts: ranks.map(layout).collect(), messages, outside }
    }
}

/// Times phases.
struct Clock {
    last: Instant,
    laps: Vec<(&'static str, f64)>,
}

impl Clock {
    fn new() -> Self {
        Self { last: Instant::now(), laps: Vec::new() }
    }
    fn lap(&mut self, name: &'static str) {
        self.laps.push((name, self.last.elapsed().as_secs_f64()));
        self.last = Instant::now();
    }
}

pub(super) fn global(error: &Error) -> Diag {
    let code = match error {
        Error::Missing { .. } => codes::DEVICE,
        Error::NoMemory { .. } => codes::DEVICE_MEMORY,
        Error::Call { .. } | Error::Compile { .. } => codes::DEVICE_CALL,
    };
    Diag::global(code, error.to_string())
}

/// The devices of this process's ranks.
struct Site {
    devices: Vec<Arc<Device>>,
    /// Their numbers among the process's devices.
    ordinals: Vec<usize>,
    /// Of the first rank's device.
    multiprocessors: u32,
    /// Whether all ranks' devices multiply 8-bit floats.
    fp8: bool,
    /// Devices of all processes.
    count: usize,
    /// Whether every rank has a device of its own.
    apart: bool,
    /// By device: room for blocks that wait for other ranks.
    waiting: Vec<Room>,
    /// The least of all devices of the run, in blocks.
    room: usize,
}

impl Site {
    /// Whether copy engines only push ([`Settings::push`]): in a graph of several of this process's devices.
    fn pushes(&self, options: &Options) -> bool {
        options.graph && self.ordinals.iter().any(|ordinal| *ordinal != self.ordinals[0])
    }
}

/// In a graph nobody has a say in how ranks that share a device share its hardware queues ([`order`]).
fn recorded_copies() -> Diag {
    let message = "in one process a CUDA graph cannot hold communications of ranks that share GPUs";
    Diag::global(codes::DEVICE, message)
        .note("leave `--graph` out, use `--processes`, or let each rank have a GPU of its own")
}

/// Finds this process's devices; those that were asked for, if it has all ranks.
fn site(
    prepared: &Prepared,
    joint: &Joint,
    options: &Options,
    (over_nccl, beside): (bool, bool),
) -> Result<Site, Vec<Diag>> {
    if joint.is_several() {
        let found = found().map_err(|diag| vec![diag])?;
        let Placed { device, ordinal, multiprocessors, fp8, apart, waiting, room } =
            joint.place(found, over_nccl, beside)?;
        let (devices, ordinals, count) = (vec![device], vec![ordinal], prepared.plans.len());
        let waiting = vec![waiting];
        return Ok(Site { devices, ordinals, multiprocessors, fp8, count, apart, waiting, room });
    }
    let ordinals = ordinals(prepared.plans.len(), &options.devices, over_nccl, found)
        .map_err(|diag| vec![diag])?;
    let devices = options.pool.devices(&ordinals).map_err(|error| vec![global(&error)])?;
    let multiprocessors = devices[0].multiprocessors().map_err(|error| vec![global(&error)])?;
    let fp8 = devices.iter().all(|device| device.multiplies_fp8().unwrap_or(false));
    let count = devices.len();
    let apart = are_apart(&ordinals, prepared.plans.len());
    let new = |ordinal: &usize| Room::new(*ordinal, multiprocessors, beside);
    let waiting: Vec<Room> = ordinals.iter().map(new).collect();
    let room = waiting.iter().map(Room::blocks).min().unwrap_or(0);
    Ok(Site { devices, ordinals, multiprocessors, fp8, count, apart, waiting, room })
}

/// Whether so many ranks, which take these devices in turn, have one each.
fn are_apart(ordinals: &[usize], ranks: usize) -> bool {
    let distinct = (1..ordinals.len()).all(|at| !ordinals[..at].contains(&ordinals[at]));
    distinct && ordinals.len() >= ranks
}

/// The number of devices, at least one.
fn found() -> Result<usize, Diag> {
    let found = driver::devices().map_err(|error| {
        global(&error)
            .note("`--backend=cpu` runs the same program on the CPU, on as many ranks as it needs")
    })?;
    match found {
        0 => Err(Diag::global(codes::DEVICE, "the CUDA driver finds no GPU")),
        found => Ok(found),
    }
}

/// The numbers of the devices that ranks run on, the first rank's first: those that were asked for, else
/// as they come. One each, or fewer if NCCL carries nothing between them.
fn ordinals(
    needed: usize,
    asked: &[usize],
    over_nccl: bool,
    found: impl FnOnce() -> Result<usize, Diag>,
) -> Result<Vec<usize>, Diag> {
    let found = found()?;
    let mut ordinals = if asked.is_empty() { (0..found).collect() } else { asked.to_vec() };
    if let Some(none) = ordinals.iter().find(|&&ordinal| ordinal >= found) {
        let message = format!("a rank is to run on GPU {none}, but this process sees {found}");
        return Err(Diag::global(codes::DEVICE, message)
            .note("GPUs are numbered from 0; `CUDA_VISIBLE_DEVICES` may hide some"));
    }
    ordinals.truncate(needed);
    if over_nccl && !are_apart(&ordinals, needed) {
        let message = match asked {
            [] => format!("the program has {needed} ranks, the machine {found} GPUs"),
            _ => format!("the program has {needed} ranks, for GPUs {asked:?}"),
        };
        return Err(Diag::global(codes::DEVICE, message)
            .note("NCCL needs a GPU for each rank: `--map-backend=NCCL=CUDA` copies instead and shares GPUs, `--devices` sets the number of ranks, `--backend=cpu` runs any number"));
    }
    Ok(ordinals)
}

/// `4 x NVIDIA H200, driver CUDA 13.0, cuBLASLt 13.0.2, NVRTC 13.0`.
fn about(site: &Site) -> Result<String, Error> {
    let name = site.devices[0].name()?;
    let (major, minor) = driver::version()?;
    let mut text = format!("{} x {name}, driver CUDA {major}.{minor}", site.count);
    if blas::is_present() {
        let (major, minor, patch) = blas::version();
        text.push_str(&format!(", cuBLASLt {major}.{minor}.{patch}"));
    }
    if let Ok((major, minor)) = nvrtc::version() {
        text.push_str(&format!(", NVRTC {major}.{minor}"));
    }
    Ok(text)
}

fn schedules(
    prepared: &Prepared,
    teams: &[(String, Team)],
    messages: &Messages,
    site: &Site,
    options: &Options,
) -> Result<Vec<Schedule>, Vec<Diag>> {
    let Site { multiprocessors, fp8, apart, room, .. } = *site;
    let (push, routes) = (site.pushes(options), options.routes);
    let (tf32, notes) = (options.tf32, nvrtc::takes_notes());
    let settings = Settings { tf32, fp8, multiprocessors, room, routes, apart, push, notes };
    let of = |plan| schedule::schedule(plan, teams, messages, settings);
    let refused = |plan: &Plan, refusal: Refusal| {
        let origin = plan.insts[refusal.inst].origin;
        let message = format!("the CUDA backend cannot run {}", refusal.what);
        let place = prepared.labels.origin(plan, origin);
        let diag = Diag::error(codes::BACKEND_TYPE, prepared.labels.span(origin.op), message);
        let instead = refusal.instead.unwrap_or("`--backend=cpu` runs it");
        vec![diag.note(format!("rank {}, in {place}; {instead}", plan.rank))]
    };
    let marked = |plan| {
        let mut schedule = of(plan).map_err(|refusal| refused(plan, refusal))?;
        // In a recorded run marks cost nothing worth naming.
        schedule.mark_waits(if options.graph { 1 } else { schedule::marks::SHARED });
        Ok(schedule)
    };
    prepared.plans.iter().map(marked).collect()
}

/// Compiles every distinct kernel of these ranks, or finds it in the store.
fn compile(own: &[(&Plan, Schedule)], device: &Device, options: &Options) -> Result<Images, Error> {
    let architecture = device.architecture()?;
    let mut images = Images::new();
    for text in own.iter().flat_map(|(_, schedule)| &schedule.texts) {
        if !images.contains_key(text) {
            images.insert(text.clone(), image(text, architecture, options)?);
        }
    }
    Ok(images)
}

/// Finds a kernel among those of this process or in the store, or compiles it.
fn image(text: &str, architecture: u32, options: &Options) -> Result<Vec<u8>, Error> {
    options.pool.image(architecture, text, || {
        let key = image_key(text, &nvrtc::options(architecture), nvrtc::version()?);
        let kept = options.store.as_ref().and_then(|store| store.get(&key));
        // An image that was cut short is compiled anew, and then kept in the place of that one.
        if let Some(image) = kept.filter(|image| is_whole(image)) {
            return Ok(image);
        }
        let image = nvrtc::compile(text, architecture)?;
        if let Some(store) = &options.store {
            store.put(&key, &image);
        }
        Ok(image)
    })
}

/// Returns the key of a compiled kernel: SHA-256, in hexadecimal digits, over everything that its machine code
/// depends on, which is this library's version, NVRTC's version, the compile options (the architecture is one of
/// them) and the source. Each part is preceded by its length, so no two lists of parts give the same bytes.
fn image_key(source: &str, options: &[String], nvrtc: (i32, i32)) -> String {
    let compiler = format!("nvrtc {}.{}", nvrtc.0, nvrtc.1);
    let fixed = ["hostir kernel", env!("CARGO_PKG_VERSION"), &compiler];
    let mut digest = Sha256::new();
    for part in fixed.into_iter().chain(options.iter().map(String::as_str)).chain([source]) {
        digest.update((part.len() as u64).to_le_bytes());
        digest.update(part.as_bytes());
    }
    digest.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}

fn open<'p>(
    prepared: &'p Prepared,
    own: Vec<(&'p Plan, Schedule)>,
    wiring: &Wiring,
    ordinals: &[usize],
    images: &Images,
    options: &Options,
) -> Result<Vec<Rank<'p>>, Vec<Diag>> {
    let results: Vec<Result<Rank<'p>, Diag>> = std::thread::scope(|scope| {
        let threads: Vec<_> = own
            .into_iter()
            .map(|(plan, schedule)| {
                scope.spawn(move || {
                    let ordinal = ordinals[plan.rank as usize % ordinals.len()];
                    let at = plan.rank as usize;
                    let flags = wiring.messages.flag_bytes(plan.rank);
                    let place = (wiring.layouts[at].clone(), flags, &wiring.outside[at][..]);
                    Rank::new(plan, schedule, place, ordinal, (images, &options.pool))
                        .map_err(|error| Failure::from(error).diag(prepared, plan, options.timeout))
                })
            })
            .collect();
        threads.into_iter().map(joined).collect()
    });
    sort(results)
}

/// The result of a rank's thread; one that panicked is a failure like any other.
fn joined<T, E: From<Diag>>(thread: ScopedJoinHandle<'_, Result<T, E>>) -> Result<T, E> {
    thread.join().unwrap_or_else(|_| {
        let message = "a rank's thread ended with an internal error";
        Err(Diag::global(codes::DEVICE_CALL, message).into())
    })
}

/// All results, or the distinct failures.
fn sort<T>(results: Vec<Result<T, Diag>>) -> Result<Vec<T>, Vec<Diag>> {
    let (mut good, mut bad): (Vec<T>, Vec<Diag>) = (Vec::new(), Vec::new());
    for result in results {
        match result {
            Ok(value) => good.push(value),
            Err(diag) => {
                if !bad.iter().any(|old| old.code == diag.code && old.primary == diag.primary) {
                    bad.push(diag);
                }
            }
        }
    }
    if bad.is_empty() { Ok(good) } else { Err(bad) }
}

impl Loaded<'_> {
    /// Devices and versions of libraries, for people.
    pub fn about(&self) -> &str {
        &self.about
    }

    /// Seconds of each part of the prepare phase.
    pub fn phases(&self) -> &[(&'static str, f64)] {
        &self.phases
    }

    /// Tells a profiler what the hosts do: the calls of each instruction become a range with the name that
    /// `name` gives for rank and origin. A graph that is replayed has none.
    pub fn name_ranges(&mut self, nvtx: &Arc<Nvtx>, name: &dyn Fn(u32, Origin) -> String) {
        for rank in &mut self.ranks {
            let number = rank.plan.rank;
            rank.name_ranges(nvtx, |origin| name(number, origin));
        }
    }

    /// Most bytes of memory on one device.
    pub fn device_bytes(&self) -> usize {
        self.ranks.iter().map(Rank::bytes).max().unwrap_or(0)
    }

    /// Tells the ranks where all memory lies, and lets devices reach each other's.
    fn address(&mut self, wiring: Wiring) -> Result<(), Vec<Diag>> {
        let map = peers::map(&self.ranks, &self.joint, wiring.layouts, wiring.messages)?;
        self.each(|rank| Ok(rank.address(&map)?))
    }

    /// Hands the ranks their inputs, `[rank][tensor input]`; those of other processes' ranks are not looked at.
    pub fn upload(&mut self, inputs: &[Vec<HostTensor>]) -> Result<(), Vec<Diag>> {
        self.check()?;
        let (given, needed) = (inputs.len(), self.prepared.plans.len());
        if given != needed {
            let message = format!("inputs for {given} ranks were given, {needed} are needed");
            return Err(vec![Diag::global(codes::PORTS, message)]);
        }
        for rank in &self.ranks {
            bounds::check_inputs(rank.plan, &inputs[rank.plan.rank as usize])?;
        }
        self.each(|rank| Ok(rank.upload(&inputs[rank.plan.rank as usize])?))
    }

    /// Uploads, runs once and downloads.
    pub fn run(&mut self, inputs: &[Vec<HostTensor>]) -> Result<RunResult, Vec<Diag>> {
        self.upload(inputs)?;
        let timeout = self.timeout;
        self.each(|rank| {
            rank.start()?;
            rank.wait(timeout)
        })?;
        self.results()
    }

    /// The outputs of the last run, `[rank][output]`; those of other processes' ranks are `None`.
    pub fn results(&mut self) -> Result<RunResult, Vec<Diag>> {
        self.check()?;
        let outputs: Result<Vec<_>, Diag> = self
            .ranks
            .iter()
            .map(|rank| {
                let failed =
                    |error| Failure::from(error).diag(self.prepared, rank.plan, self.timeout);
                rank.download().map_err(failed)
            })
            .collect();
        let own = self.joint.end("results", outputs.map_err(|diag| vec![diag]))?;
        let absent = vec![None; self.prepared.outputs.len()];
        let mut outputs = vec![absent; self.prepared.plans.len()];
        for (rank, part) in self.ranks.iter().zip(own) {
            outputs[rank.plan.rank as usize] = part;
        }
        Ok(RunResult { outputs, stats: stats(self.prepared) })
    }

    /// Milliseconds of so many runs on the slowest rank's device. All ranks start each run together; one
    /// more run goes before them.
    pub fn samples(&mut self, count: usize) -> Result<Vec<f64>, Vec<Diag>> {
        self.measure(count, |rank, timeout| rank.timed(timeout))
    }

    /// Seconds that the slowest rank's host spends on issuing a run, so many times.
    pub fn issue_times(&mut self, count: usize) -> Result<Vec<f64>, Vec<Diag>> {
        self.measure(count, |rank, timeout| rank.issue_time(timeout))
    }

    /// The largest figure of all ranks, for each of `count` rounds behind one that does not count.
    fn measure(
        &mut self,
        count: usize,
        work: impl Fn(&mut Rank<'_>, Duration) -> Result<f64, Failure> + Sync,
    ) -> Result<Vec<f64>, Vec<Diag>> {
        let (gate, timeout) = (self.gate(), self.timeout);
        let joint = self.joint.clone();
        let most = Mutex::new(vec![0.0f64; count]);
        self.each(|rank| {
            for round in 0..=count {
                gate.wait();
                joint.meet().map_err(|error| Failure::peer(error).within(Reached::Before))?;
                let figure = work(rank, timeout)?;
                let Some(round) = round.checked_sub(1) else { continue };
                if let Ok(mut most) = most.lock() {
                    most[round] = most[round].max(figure);
                }
            }
            Ok(())
        })?;
        self.joint.most(most.into_inner().unwrap_or_default())
    }
}

impl Drop for Loaded<'_> {
    fn drop(&mut self) {
        if self.has_failed() {
            self.give_up();
        } else if self.sound && self.ranks.iter().all(Rank::is_quiet) {
            self.leave();
        }
        // One of them may still write to the others' memory.
        if !self.ranks.iter().all(Rank::is_quiet) {
            let ranks = std::mem::take(&mut self.ranks);
            std::mem::forget((ranks, std::mem::take(&mut self.waiting), self.left.take()));
            return;
        }
        let left = self.left.take();
        teardown::drop_in_threads(self.ranks.drain(..).map(Rank::belongings).chain(left).collect());
    }
}

/// What a run of the plans does.
fn stats(prepared: &Prepared) -> Stats {
    let mut stats = Stats::default();
    for plan in &prepared.plans {
        stats.instructions += plan.insts.len() as u64;
        for inst in plan.iter() {
            match &inst.kind {
                InstKind::Collective(collective) => {
                    stats.communications += 1;
                    let received = collective.output.as_ref();
                    stats.bytes += received.map_or(0, |view| view.len() * view.dtype.size()) as u64;
                }
                InstKind::Send { .. } => stats.communications += 1,
                InstKind::Recv { view, .. } => {
                    stats.communications += 1;
                    stats.bytes += (view.len() * view.dtype.size()) as u64;
                }
                kind => stats.local_bytes += kind.bytes(),
            }
        }
    }
    stats
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_that_take_devices_in_turn_share_them() {
        assert!(are_apart(&[0], 1) && are_apart(&[3, 1], 2));
        assert!(!are_apart(&[0], 2) && !are_apart(&[0, 1], 8) && !are_apart(&[2, 2], 2));
    }

    #[test]
    fn ranks_get_devices() {
        assert_eq!(ordinals(2, &[], true, || Ok(4)), Ok(vec![0, 1]));
        assert_eq!(ordinals(2, &[3, 1], true, || Ok(4)), Ok(vec![3, 1]));
        assert_eq!(ordinals(2, &[], false, || Ok(1)), Ok(vec![0]));
        assert_eq!(ordinals(2, &[2, 2], false, || Ok(4)), Ok(vec![2, 2]));
        for (asked, count) in [(&[][..], 1), (&[1, 1][..], 4), (&[2][..], 4), (&[0, 4][..], 4)] {
            let found = ordinals(2, asked, true, || Ok(count));
            assert_eq!(found.unwrap_err().code, codes::DEVICE);
        }
    }

    #[test]
    fn a_key_depends_on_source_options_and_compiler() {
        let options = |all: &[&str]| all.iter().map(|&one| one.to_owned()).collect::<Vec<_>>();
        let key = |source: &str, all: &[&str], nvrtc| image_key(source, &options(all), nvrtc);
        let first = key("text", &["-a", "-b"], (13, 0));
        assert!(first.len() == 64 && first.bytes().all(|byte| byte.is_ascii_hexdigit()));
        assert_eq!(first, key("text", &["-a", "-b"], (13, 0)));
        let others = [
            key("texts", &["-a", "-b"], (13, 0)),
            key("text", &["-a", "-c"], (13, 0)),
            key("text", &["-a-b"], (13, 0)),
            key("-btext", &["-a"], (13, 0)),
            key("text", &["-a", "-b"], (13, 1)),
        ];
        assert!(others.iter().all(|other| *other != first));
    }
}
