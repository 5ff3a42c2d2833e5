//! Tables of the symbols, tensor texts and domains of a tree, by their dense ids.
//!
//! The tables serve all containers of a text. An entry records its container or scope, so that nothing has to be
//! cleared between two containers: the time for each depends on its own length alone.

use crate::ir::{self, BinaryOp, DomainId, ExprId, OpKind, TensorId};
use crate::ops::OpRegistry;
use hostir_grammar::ast::{self, SyntaxTree};

/// The meaning of a head word.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum HeadMeaning {
    /// Not looked up yet.
    Unseen,
    /// An op of the table.
    Op(OpKind),
    /// A pointwise function.
    Function,
    /// Nothing that is known.
    Unknown,
}

/// The cached properties of a symbol of the syntax tree.
#[derive(Clone, Copy)]
pub(super) struct SymbolInfo {
    /// The container that they are of.
    container: u32,
    pub(super) name: Option<ir::Symbol>,
    pub(super) expr: Option<ExprId>,
    pub(super) binary: Option<BinaryOp>,
    pub(super) head: HeadMeaning,
}

const UNSEEN: SymbolInfo = SymbolInfo { container: 0, name: None, expr: None, binary: None, head: HeadMeaning::Unseen };

/// The tables of a tree.
pub(super) struct ResolverTables {
    /// The containers begun so far.
    container: u32,
    words: Vec<SymbolInfo>,
    /// By tensor text: the last scope that contained it, and its tensor there.
    pub(super) tensors: Vec<(u32, TensorId)>,
    /// The domain of the pool for a domain outside of tensors, with the container.
    domains: Vec<(u32, DomainId)>,
    /// One more for each host program and each unit, from 1.
    pub(super) scope: u32,
    /// True if the text has short references.
    pub(super) short_form: bool,
    /// True if the text has the word of an op that permutes axes.
    pub(super) may_permute: bool,
}

impl ResolverTables {
    /// Tables for all that a tree has.
    pub(super) fn new(ast: &SyntaxTree, ops: OpRegistry) -> Self {
        Self {
            container: 0,
            words: vec![UNSEEN; ast.strings.len()],
            tensors: vec![(0, TensorId(0)); ast.tensors.len()],
            domains: vec![(u32::MAX, DomainId(0)); ast.domains.len()],
            scope: 1,
            short_form: ast.tensors.iter().any(|tensor| tensor.full.is_none()),
            may_permute: ops.permuting_head_words().any(|word| ast.strings.find_symbol(word).is_some()),
        }
    }

    /// Starts another container, without the earlier entries.
    pub(super) fn begin_container(&mut self) {
        self.container += 1;
        self.scope += 1;
    }

    /// The meaning of a symbol, as far as it was looked up.
    pub(super) fn word(&mut self, symbol: ast::Symbol) -> &mut SymbolInfo {
        let word = &mut self.words[symbol.index()];
        if word.container != self.container {
            *word = SymbolInfo { container: self.container, ..UNSEEN };
        }
        word
    }

    pub(super) fn pool_domain(&self, id: ast::DomainId) -> Option<DomainId> {
        let (container, domain) = self.domains[id.index()];
        (container == self.container).then_some(domain)
    }

    pub(super) fn set_pool_domain(&mut self, id: ast::DomainId, domain: DomainId) {
        self.domains[id.index()] = (self.container, domain);
    }
}
