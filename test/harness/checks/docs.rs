//! Docs agree with the sources.

use super::coverage;
use hostir::ops::{ArgPresence, OpRegistry};
use hostir_test::tree;
use std::collections::BTreeMap;

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

/// The meaning of each code: the doc comment above `NAME = "H0000";`.
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
                found.insert(code.to_owned(), std::mem::take(&mut doc));
            }
            doc.clear();
        }
    }
    found
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
         releases.\n",
    );
    let explained = explanations();
    for (prefix, title) in LAYERS {
        let mut rows = explained.iter().filter(|(code, _)| code.starts_with(prefix)).peekable();
        if rows.peek().is_none() {
            continue;
        }
        out.push_str(&format!("\n## {title}\n\n| code | meaning |\n|---|---|\n"));
        out.extend(rows.map(|(code, text)| format!("| `{code}` | {} |\n", text.replace('|', "\\|"))));
    }
    out
}

/// docs/ops.md.
fn ops() -> String {
    let mut out = String::from(
        "# Ops\n\n<!-- Generated from the op table by tools/bless -->\n\n\
         Every op in the order of the table. `key=` marks a keyed argument, `?` one that may be left out; \
         [language.md](language.md) says what they mean.\n\n| op | arguments | what it does |\n|---|---|---|\n",
    );
    for kind in OpRegistry::OURS.kinds() {
        let spec = kind.spec();
        let mut args = Vec::new();
        for arg in spec.args {
            let key =
                arg.word.map_or_else(|| arg.key.map_or("operand", |key| key.word()).to_owned(), |w| format!("{w}="));
            let optional = if arg.presence == ArgPresence::Required { "" } else { "?" };
            args.push(format!("`{key}`{optional}"));
        }
        let names = std::iter::once(kind.name()).chain(spec.spellings.iter().map(|(name, _)| *name));
        let names: Vec<String> = names.map(|name| format!("`{name}`")).collect();
        out.push_str(&format!("| {} | {} | {} |\n", names.join(", "), args.join(" "), spec.summary));
    }
    out
}

/// Generated files that differ from what the tables give; with `HIR_BLESS=1` they are written.
pub(crate) fn outdated() -> Vec<String> {
    let bless = std::env::var_os("HIR_BLESS").is_some_and(|value| value == "1");
    let mut bad = Vec::new();
    for (name, text) in generated() {
        let path = tree::root().join(name);
        if tree::read(&path) == text {
            continue;
        }
        if !bless {
            bad.push(name.to_owned());
        } else if let Err(error) = std::fs::write(&path, text) {
            bad.push(format!("{name}: {error}"));
        }
    }
    bad
}

fn generated() -> Vec<(&'static str, String)> {
    vec![("docs/errors.md", errors()), ("docs/ops.md", ops()), ("docs/passes.md", hostir_passes::passes_markdown())]
}
