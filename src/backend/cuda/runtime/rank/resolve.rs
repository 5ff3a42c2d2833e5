//! Resolves the addresses of a schedule's commands.

use crate::runtime::p2p_map::AddressMap;
use crate::runtime::rank::{RankRuntime, ResolvedCommand, ResolvedNcclCall};
use crate::sys::Error;
use crate::sys::blas::GemmOperands;
use crate::sys::driver::DeviceMemory;
use crate::sys::peer::WordOp;
use hostir::ir::DType;
use hostir::plan::BufferView;
use hostir_gpu::codegen;
use hostir_gpu::element_range::ViewRange;
use hostir_gpu::nccl_lowering;
use hostir_gpu::nccl_lowering::data_type;
use hostir_gpu::nccl_types::{NcclReduction, NcclType};
use hostir_gpu::operand::SymbolicAddress;
use hostir_gpu::p2p::{MessageTarget, P2pMessage};
use hostir_gpu::rank_memory::WORKSPACE;
use hostir_gpu::schedule::{P2pCopy, P2pExchange, ScheduleStep, SemaphoreOp, StreamCommand};
use nccl_rs::DataType;

impl RankRuntime<'_> {
    pub(crate) fn view_address(&self, view: &BufferView) -> u64 {
        self.element_address(view, 0)
    }

    /// Buffers start in the rank's memory, or in the spare room.
    pub(crate) fn initial_bases(&self) -> Vec<u64> {
        let start = self.memory.address();
        let outside = self.spare.as_ref().map_or(start, DeviceMemory::address);
        let base = |offset: &Option<usize>| offset.map_or(outside, |bytes| start + bytes as u64);
        self.layout.offsets.iter().map(base).collect()
    }

    pub(crate) fn element_address(&self, view: &BufferView, index: usize) -> u64 {
        let bytes = (view.offset + index) * view.dtype.byte_size();
        self.bases[view.buffer.0 as usize] + bytes as u64
    }

    pub(crate) fn range_address(&self, part: &ViewRange) -> u64 {
        self.element_address(&part.view, part.start)
    }

    pub(crate) fn scratch_address(&self, stream: usize, bytes: usize) -> u64 {
        self.memory.address() + (self.layout.scratch.get(stream).unwrap_or(&0) + bytes) as u64
    }

    pub(crate) fn operand_address(&self, place: &SymbolicAddress, stream: usize) -> u64 {
        match place {
            SymbolicAddress::View(view) => self.view_address(view),
            SymbolicAddress::Scratch(bytes) => self.scratch_address(stream, *bytes),
        }
    }

    pub(crate) fn resolve_step(&mut self, step: &ScheduleStep, map: &AddressMap) -> Result<ResolvedCommand, Error> {
        Ok(match &step.call {
            StreamCommand::Launch { text, grid, block, places } => {
                let start = self.addresses.len();
                for place in places {
                    self.addresses.push(self.operand_address(place, step.stream));
                }
                let addresses = start..self.addresses.len();
                let function = self.functions[*text].clone();
                ResolvedCommand::Launch { function, grid: *grid, block: *block, addresses }
            }
            StreamCommand::Copy { views, bytes } => self.resolve_copy(views, *bytes),
            StreamCommand::Product { shape, operands } => {
                let end = self.schedule.scratch[step.stream];
                let workspace = (self.scratch_address(step.stream, end - WORKSPACE), WORKSPACE);
                self.resolve_gemm(*shape, operands, step.stream, workspace)
            }
            StreamCommand::Record { event } => ResolvedCommand::Record { event: *event },
            StreamCommand::Wait { event } => ResolvedCommand::Wait { event: *event },
            StreamCommand::Communicate { entry, calls } => {
                let place = self.schedule.members.iter().position(|(other, _)| other == entry);
                let start = self.raw.len();
                for call in calls {
                    let raw = self.resolve_nccl_call(call, step.stream)?;
                    self.raw.push(raw);
                }
                ResolvedCommand::Communicate { comm: place.unwrap_or(0), calls: start..self.raw.len() }
            }
            StreamCommand::Signal { signals } => {
                let start = self.words.len();
                for signal in signals {
                    self.words.push(self.resolve_semaphore_op(*signal, map)?);
                }
                ResolvedCommand::Words { ops: start..self.words.len() }
            }
            StreamCommand::Transfer { message } => {
                let message = &map.messages.list[*message];
                let [from, to] = self.message_addresses(message, step.stream, map)?;
                ResolvedCommand::Transfer { to, from, bytes: message.byte_count() }
            }
            StreamCommand::Exchange(exchange) => self.resolve_exchange(exchange, step.stream, map)?,
        })
    }

    /// Returns the source and destination addresses of a message.
    fn message_addresses(&self, message: &P2pMessage, stream: usize, map: &AddressMap) -> Result<[u64; 2], Error> {
        let from = map.range_address(message.from, &message.source)?;
        let to = match &message.target {
            MessageTarget::Part(part) => map.range_address(message.to, part)?,
            MessageTarget::Staging(bytes) => self.scratch_address(stream, *bytes),
        };
        Ok([from, to])
    }

    /// The launch of an exchange, with its parameters as [`codegen::exchange`] orders them.
    fn resolve_exchange(
        &mut self,
        exchange: &P2pExchange,
        stream: usize,
        map: &AddressMap,
    ) -> Result<ResolvedCommand, Error> {
        let (start, own) = (self.addresses.len(), self.plan.rank);
        for &(rank, flag) in &exchange.raises {
            self.addresses.push(map.flag_address(rank, flag)?);
        }
        for one in &exchange.moves {
            let words: [u64; codegen::EXCHANGE_WORDS] = match one {
                P2pCopy::Message(message) => {
                    let message = &map.messages.list[*message];
                    let [from, to] = self.message_addresses(message, stream, map)?;
                    let (offer, counter) =
                        (map.flag_address(own, message.offer)?, map.flag_address(own, message.counter)?);
                    let done = map.flag_address(message.target_rank(), message.done)?;
                    [offer, from, to, message.byte_count() as u64, done, counter]
                }
                P2pCopy::Local(parts) => {
                    let [from, to] = parts.each_ref().map(|part| self.range_address(part));
                    [0, from, to, parts[0].byte_count() as u64, 0, 0]
                }
            };
            self.addresses.extend(words);
        }
        for &flag in &exchange.awaits {
            self.addresses.push(map.flag_address(own, flag)?);
        }
        Ok(ResolvedCommand::Launch {
            function: self.functions[exchange.text].clone(),
            grid: [exchange.blocks, exchange.moves.len() as u32, 1],
            block: [codegen::EXCHANGE_THREADS, 1, 1],
            addresses: start..self.addresses.len(),
        })
    }

    pub(crate) fn resolve_semaphore_op(&self, signal: SemaphoreOp, map: &AddressMap) -> Result<WordOp, Error> {
        Ok(match signal {
            SemaphoreOp::Raise { rank, flag } => WordOp::write_word(map.flag_address(rank, flag)?, 1),
            SemaphoreOp::Await { flag } => WordOp::wait_for_word(map.flag_address(self.plan.rank, flag)?, 1),
            SemaphoreOp::Lower { flag } => WordOp::write_word(map.flag_address(self.plan.rank, flag)?, 0),
        })
    }

    pub(crate) fn resolve_copy(&self, views: &[BufferView; 2], bytes: usize) -> ResolvedCommand {
        let [from, to] = views.each_ref().map(|view| self.view_address(view));
        ResolvedCommand::Copy { to, from, bytes }
    }

    pub(crate) fn resolve_gemm(
        &self,
        product: usize,
        operands: &[Option<SymbolicAddress>; 4],
        stream: usize,
        workspace: (u64, usize),
    ) -> ResolvedCommand {
        let at = |index: usize| operands[index].as_ref().map_or(0, |place| self.operand_address(place, stream));
        let operands = GemmOperands { a: at(0), b: at(1), bias: at(2), d: at(3), workspace };
        ResolvedCommand::Product { product, operands }
    }

    pub(crate) fn resolve_nccl_call(
        &self,
        call: &nccl_lowering::NcclCall,
        stream: usize,
    ) -> Result<(ResolvedNcclCall, DataType), Error> {
        use nccl_lowering::NcclCall as C;
        let (raw, view) = match call {
            C::AllGather { send, recv } => {
                let (from, to) = (self.range_address(send), self.range_address(recv));
                (ResolvedNcclCall::AllGather { send: from, recv: to, count: send.count }, &send.view)
            }
            C::AllReduce { send, recv, op } => {
                let (from, to) = (self.range_address(send), self.range_address(recv));
                (
                    ResolvedNcclCall::AllReduce { send: from, recv: to, count: send.count, op: library_reduction(*op) },
                    &send.view,
                )
            }
            C::Reduce { send, recv, op, root } => {
                let from = self.range_address(send);
                let to = recv.as_ref().map_or(from, |recv| self.range_address(recv));
                let raw = ResolvedNcclCall::Reduce {
                    send: from,
                    recv: to,
                    count: send.count,
                    op: library_reduction(*op),
                    root: *root,
                };
                (raw, &send.view)
            }
            C::ReduceScatter { send, recv, op } => {
                let (from, to) = (self.range_address(send), self.range_address(recv));
                (
                    ResolvedNcclCall::ReduceScatter {
                        send: from,
                        recv: to,
                        count: recv.count,
                        op: library_reduction(*op),
                    },
                    &send.view,
                )
            }
            C::Broadcast { send, recv, root } => {
                let sides = [send.as_ref(), recv.as_ref()];
                let Some(any) = sides.into_iter().flatten().next() else {
                    return Err(Error::Internal { what: "a Broadcast without data".to_owned() });
                };
                // NCCL takes an address of both sides from every member.
                let [send, recv] = sides.map(|side| self.range_address(side.unwrap_or(any)));
                (ResolvedNcclCall::Broadcast { send, recv, count: any.count, root: *root }, &any.view)
            }
            C::Send { part, peer } => {
                (ResolvedNcclCall::Send { from: self.range_address(part), count: part.count, peer: *peer }, &part.view)
            }
            C::Recv { part, peer } => {
                (ResolvedNcclCall::Recv { to: self.range_address(part), count: part.count, peer: *peer }, &part.view)
            }
            C::Stage { bytes, count, dtype, peer } => {
                let to = self.scratch_address(stream, *bytes);
                let raw = ResolvedNcclCall::Recv { to, count: *count, peer: *peer };
                return Ok((raw, library_type(*dtype)?));
            }
            C::Copy { send, recv } => {
                let bytes = send.byte_count();
                let raw =
                    ResolvedNcclCall::Copy { to: self.range_address(recv), from: self.range_address(send), bytes };
                return Ok((raw, DataType::Uint8));
            }
        };
        Ok((raw, library_type(view.dtype)?))
    }
}

/// Returns the library's form of a reduction.
fn library_reduction(reduction: NcclReduction) -> nccl_rs::NcclRedOp {
    match reduction {
        NcclReduction::Sum => nccl_rs::NcclRedOp::Sum,
        NcclReduction::Prod => nccl_rs::NcclRedOp::Prod,
        NcclReduction::Max => nccl_rs::NcclRedOp::Max,
        NcclReduction::Min => nccl_rs::NcclRedOp::Min,
        NcclReduction::Avg => nccl_rs::NcclRedOp::Avg,
    }
}

/// Returns the library's form of an element type.
fn library_type(dtype: DType) -> Result<DataType, Error> {
    Ok(match data_type(dtype)? {
        NcclType::Uint8 => DataType::Uint8,
        NcclType::Int32 => DataType::Int32,
        NcclType::Int64 => DataType::Int64,
        NcclType::Float16 => DataType::Float16,
        NcclType::Float32 => DataType::Float32,
        NcclType::Float64 => DataType::Float64,
        NcclType::Bfloat16 => DataType::Bfloat16,
    })
}
