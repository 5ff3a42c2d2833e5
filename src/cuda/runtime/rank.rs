//! One rank on its device: its resources, and the loop that issues its commands.
//!
//! A rank consists of parts with one duty each: memory and addresses ([`RankAllocation`]), streams and events
//! ([`RankStreams`]), kernels and GEMMs ([`LoadedKernels`]), the commands with their addresses ([`CommandList`]),
//! communicators ([`RankCommunicators`]), the recorded run ([`GraphRecorder`]), progress as the watchdog sees it
//! ([`RunTracker`]), and failures of this and other ranks ([`FailureLinks`]). Functions that need one part are
//! its methods; those here and in `completion` need several.
//!
//! Driver calls take unchecked addresses and are therefore `unsafe`. Their preconditions hold for every rank ("the
//! rank's promise" in the comments at the calls):
//!
//! - **Bounds.** An address belongs to a buffer, to scratch memory or to a semaphore in the rank's own memory, inside
//!   of the layout of the plan; to the same in another rank's memory ([`AddressMap`]); or to a tensor that a caller
//!   bound. The caller guarantees that the tensor exists, and it was checked to be inside of its allocation
//!   ([`rank_bindings`](crate::runtime::io_binding::rank_bindings)). The views of a plan are inside of their buffers
//!   ([`crate::runtime::index_bounds`] checks this).
//! - **Lifetime.** The rank owns its memory, streams, functions, GEMMs and communicators; [`AddressMap`] keeps the
//!   others' memory open or is shared with the ranks that own it. They are dropped after the rank's runs have ended:
//!   code that drops a rank first waits for it or aborts it. A rank whose device may still be at work is never dropped,
//!   nor are ranks that it may write to ([`LoadedProgram`](crate::runtime::loaded_program::LoadedProgram)). A graph is
//!   dropped before the objects that it recorded.
//! - **Ordering.** The schedule orders accesses of several streams to the same memory by events, and those of several
//!   ranks by semaphores or communicators. Host code accesses the memory between runs only.
//! - **Agreement.** All ranks of a communicator were made from one prepared program, so their calls match.
#![allow(unsafe_code, reason = "only the rank knows that its addresses are right")]

pub(crate) mod allocation;
pub(crate) mod commands;
mod completion;
pub(crate) mod failure_links;
pub(crate) mod graph_recorder;
pub(crate) mod kernels;
pub(crate) mod nccl_calls;
mod rank_gemm;
pub(crate) mod run_tracker;
pub(crate) mod streams;

use crate::runtime::address_map::AddressMap;
use crate::runtime::failure::RankFailure;
use crate::runtime::kernel_images::ProgramImages;
use crate::runtime::nccl::rank_communicators::RankCommunicators;
use crate::runtime::options::Options;
use crate::runtime::rank::allocation::{AllocationLayout, RankAllocation};
use crate::runtime::rank::commands::{AddressContext, CommandList, ResolvedCommand};
use crate::runtime::rank::failure_links::FailureLinks;
use crate::runtime::rank::graph_recorder::GraphRecorder;
use crate::runtime::rank::kernels::LoadedKernels;
use crate::runtime::rank::nccl_calls::issue_nccl_calls;
use crate::runtime::rank::run_tracker::RunTracker;
use crate::runtime::rank::streams::RankStreams;
use crate::runtime::symmetric_buffers::SymmetricBuffers;
use crate::sys::Error;
use crate::sys::driver::CudaDevice;
use hostir::data::HostTensor;
use hostir::plan::{BufferId, Plan};
use hostir_gpu::schedule::RankSchedule;
use hostir_gpu::schedule::wait_events;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A rank that is ready to run.
pub(crate) struct RankRuntime<'p> {
    pub(crate) plan: &'p Plan,
    // Fields drop in this order: users before what they use.
    pub(crate) recorder: GraphRecorder,
    pub(crate) communicators: RankCommunicators,
    pub(crate) kernels: LoadedKernels,
    pub(crate) commands: CommandList,
    pub(crate) streams: RankStreams,
    pub(crate) memory: RankAllocation,
    pub(crate) device: Arc<CudaDevice>,
    pub(crate) tracker: RunTracker,
    pub(crate) failures: FailureLinks,
}

impl<'p> RankRuntime<'p> {
    /// Creates memory, streams, events, modules and GEMMs; not yet addresses and communicators.
    pub(crate) fn new(
        plan: &'p Plan,
        schedule: RankSchedule,
        place: AllocationLayout<'_>,
        device: Arc<CudaDevice>,
        images: &ProgramImages,
        options: &Options,
    ) -> Result<Self, RankFailure> {
        let cache = &options.cache;
        let semaphores = place.flags > 0;
        let memory = RankAllocation::new(plan, &device, place, cache)?;
        let streams = RankStreams::new(&device, &schedule, plan.streams as usize, semaphores)?;
        streams.clear_memory(&memory)?;
        let waits = wait_events::peer_waits(&schedule.steps);
        Ok(Self {
            plan,
            recorder: GraphRecorder::default(),
            communicators: RankCommunicators::default(),
            kernels: LoadedKernels::load(&device, &schedule, images, options)?,
            commands: CommandList::new(schedule),
            streams,
            memory,
            device,
            tracker: RunTracker { queued: 0, waits, watched: None },
            failures: FailureLinks::default(),
        })
    }

    /// Resolves the schedule into calls with addresses, its own and those of its peers.
    pub(crate) fn resolve_addresses(&mut self, map: &Arc<AddressMap>) -> Result<(), Error> {
        self.memory.map = Some(map.clone());
        let (memory, functions) = (&self.memory, &self.kernels.functions[..]);
        let user_functions = &self.kernels.user_functions[..];
        self.commands.resolve_addresses(AddressContext { rank: self.plan.rank, memory, functions, user_functions, map })
    }

    /// Moves buffers to the caller's symmetric memory, on this rank and its peers, from the memory that they had while
    /// the program was prepared.
    pub(crate) fn move_to_symmetric(&mut self, symmetric: &SymmetricBuffers) -> Result<(), Error> {
        let Some(map) = self.memory.map.clone().filter(|_| !symmetric.is_empty()) else { return Ok(()) };
        map.symmetric.get_or_init(|| symmetric.clone());
        for buffer in (0..self.plan.buffers.len()).map(|at| BufferId(at as u32)) {
            if let Some(address) = symmetric.address(self.plan.rank, buffer) {
                self.memory.move_buffer(buffer, address);
            }
        }
        self.resolve_addresses(&map)
    }

    // ---- data ----

    /// Copies inputs to the device.
    pub(crate) fn upload_inputs(&self, inputs: &[HostTensor]) -> Result<(), Error> {
        self.device.make_current()?;
        for (view, tensor) in self.plan.inputs.iter().zip(inputs) {
            if let Some(view) = view {
                self.memory.upload_view(view, tensor)?;
            }
        }
        Ok(())
    }

    /// Copies outputs from the device, row-major.
    pub(crate) fn download_outputs(&self) -> Result<Vec<Option<HostTensor>>, Error> {
        self.device.make_current()?;
        let download = |view| self.memory.download_view(view);
        self.plan.outputs.iter().map(|view| view.as_ref().map(download).transpose()).collect()
    }

    /// Returns the rank's shard of an output after the run.
    pub(crate) fn fetch_output(&self, position: usize) -> Result<Option<HostTensor>, Error> {
        let view = self.plan.outputs.get(position).and_then(Option::as_ref);
        view.map(|view| self.memory.download_view(view)).transpose()
    }

    // ---- the run ----

    /// Issues the whole program.
    pub(crate) fn issue_run(&mut self) -> Result<(), RankFailure> {
        self.tracker.queued += 1;
        self.tracker.publish_position(None);
        self.tracker.publish_run_begin();
        if let Some(graph) = &self.recorder.graph {
            // SAFETY: the rank's promise: it holds all that was recorded, and a buffer that moves takes the
            // graph away.
            return Ok(unsafe { self.streams.main().launch_graph(graph) }?);
        }
        self.issue_in_turn(|rank, at| rank.issue_step(at))
    }

    /// Returns true if a run may be issued on a caller's stream itself rather than between two events of it. The run
    /// must not wait for other ranks, because nothing could release the caller's stream, and it must be short: long
    /// runs gain more from launches that overlap the end of earlier kernels, which default streams do not have.
    pub(crate) fn may_run_on_caller(&self) -> bool {
        const MOST_STEPS: usize = 8;
        let alone =
            self.communicators.teams.is_empty() && self.streams.side_stream.is_none() && self.failures.peers.is_none();
        let issued = self.recorder.graph.is_none() && self.commands.turns.is_none();
        alone && issued && self.commands.ready.len() <= MOST_STEPS
    }

    /// Calls `issue` for each step in order; if ranks share devices, in the order of all ranks' steps.
    pub(crate) fn issue_in_turn(
        &mut self,
        mut work: impl FnMut(&mut Self, usize) -> Result<(), RankFailure>,
    ) -> Result<(), RankFailure> {
        let Some(mut turns) = self.commands.turns.take() else {
            return (0..self.commands.ready.len()).try_for_each(|at| work(self, at));
        };
        let done = turns.run_in_turn(|at| work(self, at));
        self.commands.turns = Some(turns);
        done
    }

    pub(crate) fn issue_step(&mut self, at: usize) -> Result<(), RankFailure> {
        self.check_while_issuing(at)?;
        let inst = self.commands.step_inst(at);
        self.tracker.publish_position(Some(inst));
        let Self { commands, streams, kernels, communicators, recorder, .. } = self;
        let issued =
            commands.in_named_range(at, || issue_command(commands, at, streams, kernels, communicators, recorder));
        issued.map_err(|failure| failure.at_inst(inst))
    }

    /// Records the program as a graph for [`RankRuntime::issue_run`] to replay.
    pub(crate) fn capture_graph(&mut self, timeout: Duration) -> Result<(), RankFailure> {
        self.device.make_current()?;
        self.recorder.graph = None;
        self.recorder.create_external_events(&self.device, &self.tracker.waits)?;
        self.streams.main().begin_capture()?;
        // Recorded commands are not in flight.
        let queued = self.tracker.queued;
        self.recorder.recording = true;
        let issued = self.issue_run();
        self.recorder.recording = false;
        self.tracker.queued = queued;
        let graph = self.streams.main().end_capture();
        self.tracker.publish_run_end();
        issued?;
        let graph = graph?;
        // The first launch must not upload anything to the device: other ranks may wait there already.
        self.streams.main().upload_graph(&graph)?;
        self.recorder.graph = Some(graph);
        // Earlier runs may be in flight.
        self.wait_for_end(timeout)
    }

    /// Measures the milliseconds of the program on the device, from an empty stream to the end of all its streams.
    pub(crate) fn time_run(&mut self, timeout: Duration) -> Result<f64, RankFailure> {
        self.wait_at_start_barrier(timeout)?;
        self.streams.main().record(&self.streams.timers[0])?;
        self.issue_run()?;
        self.streams.main().record(&self.streams.timers[1])?;
        self.wait_for_end(timeout)?;
        Ok(self.streams.timers[1].elapsed_since(&self.streams.timers[0])?)
    }

    /// Measures the seconds that the host needs to issue the program once; with turns also those of waiting for them.
    pub(crate) fn issue_time(&mut self, timeout: Duration) -> Result<f64, RankFailure> {
        let start = Instant::now();
        self.issue_run()?;
        let spent = start.elapsed().as_secs_f64();
        self.wait_for_end(timeout)?;
        Ok(spent)
    }

    /// Allows later programs to reuse its memory and its handle when it is dropped; the rank must be idle.
    pub(crate) fn return_resources(&mut self) {
        // Other processes may have opened the memory.
        self.memory.memory.keep = self.failures.peers.is_none();
        self.kernels.keep_handle();
    }
}

/// Issues a command on its stream.
fn issue_command(
    commands: &CommandList,
    at: usize,
    streams: &RankStreams,
    kernels: &LoadedKernels,
    communicators: &mut RankCommunicators,
    recorder: &GraphRecorder,
) -> Result<(), RankFailure> {
    let (command, stream) = &commands.ready[at];
    let stream = streams.issuing(*stream);
    match command {
        ResolvedCommand::Launch { function, grid, block, addresses } => {
            let words = &commands.addresses[addresses.clone()];
            // SAFETY: the rank's promise: these are the addresses that the kernel was generated for.
            unsafe { stream.launch(function, *grid, *block, words) }?;
        }
        ResolvedCommand::UserLaunch { function, shape, words } => {
            let words = &commands.addresses[words.clone()];
            // SAFETY: the promise of `UserKernels::new`; the words are as large as the kernel's parameters.
            unsafe { stream.launch_user(function, *shape, words) }?;
        }
        ResolvedCommand::Copy { to, from, bytes } => {
            // SAFETY: the rank's promise.
            unsafe { stream.copy(*to, *from, *bytes) }?;
        }
        ResolvedCommand::Gemm { gemm, operands } => {
            // SAFETY: the rank's promise; the workspace is as `LoadedKernels::load` says.
            unsafe { kernels.run_gemm(*gemm, operands, &[], stream) }?;
        }
        ResolvedCommand::StoreGemms { gemm, operands, words } => {
            let parts = &commands.addresses[words.clone()];
            // SAFETY: the rank's promise, as for one GEMM.
            unsafe { kernels.run_gemm(*gemm, operands, parts, stream) }?;
        }
        ResolvedCommand::Record { event } => {
            stream.record(&streams.events[*event])?;
            recorder.record_external_event(*event, stream)?;
        }
        ResolvedCommand::Wait { event } => stream.wait(&streams.events[*event])?,
        ResolvedCommand::Communicate { comm, calls } => {
            let comm = communicators.team_communicator(commands.team_entry(*comm));
            // SAFETY: the rank's promise.
            unsafe { issue_nccl_calls(comm, &commands.nccl_calls[calls.clone()], stream) }?;
        }
        ResolvedCommand::Transfer { to, from, bytes } => {
            // SAFETY: the rank's promise.
            unsafe { stream.copy_between_devices(*to, *from, *bytes) }?;
        }
        ResolvedCommand::Words { ops } => {
            // SAFETY: the rank's promise: these are words of flags.
            unsafe { stream.run_word_ops(&commands.words[ops.clone()]) }?;
        }
    }
    Ok(())
}
