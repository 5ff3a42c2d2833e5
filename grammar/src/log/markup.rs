//! Removes additions of terminals and web pages from a text: colours and other control sequences, entities and tags of
//! HTML.

use super::DROPPED;
use super::places::PiecedText;
use crate::unfold::OPEN;
use memchr::memmem;

const ESCAPE: u8 = 0x1b;
/// The maximum length of an HTML entity, in bytes.
const MAX_ENTITY: usize = 10;

/// The text without additions of a terminal or a web page; `None` if there are none.
pub(super) fn strip_markup(text: &str) -> Option<PiecedText> {
    let bytes = text.as_bytes();
    let (controls, html) = find_markup(bytes, memmem::find(bytes, OPEN.as_bytes()).is_some());
    if !controls && !html {
        return None;
    }
    let mut out = PiecedText::default();
    let mut at = 0;
    for line in text.split_inclusive('\n') {
        strip_line(line, at, controls, html, &mut out);
        at += line.len();
    }
    Some(out)
}

/// Searches control sequences, and entities of HTML; returns which of the two a text has. All are searched in one block
/// after the other, which stays in the processor's cache: a long text is read from memory once.
fn find_markup(bytes: &[u8], is_log: bool) -> (bool, bool) {
    const BLOCK: usize = 1 << 15;
    let mut marks = vec![&b"\x1b"[..], "\u{9b}".as_bytes()];
    if is_log {
        marks.extend([&b"^[["[..], b"[0m"]);
    }
    let controls: Vec<_> = marks.into_iter().map(memmem::Finder::new).collect();
    // The header of a program has an arrow.
    let arrow = memmem::Finder::new(b"-&gt;");
    let (mut has_controls, mut has_entities) = (false, false);
    for start in (0..bytes.len()).step_by(BLOCK) {
        // A mark may begin in one block and end in the next.
        let block = &bytes[start..bytes.len().min(start + BLOCK + arrow.needle().len())];
        has_controls = has_controls || controls.iter().any(|mark| mark.find(block).is_some());
        has_entities = has_entities || is_log && arrow.find(block).is_some();
    }
    (has_controls, has_entities)
}

/// Appends a line of the original offset `there` without markup; for a line of markup alone, the mark.
fn strip_line(line: &str, there: usize, controls: bool, html: bool, out: &mut PiecedText) {
    let before = out.text.len();
    let bytes = line.as_bytes();
    let (mut start, mut at) = (0, 0);
    while at < bytes.len() {
        let found = control_len(&bytes[at..]).filter(|_| controls).map(|len| (len, ""));
        let found = found.or_else(|| markup_len(&line[at..]).filter(|_| html));
        let Some((len, replacement)) = found else {
            at += char_len(bytes[at]);
            continue;
        };
        out.push(&line[start..at], there + start);
        out.push(replacement, there + at);
        at += len;
        start = at;
    }
    let is_empty = start > 0 && out.text[before..].trim().is_empty() && line[start..].trim().is_empty();
    if is_empty && !out.text[before..].contains('\n') {
        out.push(DROPPED, there);
    }
    out.push(&line[start..], there + start);
}

/// The length in bytes of the character that begins with a byte.
fn char_len(first: u8) -> usize {
    match first {
        0xf0.. => 4,
        0xe0.. => 3,
        0xc0.. => 2,
        _ => 1,
    }
}

/// The length of a control sequence at the start of a text: of a terminal, in the form of `cat -v`, or without its
/// first character, which some pages drop.
fn control_len(bytes: &[u8]) -> Option<usize> {
    match bytes {
        [ESCAPE, b'[', rest @ ..] => Some(2 + sequence_len(rest)),
        [ESCAPE, b']' | b'_' | b'P' | b'^' | b'X', rest @ ..] => Some(2 + string_len(rest)),
        [ESCAPE, b'(' | b')' | b'#' | b'%', next, ..] if next.is_ascii() => Some(3),
        [ESCAPE, next, ..] if next.is_ascii() && *next != b'\n' => Some(2),
        [ESCAPE, ..] => Some(1),
        [0xc2, 0x9b, rest @ ..] => Some(2 + sequence_len(rest)),
        [b'^', b'[', b'[', rest @ ..] => Some(3 + sequence_len(rest)),
        [b'[', rest @ ..] => {
            let digits = rest.iter().take_while(|byte| byte.is_ascii_digit() || **byte == b';').count();
            let is_color = rest.first().is_some_and(u8::is_ascii_digit) && rest.get(digits) == Some(&b'm');
            (is_color && digits <= 16).then_some(digits + 2)
        }
        _ => None,
    }
}

/// The length of parameters and the final byte of a control sequence.
fn sequence_len(rest: &[u8]) -> usize {
    let parameters = rest.iter().take_while(|byte| (0x20..0x40).contains(*byte)).count();
    parameters + usize::from(rest.get(parameters).is_some_and(|last| (0x40..0x7f).contains(last)))
}

/// The length of a terminal's string sequence, with its terminator on its line.
fn string_len(rest: &[u8]) -> usize {
    let line = memchr::memchr(b'\n', rest).unwrap_or(rest.len());
    let Some(end) = memchr::memchr2(0x07, ESCAPE, &rest[..line]) else { return 0 };
    end + if rest[end] == ESCAPE && rest.get(end + 1) == Some(&b'\\') { 2 } else { 1 }
}

/// The length of an entity or a tag of HTML at the start of a text, and the text that it stands for.
fn markup_len(text: &str) -> Option<(usize, &'static str)> {
    const ENTITIES: [(&str, &str); 8] = [
        ("&gt;", ">"),
        ("&lt;", "<"),
        ("&amp;", "&"),
        ("&quot;", "\""),
        ("&apos;", "'"),
        ("&nbsp;", " "),
        ("&#39;", "'"),
        ("&#x27;", "'"),
    ];
    if text.starts_with('&') {
        let head = text.as_bytes().get(..MAX_ENTITY).unwrap_or(text.as_bytes());
        let found = ENTITIES.iter().find(|(entity, _)| head.starts_with(entity.as_bytes()));
        return found.map(|(entity, meant)| (entity.len(), *meant));
    }
    // A `<` of the text itself is `&lt;`.
    let tag = text.strip_prefix('<')?;
    let end = tag.find(['>', '<', '\n']).filter(|&end| tag[end..].starts_with('>'))?;
    let is_break = tag.starts_with("br") && !tag[end + 1..].trim_start_matches('\r').starts_with('\n');
    Some((end + 2, if is_break { "\n" } else { "" }))
}
