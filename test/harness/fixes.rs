//! Fixes of the corpus of `test/verification`: each that a tool may apply has to work.

use crate::proofs::{Expectation, corpus, expectation, prove_text};
use hostir::backend::{cpu, weigh_program};
use hostir::data::HostTensor;
use hostir::diag::{Diag, Fix, Severity, codes};
use hostir::lower::{IoTensor, SizeSettings, assemble_output, prepare_program, shard_input};
use hostir::plan::cost::CostModel;
use hostir::repair::{TextJudge, TextVerdict, TextWeight, add_tested_fixes, repair_text};
use hostir_test::tree;
use std::path::Path;

/// Judges texts as `hir-run --check-only` does.
struct ProofJudge;

impl TextJudge for ProofJudge {
    fn judge_text(&mut self, text: &str) -> TextVerdict {
        TextVerdict { diags: prove_text(text, 4), instructions: 0 }
    }

    fn weigh_text(&mut self, text: &str) -> Option<TextWeight> {
        let (programs, _) = hostir::load(text);
        let prepared = prepare_program(programs.first()?, &SizeSettings::default()).ok()?;
        weigh_program(&prepared, &CostModel::of_default_machine())
    }
}

fn errors_of(diags: &[Diag]) -> Vec<(&'static str, &str)> {
    let errors = diags.iter().filter(|diag| diag.severity == Severity::Error);
    errors.map(|diag| (diag.code, diag.message.as_str())).collect()
}

/// The whole outputs of a program on generated inputs; `None` if it does not run.
fn run_outputs(text: &str) -> Option<Vec<HostTensor>> {
    let (programs, _) = hostir::load(text);
    let prepared = prepare_program(programs.first()?, &SizeSettings::default()).ok()?;
    let whole: Vec<HostTensor> = prepared.inputs.iter().map(numbered_tensor).collect();
    let local = |rank: u32| (0..whole.len()).map(|k| shard_input(&prepared, k, rank, &whole[k])).collect();
    let result = cpu::run_plans(&prepared, (0..prepared.ranks).map(local).collect()).ok()?;
    let outputs = (0..prepared.results).map(|output| {
        let ranks = result.outputs.iter().zip(0u32..);
        let parts = ranks.filter_map(|(outputs, rank)| Some((rank, outputs[output].clone()?)));
        assemble_output(&prepared, output, parts.collect()).ok()
    });
    outputs.collect()
}

/// Values of both signs that differ from each other.
fn numbered_tensor(port: &IoTensor) -> HostTensor {
    let mut tensor = HostTensor::zeros(port.dtype, &port.whole_shape());
    (0..tensor.len()).for_each(|k| tensor.set_f64(k, (k as f64 + 1.0) * if k % 2 == 0 { 1.0 } else { -1.0 }));
    tensor
}

/// The number of programs with a code, and of those that a fix repairs.
#[derive(Default, Debug)]
struct FixCount {
    programs: usize,
    fixed: usize,
}

/// Wrong programs whose race a fix repairs, of all with a race (`docs/verification.md`).
const FIXED_RACES: usize = 66;

/// Wrong programs whose other error or warning a fix repairs.
const FIXED_OTHERS: usize = 36;

/// The text, and its programs in `hir 2` where it can be read.
fn both_notations(text: &str) -> Vec<String> {
    let (mut programs, diags) = hostir::load(text);
    let mut texts = vec![text.to_owned()];
    if !diags.has_errors() {
        texts.push(hostir::hir2::write::write_file(&mut programs));
    }
    texts
}

/// The number of loops and branches whose first block has no statement.
fn empty_blocks(text: &str) -> usize {
    let (programs, _) = hostir::load(text);
    let ops = programs.iter().flat_map(|program| program.ops().iter().map(move |(_, op)| (program, op)));
    ops.filter(|(program, op)| op.blocks.first().is_some_and(|&block| program.block(block).ops.is_empty())).count()
}

/// Finds the fault of the fix of a diagnostic, by the text, all that is said about it and the repaired twin.
fn judge_fix(text: &str, before: &[Diag], target: &Diag, fix: &Fix, right: &str) -> Vec<&'static str> {
    let repaired = fix.apply_to(text).expect("the edits fit the text");
    let mut left = errors_of(before);
    left.retain(|error| *error != (target.code, target.message.as_str()));
    let mut wrong = Vec::new();
    if errors_of(&prove_text(&repaired, 4)).iter().any(|error| !left.contains(error)) {
        wrong.push("other errors");
    }
    if empty_blocks(&repaired) > empty_blocks(text) {
        wrong.push("an empty block");
    }
    // The repaired twin gives the meaning.
    if fix.is_machine_applicable() && run_outputs(&repaired) != run_outputs(right) {
        wrong.push("other results");
    }
    wrong
}

/// Finds the faults of the fixes of a text, and whether one repairs what is expected.
fn judge_fixes(text: &str, code: &str, right: &str) -> (Vec<String>, bool) {
    let mut diags = prove_text(text, 4);
    let before = diags.clone();
    add_tested_fixes(text, &mut diags, &mut ProofJudge);
    let (mut bad, mut is_fixed) = (Vec::new(), false);
    for diag in &diags {
        let Some(old) = before.iter().find(|old| (old.code, &old.message) == (diag.code, &diag.message)) else {
            continue;
        };
        let tried = |fix: &&Fix| fix.is_machine_applicable() || (diag.code == codes::RACE && !fix.edits.is_empty());
        for fix in diag.fixes.iter().filter(tried) {
            let wrong = judge_fix(text, &before, old, fix, right);
            bad.extend(wrong.into_iter().map(|what| format!("{what}: {}", fix.message)));
            is_fixed |= diag.code == code && fix.is_machine_applicable();
        }
    }
    (bad, is_fixed)
}

#[test]
fn offered_fixes_work() {
    let mut bad = Vec::new();
    let (mut races, mut others) = (FixCount::default(), FixCount::default());
    for file in corpus() {
        let text = tree::read(&file);
        let Some(Expectation { code, .. }) = expectation(&text) else { continue };
        let right = tree::read(Path::new(&file.to_string_lossy().replace("_wrong.hir", ".hir")));
        for (number, text) in both_notations(&text).into_iter().enumerate() {
            let (found, is_fixed) = judge_fixes(&text, &code, &right);
            bad.extend(found.into_iter().map(|what| format!("{} ({number}): {what}", tree::relative(&file))));
            if number == 0 {
                let count = if code == codes::RACE { &mut races } else { &mut others };
                count.programs += 1;
                count.fixed += usize::from(is_fixed);
            }
            if !is_fixed {
                println!("no fix for {code} ({number}): {}", tree::relative(&file));
            }
        }
    }
    println!("races: {races:?}, others: {others:?}");
    assert!(bad.is_empty(), "{}", bad.join("\n"));
    assert!(races.fixed >= FIXED_RACES, "{races:?}");
    assert!(others.fixed >= FIXED_OTHERS, "{others:?}");
}

#[test]
fn repaired_texts_have_nothing_left_to_fix() {
    for file in corpus() {
        let text = tree::read(&file);
        if expectation(&text).is_none() {
            continue;
        }
        let once = repair_text(&text, &mut ProofJudge);
        let twice = repair_text(&once.text, &mut ProofJudge);
        assert_eq!((twice.text == once.text, twice.applied.len()), (true, 0), "{}", tree::relative(&file));
    }
}
