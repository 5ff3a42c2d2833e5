//! Tests on nvFuser's dumps, the files in `HIR_DUMPS` and its folders: each is a valid program and prints back byte for
//! byte; `runs` runs them.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

#[path = "../common/mod.rs"]
mod common;
#[path = "../common/dumps.rs"]
mod dumps;
#[path = "../common/needs.rs"]
mod needs;
mod runs;

use hostir::diag::render;

fn main() -> std::process::ExitCode {
    needs::run(needs::tests![
        dumps::missing();
        dumps_print_back, dumps_verify,
        runs::sets, runs::allgathers, runs::reductions, runs::matmuls, runs::partial_matmuls, runs::pipelines,
        runs::other_eras, runs::ops_that_cannot_run_say_so,
    ])
}

fn dumps_print_back() {
    for path in dumps::paths() {
        let text = std::fs::read_to_string(&path).unwrap();
        let name = path.display().to_string();
        let (programs, diags) = hostir::load(&text);
        assert!(diags.is_empty(), "{}", render::to_string(&name, &text, &diags.items));
        let printed: String = programs.iter().map(hostir::print::print_to_string).collect();
        assert_eq!(printed, text, "{name}");
        let joined = hostir_grammar::containers_in_log(&text);
        assert!(matches!(joined, std::borrow::Cow::Borrowed(_)), "{name} is taken for a log");
    }
}

fn dumps_verify() {
    for path in dumps::paths() {
        let text = std::fs::read_to_string(&path).unwrap();
        let name = path.display().to_string();
        let (programs, mut diags) = hostir::load(&text);
        programs.iter().for_each(|program| hostir::verify::verify(program, &mut diags));
        let found = render::to_string(&name, &text, &diags.items);
        // Its loop drops no memory, and its ALLOCATE does nothing after the first iteration: what nvFuser printed
        // early in 2026, before an ALLOCATE made new memory each time, has the race.
        if path.ends_with("other_eras/2026-04-shard-by-stream.hir") {
            assert!(found.starts_with("warning[H0236]: all iterations write to the same buffer of `T3`"));
            assert_eq!(found.matches("[H0").count(), 1, "{found}");
            continue;
        }
        assert_eq!(found, "");
    }
}
