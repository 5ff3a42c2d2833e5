//! Finds the end of a tensor reference or an iteration domain, without reading it.
//!
//! The printed form is one line without nested square brackets, which one vectorised search
//! settles. Everything else (free white space, nested brackets) goes through a byte loop that gives
//! up early on text that cannot belong to the reference, so that a missing bracket costs one
//! statement and never a scan of the rest of the file.

use crate::nesting::MAX_BRACKETS;
use memchr::{memchr2, memchr3};

/// The largest number of lines of a reference.
const MAX_LINES: usize = 64;

/// The end of a reference.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReferenceEnd {
    /// One past its last byte.
    Closed(usize),
    /// The bracket at `open` has no partner; the text up to `end` belongs to the attempt.
    Broken { open: usize, end: usize },
}

/// A full tensor reference whose `T3_g_float` is `bytes[start..head]`; `None` if no `[` follows and
/// it is a mere name.
pub(crate) fn scan_tensor(bytes: &[u8], start: usize, head: usize) -> Option<ReferenceEnd> {
    let open = find_opening_bracket(bytes, start, head)?;
    let end = match scan_domain_list(bytes, open) {
        ReferenceEnd::Closed(end) => end,
        broken @ ReferenceEnd::Broken { .. } => return Some(broken),
    };
    Some(scan_suffix(bytes, end))
}

/// The `[` after a head whose type may continue in `<..>`, `{..}` or `*`.
fn find_opening_bracket(bytes: &[u8], start: usize, head: usize) -> Option<usize> {
    let mut at = head;
    if bytes.get(at) == Some(&b'<') {
        at = matching_close(bytes, at, [b'<', b'>'])?;
    } else if bytes[start..head].ends_with(b"_struct") {
        let brace = skip_blanks(bytes, at);
        if bytes.get(brace) == Some(&b'{') {
            at = matching_close(bytes, brace, [b'{', b'}'])?;
        }
    }
    while bytes.get(at) == Some(&b'*') {
        at += 1;
    }
    at = skip_blanks(bytes, at);
    (bytes.get(at) == Some(&b'[')).then_some(at)
}

/// One past the bracket that closes the one at `open`, in the same line.
fn matching_close(bytes: &[u8], open: usize, [opening, closing]: [u8; 2]) -> Option<usize> {
    let mut depth = 0usize;
    for (at, &byte) in bytes.iter().enumerate().skip(open) {
        if byte == opening {
            depth += 1;
        } else if byte == closing {
            depth -= 1;
            if depth == 0 {
                return Some(at + 1);
            }
        } else if byte == b'\n' {
            return None;
        }
    }
    None
}

/// Past the blanks of this line.
fn skip_blanks(bytes: &[u8], mut at: usize) -> usize {
    while matches!(bytes.get(at), Some(b' ' | b'\t')) {
        at += 1;
    }
    at
}

/// Past all white space.
pub(crate) fn skip_whitespace(bytes: &[u8], mut at: usize) -> usize {
    while bytes.get(at).is_some_and(u8::is_ascii_whitespace) {
        at += 1;
    }
    at
}

/// The `[...]` of a tensor.
fn scan_domain_list(bytes: &[u8], open: usize) -> ReferenceEnd {
    match memchr3(b']', b'[', b'\n', &bytes[open + 1..]) {
        Some(at) if bytes[open + 1 + at] == b']' && memchr2(b';', b'=', &bytes[open..open + at]).is_none() => {
            ReferenceEnd::Closed(open + at + 2)
        }
        _ => scan_brackets(bytes, open),
    }
}

/// The end of the positions, the mesh and the attributes that may follow the `]`.
pub(crate) fn scan_suffix(bytes: &[u8], mut end: usize) -> ReferenceEnd {
    loop {
        let at = skip_whitespace(bytes, end);
        let rest = &bytes[at..];
        let (open, last) = match find_position_paren(rest) {
            Some(open) => (at + open, false),
            None if is_mesh(rest) => (at, true),
            None => break,
        };
        match scan_parentheses(bytes, open) {
            ReferenceEnd::Closed(close) => end = close,
            broken @ ReferenceEnd::Broken { .. } => return broken,
        }
        if last {
            break;
        }
    }
    let at = skip_blanks(bytes, end);
    if starts_attributes(bytes, at) { scan_brackets(bytes, at) } else { ReferenceEnd::Closed(end) }
}

/// True if attributes follow on the line.
pub(crate) fn has_attributes(bytes: &[u8], end: usize) -> bool {
    starts_attributes(bytes, skip_blanks(bytes, end))
}

/// `ca_pos( 3 )` and its like: the position of its `(`.
fn find_position_paren(rest: &[u8]) -> Option<usize> {
    const WORDS: [&[u8]; 4] = [b"ca_pos(", b"compute_with(", b"produce_pos(", b"maybe_produce_pos("];
    if !matches!(rest.first(), Some(b'c' | b'p' | b'm')) {
        return None;
    }
    WORDS.iter().find(|word| rest.starts_with(word)).map(|word| word.len() - 1)
}

/// Whether `(DeviceMesh` follows.
fn is_mesh(rest: &[u8]) -> bool {
    rest.first() == Some(&b'(') && rest[skip_whitespace(rest, 1)..].starts_with(b"DeviceMesh")
}

/// From a `(` to the end of its `)`.
fn scan_parentheses(bytes: &[u8], open: usize) -> ReferenceEnd {
    match memchr3(b')', b'(', b'\n', &bytes[open + 1..]) {
        Some(at) if bytes[open + 1 + at] == b')' => ReferenceEnd::Closed(open + at + 2),
        _ => scan_brackets(bytes, open),
    }
}

/// True if `{ word =` stands at `at`.
fn starts_attributes(bytes: &[u8], at: usize) -> bool {
    if bytes.get(at) != Some(&b'{') {
        return false;
    }
    let word = skip_whitespace(bytes, at + 1);
    let mut end = word;
    while bytes.get(end).is_some_and(|&b| b.is_ascii_alphanumeric() || b == b'_') {
        end += 1;
    }
    let equal = skip_whitespace(bytes, end);
    end > word && bytes.get(equal) == Some(&b'=') && bytes.get(equal + 1) != Some(&b'=')
}

/// A domain with its suffixes; its `{` is at `open`.
pub(crate) fn scan_domain(bytes: &[u8], open: usize) -> ReferenceEnd {
    match scan_braces(bytes, open) {
        ReferenceEnd::Closed(mut end) => {
            for suffix in [&b"rf"[..], b"_p", b"_c"] {
                if bytes[end..].starts_with(suffix) {
                    end += suffix.len();
                }
            }
            ReferenceEnd::Closed(end)
        }
        broken @ ReferenceEnd::Broken { .. } => broken,
    }
}

/// From a domain's `{` to the end of its `}`.
pub(crate) fn scan_braces(bytes: &[u8], open: usize) -> ReferenceEnd {
    match memchr3(b'}', b'{', b'\n', &bytes[open + 1..]) {
        Some(at) if bytes[open + 1 + at] == b'}' => ReferenceEnd::Closed(open + at + 2),
        _ => scan_brackets(bytes, open),
    }
}

/// From an opening bracket to the end of its partner.
fn scan_brackets(bytes: &[u8], open: usize) -> ReferenceEnd {
    let mut stack = [(0u8, 0usize); MAX_BRACKETS];
    let mut depth = 0;
    let mut lines = 0;
    let mut first_line = None;
    let mut at = open;
    while let Some(&byte) = bytes.get(at) {
        match byte {
            b'(' | b'[' | b'{' => {
                if depth == MAX_BRACKETS {
                    break;
                }
                let closer = if byte == b'(' { b')' } else { byte + 2 };
                stack[depth] = (closer, at);
                depth += 1;
            }
            b')' | b']' | b'}' => {
                if stack[depth - 1].0 != byte {
                    break;
                }
                depth -= 1;
                if depth == 0 {
                    return ReferenceEnd::Closed(at + 1);
                }
            }
            b';' => break,
            b'/' if bytes.get(at + 1) == Some(&b'/') => break,
            b'\n' => {
                first_line.get_or_insert(at);
                lines += 1;
                let next = bytes.get(skip_whitespace(bytes, at));
                if lines > MAX_LINES || next.is_none_or(|b| b.is_ascii_uppercase() || *b == b'%') {
                    break;
                }
            }
            _ => {}
        }
        at += 1;
    }
    let end = first_line.unwrap_or_else(|| at + line_rest(&bytes[at.min(bytes.len())..]));
    ReferenceEnd::Broken { open: stack[depth - 1].1, end: end.min(bytes.len()) }
}

/// Bytes up to the end of the line, or to the `;` or comment before it.
fn line_rest(rest: &[u8]) -> usize {
    memchr2(b'\n', b';', rest).unwrap_or(rest.len())
}

/// True for a byte of a name or number.
pub(crate) fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}
