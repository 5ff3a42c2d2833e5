//! Statements of several reductions: `GroupedReductionOp`, `Welford`, `GroupedWelford`.
//!
//! Their operands and results have marks such as `(Avg)`, which the parser reads as keys.

use super::Resolver;
use crate::ir::{AttrKey, AttrValue, ExprId, Op, OpKind, Symbol, Value};
use crate::ops::reduce::REDUCTION;
use crate::ops::welford::WELFORD;
use crate::ops::{ArgSpec, OpSpec};
use hostir_grammar::ast::{self, ArgSyntax, StmtSyntax};

/// The marked values of a Welford, in order: mean, sum of squared differences, count.
type Triplet<'t> = [Option<&'t ArgSyntax>; 3];

/// The arguments of a Welford.
#[derive(Default)]
struct WelfordArguments<'t> {
    values: Triplet<'t>,
    initial: Triplet<'t>,
    allreduce: Option<&'t ArgSyntax>,
}

impl Resolver<'_> {
    /// `GroupedReductionOp( T1 = reduction( T0, op = add, initial value = 0 ) .. allreduce = false )`.
    pub(super) fn resolve_grouped_reduction(&mut self, kind: OpKind, stmt: &StmtSyntax) -> Option<Op> {
        let ast = self.ast;
        let spec = kind.spec();
        let mut op = Op::new(kind);
        let (mut words, mut initials): (Vec<Symbol>, Vec<ExprId>) = (Vec::new(), Vec::new());
        let mut good = self.resolve_number(spec, stmt, &mut op) & self.resolve_results(spec, stmt, &mut op);
        let mut allreduce = None;
        for arg in ast.args_in(stmt.args) {
            match arg.value {
                ast::ValueSyntax::Stmt(inner) => match self.resolve_member(kind, &ast.stmts[inner.index()]) {
                    Some((mut member, word, initial)) => {
                        op.operands.append(&mut member.operands);
                        op.results.append(&mut member.results);
                        words.push(word);
                        initials.push(initial);
                    }
                    None => good = false,
                },
                _ if self.is_key(arg, "allreduce") => good &= self.resolve_once(&mut allreduce, spec, arg),
                ast::ValueSyntax::Error => good = false,
                _ => {
                    self.report_wrong_operand("a reduction such as `T1 = reduction( .. )`", arg);
                    good = false;
                }
            }
        }
        op.attrs.push((AttrKey::ReduceOp, AttrValue::Words(words.into())));
        op.attrs.push((AttrKey::Init, AttrValue::Exprs(initials.into())));
        good &= self.resolve_allreduce(allreduce, spec, stmt, &mut op);
        good.then_some(op)
    }

    /// A reduction of a group: its operand and result, its operation, its initial value.
    fn resolve_member(&mut self, group: OpKind, stmt: &StmtSyntax) -> Option<(Op, Symbol, ExprId)> {
        let ast = self.ast;
        let spec: &'static OpSpec = &REDUCTION;
        if ast.symbol_text(stmt.name) != spec.identity.name {
            self.report_other_member(stmt, spec.identity.name);
            return None;
        }
        let mut op = Op::new(group);
        let mut good = self.resolve_results(spec, stmt, &mut op);
        let mut found: [Option<&ArgSyntax>; 3] = [None; 3];
        for arg in ast.args_in(stmt.args) {
            let key = arg.key.map(|key| ast.symbol_text(key));
            let Some(place) = spec.args[..3].iter().position(|declared| declared.word == key) else {
                self.report_unknown_argument(spec, key.unwrap_or_default(), arg);
                good = false;
                continue;
            };
            good &= self.resolve_once(&mut found[place], spec, arg);
        }
        let missing = found.iter().position(Option::is_none);
        let ([Some(operand), Some(word), Some(initial)], None) = (found, missing) else {
            self.report_missing(spec, &spec.args[missing.unwrap_or_default()], stmt);
            return None;
        };
        let operand = self.resolve_operand(&spec.args[0], operand)?;
        let word = self.resolve_attr(&spec.args[1], AttrKey::ReduceOp, word, None)?;
        let initial = self.resolve_attr(&spec.args[2], AttrKey::Init, initial, None)?;
        let (&[word], &[initial]) = (word.words(), initial.exprs()) else { return None };
        op.operands.push(operand);
        good.then_some((op, word, initial))
    }

    /// `T1(Avg), T2(Var), T3(Count) = Welford ( T0(Avg), allreduce = false )`.
    pub(super) fn resolve_welford(&mut self, kind: OpKind, stmt: &StmtSyntax) -> Option<Op> {
        let ast = self.ast;
        let spec = kind.spec();
        let mut op = Op::new(kind);
        let mut good = self.resolve_number(spec, stmt, &mut op) & self.resolve_results(spec, stmt, &mut op);
        good &= self.check_result_tags(stmt);
        let arguments = self.split_welford(spec, ast.args_in(stmt.args))?;
        let given = arguments.values.iter().chain(&arguments.initial).copied().collect::<Vec<_>>();
        if given[0].is_none() {
            self.report_missing_word(spec, "(Avg)", stmt);
            return None;
        }
        for (declared, arg) in spec.args.iter().zip(&given) {
            let Some(arg) = arg else { continue };
            match self.resolve_operand(declared, arg) {
                Some(value) => op.operands.push(value),
                None => good = false,
            }
        }
        good &= self.resolve_allreduce(arguments.allreduce, spec, stmt, &mut op);
        spec.list_given(&mut op, |place| given.get(place).is_some_and(Option::is_some));
        good.then_some(op)
    }

    /// `GroupedWelford( T1 (Avg), T2 (Var), T3 (Count) = Welford ( .. ) .. allreduce = false )`.
    pub(super) fn resolve_grouped_welford(&mut self, kind: OpKind, stmt: &StmtSyntax) -> Option<Op> {
        let ast = self.ast;
        let spec = kind.spec();
        let mut op = Op::new(kind);
        let mut good = self.resolve_number(spec, stmt, &mut op) & self.resolve_results(spec, stmt, &mut op);
        let mut allreduce = None;
        for arg in ast.args_in(stmt.args) {
            match arg.value {
                ast::ValueSyntax::Stmt(inner) => {
                    let inner = &ast.stmts[inner.index()];
                    good &= self.resolve_welford_member(inner, &mut op).is_some();
                }
                _ if self.is_key(arg, "allreduce") => good &= self.resolve_once(&mut allreduce, spec, arg),
                // The first results of the next group.
                _ => match self.resolve_value(arg) {
                    Some(value @ Value::Tensor(_)) if arg.key.is_some() => op.results.push(value),
                    Some(_) => {
                        self.report_wrong_operand("a statement such as `T3 (Count) = Welford ( .. )`", arg);
                        good = false;
                    }
                    None => good = false,
                },
            }
        }
        good &= self.resolve_allreduce(allreduce, spec, stmt, &mut op);
        good.then_some(op)
    }

    /// The last result, the operands and the initial values of a group.
    fn resolve_welford_member(&mut self, stmt: &StmtSyntax, op: &mut Op) -> Option<()> {
        let ast = self.ast;
        let spec: &'static OpSpec = &WELFORD;
        if ast.symbol_text(stmt.name) != spec.identity.name {
            self.report_other_member(stmt, spec.identity.name);
            return None;
        }
        for arg in ast.args_in(stmt.results) {
            op.results.push(self.resolve_value(arg)?);
        }
        let arguments = self.split_welford(spec, ast.args_in(stmt.args))?;
        for (place, arg) in arguments.values.iter().chain(&arguments.initial).enumerate() {
            let Some(arg) = arg else {
                let marks = ["(Avg)", "(Var)", "(Count)"];
                self.report_missing_word(spec, marks[place % 3], stmt);
                return None;
            };
            op.operands.push(self.resolve_operand(&spec.args[place], arg)?);
        }
        Some(())
    }

    /// Sorts the arguments of a Welford: those before `initial value`, and those from there on.
    fn split_welford<'t>(&mut self, spec: &'static OpSpec, args: &'t [ArgSyntax]) -> Option<WelfordArguments<'t>> {
        let mut found = WelfordArguments::default();
        let (mut is_initial, mut good) = (false, true);
        for arg in args {
            let place = match arg.key.map_or("", |key| self.ast.symbol_text(key)) {
                "allreduce" => {
                    good &= self.resolve_once(&mut found.allreduce, spec, arg);
                    continue;
                }
                "initial value" => {
                    is_initial = true;
                    0
                }
                "Avg" => 0,
                "Var" => 1,
                "Count" | "N" => 2,
                other => {
                    self.report_unknown_tag(other, arg);
                    good = false;
                    continue;
                }
            };
            let triplet = if is_initial { &mut found.initial } else { &mut found.values };
            match triplet[place] {
                Some(first) => {
                    self.report_duplicate(spec, ["Avg", "Var", "Count"][place], first, arg);
                    good = false;
                }
                None => triplet[place] = Some(arg),
            }
        }
        good.then_some(found)
    }

    /// The marks of the results are `Avg`, `Var` and `Count`, in this order.
    fn check_result_tags(&mut self, stmt: &StmtSyntax) -> bool {
        let ast = self.ast;
        for (arg, mark) in ast.args_in(stmt.results).iter().zip(["Avg", "Var", "Count"]) {
            if !self.is_key(arg, mark) {
                self.report_wrong_kind("result", format!("a tensor with the mark `({mark})`").as_str(), arg);
                return false;
            }
        }
        true
    }

    fn is_key(&self, arg: &ArgSyntax, word: &str) -> bool {
        arg.key.is_some_and(|key| self.ast.symbol_text(key) == word)
    }

    /// Notes an argument that may be given once.
    fn resolve_once<'t>(
        &mut self,
        slot: &mut Option<&'t ArgSyntax>,
        spec: &'static OpSpec,
        arg: &'t ArgSyntax,
    ) -> bool {
        let Some(first) = slot.replace(arg) else { return true };
        let word = arg.key.map_or("operand", |key| self.ast.symbol_text(key)).to_owned();
        self.report_duplicate(spec, &word, first, arg);
        false
    }

    /// The last argument of these statements.
    fn resolve_allreduce(
        &mut self,
        arg: Option<&ArgSyntax>,
        spec: &'static OpSpec,
        stmt: &StmtSyntax,
        op: &mut Op,
    ) -> bool {
        let declared = spec.args.iter().find(|declared| declared.key == Some(AttrKey::Allreduce));
        let Some(declared): Option<&'static ArgSpec> = declared else { return true };
        let Some(arg) = arg else {
            self.report_missing(spec, declared, stmt);
            return false;
        };
        let value = self.resolve_attr(declared, AttrKey::Allreduce, arg, None);
        let good = value.is_some();
        op.attrs.extend(value.map(|value| (AttrKey::Allreduce, value)));
        good
    }
}
