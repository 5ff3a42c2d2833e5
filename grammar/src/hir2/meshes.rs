//! Meshes whose devices follow from sizes, of `hir 2.1`: `0..p`, `[y:a, x:b]`.

use super::ast::{NameSyntax, NodeRange, SizedMeshSyntax};
use super::items::DeviceList;
use super::parser::{Parsed, Parser};
use super::token::LineTok;
use crate::error::Code;
use crate::span::Span;

/// The axes of a grid by their number.
pub const GRID_AXES: [&[&str]; 3] = [&["x"], &["y", "x"], &["z", "y", "x"]];

const GRID_NOTE: &str = "write `[y:a, x:b]`: `x` is the inner axis, written last, then `y` and `z`";

impl Parser<'_> {
    /// Returns true if the devices of a mesh that come next are given by sizes: a grid, or a range with a name.
    pub(super) fn begins_sized_mesh(&self) -> bool {
        let [first, second, third] = self.stream.window;
        match first.tok {
            LineTok::LBracket => matches!(second.tok, LineTok::Name(_)) && third.tok == LineTok::Colon,
            // `range(4)` and `DeviceMesh{0 1}` are no expressions.
            LineTok::Name(_) if matches!(self.lookahead(), LineTok::LParen | LineTok::LBrace) => false,
            LineTok::Name(_) | LineTok::LParen | LineTok::Int(_) => {
                let line = self.text[first.span.start as usize..].lines().next().unwrap_or_default();
                let own = line.split("//").next().unwrap_or_default();
                own.contains("..") && own.contains(|c: char| c.is_ascii_alphabetic() || c == '_')
            }
            _ => false,
        }
    }

    /// `0..p`, `p..2 * p`, `[y:a, x:b]`
    pub(super) fn parse_sized_mesh(&mut self, name: NameSyntax, list: &mut DeviceList) -> Parsed<()> {
        let start = self.peek().span;
        list.sized = Some(match self.here() {
            LineTok::LBracket => SizedMeshSyntax::Grid(self.parse_grid()?),
            _ => {
                let first = self.parse_expr()?;
                let note = format!("write `mesh {} = 0..{}`", self.quote(name.span), self.quote_expr(first));
                self.expect_tok(LineTok::DotDot, "`..`", &note)?;
                SizedMeshSyntax::Range(first, self.parse_expr()?)
            }
        });
        self.check_minor_version(start.join(self.last_span()), "a mesh that is given by sizes");
        Ok(())
    }

    /// `[y:a, x:b]`: the extents.
    fn parse_grid(&mut self) -> Parsed<NodeRange> {
        let open = self.open_bracket()?;
        let first = self.scratch.exprs.len();
        let mut axes: Vec<NameSyntax> = Vec::new();
        while self.here() != LineTok::RBracket {
            axes.push(self.parse_name("an axis of the mesh")?);
            self.expect_tok(LineTok::Colon, "`:`", GRID_NOTE)?;
            let extent = self.parse_expr()?;
            self.scratch.exprs.push(extent);
            if !self.skip(LineTok::Comma) {
                break;
            }
        }
        self.close(LineTok::RBracket, open)?;
        let words: Vec<&str> = axes.iter().map(|axis| self.symbol_text(axis.name)).collect();
        if !GRID_AXES.contains(&words.as_slice()) {
            let message = format!("the axes of this mesh are {}", words.join(", "));
            return Err(self.report_noted(Code::Mesh, open.join(self.last_span()), message, GRID_NOTE));
        }
        Ok(self.finish_list(first))
    }

    /// Reports a construct of `hir 2.1` in a text of `hir 2`: an older tool then names the version that it lacks.
    pub(super) fn check_minor_version(&mut self, span: Span, construct: &str) {
        if let Some(error) = self.file.head.minor_version_error(self.text, span, construct) {
            self.report(error);
            // One error says it for the whole text.
            self.file.head.minor = 1;
        }
    }
}
