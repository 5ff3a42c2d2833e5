//! The pass table and what is generated from it.

use hostir::diag::render;
use hostir::ir::Program;
use hostir_passes::manager::{Config, SilentObserver};
use hostir_passes::{OptionType, PASSES, manager, passes_markdown, pipeline};
use std::path::Path;

fn program(text: &str) -> Program {
    let (mut programs, mut diags) = hostir::load(text);
    let program = programs.pop().expect("the text has a program");
    hostir::verify::verify(&program, &mut diags);
    assert!(!diags.has_errors(), "{}", render::to_string("test", text, &diags.items));
    program
}

/// The printed form; numbers, which `hir 2` does not have, by their order.
fn printed(mut program: Program) -> String {
    if program.is_hir2() {
        hostir::style::renumber_program(&mut program);
    }
    hostir::print::print_to_string(&program)
}

fn run(text: &str, passes: &str) -> String {
    let mut program = program(text);
    let pipeline = pipeline::parse_pipeline(passes, PASSES).expect("the pipeline is well formed");
    let result = manager::run_pipeline(&mut program, &pipeline, &Config::default(), &mut SilentObserver);
    let errors = result.err().map(|failure| failure.errors.items).unwrap_or_default();
    assert!(errors.is_empty(), "{}", render::to_string(passes, text, &errors));
    printed(program)
}

/// As [`run`], but the pass may refuse: the program is then as it was.
fn again(text: &str, passes: &str) -> String {
    let mut program = program(text);
    let pipeline = pipeline::parse_pipeline(passes, PASSES).expect("the pipeline is well formed");
    let _refusal = manager::run_pipeline(&mut program, &pipeline, &Config::default(), &mut SilentObserver).err();
    printed(program)
}

/// Every pass turns its example's `before` into its `after`, and changes nothing the second time (where
/// `insert-deallocations` refuses).
#[test]
fn examples_hold() {
    for pass in PASSES {
        let Some(example) = pass.example else { continue };
        let after = printed(program(example.after));
        let pass = format!("{}{}", pass.name, example.options);
        assert_eq!(run(example.before, &pass), after, "{pass}");
        assert_eq!(again(example.after, &pass), after, "{pass} again");
    }
}

/// Names are unique kebab-case, summaries are sentences without a full stop, defaults are of their type.
#[test]
fn table_is_well_formed() {
    let kebab =
        |name: &str| name.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-');
    for (index, pass) in PASSES.iter().enumerate() {
        assert!(kebab(pass.name), "{}", pass.name);
        assert!(!PASSES[..index].iter().any(|other| other.name == pass.name), "{}", pass.name);
        assert!(!pass.summary.is_empty() && !pass.summary.ends_with('.'), "{}", pass.name);
        assert!(pass.description.len() > 40, "{}", pass.name);
        for option in pass.options {
            let fits = option.default.is_none_or(|text| option.ty.parse_value(text).is_some());
            assert!(fits, "{}: {}", pass.name, option.name);
            assert!(!option.help.is_empty() && option.ty != OptionType::Choice(&[]), "{}", option.name);
        }
    }
}

/// `docs/passes.md` is what the table says. `HIR_BLESS=1` rewrites it.
#[test]
fn documentation_is_current() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/passes.md");
    let wanted = passes_markdown();
    if std::env::var_os("HIR_BLESS").is_some_and(|value| value == "1") {
        std::fs::write(&path, &wanted).unwrap();
    }
    let found = std::fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(found, wanted, "docs/passes.md is not current: HIR_BLESS=1 cargo test -p hostir-passes rewrites it");
}
