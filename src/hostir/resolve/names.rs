//! Names that the user gave, in texts that begin with `hir 1`.

use super::Resolver;
use crate::diag::{Diag, PartKind, Span, codes, message};
use crate::ir::{self, Expr, NO_MESH, Op, Value, is_given_name};
use hostir_grammar::ast::{self, ArgSyntax, ContainerSyntax, ExprSyntax, HostUnitSyntax, StmtSyntax, ValueSyntax};

impl Resolver<'_> {
    /// Resolves the name of the container, and the first line's proposals for a run.
    pub(super) fn resolve_container_names(&mut self, node: &ContainerSyntax) {
        if let Some(name) = node.given_name {
            self.program.given.program = self.checked_name(name, node.header);
        }
        let ast = self.ast;
        for arg in ast.args_in(ast.version_attrs) {
            self.resolve_hint(arg);
        }
    }

    /// `sizes={m=64}` or `streams=3`.
    fn resolve_hint(&mut self, arg: &ArgSyntax) {
        let ast = self.ast;
        match (arg.key.map(|key| ast.symbol_text(key)), arg.value) {
            (Some("sizes"), ValueSyntax::List(sizes)) => {
                for size in ast.args_in(sizes) {
                    let (Some(name), Some(value)) = (size.key, self.integer_value(size)) else {
                        self.report_wrong_kind("size", "a name and a number such as `m=64`", size);
                        continue;
                    };
                    let name = self.resolve_symbol(name);
                    self.program.hints.sizes.push((name, value));
                }
            }
            (Some("streams"), _) if self.integer_value(arg).is_some_and(|count| u32::try_from(count).is_ok()) => {
                let count = self.integer_value(arg).and_then(|count| u32::try_from(count).ok());
                self.program.hints.streams = count;
            }
            _ => self.report_wrong_kind("version line", "`sizes={m=64}` or `streams=3`", arg),
        }
    }

    fn integer_value(&self, arg: &ArgSyntax) -> Option<i64> {
        match arg.value {
            ValueSyntax::Expr(expr) => match self.ast.exprs[expr.index()].0 {
                ExprSyntax::Int(value) => Some(value),
                _ => None,
            },
            _ => None,
        }
    }

    /// `axpy` of the attribute `{name=axpy}` of a HostUnit.
    pub(super) fn resolve_unit_name(&mut self, node: &HostUnitSyntax) -> Option<ir::Symbol> {
        let ast = self.ast;
        let named = ast.args_in(node.attrs).iter().find_map(|arg| self.name_attribute(arg))?;
        self.resolve_name_value(&named)
    }

    /// The argument `name=..` in braces.
    pub(super) fn name_attribute(&self, arg: &ArgSyntax) -> Option<ArgSyntax> {
        let ValueSyntax::List(list) = arg.value else { return None };
        match self.ast.args_in(list) {
            [named] if named.key.is_some_and(|key| self.ast.symbol_text(key) == "name") => Some(*named),
            _ => None,
        }
    }

    /// A name as the value of an attribute.
    pub(super) fn resolve_name_value(&mut self, arg: &ArgSyntax) -> Option<ir::Symbol> {
        if let ValueSyntax::Expr(expr) = arg.value
            && let ExprSyntax::Name(name) = self.ast.exprs[expr.index()].0
        {
            return self.checked_name(name, arg.span);
        }
        self.report_wrong_kind("name", "a name such as `G`", arg);
        None
    }

    /// Resolves the name of a mesh; refuses the word that marks tensors without one.
    pub(super) fn resolve_mesh_name(&mut self, arg: &ArgSyntax) -> Option<ir::Symbol> {
        let name = self.resolve_name_value(arg)?;
        if self.program.name(name) != NO_MESH {
            return Some(name);
        }
        let message = message!("`{}` cannot be the name of a mesh", PartKind::Word.quote(NO_MESH));
        let note = message!(
            "`@{}` marks tensors without a mesh in `hir 2`; choose another name",
            PartKind::Word.quote(NO_MESH)
        );
        self.diags.push(Diag::error(codes::RESERVED_NAME, arg.span, message).with_note(note));
        None
    }

    fn checked_name(&mut self, name: ast::Symbol, span: Span) -> Option<ir::Symbol> {
        let text = self.ast.symbol_text(name);
        if self.ast.version.is_none() {
            // One error requests the line; further names need no others.
            if self.diags.items.iter().any(|diag| diag.code == codes::NAME_WITHOUT_VERSION) {
                return None;
            }
            let message = message!(
                "the name `{}` stands in a text of nvFuser's form, which has no names",
                PartKind::Word.quote(text)
            );
            self.diags.push(
                Diag::error(codes::NAME_WITHOUT_VERSION, span, message).with_note("write `hir 1` as the first line"),
            );
            return None;
        }
        if !is_given_name(text) {
            let message = message!("`{}` cannot be a name", PartKind::Word.quote(text));
            self.diags.push(Diag::error(codes::RESERVED_NAME, span, message).with_note(
                "a name is a word of letters, digits and `_` that is no word of the language and no number such as `T7`",
            ));
            return None;
        }
        Some(self.resolve_symbol(name))
    }

    /// Reports a second name of one thing.
    pub(super) fn report_renamed(&mut self, before: Option<ir::Symbol>, name: ir::Symbol, span: Span) {
        let Some(before) = before.filter(|before| *before != name) else { return };
        let [before, name] = [before, name].map(|name| self.program.name(name));
        let message = message!("`{}` is called `{}` before", PartKind::Word.quote(name), PartKind::Word.quote(before));
        self.diags.push(Diag::error(codes::NAME_TWICE, span, message).with_note("give it one name"));
    }

    /// Records the name after a communication, a group or a `GetCurrentStream`.
    pub(super) fn note_given_name(&mut self, op: &Op, stmt: &StmtSyntax) {
        let Some(name) = stmt.given_name else { return };
        let stream = op.results.first().and_then(|value| match value {
            Value::Stream(stream) => Some(*stream),
            _ => None,
        });
        let address = stream.and_then(|stream| match self.program.exprs.get(stream) {
            Expr::Hex(address) => Some(*address),
            _ => None,
        });
        let Some(name) = self.checked_name(name, stmt.span) else { return };
        match (op.number(), address) {
            (Some(number), _) => {
                let before = self.program.given.handles.insert(number, name);
                self.report_renamed(before, name, stmt.span);
            }
            (None, Some(address)) if op.kind.is_stream_naming() => {
                let before = self.program.given.streams.insert(address, name);
                self.report_renamed(before, name, stmt.span);
            }
            _ => {
                let message = "this statement has nothing that could have a name";
                self.diags.push(Diag::error(codes::NAMELESS, stmt.span, message).with_note(
                    "names come after communications, `EndCoalescing`, and `GetCurrentStream into Stream 0x1`",
                ));
            }
        }
    }
}
