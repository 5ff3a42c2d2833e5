//! Whatever a tool prints, the tools read: every program of the tree and random ones go through every pass, through
//! pipelines that lower, and into every style and form; what is printed then has no errors and prints to the same
//! text again.
//!
//! A test run takes a part of the combinations. `HIR_FULL=1` takes all of them, `HIR_PRINTED=5000` that many random
//! programs, `HIR_SEED=7` starts elsewhere.
#![allow(clippy::panic, reason = "failures panic")]

use crate::{effort, lowering};
use hostir::diag::render;
use hostir::ir::edit::Edit;
use hostir::ir::{Era, Program};
use hostir::print::{PrintForm, PrintOptions, print_into, print_to_string};
use hostir::style::restyle_program;
use hostir_passes::{PASSES, manager, pipeline};
use hostir_test::tree;

/// Pipelines beside the single passes.
pub(crate) const PIPELINES: &[&str] = &[
    "host-ir-lower{allgather=ring},canonicalize,cse,dce",
    "host-ir-lower{matmul_reduce_scatter=p2p},ring-stream-buffers",
    "host-ir-lower{communicator_backend=CUDA,p2p_protocol=put},insert-deallocations",
    "decompose-reshardings,segment-host-units,stream-parallel-type,convert-op-to-communication",
    "propagate-shardings,insert-reshardings,reorder-sharded-axis,make-resharding-contiguous,convert-op-to-communication",
    "canonicalize,allocate-and-deallocate",
    "assign-streams,strip-comments",
];

/// Random programs of an ordinary test run, and how many of the tree's combinations it takes: one in so many.
const QUICK: (u64, u64) = (150, 3);

/// The programs of a text that has no errors.
fn load(text: &str) -> Vec<Program> {
    let (programs, mut diags) = hostir::load(text);
    for program in &programs {
        hostir::verify::verify(program, &mut diags);
    }
    if diags.has_errors() { Vec::new() } else { programs }
}

/// The fault of a printed text: it does not read, or not to the same.
fn fault(printed: &str, form: PrintForm) -> Option<String> {
    let (programs, mut diags) = hostir::load(printed);
    let [program] = programs.as_slice() else {
        return Some(format!("{} programs\n{}", programs.len(), rendered(printed, &diags.items)));
    };
    hostir::verify::verify(program, &mut diags);
    if diags.has_errors() {
        return Some(rendered(printed, &diags.items));
    }
    let again = written(program, form);
    (again != printed).then(|| format!("printed once\n{printed}\nprinted again\n{again}"))
}

fn rendered(text: &str, items: &[hostir::diag::Diag]) -> String {
    format!("{}\n{text}", render::to_string("printed.hir", text, items))
}

fn written(program: &Program, form: PrintForm) -> String {
    let mut text = String::new();
    print_into(program, PrintOptions { form, ..PrintOptions::default() }, &mut text);
    text
}

/// The program after passes; `None` if they refuse it.
pub(crate) fn passed(program: &str, passes: &str) -> Option<Program> {
    let mut program = load(program).pop()?;
    let pipeline = pipeline::parse_pipeline(passes, PASSES).ok()?;
    let config = manager::Config::default();
    manager::run_pipeline(&mut program, &pipeline, &config, &mut manager::SilentObserver).ok()?;
    Some(program)
}

/// Counts and picks combinations.
struct Checks {
    rng: fastrand::Rng,
    one_in: u64,
    count: usize,
}

impl Checks {
    fn new(one_in: u64) -> Self {
        Self { rng: fastrand::Rng::with_seed(seed()), one_in, count: 0 }
    }

    fn takes(&mut self) -> bool {
        self.rng.u64(..self.one_in) == 0
    }

    fn check(&mut self, program: &Program, what: &str) {
        for form in [PrintForm::Full, PrintForm::Short] {
            let text = written(program, form);
            self.count += 1;
            if let Some(fault) = fault(&text, form) {
                panic!("{what}, {form:?}: {fault}");
            }
        }
    }

    /// One program in all styles and through all passes.
    fn program(&mut self, text: &str, name: &str) {
        for &(era, word) in Era::ALL {
            if let Some(mut program) = load(text).pop().filter(|_| self.takes()) {
                let mut edit = Edit::new(&mut program);
                restyle_program(&mut edit, era.style());
                edit.commit();
                self.check(&program, &format!("{name} in style {word}"));
            }
        }
        let passes = PASSES.iter().map(|pass| pass.name).chain(PIPELINES.iter().copied());
        for passes in passes {
            if self.takes()
                && let Some(program) = passed(text, passes)
            {
                self.check(&program, &format!("{name} behind {passes}"));
            }
        }
    }
}

fn seed() -> u64 {
    effort::number("HIR_SEED").unwrap_or(1)
}

/// One in so many combinations is taken.
fn one_in() -> u64 {
    effort::cases("HIR_ONE_IN", QUICK.1, 1)
}

#[test]
fn what_becomes_of_the_programs_of_the_tree_reads_back() {
    let mut checks = Checks::new(one_in());
    for path in tree::programs() {
        for program in load(&tree::read(&path)) {
            checks.program(&print_to_string(&program), &tree::relative(&path));
        }
    }
    assert!(checks.count > 1000, "{} texts", checks.count);
}

#[test]
fn what_becomes_of_random_programs_reads_back() {
    let mut checks = Checks::new(one_in());
    let seed = seed();
    for index in 0..effort::cases("HIR_PRINTED", QUICK.0, 1000) {
        let mut rng = fastrand::Rng::with_seed(seed.wrapping_mul(1 << 32).wrapping_add(index));
        let generated = lowering::generate::program(&mut rng);
        checks.program(&generated.text, &format!("program {index} of seed {seed}"));
    }
    assert!(checks.count > 100, "{} texts", checks.count);
}

/// Literals as people and passes write them.
#[test]
fn literals_print_as_they_were_written() {
    let literals = [
        "-9223372036854775808",
        "9223372036854775807",
        "int64_t(-9223372036854775808)",
        "int(-2147483648)",
        "int8_t(-128)",
        "int16_t(7)",
        "uint8_t(255)",
        "uint16_t(1)",
        "uint32_t(4294967295)",
        "uint64_t(18446744073709551615)",
        "nvfuser_index_t(3)",
        "bool(true)",
        "bool(false)",
        "bool(1)",
        "true",
        "double(-inf)",
        "float(nan)",
        "float(-nan)",
        "__half(1e-05)",
        "__bfloat(0.5)",
        "__e4m3(2)",
        "__e5m2(2)",
        "__e8m0(1)",
        "__e2m1(1)",
        "( -9223372036854775808 + 1 )",
        "( 5 - -9223372036854775808 )",
        "( --9223372036854775808 )",
        "( --3 )",
        "( - 3 )",
        "( -0.5 )",
        "1.e5",
        ".5",
        "( --i0 )",
        "( 1 - int(-3) )",
        "( -float(3) )",
        "( -int64_t(-3) )",
    ];
    for literal in literals {
        let text = format!(
            "%HostIrContainer {{ (T0_g_double[iS0{{i0}}]) -> (T1_g_double[iS1{{i0}}]) :\n  T1_g_double[iS1{{i0}}]\n     = full({{i0}}, {literal});\n}} // %HostIrContainer\n"
        );
        let (programs, diags) = hostir::load(&text);
        assert!(!diags.has_errors(), "{}", rendered(&text, &diags.items));
        let printed = print_to_string(&programs[0]);
        assert_eq!(fault(&printed, PrintForm::Full), None);
        if literal != "( --i0 )" {
            assert!(printed.contains(&format!("}}, {literal});")), "{literal}: {printed}");
        }
    }
}
