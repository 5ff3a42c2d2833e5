//! The arguments of a statement in the printed form.

use super::Resolver;
use crate::ir::{AttrKey, AttrValue, Op, OpKind, OpLayout, OwnForm, TensorId, Value};
use crate::ops::arguments::{ArgumentMismatch, ArgumentNotation, read_arguments};
use crate::ops::{ArgKind, ArgPresence, ArgSpec, OpSpec};
use hostir_grammar::ast::{ArgSyntax, StmtSyntax};

impl Resolver<'_> {
    /// An op whose arguments are those of the table; `None` after an error.
    pub(super) fn resolve_table_op(&mut self, kind: OpKind, stmt: &StmtSyntax) -> Option<Op> {
        let ast = self.ast;
        let spec = kind.spec();
        let mut op = Op::new(kind);
        let numbered = self.resolve_number(spec, stmt, &mut op);
        if !numbered && stmt.args.is_empty() {
            return None;
        }
        let results = self.resolve_results(spec, stmt, &mut op);
        let op = read_arguments(&mut PrintedStatement { resolver: self, stmt }, op, ast.args_in(stmt.args))?;
        (numbered && results).then_some(op)
    }

    /// The number after the head word.
    pub(super) fn resolve_number(&mut self, spec: &OpSpec, stmt: &StmtSyntax, op: &mut Op) -> bool {
        match (spec.identity.is_numbered(), stmt.number) {
            (true, Some(number)) => op.number = Some(number),
            (false, None) => {}
            (needed, _) => {
                self.report_wrong_number(spec.identity.name, needed, stmt);
                return false;
            }
        }
        true
    }

    /// Resolves the results before the `=` of the statement.
    pub(super) fn resolve_results(&mut self, spec: &OpSpec, stmt: &StmtSyntax, op: &mut Op) -> bool {
        let ast = self.ast;
        let results = ast.args_in(stmt.results);
        let counts = spec.identity.result_counts();
        if !counts.contains(&results.len()) {
            self.report_wrong_results(spec.identity.name, counts, stmt);
            return false;
        }
        for arg in results {
            match self.resolve_value(arg) {
                Some(value @ (Value::Tensor(_) | Value::Scalar(_))) => op.results.push(value),
                Some(_) => {
                    self.report_wrong_kind("result", ArgKind::Tensor, arg);
                    return false;
                }
                None => return false,
            }
        }
        true
    }
}

/// A statement whose arguments are those of the table.
struct PrintedStatement<'r, 'a> {
    resolver: &'r mut Resolver<'a>,
    stmt: &'r StmtSyntax,
}

impl ArgumentNotation for PrintedStatement<'_, '_> {
    type Argument = ArgSyntax;
    const READS_INCOMPLETE: bool = false;

    fn word_of<'s>(&'s self, arg: &'s ArgSyntax) -> Option<&'s str> {
        arg.key.map(|key| self.resolver.ast.symbol_text(key))
    }

    fn is_named(&self, kind: OpKind, declared: &ArgSpec, word: &str) -> bool {
        declared.word.is_some_and(|known| known == word || known == usual_word(kind.spec(), word))
    }

    fn is_positional(&self, _: OpKind, declared: &ArgSpec) -> bool {
        declared.word.is_none()
    }

    fn may_lack(&self, declared: &ArgSpec) -> bool {
        declared.presence == ArgPresence::Optional
    }

    fn read_attribute(
        &mut self,
        declared: &ArgSpec,
        key: AttrKey,
        arg: &ArgSyntax,
        of: Option<TensorId>,
    ) -> Option<AttrValue> {
        self.resolver.resolve_attr(declared, key, arg, of)
    }

    fn read_operand(&mut self, declared: &ArgSpec, arg: &ArgSyntax) -> Option<Value> {
        self.resolver.resolve_operand(declared, arg)
    }

    fn usual_value(&mut self, _: &ArgSpec) -> Option<AttrValue> {
        None
    }

    fn report_mismatch(&mut self, kind: OpKind, mismatch: ArgumentMismatch<'_, ArgSyntax>) {
        let (resolver, spec) = (&mut *self.resolver, kind.spec());
        match mismatch {
            ArgumentMismatch::Unexpected(arg) => match arg.key {
                None => resolver.report_extra_operand(spec, arg),
                Some(key) => resolver.report_unknown_argument(spec, resolver.ast.symbol_text(key), arg),
            },
            ArgumentMismatch::Twice { declared, first, second } => {
                resolver.report_duplicate(spec, declared.display_name(), first, second);
            }
            ArgumentMismatch::Missing(declared) => resolver.report_missing(spec, declared, self.stmt),
        }
    }
}

/// The word of an argument as all eras but the oldest write it: `input` for `Input`.
fn usual_word<'t>(spec: &OpSpec, word: &'t str) -> &'t str {
    match word {
        "Input" if spec.has_argument("input") => "input",
        "Output" if spec.has_argument("output") => "output",
        "self" if spec.identity.layout == OpLayout::Own(OwnForm::Scatter) => "in",
        _ => word,
    }
}
