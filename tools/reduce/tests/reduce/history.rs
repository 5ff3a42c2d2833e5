//! Defects of this project's history: of a large program that shows one, hir-reduce leaves the lines that matter.
//!
//! The defects are repaired, so a script looks for the statements that a defect needed, or for the error that a check
//! was missing. Each row names the commit.

use super::{example, reduced};

/// A repaired defect.
struct Defect {
    /// The commit, and its subject.
    commit: &'static str,
    /// A program that showed it.
    program: &'static str,
    /// The script: a line for the shell.
    script: &'static str,
    /// The rest has these words.
    words: &'static [&'static str],
}

/// The first rows run in each test run.
const IN_EACH_RUN: usize = 3;

const DEFECTS: &[Defect] = &[
    // The k of topk has no other source than the header, which strip-names changed.
    Defect {
        commit: "a2519bb1 strip-names: keep a size that only the header gives",
        program: "test/run/sort.hir",
        script: "hir-opt \"$1\" --pass=strip-names 2>/dev/null | grep -q 'topk('",
        words: &["topk("],
    },
    Defect {
        commit: "30ac2ff9 Sends and receives on streams pair in issue order on the CPU",
        program: "test/run/schedules.hir",
        script: "grep -q 'type=send.*backend=CUDA' \"$1\" && grep -q 'type=recv.*backend=CUDA' \"$1\"",
        words: &["type=send", "type=recv"],
    },
    Defect {
        commit: "8f12bc97 test: the wrong program of TensorRT-LLM #10610 has a race",
        program: "test/verification/real/trtllm_10610_wrong.hir",
        script: "hir-run \"$1\" --check-only 2>&1 | grep -q 'error.H0701'",
        words: &["SetCurrentStream"],
    },
    // dce removed an op that gives a loop's result its memory.
    Defect {
        commit: "25e448a7 passes: what dce, units and split reductions do to memory and types",
        program: "test/passes/allocate-and-deallocate_carried.hir",
        script: "hir-opt \"$1\" --pass=dce --form=printed 2>/dev/null > \"$1.out\"; grep -q '[.]alias=' \"$1\" && grep -q 'FOR ' \"$1.out\"",
        words: &[".alias=", "FOR "],
    },
    // It overflowed between the logarithm's argument and its result.
    Defect {
        commit: "b569cb86 backend: pointwise functions as nvFuser's kernels have them",
        program: "test/run/complex.hir",
        script: "grep -q 'acosh(' \"$1\"",
        words: &["acosh("],
    },
    Defect {
        commit: "2e92004f repair: statements of posted units, and one process for --fix",
        program: "test/passes/stream-parallel-type_graph.hir",
        script: "grep -q PostOnStream \"$1\"",
        words: &["PostOnStream", "HostUnit"],
    },
    Defect {
        commit: "fc3364a7 sizes: a column of a Dispatch is told its own rows, not those of slots",
        program: "docs/patterns/moe.hir",
        script: "hir-opt \"$1\" --form=printed 2>/dev/null | grep -q 'Dispatch'",
        words: &["Dispatch("],
    },
    // Definitions of a loop's index, in a chain.
    Defect {
        commit: "031d0936 hir2: a second define: continues the first",
        program: "test/run/long_definitions.hir",
        script: "grep -q 'Index definitions' \"$1\"",
        words: &["Index definitions"],
    },
    // The stack of hir-opt overflowed.
    Defect {
        commit: "1f84f045 hir 2, printed form: literals, numbers and names read back",
        program: "test/syntax/kernel_types.hir",
        script: "grep -q getMetaData \"$1\"",
        words: &["getMetaData"],
    },
    Defect {
        commit: "5a472b87 plan_checks: post orders, redundant waits, names that a Deallocate ended",
        program: "test/verification/real/pytorch_189228_wrong.hir",
        script: "hir-run \"$1\" --check-only 2>&1 | grep -q 'error.H0704'",
        words: &["Allreduce"],
    },
    // A size beyond 2^63 aborted the planning of what a loop frees.
    Defect {
        commit: "4341817d Plans use the analysis's axes, grow linearly and never abort on sizes",
        program: "test/run/loop_memory_again.hir",
        script: "grep -q Deallocate \"$1\" && grep -q 'FOR ' \"$1\"",
        words: &["Deallocate", "FOR "],
    },
    Defect {
        commit: "aaf34ae3 passes: carried memory asks keep= and .alias=, not the spelling",
        program: "test/run/aliases.hir",
        script: "grep -q '[.]alias=' \"$1\"",
        words: &[".alias="],
    },
];

fn check_defects(defects: &[Defect]) {
    for defect in defects {
        let result = reduced(&example(defect.program), defect.script, &[]);
        for words in defect.words {
            assert!(result.contains(words), "{}: no `{words}` in\n{result}", defect.commit);
        }
    }
}

/// The lines that matter of three.
#[test]
fn defects_are_few_lines() {
    check_defects(&DEFECTS[..IN_EACH_RUN]);
}

/// The lines that matter of the others.
#[test]
#[ignore = "takes half a minute: cargo test -p hostir-reduce -- --ignored"]
fn other_defects_are_few_lines() {
    assert_eq!(DEFECTS.len(), 12);
    check_defects(&DEFECTS[IN_EACH_RUN..]);
}
