//! Searching with an extended regular expression: leftmost, then longest.
//!
//! [`fancy_regex`] finds where the leftmost match starts (that does not depend on which
//! alternative is preferred) and does everything for expressions with back-references. For the
//! others the extent and the groups come from [`Longest`], because POSIX wants the longest match
//! and then, element by element from the left, the longest part.

use std::collections::{BTreeSet, HashMap};
use std::fmt::Write as _;
use std::rc::Rc;

use crate::ere::{CharSet, Ere, Node, NodeId};

/// Steps that a search with back-references may take before it is given up.
const BACKTRACK_LIMIT: usize = 10_000_000;

/// A compiled expression.
#[derive(Debug, Clone)]
pub(crate) struct Matcher {
    regex: fancy_regex::Regex,
    ere: Ere,
    ignore_case: bool,
    /// Whether greedy matching may stop short of the longest match.
    ambiguous: bool,
}

/// The byte range of the whole match and of each group.
pub(crate) type Groups = Vec<Option<(usize, usize)>>;

impl Matcher {
    /// Compiles `text`; the error is a short description of what is wrong.
    pub(crate) fn new(text: &str, ignore_case: bool) -> Result<Matcher, String> {
        let ere = Ere::parse(text)?;
        let mut translated = String::new();
        translate(&ere, ere.root, ignore_case, &mut translated);
        let regex = fancy_regex::RegexBuilder::new(&translated)
            .backtrack_limit(BACKTRACK_LIMIT)
            .build()
            .map_err(|error| error.to_string())?;
        let ambiguous = is_ambiguous(&ere);
        Ok(Matcher { regex, ere, ignore_case, ambiguous })
    }

    /// Finds the leftmost longest match in `text`; an error means that the search was too costly.
    pub(crate) fn find(&self, text: &str) -> Result<Option<Groups>, String> {
        if !self.ambiguous {
            let captures = self.regex.captures(text).map_err(|error| error.to_string())?;
            return Ok(captures.map(|captures| {
                captures.iter().map(|group| group.map(|m| (m.start(), m.end()))).collect()
            }));
        }
        let found = self.regex.find(text).map_err(|error| error.to_string())?;
        Ok(found.and_then(|found| self.longest(text).dissect(found.start())))
    }

    fn longest<'a>(&'a self, text: &'a str) -> Longest<'a> {
        Longest { ere: &self.ere, text, ignore_case: self.ignore_case, known: HashMap::new() }
    }
}

/// With one repetition and no alternation a greedy match is the longest; with back-references
/// the backtracking order stands as it is.
fn is_ambiguous(ere: &Ere) -> bool {
    let count = |wanted: fn(&Node) -> bool| ere.nodes.iter().filter(|node| wanted(node)).count();
    count(|node| matches!(node, Node::BackReference(_))) == 0
        && (count(|node| matches!(node, Node::Alternation(_))) > 0
            || count(|node| matches!(node, Node::Repeat(..))) > 1)
}

fn translate(ere: &Ere, id: NodeId, ignore_case: bool, out: &mut String) {
    let sequence = |nodes: &[NodeId], separator: &str, out: &mut String| {
        for (i, &node) in nodes.iter().enumerate() {
            out.push_str(if i > 0 { separator } else { "" });
            translate(ere, node, ignore_case, out);
        }
    };
    match &ere.nodes[id] {
        Node::Empty => out.push_str("(?:)"),
        &Node::Char(c) => {
            let set = CharSet { ranges: vec![(c, c)], negated: false };
            translate_set(&set, ignore_case, out);
        }
        Node::Any => out.push_str(r"[^\n]"),
        Node::Set(set) => translate_set(set, ignore_case, out),
        Node::LineStart => out.push_str("(?m:^)"),
        Node::LineEnd => out.push_str("(?m:$)"),
        Node::WordStart => out.push_str("(?<![A-Za-z0-9_])(?=[A-Za-z0-9_])"),
        Node::WordEnd => out.push_str("(?<=[A-Za-z0-9_])(?![A-Za-z0-9_])"),
        &Node::Group(_, inner) => {
            out.push('(');
            sequence(&[inner], "", out);
            out.push(')');
        }
        Node::Concat(parts) => sequence(parts, "", out),
        Node::Alternation(branches) => {
            out.push_str("(?:");
            sequence(branches, "|", out);
            out.push(')');
        }
        &Node::Repeat(inner, low, high) => {
            out.push_str("(?:");
            sequence(&[inner], "", out);
            out.push(')');
            push_bounds(low, high, out);
        }
        Node::BackReference(number) => push(out, format_args!("(?:\\{number})")),
    }
}

/// Writing to a string cannot fail.
fn push(out: &mut String, text: std::fmt::Arguments<'_>) {
    let written = out.write_fmt(text);
    debug_assert!(written.is_ok());
}

fn push_bounds(low: u32, high: Option<u32>, out: &mut String) {
    match (low, high) {
        (0, None) => out.push('*'),
        (1, None) => out.push('+'),
        (0, Some(1)) => out.push('?'),
        (low, None) => push(out, format_args!("{{{low},}}")),
        (low, Some(high)) => push(out, format_args!("{{{low},{high}}}")),
    }
}

fn translate_set(set: &CharSet, ignore_case: bool, out: &mut String) {
    out.push_str(if set.negated { r"[^\n" } else { "[" });
    for &(low, high) in &set.ranges {
        push_range(low, high, out);
        if ignore_case {
            push_other_case(low, high, out);
        }
    }
    out.push(']');
}

fn push_range(low: char, high: char, out: &mut String) {
    push(out, format_args!("\\x{{{:x}}}-\\x{{{:x}}}", u32::from(low), u32::from(high)));
}

/// Adds the ASCII letters of a range in their other case.
fn push_other_case(low: char, high: char, out: &mut String) {
    for letter in 'a'..='z' {
        let upper = letter.to_ascii_uppercase();
        for (listed, other) in [(letter, upper), (upper, letter)] {
            if low <= listed && listed <= high {
                push_range(other, other, out);
            }
        }
    }
}

/// What one element of a flattened expression is.
enum Step {
    Open(usize),
    Close(usize),
    Element(NodeId),
}

/// Set-wise matching of one expression, without back-references, in one text.
struct Longest<'a> {
    ere: &'a Ere,
    text: &'a str,
    ignore_case: bool,
    known: HashMap<(NodeId, usize), Rc<BTreeSet<usize>>>,
}

impl Longest<'_> {
    /// The groups of the longest match that starts at `start`.
    fn dissect(&mut self, start: usize) -> Option<Groups> {
        let mut steps = Vec::new();
        self.flatten(self.ere.root, &mut steps);
        let feasible = self.feasible(&steps, start)?;
        let mut groups: Groups = vec![None; self.ere.groups + 1];
        let mut at = start;
        for (step, next) in steps.iter().zip(&feasible[1..]) {
            match *step {
                Step::Open(group) => groups[group] = Some((at, at)),
                Step::Close(group) => {
                    groups[group] = groups[group].map(|(open, _)| (open, at));
                }
                Step::Element(node) => {
                    at = self.ends(node, at).intersection(next).copied().max()?;
                }
            }
        }
        groups[0] = Some((start, at));
        Some(groups)
    }

    fn flatten(&self, id: NodeId, steps: &mut Vec<Step>) {
        match &self.ere.nodes[id] {
            &Node::Group(group, inner) => {
                steps.push(Step::Open(group));
                self.flatten(inner, steps);
                steps.push(Step::Close(group));
            }
            Node::Concat(parts) => parts.iter().for_each(|&part| self.flatten(part, steps)),
            _ => steps.push(Step::Element(id)),
        }
    }

    /// For each step, the positions before it from which the longest end can be reached.
    fn feasible(&mut self, steps: &[Step], start: usize) -> Option<Vec<BTreeSet<usize>>> {
        let mut sets = vec![BTreeSet::from([start])];
        for (i, step) in steps.iter().enumerate() {
            let next = match *step {
                Step::Element(node) => self.ends_of_all(node, &sets[i]),
                Step::Open(_) | Step::Close(_) => sets[i].clone(),
            };
            sets.push(next);
        }
        let end = *sets.last()?.last()?;
        sets[steps.len()] = BTreeSet::from([end]);
        for (i, step) in steps.iter().enumerate().rev() {
            let next = sets[i + 1].clone();
            match *step {
                Step::Element(node) => {
                    sets[i].retain(|&at| !self.ends(node, at).is_disjoint(&next));
                }
                Step::Open(_) | Step::Close(_) => sets[i].retain(|at| next.contains(at)),
            }
        }
        Some(sets)
    }

    fn ends_of_all(&mut self, id: NodeId, starts: &BTreeSet<usize>) -> BTreeSet<usize> {
        starts
            .iter()
            .flat_map(|&at| self.ends(id, at).iter().copied().collect::<Vec<_>>())
            .collect()
    }

    /// Where a match of the node that starts at `at` can end.
    fn ends(&mut self, id: NodeId, at: usize) -> Rc<BTreeSet<usize>> {
        if let Some(ends) = self.known.get(&(id, at)) {
            return Rc::clone(ends);
        }
        let ere = self.ere;
        let ends = Rc::new(match &ere.nodes[id] {
            &Node::Group(_, inner) => self.ends(inner, at).as_ref().clone(),
            Node::Concat(parts) => parts
                .iter()
                .fold(BTreeSet::from([at]), |starts, &part| self.ends_of_all(part, &starts)),
            Node::Alternation(branches) => {
                branches.iter().flat_map(|&branch| self.ends(branch, at).as_ref().clone()).collect()
            }
            &Node::Repeat(inner, low, high) => self.repeat_ends(inner, low, high, at),
            simple => self.step(simple, at).into_iter().collect(),
        });
        self.known.insert((id, at), Rc::clone(&ends));
        ends
    }

    fn repeat_ends(
        &mut self,
        inner: NodeId,
        low: u32,
        high: Option<u32>,
        at: usize,
    ) -> BTreeSet<usize> {
        let mut frontier = BTreeSet::from([at]);
        for _ in 0..low {
            frontier = self.ends_of_all(inner, &frontier);
        }
        let mut all = frontier.clone();
        let mut left = high.map(|high| high.saturating_sub(low));
        while !frontier.is_empty() && left != Some(0) {
            let reached = self.ends_of_all(inner, &frontier);
            frontier = reached.difference(&all).copied().collect();
            all.extend(&frontier);
            left = left.map(|left| left - 1);
        }
        all
    }

    /// Matches a node that is one character or none.
    fn step(&self, node: &Node, at: usize) -> Option<usize> {
        let next = self.text[at..].chars().next();
        let before = self.text[..at].chars().next_back();
        let word = |c: Option<char>| c.is_some_and(|c| c.is_ascii_alphanumeric() || c == '_');
        let consumes = |accepted: bool| next.filter(|_| accepted).map(|c| at + c.len_utf8());
        match node {
            Node::Char(wanted) => consumes(next.is_some_and(|c| {
                c == *wanted || (self.ignore_case && c.eq_ignore_ascii_case(wanted))
            })),
            Node::Any => consumes(next.is_some_and(|c| c != '\n')),
            Node::Set(set) => consumes(next.is_some_and(|c| set.contains(c, self.ignore_case))),
            Node::LineStart => (before.is_none() || before == Some('\n')).then_some(at),
            Node::LineEnd => (next.is_none() || next == Some('\n')).then_some(at),
            Node::WordStart => (!word(before) && word(next)).then_some(at),
            Node::WordEnd => (word(before) && !word(next)).then_some(at),
            Node::Empty => Some(at),
            Node::Group(..)
            | Node::Concat(_)
            | Node::Alternation(_)
            | Node::Repeat(..)
            | Node::BackReference(_) => None,
        }
    }
}
