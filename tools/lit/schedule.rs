//! Runs tests beside each other.

use crate::case::{RunSettings, TestCase};
use crate::journal::{Journal, JournalEntry, JournalState};
use crate::outcome::{Outcome, Verdict};
use crate::report::Report;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{self, Sender};

/// Tests that run beside each other.
struct ScheduledTests<'t> {
    tests: &'t [TestCase],
    /// The indices of those that run, in the order in which they begin.
    order: Vec<usize>,
    run: &'t RunSettings,
}

/// A test that ended: its index, and its outcome.
struct EndedTest {
    index: usize,
    outcome: Outcome,
}

/// Tests whose beginnings and ends are in a journal.
pub(crate) struct JournaledTests<'t> {
    pub(crate) tests: &'t [TestCase],
    pub(crate) run: &'t RunSettings,
    /// Tests that run beside each other.
    pub(crate) workers: usize,
    pub(crate) journal: Option<Journal>,
}

impl<'t> JournaledTests<'t> {
    /// Runs the tests that no earlier process has ended; first, and one after the other, those that may have ended one.
    pub(crate) fn run_left(&self, mut earlier: JournalState, mut report: Report<'t>) -> Report<'t> {
        let (mut alone, mut together) = (Vec::new(), Vec::new());
        for (index, test) in self.tests.iter().enumerate() {
            let name = test.full_name();
            match earlier.ended.remove(&name) {
                Some(outcome) => report.restore_test(index, outcome),
                None if earlier.runs_alone(&name) => alone.push(index),
                None => together.push(index),
            }
        }
        for (order, workers) in [(alone, 1), (together, self.workers)] {
            self.run_some(order, workers, &mut |index, mut outcome| {
                let name = self.tests[index].full_name();
                if let Some(how) = earlier.culprits.get(&name) {
                    outcome.report.insert_str(0, &format!("hir-lit {how} while the test ran; this is with --spawn\n"));
                }
                report.add_test(index, outcome.clone());
                self.add_entry(JournalEntry::Ended(name, outcome));
            });
        }
        report
    }

    fn run_some(&self, order: Vec<usize>, workers: usize, report: &mut dyn FnMut(usize, Outcome)) {
        let begin = |index: usize| self.add_entry(JournalEntry::Begun(self.tests[index].full_name()));
        let work = ScheduledTests { tests: self.tests, order, run: self.run };
        run_tests(&work, workers, &begin, &mut |ended| report(ended.index, ended.outcome));
    }

    fn add_entry(&self, entry: JournalEntry) {
        if let Some(journal) = &self.journal {
            journal.add_entry(&entry);
        }
    }
}

/// Runs those tests that have the indices `order` in `workers` threads. Calls `begin` with each that begins, and `report`
/// with each that ended, one after the other.
fn run_tests(
    work: &ScheduledTests<'_>,
    workers: usize,
    begin: &(impl Fn(usize) + Sync),
    report: &mut dyn FnMut(EndedTest),
) {
    let next = AtomicUsize::new(0);
    let (sender, receiver) = mpsc::channel();
    std::thread::scope(|scope| {
        for _ in 0..workers.clamp(1, work.order.len().max(1)) {
            let (sender, next) = (sender.clone(), &next);
            scope.spawn(move || run_next_tests(work, next, begin, &sender));
        }
        drop(sender);
        receiver.iter().for_each(report);
    });
}

fn run_next_tests(work: &ScheduledTests<'_>, next: &AtomicUsize, begin: &impl Fn(usize), sender: &Sender<EndedTest>) {
    let ScheduledTests { tests, order, run } = work;
    loop {
        let Some(&index) = order.get(next.fetch_add(1, Ordering::Relaxed)) else { return };
        let test = &tests[index];
        begin(index);
        let outcome = catch_unwind(AssertUnwindSafe(|| test.run_test(run))).unwrap_or_else(|_| {
            Outcome::without_run(Verdict::Unresolved, "an internal error of hir-lit ended the test\n".to_owned())
        });
        if sender.send(EndedTest { index, outcome }).is_err() {
            return;
        }
    }
}
