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
    let before = text.get(..offset)?.chars().rev().take_while(|char| is_in_word(*char)).count();
    let after = text[offset..].chars().take_while(|char| is_in_word(*char)).count();
    let span = Span::new(offset - before, offset + after);
    (before + after > 0).then_some(span)
}

/// True for a character of a word.
fn is_in_word(char: char) -> bool {
    char.is_ascii_alphanumeric() || matches!(char, '_' | '.')
}

/// True if an offset is in a comment, or in a text that has `//` in front of it.
pub fn is_in_comment(text: &str, offset: u32) -> bool {
    let before = &text[..offset as usize];
    before.rsplit('\n').next().is_some_and(|line| line.contains("//"))
}

/// All words of `hir 2` for these ops, each once, in their order.
pub fn language_words(ops: OpRegistry) -> Vec<LanguageWord> {
    let mut words: Vec<LanguageWord> = ops.kinds().flat_map(words_of_kind).collect();
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
    let (words, is_statement): (Vec<&str>, bool) = match statement_word(kind.name()) {
        _ if kind.is_collective() && forms.starts_with("h = ") => {
            (COMMUNICATION_WORDS.iter().map(|(word, _)| *word).collect(), false)
        }
        _ if kind.is_message() => (vec!["send", "recv"], false),
        _ if kind.is_permute() => (vec!["permute"], false),
        // A group and a slice are written by brackets.
        Some("group" | "slice") => (Vec::new(), true),
        Some(word) => (vec![word], true),
        None if kind.is_pointwise() || kind.is_definition() => (Vec::new(), false),
        None => (vec![kind.name()], false),
    };
    let words = words.into_iter().map(|word| LanguageWord {
        word: word.to_owned(),
        forms: forms.clone(),
        summary: kind.spec().summary,
        is_statement,
    });
    words.collect()
}

/// The forms of a word and what it does, as Markdown.
pub fn describe_word(word: &str, ops: OpRegistry) -> Option<String> {
    let found = language_words(ops).into_iter().find(|known| known.word == word);
    let found = found.or_else(|| {
        let kind = ops.find_op(word)?;
        let forms = statement_forms(kind);
        let forms = if forms.is_empty() { kind.name().to_owned() } else { forms };
        Some(LanguageWord { word: word.to_owned(), forms, summary: kind.spec().summary, is_statement: false })
    })?;
    Some(format!("```hir\n{}\n```\n\n{}\n", found.forms, found.summary))
}
