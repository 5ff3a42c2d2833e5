//! The ends and starts of parts of an expression: sets of positions, forwards and backwards.
//!
//! A part takes a set of positions to the set of positions at which it can end if it starts at one of them. Both
//! directions take time in proportion to the text for a part without nested repetitions, whatever alternatives it has,
//! since a position is followed once for each part and not once for each way to it.

use super::syntax::{Assertion, Node, Repetition};
use std::collections::BTreeSet;

/// The most positions that one search follows.
const STEP_LIMIT: usize = 50_000_000;

/// Positions in order, each once.
pub(super) type Positions = Vec<usize>;

/// A text, and which part of it counts.
#[derive(Debug)]
pub(super) struct Reach<'t> {
    text: &'t [u8],
    /// The first position that counts.
    low: usize,
    /// The last position that counts.
    high: usize,
    steps: usize,
}

/// The direction in which positions are followed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Direction {
    Forward,
    Backward,
}

impl<'t> Reach<'t> {
    /// All positions of the text from `low` to `high`.
    pub(super) fn new(text: &'t [u8], low: usize, high: usize) -> Self {
        Reach { text, low, high, steps: 0 }
    }

    /// True if more positions were followed than a search may: what it found is then not complete.
    pub(super) fn is_exhausted(&self) -> bool {
        self.steps > STEP_LIMIT
    }

    /// The ends of `node` if it starts at one of `from`.
    pub(super) fn ends(&mut self, node: &Node, from: &[usize]) -> Positions {
        self.follow(node, from, Direction::Forward)
    }

    /// The starts of `node` if it ends at one of `to`.
    pub(super) fn starts(&mut self, node: &Node, to: &[usize]) -> Positions {
        self.follow(node, to, Direction::Backward)
    }

    fn follow(&mut self, node: &Node, from: &[usize], direction: Direction) -> Positions {
        self.steps += from.len() + 1;
        if self.is_exhausted() || from.is_empty() {
            return Positions::new();
        }
        match node {
            Node::Byte(set) => {
                let taken = from.iter().filter_map(|&at| match direction {
                    Direction::Forward if at < self.high => set.contains(self.text[at]).then(|| at + 1),
                    Direction::Backward if at > self.low => set.contains(self.text[at - 1]).then(|| at - 1),
                    Direction::Forward | Direction::Backward => None,
                });
                taken.collect()
            }
            Node::Assertion(assertion) => {
                from.iter().copied().filter(|&at| holds_at(*assertion, self.text, at)).collect()
            }
            Node::Group(_, body) => self.follow(body, from, direction),
            Node::Sequence(parts) => self.follow_sequence(parts, from, direction),
            Node::Alternation(parts) => {
                let mut all = Positions::new();
                for part in parts {
                    all.extend(self.follow(part, from, direction));
                }
                in_order(all)
            }
            Node::Repeat(body, times) => self.follow_repeat(body, *times, from, direction),
            Node::BackReference(_) => from.to_vec(),
        }
    }

    fn follow_sequence(&mut self, parts: &[Node], from: &[usize], direction: Direction) -> Positions {
        let mut reached = from.to_vec();
        for index in 0..parts.len() {
            let index = if direction == Direction::Forward { index } else { parts.len() - 1 - index };
            reached = self.follow(&parts[index], &reached, direction);
        }
        reached
    }

    fn follow_repeat(&mut self, body: &Node, times: Repetition, from: &[usize], direction: Direction) -> Positions {
        let mut newest = from.to_vec();
        for _ in 0..times.low {
            newest = self.follow(body, &newest, direction);
        }
        let mut all: BTreeSet<usize> = newest.iter().copied().collect();
        let mut done = times.low;
        while !newest.is_empty() && times.high.is_none_or(|high| done < high) {
            newest = self.follow(body, &newest, direction);
            newest.retain(|at| all.insert(*at));
            done += 1;
        }
        all.into_iter().collect()
    }
}

fn in_order(mut positions: Positions) -> Positions {
    positions.sort_unstable();
    positions.dedup();
    positions
}

/// True if the assertion holds at a position of the text.
pub(super) fn holds_at(assertion: Assertion, text: &[u8], at: usize) -> bool {
    let before = at.checked_sub(1).map(|before| text[before]);
    let after = text.get(at).copied();
    match assertion {
        Assertion::LineStart => before.is_none_or(|byte| byte == b'\n'),
        Assertion::LineEnd => after.is_none_or(|byte| byte == b'\n'),
        Assertion::WordStart => !before.is_some_and(is_word_byte) && after.is_some_and(is_word_byte),
        Assertion::WordEnd => before.is_some_and(is_word_byte) && !after.is_some_and(is_word_byte),
    }
}

fn is_word_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}
