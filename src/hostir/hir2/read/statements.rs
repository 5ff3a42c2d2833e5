//! Blocks and statements.

use super::program::ProgramReader;
use super::report;
use super::report_calls::{self, ResultSource};
use super::report_names;
use super::scope::Meaning;
use super::slices::SliceTarget;
use crate::diag::{Diag, PartKind, message};
use crate::ir::{
    AttrKey, AttrValue, Block, BlockId, DomainId, Expr, IterDomain, Op, OpEffect, TensorId, Value, is_identifier,
};
use crate::ops::memory::{allocation_op, deallocation_op};
use crate::ops::observe::{assertion_op, print_op};
use crate::ops::result_types::{TensorType, explain_missing_type, result_types};
use crate::ops::scalar::definition_op;
use crate::ops::shape::explain_unknown_type;
use crate::style::stored_size;
use hostir_grammar::Span;
use hostir_grammar::ast;
use hostir_grammar::hir2::ast::{
    ArgNode, ExprNode, NameSyntax, NodeRange, StatementNode, StmtForm, StmtId, TargetSyntax, TypeId,
};
use smallvec::SmallVec;

impl<'a> ProgramReader<'a> {
    /// Reads a block into a new one.
    pub(super) fn read_block(&mut self, block: ast::BlockId) -> BlockId {
        let id = self.program.blocks.push(Block::default());
        self.read_block_into(block, id);
        id
    }

    pub(super) fn read_block_into(&mut self, block: ast::BlockId, id: BlockId) {
        let outer = std::mem::take(&mut self.ops);
        self.tables.statements.note_block(block, id);
        self.read_statements(block);
        self.program.blocks[id].ops = std::mem::replace(&mut self.ops, outer);
    }

    /// Reads the statements of a block to the end of the collected ops.
    pub(super) fn read_statements(&mut self, block: ast::BlockId) {
        let file = self.file;
        let Some(node) = file.blocks.get(block.index()) else { return };
        self.tables.scope.scalar_blocks.begin_block();
        for &stmt in &node.stmts {
            self.read_statement(stmt);
        }
        self.tables.scope.scalar_blocks.end_block();
        self.tables.statements.note_silent_statements(&node.stmts);
    }

    pub(super) fn read_statement(&mut self, id: StmtId) {
        let stmt = self.file.stmts[id.index()];
        let before = self.ops.len();
        // The remains of a statement with an error would only raise more errors.
        if self.read_form(&stmt).is_none() {
            self.ops.truncate(before);
            self.poison_targets(&stmt);
            self.program.source.unread.add_text(self.text_with_blocks(stmt.span));
            self.add_meant_names(stmt.span);
        }
        if let (Some(&first), Some(&last)) = (self.ops.get(before), self.ops.last()) {
            self.tables.statements.note_statement(id, (first, last));
        }
    }

    /// Reads a statement inside of a group.
    pub(super) fn read_nested_form(&mut self, form: &StmtForm, span: Span) -> Option<()> {
        self.read_form(&StatementNode { span, form: *form })
    }

    fn read_form(&mut self, stmt: &StatementNode) -> Option<()> {
        match stmt.form {
            StmtForm::Declare(name, ty) => self.declare_tensor(name, ty).map(|_| ()),
            StmtForm::Assign { targets, value } => self.read_assignment(targets, value, stmt.span),
            StmtForm::Call(call) => self.read_call_alone(call, stmt.span),
            StmtForm::Wait(value) => self.read_wait(value, stmt.span),
            StmtForm::Free(tensors) => self.read_free(tensors, stmt.span),
            StmtForm::BindStream(stream) => self.bind_stream(stream, stmt.span),
            StmtForm::Stream(stream, None) => self.switch_stream(stream, stmt.span),
            StmtForm::Stream(stream, Some(block)) => self.read_stream_block(stream, block, stmt.span),
            StmtForm::Sync(stream) => self.synchronize(stream, stmt.span),
            StmtForm::For { .. } => self.read_for(stmt),
            StmtForm::If { .. } => self.read_if(stmt),
            StmtForm::Launch(at) => self.read_launch_statement(at, stmt.span),
            StmtForm::Share(block) => self.read_share(block, stmt.span),
            StmtForm::Alias(new, original) => self.read_alias(new, original),
            StmtForm::Assert { condition, text } => self.read_assert(condition, text, stmt.span),
            StmtForm::Print(values) => self.read_print(values, stmt.span),
            StmtForm::Define(block) => self.read_definitions(block),
            StmtForm::Verbatim(text) => self.read_verbatim(text, stmt.span),
            StmtForm::Error => None,
        }
    }

    /// The text of a statement with the lines below it that are indented by more.
    fn text_with_blocks(&self, span: Span) -> &'a str {
        let source: &'a str = self.source;
        let start = span.start as usize;
        let before = source.get(..start).unwrap_or_default();
        let column = before.len() - before.rfind('\n').map_or(0, |at| at + 1);
        let rest = source.get(span.end as usize..).unwrap_or_default();
        let own = rest.find('\n').map_or(rest.len(), |at| at + 1);
        let below = rest[own..].split_inclusive('\n');
        let deeper = below.take_while(|line| line.trim().is_empty() || indent_of(line) > column);
        let end = span.end as usize + own + deeper.map(str::len).sum::<usize>();
        source.get(start..end).unwrap_or_default()
    }

    /// The names that the line of a statement with an error declares as it is meant.
    fn meant_names(&self, span: Span) -> impl Iterator<Item = ast::Symbol> + 'a {
        let file = self.file;
        let lines =
            file.answered.iter().filter(move |line| line.span.start <= span.start && span.start <= line.span.end);
        lines.map(|line| line.name)
    }

    /// An output that a line with an error defines is no further error.
    fn add_meant_names(&mut self, span: Span) {
        let file = self.file;
        self.meant_names(span).for_each(|name| self.program.source.unread.add_text(file.strings.get(name)));
    }

    /// Poisons the names that a statement with an error would have declared.
    fn poison_targets(&mut self, stmt: &StatementNode) {
        match stmt.form {
            StmtForm::Assign { targets, .. } => self.poison_target_names(targets),
            StmtForm::Launch(at) => self.poison_launch(at),
            StmtForm::Declare(name, _) => self.poison(name),
            StmtForm::Error => {
                self.poison_first_word(stmt.span);
                self.poison_block(stmt.span);
            }
            _ => {}
        }
    }

    pub(super) fn poison_target_names(&mut self, targets: NodeRange) {
        let file = self.file;
        for target in &file.targets[targets.indices()] {
            if let ExprNode::Name(name) = *file.expr(target.value) {
                self.poison(NameSyntax { name, span: file.expr_span(target.value) });
            }
        }
    }

    /// Poisons the names that a line declares as it is meant, or the first word: an unparsed statement may have begun with
    /// `name =` or `name: type`.
    fn poison_first_word(&mut self, span: Span) {
        let meant: Vec<ast::Symbol> = self.meant_names(span).collect();
        meant.into_iter().for_each(|name| self.poison(NameSyntax { name, span }));
        let Some(text) = self.source.get(span.as_usize_range()) else { return };
        let mut word = first_word(text);
        let mut rest = text[word.len()..].trim_start();
        if rest.starts_with(|c: char| c.is_alphabetic()) {
            // `keep G: f32[m] = alloc`
            word = first_word(rest);
            rest = rest[word.len()..].trim_start();
        }
        if let Some(name) = self.file.strings.find_symbol(word).filter(|_| rest.starts_with(['=', ':'])) {
            self.poison(NameSyntax { name, span });
        }
        // `right, left = a, b`
        let targets = text.split('=').next().filter(|_| rest.starts_with(',')).unwrap_or_default();
        for target in targets.split(',').map(str::trim) {
            if let Some(name) = self.file.strings.find_symbol(target).filter(|_| is_identifier(target)) {
                self.poison(NameSyntax { name, span });
            }
        }
    }

    /// Poisons the names that the lines below a header with an error declare: its block is not read.
    fn poison_block(&mut self, span: Span) {
        for line in self.text_with_blocks(span).lines().skip(1) {
            let word = first_word(line.trim_start());
            let rest = line.trim_start()[word.len()..].trim_start();
            if let Some(name) = self.file.strings.find_symbol(word).filter(|_| rest.starts_with(['=', ':'])) {
                self.poison(NameSyntax { name, span });
            }
        }
    }

    // Assignments.

    fn read_assignment(&mut self, targets: NodeRange, value: ast::ExprId, span: Span) -> Option<()> {
        let file = self.file;
        let targets = &file.targets[targets.indices()];
        match (targets, *file.expr(value)) {
            ([target], ExprNode::Group(block)) => {
                let handle = self.handle_target(target)?;
                self.read_group(block, Some(handle), span)
            }
            ([target], ExprNode::Name(name)) if self.name_text(name) == "alloc" => {
                self.read_allocation(target, NodeRange::default(), span)
            }
            ([target], ExprNode::Call(name, args)) if self.name_text(name.name) == "alloc" => {
                self.read_allocation(target, args, span)
            }
            ([target], ExprNode::Call(name, args)) if self.is_collective_result(name, args) => {
                self.report_collective_result(target, name, args);
                None
            }
            ([target], ExprNode::Call(name, args)) if self.is_post(name, args) => {
                let handle = self.handle_target(target)?;
                self.read_post(name, args, Some(handle), span).map(|_| ())
            }
            ([target], ExprNode::Index(..)) if self.names_tensor(value) => self.read_view(target, value),
            ([target], _) => self.read_computation(target, value, span),
            (targets, ExprNode::Call(name, args)) => self.read_call(name, args, targets, span),
            _ => {
                report::report_several_targets(span, self.diags);
                None
            }
        }
    }

    /// `V = G[i]`.
    fn read_view(&mut self, target: &TargetSyntax, value: ast::ExprId) -> Option<()> {
        if matches!(self.file.expr(target.value), ExprNode::Index(..)) {
            report::report_copy(self.source, None, self.file.expr_span(value), self.diags);
            return None;
        }
        let name = self.plain_target(target)?;
        self.slice(value, Some(SliceTarget { name, ty: target.ty })).map(|_| ())
    }

    /// A name on the left side; an error if there is a slice.
    pub(super) fn plain_target(&mut self, target: &TargetSyntax) -> Option<NameSyntax> {
        let span = self.file.expr_span(target.value);
        match *self.file.expr(target.value) {
            ExprNode::Name(name) => Some(NameSyntax { name, span }),
            ExprNode::Error => None,
            ExprNode::Index(..) => {
                report::report_slice_target(span, self.diags);
                None
            }
            _ => {
                report::report_target(self.slice_spelling(target.value), span, self.diags);
                None
            }
        }
    }

    /// One value: an op of the table, a pointwise function, or a scalar definition.
    fn read_computation(&mut self, target: &TargetSyntax, value: ast::ExprId, span: Span) -> Option<()> {
        if let ExprNode::Call(name, args) = *self.file.expr(value)
            && (self.is_op_call(name) || (self.is_tensor_target(target) && !self.is_scalar_word(name)))
        {
            return self.read_call(name, args, std::slice::from_ref(target), span);
        }
        if let ExprNode::Call(name, args) = *self.file.expr(value)
            && (self.report_allocation_call(target, name, args) || self.report_reduction_call(target, name, args))
        {
            return None;
        }
        if self.is_tensor_target(target) || self.holds_tensor(value) {
            return self.read_pointwise(target, value, span);
        }
        self.define_scalar(target, value, span)
    }

    /// Returns true if the left side is a tensor: declared, with a type, or a slice.
    fn is_tensor_target(&self, target: &TargetSyntax) -> bool {
        target.ty.is_some() || self.names_tensor(target.value)
    }

    fn is_scalar_word(&self, name: NameSyntax) -> bool {
        self.name_text(name.name) == "wrap"
    }

    /// `at = e`.
    fn define_scalar(&mut self, target: &TargetSyntax, value: ast::ExprId, span: Span) -> Option<()> {
        let name = self.plain_target(target)?;
        let before = self.unbound.last();
        let division = self.check_scalar_division(value);
        let value = self.scalar(value)?;
        division?;
        if self.unbound.last() != before {
            self.unbound.mark_doubtful(name.name);
        }
        match self.tables.scope.get(name.name).map(|entry| (entry.meaning, entry.span)) {
            Some((Meaning::Scalar, first)) => {
                if let Some(earlier) = self.tables.scope.scalar_blocks.earlier_definition(name.name) {
                    report_names::report_defined_again(self.file, name, earlier, first, self.diags);
                }
            }
            Some((Meaning::Poisoned, _)) => return None,
            _ => {
                // In the block `define:` names of extents get values.
                let is_free = self.unbound.in_type || self.check_scalar_name(name);
                if !is_free || !self.declare(name, Meaning::Scalar) {
                    return None;
                }
            }
        }
        self.tables.scope.scalar_blocks.note_definition(name.name);
        let result = self.name_expr(name.name);
        // A statement has the expression without parentheses of its own.
        let value = match *self.program.expr(value) {
            Expr::Set(inner) if matches!(self.program.expr(inner), Expr::MetaData(_)) => inner,
            _ => value,
        };
        self.emit(definition_op(Value::Scalar(result), value), span);
        Some(())
    }

    /// The tensor that a statement writes: known, declared here, or of the inferred type.
    pub(super) fn result_tensor(
        &mut self,
        name: NameSyntax,
        ty: Option<TypeId>,
        inferred: Option<TensorType>,
        source: ResultSource,
    ) -> Option<TensorId> {
        match self.tables.scope.get(name.name).map(|entry| entry.meaning) {
            Some(Meaning::Tensor(tensor)) => {
                if let Some(ty) = ty {
                    self.check_type_again(name, tensor, ty)?;
                }
                return Some(tensor);
            }
            Some(Meaning::Poisoned) => return None,
            Some(meaning) if ty.is_none() => {
                self.report_other_meaning(name, meaning);
                return None;
            }
            _ => {}
        }
        if let Some(ty) = ty {
            return self.declare_tensor(name, ty);
        }
        match inferred {
            Some(inferred) => self.add_named_tensor(name, inferred, None),
            None => {
                // A header with an error may declare it.
                if !(self.unbound.is_silent && matches!(source, ResultSource::Memory)) {
                    let text = self.file.symbol_text(name.name);
                    report_calls::report_no_type(self.shared.ops, source, text, name.span, self.diags);
                }
                self.poison(name);
                None
            }
        }
    }

    /// Checks that a tensor is declared again with the same type only.
    fn check_type_again(&mut self, name: NameSyntax, tensor: TensorId, ty: TypeId) -> Option<()> {
        let node = *self.file.tensor_type(ty);
        let (again, memory) = self.tensor_type(&node)?;
        let known = TensorType::of_tensor(&self.program, tensor);
        let same_memory = memory.is_none_or(|memory| memory == self.program.tensors[tensor].memory);
        if again != known || !same_memory {
            let first = self.tables.scope.get(name.name).map_or(name.span, |entry| entry.span);
            report::report_other_type(self.file.symbol_text(name.name), node.span, first, self.diags);
            return None;
        }
        Some(())
    }

    /// Adds an op whose operands and attributes are known; its result is a slice or a name. Slices of operands come
    /// before.
    pub(super) fn finish_op(&mut self, mut op: Op, targets: &[ResultTarget], span: Span) -> Option<()> {
        let needed = targets.iter().any(|target| self.needs_type(target));
        let inferred = if needed { result_types(&self.program, &op) } else { None };
        let is_missing = needed && inferred.as_ref().is_none_or(|types| types.is_empty());
        if is_missing {
            self.report_missing_type(&op, targets, span)?;
        }
        let fault = if is_missing { explain_unknown_type(&self.program, &op) } else { None };
        let mut inferred = inferred.unwrap_or_default().into_iter();
        for target in targets {
            let tensor = match target {
                ResultTarget::Tensor(tensor) => {
                    inferred.next();
                    *tensor
                }
                ResultTarget::Name(name, ty) => {
                    let source = ResultSource::Op(op.kind, fault.clone());
                    self.result_tensor(*name, *ty, inferred.next(), source)?
                }
            };
            op.results.push(Value::Tensor(tensor));
        }
        self.join_result_axis(&mut op);
        self.emit(op, span);
        Some(())
    }

    /// Reports a result without a type where the op tells what is wrong or missing.
    fn report_missing_type(&mut self, op: &Op, targets: &[ResultTarget], span: Span) -> Option<()> {
        let untyped = targets.iter().find(|target| self.needs_type(target));
        let Some(&ResultTarget::Name(name, _)) = untyped else { return Some(()) };
        let text = self.file.symbol_text(name.name);
        let Some(missing) = explain_missing_type(&self.program, op) else { return Some(()) };
        let diag = match missing.message {
            Some(message) => Diag::error(missing.code, span, message),
            None => Diag::error(missing.code, name.span, message!("`{}` needs a type", PartKind::Tensor.quote(text))),
        };
        let diag = if missing.note.is_empty() { diag } else { diag.with_note(missing.note) };
        self.diags.push(match missing.proposed {
            Some(proposed) => diag.with_fix(report_calls::type_fix(text, name.span, &proposed)),
            None => diag,
        });
        self.poison(name);
        None
    }

    /// Makes an axis that is given verbatim (`view_as_scalar`) the last axis of the result, if it is written as that.
    fn join_result_axis(&self, op: &mut Op) {
        let pure = op.kind.effect() == OpEffect::Pure;
        let Some(given) = op.domain_attr(AttrKey::Axis).filter(|_| pure) else { return };
        let Some(tensor) = op.output_tensors().next().map(|tensor| &self.program.tensors[tensor]) else { return };
        let Some(last) = tensor.domains_end.checked_sub(1).filter(|&last| last >= tensor.domains_start) else { return };
        let last = DomainId(last);
        let number = self.program.domains[given].number;
        if (IterDomain { number, ..self.program.domains[last] }) == self.program.domains[given] {
            op.set_attr(AttrKey::Axis, &AttrValue::Domain(last));
        }
    }

    /// Returns true if the type of a result has to be inferred: its name is new, and the text has no type.
    fn needs_type(&self, target: &ResultTarget) -> bool {
        match target {
            ResultTarget::Name(name, None) => self.tables.scope.get(name.name).is_none(),
            ResultTarget::Name(_, Some(_)) | ResultTarget::Tensor(_) => false,
        }
    }

    /// Makes the slices of the left sides; names stay names.
    pub(super) fn result_targets(&mut self, targets: &[TargetSyntax]) -> Option<TargetList> {
        let found: SmallVec<[Option<ResultTarget>; 1]> =
            targets.iter().map(|target| self.result_target(target)).collect();
        found.into_iter().collect()
    }

    pub(super) fn result_target(&mut self, target: &TargetSyntax) -> Option<ResultTarget> {
        let span = self.file.expr_span(target.value);
        match *self.file.expr(target.value) {
            ExprNode::Name(name) => Some(ResultTarget::Name(NameSyntax { name, span }, target.ty)),
            ExprNode::Index(..) => self.slice(target.value, None).map(ResultTarget::Tensor),
            ExprNode::Error => None,
            _ => {
                report::report_target(self.slice_spelling(target.value), span, self.diags);
                None
            }
        }
    }

    // Memory.

    /// `G: T = alloc(keep, size=e)`.
    fn read_allocation(&mut self, target: &TargetSyntax, args: NodeRange, span: Span) -> Option<()> {
        let name = self.plain_target(target)?;
        let tensor = self.result_tensor(name, target.ty, None, ResultSource::Memory)?;
        let file = self.file;
        let mut wanted = AllocationArgs::default();
        for arg in &file.args[args.indices()] {
            self.read_allocation_arg(arg, &mut wanted)?;
        }
        let size = match wanted.size {
            Some(size) => size,
            None => {
                let mut edit = crate::ir::edit::Edit::new(&mut self.program);
                let size = stored_size(&mut edit, tensor);
                edit.commit();
                size
            }
        };
        let keep = wanted.keep.unwrap_or(crate::hir2::defaults::keeps_by_default(self.streams.is_in_loop()));
        let memory = wanted.memory.clone();
        let mem_type = match &memory {
            Some(word) => word.clone(),
            None => self.word(self.program.tensors[tensor].memory.word()),
        };
        let mut op = allocation_op(tensor);
        let last = match wanted.share {
            Some(shared) => (AttrKey::Alias, AttrValue::Tensor(shared)),
            None => (AttrKey::Keep, AttrValue::Bool(keep)),
        };
        op.attrs = vec![
            (AttrKey::Buffer, AttrValue::Bool(true)),
            (AttrKey::MemType, mem_type),
            (AttrKey::Size, AttrValue::Expr(size)),
            (AttrKey::ZeroInit, AttrValue::Bool(wanted.zero)),
            (AttrKey::ResetsToZero, AttrValue::Bool(wanted.resets)),
            last,
        ];
        let id = self.emit(op, span);
        if memory.is_none() {
            self.memory.note_plain_allocation(id);
        }
        Some(())
    }

    fn read_allocation_arg(&mut self, arg: &ArgNode, wanted: &mut AllocationArgs) -> Option<()> {
        let file = self.file;
        let value = *file.expr(arg.value);
        let key = arg.key.map(|key| file.symbol_text(key.name));
        match (key, value) {
            (None, ExprNode::Name(word)) => match file.symbol_text(word) {
                "keep" => wanted.keep = Some(true),
                "fresh" => wanted.keep = Some(false),
                "zero" => wanted.zero = true,
                "resets" => wanted.resets = true,
                other => {
                    let words = ["keep", "fresh", "zero", "resets", "size=", "mem=", "share="];
                    report::report_argument_word("alloc", other, &words, arg.span, self.diags);
                    return None;
                }
            },
            (Some("size"), _) => wanted.size = Some(self.scalar(arg.value)?),
            (Some("share"), _) => wanted.share = Some(self.tensor_operand(arg.value)?),
            (Some("mem"), ExprNode::Name(word)) => wanted.memory = Some(self.memory_word(word, arg.span)?),
            (Some(word @ ("keep" | "fresh" | "zero" | "resets")), _) => {
                report::report_argument_value(word, matches!(value, ExprNode::Bool(false)), arg.span, self.diags);
                return None;
            }
            _ => {
                let text = key.unwrap_or_default();
                let words = ["keep", "fresh", "zero", "resets", "size=", "mem=", "share="];
                report::report_argument_word("alloc", text, &words, arg.span, self.diags);
                return None;
            }
        }
        Some(())
    }

    fn memory_word(&mut self, word: ast::Symbol, span: Span) -> Option<AttrValue> {
        let text = self.file.symbol_text(word);
        if crate::ir::MemoryType::from_word(text).is_none() {
            let words = ["global", "register", "shared", "tensor", "symmetric"];
            report::report_word("memory", text, &words, span, self.diags);
            return None;
        }
        Some(self.word(text))
    }

    fn read_free(&mut self, tensors: NodeRange, span: Span) -> Option<()> {
        let file = self.file;
        for &tensor in &file.expr_lists[tensors.indices()] {
            let tensor = self.tensor_operand(tensor)?;
            self.emit(deallocation_op(tensor), span);
        }
        Some(())
    }

    fn read_alias(&mut self, new: NameSyntax, original: NameSyntax) -> Option<()> {
        let pair = (self.named_tensor(new)?, self.named_tensor(original)?);
        self.program.aliases.get_or_insert_default().push(pair);
        Some(())
    }

    fn read_assert(&mut self, condition: ast::ExprId, text: Option<ast::Symbol>, span: Span) -> Option<()> {
        let condition = self.scalar(condition)?;
        let text = text.map(|text| self.symbol(text));
        self.emit(assertion_op(condition, text), span);
        Some(())
    }

    fn read_print(&mut self, values: NodeRange, span: Span) -> Option<()> {
        let file = self.file;
        let values = file.expr_lists[values.indices()].iter().map(|&value| self.operand(value));
        let values: Vec<Option<Value>> = values.collect();
        let values: Option<SmallVec<[Value; 2]>> = values.into_iter().collect();
        self.emit(print_op(values?), span);
        Some(())
    }

    /// Reads `define:`, whose statements follow the program; a second one continues the first.
    fn read_definitions(&mut self, block: ast::BlockId) -> Option<()> {
        let id = self.program.index_definitions.unwrap_or_else(|| self.program.blocks.push(Block::default()));
        let mut ops = std::mem::take(&mut self.program.blocks[id].ops);
        // Definitions may use the indices of loops; the verifier knows these names.
        let outside = std::mem::replace(&mut self.unbound.in_type, true);
        self.read_block_into(block, id);
        self.unbound.in_type = outside;
        ops.append(&mut self.program.blocks[id].ops);
        self.program.blocks[id].ops = ops;
        self.program.index_definitions = Some(id);
        Some(())
    }
}

/// The left sides of a statement.
pub(super) type TargetList = SmallVec<[ResultTarget; 1]>;

/// The left side of a statement.
#[derive(Clone, Copy)]
pub(super) enum ResultTarget {
    /// A slice that was made.
    Tensor(TensorId),
    /// A name, maybe with a type.
    Name(NameSyntax, Option<TypeId>),
}

/// Arguments of `alloc`.
#[derive(Default)]
struct AllocationArgs {
    keep: Option<bool>,
    zero: bool,
    resets: bool,
    size: Option<crate::ir::ExprId>,
    memory: Option<AttrValue>,
    share: Option<TensorId>,
}

/// The letters, digits and underscores at the start of a text.
fn first_word(text: &str) -> &str {
    text.split(|c: char| !c.is_alphanumeric() && c != '_').next().unwrap_or_default()
}

/// The blanks in front of a line.
fn indent_of(line: &str) -> usize {
    line.len() - line.trim_start().len()
}
