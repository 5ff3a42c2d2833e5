//! Detects the spelling features that a file uses.
//!
//! Features that the file shows are taken from it; the others from the era that fits those. The form of stream
//! statements, which also decides the meaning of roots, is detected for each container.

use super::Resolver;
use crate::diag::{Diag, Span, codes};
use crate::ir::OpKind;
use crate::ir::functions::CASTS;
use crate::ir::{AttrKey, CastSpelling, Era, OpId, RootAs, StreamSpelling, Style};
use hostir_grammar::ast::{
    ArgRange, BlockId, ContainerSyntax, ExprId, ExprSyntax, HostUnitSyntax, StmtShape, StmtSyntax, Symbol, SyntaxTree,
    ValueSyntax,
};

/// The parts of a container that show the age of its spelling.
#[derive(Clone, Copy, Default)]
pub(super) struct StyleEvidence {
    /// Its first statement such as `Wait(Communication 1)`.
    call: Option<Span>,
    /// Its first statement such as `Wait Communication 1`.
    words: Option<Span>,
    /// True if a maximum or minimum is spelled `max` or `min`.
    short_max: bool,
}

impl StyleEvidence {
    /// Finds them in a container.
    pub(super) fn from_container(ast: &SyntaxTree, container: usize) -> Self {
        let words = ["Synchronize", "SetCurrentStream", "GetCurrentStream", "Wait"];
        let symbols = words.map(|word| ast.strings.find_symbol(word));
        let mut shown = StyleEvidence::default();
        let Some(node) = ast.containers.get(container) else { return shown };
        if symbols.iter().any(Option::is_some) {
            shown.scan_block(ast, node.body, &symbols);
        }
        shown.short_max = ShortMaxSearch::new(ast).is_in_container(node);
        shown
    }

    fn scan_block(&mut self, ast: &SyntaxTree, block: BlockId, symbols: &[Option<Symbol>]) {
        for stmt in &ast.blocks[block.index()].stmts {
            let stmt: &StmtSyntax = &ast.stmts[stmt.index()];
            if symbols.contains(&Some(stmt.name)) {
                let slot = if stmt.shape == StmtShape::Call { &mut self.call } else { &mut self.words };
                slot.get_or_insert(stmt.span);
            }
            for inner in [stmt.body, stmt.else_body].into_iter().flatten() {
                self.scan_block(ast, inner, symbols);
            }
        }
    }

    /// Returns true if the first such statement has the form of a call.
    fn call_form(self) -> Option<bool> {
        match (self.call, self.words) {
            (Some(call), Some(words)) => Some(call.start < words.start),
            (None, None) => None,
            (call, _) => Some(call.is_some()),
        }
    }
}

/// The features of a file, with what one of its containers shows.
pub(super) fn detect_style(ast: &SyntaxTree, shown: StyleEvidence) -> Style {
    let stream = detect_stream_spelling(ast);
    let call_form = shown.call_form();
    let reshape = has_statement(ast, "reshape");
    let era = if call_form == Some(true) || reshape {
        Era::E2026_04
    } else if stream == Some(StreamSpelling::LowerStreamIdx) {
        Era::E2025_10
    } else if stream == Some(StreamSpelling::Stream) {
        Era::E2025_01
    } else {
        Era::E2025_06
    };
    let base = era.style();
    // Communications had no backend as long as slices were called `select`.
    let old = has_statement(ast, "Communication") && !has_argument(ast, "backend");
    let old_select = old && has_statement(ast, "select") && !has_statement(ast, "HirAliasSelect");
    Style {
        stream: stream.unwrap_or(base.stream),
        call_form: call_form.unwrap_or(base.call_form),
        tight_stream_index: detect_tight_index(ast).unwrap_or(base.tight_stream_index),
        cast: detect_cast(ast).unwrap_or(base.cast),
        reshape: (base.reshape || reshape) && !has_statement(ast, "view"),
        short_max: base.short_max || shown.short_max,
        alias_select: base.alias_select && !old_select,
        unit_lines: host_units(ast).all(|unit| unit.listed),
        ..base
    }
}

fn host_units(ast: &SyntaxTree) -> impl Iterator<Item = &HostUnitSyntax> {
    ast.containers.iter().flat_map(|container| &container.units)
}

/// From the domains, or from the name of the loop index.
fn detect_stream_spelling(ast: &SyntaxTree) -> Option<StreamSpelling> {
    let domains = ast.domains.iter().find_map(|domain| stream_spelling(ast.symbol_text(domain.parallel)));
    domains.or_else(|| {
        let named = ["StreamIdx", "streamIdx"].into_iter().find(|text| has_loop_index(ast, text));
        named.and_then(stream_spelling)
    })
}

fn stream_spelling(text: &str) -> Option<StreamSpelling> {
    match text {
        "Stream" => Some(StreamSpelling::Stream),
        "StreamIdx" => Some(StreamSpelling::StreamIdx),
        "streamIdx" => Some(StreamSpelling::LowerStreamIdx),
        _ => None,
    }
}

fn detect_tight_index(ast: &SyntaxTree) -> Option<bool> {
    let key = ast.strings.find_symbol("stream_index");
    key?;
    ast.args.iter().find(|arg| arg.key == key).map(|arg| !arg.spaced)
}

fn detect_cast(ast: &SyntaxTree) -> Option<CastSpelling> {
    if CASTS.iter().any(|(new, _)| has_symbol(ast, new)) {
        return Some(CastSpelling::To);
    }
    CASTS.iter().any(|(_, old)| has_symbol(ast, old)).then_some(CastSpelling::C)
}

/// Whether a statement is called so. A user may have given the word as a name to something.
fn has_statement(ast: &SyntaxTree, text: &str) -> bool {
    ast.strings.find_symbol(text).is_some_and(|name| ast.stmts.iter().any(|stmt| stmt.name == name))
}

/// Whether an argument has this key.
fn has_argument(ast: &SyntaxTree, text: &str) -> bool {
    let key = ast.strings.find_symbol(text);
    key.is_some() && ast.args.iter().any(|arg| arg.key == key)
}

/// Whether a loop counts by this name.
fn has_loop_index(ast: &SyntaxTree, text: &str) -> bool {
    let Some(name) = ast.strings.find_symbol(text) else { return false };
    let loops = ast.stmts.iter().filter(|stmt| matches!(stmt.shape, StmtShape::ForIn | StmtShape::ForRange));
    loops.filter_map(|stmt| ast.args_in(stmt.args).first()).any(|index| match index.value {
        ValueSyntax::Expr(expr) => matches!(ast.exprs[expr.index()].0, ExprSyntax::Name(found) if found == name),
        _ => false,
    })
}

/// Whether the text contains the word as a name.
fn has_symbol(ast: &SyntaxTree, text: &str) -> bool {
    ast.strings.find_symbol(text).is_some()
}

/// The search for a maximum or minimum that is spelled `max` or `min`: as a function of tensors or scalars, or as what a reduction
/// does. Communications name what they reduce by alike in all styles.
struct ShortMaxSearch<'t> {
    ast: &'t SyntaxTree,
    /// `max` and `min`, where the text has them.
    names: [Option<Symbol>; 2],
    /// The word of a reduction's argument.
    op: Option<Symbol>,
}

impl<'t> ShortMaxSearch<'t> {
    fn new(ast: &'t SyntaxTree) -> Self {
        let names = ["max", "min"].map(|text| ast.strings.find_symbol(text));
        Self { ast, names, op: ast.strings.find_symbol("op") }
    }

    fn is_in_container(&self, container: &ContainerSyntax) -> bool {
        let units = container.units.iter().map(|unit| unit.body);
        let mut blocks = units.chain([container.body]).chain(container.index_definitions);
        self.names.iter().any(Option::is_some) && blocks.any(|block| self.is_in_block(block))
    }

    fn is_in_block(&self, block: BlockId) -> bool {
        self.ast.blocks[block.index()].stmts.iter().any(|stmt| {
            let stmt = &self.ast.stmts[stmt.index()];
            self.is_name(stmt.name)
                || self.is_in_args(stmt.args)
                || [stmt.body, stmt.else_body].into_iter().flatten().any(|inner| self.is_in_block(inner))
        })
    }

    fn is_in_args(&self, args: ArgRange) -> bool {
        self.ast.args_in(args).iter().any(|arg| match arg.value {
            ValueSyntax::Expr(expr) | ValueSyntax::Stream(expr) => {
                let is_reduction = self.op.is_some() && arg.key == self.op;
                self.is_in_expr(expr) || is_reduction && self.is_word(expr)
            }
            ValueSyntax::List(items) => self.is_in_args(items),
            _ => false,
        })
    }

    fn is_in_expr(&self, expr: ExprId) -> bool {
        match &self.ast.exprs[expr.index()].0 {
            ExprSyntax::Call(name, args) => self.is_name(*name) || self.is_in_args(*args),
            ExprSyntax::Binary(_, a, b) | ExprSyntax::Index(a, b) => self.is_in_expr(*a) || self.is_in_expr(*b),
            ExprSyntax::Unary(_, a) | ExprSyntax::Group(a) | ExprSyntax::Field(a, _) => self.is_in_expr(*a),
            ExprSyntax::Braces(items) => self.is_in_args(*items),
            _ => false,
        }
    }

    fn is_word(&self, expr: ExprId) -> bool {
        matches!(self.ast.exprs[expr.index()].0, ExprSyntax::Name(name) if self.is_name(name))
    }

    fn is_name(&self, name: Symbol) -> bool {
        self.names.contains(&Some(name))
    }
}

impl Resolver<'_> {
    /// Writes into the communications how their roots are counted: as `root_as=` says, or as the container's
    /// spelling does.
    pub(super) fn resolve_roots(&mut self, shown: StyleEvidence) {
        let spelled = self.program.spelled_root();
        let unlike = self.find_other_spelling(shown);
        for id in self.program.ops.ids().collect::<Vec<OpId>>() {
            let op = &self.program.ops[id];
            if op.kind != OpKind::Communication || op.attr(AttrKey::Root).is_none() {
                continue;
            }
            let written = op.attr(AttrKey::RootAs).is_some();
            let counted = if written { self.program.root_as(op) } else { spelled };
            if !written
                && let Some(unlike) = unlike
                && !self.program.root_is_plain(op)
            {
                self.report_unclear_root(id, spelled, unlike);
            }
            let position = counted == RootAs::Position;
            let word = position.then(|| self.program.names.intern(RootAs::Position.word()));
            crate::ir::set_root_as(&mut self.program.ops[id], word);
        }
    }

    /// A statement whose spelling contradicts what decides how roots are counted.
    fn find_other_spelling(&self, shown: StyleEvidence) -> Option<Span> {
        match shown.call_form()? {
            true => shown.words,
            false => shown.call.or_else(|| self.find_short_allocate()),
        }
    }

    fn find_short_allocate(&self) -> Option<Span> {
        let mut ops = self.program.ops.iter();
        let (id, _) = ops.find(|(_, op)| op.kind == OpKind::Allocate && op.attr(AttrKey::Buffer).is_none())?;
        Some(self.program.op_span(id))
    }

    fn report_unclear_root(&mut self, id: OpId, counted: RootAs, unlike: Span) {
        let (what, other) = match counted {
            RootAs::Rank => ("rank", "a position in the team"),
            RootAs::Position => ("position in the team", "a rank"),
        };
        let message =
            format!("the root is read as a {what}, but the text mixes the spellings of several nvFuser versions");
        let note = "write `root_as=rank` or `root_as=position` after `root=`";
        let diag = Diag::error(codes::ROOT_SPELLING, self.program.op_span(id), message)
            .with_label(unlike, format!("in texts with this spelling, a root is {other}"));
        self.diags.push(diag.with_note(note).into_warning());
    }
}
