//! The best text so far, and the decision about each proposal.

use crate::script::ScriptTest;
use crate::subject::Subject;
use rustc_hash::FxHashSet;

/// The limits of a reduction.
pub(crate) struct ReducerLimits {
    /// Runs of the script.
    pub(crate) most_tests: Option<usize>,
    /// Texts that are no valid programs count too.
    pub(crate) allow_invalid: bool,
}

/// The size of a text: a smaller one is better. Lines count first, then bytes, then the numbers in it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct TextSize {
    lines: usize,
    bytes: usize,
    numbers: u128,
}

impl TextSize {
    fn of_subject(subject: &Subject) -> Self {
        let text = subject.whole_text();
        let numbers = text.split(|c: char| !c.is_ascii_digit()).filter_map(|digits| digits.parse::<u64>().ok());
        Self { lines: subject.line_count(), bytes: text.len(), numbers: numbers.map(u128::from).sum() }
    }
}

/// The reduction of a text.
pub(crate) struct Reducer {
    best: Subject,
    script: ScriptTest,
    limits: ReducerLimits,
    tests: usize,
    /// Texts that were tried, for look-ups only.
    seen: FxHashSet<String>,
    first: TextSize,
}

impl Reducer {
    /// Starts with a text for which the script holds.
    pub(crate) fn new(subject: Subject, script: ScriptTest, limits: ReducerLimits) -> Self {
        let first = TextSize::of_subject(&subject);
        let seen = [subject.whole_text()].into_iter().collect();
        Self { best: subject, script, limits, tests: 0, seen, first }
    }

    /// The smallest text so far.
    pub(crate) fn best(&self) -> &Subject {
        &self.best
    }

    /// Runs of the script.
    pub(crate) fn test_count(&self) -> usize {
        self.tests
    }

    /// Adopts a text that is smaller and for which the script holds.
    pub(crate) fn try_smaller(&mut self, subject: Subject) -> bool {
        TextSize::of_subject(&subject) < TextSize::of_subject(&self.best) && self.try_subject(subject)
    }

    /// Adopts a text for which the script holds. The proposal is smaller in a sense of its own: it has fewer ops.
    pub(crate) fn try_subject(&mut self, subject: Subject) -> bool {
        let is_done = self.limits.most_tests.is_some_and(|most| self.tests >= most);
        if is_done || !self.seen.insert(subject.whole_text()) {
            return false;
        }
        if !self.limits.allow_invalid && subject.errors().has_errors() {
            return false;
        }
        self.tests += 1;
        let holds = self.script.holds_for(&subject.whole_text()).unwrap_or(false);
        if holds {
            self.best = subject;
        }
        holds
    }

    /// `40 -> 7 lines, 1200 -> 180 bytes, 95 runs of the script`
    pub(crate) fn summary(&self) -> String {
        let now = TextSize::of_subject(&self.best);
        let TextSize { lines, bytes, .. } = self.first;
        format!("{lines} -> {} lines, {bytes} -> {} bytes, {} runs of the script", now.lines, now.bytes, self.tests)
    }
}
