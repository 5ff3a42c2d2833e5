//! `launch "axpy.cu"::axpy[grid, block, shared](A, n, C) reads(A) writes(C)`: a kernel of the user, of `hir 2.1`.

use super::ast::{ExprId, LaunchSyntax, NameSyntax, NodeRange, StmtForm};
use super::parser::{Failed, Parsed, Parser};
use super::token::{LineTok, has_own_comma};
use crate::error::{Code, SyntaxEdit, SyntaxError};
use crate::span::Span;

const FORM_NOTE: &str =
    "a launch is `launch \"axpy.cu\"::axpy[grid, block](A, n, C) reads(A) writes(C)`; the file is below the program's";
const SIZES_NOTE: &str =
    "write `[grid, block]` or `[grid, block, shared]`; grid and block are one to three integers, `[(gx, gy), 256]`";
const CLAUSE_NOTE: &str =
    "after the arguments come `reads(..)` and `writes(..)`, and if needed `reference=NAME` and `group=N`";
/// The most extents of a grid or a block.
const MOST_EXTENTS: usize = 3;

/// The clauses after the arguments, each with its place.
#[derive(Default)]
struct LaunchClauses {
    reads: Option<(NodeRange, Span)>,
    writes: Option<(NodeRange, Span)>,
    reference: Option<(NameSyntax, Span)>,
    group: Option<(ExprId, Span)>,
}

impl Parser<'_> {
    /// The statement; `launch` is next, and a text in quotes follows it.
    pub(super) fn parse_launch(&mut self) -> Parsed<StmtForm> {
        let word = self.next().span;
        let file = self.parse_file_name()?;
        for _ in 0..2 {
            self.expect_tok(LineTok::Colon, "`::` and the name of the kernel", FORM_NOTE)?;
        }
        let entry = self.parse_name("the name of the kernel")?;
        if self.here() != LineTok::LBracket {
            return Err(self.report_unexpected("`[grid, block]`", SIZES_NOTE));
        }
        let open = self.open_bracket()?;
        let grid = self.parse_extents()?;
        self.expect_tok(LineTok::Comma, "`,` and the block", SIZES_NOTE)?;
        let block = self.parse_extents()?;
        let has_shared = self.skip(LineTok::Comma) && self.here() != LineTok::RBracket;
        let shared = if has_shared { Some(self.parse_expr()?) } else { None };
        self.close(LineTok::RBracket, open)?;
        if self.here() != LineTok::LParen {
            return Err(self.report_unexpected("`(` and the arguments of the kernel", FORM_NOTE));
        }
        let args = self.parse_argument_list()?;
        let clauses = self.parse_clauses()?;
        self.check_minor_version(word.join(self.last_span()), "`launch`");
        self.file.launches.push(LaunchSyntax {
            file,
            entry,
            grid,
            block,
            shared,
            args,
            reads: clauses.reads.map(|(range, _)| range).unwrap_or_default(),
            writes: clauses.writes.map(|(range, _)| range).unwrap_or_default(),
            reference: clauses.reference.map(|(name, _)| name),
            group: clauses.group.map(|(group, _)| group),
        });
        Ok(StmtForm::Launch(self.file.launches.len() as u32 - 1))
    }

    /// Reports the brackets of CUDA, `axpy<<<grid, block>>>(A, n, C)`.
    #[cold]
    pub(super) fn report_launch_brackets(&mut self, span: Span) -> Failed {
        let line = self.text.get(self.stmt.start as usize..).and_then(|rest| rest.lines().next()).unwrap_or_default();
        if let Some((statement, edit)) = self.call_of_own_kernel(line) {
            let error = SyntaxError::new(Code::Foreign, span, "a kernel of this file has no `<<<`")
                .with_note(format!("the runtime chooses its launch: write `{statement}`"))
                .with_edit(edit);
            return self.report(error);
        }
        let form = line.split_once("<<<").and_then(|(name, rest)| {
            let (sizes, _) = rest.split_once(">>>")?;
            let is_name = name.chars().all(|c| c.is_alphanumeric() || c == '_');
            is_name.then(|| format!("launch \"{name}.cu\"::{name}[{}](..) reads(..) writes(..)", sizes.trim()))
        });
        match form {
            Some(form) => {
                let note = format!("write `{form}`, with the kernel's file and the tensors that it reads and writes");
                self.report_foreign(span, "a launch has no `<<<`", note)
            }
            None => self.report_foreign(span, "a launch has no `<<<`", FORM_NOTE),
        }
    }

    /// `Y = swish(X)` for `Y = swish<<<m, n>>>(X)`, if `swish` is a kernel of this file, and the edit.
    fn call_of_own_kernel(&self, line: &str) -> Option<(String, SyntaxEdit)> {
        let (before, rest) = line.split_once("<<<")?;
        let (_, after) = rest.split_once(">>>")?;
        let name = before.rsplit([' ', '=']).next()?;
        let declared = format!("\nkernel {name}(");
        if name.is_empty() || !self.text.contains(&declared) {
            return None;
        }
        let start = self.stmt.start as usize + before.len();
        let end = self.stmt.start as usize + line.len() - after.len();
        let edit = SyntaxEdit { span: Span::new(start, end), text: String::new() };
        Some((format!("{before}{after}"), edit))
    }

    /// The text in quotes that is next.
    fn parse_file_name(&mut self) -> Parsed<NameSyntax> {
        let span = self.next().span;
        let quoted = &self.text[span.as_usize_range()];
        let inner = &quoted[1..quoted.len() - 1];
        if quoted.starts_with('\'') {
            let text = format!("\"{inner}\"");
            let error = SyntaxError::new(Code::Foreign, span, "the name of a file is in double quotes")
                .with_note(format!("write `{text}`"))
                .with_edit(SyntaxEdit { span, text });
            self.report(error);
        }
        Ok(NameSyntax { name: self.add_string(inner), span })
    }

    /// `gx` or `(gx, gy, gz)`.
    fn parse_extents(&mut self) -> Parsed<NodeRange> {
        let first = self.scratch.exprs.len();
        let start = self.peek().span;
        if self.here() == LineTok::LParen && has_own_comma(&self.text[start.start as usize..]) {
            let open = self.open_bracket()?;
            while self.here() != LineTok::RParen {
                let extent = self.parse_expr()?;
                self.scratch.exprs.push(extent);
                if !self.skip(LineTok::Comma) {
                    break;
                }
            }
            self.close(LineTok::RParen, open)?;
        } else {
            let extent = self.parse_expr()?;
            self.scratch.exprs.push(extent);
        }
        let found = self.scratch.exprs.len() - first;
        if !(1..=MOST_EXTENTS).contains(&found) {
            let span = start.join(self.last_span());
            let message = format!("a grid or block has one to three extents, this one has {found}");
            return Err(self.report_noted(Code::Unexpected, span, message, SIZES_NOTE));
        }
        Ok(self.finish_list(first))
    }

    fn parse_clauses(&mut self) -> Parsed<LaunchClauses> {
        let mut clauses = LaunchClauses::default();
        while let LineTok::Name(word) = self.here() {
            let span = self.peek().span;
            let text = self.symbol_text(word).to_owned();
            let first = match text.as_str() {
                "reads" => clauses.reads.map(|(_, span)| span),
                "writes" => clauses.writes.map(|(_, span)| span),
                "reference" => clauses.reference.map(|(_, span)| span),
                "group" => clauses.group.map(|(_, span)| span),
                _ => return Err(self.report_unexpected("a clause of the launch", CLAUSE_NOTE)),
            };
            if first.is_some() {
                let message = format!("`{text}` is given twice");
                return Err(self.report_noted(Code::Unexpected, span, message, "write one list for all"));
            }
            self.next();
            match text.as_str() {
                "reads" => clauses.reads = Some((self.parse_read_list()?, span)),
                "writes" => clauses.writes = Some((self.parse_write_list()?, span)),
                "reference" => {
                    self.expect_tok(LineTok::Equals, "`=`", CLAUSE_NOTE)?;
                    clauses.reference = Some((self.parse_name("the name of a kernel in this file")?, span));
                }
                _ => {
                    self.expect_tok(LineTok::Equals, "`=`", CLAUSE_NOTE)?;
                    clauses.group = Some((self.parse_expr()?, span));
                }
            }
        }
        Ok(clauses)
    }

    fn report_no_list(&mut self) -> Failed {
        self.report_unexpected("`(` and the tensors or slices", CLAUSE_NOTE)
    }

    /// `(A, B[own])`.
    fn parse_read_list(&mut self) -> Parsed<NodeRange> {
        if self.here() != LineTok::LParen {
            return Err(self.report_no_list());
        }
        Ok(self.parse_items(LineTok::RParen)?.0)
    }

    /// `(C: f32[n], D[i])`.
    fn parse_write_list(&mut self) -> Parsed<NodeRange> {
        if self.here() != LineTok::LParen {
            return Err(self.report_no_list());
        }
        let open = self.open_bracket()?;
        let start = self.file.targets.len() as u32;
        while self.here() != LineTok::RParen {
            let target = self.parse_target()?;
            self.file.targets.push(target);
            if !self.skip(LineTok::Comma) {
                break;
            }
        }
        self.close(LineTok::RParen, open)?;
        Ok(NodeRange { start, end: self.file.targets.len() as u32 })
    }
}
