//! The row of an op in the op table.
//!
//! An op is plain data, a few functions in its family's file, and one line in the table of
//! [`super`]. Parser, printer, generic checks, docs and completion follow from the data; a missing
//! function is a compile error.

use super::result_types::{TensorType, TypeList};
use super::tensor_checks;
use crate::axes::pairing::LinkFn;
use crate::diag::{Diag, Diags, Message};
use crate::ir::{AttrKey, AttrValue, AxisLink, DType, Expr, Op, OpId, OpIdentity, Program, Style, TensorId, Value};
use crate::plan::{ComputedIndexFault, PlanBuilder};

/// The spacing around the `=` of a keyed argument.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum EqualsSpacing {
    /// `key = value`
    Spaced,
    /// `key=value`
    Tight,
    /// `key=value` or `key = value`, by [`Style::tight_stream_index`].
    StreamIndex,
    /// `key=value` or `key = value`, by [`Style::sdpa_commas`].
    Attention,
}

/// The kind of value that an argument holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ArgKind {
    /// A tensor operand.
    Tensor,
    /// A tensor or scalar operand.
    Operand,
    /// A scalar attribute, written as an expression.
    Expr,
    /// One of these words.
    Word(&'static [&'static str]),
    /// A name of the author's choice.
    Name,
    /// A text in quotes.
    Text,
    /// A list of these words, one for each of several reductions.
    Words(&'static [&'static str]),
    /// An element type.
    DType,
    /// `true` or `false`.
    Bool,
    /// `True` or `False`, in `hir 2` as `Bool`.
    CapitalBool,
    /// A domain of the first operand (or its logical position).
    Axis,
    /// `{true, false}`
    Bools,
    /// `{a, b}`
    Exprs,
    /// A scalar, or `{ a, b }` of scalars that are elements.
    Array,
    /// `{ {a, b, c} {a, b, c} }`
    Ranges,
    /// `(0 1 2)`, or `{i, ( i + 1 )}` if members are computed.
    Team,
    /// `{1, 0}` of integers.
    Ints,
    /// A bare integer (an [`crate::ir::AttrValue::Expr`] that is one).
    Int,
    /// `Stream <expr>`
    Stream,
    /// `Communication 39`
    Handle,
}

impl ArgKind {
    /// Describes the expected value in words, for messages.
    pub fn describe(self) -> &'static str {
        match self {
            ArgKind::Tensor => "a tensor",
            ArgKind::Operand => "a tensor or a scalar",
            ArgKind::Expr => "a scalar",
            ArgKind::Word(_) => "a word",
            ArgKind::Name => "a name",
            ArgKind::Text => "a text in quotes",
            ArgKind::Words(_) => "a list of words such as `{add, mul}`",
            ArgKind::DType => "an element type",
            ArgKind::Bool => "`true` or `false`",
            ArgKind::CapitalBool => "`True` or `False`",
            ArgKind::Axis => "an iteration domain such as `iS0{i0}` or a position",
            ArgKind::Bools => "a list such as `{true, false}`",
            ArgKind::Array => "a scalar or a list such as `{ 0.5, d1 }`",
            ArgKind::Exprs => "a list such as `{i0, 4}`",
            ArgKind::Ranges => "a list of ranges such as `{ {0, i0, 1} {0, 4, 1} }`",
            ArgKind::Team => "device numbers such as `(0 1 2 3)`",
            ArgKind::Ints => "a list of integers such as `{1, 0}`",
            ArgKind::Int => "an integer",
            ArgKind::Stream => "a stream such as `Stream 0`",
            ArgKind::Handle => "a handle such as `Communication 39`",
        }
    }
}

/// The cases in which the text contains an argument.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ArgPresence {
    /// Always.
    Required,
    /// Only where the program has it.
    Optional,
}

/// The value of an attribute that a text in `hir 2` may leave out; the printed form has it always.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum UsualValue {
    /// A `double` with this literal.
    Double(&'static str),
    /// `false`
    False,
    /// A flag with this value.
    Flag(bool),
}

impl UsualValue {
    /// Returns true if an attribute has this value.
    pub fn is_value(self, program: &Program, value: &AttrValue) -> bool {
        match (self, value) {
            (UsualValue::Flag(usual), AttrValue::Bool(value)) => usual == *value,
            (usual, AttrValue::Expr(expr)) => match (usual, program.expr(*expr)) {
                (UsualValue::Double(text), Expr::Typed(DType::Double, literal)) => program.name(*literal) == text,
                (UsualValue::False, Expr::Bool(value)) => !value,
                _ => false,
            },
            _ => false,
        }
    }
}

/// One argument in written order.
#[derive(Clone, Copy, Debug)]
pub struct ArgSpec {
    /// The word before `=`; `None` for a positional argument.
    pub word: Option<&'static str>,
    /// The spacing around its `=`.
    pub equals: EqualsSpacing,
    /// The attribute it fills; `None` for an operand (or, with `result`, a result).
    pub key: Option<AttrKey>,
    /// True for a result (`output=` of a Communication).
    pub result: bool,
    /// The kind of value that it holds.
    pub kind: ArgKind,
    /// The cases in which it is there.
    pub presence: ArgPresence,
    /// True if the declaration stands for one or more positional operands.
    pub repeated: bool,
    /// The value that `hir 2` need not write.
    pub usual: Option<UsualValue>,
}

impl ArgSpec {
    const BLANK: ArgSpec = ArgSpec {
        word: None,
        equals: EqualsSpacing::Tight,
        key: None,
        result: false,
        kind: ArgKind::Tensor,
        presence: ArgPresence::Required,
        repeated: false,
        usual: None,
    };

    /// A positional operand.
    pub const fn operand(kind: ArgKind) -> Self {
        Self { kind, ..Self::BLANK }
    }
    /// A positional attribute.
    pub const fn positional(key: AttrKey, kind: ArgKind) -> Self {
        Self { key: Some(key), kind, ..Self::BLANK }
    }
    /// `word=value`
    pub const fn tight(word: &'static str, key: AttrKey, kind: ArgKind) -> Self {
        Self { word: Some(word), key: Some(key), kind, ..Self::BLANK }
    }
    /// `word = value`
    pub const fn spaced(word: &'static str, key: AttrKey, kind: ArgKind) -> Self {
        Self { word: Some(word), equals: EqualsSpacing::Spaced, key: Some(key), kind, ..Self::BLANK }
    }
    /// `word=<tensor>` that is an operand.
    pub const fn keyed_operand(word: &'static str) -> Self {
        Self { word: Some(word), ..Self::BLANK }
    }
    /// `word = <value>` that is an operand.
    pub const fn spaced_operand(word: &'static str, kind: ArgKind) -> Self {
        Self { word: Some(word), kind, equals: EqualsSpacing::Spaced, ..Self::BLANK }
    }
    /// `word=<tensor>` that is a result.
    pub const fn keyed_result(word: &'static str) -> Self {
        Self { word: Some(word), result: true, ..Self::BLANK }
    }
    /// The same, but it may be left out.
    pub const fn optional(mut self) -> Self {
        self.presence = ArgPresence::Optional;
        self
    }
    /// The same with another kind of value.
    pub const fn of_kind(mut self, kind: ArgKind) -> Self {
        self.kind = kind;
        self
    }
    /// The same, but it stands for one or more operands.
    pub const fn repeated(mut self) -> Self {
        self.repeated = true;
        self
    }
    /// The same, but `hir 2` need not write this value.
    pub const fn with_usual(mut self, value: UsualValue) -> Self {
        self.usual = Some(value);
        self
    }
    /// The same with another `=`.
    pub const fn with_equals(mut self, equals: EqualsSpacing) -> Self {
        self.equals = equals;
        self
    }
    /// Whether it is an operand with a word.
    pub fn is_named_operand(&self) -> bool {
        self.word.is_some() && self.key.is_none() && !self.result
    }
    /// Returns true for an operand or a result with a word that may be left out. An op lists those that it has
    /// ([`AttrKey::Given`]), since the numbers of its operands and results do not determine them.
    pub fn is_optional_value(&self) -> bool {
        self.word.is_some() && self.key.is_none() && self.presence == ArgPresence::Optional
    }
    /// The name of the argument in messages: its word, else its attribute, else "operand".
    pub fn display_name(&self) -> &'static str {
        self.own_name().unwrap_or("operand")
    }
    /// The word of the argument, else its attribute; operands have neither.
    pub fn own_name(&self) -> Option<&'static str> {
        self.word.or_else(|| Some(self.key?.word()))
    }
}

/// The lowering of an op to instructions of a rank's plan.
#[derive(Clone, Copy)]
pub enum Lower {
    /// The function appends its instructions.
    Instructions(fn(&mut PlanBuilder<'_>, OpId) -> Result<(), Diag>),
    /// The function appends its instructions, some of which read or write where an index says that the op computes: the
    /// fault of an index that is out of range.
    Indexed(fn(&mut PlanBuilder<'_>, OpId) -> Result<(), Diag>, ComputedIndexFault),
    /// The driver of the lowering runs its block once for each index.
    Loop,
    /// The driver runs one of its blocks.
    Branch,
    /// The driver runs the body of the HostUnit that it names.
    Post,
    /// The driver launches a kernel of the user, with the body of the HostUnit that is its reference, if it has one.
    Launch,
    /// It cannot run.
    Unsupported,
}

/// The inference of the types of an op's results, for texts that leave them out. The results themselves do not count.
#[derive(Clone, Copy)]
pub enum Infer {
    /// The text has to say them.
    Written,
    /// The function gives the type of the only result; its third argument has the tensor operands, at least one. It is
    /// asked only if all of these are stored as their types say.
    Result(fn(&Program, &Op, &[TensorId]) -> Option<TensorType>),
    /// The function gives the types of all results.
    Results(fn(&Program, &Op) -> Option<TypeList>),
}

/// A check of one op.
pub type OpCheck = fn(&Program, OpId, &mut Diags);

/// The repair of an op whose tensors have other extents than it needs: what to write in `hir 2`. `None` if it is none that
/// only this op has.
pub type ExtentRepair = fn(&Program, OpId) -> Option<Message>;

/// A head word, and a function that returns true if a style uses it.
pub type HeadSpelling = (&'static str, fn(&Style) -> bool);

/// One row of the op table.
pub struct OpSpec {
    /// Name, layout, effect and the other facts that need no function.
    pub identity: OpIdentity,
    /// Other head words, each with the styles that use it.
    pub spellings: &'static [HeadSpelling],
    /// One sentence.
    pub summary: &'static str,
    /// Arguments in written order.
    pub args: &'static [ArgSpec],
    /// Links its axes and says what cannot match.
    pub relate: Option<LinkFn>,
    /// Infers the types of its results.
    pub infer: Infer,
    /// Checks beyond the generic ones and those of `relate`.
    pub checks: &'static [OpCheck],
    /// The repair of unequal extents, if a mistake is usual with it.
    pub repair: Option<ExtentRepair>,
    /// Appends its instructions to a rank's plan.
    pub lower: Lower,
}

impl OpSpec {
    /// The defaults of a row, for ops outside of this crate: they need not name the fields that they do not use.
    pub const TENSOR_OP: OpSpec = OpSpec {
        identity: OpIdentity::TENSOR_OP,
        spellings: &[],
        summary: "",
        args: &[],
        relate: None,
        infer: Infer::Written,
        checks: &[],
        repair: None,
        lower: Lower::Unsupported,
    };

    /// Appends the axis links of an op: which axes of operands and results correspond. Axes that cannot match are not
    /// linked; [`OpSpec::verify`] reports them.
    pub fn axes(&self, program: &Program, op: OpId, links: &mut Vec<AxisLink>) {
        if let Some(relate) = self.relate {
            let _reported_by_verify = relate(program, op, links);
        }
    }
    /// Reports what an op violates beyond the generic checks.
    pub fn verify(&self, program: &Program, op: OpId, diags: &mut Diags) {
        self.verify_links(program, op, &mut Vec::new(), diags);
    }
    /// Like [`OpSpec::verify`]; also appends the op's axis links, as [`OpSpec::axes`] does, to an empty list.
    pub(crate) fn verify_links(&self, program: &Program, op: OpId, links: &mut Vec<AxisLink>, diags: &mut Diags) {
        if let Some(relate) = self.relate {
            tensor_checks::check_links(program, op, links, diags, relate);
        }
        for check in self.checks {
            check(program, op, diags);
        }
    }
    /// Returns true if an op has the operand or the result for the argument at an index of the table. True for all
    /// arguments except operands and results with a word that may be left out.
    pub fn has_named_value(&self, op: &Op, place: usize) -> bool {
        let optional = self.args.get(place).is_some_and(ArgSpec::is_optional_value);
        !optional || op.ints_attr(AttrKey::Given).is_some_and(|given| given.contains(&(place as i64)))
    }
    /// Lists in an op the operands and results with a word that it has, among those that it may lack.
    pub fn list_given(&self, op: &mut Op, has: impl Fn(usize) -> bool) {
        let given = (0..self.args.len()).filter(|&place| self.args[place].is_optional_value() && has(place));
        let given: Box<[i64]> = given.map(|place| place as i64).collect();
        if !given.is_empty() {
            op.attrs.push((AttrKey::Given, AttrValue::Ints(given)));
        }
    }
    /// The operand with a word, if an op has it. No operand of such an op is repeated.
    pub fn named_operand(&self, op: &Op, word: &str) -> Option<Value> {
        op.operands.get(self.named_place(op, word, false)?).copied()
    }
    /// The result with a word, if an op has it.
    pub fn named_result(&self, op: &Op, word: &str) -> Option<Value> {
        op.results.get(self.named_place(op, word, true)?).copied()
    }
    /// The place of the value with a word among an op's operands, or among its results.
    fn named_place(&self, op: &Op, word: &str, of_results: bool) -> Option<usize> {
        let values = self.args.iter().enumerate().filter(|(_, arg)| arg.key.is_none() && arg.result == of_results);
        let mut present = values.filter(|(place, _)| self.has_named_value(op, *place));
        present.position(|(_, arg)| arg.word == Some(word))
    }
    /// Whether some argument has this word.
    pub fn has_argument(&self, word: &str) -> bool {
        self.args.iter().any(|arg| arg.word == Some(word))
    }
    /// The head word in a style.
    pub fn head_word(&self, style: &Style) -> &'static str {
        self.spellings.iter().find(|(_, applies)| applies(style)).map_or(self.identity.name, |(name, _)| name)
    }
}
