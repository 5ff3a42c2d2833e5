//! The top level of a file: its head, meshes, and the headers of kernels and programs.

use super::ast::{BlockId, ItemSyntax, MeshItem, NameSyntax, ParamSyntax, ProgramItem, SizeSyntax, SizedMeshSyntax};
use super::head::{HeadFault, find_head_fault, minor_version};
use super::imports::IMPORT_NOTE;
use super::known::{KnownWord, known_word};
use super::parser::{Failed, Parsed, Parser};
use super::token::{LineComment, LineTok, LineToken};
use crate::ast::{BlockSyntax, CommentPlaceSyntax};
use crate::error::{Code, SyntaxEdit, SyntaxError};
use crate::limits::MAX_DEVICE;
use crate::span::Span;
use crate::spelling::nearest_candidate;

/// The largest number of devices of a mesh.
pub const MAX_DEVICES: u32 = 1 << 20;

pub(super) const MESH_NOTE: &str = "write `mesh d = 0..4`, or `mesh d = [[0, 1], [2, 3]]`";
const HEADER_NOTE: &str = "write the header as `name(A: f32[m, n]) -> (B: f32[m, n]) on d:`";

/// The devices of a mesh, as far as they were read.
#[derive(Default)]
pub(super) struct DeviceList {
    shape: Vec<u32>,
    devices: Vec<u32>,
    is_ragged: bool,
    pub(super) sized: Option<SizedMeshSyntax>,
}

impl Parser<'_> {
    pub(super) fn parse_file(&mut self) {
        self.take_all_comments(CommentPlaceSyntax::File);
        self.parse_version();
        while self.peek().tok != LineTok::End {
            self.parse_item();
        }
        self.take_all_comments(CommentPlaceSyntax::EndOfFile);
        let has_program = self.file.items.iter().any(|item| matches!(item, ItemSyntax::Program(_)));
        if !has_program && self.errors.items.is_empty() {
            let span = Span::new(self.text.len(), self.text.len());
            self.report_noted(Code::NoContainer, span, "the text has no program", HEADER_NOTE);
        }
    }

    fn parse_version(&mut self) {
        self.begin_statement(0);
        if let Some(fault) = find_head_fault(self.text) {
            self.errors.add_error(fault.to_error(self.text));
            if let HeadFault::Misspelt(line) | HeadFault::Newer(line) = fault {
                self.file.head.version = line;
                // A line that is a comment elsewhere may have nothing left.
                if self.peek().span.start < line.end {
                    self.skip_line();
                }
            }
            return;
        }
        self.parse_version_line();
    }

    /// `hir 2`
    pub(super) fn parse_version_line(&mut self) {
        let span = self.peek().span;
        if !self.skip_word(KnownWord::Hir) {
            self.report_noted(Code::Version, span, "the first line is not `hir 2`", "write `hir 2`");
            return;
        }
        self.file.head.version = span;
        let found = self.peek().span;
        let minor = minor_version(&self.text[found.as_usize_range()]);
        if let Some(minor) = minor.filter(|_| self.here() != LineTok::LineEnd) {
            self.file.head.minor = minor;
            self.file.head.version = span.join(self.next().span);
            self.end_item_line();
            return;
        }
        self.report_noted(Code::Version, found, "this version of the language is not known", "write `hir 2`");
        self.skip_line();
    }

    /// Ends a line outside of programs.
    fn end_item_line(&mut self) {
        if self.here() != LineTok::LineEnd && self.peek().tok != LineTok::End {
            self.report_unexpected("the end of the line", "each item begins on a line of its own");
            self.skip_line();
        }
        self.take_trailing(CommentPlaceSyntax::File);
    }

    pub(super) fn parse_item(&mut self) {
        let token = self.peek();
        self.begin_statement(0);
        (self.depth, self.block_depth) = (0, 0);
        if token.column > 0 {
            self.report_indented_item(token);
            return;
        }
        self.place_comments_above();
        let parsed = match self.word_here().filter(|_| self.is_head_line()) {
            Some(KnownWord::Style) => self.parse_style(),
            Some(KnownWord::Sizes) => self.parse_sizes(),
            Some(KnownWord::Streams) => self.parse_streams(),
            Some(KnownWord::Names) => self.parse_names(),
            Some(KnownWord::Mesh) => self.parse_mesh(),
            Some(KnownWord::Import) => self.parse_import(),
            Some(KnownWord::Kernel) => {
                self.next();
                self.parse_program(true);
                Ok(())
            }
            _ if self.lookahead() == LineTok::LParen && matches!(token.tok, LineTok::Name(_)) => {
                self.parse_program(false);
                Ok(())
            }
            _ => {
                self.report_item(token);
                self.skip_to_item();
                Ok(())
            }
        };
        if parsed.is_err() {
            self.abandon_lists();
            match self.stmt.resume.take() {
                Some(line) => self.step_back(line),
                None => {
                    self.skip_line();
                }
            }
            self.skip_deeper_lines(0);
            self.take_trailing(CommentPlaceSyntax::File);
        }
    }

    fn report_indented_item(&mut self, token: LineToken) {
        self.report_noted(
            Code::Indentation,
            token.span,
            "this line is indented, but belongs to no program",
            "a program's header ends in `:`; other lines outside of programs begin in column 1",
        );
        self.skip_line();
        self.skip_deeper_lines(0);
        self.take_all_comments(CommentPlaceSyntax::File);
    }

    /// Skips to the next line that begins an item: statements in column 1 are one error.
    fn skip_to_item(&mut self) {
        loop {
            self.skip_line();
            self.skip_deeper_lines(0);
            self.begin_statement(0);
            let token = self.peek();
            if token.tok == LineTok::End || self.begins_item(token) {
                break;
            }
        }
        self.take_all_comments(CommentPlaceSyntax::File);
    }

    /// Returns true if a line looks like an item: it begins with a word of the head or is the header of a program.
    fn begins_item(&self, token: LineToken) -> bool {
        let LineTok::Name(symbol) = token.tok else { return false };
        let rest = &self.text[token.span.start as usize..];
        let line = rest.lines().next().unwrap_or_default().trim_end();
        if !line[(token.span.end - token.span.start) as usize..].trim_start().starts_with('(') {
            let word = known_word(symbol);
            return matches!(
                word,
                Some(KnownWord::Mesh | KnownWord::Kernel | KnownWord::Style | KnownWord::Sizes | KnownWord::Import)
            );
        }
        line.contains(") ->") || line.contains(")->") || line.ends_with(['(', ','])
    }

    /// Comments between the last item and this one. Those directly above a program, kernel, mesh or import belong to
    /// it; those with a blank line after them, and those above other lines, to the file.
    fn place_comments_above(&mut self) {
        let here = self.peek();
        let mut waiting: Vec<LineComment> = Vec::new();
        let begins = matches!(self.word_here(), Some(KnownWord::Kernel | KnownWord::Mesh | KnownWord::Import));
        let is_item = begins || !self.is_head_line();
        let number = self.file.items.len() as u32;
        let first = self.file.comments.len();
        while let Some(comment) = self.waiting_comment() {
            self.place_comment(comment, CommentPlaceSyntax::File);
            waiting.push(comment);
        }
        let after = waiting.iter().skip(1).map(|comment| comment.after_blank).chain([here.after_blank]);
        let detached = after.enumerate().filter(|(_, blank)| *blank).last().map_or(0, |(at, _)| at + 1);
        for (position, comment) in waiting.iter().enumerate().skip(detached) {
            if is_item && comment.column.is_some() {
                self.file.comments[first + position].place = CommentPlaceSyntax::Container(number);
            }
        }
    }

    /// Returns true if the next word is not followed by a parameter list.
    fn is_head_line(&self) -> bool {
        self.lookahead() != LineTok::LParen
    }

    fn report_item(&mut self, token: LineToken) {
        let word = self.quote(token.span);
        if token.tok == LineTok::Error {
            return;
        }
        if token.tok == LineTok::RBrace && self.braces > 0 {
            self.braces -= 1;
            return;
        }
        if self.text[token.span.start as usize..].starts_with("%HostIrContainer") {
            let note = "a file has one form: leave out the line `hir 2`, or convert with `hir-opt --form=hir2`";
            self.report_noted(Code::Outside, token.span, "this is the printed form of a program", note);
            return;
        }
        if matches!(word.as_str(), "def" | "func" | "fn" | "fun" | "function") {
            let note = "leave it out: a header begins with the name of the program";
            let error =
                SyntaxError::new(Code::Foreign, token.span, format!("`{word}` begins no program")).with_note(note);
            let after = self.stream.window[1].span.start.max(token.span.end);
            let edit = SyntaxEdit { span: Span { start: token.span.start, end: after }, text: String::new() };
            self.report(error.with_edit(edit));
            return;
        }
        if word == "from" && self.report_import_of_python(token.span) {
            return;
        }
        if matches!(word.as_str(), "from" | "include" | "use") {
            self.report_foreign(token.span, format!("`{word}` begins no import"), IMPORT_NOTE);
            return;
        }
        let near = nearest_candidate(&word, &["import", "mesh", "kernel", "sizes", "streams", "names", "style"]);
        let has_program = matches!(self.file.items.last(), Some(ItemSyntax::Program(_) | ItemSyntax::Kernel(_)));
        let (message, note) = match near {
            Some(near) if self.is_head_line() && !word.is_empty() => {
                (format!("`{word}` begins neither a program nor a mesh"), format!("did you mean `{near}`?"))
            }
            _ if self.lookahead() == LineTok::Colon => (
                format!("the header of `{word}` has no inputs and outputs"),
                format!("write `{word}(A: f32[m, n]) -> (B: f32[m, n]) on d:`"),
            ),
            _ if has_program => (
                "this statement stands outside of the program".to_owned(),
                "the statements of a program are indented, two blanks below its header".to_owned(),
            ),
            _ => (
                format!("`{word}` begins neither a program nor a mesh"),
                "statements stand in a program, indented below a header `name(A: f32[m]) -> (B: f32[m]):`".to_owned(),
            ),
        };
        self.report_noted(Code::Outside, token.span, message, note);
    }

    fn parse_style(&mut self) -> Parsed<()> {
        self.next();
        if self.here() == LineTok::LineEnd {
            return Err(self.report_unexpected("a style", "write `style 2025-06`"));
        }
        let start = self.peek().span.start;
        self.skip_line();
        let span = self.span_from(start);
        let name = self.file.strings.intern(&self.text[span.as_usize_range()]);
        self.file.head.style = Some(NameSyntax { name, span });
        self.take_trailing(CommentPlaceSyntax::File);
        Ok(())
    }

    fn parse_sizes(&mut self) -> Parsed<()> {
        self.next();
        if self.here() == LineTok::Colon {
            let span = self.peek().span;
            let error = SyntaxError::new(Code::Unexpected, span, "`sizes` has no `:`");
            let error = error.with_note("write `sizes m=64, k=128`");
            self.report(error.with_edit(SyntaxEdit { span, text: String::new() }));
            self.next();
        }
        loop {
            let name = self.parse_name("the name of an extent")?;
            self.expect_tok(LineTok::Equals, "`=`", "write `sizes m=64, k=128`")?;
            let (value, span) = self.parse_integer("a size")?;
            self.file.head.sizes.push(SizeSyntax { name: name.name, value, span: name.span.join(span) });
            if !self.skip(LineTok::Comma) {
                break;
            }
        }
        self.end_item_line();
        Ok(())
    }

    fn parse_streams(&mut self) -> Parsed<()> {
        self.next();
        if !matches!(self.here(), LineTok::Int(_)) {
            return Err(self.report_unexpected("a number of streams", "write `streams 3`"));
        }
        let (value, span) = self.parse_integer("a number of streams")?;
        self.file.head.streams = Some(SizeSyntax { name: self.file.strings.intern(""), value, span });
        self.end_item_line();
        Ok(())
    }

    /// `names d, main`
    fn parse_names(&mut self) -> Parsed<()> {
        self.next();
        loop {
            let name = self.parse_name("the name of a mesh or a program")?;
            self.file.head.given_names.push(name);
            if !self.skip(LineTok::Comma) {
                break;
            }
        }
        self.end_item_line();
        Ok(())
    }

    // Meshes.

    fn parse_mesh(&mut self) -> Parsed<()> {
        let start = self.next().span;
        let name = self.parse_name("the name of a mesh")?;
        let list = self.parse_devices(start, name);
        // A use of a mesh with an error is no further error: the mesh is known by its name, without devices.
        let failed = list.is_err();
        let DeviceList { shape, devices, sized, .. } = list.unwrap_or_default();
        let span = start.join(self.last_span());
        self.file.items.push(ItemSyntax::Mesh(MeshItem { span, name, shape, devices, sized }));
        if failed {
            return Err(Failed);
        }
        self.take_header_comments();
        Ok(())
    }

    /// `= 0..4`, `= [[0, 1], [2, 3]]`
    fn parse_devices(&mut self, start: Span, name: NameSyntax) -> Parsed<DeviceList> {
        self.expect_tok(LineTok::Equals, "`=`", MESH_NOTE)?;
        let mut list = DeviceList::default();
        match self.here() {
            _ if self.begins_sized_mesh() => self.parse_sized_mesh(name, &mut list)?,
            LineTok::LBracket => self.parse_device_lists(&mut list)?,
            LineTok::Int(_) => self.parse_device_range(start, &mut list)?,
            _ => return Err(self.report_mesh(name)),
        }
        Ok(list)
    }

    /// `range(4)`, `(0, 1)`, `{0 1}`, `DeviceMesh{0 1}`.
    fn report_mesh(&mut self, name: NameSyntax) -> Failed {
        let name = self.quote(name.span);
        let start = self.peek().span.start as usize;
        let rest = self.text[start..].lines().next().unwrap_or_default();
        let rest = rest.split("//").next().unwrap_or_default().trim_end();
        let inner = rest.trim_start_matches(|c: char| c.is_ascii_alphabetic());
        let is_list = inner.starts_with(['(', '{']) && inner.ends_with([')', '}']) && inner.contains(char::is_numeric);
        if !is_list {
            let note = match self.here() {
                LineTok::Name(_) if rest.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_') => {
                    format!("write `mesh {name} = 0..{rest}`")
                }
                _ => format!("write `mesh {name} = 0..4`, or `mesh {name} = [[0, 1], [2, 3]]`"),
            };
            return self.report_unexpected("devices", note);
        }
        let numbers: Vec<&str> =
            inner.split(|c: char| !c.is_ascii_digit()).filter(|number| !number.is_empty()).collect();
        let spelled = match (rest.starts_with("range"), numbers.as_slice()) {
            (true, [end]) => format!("0..{end}"),
            (true, [start, end]) => format!("{start}..{end}"),
            // A device is in a mesh once: these are the lengths of its axes.
            (_, [rows, columns]) if rows == columns || rest.contains('"') => format!("[y:{rows}, x:{columns}]"),
            _ => format!("[{}]", numbers.join(", ")),
        };
        let span = Span::new(start, start + rest.len());
        let found = self.quote(span);
        let note = format!("write `mesh {name} = {}`", crate::spelling::shorten_text(&spelled));
        self.report_foreign(span, format!("`{found}` is no list of devices"), note)
    }

    fn parse_device_range(&mut self, start: Span, list: &mut DeviceList) -> Parsed<()> {
        let first = self.parse_device()?;
        let note = format!(
            "`0..{first}` are the devices from 0 up to {first}, exclusive; `[{first}]` is device {first} alone"
        );
        self.expect_tok(LineTok::DotDot, "`..`", &note)?;
        let end = self.parse_device()?;
        if end <= first || end - first > MAX_DEVICES {
            let span = start.join(self.last_span());
            let what = if end <= first { "this mesh has no devices" } else { "this mesh has too many devices" };
            return Err(self.report_noted(
                Code::Mesh,
                span,
                what,
                format!(
                    "`{first}..{end}` are the devices from {first} up to {end}, exclusive; the limit is {MAX_DEVICES}"
                ),
            ));
        }
        list.shape = vec![end - first];
        list.devices = (first..end).collect();
        Ok(())
    }

    fn parse_device_lists(&mut self, list: &mut DeviceList) -> Parsed<()> {
        let open = self.peek().span;
        self.parse_device_list(0, list)?;
        let count = list.shape.iter().fold(1usize, |count, extent| count.saturating_mul(*extent as usize));
        list.is_ragged |= count != list.devices.len();
        if list.devices.len() > MAX_DEVICES as usize {
            let note = format!("the limit is {MAX_DEVICES}");
            return Err(self.report_noted(
                Code::Mesh,
                open.join(self.last_span()),
                "this mesh has too many devices",
                note,
            ));
        }
        if list.is_ragged || list.devices.is_empty() {
            let (what, note) = match list.is_ragged {
                true => ("the lists of this mesh have different lengths", "a mesh is a full grid: `[[0, 1], [2, 3]]`"),
                false => ("this mesh has no devices", MESH_NOTE),
            };
            self.report_noted(Code::Mesh, open.join(self.last_span()), what, note);
            list.shape.clear();
        }
        Ok(())
    }

    /// `[[0, 1], [2, 3]]`: extents by depth.
    fn parse_device_list(&mut self, depth: usize, list: &mut DeviceList) -> Parsed<()> {
        let open = self.open_bracket()?;
        let mut count = 0;
        while self.here() != LineTok::RBracket {
            if self.here() == LineTok::LBracket {
                self.parse_device_list(depth + 1, list)?;
            } else {
                let device = self.parse_device()?;
                list.devices.push(device);
                list.is_ragged |= list.shape.len() > depth + 1;
            }
            count += 1;
            if !self.skip(LineTok::Comma) {
                break;
            }
        }
        self.close(LineTok::RBracket, open)?;
        if list.shape.len() <= depth {
            list.shape.resize(depth + 1, 0);
        }
        list.is_ragged |= list.shape[depth] != 0 && list.shape[depth] != count;
        list.shape[depth] = count;
        Ok(())
    }

    fn parse_device(&mut self) -> Parsed<u32> {
        let (value, span) = self.parse_integer("the number of a device")?;
        match u32::try_from(value).ok().filter(|&value| value < MAX_DEVICE) {
            Some(value) => Ok(value),
            None => {
                let error = SyntaxError::new(Code::Number, span, format!("there is no device {value}"));
                Err(self.report(error.with_note(format!("device numbers are less than {MAX_DEVICE}"))))
            }
        }
    }

    /// Comments at the end of an item's line, and inside of it: they belong to the item.
    pub(super) fn take_header_comments(&mut self) {
        let number = self.file.items.len() as u32 - 1;
        let end = self.last_span().end;
        while let Some(comment) = self.waiting_comment() {
            let is_inside = comment.span.start < end;
            if comment.column.is_some() && !is_inside {
                break;
            }
            let place = match comment.column {
                Some(_) => CommentPlaceSyntax::Container(number),
                None => CommentPlaceSyntax::Header(number),
            };
            self.place_comment(comment, place);
        }
        self.end_item_line();
    }

    // Programs.

    fn parse_program(&mut self, is_kernel: bool) {
        let number = self.file.items.len() as u32;
        let token = self.peek();
        let start = token.span;
        let parsed = self.parse_program_header();
        let header_failed = parsed.is_err();
        let mut item = parsed.unwrap_or_else(|Failed| self.skip_header(token));
        item.header = start.join(self.last_span());
        item.header_failed = header_failed;
        let place = CommentPlaceSyntax::Header(number);
        let body = match header_failed && self.here() != LineTok::Colon {
            true => self.parse_deeper_block(0, place),
            false => self.parse_suite(0, place),
        };
        item.body = body.unwrap_or_else(|Failed| self.add_block(BlockSyntax::default()));
        item.span = start.join(self.last_span());
        let item = if is_kernel { ItemSyntax::Kernel(item) } else { ItemSyntax::Program(item) };
        self.file.items.push(item);
    }

    /// Skips the rest of a header with an error, up to its colon.
    fn skip_header(&mut self, first: LineToken) -> ProgramItem {
        let name = match first.tok {
            LineTok::Name(name) => name,
            _ => self.file.strings.intern(""),
        };
        self.abandon_lists();
        (self.stmt.brackets, self.depth) = (0, 0);
        let resume = self.stmt.resume.take().filter(|line| self.begins_item(*line));
        if let Some(line) = resume {
            self.step_back(line);
            return empty_item(NameSyntax { name, span: first.span });
        }
        loop {
            let token = self.peek();
            let is_end = token.tok == LineTok::Colon && self.stream.window[1].starts_line();
            if token.tok == LineTok::End || is_end || self.at_header_end(token) {
                break;
            }
            self.next();
        }
        empty_item(NameSyntax { name, span: first.span })
    }

    /// Returns true if a header with an error does not continue with this line.
    fn at_header_end(&self, token: LineToken) -> bool {
        let last = &self.text[self.last_span().as_usize_range()];
        let goes_on = matches!(last, "(" | ",") || token.tok.is_closing() || token.tok == LineTok::Arrow;
        self.at_line_end() && !goes_on
    }

    fn parse_program_header(&mut self) -> Parsed<ProgramItem> {
        let name = self.parse_name("the name of a program")?;
        let inputs = self.parse_parameters()?;
        self.expect_tok(LineTok::Arrow, "`->`", HEADER_NOTE)?;
        let outputs = self.parse_parameters()?;
        let mesh = match self.skip_word(KnownWord::On) {
            true if self.here() == LineTok::Colon => {
                return Err(self.report_unexpected("the name of a mesh", "write `on d:`"));
            }
            true => Some(self.parse_name("the name of a mesh")?),
            false => None,
        };
        if self.here() == LineTok::At {
            let span = self.next().span;
            let mesh = self.quote(self.peek().span);
            self.report_noted(
                Code::Unexpected,
                span,
                "a program's mesh stands after `on`",
                format!("write `on {mesh}:`"),
            );
            return Err(Failed);
        }
        Ok(ProgramItem { inputs, outputs, mesh, ..empty_item(name) })
    }

    fn parse_parameters(&mut self) -> Parsed<Vec<ParamSyntax>> {
        let note = "inputs and outputs stand in parentheses: `name(A: f32[m]) -> (B: f32[m]):`";
        if let (LineTok::Name(_), LineTok::Colon) = (self.here(), self.lookahead()) {
            return self.parse_bare_parameter(note);
        }
        if self.here() != LineTok::LParen {
            return Err(self.report_unexpected("`(`", note));
        }
        let open = self.open_bracket()?;
        let mut params = Vec::new();
        while self.here() != LineTok::RParen {
            let name = self.parse_name("the name of a tensor")?;
            let ty = if self.skip(LineTok::Colon) { Some(self.parse_type()?) } else { None };
            params.push(ParamSyntax { name, ty });
            if ty.is_none() && self.is_missing_colon() {
                let name = self.quote(name.span);
                let ty = self.quote(self.peek().span);
                return Err(self.report_unexpected("`:`", format!("write `{name}: {ty}[..]`")));
            }
            if !self.skip(LineTok::Comma) {
                break;
            }
        }
        self.close(LineTok::RParen, open)?;
        Ok(params)
    }

    /// `-> G: f32[m]`, an error: one input or output without parentheses.
    #[cold]
    fn parse_bare_parameter(&mut self, note: &str) -> Parsed<Vec<ParamSyntax>> {
        let known = self.errors.items.len();
        self.report_unexpected("`(`", note);
        let name = self.parse_name("the name of a tensor")?;
        self.skip(LineTok::Colon);
        let ty = Some(self.parse_type()?);
        let span = name.span.join(self.last_span());
        let meant = format!("({})", &self.text[span.as_usize_range()]);
        if let Some(error) = self.errors.items.get_mut(known) {
            error.notes = vec![format!("write `{}`", crate::spelling::shorten_text(&meant))];
            error.edit = Some(SyntaxEdit { span, text: meant });
        }
        Ok(vec![ParamSyntax { name, ty }])
    }

    /// `A f32[m]`.
    fn is_missing_colon(&self) -> bool {
        matches!(self.here(), LineTok::Name(_)) && matches!(self.lookahead(), LineTok::LBracket | LineTok::Dot)
    }
}

fn empty_item(name: NameSyntax) -> ProgramItem {
    ProgramItem {
        span: name.span,
        header: name.span,
        header_failed: false,
        name,
        inputs: Vec::new(),
        outputs: Vec::new(),
        mesh: None,
        body: BlockId(u32::MAX),
    }
}
