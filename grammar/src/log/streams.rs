//! The lines of a log by their writers, and the programs among them.
//!
//! The text in front of the header of a program is a tag. All lines with this tag are one stream, whatever lines of
//! other streams are between them; lines without a tag are a stream as well. A stream is read line by line, as if it
//! were a log of its own.

use super::lines::LogLine;
use super::tags::{TagForm, tag_form};
use crate::unfold::CLOSE;
use rustc_hash::FxHashMap;

/// The last words of a program as nvFuser printed it in July 2024.
pub(super) const OLD_CLOSE: &str = "END.";

/// A line of a program, without the tag.
#[derive(Clone, Copy, Debug)]
pub(super) struct OwnLine {
    /// Its number among all lines.
    pub(super) line: usize,
    pub(super) start: usize,
    pub(super) end: usize,
}

/// The lines of a program in order, without other programs' lines.
#[derive(Debug, Default)]
pub(super) struct LoggedProgram {
    /// The stream that it belongs to.
    pub(super) stream: usize,
    pub(super) lines: Vec<OwnLine>,
    /// True if the program is one line.
    pub(super) is_folded: bool,
}

/// An item of a log.
#[derive(Debug)]
pub(super) enum LogItem {
    /// A program.
    Program(LoggedProgram),
    /// A line that belongs to none.
    Other(usize),
}

/// The contents of a log.
pub(super) struct LogContents {
    pub(super) items: Vec<LogItem>,
    /// The tags as written before the first header of each stream, and in the form in which they are compared.
    pub(super) tags: Vec<StreamTag>,
}

/// The tag of a stream; that of the first stream is empty.
#[derive(Clone, Debug, Default)]
pub(super) struct StreamTag {
    pub(super) text: String,
    pub(super) form: String,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
enum LogState {
    #[default]
    Between,
    Inside,
    /// After a program, where its sections may follow.
    After,
    Aliases,
    Index,
}

/// A stream while it is read.
#[derive(Default)]
struct Stream {
    state: LogState,
    /// The blanks between the tag and the text of the current program.
    strip: String,
    /// The number of programs that have started inside of the current one.
    inside: usize,
    /// The item of the current program.
    item: Option<usize>,
    /// True if the current program has the frame of July 2024.
    is_old: bool,
}

/// The header that a line has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum HeaderKind {
    None,
    /// Of its stream.
    Tagged,
    /// For the stream without a tag: the text in front of it is no tag, since no other line has it.
    Untagged,
}

/// Finds the programs of a log.
pub(super) fn read_streams(text: &str, lines: &[LogLine]) -> LogContents {
    let tags = find_tags(text, lines);
    let places = place_lines(text, lines, &tags);
    let headers = judge_headers(text, lines, &places);
    let mut reader = StreamReader { text, lines, items: Vec::new(), streams: Vec::new() };
    reader.streams.resize_with(tags.len(), Stream::default);
    for (number, (place, header)) in places.iter().zip(headers).enumerate() {
        reader.read_line(number, *place, header);
    }
    LogContents { items: reader.items, tags }
}

/// The tags in front of headers, in the order in which they appear; the first one is empty.
fn find_tags(text: &str, lines: &[LogLine]) -> Vec<StreamTag> {
    let mut tags = vec![StreamTag::default()];
    let mut known: FxHashMap<String, ()> = FxHashMap::default();
    for line in lines {
        let Some(open) = line.open else { continue };
        let tag = &text[line.start..open];
        let form = tag_form(tag);
        if !form.trim().is_empty() && known.insert(form.clone(), ()).is_none() {
            tags.push(StreamTag { text: tag.trim().to_owned(), form });
        }
    }
    tags
}

/// The stream of a line, and the end of its tag.
#[derive(Clone, Copy, Debug, Default)]
struct LinePlace {
    stream: usize,
    tag_end: usize,
}

fn place_lines(text: &str, lines: &[LogLine], tags: &[StreamTag]) -> Vec<LinePlace> {
    let known: FxHashMap<&str, usize> = tags.iter().enumerate().skip(1).map(|(at, tag)| (&*tag.form, at)).collect();
    let mut lengths: Vec<usize> = known.keys().map(|form| form.len()).collect();
    lengths.sort_unstable_by(|a, b| b.cmp(a));
    lengths.dedup();
    let most = lengths.first().copied().unwrap_or(0);
    let mut form = TagForm::default();
    let mut places: Vec<LinePlace> = Vec::with_capacity(lines.len());
    for line in lines {
        let mut place = LinePlace { stream: 0, tag_end: line.start };
        if let Some(open) = line.open.filter(|&open| line.is_rest && text[line.start..open].trim().is_empty()) {
            // Written by who wrote the program in front.
            let before: Option<&LinePlace> = places.last();
            place = LinePlace { stream: before.map_or(0, |before| before.stream), tag_end: open };
        } else if most > 0 {
            form.read_tag(line.line_text(text), most);
            let found = lengths.iter().find_map(|&len| Some((known.get(form.text.get(..len)?)?, len)));
            if let Some((&stream, len)) = found {
                place = LinePlace { stream, tag_end: line.start + form.end_of(len) };
            }
        }
        places.push(place);
    }
    places
}

/// Determines the tags from the ends of programs: the text in front of a header is a tag if the end has it as well.
fn judge_headers(text: &str, lines: &[LogLine], places: &[LinePlace]) -> Vec<HeaderKind> {
    let count = places.iter().map(|place| place.stream + 1).max().unwrap_or(1);
    // True if an end follows that no later program needs.
    let mut closes = vec![false; count];
    let mut kinds = vec![HeaderKind::None; lines.len()];
    for (at, (line, place)) in lines.iter().zip(places).enumerate().rev() {
        if let Some(open) = line.open {
            kinds[at] = judge_header(&text[line.start..open], line, place.stream, &closes);
            match kinds[at] {
                HeaderKind::Tagged => closes[place.stream] = false,
                HeaderKind::Untagged => closes[0] = false,
                HeaderKind::None => {}
            }
        }
        let own = text[place.tag_end..line.end].trim_start();
        if own.starts_with(CLOSE) || own.trim_end() == OLD_CLOSE {
            closes[place.stream] = true;
        }
    }
    kinds
}

fn judge_header(tag: &str, line: &LogLine, stream: usize, closes: &[bool]) -> HeaderKind {
    let is_comment = ["//", "#", "*"].iter().any(|start| tag.trim_start().starts_with(start));
    if line.close.is_some() || closes[stream] || stream == 0 && !is_comment {
        HeaderKind::Tagged
    } else if is_comment {
        // A sentence about a program, not a program.
        HeaderKind::None
    } else if closes[0] {
        HeaderKind::Untagged
    } else {
        HeaderKind::Tagged
    }
}

struct StreamReader<'t> {
    text: &'t str,
    lines: &'t [LogLine],
    items: Vec<LogItem>,
    streams: Vec<Stream>,
}

impl StreamReader<'_> {
    fn read_line(&mut self, number: usize, place: LinePlace, header: HeaderKind) {
        let line = self.lines[number];
        let stream = if header == HeaderKind::Untagged { 0 } else { place.stream };
        let own = match (header, line.open) {
            (HeaderKind::Untagged, Some(open)) => self.start_program(number, stream, "", open),
            (HeaderKind::Tagged, Some(open)) => {
                let strip = &self.text[place.tag_end..open];
                self.start_program(number, stream, strip, open)
            }
            _ => false,
        };
        if own {
            return;
        }
        match self.own_start(line, place) {
            Some(start) => self.read_own_line(number, stream, start),
            None => self.items.push(LogItem::Other(number)),
        }
    }

    /// The start of the text after the tag of a line and the blanks of its program; `None` for a line of another
    /// stream.
    fn own_start(&self, line: LogLine, place: LinePlace) -> Option<usize> {
        let strip = &self.streams[place.stream].strip;
        let rest = &self.text[place.tag_end..line.end];
        if rest.starts_with(strip.as_str()) {
            return Some(place.tag_end + strip.len());
        }
        rest.trim().is_empty().then_some(line.end)
    }

    /// Takes a line with a header; returns false if it is a line of a program with other blanks in front.
    fn start_program(&mut self, number: usize, stream: usize, strip: &str, open: usize) -> bool {
        let line = self.lines[number];
        let is_inside = self.streams[stream].state == LogState::Inside;
        if is_inside && self.streams[stream].strip != strip {
            return false;
        }
        let own = OwnLine { line: number, start: open, end: line.close.unwrap_or(line.end) };
        let state = &mut self.streams[stream];
        if is_inside && let Some(item) = state.item {
            state.inside += 1;
            self.push_own(item, own);
            return true;
        }
        state.inside = 0;
        strip.clone_into(&mut state.strip);
        state.state = if line.close.is_some() { LogState::After } else { LogState::Inside };
        state.is_old = is_old_header(&self.text[open..line.end]);
        state.item = Some(self.items.len());
        let is_folded = line.close.is_some();
        self.items.push(LogItem::Program(LoggedProgram { stream, lines: vec![own], is_folded }));
        true
    }

    fn push_own(&mut self, item: usize, own: OwnLine) {
        if let Some(LogItem::Program(program)) = self.items.get_mut(item) {
            program.lines.push(own);
        }
    }

    /// Takes a line of a stream that starts no program.
    fn read_own_line(&mut self, number: usize, stream: usize, start: usize) {
        let line = self.lines[number];
        let own = &self.text[start..line.end];
        let state = &mut self.streams[stream];
        let closes = own.starts_with(CLOSE) || state.is_old && own.trim_end() == OLD_CLOSE;
        let mut keep = true;
        match state.state {
            // The ends of nested programs stay: the reader reports them.
            LogState::Between | LogState::After if state.inside > 0 && closes => state.inside -= 1,
            LogState::Between => keep = false,
            LogState::Inside if closes => state.state = LogState::After,
            LogState::After if own.starts_with("Aliases:") => state.state = LogState::Aliases,
            LogState::After if own.starts_with("Index definitions:") => state.state = LogState::Index,
            LogState::After if own.trim().is_empty() => {}
            LogState::After => {
                state.state = LogState::Between;
                keep = false;
            }
            LogState::Aliases if own.starts_with('}') => state.state = LogState::After,
            LogState::Index if !own.starts_with([' ', '\t']) => {
                state.state = LogState::After;
                keep = own.trim().is_empty();
            }
            LogState::Inside | LogState::Aliases | LogState::Index => {}
        }
        let item = state.item.filter(|_| keep);
        // Text after the label of the end does not belong to the program, unless it is a comment.
        let end = match own.strip_prefix(CLOSE).map(str::trim_start) {
            Some(rest) if !rest.is_empty() && !rest.starts_with("//") => start + CLOSE.len(),
            _ => line.end,
        };
        match item {
            Some(item) => self.push_own(item, OwnLine { line: number, start, end }),
            None => self.items.push(LogItem::Other(number)),
        }
    }
}

/// Returns true if a header is the first line of the frame of July 2024, whose lists are on a line of their own.
pub(super) fn is_old_header(header: &str) -> bool {
    header.trim_end().ends_with('{')
}
