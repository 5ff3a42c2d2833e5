//! The fuzz targets over their corpus, over the programs of the tree whole, cut and damaged at fixed places, and over
//! programs of the tree and texts of the corpus that are damaged at random.
//!
//! `HIR_MUTATIONS=1000` damages each program that often, `HIR_SEED=7` starts elsewhere.

use crate::effort;
use crate::random::{Random, damage, programs};
use hostir_test::fuzz::{FUZZ_TARGETS, fuzz_hir2, fuzz_passes, fuzz_text};
use hostir_test::tree;
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::Instant;

fn corpus_folder() -> PathBuf {
    tree::root().join("test/fuzz/corpus")
}

/// Runs a target on an input; a panic names the input.
fn run_named(name: &str, run: fn(&[u8]), input: &[u8]) {
    let result = std::panic::catch_unwind(|| run(input));
    assert!(result.is_ok(), "the fuzz target fails for {name}");
}

#[test]
fn corpus_inputs_pass() {
    for target in FUZZ_TARGETS {
        let folder = corpus_folder().join(target.name);
        let entries = std::fs::read_dir(&folder).expect("each target has a corpus folder");
        let mut inputs: Vec<PathBuf> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
        inputs.sort();
        assert!(inputs.len() >= 3, "the corpus of {} has only {} inputs", target.name, inputs.len());
        for path in inputs {
            let input = std::fs::read(&path).expect("a readable input");
            run_named(&tree::relative(&path), target.run, &input);
        }
    }
}

#[test]
fn programs_of_the_tree_pass() {
    let mut cuts = 0;
    for (number, path) in tree::programs().into_iter().enumerate() {
        let name = tree::relative(&path);
        let bytes = std::fs::read(&path).expect("a readable program");
        run_named(&name, fuzz_text, &bytes);
        if hostir::hir2::is_hir2(&String::from_utf8_lossy(&bytes)) {
            run_named(&name, fuzz_hir2, &bytes);
        }
        run_named(&name, fuzz_passes, &bytes);
        // Another place in each file, so that together they cut everywhere.
        let cut = bytes.len() * (number % 17 + 1) / 18;
        run_named(&format!("the first {cut} bytes of {name}"), fuzz_text, &bytes[..cut]);
        let mut damaged = bytes;
        if let Some(byte) = damaged.get_mut(cut) {
            *byte ^= 0x21;
            run_named(&format!("{name} with byte {cut} changed"), fuzz_passes, &damaged);
            cuts += 1;
        }
    }
    assert!(cuts > 200, "only {cuts} programs");
}

/// Damages each text `rounds` times and runs the targets `text` and `passes` on it. Gives how many of the damaged
/// texts are without errors. The damage of a text depends on its name and the seed, not on the texts before it.
fn run_damaged(texts: &[(String, String)], rounds: u64, seed: u64) -> u64 {
    let mut sound = 0;
    for (name, text) in texts {
        let random = &mut Random(seed ^ hash_of_name(name));
        for round in 0..rounds {
            let damaged = damage(text, random);
            let name = format!("round {round} of {name}:\n{damaged}");
            let start = Instant::now();
            if hostir::hir2::is_hir2(&damaged) {
                run_named(&name, fuzz_hir2, damaged.as_bytes());
            }
            run_named(&name, fuzz_text, damaged.as_bytes());
            run_named(&name, fuzz_passes, damaged.as_bytes());
            assert!(start.elapsed().as_secs() < 60, "{:?} for {name}", start.elapsed());
            sound += u64::from(hostir::load(&damaged).1.is_empty());
        }
    }
    sound
}

/// FNV-1a of the name's path below the repository.
fn hash_of_name(name: &str) -> u64 {
    let own = name.rsplit_once("/../").map_or(name, |(_, own)| own);
    own.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3))
}

#[test]
fn damaged_programs_pass() {
    let rounds = effort::cases("HIR_MUTATIONS", 25, 1_000);
    let sound = run_damaged(&programs(), rounds, effort::seed(5));
    assert!(sound > 10 * rounds, "only {sound} damaged programs are without errors");
}

/// Small texts with one of everything, often.
#[test]
fn damaged_corpus_passes() {
    let rounds = 100 * effort::cases("HIR_MUTATIONS", 25, 1_000);
    let read = |name: &str| (name.to_owned(), tree::read(&corpus_folder().join("text").join(name)));
    let texts = ["loop-and-unit", "sections"].map(read);
    let sound = run_damaged(&texts, rounds, effort::seed(7));
    assert!(sound > rounds / 50, "only {sound} damaged texts are without errors");
}

/// Small texts in `hir 2`, often.
#[test]
fn damaged_hir2_passes() {
    let rounds = 20 * effort::cases("HIR_MUTATIONS", 25, 1_000);
    let read = |name: &str| (name.to_owned(), tree::read(&corpus_folder().join("hir2").join(name)));
    let texts = ["ring", "kern", "a2a", "mmrs", "handles"].map(read);
    let sound = run_damaged(&texts, rounds, effort::seed(9));
    assert!(sound > rounds / 50, "only {sound} damaged texts are without errors");
}

/// Each target has a program for cargo-fuzz, and is in the workflow that runs them.
#[test]
fn targets_have_fuzzers() {
    let workflow = tree::read(&tree::root().join(".github/workflows/whole-network.yml"));
    let line = workflow.lines().find(|line| line.contains("target: [")).unwrap_or_default();
    let listed: BTreeSet<&str> = line.split(['[', ']']).nth(1).unwrap_or_default().split(", ").collect();
    let expected: BTreeSet<&str> = FUZZ_TARGETS.iter().map(|target| target.name).collect();
    assert_eq!(listed, expected, "the matrix of the workflow");
    for name in expected {
        let path = tree::root().join(format!("test/fuzz/fuzz_targets/{name}.rs"));
        assert!(tree::read(&path).contains(&format!("fuzz::fuzz_{name}")), "{name}");
    }
}
