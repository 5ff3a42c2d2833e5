//! Weighs changes that repair the same race: by the time that the programs take, and by the writes that they lose.

use super::judge::TextWeight;
use super::outline::Outline;
use super::text_change::Candidate;
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

/// Chooses the change to propose for a race, and returns whether it is doubtful, as is one that loses a write. Among
/// the others it takes one that is hardly slower than the fastest, and leaves the fewest warnings.
pub(super) fn choose_change(mut found: Vec<WeighedChange>, race: &RacePair) -> Option<(Candidate, bool)> {
    let is_doubtful = found.iter().all(|change| race.loses_write(change));
    found.retain(|change| is_doubtful || !race.loses_write(change));
    let fastest = found.iter().map(WeighedChange::time_ns).min()?;
    let most = fastest.saturating_add(fastest / LITTLE);
    found.retain(|change| change.time_ns() <= most);
    let chosen = found.into_iter().min_by_key(|change| change.warnings)?;
    Some((chosen.change, is_doubtful))
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

    /// Returns true if the order of the pair is known to make the changed program lose a write: the first statement
    /// overwrites data that could have been meant for the second one, or the second one overwrites the first one's.
    fn loses_write(&self, changed: &WeighedChange) -> bool {
        if !self.first_writes {
            return false;
        }
        let Some(weight) = &changed.weight else { return true };
        let text = &changed.change.text;
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
