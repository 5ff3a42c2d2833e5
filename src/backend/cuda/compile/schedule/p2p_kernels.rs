//! Exchanges of messages: what one kernel does at once, and what a stream does in several operations.
//!
//! Copy engines take large messages: they need no multiprocessor. A small message would wait longer for
//! its flags and for the handover between engines than for its bytes (some 25 us; a kernel takes 6), so
//! exchanges of up to [`SMALL`] bytes a message are kernels. Such a kernel waits on the device for other
//! ranks. So that the work which they wait for always finds room there, all exchanges of a rank together
//! take at most [`BLOCKS`] blocks, or what room there is for them, and none at all where ranks share a device.
//! Only pulls that nothing else may carry take all the room there is.

use crate::codegen;
use crate::element_range;
use crate::schedule::{Builder, Call, Exchange, Move, Pace, Refusal, Signal, Step};
use crate::unsupported::Unsupported;
use hostir::plan::InstId;
use std::collections::BTreeMap;

/// Bytes of the largest message that a kernel copies.
const SMALL: usize = 4 << 20;
/// Blocks of all exchanges that may run at the same time.
const BLOCKS: usize = 64;
/// Bytes that one block copies, at most; below [`LEAST`] one block is enough.
const EACH: usize = 128 << 10;
/// Bytes for which a second block is worth while.
const LEAST: usize = 16 << 10;
/// Parameters of a kernel: 4 KiB, 8 bytes each.
const WORDS: usize = 500;

impl Exchange {
    fn awaits_only(&self) -> bool {
        self.moves.is_empty() && self.raises.is_empty()
    }

    /// Whether this and then `next` is the same as both in one.
    fn precedes(&self, next: &Exchange) -> bool {
        (self.awaits.is_empty() || next.awaits_only())
            && (self.moves.is_empty() || next.raises.is_empty())
    }

    fn append(&mut self, next: Exchange) {
        if !next.moves.is_empty() {
            self.pace = next.pace;
        }
        self.raises.extend(next.raises);
        self.moves.extend(next.moves);
        self.awaits.extend(next.awaits);
    }

    fn words(&self) -> usize {
        self.raises.len() + self.moves.len() * codegen::EXCHANGE_WORDS + self.awaits.len()
    }
}

/// More pulls at the same time than may wait on the device.
fn too_many(count: usize, inst: InstId) -> Refusal {
    let what = Unsupported::ConcurrentReads(count);
    let instead =
        "a run without `--graph`, `--processes`, fewer `--streams` or `protocol=put` carries them";
    Refusal { inst, what, instead: Some(instead) }
}

impl Builder<'_> {
    /// Adds to what an instruction exchanges on a stream.
    pub(super) fn exchange(&mut self, new: Exchange, stream: usize) {
        let at = self.at;
        match self.schedule.steps.last_mut() {
            Some(Step { call: Call::Exchange(last), stream: other, inst })
                if (*other, *inst) == (stream, at) && last.precedes(&new) =>
            {
                last.append(new);
            }
            _ => self.push(Call::Exchange(Box::new(new)), stream),
        }
    }

    /// Decides which exchanges are kernels, joins those that follow each other, and turns the others
    /// into operations of their streams.
    pub(super) fn exchanges(&mut self) -> Result<(), Refusal> {
        let steps = std::mem::take(&mut self.schedule.steps);
        let blocks = if self.settings.apart { self.share(&steps) } else { 0 };
        // By stream: the most blocks of one of its exchanges.
        let mut taken: BTreeMap<usize, usize> = BTreeMap::new();
        let mut last_pull = InstId(0);
        for step in self.joined(steps, blocks) {
            let Step { call: Call::Exchange(mut exchange), stream, inst } = step else {
                self.schedule.steps.push(step);
                continue;
            };
            self.at = inst;
            let pulls = self.may_not_pull(&exchange);
            if pulls {
                last_pull = inst;
            }
            if !self.fits(&exchange, blocks) {
                if pulls {
                    return Err(too_many(exchange.moves.len(), inst));
                }
                self.expand(*exchange, stream);
                continue;
            }
            let (raises, moves) = (exchange.raises.len(), exchange.moves.len());
            exchange.text = self.text(codegen::exchange(raises, moves, exchange.awaits.len()));
            let wanted = self.largest(&exchange).div_ceil(LEAST).max(1);
            let each = wanted.min((blocks / moves).max(1));
            exchange.blocks = each as u32;
            let most = taken.entry(stream).or_default();
            *most = (*most).max(each * moves);
            self.schedule.steps.push(Step { call: Call::Exchange(exchange), stream, inst });
        }
        self.schedule.blocks = taken.values().sum();
        if self.schedule.blocks > self.settings.room {
            // Only pulls that nothing else may carry take more than their share.
            return Err(too_many(self.schedule.blocks, last_pull));
        }
        Ok(())
    }

    /// How many blocks an exchange may have if all streams with small ones exchange at the same time.
    fn share(&self, steps: &[Step]) -> usize {
        let mut streams: Vec<usize> = steps
            .iter()
            .filter(|step| match &step.call {
                Call::Exchange(exchange) => self.fits(exchange, self.blocks()),
                _ => false,
            })
            .map(|step| step.stream)
            .collect();
        streams.sort_unstable();
        streams.dedup();
        self.blocks() / streams.len().max(1)
    }

    /// Blocks of all exchanges together, as a rule.
    fn blocks(&self) -> usize {
        self.settings.room.min(BLOCKS)
    }

    /// Whether an exchange is a kernel of so many blocks.
    fn fits(&self, exchange: &Exchange, blocks: usize) -> bool {
        let each = blocks.checked_div(exchange.moves.len()).unwrap_or(0);
        let is_small = each > 0 && self.largest(exchange) <= SMALL.min(each * EACH);
        exchange.moves.iter().any(|one| matches!(one, Move::Message(_)))
            && (is_small || self.may_not_pull(exchange))
            && exchange.words() <= WORDS
    }

    /// Whether no copy engine may do the exchange ([`crate::schedule::Settings::push`]).
    fn may_not_pull(&self, exchange: &Exchange) -> bool {
        let pulls = |one: &Move| match one {
            Move::Message(message) => !self.messages.list[*message].put,
            Move::Local(_) => false,
        };
        self.settings.push && exchange.moves.iter().any(pulls)
    }

    /// Bytes of an exchange's largest copy.
    fn largest(&self, exchange: &Exchange) -> usize {
        let size = |one: &Move| match one {
            Move::Message(message) => self.messages.list[*message].bytes(),
            Move::Local(parts) => parts[0].bytes(),
        };
        exchange.moves.iter().map(size).max().unwrap_or(0)
    }

    /// Joins the small exchanges of each stream that have nothing between them but marks that nobody
    /// waits for. Copies of two instructions stay apart: the second may send what the first received.
    fn joined(&self, steps: Vec<Step>, blocks: usize) -> Vec<Step> {
        let mut awaited = vec![false; self.schedule.events];
        for step in &steps {
            if let Call::Wait { event } = step.call {
                awaited[event] = true;
            }
        }
        let mut joined: Vec<Step> = Vec::new();
        // By stream: the exchange that the next one may join.
        let mut open: Vec<Option<usize>> = vec![None; self.schedule.streams];
        for step in steps {
            let Step { call: Call::Exchange(next), stream, inst } = step else {
                let passes = matches!(step.call, Call::Record { event } if !awaited[event]);
                if !passes {
                    open[step.stream] = None;
                }
                joined.push(step);
                continue;
            };
            let fits = next.moves.is_empty() || self.fits(&next, blocks);
            let last = open[stream].and_then(|at| match &mut joined[at] {
                Step { call: Call::Exchange(last), inst, .. } => Some((last, inst)),
                _ => None,
            });
            match last {
                Some((last, of))
                    if fits
                        && last.precedes(&next)
                        && (last.moves.is_empty() || next.moves.is_empty())
                        && last.words() + next.words() <= WORDS =>
                {
                    // Marks before a join are passed earlier than they say, never later.
                    if !next.moves.is_empty() {
                        *of = inst;
                    }
                    last.append(*next);
                }
                _ => {
                    open[stream] = fits.then_some(joined.len());
                    joined.push(Step { call: Call::Exchange(next), stream, inst });
                }
            }
        }
        joined
    }

    /// An exchange as operations of its stream: flags are set and awaited by the stream, copy engines
    /// copy. Flags between copies take some microseconds each.
    fn expand(&mut self, exchange: Exchange, stream: usize) {
        let Exchange { raises, moves, awaits, pace, .. } = exchange;
        let raise = |(rank, flag): (u32, usize)| Signal::Raise { rank, flag };
        self.signals(raises.into_iter().map(raise), stream);
        match pace {
            Pace::Free if moves.len() > 1 => self.copies_apart(moves, stream),
            Pace::InTurn => moves.into_iter().for_each(|one| self.copies(vec![one], stream)),
            Pace::Free | Pace::InARow => self.copies(moves, stream),
        }
        self.signals(awaits.iter().map(|&flag| Signal::Await { flag }), stream);
        self.signals(awaits.iter().map(|&flag| Signal::Lower { flag }), stream);
    }

    /// Copies in a row, behind all their offers.
    fn copies(&mut self, moves: Vec<Move>, stream: usize) {
        let messages = moves.iter().filter_map(|one| match one {
            Move::Message(number) => Some(&self.messages.list[*number]),
            Move::Local(_) => None,
        });
        let (mut before, mut after) = (Vec::new(), Vec::new());
        for message in messages {
            before.push(Signal::Await { flag: message.offer });
            after.push(Signal::Lower { flag: message.offer });
            after.push(Signal::Raise { rank: message.offerer(), flag: message.done });
        }
        self.signals(before, stream);
        moves.into_iter().for_each(|one| self.transfer(one, stream));
        self.signals(after, stream);
    }

    /// Copies that do not wait for each other: the first on this stream, others beside it.
    fn copies_apart(&mut self, moves: Vec<Move>, stream: usize) {
        let before = self.record(stream);
        let mut ends = Vec::with_capacity(moves.len());
        for (number, one) in moves.into_iter().enumerate().rev() {
            if number == 0 {
                self.copies(vec![one], stream);
                continue;
            }
            let lane = self.lane(stream, number);
            self.wait(before, lane);
            self.copies(vec![one], lane);
            ends.push(self.record(lane));
        }
        ends.into_iter().for_each(|end| self.wait(end, stream));
    }

    /// The stream of message `number` of the groups of a stream.
    fn lane(&mut self, stream: usize, number: usize) -> usize {
        if let Some(&lane) = self.lanes.get(&(stream, number)) {
            return lane;
        }
        let lane = self.new_stream();
        self.lanes.insert((stream, number), lane);
        lane
    }

    /// The bytes of a copy, if there are any.
    fn transfer(&mut self, one: Move, stream: usize) {
        match one {
            Move::Message(message) if self.one(message).bytes() > 0 => {
                self.push(Call::Transfer { message }, stream);
            }
            Move::Local(parts) if parts[0].bytes() > 0 => {
                let views = Box::new(parts.each_ref().map(element_range::range));
                self.push(Call::Copy { views, bytes: parts[0].bytes() }, stream);
            }
            Move::Message(_) | Move::Local(_) => {}
        }
    }

    /// Sets or awaits flags, in one call with what came just before.
    fn signals(&mut self, new: impl IntoIterator<Item = Signal>, stream: usize) {
        let at = self.at;
        let mut new = new.into_iter().peekable();
        if new.peek().is_none() {
            return;
        }
        match self.schedule.steps.last_mut() {
            Some(Step { call: Call::Signal { signals }, stream: other, inst })
                if (*other, *inst) == (stream, at) =>
            {
                signals.extend(new);
            }
            _ => self.push(Call::Signal { signals: new.collect() }, stream),
        }
    }
}
