//! `launch`: kernels of the user.

use super::program::ProgramReader;
use super::report;
use super::report_calls::ResultSource;
use super::statements::ResultTarget;
use crate::diag::{Diag, PartKind, codes, message};
use crate::ir::{ExprId, TensorId, Value};
use crate::ops::user_launch::{LaunchParts, file_error, launch_op};
use hostir_grammar::Span;
use hostir_grammar::ast;
use hostir_grammar::hir2::ast::{ExprNode, LaunchSyntax, NameSyntax, NodeRange};

/// A slice of a launch, by the text that it is written with.
struct LaunchSlice {
    text: String,
    tensor: TensorId,
    /// True if it stands for all slices of the same text. One that the kernel reads and writes is two.
    is_shared: bool,
}

impl ProgramReader<'_> {
    /// `launch "axpy.cu"::axpy[grid, block, shared](A, n, C) reads(A) writes(C)`. The slices come before it: those that
    /// are written, then those of the arguments, then those that are only read. Equal texts are one slice, but for a slice
    /// that is read and written, which is two.
    pub(super) fn read_launch_statement(&mut self, at: u32, span: Span) -> Option<()> {
        let file = self.file;
        let syntax = *file.launches.get(at as usize)?;
        let name = self.name_text(syntax.file.name).to_owned();
        let file_error = file_error(&name, syntax.file.span);
        let is_file = file_error.is_none();
        file_error.into_iter().for_each(|error| self.diags.push(error));
        let mut slices = Vec::new();
        let writes = self.launch_results(&syntax, &mut slices);
        let args = &file.args[syntax.args.indices()];
        if let Some(keyed) = args.iter().find(|arg| arg.key.is_some()) {
            report::report_keyed_launch_argument(keyed.span, self.diags);
            return None;
        }
        let arguments: Vec<Option<Value>> = args.iter().map(|arg| self.launch_value(arg.value, &mut slices)).collect();
        let reads = &file.expr_lists[syntax.reads.indices()];
        let reads: Vec<Option<TensorId>> = reads.iter().map(|&read| self.launch_tensor(read, &mut slices)).collect();
        let extents = [syntax.grid, syntax.block].map(|list| self.scalars_of(list));
        let shared = self.optional_scalar(syntax.shared);
        let group = self.optional_scalar(syntax.group);
        let reference = syntax.reference.map(|name| self.reference_number(name));
        let [grid, block] = extents;
        let entry = self.name_text(syntax.entry.name).to_owned();
        let parts = LaunchParts {
            file: self.program.names.intern(&name),
            entry: self.program.names.intern(&entry),
            grid: grid?,
            block: block?,
            shared: shared?,
            arguments: arguments.into_iter().collect::<Option<_>>()?,
            reads: reads.into_iter().collect::<Option<_>>()?,
            writes: writes?,
            reference: match reference {
                Some(number) => Some(number?),
                None => None,
            },
            group: group?,
        };
        if is_file {
            self.emit(launch_op(parts), span);
        }
        is_file.then_some(())
    }

    /// The tensors of `writes(..)`.
    fn launch_results(&mut self, syntax: &LaunchSyntax, slices: &mut Vec<LaunchSlice>) -> Option<Vec<TensorId>> {
        let file = self.file;
        let targets = &file.targets[syntax.writes.indices()];
        let mut found = Vec::new();
        for target in targets {
            let result = self.result_target(target);
            let tensor = match result {
                Some(ResultTarget::Tensor(tensor)) => {
                    let text = self.slice_text(target.value);
                    let reads = &file.expr_lists[syntax.reads.indices()];
                    let is_shared = reads.iter().all(|&read| self.slice_text(read) != text);
                    slices.push(LaunchSlice { text, tensor, is_shared });
                    Some(tensor)
                }
                Some(ResultTarget::Name(name, ty)) => self.result_tensor(name, ty, None, ResultSource::Other),
                None => None,
            };
            found.push(tensor);
        }
        found.into_iter().collect()
    }

    /// The text of a slice without blanks.
    fn slice_text(&self, id: ast::ExprId) -> String {
        let text = self.source.get(self.file.expr_span(id).as_usize_range()).unwrap_or_default();
        text.split_whitespace().collect()
    }

    fn launch_tensor(&mut self, id: ast::ExprId, slices: &mut Vec<LaunchSlice>) -> Option<TensorId> {
        if !matches!(self.file.expr(id), ExprNode::Index(..)) {
            return self.tensor_operand(id);
        }
        let text = self.slice_text(id);
        if let Some(known) = slices.iter().find(|slice| slice.is_shared && slice.text == text) {
            return Some(known.tensor);
        }
        let tensor = self.tensor_operand(id)?;
        slices.push(LaunchSlice { text, tensor, is_shared: true });
        Some(tensor)
    }

    fn launch_value(&mut self, id: ast::ExprId, slices: &mut Vec<LaunchSlice>) -> Option<Value> {
        match self.file.expr(id) {
            ExprNode::Index(..) if self.names_tensor(id) => self.launch_tensor(id, slices).map(Value::Tensor),
            _ => self.operand(id),
        }
    }

    /// The scalar, if there is one; `None` after an error.
    fn optional_scalar(&mut self, expr: Option<ast::ExprId>) -> Option<Option<ExprId>> {
        match expr {
            Some(expr) => self.scalar(expr).map(Some),
            None => Some(None),
        }
    }

    /// The number of the kernel that is a reference.
    fn reference_number(&mut self, name: NameSyntax) -> Option<u32> {
        if let Some(&unit) = self.kernels.by_name.get(&name.name) {
            return Some(self.program.units[unit].number);
        }
        let message =
            message!("the reference `{}` is no kernel of this program", PartKind::Op.quote(self.name_text(name.name)));
        let note = "write `kernel NAME(..) -> (..):` above the program; it gets what the launch reads";
        self.diags.push(Diag::error(codes::LAUNCH_REFERENCE, name.span, message).with_note(note));
        None
    }

    /// Poisons the names that a launch with an error would have declared.
    pub(super) fn poison_launch(&mut self, at: u32) {
        let writes = self.file.launches.get(at as usize).map_or(NodeRange::default(), |launch| launch.writes);
        self.poison_target_names(writes);
    }
}
