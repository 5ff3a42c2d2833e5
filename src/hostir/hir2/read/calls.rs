//! Calls: ops of the table, pointwise functions, kernels.

use super::foreign::operation_of;
use super::program::ProgramReader;
use super::scope::Meaning;
use super::statements::ResultTarget;
use super::{report, report_calls};
use crate::axes::stored_rank;
use crate::diag::{Applicability, Diag, Fix, codes, count_text, message};
use crate::hir2::defaults::{
    DEFAULT_CACHE_OP, cast_function, dtype_of_word, function_of_word, has_cache_op, is_callable, is_positional, keyword,
};
use crate::ir::functions::find_function;
use crate::ir::{
    AttrKey, AttrValue, DType, DomainId, Expr, ExprId, IterDomain, Op, OpKind, OpLayout, OwnForm, Symbol, TensorId,
    Transfer, Value, is_identifier,
};
use crate::ir::{UnitId, result_count_text, short_expr_text};
use crate::ops::arguments::{ArgumentMismatch, ArgumentNotation, read_arguments};
use crate::ops::copy::{completed_order, copy_op};
use crate::ops::launch::post_op;
use crate::ops::pointwise::pointwise_op;
use crate::ops::reduce::{ONE_OF_EACH, unequal_members};
use crate::ops::result_types::{TensorType, result_types, stored_domains};
use crate::ops::shape::broadcast_op;
use crate::ops::welford::{WHOLE_PARTS, has_whole_parts, missing_parts};
use crate::ops::{ArgKind, ArgPresence, ArgSpec, UsualValue};
use hostir_grammar::Span;
use hostir_grammar::ast;
use hostir_grammar::hir2::ast::{ArgNode, ExprNode, NameSyntax, NodeRange, TargetSyntax};
use smallvec::SmallVec;
use std::borrow::Cow;

impl ProgramReader<'_> {
    /// Returns true if a call names a kernel, also one that cannot be imported, or an op of the table.
    pub(super) fn is_op_call(&self, name: NameSyntax) -> bool {
        let is_imported = self.shared.imports.is_faulty(name.name);
        is_imported || self.kernels.by_name.contains_key(&name.name) || self.table_op(name.name).is_some()
    }

    /// Returns true if a name is a pointwise function or a cast, whatever its operands.
    pub(super) fn is_function(&self, name: NameSyntax) -> bool {
        let text = function_of_word(self.name_text(name.name));
        self.word_dtype(name.name).is_some() || (1..=3).any(|arity| find_function(text, arity).is_some())
    }

    /// A call with results.
    pub(super) fn read_call(
        &mut self,
        name: NameSyntax,
        args: NodeRange,
        targets: &[TargetSyntax],
        span: Span,
    ) -> Option<()> {
        if self.shared.imports.is_faulty(name.name) {
            return None;
        }
        if self.kernels.by_name.contains_key(&name.name) {
            return self.read_kernel_call(name, args, targets, span);
        }
        let text = self.name_text(name.name);
        if text == "wrap" {
            report::report_scalar_value(self.source, name.span, self.diags);
            return None;
        }
        if let Some(kind) = self.table_op(name.name) {
            return self.read_table_op(kind, name, args, targets, span);
        }
        let is_function =
            self.word_dtype(name.name).is_some() || find_function(function_of_word(text), args.len()).is_some();
        match targets {
            [target] if is_function => self.read_pointwise_call(target, name, args, span),
            _ => {
                report::report_unknown_op(
                    self.shared.ops,
                    self.file,
                    &self.kernels.by_name,
                    text,
                    name.span,
                    self.diags,
                );
                None
            }
        }
    }

    // Ops of the table.

    fn read_table_op(
        &mut self,
        kind: OpKind,
        name: NameSyntax,
        args: NodeRange,
        targets: &[TargetSyntax],
        span: Span,
    ) -> Option<()> {
        if !is_callable(kind) {
            report::report_not_callable(self.name_text(name.name), name.span, self.diags);
            return None;
        }
        let file = self.file;
        let list = &file.args[args.indices()];
        if let ([target], [arg]) = (targets, list)
            && kind.transfer() == Some(Transfer::Copy)
            && !self.names_tensor(arg.value)
            && !self.names_tensor(target.value)
            && target.ty.is_none()
            && !self.holds_tensor(arg.value)
        {
            return self.read_scalar_set(target, arg, span);
        }
        if kind.layout() == OpLayout::Own(OwnForm::LaunchKernel) {
            return self.read_launch(kind, list, targets, span);
        }
        if !kind.has_any_results() && !kind.result_counts().contains(&targets.len()) {
            let needed = result_count_text(&kind.result_counts());
            report_calls::report_result_count(kind, &needed, targets.len(), span, self.diags);
            return None;
        }
        let targets = self.result_targets(targets);
        let op = self.read_table_arguments(kind, list, span)?;
        let targets = targets?;
        // The printed form writes a statement for each member.
        if kind.layout() == OpLayout::Own(OwnForm::GroupedReduction)
            && let Some(message) = unequal_members(&op, targets.len())
        {
            self.diags.push(Diag::error(codes::GROUP_MEMBERS, span, message).with_note(ONE_OF_EACH));
        }
        if !has_whole_parts(&op, targets.len()) {
            let message = missing_parts(&op, targets.len());
            self.diags.push(Diag::error(codes::GROUP_MEMBERS, span, message).with_note(WHOLE_PARTS));
        }
        self.finish_op(op, &targets, span)
    }

    /// `B, C = LaunchKernel(A, group=3)`: any number of operands and results.
    fn read_launch(&mut self, kind: OpKind, args: &[ArgNode], targets: &[TargetSyntax], span: Span) -> Option<()> {
        let targets = self.result_targets(targets);
        let (operands, keyed): (Vec<&ArgNode>, Vec<&ArgNode>) = args.iter().partition(|arg| arg.key.is_none());
        let keyed: Vec<ArgNode> = keyed.into_iter().copied().collect();
        let values: Vec<Option<Value>> = operands.iter().map(|arg| self.operand(arg.value)).collect();
        let mut op = self.read_table_arguments(kind, &keyed, span)?;
        for value in values {
            op.operands.push(value?);
        }
        self.finish_op(op, &targets?, span)
    }

    /// `i5 = Set(i4)`.
    fn read_scalar_set(&mut self, target: &TargetSyntax, arg: &ArgNode, span: Span) -> Option<()> {
        let name = self.plain_target(target)?;
        let value = self.scalar(arg.value)?;
        if self.tables.scope.get(name.name).is_none() && !self.declare(name, Meaning::Scalar) {
            return None;
        }
        let result = Value::Scalar(self.name_expr(name.name));
        let cache_op = self.program.names.intern(DEFAULT_CACHE_OP);
        self.emit(copy_op(Value::Scalar(value), cache_op).with_result(result), span);
        Some(())
    }

    /// The operands and attributes of an op of the table.
    pub(super) fn read_table_arguments(&mut self, kind: OpKind, args: &[ArgNode], span: Span) -> Option<Op> {
        let mut op = read_arguments(&mut CallSyntax { reader: self, kind, span }, Op::new(kind), args)?;
        if has_cache_op(&op) && op.attr(AttrKey::CacheOp).is_none() {
            let word = self.word(DEFAULT_CACHE_OP);
            let at = op.attrs.iter().position(|(key, _)| *key == AttrKey::Perm).unwrap_or(op.attrs.len());
            op.attrs.insert(at, (AttrKey::CacheOp, word));
        }
        Some(op)
    }

    /// Reads an attribute of the kind that the table declares.
    pub(super) fn read_attribute(
        &mut self,
        kind: Option<OpKind>,
        spec: &ArgSpec,
        arg: &ArgNode,
        of: Option<TensorId>,
    ) -> Option<AttrValue> {
        let file = self.file;
        let value = *file.expr(arg.value);
        let written = arg.key.map_or(keyword(spec), |key| file.symbol_text(key.name));
        let found = match (spec.kind, value) {
            (ArgKind::Tensor, _) => AttrValue::Tensor(self.tensor_operand(arg.value)?),
            (ArgKind::Expr | ArgKind::Int, _) => AttrValue::Expr(self.scalar(arg.value)?),
            (ArgKind::Word(words), ExprNode::Name(word)) => {
                let text = file.symbol_text(word);
                if !words.contains(&text) {
                    match operation_of(text).filter(|meant| words.contains(meant)) {
                        Some(meant) => {
                            report::report_foreign_choice(written, text, meant, file.expr_span(arg.value), self.diags);
                        }
                        None if matches!(text, "mean" | "avg" | "average") && words.contains(&"add") => {
                            report::report_mean(written, text, file.expr_span(arg.value), self.diags);
                        }
                        None => {
                            report::report_argument_choice(written, text, words, file.expr_span(arg.value), self.diags)
                        }
                    }
                    return None;
                }
                self.word(text)
            }
            (ArgKind::Name, ExprNode::Name(word)) => self.word(file.symbol_text(word)),
            (ArgKind::Words(words), ExprNode::List(items)) => AttrValue::Words(self.words_of(spec, words, items, arg)?),
            (ArgKind::DType, ExprNode::Name(word)) => {
                let text = file.symbol_text(word);
                let Some(dtype) = dtype_of_word(text) else {
                    let words: Vec<&str> = crate::hir2::defaults::DTYPE_WORDS.iter().map(|(word, _)| *word).collect();
                    report::report_word("element type", text, &words, file.expr_span(arg.value), self.diags);
                    return None;
                };
                self.word(dtype.name())
            }
            (ArgKind::Bool | ArgKind::CapitalBool, ExprNode::Bool(value)) => AttrValue::Bool(value),
            (ArgKind::Axis, ExprNode::Int(axis)) => AttrValue::Domain(self.axis_argument(axis, of, arg.span)?),
            (ArgKind::Axis, ExprNode::Verbatim(text)) => {
                let domain = self.verbatim_domain(text, arg.span)?;
                AttrValue::Domain(self.program.domains.push(domain))
            }
            (ArgKind::Exprs | ArgKind::Array, ExprNode::List(items)) => {
                AttrValue::Exprs(self.scalars_of(items)?.into())
            }
            (ArgKind::Array, _) => AttrValue::Expr(self.scalar(arg.value)?),
            (ArgKind::Bools, ExprNode::List(items)) => AttrValue::Bools(self.flags_of(items, arg)?),
            (ArgKind::Ints | ArgKind::Team, ExprNode::List(items)) => {
                let numbers = self.integers_of(items, arg)?;
                match of.filter(|_| spec.key == Some(AttrKey::Perm)) {
                    Some(tensor) => {
                        AttrValue::Ints(self.checked_order(numbers, tensor, file.expr_span(arg.value)).into())
                    }
                    None => AttrValue::Ints(numbers),
                }
            }
            (ArgKind::Ranges, ExprNode::List(items)) => AttrValue::Ranges(self.ranges_of(items, arg)?),
            (_, ExprNode::Error) => return None,
            (ArgKind::Word(words), _) => {
                let value = file.expr_span(arg.value);
                let found = self.source.get(value.as_usize_range()).unwrap_or_default();
                report_calls::report_needs_word(written, words, found, value, self.diags);
                return None;
            }
            _ => {
                report_calls::report_argument(kind, written, spec, arg.span, self.diags);
                return None;
            }
        };
        Some(found)
    }

    /// The repair of an order of too few or too many axes: those of the rank's own part, or the last ones.
    fn with_order_note(&self, diag: Diag, order: &[i64], tensor: TensorId, span: Span) -> Diag {
        let domains = stored_domains(&self.program, tensor);
        let across: Vec<bool> = domains.iter().map(|domain| domain.parallel.is_device()).collect();
        let count = across.iter().filter(|across| **across).count();
        let name = self.program.tensor_name(tensor);
        let rank = domains.len();
        let is_of_own = count > 0 && order.len() + count == rank && is_identifier(&name);
        if is_of_own && let Some(last) = across.iter().rposition(|across| *across) {
            let items: Vec<&str> = across[..=last].iter().map(|across| if *across { "own" } else { ":" }).collect();
            let own = format!("{name}[{}]", items.join(", "));
            let note = message!(
                "`{}` keeps its axis over devices; the rank's own part, `{}`, has {}: write `Set.Permute({}, perm={})`",
                name.clone(),
                own.clone(),
                count_text(order.len(), "axis"),
                own.clone(),
                format!("{order:?}")
            );
            let before = self.source.get(..span.start as usize).unwrap_or_default();
            let line = before.rfind('\n').map_or(0, |at| at + 1);
            let operand = before[line..].rfind(&format!("({name},")).map(|at| line + at + 1);
            let fix = operand
                .map(|at| Fix::replacement(format!("write `{own}`"), Span::new(at, at + name.len()), own.clone()));
            let diag = diag.with_note(note);
            return match fix {
                Some(fix) => diag.with_fix(Fix { applicability: Applicability::Untried, ..fix }),
                None => diag,
            };
        }
        let kept = rank.saturating_sub(order.len());
        let meant: Vec<i64> = (0..kept as i64).chain(order.iter().map(|from| from + kept as i64)).collect();
        let is_order =
            meant.len() == rank && completed_order(&meant, rank).iter().map(|at| *at as i64).eq(meant.iter().copied());
        let all = format!("list each of 0 to {} once", rank.saturating_sub(1));
        if let Some(exchanged) = exchanged_axes(order, rank).filter(|_| !is_order) {
            let text = format!("{exchanged:?}");
            let fix = Fix::replacement(format!("write `{text}`, which exchanges two axes"), span, text);
            return diag.with_note(all).with_fix(Fix { applicability: Applicability::MaybeIncorrect, ..fix });
        }
        if !is_order {
            return diag.with_note(all);
        }
        let text = format!("{meant:?}");
        let note =
            format!("{all}: `{text}` keeps the first {}", if kept == 1 { "one".to_owned() } else { kept.to_string() });
        diag.with_note(note).with_fix(Fix::replacement(format!("write `{text}`"), span, text))
    }

    /// The order of a `perm=`; after an error one that lists each axis once.
    fn checked_order(&mut self, order: Box<[i64]>, tensor: TensorId, span: Span) -> Vec<i64> {
        let rank = stored_rank(&self.program, tensor);
        let completed: Vec<i64> = completed_order(&order, rank).into_iter().map(|from| from as i64).collect();
        if completed == *order && order.len() == rank {
            return completed;
        }
        let (tensor_id, tensor) = (tensor, self.program.quoted_tensor(tensor));
        let message = message!("`perm=` is not a permutation of the {} axes of `{}`", rank, tensor);
        let diag = Diag::error(codes::PERMUTATION, span, message);
        if order.len() != rank {
            let diag = self.with_order_note(diag, &order, tensor_id, span);
            self.diags.push(diag);
            return (0..rank as i64).collect();
        }
        let meant = format!("{completed:?}");
        let fix = Fix {
            applicability: Applicability::MaybeIncorrect,
            ..Fix::replacement(format!("write `{meant}`"), span, meant.clone())
        };
        let note = format!("list each of 0 to {} once, as in `perm={meant}`", rank.saturating_sub(1));
        self.diags.push(diag.with_note(note).with_fix(fix));
        completed
    }

    /// The domain of stored axis number `axis` of an operand.
    fn axis_argument(&mut self, axis: i64, of: Option<TensorId>, span: Span) -> Option<DomainId> {
        let tensor = of?;
        let found = usize::try_from(axis).ok().and_then(|axis| self.stored_domain(tensor, axis));
        if found.is_none() {
            let rank = stored_rank(&self.program, tensor);
            report::report_axis(&self.program, tensor, axis, rank, span, self.diags);
        }
        found
    }

    pub(super) fn scalars_of(&mut self, items: NodeRange) -> Option<Vec<ExprId>> {
        let file = self.file;
        let found: Vec<Option<ExprId>> =
            file.expr_lists[items.indices()].iter().map(|&item| self.scalar(item)).collect();
        found.into_iter().collect()
    }

    /// Reports a list of wrong items; the items of a tuple are not reported before it is a list.
    fn report_list(&mut self, what: &str, example: &str, arg: &ArgNode) {
        if !self.has_tuple(arg.value) {
            report::report_list(what, example, arg.span, self.diags);
        }
    }

    /// Returns true if a list or one in it is written as a tuple, which is an error of its own.
    fn has_tuple(&self, list: ast::ExprId) -> bool {
        let file = self.file;
        match *file.expr(list) {
            ExprNode::List(items) => {
                let text = self.source.get(file.expr_span(list).as_usize_range()).unwrap_or_default();
                text.starts_with('(') || file.expr_lists[items.indices()].iter().any(|item| self.has_tuple(*item))
            }
            _ => false,
        }
    }

    fn words_of(&mut self, spec: &ArgSpec, words: &[&str], items: NodeRange, arg: &ArgNode) -> Option<Box<[Symbol]>> {
        let file = self.file;
        let mut found = Vec::new();
        for &item in &file.expr_lists[items.indices()] {
            let ExprNode::Name(word) = *file.expr(item) else {
                self.report_list("words", "[add, mul]", arg);
                return None;
            };
            let text = file.symbol_text(word);
            if !words.contains(&text) {
                report::report_argument_choice(keyword(spec), text, words, file.expr_span(item), self.diags);
                return None;
            }
            found.push(self.program.names.intern(text));
        }
        Some(found.into())
    }

    fn flags_of(&mut self, items: NodeRange, arg: &ArgNode) -> Option<Box<[bool]>> {
        let flags = self.literals_of(items, |node| match node {
            ExprNode::Bool(flag) => Some(flag),
            _ => None,
        });
        if flags.is_none() {
            self.report_list("`true` and `false`", "[true, false]", arg);
        }
        flags
    }

    pub(super) fn integers_of(&mut self, items: NodeRange, arg: &ArgNode) -> Option<Box<[i64]>> {
        let values = self.literals_of(items, |node| match node {
            ExprNode::Int(value) => Some(value),
            _ => None,
        });
        if values.is_none() {
            self.report_list("integers", "[0, 1]", arg);
        }
        values
    }

    /// The elements of a list of literals; `None` if `read` refuses one.
    fn literals_of<T>(&self, items: NodeRange, read: impl Fn(ExprNode) -> Option<T>) -> Option<Box<[T]>> {
        self.file.expr_lists[items.indices()].iter().map(|&item| read(*self.file.expr(item))).collect()
    }

    fn ranges_of(&mut self, items: NodeRange, arg: &ArgNode) -> Option<Box<[[ExprId; 3]]>> {
        let file = self.file;
        let mut ranges = Vec::new();
        for &item in &file.expr_lists[items.indices()] {
            let parts = match *file.expr(item) {
                ExprNode::List(parts) => self.scalars_of(parts)?,
                _ => Vec::new(),
            };
            let Ok(range) = <[ExprId; 3]>::try_from(parts) else {
                self.report_list("ranges of start, stop and step", "[[0, n, 1], [0, 4, 1]]", arg);
                return None;
            };
            ranges.push(range);
        }
        Some(ranges.into())
    }

    // Pointwise functions.

    /// `Z = X + Y`, `Z = relu(X)`.
    pub(super) fn read_pointwise(&mut self, target: &TargetSyntax, value: ast::ExprId, span: Span) -> Option<()> {
        let file = self.file;
        if !matches!(file.expr(value), ExprNode::Call(..)) {
            self.check_tensor_division(value)?;
        }
        match *file.expr(value) {
            ExprNode::Call(name, args) => self.read_call(name, args, std::slice::from_ref(target), span),
            ExprNode::Unary(op, a) => {
                let function = self.name_text(op);
                self.read_function(target, function, &[a], span)
            }
            ExprNode::Binary(op, a, b) => {
                let function = self.name_text(op);
                self.read_function(target, function, &[a, b], span)
            }
            ExprNode::Paren(inner) => self.read_pointwise(target, inner, span),
            ExprNode::Error => None,
            ExprNode::Name(name) if self.tables.scope.get(name).is_none() => {
                self.report_no_value(NameSyntax { name, span: file.expr_span(value) });
                None
            }
            _ if !self.holds_tensor(value) => {
                report::report_scalar_value(self.source, file.expr_span(value), self.diags);
                None
            }
            ExprNode::Name(name) if self.is_poisoned(name) => None,
            _ => {
                let rank = match *file.expr(value) {
                    ExprNode::Field(base, _) => self.rank_of(base),
                    _ => None,
                };
                report::report_copy(self.source, rank, file.expr_span(value), self.diags);
                None
            }
        }
    }

    fn read_pointwise_call(
        &mut self,
        target: &TargetSyntax,
        name: NameSyntax,
        args: NodeRange,
        span: Span,
    ) -> Option<()> {
        let file = self.file;
        let list = &file.args[args.indices()];
        if let Some(arg) = list.iter().find(|arg| arg.key.is_some()) {
            report::report_function_key(self.name_text(name.name), arg.span, self.diags);
            return None;
        }
        let operands: SmallVec<[ast::ExprId; 4]> = list.iter().map(|arg| arg.value).collect();
        let text = self.name_text(name.name);
        self.read_function(target, text, &operands, span)
    }

    fn read_function(
        &mut self,
        target: &TargetSyntax,
        function: &str,
        operands: &[ast::ExprId],
        span: Span,
    ) -> Option<()> {
        let target = self.result_target(target);
        let values: SmallVec<[Option<Value>; 4]> = operands.iter().map(|&operand| self.operand(operand)).collect();
        let mut values: SmallVec<[Value; 2]> = values.into_iter().collect::<Option<_>>()?;
        let name = self.function_name(function, &values, span)?;
        self.broadcast_operands(&mut values, target.as_ref(), span);
        let name = self.program.names.intern(&name);
        self.finish_op(pointwise_op(name, values), &[target?], span)
    }

    /// The IR's name of a function; `f16` is the cast from its operand's type.
    fn function_name<'n>(&mut self, function: &'n str, operands: &[Value], span: Span) -> Option<Cow<'n, str>> {
        if let Some(to) = dtype_of_word(function) {
            let from = match operands {
                [Value::Tensor(tensor)] => Some(self.program.tensors[*tensor].dtype),
                _ => None,
            };
            let name = from.and_then(|from| cast_function(from, to));
            if name.is_none() {
                report::report_cast(span, self.diags);
            }
            return name.map(Cow::Owned);
        }
        let function = function_of_word(function);
        let arity = find_function(function, operands.len()).map(|row| row.arity);
        if arity != Some(operands.len()) {
            report::report_arity(function, arity.unwrap_or(0), operands.len(), span, self.diags);
            return None;
        }
        Some(Cow::Borrowed(function))
    }

    /// Gives operands of lower rank the leading axes that they lack.
    fn broadcast_operands(&mut self, values: &mut [Value], target: Option<&ResultTarget>, span: Span) {
        let rank_of = |reader: &Self, tensor: TensorId| stored_rank(&reader.program, tensor);
        let ranks = values.iter().filter_map(|value| value.as_tensor()).map(|tensor| rank_of(self, tensor));
        let mut rank = ranks.max().unwrap_or(0);
        let known = match target {
            Some(ResultTarget::Tensor(tensor)) => Some(*tensor),
            Some(ResultTarget::Name(name, None)) => match self.tables.scope.get(name.name).map(|entry| entry.meaning) {
                Some(Meaning::Tensor(tensor)) => Some(tensor),
                _ => None,
            },
            _ => None,
        };
        if let Some(tensor) = known {
            rank = rank.max(rank_of(self, tensor));
        }
        for value in values {
            let Value::Tensor(tensor) = *value else { continue };
            let missing = rank - rank_of(self, tensor);
            if missing > 0 {
                *value = Value::Tensor(self.broadcast(tensor, missing, rank, span));
            }
        }
    }

    /// `broadcast(B, flags=[true, .., false, ..])`.
    fn broadcast(&mut self, tensor: TensorId, missing: usize, rank: usize, span: Span) -> TensorId {
        let flags: Vec<bool> = (0..rank).map(|axis| axis < missing).collect();
        let mut op = broadcast_op(tensor, flags.into());
        let inferred = result_types(&self.program, &op).and_then(|mut types| types.pop());
        let ty = inferred.unwrap_or_else(|| self.leading_axes(tensor, missing));
        let result = self.add_hidden_tensor(ty, span);
        let name = self.program.tensor_name(tensor);
        self.program.source.slices.push(result, &name);
        op.results.push(Value::Tensor(result));
        self.emit(op, span);
        result
    }

    /// The type of a tensor with so many new axes in front.
    fn leading_axes(&mut self, tensor: TensorId, missing: usize) -> TensorType {
        let mut ty = TensorType::of_tensor(&self.program, tensor);
        let extent = self.program.exprs.intern_int(1);
        let new = IterDomain::broadcast(extent);
        ty.domains.retain(|domain| !domain.is_reduction());
        ty.domains.insert_many(0, std::iter::repeat_n(new, missing));
        ty.axes = None;
        ty
    }

    // Kernels.

    /// `axpy(X, Y) -> (Z)`
    fn kernel_head(&self, unit: UnitId, name: &str) -> String {
        let unit = &self.program.units[unit];
        let [inputs, outputs] = [&unit.inputs, &unit.outputs].map(|values| {
            let names = values.iter().filter_map(|value| match *value {
                Value::Tensor(tensor) => Some(self.program.tensor_name(tensor)),
                Value::Scalar(scalar) => Some(short_expr_text(&self.program, scalar)),
                _ => None,
            });
            names.collect::<Vec<String>>().join(", ")
        });
        format!("{name}({inputs}) -> ({outputs})")
    }

    /// `C = axpy(A, B)`.
    fn read_kernel_call(
        &mut self,
        name: NameSyntax,
        args: NodeRange,
        targets: &[TargetSyntax],
        span: Span,
    ) -> Option<()> {
        let file = self.file;
        let unit = *self.kernels.by_name.get(&name.name)?;
        let number = self.program.units[unit].number;
        let counts = [self.program.units[unit].inputs.len(), self.program.units[unit].outputs.len()];
        let list = &file.args[args.indices()];
        if counts != [list.len(), targets.len()] {
            let head = self.kernel_head(unit, self.name_text(name.name));
            let found = [list.len(), targets.len()];
            report_calls::report_kernel_counts(self.name_text(name.name), [counts, found], &head, span, self.diags);
            return None;
        }
        let targets = self.result_targets(targets);
        let values: Vec<Option<Value>> = list.iter().map(|arg| self.operand(arg.value)).collect();
        let mut op = post_op(number);
        for value in values {
            op.operands.push(value?);
        }
        self.finish_op(op, &targets?, span)
    }
}

/// A call whose arguments are those of the table.
struct CallSyntax<'r, 'a> {
    reader: &'r mut ProgramReader<'a>,
    kind: OpKind,
    span: Span,
}

impl ArgumentNotation for CallSyntax<'_, '_> {
    type Argument = ArgNode;
    const READS_INCOMPLETE: bool = true;

    fn word_of<'s>(&'s self, arg: &'s ArgNode) -> Option<&'s str> {
        arg.key.map(|key| self.reader.file.symbol_text(key.name))
    }

    fn is_named(&self, _: OpKind, declared: &ArgSpec, word: &str) -> bool {
        (declared.word.is_some() || declared.key.is_some()) && keyword(declared) == word
    }

    fn is_positional(&self, kind: OpKind, declared: &ArgSpec) -> bool {
        is_positional(kind, declared)
    }

    fn may_lack(&self, declared: &ArgSpec) -> bool {
        declared.presence == ArgPresence::Optional || declared.repeated
    }

    fn read_attribute(
        &mut self,
        declared: &ArgSpec,
        _: AttrKey,
        arg: &ArgNode,
        of: Option<TensorId>,
    ) -> Option<AttrValue> {
        self.reader.read_attribute(Some(self.kind), declared, arg, of)
    }

    fn read_operand(&mut self, declared: &ArgSpec, arg: &ArgNode) -> Option<Value> {
        Some(match declared.kind {
            ArgKind::Tensor => Value::Tensor(self.reader.tensor_operand(arg.value)?),
            ArgKind::Expr => Value::Scalar(self.reader.scalar(arg.value)?),
            ArgKind::Stream => Value::Stream(self.reader.scalar(arg.value)?),
            _ => self.reader.operand(arg.value)?,
        })
    }

    fn usual_value(&mut self, declared: &ArgSpec) -> Option<AttrValue> {
        let program = &mut self.reader.program;
        let value = match declared.usual? {
            UsualValue::Double(text) => Expr::Typed(DType::Double, program.names.intern(text)),
            UsualValue::False if matches!(declared.kind, ArgKind::Bool) => return Some(AttrValue::Bool(false)),
            UsualValue::False => Expr::Bool(false),
            UsualValue::Flag(value) => return Some(AttrValue::Bool(value)),
        };
        Some(AttrValue::Expr(program.exprs.intern(value)))
    }

    fn report_mismatch(&mut self, kind: OpKind, mismatch: ArgumentMismatch<'_, ArgNode>) {
        let (file, diags) = (self.reader.file, &mut *self.reader.diags);
        match mismatch {
            ArgumentMismatch::Unexpected(arg) => report_calls::report_extra_argument(file, kind, arg, diags),
            ArgumentMismatch::Twice { declared, second, .. } => {
                report_calls::report_twice_given(kind, declared, second.span, diags);
            }
            ArgumentMismatch::Missing(declared) => report_calls::report_missing(kind, declared, self.span, diags),
        }
    }
}

/// The order that exchanges two axes, as `transpose(1, 2)` of torch does: `[0, 2, 1]` for 1 and 2 of 3.
fn exchanged_axes(axes: &[i64], rank: usize) -> Option<Vec<usize>> {
    let [one, other] = axes else { return None };
    let count = i64::try_from(rank).ok()?;
    let places = [one, other].map(|axis| usize::try_from(if *axis < 0 { axis + count } else { *axis }).ok());
    let (one, other) = (places[0]?, places[1]?);
    if one == other || one.max(other) >= rank {
        return None;
    }
    let mut order: Vec<usize> = (0..rank).collect();
    order.swap(one, other);
    Some(order)
}
