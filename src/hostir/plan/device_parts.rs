//! Axes that a split shards over devices: the length of a shard, and the text that gives the axes if they are not
//! determined.

use super::builder::PlanBuilder;
use crate::diag::message;
use crate::diag::{Diag, codes};
use crate::ir::{ExprId, TensorId, tensor_text};

impl PlanBuilder<'_> {
    /// The extent of each of `parts` equal parts of an axis.
    pub(super) fn part_size(&self, tensor: TensorId, extent: usize, parts: ExprId) -> Result<usize, Diag> {
        let parts = self.eval_size(parts)?;
        match extent.checked_div(parts) {
            Some(part) if part * parts == extent => Ok(part),
            _ => {
                let name = self.quoted_tensor(tensor);
                let message = message!(
                    "an axis of {} of extent {} does not divide into {} parts for the devices",
                    name,
                    extent,
                    parts
                );
                Err(self
                    .error_here(codes::SIZE, message)
                    .with_note("parts for devices must be equal: choose another size"))
            }
        }
    }

    /// The text that gives the axes of a tensor before splits.
    pub(super) fn split_note(&self, tensor: TensorId) -> String {
        let axes = self.axes.stored_axes(tensor).count();
        let extents: Vec<String> = (0..axes.saturating_sub(1).max(1)).map(|k| format!("i{k}")).collect();
        let extents = extents.join(", ");
        if self.program.is_hir2() {
            return format!("write the extents before the splits after the type, for example `logical({extents})`");
        }
        let text = tensor_text(self.program, tensor);
        format!("write the extents before the splits after the tensor, for example `{text} {{logical={{{extents}}}}}`")
    }
}
