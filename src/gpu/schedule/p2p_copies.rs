//! Communications by copies: semaphores and copies on a stream ([`crate::p2p`] has the protocol).

use crate::element_range;
use crate::element_range::ViewRange;
use crate::p2p;
use crate::p2p::{P2pMessage, P2pRound};
use crate::schedule::{Builder, CopyOrder, P2pBatch, P2pCopy};
use crate::unsupported::Unsupported;
use hostir::plan::InstId;
use hostir::plan::WorkSlot;

/// The size in bytes from which on a rank's own shard is copied on a side stream, beside the shards from others.
const ASIDE: usize = 4 << 20;

impl Builder<'_> {
    pub(super) fn message_at(&self, message: usize) -> &P2pMessage {
        &self.messages.list[message]
    }

    fn signal_ready(&mut self, message: usize, stream: usize) {
        let message = self.message_at(message);
        let signals = vec![(message.initiator_rank(), message.ready)];
        self.add_batch(P2pBatch { signals, ..P2pBatch::default() }, stream);
    }

    /// Copies data that the other side has signalled.
    fn copy_message(&mut self, number: usize, pace: CopyOrder, stream: usize) {
        let copies = vec![P2pCopy::Message(number)];
        self.add_batch(P2pBatch { copies, pace, ..P2pBatch::default() }, stream);
    }

    /// Waits until the others have copied the buffers that were signalled ready.
    fn wait_for_done(&mut self, ready_signals: &[usize], stream: usize) {
        if ready_signals.is_empty() {
            return;
        }
        let waits = ready_signals.iter().map(|&message| self.message_at(message).done).collect();
        self.add_batch(P2pBatch { waits, ..P2pBatch::default() }, stream);
    }

    /// Copies the shard that stays on the rank. Returns an event to wait for if the copy is on another stream.
    fn copy_local_part(
        &mut self,
        from: &ViewRange,
        to: &ViewRange,
        beside: bool,
        stream: usize,
    ) -> Result<Option<usize>, Unsupported> {
        if from.byte_count() < ASIDE || !beside {
            let copies = vec![P2pCopy::Local(Box::new([from.clone(), to.clone()]))];
            self.add_batch(P2pBatch { copies, ..P2pBatch::default() }, stream);
            return Ok(None);
        }
        let side_stream = self.side_stream();
        let before = self.end_event(stream);
        self.wait_for_event(before, side_stream);
        self.schedule_copy(&element_range::range_view(from), &element_range::range_view(to), side_stream)?;
        Ok(Some(self.record_event(side_stream)))
    }

    /// The side stream of copies that others need not wait for.
    fn side_stream(&mut self) -> usize {
        let found = self.side_streams.copies;
        let stream = found.unwrap_or_else(|| self.new_stream());
        self.side_streams.copies = Some(stream);
        stream
    }

    /// Adds a stream of this schedule's own, whose work ends before that of the stream that it serves.
    pub(super) fn new_stream(&mut self) -> usize {
        let stream = self.schedule.streams;
        self.schedule.streams += 1;
        self.schedule.scratch.push(0);
        self.order.add_stream();
        stream
    }

    /// A whole communication on one stream.
    pub(super) fn schedule_rounds(&mut self, rounds: &[P2pRound], stream: usize) -> Result<(), Unsupported> {
        let mut open: Vec<usize> = Vec::new();
        for round in rounds {
            round.ready_signals.iter().for_each(|&message| self.signal_ready(message, stream));
            open.extend(&round.ready_signals);
            let mut side_stream = None;
            if let Some((from, to)) = &round.local {
                side_stream = self.copy_local_part(from, to, !round.copies.is_empty(), stream)?;
            }
            for &message in &round.copies {
                self.copy_message(message, round.copy_order(), stream);
            }
            if let Some(end) = side_stream {
                self.wait_for_event(end, stream);
            }
            if let Some(combine) = &round.combine {
                if combine.waits_for_readers {
                    self.wait_for_done(&std::mem::take(&mut open), stream);
                }
                self.schedule_job(p2p::generate_combine(combine)?, stream)?;
            }
        }
        self.wait_for_done(&open, stream);
        Ok(())
    }

    /// The sends and receives of a group as one round.
    pub(super) fn group_round(&self, insts: &[InstId]) -> Result<P2pRound, Unsupported> {
        let mut all = P2pRound::default();
        for &inst in insts {
            for round in self.messages.inst_rounds(self.plan.rank, inst)? {
                all.ready_signals.extend(&round.ready_signals);
                all.copies.extend(&round.copies);
            }
        }
        Ok(all)
    }

    /// Schedules a send or receive on the stream itself: the target continues at once, and waits for the initiator in
    /// its `Wait`.
    pub(super) fn schedule_stream_message(&mut self, work: WorkSlot, stream: usize) -> Result<(), Unsupported> {
        for round in self.messages.inst_rounds(self.plan.rank, self.at)? {
            round.ready_signals.iter().for_each(|&message| self.signal_ready(message, stream));
            round.copies.iter().for_each(|&message| self.copy_message(message, CopyOrder::Free, stream));
            if round.ready_signals.is_empty() {
                let end = self.record_event(stream);
                self.issued.works.insert(work.0, end);
            } else {
                self.issued.open_ready_signals.insert(work.0, round.ready_signals.clone());
            }
        }
        Ok(())
    }

    /// A stream waits for a communication.
    pub(super) fn wait_for_work(&mut self, work: WorkSlot, stream: usize) {
        if let Some(ready_signals) = self.issued.open_ready_signals.remove(&work.0) {
            self.wait_for_done(&ready_signals, stream);
            // Another Wait for the handle only has to follow this one.
            let end = self.record_event(stream);
            self.issued.works.insert(work.0, end);
        } else if let Some(&event) = self.issued.works.get(&work.0) {
            self.wait_for_event(event, stream);
        }
    }

    /// Waits at the end of the run for every buffer that was signalled ready and not waited for since.
    pub(super) fn wait_for_pending(&mut self) {
        for ready_signals in std::mem::take(&mut self.issued.open_ready_signals).into_values() {
            self.wait_for_done(&ready_signals, 0);
        }
    }
}
