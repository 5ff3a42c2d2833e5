//! Chains of `if`, `elif` and `else`, as branches with conditions of their own beside each other.

/// The bytes before and after an `elif` in which its chain is looked for.
const MOST_BYTES: usize = 4096;

/// The most branches of a chain in front of an `elif`: conditions of more are hardly readable.
const MOST_BRANCHES: usize = 6;

/// A header of a chain.
struct ChainHeader<'t> {
    /// The byte at which its line's code begins.
    start: usize,
    /// The byte after its `:`.
    end: usize,
    /// `None` for `else`.
    condition: Option<&'t str>,
}

/// The branches here for a part of a chain: from an `elif` to the end of the text that changes.
pub(super) struct FlatChain {
    /// The header for the `elif`.
    pub(super) header: String,
    /// The header for the `else` that follows, if one does.
    pub(super) last: Option<String>,
    /// The text from the `elif` on.
    pub(super) text: String,
    /// The end of the text that it replaces.
    pub(super) end: usize,
}

/// A header at the start of a text; `None` if it is none.
fn read_header(text: &str, start: usize) -> Option<ChainHeader<'_>> {
    let line = text.get(start..)?.lines().next()?;
    let code = line.split("//").next()?;
    let words = ["elif ", "else if ", "if ", "else"];
    let word = words.into_iter().find(|word| code.starts_with(word))?;
    let mut depth = 0usize;
    let colon = code.char_indices().find(|(_, character)| {
        match character {
            '(' | '[' => depth += 1,
            ')' | ']' => depth = depth.saturating_sub(1),
            ':' => return depth == 0,
            _ => {}
        }
        false
    })?;
    let condition = code[word.len()..colon.0].trim();
    let is_else = word == "else";
    if condition.is_empty() != is_else {
        return None;
    }
    Some(ChainHeader { start, end: start + colon.0 + 1, condition: (!is_else).then_some(condition) })
}

/// The starts of lines of code before or after a place that are indented as much as it, the nearest first, up to one that
/// is indented less.
fn lines_beside(text: &str, place: usize, forward: bool) -> Vec<usize> {
    let begin = text[..place].rfind('\n').map_or(0, |at| at + 1);
    let column = place - begin;
    let starts: Vec<usize> = match forward {
        true => {
            let bytes = text.as_bytes()[place..].iter().take(MOST_BYTES).enumerate();
            bytes.filter(|(_, byte)| **byte == b'\n').map(|(at, _)| place + at + 1).collect()
        }
        false => {
            let bytes = text.as_bytes()[..begin.saturating_sub(1)].iter().rev().take(MOST_BYTES).enumerate();
            let ends = bytes.filter(|(_, byte)| **byte == b'\n').map(|(back, _)| begin - 1 - back);
            ends.collect()
        }
    };
    let mut found = Vec::new();
    for start in starts {
        let line = text[start..].lines().next().unwrap_or_default();
        let code = line.trim_start();
        let indentation = line.len() - code.len();
        if code.is_empty() || code.starts_with("//") || indentation > column {
            continue;
        }
        if indentation < column {
            break;
        }
        found.push(start + indentation);
    }
    found
}

/// `s != 0` for `s == 0`.
fn negated_condition(condition: &str) -> String {
    let is_single = !condition.contains(['(', '[', '&', '|', '!']);
    let pairs = [("==", "!="), ("<=", ">"), (">=", "<"), ("<", ">="), (">", "<=")];
    let found = pairs.iter().find_map(|(operator, other)| Some((condition.split_once(operator)?, *other)));
    match found.filter(|_| is_single && condition.matches(['<', '>', '=']).count() <= 2) {
        Some(((left, right), other)) => format!("{} {other} {}", left.trim(), right.trim()),
        None if condition.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_') => format!("!{condition}"),
        None => format!("!({condition})"),
    }
}

fn join_conditions(conditions: &[String]) -> String {
    conditions.join(" && ")
}

/// The branches for the `elif` at a place.
pub(super) fn flat_chain(text: &str, elif: usize) -> Option<FlatChain> {
    let own = read_header(text, elif)?;
    let condition = own.condition?;
    let mut before: Vec<String> = Vec::new();
    for start in lines_beside(text, elif, false) {
        let header = read_header(text, start)?;
        before.push(negated_condition(header.condition?));
        if before.len() > MOST_BRANCHES {
            return None;
        }
        if text[start..].starts_with("if ") {
            break;
        }
    }
    before.reverse();
    if before.is_empty() {
        return None;
    }
    let bracketed = if condition.contains("||") { format!("({condition})") } else { condition.to_owned() };
    let header = format!("if {}:", join_conditions(&[before.clone(), vec![bracketed]].concat()));
    let next = lines_beside(text, elif, true).first().and_then(|start| read_header(text, *start));
    let otherwise = next.filter(|next| next.condition.is_none());
    let Some(otherwise) = otherwise else {
        return Some(FlatChain { text: header.clone(), header, last: None, end: own.end });
    };
    let last = format!("if {}:", join_conditions(&[before, vec![negated_condition(condition)]].concat()));
    let changed = format!("{header}{}{last}", &text[own.end..otherwise.start]);
    Some(FlatChain { header, last: Some(last), text: changed, end: otherwise.end })
}
