//! Runs tests beside each other.

use crate::case::{RunSettings, TestCase};
use crate::outcome::{Outcome, Verdict};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{self, Sender};

/// A test that ended: its index, and its outcome.
pub(crate) struct EndedTest {
    pub(crate) index: usize,
    pub(crate) outcome: Outcome,
}

/// Runs the tests in `workers` threads, and calls `report` with each that ended, one after the other.
pub(crate) fn run_tests(tests: &[TestCase], run: &RunSettings, workers: usize, mut report: impl FnMut(EndedTest)) {
    let next = AtomicUsize::new(0);
    let (sender, receiver) = mpsc::channel();
    std::thread::scope(|scope| {
        for _ in 0..workers.clamp(1, tests.len().max(1)) {
            let (sender, next) = (sender.clone(), &next);
            scope.spawn(move || work(tests, run, next, &sender));
        }
        drop(sender);
        receiver.iter().for_each(&mut report);
    });
}

fn work(tests: &[TestCase], run: &RunSettings, next: &AtomicUsize, sender: &Sender<EndedTest>) {
    loop {
        let index = next.fetch_add(1, Ordering::Relaxed);
        let Some(test) = tests.get(index) else { return };
        let outcome = catch_unwind(AssertUnwindSafe(|| test.run_test(run))).unwrap_or_else(|_| {
            Outcome::without_run(Verdict::Unresolved, "an internal error of hir-lit ended the test\n".to_owned())
        });
        if sender.send(EndedTest { index, outcome }).is_err() {
            return;
        }
    }
}
