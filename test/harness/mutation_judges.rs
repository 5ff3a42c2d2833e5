//! The proof and the schedule oracle, which know nothing of each other, on mutants of right programs.

use crate::mutation::corpus::{STREAMS, list_programs};
use crate::mutation::judge::{Agreement, judge_text};
use crate::mutation::operators::list_mutants;
use std::path::Path;

/// The mutants that are taken of each program.
const MUTANTS_EACH: usize = 24;

#[test]
fn proof_and_schedules_agree_on_mutants_of_the_examples() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut judged = 0;
    let programs = list_programs(&root, "docs/examples/printed", STREAMS);
    for program in programs.iter().filter(|program| program.is_right()) {
        let mut mutants = list_mutants(&program.text, program.ranks);
        fastrand::Rng::with_seed(1).shuffle(&mut mutants);
        for mutant in mutants.iter().take(MUTANTS_EACH) {
            let judgement = judge_text(&mutant.text, &program.sizes);
            let context = format!("{}: {}: {}", program.name, mutant.change, judgement.verdict_text());
            assert_eq!(judgement.agreement(), Agreement::Same, "{context}\n{}", mutant.text);
            judged += 1;
        }
    }
    assert!(judged >= 300, "only {judged} mutants");
}
