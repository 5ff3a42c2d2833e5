//! A rank's commands: the schedule, and its steps with all addresses looked up.

use crate::runtime::address_map::AddressMap;
use crate::runtime::failure::RankFailure;
use crate::runtime::io_binding::relocation::RelocationTable;
use crate::runtime::rank::allocation::RankAllocation;
use crate::runtime::rank::nccl_calls::{ResolvedNcclCall, resolve_nccl_call};
use crate::runtime::sequencer::IssueSequencer;
use crate::sys::Error;
use crate::sys::blas::GemmOperands;
use crate::sys::module::{KernelFunction, LaunchShape};
use crate::sys::nvtx::NamedRanges;
use crate::sys::peer::WordOp;
use hostir::plan::PerOperand;
use hostir::plan::{BufferId, BufferView, InstId, LaunchArgument};
use hostir_gpu::codegen;
use hostir_gpu::element_range::ViewRange;
use hostir_gpu::operand::SymbolicAddress;
use hostir_gpu::p2p::{MessageTarget, P2pMessage};
use hostir_gpu::rank_memory::WORKSPACE;
use hostir_gpu::schedule::user_launches::UserLaunch;
use hostir_gpu::schedule::{P2pBatch, P2pCopy, RankSchedule, ScheduleStep, SemaphoreOp, StoreGemms, StreamCommand};
use std::ops::Range;

/// A command with all addresses resolved. Lists of operands are ranges of the vectors of [`CommandList`], where a
/// buffer that moves gets its new address in place.
#[derive(Clone, Debug)]
pub(crate) enum ResolvedCommand {
    Launch {
        function: KernelFunction,
        grid: [u32; 3],
        block: [u32; 3],
        addresses: Range<usize>,
    },
    /// A kernel of the user; a word holds the bytes of one parameter.
    UserLaunch {
        function: KernelFunction,
        shape: LaunchShape,
        words: Range<usize>,
    },
    Copy {
        to: u64,
        from: u64,
        bytes: usize,
    },
    Gemm {
        gemm: usize,
        operands: GemmOperands,
    },
    /// GEMMs with one right factor; of each part the addresses of the left factor and of the result are words.
    StoreGemms {
        gemm: usize,
        operands: GemmOperands,
        words: Range<usize>,
    },
    Record {
        event: usize,
    },
    Wait {
        event: usize,
    },
    Communicate {
        comm: usize,
        calls: Range<usize>,
    },
    Words {
        ops: Range<usize>,
    },
    Transfer {
        to: u64,
        from: u64,
        bytes: usize,
    },
}

/// The commands of a rank in the order of their issue.
pub(crate) struct CommandList {
    pub(crate) schedule: RankSchedule,
    /// The steps of the schedule, each with its stream.
    pub(crate) ready: Vec<(ResolvedCommand, usize)>,
    pub(crate) addresses: Vec<u64>,
    pub(crate) nccl_calls: Vec<ResolvedNcclCall>,
    pub(crate) words: Vec<WordOp>,
    /// The rank's turns among ranks that share devices.
    pub(crate) turns: Option<IssueSequencer>,
    /// The names of the steps for a profiler.
    pub(crate) ranges: Option<NamedRanges>,
}

/// The tables from which addresses are resolved.
#[derive(Clone, Copy)]
pub(crate) struct AddressContext<'a> {
    pub(crate) rank: u32,
    pub(crate) memory: &'a RankAllocation,
    pub(crate) functions: &'a [KernelFunction],
    pub(crate) user_functions: &'a [KernelFunction],
    pub(crate) map: &'a AddressMap,
}

impl CommandList {
    /// The commands of a schedule, not yet with addresses.
    pub(crate) fn new(schedule: RankSchedule) -> Self {
        let (ready, addresses, nccl_calls, words) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        Self { schedule, ready, addresses, nccl_calls, words, turns: None, ranges: None }
    }

    /// Resolves the schedule into calls with addresses; replaces the calls of an earlier resolution.
    pub(crate) fn resolve_addresses(&mut self, context: AddressContext<'_>) -> Result<(), Error> {
        self.addresses.clear();
        self.nccl_calls.clear();
        self.words.clear();
        let steps = std::mem::take(&mut self.schedule.steps);
        let ready = steps.iter().map(|step| Ok((self.resolve_step(step, context)?, step.stream)));
        let ready: Result<Vec<_>, Error> = ready.collect();
        self.schedule.steps = steps;
        self.ready = ready?;
        Ok(())
    }

    /// The plan's instruction of a step.
    pub(crate) fn step_inst(&self, at: usize) -> InstId {
        self.schedule.steps[at].inst
    }

    /// The index of a communicator's team among the program's teams.
    pub(crate) fn team_entry(&self, comm: usize) -> usize {
        self.schedule.members[comm].0
    }

    /// Names a step for a profiler while `issue` issues it.
    pub(crate) fn in_named_range(
        &self,
        at: usize,
        issue: impl FnOnce() -> Result<(), RankFailure>,
    ) -> Result<(), RankFailure> {
        if let Some(ranges) = &self.ranges {
            ranges.push_range(at);
        }
        let issued = issue();
        if let Some(ranges) = &self.ranges {
            ranges.pop_range();
        }
        issued
    }

    fn resolve_step(&mut self, step: &ScheduleStep, context: AddressContext<'_>) -> Result<ResolvedCommand, Error> {
        let AddressContext { rank, memory, functions, map, .. } = context;
        Ok(match &step.call {
            StreamCommand::Launch { text, grid, block, places } => {
                let start = self.addresses.len();
                for place in places {
                    self.addresses.push(memory.operand_address(place, step.stream));
                }
                let addresses = start..self.addresses.len();
                let function = functions[*text].clone();
                ResolvedCommand::Launch { function, grid: *grid, block: *block, addresses }
            }
            StreamCommand::UserLaunch(launch) => {
                let start = self.addresses.len();
                self.addresses.extend(launch.arguments.iter().map(|argument| argument_word(memory, argument)));
                let UserLaunch { kernel, grid, block, shared, .. } = **launch;
                let (function, shape) = (context.user_functions[kernel].clone(), LaunchShape { grid, block, shared });
                ResolvedCommand::UserLaunch { function, shape, words: start..self.addresses.len() }
            }
            StreamCommand::Copy { views, bytes } => resolve_copy(memory, views, *bytes),
            StreamCommand::Gemm { shape, operands } => {
                let end = self.schedule.scratch[step.stream];
                let workspace = (memory.scratch_address(step.stream, end - WORKSPACE), WORKSPACE);
                let mut resolved = resolve_gemm_operands(memory, operands, step.stream, workspace);
                if let Some(SymbolicAddress::Peer { rank, view }) = &operands[3] {
                    resolved.d = map.element_address(*rank, view, 0)?;
                }
                ResolvedCommand::Gemm { gemm: *shape, operands: resolved }
            }
            StreamCommand::StoreGemms(gemms) => self.resolve_stores(gemms, step.stream, context)?,
            StreamCommand::Record { event } => ResolvedCommand::Record { event: *event },
            StreamCommand::Wait { event } => ResolvedCommand::Wait { event: *event },
            StreamCommand::Communicate { entry, calls } => {
                let place = self.schedule.members.iter().position(|(other, _)| other == entry);
                let start = self.nccl_calls.len();
                for call in calls {
                    self.nccl_calls.push(resolve_nccl_call(memory, call, step.stream)?);
                }
                ResolvedCommand::Communicate { comm: place.unwrap_or(0), calls: start..self.nccl_calls.len() }
            }
            StreamCommand::Signal { signals } => {
                let start = self.words.len();
                for signal in signals {
                    self.words.push(resolve_semaphore_op(*signal, rank, map)?);
                }
                ResolvedCommand::Words { ops: start..self.words.len() }
            }
            StreamCommand::Transfer { message } => {
                let message = &map.messages.list[*message];
                let [from, to] = message_addresses(message, step.stream, rank, memory, map)?;
                ResolvedCommand::Transfer { to, from, bytes: message.byte_count() }
            }
            StreamCommand::P2pBatch(batch) => self.resolve_batch(batch, step.stream, context)?,
        })
    }

    /// GEMMs that store in the memory of several ranks.
    fn resolve_stores(
        &mut self,
        gemms: &StoreGemms,
        stream: usize,
        context: AddressContext<'_>,
    ) -> Result<ResolvedCommand, Error> {
        let AddressContext { memory, map, .. } = context;
        let end = self.schedule.scratch[stream];
        let start = self.addresses.len();
        for place in gemms.parts.iter().flatten() {
            self.addresses.push(match place {
                SymbolicAddress::Peer { rank, view } => map.element_address(*rank, view, 0)?,
                place => memory.operand_address(place, stream),
            });
        }
        let words = start..self.addresses.len();
        let operands = GemmOperands {
            a: memory.operand_address(&gemms.right, stream),
            b: self.addresses[start],
            bias: 0,
            d: self.addresses[start + 1],
            scales: [0; 2],
            workspace: (memory.scratch_address(stream, end - WORKSPACE), WORKSPACE),
        };
        Ok(ResolvedCommand::StoreGemms { gemm: gemms.shape, operands, words })
    }

    /// The launch of a put or get kernel, with its parameters in the order of [`hostir_gpu::codegen`].
    fn resolve_batch(
        &mut self,
        batch: &P2pBatch,
        stream: usize,
        context: AddressContext<'_>,
    ) -> Result<ResolvedCommand, Error> {
        let AddressContext { rank: own, memory, functions, map, .. } = context;
        let start = self.addresses.len();
        for &(rank, flag) in &batch.signals {
            self.addresses.push(map.flag_address(rank, flag)?);
        }
        for one in &batch.copies {
            let words: [u64; codegen::EXCHANGE_WORDS] = match one {
                P2pCopy::Message(message) => {
                    let message = &map.messages.list[*message];
                    let [from, to] = message_addresses(message, stream, own, memory, map)?;
                    let (ready, counter) =
                        (map.flag_address(own, message.ready)?, map.flag_address(own, message.counter)?);
                    let done = map.flag_address(message.target_rank(), message.done)?;
                    [ready, from, to, message.byte_count() as u64, done, counter]
                }
                P2pCopy::Local(parts) => {
                    let [from, to] = parts.each_ref().map(|part| memory.range_address(part));
                    [0, from, to, parts[0].byte_count() as u64, 0, 0]
                }
            };
            self.addresses.extend(words);
        }
        for &flag in &batch.waits {
            self.addresses.push(map.flag_address(own, flag)?);
        }
        let copies = batch.copies.len();
        Ok(ResolvedCommand::Launch {
            function: functions[batch.text].clone(),
            grid: [batch.blocks, copies.max(1) as u32, 1],
            block: [codegen::exchange_threads(copies), 1, 1],
            addresses: start..self.addresses.len(),
        })
    }

    /// Resolves the commands that hold the address of a buffer again, after it moved.
    pub(crate) fn relocate_buffer(
        &mut self,
        buffer: BufferId,
        rank: u32,
        memory: &RankAllocation,
        relocations: &RelocationTable,
    ) -> Result<(), Error> {
        relocations
            .steps_using(buffer)
            .iter()
            .try_for_each(|&number| self.relocate_command(number as usize, rank, memory))
    }

    /// Looks the addresses of a command up again.
    fn relocate_command(&mut self, number: usize, rank: u32, memory: &RankAllocation) -> Result<(), Error> {
        let step = &self.schedule.steps[number];
        let ready = match (&self.ready[number].0, &step.call) {
            (ResolvedCommand::Launch { addresses, .. }, StreamCommand::Launch { places, .. }) => {
                for (slot, place) in addresses.clone().zip(places) {
                    self.addresses[slot] = memory.operand_address(place, step.stream);
                }
                return Ok(());
            }
            (ResolvedCommand::UserLaunch { words, .. }, StreamCommand::UserLaunch(launch)) => {
                for (slot, argument) in words.clone().zip(&launch.arguments) {
                    self.addresses[slot] = argument_word(memory, argument);
                }
                return Ok(());
            }
            (ResolvedCommand::Communicate { calls: slots, .. }, StreamCommand::Communicate { calls, .. }) => {
                for (slot, call) in slots.clone().zip(calls) {
                    self.nccl_calls[slot] = resolve_nccl_call(memory, call, step.stream)?;
                }
                return Ok(());
            }
            (ResolvedCommand::Copy { .. }, StreamCommand::Copy { views, bytes }) => resolve_copy(memory, views, *bytes),
            (ResolvedCommand::Gemm { operands: old, .. }, StreamCommand::Gemm { shape, operands }) => {
                let mut resolved = resolve_gemm_operands(memory, operands, step.stream, old.workspace);
                // Another rank's memory does not move.
                if let Some(SymbolicAddress::Peer { .. }) = &operands[3] {
                    resolved.d = old.d;
                }
                ResolvedCommand::Gemm { gemm: *shape, operands: resolved }
            }
            (ResolvedCommand::StoreGemms { operands: old, words, .. }, StreamCommand::StoreGemms(gemms)) => {
                for (slot, place) in words.clone().zip(gemms.parts.iter().flatten()) {
                    // Another rank's memory does not move.
                    if !matches!(place, SymbolicAddress::Peer { .. }) {
                        self.addresses[slot] = memory.operand_address(place, step.stream);
                    }
                }
                let a = memory.operand_address(&gemms.right, step.stream);
                let [b, d] = [0, 1].map(|at| self.addresses[words.start + at]);
                let operands = GemmOperands { a, b, d, ..*old };
                ResolvedCommand::StoreGemms { gemm: gemms.shape, operands, words: words.clone() }
            }
            (ResolvedCommand::Transfer { bytes, .. }, StreamCommand::Transfer { message }) => {
                let Some(map) = &memory.map else { return Ok(()) };
                let [from, to] = message_addresses(&map.messages.list[*message], step.stream, rank, memory, map)?;
                ResolvedCommand::Transfer { to, from, bytes: *bytes }
            }
            (ResolvedCommand::Launch { addresses, .. }, StreamCommand::P2pBatch(batch)) => {
                let first = addresses.start + batch.signals.len();
                for (one, words) in batch.copies.iter().zip((first..).step_by(codegen::EXCHANGE_WORDS)) {
                    let moved = match (one, &memory.map) {
                        (P2pCopy::Local(parts), _) => parts.each_ref().map(|part| memory.range_address(part)),
                        (P2pCopy::Message(message), Some(map)) => {
                            message_addresses(&map.messages.list[*message], step.stream, rank, memory, map)?
                        }
                        (P2pCopy::Message(_), None) => continue,
                    };
                    self.addresses[words + 1..=words + 2].copy_from_slice(&moved);
                }
                return Ok(());
            }
            _ => return Ok(()),
        };
        self.ready[number].0 = ready;
        Ok(())
    }

    /// The operands of a GEMM's first call, and the words of its parts.
    pub(crate) fn first_operands(&self, number: usize) -> Option<(GemmOperands, &[u64])> {
        self.ready.iter().find_map(|(call, _)| match call {
            ResolvedCommand::Gemm { gemm, operands } if *gemm == number => Some((*operands, &[][..])),
            ResolvedCommand::StoreGemms { gemm, operands, words } if *gemm == number => {
                Some((*operands, &self.addresses[words.clone()]))
            }
            _ => None,
        })
    }
}

/// The word of which a kernel of the user gets the first bytes.
pub(crate) fn argument_word(memory: &RankAllocation, argument: &LaunchArgument) -> u64 {
    match argument {
        LaunchArgument::Address(view) => memory.view_address(view),
        LaunchArgument::Scalar { .. } => {
            let mut word = [0; size_of::<u64>()];
            let bytes = argument.scalar_bytes().unwrap_or_default();
            word[..bytes.len()].copy_from_slice(&bytes);
            u64::from_ne_bytes(word)
        }
    }
}

/// Returns the source and destination addresses of a message that a rank initiates. Its own buffers may move; its
/// peers' buffers do not.
fn message_addresses(
    message: &P2pMessage,
    stream: usize,
    own: u32,
    memory: &RankAllocation,
    map: &AddressMap,
) -> Result<[u64; 2], Error> {
    let address = |rank: u32, part: &ViewRange| match rank == own {
        true => Ok(memory.range_address(part)),
        false => map.range_address(rank, part),
    };
    let from = address(message.from, &message.source)?;
    let to = match &message.target {
        MessageTarget::Part(part) => address(message.to, part)?,
        MessageTarget::Staging(bytes) => memory.scratch_address(stream, *bytes),
    };
    Ok([from, to])
}

fn resolve_semaphore_op(signal: SemaphoreOp, own: u32, map: &AddressMap) -> Result<WordOp, Error> {
    Ok(match signal {
        SemaphoreOp::Signal { rank, flag } => WordOp::write_word(map.flag_address(rank, flag)?, 1),
        SemaphoreOp::Wait { flag } => WordOp::wait_for_word(map.flag_address(own, flag)?, 1),
        SemaphoreOp::Reset { flag } => WordOp::write_word(map.flag_address(own, flag)?, 0),
    })
}

fn resolve_copy(memory: &RankAllocation, views: &[BufferView; 2], bytes: usize) -> ResolvedCommand {
    let [from, to] = views.each_ref().map(|view| memory.view_address(view));
    ResolvedCommand::Copy { to, from, bytes }
}

fn resolve_gemm_operands(
    memory: &RankAllocation,
    operands: &PerOperand<Option<SymbolicAddress>>,
    stream: usize,
    workspace: (u64, usize),
) -> GemmOperands {
    let address =
        |place: &Option<SymbolicAddress>| place.as_ref().map_or(0, |place| memory.operand_address(place, stream));
    let [a, b, bias, d, scale_a, scale_b] = operands.each_ref().map(address);
    GemmOperands { a, b, bias, d, scales: [scale_a, scale_b], workspace }
}
