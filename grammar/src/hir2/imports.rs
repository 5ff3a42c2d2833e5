//! Imports, and the texts of the imported files.

use super::ast::{FileSyntax, ImportItem, ItemSyntax, NameSyntax, PartFault, PartSyntax};
use super::bundle::BundlePart;
use super::head::{find_head_fault, is_hir2};
use super::known::KnownWord;
use super::parser::{Parsed, Parser};
use super::stream::ErrorList;
use super::token::LineTok;
use crate::ast::CommentPlaceSyntax;
use crate::error::{Code, SyntaxEdit, SyntaxError};
use crate::span::Span;

pub(super) const IMPORT_NOTE: &str = "write `import axpy from \"kernels.hir\"`";

impl Parser<'_> {
    /// `import a, b from "file.hir"`
    pub(super) fn parse_import(&mut self) -> Parsed<()> {
        let start = self.next().span;
        self.check_minor_version(start, "`import`");
        let path = self.file.strings.intern("");
        let mut item = ImportItem { span: start, names: Vec::new(), path, path_span: start };
        let parsed = self.parse_import_line(&mut item);
        item.span = start.join(self.last_span());
        // Uses of names that an import with an error gives are no further errors.
        if !item.names.is_empty() {
            self.file.items.push(ItemSyntax::Import(item));
        }
        parsed?;
        if self.here() != LineTok::LineEnd && self.peek().tok != LineTok::End {
            self.report_unexpected("the end of the line", "each import is on a line of its own");
            self.skip_line();
        }
        self.take_header_comments();
        Ok(())
    }

    fn parse_import_line(&mut self, item: &mut ImportItem) -> Parsed<()> {
        loop {
            if self.here() == LineTok::Quoted {
                let (path, span) = self.parse_text(IMPORT_NOTE)?;
                let note = format!("name the kernels: `import axpy from \"{}\"`", self.symbol_text(path));
                return Err(self.report_noted(Code::Unexpected, span, "this import has no names", note));
            }
            if self.word_here() == Some(KnownWord::From) && self.lookahead() == LineTok::Quoted {
                return Err(self.report_unexpected("the name of a kernel", IMPORT_NOTE));
            }
            let name = self.parse_name("the name of a kernel")?;
            item.names.push(name);
            if !self.skip(LineTok::Comma) {
                break;
            }
        }
        if !self.skip_word(KnownWord::From) {
            return Err(self.report_unexpected("`from`", IMPORT_NOTE));
        }
        (item.path, item.path_span) = self.parse_text(IMPORT_NOTE)?;
        Ok(())
    }

    /// Reports `from "file.hir" import a, b`, or `from file import a`, whose first word has this place. The names are known
    /// after it. Returns false for another line.
    pub(super) fn report_import_of_python(&mut self, start: Span) -> bool {
        let line = self.text[start.start as usize..].lines().next().unwrap_or_default();
        let code = line.split("//").next().unwrap_or_default().trim_end();
        let Some((path, names)) = code.strip_prefix("from ").and_then(|rest| rest.split_once(" import ")) else {
            return false;
        };
        let is_word =
            |name: &str| !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
        let quoted = path.trim().strip_prefix(['"', '\'']).and_then(|path| path.strip_suffix(['"', '\'']));
        let file = match quoted {
            Some(path) => path.to_owned(),
            None if path.trim().split('.').all(is_word) => format!("{}.hir", path.trim().replace('.', "/")),
            None => return false,
        };
        let names: Vec<&str> = names.split(',').map(str::trim).collect();
        if !names.iter().all(|name| is_word(name)) {
            return false;
        }
        let meant = format!("import {} from \"{file}\"", names.join(", "));
        let span = Span::new(start.start as usize, start.start as usize + code.len());
        let error =
            SyntaxError::new(Code::Foreign, start, "`from` begins no import").with_note(format!("write `{meant}`"));
        let path = self.file.strings.intern("");
        let names = names.iter().map(|name| NameSyntax { name: self.file.strings.intern(name), span: start });
        let item = ImportItem { span: start, names: names.collect(), path, path_span: start };
        self.file.items.push(ItemSyntax::Import(item));
        self.report(error.with_edit(SyntaxEdit { span, text: meant }));
        true
    }

    /// The items of an imported text, whose statements join those of the file. Its comments, and what its head
    /// proposes for a run, are its own.
    fn parse_part(&mut self) -> Vec<ItemSyntax> {
        let head = std::mem::take(&mut self.file.head);
        let outer = std::mem::take(&mut self.file.items);
        let comments = self.file.comments.len();
        self.take_all_comments(CommentPlaceSyntax::File);
        self.begin_statement(0);
        self.parse_version_line();
        while self.peek().tok != LineTok::End {
            self.parse_item();
        }
        self.file.comments.truncate(comments);
        self.file.head = head;
        std::mem::replace(&mut self.file.items, outer)
    }
}

/// Reads the text of an imported file in a bundle.
pub(super) fn read_part(bundle: &str, part: &BundlePart<'_>, file: &mut FileSyntax, errors: &mut ErrorList) {
    let own = &bundle[part.text.clone()];
    let fault = match part.fault {
        Some(reason) => Some(PartFault::NoText(reason.to_owned())),
        None if !is_hir2(own) => Some(PartFault::OtherNotation),
        None => find_head_fault(own).map(|fault| {
            let mut error = fault.to_error(own);
            error.span = shifted(error.span, part.text.start);
            error.edit = None;
            errors.add_error(error);
            PartFault::Version
        }),
    };
    let mut found = PartSyntax { path: part.path.to_owned(), fault, start: part.line as u32, items: Vec::new() };
    if found.fault.is_none() {
        let text = &bundle[..part.text.end];
        let mut parser = Parser::over_part(text, part.text.start, std::mem::take(file), std::mem::take(errors));
        found.items = parser.parse_part();
        (*file, *errors) = (parser.file, parser.errors);
    }
    file.parts.push(found);
}

fn shifted(span: Span, by: usize) -> Span {
    Span::new(span.start as usize + by, span.end as usize + by)
}
