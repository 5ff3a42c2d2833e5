//! The words of a file: the meaning of each symbol of the tree, looked up once.

use crate::hir2::defaults::{COMMUNICATION_WORDS, dtype_of_word};
use crate::ir::{DType, NameInterner, OpKind, Program, Symbol};
use crate::ops::OpRegistry;
use hostir_grammar::ast;
use hostir_grammar::hir2::ast::FileSyntax;
use std::cell::Cell;

/// The calls of a word that start a communication.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum PostWord {
    /// No communication.
    Never,
    /// `send`, `recv`, `permute`: unless a kernel has this name.
    Unless,
    /// With an arrow; without one it is an op.
    WithArrow,
    /// Any call.
    Always,
}

impl PostWord {
    fn of_text(text: &str) -> Self {
        match text {
            "send" | "recv" | "permute" => PostWord::Unless,
            "Dispatch" | "Combine" => PostWord::Always,
            "broadcast" | "gather" => PostWord::WithArrow,
            _ if COMMUNICATION_WORDS.iter().any(|(known, _)| *known == text) => PostWord::Always,
            _ => PostWord::Never,
        }
    }
}

/// The meanings of a word in calls and types.
#[derive(Clone, Copy)]
pub(super) struct WordMeaning {
    /// The op of the table.
    pub(super) op: Option<OpKind>,
    /// The element type.
    pub(super) dtype: Option<DType>,
    /// The sort of communication that a call of it starts, if any.
    pub(super) post: PostWord,
}

/// The meanings of the words of a file, by symbol.
pub(super) struct WordTable {
    meanings: Vec<Cell<Option<WordMeaning>>>,
    /// Names of the IR, each with the program that interned it. `None` if they have the numbers of the file's strings.
    symbols: Option<Vec<(u32, Symbol)>>,
    /// The number of programs so far.
    programs: u32,
}

impl WordTable {
    pub(super) fn new(file: &FileSyntax) -> Self {
        let count = file.strings.len();
        Self { meanings: vec![Cell::new(None); count], symbols: Some(vec![(0, Symbol(0)); count]), programs: 0 }
    }

    /// Forgets the names of the program before.
    pub(super) fn begin_program(&mut self) {
        self.programs += 1;
    }

    /// Copies all strings of the file to the program's names, which then have the same numbers.
    pub(super) fn share_strings(&mut self, file: &FileSyntax, program: &mut Program) {
        program.names = NameInterner::with_strings(file.strings.clone());
        self.symbols = None;
    }

    pub(super) fn word_meaning(&self, file: &FileSyntax, ops: OpRegistry, word: ast::Symbol) -> WordMeaning {
        let known = &self.meanings[word.index()];
        known.get().unwrap_or_else(|| {
            let text = file.symbol_text(word);
            let found =
                WordMeaning { op: ops.find_op(text), dtype: dtype_of_word(text), post: PostWord::of_text(text) };
            known.set(Some(found));
            found
        })
    }

    /// The name of the IR, interned in the program.
    pub(super) fn name_symbol(&mut self, file: &FileSyntax, word: ast::Symbol, program: &mut Program) -> Symbol {
        let Some(symbols) = &mut self.symbols else { return Symbol(word.0) };
        let (of, known) = &mut symbols[word.index()];
        if *of != self.programs {
            (*of, *known) = (self.programs, program.names.intern(file.symbol_text(word)));
        }
        *known
    }
}
