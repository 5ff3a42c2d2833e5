//! The text of each group in a match whose ends are known.
//!
//! As in POSIX and LLVM, a part of a sequence takes the longest text with which the rest still matches, from left to
//! right; of several alternatives with this text the first counts; a group that is repeated has its last text.

use super::Groups;
use super::reach::Reach;
use super::syntax::{Node, Repetition};
use std::ops::Range;

/// A part of a sequence, with the sequences of its groups inside of it.
#[derive(Debug, Clone, Copy)]
enum Item<'a> {
    Open(usize),
    Close(usize),
    Part(&'a Node),
}

/// The texts of `groups` groups of an expression that matches `whole`; no text for a group that takes no part.
pub(super) fn find_groups(root: &Node, text: &[u8], whole: Range<usize>, groups: usize) -> Result<Groups, String> {
    let reach = Reach::new(text, whole.start, whole.end);
    let mut dissector = Dissector { reach, groups: vec![None; groups + 1] };
    dissector.groups[0] = Some(whole.clone());
    dissector.divide_sequence(root, whole);
    if dissector.reach.is_exhausted() {
        return Err(super::TOO_COMPLEX.to_owned());
    }
    Ok(dissector.groups)
}

struct Dissector<'t> {
    reach: Reach<'t>,
    groups: Groups,
}

impl Dissector<'_> {
    /// Divides `range`, which `node` matches, among the parts of `node`.
    fn divide_sequence(&mut self, node: &Node, range: Range<usize>) {
        if !node.has_group() {
            return;
        }
        let mut items = Vec::new();
        flatten_node(node, &mut items);
        let finishing = self.finishing_positions(&items, range.end);
        let mut at = range.start;
        for (item, finishing) in items.into_iter().zip(finishing) {
            match item {
                Item::Open(group) => self.groups[group] = Some(at..at),
                Item::Close(group) => {
                    let start = self.groups[group].as_ref().map_or(at, |open| open.start);
                    self.groups[group] = Some(start..at);
                }
                Item::Part(part) => {
                    let ends = self.reach.ends(part, &[at]);
                    let longest = ends.into_iter().rev().find(|end| finishing.binary_search(end).is_ok());
                    let Some(end) = longest else { return };
                    self.divide_part(part, at..end);
                    at = end;
                }
            }
        }
    }

    /// For each item the positions after it from which the following items match up to `end`.
    fn finishing_positions(&mut self, items: &[Item<'_>], end: usize) -> Vec<Vec<usize>> {
        let mut finishing = Vec::with_capacity(items.len());
        let mut positions = vec![end];
        for item in items.iter().rev() {
            finishing.push(positions.clone());
            if let Item::Part(part) = item {
                positions = self.reach.starts(part, &positions);
            }
        }
        finishing.reverse();
        finishing
    }

    fn divide_part(&mut self, part: &Node, range: Range<usize>) {
        match part {
            Node::Alternation(branches) => {
                let Range { start, end } = range;
                let matching = branches.iter().find(|branch| self.reach.ends(branch, &[start]).contains(&end));
                if let Some(branch) = matching {
                    self.divide_sequence(branch, range);
                }
            }
            Node::Repeat(body, times) if body.has_group() => {
                if let Some(last) = self.last_iteration(body, *times, range) {
                    self.divide_sequence(body, last);
                }
            }
            Node::Repeat(..)
            | Node::Byte(_)
            | Node::Assertion(_)
            | Node::BackReference(_)
            | Node::Group(..)
            | Node::Sequence(_) => {}
        }
    }

    /// The text of the last repetition, if each takes the longest text with which the rest still matches.
    fn last_iteration(&mut self, body: &Node, times: Repetition, range: Range<usize>) -> Option<Range<usize>> {
        let mut last = None;
        let mut at = range.start;
        let mut left = times;
        let mut finishing = Vec::new();
        while at < range.end {
            let unlimited = left == Repetition { low: 0, high: None };
            left = Repetition { low: left.low.saturating_sub(1), high: left.high.map(|high| high.saturating_sub(1)) };
            if last.is_none() || !unlimited {
                let rest = Node::Repeat(Box::new(body.clone()), left);
                finishing = self.reach.starts(&rest, &[range.end]);
            }
            let ends = self.reach.ends(body, &[at]);
            let next = ends.into_iter().rev().find(|&end| end > at && finishing.binary_search(&end).is_ok())?;
            last = Some(at..next);
            at = next;
        }
        let is_empty_text = range.is_empty() && self.reach.ends(body, &[at]).contains(&at);
        last.or(is_empty_text.then_some(range))
    }
}

/// The parts of a node in order. A group is only a pair of marks here: LLVM gives the first part of a group the longest
/// text, not the group as a whole.
fn flatten_node<'a>(node: &'a Node, items: &mut Vec<Item<'a>>) {
    match node {
        Node::Group(number, body) => {
            items.push(Item::Open(*number));
            flatten_node(body, items);
            items.push(Item::Close(*number));
        }
        Node::Sequence(parts) => {
            for part in parts {
                flatten_node(part, items);
            }
        }
        Node::Byte(_) | Node::Assertion(_) | Node::Alternation(_) | Node::Repeat(..) | Node::BackReference(_) => {
            items.push(Item::Part(node));
        }
    }
}
