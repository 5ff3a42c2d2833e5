//! Communications that are copied: flags and copies on a stream ([`super::messages`] has the protocol).

use super::super::messages::{self, Message, Round};
use super::{Builder, Call, Signal};
use crate::plan::WorkSlot;

impl Builder<'_> {
    /// Sets or awaits a flag, in one call with what came just before it.
    fn signal(&mut self, signal: Signal, stream: usize) {
        let at = self.at;
        match self.schedule.steps.last_mut() {
            Some(step) if step.stream == stream && step.inst == at => {
                if let Call::Signal { signals } = &mut step.call {
                    return signals.push(signal);
                }
            }
            _ => {}
        }
        self.push(Call::Signal { signals: vec![signal] }, stream);
    }

    fn one(&self, message: usize) -> &Message {
        &self.messages.list[message]
    }

    fn offer(&mut self, message: usize, stream: usize) {
        let message = self.one(message);
        let (rank, flag) = (message.copier(), message.offer);
        self.signal(Signal::Raise { rank, flag }, stream);
    }

    /// Copies what the other side offers.
    fn copy_message(&mut self, number: usize, stream: usize) {
        let message = self.one(number);
        let (own, other, done) = (message.offer, message.offerer(), message.done);
        let empty = message.bytes() == 0;
        self.signal(Signal::Await { flag: own }, stream);
        if !empty {
            self.push(Call::Transfer { message: number }, stream);
        }
        self.signal(Signal::Lower { flag: own }, stream);
        self.signal(Signal::Raise { rank: other, flag: done }, stream);
    }

    /// Waits until the others have copied what was offered.
    fn taken(&mut self, offers: &[usize], stream: usize) {
        let flags: Vec<usize> = offers.iter().map(|&message| self.one(message).done).collect();
        for &flag in &flags {
            self.signal(Signal::Await { flag }, stream);
        }
        for flag in flags {
            self.signal(Signal::Lower { flag }, stream);
        }
    }

    /// A whole communication on one stream.
    pub(super) fn rounds(&mut self, rounds: &[Round], stream: usize) -> Result<(), String> {
        let mut open: Vec<usize> = Vec::new();
        for round in rounds {
            round.offers.iter().for_each(|&message| self.offer(message, stream));
            open.extend(&round.offers);
            if let Some((from, to)) = &round.local {
                self.copy(&messages::range(from), &messages::range(to), stream)?;
            }
            round.copies.iter().for_each(|&message| self.copy_message(message, stream));
            if let Some(combine) = &round.combine {
                if combine.settles {
                    self.taken(&std::mem::take(&mut open), stream);
                }
                self.job(messages::combine(combine)?, stream)?;
            }
        }
        self.taken(&open, stream);
        Ok(())
    }

    /// The sends and receives of a group as one round.
    pub(super) fn together(&self, insts: &[usize]) -> Result<Round, String> {
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
    pub(super) fn stream_message(&mut self, work: WorkSlot, stream: usize) -> Result<(), String> {
        for round in self.messages.rounds(self.plan.rank, self.at)? {
            round.offers.iter().for_each(|&message| self.offer(message, stream));
            round.copies.iter().for_each(|&message| self.copy_message(message, stream));
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
