//! Tidy checks: the rules of this repository that no compiler and no lint knows.
//!
//! Each test collects every violation before it fails, so one run shows all there is to do.

mod checks {
    pub(crate) mod arrows;
    pub(crate) mod conformance;
    pub(crate) mod coverage;
    pub(crate) mod docs;
    pub(crate) mod editor_words;
    pub(crate) mod figures;
    pub(crate) mod files;
    pub(crate) mod grammar_page;
    pub(crate) mod links;
    pub(crate) mod messages;
    pub(crate) mod names;
    pub(crate) mod structures;
    pub(crate) mod workflows;
}

use checks::{arrows, conformance, coverage, docs, figures, files, links, messages, names, structures, workflows};
use hostir_figures::report::Figures;
use hostir_test::tree;
use std::io;
use std::sync::OnceLock;

fn none(problems: impl AsRef<[String]>, rule: &str) {
    let problems = problems.as_ref();
    assert!(problems.is_empty(), "{rule}\n  {}", problems.join("\n  "));
}

/// The problems that are found by parsing all sources, which takes seconds.
struct SourceProblems {
    arrows: Vec<String>,
    figures: Vec<String>,
    types: Vec<String>,
    functions: Vec<String>,
    words: Vec<String>,
}

/// The problems of the sources, which are parsed once.
fn source_problems() -> &'static SourceProblems {
    static FOUND: OnceLock<SourceProblems> = OnceLock::new();
    FOUND.get_or_init(|| {
        let figures = Figures::of(&tree::root()).expect("all sources are Rust");
        SourceProblems {
            arrows: arrows::violations(&figures),
            figures: figures::exceeded(&figures),
            types: names::repeated_types(&figures),
            functions: names::empty_function_names(&figures),
            words: names::unused_words(&figures),
        }
    })
}

#[test]
fn every_source_file_starts_with_its_doc() {
    none(files::without_doc(), "a source file starts with `//!`: what it is, then why or which invariant it keeps");
}

#[test]
fn no_file_is_longer_than_700_lines() {
    none(files::too_long(700), "split files of more than 700 lines");
}

#[test]
fn nine_functions_of_ten_have_30_lines_at_most() {
    none(files::long_functions(30), "the 90th percentile of function length is at most 30 lines in every crate");
}

#[test]
fn every_todo_names_an_issue() {
    none(files::loose_todos(), "write `TODO(#12)`, or do it");
}

#[test]
fn nothing_depends_on_one_machine() {
    none(files::private_paths(), "files name no absolute path of somebody's machine");
}

#[test]
fn every_test_runs() {
    none(
        files::tests_that_never_run(),
        "`#[test]` is never run in a program with `harness = false`: name the function in its `main`",
    );
}

#[test]
fn libraries_without_tests_have_none() {
    none(
        files::tests_of_untested_libraries(),
        "the library's Cargo.toml says `test = false` or `doctest = false`: move the test into a test program",
    );
}

#[test]
fn modules_depend_one_way() {
    none(&source_problems().arrows, "these uses break the arrows of ARCHITECTURE.md");
}

#[test]
fn kinds_of_ops_are_named_for_a_reason() {
    none(
        arrows::unexplained_kinds(),
        "code outside src/hostir/ops asks for effects and axis links, or has a reason in checks/arrows.rs",
    );
}

#[test]
fn nothing_tests_the_words_of_messages() {
    none(
        messages::tests_of_words(),
        "ask for codes, kinds of parts and causes (docs/decisions/messages-are-data.md), or give the reason in checks/messages.rs",
    );
}

#[test]
fn figures_are_within_their_bounds() {
    none(&source_problems().figures, "`cargo run -p hostir-figures -- --worst 20` shows where");
}

#[test]
fn no_struct_is_several_in_one() {
    none(structures::large(), "extract the fields that belong together, or give the reason in checks/structures.rs");
}

#[test]
fn types_of_a_crate_have_names_of_their_own() {
    none(&source_problems().types, "rename one of them, or give the reason in checks/names.rs");
}

#[test]
fn visible_functions_have_names_that_say_something() {
    none(&source_problems().functions, "use the verb with its object, or give the reason in checks/names.rs");
}

#[test]
fn names_have_the_words_of_the_glossary() {
    none(&source_problems().words, "docs/glossary.md has the word of the field; or give the reason in checks/names.rs");
}

#[test]
fn every_pass_has_its_tests() {
    none(coverage::passes_without_tests(), "a pass has test/passes/<name>.hir and test/passes/<name>_errors.hir");
}

#[test]
fn every_op_has_a_test() {
    none(coverage::ops_without_tests(), "an op occurs in a .hir file below test/ops, test/run or docs/examples");
}

#[test]
fn every_op_has_an_example() {
    none(docs::ops_without_example(), "an op of hir 2 has an example that runs, docs/ops/<name>.hir");
    none(docs::untested_examples(), "test/run/op_examples.hir runs each example of docs/ops");
}

#[test]
fn every_op_has_a_mistake() {
    none(
        docs::ops_without_mistake(),
        "docs/ops/<name>.error.hir is a program with one error, which each fix that is offered repairs",
    );
}

#[test]
fn every_code_is_tested() {
    none(coverage::codes_without_tests(), "an H-code of the sources occurs in an expected output or a test");
}

#[test]
fn every_code_is_documented() {
    none(
        docs::unexplained_codes(),
        "every H-code is a named constant with a doc comment, from which docs/errors.md is made",
    );
}

#[test]
fn every_code_has_a_page() {
    none(docs::unpaired_pages(), "docs/errors/CODE.md explains each code (CONTRIBUTING.md, add a diagnostic)");
}

#[test]
fn generated_docs_are_current() {
    none(docs::outdated(), "run tools/bless and commit the docs that change");
}

#[test]
fn decisions_and_measurements_are_listed() {
    none(links::unlisted_pages(), "the README.md of these folders lists each page");
}

#[test]
fn folders_of_tests_are_listed() {
    none(links::unlisted_test_folders(), "the table of test/README.md has a row for each folder of test/");
}

#[test]
fn links_in_docs_lead_somewhere() {
    none(links::broken_links(), "a relative link in a Markdown file names a file, and a heading of it, that exists");
}

#[test]
fn conformance_names_tests() {
    none(conformance::rows_without_tests(), "docs/conformance.md and the tests below test/lowering name each other");
}

#[test]
fn coverage_measures_what_there_is() {
    none(workflows::missing_coverage_parts(), "PARTS of tools/coverage are files or folders below SOURCES");
}

#[test]
fn actions_are_pinned() {
    none(workflows::unpinned_actions(), "name an action by its commit, with `# vVERSION` after it");
}

#[test]
fn one_set_of_features() -> io::Result<()> {
    none(workflows::crates_compiled_twice()?, "name in python/Cargo.toml the features that tests give these crates");
    Ok(())
}
