//! Docs agree with the sources.

use super::coverage;
use hostir::diag::Severity;
use hostir::hir2::forms::statement_forms;
use hostir::ir::{OpKind, statement_word};
use hostir::ops::{ArgPresence, OpRegistry};
use hostir_opt::{diagnose_program, find_op_mistake};
use hostir_test::tree;
use std::collections::{BTreeMap, BTreeSet};

/// Names of all passes.
pub(crate) fn pass_names() -> Vec<String> {
    hostir_passes::PASSES.iter().map(|pass| pass.name.to_owned()).collect()
}

/// Codes of the sources that no `codes!` table explains.
pub(crate) fn unexplained_codes() -> Vec<String> {
    let explained = explanations();
    let bad = coverage::codes().into_iter().filter(|(code, _)| !explained.contains_key(code));
    bad.map(|(code, path)| format!("{code} of {path} has no `/// meaning` line above a `NAME = \"{code}\";`")).collect()
}

/// The meaning of each code: the doc comment above the first `NAME = "H0000";`; others name the code once more.
fn explanations() -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    for path in super::files::sources() {
        let mut doc = String::new();
        for line in tree::read(&path).lines().map(str::trim) {
            if let Some(text) = line.strip_prefix("/// ") {
                doc.push_str(if doc.is_empty() { "" } else { " " });
                doc.push_str(text);
                continue;
            }
            if let Some((_, value)) = line.split_once(" = \"")
                && let Some(code) = value.strip_suffix("\";")
                && coverage::codes_of(&format!("`{code}"), '`').contains(code)
                && !doc.is_empty()
            {
                found.entry(code.to_owned()).or_insert_with(|| std::mem::take(&mut doc));
            }
            doc.clear();
        }
    }
    found
}

/// The codes with a page of docs/errors.
fn explained_codes() -> BTreeSet<String> {
    let pages = tree::files(&tree::root().join("docs/errors"), ".md");
    pages.iter().filter_map(|path| Some(path.file_stem()?.to_str()?.to_owned())).collect()
}

/// Codes without a page, and pages without a code.
pub(crate) fn unpaired_pages() -> Vec<String> {
    let (codes, pages): (BTreeSet<_>, _) = (explanations().into_keys().collect(), explained_codes());
    let missing = codes.difference(&pages).map(|code| format!("docs/errors/{code}.md is missing"));
    let spare = pages.difference(&codes).map(|code| format!("docs/errors/{code}.md: there is no code {code}"));
    missing.chain(spare).collect()
}

/// The pages of docs/errors, with the code and its meaning at the top.
fn error_pages() -> Vec<(String, String)> {
    let explained = explanations();
    let pages = explained_codes().into_iter().filter_map(|code| {
        let name = format!("docs/errors/{code}.md");
        let text = tree::read(&tree::root().join(&name));
        let rest: Vec<&str> = text.lines().skip(3).collect();
        let top = format!("# {code}\n\n{}\n", explained.get(&code)?);
        Some((name, top + &rest.join("\n") + "\n"))
    });
    pages.collect()
}

const LAYERS: &[(&str, &str)] = &[
    ("H00", "Syntax"),
    ("H01", "Names and structure"),
    ("H02", "Constraints of ops"),
    ("H03", "Passes"),
    ("H04", "Sizes and plans"),
    ("H05", "Run time"),
    ("H06", "Environment and files"),
    ("H07", "Proof"),
];

/// docs/errors.md.
fn errors() -> String {
    let mut out = String::from(
        "# Error codes\n\n<!-- Generated from the sources by tools/bless -->\n\n\
         A diagnostic has a code, one sentence, the place it is about, often other places, and notes or \
         [fixes](language.md#fixes) that say how to repair it; `--fix` applies fixes. `--error-format=json` gives \
         the same as data. Codes keep their meaning between \
         releases.\n\n\
         A code leads to its page: a wrong program, the message, why, and the right program. \
         `hir-opt --explain H0701` prints the page in a terminal, and so do the other tools.\n",
    );
    let explained = explanations();
    for (prefix, title) in LAYERS {
        let mut rows = explained.iter().filter(|(code, _)| code.starts_with(prefix)).peekable();
        if rows.peek().is_none() {
            continue;
        }
        out.push_str(&format!("\n## {title}\n\n| code | meaning |\n|---|---|\n"));
        out.extend(
            rows.map(|(code, text)| format!("| [`{code}`](errors/{code}.md) | {} |\n", text.replace('|', "\\|"))),
        );
    }
    out
}

/// docs/ops.md.
fn ops() -> String {
    let mut out = String::from(
        "# Ops\n\n<!-- Generated from the op table and docs/ops by tools/bless -->\n\n\
         Every op in the order of the table: its form in `hir 2`, where `A` and `B` are operands, `T` is the result, \
         `T: type` needs its type, and `[..]` may be left out; then a program that runs, a file of [ops](ops), with \
         the rule for axes. An axis *corresponds* if index i of the operand becomes index i of the result: only such \
         an axis may be sharded over devices or streams. Last comes a mistake that is easy to make, with its message \
         ([errors](errors.md) lists all codes). [language.md](language.md) explains the rules, \
         `hir-opt --list-ops=NAME` lists the arguments of an op.\n",
    );
    for kind in OpRegistry::OURS.kinds() {
        out.push_str(&op_section(kind));
    }
    out
}

/// The section of an op: summary, forms, example.
fn op_section(kind: OpKind) -> String {
    let spec = kind.spec();
    let names = std::iter::once(kind.name()).chain(spec.spellings.iter().map(|(name, _)| *name));
    let names: Vec<String> = names.map(|name| format!("`{name}`")).collect();
    let word = statement_word(kind.name()).map_or_else(String::new, |word| format!("`{word}`: "));
    let mut out = format!("\n## {word}{}\n\n{}", names.join(", "), spec.summary);
    let example = op_example(kind).unwrap_or_default();
    let lines = example.lines().filter(|line| *line != "hir 2");
    let (prose, code): (Vec<&str>, Vec<&str>) = lines.partition(|line| line.starts_with("// "));
    let code = code.join("\n");
    prose.iter().for_each(|line| out.push_str(&format!(" {}", &line[3..])));
    out.push('\n');
    let forms = statement_forms(kind);
    if forms.is_empty() {
        let args = printed_arguments(kind);
        out.push_str(&format!("\nWritten in the printed form alone: {}.\n", args.join(" ")));
    } else {
        out.push_str(&format!("\n```\n{forms}\n```\n"));
    }
    if !code.trim().is_empty() {
        out.push_str(&format!("\nExample:\n\n```\n{}\n```\n", code.trim()));
    }
    if let Some(text) = find_op_mistake(kind).and_then(|mistake| mistake.summary()) {
        let file = mistake_file(kind);
        out.push_str(&format!("\n[A mistake]({file}) and its message:\n\n```\n{text}```\n"));
    }
    out
}

/// The file of the mistake of an op, relative to docs.
fn mistake_file(kind: OpKind) -> String {
    format!("ops/{}.error.hir", if kind.is_definition() { "definition" } else { kind.name() })
}

/// The example of an op: a file of docs/ops with its name.
fn op_example(kind: OpKind) -> Option<String> {
    let name = if kind.is_definition() { "definition" } else { kind.name() };
    std::fs::read_to_string(tree::root().join(format!("docs/ops/{name}.hir"))).ok()
}

/// Ops of `hir 2` without an example, but for those that do not run.
pub(crate) fn ops_without_example() -> Vec<String> {
    const DO_NOT_RUN: &[&str] = &[
        "view_as_scalar",
        "grouped_block_quantize",
        "preprocessGroupedMatmulInputSf",
        "CutlassNvfp4GroupedMmaOp",
        "mma",
        "LdMatrix",
        "LdMatrix.Permute",
        "StMatrix",
        "StMatrix.Permute",
        "CpAsync",
        "CpAsyncBulk",
        "CpAsyncBulkTensorTile",
        "LdTMem",
        "StTMem",
        "launchDependentGrid",
        "waitForPriorGrid",
    ];
    let kinds = OpRegistry::OURS.kinds().filter(|kind| !statement_forms(*kind).is_empty());
    let kinds = kinds.filter(|kind| !DO_NOT_RUN.contains(&kind.name()));
    kinds.filter(|kind| op_example(*kind).is_none()).map(|kind| kind.name().to_owned()).collect()
}

/// Ops with an example, but without a program that has exactly one error, whose fixes repair it.
pub(crate) fn ops_without_mistake() -> Vec<String> {
    let kinds = OpRegistry::OURS.kinds().filter(|kind| op_example(*kind).is_some());
    let wrong = kinds.filter_map(|kind| Some(format!("docs/{}: {}", mistake_file(kind), mistake_fault(kind)?)));
    wrong.collect()
}

/// The reason why the mistake of an op does not belong into the docs.
fn mistake_fault(kind: OpKind) -> Option<String> {
    let Some(mistake) = find_op_mistake(kind) else { return Some("is missing".to_owned()) };
    let [diag] = &mistake.diags[..] else {
        return Some(format!("has {} errors and warnings", mistake.diags.len()));
    };
    if diag.severity != Severity::Error {
        return Some("has a warning".to_owned());
    }
    for fix in diag.fixes.iter().filter(|fix| !fix.edits.is_empty()) {
        let left = fix.apply_to(mistake.program).and_then(|text| diagnose_program(&text));
        if left.is_none_or(|left| !left.is_empty()) {
            return Some(format!("the fix does not repair it: {}", fix.message));
        }
    }
    None
}

/// Files of docs/ops that no RUN line of test/run/op_examples.hir names.
pub(crate) fn untested_examples() -> Vec<String> {
    let tests = tree::read(&tree::root().join("test/run/op_examples.hir"));
    let files = tree::files(&tree::root().join("docs/ops"), ".hir");
    let names = files.iter().map(|path| tree::relative(path)).filter(|name| !name.ends_with(".error.hir"));
    names.filter(|name| !tests.contains(&format!("/{name} "))).collect()
}

fn printed_arguments(kind: OpKind) -> Vec<String> {
    let mut args = Vec::new();
    for arg in kind.spec().args {
        let key =
            arg.word.map_or_else(|| arg.key.map_or("operand", |key| key.word()).to_owned(), |word| format!("{word}="));
        let optional = if arg.presence == ArgPresence::Required { "" } else { "?" };
        args.push(format!("`{key}`{optional}"));
    }
    args
}

/// Generated files that differ from what the tables give; with `HIR_BLESS=1` they are written.
pub(crate) fn outdated() -> Vec<String> {
    let bless = std::env::var_os("HIR_BLESS").is_some_and(|value| value == "1");
    let mut bad = Vec::new();
    for (name, text) in generated() {
        let path = tree::root().join(&name);
        if tree::read(&path) == text {
            continue;
        }
        if !bless {
            bad.push(name);
        } else if let Err(error) = std::fs::write(&path, text) {
            bad.push(format!("{name}: {error}"));
        }
    }
    bad
}

fn generated() -> Vec<(String, String)> {
    let language = super::grammar_page::with_generated(&tree::read(&tree::root().join("docs/language.md")));
    let mut found = error_pages();
    found.extend(super::editor_words::with_lists());
    found.extend([
        ("docs/errors.md".to_owned(), errors()),
        ("docs/language.md".to_owned(), language),
        ("docs/ops.md".to_owned(), ops()),
        ("docs/passes.md".to_owned(), hostir_passes::passes_markdown()),
    ]);
    found
}
