//! Other numbers and places for the nodes of a tree.

use crate::ast::CommentPlaceSyntax;
use crate::hir2::ast::{
    AxisSyntax, BlockId, ExprId, ExprNode, FileSyntax, IndexItem, ItemSyntax, LaunchSyntax, LoopDomain, NameSyntax,
    NodeRange, ParamSyntax, ProgramItem, SizedMeshSyntax, StatementNode, StmtForm, StmtId, TypeId, TypeSyntax,
};
use crate::hir2::restarts::ArenaSizes;
use crate::span::Span;

/// A change of numbers and places, modulo 2^32.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct NodeMove {
    /// The numbers, by arena.
    pub(super) ids: ArenaSizes,
    /// The places.
    pub(super) bytes: u32,
}

impl NodeMove {
    /// Moves all nodes of a tree from these on, but not the items.
    pub(super) fn move_nodes(&self, file: &mut FileSyntax, from: ArenaSizes) {
        if self.ids == ArenaSizes::default() && self.bytes == 0 {
            return;
        }
        for (node, span) in &mut file.exprs[from.exprs as usize..] {
            self.move_span(span);
            self.move_expr(node);
        }
        file.expr_lists[from.expr_lists as usize..].iter_mut().for_each(|expr| self.move_expr_id(expr));
        for arg in &mut file.args[from.args as usize..] {
            self.move_span(&mut arg.span);
            arg.key.iter_mut().for_each(|key| self.move_name(key));
            self.move_expr_id(&mut arg.value);
        }
        for item in &mut file.index_items[from.index_items as usize..] {
            match item {
                IndexItem::All(span) => self.move_span(span),
                IndexItem::At(expr) => self.move_expr_id(expr),
            }
        }
        for target in &mut file.targets[from.targets as usize..] {
            self.move_expr_id(&mut target.value);
            target.ty.iter_mut().for_each(|ty| self.move_type_id(ty));
        }
        file.launches[from.launches as usize..].iter_mut().for_each(|launch| self.move_launch(launch));
        file.types[from.types as usize..].iter_mut().for_each(|ty| self.move_type(ty));
        file.axes[from.axes as usize..].iter_mut().for_each(|axis| self.move_axis(axis));
        file.stmts[from.stmts as usize..].iter_mut().for_each(|stmt| self.move_stmt(stmt));
        for block in &mut file.blocks[from.blocks as usize..] {
            self.move_span(&mut block.span);
            block.stmts.iter_mut().for_each(|stmt| self.move_stmt_id(stmt));
        }
        for comment in &mut file.comments[from.comments as usize..] {
            self.move_span(&mut comment.span);
            self.move_comment_place(&mut comment.place, from);
        }
    }

    /// Moves items with their headers.
    pub(super) fn move_items(&self, items: &mut [ItemSyntax]) {
        for item in items {
            match item {
                ItemSyntax::Import(import) => {
                    self.move_span(&mut import.span);
                    self.move_span(&mut import.path_span);
                    import.names.iter_mut().for_each(|name| self.move_name(name));
                }
                ItemSyntax::Mesh(mesh) => {
                    self.move_span(&mut mesh.span);
                    self.move_name(&mut mesh.name);
                    match &mut mesh.sized {
                        Some(SizedMeshSyntax::Range(start, end)) => {
                            self.move_expr_id(start);
                            self.move_expr_id(end);
                        }
                        Some(SizedMeshSyntax::Grid(extents)) => move_range(extents, self.ids.expr_lists),
                        None => {}
                    }
                }
                ItemSyntax::Kernel(item) | ItemSyntax::Program(item) => self.move_program(item),
            }
        }
    }

    fn move_program(&self, item: &mut ProgramItem) {
        self.move_span(&mut item.span);
        self.move_span(&mut item.header);
        self.move_name(&mut item.name);
        for ParamSyntax { name, ty } in item.inputs.iter_mut().chain(&mut item.outputs) {
            self.move_name(name);
            ty.iter_mut().for_each(|ty| self.move_type_id(ty));
        }
        item.mesh.iter_mut().for_each(|mesh| self.move_name(mesh));
        self.move_block_id(&mut item.body);
    }

    /// The new number of a block.
    pub(super) fn moved_block(&self, block: BlockId) -> BlockId {
        BlockId(block.0.wrapping_add(self.ids.blocks))
    }

    /// Moves the number of a statement.
    pub(super) fn move_stmt_id(&self, id: &mut StmtId) {
        id.0 = id.0.wrapping_add(self.ids.stmts);
    }

    fn move_block_id(&self, id: &mut BlockId) {
        *id = self.moved_block(*id);
    }

    fn move_expr_id(&self, id: &mut ExprId) {
        id.0 = id.0.wrapping_add(self.ids.exprs);
    }

    fn move_type_id(&self, id: &mut TypeId) {
        id.0 = id.0.wrapping_add(self.ids.types);
    }

    fn move_span(&self, span: &mut Span) {
        (span.start, span.end) = (span.start.wrapping_add(self.bytes), span.end.wrapping_add(self.bytes));
    }

    fn move_name(&self, name: &mut NameSyntax) {
        self.move_span(&mut name.span);
    }

    fn move_expr(&self, node: &mut ExprNode) {
        match node {
            ExprNode::Int(_)
            | ExprNode::Hex(_)
            | ExprNode::Bool(_)
            | ExprNode::Float(_)
            | ExprNode::Name(_)
            | ExprNode::Verbatim(_)
            | ExprNode::Error => {}
            ExprNode::Unary(_, inner) | ExprNode::Paren(inner) => self.move_expr_id(inner),
            ExprNode::Binary(_, left, right) | ExprNode::Arrow(left, right) => {
                self.move_expr_id(left);
                self.move_expr_id(right);
            }
            ExprNode::Call(name, args) => {
                self.move_name(name);
                move_range(args, self.ids.args);
            }
            ExprNode::Index(base, items) => {
                self.move_expr_id(base);
                move_range(items, self.ids.index_items);
            }
            ExprNode::Field(base, name) => {
                self.move_expr_id(base);
                self.move_name(name);
            }
            ExprNode::List(items) | ExprNode::Braces(items) => move_range(items, self.ids.expr_lists),
            ExprNode::Group(block) => self.move_block_id(block),
        }
    }

    fn move_launch(&self, launch: &mut LaunchSyntax) {
        let LaunchSyntax { file, entry, grid, block, shared, args, reads, writes, reference, group } = launch;
        [file, entry].into_iter().chain(reference).for_each(|name| self.move_name(name));
        [grid, block, reads].into_iter().for_each(|list| move_range(list, self.ids.expr_lists));
        shared.iter_mut().chain(group).for_each(|expr| self.move_expr_id(expr));
        move_range(args, self.ids.args);
        move_range(writes, self.ids.targets);
    }

    fn move_type(&self, ty: &mut TypeSyntax) {
        let TypeSyntax { span, dtype, memory, axes, order, logical, split: _, positions: _, mesh } = ty;
        self.move_span(span);
        [dtype].into_iter().chain(memory).chain(mesh).for_each(|name| self.move_name(name));
        move_range(axes, self.ids.axes);
        order.iter_mut().chain(logical).for_each(|list| move_range(list, self.ids.expr_lists));
    }

    fn move_axis(&self, axis: &mut AxisSyntax) {
        let AxisSyntax { span, iter, parallel, extent, expanded } = axis;
        self.move_span(span);
        iter.iter_mut().chain(parallel).for_each(|name| self.move_name(name));
        [extent].into_iter().chain(expanded).for_each(|expr| self.move_expr_id(expr));
    }

    fn move_stmt(&self, stmt: &mut StatementNode) {
        self.move_span(&mut stmt.span);
        match &mut stmt.form {
            StmtForm::Declare(name, ty) => {
                self.move_name(name);
                self.move_type_id(ty);
            }
            StmtForm::Assign { targets, value } => {
                move_range(targets, self.ids.targets);
                self.move_expr_id(value);
            }
            StmtForm::Call(expr) | StmtForm::Wait(expr) | StmtForm::BindStream(expr) | StmtForm::Sync(expr) => {
                self.move_expr_id(expr);
            }
            StmtForm::Free(list) | StmtForm::Print(list) => move_range(list, self.ids.expr_lists),
            StmtForm::Stream(stream, block) => {
                self.move_expr_id(stream);
                block.iter_mut().for_each(|block| self.move_block_id(block));
            }
            StmtForm::For { index, domain, start, stop, step, on_streams: _, body } => {
                self.move_name(index);
                match domain {
                    LoopDomain::Bounds => {}
                    LoopDomain::TensorAxis(name, _) => self.move_name(name),
                    LoopDomain::Axis(axis) => *axis = axis.wrapping_add(self.ids.axes),
                }
                start.iter_mut().chain(stop).chain(step).for_each(|expr| self.move_expr_id(expr));
                self.move_block_id(body);
            }
            StmtForm::If { predicate, condition, then, otherwise } => {
                predicate.iter_mut().for_each(|name| self.move_name(name));
                condition.iter_mut().for_each(|expr| self.move_expr_id(expr));
                [then].into_iter().chain(otherwise).for_each(|block| self.move_block_id(block));
            }
            StmtForm::Launch(launch) => *launch = launch.wrapping_add(self.ids.launches),
            StmtForm::Share(block) | StmtForm::Define(block) => self.move_block_id(block),
            StmtForm::Alias(new, original) => {
                self.move_name(new);
                self.move_name(original);
            }
            StmtForm::Assert { condition, text: _ } => self.move_expr_id(condition),
            StmtForm::Verbatim(_) | StmtForm::Error => {}
        }
    }

    /// A comment at the end of a block may be far from its start, which does not move.
    fn move_comment_place(&self, place: &mut CommentPlaceSyntax, from: ArenaSizes) {
        match place {
            CommentPlaceSyntax::Above(stmt) | CommentPlaceSyntax::Trailing(stmt) => self.move_stmt_id(stmt),
            CommentPlaceSyntax::StartOf(block) | CommentPlaceSyntax::EndOf(block) if block.0 >= from.blocks => {
                self.move_block_id(block);
            }
            CommentPlaceSyntax::StartOf(_)
            | CommentPlaceSyntax::EndOf(_)
            | CommentPlaceSyntax::File
            | CommentPlaceSyntax::Container(_)
            | CommentPlaceSyntax::Header(_)
            | CommentPlaceSyntax::EndOfFile => {}
        }
    }
}

/// An empty list is at any place.
fn move_range(range: &mut NodeRange, by: u32) {
    *range = match range.is_empty() {
        true => NodeRange::default(),
        false => NodeRange { start: range.start.wrapping_add(by), end: range.end.wrapping_add(by) },
    };
}
