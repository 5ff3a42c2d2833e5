//! Communications that are copied: flags and copies on a stream ([`crate::schedule::messages`] has the protocol).

use crate::element_range;
use crate::element_range::Part;
use crate::p2p;
use crate::p2p::{Message, Round};
use crate::schedule::{Builder, Exchange, Move, Pace};
use crate::unsupported::Unsupported;
use hostir::plan::InstId;
use hostir::plan::WorkSlot;

/// Own parts of so many bytes are copied beside what comes from others, on a stream of their own.
const ASIDE: usize = 4 << 20;

impl Builder<'_> {
    pub(super) fn one(&self, message: usize) -> &Message {
        &self.messages.list[message]
    }

    fn offer(&mut self, message: usize, stream: usize) {
        let message = self.one(message);
        let raises = vec![(message.copier(), message.offer)];
        self.exchange(Exchange { raises, ..Exchange::default() }, stream);
    }

    /// Copies what the other side offers.
    fn copy_message(&mut self, number: usize, pace: Pace, stream: usize) {
        let moves = vec![Move::Message(number)];
        self.exchange(Exchange { moves, pace, ..Exchange::default() }, stream);
    }

    /// Waits until the others have copied what was offered.
    fn taken(&mut self, offers: &[usize], stream: usize) {
        if offers.is_empty() {
            return;
        }
        let awaits = offers.iter().map(|&message| self.one(message).done).collect();
        self.exchange(Exchange { awaits, ..Exchange::default() }, stream);
    }

    /// Copies what stays on the rank. Gives a mark to wait for if it is copied on another stream.
    fn local(
        &mut self,
        (from, to): &(Part, Part),
        beside: bool,
        stream: usize,
    ) -> Result<Option<usize>, Unsupported> {
        if from.bytes() < ASIDE || !beside {
            let moves = vec![Move::Local(Box::new([from.clone(), to.clone()]))];
            self.exchange(Exchange { moves, ..Exchange::default() }, stream);
            return Ok(None);
        }
        let aside = self.aside();
        let before = self.end(stream);
        self.wait(before, aside);
        self.copy(&element_range::range(from), &element_range::range(to), aside)?;
        Ok(Some(self.record(aside)))
    }

    /// The stream of copies that others need not wait for.
    fn aside(&mut self) -> usize {
        let found = self.aside;
        let stream = found.unwrap_or_else(|| self.new_stream());
        self.aside = Some(stream);
        stream
    }

    /// One more stream of this schedule's own, which never outlasts the one that it works for.
    pub(super) fn new_stream(&mut self) -> usize {
        let stream = self.schedule.streams;
        self.schedule.streams += 1;
        self.schedule.scratch.push(0);
        self.marks_of.push(0);
        self.forked.push(false);
        self.reached.push(vec![0; stream]);
        self.reached.iter_mut().for_each(|marks| marks.push(0));
        stream
    }

    /// A whole communication on one stream.
    pub(super) fn rounds(&mut self, rounds: &[Round], stream: usize) -> Result<(), Unsupported> {
        let mut open: Vec<usize> = Vec::new();
        for round in rounds {
            round.offers.iter().for_each(|&message| self.offer(message, stream));
            open.extend(&round.offers);
            let mut aside = None;
            if let Some(parts) = &round.local {
                aside = self.local(parts, !round.copies.is_empty(), stream)?;
            }
            for &message in &round.copies {
                self.copy_message(message, round.pace(), stream);
            }
            if let Some(end) = aside {
                self.wait(end, stream);
            }
            if let Some(combine) = &round.combine {
                if combine.settles {
                    self.taken(&std::mem::take(&mut open), stream);
                }
                self.job(p2p::combine(combine)?, stream)?;
            }
        }
        self.taken(&open, stream);
        Ok(())
    }

    /// The sends and receives of a group as one round.
    pub(super) fn together(&self, insts: &[InstId]) -> Result<Round, Unsupported> {
        let mut all = Round::default();
        for &inst in insts {
            for round in self.messages.rounds(self.plan.rank, inst)? {
                all.offers.extend(&round.offers);
                all.copies.extend(&round.copies);
            }
        }
        Ok(all)
    }

    /// A send or receive on the stream itself: the side that offers goes on at once, and waits for the
    /// other one in its `Wait`.
    pub(super) fn stream_message(
        &mut self,
        work: WorkSlot,
        stream: usize,
    ) -> Result<(), Unsupported> {
        for round in self.messages.rounds(self.plan.rank, self.at)? {
            round.offers.iter().for_each(|&message| self.offer(message, stream));
            round.copies.iter().for_each(|&message| self.copy_message(message, Pace::Free, stream));
            if round.offers.is_empty() {
                let end = self.record(stream);
                self.works.insert(work.0, end);
            } else {
                self.offered.insert(work.0, round.offers.clone());
            }
        }
        Ok(())
    }

    /// A stream waits for a communication.
    pub(super) fn wait_work(&mut self, work: WorkSlot, stream: usize) {
        if let Some(offers) = self.offered.remove(&work.0) {
            self.taken(&offers, stream);
            // Another Wait for it only has to follow this one.
            let end = self.record(stream);
            self.works.insert(work.0, end);
        } else if let Some(&event) = self.works.get(&work.0) {
            self.wait(event, stream);
        }
    }

    /// What was offered and never waited for is waited for by the end of the run.
    pub(super) fn settle(&mut self) {
        for offers in std::mem::take(&mut self.offered).into_values() {
            self.taken(&offers, 0);
        }
    }
}

#[cfg(test)]
mod tests;
