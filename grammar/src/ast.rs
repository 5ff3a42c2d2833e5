//! The syntax tree: what the text says, before any name has a meaning.
//!
//! Nodes live in flat arenas and refer to each other by dense ids, so that a file of a million statements is a handful
//! of vectors. Nothing here knows an op: a statement is a *shape* (results, head word, number, arguments, bodies) and
//! `hostir::resolve` finds its meaning in the op table, by its head.

use crate::span::Span;

macro_rules! ids {
    ($($(#[$doc:meta])* $name:ident)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        pub struct $name(pub u32);
        impl $name {
            /// The id as an index into its arena.
            #[inline]
            pub fn index(self) -> usize { self.0 as usize }
        }
    )*};
}

ids! {
    /// An interned string of [`SyntaxTree::strings`].
    Symbol
    /// A scalar (or tensor) expression of [`SyntaxTree::exprs`].
    ExprId
    /// A distinct tensor text of [`SyntaxTree::tensors`].
    TensorRefId
    /// An iteration domain of [`SyntaxTree::domains`].
    DomainId
    /// A statement of [`SyntaxTree::stmts`].
    StmtId
    /// A block of [`SyntaxTree::blocks`].
    BlockId
}

/// A run of arguments in [`SyntaxTree::args_in`].
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ArgRange {
    /// First argument.
    pub start: u32,
    /// One past the last argument.
    pub end: u32,
}

impl ArgRange {
    /// Number of arguments.
    pub fn len(self) -> usize {
        (self.end - self.start) as usize
    }
    /// Whether there are none.
    pub fn is_empty(self) -> bool {
        self.start == self.end
    }
}

/// Everything one text holds.
#[derive(Clone, Default, Debug)]
pub struct SyntaxTree {
    /// Interned strings: names, operators, literals.
    pub strings: StringInterner,
    /// `hir N` of the first line, if there is one.
    pub version: Option<u32>,
    /// The attributes in braces after it: `hir 1 {sizes={m=64}, streams=3}`.
    pub version_attrs: ArgRange,
    /// Expressions with their spans.
    pub exprs: Vec<(ExprSyntax, Span)>,
    /// Each distinct full tensor text once (`T3_g_float[iS0{i0}] (DeviceMesh{0 1})`), and each
    /// distinct short reference once (`T3`); `span` is its first occurrence.
    pub tensors: Vec<TensorRef>,
    /// Iteration domains of tensors and of `axis =` / `FOR .. in` positions.
    pub domains: Vec<DomainSyntax>,
    /// Arguments of all statements and lists.
    pub args: Vec<ArgSyntax>,
    /// Statements.
    pub stmts: Vec<StmtSyntax>,
    /// Blocks: bodies of containers, loops, branches and kernels.
    pub blocks: Vec<BlockSyntax>,
    /// The containers of the file, in order.
    pub containers: Vec<ContainerSyntax>,
    /// All `//` comments in order of appearance.
    pub comments: Vec<CommentSyntax>,
}

impl SyntaxTree {
    /// The arguments of a range.
    pub fn args_in(&self, range: ArgRange) -> &[ArgSyntax] {
        &self.args[range.start as usize..range.end as usize]
    }
    /// The text of a symbol.
    pub fn symbol_text(&self, symbol: Symbol) -> &str {
        self.strings.get(symbol)
    }
}

/// `%HostIrContainer { (inputs) -> (outputs) : body  host units } // %HostIrContainer` and what
/// may follow it.
#[derive(Clone, Debug)]
pub struct ContainerSyntax {
    /// The whole container.
    pub span: Span,
    /// The header line.
    pub header: Span,
    /// True if the header has an error, so that the inputs and outputs are not known.
    pub header_failed: bool,
    /// `ring` of `{name=ring}` after the outputs.
    pub given_name: Option<Symbol>,
    /// Inputs: tensors or scalars.
    pub inputs: ArgRange,
    /// Outputs.
    pub outputs: ArgRange,
    /// Top-level statements.
    pub body: BlockId,
    /// `HostUnitN:` sections in printed order.
    pub units: Vec<HostUnitSyntax>,
    /// `Aliases:{ new -> orig }`; `None` when the section is absent, pairs of arguments otherwise.
    pub aliases: Option<Vec<(ArgSyntax, ArgSyntax)>>,
    /// `Index definitions:` section (its statements), if present.
    pub index_definitions: Option<BlockId>,
    /// The blank lines around it.
    pub blanks: BlankLines,
    /// True if `// %HostIrContainer` follows the closing brace.
    pub closing_label: bool,
    /// True if the lists follow `HOST IRS:` and the end is `END.`, as nvFuser printed in July 2024.
    pub is_old_frame: bool,
    /// True if some `Wait` is on the line of its communication, as nvFuser printed in 2024.
    pub has_joined_posts: bool,
}

/// The blank lines around a container.
#[derive(Clone, Copy, Default, Debug)]
pub struct BlankLines {
    /// True if one precedes `%HostIrContainer` (nvFuser prints one).
    pub before: bool,
    /// The number after the closing line, before anything else or the end of the text.
    pub after: u32,
    /// The number after the `Aliases:` or `Index definitions:` section; 0 without one.
    pub after_sections: u32,
}

impl ContainerSyntax {
    /// A container with nothing but a header and a body.
    pub(crate) fn new(header: Span, body: BlockId) -> Self {
        Self {
            span: header,
            header,
            header_failed: false,
            given_name: None,
            inputs: ArgRange::default(),
            outputs: ArgRange::default(),
            body,
            units: Vec::new(),
            aliases: None,
            index_definitions: None,
            blanks: BlankLines::default(),
            closing_label: false,
            is_old_frame: false,
            has_joined_posts: false,
        }
    }
}

/// One `HostUnitN: Inputs={..} -> Outputs={..}Inputs: ... %kernel { ... } // %kernel` section.
#[derive(Clone, Debug)]
pub struct HostUnitSyntax {
    /// The whole section.
    pub span: Span,
    /// The `N` of `HostUnitN`.
    pub number: u32,
    /// Inputs of the first line.
    pub inputs: ArgRange,
    /// Outputs of the first line.
    pub outputs: ArgRange,
    /// Inputs of the `Inputs:` lines.
    pub fusion_inputs: ArgRange,
    /// Outputs of the `Outputs:` lines.
    pub fusion_outputs: ArgRange,
    /// True if the unit has such lines: nvFuser printed none before 2024-12-04.
    pub listed: bool,
    /// Statements of the `%kernel` body.
    pub body: BlockId,
    /// The attributes between the header and `Inputs:`; none are known.
    pub attrs: ArgRange,
    /// True if the text leaves the unit out: `HostUnit0: [...]`.
    pub is_elided: bool,
}

/// Statements in order.
#[derive(Clone, Default, Debug)]
pub struct BlockSyntax {
    /// The statements.
    pub stmts: Vec<StmtId>,
    /// Span of the block (empty for an empty body).
    pub span: Span,
}

/// The form of a statement; each shape fills other fields of [`StmtSyntax`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum StmtShape {
    /// `results = name( args )`, `name( args )`, `Name N (args)`, `T = ALLOCATE(...)` `.alias=T`
    /// (the alias is an extra keyed argument `alias`), with or without `;`.
    Call,
    /// `result = a + b;`, `result = -a;`, `result = a;`: the expression is the only argument.
    Assign,
    /// Words without parentheses: `Synchronize Stream 0`, `SetCurrentStream to Stream X`,
    /// `GetCurrentStream into Stream 0`, `Wait Communication 39`, `StartCoalescing`,
    /// `EndCoalescing 32` (the operand, if any, is the only argument).
    Words,
    /// `Deallocate { T }`.
    Braces,
    /// `FOR index in domain:`; args: index expression, domain. Body is `body`.
    ForIn,
    /// `FOR index from a to b:`; args: index, start, stop; a kir loop with explicit bounds and
    /// domain `FOR i in iS0{8} from 1 to 7 step 2:` has args index, domain, start, stop, step
    /// (the last three keyed `start`, `stop`, `step`) and shape `ForIn`.
    ForRange,
    /// `IF Manual cond:`; `name` is the predicate kind, args: the condition.
    /// `body` and `else_body`.
    If,
    /// A statement that could not be parsed; an error was recorded for it.
    Error,
}

/// One statement.
#[derive(Clone, Copy, Debug)]
pub struct StmtSyntax {
    /// From its first to its last token (without the bodies).
    pub span: Span,
    /// The form that it is written in.
    pub shape: StmtShape,
    /// Head word with its suffix (`Set.Permute`, `matmul`, `Communication`, `(float)`); for `Assign`
    /// the empty string.
    pub name: Symbol,
    /// Span of the head word.
    pub name_span: Span,
    /// The number after the head word (`Communication 39`, `EndCoalescing 32`, `LaunchKernel` has
    /// none: its `Group ID` is a keyed argument).
    pub number: Option<u32>,
    /// The operands before `=` (several for multi-output ops; a stream for `Stream 0x1 = GetCurrentStream()`).
    pub results: ArgRange,
    /// Arguments in written order.
    pub args: ArgRange,
    /// Loop body or then-branch.
    pub body: Option<BlockId>,
    /// Else-branch.
    pub else_body: Option<BlockId>,
    /// Comment lines above, after, and at the end of the block are in [`SyntaxTree::comments`].
    pub terminated: bool,
    /// `h` of `{name=h}` after the statement.
    pub given_name: Option<Symbol>,
}

/// An argument `value` or `key = value`.
#[derive(Clone, Copy, Debug)]
pub struct ArgSyntax {
    /// The whole argument.
    pub span: Span,
    /// `key` of `key = value`, `key=value`, `key: value`; several words are joined by one blank
    /// (`initial value`, `Group ID`).
    pub key: Option<Symbol>,
    /// True if blanks surround the `=` of a keyed argument.
    pub spaced: bool,
    /// The value.
    pub value: ValueSyntax,
}

/// The value of an argument.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum ValueSyntax {
    /// A scalar, literal, name or tensor.
    Expr(ExprId),
    /// An iteration domain (`axis = iS0{i0}`).
    Domain(DomainId),
    /// `Stream <expr>`.
    Stream(ExprId),
    /// `Communication 39`: a word and a number.
    Handle(Symbol, u32),
    /// `{a, b}` (also with a trailing comma, and `{ {0, i2, 1} {1, i3, 1} }` without commas).
    List(ArgRange),
    /// `(0 1 2)`: integers without commas; `truncated` when it ends in ` ...`. A team of one is
    /// `Expr(Group(Int))`.
    Team(ArgRange, bool),
    /// `"rows divide"`, without the quotes.
    Text(Symbol),
    /// A statement inside an argument list (`ShareMemHandles(P2PCommunication 37 (...), `).
    Stmt(StmtId),
    /// Nothing usable (an error was recorded).
    Error,
}

/// A scalar expression, or a tensor at an operand position.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum ExprSyntax {
    /// `7`, `-1`.
    Int(i64),
    /// `0x174e5c80`.
    Hex(u64),
    /// `true`, `false` (either case of the first letter: `True` sets the second field).
    Bool(bool, bool),
    /// `float(0)`, `double(-inf)`, `std::complex<float>((1,2.5))`: type and the literal's text.
    Typed(Symbol, Symbol),
    /// A bare floating literal `0.5` (an inline short form).
    Float(Symbol),
    /// `i0`, `rank`, `StreamIdx`, `deviceIdx.x`.
    Name(Symbol),
    /// A tensor.
    Tensor(TensorRefId),
    /// `-a`, `!a`, `~a`, `*a`, `&a`.
    Unary(Symbol, ExprId),
    /// `a + b` and the other infix operators.
    Binary(Symbol, ExprId, ExprId),
    /// `ceilDiv(a, b)`, `(double)(a)`, `getMetaData(T0)`.
    Call(Symbol, ArgRange),
    /// `( a )`.
    Group(ExprId),
    /// `(a)[b]`.
    Index(ExprId, ExprId),
    /// `(a).field`.
    Field(ExprId, Symbol),
    /// `{ a, b }` and `{ f = a }`.
    Braces(ArgRange),
    /// Nothing usable (an error was recorded).
    Error,
}

/// One distinct tensor text.
#[derive(Clone, Debug)]
pub struct TensorRef {
    /// First occurrence.
    pub span: Span,
    /// `3` of `T3`.
    pub number: u32,
    /// Full form; `None` for the short reference `T3`.
    pub full: Option<TensorText>,
}

/// `_g_float[...] ca_pos( 1 ) (DeviceMesh{0 1})` after the `T3`.
#[derive(Clone, Debug)]
pub struct TensorText {
    /// `g`, `l`, `s`, `t`, `sym`.
    pub memory: Symbol,
    /// `float`, `__bfloat`, `std::complex<float>`.
    pub dtype: Symbol,
    /// The dtype's span in the first occurrence.
    pub dtype_span: Span,
    /// First domain in [`SyntaxTree::domains`].
    pub domains_start: u32,
    /// One past the last domain.
    pub domains_end: u32,
    /// The text ` ca_pos( 3 ) produce_pos( 2 )` between `]` and the mesh, trimmed; empty if none.
    pub positions: Symbol,
    /// The mesh.
    pub mesh: Option<MeshSyntax>,
    /// Optional attributes written in braces or brackets after the mesh (`perm=`, `logical=`).
    pub attrs: ArgRange,
}

/// `DeviceMesh{{0 1}{2 3}}`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MeshSyntax {
    /// The place of the first occurrence.
    pub span: Span,
    /// Extents, outermost first; empty when the groups are ragged (an error was recorded).
    pub shape: Vec<u32>,
    /// Device ids, row-major.
    pub devices: Vec<u32>,
}

/// `iS0{i0}`, `ideviceIdx.x1{i2}rf`, `bS3{1 ex i5}`.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct DomainSyntax {
    /// First occurrence.
    pub span: Span,
    /// `i`, `r`, `b`, `s`, `n`, `v`, `?`.
    pub iter: u8,
    /// `S`, `deviceIdx.x`, `StreamIdx`, ...
    pub parallel: Symbol,
    /// The number; `None` when left out (`iS{8}`).
    pub number: Option<u32>,
    /// First of `{start : stop : extent}`, if written.
    pub start: Option<ExprId>,
    /// Second of three, if written.
    pub stop: Option<ExprId>,
    /// The extent.
    pub extent: ExprId,
    /// `ex <extent>`.
    pub expanded: Option<ExprId>,
    /// `rf`.
    pub rfactor: bool,
    /// `_p`.
    pub padded: bool,
    /// `_c`.
    pub clustered: bool,
}

/// The part of the text that a comment belongs to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CommentPlaceSyntax {
    /// Before the first container, or between containers: of the file itself.
    File,
    /// On its own line above a statement (or a container, a unit: the statement is `None`).
    Above(StmtId),
    /// At the end of a statement's line.
    Trailing(StmtId),
    /// At the end of the line `ELSE:` that opens a block.
    StartOf(BlockId),
    /// On its own line at the end of a block, after its last statement.
    EndOf(BlockId),
    /// Above container number N.
    Container(u32),
    /// At the end of container N's header line.
    Header(u32),
    /// After the last container.
    EndOfFile,
}

/// A `//` comment.
#[derive(Clone, Copy, Debug)]
pub struct CommentSyntax {
    /// From the `//` to the end of the line, without the line break.
    pub span: Span,
    /// The part of the text that it belongs to.
    pub place: CommentPlaceSyntax,
}

/// The number of bits that choose a place among the recent strings.
const RECENT_BITS: u32 = 9;
/// The number of strings that are looked up before recent ones are kept: a file may have many programs of few names
/// each.
const RECENT_FROM: u32 = 256;

/// An interner: equal strings get equal symbols; symbol 0 is the empty string.
#[derive(Clone, Debug)]
pub struct StringInterner {
    text: String,
    ends: Vec<u32>,
    /// The newest symbol of each hash.
    map: rustc_hash::FxHashMap<u64, u32>,
    /// The symbol before with the same hash; `u32::MAX` if there is none.
    same: Vec<u32>,
    /// Recent short strings, packed into a word, indexed by a few bits of it; empty while there are few strings.
    recent: Vec<(u64, u32)>,
    /// Other recent strings, indexed by a few bits of their hash; empty while there are few strings.
    recent_long: Vec<(u64, u32)>,
    /// The numbers of strings that were removed.
    removed: rustc_hash::FxHashSet<u32>,
    /// The number of strings that were not among recent ones, up to [`RECENT_FROM`].
    looked_up: u32,
}

/// A string of at most seven bytes as a word of its own.
fn pack_short_text(text: &str) -> Option<u64> {
    if text.len() > 7 {
        return None;
    }
    let word = text.bytes().fold(0, |word, byte| word << 8 | u64::from(byte));
    Some(word | (text.len() as u64 + 1) << 56)
}

impl Default for StringInterner {
    fn default() -> Self {
        let mut strings = Self {
            text: String::new(),
            ends: Vec::new(),
            map: Default::default(),
            same: Vec::new(),
            recent: Vec::new(),
            recent_long: Vec::new(),
            removed: Default::default(),
            looked_up: 0,
        };
        strings.intern("");
        strings
    }
}

impl StringInterner {
    /// Reserves memory for `count` strings of `length` bytes in all, if there is enough.
    pub fn reserve_strings(&mut self, count: usize, length: usize) {
        let _ = self.text.try_reserve(length);
        let _ = self.ends.try_reserve(count);
        let _ = self.same.try_reserve(count);
        let _ = self.map.try_reserve(count);
    }

    /// The symbol of `text`, new if it was not seen before.
    pub fn intern(&mut self, text: &str) -> Symbol {
        let Some(word) = pack_short_text(text) else { return self.intern_slow(text) };
        let place = (word.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - RECENT_BITS)) as usize;
        if let Some(&(key, symbol)) = self.recent.get(place)
            && key == word
        {
            return Symbol(symbol);
        }
        let symbol = self.intern_slow(text);
        if let Some(recent) = self.recent.get_mut(place) {
            *recent = (word, symbol.0);
        }
        symbol
    }

    fn intern_slow(&mut self, text: &str) -> Symbol {
        let hash = hash_of(text);
        let place = (hash >> (64 - RECENT_BITS)) as usize;
        if let Some(&(key, recent)) = self.recent_long.get(place)
            && key == hash
            && self.get(Symbol(recent)) == text
        {
            return Symbol(recent);
        }
        let symbol = self.intern_hashed(text, hash);
        if let Some(recent) = self.recent_long.get_mut(place) {
            *recent = (hash, symbol.0);
        }
        symbol
    }

    fn intern_hashed(&mut self, text: &str, hash: u64) -> Symbol {
        if self.looked_up < RECENT_FROM {
            self.looked_up += 1;
            if self.looked_up == RECENT_FROM {
                self.recent = vec![(0, 0); 1 << RECENT_BITS];
                self.recent_long = vec![(0, 0); 1 << RECENT_BITS];
            }
        }
        if let Some(found) = self.find_hashed(text, hash) {
            return found;
        }
        let id = self.ends.len() as u32;
        self.text.push_str(text);
        self.ends.push(self.text.len() as u32);
        self.same.push(self.map.insert(hash, id).unwrap_or(u32::MAX));
        Symbol(id)
    }

    /// Removes a string: it is found no more, and gets another symbol when it comes again. The symbol keeps its text.
    pub fn remove_string(&mut self, symbol: Symbol) {
        let id = symbol.0;
        if id == 0 || !self.removed.insert(id) {
            return;
        }
        let hash = hash_of(self.get(symbol));
        let before = self.same[symbol.index()];
        match self.map.get_mut(&hash) {
            Some(newest) if *newest != id => {
                let mut at = *newest;
                while self.same[at as usize] != id {
                    at = self.same[at as usize];
                }
                self.same[at as usize] = before;
            }
            Some(newest) if before != u32::MAX => *newest = before,
            _ => drop(self.map.remove(&hash)),
        }
        let recent = self.recent.iter_mut().chain(&mut self.recent_long);
        recent.filter(|(_, known)| *known == id).for_each(|recent| *recent = (0, 0));
    }

    /// Removes all strings but the first `count`, as if they had never been interned.
    pub fn truncate_strings(&mut self, count: usize) {
        while self.ends.len() > count.max(1) {
            let newest = self.ends.len() - 1;
            self.remove_string(Symbol(newest as u32));
            self.removed.remove(&(newest as u32));
            self.ends.pop();
            self.same.pop();
            self.text.truncate(self.ends[newest - 1] as usize);
        }
    }

    /// Number of strings that were removed and keep their symbols.
    pub fn removed_count(&self) -> usize {
        self.removed.len()
    }

    /// The symbols of all strings that are not removed.
    pub fn symbols(&self) -> impl Iterator<Item = Symbol> {
        (0..self.ends.len() as u32).filter(|id| self.removed.is_empty() || !self.removed.contains(id)).map(Symbol)
    }

    /// The symbol of `text` if it was interned.
    pub fn find_symbol(&self, text: &str) -> Option<Symbol> {
        self.find_hashed(text, hash_of(text))
    }

    fn find_hashed(&self, text: &str, hash: u64) -> Option<Symbol> {
        let mut at = *self.map.get(&hash)?;
        while self.get(Symbol(at)) != text {
            at = self.same[at as usize];
            if at == u32::MAX {
                return None;
            }
        }
        Some(Symbol(at))
    }

    /// The text of a symbol.
    #[inline]
    pub fn get(&self, symbol: Symbol) -> &str {
        let end = self.ends[symbol.index()] as usize;
        let start = if symbol.0 == 0 { 0 } else { self.ends[symbol.index() - 1] as usize };
        &self.text[start..end]
    }

    /// Number of symbols, those of removed strings included.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Returns true if only the empty string is interned.
    pub fn is_empty(&self) -> bool {
        self.ends.len() <= 1
    }
}

fn hash_of(text: &str) -> u64 {
    use std::hash::Hasher;
    let mut hasher = rustc_hash::FxHasher::default();
    hasher.write(text.as_bytes());
    hasher.finish()
}
