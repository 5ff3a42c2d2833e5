//! Names: no two types of one name in a crate, and no function visible outside of its module whose name is a word that
//! says nothing without its place.

use hostir_figures::names::Name;
use hostir_figures::report::Figures;
use hostir_test::tree;

/// Words that are no name for a function that other modules call. `get`, `next` and other names of the standard
/// library's traits and collections have their meaning from there, and `name` on a value reads as a sentence.
const SAY_NOTHING: &[&str] = &[
    "add", "all", "apply", "at", "build", "check", "do", "end", "find", "handle", "list", "make", "of", "print",
    "process", "read", "run", "set", "start", "text", "write",
];

/// Functions of such names: how the file's path starts, the name and the reason.
const ALLOWED_FUNCTIONS: &[(&str, &str, &str)] = &[
    ("src/cuda/session.rs", "run", "the library's main call, whose object is the session"),
    ("src/cuda/session/build.rs", "build", "what a builder's last call is named everywhere"),
    ("src/cuda/session/build.rs", "set", "a step of a builder, named as the option `--set`"),
];

/// Names that several types of a crate have, those that every crate or module may have for itself left out (`Error`,
/// `Options`, `Config`, `Builder`): how their files' paths start, the name and the reason.
const ALLOWED_TYPES: &[(&str, &str, &str)] = &[];

/// Functions whose names say nothing, and exceptions that no function needs.
pub(crate) fn empty_function_names() -> Vec<String> {
    let figures = match Figures::of(&tree::root()) {
        Ok(figures) => figures,
        Err(problem) => return vec![problem],
    };
    let functions = figures.names.functions.iter();
    let found: Vec<&Name> =
        functions.filter(|name| name.visible && SAY_NOTHING.contains(&name.text.as_str())).collect();
    unexplained(&figures, &found, ALLOWED_FUNCTIONS)
}

/// Types that share their name with another type of their crate, and exceptions that no type needs.
pub(crate) fn repeated_types() -> Vec<String> {
    let figures = match Figures::of(&tree::root()) {
        Ok(figures) => figures,
        Err(problem) => return vec![problem],
    };
    unexplained(&figures, &figures.names.repeated_in_crate(), ALLOWED_TYPES)
}

/// Findings without a reason, and reasons without a finding.
fn unexplained(figures: &Figures, found: &[&Name], allowed: &[(&str, &str, &str)]) -> Vec<String> {
    let explains = |name: &Name, (file, text, _): &(&str, &str, &str)| {
        name.text == *text && figures.sources.files[name.file].path.starts_with(file)
    };
    let missing = found.iter().filter(|name| !allowed.iter().any(|entry| explains(name, entry)));
    let place = |name: &&Name| format!("{}:{}: `{}`", figures.sources.files[name.file].path, name.line, name.text);
    let mut problems: Vec<String> = missing.map(place).collect();
    let unused = allowed.iter().filter(|entry| !found.iter().any(|name| explains(name, entry)));
    problems.extend(unused.map(|(file, text, _)| format!("{file}: no exception for `{text}` is needed")));
    problems
}
