//! GEMMs: calls of cuBLASLt, with kernels of our own around them if necessary.

use crate::codegen;
use crate::codegen::wgmma_gemm::WgmmaGemm;
use crate::fused_inst::StoredGemm;
use crate::gemm_lowering;
use crate::gemm_lowering::fp8;
use crate::gemm_shape::GemmShape;
use crate::operand::SymbolicAddress;
use crate::p2p::{MessageTarget, P2pMessage};
use crate::schedule::{Builder, P2pBatch, StoreGemms, StreamCommand};
use crate::unsupported::Unsupported;
use hostir::plan::{BufferView, GemmInst, Inst, InstId, MessageHeader};

impl Builder<'_> {
    /// Schedules a GEMM by the library if it supports it, else by a kernel of our own.
    pub(super) fn schedule_gemm(&mut self, gemm: &GemmInst, stream: usize) -> Result<(), Unsupported> {
        if fp8::has_fp8_factors(gemm) {
            return match fp8::expand_gemm(gemm, self.settings.fp8) {
                Some(expanded) => self.schedule_expanded(expanded, stream),
                None => self.schedule_job(codegen::generate_gemm(gemm)?, stream),
            };
        }
        let Some(gemm_calls) = gemm_lowering::gemm_calls(gemm) else {
            return self.schedule_job(codegen::generate_gemm(gemm)?, stream);
        };
        gemm_calls.into_iter().for_each(|gemm_call| self.push_gemm_call(gemm_call, &SymbolicAddress::View, stream));
        Ok(())
    }

    /// Schedules a GEMM that stores in the memory of the receiving rank: it waits until that rank is ready, and signals
    /// it afterwards.
    pub(super) fn schedule_direct_gemm(&mut self, gemm: &GemmInst, at: InstId, send: &Inst) -> Result<(), Unsupported> {
        let (stream, position) = (send.stream.0 as usize, self.at);
        let Some(&MessageHeader { work, .. }) = send.kind.message() else {
            return Err(Unsupported::Malformed("a GEMM that stores for no message"));
        };
        let (message, stored) = self.gemm_at_peer(gemm, position)?;
        let rank = message.to;
        let (ready, done) = (message.ready, (message.target_rank(), message.done));
        let Some(gemm_calls) = fp8::library_calls(&stored, self.settings.fp8) else {
            return Err(Unsupported::Malformed("a GEMM of no library that stores for a message"));
        };
        self.add_batch(P2pBatch { waits: vec![ready], ..P2pBatch::default() }, stream);
        self.at = at;
        for gemm_call in gemm_calls {
            self.push_peer_gemm_call(gemm_call, rank, stream);
        }
        self.at = position;
        self.add_batch(P2pBatch { signals: vec![done], ..P2pBatch::default() }, stream);
        let end = self.record_event(stream);
        self.issued.works.insert(work.0, end);
        Ok(())
    }

    /// The call of each of these GEMMs, and their common shape, if one launch can compute them.
    pub(super) fn joined_stores(&self, parts: &[StoredGemm]) -> Option<(GemmShape, Vec<gemm_lowering::GemmCall>)> {
        let mut calls = Vec::new();
        for part in parts {
            let stored = match part.send {
                Some(send) => self.gemm_at_peer(&part.gemm, send).ok()?.1,
                None => (*part.gemm).clone(),
            };
            let [call] = <[_; 1]>::try_from(gemm_lowering::gemm_calls(&stored)?).ok()?;
            calls.push(call);
        }
        let mut shape = calls.first()?.shape.clone();
        shape.parts = u32::try_from(parts.len()).ok()?;
        shape.remote = true;
        for call in &calls {
            let least = shape.alignments.iter().zip(call.shape.alignments).map(|(one, other)| (*one).min(other));
            shape.alignments = least.collect::<Vec<_>>().try_into().ok()?;
        }
        let GemmShape { parts, remote, alignments, .. } = shape;
        let mut shapes = calls.iter().map(|call| GemmShape { parts, remote, alignments, ..call.shape.clone() });
        let is_one_launch = shapes.all(|own| own == shape) && !WgmmaGemm::candidates(&shape).is_empty();
        is_one_launch.then_some((shape, calls))
    }

    /// Schedules GEMMs that store in the memory of several ranks: waits until all of these are ready, and signals them
    /// afterwards.
    pub(super) fn schedule_joined_stores(&mut self, parts: &[StoredGemm], stream: usize) -> Result<(), Unsupported> {
        const MALFORMED: Unsupported = Unsupported::Malformed("GEMMs that are not one launch");
        let (shape, calls) = self.joined_stores(parts).ok_or(MALFORMED)?;
        let (mut waits, mut signals, mut stored) = (Vec::new(), Vec::new(), Vec::new());
        let mut right = None;
        for (part, call) in parts.iter().zip(calls) {
            let [Some(a), Some(b), _, Some(d), ..] = call.operands else { return Err(MALFORMED) };
            right = Some(SymbolicAddress::View(a));
            let mut result = SymbolicAddress::View(d.clone());
            if let Some(send) = part.send {
                let (message, _) = self.gemm_at_peer(&part.gemm, send)?;
                result = SymbolicAddress::Peer { rank: message.to, view: d };
                waits.push(message.ready);
                signals.push((message.target_rank(), message.done));
            }
            stored.push([SymbolicAddress::View(b), result]);
        }
        let shape = self.intern_shape(shape);
        self.add_batch(P2pBatch { waits, ..P2pBatch::default() }, stream);
        let gemms = StoreGemms { shape, right: right.ok_or(MALFORMED)?, parts: stored };
        self.push(StreamCommand::StoreGemms(Box::new(gemms)), stream);
        self.add_batch(P2pBatch { signals, ..P2pBatch::default() }, stream);
        let end = self.record_event(stream);
        let sends = parts.iter().filter_map(|part| part.send);
        let works = sends.filter_map(|send| self.plan.inst(send).kind.message().map(|message| message.work.0));
        self.issued.works.extend(works.map(|work| (work, end)));
        Ok(())
    }

    /// The copy of a message, and the GEMM that stores at its destination.
    fn gemm_at_peer(&self, gemm: &GemmInst, send: InstId) -> Result<(&P2pMessage, GemmInst), Unsupported> {
        let rounds = self.messages.inst_rounds(self.plan.rank, send)?;
        let number = rounds.iter().flat_map(|round| &round.copies).next().copied();
        let Some(message) = number.map(|number| self.message_at(number)) else {
            return Err(Unsupported::Malformed("a message without a copy"));
        };
        let MessageTarget::Part(target) = &message.target else {
            return Err(Unsupported::Malformed("a message into staging memory"));
        };
        let (buffer, offset) = (target.view.buffer, target.view.offset + target.start);
        let out = BufferView { buffer, offset, ..gemm.out.clone() };
        Ok((message, GemmInst { out, ..gemm.clone() }))
    }

    /// Returns true if a GEMM of 8-bit floats can store at the destination of a message: if the library computes it
    /// alone.
    pub(super) fn stores_fp8_gemm(&self, gemm: &GemmInst, send: InstId) -> bool {
        let Ok((_, stored)) = self.gemm_at_peer(gemm, send) else { return false };
        fp8::has_fp8_factors(gemm) && fp8::library_calls(&stored, self.settings.fp8).is_some()
    }

    /// Adds a call whose result is in another rank's memory.
    fn push_peer_gemm_call(&mut self, mut gemm_call: gemm_lowering::GemmCall, rank: u32, stream: usize) {
        gemm_call.shape.remote = true;
        let shape = self.intern_shape(gemm_call.shape);
        let mut operands = gemm_call.operands.map(|view| view.map(SymbolicAddress::View));
        if let Some(SymbolicAddress::View(view)) = operands[3].take() {
            operands[3] = Some(SymbolicAddress::Peer { rank, view });
        }
        self.push(StreamCommand::Gemm { shape, operands: Box::new(operands) }, stream);
    }

    fn schedule_expanded(&mut self, mut all: fp8::ExpandedGemm, stream: usize) -> Result<(), Unsupported> {
        self.schedule.scratch[stream] = self.schedule.scratch[stream].max(all.scratch);
        for job in std::mem::take(&mut all.before) {
            self.schedule_job(all.bind_scratch(job), stream)?;
        }
        for gemm_call in std::mem::take(&mut all.gemm_calls) {
            self.push_gemm_call(gemm_call, &|view| all.resolve_operand(view), stream);
        }
        match all.after.take() {
            Some(job) => self.schedule_job(all.bind_scratch(job), stream),
            None => Ok(()),
        }
    }

    fn push_gemm_call(
        &mut self,
        gemm_call: gemm_lowering::GemmCall,
        place: &dyn Fn(BufferView) -> SymbolicAddress,
        stream: usize,
    ) {
        let shape = self.intern_shape(gemm_call.shape);
        let operands = gemm_call.operands.map(|view| view.map(place));
        self.push(StreamCommand::Gemm { shape, operands: Box::new(operands) }, stream);
    }

    /// Returns the number of a shape, and adds the shape, with its losses of precision, if it is new.
    fn intern_shape(&mut self, mut shape: GemmShape) -> usize {
        shape.numerics = self.settings.numerics.for_factors(shape.factors);
        let known = self.schedule.shapes.iter().position(|other| *other == shape);
        known.unwrap_or_else(|| {
            self.schedule.shapes.push(shape);
            self.schedule.shapes.len() - 1
        })
    }
}
