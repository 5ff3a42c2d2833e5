//! The lists of words in the files that colour `.hir` text: those of editors and of the site of the documentation. They
//! are made of the grammar of `hir 2` and of the tables of ops and types.

use super::grammar_page::{first_words, keywords};
use hostir::ir::{COMMUNICATION_WORDS, DTYPE_WORDS};
use hostir::ops::OpRegistry;
use hostir_test::tree;

/// A list of words in a file: the text before it, what is between two words, and the text after it.
struct WordList {
    before: &'static str,
    between: &'static str,
    after: &'static str,
    words: fn() -> Vec<String>,
}

const fn list(
    before: &'static str,
    between: &'static str,
    after: &'static str,
    words: fn() -> Vec<String>,
) -> WordList {
    WordList { before, between, after, words }
}

/// The files with their lists.
const FILES: [(&str, &[WordList]); 4] = [
    (
        "tools/vim/syntax/hir.vim",
        &[
            list("syntax keyword hirHead       ", " ", "\n", head_words),
            list("syntax keyword hirStatement  ", " ", "\n", statement_words),
            list("syntax keyword hirCollective ", " ", "\n", communications),
            list("syntax keyword hirType       ", " ", "\n", element_types),
            list("syntax keyword hirPrinted    ", " ", "\n", printed_ops),
        ],
    ),
    (
        "tools/vscode/syntaxes/hir.tmLanguage.json",
        &[
            list(r#""storage.type.hir", "match": "^("#, "|", ")", head_words),
            list(r#""keyword.other.statement.hir", "match": "\\b("#, "|", ")", statement_words),
            list(r#""support.function.communication.hir", "match": "\\b("#, "|", ")", communications),
            list(r#""storage.type.element.hir", "match": "\\b("#, "|", ")", element_types),
            list(r#""support.function.printed.hir", "match": "\\b("#, "|", ")", printed_ops),
        ],
    ),
    (
        "docs/site/hir.js",
        &[
            list("const WORDS = '", " ", "'", keywords),
            list("const TYPES = '", " ", "'", element_types),
            list("const COMMUNICATIONS = '", " ", "'", communications),
            list("const PRINTED_OPS = '", " ", "'", printed_ops),
        ],
    ),
    (
        "tools/tree-sitter-hir/queries/highlights.scm",
        &[
            list("[\"", "\" \"", "\"] @keyword\n", keywords),
            list("(#any-of? @function.builtin \"", "\" \"", "\"))", communications),
            list("(#any-of? @type.builtin \"", "\" \"", "\"))", element_types),
            list("(#any-of? @function \"", "\" \"", "\"))", printed_ops),
        ],
    ),
];

/// The files with the lists as they are now: their paths and their texts.
pub(crate) fn with_lists() -> impl Iterator<Item = (String, String)> {
    FILES.iter().map(|(file, lists)| {
        let text = lists.iter().fold(tree::read(&tree::root().join(file)), |text, list| with_list(&text, list));
        ((*file).to_owned(), text)
    })
}

/// A text with a list in its place; without such a place the list is at the end, where a test finds it.
fn with_list(text: &str, list: &WordList) -> String {
    let words = (list.words)().join(list.between);
    let (before, rest) = text.split_once(list.before).unwrap_or((text, list.after));
    let after = rest.split_once(list.after).map_or("", |(_, after)| after);
    format!("{before}{}{words}{}{after}", list.before, list.after)
}

/// The words that begin lines outside of programs.
fn head_words() -> Vec<String> {
    first_words(&["Item"])
}

/// The words that begin statements, and those of their operands; loops and branches have colours of their own.
fn statement_words() -> Vec<String> {
    let mut words = first_words(&["Statement", "Simple"]);
    words.retain(|word| !["for", "if"].contains(&word.as_str()));
    words.extend(["alloc", "current"].map(str::to_owned));
    words
}

fn communications() -> Vec<String> {
    let collectives = COMMUNICATION_WORDS.iter().map(|(word, _)| *word);
    collectives.chain(["send", "recv", "permute"]).map(str::to_owned).collect()
}

fn element_types() -> Vec<String> {
    DTYPE_WORDS.iter().map(|(word, _)| (*word).to_owned()).collect()
}

/// The ops whose names in the printed form begin with a capital letter: statements, and nvFuser's own.
fn printed_ops() -> Vec<String> {
    let words = OpRegistry::OURS.head_words().filter(|word| word.starts_with(|first: char| first.is_ascii_uppercase()));
    let mut words: Vec<String> = words.filter(|word| !word.contains('.')).map(str::to_owned).collect();
    words.sort();
    words.dedup();
    words
}
