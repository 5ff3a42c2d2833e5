//! Reads the frame around statements: version line, containers, HostUnits, aliases, index definitions.

use crate::ast::{ArgRange, ArgSyntax, BlankLines, BlockId, CommentPlaceSyntax, ContainerSyntax, HostUnitSyntax};
use crate::builder::GrammarOutput;
use crate::error::{Code, SyntaxError};
use crate::layout::ExtentLimit;
use crate::nesting;
use crate::parse::{BlockKind, PartEnd, TextParser};
use crate::span::Span;
use crate::token::{Start, Tok, Token};
use crate::unfold::OPEN;
use memchr::memmem;

/// The version of the text that is read and written.
pub const VERSION: u32 = 1;

/// Inputs, outputs and name of a container.
type HeaderLists = (ArgRange, ArgRange, Option<crate::ast::Symbol>);

impl TextParser<'_> {
    /// The whole text.
    pub(crate) fn parse_file(&mut self) {
        self.parse_version();
        if has_container(self.b.text) {
            self.parse_containers();
        }
        if self.b.ast.containers.is_empty() && !self.b.errors.iter().any(is_interleaved) {
            self.report_no_program();
        }
    }

    /// Reports a text without a program, and its version line if that is wrong.
    fn report_no_program(&mut self) {
        self.b.errors.retain(|error| error.code == Code::Version.text());
        self.b.stopped = false;
        if !self.b.errors.is_empty() {
            return;
        }
        let end = self.b.text.len();
        self.b.report_error(
            SyntaxError::new(Code::NoContainer, Span::new(end, end), "the text contains no program")
                .with_note("start a program with `%HostIrContainer { (inputs) -> (outputs) :`, and a text in the other notation with the line `hir 2`"),
        );
    }

    /// Reads the rest of a text that is cut in the body of a container, at `column`.
    pub(crate) fn parse_rest(&mut self, column: u32) {
        self.resume_body(column);
        self.parse_body(0, 0);
        self.parse_containers();
    }

    fn parse_containers(&mut self) {
        loop {
            let token = self.peek(0);
            self.take_comments(token.span.start);
            match token.tok {
                Tok::End => break,
                Tok::Container => self.parse_container(token),
                _ => self.skip_outside_text(token),
            }
        }
        self.comments.attach_pending(CommentPlaceSyntax::EndOfFile, &mut self.b.ast);
    }

    /// `hir 1`.
    fn parse_version(&mut self) {
        let (word, number) = (self.peek(0), self.peek(1));
        let (Tok::Word(hir), Tok::Int(version)) = (word.tok, number.tok) else { return };
        if self.b.ast.symbol_text(hir) != "hir" || number.starts_line() {
            return;
        }
        self.take_comments(word.span.start);
        self.comments.attach_pending(CommentPlaceSyntax::File, &mut self.b.ast);
        self.src.advance(2);
        if version != i64::from(VERSION) {
            let span = word.span.join(number.span);
            self.b.report_error(
                SyntaxError::new(Code::Version, span, format!("version {version} of the text format is not supported"))
                    .with_note(format!("write `hir 2`, alone on its line, or `hir {VERSION}` above the form that nvFuser prints, which may also have no version line")),
            );
        }
        self.b.ast.version = u32::try_from(version).ok();
        if self.peek(0).tok == Tok::LBrace && !self.peek(0).starts_line() {
            self.b.ast.version_attrs = self.parse_version_attributes();
        }
    }

    /// `{sizes={m=64}, streams=3}`.
    fn parse_version_attributes(&mut self) -> ArgRange {
        self.src.advance(1);
        let mut len = 0;
        while !matches!(self.peek(len).tok, Tok::End) && !self.peek(len).starts_line() {
            len += 1;
        }
        let is_closed = len > 0 && self.peek(len - 1).tok == Tok::RBrace;
        if !is_closed {
            let span = self.peek(0).span;
            self.b.report_error(
                SyntaxError::new(Code::Unclosed, span, "the attributes of the version line are never closed")
                    .with_note("write `hir 1 {sizes={m=64, k=128}, streams=3}` on one line"),
            );
            self.src.advance(len);
            return ArgRange::default();
        }
        let list = self.parse_section(Start::List, len - 1);
        self.src.advance(1);
        match list {
            Some(GrammarOutput::List(list)) => list,
            _ => ArgRange::default(),
        }
    }

    /// Skips text that belongs to no container, up to the next one.
    fn skip_outside_text(&mut self, token: Token) {
        let mut span = token.span;
        loop {
            let next = self.peek(0);
            if matches!(next.tok, Tok::End | Tok::Container) {
                break;
            }
            if next.span.start > token.span.start && next.starts_line() {
                self.take_comments(next.span.start);
            } else if span.end < next.span.end {
                span.end = next.span.end;
            }
            self.src.advance(1);
            if self.peek(0).starts_line() && span.end == next.span.end {
                span = token.span.join(next.span);
            }
        }
        let line = self.b.text[span.start as usize..].lines().next().map_or(0, str::len) as u32;
        span.end = span.end.min(span.start + line);
        self.b.report_error(
            SyntaxError::new(Code::Outside, span, "unexpected text outside of a container")
                .with_note("remove it, make it a `//` comment, or move it into the braces of `%HostIrContainer {`"),
        );
    }

    fn parse_container(&mut self, token: Token) {
        let number = self.b.ast.containers.len() as u32;
        self.comments.attach_before_container(self.b.text, token.span.start, number, &mut self.b.ast);
        self.src.advance(1);
        self.line_column = 0;
        let brace = self.eat_token(Tok::LBrace);
        if brace.is_none() {
            let at = Span { start: token.span.end, end: token.span.end };
            self.b.report_error(
                SyntaxError::new(Code::Unexpected, at, "expected `{` after `%HostIrContainer`")
                    .with_note("write `%HostIrContainer { (inputs) -> (outputs) :`"),
            );
        }
        if self.skip_interleaved(token) {
            return;
        }
        let is_old_frame = self.skip_old_title();
        let (lists, header_end) = self.parse_container_header();
        let (inputs, outputs, given_name) = lists.unwrap_or_default();
        let header = Span { start: token.span.start, end: header_end };
        self.last = CommentPlaceSyntax::Header(number);
        let brace = brace.map_or(token.span, |brace| brace.span);
        let body = self.push_frame(BlockKind::Container, 0, Some(brace));
        self.b.ast.containers.push(ContainerSyntax {
            inputs,
            outputs,
            header_failed: lists.is_none(),
            given_name,
            blanks: BlankLines {
                before: is_blank_before(self.b.text, token.span.start as usize),
                ..BlankLines::default()
            },
            is_old_frame,
            ..ContainerSyntax::new(header, body)
        });
        let before = self.b.errors.len();
        self.parse_body(number as usize, token.span.start);
        let line = self.b.text[token.span.start as usize..].lines().next().unwrap_or("");
        if self.b.errors.len() > before && crate::unfold::is_folded(line) {
            self.b.errors.truncate(before);
            self.b.report_error(
                SyntaxError::new(Code::Unexpected, header, "the program has lost its line breaks")
                    .with_note("write each statement on its own line and indent the bodies of `FOR` and `IF`; `hir-opt` and `hir-run` restore the lines only if no other statement than a loop over streams has a body"),
            );
        }
    }

    /// Skips the title `HOST IRS:` of the lists; returns true if it is there.
    fn skip_old_title(&mut self) -> bool {
        let (host, irs, colon) = (self.peek(0), self.peek(1), self.peek(2));
        let found = self.is_word(host, "HOST") && self.is_word(irs, "IRS") && colon.tok == Tok::Colon;
        if found {
            self.src.advance(3);
        }
        found
    }

    /// The body of container `number`, which starts at `start`, and what follows it.
    fn parse_body(&mut self, number: usize, start: u32) {
        self.parse_block(0);
        if self.cut != PartEnd::Reached {
            self.parse_container_end(number, start);
            self.last = CommentPlaceSyntax::File;
        }
    }

    /// Skips the program that starts at `token` if it contains another one, as when two processes write to one log, and
    /// skips both.
    fn skip_interleaved(&mut self, token: Token) -> bool {
        let start = token.span.start as usize;
        if start < self.nested_until {
            return false;
        }
        let (inner, end) = match find_interleaved(self.b.text, start) {
            Interleaving::Found { inner, end } => (inner, end),
            Interleaving::None => return false,
            Interleaving::TooDeep(end) => {
                self.nested_until = end;
                return false;
            }
        };
        self.b.report_error(
            SyntaxError::new(Code::Interleaved, token.span, "a second program starts inside this one")
                .with_label("this program is not closed before the second one starts")
                .with_second_label(Span::new(inner, inner + OPEN.len()), "the second program starts here")
                .with_note("several processes probably wrote to one file: give each its own with `mpirun --output-filename DIR`, `srun --output=log.%t` or `torchrun --log-dir DIR --redirects 3`")
                .with_note("`mpirun --tag-output` prefixes each line with its process, which is enough to read the log"),
        );
        while !matches!(self.peek(0).tok, Tok::End) && (self.peek(0).span.start as usize) < end {
            self.src.advance(1);
        }
        true
    }

    /// Reads `(inputs) -> (outputs) :`, if there are such lists; returns their end, too.
    fn parse_container_header(&mut self) -> (Option<HeaderLists>, u32) {
        let extent = self.statement_extent(ExtentLimit::Colon);
        let span = self.span_of_next(extent.len);
        if extent.len == 0 && !extent.bad {
            return (None, self.report_missing_header(span));
        }
        let lists = self.run_grammar(Start::Header, extent);
        self.src.advance(extent.len);
        let colon = self.eat_token(Tok::Colon);
        let end = colon.map_or(span.end, |colon| colon.span.end);
        let Some(GrammarOutput::Lists(inputs, outputs, name)) = lists else { return (None, end) };
        if colon.is_none() {
            self.b.report_error(
                SyntaxError::new(
                    Code::Unexpected,
                    Span { start: end, end },
                    "expected `:` at the end of the container's header",
                )
                .with_note("write `%HostIrContainer { (inputs) -> (outputs) :`"),
            );
        }
        (Some((inputs, outputs, name)), end)
    }

    /// Reports a container without a header, or, if it is not closed either, that. Returns the end of the header.
    fn report_missing_header(&mut self, span: Span) -> u32 {
        let end = self.eat_token(Tok::Colon).map_or_else(|| self.consumed_end(), |colon| colon.span.end);
        if !matches!(self.peek(0).tok, Tok::End | Tok::Container) {
            let at = Span { start: end.min(span.start), end: end.min(span.start) };
            self.b.report_error(
                SyntaxError::new(Code::Unexpected, at, "the container has no lists of inputs and outputs")
                    .with_note("write `%HostIrContainer { (inputs) -> (outputs) :`; `()` is an empty list"),
            );
        }
        end
    }

    /// Reads the label and the lists after the closing brace.
    fn parse_container_end(&mut self, number: usize, start: u32) {
        let end = self.consumed_end();
        let labelled = self.section_label(end) == Some(BlockKind::Container);
        let line = self.b.text[end as usize..].lines().next().unwrap_or("").trim_end().len() as u32;
        let close = if labelled { end + line } else { end };
        let after = count_blank_lines(self.b.text, close as usize);
        let container = &mut self.b.ast.containers[number];
        container.span = Span { start, end: close };
        container.closing_label = labelled;
        container.blanks.after = after;
        let mut sections = false;
        loop {
            let (word, next, third) = (self.peek(0), self.peek(1), self.peek(2));
            if self.is_word(word, "Aliases") && next.tok == Tok::Colon {
                let aliases = self.parse_aliases();
                self.b.ast.containers[number].aliases = Some(aliases);
            } else if self.is_word(word, "Index") && self.is_word(next, "definitions") && third.tok == Tok::Colon {
                let block = self.parse_index_definitions();
                self.b.ast.containers[number].index_definitions = Some(block);
            } else {
                break;
            }
            sections = true;
        }
        if sections {
            // Comments at the end of a section belong to it; those after it wait for their place.
            let end = self.consumed_end();
            let end = self.b.ast.comments.last().map_or(end, |last| last.span.end.max(end));
            self.b.ast.containers[number].blanks.after_sections = count_blank_lines(self.b.text, end as usize);
        }
    }

    fn is_word(&self, token: Token, text: &str) -> bool {
        matches!(token.tok, Tok::Word(word) if self.b.ast.symbol_text(word) == text)
    }

    /// The end of the token before the next one.
    fn consumed_end(&mut self) -> u32 {
        self.peek(0);
        self.src.consumed_end()
    }

    /// `Aliases:{` lines `new -> orig` `}`.
    fn parse_aliases(&mut self) -> Vec<(ArgSyntax, ArgSyntax)> {
        let title = self.peek(0);
        self.take_comments(title.span.start);
        self.src.advance(2);
        let mut pairs = Vec::new();
        let Some(open) = self.eat_token(Tok::LBrace) else {
            let at = Span { start: title.span.end, end: title.span.end };
            self.b.report_error(
                SyntaxError::new(Code::Unexpected, at, "expected `{` after `Aliases:`")
                    .with_note("write `Aliases:{`, a line `T1 -> T0` for each alias, and `}`"),
            );
            return pairs;
        };
        loop {
            match self.peek(0).tok {
                Tok::RBrace => break self.src.advance(1),
                Tok::End | Tok::Container => {
                    self.b.report_error(
                        SyntaxError::new(Code::Unclosed, open.span, "this `{` is never closed")
                            .with_label("opened here")
                            .with_note("write `}` after the last alias"),
                    );
                    break;
                }
                Tok::Comma | Tok::Semi => self.src.advance(1),
                _ => {
                    let extent = self.statement_extent(ExtentLimit::Statement);
                    if let Some(GrammarOutput::List(pair)) = self.run_grammar(Start::Pair, extent)
                        && let [new, original] = self.b.ast.args_in(pair)
                    {
                        pairs.push((*new, *original));
                    }
                    self.src.advance(extent.len.max(1));
                }
            }
        }
        pairs
    }

    /// `Index definitions:` and the indented statements under it.
    fn parse_index_definitions(&mut self) -> BlockId {
        let title = self.peek(0);
        self.take_comments(title.span.start);
        self.src.advance(3);
        self.line_column = 0;
        let base = self.frames.len();
        let block = self.push_frame(BlockKind::Index, 0, None);
        self.parse_block(base);
        block
    }

    // ---- HostUnits ----

    /// Reads a `HostUnitN:` section if one starts here.
    pub(crate) fn parse_unit_section(&mut self, token: Token) -> bool {
        let Tok::Word(word) = token.tok else { return false };
        let Some(digits) = self.b.ast.symbol_text(word).strip_prefix("HostUnit") else {
            return false;
        };
        if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
            return false;
        }
        let digits = digits.to_owned();
        if self.peek(1).tok != Tok::Colon {
            return false;
        }
        while self.frames.last().is_some_and(|frame| frame.kind == BlockKind::Nested) {
            let brace = self.frames.last().and_then(|frame| frame.brace);
            if let Some(brace) = brace {
                self.b.report_error(
                    SyntaxError::new(Code::Unclosed, brace, "this `{` is never closed")
                        .with_label("opened here")
                        .with_second_label(token.span, "the HostUnit starts here")
                        .with_note("write `}` at the end of the block"),
                );
            }
            self.pop_frame(false);
        }
        if self.frames.last().is_none_or(|frame| frame.kind != BlockKind::Container) {
            return false;
        }
        let body = self.frames[0].block;
        self.comments.attach_pending(CommentPlaceSyntax::EndOf(body), &mut self.b.ast);
        self.last = CommentPlaceSyntax::EndOf(body);
        let number = self.b.reference_number(&digits, token.span);
        self.parse_unit(token, number);
        true
    }

    fn parse_unit(&mut self, token: Token, number: u32) {
        self.src.advance(2);
        if self.skip_elided_unit(token, number) {
            return;
        }
        let (inputs, outputs) = self.parse_unit_header();
        let attrs = self.parse_unit_attributes();
        let listed = self.is_title_at(0);
        let fusion_inputs = self.parse_unit_lines("Inputs");
        let fusion_outputs = self.parse_unit_lines("Outputs");
        let kernel = self.peek(0);
        let brace = (kernel.tok == Tok::Kernel && self.peek(1).tok == Tok::LBrace).then(|| self.peek(1).span);
        let Some(brace) = brace else {
            self.b.report_error(
                SyntaxError::new(Code::Unexpected, kernel.span, format!("expected `%kernel {{` in the section of HostUnit{number}"))
                    .with_note("write a HostUnit as `HostUnit0: Inputs={..} -> Outputs={..}`, `Inputs:`, `Outputs:` and `%kernel {` ... `} // %kernel`"),
            );
            return self.skip_unit();
        };
        self.take_comments(brace.end);
        self.src.advance(2);
        let base = self.frames.len();
        let body = self.push_frame(BlockKind::Kernel, 0, Some(brace));
        self.comments.attach_pending(CommentPlaceSyntax::EndOf(body), &mut self.b.ast);
        self.last = CommentPlaceSyntax::EndOf(body);
        self.parse_block(base);
        let span = Span { start: token.span.start, end: self.consumed_end() };
        self.add_unit(HostUnitSyntax {
            span,
            number,
            inputs,
            outputs,
            fusion_inputs,
            fusion_outputs,
            listed,
            body,
            attrs,
            is_elided: false,
        });
    }

    fn add_unit(&mut self, unit: HostUnitSyntax) {
        if let Some(container) = self.b.ast.containers.last_mut() {
            container.units.push(unit);
        }
    }

    /// Reads `[...]` in the place of a HostUnit's lists and kernel, as in pages that show a part of a program.
    fn skip_elided_unit(&mut self, token: Token, number: u32) -> bool {
        if [Tok::LBracket, Tok::Ellipsis, Tok::RBracket] != [0, 1, 2].map(|ahead| self.peek(ahead).tok) {
            return false;
        }
        self.src.advance(3);
        let body = BlockId(self.b.ast.blocks.len() as u32);
        self.b.ast.blocks.push(crate::ast::BlockSyntax::default());
        let span = Span { start: token.span.start, end: self.consumed_end() };
        let none = ArgRange::default();
        let (inputs, outputs, fusion_inputs, fusion_outputs, attrs) = (none, none, none, none, none);
        let (listed, is_elided) = (false, true);
        self.add_unit(HostUnitSyntax {
            span,
            number,
            inputs,
            outputs,
            fusion_inputs,
            fusion_outputs,
            listed,
            body,
            attrs,
            is_elided,
        });
        true
    }

    /// Skips an unknown section, to the end of its line.
    fn skip_unit(&mut self) {
        while !self.peek(0).starts_line() && !matches!(self.peek(0).tok, Tok::End | Tok::RBrace) {
            self.src.advance(1);
        }
    }

    /// `Inputs={..} -> Outputs={..}`.
    fn parse_unit_header(&mut self) -> (ArgRange, ArgRange) {
        let len = self.count_tokens_until(|previous, braces, _| previous == Tok::RBrace && braces == 2);
        let Some(GrammarOutput::List(pair)) = self.parse_section(Start::Pair, len) else {
            return (ArgRange::default(), ArgRange::default());
        };
        match self.b.ast.args_in(pair) {
            [inputs, outputs] => (list_of(inputs), list_of(outputs)),
            _ => (ArgRange::default(), ArgRange::default()),
        }
    }

    /// Reads the attributes between the header and `Inputs:`.
    fn parse_unit_attributes(&mut self) -> ArgRange {
        let len = self.count_tokens_until(|_, _, title| title);
        match self.parse_section(Start::List, len) {
            Some(GrammarOutput::List(list)) => list,
            _ => ArgRange::default(),
        }
    }

    /// `Inputs:` or `Outputs:` and one value on each line under it.
    fn parse_unit_lines(&mut self, title: &str) -> ArgRange {
        let (word, colon) = (self.peek(0), self.peek(1));
        if !self.is_word(word, title) || colon.tok != Tok::Colon {
            return ArgRange::default();
        }
        self.src.advance(2);
        let mut values = Vec::new();
        loop {
            let token = self.peek(0);
            let titled = self.is_title_at(0);
            if titled || matches!(token.tok, Tok::Kernel | Tok::End | Tok::Container | Tok::RBrace) {
                break;
            }
            let extent = self.statement_extent(ExtentLimit::Statement);
            if let Some(GrammarOutput::List(list)) = self.run_grammar(Start::List, extent) {
                values.extend_from_slice(self.b.ast.args_in(list));
            }
            self.src.advance(extent.len.max(1));
        }
        let start = self.b.ast.args.len() as u32;
        self.b.ast.args.extend(values);
        ArgRange { start, end: self.b.ast.args.len() as u32 }
    }

    /// True if `Inputs:` or `Outputs:` starts at the token `ahead`.
    fn is_title_at(&mut self, ahead: usize) -> bool {
        let (word, colon) = (self.peek(ahead), self.peek(ahead + 1));
        colon.tok == Tok::Colon && (self.is_word(word, "Inputs") || self.is_word(word, "Outputs"))
    }

    /// Counts the tokens before the one at which `stop` returns true. It gets the token before, the number of braced
    /// lists that have ended, and true at the start of a title. `%kernel`, a blank-free end of text and containers
    /// always stop.
    fn count_tokens_until(&mut self, stop: impl Fn(Tok, usize, bool) -> bool) -> usize {
        let (mut len, mut depth, mut lists, mut previous) = (0, 0usize, 0, Tok::End);
        loop {
            let token = self.peek(len);
            let title = self.is_title_at(len);
            let ends = matches!(token.tok, Tok::End | Tok::Container | Tok::Kernel);
            if ends || depth == 0 && (title || stop(previous, lists, title)) {
                return len;
            }
            if depth == 0 && token.tok.is_closer() {
                return len;
            }
            depth += usize::from(token.tok.matching_closer().is_some());
            if token.tok.is_closer() {
                depth -= 1;
                lists += usize::from(depth == 0);
            }
            previous = token.tok;
            len += 1;
        }
    }

    fn parse_section(&mut self, start: Start, len: usize) -> Option<GrammarOutput> {
        let bad = self.src.peeked_tokens(len).iter().any(|token| token.tok == Tok::Error);
        let deep = nesting::is_too_deep(self.src.peeked_tokens(len));
        if deep {
            let span = self.span_of_next(len);
            self.b.report_error(
                SyntaxError::new(Code::TooDeep, span, "the list is nested too deeply").with_note(nesting::depth_note()),
            );
        }
        let bad = bad || deep;
        let node = self.run_grammar(start, crate::layout::StmtExtent { len, bad, open_end: false });
        self.src.advance(len);
        node
    }
}

fn is_interleaved(error: &SyntaxError) -> bool {
    error.code == Code::Interleaved.text()
}

fn list_of(arg: &ArgSyntax) -> ArgRange {
    match arg.value {
        crate::ast::ValueSyntax::List(list) => list,
        _ => ArgRange::default(),
    }
}

/// Returns true if a container seems to start somewhere: at the start of a line, or with its brace. (Documents have the
/// word in their sentences.)
fn has_container(text: &str) -> bool {
    const WORD: &str = "%HostIrContainer";
    memmem::find_iter(text.as_bytes(), WORD).any(|at| {
        let line = memchr::memrchr(b'\n', &text.as_bytes()[..at]).map_or(0, |end| end + 1);
        text[at + WORD.len()..].trim_start_matches([' ', '\t']).starts_with('{') || text[line..at].trim().is_empty()
    })
}

/// True if the line before the one at `start` is blank. A line of a log that belongs to no container is not
/// blank, though nothing is left of it ([`crate::log::DROPPED`]).
fn is_blank_before(text: &str, start: usize) -> bool {
    let head = text[..start].trim_end_matches([' ', '\t']);
    head.strip_suffix('\n').is_some_and(|head| {
        let head = head.trim_end_matches(BLANKS);
        head.is_empty() || head.ends_with('\n')
    })
}

/// The blank lines after the line that ends at `end`.
fn count_blank_lines(text: &str, end: usize) -> u32 {
    let rest = text[end..].trim_start_matches(BLANKS);
    let Some(mut rest) = rest.strip_prefix('\n') else { return 0 };
    let mut count = 0;
    while let Some(at) = rest.find('\n').filter(|&at| rest[..at].trim_matches(BLANKS).is_empty()) {
        count += 1;
        rest = &rest[at + 1..];
    }
    count
}

/// The characters that a blank line may hold.
const BLANKS: [char; 3] = [' ', '\t', '\r'];

/// The other programs inside of one.
enum Interleaving {
    /// There is none, or the lines that open and close programs do not determine it.
    None,
    /// The start of the first one, and the end of the last one.
    Found { inner: usize, end: usize },
    /// More programs inside one another than a log of a run has, up to here.
    TooDeep(usize),
}

/// The programs that start inside of the one that starts at `start`.
fn find_interleaved(text: &str, start: usize) -> Interleaving {
    /// The maximum number of programs inside one another in a log of a run.
    const MOST: usize = 4096;
    let word = memmem::Finder::new(b"%HostIrContainer");
    let (mut open, mut first) = (1usize, None);
    let mut from = start + OPEN.len();
    while open > 0 {
        let Some(found) = text.as_bytes().get(from..).and_then(|rest| word.find(rest)) else {
            return Interleaving::None;
        };
        let at = from + found;
        from = at + 1;
        let line = text[..at].rfind('\n').map_or(0, |end| end + 1);
        let before = &text[line..at];
        if before.trim() == "} //" {
            open -= 1;
        } else if text[at..].starts_with(OPEN) && !before.contains("//") {
            first.get_or_insert(at);
            open += 1;
            if open >= MOST {
                return Interleaving::TooDeep(at);
            }
        }
    }
    first.map_or(Interleaving::None, |inner| Interleaving::Found { inner, end: from })
}
