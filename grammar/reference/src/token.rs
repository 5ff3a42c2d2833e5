//! The terminals of the grammar.

use hostir_grammar::ast::Symbol;
use hostir_grammar::hir2::ast::NameSyntax;

/// The text is not in the language.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Rejected;

/// A terminal.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Tok {
    /// The end of a line outside of brackets; in a group, the end of a statement that ends with its line.
    Newline,
    /// The start of an indented block.
    Indent,
    /// Its end.
    Dedent,
    /// A word that means nothing to the grammar at its place.
    Name(Symbol),
    /// An integer, as the lexer gives it.
    Int(i64),
    /// `0x1f`
    Hex(u64),
    /// `0.5`
    Float(Symbol),
    /// `true` or `false`, unless it is the name of a call.
    Bool(bool),
    /// A text in backquotes.
    Verbatim(Symbol),
    /// A text in double quotes, without them.
    Quote(Symbol),
    /// The second number of the version.
    Version(u32),
    /// The rest of the line `style`.
    Text(NameSyntax),
    /// `G.0` after `for i in`.
    Position((NameSyntax, u32)),
    /// `r.`, `b.` or `i.` at the start of an axis.
    IterKind(NameSyntax),
    /// A word of the language at a place where it has its meaning.
    Word(Word),
    /// A word that is an operator or a value of other languages: a name, but no operand.
    NoOperand(Symbol),
    /// A sign.
    Sign(Sign),
    /// An operator.
    Op(&'static str),
    /// A token that the language does not have at this place.
    Error,
}

/// A word of the language.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs, reason = "each is the word that it is called")]
pub enum Word {
    Hir,
    Style,
    Sizes,
    Streams,
    Names,
    Mesh,
    Kernel,
    Import,
    From,
    On,
    Order,
    Logical,
    Split,
    Ex,
    Step,
    Current,
    For,
    In,
    If,
    Else,
    Wait,
    Free,
    Stream,
    Sync,
    Share,
    Alias,
    Assert,
    Launch,
    Reads,
    Writes,
    Reference,
    Group,
    Print,
    Define,
}

/// A sign; brackets and colons with different meanings are different signs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Sign {
    /// `(`
    LParen,
    /// `(` of the extents of a grid or a block.
    ExtentsParen,
    /// `)`
    RParen,
    /// `[` of an index or a list.
    LBracket,
    /// `[` of the axes of a type, or of the domain of a loop.
    AxesBracket,
    /// `[` of a list of devices.
    DevicesBracket,
    /// `[` of the axes of a mesh.
    GridBracket,
    /// `[` of `if [Kind]`.
    KindBracket,
    /// `]`
    RBracket,
    /// `{` of a list.
    LBrace,
    /// `{` of a group.
    GroupBrace,
    /// `}`
    RBrace,
    /// `,`
    Comma,
    /// `;`
    Semicolon,
    /// `:` of a declaration, an axis or an index.
    Colon,
    /// `:` at the end of a header.
    BlockColon,
    /// `=`
    Equals,
    /// `->`
    Arrow,
    /// `..`
    DotDot,
    /// `.`
    Dot,
    /// `@`
    At,
}
