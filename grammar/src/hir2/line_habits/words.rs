//! Statements of this language in another arrangement: words and brackets that other languages have there.

use super::communications::collective_word;
use super::context::LineContext;
use super::habit::Habit;
use super::line::{CodeLine, is_name, split_items};
use crate::error::Code;
use crate::hir2::element_types::element_type;
use crate::hir2::habits::COLLECTIVE_WORDS;

/// Keys of arguments, which `==` and a place without a key stand for.
const KEYS: &[&str] = &["root", "to", "from", "over", "team", "op", "via", "comm", "axis", "perm", "flags", "init"];

/// Words of blocks in other languages that end a header, and those that end a block.
const HEADER_ENDS: &[&str] = &["do", "then", "begin"];
const BLOCK_ENDS: &[&str] = &["end", "endfor", "endif", "enddo", "done", "fi"];

/// The key of an operand that is a list.
const LIST_KEYS: &[(&str, &str)] = &[("Permute", "perm"), ("broadcast", "flags"), ("slice", "ranges")];

/// `for i in c do`, `if c then`.
pub(super) fn header_end(line: &CodeLine<'_>, _: &LineContext<'_>) -> Option<Habit> {
    if !matches!(line.piece_text(0), "for" | "if") {
        return None;
    }
    let at =
        (1..line.pieces.len()).find(|&at| line.pieces[at].depth == 0 && HEADER_ENDS.contains(&line.piece_text(at)))?;
    let word = line.piece_text(at);
    let place = line.pieces[at - 1].place.end..line.pieces[at].place.end;
    let colon = if line.piece_text(at - 1) == ":" { "" } else { ":" };
    let shown = line.pieces[at].place.clone();
    let message = format!("a header ends in `:`, not in `{word}`");
    Some(Habit { place: shown, ..Habit::replace_part(line, place, colon, message) })
}

/// `end`, `endfor`, `end if`.
pub(super) fn block_end(line: &CodeLine<'_>, _: &LineContext<'_>) -> Option<Habit> {
    let word = line.piece_text(0);
    let is_end = BLOCK_ENDS.contains(&word);
    let has_more = line.pieces.len() > 2 || !matches!(line.piece_text(1), "" | ";" | "for" | "if" | "do");
    (is_end && !has_more)
        .then(|| Habit::rewrite_line(0..word.len(), "", format!("a block ends with its indentation, without `{word}`")))
}

/// `rank is 0`, `rank is not 0`.
pub(super) fn is_comparison(line: &CodeLine<'_>, _: &LineContext<'_>) -> Option<Habit> {
    let at = (1..line.pieces.len()).find(|&at| line.piece_text(at) == "is")?;
    let last = if line.piece_text(at + 1) == "not" { at + 1 } else { at };
    let place = line.pieces[at].place.start..line.pieces[last].place.end;
    let found = line.code[place.clone()].to_owned();
    let meant = if last > at { "!=" } else { "==" };
    Some(Habit::replace_part(line, place, meant, format!("`{found}` is no operator")))
}

/// `foreach i in c:`, `for i in 0 to c:`.
pub(super) fn loop_words(line: &CodeLine<'_>, _: &LineContext<'_>) -> Option<Habit> {
    let word = line.piece_text(0);
    if matches!(word, "foreach" | "forall" | "parfor" | "loop") && line.is_name(1) {
        return Some(Habit::replace_part(line, 0..word.len(), "for", format!("`{word}` begins no loop")));
    }
    let at = (3..line.pieces.len()).find(|&at| {
        line.piece_text(0) == "for" && line.pieces[at].depth == 0 && matches!(line.piece_text(at), "to" | "until")
    })?;
    let found = line.piece_text(at);
    let place = line.pieces[at - 1].place.end..line.pieces.get(at + 1)?.place.start;
    let shown = line.pieces[at].place.clone();
    let message = format!("a range is written with `..`, not with `{found}`");
    Some(Habit { place: shown, ..Habit::replace_part(line, place, "..", message) })
}

/// `Y <- X + S`, `G <- allgather(A)`.
pub(super) fn left_arrow(line: &CodeLine<'_>, _: &LineContext<'_>) -> Option<Habit> {
    let at = line.find_outside("<").filter(|&at| at > 0 && line.piece_text(at + 1) == "-")?;
    let is_joined = line.pieces[at].place.end == line.pieces[at + 1].place.start;
    let (target, value) =
        (line.code[..line.pieces[at].place.start].trim(), line.code[line.pieces[at + 1].place.end..].trim());
    if !is_joined
        || matches!(line.piece_text(0), "if" | "assert" | "print" | "wait")
        || line.find_outside("=").is_some()
    {
        return None;
    }
    let shown = line.pieces[at].place.start..line.pieces[at + 1].place.end;
    let call = value.split_once('(').and_then(|(word, rest)| Some((collective_word(word)?, rest.strip_suffix(')')?)));
    let meant = match call.filter(|(_, operands)| !operands.contains("->") && !operands.contains('=')) {
        Some((word, operand)) => format!("wait {word}({operand} -> {target})"),
        None => format!("{target} = {value}"),
    };
    Some(Habit::rewrite_line(shown, meant, "`<-` is no assignment"))
}

/// `Y == X + S` as a statement.
pub(super) fn compared_target(line: &CodeLine<'_>, _: &LineContext<'_>) -> Option<Habit> {
    let at = line.find_outside("==").filter(|&at| at > 0 && line.find_outside("=").is_none())?;
    let target = line.code[..line.pieces[at].place.start].trim();
    let is_target = is_name(target.split('[').next().unwrap_or_default()) && (is_name(target) || target.ends_with(']'));
    is_target.then(|| Habit::replace_part(line, line.pieces[at].place.clone(), "=", "`==` compares"))
}

/// `R = relu A`, `A = matmul X, W`.
pub(super) fn bare_call(line: &CodeLine<'_>, _: &LineContext<'_>) -> Option<Habit> {
    let equals = line.find_outside("=").filter(|_| !line.code.contains('\n'))?;
    let (word, operand) = (equals + 1, equals + 2);
    let (name, next) = (line.piece_text(word), line.piece_text(operand));
    let is_call = line.is_name(word) && line.is_name(operand) && line.piece_text(operand + 1) != "=";
    let is_known = name != "not" && !matches!(next, "if" | "for" | "and" | "or" | "is" | "in" | "else" | "alloc");
    let end = line.code.trim_end_matches(';').trim_end().len();
    (is_call && is_known).then(|| {
        let start = line.pieces[operand].place.start;
        let meant = format!("{}({})", &line.code[..line.pieces[word].place.end], &line.code[start..end]);
        let place = line.pieces[word].place.clone();
        Habit::rewrite_line(place, meant, format!("the operands of `{name}` stand in brackets")).into_slip()
    })
}

/// `A = matmul(X, W))`, `Y = X + S,`.
pub(super) fn stray_sign(line: &CodeLine<'_>, _: &LineContext<'_>) -> Option<Habit> {
    let mut depth = 0usize;
    for at in 0..line.pieces.len() {
        match line.piece_text(at) {
            "(" | "[" | "{" => depth += 1,
            ")" | "]" | "}" if depth == 0 => {
                let found = line.piece_text(at);
                let message = format!("this `{found}` has no opening bracket");
                let changed = Habit::replace_part(line, line.pieces[at].place.clone(), "", message);
                return line.code.contains(['(', '[', '{']).then_some(Habit { code: Code::Unmatched, ..changed });
            }
            ")" | "]" | "}" => depth -= 1,
            _ => {}
        }
    }
    let last = line.pieces.len().checked_sub(1).filter(|&last| line.piece_text(last) == ",")?;
    let message = "a statement ends with its line, without `,`";
    Some(Habit::replace_part(line, line.pieces[last].place.clone(), "", message).into_slip())
}

/// `sync 1, 2`, `wait h, g`.
pub(super) fn several_operands(line: &CodeLine<'_>, _: &LineContext<'_>) -> Option<Habit> {
    let word = line.piece_text(0);
    let items = split_items(line.code.get(word.len()..)?.trim_end_matches(';'));
    let has_several = matches!(word, "sync" | "wait") && items.len() > 1 && items.iter().all(|item| !item.is_empty());
    let comma = line.find_outside(",")?;
    let what = if word == "wait" { "post" } else { "stream" };
    has_several.then(|| {
        let lines: Vec<String> = items.iter().map(|item| format!("{word} {item}")).collect();
        let place = line.pieces[comma].place.clone();
        Habit::rewrite_line(place, lines.join("\n"), format!("`{word}` waits for one {what}")).into_slip().into_slip()
    })
}

/// `wait(h)`, `wait 1`.
pub(super) fn waited_operand(line: &CodeLine<'_>, _: &LineContext<'_>) -> Option<Habit> {
    if line.piece_text(0) != "wait" {
        return None;
    }
    let operand = line.code["wait".len()..].trim();
    if !operand.is_empty() && operand.bytes().all(|byte| byte.is_ascii_digit()) {
        return Some(Habit::rewrite_line(
            0.."wait".len(),
            format!("sync {operand}"),
            "`wait` waits for a communication, `sync` for a stream",
        ));
    }
    let inner = operand.strip_prefix('(').and_then(|rest| rest.strip_suffix(')'))?;
    let is_handle = is_name(inner.split('[').next().unwrap_or_default()) && !inner.contains(['(', ',']);
    is_handle.then(|| {
        Habit::rewrite_line(0..line.code.len(), format!("wait {inner}"), "`wait` is a statement, without brackets")
    })
}

/// `A[j, ..., own]`.
pub(super) fn ellipsis(line: &CodeLine<'_>, _: &LineContext<'_>) -> Option<Habit> {
    let at = (1..line.pieces.len()).find(|&at| line.piece_text(at) == "..." && line.pieces[at].depth > 0)?;
    Some(Habit::replace_part(line, line.pieces[at].place.clone(), ":", "an index has a `:` for each whole axis"))
}

/// `0.5f`.
pub(super) fn suffixed_number(line: &CodeLine<'_>, _: &LineContext<'_>) -> Option<Habit> {
    let at = (0..line.pieces.len()).find(|&at| {
        let number = line.piece_text(at).strip_suffix(['f', 'F']).unwrap_or_default();
        number.contains('.') && number.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.')
    })?;
    let found = line.piece_text(at);
    let meant = format!("f32({})", found.trim_end_matches(['f', 'F']));
    Some(Habit::replace_part(
        line,
        line.pieces[at].place.clone(),
        &meant,
        format!("a number has no suffix: `{found}` has a type"),
    ))
}

/// `S: [t, h] f32 = alloc`.
pub(super) fn axes_first(line: &CodeLine<'_>, _: &LineContext<'_>) -> Option<Habit> {
    let open = 2;
    if !line.is_name(0) || line.piece_text(1) != ":" || line.piece_text(open) != "[" {
        return None;
    }
    let close = line.closing(open)?;
    let ty = element_type(line.piece_text(close + 1))?;
    let place = line.pieces[open].place.start..line.pieces[close + 1].place.end;
    let meant = format!("{ty}[{}]", line.between(open, close));
    Some(Habit::replace_part(line, place, &meant, "the element type stands in front of the axes"))
}

/// `Set.Permute(Y, [1, 0])`.
pub(super) fn list_without_key(line: &CodeLine<'_>, _: &LineContext<'_>) -> Option<Habit> {
    let (open, key) = (1..line.pieces.len()).find_map(|open| {
        let (_, key) = LIST_KEYS.iter().find(|(op, _)| *op == line.piece_text(open - 1))?;
        (line.piece_text(open) == "(").then_some((open, *key))
    })?;
    let close = line.closing(open)?;
    let list = (open + 1..close).find(|&at| line.piece_text(at) == "[" && line.piece_text(at - 1) == ",")?;
    let is_key = line.between(open, close).contains(&format!("{key}="));
    let at = line.pieces[list].place.start;
    let message = format!("this list is `{key}=`");
    let shown = at..line.pieces[line.closing(list)?].place.end;
    (!is_key && key != "ranges")
        .then(|| Habit { place: shown, ..Habit::replace_part(line, at..at, &format!("{key}="), message) })
}

/// `Y.t()`, `Y.transpose(0, 1)`, `Y.permute(1, 0)`.
pub(super) fn transpose_method(line: &CodeLine<'_>, _: &LineContext<'_>) -> Option<Habit> {
    let dot = (1..line.pieces.len()).find(|&at| {
        line.piece_text(at) == "."
            && line.is_name(at - 1)
            && matches!(line.piece_text(at + 1), "t" | "transpose" | "permute")
            && line.piece_text(at + 2) == "("
    })?;
    let close = line.closing(dot + 2)?;
    let (name, method) = (line.piece_text(dot - 1), line.piece_text(dot + 1));
    let perm = match (method, line.between(dot + 2, close)) {
        ("t", "") | ("transpose", "" | "0, 1" | "1, 0") => "1, 0",
        ("permute", perm) if !perm.is_empty() && !perm.contains(['(', '-']) => perm,
        _ => return None,
    };
    let place = line.pieces[dot - 1].place.start..line.pieces[close].place.end;
    let shown = line.pieces[dot].place.start..line.pieces[dot + 1].place.end;
    let meant = format!("Set.Permute({name}, perm=[{perm}])");
    Some(Habit { place: shown, ..Habit::replace_part(line, place, &meant, "axes are exchanged by `Set.Permute`") })
}

/// `send(U, rank + 1)`, `send(U, dst=1)`.
pub(super) fn peer_without_key(line: &CodeLine<'_>, _: &LineContext<'_>) -> Option<Habit> {
    let open = (1..line.pieces.len())
        .find(|&open| line.piece_text(open) == "(" && matches!(line.piece_text(open - 1), "send" | "recv"))?;
    let close = line.closing(open)?;
    let items = split_items(line.between(open, close));
    let [tensor, peer] = items[..] else { return None };
    let key = if line.piece_text(open - 1) == "send" { "to" } else { "from" };
    let place = line.pieces[open].place.end..line.pieces[close].place.start;
    let message = format!("the other rank is given by name: `{key}=`");
    (!peer.contains(['=', ':'])).then(|| Habit::replace_part(line, place, &format!("{tensor}, {key}={peer}"), message))
}

/// `gather(X -> G, root==0)`.
pub(super) fn compared_key(line: &CodeLine<'_>, _: &LineContext<'_>) -> Option<Habit> {
    let at = (2..line.pieces.len()).find(|&at| {
        line.piece_text(at) == "=="
            && KEYS.contains(&line.piece_text(at - 1))
            && matches!(line.piece_text(at - 2), "," | "(")
    })?;
    Some(Habit::replace_part(line, line.pieces[at].place.clone(), "=", "an argument is `value` or `key=value`"))
}

/// `wait allreduce(P, S)`, `wait all_reduce(P -> S)`.
pub(super) fn collective_call(line: &CodeLine<'_>, _: &LineContext<'_>) -> Option<Habit> {
    let open = (1..line.pieces.len())
        .find(|&open| line.piece_text(open) == "(" && collective_word(line.piece_text(open - 1)).is_some())?;
    let found = line.piece_text(open - 1);
    let word = collective_word(found)?;
    let is_posted = open == 1 || matches!(line.piece_text(open - 2), "wait" | "=" | "{" | ";");
    let place = line.pieces[open - 1].place.clone();
    if found != word && is_posted {
        return Some(Habit::replace_part(line, place, word, format!("`{found}` is written `{word}` here")));
    }
    let close = line.closing(open)?;
    let items = split_items(line.between(open, close));
    let [source, result, ..] = items[..] else { return None };
    let are_plain = [source, result]
        .iter()
        .all(|item| is_name(item.split('[').next().unwrap_or_default()) && !item.contains(['=', '(']))
        && items[2..].iter().all(|item| item.contains('='));
    let is_collective = COLLECTIVE_WORDS.contains(&word) && is_posted && are_plain;
    is_collective.then(|| {
        let start = line.pieces[open].place.end;
        let inside = &line.code[start..line.pieces[close].place.start];
        let meant = inside.replacen(&format!("{source}, {result}"), &format!("{source} -> {result}"), 1);
        let message = format!("`->` stands between the two tensors of `{word}`");
        Habit::replace_part(line, start..start + inside.len(), &meant, message)
    })
}
