//! The state of the parser, and the top level of a file.

use super::ast::{
    BlockId, BlockSyntax, ExprId, ExprNode, FileSyntax, ItemSyntax, MeshItem, NameSyntax, NodeRange, ParamSyntax,
    ProgramItem, SizeSyntax,
};
use super::token::{LineComment, LineTok, LineToken, list_tokens};
use crate::ast::{CommentPlaceSyntax, CommentSyntax, Symbol};
use crate::error::{Code, SyntaxError};
use crate::limits::{MAX_ERRORS, MAX_NUMBER};
use crate::span::Span;
use crate::spelling::nearest_candidate;

/// The deepest nesting of brackets, operators and blocks.
const MAX_DEPTH: u32 = 240;

/// A statement could not be read; the error was recorded.
#[derive(Clone, Copy, Debug)]
pub(super) struct Failed;

/// The result of a part of a statement.
pub(super) type Parsed<T> = Result<T, Failed>;

/// Reads one text.
pub(super) struct Parser<'t> {
    pub(super) text: &'t str,
    pub(super) file: FileSyntax,
    pub(super) errors: Vec<SyntaxError>,
    tokens: Vec<LineToken>,
    at: usize,
    comments: Vec<LineComment>,
    next_comment: usize,
    pub(super) depth: u32,
    /// Brackets that are open in the statement: its lines go on.
    pub(super) brackets: u32,
}

impl<'t> Parser<'t> {
    pub(super) fn new(text: &'t str) -> Self {
        let mut file = FileSyntax::default();
        let mut errors = Vec::new();
        let list = list_tokens(text, &mut file.strings, &mut errors);
        Self {
            text,
            file,
            errors,
            tokens: list.tokens,
            at: 0,
            comments: list.comments,
            next_comment: 0,
            depth: 0,
            brackets: 0,
        }
    }

    // Tokens.

    pub(super) fn peek(&self) -> LineToken {
        self.tokens[self.at]
    }

    /// The token `ahead` places on; the end of the text is repeated.
    pub(super) fn peek_at(&self, ahead: usize) -> LineToken {
        let last = self.tokens.len() - 1;
        self.tokens[(self.at + ahead).min(last)]
    }

    pub(super) fn next(&mut self) -> LineToken {
        let token = self.tokens[self.at];
        if self.at + 1 < self.tokens.len() {
            self.at += 1;
        }
        token
    }

    /// The span of the token before.
    pub(super) fn last_span(&self) -> Span {
        self.at.checked_sub(1).map_or(Span::default(), |at| self.tokens[at].span)
    }

    pub(super) fn symbol_text(&self, symbol: Symbol) -> &str {
        self.file.strings.get(symbol)
    }

    /// The word of a token; empty for other tokens.
    pub(super) fn word(&self, token: LineToken) -> &str {
        match token.tok {
            LineTok::Name(symbol) | LineTok::Op(symbol) => self.symbol_text(symbol),
            _ => "",
        }
    }

    pub(super) fn is_word(&self, word: &str) -> bool {
        matches!(self.peek().tok, LineTok::Name(symbol) if self.symbol_text(symbol) == word)
    }

    /// Whether the next token is this one, on the line of the statement.
    pub(super) fn is(&self, tok: LineTok) -> bool {
        self.peek().tok == tok
    }

    /// Skips the next token if it is this one.
    pub(super) fn skip(&mut self, tok: LineTok) -> bool {
        let found = self.is(tok);
        if found {
            self.next();
        }
        found
    }

    pub(super) fn skip_word(&mut self, word: &str) -> bool {
        let found = self.is_word(word);
        if found {
            self.next();
        }
        found
    }

    pub(super) fn token_text(&self, token: LineToken) -> String {
        match token.tok {
            LineTok::End => "the end of the text".to_owned(),
            _ => format!("`{}`", crate::spelling::shorten_text(&self.text[token.span.as_usize_range()])),
        }
    }

    /// Puts these tokens in the place of the next one.
    pub(super) fn replace_token(&mut self, tokens: &[LineToken]) {
        self.tokens.splice(self.at..=self.at, tokens.iter().copied());
        let added = tokens.len() as u32 - 1;
        for comment in &mut self.comments[self.next_comment..] {
            comment.before += added;
        }
    }

    // Errors.

    pub(super) fn report(&mut self, error: SyntaxError) -> Failed {
        if self.errors.len() < MAX_ERRORS {
            self.errors.push(error);
        } else if self.errors.len() == MAX_ERRORS {
            let message = format!("more than {MAX_ERRORS} errors; the rest of the text is not checked");
            self.errors.push(SyntaxError::new(Code::TooManyErrors, error.span, message));
            self.at = self.tokens.len() - 1;
        }
        Failed
    }

    /// `expected X, found Y`.
    pub(super) fn unexpected(&mut self, wanted: &str, note: impl Into<String>) -> Failed {
        let token = self.peek();
        if token.starts_line() && self.at > 0 {
            let end = self.last_span().end;
            let error = SyntaxError::new(
                Code::Unexpected,
                Span { start: end, end },
                format!("expected {wanted} at the end of this line"),
            );
            return self.report(error.with_note(note));
        }
        let message = format!("expected {wanted}, found {}", self.token_text(token));
        self.report(SyntaxError::new(Code::Unexpected, token.span, message).with_note(note))
    }

    pub(super) fn expect(&mut self, tok: LineTok, wanted: &str, note: &str) -> Parsed<Span> {
        if self.is(tok) {
            return Ok(self.next().span);
        }
        Err(self.unexpected(wanted, note))
    }

    /// Skips to the closing bracket of an open one.
    pub(super) fn close(&mut self, tok: LineTok, text: &str, open: Span) -> Parsed<Span> {
        if self.is(tok) {
            return Ok(self.next().span);
        }
        let token = self.peek();
        if token.starts_line() || token.tok == LineTok::End {
            let opened = self.text[open.as_usize_range()].to_owned();
            let error = SyntaxError::new(Code::Unclosed, open, format!("this `{opened}` is never closed"));
            return Err(self.report(error.with_note(format!("add `{text}`"))));
        }
        Err(self.unexpected(
            &format!("`,` or `{text}`"),
            format!("write `,` between items, and `{text}` behind the last one"),
        ))
    }

    pub(super) fn name(&mut self, what: &str) -> Parsed<NameSyntax> {
        match self.peek() {
            LineToken { tok: LineTok::Name(name), span, .. } => {
                self.next();
                Ok(NameSyntax { name, span })
            }
            _ => {
                Err(self
                    .unexpected(what, "a name is a word of letters, digits and `_` that does not begin with a digit"))
            }
        }
    }

    pub(super) fn integer(&mut self, what: &str) -> Parsed<(i64, Span)> {
        let token = self.peek();
        match token.tok {
            LineTok::Int(value) => {
                self.next();
                Ok((value, token.span))
            }
            _ => Err(self.unexpected(what, "write a number")),
        }
    }

    /// A number of devices, streams and the like.
    fn small_number(&mut self, what: &str) -> Parsed<u32> {
        let (value, span) = self.integer(what)?;
        match u32::try_from(value).ok().filter(|&value| value < MAX_NUMBER) {
            Some(value) => Ok(value),
            None => Err(self.report(SyntaxError::new(Code::Number, span, format!("{value} is too large for {what}")))),
        }
    }

    /// Enters brackets, an operator or a block.
    pub(super) fn enter(&mut self) -> Parsed<()> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            let span = self.peek().span;
            let message = "the nesting is too deep";
            let error = SyntaxError::new(Code::TooDeep, span, message);
            return Err(
                self.report(error.with_note(format!("the limit is {MAX_DEPTH} brackets, operators and blocks")))
            );
        }
        Ok(())
    }

    pub(super) fn leave(&mut self) {
        self.depth -= 1;
    }

    // Arenas.

    pub(super) fn add_expr(&mut self, expr: ExprNode, span: Span) -> ExprId {
        self.file.exprs.push((expr, span));
        ExprId(self.file.exprs.len() as u32 - 1)
    }

    pub(super) fn add_list(&mut self, items: &[ExprId]) -> NodeRange {
        let start = self.file.expr_lists.len() as u32;
        self.file.expr_lists.extend_from_slice(items);
        NodeRange { start, end: self.file.expr_lists.len() as u32 }
    }

    pub(super) fn add_block(&mut self, block: BlockSyntax) -> BlockId {
        self.file.blocks.push(block);
        BlockId(self.file.blocks.len() as u32 - 1)
    }

    // Comments.

    /// The next comment that stands before the next token, if it has a line of its own.
    pub(super) fn comment_above(&self) -> Option<LineComment> {
        let comment = *self.comments.get(self.next_comment)?;
        (comment.before as usize <= self.at && comment.column.is_some()).then_some(comment)
    }

    pub(super) fn take_comment(&mut self, comment: LineComment, place: CommentPlaceSyntax) {
        self.next_comment += 1;
        self.file.comments.push(CommentSyntax { span: comment.span, place });
    }

    /// The comments that end the line of the token before.
    pub(super) fn take_trailing(&mut self, place: CommentPlaceSyntax) {
        while let Some(&comment) = self.comments.get(self.next_comment) {
            if comment.column.is_some() || comment.before as usize > self.at {
                break;
            }
            self.take_comment(comment, place);
        }
    }

    /// All comments before the next token.
    fn take_all(&mut self, place: CommentPlaceSyntax) {
        while let Some(&comment) = self.comments.get(self.next_comment) {
            if comment.before as usize > self.at {
                break;
            }
            self.take_comment(comment, place);
        }
    }

    // Lines.

    /// Whether the statement ends here: at the end of its line, or of its place in a group.
    pub(super) fn at_statement_end(&self) -> bool {
        let token = self.peek();
        token.starts_line() || matches!(token.tok, LineTok::End | LineTok::Semicolon | LineTok::RBrace)
    }

    /// Skips to the first token of the next line that is indented by at most `column`.
    pub(super) fn skip_lines(&mut self, column: u32) {
        while self.peek().tok != LineTok::End {
            self.next();
            let token = self.peek();
            if token.starts_line() && token.column <= column {
                break;
            }
        }
    }

    // The file.

    pub(super) fn parse_file(&mut self) {
        self.take_all_above(CommentPlaceSyntax::File);
        self.parse_version();
        while self.peek().tok != LineTok::End {
            self.parse_item();
        }
        self.take_all(CommentPlaceSyntax::EndOfFile);
        let has_program = self.file.items.iter().any(|item| matches!(item, ItemSyntax::Program(_)));
        if !has_program && self.errors.is_empty() {
            let span = Span::new(self.text.len(), self.text.len());
            let error = SyntaxError::new(Code::NoContainer, span, "the text has no program");
            self.report(error.with_note("a program begins with `name(inputs) -> (outputs):` in column 1"));
        }
    }

    fn take_all_above(&mut self, place: CommentPlaceSyntax) {
        self.take_all(place);
    }

    fn parse_version(&mut self) {
        if !self.skip_word("hir") {
            let span = self.peek().span;
            self.report(SyntaxError::new(Code::Version, span, "the first line is not `hir 2`"));
            return;
        }
        self.file.version = self.last_span();
        let token = self.peek();
        match token.tok {
            LineTok::Int(2) if !token.starts_line() => {
                self.next();
                self.file.version = self.file.version.join(token.span);
                self.end_line();
            }
            _ => {
                let error = SyntaxError::new(Code::Version, token.span, "this version of the language is not known");
                self.report(error.with_note("write `hir 2`"));
                self.skip_lines(0);
            }
        }
    }

    /// Ends a line outside of programs.
    fn end_line(&mut self) {
        if !self.peek().starts_line() && self.peek().tok != LineTok::End {
            self.unexpected("the end of the line", "each item begins on a line of its own");
            self.skip_lines(0);
        }
        self.take_trailing(CommentPlaceSyntax::File);
    }

    fn parse_item(&mut self) {
        let token = self.peek();
        if token.starts_line() && token.column > 0 {
            let error =
                SyntaxError::new(Code::Indentation, token.span, "this line is indented, but belongs to no program");
            self.report(
                error.with_note("a program's header ends in `:`; other lines outside of programs begin in column 1"),
            );
            self.skip_lines(0);
            return;
        }
        self.place_comments_above();
        let word = self.word(token).to_owned();
        if matches!(word.as_str(), "style" | "sizes" | "streams" | "mesh") && self.is_head_line() {
            self.take_all(CommentPlaceSyntax::File);
        }
        let parsed = match word.as_str() {
            "style" if self.is_head_line() => self.parse_style(),
            "sizes" if self.is_head_line() => self.parse_sizes(),
            "streams" if self.is_head_line() => self.parse_streams(),
            "mesh" if self.is_head_line() => self.parse_mesh(),
            "kernel" if self.is_head_line() => {
                self.next();
                self.parse_program(true)
            }
            _ if matches!(self.peek_at(1).tok, LineTok::LParen) => self.parse_program(false),
            _ => Err(self.report_item(token, &word)),
        };
        if parsed.is_err() {
            self.skip_lines(0);
            self.take_all(CommentPlaceSyntax::File);
        }
    }

    /// Comments between the last item and this one. Those directly above a program or kernel belong to it; those with a
    /// blank line behind them, and those above other lines, to the file.
    fn place_comments_above(&mut self) {
        let here = self.peek();
        let waiting = self.comments[self.next_comment..].iter();
        let waiting: Vec<LineComment> =
            waiting.copied().take_while(|comment| comment.before as usize <= self.at).collect();
        let is_program = !self.is_head_line() || self.word(here) == "kernel";
        let number = self.file.items.len() as u32;
        let behind = waiting.iter().skip(1).map(|comment| comment.after_blank).chain([here.after_blank]);
        let detached = behind.collect::<Vec<bool>>().iter().rposition(|blank| *blank).map_or(0, |at| at + 1);
        for (position, comment) in waiting.into_iter().enumerate() {
            let is_own = is_program && position >= detached && comment.column.is_some();
            let place = if is_own { CommentPlaceSyntax::Container(number) } else { CommentPlaceSyntax::File };
            self.take_comment(comment, place);
        }
    }

    /// Whether the next word is followed by something else than a parameter list.
    fn is_head_line(&self) -> bool {
        !matches!(self.peek_at(1).tok, LineTok::LParen)
    }

    fn report_item(&mut self, token: LineToken, word: &str) -> Failed {
        let found = self.token_text(token);
        let (message, note) = match word {
            "def" | "func" | "fn" => (
                format!("{found} begins no program"),
                "write the header as `name(A: f32[m, n]) -> (B: f32[m, n]) on d:`".to_owned(),
            ),
            _ if self.text[token.span.start as usize..].starts_with("%HostIrContainer") => (
                "this is the printed form of a program".to_owned(),
                "a file has one form: leave out the line `hir 2`, or convert with `hir-opt --form=hir2`".to_owned(),
            ),
            _ => {
                let near = nearest_candidate(word, &["mesh", "kernel", "sizes", "streams", "style"]);
                let note = match near {
                    Some(near) => format!("did you mean `{near}`?"),
                    None => "outside of programs stand `mesh d = 0..4`, `kernel f(..) -> (..):` and programs `f(..) -> (..):`".to_owned(),
                };
                (format!("{found} begins neither a program nor a mesh"), note)
            }
        };
        self.report(SyntaxError::new(Code::Outside, token.span, message).with_note(note))
    }

    fn parse_style(&mut self) -> Parsed<()> {
        self.next();
        let start = self.peek().span;
        while !self.peek().starts_line() && self.peek().tok != LineTok::End {
            self.next();
        }
        let span = Span { start: start.start, end: self.last_span().end.max(start.start) };
        let text = self.text[span.as_usize_range()].to_owned();
        let name = self.file.strings.intern(&text);
        self.file.style = Some(NameSyntax { name, span });
        self.take_trailing(CommentPlaceSyntax::File);
        Ok(())
    }

    fn parse_sizes(&mut self) -> Parsed<()> {
        self.next();
        loop {
            let name = self.name("the name of an extent")?;
            self.expect(LineTok::Equals, "`=`", "write `sizes m=64, k=128`")?;
            let (value, span) = self.integer("a size")?;
            self.file.sizes.push(SizeSyntax { name: name.name, value, span: name.span.join(span) });
            if !self.skip(LineTok::Comma) {
                break;
            }
        }
        self.end_line();
        Ok(())
    }

    fn parse_streams(&mut self) -> Parsed<()> {
        self.next();
        let (value, span) = self.integer("a number of streams")?;
        self.file.streams = Some(SizeSyntax { name: self.file.strings.intern(""), value, span });
        self.end_line();
        Ok(())
    }

    fn parse_mesh(&mut self) -> Parsed<()> {
        let start = self.next().span;
        let name = self.name("the name of a mesh")?;
        self.expect(LineTok::Equals, "`=`", "write `mesh d = 0..4`, or `mesh d = [[0, 1], [2, 3]]`")?;
        let mut item = MeshItem { span: start, name, shape: Vec::new(), devices: Vec::new() };
        if self.is(LineTok::LBracket) {
            let open = self.peek().span;
            let mut ragged = false;
            self.parse_devices(0, &mut item, &mut ragged)?;
            if ragged || item.devices.is_empty() {
                let what =
                    if ragged { "the lists of this mesh have different lengths" } else { "this mesh has no devices" };
                self.report(SyntaxError::new(Code::Mesh, open.join(self.last_span()), what));
                item.shape.clear();
            }
        } else {
            let first = self.small_number("a device")?;
            self.expect(LineTok::DotDot, "`..`", "write `0..4` for the devices 0, 1, 2, 3")?;
            let end = self.small_number("a device")?;
            if end <= first || end - first > 1 << 20 {
                let span = start.join(self.last_span());
                let what = if end <= first { "this mesh has no devices" } else { "this mesh has too many devices" };
                return Err(self.report(
                    SyntaxError::new(Code::Mesh, span, what)
                        .with_note("`a..b` are the devices from a up to b, exclusive"),
                ));
            }
            item.shape = vec![end - first];
            item.devices = (first..end).collect();
        }
        item.span = start.join(self.last_span());
        self.file.items.push(ItemSyntax::Mesh(item));
        self.take_items_comments();
        Ok(())
    }

    /// `[[0, 1], [2, 3]]`: extents by depth.
    fn parse_devices(&mut self, depth: usize, item: &mut MeshItem, ragged: &mut bool) -> Parsed<()> {
        self.enter()?;
        let open = self.next().span;
        let mut count = 0;
        while !self.is(LineTok::RBracket) {
            if self.is(LineTok::LBracket) {
                self.parse_devices(depth + 1, item, ragged)?;
            } else {
                let device = self.small_number("a device")?;
                item.devices.push(device);
                *ragged |= item.shape.len() > depth + 1;
            }
            count += 1;
            if !self.skip(LineTok::Comma) {
                break;
            }
        }
        self.close(LineTok::RBracket, "]", open)?;
        self.leave();
        if item.shape.len() <= depth {
            item.shape.resize(depth + 1, 0);
        }
        *ragged |= item.shape[depth] != 0 && item.shape[depth] != count;
        item.shape[depth] = count;
        Ok(())
    }

    /// Comments at the end of an item's line, and above: they belong to the item.
    fn take_items_comments(&mut self) {
        let number = self.file.items.len() as u32 - 1;
        while let Some(&comment) = self.comments.get(self.next_comment) {
            if comment.before as usize > self.at || (comment.column.is_some() && comment.before as usize == self.at) {
                break;
            }
            let place = if comment.column.is_some() {
                CommentPlaceSyntax::Container(number)
            } else {
                CommentPlaceSyntax::Header(number)
            };
            self.take_comment(comment, place);
        }
        self.end_line();
    }

    /// Comments above an item: those behind the last blank line belong to it, those before to the file.
    fn take_item_comments(&mut self, number: u32) {
        let above = self.comments[self.next_comment..].iter();
        let above: Vec<LineComment> = above.take_while(|comment| comment.before as usize <= self.at).copied().collect();
        let own = if self.peek().after_blank {
            above.len()
        } else {
            above.iter().rposition(|comment| comment.after_blank).unwrap_or(0)
        };
        for (at, comment) in above.into_iter().enumerate() {
            let place = if at < own { CommentPlaceSyntax::File } else { CommentPlaceSyntax::Container(number) };
            self.take_comment(comment, place);
        }
    }

    fn parse_program(&mut self, is_kernel: bool) -> Parsed<()> {
        let number = self.file.items.len() as u32;
        self.take_item_comments(number);
        let start = self.peek().span;
        let header_at = self.at;
        let parsed = self.parse_header();
        let header_failed = parsed.is_err();
        let mut item = parsed.unwrap_or_else(|Failed| self.failed_header(header_at));
        item.header = start.join(self.last_span());
        item.header_failed = header_failed;
        item.body = self
            .parse_suite(0, CommentPlaceSyntax::Header(number))
            .unwrap_or_else(|Failed| self.add_block(BlockSyntax::default()));
        item.span = start.join(self.last_span());
        let item = if is_kernel { ItemSyntax::Kernel(item) } else { ItemSyntax::Program(item) };
        self.file.items.push(item);
        Ok(())
    }

    /// Skips the rest of a header with an error, up to its colon.
    fn failed_header(&mut self, header_at: usize) -> ProgramItem {
        let name = match self.tokens[header_at].tok {
            LineTok::Name(name) => name,
            _ => self.file.strings.intern(""),
        };
        let name = NameSyntax { name, span: self.tokens[header_at].span };
        loop {
            let (token, next) = (self.peek(), self.peek_at(1));
            if token.tok == LineTok::End || (token.starts_line() && self.at > header_at) {
                break;
            }
            if token.tok == LineTok::Colon && (next.starts_line() || next.tok == LineTok::End) {
                break;
            }
            self.next();
        }
        self.depth = 0;
        let empty = BlockId(u32::MAX);
        ProgramItem {
            span: name.span,
            header: name.span,
            header_failed: true,
            name,
            inputs: Vec::new(),
            outputs: Vec::new(),
            mesh: None,
            body: empty,
        }
    }

    fn parse_header(&mut self) -> Parsed<ProgramItem> {
        let name = self.name("the name of a program")?;
        let inputs = self.parse_params()?;
        self.expect(LineTok::Arrow, "`->`", "write the header as `name(inputs) -> (outputs) on d:`")?;
        let outputs = self.parse_params()?;
        let mesh = if self.skip_word("on") { Some(self.name("the name of a mesh")?) } else { None };
        let body = BlockId(u32::MAX);
        Ok(ProgramItem { span: name.span, header: name.span, header_failed: false, name, inputs, outputs, mesh, body })
    }

    fn parse_params(&mut self) -> Parsed<Vec<ParamSyntax>> {
        let open = self.expect(
            LineTok::LParen,
            "`(`",
            "inputs and outputs stand in parentheses: `name(A: f32[m]) -> (B: f32[m]):`",
        )?;
        let mut params = Vec::new();
        while !self.is(LineTok::RParen) {
            let name = self.name("the name of a tensor")?;
            let ty = if self.skip(LineTok::Colon) { Some(self.parse_type()?) } else { None };
            params.push(ParamSyntax { name, ty });
            if !self.skip(LineTok::Comma) {
                break;
            }
        }
        self.close(LineTok::RParen, ")", open)?;
        Ok(params)
    }
}
