//! Programs whose line breaks were lost, as on a page that puts a whole container on one line.
//!
//! The start of a statement is visible: a word of the host, or a name before `=`. The end of a loop's body is not,
//! without indentation, except for the loops that nvFuser makes over streams: such a body ends with the way back to the
//! caller's stream (`SetCurrentStream to Stream 0`, `Synchronize Stream ( i % n )`), is only the way there before
//! another loop of the same index, or continues to the end. Anything else stays as it is, and the parser reports the
//! missing line breaks.

use std::fmt::Write as _;

/// The start of the header of a container.
pub(crate) const OPEN: &str = "%HostIrContainer {";
/// The end of a container with its label.
pub(crate) const CLOSE: &str = "} // %HostIrContainer";

/// Words that start a statement anywhere outside of brackets.
const HEADS: &[&str] = &[
    "FOR",
    "IF",
    "ELSE",
    "SetCurrentStream",
    "Synchronize",
    "GetCurrentStream",
    "Wait",
    "StartCoalescing",
    "EndCoalescing",
    "PostOnStream",
    "Deallocate",
    "ShareMemHandles",
    "LaunchKernel",
];
/// Words that start one before a number and an argument list, except after `Wait`.
const NUMBERED: &[&str] = &["Communication", "P2PCommunication", "CollectivePermute"];
/// Starts of text that may follow the name of a tensor.
const ATTACHED: &[&str] = &["[", "(DeviceMesh", "{logical", "{axes", "ca_pos", "produce_pos", "maybe_produce_pos"];

/// Returns true if a line contains a whole container that is not empty.
pub(crate) fn is_folded(line: &str) -> bool {
    let Some(open) = line.find(OPEN) else { return false };
    line[open..].contains(CLOSE)
}

/// The lines of the container on a line, if they can be determined.
pub(crate) fn unfold_container(line: &str) -> Option<String> {
    let open = line.find(OPEN)?;
    let close = open + line[open..].find(CLOSE)?;
    let text = &line[open..close];
    let header = find_header_end(text)?;
    let mut sections = split_sections(&text[header..]).into_iter();
    let mut out = format!("{}\n", text[..header].trim_end());
    unfold_body(sections.next()?, &mut out)?;
    for section in sections {
        unfold_unit(section, &mut out)?;
    }
    out.push_str(CLOSE);
    crate::parse(&out).errors.is_empty().then_some(out)
}

/// The end of the `:` after the two lists of the header.
fn find_header_end(text: &str) -> Option<usize> {
    let mut brackets = BracketDepth::default();
    // The container's own brace stays open.
    let colon = text.char_indices().find(|&(_, c)| brackets.depth_after(c) == 1 && c == ':');
    colon.map(|(at, _)| at + 1)
}

/// The body and the HostUnits.
fn split_sections(text: &str) -> Vec<&str> {
    let mut cuts = vec![0];
    for (at, _) in text.match_indices("HostUnit") {
        let digits = text[at + 8..].trim_start_matches(|c: char| c.is_ascii_digit());
        if digits.starts_with(": Inputs={") {
            cuts.push(at);
        }
    }
    cuts.push(text.len());
    cuts.windows(2).map(|pair| text[pair[0]..pair[1]].trim()).collect()
}

/// The depth of nested brackets.
#[derive(Default)]
struct BracketDepth {
    depth: usize,
}

impl BracketDepth {
    /// The depth after a character.
    fn depth_after(&mut self, c: char) -> usize {
        match c {
            '(' | '[' | '{' => self.depth += 1,
            ')' | ']' | '}' => self.depth = self.depth.saturating_sub(1),
            _ => {}
        }
        self.depth
    }
}

/// A text in parts: `starts` returns true at the start of one, given the text before and after.
fn split_parts(text: &str, starts: impl Fn(Option<char>, &str) -> bool) -> Vec<&str> {
    let (mut brackets, mut cuts) = (BracketDepth::default(), Vec::new());
    let (mut before, mut solid) = (' ', None);
    for (at, c) in text.char_indices() {
        let word = before == ' ' && c != ' ';
        // `Wait Communication 3 (element=0)` is one statement.
        let is_awaited = word && text[..at].trim_end().ends_with("Wait");
        if word && brackets.depth == 0 && !is_awaited && starts(solid, &text[at..]) {
            cuts.push(at);
        }
        brackets.depth_after(c);
        before = c;
        if c != ' ' {
            solid = Some(c);
        }
    }
    cuts.push(text.len());
    cuts.windows(2).map(|pair| text[pair[0]..pair[1]].trim()).collect()
}

/// True if a statement starts here: not after an operator or a comma.
fn starts_statement(before: Option<char>, text: &str) -> bool {
    if before.is_some_and(|c| "=,+-*/%<>&|^!~".contains(c)) {
        return false;
    }
    let end = text.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(text.len());
    let (word, rest) = text.split_at(end);
    if HEADS.contains(&word) {
        return true;
    }
    if NUMBERED.contains(&word) {
        let number = rest.trim_start();
        let list = number.trim_start_matches(|c: char| c.is_ascii_digit());
        return list.len() < number.len() && list.trim_start().starts_with('(');
    }
    if word == "Stream" {
        let name = rest.trim_start();
        let after = name.trim_start_matches(|c: char| c.is_ascii_alphanumeric());
        return is_assignment(after);
    }
    word.starts_with(|c: char| c.is_ascii_alphabetic()) && is_assignment(text_after_name(text))
}

/// The rest of a text after a scalar's name or a tensor with its axes, mesh and attributes.
fn text_after_name(text: &str) -> &str {
    let end = text.find([' ', '[', '(', '{']).unwrap_or(text.len());
    let mut rest = &text[end..];
    loop {
        let next = rest.trim_start();
        if !ATTACHED.iter().any(|start| next.starts_with(start)) {
            return next;
        }
        let mut brackets = BracketDepth::default();
        let close = next.char_indices().find(|&(_, c)| brackets.depth_after(c) == 0 && ")]}".contains(c));
        let Some((at, _)) = close else { return "" };
        rest = &next[at + 1..];
    }
}

fn is_assignment(text: &str) -> bool {
    let text = text.trim_start();
    text.starts_with('=') && !text.starts_with("==")
}

/// A loop whose body has not ended.
struct OpenLoop<'t> {
    index: &'t str,
    /// The statements of its body so far.
    body: Vec<&'t str>,
}

/// Writes the statements of the program, those of loops deeper.
fn unfold_body(text: &str, out: &mut String) -> Option<()> {
    let mut open: Vec<OpenLoop<'_>> = Vec::new();
    for statement in split_statements(text) {
        if statement.starts_with("IF ") || statement.starts_with("ELSE") {
            return None;
        }
        let index = loop_index(statement);
        if index.is_some() && !open.is_empty() {
            let done = open.pop().filter(|done| Some(done.index) == index)?;
            is_stream_prologue(&done).then_some(())?;
        }
        let _ = writeln!(out, "{}{statement}", " ".repeat(2 + 2 * open.len()));
        if let Some(last) = open.last_mut() {
            last.body.push(statement);
            if has_stream_epilogue(last) {
                open.pop();
            }
        }
        open.extend(index.map(|index| OpenLoop { index, body: Vec::new() }));
    }
    // The last loop belongs to the enclosing loop if it needs the index.
    open.iter().all(ends_with_index).then_some(())
}

/// Returns true if the last statement of a loop's body needs the index.
fn ends_with_index(done: &OpenLoop<'_>) -> bool {
    done.body.last().is_some_and(|last| mentions_word(last, done.index))
}

/// A HostUnit's lists and kernel.
fn unfold_unit(text: &str, out: &mut String) -> Option<()> {
    let kernel = text.find("%kernel {")?;
    let end = text.find("} // %kernel")?;
    let head = &text[..kernel];
    let lists = head.find("}Inputs:").map_or(head.len(), |at| at + 1);
    let _ = write!(out, "\n{}", head[..lists].trim_end());
    if lists < head.len() {
        let outputs = lists + head[lists..].find("Outputs:")?;
        for (title, lines) in [("Inputs:", lists..outputs), ("Outputs:", outputs..head.len())] {
            let _ = writeln!(out, "{title}");
            for value in split_values(head[lines].strip_prefix(title)?) {
                let _ = writeln!(out, "  {value}");
            }
        }
    }
    out.push_str("\n%kernel {\n");
    for statement in split_statements(text.get(kernel + "%kernel {".len()..end)?) {
        let _ = writeln!(out, "{statement}");
    }
    out.push_str("} // %kernel\n");
    Some(())
}

fn split_statements(text: &str) -> Vec<&str> {
    split_parts(text, starts_statement)
}

/// Tensors and scalars of a list without commas.
fn split_values(text: &str) -> Vec<&str> {
    const NONE: &[&str] = &["ca_pos", "produce_pos", "maybe_produce_pos", "compute_with"];
    split_parts(text, |_, rest| {
        rest.starts_with(|c: char| c.is_ascii_alphabetic()) && !NONE.iter().any(|word| rest.starts_with(word))
    })
}

/// The index of `FOR index in ..:` or `FOR index from ..:`.
fn loop_index(statement: &str) -> Option<&str> {
    statement.strip_prefix("FOR ")?.split_whitespace().next()
}

/// True if a body sets a loop's stream and makes it wait for the caller's.
fn is_stream_prologue(done: &OpenLoop<'_>) -> bool {
    matches!(done.body[..], [set, wait] if set.starts_with("SetCurrentStream") && mentions_word(set, done.index)
        && wait.starts_with("Synchronize") && !mentions_word(wait, done.index))
}

/// True if a body ends with the way back to the caller's stream, which waits for the loop's.
fn has_stream_epilogue(open: &OpenLoop<'_>) -> bool {
    matches!(open.body[..], [.., set, wait] if set.starts_with("SetCurrentStream") && !mentions_word(set, open.index)
        && wait.starts_with("Synchronize") && mentions_word(wait, open.index))
}

/// True if a name occurs in a text as a word of its own.
fn mentions_word(text: &str, name: &str) -> bool {
    let mut words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    words.any(|word| word == name)
}
