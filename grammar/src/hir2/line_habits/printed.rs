//! Statements of the printed form that have no tensors in them: streams, waits, communications, loops and branches.

use super::context::LineContext;
use super::habit::Habit;
use super::line::{CodeLine, split_items};

/// The rest of a line after a word of the printed form and the word that links it to its operand, without brackets
/// around it: `0` of `SetCurrentStream to Stream 0` and of `SetCurrentStream(Stream 0)`.
fn operand_after<'a>(line: &CodeLine<'a>, word: &str, links: &[&str]) -> Option<&'a str> {
    let rest = line.code.trim_end_matches(';').strip_prefix(word)?.trim();
    let rest = rest.strip_prefix('(').and_then(|rest| rest.strip_suffix(')')).unwrap_or(rest).trim();
    let rest = links.iter().find_map(|link| rest.strip_prefix(link)).unwrap_or(rest).trim();
    let named = ["Stream ", "Communication ", "P2PCommunication "].into_iter().find_map(|kind| rest.strip_prefix(kind));
    let operand = named.unwrap_or(rest).trim();
    (!operand.is_empty()).then_some(operand)
}

/// `( i % 2 )` without its brackets.
fn without_brackets(text: &str) -> &str {
    let inner = text.strip_prefix('(').and_then(|rest| rest.strip_suffix(')'));
    inner.filter(|inner| !inner.contains(['(', ')'])).unwrap_or(text).trim()
}

/// `GetCurrentStream into Stream 0`, `SetCurrentStream to Stream 1`, `Synchronize Stream 1`, `Wait Communication 7`,
/// `Deallocate(T3)`.
pub(super) fn stream_statement(line: &CodeLine<'_>, _: &LineContext<'_>) -> Option<Habit> {
    let word = line.piece_text(0);
    let meant = match word {
        "GetCurrentStream" => format!("stream {} = current", without_brackets(operand_after(line, word, &["into "])?)),
        "SetCurrentStream" => format!("stream {}", without_brackets(operand_after(line, word, &["to "])?)),
        "Synchronize" => format!("sync {}", without_brackets(operand_after(line, word, &[])?)),
        "Deallocate" => format!("free {}", operand_after(line, word, &[])?),
        "Wait" => {
            let operand = operand_after(line, word, &[])?;
            let is_number = operand.bytes().all(|byte| byte.is_ascii_digit());
            format!("wait {}{operand}", if is_number { "h" } else { "" })
        }
        _ => return None,
    };
    Some(Habit::rewrite_line(0..word.len(), meant, format!("`{word}` is a statement of the printed form")))
}

/// Words of collectives in the printed form, and here.
const COLLECTIVES: &[(&str, &str)] = &[
    ("Allgather", "allgather"),
    ("Allreduce", "allreduce"),
    ("ReduceScatter", "reduce_scatter"),
    ("Broadcast", "broadcast"),
    ("Reduce", "reduce"),
    ("Scatter", "scatter"),
    ("Gather", "gather"),
    ("SendRecv", "send_recv"),
    ("AllToAll", "all_to_all"),
    ("send", "send"),
    ("recv", "recv"),
];

/// `Communication 7 (type=Allreduce, team=(0 1), input=P, output=S)`, `P2PCommunication 3 (type=send, buffer=P, peer=1)`.
pub(super) fn communication(line: &CodeLine<'_>, _: &LineContext<'_>) -> Option<Habit> {
    let word = line.piece_text(0);
    let open = line.find_outside("(").filter(|_| matches!(word, "Communication" | "P2PCommunication"))?;
    let close = line.closing(open)?;
    let number = line.between(0, open);
    let items = split_items(line.between(open, close));
    let (_, kind) = COLLECTIVES.iter().find(|(printed, _)| value_of(&items, "type") == Some(printed))?;
    let mut arguments = match (value_of(&items, "input"), value_of(&items, "output"), value_of(&items, "buffer")) {
        (Some(input), Some(output), _) => vec![format!("{input} -> {output}")],
        (None, None, Some(buffer)) => vec![buffer.to_owned()],
        _ => return None,
    };
    let peer = value_of(&items, "peer").map(|peer| (if *kind == "send" { "to" } else { "from" }, peer));
    let root = value_of(&items, "root").map(|root| ("root", root));
    arguments.extend(peer.into_iter().chain(root).map(|(key, value)| format!("{key}={}", without_brackets(value))));
    if let Some(team) = value_of(&items, "team").map(without_brackets) {
        let members: Vec<&str> = team.split_whitespace().collect();
        arguments.push(format!("team=[{}]", members.join(", ")));
    }
    let is_number = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
    let name = if is_number { format!("h{number}") } else { return None };
    let message = format!("`{word}` is a statement of the printed form");
    Some(Habit::rewrite_line(0..word.len(), format!("{name} = {kind}({})", arguments.join(", ")), message))
}

/// The value of a key among arguments.
fn value_of<'a>(items: &[&'a str], key: &str) -> Option<&'a str> {
    items.iter().find_map(|item| item.strip_prefix(key)?.trim_start().strip_prefix('=').map(str::trim))
}

/// `FOR i from 0 to 4:`, `IF Manual ( c ):`, `ELSE:`.
pub(super) fn block_header(line: &CodeLine<'_>, _: &LineContext<'_>) -> Option<Habit> {
    let word = line.piece_text(0);
    let colon = (0..line.pieces.len()).find(|&at| line.pieces[at].depth == 0 && line.piece_text(at) == ":")?;
    let rest = line.code[line.pieces[colon].place.end..].trim();
    let rest = if rest.is_empty() { String::new() } else { format!(" {rest}") };
    let head = line.between(0, colon);
    let meant = match word {
        "ELSE" => "else".to_owned(),
        "IF" => format!("if {}", without_brackets(head.strip_prefix("Manual").unwrap_or(head).trim())),
        "FOR" => {
            let (index, range) = head.split_once(" from ")?;
            let (start, end) = range.split_once(" to ")?;
            let (end, step) = end.split_once(" step ").map_or((end, None), |(end, step)| (end, Some(step)));
            let by = step.map(|step| format!(" step {}", without_brackets(step))).unwrap_or_default();
            format!("for {} in {}..{}{by}", index.trim(), start.trim(), without_brackets(end))
        }
        _ => return None,
    };
    Some(Habit::rewrite_line(
        0..word.len(),
        format!("{meant}:{rest}"),
        format!("`{word}` is a word of the printed form"),
    ))
}
