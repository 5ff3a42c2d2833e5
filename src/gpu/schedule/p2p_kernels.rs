//! Batches of P2P copies: decides which are put or get kernels, and expands the others into stream operations.
//!
//! Copy engines move large messages: they need no SM. A small message would wait longer for its semaphores and for the
//! handover between engines than for its bytes (some 25 us; a kernel takes 6), so batches of up to [`SMALL`] bytes a
//! message are kernels. Such a kernel waits on the device for other ranks. The work that these ranks wait for must
//! always find room on the device: all copying batches of a rank therefore take at most [`BLOCKS`] blocks, or the
//! room there is for them, and none at all if ranks share a device. Only pulls that nothing else may execute take all
//! the room there is.
//!
//! Semaphores without copies are a kernel of one block, if there is room for one block more, in two cases: all other
//! kernels of the rank are on its stream, or only waits are left at the end of a run. Between two kernels of a CUDA
//! graph such a kernel takes 2 us, and a stream's own operations on words 5 us and more. Elsewhere a kernel could wait
//! for room beside a GEMM, and delay the rank that its signal is for; the stream's operations need no room.

use crate::codegen;
use crate::element_range;
use crate::schedule::{
    Builder, CopyOrder, P2pBatch, P2pCopy, ScheduleStep, SemaphoreOp, StreamCommand, UnsupportedInst,
};
use crate::unsupported::Unsupported;
use hostir::plan::InstId;
use std::collections::{BTreeMap, BTreeSet};

/// Bytes of the largest message that a kernel copies.
const SMALL: usize = 4 << 20;
/// Blocks of all batches that may run at the same time.
const BLOCKS: usize = 64;
/// The maximum number of bytes that one block copies; below [`LEAST`] one block is enough.
const EACH: usize = 128 << 10;
/// Bytes for which a second block pays.
const LEAST: usize = 16 << 10;
/// Parameters of a kernel: 4 KiB, 8 bytes each.
const WORDS: usize = 500;

impl P2pBatch {
    fn waits_only(&self) -> bool {
        self.copies.is_empty() && self.signals.is_empty()
    }

    /// Returns true if this command followed by `next` equals both merged into one.
    fn can_precede(&self, next: &P2pBatch) -> bool {
        (self.waits.is_empty() || next.waits_only()) && (self.copies.is_empty() || next.signals.is_empty())
    }

    fn append(&mut self, next: P2pBatch) {
        if !next.copies.is_empty() {
            self.pace = next.pace;
        }
        self.signals.extend(next.signals);
        self.copies.extend(next.copies);
        self.waits.extend(next.waits);
    }

    fn parameter_count(&self) -> usize {
        self.signals.len() + self.copies.len() * codegen::EXCHANGE_WORDS + self.waits.len()
    }
}

impl StreamCommand {
    /// Returns true for an event, and for a wait for another stream or rank.
    fn only_waits(&self) -> bool {
        match self {
            StreamCommand::Record { .. } | StreamCommand::Wait { .. } => true,
            StreamCommand::P2pBatch(batch) => batch.waits_only(),
            _ => false,
        }
    }
}

/// The error for more pulls at the same time than may wait on the device.
fn too_many_pulls(count: usize, inst: InstId) -> UnsupportedInst {
    let what = Unsupported::ConcurrentReads(count);
    let instead = "run without `--graph`, with `--processes`, with fewer `--streams`, or with `protocol=put`";
    UnsupportedInst { inst, what, instead: Some(instead) }
}

impl Builder<'_> {
    /// Adds a batch of P2P copies of an instruction on a stream.
    pub(super) fn add_batch(&mut self, new: P2pBatch, stream: usize) {
        let at = self.at;
        match self.schedule.steps.last_mut() {
            Some(ScheduleStep { call: StreamCommand::P2pBatch(last), stream: other, inst })
                if (*other, *inst) == (stream, at) && last.can_precede(&new) =>
            {
                last.append(new);
            }
            _ => self.push(StreamCommand::P2pBatch(Box::new(new)), stream),
        }
    }

    /// Decides which batches are kernels, joins consecutive ones, and turns the others into operations of their
    /// streams.
    pub(super) fn lower_batches(&mut self) -> Result<(), UnsupportedInst> {
        let steps = std::mem::take(&mut self.schedule.steps);
        let blocks = if self.settings.one_rank_per_device { self.blocks_per_stream(&steps) } else { 0 };
        // By stream: the most blocks of one of its batches.
        let mut taken: BTreeMap<usize, usize> = BTreeMap::new();
        let mut last_pull = InstId(0);
        let steps = self.join_batches(steps, blocks);
        let flag_kernels = self.flag_kernels(&steps, blocks);
        for (at, step) in steps.into_iter().enumerate() {
            let ScheduleStep { call: StreamCommand::P2pBatch(mut batch), stream, inst } = step else {
                self.schedule.steps.push(step);
                continue;
            };
            self.at = inst;
            let pulls = self.must_not_pull(&batch);
            if pulls {
                last_pull = inst;
            }
            if !flag_kernels.contains(&at) && !self.fits_kernel(&batch, blocks) {
                if pulls {
                    return Err(too_many_pulls(batch.copies.len(), inst));
                }
                self.expand_batch(*batch, stream);
                continue;
            }
            let (signals, copies) = (batch.signals.len(), batch.copies.len());
            batch.text = self.intern_kernel(codegen::p2p_kernel_source(signals, copies, batch.waits.len()));
            let each = self.blocks_of_copies(&batch, blocks);
            batch.blocks = each as u32;
            let most = taken.entry(stream).or_default();
            *most = (*most).max(each * copies.max(1));
            self.schedule.steps.push(ScheduleStep { call: StreamCommand::P2pBatch(batch), stream, inst });
        }
        self.schedule.blocks = taken.values().sum();
        if self.schedule.blocks > self.settings.room {
            // Only pulls that nothing else may execute take more than their share.
            return Err(too_many_pulls(self.schedule.blocks, last_pull));
        }
        Ok(())
    }

    /// The batches without copies that become kernels: those of as many streams as there is room for beside the
    /// copying batches, each of which has `blocks` blocks.
    fn flag_kernels(&self, steps: &[ScheduleStep], blocks: usize) -> BTreeSet<usize> {
        let mut found = BTreeSet::new();
        if !self.settings.one_rank_per_device {
            return found;
        }
        // By stream: the blocks that may wait on the device.
        let mut waiting = self.copying_blocks(steps, blocks);
        let computing: BTreeSet<usize> =
            steps.iter().filter(|step| self.needs_sms(&step.call, blocks)).map(|step| step.stream).collect();
        let is_alone = |stream: usize| computing.len() == 1 && computing.contains(&stream);
        let last_work = steps.iter().rposition(|step| !step.call.only_waits()).unwrap_or(0);
        for (at, step) in steps.iter().enumerate() {
            let StreamCommand::P2pBatch(batch) = &step.call else { continue };
            let is_flags = batch.copies.is_empty() && batch.parameter_count() <= WORDS;
            if !is_flags || !is_alone(step.stream) && at <= last_work {
                continue;
            }
            let has_room = waiting.values().sum::<usize>() < self.settings.room;
            if has_room || waiting.contains_key(&step.stream) {
                waiting.entry(step.stream).or_insert(1);
                found.insert(at);
            }
        }
        found
    }

    /// The blocks of each stream's copying batches, if each has this many.
    fn copying_blocks(&self, steps: &[ScheduleStep], blocks: usize) -> BTreeMap<usize, usize> {
        let mut taken: BTreeMap<usize, usize> = BTreeMap::new();
        for step in steps {
            if let StreamCommand::P2pBatch(batch) = &step.call
                && self.fits_kernel(batch, blocks)
            {
                let most = taken.entry(step.stream).or_default();
                *most = (*most).max(self.blocks_of_copies(batch, blocks) * batch.copies.len());
            }
        }
        taken
    }

    /// The blocks of each copy of a batch, if all of them together have this many.
    fn blocks_of_copies(&self, batch: &P2pBatch, blocks: usize) -> usize {
        let wanted = self.largest_copy(batch).div_ceil(LEAST).max(1);
        wanted.min(blocks.checked_div(batch.copies.len()).unwrap_or(1).max(1))
    }

    /// Returns true for a call that runs on SMs, or may; engines copy large messages.
    fn needs_sms(&self, call: &StreamCommand, blocks: usize) -> bool {
        match call {
            StreamCommand::Launch { .. }
            | StreamCommand::UserLaunch(_)
            | StreamCommand::Gemm { .. }
            | StreamCommand::StoreGemms(_)
            | StreamCommand::Copy { .. }
            | StreamCommand::Communicate { .. } => true,
            StreamCommand::P2pBatch(batch) => {
                let has_local = batch.copies.iter().any(|one| matches!(one, P2pCopy::Local(_)));
                has_local || self.fits_kernel(batch, blocks)
            }
            _ => false,
        }
    }

    /// The number of blocks that each small P2P kernel may have if all streams with such kernels run them at once.
    fn blocks_per_stream(&self, steps: &[ScheduleStep]) -> usize {
        let streams = self.copying_blocks(steps, self.max_blocks()).len();
        self.max_blocks() / streams.max(1)
    }

    /// The usual limit of blocks of all batches together.
    fn max_blocks(&self) -> usize {
        self.settings.room.min(BLOCKS)
    }

    /// Returns true if a batch is small enough for a kernel of this many blocks.
    fn fits_kernel(&self, batch: &P2pBatch, blocks: usize) -> bool {
        let each = blocks.checked_div(batch.copies.len()).unwrap_or(0);
        let is_small = each > 0 && self.largest_copy(batch) <= SMALL.min(each * EACH);
        batch.copies.iter().any(|one| matches!(one, P2pCopy::Message(_)))
            && (is_small || self.must_not_pull(batch))
            && batch.parameter_count() <= WORDS
    }

    /// Returns true if copy engines may not run the batch ([`crate::schedule::ScheduleSettings::push`]).
    fn must_not_pull(&self, batch: &P2pBatch) -> bool {
        let mut copies = batch.copies.iter();
        let pulls = copies.any(|one| matches!(one, P2pCopy::Message(message) if !self.messages.list[*message].put));
        self.settings.push && pulls
    }

    /// Bytes of a batch's largest copy.
    fn largest_copy(&self, batch: &P2pBatch) -> usize {
        let sizes = batch.copies.iter().map(|one| match one {
            P2pCopy::Message(message) => self.messages.list[*message].byte_count(),
            P2pCopy::Local(parts) => parts[0].byte_count(),
        });
        sizes.max().unwrap_or(0)
    }

    /// Joins the small batches of each stream that have nothing between them but events without a waiter. Copies of
    /// two instructions are not joined: the second may send data that the first received.
    fn join_batches(&self, steps: Vec<ScheduleStep>, blocks: usize) -> Vec<ScheduleStep> {
        let mut awaited = vec![false; self.schedule.events];
        for step in &steps {
            if let StreamCommand::Wait { event } = step.call {
                awaited[event] = true;
            }
        }
        let mut joined: Vec<ScheduleStep> = Vec::new();
        // By stream: the batch that the next one may join.
        let mut open: Vec<Option<usize>> = vec![None; self.schedule.streams];
        for step in steps {
            let ScheduleStep { call: StreamCommand::P2pBatch(next), stream, inst } = step else {
                let passes = matches!(step.call, StreamCommand::Record { event } if !awaited[event]);
                if !passes {
                    open[step.stream] = None;
                }
                joined.push(step);
                continue;
            };
            let fits = next.copies.is_empty() || self.fits_kernel(&next, blocks);
            let last = open[stream].and_then(|at| match &mut joined[at] {
                ScheduleStep { call: StreamCommand::P2pBatch(last), inst, .. } => Some((last, inst)),
                _ => None,
            });
            match last {
                Some((last, of))
                    if fits
                        && last.can_precede(&next)
                        && (last.copies.is_empty() || next.copies.is_empty())
                        && last.parameter_count() + next.parameter_count() <= WORDS =>
                {
                    // The stream passes events before a join earlier than their instructions say, never later.
                    if !next.copies.is_empty() {
                        *of = inst;
                    }
                    last.append(*next);
                }
                _ => {
                    open[stream] = fits.then_some(joined.len());
                    joined.push(ScheduleStep { call: StreamCommand::P2pBatch(next), stream, inst });
                }
            }
        }
        joined
    }

    /// Expands a batch into operations of its stream: the stream signals and waits for semaphores, copy engines copy.
    /// Semaphores between copies take some microseconds each.
    fn expand_batch(&mut self, batch: P2pBatch, stream: usize) {
        let P2pBatch { signals, copies, waits, pace, .. } = batch;
        let signals = signals.into_iter().map(|(rank, flag)| SemaphoreOp::Signal { rank, flag });
        self.push_semaphore_ops(signals, stream);
        match pace {
            CopyOrder::Free if copies.len() > 1 => self.push_independent_copies(copies, stream),
            CopyOrder::InTurn => copies.into_iter().for_each(|one| self.push_batched_copies(vec![one], stream)),
            CopyOrder::Free | CopyOrder::InARow => self.push_batched_copies(copies, stream),
        }
        self.push_semaphore_ops(waits.iter().map(|&flag| SemaphoreOp::Wait { flag }), stream);
        self.push_semaphore_ops(waits.iter().map(|&flag| SemaphoreOp::Reset { flag }), stream);
    }

    /// Copies in a row, after all their ready semaphores.
    fn push_batched_copies(&mut self, copies: Vec<P2pCopy>, stream: usize) {
        let messages = copies.iter().filter_map(|one| match one {
            P2pCopy::Message(number) => Some(&self.messages.list[*number]),
            P2pCopy::Local(_) => None,
        });
        let (mut before, mut after) = (Vec::new(), Vec::new());
        for message in messages {
            before.push(SemaphoreOp::Wait { flag: message.ready });
            after.push(SemaphoreOp::Reset { flag: message.ready });
            after.push(SemaphoreOp::Signal { rank: message.target_rank(), flag: message.done });
        }
        self.push_semaphore_ops(before, stream);
        copies.into_iter().for_each(|one| self.push_transfer(one, stream));
        self.push_semaphore_ops(after, stream);
    }

    /// Issues copies that do not wait for each other: the first on this stream, others beside it.
    fn push_independent_copies(&mut self, copies: Vec<P2pCopy>, stream: usize) {
        let before = self.record_event(stream);
        let mut ends = Vec::with_capacity(copies.len());
        for (number, one) in copies.into_iter().enumerate().rev() {
            if number == 0 {
                self.push_batched_copies(vec![one], stream);
                continue;
            }
            let lane = self.channel_stream(stream, number);
            self.wait_for_event(before, lane);
            self.push_batched_copies(vec![one], lane);
            ends.push(self.record_event(lane));
        }
        ends.into_iter().for_each(|end| self.wait_for_event(end, stream));
    }

    /// The stream of message `number` of the groups of a stream.
    fn channel_stream(&mut self, stream: usize, number: usize) -> usize {
        if let Some(&lane) = self.side_streams.messages.get(&(stream, number)) {
            return lane;
        }
        let lane = self.new_stream();
        self.side_streams.messages.insert((stream, number), lane);
        lane
    }

    /// The bytes of a copy, if there are any.
    fn push_transfer(&mut self, one: P2pCopy, stream: usize) {
        match one {
            P2pCopy::Message(message) if self.message_at(message).byte_count() > 0 => {
                self.push(StreamCommand::Transfer { message }, stream);
            }
            P2pCopy::Local(parts) if parts[0].byte_count() > 0 => {
                let views = Box::new(parts.each_ref().map(element_range::range_view));
                self.push(StreamCommand::Copy { views, bytes: parts[0].byte_count() }, stream);
            }
            P2pCopy::Message(_) | P2pCopy::Local(_) => {}
        }
    }

    /// Signals or waits for semaphores, in one call with the operations just before.
    fn push_semaphore_ops(&mut self, new: impl IntoIterator<Item = SemaphoreOp>, stream: usize) {
        let at = self.at;
        let mut new = new.into_iter().peekable();
        if new.peek().is_none() {
            return;
        }
        match self.schedule.steps.last_mut() {
            Some(ScheduleStep { call: StreamCommand::Signal { signals }, stream: other, inst })
                if (*other, *inst) == (stream, at) =>
            {
                signals.extend(new);
            }
            _ => self.push(StreamCommand::Signal { signals: new.collect() }, stream),
        }
    }
}
