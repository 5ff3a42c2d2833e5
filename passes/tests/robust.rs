//! Damaged programs: nothing panics or hangs, a text has an error or prints back, and passes turn
//! valid programs into valid ones.

#[path = "../../test/library/common/effort.rs"]
mod effort;
#[path = "../../test/library/common/random.rs"]
mod random;

use hostir::diag::{Diags, render};
use hostir::ir::Program;
use hostir_passes::manager::{Config, Quiet};
use hostir_passes::{PASSES, manager, pipeline};
use random::{Random, canonical, damage, programs};
use std::time::Instant;

/// The programs of a text, if all of them are valid.
fn valid(name: &str, text: &str) -> Option<Vec<Program>> {
    let (programs, mut diags) = hostir::load(text);
    for program in &programs {
        hostir::verify::verify(program, &mut diags);
    }
    render::to_string(name, text, &diags.items);
    (!diags.has_errors()).then_some(programs)
}

#[test]
fn damaged_programs() {
    let rounds = effort::cases("HIR_MUTATIONS", 25, 1_000);
    let mut random = Random(effort::seed(5));
    let mut good = 0;
    for (name, text) in programs() {
        for _ in 0..rounds {
            let text = damage(&text, &mut random);
            let start = Instant::now();
            let Some(programs) = valid(&name, &text) else { continue };
            good += 1;
            let printed: String = programs.iter().map(hostir::print::print).collect();
            let again = canonical(&printed);
            let same = |a: &str, b: &str| {
                a.lines().filter(|line| !line.is_empty()).eq(b.lines().filter(|l| !l.is_empty()))
            };
            assert!(
                again.is_some_and(|again| same(&again, &printed)),
                "{name}\n{text}\n---\n{printed}"
            );
            programs.into_iter().for_each(|program| passes(&name, &text, program));
            assert!(start.elapsed().as_secs() < 5, "{name} took {:?}\n{text}", start.elapsed());
        }
    }
    assert!(good > 10 * rounds, "only {good} valid programs");
}

/// The general passes leave a valid program.
fn passes(name: &str, text: &str, mut program: Program) {
    let run = |program: &mut Program| {
        let pipeline = pipeline::parse("canonicalize,cse,dce", PASSES).expect("well formed");
        let result = manager::run(program, &pipeline, &Config::default(), &mut Quiet);
        let errors = result.err().map_or_else(Diags::default, |failure| failure.errors);
        assert!(!errors.has_errors(), "{name}\n{text}\n{:#?}", errors.items);
        hostir::print::print(program)
    };
    run(&mut program);
}
