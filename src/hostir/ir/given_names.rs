//! Names that users give: what may be one.

/// Words that are no name of a tensor, scalar, handle, stream or program.
pub const RESERVED_WORDS: &[&str] = &[
    "rank",
    "streams",
    "own",
    "true",
    "false",
    "hir",
    "mesh",
    "kernel",
    "alloc",
    "free",
    "wait",
    "send",
    "recv",
    "for",
    "in",
    "if",
    "else",
    "stream",
    "sync",
    "current",
    "alias",
    "define",
    "share",
    "inf",
    "nan",
    "True",
    "False",
    "numberOfStreams",
    "FOR",
    "IF",
    "ELSE",
    "Stream",
    "DeviceMesh",
];

/// The word for no mesh in `hir 2`, which is no name of a mesh.
pub const NO_MESH: &str = "all";

/// Returns true if a word is one of [`RESERVED_WORDS`].
pub fn is_reserved_word(text: &str) -> bool {
    let first = text.as_bytes().first();
    RESERVED_WORDS.iter().any(|word| word.len() == text.len() && word.as_bytes().first() == first && *word == text)
}

/// Returns true if a word can be a name: letters, digits and `_`, maybe numbers after dots (`G.1`, as passes derive
/// them). A word of the language, or one that stands for a number, as `T7` and `h7` do, is none.
pub fn is_given_name(text: &str) -> bool {
    let mut parts = text.split('.');
    let head = parts.next().is_some_and(is_identifier);
    head && parts.all(is_digits) && !is_reserved_word(text) && !is_numbered_name(text)
}

/// Returns true if a word begins with a letter or `_` and continues with letters, digits and `_`.
pub fn is_identifier(text: &str) -> bool {
    let starts = text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    starts && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

fn is_digits(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// Returns true if a word has the form of a numbered name: `T7` and `h7` stand for the unnamed tensor or communication
/// of that number.
pub fn is_numbered_name(text: &str) -> bool {
    text.strip_prefix('T').or_else(|| text.strip_prefix('h')).is_some_and(is_digits)
}
