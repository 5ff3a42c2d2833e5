//! A pass that is applied to its own output changes nothing: every program of the tree goes through every pass twice.
//!
//! [`CHANGES_AGAIN`] lists the passes for which this does not hold, with the reason.
#![allow(clippy::panic, reason = "failures panic")]

use crate::printed::passed;
use hostir::print::print_to_string;
use hostir_passes::{PASSES, PassInfo};
use hostir_test::tree;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Fewer applications than this that a pass did not refuse are suspicious.
const APPLIED: usize = 15_000;

/// Passes whose second application may change a program, each with the reason.
const CHANGES_AGAIN: &[(&str, &str)] = &[];

#[test]
fn a_second_application_changes_nothing() {
    let passes: Vec<&PassInfo> = PASSES
        .iter()
        .copied()
        .filter(|pass| pass.options.iter().all(|option| option.default.is_some()))
        .filter(|pass| CHANGES_AGAIN.iter().all(|(name, _)| *name != pass.name))
        .collect();
    let programs = programs();
    let (applied, next, failures) = (AtomicUsize::new(0), AtomicUsize::new(0), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(2, usize::from) {
            scope.spawn(|| {
                while let Some((name, text)) = programs.get(next.fetch_add(1, Ordering::Relaxed)) {
                    for pass in &passes {
                        let Some(once) = passed(text, pass.name) else { continue };
                        applied.fetch_add(1, Ordering::Relaxed);
                        if let Some(fault) = changes_again(pass.name, &print_to_string(&once)) {
                            failures
                                .lock()
                                .expect("no thread panics")
                                .push(format!("{} of {name}: {fault}", pass.name));
                        }
                    }
                }
            });
        }
    });
    let failures = failures.into_inner().expect("no thread panics");
    assert!(failures.is_empty(), "{} second applications\n{}", failures.len(), failures.join("\n"));
    let applied = applied.into_inner();
    assert!(applied >= APPLIED, "only {applied} applications");
}

/// The change that a pass makes to its own output, if any.
fn changes_again(pass: &str, once: &str) -> Option<String> {
    let Some(twice) = passed(once, pass) else { return Some(format!("its output is refused\n{once}")) };
    let twice = print_to_string(&twice);
    (twice != once).then(|| format!("once\n{once}\ntwice\n{twice}"))
}

/// The programs of all files of the tree, one a text, in the printed form.
fn programs() -> Vec<(String, String)> {
    let mut found = Vec::new();
    for path in tree::programs() {
        let text = tree::read(&path);
        for part in text.split("\n// -----\n") {
            let (programs, diags) = hostir::load(part);
            if !diags.has_errors() {
                found.extend(programs.iter().map(|program| (tree::relative(&path), print_to_string(program))));
            }
        }
    }
    found
}
