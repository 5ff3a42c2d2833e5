//! Other peers and other parts of what messages transfer, in the lines that an error shows: those that the rest of the
//! text has, and those of the neighbours in a ring.

use super::lines::{indent_width, outer_lines};
use super::part_change::{PartChange, comma_parts};
use super::usage::word_places;
use std::ops::Range;

/// The keys of the peers of messages, each with that of the other side; an error is about what a rank receives.
const SIDES: &[(&str, &str)] = &[("from=", "to="), ("to=", "from=")];

/// The changes of a line of code, which begins at a byte of the text.
pub(super) fn message_changes(text: &str, code: &str, start: usize) -> Vec<PartChange> {
    let mut found = other_sides(code);
    found.extend(peer_changes(text, code));
    for operand in message_operands(code) {
        found.extend(part_changes(text, code, start, operand.clone()));
        found.extend(unused_names(text).into_iter().map(|name| PartChange::new(operand.clone(), name, 2)));
    }
    found
}

/// The indices of what messages receive: other parts of a tensor that is sent at the same time.
pub(super) fn received_changes(text: &str, code: &str, start: usize) -> Vec<PartChange> {
    let received = message_operands(code).into_iter().filter(|operand| code[..operand.start].ends_with("recv("));
    let changes = received.flat_map(|operand| {
        let names = unused_names(text).into_iter().chain(unwritten_names(text));
        let names = names.map(|name| PartChange::new(operand.clone(), name, 2));
        let mut found = part_changes(text, code, start, operand.clone());
        found.extend(names);
        found
    });
    changes.collect()
}

/// The lines of a text without comments.
fn code_lines(text: &str) -> impl Iterator<Item = &str> {
    text.lines().map(|line| line.split("//").next().unwrap_or_default())
}

/// The tensors that the text makes in a statement and names nowhere else.
fn unused_names(text: &str) -> Vec<&str> {
    let made = made_names(text).into_iter().map(|(name, _)| name);
    made.filter(|name| count_uses(text, name) == 1).collect()
}

fn count_uses(text: &str, name: &str) -> usize {
    let words = code_lines(text).flat_map(|code| word_places(code).into_iter().map(move |word| &code[word]));
    words.filter(|word| *word == name).count()
}

/// The tensors that have memory of their own, which nothing writes.
fn unwritten_names(text: &str) -> Vec<&str> {
    let allocated = made_names(text).into_iter().filter(|(_, value)| value.starts_with("alloc"));
    allocated.map(|(name, _)| name).filter(|name| !is_written(text, name)).collect()
}

/// True if a statement or a communication writes a tensor.
fn is_written(text: &str, name: &str) -> bool {
    let received = [format!("recv({name}"), format!("-> {name}")];
    let mut results = code_lines(text).filter_map(|code| code.trim_start().strip_prefix(name));
    received.iter().any(|side| text.contains(side.as_str()))
        || results.any(|rest| {
            let value = rest.split_once(" = ").map_or("", |(_, value)| value);
            rest.starts_with([' ', '[', ':']) && !value.is_empty() && !value.starts_with("alloc")
        })
}

/// The names on the left sides of statements, and what stands on the right.
fn made_names(text: &str) -> Vec<(&str, &str)> {
    let statements = code_lines(text).filter(|code| indent_width(code) > 0);
    let made = statements.filter_map(|code| {
        let (target, value) = code.split_once(" = ")?;
        let name = target.trim_start().split([':', ' ']).next()?;
        (name.starts_with(|c: char| c.is_ascii_alphabetic()) && is_word(name)).then_some((name, value.trim()))
    });
    made.collect()
}

/// Peers that answer those of the other side, and scalars of the text.
fn peer_changes(text: &str, code: &str) -> Vec<PartChange> {
    let scalars = rank_scalars(text);
    let mut found = Vec::new();
    for (key, other) in SIDES {
        // Those of the same line first, as they are and answered.
        let own_line = peer_values(code, other).into_iter().map(|part| &code[part]);
        let nearest: Vec<String> = own_line.clone().map(str::to_owned).collect();
        let peers: Vec<&str> = own_line.chain(peer_values(text, other).into_iter().map(|part| &text[part])).collect();
        for part in peer_values(code, key) {
            let own = &code[part.clone()];
            let mut changed: Vec<String> = Vec::new();
            for (at, peer) in peers.iter().enumerate() {
                if at == nearest.len() {
                    changed.extend(nearest.iter().cloned());
                }
                let defined = scalars.iter().find(|(name, _)| name == peer).map_or(*peer, |(_, value)| *value);
                let Some(answer) = answering_peer(defined) else { continue };
                let known = scalars.iter().find(|(_, value)| *value == answer).map(|(name, _)| (*name).to_owned());
                changed.push(known.unwrap_or(answer));
            }
            changed.extend(peers.iter().map(|peer| (*peer).to_owned()));
            changed.extend(scalars.iter().map(|(name, _)| (*name).to_owned()));
            let mut seen = rustc_hash::FxHashSet::default();
            changed.retain(|other| other != own && seen.insert(other.clone()));
            found.extend(changed.into_iter().map(|other| PartChange::new(part.clone(), other, 1)));
        }
    }
    found
}

/// Peers at the other side: `rank - far` for `rank + far`.
fn other_sides(code: &str) -> Vec<PartChange> {
    let mut found = Vec::new();
    for part in SIDES.iter().flat_map(|(key, _)| peer_values(code, key)) {
        for [sign, other] in [[" + ", " - "], [" - ", " + "]] {
            for (at, _) in code[part.clone()].match_indices(sign) {
                let begin = part.start + at;
                found.push(PartChange::new(begin..begin + sign.len(), other, 0));
            }
        }
    }
    found
}

/// The places of the values after a key.
fn peer_values(text: &str, key: &str) -> Vec<Range<usize>> {
    let mut found = Vec::new();
    for (at, _) in text.match_indices(key) {
        if text[..at].ends_with(|c: char| c.is_ascii_alphanumeric() || c == '_') {
            continue;
        }
        let begin = at + key.len();
        let mut depth = 0;
        let end = text[begin..].find(|c: char| {
            match c {
                '(' => depth += 1,
                ')' if depth > 0 => depth -= 1,
                _ => return depth == 0 && matches!(c, ',' | ')' | '\n'),
            }
            false
        });
        found.extend(end.map(|length| begin..begin + length));
    }
    found
}

/// `wrap(rank - 1, p)` for `(rank + 1) % p`, `rank - 1` for `rank + 1`, and back.
fn answering_peer(peer: &str) -> Option<String> {
    if let Some((base, shift, count)) = ring_shift(peer, "(", " + ", ") % ") {
        return Some(format!("wrap({base} - {shift}, {count})"));
    }
    if let Some((base, shift, count)) = ring_shift(peer.strip_suffix(')')?, "wrap(", " - ", ", ") {
        return Some(format!("({base} + {shift}) % {count}"));
    }
    None
}

/// The base, the shift and the number of ranks of a neighbour in a ring.
fn ring_shift<'t>(peer: &'t str, open: &str, sign: &str, close: &str) -> Option<(&'t str, &'t str, &'t str)> {
    let (sum, count) = peer.strip_prefix(open)?.split_once(close)?;
    let (base, shift) = sum.split_once(sign)?;
    [base, shift, count].iter().all(|part| is_word(part)).then_some((base, shift, count))
}

fn is_word(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'.')
}

/// The scalars that the text computes from the rank, with their values.
fn rank_scalars(text: &str) -> Vec<(&str, &str)> {
    let defined =
        code_lines(text).filter_map(|line| line.split_once(" = ").map(|(name, value)| (name.trim(), value.trim())));
    let of_rank = defined.filter(|(name, value)| {
        is_word(name) && word_places(value).into_iter().any(|word| &value[word] == "rank") && !value.contains('[')
    });
    of_rank.collect()
}

/// Scalars of a line's peers that are defined as the answering peer, the peers of receives first. Other words of the line
/// may name the same scalar.
pub(super) fn defined_peer_changes(text: &str, code: &str) -> Vec<DefinedPeer> {
    let named: Vec<&str> = SIDES.iter().flat_map(|(key, _)| peer_values(code, key)).map(|part| &code[part]).collect();
    let scalars = rank_scalars(text);
    let mut found: Vec<DefinedPeer> = Vec::new();
    for name in named {
        let Some((_, value)) = scalars.iter().find(|(scalar, _)| *scalar == name) else { continue };
        let (Some(answer), Some(at)) = (answering_peer(value), text.find(&format!("{name} = {value}"))) else {
            continue;
        };
        let begin = at + name.len() + " = ".len();
        found.push(DefinedPeer { place: begin..begin + value.len(), statement: format!("{name} = {answer}"), answer });
    }
    found
}

/// Another definition of a scalar.
pub(super) struct DefinedPeer {
    /// The value.
    pub(super) place: Range<usize>,
    pub(super) answer: String,
    /// The whole statement.
    pub(super) statement: String,
}

/// The places of the operands of messages: `G[at]` of `send(G[at], to=1)`.
fn message_operands(code: &str) -> Vec<Range<usize>> {
    let mut found = Vec::new();
    for word in ["send(", "recv("] {
        for (at, _) in code.match_indices(word) {
            let begin = at + word.len();
            let end = code[begin..].find([',', ')', '[']).map(|length| begin + length);
            let Some(end) = end else { continue };
            let close = code[end..].starts_with('[').then(|| code[end..].find(']')).flatten();
            found.push(begin..close.map_or(end, |close| end + close + 1));
        }
    }
    found
}

/// Other parts of an operand: those of loops around it if it is whole, else its neighbours and those of other lines.
fn part_changes(text: &str, code: &str, start: usize, operand: Range<usize>) -> Vec<PartChange> {
    let Some(open) = code[operand.clone()].find('[').map(|at| operand.start + at) else {
        let indices = outer_lines(text, start).into_iter().filter_map(|line| {
            let head = text[line..].trim_start().strip_prefix("for ")?;
            head.split_once(" in ").map(|(index, _)| index).filter(|index| is_word(index))
        });
        return indices.map(|index| PartChange::new(operand.end..operand.end, format!("[{index}]"), 1)).collect();
    };
    let name = &code[operand.start..=open];
    let own = comma_parts(code, open + 1..operand.end - 1);
    let whole = open + 1..operand.end - 1;
    let count = axis_extent(text, &code[operand.start..open]);
    let mut found: Vec<PartChange> = Vec::new();
    for part in own.iter().filter(|part| is_word(&code[(*part).clone()])) {
        let index = &code[part.clone()];
        if let Some(count) = &count {
            found.push(PartChange::new(part.clone(), format!("({index} + 1) % {count}"), 1));
            found.push(PartChange::new(part.clone(), format!("wrap({index} - 1, {count})"), 1));
        }
    }
    for (at, _) in text.match_indices(name) {
        let begin = at + name.len();
        let Some(length) = text[begin..].find(']') else { continue };
        let other = &text[begin..begin + length];
        if other != &code[whole.clone()] && !other.contains('[') {
            found.push(PartChange::new(whole.clone(), other, 2));
        }
    }
    found
}

/// The extent of the first axis of a tensor's declaration.
pub(super) fn axis_extent(text: &str, name: &str) -> Option<String> {
    let declared = format!("{name}: ");
    let at = text
        .match_indices(&declared)
        .map(|(at, _)| at)
        .find(|&at| !text[..at].ends_with(|c: char| c.is_ascii_alphanumeric() || c == '_'))?;
    let axes = text[at + declared.len()..].lines().next()?.split_once('[')?.1;
    let first = axes.split([',', ']']).next()?.trim();
    let extent = first.rsplit(':').next()?;
    is_word(extent).then(|| extent.to_owned())
}

/// A group in the place of two lines.
pub(super) struct JoinedMessages {
    /// Both lines, without their indentation.
    pub(super) place: Range<usize>,
    /// `wait { send(..); recv(..) }`, in the branch that both have.
    pub(super) group: String,
}

/// Two messages on lines one after the other as a group.
pub(super) fn joined_messages(text: &str, start: usize) -> Option<JoinedMessages> {
    let mut lines = text.get(start..)?.split('\n').map(str::trim_end);
    let [first, second] = [lines.next()?, lines.next()?];
    // A group has no place for the comment of the first.
    if first.contains("//") {
        return None;
    }
    let second = second.split("//").next().unwrap_or_default().trim_end();
    let [one, other] = [first, second].map(PostedMessage::of_line);
    let (one, other) = (one?, other?);
    if one.head != other.head || one.message[..4] == other.message[..4] || one.name != other.name {
        return None;
    }
    let end = start + text[start..].find('\n')? + 1 + second.len();
    let group = format!("{}{}{{ {}; {} }}", one.head.trim_start(), one.name, one.message, other.message);
    Some(JoinedMessages { place: start + indent_width(first)..end, group })
}

/// A statement that posts one message.
struct PostedMessage<'t> {
    /// The indentation and the condition.
    head: &'t str,
    /// `wait ` or `h = `.
    name: &'t str,
    message: &'t str,
}

impl<'t> PostedMessage<'t> {
    fn of_line(code: &'t str) -> Option<Self> {
        let at = ["send(", "recv("].iter().find_map(|word| code.find(word))?;
        let is_one = code[at..].matches(['{', '}', ';']).next().is_none() && !code[..at].contains('{');
        let own = indent_width(code);
        let begin = if code[own..].starts_with("if ") { code[..at].rfind(": ")? + 2 } else { own };
        (is_one && code.ends_with(')')).then(|| Self {
            head: &code[..begin],
            name: &code[begin..at],
            message: &code[at..],
        })
    }
}

/// True for a line of code that has a message.
pub(super) fn has_message(code: &str) -> bool {
    indent_width(code) > 0 && (code.contains("send(") || code.contains("recv("))
}
