//! `LaunchKernel`, with the attributes that nvFuser does not print.

use super::Resolver;
use crate::ir::{AttrKey, AttrValue, Op, OpKind, Value};
use crate::ops::ArgSpec;
use crate::ops::user_launch::{file_error, ordered_launch};
use hostir_grammar::ast::{ArgSyntax, StmtSyntax, SyntaxTree};

/// The word of the HostUnit that stands in for a kernel.
const REFERENCE: &str = "Reference";

/// The word before an argument's value.
fn arg_word<'a>(ast: &'a SyntaxTree, arg: &ArgSyntax) -> Option<&'a str> {
    arg.key.map(|key| ast.symbol_text(key))
}

impl Resolver<'_> {
    /// `LaunchKernel(Group ID: 0, Inputs: {a}, Outputs: {b}, )`.
    pub(super) fn resolve_launch_kernel(&mut self, kind: OpKind, stmt: &StmtSyntax) -> Option<Op> {
        let ast = self.ast;
        let spec = kind.spec();
        let mut op = Op::new(kind);
        let mut good = self.resolve_number(spec, stmt, &mut op) & self.resolve_results(spec, stmt, &mut op);
        let args = ast.args_in(stmt.args);
        let lists = args.iter().filter(|arg| {
            let word = arg_word(ast, arg);
            word.is_none_or(|word| word != REFERENCE && spec.args.iter().all(|one| one.word != Some(word)))
        });
        let lists: Vec<ArgSyntax> = lists.copied().collect();
        for declared in spec.args {
            let given: Vec<&ArgSyntax> = args.iter().filter(|arg| arg_word(ast, arg) == declared.word).collect();
            good &= self.resolve_launch_attr(declared, &given, &mut op);
            if let [first, second, ..] = given[..] {
                self.report_duplicate_list(spec, first, second);
                good = false;
            }
        }
        let is_user = args.iter().any(|arg| arg_word(ast, arg) == AttrKey::Kernel.word().into());
        if !is_user && !args.iter().any(|arg| arg_word(ast, arg) == AttrKey::GroupId.word().into()) {
            self.report_missing_word(spec, AttrKey::GroupId.word(), stmt);
            good = false;
        }
        good &= self.resolve_in_out_lists(stmt, &lists, &mut op);
        for arg in args.iter().filter(|arg| arg_word(ast, arg) == Some(REFERENCE)) {
            match self.resolve_unit_number(arg) {
                Some(number) => op.operands.push(Value::Unit(number)),
                None => good = false,
            }
        }
        good.then(|| ordered_launch(op))
    }

    /// One attribute of a launch, if it is given.
    fn resolve_launch_attr(&mut self, declared: &ArgSpec, given: &[&ArgSyntax], op: &mut Op) -> bool {
        let (Some(key), Some(arg)) = (declared.key, given.first()) else { return true };
        let Some(value) = self.resolve_attr(declared, key, arg, None) else { return false };
        if let (AttrKey::Kernel, AttrValue::Word(file)) = (key, &value)
            && let Some(error) = file_error(self.program.names.get(*file), self.value_span(arg))
        {
            self.report_error(error);
            return false;
        }
        op.attrs.push((key, value));
        true
    }
}
