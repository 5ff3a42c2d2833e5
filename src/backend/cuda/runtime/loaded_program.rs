//! The prepare phase, and runs of all ranks.

pub(crate) mod all_ranks;

use crate::runtime::autotune;
use crate::runtime::failure::{Failure, Reached, global};
use crate::runtime::failure_latch::Alarm;
use crate::runtime::index_bounds;
use crate::runtime::kernel_images::{self, Images};
use crate::runtime::nccl::init;
use crate::runtime::options::Options;
use crate::runtime::p2p_map;
use crate::runtime::process_group::{Joint, Placed};
use crate::runtime::rank::Rank;
use crate::runtime::rank_threads::{joined, sort};
use crate::runtime::resource_cache::{Link, Pool};
use crate::runtime::sequencer::Turns;
use crate::runtime::sm_budget::Room;
use crate::runtime::teardown;
use crate::runtime::teardown::Belongings;
use crate::sys::driver;
use crate::sys::driver::Device;
use crate::sys::nvtx::Nvtx;
use crate::sys::{Error, blas, nvrtc};
use hostir::backend::{RunResult, Stats};
use hostir::data::HostTensor;
use hostir::diag::Diag;
use hostir::diag::codes;
use hostir::lower::Prepared;
use hostir::plan::{InstKind, Origin, Plan};
use hostir::plan_checks::check_plans;
use hostir_gpu::external_buffers;
use hostir_gpu::memory_layout::Layout;
use hostir_gpu::p2p;
use hostir_gpu::p2p::Messages;
use hostir_gpu::rank_memory;
use hostir_gpu::schedule::{Refusal, Schedule, Settings};
use hostir_gpu::team;
use hostir_gpu::team::Team;
use hostir_gpu::transport;
use hostir_gpu::{issue_order, schedule};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// A program on its devices, ready to run any number of times.
pub struct Loaded<'p> {
    pub(crate) prepared: &'p Prepared,
    pub(crate) ranks: Vec<Rank<'p>>,
    pub(crate) timeout: Duration,
    pub(crate) about: String,
    pub(crate) phases: Vec<(&'static str, f64)>,
    pub(crate) joint: Joint,
    pub(crate) pool: Arc<Pool>,
    /// Teams whose communicators the next programs may have.
    pub(crate) lent: Vec<init::Lent>,
    /// The world of its ranks, if the next programs may have that too.
    pub(crate) world: Option<Link>,
    /// Whether everything went well so far.
    pub(crate) sound: bool,
    /// Belongings of others, dropped with the ranks.
    pub(crate) left: Option<Belongings>,
    /// Room on its devices for blocks that wait.
    pub(crate) waiting: Vec<Room>,
}

/// Everything that happens once. With `callers` inputs and outputs get no memory yet, and no graph can be
/// recorded ([`bound`]).
pub(crate) fn load<'p>(
    prepared: &'p Prepared,
    options: &Options,
    callers: bool,
) -> Result<Loaded<'p>, Vec<Diag>> {
    let mut clock = Clock::new();
    index_bounds::check(prepared)?;
    // A program that cannot end is reported as on the CPU, before anything starts.
    check_plans(prepared)?;
    let joint = Joint::new(prepared, options)?;
    clock.lap("follow");
    let teams = team::teams(prepared);
    let opened = opened(prepared, &teams, &joint, options, callers, &mut clock);
    let (mut loaded, wiring) = joint.end("load", opened)?;
    clock.lap("load");
    // From here on every rank's memory exists.
    let wired = loaded.address(wiring);
    joint.end("memory", wired)?;
    clock.lap("address");
    autotune::tune(&mut loaded, &options.pool)?;
    clock.lap("tune");
    if transport::over_nccl(&teams, options.routes) {
        let version = init::connect(&mut loaded, &teams, options);
        loaded.about.push_str(&joint.end("connect", version)?);
    }
    clock.lap("connect");
    for entry in init::entries(&teams, options.routes) {
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
    let Some(order) = issue_order::order(schedules) else {
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
    let over_nccl = transport::over_nccl(teams, options.routes);
    let site = site(prepared, joint, options, (over_nccl, callers))?;
    clock.lap("devices");
    let about = about(&site).map_err(|error| vec![global(&error)])?;
    let messages = p2p::messages(prepared, options.routes);
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
    let images = kernel_images::compile(&own, &site.devices[0], options)
        .map_err(|error| vec![global(&error)])?;
    clock.lap("compile");
    let Site { ordinals, mut waiting, .. } = site;
    let blocks = own.iter().map(|(_, schedule)| schedule.blocks).max().unwrap_or(0);
    waiting.iter_mut().for_each(|waiting| waiting.shrink(blocks));
    let mut ranks = open(prepared, own, &wiring, &ordinals, &images, options)?;
    let program = options.watch.program();
    for rank in &mut ranks {
        rank.alarm = alarm.clone();
        rank.peers = joint.control_plane();
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
            true => external_buffers::outside(plan, &messages),
            false => Vec::new(),
        });
        let outside: Vec<Vec<bool>> = outside.collect();
        let ranks = prepared.plans.iter().zip(schedules).zip(&outside);
        let layout = |((plan, schedule), outside): ((&Plan, &mut Schedule), &Vec<bool>)| {
            rank_memory::layout(plan, schedule, messages.flag_bytes(plan.rank), outside)
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
        let origin = plan.inst(refusal.inst).origin;
        let message = format!("the CUDA backend cannot run {}", refusal.what);
        let place = prepared.labels.origin(plan, origin);
        let diag = Diag::error(codes::BACKEND_TYPE, prepared.labels.span(origin.op), message);
        let instead = refusal.instead.unwrap_or("`--backend=cpu` runs it");
        vec![diag.note(format!("rank {}, in {place}; {instead}", plan.rank))]
    };
    let marked = |plan| {
        let mut schedule = of(plan).map_err(|refusal| refused(plan, refusal))?;
        // In a recorded run marks cost nothing worth naming.
        schedule.mark_waits(if options.graph { 1 } else { schedule::wait_marks::SHARED });
        Ok(schedule)
    };
    prepared.plans.iter().map(marked).collect()
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
        let map = p2p_map::map(&self.ranks, &self.joint, wiring.layouts, wiring.messages)?;
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
            index_bounds::check_inputs(rank.plan, &inputs[rank.plan.rank as usize])?;
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
        stats.instructions += plan.inst_count() as u64;
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
}
