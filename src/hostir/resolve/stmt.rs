//! Statements: finds the op of each.

use super::Resolver;
use super::tables::HeadMeaning;
use crate::ir::{Op, OpId, OpKind, OpLayout, OwnForm, Value, functions};
use crate::ops::ArgKind;
use crate::ops::OpRegistry;
use crate::ops::pointwise::{POINTWISE, pointwise_op};
use crate::ops::scalar::definition_op;
use hostir_grammar::ast::{self, ArgSyntax, StmtId, StmtShape, StmtSyntax};
use smallvec::SmallVec;

impl Resolver<'_> {
    /// The op of a statement; `None` after an error.
    pub(super) fn resolve_stmt(&mut self, id: StmtId) -> Option<OpId> {
        let ast = self.ast;
        let stmt = &ast.stmts[id.index()];
        self.reported.nested_operation = false;
        let Some(op) = self.resolve_stmt_op(stmt) else {
            self.poison_declared(stmt);
            self.note_unread(stmt);
            return None;
        };
        let op = self.with_permutation(op);
        self.note_given_name(&op, stmt);
        let op = self.push_op(op, stmt.span);
        self.statements.note_statement(id, op);
        Some(op)
    }

    fn resolve_stmt_op(&mut self, stmt: &StmtSyntax) -> Option<Op> {
        match stmt.shape {
            StmtShape::Error => self.resolve_broken(stmt),
            StmtShape::Assign => self.resolve_assignment(stmt),
            StmtShape::ForIn => self.resolve_for_in(stmt),
            StmtShape::ForRange => self.resolve_for_range(stmt),
            StmtShape::If => self.resolve_branch(stmt),
            StmtShape::Call | StmtShape::Words | StmtShape::Braces => match self.resolve_head(stmt.name) {
                HeadMeaning::Op(kind) => self.resolve_op(kind, stmt),
                HeadMeaning::Function => self.resolve_function(stmt),
                HeadMeaning::Unknown | HeadMeaning::Unseen => self.report_unknown_statement(stmt),
            },
        }
    }

    /// Marks the tensors that a statement with an error writes in full, so that their uses are not reported as
    /// undefined.
    fn poison_declared(&mut self, stmt: &StmtSyntax) {
        if !self.tables.short_form {
            return;
        }
        for number in full_numbers(self.source.get(stmt.span.as_usize_range()).unwrap_or_default()) {
            if self.scope.latest_of_number(number).is_none() {
                self.reported.undefined.insert((self.tables.scope, number));
            }
        }
    }

    /// Records the names of a statement with an error and of its blocks.
    fn note_unread(&mut self, stmt: &StmtSyntax) {
        let ast = self.ast;
        self.program.source.unread.add_text(self.source.get(stmt.span.as_usize_range()).unwrap_or_default());
        for block in [stmt.body, stmt.else_body].into_iter().flatten() {
            ast.blocks[block.index()].stmts.iter().for_each(|inner| self.note_unread(&ast.stmts[inner.index()]));
        }
    }

    /// Resolves the blocks of an unreadable statement for their errors.
    fn resolve_broken(&mut self, stmt: &StmtSyntax) -> Option<Op> {
        for block in [stmt.body, stmt.else_body].into_iter().flatten() {
            self.resolve_block(block);
        }
        None
    }

    /// Looks up the meaning of a head word.
    pub(super) fn resolve_head(&mut self, symbol: ast::Symbol) -> HeadMeaning {
        let known = self.tables.word(symbol).head;
        if known != HeadMeaning::Unseen {
            return known;
        }
        let text = self.ast.symbol_text(symbol);
        let canonical = functions::canonical_name(text, &self.program.style);
        let head = match OpRegistry::of_program(&self.program).find_op(text) {
            Some(kind) => HeadMeaning::Op(kind),
            None if matches!(text, "getMetaData" | "ReverseArray") => HeadMeaning::Function,
            None if functions::find_function(canonical, 1).is_some_and(|row| !row.is_operator()) => {
                HeadMeaning::Function
            }
            None => HeadMeaning::Unknown,
        };
        self.tables.word(symbol).head = head;
        head
    }

    fn resolve_op(&mut self, kind: OpKind, stmt: &StmtSyntax) -> Option<Op> {
        match kind.layout() {
            OpLayout::Own(OwnForm::Allocate) => self.resolve_allocate(kind, stmt),
            OpLayout::Own(OwnForm::PostOnStream) => self.resolve_post_on_stream(kind, stmt),
            OpLayout::Own(OwnForm::LaunchKernel) => self.resolve_launch_kernel(kind, stmt),
            OpLayout::Own(OwnForm::ShareMemHandles) => self.resolve_share_mem_handles(kind, stmt),
            OpLayout::Own(OwnForm::GetCurrentStream) => self.resolve_get_current_stream(kind, stmt),
            OpLayout::Own(OwnForm::GroupedReduction) => self.resolve_grouped_reduction(kind, stmt),
            OpLayout::Own(OwnForm::Welford) => self.resolve_welford(kind, stmt),
            OpLayout::Own(OwnForm::GroupedWelford) => self.resolve_grouped_welford(kind, stmt),
            _ if kind.is_message() => self.resolve_point_to_point(kind, stmt),
            _ => self.resolve_table_op(kind, stmt),
        }
    }

    /// `result = a + b;`, `result = -a;` or `i0 = ...;`.
    fn resolve_assignment(&mut self, stmt: &StmtSyntax) -> Option<Op> {
        let ast = self.ast;
        let (result, is_tensor) = self.resolve_one_result(stmt, "=")?;
        let [arg, extra @ ..] = ast.args_in(stmt.args) else { return None };
        if let [extra, ..] = extra {
            self.report_unknown_argument(&POINTWISE, "alias", extra);
            return None;
        }
        let ast::ValueSyntax::Expr(expr) = arg.value else { return None };
        if !is_tensor {
            let value = self.resolve_expr(expr)?;
            return Some(definition_op(result, value));
        }
        let inner = match ast.exprs[expr.index()].0 {
            ast::ExprSyntax::Group(inner) => inner,
            _ => expr,
        };
        match ast.exprs[inner.index()].0 {
            ast::ExprSyntax::Unary(symbol, a)
                if functions::find_function(ast.symbol_text(symbol), 1).is_none_or(|row| row.arity != 1) =>
            {
                self.report_prefix_operator(ast.symbol_text(symbol), a, ast.exprs[inner.index()].1);
                None
            }
            ast::ExprSyntax::Unary(symbol, a) => self.resolve_infix(result, symbol, &[a]),
            ast::ExprSyntax::Binary(symbol, a, b) => self.resolve_infix(result, symbol, &[a, b]),
            _ => {
                self.report_no_operation(arg);
                None
            }
        }
    }

    fn resolve_infix(&mut self, result: Value, symbol: ast::Symbol, operands: &[ast::ExprId]) -> Option<Op> {
        if let [a, b] = *operands
            && self.is_power(symbol, a, b)
        {
            return None;
        }
        let values: SmallVec<[Option<Value>; 2]> =
            operands.iter().map(|operand| self.resolve_tensor_or_scalar(*operand)).collect();
        let operands = values.into_iter().collect::<Option<SmallVec<[Value; 2]>>>()?;
        Some(pointwise_op(self.resolve_symbol(symbol), operands).with_result(result))
    }

    /// `result = exp(a);`: pointwise for tensors, a definition for scalars.
    fn resolve_function(&mut self, stmt: &StmtSyntax) -> Option<Op> {
        let ast = self.ast;
        if stmt.number.is_some() {
            self.report_wrong_number(ast.symbol_text(stmt.name), false, stmt);
            return None;
        }
        let (result, is_tensor) = self.resolve_one_result(stmt, ast.symbol_text(stmt.name))?;
        if !is_tensor {
            let value = self.resolve_call(stmt.name, stmt.args, stmt.name_span)?;
            return Some(definition_op(result, value));
        }
        let name = functions::canonical_name(ast.symbol_text(stmt.name), &self.program.style);
        let args = ast.args_in(stmt.args);
        let arity = functions::find_function(name, args.len()).map_or(0, |function| function.arity);
        if arity != args.len() {
            self.report_wrong_arity(name, arity, args.len(), stmt.name_span);
            return None;
        }
        let values: SmallVec<[Option<Value>; 2]> = args.iter().map(|arg| self.resolve_function_operand(arg)).collect();
        let operands = values.into_iter().collect::<Option<SmallVec<[Value; 2]>>>()?;
        let name = self.program.names.intern(name);
        Some(pointwise_op(name, operands).with_result(result))
    }

    fn resolve_function_operand(&mut self, arg: &ArgSyntax) -> Option<Value> {
        match arg.value {
            ast::ValueSyntax::Expr(expr) if arg.key.is_none() => self.resolve_tensor_or_scalar(expr),
            ast::ValueSyntax::Error => None,
            _ => {
                self.report_wrong_operand(ArgKind::Operand, arg);
                None
            }
        }
    }

    /// The only result of a statement, and whether it is a tensor.
    fn resolve_one_result(&mut self, stmt: &StmtSyntax, name: &str) -> Option<(Value, bool)> {
        let ast = self.ast;
        let [arg] = ast.args_in(stmt.results) else {
            self.report_wrong_results(name, 1..=1, stmt);
            return None;
        };
        match self.resolve_value(arg)? {
            value @ Value::Tensor(_) => Some((value, true)),
            value @ Value::Scalar(_) => Some((value, false)),
            _ => {
                self.report_wrong_kind("result", ArgKind::Operand, arg);
                None
            }
        }
    }
}

/// The numbers of the tensors that a text names in full, `T3_g_float[..]`.
fn full_numbers(text: &str) -> impl Iterator<Item = u32> + '_ {
    let words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    words.filter_map(|word| word.strip_prefix('T')?.split_once('_')?.0.parse().ok())
}
