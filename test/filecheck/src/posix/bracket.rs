//! Bracket expressions: `[a-z]`, `[^[:digit:]]`, `[[.hyphen.]]`, `[[=a=]]`, and `[[:<:]]` and `[[:>:]]` for the ends of a
//! word.

use super::byte_set::ByteSet;
use super::syntax::{Assertion, ExpressionParser, Node};

const OPEN_BRACKET: &str = "brackets ([ ]) not balanced";
const BAD_RANGE: &str = "invalid character range";
const BAD_CLASS: &str = "invalid character class";
const BAD_ELEMENT: &str = "invalid collating element";

/// Reads a bracket expression after its `[`.
///
/// # Errors
/// A description of what is not well formed.
pub(super) fn parse_bracket(parser: &mut ExpressionParser<'_>) -> Result<Node, String> {
    for (text, assertion) in [("[:<:]]", Assertion::WordStart), ("[:>:]]", Assertion::WordEnd)] {
        if parser.take_text(text.as_bytes()) {
            return Ok(Node::Assertion(assertion));
        }
    }
    let is_complement = parser.take_text(b"^");
    let mut set = ByteSet::default();
    if let Some(first @ (b']' | b'-')) = parser.peek() {
        parser.next_byte();
        set.insert(first);
    }
    while !matches!(parser.rest, [] | [b']', ..] | [b'-', b']', ..]) {
        add_term(parser, &mut set)?;
    }
    if parser.take_text(b"-") {
        set.insert(b'-');
    }
    if !parser.take_text(b"]") {
        return Err(OPEN_BRACKET.to_owned());
    }
    if parser.ignore_case {
        set = set.with_both_cases();
    }
    if is_complement {
        set.insert(b'\n');
        set = set.complement();
    }
    Ok(Node::Byte(set))
}

fn add_term(parser: &mut ExpressionParser<'_>, set: &mut ByteSet) -> Result<(), String> {
    match parser.rest {
        [b'-', ..] => Err(BAD_RANGE.to_owned()),
        [b'[', b':', ..] => add_class(parser, set),
        [b'[', b'=', ..] => {
            parser.rest = &parser.rest[2..];
            set.insert(collating_element(parser, b"=]")?);
            Ok(())
        }
        _ => add_range(parser, set),
    }
}

/// Reads `[:name:]`.
fn add_class(parser: &mut ExpressionParser<'_>, set: &mut ByteSet) -> Result<(), String> {
    parser.rest = &parser.rest[2..];
    let length = parser.rest.iter().take_while(|byte| byte.is_ascii_alphabetic()).count();
    let (name, rest) = parser.rest.split_at(length);
    parser.rest = rest;
    let Some(&(_, members)) = CLASSES.iter().find(|(known, _)| known.as_bytes() == name) else {
        return Err(if rest.is_empty() { OPEN_BRACKET } else { BAD_CLASS }.to_owned());
    };
    if !parser.take_text(b":]") {
        return Err(if rest.is_empty() { OPEN_BRACKET } else { BAD_CLASS }.to_owned());
    }
    for byte in (0..=u8::MAX).filter(members) {
        set.insert(byte);
    }
    Ok(())
}

/// A class of characters, as a predicate.
type IsMember = fn(&u8) -> bool;

const CLASSES: [(&str, IsMember); 12] = [
    ("alnum", u8::is_ascii_alphanumeric),
    ("alpha", u8::is_ascii_alphabetic),
    ("blank", |byte| matches!(byte, b' ' | b'\t')),
    ("cntrl", |byte| byte.is_ascii_control() && *byte != 0),
    ("digit", u8::is_ascii_digit),
    ("graph", u8::is_ascii_graphic),
    ("lower", u8::is_ascii_lowercase),
    ("print", |byte| byte.is_ascii_graphic() || *byte == b' '),
    ("punct", u8::is_ascii_punctuation),
    ("space", |byte| matches!(byte, b'\t'..=b'\r' | b' ')),
    ("upper", u8::is_ascii_uppercase),
    ("xdigit", u8::is_ascii_hexdigit),
];

/// Reads a byte, or a range of bytes, whose ends compare as LLVM's signed characters do.
fn add_range(parser: &mut ExpressionParser<'_>, set: &mut ByteSet) -> Result<(), String> {
    let first = range_end(parser)?;
    let is_range = matches!(parser.rest, [b'-', next, ..] if *next != b']');
    let last = match is_range {
        false => first,
        true => {
            parser.next_byte();
            range_end(parser)?
        }
    };
    if first.cast_signed() > last.cast_signed() {
        return Err(BAD_RANGE.to_owned());
    }
    for byte in first.cast_signed()..=last.cast_signed() {
        set.insert(byte.cast_unsigned());
    }
    Ok(())
}

/// Reads a byte, or `[.name.]`.
fn range_end(parser: &mut ExpressionParser<'_>) -> Result<u8, String> {
    if parser.take_text(b"[.") {
        return collating_element(parser, b".]");
    }
    parser.next_byte().ok_or_else(|| OPEN_BRACKET.to_owned())
}

/// Reads a name, or a single byte, up to and with `end`.
fn collating_element(parser: &mut ExpressionParser<'_>, end: &[u8]) -> Result<u8, String> {
    let length = parser.rest.windows(end.len()).position(|next| next == end).ok_or(OPEN_BRACKET)?;
    let name = &parser.rest[..length];
    parser.rest = &parser.rest[length + end.len()..];
    if let [byte] = name {
        return Ok(*byte);
    }
    let named = NAMES.iter().find(|(known, _)| known.as_bytes() == name);
    named.map(|(_, byte)| *byte).ok_or_else(|| BAD_ELEMENT.to_owned())
}

/// POSIX's names of characters that a check file may need.
const NAMES: [(&str, u8); 45] = [
    ("tab", b'\t'),
    ("newline", b'\n'),
    ("space", b' '),
    ("exclamation-mark", b'!'),
    ("quotation-mark", b'"'),
    ("number-sign", b'#'),
    ("dollar-sign", b'$'),
    ("percent-sign", b'%'),
    ("ampersand", b'&'),
    ("apostrophe", b'\''),
    ("left-parenthesis", b'('),
    ("right-parenthesis", b')'),
    ("asterisk", b'*'),
    ("plus-sign", b'+'),
    ("comma", b','),
    ("hyphen", b'-'),
    ("hyphen-minus", b'-'),
    ("period", b'.'),
    ("full-stop", b'.'),
    ("slash", b'/'),
    ("solidus", b'/'),
    ("zero", b'0'),
    ("one", b'1'),
    ("two", b'2'),
    ("three", b'3'),
    ("four", b'4'),
    ("five", b'5'),
    ("six", b'6'),
    ("seven", b'7'),
    ("eight", b'8'),
    ("nine", b'9'),
    ("colon", b':'),
    ("semicolon", b';'),
    ("less-than-sign", b'<'),
    ("equals-sign", b'='),
    ("greater-than-sign", b'>'),
    ("question-mark", b'?'),
    ("commercial-at", b'@'),
    ("left-square-bracket", b'['),
    ("backslash", b'\\'),
    ("right-square-bracket", b']'),
    ("circumflex", b'^'),
    ("underscore", b'_'),
    ("vertical-line", b'|'),
    ("tilde", b'~'),
];
