//! Checks of kernels of the user against the declarations of their launches (`hir-run --check-launches`).
//!
//! Before a launch, its kernel runs on copies of all memory of its rank, which nothing else touches. So a difference is
//! the kernel's own, whatever other streams and ranks do meanwhile. The first copy has the rank's data: what changes there
//! has to be declared as written, and what is declared as written is compared with the launch's reference. In two more
//! copies everything but what is declared as read has a pattern, another one in each: what is declared as written has to
//! be the same as in the first copy. Then the kernel runs on the rank's own memory.
//!
//! The host waits for the work before each launch, on its stream alone.
#![allow(unsafe_code, reason = "only the rank knows that its addresses are right")]

mod found;
mod reference;

pub use found::{LaunchFault, ReferenceResult};

use crate::runtime::active_clock::ActiveClock;
use crate::runtime::failure::RankFailure;
use crate::runtime::loaded_program::LoadedProgram;
use crate::runtime::rank::RankRuntime;
use crate::runtime::rank::commands::{ResolvedCommand, argument_word};
use crate::sys::driver::{self, DeviceMemory};
use found::{LaunchRuns, MemoryPart, PATTERNS, poisoned_memory};
use hostir::backend::RunResult;
use hostir::data::HostTensor;
use hostir::diag::Diag;
use hostir::ir::OpId;
use hostir::lower::PreparedProgram;
use hostir::plan::{BufferId, BufferView, InstId, InstKind, LaunchArgument, LaunchInst};
use hostir_gpu::schedule::StreamCommand;
use std::collections::BTreeSet;
use std::sync::Mutex;
use std::time::Duration;

/// The findings about a launch.
#[derive(Debug)]
pub struct LaunchCheck {
    /// The rank.
    pub rank: u32,
    /// The launch in the rank's plan.
    pub inst: InstId,
    /// Differences between the kernel and the declarations.
    pub faults: Vec<LaunchFault>,
    /// Results of the kernel and of its reference, for each view that it writes; empty without a reference.
    pub results: Vec<ReferenceResult>,
}

impl LoadedProgram<'_> {
    /// Runs as [`LoadedProgram::run_once`] does, and checks each launch of a kernel of the user. Of the launches of an op
    /// that has a fault, the first one on each rank is among the findings.
    ///
    /// # Errors
    /// As [`LoadedProgram::run_once`]; also if there is no memory for a copy of a rank's memory, or a kernel does not end
    /// or fails on such a copy.
    pub fn run_checked(&mut self, inputs: &[Vec<HostTensor>]) -> Result<(RunResult, Vec<LaunchCheck>), Vec<Diag>> {
        self.upload_inputs(inputs)?;
        let (prepared, timeout) = (self.prepared, self.timeout);
        let found: Mutex<Vec<LaunchCheck>> = Mutex::default();
        self.for_each_rank(|rank| {
            let own = rank.run_checking(prepared, timeout)?;
            if let Ok(mut found) = found.lock() {
                found.extend(own);
            }
            Ok(())
        })?;
        let mut found = found.into_inner().unwrap_or_default();
        found.sort_by_key(|check| (check.rank, check.inst));
        Ok((self.download_results()?, found))
    }
}

/// A launch that is checked: its call, its declarations, and a copy of its rank's memory.
struct CheckedLaunch<'a> {
    step: usize,
    inst: &'a LaunchInst,
    copy: &'a DeviceMemory,
    timeout: Duration,
}

impl RankRuntime<'_> {
    /// Issues the program once, call by call, with a check before each launch.
    fn run_checking(&mut self, prepared: &PreparedProgram, timeout: Duration) -> Result<Vec<LaunchCheck>, RankFailure> {
        let copy = match self.kernels.user_functions.is_empty() {
            true => None,
            false => Some(DeviceMemory::new(&self.device, self.memory.memory_bytes())?),
        };
        self.tracker.publish_run_begin();
        let (mut checks, mut faulty): (Vec<LaunchCheck>, BTreeSet<OpId>) = (Vec::new(), BTreeSet::new());
        self.issue_in_turn(|rank, at| {
            let plan = rank.plan;
            let inst = plan.inst(rank.commands.step_inst(at));
            if let (InstKind::Launch(launch), Some(copy)) = (&inst.kind, &copy)
                && matches!(rank.commands.schedule.steps[at].call, StreamCommand::UserLaunch(_))
                && !faulty.contains(&inst.origin.op)
            {
                let checked = CheckedLaunch { step: at, inst: launch, copy, timeout };
                let id = rank.commands.step_inst(at);
                let check = rank.check_launch(&checked, prepared).map_err(|failure| failure.at_inst(id))?;
                if !check.faults.is_empty() {
                    faulty.insert(inst.origin.op);
                }
                checks.push(check);
            }
            rank.issue_step(at)
        })?;
        self.wait_for_end(timeout)?;
        Ok(checks)
    }

    fn check_launch(&self, launch: &CheckedLaunch<'_>, prepared: &PreparedProgram) -> Result<LaunchCheck, RankFailure> {
        self.wait_for_stream(launch)?;
        let before = self.download_memory(self.memory.base_address())?;
        let (reads, writes) = (self.memory_parts(&launch.inst.reads), self.memory_parts(&launch.inst.writes));
        let after = self.run_on_copy(launch, &before)?;
        let poisoned = PATTERNS.map(|pattern| poisoned_memory(&before, &reads, &writes, pattern));
        let [first, second] = &poisoned;
        let results = [self.run_on_copy(launch, first)?, self.run_on_copy(launch, second)?];
        let mut runs =
            LaunchRuns { before: &before, after: &after, again: None, poisoned: &poisoned, results: &results };
        let again;
        if runs.depends_on_undeclared(&reads, &writes) {
            // Sums in any order differ from run to run.
            again = self.run_on_copy(launch, &before)?;
            runs.again = Some(&again);
        }
        let faults = runs.find_faults(&reads, &writes, &self.known_parts(launch.inst));
        let expected = reference::run_reference(prepared, self.plan, launch.inst, |buffer| {
            let start = (self.memory.bases[buffer.0 as usize] - self.memory.base_address()) as usize;
            &before[start..]
        });
        let found = writes.iter().map(|part| part.tensor(&after));
        let pairs = found.zip(expected).enumerate();
        let results = pairs.map(|(written, (found, expected))| ReferenceResult { written, found, expected });
        let inst = self.commands.step_inst(launch.step);
        Ok(LaunchCheck { rank: self.plan.rank, inst, faults, results: results.collect() })
    }

    /// The memory of each buffer that has some, those of the launch first.
    fn known_parts(&self, launch: &LaunchInst) -> Vec<MemoryPart> {
        let own = launch.address_views().chain(&launch.reads).chain(&launch.writes).map(|view| view.buffer);
        let all = self.plan.buffers.iter().map(|(buffer, _)| buffer);
        let all = all.filter(|&buffer| self.memory.has_memory(buffer));
        own.chain(all).map(|buffer| self.buffer_part(buffer)).collect()
    }

    /// The memory of a whole buffer.
    fn buffer_part(&self, buffer: BufferId) -> MemoryPart {
        let dims = hostir::plan::row_major(&[self.plan.buffers[buffer].elements]);
        self.memory_part(&BufferView { buffer, offset: 0, dims, dtype: self.plan.buffers[buffer].dtype })
    }

    /// The memory of each view, in their order.
    fn memory_parts(&self, views: &[BufferView]) -> Vec<MemoryPart> {
        views.iter().map(|view| self.memory_part(view)).collect()
    }

    fn memory_part(&self, view: &BufferView) -> MemoryPart {
        let start = self.memory.view_address(view) - self.memory.base_address();
        MemoryPart { start: start as usize, view: view.clone() }
    }

    fn download_memory(&self, from: u64) -> Result<Vec<u8>, RankFailure> {
        let mut bytes = vec![0; self.memory.memory_bytes()];
        // SAFETY: this is the rank's memory or a copy of the same size. What other streams write meanwhile is declared by
        // other instructions: it may be torn, and only belongs to the data that the kernel must not touch.
        unsafe { driver::download_bytes(&mut bytes, from) }?;
        Ok(bytes)
    }

    /// The memory after a run of the kernel on a copy with this content.
    fn run_on_copy(&self, launch: &CheckedLaunch<'_>, content: &[u8]) -> Result<Vec<u8>, RankFailure> {
        let (command, number) = &self.commands.ready[launch.step];
        let ResolvedCommand::UserLaunch { function, shape, .. } = command else { return Ok(content.to_vec()) };
        let copy = launch.copy.address();
        let arguments = launch.inst.arguments.iter();
        let words: Vec<u64> = arguments.map(|argument| self.copy_argument_word(argument, copy)).collect();
        // SAFETY: the copy is as large as the content, and nothing is in flight that uses it.
        unsafe { driver::upload_bytes(copy, content) }?;
        // SAFETY: the promise of `UserKernels::new`; the copy has what the rank's memory has at the same distances.
        unsafe { self.streams.issuing(*number).launch_user(function, *shape, &words) }?;
        self.wait_for_stream(launch).map_err(|failure| RankFailure { hint: Some(ON_COPY), ..failure })?;
        self.download_memory(copy)
    }

    /// The word of an argument, whose address is in the copy that starts at `copy`.
    fn copy_argument_word(&self, argument: &LaunchArgument, copy: u64) -> u64 {
        let word = argument_word(&self.memory, argument);
        match argument {
            LaunchArgument::Address(_) => word - self.memory.base_address() + copy,
            LaunchArgument::Scalar { .. } => word,
        }
    }

    /// Waits for the work of the launch's stream.
    fn wait_for_stream(&self, launch: &CheckedLaunch<'_>) -> Result<(), RankFailure> {
        let stream = self.streams.issuing(self.commands.ready[launch.step].1);
        let mut clock = ActiveClock::start_at_zero();
        while !stream.is_done()? {
            self.check_for_failures()?;
            if clock.elapsed() > launch.timeout && !stream.is_done()? {
                return Err(RankFailure::timed_out());
            }
            std::thread::yield_now();
        }
        Ok(())
    }
}

/// The note for a kernel that fails, or does not end, in a check.
const ON_COPY: &str =
    "`--check-launches` ran the kernel on a copy of the memory, in which only what `reads` names has its data";
