//! Scalar expressions, hash-consed: equal expressions have equal ids.

use super::ids::{ExprId, MeshId, TensorId};
use super::names::Symbol;
use super::types::{DType, ParallelType};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

/// Prefix operators.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum UnaryOp {
    /// `-a`
    Neg,
    /// `!a`
    Not,
    /// `~a`
    BitNot,
    /// `*a`: the value at an address, in kernels.
    Dereference,
    /// `&a`: an address, in kernels.
    Address,
}

impl UnaryOp {
    const ALL: [UnaryOp; 5] = [UnaryOp::Neg, UnaryOp::Not, UnaryOp::BitNot, UnaryOp::Dereference, UnaryOp::Address];

    /// The text of the operator.
    pub fn symbol(self) -> &'static str {
        match self {
            UnaryOp::Neg => "-",
            UnaryOp::Not => "!",
            UnaryOp::BitNot => "~",
            UnaryOp::Dereference => "*",
            UnaryOp::Address => "&",
        }
    }
    /// Parses an operator.
    pub fn parse(text: &str) -> Option<UnaryOp> {
        Self::ALL.into_iter().find(|op| op.symbol() == text)
    }
}

/// Infix operators.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[allow(missing_docs, reason = "the names are the operators")]
pub enum BinaryOp {
    Add,
    Sub,
    Mul,
    Div,
    Mod,
    Shl,
    Shr,
    Eq,
    Ne,
    Ge,
    Gt,
    Le,
    Lt,
    And,
    Or,
    BitAnd,
    BitOr,
    BitXor,
}

impl BinaryOp {
    /// All operators with their texts.
    pub const ALL: &'static [(BinaryOp, &'static str)] = &[
        (BinaryOp::Add, "+"),
        (BinaryOp::Sub, "-"),
        (BinaryOp::Mul, "*"),
        (BinaryOp::Div, "/"),
        (BinaryOp::Mod, "%"),
        (BinaryOp::Shl, "<<"),
        (BinaryOp::Shr, ">>"),
        (BinaryOp::Eq, "=="),
        (BinaryOp::Ne, "!="),
        (BinaryOp::Ge, ">="),
        (BinaryOp::Gt, ">"),
        (BinaryOp::Le, "<="),
        (BinaryOp::Lt, "<"),
        (BinaryOp::And, "&&"),
        (BinaryOp::Or, "||"),
        (BinaryOp::BitAnd, "&"),
        (BinaryOp::BitOr, "|"),
        (BinaryOp::BitXor, "^"),
    ];
    /// The operator's text.
    pub fn symbol(self) -> &'static str {
        Self::ALL[self as usize].1
    }
    /// The strength with which it binds, from 1 on: `a * b` binds more strongly than `a + b`.
    pub fn strength(self) -> u8 {
        match self {
            BinaryOp::Or => 1,
            BinaryOp::And => 2,
            BinaryOp::BitOr => 3,
            BinaryOp::BitXor => 4,
            BinaryOp::BitAnd => 5,
            BinaryOp::Eq | BinaryOp::Ne => 6,
            BinaryOp::Ge | BinaryOp::Gt | BinaryOp::Le | BinaryOp::Lt => 7,
            BinaryOp::Shl | BinaryOp::Shr => 8,
            BinaryOp::Add | BinaryOp::Sub => 9,
            BinaryOp::Mul | BinaryOp::Div | BinaryOp::Mod => 10,
        }
    }
    /// Returns true for an operator that compares.
    pub fn is_comparison(self) -> bool {
        (BinaryOp::Eq.strength()..=BinaryOp::Lt.strength()).contains(&self.strength())
    }
    /// The operator of a text.
    pub fn parse(text: &str) -> Option<BinaryOp> {
        Self::ALL.iter().find(|(_, symbol)| *symbol == text).map(|(op, _)| *op)
    }
}

/// A scalar expression. Composite expressions print in parentheses with a blank inside each, as in nvFuser's
/// inline form.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Expr {
    /// `7`
    Int(i64),
    /// `0x174e5c80`: an unindexed stream's address.
    Hex(u64),
    /// `true`
    Bool(bool),
    /// `float(0)`: type and the literal's text (printed back verbatim).
    Typed(DType, Symbol),
    /// `0.5`
    Float(Symbol),
    /// `i0`, `rank`, `StreamIdx`
    Name(Symbol),
    /// `-a`
    Unary(UnaryOp, ExprId),
    /// `a + b`
    Binary(BinaryOp, ExprId, ExprId),
    /// `ceilDiv(a, b)`; names are in the newest spelling (casts are calls of `__to_double`).
    Call(Symbol, SmallVec<[ExprId; 3]>),
    /// `( a )` around an operand that needs no parentheses: a scalar copy.
    Set(ExprId),
    /// `(a)[b]`
    Index(ExprId, ExprId),
    /// `(a).field`
    Field(ExprId, Symbol),
    /// `{ a, b }`
    Braces(SmallVec<[ExprId; 3]>),
    /// `{ x = a, y = b }`: a struct, by its fields.
    Struct(Box<[(Symbol, ExprId)]>),
    /// `getMetaData(T0)`
    MetaData(TensorId),
    /// The extents of a ragged axis, which are the elements of a tensor: `iS1Ragged{extents=T0_g_int64_t[iS0{3}]}`.
    RaggedExtents(TensorId),
    /// `DeviceMesh{0 1}.x`: a coordinate of the rank in a mesh, or the number of its devices.
    MeshCoordinate(MeshId, MeshCoordinate),
}

impl Expr {
    /// The expression with other parts, each mapped in the order of the text.
    #[must_use]
    pub fn map_parts(&self, mut map: impl FnMut(ExprId) -> ExprId) -> Expr {
        match self {
            Expr::Unary(op, a) => Expr::Unary(*op, map(*a)),
            Expr::Binary(op, a, b) => Expr::Binary(*op, map(*a), map(*b)),
            Expr::Call(name, parts) => Expr::Call(*name, parts.iter().map(|&part| map(part)).collect()),
            Expr::Set(a) => Expr::Set(map(*a)),
            Expr::Index(a, b) => Expr::Index(map(*a), map(*b)),
            Expr::Field(a, field) => Expr::Field(map(*a), *field),
            Expr::Braces(parts) => Expr::Braces(parts.iter().map(|&part| map(part)).collect()),
            Expr::Struct(fields) => Expr::Struct(fields.iter().map(|&(name, part)| (name, map(part))).collect()),
            Expr::Int(_)
            | Expr::Hex(_)
            | Expr::Bool(_)
            | Expr::Typed(..)
            | Expr::Float(_)
            | Expr::Name(_)
            | Expr::MetaData(_)
            | Expr::RaggedExtents(_)
            | Expr::MeshCoordinate(..) => self.clone(),
        }
    }
}

/// A number that a mesh gives each of its ranks.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum MeshCoordinate {
    /// The position along the axis of a device parallel type, `d.x`.
    Along(ParallelType),
    /// The number of devices, `d.size`.
    Size,
}

impl MeshCoordinate {
    /// All coordinates with their words.
    pub const ALL: &'static [(MeshCoordinate, &'static str)] = &[
        (MeshCoordinate::Along(ParallelType::DIDx), "x"),
        (MeshCoordinate::Along(ParallelType::DIDy), "y"),
        (MeshCoordinate::Along(ParallelType::DIDz), "z"),
        (MeshCoordinate::Size, "size"),
    ];
    /// The word after the point.
    pub fn word(self) -> &'static str {
        Self::ALL.iter().find(|(coordinate, _)| *coordinate == self).map_or("", |(_, word)| word)
    }
}

impl Expr {
    /// The tensor that the expression itself names.
    pub fn named_tensor(&self) -> Option<TensorId> {
        match self {
            Expr::MetaData(tensor) | Expr::RaggedExtents(tensor) => Some(*tensor),
            _ => None,
        }
    }
}

/// The interner of a program's expressions.
#[derive(Clone, Default, Debug)]
pub struct ExprArena {
    items: Vec<Expr>,
    map: FxHashMap<Expr, ExprId>,
}

impl ExprArena {
    /// Returns the id of `expr`, and adds it if no equal expression exists.
    pub fn intern(&mut self, expr: Expr) -> ExprId {
        if let Some(&id) = self.map.get(&expr) {
            return id;
        }
        let id = ExprId(self.items.len() as u32);
        self.items.push(expr.clone());
        self.map.insert(expr, id);
        id
    }
    /// Returns the id of `expr` if it is known.
    pub fn find_expr(&self, expr: &Expr) -> Option<ExprId> {
        self.map.get(expr).copied()
    }
    /// The expression.
    #[inline]
    pub fn get(&self, id: ExprId) -> &Expr {
        &self.items[id.0 as usize]
    }
    /// Number of distinct expressions.
    pub fn len(&self) -> usize {
        self.items.len()
    }
    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }
    /// The value of an integer literal; `None` for other expressions.
    #[inline]
    pub fn as_int(&self, id: ExprId) -> Option<i64> {
        match self.get(id) {
            Expr::Int(value) => Some(*value),
            _ => None,
        }
    }
    /// The symbol of a name; `None` for other expressions.
    #[inline]
    pub fn as_name(&self, id: ExprId) -> Option<Symbol> {
        match self.get(id) {
            Expr::Name(name) => Some(*name),
            _ => None,
        }
    }
    /// Interns `a op b`.
    pub fn intern_binary(&mut self, op: BinaryOp, a: ExprId, b: ExprId) -> ExprId {
        self.intern(Expr::Binary(op, a, b))
    }
    /// Interns an integer literal.
    pub fn intern_int(&mut self, value: i64) -> ExprId {
        self.intern(Expr::Int(value))
    }
    /// Interns a name.
    pub fn intern_name(&mut self, name: Symbol) -> ExprId {
        self.intern(Expr::Name(name))
    }
}
