//! Shipped code tests no English text: whoever rewords a message turns nothing off.
//!
//! Messages are data (docs/decisions/messages-are-data.md): code asks for their codes, the kinds of their parts and their
//! causes.

use super::files::{code, sources};
use hostir_test::tree;

/// Methods of strings that compare with, search for or take apart by a text.
const METHODS: &[&str] = &[
    "contains",
    "starts_with",
    "ends_with",
    "strip_prefix",
    "strip_suffix",
    "split_once",
    "rsplit_once",
    "split",
    "find",
    "rfind",
    "replace",
    "replacen",
    "trim_start_matches",
    "trim_end_matches",
    "matches",
];

/// Files that search for words in texts which are no messages of ours, each with the reason.
const OTHER_TEXTS: &[(&str, &str)] = &[
    ("src/cuda/runtime/user_kernels.rs", "finds the first error in the log of NVRTC"),
    ("src/gpu/user_kernel/parameter.rs", "reads the names of C's types"),
    ("src/hostir/repair/context.rs", "finds loops and heads in the text of a program"),
    ("src/hostir/repair/consistency.rs", "finds loops and reductions in the text of a program"),
    ("src/hostir/repair/further.rs", "finds waits in the text of a program"),
    ("src/hostir/repair/poison.rs", "finds declarations in the text of a program"),
    ("src/hostir/repair/slips.rs", "changes statements in the text of a program"),
    ("src/hostir/repair/type_slips.rs", "changes types in the text of a program"),
    ("src/hostir/repair/usage.rs", "finds names in the text of a program"),
    ("src/hostir/repair/statement_slips.rs", "changes statements in the text of a program"),
    ("src/hostir/repair/missing_parts.rs", "finds calls and declarations in the text of a program"),
    ("src/hostir/repair/slot_edits.rs", "finds indices in the text of a program"),
    ("src/hostir/repair/message_edits.rs", "changes messages in the text of a program"),
    ("src/hostir/repair/near_edits.rs", "changes loops, branches and calls in the text of a program"),
    ("src/hostir/repair/own_handles.rs", "finds waits in the text of a program"),
    ("src/hostir/repair/posts.rs", "finds communications in the text of a program"),
    ("src/hostir/repair/refuted.rs", "takes the first choice out of notes that give two"),
    ("src/hostir/repair/statement_text.rs", "looks for a free stream in the text of a program"),
    ("src/hostir/hir2/write/outline.rs", "finds names in lines of `hir 2` that the writer has written"),
    ("src/hostir/hir2/read/unbound.rs", "reads what follows a word in the text of a program"),
    ("src/hostir/hir2/write/ops.rs", "`initial value` is an argument of the printed form"),
    ("src/hostir/hir2/defaults.rs", "`initial value` is an argument of the printed form"),
    ("src/hostir/resolve/grouped.rs", "`initial value` is an argument of the printed form"),
    ("tools/lit/discovery.rs", "reads RUN lines"),
    ("tools/lit/settings.rs", "reads which key the reader of TOML reports"),
    ("tools/run/run/backend_names.rs", "reads which option clap reports"),
    ("tools/support/errors.rs", "takes the number off an error of the operating system"),
];

/// Tests of English text in shipped code outside of [`OTHER_TEXTS`], and files there that have none.
pub(crate) fn tests_of_words() -> Vec<String> {
    let mut bad = Vec::new();
    let mut used = Vec::new();
    for path in sources() {
        let name = tree::relative(&path);
        if !is_shipped(&name) {
            continue;
        }
        let text = tree::read(&path);
        let found: Vec<String> = tests_in(code(&text)).collect();
        match OTHER_TEXTS.iter().any(|(file, _)| *file == name) {
            true if !found.is_empty() => used.push(name),
            true => {}
            false => bad.extend(found.into_iter().map(|line| format!("{name}:{line}"))),
        }
    }
    let idle = OTHER_TEXTS.iter().filter(|(file, _)| !used.iter().any(|name| name == file));
    bad.extend(idle.map(|(file, _)| format!("{file} is listed without a reason")));
    bad
}

/// Whether a file is part of a crate that users get and makes or reads messages; the grammar takes programs apart.
fn is_shipped(name: &str) -> bool {
    let is_crate = ["src/", "passes/src/", "tools/", "python/src/"].iter().any(|folder| name.starts_with(folder));
    let is_test = ["/tests/", "/tests.rs", "/examples/", "/benches/"].iter().any(|part| name.contains(part));
    is_crate && !is_test
}

/// The numbers and texts of lines that search for, compare with or match a text with a word and a blank.
fn tests_in(code: &str) -> impl Iterator<Item = String> + '_ {
    let lines = code.lines().enumerate().filter(|(_, line)| !line.trim_start().starts_with("//"));
    lines.filter(|(_, line)| is_test(line)).map(|(index, line)| format!("{}: {}", index + 1, line.trim()))
}

fn is_test(line: &str) -> bool {
    let by_method = METHODS.iter().any(|method| {
        let calls = [format!(".{method}(\""), format!(".{method}(&format!(\"")];
        calls.iter().any(|call| line.split(call.as_str()).skip(1).any(|rest| is_phrase(literal(rest))))
    });
    let by_equality =
        ["== \"", "!= \""].iter().any(|test| line.split(test).skip(1).any(|rest| is_phrase(literal(rest))));
    by_method || by_equality || is_arm(line)
}

/// Returns true if a line is a pattern of a match that has a phrase.
fn is_arm(line: &str) -> bool {
    let (patterns, is_start) = match line.split_once(" =>") {
        Some((patterns, _)) => (patterns, true),
        None => (line, false),
    };
    let start = patterns.trim_start();
    let is_pattern = start.starts_with("| \"") || is_start && start.starts_with('"');
    is_pattern && patterns.split('"').skip(1).step_by(2).any(is_phrase)
}

#[test]
fn phrases_are_found_in_every_kind_of_test() {
    let tests = [
        "if needed == \"a tensor\" {",
        "        \"initial value\" => 0,",
        "            | \"an operator\"",
        "note.contains(\" may write it\")",
    ];
    for line in tests {
        assert!(is_test(line), "{line}");
    }
    for line in ["if word == \"FOR\" {", "    \"FOR\" => \"a loop of statements\",", "let text = \"a tensor\";"] {
        assert!(!is_test(line), "{line}");
    }
}

/// A string literal up to its closing quote.
fn literal(rest: &str) -> &str {
    let mut escaped = false;
    let end = rest.find(|c: char| {
        let is_end = c == '"' && !escaped;
        escaped = c == '\\' && !escaped;
        is_end
    });
    end.map_or(rest, |end| &rest[..end])
}

/// Whether a text has a word of two letters or more beside a blank.
fn is_phrase(text: &str) -> bool {
    let is_word = |part: &str| part.len() > 1 && part.chars().all(|c| c.is_ascii_alphabetic());
    text.contains(' ') && text.split(|c: char| !c.is_ascii_alphabetic()).any(is_word)
}
