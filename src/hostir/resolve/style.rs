//! Detects the spelling features that a file uses.
//!
//! A container's features are its own, then those of the file, then those of the era that fits. The form of stream
//! statements, which also decides the meaning of roots, is detected for each container.

use super::Resolver;
use super::features::FileFeatures;
use crate::diag::{Diag, Span, codes, message};
use crate::ir::{AttrKey, Era, OpId, RootAs, StreamSpelling, Style};
use hostir_grammar::ast::{
    ArgRange, BlockId, ContainerSyntax, ExprId, ExprSyntax, StmtShape, StmtSyntax, Symbol, SyntaxTree, ValueSyntax,
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

/// The style of a container: its own features, else those of the file, else those of the era that fits.
pub(super) fn detect_style(
    file: &FileFeatures,
    ast: &SyntaxTree,
    container: Option<&ContainerSyntax>,
    shown: StyleEvidence,
) -> Style {
    let Some(container) = container else { return Style::default() };
    let own = file.of_container(ast, container);
    let call_form = shown.call_form();
    let stream = own.stream();
    let era = if own.element_types == Some(false) {
        Era::E2024_07
    } else if call_form == Some(true) || own.has_reshape() {
        Era::E2026_04
    } else if stream == Some(StreamSpelling::LowerStreamIdx) {
        Era::E2025_10
    } else if stream == Some(StreamSpelling::Stream) {
        Era::E2025_01
    } else {
        Era::E2025_06
    };
    let base = era.style();
    Style {
        stream: stream.unwrap_or(base.stream),
        call_form: call_form.unwrap_or(base.call_form),
        tight_stream_index: own.tight_stream_index.unwrap_or(base.tight_stream_index),
        sdpa_commas: own.tight_causal.unwrap_or(base.sdpa_commas),
        cast: own.cast().unwrap_or(base.cast),
        reshape: (base.reshape || own.has_reshape()) && !own.has_view(),
        short_max: base.short_max || shown.short_max,
        scatter_in: own.scatter_in().unwrap_or(base.scatter_in),
        alias_select: base.alias_select && !own.has_old_select(),
        unit_lines: own.unit_lines.unwrap_or(base.unit_lines),
        capital_buffers: own.has_capital_input(),
        july_frame: container.is_old_frame,
        joined_posts: container.has_joined_posts && own.element_types == Some(false),
        ..base
    }
}

/// The search for a maximum or minimum that is spelled `max` or `min`: a function of tensors or scalars, or the
/// operation of a reduction. Communications name their operation alike in all styles.
struct ShortMaxSearch<'t> {
    ast: &'t SyntaxTree,
    /// `max` and `min`, where the text has them.
    names: [Option<Symbol>; 2],
    /// The words of the arguments of reductions, scans and scatters.
    keys: [Option<Symbol>; 3],
}

impl<'t> ShortMaxSearch<'t> {
    fn new(ast: &'t SyntaxTree) -> Self {
        let names = ["max", "min"].map(|text| ast.strings.find_symbol(text));
        Self { ast, names, keys: ["op", "op_type", "accumulate"].map(|text| ast.strings.find_symbol(text)) }
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
                let is_reduction = arg.key.is_some() && self.keys.contains(&arg.key);
                self.is_in_expr(expr) || is_reduction && self.is_word(expr)
            }
            ValueSyntax::List(items) => self.is_in_args(items),
            ValueSyntax::Stmt(stmt) => self.is_in_args(self.ast.stmts[stmt.index()].args),
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
    /// Stores in the communications how their roots are counted: by `root_as=`, or by the container's spelling.
    pub(super) fn resolve_roots(&mut self, shown: StyleEvidence) {
        let spelled = self.program.spelled_root();
        let unlike = self.find_other_spelling(shown);
        for id in self.program.ops.ids().collect::<Vec<OpId>>() {
            let op = &self.program.ops[id];
            if !op.kind.is_collective() || op.attr(AttrKey::Root).is_none() {
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

    /// A statement whose spelling contradicts the one that decides how roots are counted.
    fn find_other_spelling(&self, shown: StyleEvidence) -> Option<Span> {
        match shown.call_form()? {
            true => shown.words,
            false => shown.call.or_else(|| self.find_short_allocate()),
        }
    }

    fn find_short_allocate(&self) -> Option<Span> {
        let mut ops = self.program.ops.iter();
        let (id, _) = ops.find(|(_, op)| op.kind.is_allocation() && op.attr(AttrKey::Buffer).is_none())?;
        Some(self.program.op_span(id))
    }

    fn report_unclear_root(&mut self, id: OpId, counted: RootAs, unlike: Span) {
        let (what, other) = match counted {
            RootAs::Rank => ("rank", "a position in the team"),
            RootAs::Position => ("position in the team", "a rank"),
        };
        let message =
            message!("the root is read as a {}, but the text mixes the spellings of several nvFuser versions", what);
        let note = "write `root_as=rank` or `root_as=position` after `root=`";
        let diag = Diag::error(codes::ROOT_SPELLING, self.program.op_span(id), message)
            .with_label(unlike, message!("in texts with this spelling, a root is {}", other));
        self.diags.push(diag.with_note(note).into_warning());
    }
}
