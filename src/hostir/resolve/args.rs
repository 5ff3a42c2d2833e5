//! Matches the arguments of a statement with those that its op declares.

use super::Resolver;
use crate::ir::OpKind;
use crate::ir::{Op, Value};
use crate::ops::{ArgPresence, ArgSpec, OpSpec};
use hostir_grammar::ast::{ArgSyntax, StmtSyntax, SyntaxTree};
use smallvec::SmallVec;

/// The argument for each declared one.
type ArgSlots<'a> = SmallVec<[Option<&'a ArgSyntax>; 8]>;

/// The matched arguments: one for each declaration, and the rest of the repeated one.
struct MatchedArgs<'a> {
    slots: ArgSlots<'a>,
    /// All arguments of the repeated declaration.
    repeated: SmallVec<[&'a ArgSyntax; 4]>,
}

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
        let matched = self.match_args(ast, spec, stmt)?;
        op.attrs.reserve_exact(matched.slots.len());
        let mut good = numbered && results;
        for (slot, declared) in matched.slots.iter().zip(spec.args) {
            if declared.repeated {
                for arg in &matched.repeated {
                    good &= self.fill_argument(declared, arg, &mut op);
                }
            } else if let Some(arg) = slot {
                good &= self.fill_argument(declared, arg, &mut op);
            }
        }
        spec.list_given(&mut op, |place| matched.slots[place].is_some());
        good.then_some(op)
    }

    /// Puts one argument in its place; returns true if it could.
    fn fill_argument(&mut self, declared: &ArgSpec, arg: &ArgSyntax, op: &mut Op) -> bool {
        if let Some(key) = declared.key {
            let of = op.operands.first().and_then(|operand| operand.as_tensor());
            let Some(value) = self.resolve_attr(declared, key, arg, of) else { return false };
            op.attrs.push((key, value));
            return true;
        }
        let Some(value) = self.resolve_operand(declared, arg) else { return false };
        if declared.result {
            op.results.push(value);
        } else {
            op.operands.push(value);
        }
        true
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
        if results.len() != spec.identity.results {
            self.report_wrong_results(spec.identity.name, spec.identity.results, stmt);
            return false;
        }
        for arg in results {
            match self.resolve_value(arg) {
                Some(value @ (Value::Tensor(_) | Value::Scalar(_))) => op.results.push(value),
                Some(_) => {
                    self.report_wrong_kind("result", "a tensor", arg);
                    return false;
                }
                None => return false,
            }
        }
        true
    }

    fn match_args<'t>(&mut self, ast: &'t SyntaxTree, spec: &OpSpec, stmt: &StmtSyntax) -> Option<MatchedArgs<'t>> {
        let args = ast.args_in(stmt.args);
        let mut matched = MatchedArgs { slots: SmallVec::from_elem(None, spec.args.len()), repeated: SmallVec::new() };
        let mut repeats = repeated_count(spec, args);
        let (mut next, mut good) = (0, true);
        for arg in args {
            let Some(at) = self.find_declaration(ast, spec, arg, next) else {
                good = false;
                continue;
            };
            let positional = arg.key.is_none();
            if positional && spec.args[at].repeated {
                matched.repeated.push(arg);
                repeats = repeats.saturating_sub(1);
                next = if repeats == 0 { at + 1 } else { at };
            } else if positional || at == next {
                next = at + 1;
            }
            match matched.slots[at] {
                Some(first) if !spec.args[at].repeated => {
                    self.report_duplicate(spec, at, first, arg);
                    good = false;
                }
                _ => matched.slots[at] = Some(arg),
            }
        }
        if good {
            good = self.check_none_missing(spec, &matched.slots, stmt);
        }
        good.then_some(matched)
    }

    /// The declaration that an argument fills; `next` is the one after the last.
    fn find_declaration(&mut self, ast: &SyntaxTree, spec: &OpSpec, arg: &ArgSyntax, next: usize) -> Option<usize> {
        let found = match arg.key {
            None => (next..spec.args.len()).find(|&at| spec.args[at].word.is_none()),
            Some(key) => {
                let key = Some(usual_word(spec, ast.symbol_text(key)));
                match spec.args.get(next) {
                    Some(declared) if declared.word == key => Some(next),
                    _ => spec.args.iter().position(|declared| declared.word == key),
                }
            }
        };
        if found.is_none() {
            match arg.key {
                None => self.report_extra_operand(spec, arg),
                Some(key) => self.report_unknown_argument(spec, ast.symbol_text(key), arg),
            }
        }
        found
    }

    fn check_none_missing(&mut self, spec: &OpSpec, slots: &ArgSlots<'_>, stmt: &StmtSyntax) -> bool {
        let mut good = true;
        for (declared, slot) in spec.args.iter().zip(slots) {
            if slot.is_none() && declared.presence == ArgPresence::Required {
                self.report_missing(spec, declared, stmt);
                good = false;
            }
        }
        good
    }
}

/// The word of an argument as all eras but the oldest write it: `input` for `Input`.
fn usual_word<'t>(spec: &OpSpec, word: &'t str) -> &'t str {
    match word {
        "Input" if spec.has_argument("input") => "input",
        "Output" if spec.has_argument("output") => "output",
        _ => word,
    }
}

/// Returns the number of positional arguments that the repeated declaration takes.
fn repeated_count(spec: &OpSpec, args: &[ArgSyntax]) -> usize {
    if !spec.args.iter().any(|declared| declared.repeated) {
        return 0;
    }
    let given = args.iter().filter(|arg| arg.key.is_none()).count();
    let others = spec.args.iter().filter(|declared| declared.word.is_none() && !declared.repeated);
    given.saturating_sub(others.count())
}
