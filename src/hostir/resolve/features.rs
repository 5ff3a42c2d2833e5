//! The spelling features of a text, or of one of its containers.

use crate::ir::functions::CASTS;
use crate::ir::{CastSpelling, StreamSpelling};
use hostir_grammar::ast::{
    ArgRange, BlockId, ContainerSyntax, ExprId, ExprSyntax, HostUnitSyntax, StmtShape, StmtSyntax, Symbol, SyntaxTree,
    TensorText, ValueSyntax,
};

/// A word that some eras lack or spell differently.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum FeatureWord {
    View,
    Reshape,
    Select,
    AliasSelect,
    Communication,
    Backend,
    StreamIdx,
    LowerStreamIdx,
    Input,
    CapitalInput,
    Scatter,
    SelfKey,
    NewCast,
    OldCast,
}

/// The place at which a word shows a feature. Elsewhere it may be a name that a user gave.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum WordPlace {
    /// The name of a statement.
    Statement,
    /// The key of an argument.
    Key,
    /// The index of a loop.
    LoopIndex,
    Anywhere,
}

impl FeatureWord {
    fn place(self) -> WordPlace {
        match self {
            FeatureWord::View
            | FeatureWord::Reshape
            | FeatureWord::Select
            | FeatureWord::AliasSelect
            | FeatureWord::Scatter
            | FeatureWord::Communication => WordPlace::Statement,
            FeatureWord::SelfKey | FeatureWord::Backend | FeatureWord::Input | FeatureWord::CapitalInput => {
                WordPlace::Key
            }
            FeatureWord::StreamIdx | FeatureWord::LowerStreamIdx => WordPlace::LoopIndex,
            FeatureWord::NewCast | FeatureWord::OldCast => WordPlace::Anywhere,
        }
    }
}

/// Words of which a text has one or the other.
const CHOICES: [&[FeatureWord]; 7] = [
    &[FeatureWord::View, FeatureWord::Reshape],
    &[FeatureWord::Select, FeatureWord::AliasSelect],
    &[FeatureWord::Communication, FeatureWord::Backend],
    &[FeatureWord::StreamIdx, FeatureWord::LowerStreamIdx],
    &[FeatureWord::Input, FeatureWord::CapitalInput],
    &[FeatureWord::Scatter, FeatureWord::SelfKey],
    &[FeatureWord::NewCast, FeatureWord::OldCast],
];

/// The texts of all words.
fn word_texts() -> impl Iterator<Item = (&'static str, FeatureWord)> {
    let plain = [
        ("view", FeatureWord::View),
        ("reshape", FeatureWord::Reshape),
        ("select", FeatureWord::Select),
        ("HirAliasSelect", FeatureWord::AliasSelect),
        ("Communication", FeatureWord::Communication),
        ("backend", FeatureWord::Backend),
        ("StreamIdx", FeatureWord::StreamIdx),
        ("streamIdx", FeatureWord::LowerStreamIdx),
        ("input", FeatureWord::Input),
        ("Input", FeatureWord::CapitalInput),
        ("scatter", FeatureWord::Scatter),
        ("self", FeatureWord::SelfKey),
    ];
    let casts = CASTS.iter().flat_map(|(new, old)| [(*new, FeatureWord::NewCast), (*old, FeatureWord::OldCast)]);
    plain.into_iter().chain(casts)
}

/// A set of words.
#[derive(Clone, Copy, Default)]
struct WordSet(u16);

impl WordSet {
    fn has(self, word: FeatureWord) -> bool {
        self.0 & 1 << word as u16 != 0
    }
    fn add(&mut self, word: FeatureWord) {
        self.0 |= 1 << word as u16;
    }
}

/// The features that a text shows.
#[derive(Clone, Copy, Default)]
pub(super) struct ShownFeatures {
    words: WordSet,
    /// The spelling of the stream parallel type in a domain.
    domains: Option<StreamSpelling>,
    /// Whether `stream_index` has no blanks before its `=`; `None` if there is none.
    pub(super) tight_stream_index: Option<bool>,
    /// True if the `is_causal` of an `sdpa` has no blanks before its `=`; `None` if there is none.
    pub(super) tight_causal: Option<bool>,
    /// Whether HostUnits repeat their lists; `None` without HostUnits.
    pub(super) unit_lines: Option<bool>,
    /// Whether tensors have element types; `None` without tensors.
    pub(super) element_types: Option<bool>,
}

impl ShownFeatures {
    /// The features, completed by those of `other`.
    fn or(self, other: &Self) -> Self {
        let mut words = WordSet::default();
        for choice in CHOICES {
            let of = if choice.iter().any(|word| self.words.has(*word)) { self.words } else { other.words };
            choice.iter().filter(|word| of.has(**word)).for_each(|word| words.add(*word));
        }
        Self {
            words,
            domains: self.domains.or(other.domains),
            tight_stream_index: self.tight_stream_index.or(other.tight_stream_index),
            tight_causal: self.tight_causal.or(other.tight_causal),
            unit_lines: self.unit_lines.or(other.unit_lines),
            element_types: self.element_types.or(other.element_types),
        }
    }

    /// The stream parallel type, from the domains, or from the name of the loop index.
    pub(super) fn stream(&self) -> Option<StreamSpelling> {
        self.domains.or_else(|| match () {
            () if self.words.has(FeatureWord::StreamIdx) => Some(StreamSpelling::StreamIdx),
            () if self.words.has(FeatureWord::LowerStreamIdx) => Some(StreamSpelling::LowerStreamIdx),
            () => None,
        })
    }

    pub(super) fn cast(&self) -> Option<CastSpelling> {
        match [FeatureWord::NewCast, FeatureWord::OldCast].map(|word| self.words.has(word)) {
            [true, _] => Some(CastSpelling::To),
            [_, true] => Some(CastSpelling::C),
            _ => None,
        }
    }

    pub(super) fn has_reshape(&self) -> bool {
        self.words.has(FeatureWord::Reshape)
    }

    pub(super) fn has_view(&self) -> bool {
        self.words.has(FeatureWord::View)
    }

    /// Returns true if a scatter has an operand `in`, false if it is `self`; `None` without scatters.
    pub(super) fn scatter_in(&self) -> Option<bool> {
        self.words.has(FeatureWord::Scatter).then(|| !self.words.has(FeatureWord::SelfKey))
    }

    /// Returns true if slices are called `select`, in a text whose communications have no backend.
    pub(super) fn has_old_select(&self) -> bool {
        let old = self.words.has(FeatureWord::Communication) && !self.words.has(FeatureWord::Backend);
        old && self.words.has(FeatureWord::Select) && !self.words.has(FeatureWord::AliasSelect)
    }

    /// Returns true if communications have an `Input`, not an `input`.
    pub(super) fn has_capital_input(&self) -> bool {
        self.words.has(FeatureWord::CapitalInput)
    }
}

/// The features that a tensor text shows.
#[derive(Clone, Copy, Default)]
struct TensorFeatures {
    stream: Option<StreamSpelling>,
    element_type: Option<bool>,
}

/// The features that a file shows, and tables for finding those of each of its containers.
pub(super) struct FileFeatures {
    shown: ShownFeatures,
    /// The words of each symbol; empty for a file with one container.
    words: Vec<WordSet>,
    /// The features of each tensor text; empty for a file with one container.
    tensors: Vec<TensorFeatures>,
}

impl FileFeatures {
    pub(super) fn of_file(ast: &SyntaxTree) -> Self {
        let known: Vec<(Symbol, FeatureWord)> =
            word_texts().filter_map(|(text, word)| Some((ast.strings.find_symbol(text)?, word))).collect();
        let mut shown = ShownFeatures::default();
        let used = known.iter().filter(|(symbol, word)| is_used_at(ast, *symbol, word.place()));
        used.for_each(|(_, word)| shown.words.add(*word));
        shown.domains = ast.domains.iter().find_map(|domain| stream_spelling(ast.symbol_text(domain.parallel)));
        let index = ast.strings.find_symbol("stream_index");
        let index = index.and_then(|_| ast.args.iter().find(|arg| arg.key == index));
        shown.tight_stream_index = index.map(|arg| !arg.spaced);
        shown.tight_causal = ast.strings.find_symbol("sdpa").and_then(|name| {
            let attention = ast.stmts.iter().filter(|stmt| stmt.name == name);
            attention.filter_map(|stmt| tight_causal(ast, stmt)).next()
        });
        shown.unit_lines = listed_units(ast.containers.iter().flat_map(|container| &container.units));
        let mut types =
            ast.tensors.iter().filter_map(|tensor| tensor.full.as_ref()).map(|text| has_element_type(ast, text));
        // Nearly always the first one answers.
        shown.element_types = types.next().map(|first| first || types.any(|typed| typed));
        let mut file = Self { shown, words: Vec::new(), tensors: Vec::new() };
        if ast.containers.len() > 1 {
            file.words = vec![WordSet::default(); ast.strings.len()];
            known.iter().for_each(|(symbol, word)| file.words[symbol.index()].add(*word));
            file.tensors = ast.tensors.iter().map(|tensor| tensor_features(ast, tensor.full.as_ref())).collect();
        }
        file
    }

    /// The features of a container: its own, completed by those of the file.
    pub(super) fn of_container(&self, ast: &SyntaxTree, container: &ContainerSyntax) -> ShownFeatures {
        if self.words.is_empty() {
            return self.shown;
        }
        let mut walk = FeatureWalk { ast, file: self, shown: ShownFeatures::default() };
        walk.walk_container(container);
        walk.shown.or(&self.shown)
    }
}

/// Whether a text has a word at a place.
fn is_used_at(ast: &SyntaxTree, word: Symbol, place: WordPlace) -> bool {
    match place {
        WordPlace::Statement => ast.stmts.iter().any(|stmt| stmt.name == word),
        WordPlace::Key => ast.args.iter().any(|arg| arg.key == Some(word)),
        WordPlace::LoopIndex => ast.stmts.iter().any(|stmt| loop_index(ast, stmt) == Some(word)),
        WordPlace::Anywhere => true,
    }
}

/// The name of a loop's index.
fn loop_index(ast: &SyntaxTree, stmt: &StmtSyntax) -> Option<Symbol> {
    if !matches!(stmt.shape, StmtShape::ForIn | StmtShape::ForRange) {
        return None;
    }
    let ValueSyntax::Expr(index) = ast.args_in(stmt.args).first()?.value else { return None };
    match ast.exprs[index.index()].0 {
        ExprSyntax::Name(name) => Some(name),
        _ => None,
    }
}

fn tensor_features(ast: &SyntaxTree, text: Option<&TensorText>) -> TensorFeatures {
    let Some(text) = text else { return TensorFeatures::default() };
    let domains = &ast.domains[text.domains_start as usize..text.domains_end as usize];
    TensorFeatures {
        stream: domains.iter().find_map(|domain| stream_spelling(ast.symbol_text(domain.parallel))),
        element_type: Some(has_element_type(ast, text)),
    }
}

fn has_element_type(ast: &SyntaxTree, text: &TensorText) -> bool {
    !ast.symbol_text(text.dtype).is_empty()
}

fn listed_units<'t>(units: impl Iterator<Item = &'t HostUnitSyntax>) -> Option<bool> {
    units.filter(|unit| !unit.is_elided).map(|unit| unit.listed).reduce(|all, listed| all && listed)
}

fn stream_spelling(text: &str) -> Option<StreamSpelling> {
    match text {
        "Stream" => Some(StreamSpelling::Stream),
        "StreamIdx" => Some(StreamSpelling::StreamIdx),
        "streamIdx" => Some(StreamSpelling::LowerStreamIdx),
        _ => None,
    }
}

/// Returns true for the statement whose spelling of `is_causal` differs between eras.
fn is_attention(ast: &SyntaxTree, stmt: &StmtSyntax) -> bool {
    ast.symbol_text(stmt.name) == "sdpa"
}

/// True if the `is_causal` of an `sdpa` has no blanks before its `=`.
fn tight_causal(ast: &SyntaxTree, stmt: &StmtSyntax) -> Option<bool> {
    let causal =
        ast.args_in(stmt.args).iter().find(|arg| arg.key.is_some_and(|key| ast.symbol_text(key) == "is_causal"));
    causal.map(|arg| !arg.spaced)
}

/// Walks over a container of several.
struct FeatureWalk<'t> {
    ast: &'t SyntaxTree,
    file: &'t FileFeatures,
    shown: ShownFeatures,
}

impl FeatureWalk<'_> {
    fn walk_container(&mut self, container: &ContainerSyntax) {
        self.shown.unit_lines = listed_units(container.units.iter());
        self.visit_args(container.inputs);
        self.visit_args(container.outputs);
        let units = container.units.iter().map(|unit| unit.body);
        units.chain([container.body]).chain(container.index_definitions).for_each(|block| self.visit_block(block));
    }

    fn visit_block(&mut self, block: BlockId) {
        let ast = self.ast;
        for stmt in &ast.blocks[block.index()].stmts {
            self.visit_stmt(&ast.stmts[stmt.index()]);
        }
    }

    fn visit_stmt(&mut self, stmt: &StmtSyntax) {
        self.visit_word(stmt.name, WordPlace::Statement);
        if is_attention(self.ast, stmt) {
            self.shown.tight_causal = self.shown.tight_causal.or(tight_causal(self.ast, stmt));
        }
        if let Some(index) = loop_index(self.ast, stmt) {
            self.visit_word(index, WordPlace::LoopIndex);
        }
        self.visit_args(stmt.results);
        self.visit_args(stmt.args);
        [stmt.body, stmt.else_body].into_iter().flatten().for_each(|block| self.visit_block(block));
    }

    fn visit_word(&mut self, symbol: Symbol, place: WordPlace) {
        let known = self.file.words[symbol.index()];
        let words = CHOICES.iter().copied().flatten().filter(|word| known.has(**word));
        words
            .filter(|word| [place, WordPlace::Anywhere].contains(&word.place()))
            .for_each(|word| self.shown.words.add(*word));
    }

    fn visit_args(&mut self, args: ArgRange) {
        let ast = self.ast;
        for arg in ast.args_in(args) {
            if let Some(key) = arg.key {
                self.visit_word(key, WordPlace::Key);
                if ast.symbol_text(key) == "stream_index" {
                    self.shown.tight_stream_index.get_or_insert(!arg.spaced);
                }
            }
            match arg.value {
                ValueSyntax::Expr(expr) | ValueSyntax::Stream(expr) => self.visit_expr(expr),
                ValueSyntax::Domain(domain) => {
                    let parallel = ast.symbol_text(ast.domains[domain.index()].parallel);
                    self.shown.domains = self.shown.domains.or(stream_spelling(parallel));
                }
                ValueSyntax::List(items) => self.visit_args(items),
                ValueSyntax::Handle(word, _) => self.visit_word(word, WordPlace::Anywhere),
                ValueSyntax::Stmt(stmt) => self.visit_stmt(&ast.stmts[stmt.index()]),
                ValueSyntax::Team(..) | ValueSyntax::Text(_) | ValueSyntax::Error => {}
            }
        }
    }

    fn visit_expr(&mut self, expr: ExprId) {
        match self.ast.exprs[expr.index()].0 {
            ExprSyntax::Name(name) => self.visit_word(name, WordPlace::Anywhere),
            ExprSyntax::Tensor(tensor) => {
                let found = self.file.tensors[tensor.index()];
                self.shown.domains = self.shown.domains.or(found.stream);
                let typed = self.shown.element_types.unwrap_or(false);
                self.shown.element_types = found.element_type.map(|own| own || typed).or(self.shown.element_types);
            }
            ExprSyntax::Call(name, args) => {
                self.visit_word(name, WordPlace::Anywhere);
                self.visit_args(args);
            }
            ExprSyntax::Binary(_, a, b) | ExprSyntax::Index(a, b) => {
                self.visit_expr(a);
                self.visit_expr(b);
            }
            ExprSyntax::Unary(_, a) | ExprSyntax::Group(a) | ExprSyntax::Field(a, _) => self.visit_expr(a),
            ExprSyntax::Braces(items) => self.visit_args(items),
            _ => {}
        }
    }
}
