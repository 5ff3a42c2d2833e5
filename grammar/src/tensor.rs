//! Reads tensor references: `T3_g_float[iS0{i0}, iS1{8}] ca_pos( 1 ) (DeviceMesh{0 1})`.
//!
//! The reader runs once for each distinct text. References that differ in white space only become one.

use crate::ast::{ArgRange, DomainId, MeshSyntax, Symbol, TensorRef, TensorRefId, TensorText};
use crate::builder::{Builder, GrammarOutput, KnownReference, ReferenceReader};
use crate::domain::{self, ReferenceCursor};
use crate::dtype::{DTYPES, OTHER_DTYPES, is_kernel_type, number_types};
use crate::error::{Code, SyntaxError};
use crate::scan;
use crate::span::Span;
use crate::spelling::{nearest_candidate, shorten_text};
use crate::token::Start;
use std::ops::Range;

/// Memory letters as printed in a reference.
pub const MEMORIES: [&str; 5] = ["g", "l", "s", "t", "sym"];

/// The largest depth of references inside each other (`iS0Ragged{extents=T1_g_int[...]}`).
const MAX_INNER: u32 = 8;

/// The functions of this module that the lexer calls.
pub(crate) const READER: ReferenceReader =
    ReferenceReader { short: intern_short_ref, again: find_recent_ref, full: intern_full_ref, domain: intern_domain };

/// The number of recent references that are kept.
const RECENT_COUNT: usize = 1 << 11;
/// The number of references from which on recent ones are kept.
const RECENT_FROM: usize = 64;

/// The short reference `T3`.
fn intern_short_ref<'t>(b: &mut Builder<'t>, text: &'t str, span: Span) -> TensorRefId {
    if let Some(&id) = b.seen.tensors.get(text) {
        return id;
    }
    let number = b.reference_number(&text[1..], Span { start: span.start + 1, end: span.end });
    intern_ref(b, text, TensorRef { span, number, full: None })
}

/// A full reference.
///
/// Interns a full reference: two spellings of one reference become one. Most texts are spaced as printed and cannot be
/// a second spelling of each other; the table of texts without white space is only made when the first candidate comes.
fn intern_full_ref(b: &mut Builder<'_>, span: Span) -> TensorRefId {
    let text = &b.text[span.as_usize_range()];
    let id = match b.seen.tensors.get(text) {
        Some(&id) => id,
        None => {
            let (tensor, tidy) = read_reference(b, span);
            if !tidy {
                start_squeezing(b);
            }
            add_once(b, text, tensor)
        }
    };
    keep_recent(b, id);
    id
}

fn keep_recent(b: &mut Builder<'_>, id: TensorRefId) {
    if b.seen.recent.is_empty() {
        if b.ast.tensors.len() < RECENT_FROM {
            return;
        }
        b.seen.recent = vec![id; RECENT_COUNT];
    }
    let number = b.ast.tensors[id.index()].number;
    b.seen.recent[number as usize % RECENT_COUNT] = id;
}

/// The reference that `place` begins with, if it is spelled as the recent one of its number is, and no text after it
/// belongs to it. This spares most references the search for their end and for their text.
fn find_recent_ref(b: &Builder<'_>, place: Span) -> Option<KnownReference> {
    let bytes = &b.text.as_bytes()[..place.end as usize];
    let start = place.start as usize;
    let digits = bytes[start + 1..].iter().take_while(|byte| byte.is_ascii_digit());
    let number = digits.fold(0usize, |number, &digit| number.wrapping_mul(10).wrapping_add(usize::from(digit - b'0')));
    let &id = b.seen.recent.get(number % RECENT_COUNT)?;
    let known = &b.ast.tensors[id.index()];
    let text = &b.text.as_bytes()[known.span.as_usize_range()];
    let end = start + text.len();
    let full = known.full.as_ref().filter(|full| full.attrs.is_empty())?;
    if bytes.get(start..end)? != text {
        return None;
    }
    let ends = match (full.mesh.is_some(), text.last()) {
        (true, Some(b')')) => !scan::has_attributes(bytes, end),
        (false, Some(b']')) => scan::scan_suffix(bytes, end) == scan::ReferenceEnd::Closed(end),
        _ => false,
    };
    ends.then_some(KnownReference { id, end })
}

/// A reference that was read by another builder over the same text.
pub(crate) fn adopt_ref(b: &mut Builder<'_>, tensor: TensorRef) -> TensorRefId {
    let text = &b.text[tensor.span.as_usize_range()];
    match b.seen.tensors.get(text) {
        Some(&id) => id,
        None if tensor.full.is_some() => add_once(b, text, tensor),
        None => intern_ref(b, text, tensor),
    }
}

/// Adds a full reference unless it exists in another spelling.
fn add_once<'t>(b: &mut Builder<'t>, text: &'t str, tensor: TensorRef) -> TensorRefId {
    if !b.seen.squeezing {
        return intern_ref(b, text, tensor);
    }
    let hash = squeezed_hash(text);
    if let Some(&id) = b.seen.squeezed.get(&hash) {
        let other = &b.text[b.ast.tensors[id.index()].span.as_usize_range()];
        if squeezed_bytes(other.as_bytes()).eq(squeezed_bytes(text.as_bytes())) {
            b.seen.tensors.insert(text, id);
            return id;
        }
    }
    let id = intern_ref(b, text, tensor);
    b.seen.squeezed.entry(hash).or_insert(id);
    id
}

/// Enters the references read so far into the table of texts without white space.
pub(crate) fn start_squeezing(b: &mut Builder<'_>) {
    if std::mem::replace(&mut b.seen.squeezing, true) {
        return;
    }
    for (at, tensor) in b.ast.tensors.iter().enumerate() {
        let hash = squeezed_hash(&b.text[tensor.span.as_usize_range()]);
        b.seen.squeezed.entry(hash).or_insert(TensorRefId(at as u32));
    }
}

fn intern_ref<'t>(b: &mut Builder<'t>, text: &'t str, tensor: TensorRef) -> TensorRefId {
    let id = TensorRefId(b.ast.tensors.len() as u32);
    b.ast.tensors.push(tensor);
    b.seen.tensors.insert(text, id);
    id
}

/// A single domain.
fn intern_domain(b: &mut Builder<'_>, span: Span) -> Option<DomainId> {
    let text = &b.text[span.as_usize_range()];
    if let Some(&id) = b.seen.domains.get(text) {
        return Some(id);
    }
    let mut cursor = ReferenceCursor::new(b.text, span);
    let domain = domain::read_domain(b, &mut cursor)?;
    let id = DomainId(b.ast.domains.len() as u32);
    b.ast.domains.push(domain);
    b.seen.domains.insert(text, id);
    Some(id)
}

/// Reads the reference at `span`; returns true if it is spaced as printed, without inner expressions.
fn read_reference(b: &mut Builder<'_>, span: Span) -> (TensorRef, bool) {
    let mut cursor = ReferenceCursor::new(b.text, span);
    cursor.at += 1;
    let digits = cursor.take_digits();
    let number = b.reference_number(&b.text[digits.as_usize_range()], digits);
    cursor.at += 1;
    b.depth += 1;
    let full = if b.depth > MAX_INNER {
        b.report_error(SyntaxError::new(Code::TooDeep, span, "the tensor references are nested too deeply"));
        None
    } else {
        read_tensor_text(b, &mut cursor)
    };
    b.depth -= 1;
    (TensorRef { span, number, full }, cursor.tidy)
}

/// Everything after `T3_`.
fn read_tensor_text(b: &mut Builder<'_>, cursor: &mut ReferenceCursor<'_>) -> Option<TensorText> {
    let memory = read_memory(b, cursor);
    let (dtype, dtype_span) = read_dtype(b, cursor)?;
    let length = b.open_domains.len();
    let good = read_domains(b, cursor);
    let domains_start = b.ast.domains.len() as u32;
    b.ast.domains.extend(b.open_domains.drain(length..));
    let domains_end = b.ast.domains.len() as u32;
    good?;
    let mut text = TensorText {
        memory,
        dtype,
        dtype_span,
        domains_start,
        domains_end,
        positions: Symbol(0),
        mesh: None,
        attrs: ArgRange::default(),
    };
    if cursor.at < cursor.end {
        let at = cursor.at;
        let parts = split_suffixes(cursor);
        text.positions = read_positions(b, parts.positions, at);
        text.mesh = parts.mesh.and_then(|at| parse_mesh(b, cursor, at));
        text.attrs = parts.attrs.map_or(ArgRange::default(), |at| parse_attributes(b, at));
    }
    Some(text)
}

/// `ca_pos( 3 ) produce_pos( 2 )`, trimmed, somewhere after `at`.
fn read_positions(b: &mut Builder<'_>, text: &str, at: usize) -> Symbol {
    if !are_positions(text) {
        let start = at + b.text[at..].find(text).unwrap_or(0);
        let message = format!("`{}` is no position of a scheduled tensor", shorten_text(text));
        b.report_error(
            SyntaxError::new(Code::Tensor, Span::new(start, start + text.len()), message)
                .with_note("write positions as `ca_pos( 1 )`, `produce_pos( 1 )` or `compute_with( T1, 1 )`"),
        );
    }
    b.ast.strings.intern(text)
}

fn read_memory(b: &mut Builder<'_>, cursor: &mut ReferenceCursor<'_>) -> Symbol {
    let start = cursor.at;
    while cursor.peek().is_some_and(|byte| byte.is_ascii_alphabetic()) {
        cursor.at += 1;
    }
    let span = Span::new(start, cursor.at);
    let text = &b.text[span.as_usize_range()];
    if !MEMORIES.contains(&text) {
        b.report_error(
            SyntaxError::new(Code::Memory, span, format!("unknown memory `{text}` in a tensor reference"))
                .with_note("valid memories are g (global), l (local), s (shared), t (tensor) and sym (symmetric)")
                .with_note("write a reference as `T3_g_float[...]`: memory, element type, domains"),
        );
    }
    b.ast.strings.intern(text)
}

fn read_dtype(b: &mut Builder<'_>, cursor: &mut ReferenceCursor<'_>) -> Option<(Symbol, Span)> {
    if cursor.peek() == Some(b'_') {
        cursor.at += 1;
    } else if cursor.peek() == Some(b'[') {
        // nvFuser printed no element types before December 2024.
        return Some((b.ast.strings.intern(""), Span::new(cursor.at, cursor.at)));
    }
    let start = cursor.at;
    let open = memchr::memchr(b'[', &cursor.bytes[start..cursor.end])? + start;
    cursor.at = open;
    let text = b.text[start..open].trim_end();
    cursor.tidy &= start + text.len() == open && !text.contains(' ');
    let span = Span::new(start, start + text.len());
    if !number_types().contains(&text) && !is_kernel_type(text) {
        report_element_type(b, text, span);
    }
    Some((b.ast.strings.intern(text), span))
}

fn report_element_type(b: &mut Builder<'_>, text: &str, span: Span) {
    let plain = text.trim_end_matches('*');
    let other = OTHER_DTYPES.iter().find(|(other, _)| *other == plain).map(|(_, ours)| *ours);
    let note = match other.or_else(|| nearest_candidate(plain, &DTYPES)) {
        Some(near) => format!("did you mean `{near}`?"),
        None if plain.contains(['<', '{']) => "types of kernels are pointers such as `float*`, `Array<float, 2, 1>`, \
                                               `Tensor<float, 2, 2>` and `struct { float x; int y; }`"
            .to_owned(),
        None => format!("valid element types are {}", number_types().join(", ")),
    };
    let message = format!("unknown element type `{}` in a tensor reference", shorten_text(plain));
    b.report_error(SyntaxError::new(Code::Dtype, span, message).with_note(note));
}

/// `[iS0{i0}, ...]`, to the builder's open domains; the cursor ends after the `]`.
fn read_domains(b: &mut Builder<'_>, cursor: &mut ReferenceCursor<'_>) -> Option<()> {
    cursor.at += 1;
    cursor.skip_whitespace();
    if cursor.peek() == Some(b']') {
        cursor.at += 1;
        return Some(());
    }
    loop {
        let domain = domain::read_domain(b, cursor)?;
        b.open_domains.push(domain);
        cursor.skip_whitespace();
        match cursor.peek() {
            Some(b',') => cursor.at += 1,
            Some(b']') => {
                cursor.at += 1;
                return Some(());
            }
            _ => {
                let found = b.text[cursor.at..cursor.end].chars().next().map_or(0, char::len_utf8);
                let span = Span::new(cursor.at, cursor.at + found);
                b.report_error(
                    SyntaxError::new(Code::Tensor, span, "expected `,` or `]` after an iteration domain")
                        .with_note("write domains as `iS0{i0}`, separated by `, `"),
                );
                return None;
            }
        }
        cursor.skip_blank();
        cursor.skip_whitespace();
    }
}

/// The parts of a reference after the `]`.
struct ReferenceParts<'t> {
    positions: &'t str,
    /// The braces of the mesh.
    mesh: Option<Span>,
    /// The braces of the attributes.
    attrs: Option<Span>,
}

fn split_suffixes<'t>(cursor: &mut ReferenceCursor<'t>) -> ReferenceParts<'t> {
    const WORD: &str = "DeviceMesh";
    let rest = &cursor.text[cursor.at..cursor.end];
    let place = |start: usize, end: usize| Span::new(cursor.at + start, cursor.at + end);
    // The printed form without positions or attributes, which is nearly every reference.
    if rest.starts_with(" (DeviceMesh{") && rest.ends_with("})") {
        let mesh = place(" (DeviceMesh".len(), rest.len() - 1);
        return ReferenceParts { positions: "", mesh: Some(mesh), attrs: None };
    }
    let found = rest.find(WORD);
    let mesh = found.map(|at| {
        let close = rest[at..].find(')').map_or(rest.len(), |close| at + close);
        (at + WORD.len(), close)
    });
    let after = mesh.map_or(0, |(_, close)| close);
    let brace = find_attributes(&rest[after..]).map(|at| after + at);
    let stop = found.or(brace).unwrap_or(rest.len());
    let positions = rest[..stop].trim_end_matches(|c: char| c.is_whitespace() || c == '(').trim();
    let parts = ReferenceParts {
        positions,
        mesh: mesh.map(|(start, end)| place(start, end)),
        attrs: brace.map(|at| place(at, rest.len())),
    };
    cursor.tidy = false;
    parts
}

/// The first brace outside of parentheses.
fn find_attributes(text: &str) -> Option<usize> {
    let mut depth = 0usize;
    text.bytes().position(|byte| {
        match byte {
            b'(' => depth += 1,
            b')' => depth = depth.saturating_sub(1),
            _ => {}
        }
        depth == 0 && byte == b'{'
    })
}

/// `{key=value, ...}`.
fn parse_attributes(b: &mut Builder<'_>, span: Span) -> ArgRange {
    let inner = Span { start: span.start + 1, end: span.end - 1 };
    match domain::run_grammar_on_part(b, inner, Start::List) {
        Some(GrammarOutput::List(list)) => list,
        _ => ArgRange::default(),
    }
}

/// `{{0 1}{2 3}}`.
fn parse_mesh(b: &mut Builder<'_>, cursor: &mut ReferenceCursor<'_>, place: Span) -> Option<MeshSyntax> {
    let text = &b.text[place.as_usize_range()];
    let word = "DeviceMesh".len();
    let span = Span { start: place.start - word as u32, end: place.end };
    if let Some(last) = &b.seen.last_mesh
        && b.text[last.span.as_usize_range()].get(word..) == Some(text)
    {
        return Some(MeshSyntax { span, ..last.clone() });
    }
    cursor.tidy &= !text.bytes().any(|byte| byte.is_ascii_whitespace() && byte != b' ')
        && !["  ", "{ ", " {", " }", "} "].iter().any(|odd| text.contains(odd));
    let tidy = cursor.tidy;
    let first = place.start as usize;
    let grid = read_mesh_grid(text, |digits| {
        let place = Span::new(first + digits.start, first + digits.end);
        b.device_number(&text[digits], place)
    });
    if grid.is_none() {
        report_bad_mesh(b, span, text.find("},"));
    }
    let MeshGrid { shape, devices } = grid.unwrap_or_default();
    let mesh = MeshSyntax { span, shape, devices };
    b.seen.last_mesh = (tidy && !mesh.shape.is_empty()).then(|| mesh.clone());
    Some(mesh)
}

/// The extents of a mesh, outermost first, and its devices in row-major order.
#[derive(Default, Debug)]
pub struct MeshGrid {
    /// Extents, outermost first.
    pub shape: Vec<u32>,
    /// Numbers of devices.
    pub devices: Vec<u32>,
}

/// The grid in the braces of a mesh, `{{0 1}{2 3}}`; `None` if it is not full or has other characters.
pub fn parse_mesh_grid(text: &str) -> Option<MeshGrid> {
    let mut fits = true;
    let number = |digits: Range<usize>| {
        let number = text[digits].parse();
        fits &= number.is_ok();
        number.unwrap_or(0)
    };
    read_mesh_grid(text, number).filter(|_| fits)
}

/// Reads a grid; `number` is the number of the digits at a place.
fn read_mesh_grid(text: &str, mut number: impl FnMut(Range<usize>) -> u32) -> Option<MeshGrid> {
    let bytes = text.as_bytes();
    let (mut shape, mut counts, mut devices) = (Vec::new(), Vec::<u32>::new(), Vec::new());
    let mut good = true;
    let mut inner = None;
    let mut at = 0;
    while at < bytes.len() {
        match bytes[at] {
            b'{' => counts.push(0),
            b'}' => {
                let depth = counts.len();
                let count = counts.pop()?;
                good &= close_group(&mut shape, depth, count);
                if let Some(outer) = counts.last_mut() {
                    *outer += 1;
                }
                good &= !counts.is_empty() || bytes[at + 1..].trim_ascii().is_empty();
            }
            b'0'..=b'9' => {
                let start = at;
                while bytes.get(at).is_some_and(u8::is_ascii_digit) {
                    at += 1;
                }
                devices.push(number(start..at));
                good &= *inner.get_or_insert(counts.len()) == counts.len();
                *counts.last_mut()? += 1;
                continue;
            }
            byte if byte.is_ascii_whitespace() => {}
            _ => return None,
        }
        at += 1;
    }
    let size = shape.iter().fold(1u64, |size, &n| size.saturating_mul(u64::from(n)));
    let full = good && !shape.is_empty() && counts.is_empty() && size == devices.len() as u64;
    full.then_some(MeshGrid { shape, devices })
}

/// Records the size of a group at `depth`; returns true if its siblings have the same.
fn close_group(shape: &mut Vec<u32>, depth: usize, count: u32) -> bool {
    if shape.len() < depth {
        shape.resize(depth, u32::MAX);
    }
    let extent = &mut shape[depth - 1];
    if *extent == u32::MAX {
        *extent = count;
    }
    *extent == count && count > 0
}

/// Reports a mesh that is no grid; `end` is the place of a brace in its text after which other text follows.
fn report_bad_mesh(b: &mut Builder<'_>, span: Span, end: Option<usize>) {
    if let Some(end) = end {
        let end = span.start as usize + "DeviceMesh".len() + end + 1;
        let mesh = &b.text[span.start as usize..end];
        let note = format!("write `({mesh})`");
        let place = Span::new(end, end + 1);
        b.report_error(SyntaxError::new(Code::Mesh, place, "`)` is missing after the device mesh").with_note(note));
        return;
    }
    b.report_error(
        SyntaxError::new(Code::Mesh, span, "the device mesh is not a full grid of device numbers")
            .with_note("write `DeviceMesh{0 1 2 3}`, or `DeviceMesh{{0 1}{2 3}}` for two axes"),
    );
}

/// A text without white space, but with one blank between words.
fn squeezed_bytes(bytes: &[u8]) -> impl Iterator<Item = u8> {
    let mut before = 0u8;
    let mut at = 0;
    std::iter::from_fn(move || {
        let next = scan::skip_whitespace(bytes, at);
        let byte = *bytes.get(next)?;
        if next > at && scan::is_word(before) && scan::is_word(byte) {
            at = next;
            before = b' ';
            return Some(b' ');
        }
        at = next + 1;
        before = byte;
        Some(byte)
    })
}

fn squeezed_hash(text: &str) -> u64 {
    const FACTOR: u64 = 0x517c_c1b7_2722_0a95;
    squeezed_bytes(text.as_bytes()).fold(0, |hash: u64, b| (hash.rotate_left(5) ^ u64::from(b)).wrapping_mul(FACTOR))
}

/// Returns true if a text is a list of positions, as the printed form writes them after the domains of a scheduled
/// tensor: `ca_pos( 3 ) compute_with( T5, T6, 2 ) produce_pos( 2 )`.
pub fn are_positions(text: &str) -> bool {
    let mut parts = text.split(')');
    let after = parts.next_back().unwrap_or_default();
    after.trim().is_empty()
        && parts.all(|part| part.split_once('(').is_some_and(|(word, list)| is_position(word, list)))
}

/// Returns true for `ca_pos` with a number, and for `compute_with` with tensors and a number.
fn is_position(word: &str, list: &str) -> bool {
    let mut items = list.split(',').map(str::trim);
    items.next_back().is_some_and(is_number)
        && match word.trim() {
            "compute_with" => items.all(|item| item.strip_prefix('T').is_some_and(is_number)),
            word => matches!(word, "ca_pos" | "produce_pos" | "maybe_produce_pos") && items.next().is_none(),
        }
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}
