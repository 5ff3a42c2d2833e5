//! Structures with so many fields that they are several in one.

use super::files::{code, sources};
use hostir_test::tree;

/// The most fields of a struct of shipped code.
pub(crate) const MOST_FIELDS: usize = 14;

/// Structs with more fields, each with the reason why its parts have no meaning of their own.
const LARGE: &[(&str, &str)] = &[
    ("Arguments", "a command line: a field for each option"),
    ("OptArgs", "a command line: a field for each option"),
    ("FileSyntax", "the arenas of a text's tree, each with ids of its own"),
    ("OpIdentity", "an op's row of facts: a field for each question of a layer"),
    ("Options", "the command line of hir-run, and the settings of the CUDA runtime: a field for each option"),
    ("Program", "the arenas of a program, each with ids of its own"),
    ("Style", "a field for each spelling that versions of nvFuser differ in"),
];

/// Structs of shipped code with too many fields, and reasons that no struct needs any more.
pub(crate) fn large() -> Vec<String> {
    let shipped = sources().into_iter().filter(|path| !is_test_code(&tree::relative(path)));
    let mut found: Vec<(String, String)> = Vec::new();
    for path in shipped {
        for (name, fields) in structs(code(&tree::read(&path))) {
            if fields > MOST_FIELDS {
                found.push((name, format!("{}: {fields} fields", tree::relative(&path))));
            }
        }
    }
    let unneeded = LARGE.iter().filter(|(name, _)| !found.iter().any(|(other, _)| other == name));
    let unneeded: Vec<String> =
        unneeded.map(|(name, _)| format!("checks/structures.rs: no struct `{name}` is that large")).collect();
    let large = found.into_iter().filter(|(name, _)| !LARGE.iter().any(|(known, _)| known == name));
    large.map(|(name, place)| format!("`{name}` in {place}")).chain(unneeded).collect()
}

/// Whether a file is a test or an example.
fn is_test_code(path: &str) -> bool {
    path.starts_with("test/")
        || path.split('/').any(|part| matches!(part, "tests" | "tests.rs" | "examples" | "benches"))
}

/// The structs of a source with the numbers of their fields. rustfmt puts each field on a line that is one step deeper
/// than the struct.
fn structs(text: &str) -> Vec<(String, usize)> {
    let mut lines = text.lines();
    let mut found = Vec::new();
    while let Some(line) = lines.next() {
        let start = line.trim_start();
        let indent = line.len() - start.len();
        let item =
            start.strip_prefix("pub ").or_else(|| start.strip_prefix("pub(")?.split_once(") ").map(|(_, item)| item));
        let Some(name) = item.unwrap_or(start).strip_prefix("struct ").filter(|_| line.ends_with('{')) else {
            continue;
        };
        let name: String = name.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
        let body = lines.by_ref().take_while(|line| line.len() != indent + 1 || !line.ends_with('}'));
        let fields = body.filter(|line| is_field(line, indent + 4)).count();
        found.push((name, fields));
    }
    found
}

/// Whether a line starts a field at an indentation.
fn is_field(line: &str, indent: usize) -> bool {
    let start = line.trim_start();
    let is_comment = start.starts_with("//") || start.starts_with('#');
    line.len() - start.len() == indent && !is_comment && start.contains(": ") && !start.starts_with(['}', '>', ')'])
}

#[test]
fn fields_are_counted() {
    let text = "/// A pair.\npub struct Pair<T> {\n    /// With: a colon.\n    pub(crate) one: T,\n    #[allow(dead_code, reason = \"a: b\")]\n    two: Vec<T>,\n}\nstruct Unit;\n";
    assert_eq!(structs(text), [("Pair".to_owned(), 2)]);
}
