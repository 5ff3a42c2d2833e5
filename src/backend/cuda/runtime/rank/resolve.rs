//! From steps of a schedule to calls with addresses.

use crate::runtime::p2p_map::Peers;
use crate::runtime::rank::{Rank, Raw, Ready};
use crate::sys::Error;
use crate::sys::blas::Operands;
use crate::sys::driver::Memory;
use crate::sys::peer::WordOp;
use hostir::ir::DType;
use hostir::plan::View;
use hostir_gpu::codegen;
use hostir_gpu::element_range::Part;
use hostir_gpu::nccl_lowering;
use hostir_gpu::nccl_lowering::data_type;
use hostir_gpu::nccl_types::{NcclReduction, NcclType};
use hostir_gpu::operand::Place;
use hostir_gpu::p2p::{Message, Target};
use hostir_gpu::rank_memory::WORKSPACE;
use hostir_gpu::schedule::{Call, Exchange, Move, Signal, Step};
use nccl_rs::DataType;

impl Rank<'_> {
    pub(crate) fn view(&self, view: &View) -> u64 {
        self.element(view, 0)
    }

    /// Buffers start in the rank's memory, or in the spare room.
    pub(crate) fn first_bases(&self) -> Vec<u64> {
        let start = self.memory.address();
        let outside = self.spare.as_ref().map_or(start, Memory::address);
        let base = |offset: &Option<usize>| offset.map_or(outside, |bytes| start + bytes as u64);
        self.layout.offsets.iter().map(base).collect()
    }

    pub(crate) fn element(&self, view: &View, index: usize) -> u64 {
        let bytes = (view.offset + index) * view.dtype.size();
        self.bases[view.buffer.0 as usize] + bytes as u64
    }

    pub(crate) fn part(&self, part: &Part) -> u64 {
        self.element(&part.view, part.start)
    }

    pub(crate) fn scratch(&self, stream: usize, bytes: usize) -> u64 {
        self.memory.address() + (self.layout.scratch.get(stream).unwrap_or(&0) + bytes) as u64
    }

    pub(crate) fn place(&self, place: &Place, stream: usize) -> u64 {
        match place {
            Place::View(view) => self.view(view),
            Place::Scratch(bytes) => self.scratch(stream, *bytes),
        }
    }

    pub(crate) fn resolve(&mut self, step: &Step, map: &Peers) -> Result<Ready, Error> {
        Ok(match &step.call {
            Call::Launch { text, grid, block, places } => {
                let start = self.addresses.len();
                for place in places {
                    self.addresses.push(self.place(place, step.stream));
                }
                let addresses = start..self.addresses.len();
                let function = self.functions[*text].clone();
                Ready::Launch { function, grid: *grid, block: *block, addresses }
            }
            Call::Copy { views, bytes } => self.copy(views, *bytes),
            Call::Product { shape, operands } => {
                let end = self.schedule.scratch[step.stream];
                let workspace = (self.scratch(step.stream, end - WORKSPACE), WORKSPACE);
                self.product(*shape, operands, step.stream, workspace)
            }
            Call::Record { event } => Ready::Record { event: *event },
            Call::Wait { event } => Ready::Wait { event: *event },
            Call::Communicate { entry, calls } => {
                let place = self.schedule.members.iter().position(|(other, _)| other == entry);
                let start = self.raw.len();
                for call in calls {
                    let raw = self.communication(call, step.stream)?;
                    self.raw.push(raw);
                }
                Ready::Communicate { comm: place.unwrap_or(0), calls: start..self.raw.len() }
            }
            Call::Signal { signals } => {
                let start = self.words.len();
                for signal in signals {
                    self.words.push(self.word(*signal, map)?);
                }
                Ready::Words { ops: start..self.words.len() }
            }
            Call::Transfer { message } => {
                let message = &map.messages.list[*message];
                let [from, to] = self.ends(message, step.stream, map)?;
                Ready::Transfer { to, from, bytes: message.bytes() }
            }
            Call::Exchange(exchange) => self.exchange(exchange, step.stream, map)?,
        })
    }

    /// Where a message comes from and where it goes.
    fn ends(&self, message: &Message, stream: usize, map: &Peers) -> Result<[u64; 2], Error> {
        let from = map.part(message.from, &message.source)?;
        let to = match &message.target {
            Target::Part(part) => map.part(message.to, part)?,
            Target::Staging(bytes) => self.scratch(stream, *bytes),
        };
        Ok([from, to])
    }

    /// The launch of an exchange, with its parameters as [`codegen::exchange`] orders them.
    fn exchange(
        &mut self,
        exchange: &Exchange,
        stream: usize,
        map: &Peers,
    ) -> Result<Ready, Error> {
        let (start, own) = (self.addresses.len(), self.plan.rank);
        for &(rank, flag) in &exchange.raises {
            self.addresses.push(map.flag(rank, flag)?);
        }
        for one in &exchange.moves {
            let words: [u64; codegen::EXCHANGE_WORDS] = match one {
                Move::Message(message) => {
                    let message = &map.messages.list[*message];
                    let [from, to] = self.ends(message, stream, map)?;
                    let (offer, counter) =
                        (map.flag(own, message.offer)?, map.flag(own, message.counter)?);
                    let done = map.flag(message.offerer(), message.done)?;
                    [offer, from, to, message.bytes() as u64, done, counter]
                }
                Move::Local(parts) => {
                    let [from, to] = parts.each_ref().map(|part| self.part(part));
                    [0, from, to, parts[0].bytes() as u64, 0, 0]
                }
            };
            self.addresses.extend(words);
        }
        for &flag in &exchange.awaits {
            self.addresses.push(map.flag(own, flag)?);
        }
        Ok(Ready::Launch {
            function: self.functions[exchange.text].clone(),
            grid: [exchange.blocks, exchange.moves.len() as u32, 1],
            block: [codegen::EXCHANGE_THREADS, 1, 1],
            addresses: start..self.addresses.len(),
        })
    }

    pub(crate) fn word(&self, signal: Signal, map: &Peers) -> Result<WordOp, Error> {
        Ok(match signal {
            Signal::Raise { rank, flag } => WordOp::write(map.flag(rank, flag)?, 1),
            Signal::Await { flag } => WordOp::wait(map.flag(self.plan.rank, flag)?, 1),
            Signal::Lower { flag } => WordOp::write(map.flag(self.plan.rank, flag)?, 0),
        })
    }

    pub(crate) fn copy(&self, views: &[View; 2], bytes: usize) -> Ready {
        let [from, to] = views.each_ref().map(|view| self.view(view));
        Ready::Copy { to, from, bytes }
    }

    pub(crate) fn product(
        &self,
        product: usize,
        operands: &[Option<Place>; 4],
        stream: usize,
        workspace: (u64, usize),
    ) -> Ready {
        let at =
            |index: usize| operands[index].as_ref().map_or(0, |place| self.place(place, stream));
        let operands = Operands { a: at(0), b: at(1), bias: at(2), d: at(3), workspace };
        Ready::Product { product, operands }
    }

    pub(crate) fn communication(
        &self,
        call: &nccl_lowering::Call,
        stream: usize,
    ) -> Result<(Raw, DataType), Error> {
        use nccl_lowering::Call as C;
        let (raw, view) = match call {
            C::AllGather { send, recv } => {
                let (from, to) = (self.part(send), self.part(recv));
                (Raw::AllGather { send: from, recv: to, count: send.count }, &send.view)
            }
            C::AllReduce { send, recv, op } => {
                let (from, to) = (self.part(send), self.part(recv));
                (
                    Raw::AllReduce {
                        send: from,
                        recv: to,
                        count: send.count,
                        op: library_reduction(*op),
                    },
                    &send.view,
                )
            }
            C::Reduce { send, recv, op, root } => {
                let from = self.part(send);
                let to = recv.as_ref().map_or(from, |recv| self.part(recv));
                let raw = Raw::Reduce {
                    send: from,
                    recv: to,
                    count: send.count,
                    op: library_reduction(*op),
                    root: *root,
                };
                (raw, &send.view)
            }
            C::ReduceScatter { send, recv, op } => {
                let (from, to) = (self.part(send), self.part(recv));
                (
                    Raw::ReduceScatter {
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
                let [send, recv] = sides.map(|side| self.part(side.unwrap_or(any)));
                (Raw::Broadcast { send, recv, count: any.count, root: *root }, &any.view)
            }
            C::Send { part, peer } => {
                (Raw::Send { from: self.part(part), count: part.count, peer: *peer }, &part.view)
            }
            C::Recv { part, peer } => {
                (Raw::Recv { to: self.part(part), count: part.count, peer: *peer }, &part.view)
            }
            C::Stage { bytes, count, dtype, peer } => {
                let to = self.scratch(stream, *bytes);
                let raw = Raw::Recv { to, count: *count, peer: *peer };
                return Ok((raw, library_type(*dtype)?));
            }
            C::Copy { send, recv } => {
                let bytes = send.bytes();
                let raw = Raw::Copy { to: self.part(recv), from: self.part(send), bytes };
                return Ok((raw, DataType::Uint8));
            }
        };
        Ok((raw, library_type(view.dtype)?))
    }
}

/// Returns the library's form of a reduction.
fn library_reduction(reduction: NcclReduction) -> nccl_rs::RedOp {
    match reduction {
        NcclReduction::Sum => nccl_rs::RedOp::Sum,
        NcclReduction::Prod => nccl_rs::RedOp::Prod,
        NcclReduction::Max => nccl_rs::RedOp::Max,
        NcclReduction::Min => nccl_rs::RedOp::Min,
        NcclReduction::Avg => nccl_rs::RedOp::Avg,
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
