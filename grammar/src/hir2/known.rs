//! Words and operators that the parser knows: they are interned first, so that a symbol identifies them.

use crate::ast::{StringInterner, Symbol};

macro_rules! known_words {
    ($($name:ident = $text:literal,)*) => {
        /// A word that means something at some place.
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        pub(super) enum KnownWord { $($name),* }

        const WORD_TEXTS: &[&str] = &[$($text),*];
        const ALL_WORDS: &[KnownWord] = &[$(KnownWord::$name),*];
    };
}

known_words! {
    Hir = "hir",
    Style = "style",
    Sizes = "sizes",
    Streams = "streams",
    Names = "names",
    Mesh = "mesh",
    Kernel = "kernel",
    Launch = "launch",
    For = "for",
    If = "if",
    Else = "else",
    Wait = "wait",
    Free = "free",
    Sync = "sync",
    Stream = "stream",
    Share = "share",
    Alias = "alias",
    Define = "define",
    In = "in",
    On = "on",
    Step = "step",
    Current = "current",
    Ex = "ex",
    Order = "order",
    Logical = "logical",
    Split = "split",
    True = "true",
    False = "false",
    Wrap = "wrap",
    Range = "range",
    And = "and",
    Or = "or",
    Not = "not",
    Elif = "elif",
    From = "from",
    To = "to",
    Assert = "assert",
    Import = "import",
    Print = "print",
    CapitalFor = "FOR",
    CapitalIf = "IF",
    CapitalElse = "ELSE",
    CapitalTrue = "True",
    CapitalFalse = "False",
}

/// Infix operators and their precedence, as in C; the weakest are 0.
const INFIX: &[(&str, u8)] = &[
    ("||", 0),
    ("&&", 1),
    ("|", 2),
    ("^", 3),
    ("&", 4),
    ("==", 5),
    ("!=", 5),
    ("<", 6),
    ("<=", 6),
    (">", 6),
    (">=", 6),
    ("<<", 7),
    (">>", 7),
    ("+", 8),
    ("-", 8),
    ("*", 9),
    ("/", 9),
    ("%", 9),
];

/// Prefix operators that are no infix operators.
const PREFIX: &[&str] = &["!", "~"];

/// The number of the first operator's symbol: the empty string and the words stand before.
const FIRST_INFIX: usize = 1 + WORD_TEXTS.len();

/// The number of strings that every text has: the empty one, words and operators.
pub(super) const KNOWN_TEXTS: usize = FIRST_INFIX + INFIX.len() + PREFIX.len();

/// Interns all words and operators; nothing may have been interned before.
pub(super) fn intern_known_texts(strings: &mut StringInterner) {
    let infix = INFIX.iter().map(|(text, _)| text);
    for (place, text) in (1..).zip(WORD_TEXTS.iter().chain(infix).chain(PREFIX)) {
        let symbol = strings.intern(text);
        debug_assert_eq!(symbol.index(), place, "`{text}` is once in the tables");
    }
}

/// The word of a symbol.
pub(super) fn known_word(symbol: Symbol) -> Option<KnownWord> {
    ALL_WORDS.get(symbol.index().wrapping_sub(1)).copied()
}

/// The precedence of an infix operator.
pub(super) fn infix_level(symbol: Symbol) -> Option<u8> {
    INFIX.get(symbol.index().wrapping_sub(FIRST_INFIX)).map(|(_, level)| *level)
}

/// The symbol of an infix operator.
pub(super) fn infix_symbol(text: &str) -> Option<Symbol> {
    let place = INFIX.iter().position(|(other, _)| *other == text)?;
    Some(Symbol((FIRST_INFIX + place) as u32))
}

/// Returns true if an operator may precede an operand.
pub(super) fn is_prefix(symbol: Symbol) -> bool {
    let place = symbol.index().wrapping_sub(FIRST_INFIX);
    place >= INFIX.len() && place < INFIX.len() + PREFIX.len() || INFIX.get(place).is_some_and(|(text, _)| *text == "-")
}
