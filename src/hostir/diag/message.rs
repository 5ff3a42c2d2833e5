//! Messages as data: a sentence, and the typed parts of it that name something.
//!
//! [`message!`](crate::message) makes a sentence of a template and its parts. A part that the printed form and `hir 2`
//! spell differently has both spellings; [`Message::in_notation`] chooses one when the file is known. Whoever needs a part
//! of a message asks for its kind, and never reads the sentence.

use std::borrow::{Borrow, Cow};
use std::fmt;
use std::hash::{Hash, Hasher};
use std::ops::Deref;

/// The notation of a text.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Notation {
    /// The form that nvFuser prints.
    Printed,
    /// `hir 2`.
    Hir2,
}

/// The subject of a part of a message.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum PartKind {
    /// A statement of the program: `T6 = matmul`.
    Statement,
    /// An op or a kind of op: `matmul`, `ALLOCATE`.
    Op,
    /// A tensor.
    Tensor,
    /// An axis of a tensor: `iS0{4}`.
    Axis,
    /// A scalar, an index or an expression.
    Scalar,
    /// A number: a size, a count, a rank.
    Number,
    /// An element type.
    Type,
    /// A device mesh.
    Mesh,
    /// Devices or ranks: `(0 1)`.
    Team,
    /// A stream.
    Stream,
    /// A communication or a group that a Wait can name.
    Handle,
    /// The library of a communication: `backend=NCCL`.
    Communicator,
    /// A word of the language: an argument or a value of one.
    Word,
    /// An option of a run in the words of `hir-run`, with its value: `--set n=8`.
    RunOption(RunOption),
    /// Advice that each notation gives in its own words.
    Advice,
}

/// The options of a run that messages propose. Interfaces other than `hir-run`'s say them in their own words
/// ([`Message::map_parts`]).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum RunOption {
    /// `--set n=8`: the value of a size.
    Set,
    /// `--shape T0=4x8`: the shape of a tensor.
    Shape,
    /// ``or `--shape T0=4x8` ``: the same as another way to set a size, with its conjunction and backquotes.
    ShapeInstead,
    /// `--devices 4`: the number of ranks.
    Devices,
    /// `--timeout-ms=N`: the time limit.
    TimeLimit,
    /// ``raise it with `--plan-memory=SIZE` ``: the limit of a plan's memory, as a clause.
    PlanMemory,
}

impl PartKind {
    /// The word for it in JSON.
    pub fn word(self) -> &'static str {
        match self {
            Self::Statement => "statement",
            Self::Op => "op",
            Self::Tensor => "tensor",
            Self::Axis => "axis",
            Self::Scalar => "scalar",
            Self::Number => "number",
            Self::Type => "type",
            Self::Mesh => "mesh",
            Self::Team => "team",
            Self::Stream => "stream",
            Self::Handle => "handle",
            Self::Communicator => "communicator",
            Self::Word => "word",
            Self::RunOption(_) => "run_option",
            Self::Advice => "advice",
        }
    }
    /// A name of this kind, as the text of the user spells it.
    pub fn quote(self, text: impl Into<String>) -> Quoted {
        Quoted::new(self, text.into())
    }
}

/// Something that a message names, in the spelling of each notation.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Quoted {
    kind: PartKind,
    printed: Cow<'static, str>,
    /// `None` if `hir 2` has the same spelling.
    hir2: Option<Cow<'static, str>>,
}

impl Quoted {
    /// A name that both notations spell alike.
    pub fn new(kind: PartKind, text: impl Into<Cow<'static, str>>) -> Self {
        Self { kind, printed: text.into(), hir2: None }
    }
    /// A name with a spelling for each notation.
    pub fn spelled(kind: PartKind, printed: impl Into<Cow<'static, str>>, hir2: impl Into<Cow<'static, str>>) -> Self {
        Self { kind, printed: printed.into(), hir2: Some(hir2.into()) }
    }
    /// An option of a run, in the words of `hir-run`.
    pub fn run_option(option: RunOption, text: impl Into<Cow<'static, str>>) -> Self {
        Self::new(PartKind::RunOption(option), text)
    }
    /// `--set n=8`.
    pub fn set_option(name: &str, value: impl fmt::Display) -> Self {
        Self::run_option(RunOption::Set, format!("--set {name}={value}"))
    }
    /// The spelling of the printed form.
    pub fn printed(&self) -> &str {
        &self.printed
    }
    /// The spelling of `hir 2`.
    pub fn hir2_text(&self) -> &str {
        self.hir2.as_deref().unwrap_or(&self.printed)
    }
    /// The same in backquotes, in both notations.
    pub fn in_backquotes(&self) -> Self {
        let printed = format!("`{}`", self.printed).into();
        Self { kind: self.kind, printed, hir2: self.hir2.as_ref().map(|hir2| format!("`{hir2}`").into()) }
    }
}

/// A typed part of a message.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct MessagePart {
    /// The subject.
    pub kind: PartKind,
    /// The first byte of its text.
    pub start: usize,
    /// The end of its text.
    pub end: usize,
    /// The spelling of `hir 2`, where it is another one.
    hir2: Option<Box<str>>,
}

/// A sentence with its typed parts. Messages are equal if their texts are: the parts say what the text names.
#[derive(Clone, Default)]
pub struct Message {
    text: Box<str>,
    /// In the order of the text, without overlaps; `None` if there are none.
    parts: Option<Box<PartList>>,
}

/// The parts of a message.
#[derive(Clone)]
struct PartList(Vec<MessagePart>);

impl Message {
    /// A sentence of a template; each `{}` is one of the arguments, in order. [`message!`](crate::message) checks their
    /// number.
    pub fn from_template(template: &str, arguments: &[&dyn MessageArgument]) -> Self {
        let mut builder = MessageBuilder::default();
        let mut arguments = arguments.iter();
        let mut rest = template;
        while let Some(at) = rest.find(['{', '}']) {
            builder.text.push_str(&rest[..at]);
            let argument = if rest[at..].starts_with("{}") { arguments.next() } else { None };
            match argument {
                Some(argument) => argument.push_to(&mut builder),
                // A doubled brace stands for one.
                None => builder.text.push_str(&rest[at..=at]),
            }
            rest = rest.get(at + 2..).unwrap_or_default();
        }
        builder.text.push_str(rest);
        builder.finish()
    }
    /// A sentence that each notation says in its own words.
    pub fn advice(printed: impl Into<Cow<'static, str>>, hir2: impl Into<Cow<'static, str>>) -> Self {
        Self::from(Quoted::spelled(PartKind::Advice, printed, hir2))
    }
    /// Several messages as one, with a text between each two.
    pub fn join<'m>(messages: impl IntoIterator<Item = &'m Message>, separator: &str) -> Self {
        let mut builder = MessageBuilder::default();
        for (number, message) in messages.into_iter().enumerate() {
            if number > 0 {
                builder.text.push_str(separator);
            }
            message.push_to(&mut builder);
        }
        builder.finish()
    }
    /// The text.
    pub fn as_str(&self) -> &str {
        &self.text
    }
    /// The typed parts, in the order of the text.
    pub fn parts(&self) -> &[MessagePart] {
        self.parts.as_ref().map_or(&[], |parts| &parts.0)
    }
    /// The texts of the parts of a kind.
    pub fn texts_of(&self, kind: PartKind) -> impl Iterator<Item = &str> {
        self.parts().iter().filter(move |part| part.kind == kind).map(|part| &self.text[part.start..part.end])
    }
    /// The message in the words of a notation: every message is made in those of the printed form.
    pub fn in_notation(&self, notation: Notation) -> Message {
        match notation {
            Notation::Printed => self.clone(),
            Notation::Hir2 => self.map_parts(|part, _| part.hir2.as_deref().map(str::to_owned)),
        }
    }
    /// The message with other texts for some of its parts.
    pub fn map_parts(&self, mut replace: impl FnMut(&MessagePart, &str) -> Option<String>) -> Message {
        let mut builder = MessageBuilder::default();
        let mut done = 0;
        for part in self.parts() {
            builder.text.push_str(&self.text[done..part.start]);
            let text = &self.text[part.start..part.end];
            match replace(part, text) {
                Some(other) => builder.push_part(part.kind, &other, None),
                None => builder.push_part(part.kind, text, part.hir2.as_deref()),
            }
            done = part.end;
        }
        builder.text.push_str(&self.text[done..]);
        builder.finish()
    }
}

/// A message in the making.
#[derive(Default)]
pub struct MessageBuilder {
    text: String,
    parts: Vec<MessagePart>,
}

impl MessageBuilder {
    fn push_part(&mut self, kind: PartKind, text: &str, hir2: Option<&str>) {
        let start = self.text.len();
        self.text.push_str(text);
        self.parts.push(MessagePart { kind, start, end: self.text.len(), hir2: hir2.map(Box::from) });
    }

    fn finish(self) -> Message {
        let parts = (!self.parts.is_empty()).then(|| Box::new(PartList(self.parts)));
        Message { text: self.text.into(), parts }
    }
}

/// A value that can stand in a message.
pub trait MessageArgument {
    /// Adds it at the end.
    fn push_to(&self, builder: &mut MessageBuilder);
}

impl<T: MessageArgument + ?Sized> MessageArgument for &T {
    fn push_to(&self, builder: &mut MessageBuilder) {
        (**self).push_to(builder);
    }
}

impl<T: MessageArgument + ?Sized> MessageArgument for std::rc::Rc<T> {
    fn push_to(&self, builder: &mut MessageBuilder) {
        (**self).push_to(builder);
    }
}

impl MessageArgument for Quoted {
    fn push_to(&self, builder: &mut MessageBuilder) {
        builder.push_part(self.kind, &self.printed, self.hir2.as_deref());
    }
}

impl MessageArgument for Message {
    fn push_to(&self, builder: &mut MessageBuilder) {
        let before = builder.text.len();
        builder.text.push_str(&self.text);
        let moved = self.parts().iter().map(|part| MessagePart {
            start: before + part.start,
            end: before + part.end,
            ..part.clone()
        });
        builder.parts.extend(moved);
    }
}

macro_rules! plain_arguments {
    ($($type:ty),*) => {
        $(impl MessageArgument for $type {
            fn push_to(&self, builder: &mut MessageBuilder) {
                builder.text.push_str(self);
            }
        })*
    };
}

plain_arguments!(str, String, Box<str>, Cow<'_, str>);

macro_rules! number_arguments {
    ($($type:ty),*) => {
        $(impl MessageArgument for $type {
            fn push_to(&self, builder: &mut MessageBuilder) {
                builder.push_part(PartKind::Number, &self.to_string(), None);
            }
        })*
    };
}

number_arguments!(f32, f64, i32, i64, u8, u16, u32, u64, u128, usize);

macro_rules! displayed_arguments {
    ($($type:ty),*) => {
        $(impl MessageArgument for $type {
            fn push_to(&self, builder: &mut MessageBuilder) {
                builder.text.push_str(&self.to_string());
            }
        })*
    };
}

displayed_arguments!(bool, char, std::io::Error, std::path::Display<'_>);

impl Deref for Message {
    type Target = str;
    fn deref(&self) -> &str {
        &self.text
    }
}

impl fmt::Display for Message {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.text)
    }
}

impl fmt::Debug for Message {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.text, f)
    }
}

impl From<Quoted> for Message {
    fn from(quoted: Quoted) -> Self {
        let mut builder = MessageBuilder::default();
        quoted.push_to(&mut builder);
        builder.finish()
    }
}

macro_rules! plain_messages {
    ($($type:ty),*) => {
        $(impl From<$type> for Message {
            fn from(text: $type) -> Self {
                Self { text: text.into(), parts: None }
            }
        })*
    };
}

plain_messages!(&str, String, Box<str>, Cow<'_, str>);

impl From<&String> for Message {
    fn from(text: &String) -> Self {
        Self::from(text.as_str())
    }
}

impl From<Message> for String {
    fn from(message: Message) -> Self {
        message.text.into()
    }
}

impl PartialEq for Message {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl Eq for Message {}

impl Hash for Message {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.text.hash(state);
    }
}

impl Borrow<str> for Message {
    fn borrow(&self) -> &str {
        &self.text
    }
}

impl PartialEq<str> for Message {
    fn eq(&self, other: &str) -> bool {
        &*self.text == other
    }
}

impl PartialEq<&str> for Message {
    fn eq(&self, other: &&str) -> bool {
        &*self.text == *other
    }
}

impl PartialEq<String> for Message {
    fn eq(&self, other: &String) -> bool {
        &*self.text == other.as_str()
    }
}

/// The number of arguments that a template needs; no number can be right if a brace stands alone.
pub const fn count_places(template: &str) -> usize {
    let bytes = template.as_bytes();
    let (mut at, mut count) = (0, 0);
    while at + 1 < bytes.len() {
        match (bytes[at], bytes[at + 1]) {
            (b'{', b'}') => count += 1,
            (b'{', b'{') | (b'}', b'}') => {}
            (b'{' | b'}', _) => return usize::MAX,
            _ => {
                at += 1;
                continue;
            }
        }
        at += 2;
    }
    count
}

/// A [`Message`] of a template and its arguments, as `format!` makes a text. Arguments are texts, numbers,
/// [`Quoted`] names and other messages.
///
/// ```
/// use hostir::diag::{Notation, PartKind, Quoted, message};
///
/// let alloc = Quoted::spelled(PartKind::Op, "ALLOCATE", "alloc");
/// let said = message!("`{}` of `{}` has no size", alloc, "A");
/// assert_eq!(said, "`ALLOCATE` of `A` has no size");
/// assert_eq!(said.in_notation(Notation::Hir2), "`alloc` of `A` has no size");
/// ```
#[macro_export]
macro_rules! message {
    (@one $argument:expr) => { () };
    ($template:literal $(, $argument:expr)* $(,)?) => {{
        const {
            let given: &[()] = &[$($crate::diag::message!(@one $argument)),*];
            assert!($crate::diag::message::count_places($template) == given.len(), "each place of a template needs one argument");
        }
        $crate::diag::Message::from_template($template, &[$(&$argument as &dyn $crate::diag::MessageArgument),*])
    }};
}

pub use message;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_keep_their_places() {
        let inner = message!("on {}", Quoted::new(PartKind::Mesh, "d"));
        let said =
            message!("{{{}}} is {}, {} of {}", Quoted::spelled(PartKind::Type, "float", "f32"), inner, 2_usize, "4");
        assert_eq!(said, "{float} is on d, 2 of 4");
        let parts: Vec<_> = said.parts().iter().map(|part| (part.kind.word(), &said[part.start..part.end])).collect();
        assert_eq!(parts, [("type", "float"), ("mesh", "d"), ("number", "2")]);
        assert_eq!(said.in_notation(Notation::Hir2), "{f32} is on d, 2 of 4");
        assert_eq!(said.texts_of(PartKind::Mesh).collect::<Vec<_>>(), ["d"]);
        assert_eq!(Message::join(&[inner.clone(), "x".into()], ", "), "on d, x");
        assert_eq!(inner.in_notation(Notation::Hir2), inner);
    }
}
