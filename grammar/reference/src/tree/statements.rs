//! Statements.

use super::{BranchHead, Checked, LaunchClause, LaunchHead, LoopHead, LoopRange, TreeBuilder, reject, require};
use hostir_grammar::Span;
use hostir_grammar::ast::{BlockId, ExprId, StmtId, Symbol};
use hostir_grammar::hir2::ast::{
    AxisSyntax, ExprNode, LaunchSyntax, LoopDomain, NameSyntax, NodeRange, StatementNode, StmtForm, TargetSyntax,
    TypeId,
};

impl TreeBuilder<'_> {
    fn add_stmt(&mut self, form: StmtForm, start: u32, end: u32) -> StmtId {
        self.file.stmts.push(StatementNode { span: Span { start, end }, form });
        StmtId(self.file.stmts.len() as u32 - 1)
    }

    /// The left side of an assignment, or a call: it begins with a name or a verbatim text.
    pub fn target(&mut self, value: ExprId, ty: Option<TypeId>) -> Checked<TargetSyntax> {
        let first = self.leftmost(value);
        require(matches!(
            self.file.expr(first),
            ExprNode::Name(_) | ExprNode::Bool(_) | ExprNode::Call(..) | ExprNode::Verbatim(_)
        ))?;
        Ok(TargetSyntax { value, ty })
    }

    /// `a, b = value`; rejects `f(a), b = value`, which begins with a call.
    pub fn add_assignment(&mut self, targets: &[TargetSyntax], value: ExprId, start: u32, end: u32) -> Checked<StmtId> {
        if let [first, _, ..] = targets {
            require(!matches!(self.file.expr(first.value), ExprNode::Call(..)))?;
        }
        let targets = self.add_targets(targets);
        Ok(self.add_stmt(StmtForm::Assign { targets, value }, start, end))
    }

    /// A declaration, a call, or a verbatim text.
    pub fn add_lone_target(&mut self, target: TargetSyntax, start: u32, end: u32) -> Checked<StmtId> {
        let span = self.file.expr_span(target.value);
        let form = match (*self.file.expr(target.value), target.ty) {
            (ExprNode::Name(name), Some(ty)) => StmtForm::Declare(NameSyntax { name, span }, ty),
            (ExprNode::Call(..), None) => StmtForm::Call(target.value),
            (ExprNode::Verbatim(text), None) => {
                // The statement is the text itself, not an expression.
                self.file.exprs.pop();
                self.heights.pop();
                StmtForm::Verbatim(text)
            }
            _ => return reject(),
        };
        Ok(self.add_stmt(form, start, end))
    }

    /// A group that nothing waits for.
    pub fn add_call_statement(&mut self, call: ExprId, start: u32, end: u32) -> StmtId {
        self.add_stmt(StmtForm::Call(call), start, end)
    }

    /// `wait h`
    pub fn add_wait(&mut self, value: ExprId, start: u32, end: u32) -> StmtId {
        self.add_stmt(StmtForm::Wait(value), start, end)
    }

    /// `free A, B`
    pub fn add_free(&mut self, tensors: &[ExprId], start: u32, end: u32) -> StmtId {
        let tensors = self.add_list(tensors);
        self.add_stmt(StmtForm::Free(tensors), start, end)
    }

    /// `stream e = current`
    pub fn add_stream_name(&mut self, stream: ExprId, start: u32, end: u32) -> StmtId {
        self.add_stmt(StmtForm::BindStream(stream), start, end)
    }

    /// `stream e`
    pub fn add_stream(&mut self, stream: ExprId, start: u32, end: u32) -> StmtId {
        self.add_stmt(StmtForm::Stream(stream, None), start, end)
    }

    /// `stream e:`
    pub fn add_stream_block(&mut self, stream: ExprId, block: BlockId, start: u32, end: u32) -> StmtId {
        self.add_stmt(StmtForm::Stream(stream, Some(block)), start, end)
    }

    /// `sync e`
    pub fn add_sync(&mut self, stream: ExprId, start: u32, end: u32) -> StmtId {
        self.add_stmt(StmtForm::Sync(stream), start, end)
    }

    /// `share { .. }`
    pub fn add_share(&mut self, group: BlockId, start: u32, end: u32) -> StmtId {
        self.add_stmt(StmtForm::Share(group), start, end)
    }

    /// `alias B -> A`
    pub fn add_alias(&mut self, new: NameSyntax, original: NameSyntax, start: u32, end: u32) -> StmtId {
        self.add_stmt(StmtForm::Alias(new, original), start, end)
    }

    /// `assert c, "text"`
    pub fn add_assertion(&mut self, condition: ExprId, text: Option<Symbol>, start: u32, end: u32) -> Checked<StmtId> {
        self.require_minor_version()?;
        Ok(self.add_stmt(StmtForm::Assert { condition, text }, start, end))
    }

    /// `launch "axpy.cu"::axpy[grid, block](A, n) reads(A) writes(C)`; rejects a clause that is given twice.
    pub fn add_launch(
        &mut self,
        head: LaunchHead,
        clauses: Vec<LaunchClause>,
        start: u32,
        end: u32,
    ) -> Checked<StmtId> {
        self.require_minor_version()?;
        let sizes = [&head.grid, &head.block];
        require(sizes.iter().all(|extents| (1..=3).contains(&extents.len())))?;
        let [grid, block] = sizes.map(|extents| self.add_list(extents));
        let args = self.add_args(&head.args);
        let (mut reads, mut writes, mut reference, mut group) = (None, None, None, None);
        for clause in clauses {
            let earlier = match clause {
                LaunchClause::Reads(items) => reads.replace(self.add_list(&items)).is_some(),
                LaunchClause::Writes(targets) => writes.replace(self.add_targets(&targets)).is_some(),
                LaunchClause::Reference(name) => reference.replace(name).is_some(),
                LaunchClause::Group(number) => group.replace(number).is_some(),
            };
            require(!earlier)?;
        }
        let (reads, writes) = (reads.unwrap_or_default(), writes.unwrap_or_default());
        let LaunchHead { file, entry, shared, .. } = head;
        self.file.launches.push(LaunchSyntax {
            file,
            entry,
            grid,
            block,
            shared,
            args,
            reads,
            writes,
            reference,
            group,
        });
        Ok(self.add_stmt(StmtForm::Launch(self.file.launches.len() as u32 - 1), start, end))
    }

    fn add_targets(&mut self, targets: &[TargetSyntax]) -> NodeRange {
        let start = self.file.targets.len() as u32;
        self.file.targets.extend_from_slice(targets);
        NodeRange { start, end: self.file.targets.len() as u32 }
    }

    /// `print A, n`
    pub fn add_print(&mut self, values: &[ExprId], start: u32, end: u32) -> Checked<StmtId> {
        self.require_minor_version()?;
        let values = self.add_list(values);
        Ok(self.add_stmt(StmtForm::Print(values), start, end))
    }

    /// `define:`
    pub fn add_define(&mut self, block: BlockId, start: u32, end: u32) -> StmtId {
        self.add_stmt(StmtForm::Define(block), start, end)
    }

    /// `{ a; b }`
    pub fn add_group(&mut self, mut stmts: Vec<StmtId>, last: Option<StmtId>, start: u32, end: u32) -> BlockId {
        stmts.extend(last);
        self.add_block(stmts, start, end)
    }

    /// `if c:`, `else:`
    pub fn add_branch(&mut self, head: BranchHead, then: BlockId, otherwise: Option<BlockId>) -> StmtId {
        let BranchHead { predicate, condition, start, end } = head;
        let end = condition.map_or(end, |condition| self.file.expr_span(condition).end);
        self.add_stmt(StmtForm::If { predicate, condition, then, otherwise }, start, end)
    }

    /// `4`, `1..4`; rejects `range(4)`.
    pub fn bounds_loop(&mut self, range: LoopRange, on_streams: bool) -> Checked<LoopHead> {
        if let Some(ExprNode::Call(name, _)) = range.start.or(range.stop).map(|first| *self.file.expr(first)) {
            require(self.file.symbol_text(name.name) != "range")?;
        }
        Ok(LoopHead { domain: LoopDomain::Bounds, range, on_streams })
    }

    /// `[st:4]`, maybe with bounds.
    pub fn axis_loop(&mut self, axis: AxisSyntax, range: Option<LoopRange>, on_streams: bool) -> LoopHead {
        self.file.axes.push(axis);
        let domain = LoopDomain::Axis(self.file.axes.len() as u32 - 1);
        LoopHead { domain, range: range.unwrap_or_default(), on_streams }
    }

    /// `for i in ..:`
    pub fn add_loop(&mut self, index: NameSyntax, head: LoopHead, body: BlockId, start: u32, end: u32) -> StmtId {
        let LoopHead { domain, range: LoopRange { start: first, stop, step }, on_streams } = head;
        let form = StmtForm::For { index, domain, start: first, stop, step, on_streams, body };
        self.add_stmt(form, start, end)
    }
}
