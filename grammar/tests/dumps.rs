//! Every program in the folder `HIR_DUMPS` names (and in its subfolders) parses without an error. With `HIR_TREES`
//! their trees are printed.
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test program's own report")]

mod common;
#[path = "../../test/library/common/dumps.rs"]
mod dumps;
#[path = "../../test/library/common/needs.rs"]
mod needs;

fn main() -> std::process::ExitCode {
    needs::run(needs::tests![dumps::missing(); dumps_parse])
}

fn dumps_parse() {
    for path in dumps::paths() {
        let text = std::fs::read_to_string(&path).unwrap();
        let parsed = hostir_grammar::parse(&text);
        assert!(parsed.errors.is_empty(), "{}: {:#?}", path.display(), parsed.errors);
        if std::env::var_os("HIR_TREES").is_some() {
            println!("== {}\n{}", path.display(), common::render(&parsed.ast));
        }
        let joined = hostir_grammar::containers_in_log(&text);
        assert!(matches!(joined, std::borrow::Cow::Borrowed(_)), "{}", path.display());
    }
}
