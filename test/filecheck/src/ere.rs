//! POSIX extended regular expressions as LLVM's `Regex` reads them: a parser to a small tree.
//!
//! Only what that dialect has is accepted: no `\d`, no lazy repetition, no look-around. An
//! escaped character other than a digit from 1 to 9 stands for itself.

/// Index of a [`Node`] in its [`Ere`].
pub(crate) type NodeId = usize;

/// The largest count that a `{m,n}` repetition may name.
const REPEAT_LIMIT: u32 = 255;

/// One node of a parsed expression.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Node {
    /// Matches the empty string.
    Empty,
    /// One character.
    Char(char),
    /// `.`: anything but a newline.
    Any,
    /// A bracket expression.
    Set(CharSet),
    /// `^`: the start of the text or of a line.
    LineStart,
    /// `$`: the end of the text or of a line.
    LineEnd,
    /// `[[:<:]]`: the start of a word.
    WordStart,
    /// `[[:>:]]`: the end of a word.
    WordEnd,
    /// A parenthesised group and its number.
    Group(usize, NodeId),
    /// One after the other.
    Concat(Vec<NodeId>),
    /// Any of these.
    Alternation(Vec<NodeId>),
    /// At least so many times, and at most so many.
    Repeat(NodeId, u32, Option<u32>),
    /// The text of an earlier group again.
    BackReference(usize),
}

/// The characters that a bracket expression accepts.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct CharSet {
    /// Inclusive ranges, in source order.
    pub(crate) ranges: Vec<(char, char)>,
    /// Whether the set is the complement of the ranges (and then without the newline).
    pub(crate) negated: bool,
}

impl CharSet {
    /// Whether `c` is in the set; a complement never holds the newline.
    pub(crate) fn contains(&self, c: char, ignore_case: bool) -> bool {
        if self.negated && c == '\n' {
            return false;
        }
        let listed = |c: char| self.ranges.iter().any(|&(low, high)| low <= c && c <= high);
        let found = listed(c)
            || (ignore_case && (listed(c.to_ascii_lowercase()) || listed(c.to_ascii_uppercase())));
        found != self.negated
    }
}

/// A parsed expression.
#[derive(Debug, Clone)]
pub(crate) struct Ere {
    /// All nodes; children come before their parents.
    pub(crate) nodes: Vec<Node>,
    /// The whole expression.
    pub(crate) root: NodeId,
    /// How many groups it has.
    pub(crate) groups: usize,
}

/// Escapes `text` so that, as an expression, it matches itself.
pub(crate) fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        if "()^$|*+?.[]\\{}".contains(c) {
            escaped.push('\\');
        }
        escaped.push(c);
    }
    escaped
}

impl Ere {
    /// Parses `text`; the error is a short description of what is wrong.
    pub(crate) fn parse(text: &str) -> Result<Ere, &'static str> {
        let mut parser = Parser {
            chars: text.chars().collect(),
            at: 0,
            depth: 0,
            groups: 0,
            closed: Vec::new(),
            nodes: Vec::new(),
        };
        let root = parser.alternation()?;
        if parser.at < parser.chars.len() {
            return Err("parentheses not balanced");
        }
        Ok(Ere { nodes: parser.nodes, root, groups: parser.groups })
    }
}

/// Nesting beyond this is refused rather than risking the stack.
const DEPTH_LIMIT: usize = 200;

struct Parser {
    chars: Vec<char>,
    at: usize,
    depth: usize,
    groups: usize,
    closed: Vec<usize>,
    nodes: Vec<Node>,
}

impl Parser {
    fn peek(&self) -> Option<char> {
        self.chars.get(self.at).copied()
    }

    fn peek_second(&self) -> Option<char> {
        self.chars.get(self.at + 1).copied()
    }

    fn eat(&mut self, c: char) -> bool {
        let found = self.peek() == Some(c);
        self.at += usize::from(found);
        found
    }

    fn starts_with(&self, text: &str) -> bool {
        text.chars().enumerate().all(|(i, c)| self.chars.get(self.at + i) == Some(&c))
    }

    fn add(&mut self, node: Node) -> NodeId {
        self.nodes.push(node);
        self.nodes.len() - 1
    }

    fn alternation(&mut self) -> Result<NodeId, &'static str> {
        let mut branches = vec![self.branch()?];
        while self.eat('|') {
            branches.push(self.branch()?);
        }
        match branches.as_slice() {
            &[only] => Ok(only),
            _ => Ok(self.add(Node::Alternation(branches))),
        }
    }

    fn branch(&mut self) -> Result<NodeId, &'static str> {
        let mut pieces = Vec::new();
        while let Some(c) = self.peek() {
            if c == '|' || (c == ')' && self.depth > 0) {
                break;
            }
            pieces.push(self.piece()?);
        }
        match pieces.as_slice() {
            [] => Err("empty (sub)expression"),
            &[only] => Ok(only),
            _ => Ok(self.add(Node::Concat(pieces))),
        }
    }

    fn at_repetition(&self) -> bool {
        match self.peek() {
            Some('*' | '+' | '?') => true,
            Some('{') => self.peek_second().is_some_and(|c| c.is_ascii_digit()),
            _ => false,
        }
    }

    fn piece(&mut self) -> Result<NodeId, &'static str> {
        let atom = self.atom()?;
        if !self.at_repetition() {
            return Ok(atom);
        }
        if self.nodes[atom] == Node::LineStart {
            return Err("repetition-operator operand invalid");
        }
        let (low, high) = self.bounds()?;
        if self.at_repetition() {
            return Err("repetition-operator operand invalid");
        }
        Ok(self.add(Node::Repeat(atom, low, high)))
    }

    fn bounds(&mut self) -> Result<(u32, Option<u32>), &'static str> {
        let operator = self.peek();
        self.at += 1;
        match operator {
            Some('*') => return Ok((0, None)),
            Some('+') => return Ok((1, None)),
            Some('?') => return Ok((0, Some(1))),
            _ => {}
        }
        let low = self.count()?;
        let high = if !self.eat(',') {
            Some(low)
        } else if self.peek().is_some_and(|c| c.is_ascii_digit()) {
            Some(self.count()?)
        } else {
            None
        };
        if high.is_some_and(|high| high < low) {
            return Err("invalid repetition count(s)");
        }
        if self.eat('}') {
            return Ok((low, high));
        }
        let closed = self.chars[self.at..].contains(&'}');
        Err(if closed { "invalid repetition count(s)" } else { "braces not balanced" })
    }

    fn count(&mut self) -> Result<u32, &'static str> {
        let mut value = 0u32;
        while let Some(digit) = self.peek().and_then(|c| c.to_digit(10)) {
            value = value * 10 + digit;
            if value > REPEAT_LIMIT {
                return Err("invalid repetition count(s)");
            }
            self.at += 1;
        }
        Ok(value)
    }

    fn atom(&mut self) -> Result<NodeId, &'static str> {
        let Some(c) = self.peek() else { return Err("empty (sub)expression") };
        self.at += 1;
        let node = match c {
            '(' => return self.group(),
            ')' => return Err("parentheses not balanced"),
            '^' => Node::LineStart,
            '$' => Node::LineEnd,
            '*' | '+' | '?' => return Err("repetition-operator operand invalid"),
            '{' if self.peek().is_some_and(|c| c.is_ascii_digit()) => {
                return Err("repetition-operator operand invalid");
            }
            '.' => Node::Any,
            '[' => self.bracket()?,
            '\\' => self.escaped()?,
            c => Node::Char(c),
        };
        Ok(self.add(node))
    }

    fn group(&mut self) -> Result<NodeId, &'static str> {
        if self.depth >= DEPTH_LIMIT {
            return Err("parentheses nested too deeply");
        }
        if self.peek().is_none() {
            return Err("parentheses not balanced");
        }
        self.groups += 1;
        let number = self.groups;
        self.depth += 1;
        let inner =
            if self.peek() == Some(')') { self.add(Node::Empty) } else { self.alternation()? };
        self.depth -= 1;
        if !self.eat(')') {
            return Err("parentheses not balanced");
        }
        self.closed.push(number);
        Ok(self.add(Node::Group(number, inner)))
    }

    fn escaped(&mut self) -> Result<Node, &'static str> {
        let Some(c) = self.peek() else { return Err("trailing backslash (\\)") };
        self.at += 1;
        match c {
            '1'..='9' => self.back_reference(c.to_digit(10).map_or(0, |d| d as usize)),
            c => Ok(Node::Char(c)),
        }
    }

    fn back_reference(&self, number: usize) -> Result<Node, &'static str> {
        if self.closed.contains(&number) {
            Ok(Node::BackReference(number))
        } else {
            Err("invalid backreference number")
        }
    }

    fn bracket(&mut self) -> Result<Node, &'static str> {
        for (text, node) in [("[:<:]]", Node::WordStart), ("[:>:]]", Node::WordEnd)] {
            if self.starts_with(text) {
                self.at += text.len();
                return Ok(node);
            }
        }
        let mut set = CharSet { negated: self.eat('^'), ranges: Vec::new() };
        for literal in [']', '-'] {
            if set.ranges.is_empty() && self.eat(literal) {
                set.ranges.push((literal, literal));
            }
        }
        while self.peek() != Some(']') && !self.starts_with("-]") {
            self.bracket_item(&mut set)?;
        }
        if self.eat('-') {
            set.ranges.push(('-', '-'));
        }
        self.at += 1;
        Ok(Node::Set(set))
    }

    fn bracket_item(&mut self, set: &mut CharSet) -> Result<(), &'static str> {
        if self.starts_with("[:") {
            self.at += 2;
            let name = self.until(":]").ok_or("brackets ([ ]) not balanced")?;
            set.ranges.extend(class(&name).ok_or("invalid character class")?);
            return Ok(());
        }
        if self.starts_with("[=") {
            self.at += 2;
            let name = self.until("=]").ok_or("brackets ([ ]) not balanced")?;
            let c = only_char(&name).ok_or("invalid collating element")?;
            set.ranges.push((c, c));
            return Ok(());
        }
        if self.peek() == Some('-') {
            return Err("invalid character range");
        }
        let low = self.bracket_symbol()?;
        let is_range =
            self.peek() == Some('-') && self.peek_second().is_some_and(|second| second != ']');
        if !is_range {
            set.ranges.push((low, low));
            return Ok(());
        }
        self.at += 1;
        let high = if self.eat('-') { '-' } else { self.bracket_symbol()? };
        if low > high {
            return Err("invalid character range");
        }
        set.ranges.push((low, high));
        Ok(())
    }

    fn bracket_symbol(&mut self) -> Result<char, &'static str> {
        if self.starts_with("[.") {
            self.at += 2;
            let name = self.until(".]").ok_or("brackets ([ ]) not balanced")?;
            return only_char(&name).ok_or("invalid collating element");
        }
        let c = self.peek().ok_or("brackets ([ ]) not balanced")?;
        self.at += 1;
        Ok(c)
    }

    fn until(&mut self, end: &str) -> Option<String> {
        let mut text = String::new();
        while !self.starts_with(end) {
            text.push(self.peek()?);
            self.at += 1;
        }
        self.at += end.len();
        Some(text)
    }
}

fn only_char(text: &str) -> Option<char> {
    let mut chars = text.chars();
    chars.next().filter(|_| chars.next().is_none())
}

fn class(name: &str) -> Option<Vec<(char, char)>> {
    let ranges: &[(char, char)] = match name {
        "alnum" => &[('a', 'z'), ('A', 'Z'), ('0', '9')],
        "alpha" => &[('a', 'z'), ('A', 'Z')],
        "blank" => &[(' ', ' '), ('\t', '\t')],
        "cntrl" => &[('\0', '\x1f'), ('\x7f', '\x7f')],
        "digit" => &[('0', '9')],
        "graph" => &[('!', '~')],
        "lower" => &[('a', 'z')],
        "print" => &[(' ', '~')],
        "punct" => &[('!', '/'), (':', '@'), ('[', '`'), ('{', '~')],
        "space" => &[('\t', '\r'), (' ', ' ')],
        "upper" => &[('A', 'Z')],
        "xdigit" => &[('0', '9'), ('A', 'F'), ('a', 'f')],
        _ => return None,
    };
    Some(ranges.to_vec())
}
