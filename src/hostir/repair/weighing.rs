//! Weighs changes that repair the same error: by the time that the programs take, and by the writes that they lose.

use super::judge::TextWeight;
use super::outline::Outline;
use super::text_change::{Candidate, CandidateIdea};
use crate::ReadOptions;
use crate::diag::{Diag, Span};
use crate::ops::OpRegistry;

/// A change that works.
pub(super) struct WeighedChange {
    pub(super) change: Candidate,
    /// The warnings that it leaves.
    pub(super) warnings: usize,
    /// `None` if it is unknown.
    pub(super) weight: Option<TextWeight>,
}

impl WeighedChange {
    fn time_ns(&self) -> u64 {
        self.weight.as_ref().map_or(u64::MAX, |weight| weight.time_ns)
    }
}

/// The fraction of the fastest time that counts as small: one in so many.
const LITTLE: u64 = 20;

/// A change that is chosen among several.
pub(super) struct ChosenChange {
    pub(super) change: Candidate,
    /// True if it may give the program another meaning than the author intended.
    pub(super) is_doubtful: bool,
    /// `None` if it is unknown.
    pub(super) time_ns: Option<u64>,
}

/// Chooses the change to propose for a race among those in the least doubt. Where these end an overlap that another slot
/// of the buffer keeps, that slot is rather meant.
pub(super) fn choose_order(found: Vec<WeighedChange>, race: &RacePair) -> Option<ChosenChange> {
    let mut graded: Vec<(OrderDoubt, WeighedChange)> =
        found.into_iter().map(|change| (race.doubt_about(&change), change)).collect();
    let fastest = |doubt: OrderDoubt| {
        graded.iter().filter(|(other, _)| *other == doubt).map(|(_, change)| change.time_ns()).min()
    };
    let mut least = graded.iter().map(|(doubt, _)| *doubt).min()?;
    if let (Some(ordered), Some(slots)) = (fastest(OrderDoubt::None), fastest(OrderDoubt::OtherSlots))
        && is_slow(ordered, slots)
    {
        least = OrderDoubt::OtherSlots;
    }
    graded.retain(|(doubt, _)| *doubt == least);
    let chosen = choose_change(graded.into_iter().map(|(_, change)| change).collect())?;
    Some(ChosenChange { is_doubtful: chosen.is_doubtful || least > OrderDoubt::None, ..chosen })
}

/// Returns true if what is chosen among some changes decides what the program computes: one of them is a guess, and
/// their programs compute different outputs, or the outputs are unknown.
fn are_ambiguous(found: &[WeighedChange]) -> bool {
    let mut outputs = found.iter().map(|change| change.weight.as_ref().and_then(|weight| weight.outputs));
    let has_guess = found.iter().any(|change| change.change.idea == CandidateIdea::Guess);
    let first = outputs.next().flatten();
    has_guess && found.len() > 1 && (first.is_none() || outputs.any(|other| other != first))
}

/// Chooses the change that leaves the fewest warnings, of those that are hardly slower than the fastest.
pub(super) fn choose_change(mut found: Vec<WeighedChange>) -> Option<ChosenChange> {
    let is_doubtful = are_ambiguous(&found);
    let fastest = found.iter().map(WeighedChange::time_ns).min()?;
    found.retain(|change| !is_slow(change.time_ns(), fastest));
    let chosen = found.into_iter().min_by_key(|change| change.warnings)?;
    let time_ns = chosen.weight.map(|weight| weight.time_ns);
    let is_doubtful = is_doubtful || chosen.change.idea == CandidateIdea::Doubtful;
    Some(ChosenChange { change: chosen.change, is_doubtful, time_ns })
}

/// Returns true if a run takes longer than another one, and not only a little.
pub(super) fn is_slow(time_ns: u64, other_ns: u64) -> bool {
    time_ns > other_ns.saturating_add(other_ns / LITTLE)
}

/// The price of a change: the overlap that it ends.
#[derive(Clone, Copy, Debug)]
pub(super) struct FixPrice {
    pub(super) time_ns: u64,
    /// The time with more overlap.
    pub(super) fastest_ns: u64,
}

/// A change in words, with its price.
pub(super) fn with_price(message: String, price: Option<&FixPrice>) -> String {
    let Some(price) = price else { return message };
    let ratio = price.time_ns as f64 / price.fastest_ns.max(1) as f64;
    format!("{message}, though nothing then runs beside the communication: {ratio:.2} times the time by the model")
}

/// The doubt whether a change for a race has the intended meaning.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum OrderDoubt {
    /// The statements mean what they mean in program order.
    None,
    /// Iterations use other slots of a buffer than the text says.
    OtherSlots,
    /// It loses a write.
    LostWrite,
}

/// The statements of a race in the order in which the host issues them, by their numbers among those that are no waits.
/// A change of the text leaves these numbers as they are.
pub(super) struct RacePair {
    first: Vec<usize>,
    second: Vec<usize>,
    first_writes: bool,
    second_writes: bool,
    /// The ops that the text may name.
    ops: OpRegistry,
}

impl RacePair {
    /// The pair of a race in a text; `None` for other diagnostics.
    pub(super) fn of_diag(text: &str, diag: &Diag, ops: OpRegistry) -> Option<Self> {
        let race = diag.race()?;
        Some(Self {
            first: numbers_at(text, race.first, ops),
            second: numbers_at(text, race.second, ops),
            first_writes: race.first_writes,
            second_writes: race.second_writes,
            ops,
        })
    }

    fn doubt_about(&self, change: &WeighedChange) -> OrderDoubt {
        match change.change.idea {
            _ if self.loses_write(&change.change.text, change.weight.as_ref()) => OrderDoubt::LostWrite,
            CandidateIdea::Slots => OrderDoubt::OtherSlots,
            CandidateIdea::Plain | CandidateIdea::Overlap | CandidateIdea::Guess | CandidateIdea::Doubtful => {
                OrderDoubt::None
            }
        }
    }

    /// Returns true if the order of the pair is known to make a changed text lose a write: the first statement
    /// overwrites data that could have been meant for the second one, or the second one overwrites the first one's.
    pub(super) fn loses_write(&self, text: &str, weight: Option<&TextWeight>) -> bool {
        if !self.first_writes {
            return false;
        }
        let Some(weight) = weight else { return true };
        weight.lost_writes.iter().any(|lost| match self.second_writes {
            true => {
                let written = lost.lost.map(|lost| numbers_at(text, lost, self.ops)).unwrap_or_default();
                have_common(&written, &self.first) && have_common(&numbers_at(text, lost.by, self.ops), &self.second)
            }
            false => have_common(&numbers_at(text, lost.by, self.ops), &self.first),
        })
    }
}

fn have_common(one: &[usize], other: &[usize]) -> bool {
    one.iter().any(|number| other.contains(number))
}

/// The numbers of the statements at a place, among those of the program that are no waits and do not manage memory.
fn numbers_at(text: &str, span: Span, ops: OpRegistry) -> Vec<usize> {
    let (programs, _) = crate::load_with_options(text, &ReadOptions::with_ops(ops));
    let outlines = programs.iter().filter_map(|program| Outline::new(text, program));
    let found = outlines.map(|outline| {
        let works: Vec<usize> = (0..outline.statements.len()).filter(|&at| outline.does_work(at)).collect();
        let statements = outline.statements_at(span);
        let numbers = statements.into_iter().filter_map(|statement| works.binary_search(&statement).ok());
        numbers.collect::<Vec<usize>>()
    });
    found.into_iter().find(|numbers| !numbers.is_empty()).unwrap_or_default()
}
