//! The words of the language: ops, functions, communications and statements, from the op table.

use hostir::diag::Span;
use hostir::hir2::forms::statement_forms;
use hostir::ir::functions::listed_functions;
use hostir::ir::{COMMUNICATION_WORDS, OpKind, statement_word};
use hostir::ops::OpRegistry;
use hostir::ops::pointwise::POINTWISE;

/// A word with its forms and what it does.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LanguageWord {
    /// The word.
    pub word: String,
    /// Its forms in `hir 2`, one a line.
    pub forms: String,
    /// Its effect, in a sentence.
    pub summary: &'static str,
    /// True for a word that begins a statement.
    pub is_statement: bool,
}

/// The word around an offset: letters, digits, `_` and `.`; `None` where there is none.
pub fn word_at(text: &str, offset: u32) -> Option<Span> {
    let offset = offset as usize;
    let is_word = |char: char| char.is_ascii_alphanumeric() || matches!(char, '_' | '.');
    let before = text.get(..offset)?.chars().rev().take_while(|char| is_word(*char)).count();
    let after = text[offset..].chars().take_while(|char| is_word(*char)).count();
    let span = Span::new(offset - before, offset + after);
    (before + after > 0).then_some(span)
}

/// Whether an offset is in a comment, or in a text that has `//` in front of it.
pub fn is_in_comment(text: &str, offset: u32) -> bool {
    let before = &text[..offset as usize];
    before.rsplit('\n').next().is_some_and(|line| line.contains("//"))
}

/// All words of `hir 2` that the table has, each once, in its order.
pub fn language_words() -> Vec<LanguageWord> {
    let mut words: Vec<LanguageWord> = OpRegistry::OURS.kinds().flat_map(words_of_kind).collect();
    let functions = listed_functions().filter(|function| !function.is_operator()).map(|function| {
        let operands = ["A", "B", "C", "D"][..function.arity.min(4)].join(", ");
        LanguageWord {
            word: function.name.to_owned(),
            forms: format!("T = {}({operands})", function.name),
            summary: POINTWISE.summary,
            is_statement: false,
        }
    });
    words.extend(functions);
    let mut seen = std::collections::BTreeSet::new();
    words.retain(|word| seen.insert(word.word.clone()));
    words
}

/// The words by which `hir 2` writes ops of a kind; none for an op that only the printed form has.
fn words_of_kind(kind: OpKind) -> Vec<LanguageWord> {
    let forms = statement_forms(kind);
    if forms.is_empty() {
        return Vec::new();
    }
    let make = |word: &str, is_statement: bool| LanguageWord {
        word: word.to_owned(),
        forms: forms.clone(),
        summary: kind.spec().summary,
        is_statement,
    };
    if kind.is_collective() && forms.starts_with("h = ") {
        return COMMUNICATION_WORDS.iter().map(|(word, _)| make(word, false)).collect();
    }
    if kind.is_message() {
        return ["send", "recv"].map(|word| make(word, false)).to_vec();
    }
    if kind.is_permute() {
        return vec![make("permute", false)];
    }
    match statement_word(kind.name()) {
        // A group and a slice are written by brackets.
        Some("group" | "slice") => Vec::new(),
        Some(word) => vec![make(word, true)],
        None if kind.is_pointwise() || kind.is_definition() => Vec::new(),
        None => vec![make(kind.name(), false)],
    }
}

/// The forms of a word and what it does, as Markdown.
pub fn describe_word(word: &str) -> Option<String> {
    let found = language_words().into_iter().find(|known| known.word == word);
    let found = found.or_else(|| {
        let kind = OpRegistry::OURS.find_op(word)?;
        let forms = statement_forms(kind);
        let forms = if forms.is_empty() { kind.name().to_owned() } else { forms };
        Some(LanguageWord { word: word.to_owned(), forms, summary: kind.spec().summary, is_statement: false })
    })?;
    Some(format!("```hir\n{}\n```\n\n{}\n", found.forms, found.summary))
}
