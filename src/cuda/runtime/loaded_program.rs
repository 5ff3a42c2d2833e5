//! The prepare phase, and runs of all ranks.

pub(crate) mod all_ranks;

use crate::runtime::autotune;
use crate::runtime::failure::{RankFailure, RunProgress, global_diag};
use crate::runtime::failure_latch::FailureFlag;
use crate::runtime::index_bounds;
use crate::runtime::kernel_images::{self, ProgramImages};
use crate::runtime::library_access::{LibraryAccess, register_exit_handler};
use crate::runtime::nccl::init;
use crate::runtime::options::Options;
use crate::runtime::p2p_map;
use crate::runtime::process_group::{AssignedDevice, ProcessGroup, fp8_support};
use crate::runtime::rank::RankRuntime;
use crate::runtime::rank::allocation::AllocationLayout;
use crate::runtime::rank_threads::{collect_results, join_rank_thread};
use crate::runtime::resource_cache::ResourceCache;
use crate::runtime::sequencer::IssueSequencer;
use crate::runtime::sm_budget::BlockBudget;
use crate::runtime::symmetric_buffers::SymmetricBuffers;
use crate::runtime::symmetric_memory;
use crate::runtime::teardown;
use crate::runtime::teardown::RankResources;
use crate::runtime::user_kernels;
use crate::sys::context::relax_capture_mode;
use crate::sys::driver;
use crate::sys::driver::CudaDevice;
use crate::sys::nvtx::NvtxProfiler;
use crate::sys::{Error, blas, nvrtc};
use hostir::backend::{RunResult, RunStats};
use hostir::data::HostTensor;
use hostir::diag::message;
use hostir::diag::{Diag, Quoted, RunOption, codes, count_text};
use hostir::ir::MessageDirection;
use hostir::lower::PreparedProgram;
use hostir::plan::{InstKind, InstOrigin, Plan};
use hostir::plan_checks::check_plans;
use hostir_gpu::codegen::wgmma_gemm::ARCHITECTURE;
use hostir_gpu::external_buffers;
use hostir_gpu::gemm_lowering::fp8::Fp8Support;
use hostir_gpu::memory_layout::{self, MemoryLayout};
use hostir_gpu::p2p;
use hostir_gpu::p2p::MessagePlan;
use hostir_gpu::rank_memory;
use hostir_gpu::schedule::{RankSchedule, ScheduleSettings, UnsupportedInst};
use hostir_gpu::team;
use hostir_gpu::team::CommTeam;
use hostir_gpu::transport;
use hostir_gpu::{issue_order, schedule};
use std::sync::{Arc, Mutex, Once};
use std::time::{Duration, Instant};

/// A program on its devices, ready to run any number of times.
pub struct LoadedProgram<'p> {
    pub(crate) prepared: &'p PreparedProgram,
    pub(crate) ranks: Vec<RankRuntime<'p>>,
    pub(crate) timeout: Duration,
    pub(crate) about: String,
    pub(crate) phases: Vec<(&'static str, f64)>,
    pub(crate) process_group: ProcessGroup,
    /// A note for errors of runs that do not end: streams share hardware queues.
    pub(crate) queue_note: Option<String>,
    pub(crate) cache: Arc<ResourceCache>,
    pub(crate) cacheable: init::CacheableCommunicators,
    /// True until a step or a run fails.
    pub(crate) healthy: bool,
    /// True if a caller's graph holds a run, so that nothing may be freed.
    pub(crate) held: bool,
    /// Resources of other programs, dropped with the ranks.
    pub(crate) left: Option<RankResources>,
    /// Buffers that a caller keeps in symmetric memory.
    pub(crate) symmetric: SymmetricBuffers,
    /// The budget of waiting blocks on each of its devices.
    pub(crate) waiting: Vec<BlockBudget>,
}

/// Does everything that happens once. With `callers`, inputs and outputs get no memory yet, and the program records no
/// graph ([`bound_program`](crate::runtime::io_binding::bound_program)).
pub(crate) fn load_program<'p>(
    prepared: &'p PreparedProgram,
    options: &Options,
    callers: bool,
) -> Result<LoadedProgram<'p>, Vec<Diag>> {
    static FIRST: Once = Once::new();
    let _access = LibraryAccess::acquire().map_err(|error| vec![global_diag(&error)])?;
    let mut clock = PhaseTimer::new();
    index_bounds::check_plan_bounds(prepared)?;
    // A program that cannot end is reported as on the CPU, before anything starts.
    check_plans(prepared)?;
    let process_group = ProcessGroup::new(prepared, options)?;
    clock.record_phase("follow");
    let teams = team::collect_teams(prepared);
    let opened = open_program(prepared, &teams, &process_group, options, callers, &mut clock);
    let (mut loaded, wiring) = process_group.finish_step("load", opened)?;
    clock.record_phase("load");
    // From here on every rank's memory exists.
    let wired = loaded.resolve_addresses(wiring);
    process_group.finish_step("memory", wired)?;
    symmetric_memory::check_mapping(&loaded.symmetric, &loaded.ranks, &process_group)?;
    clock.record_phase("address");
    autotune::tune_gemms(&mut loaded, options)?;
    clock.record_phase("tune");
    if transport::uses_nccl(&teams, options.routes) {
        let version = init::connect_communicators(&mut loaded, &teams, options);
        loaded.about.push_str(&process_group.finish_step("connect", version)?);
    }
    clock.record_phase("connect");
    for entry in init::nccl_team_indices(&teams, options.routes) {
        loaded.for_each_rank(|rank| rank.warm_up_messages(entry, options.timeout))?;
        loaded.for_each_rank(|rank| rank.warm_up_collectives(entry, options.timeout))?;
    }
    clock.record_phase("rehearse");
    if options.graph && !callers {
        loaded.for_each_rank(|rank| rank.capture_graph(options.timeout))?;
        clock.record_phase("capture");
    }
    loaded.phases = clock.laps;
    loaded.healthy = true;
    // Libraries have made objects with static lifetime.
    register_exit_handler(&FIRST);
    Ok(loaded)
}

/// Orders the calls of ranks that share devices or hardware queues; returns their turns in that order.
fn sequence_schedules(
    schedules: &mut [RankSchedule],
    alarm: &Arc<FailureFlag>,
) -> Result<Vec<IssueSequencer>, Vec<Diag>> {
    let Some(order) = issue_order::impose_global_order(schedules) else {
        let message = "internal error: the calls of ranks that share GPUs have no order free of deadlock";
        return Err(vec![
            Diag::global_error(codes::DEVICE_CALL, message).with_note("use `--backend=cpu` to run the program"),
        ]);
    };
    Ok(IssueSequencer::for_ranks(schedules.len(), order.into_iter(), alarm))
}

/// A note for runs that do not end, if a rank has more streams than its device has hardware queues; one more stream is
/// for semaphores.
fn describe_queue_sharing(schedules: &[RankSchedule], queues: usize) -> Option<String> {
    let streams = schedules.iter().map(|schedule| schedule.streams + 1).max().filter(|streams| *streams > queues)?;
    Some(format!(
        "{streams} streams share {queues} hardware queues, and wait for each other there: set \
         `CUDA_DEVICE_MAX_CONNECTIONS` to {}",
        streams.min(32)
    ))
}

/// Opens this process's ranks on their devices; does not connect them.
fn open_program<'p>(
    prepared: &'p PreparedProgram,
    teams: &[CommTeam],
    process_group: &ProcessGroup,
    options: &Options,
    callers: bool,
    clock: &mut PhaseTimer,
) -> Result<(LoadedProgram<'p>, MemoryPlan), Vec<Diag>> {
    let over_nccl = transport::uses_nccl(teams, options.routes);
    let site = find_local_devices(prepared, process_group, options, (over_nccl, callers))?;
    clock.record_phase("devices");
    let name = site.devices[0].name();
    let about =
        name.and_then(|name| describe_platform(site.count, &name)).map_err(|error| vec![global_diag(&error)])?;
    let messages = p2p::plan_messages(prepared, options.routes, site.joins_stores(options));
    let has_messages = !messages.list.is_empty();
    let shared = !site.one_rank_per_device && has_messages;
    if options.graph && shared && !process_group.is_multi_process() {
        return Err(vec![shared_graph_error()]);
    }
    let mut schedules = build_schedules(prepared, teams, &messages, &site, options)?;
    let alarm = Arc::new(FailureFlag::default());
    let queue_note = describe_queue_sharing(&schedules, options.hardware_queues);
    let ordered = shared || has_messages && queue_note.is_some();
    let turns = if ordered { sequence_schedules(&mut schedules, &alarm)? } else { Vec::new() };
    let symmetric = match callers {
        true => symmetric_memory::agree_on_buffers(prepared, &messages, process_group, &options.symmetric)?,
        false => SymmetricBuffers::default(),
    };
    let wiring = MemoryPlan::new(prepared, &mut schedules, messages, callers, &symmetric);
    let own = prepared.plans.iter().zip(schedules).filter(|(plan, _)| process_group.owns_rank(plan.rank));
    let own: Vec<(&Plan, RankSchedule)> = own.collect();
    clock.record_phase("plan");
    let images =
        kernel_images::compile_kernels(&own, &site.devices[0], options).map_err(|error| vec![global_diag(&error)])?;
    let user_images = user_kernels::compile_files(prepared, &own, &site.devices[0], options)?;
    let images = ProgramImages { generated: images, user: user_images };
    clock.record_phase("compile");
    let LocalDevices { ordinals, mut waiting, .. } = site;
    let blocks = own.iter().map(|(_, schedule)| schedule.blocks).max().unwrap_or(0);
    waiting.iter_mut().for_each(|waiting| waiting.shrink_to(blocks));
    let mut ranks = open_ranks(prepared, own, &wiring, &ordinals, &images, options)?;
    let program = options.watchdog.register_program();
    for rank in &mut ranks {
        rank.failures.alarm = alarm.clone();
        rank.failures.peers = process_group.control_plane();
        rank.tracker.watched = Some(options.watchdog.register_rank(program, rank.plan.rank));
    }
    // Processes have hardware queues of their own: they keep to the order, but need no turns.
    for (rank, turns) in ranks.iter_mut().zip(turns).filter(|_| !process_group.is_multi_process()) {
        rank.commands.turns = Some(turns);
    }
    let loaded = LoadedProgram {
        prepared,
        ranks,
        timeout: options.timeout,
        about,
        phases: Vec::new(),
        process_group: process_group.clone(),
        queue_note,
        cache: options.cache.clone(),
        cacheable: init::CacheableCommunicators::default(),
        healthy: false,
        held: false,
        left: None,
        symmetric,
        waiting,
    };
    Ok((loaded, wiring))
}

/// The layout of every rank's buffers, and the messages between ranks.
struct MemoryPlan {
    messages: MessagePlan,
    /// By rank.
    layouts: Vec<MemoryLayout>,
    /// By rank and buffer: true if a caller will bind it.
    external: Vec<Vec<bool>>,
}

impl MemoryPlan {
    fn new(
        prepared: &PreparedProgram,
        schedules: &mut [RankSchedule],
        messages: MessagePlan,
        callers: bool,
        symmetric: &SymmetricBuffers,
    ) -> Self {
        let external = prepared.plans.iter().map(|plan| match callers {
            true => external_buffers::externally_bound(plan, &messages),
            false => Vec::new(),
        });
        let external: Vec<Vec<bool>> = external.collect();
        let ranks = prepared.plans.iter().zip(schedules).zip(&external);
        let layouts = ranks.map(|((plan, schedule), external)| {
            let elsewhere = symmetric.with_buffers(plan.rank, external);
            rank_memory::layout_memory(plan, schedule, messages.flag_bytes(plan.rank), &elsewhere)
        });
        let mut made = Self { layouts: layouts.collect(), messages, external };
        made.place_symmetric(prepared, symmetric);
        made
    }

    /// Places buffers of symmetric memory in room for the largest of them, where the preparation runs: tuning writes
    /// results.
    fn place_symmetric(&mut self, prepared: &PreparedProgram, symmetric: &SymmetricBuffers) {
        for (plan, layout) in prepared.plans.iter().zip(&mut self.layouts) {
            let mut room = 0;
            for buffer in symmetric.buffers(plan.rank) {
                layout.offsets[buffer] = Some(layout.bytes);
                room = room.max(memory_layout::padded_size(plan, buffer));
            }
            layout.bytes += room;
        }
    }
}

/// Times phases.
struct PhaseTimer {
    last: Instant,
    laps: Vec<(&'static str, f64)>,
}

impl PhaseTimer {
    fn new() -> Self {
        Self { last: Instant::now(), laps: Vec::new() }
    }
    fn record_phase(&mut self, name: &'static str) {
        self.laps.push((name, self.last.elapsed().as_secs_f64()));
        self.last = Instant::now();
    }
}

/// The devices of this process's ranks.
struct LocalDevices {
    devices: Vec<Arc<CudaDevice>>,
    /// Their numbers among the process's devices.
    ordinals: Vec<usize>,
    /// Of the first rank's device.
    sms: u32,
    /// True if the devices of all ranks multiply 8-bit floats.
    fp8: Fp8Support,
    /// Devices of all processes.
    count: usize,
    /// True if every rank has a device of its own.
    one_rank_per_device: bool,
    /// By device: the budget of blocks that wait for other ranks.
    waiting: Vec<BlockBudget>,
    /// The least budget of all devices of the run, in blocks.
    room: usize,
}

impl LocalDevices {
    /// Returns true if copy engines may only push ([`ScheduleSettings::push`]): in a graph with several devices of this
    /// process.
    fn is_push_only(&self, options: &Options) -> bool {
        options.graph && self.ordinals.iter().any(|ordinal| *ordinal != self.ordinals[0])
    }

    /// Returns true if one launch may store the results of several products ([`ScheduleSettings::joins_stores`]): our
    /// GEMM kernels are wanted, the devices of this process run them, and NVRTC compiles them.
    fn joins_stores(&self, options: &Options) -> bool {
        options.gemm_kernels && self.has_gemm_kernels()
    }

    fn has_gemm_kernels(&self) -> bool {
        let mut architectures = self.devices.iter().map(|device| device.architecture());
        architectures.all(|found| found.is_ok_and(|found| found == ARCHITECTURE)) && nvrtc::is_present()
    }
}

/// In a graph no order of issue can keep ranks that share a device apart in its hardware queues ([`issue_order`]).
fn shared_graph_error() -> Diag {
    let message = "in a single process, a CUDA graph cannot contain communications of ranks that share GPUs";
    Diag::global_error(codes::DEVICE, message)
        .with_note("omit `--graph`, use `--processes`, or give each rank its own GPU")
}

/// Finds this process's devices: the requested ones, if it has all ranks.
fn find_local_devices(
    prepared: &PreparedProgram,
    process_group: &ProcessGroup,
    options: &Options,
    (over_nccl, beside): (bool, bool),
) -> Result<LocalDevices, Vec<Diag>> {
    if process_group.is_multi_process() {
        let found = detected_device_count().map_err(|diag| vec![diag])?;
        let AssignedDevice { device, ordinal, sms, fp8, one_rank_per_device, waiting, room } =
            process_group.open_device(found, over_nccl, beside)?;
        let (devices, ordinals, count) = (vec![device], vec![ordinal], prepared.plans.len());
        let waiting = vec![waiting];
        return Ok(LocalDevices { devices, ordinals, sms, fp8, count, one_rank_per_device, waiting, room });
    }
    let ordinals = assign_ordinals(prepared.plans.len(), &options.devices, over_nccl, detected_device_count)
        .map_err(|diag| vec![diag])?;
    let devices = options.cache.open_devices(&ordinals).map_err(|error| vec![global_diag(&error)])?;
    let sms = devices[0].sm_count().map_err(|error| vec![global_diag(&error)])?;
    let fp8 = Fp8Support::common(devices.iter().map(|device| fp8_support(device).unwrap_or(Fp8Support::Absent)));
    let count = devices.len();
    let one_rank_per_device = are_distinct(&ordinals, prepared.plans.len());
    let budgets = ordinals.iter().map(|ordinal| BlockBudget::new(*ordinal, sms, beside));
    let waiting: Vec<BlockBudget> = budgets.collect();
    let room = waiting.iter().map(BlockBudget::block_count).min().unwrap_or(0);
    Ok(LocalDevices { devices, ordinals, sms, fp8, count, one_rank_per_device, waiting, room })
}

/// Returns true if each rank has its own device when the ranks take these devices in turn.
fn are_distinct(ordinals: &[usize], ranks: usize) -> bool {
    let distinct = (1..ordinals.len()).all(|at| !ordinals[..at].contains(&ordinals[at]));
    distinct && ordinals.len() >= ranks
}

/// The number of devices, at least one.
fn detected_device_count() -> Result<usize, Diag> {
    let found = driver::device_count().map_err(|error| {
        global_diag(&error)
            .with_note("use `--backend=cpu` to run the same program on the CPU, with any number of ranks")
    })?;
    match found {
        0 => Err(Diag::global_error(codes::DEVICE, "the CUDA driver reports no GPU")),
        found => Ok(found),
    }
}

/// The device numbers of the ranks in order: the requested ones, else the first ones. One device for each rank, or
/// fewer if NCCL carries no data between them.
fn assign_ordinals(
    needed: usize,
    asked: &[usize],
    over_nccl: bool,
    found: impl FnOnce() -> Result<usize, Diag>,
) -> Result<Vec<usize>, Diag> {
    let found = found()?;
    let mut ordinals = if asked.is_empty() { (0..found).collect() } else { asked.to_vec() };
    if let Some(none) = ordinals.iter().find(|&&ordinal| ordinal >= found) {
        let message = message!("a rank is assigned to GPU {}, but this process sees {}", none, found);
        return Err(Diag::global_error(codes::DEVICE, message)
            .with_note("GPUs are numbered from 0; `CUDA_VISIBLE_DEVICES` may hide some"));
    }
    ordinals.truncate(needed);
    if over_nccl && !are_distinct(&ordinals, needed) {
        let message = match asked {
            [] => message!("the program has {} ranks, but the machine has {}", needed, count_text(found, "GPU")),
            _ => message!("the program has {} ranks, but only the GPUs {} were selected", needed, format!("{asked:?}")),
        };
        return Err(Diag::global_error(codes::DEVICE, message)
            .with_note(message!("NCCL needs one GPU per rank: `--map-backend=NCCL=CUDA` uses copies instead and lets ranks share GPUs, `{}` sets the number of ranks, `--backend=cpu` runs any number", Quoted::run_option(RunOption::Devices, "--devices"))));
    }
    Ok(ordinals)
}

/// `4 x NVIDIA H200, driver CUDA 13.0, cuBLASLt 13.0.2, NVRTC 13.0`.
pub(crate) fn describe_platform(count: usize, name: &str) -> Result<String, Error> {
    let (major, minor) = driver::version()?;
    let mut text = format!("{count} x {name}, driver CUDA {major}.{minor}");
    if blas::is_present() {
        let (major, minor, patch) = blas::version();
        text.push_str(&format!(", cuBLASLt {major}.{minor}.{patch}"));
    }
    if let Ok((major, minor)) = nvrtc::version() {
        text.push_str(&format!(", NVRTC {major}.{minor}"));
    }
    Ok(text)
}

fn build_schedules(
    prepared: &PreparedProgram,
    teams: &[CommTeam],
    messages: &MessagePlan,
    site: &LocalDevices,
    options: &Options,
) -> Result<Vec<RankSchedule>, Vec<Diag>> {
    let LocalDevices { sms, fp8, one_rank_per_device, room, .. } = *site;
    let (push, routes) = (site.is_push_only(options), options.routes);
    let (numerics, notes) = (options.numerics, nvrtc::takes_notes());
    let joins_stores = site.joins_stores(options);
    let settings =
        ScheduleSettings { numerics, fp8, sms, room, routes, one_rank_per_device, push, joins_stores, notes };
    let schedules = prepared.plans.iter().map(|plan| {
        let built = schedule::build_schedule(plan, teams, messages, settings);
        let mut schedule = built.map_err(|refusal| vec![unsupported_error(prepared, plan, refusal)])?;
        // In a recorded run events cost next to nothing.
        schedule.add_wait_events(if options.graph { 1 } else { schedule::wait_events::SHARED });
        Ok(schedule)
    });
    schedules.collect()
}

/// The error for an instruction that GPUs do not run.
fn unsupported_error(prepared: &PreparedProgram, plan: &Plan, refusal: UnsupportedInst) -> Diag {
    let origin = plan.inst(refusal.inst).origin;
    let message = message!("the CUDA backend does not support {}", refusal.what.message());
    let place = prepared.labels.origin_text(plan, origin);
    let diag = Diag::error(codes::BACKEND_TYPE, prepared.labels.op_span(origin.op), message);
    let instead = refusal.instead.unwrap_or("use `--backend=cpu` to run it");
    diag.with_note(message!("on rank {}, in {}; {}", plan.rank, place, instead))
}

fn open_ranks<'p>(
    prepared: &'p PreparedProgram,
    own: Vec<(&'p Plan, RankSchedule)>,
    wiring: &MemoryPlan,
    ordinals: &[usize],
    images: &ProgramImages,
    options: &Options,
) -> Result<Vec<RankRuntime<'p>>, Vec<Diag>> {
    let results: Vec<Result<RankRuntime<'p>, Diag>> = std::thread::scope(|scope| {
        let threads: Vec<_> = own
            .into_iter()
            .map(|(plan, schedule)| {
                scope.spawn(move || {
                    relax_capture_mode();
                    let ordinal = ordinals[plan.rank as usize % ordinals.len()];
                    let at = plan.rank as usize;
                    let flags = wiring.messages.flag_bytes(plan.rank);
                    let (layout, external) = (wiring.layouts[at].clone(), &wiring.external[at][..]);
                    let place = AllocationLayout { layout, flags, external };
                    let opened = options.cache.open_device(ordinal);
                    opened
                        .map_err(RankFailure::from)
                        .and_then(|device| RankRuntime::new(plan, schedule, place, device, images, options))
                        .map_err(|failure| failure.to_diag(prepared, plan, options.timeout))
                })
            })
            .collect();
        threads.into_iter().map(join_rank_thread).collect()
    });
    collect_results(results)
}

impl LoadedProgram<'_> {
    /// Devices and versions of libraries, as text for users.
    pub fn platform_summary(&self) -> &str {
        &self.about
    }

    /// The seconds of each phase of loading.
    pub fn phase_times(&self) -> &[(&'static str, f64)] {
        &self.phases
    }

    /// Names the hosts' work for a profiler: the calls of each instruction become a range with the name that `name`
    /// gives for rank and origin. A replayed graph has no ranges.
    pub fn name_ranges(&mut self, nvtx: &Arc<NvtxProfiler>, name: &dyn Fn(u32, InstOrigin) -> String) {
        for rank in &mut self.ranks {
            let number = rank.plan.rank;
            let plan = rank.plan;
            rank.commands.name_ranges(plan, nvtx, |origin| name(number, origin));
        }
    }

    /// Tells the ranks the addresses of all memory, and lets devices reach each other's.
    fn resolve_addresses(&mut self, wiring: MemoryPlan) -> Result<(), Vec<Diag>> {
        let map = p2p_map::map_memory(&self.ranks, &self.process_group, wiring.layouts, wiring.messages)?;
        self.for_each_rank(|rank| Ok(rank.resolve_addresses(&map)?))
    }

    /// Copies to the ranks their inputs, `[rank][tensor input]`; ignores those of other processes' ranks.
    ///
    /// # Errors
    /// If the number, shapes or types of the inputs differ from the program's, the program has failed before, or a
    /// copy fails.
    pub fn upload_inputs(&mut self, inputs: &[Vec<HostTensor>]) -> Result<(), Vec<Diag>> {
        self.check_usable()?;
        let (given, needed) = (inputs.len(), self.prepared.plans.len());
        if given != needed {
            let message =
                message!("inputs for {} ranks were given, but the program needs inputs for {}", given, needed);
            return Err(vec![Diag::global_error(codes::PORTS, message)]);
        }
        for rank in &self.ranks {
            index_bounds::check_inputs(rank.plan, &inputs[rank.plan.rank as usize])?;
        }
        self.for_each_rank(|rank| Ok(rank.upload_inputs(&inputs[rank.plan.rank as usize])?))
    }

    /// Uploads the inputs, runs once and downloads the outputs.
    pub fn run_once(&mut self, inputs: &[Vec<HostTensor>]) -> Result<RunResult, Vec<Diag>> {
        self.upload_inputs(inputs)?;
        let timeout = self.timeout;
        self.for_each_rank(|rank| {
            rank.issue_run()?;
            rank.wait_for_end(timeout)
        })?;
        self.download_results()
    }

    /// The outputs of the last run, `[rank][output]`; those of other processes' ranks are `None`.
    ///
    /// # Errors
    /// If the program has failed before, or a copy fails on any rank.
    pub fn download_results(&mut self) -> Result<RunResult, Vec<Diag>> {
        let _access = self.acquire_access()?;
        let outputs: Result<Vec<_>, Diag> = self
            .ranks
            .iter()
            .map(|rank| {
                let downloaded = rank.download_outputs().map_err(RankFailure::from);
                downloaded.map_err(|failure| failure.to_diag(self.prepared, rank.plan, self.timeout))
            })
            .collect();
        let own = self.process_group.finish_step("results", outputs.map_err(|diag| vec![diag]))?;
        let absent = vec![None; self.prepared.outputs.len()];
        let mut outputs = vec![absent; self.prepared.plans.len()];
        for (rank, part) in self.ranks.iter().zip(own) {
            outputs[rank.plan.rank as usize] = part;
        }
        Ok(RunResult { outputs, stats: plan_stats(self.prepared) })
    }

    /// Measures `count` runs, in milliseconds on the slowest rank's device. A start barrier precedes each run, and one
    /// warm-up run precedes all.
    ///
    /// # Errors
    /// If a run fails on any rank, or exceeds the timeout.
    pub fn sample_times(&mut self, count: usize) -> Result<Vec<f64>, Vec<Diag>> {
        self.measure_rounds(count, |rank, timeout| rank.time_run(timeout))
    }

    /// Measures the host time of `count` runs, in seconds on the slowest rank.
    ///
    /// # Errors
    /// If a run fails on any rank, or exceeds the timeout.
    pub fn issue_times(&mut self, count: usize) -> Result<Vec<f64>, Vec<Diag>> {
        self.measure_rounds(count, |rank, timeout| rank.issue_time(timeout))
    }

    /// The maximum over all ranks for each of `count` rounds, after one warm-up round.
    fn measure_rounds(
        &mut self,
        count: usize,
        work: impl Fn(&mut RankRuntime<'_>, Duration) -> Result<f64, RankFailure> + Sync,
    ) -> Result<Vec<f64>, Vec<Diag>> {
        let (barrier, timeout) = (self.rank_barrier(), self.timeout);
        let process_group = self.process_group.clone();
        let most = Mutex::new(vec![0.0f64; count]);
        self.for_each_rank(|rank| {
            for round in 0..=count {
                barrier.wait();
                process_group
                    .wait_for_all()
                    .map_err(|error| RankFailure::peer_failed(error).with_progress(RunProgress::Before))?;
                let figure = work(rank, timeout)?;
                let Some(round) = round.checked_sub(1) else { continue };
                if let Ok(mut most) = most.lock() {
                    most[round] = most[round].max(figure);
                }
            }
            Ok(())
        })?;
        self.process_group.all_reduce_max(most.into_inner().unwrap_or_default())
    }
}

impl Drop for LoadedProgram<'_> {
    fn drop(&mut self) {
        let Ok(_access) = LibraryAccess::acquire() else { return self.leak_resources() };
        if self.has_failed() {
            self.abort_all_ranks();
        } else if self.healthy && !self.held && self.ranks.iter().all(RankRuntime::is_idle) {
            self.release_to_cache();
        }
        // A rank that is not idle may still write to the others' memory.
        if self.held || !self.ranks.iter().all(RankRuntime::is_idle) {
            return self.leak_resources();
        }
        let left = self.left.take();
        teardown::drop_in_threads(self.ranks.drain(..).map(RankRuntime::into_resources).chain(left).collect());
    }
}

impl LoadedProgram<'_> {
    /// Keeps all resources until the process ends.
    fn leak_resources(&mut self) {
        let ranks = std::mem::take(&mut self.ranks);
        std::mem::forget((ranks, std::mem::take(&mut self.waiting), self.left.take()));
    }
}

/// The counts of a run of the plans.
fn plan_stats(prepared: &PreparedProgram) -> RunStats {
    let mut stats = RunStats::default();
    for plan in &prepared.plans {
        stats.instructions += plan.inst_count() as u64;
        for inst in plan.iter() {
            match &inst.kind {
                InstKind::Collective(collective) => {
                    stats.communications += 1;
                    let received = collective.output.as_ref();
                    stats.bytes += received.map_or(0, |view| view.len() * view.dtype.byte_size()) as u64;
                }
                InstKind::Message { header, view } => {
                    stats.communications += 1;
                    if header.direction == MessageDirection::Recv {
                        stats.bytes += (view.len() * view.dtype.byte_size()) as u64;
                    }
                }
                kind => stats.local_bytes += kind.traffic_bytes(),
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
        assert!(are_distinct(&[0], 1) && are_distinct(&[3, 1], 2));
        assert!(!are_distinct(&[0], 2) && !are_distinct(&[0, 1], 8) && !are_distinct(&[2, 2], 2));
    }

    #[test]
    fn ranks_get_devices() {
        assert_eq!(assign_ordinals(2, &[], true, || Ok(4)), Ok(vec![0, 1]));
        assert_eq!(assign_ordinals(2, &[3, 1], true, || Ok(4)), Ok(vec![3, 1]));
        assert_eq!(assign_ordinals(2, &[], false, || Ok(1)), Ok(vec![0]));
        assert_eq!(assign_ordinals(2, &[2, 2], false, || Ok(4)), Ok(vec![2, 2]));
        for (asked, count) in [(&[][..], 1), (&[1, 1][..], 4), (&[2][..], 4), (&[0, 4][..], 4)] {
            let found = assign_ordinals(2, asked, true, || Ok(count));
            assert_eq!(found.unwrap_err().code, codes::DEVICE);
        }
    }
}
