//! Extended regular expressions of POSIX, parsed as LLVM's library does: by Henry Spencer's rules, byte by byte.
//!
//! A complement set and `.` match no line break, `^` and `$` match at each line. The texts of errors are LLVM's.

use super::bracket::parse_bracket;
use super::byte_set::ByteSet;

/// The largest count that a `{m,n}` repetition may name.
const REPEAT_LIMIT: u32 = 255;

/// The deepest nesting of groups.
const DEPTH_LIMIT: usize = 100;

/// The most nodes of an expression in which back-references are replaced by copies of their groups.
const COPY_LIMIT: usize = 10_000;

/// A parsed expression.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Node {
    /// One of a set of bytes.
    Byte(ByteSet),
    /// A place, without a byte.
    Assertion(Assertion),
    /// A group, by its number from one.
    Group(usize, Box<Node>),
    /// One after the other; empty for the empty text.
    Sequence(Vec<Node>),
    /// One of several.
    Alternation(Vec<Node>),
    /// A number of times.
    Repeat(Box<Node>, Repetition),
    /// The text of a group that ended before.
    BackReference(usize),
}

/// A place in a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Assertion {
    /// `^`
    LineStart,
    /// `$`
    LineEnd,
    /// `[[:<:]]`
    WordStart,
    /// `[[:>:]]`
    WordEnd,
}

/// The number of repetitions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Repetition {
    /// At least.
    pub(crate) low: u32,
    /// At most.
    pub(crate) high: Option<u32>,
}

/// A parsed expression with what is known of it as a whole.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Syntax {
    /// The whole.
    pub(crate) root: Node,
    /// The number of groups.
    pub(crate) groups: usize,
    /// True if a back-reference occurs.
    pub(crate) has_back_reference: bool,
}

impl Node {
    /// True if a group is part of this.
    pub(crate) fn has_group(&self) -> bool {
        match self {
            Node::Group(..) => true,
            Node::Sequence(parts) | Node::Alternation(parts) => parts.iter().any(Node::has_group),
            Node::Repeat(body, _) => body.has_group(),
            Node::Byte(_) | Node::Assertion(_) | Node::BackReference(_) => false,
        }
    }

    fn group_body(&self, number: usize) -> Option<&Node> {
        match self {
            Node::Group(own, body) if *own == number => Some(body),
            Node::Group(_, body) | Node::Repeat(body, _) => body.group_body(number),
            Node::Sequence(parts) | Node::Alternation(parts) => parts.iter().find_map(|part| part.group_body(number)),
            Node::Byte(_) | Node::Assertion(_) | Node::BackReference(_) => None,
        }
    }
}

impl Syntax {
    /// The expression with a copy of its group for each back-reference. It matches all that the expression matches.
    ///
    /// # Errors
    /// An expression that gets too large.
    pub(crate) fn without_back_references(&self) -> Result<Node, String> {
        let mut left = COPY_LIMIT;
        self.copy_node(&self.root, &mut left)
    }

    fn copy_node(&self, node: &Node, left: &mut usize) -> Result<Node, String> {
        *left = left.checked_sub(1).ok_or("the regular expression is too large")?;
        Ok(match node {
            Node::Byte(_) | Node::Assertion(_) => node.clone(),
            Node::Group(number, body) => Node::Group(*number, Box::new(self.copy_node(body, left)?)),
            Node::Sequence(parts) => Node::Sequence(self.copy_nodes(parts, left)?),
            Node::Alternation(parts) => Node::Alternation(self.copy_nodes(parts, left)?),
            Node::Repeat(body, times) => Node::Repeat(Box::new(self.copy_node(body, left)?), *times),
            Node::BackReference(number) => match self.root.group_body(*number) {
                Some(body) => self.copy_node(body, left)?,
                None => Node::Sequence(Vec::new()),
            },
        })
    }

    fn copy_nodes(&self, nodes: &[Node], left: &mut usize) -> Result<Vec<Node>, String> {
        nodes.iter().map(|node| self.copy_node(node, left)).collect()
    }
}

/// Parses an expression; with `ignore_case` letters match in both cases.
///
/// # Errors
/// A description of the first place that is not well formed.
pub(crate) fn parse_expression(text: &[u8], ignore_case: bool) -> Result<Syntax, String> {
    let mut parser =
        ExpressionParser { rest: text, ignore_case, closed: vec![true], depth: 0, has_back_reference: false };
    let root = parser.parse_alternation()?;
    if !parser.rest.is_empty() {
        return Err(UNBALANCED.to_owned());
    }
    Ok(Syntax { root, groups: parser.closed.len() - 1, has_back_reference: parser.has_back_reference })
}

const UNBALANCED: &str = "parentheses not balanced";
const NOT_REPEATABLE: &str = "repetition-operator operand invalid";
const BAD_COUNT: &str = "invalid repetition count(s)";

/// Reads an expression from its start to its end.
pub(crate) struct ExpressionParser<'a> {
    /// The text that is not read yet.
    pub(crate) rest: &'a [u8],
    /// True if letters match in both cases.
    pub(crate) ignore_case: bool,
    /// True if each group has ended, by number; the whole is group zero.
    closed: Vec<bool>,
    depth: usize,
    has_back_reference: bool,
}

impl ExpressionParser<'_> {
    /// The next byte.
    pub(crate) fn peek(&self) -> Option<u8> {
        self.rest.first().copied()
    }

    /// Takes the next byte.
    pub(crate) fn next_byte(&mut self) -> Option<u8> {
        let (&first, rest) = self.rest.split_first()?;
        self.rest = rest;
        Some(first)
    }

    /// Takes `text` if it is next.
    pub(crate) fn take_text(&mut self, text: &[u8]) -> bool {
        let after = self.rest.strip_prefix(text);
        self.rest = after.unwrap_or(self.rest);
        after.is_some()
    }

    /// Branches up to the `)` of the open group, or to the end.
    fn parse_alternation(&mut self) -> Result<Node, String> {
        let mut branches = Vec::new();
        loop {
            branches.push(self.parse_branch()?);
            if !self.take_text(b"|") {
                break;
            }
        }
        Ok(if branches.len() == 1 { branches.remove(0) } else { Node::Alternation(branches) })
    }

    fn parse_branch(&mut self) -> Result<Node, String> {
        let mut parts = Vec::new();
        while let Some(next) = self.peek() {
            if next == b'|' || next == b')' && self.depth > 0 {
                break;
            }
            parts.push(self.parse_piece()?);
        }
        if parts.is_empty() {
            return Err("empty (sub)expression".to_owned());
        }
        Ok(if parts.len() == 1 { parts.remove(0) } else { Node::Sequence(parts) })
    }

    /// An atom and its repetition.
    fn parse_piece(&mut self) -> Result<Node, String> {
        let atom = self.parse_atom()?;
        if !self.is_repetition_next() {
            return Ok(atom);
        }
        if atom == Node::Assertion(Assertion::LineStart) {
            return Err(NOT_REPEATABLE.to_owned());
        }
        let times = match self.next_byte() {
            Some(b'*') => Repetition { low: 0, high: None },
            Some(b'+') => Repetition { low: 1, high: None },
            Some(b'?') => Repetition { low: 0, high: Some(1) },
            _ => self.parse_counts()?,
        };
        if self.is_repetition_next() {
            return Err(NOT_REPEATABLE.to_owned());
        }
        Ok(Node::Repeat(Box::new(atom), times))
    }

    fn is_repetition_next(&self) -> bool {
        match self.rest {
            [b'*' | b'+' | b'?', ..] => true,
            [b'{', digit, ..] => digit.is_ascii_digit(),
            _ => false,
        }
    }

    fn parse_atom(&mut self) -> Result<Node, String> {
        Ok(match self.next_byte().ok_or(NOT_REPEATABLE)? {
            b'(' => return self.parse_group(),
            b')' => return Err(UNBALANCED.to_owned()),
            b'*' | b'+' | b'?' => return Err(NOT_REPEATABLE.to_owned()),
            b'{' if self.peek().is_some_and(|next| next.is_ascii_digit()) => return Err(NOT_REPEATABLE.to_owned()),
            b'^' => Node::Assertion(Assertion::LineStart),
            b'$' => Node::Assertion(Assertion::LineEnd),
            b'.' => Node::Byte(ByteSet::single(b'\n').complement()),
            b'[' => return parse_bracket(self),
            b'\\' => return self.parse_escape(),
            other => self.literal_node(other),
        })
    }

    fn literal_node(&self, byte: u8) -> Node {
        let set = ByteSet::single(byte);
        Node::Byte(if self.ignore_case { set.with_both_cases() } else { set })
    }

    fn parse_group(&mut self) -> Result<Node, String> {
        let number = self.closed.len();
        self.closed.push(false);
        self.depth += 1;
        if self.depth > DEPTH_LIMIT {
            return Err(format!("groups are nested more than {DEPTH_LIMIT} deep"));
        }
        if self.rest.is_empty() {
            return Err(UNBALANCED.to_owned());
        }
        let body = if self.peek() == Some(b')') { Node::Sequence(Vec::new()) } else { self.parse_alternation()? };
        self.depth -= 1;
        if !self.take_text(b")") {
            return Err(UNBALANCED.to_owned());
        }
        self.closed[number] = true;
        Ok(Node::Group(number, Box::new(body)))
    }

    /// Parses the text after a backslash: `\1` to `\9`, `\g{12}`, or a byte that stands for itself.
    fn parse_escape(&mut self) -> Result<Node, String> {
        let escaped = self.next_byte().ok_or("trailing backslash (\\)")?;
        let number = match escaped {
            b'1'..=b'9' => usize::from(escaped - b'0'),
            b'g' if self.rest.starts_with(b"{") => self.parse_group_number()?,
            _ => return Ok(self.literal_node(escaped)),
        };
        if number == 0 || self.closed.get(number) != Some(&true) {
            return Err("invalid backreference number".to_owned());
        }
        self.has_back_reference = true;
        Ok(Node::BackReference(number))
    }

    fn parse_group_number(&mut self) -> Result<usize, String> {
        self.next_byte();
        let mut number = 0;
        while let Some(digit @ b'0'..=b'9') = self.peek() {
            self.next_byte();
            number = (number * 10 + usize::from(digit - b'0')).min(1_000);
        }
        if self.take_text(b"}") { Ok(number) } else { Err("braces not balanced".to_owned()) }
    }

    /// Reads the rest of `{m}`, `{m,}` or `{m,n}`.
    fn parse_counts(&mut self) -> Result<Repetition, String> {
        let low = self.parse_count()?;
        let high = match self.take_text(b",") {
            false => Some(low),
            true if self.peek().is_some_and(|next| next.is_ascii_digit()) => Some(self.parse_count()?),
            true => None,
        };
        if high.is_some_and(|high| high < low) {
            return Err(BAD_COUNT.to_owned());
        }
        if self.take_text(b"}") {
            return Ok(Repetition { low, high });
        }
        let closes = self.rest.contains(&b'}');
        Err(if closes { BAD_COUNT } else { "braces not balanced" }.to_owned())
    }

    fn parse_count(&mut self) -> Result<u32, String> {
        let mut count = 0;
        while let Some(digit @ b'0'..=b'9') = self.peek() {
            self.next_byte();
            count = count * 10 + u32::from(digit - b'0');
            if count > REPEAT_LIMIT {
                return Err(BAD_COUNT.to_owned());
            }
        }
        Ok(count)
    }
}
