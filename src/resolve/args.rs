//! Matches the arguments of a statement with those that its op declares.

use super::Resolver;
use crate::ir::OpKind;
use crate::ir::{Op, Value};
use crate::ops::{ArgSpec, OpSpec, Presence};
use hostir_grammar::ast::{Arg, Ast, Stmt};
use smallvec::SmallVec;

/// The argument for each declared one.
type Slots<'a> = SmallVec<[Option<&'a Arg>; 8]>;

/// The matched arguments: one a declaration, and the rest of the repeated one.
struct Matched<'a> {
    slots: Slots<'a>,
    /// All arguments of the repeated declaration.
    repeated: SmallVec<[&'a Arg; 4]>,
}

impl Resolver<'_> {
    /// An op whose arguments are those of the table; `None` after an error.
    pub(super) fn table_op(&mut self, kind: OpKind, stmt: &Stmt) -> Option<Op> {
        let ast = self.ast;
        let spec = kind.spec();
        let mut op = Op::new(kind);
        let numbered = self.number(spec, stmt, &mut op);
        if !numbered && stmt.args.is_empty() {
            return None;
        }
        let results = self.results(spec, stmt, &mut op);
        let matched = self.match_args(ast, spec, stmt)?;
        op.attrs.reserve_exact(matched.slots.len());
        let mut good = numbered && results;
        for (slot, declared) in matched.slots.iter().zip(spec.args) {
            if declared.repeated {
                for arg in &matched.repeated {
                    good &= self.fill(declared, arg, &mut op);
                }
            } else if let Some(arg) = slot {
                good &= self.fill(declared, arg, &mut op);
            }
        }
        good.then_some(op)
    }

    /// Puts one argument where it belongs; whether it could.
    fn fill(&mut self, declared: &ArgSpec, arg: &Arg, op: &mut Op) -> bool {
        if let Some(key) = declared.key {
            let of = op.operands.first().and_then(|operand| operand.tensor());
            let Some(value) = self.attr(declared, key, arg, of) else { return false };
            op.attrs.push((key, value));
            return true;
        }
        let Some(value) = self.operand(declared, arg) else { return false };
        if declared.result {
            op.results.push(value);
        } else {
            op.operands.push(value);
        }
        true
    }

    /// The number behind the head word.
    pub(super) fn number(&mut self, spec: &OpSpec, stmt: &Stmt, op: &mut Op) -> bool {
        match (spec.identity.is_numbered(), stmt.number) {
            (true, Some(number)) => op.number = number,
            (false, None) => {}
            (needed, _) => {
                self.wrong_number(spec.identity.name, needed, stmt);
                return false;
            }
        }
        true
    }

    /// What stands before `=`.
    pub(super) fn results(&mut self, spec: &OpSpec, stmt: &Stmt, op: &mut Op) -> bool {
        let ast = self.ast;
        let results = ast.args(stmt.results);
        if results.len() != spec.identity.results {
            self.wrong_results(spec.identity.name, spec.identity.results, stmt);
            return false;
        }
        for arg in results {
            match self.value(arg) {
                Some(value @ (Value::Tensor(_) | Value::Scalar(_))) => op.results.push(value),
                Some(_) => {
                    self.wrong_kind("result", "a tensor", arg);
                    return false;
                }
                None => return false,
            }
        }
        true
    }

    fn match_args<'t>(&mut self, ast: &'t Ast, spec: &OpSpec, stmt: &Stmt) -> Option<Matched<'t>> {
        let args = ast.args(stmt.args);
        let mut matched = Matched {
            slots: SmallVec::from_elem(None, spec.args.len()),
            repeated: SmallVec::new(),
        };
        let mut repeats = repeats(spec, args);
        let (mut next, mut good) = (0, true);
        for arg in args {
            let Some(at) = self.place(ast, spec, arg, next) else {
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
                    self.duplicate(spec, at, first, arg);
                    good = false;
                }
                _ => matched.slots[at] = Some(arg),
            }
        }
        if good {
            good = self.none_missing(spec, &matched.slots, stmt);
        }
        good.then_some(matched)
    }

    /// The declaration that an argument fills; `next` is the one after the last.
    fn place(&mut self, ast: &Ast, spec: &OpSpec, arg: &Arg, next: usize) -> Option<usize> {
        let found = match arg.key {
            None => (next..spec.args.len()).find(|&at| spec.args[at].word.is_none()),
            Some(key) => {
                let key = Some(ast.str(key));
                match spec.args.get(next) {
                    Some(declared) if declared.word == key => Some(next),
                    _ => spec.args.iter().position(|declared| declared.word == key),
                }
            }
        };
        if found.is_none() {
            match arg.key {
                None => self.extra_operand(spec, arg),
                Some(key) => self.unknown_argument(spec, ast.str(key), arg),
            }
        }
        found
    }

    fn none_missing(&mut self, spec: &OpSpec, slots: &Slots<'_>, stmt: &Stmt) -> bool {
        let mut good = true;
        for (declared, slot) in spec.args.iter().zip(slots) {
            if slot.is_none() && declared.presence == Presence::Required {
                self.missing(spec, declared, stmt);
                good = false;
            }
        }
        good
    }
}

/// How many positional arguments the repeated declaration takes.
fn repeats(spec: &OpSpec, args: &[Arg]) -> usize {
    if !spec.args.iter().any(|declared| declared.repeated) {
        return 0;
    }
    let given = args.iter().filter(|arg| arg.key.is_none()).count();
    let others = spec.args.iter().filter(|declared| declared.word.is_none() && !declared.repeated);
    given.saturating_sub(others.count())
}
