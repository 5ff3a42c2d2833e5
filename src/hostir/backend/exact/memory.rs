//! A rank's memory of exact elements. Uninitialised elements hold hashes of their place.

use super::degree::RationalDegree;
use super::hash::{HashKeys, HashedSubject};
use super::value::{ExactColumn, ExactValue};
use crate::backend::buffer_uses::BufferUses;
use crate::backend::view_rows::ViewRows;
use crate::plan::{BufferId, BufferView, Plan};

/// The buffers of one rank. A buffer exists from its first use to its last.
#[derive(Clone, Debug)]
pub(super) struct ExactMemory {
    buffers: Vec<Option<ExactColumn>>,
    uses: BufferUses,
    keys: HashKeys,
    /// Words that name this memory among those of all ranks of both programs.
    place: [u64; 2],
}

impl ExactMemory {
    /// Memory for a plan.
    pub(super) fn new(plan: &Plan, keys: HashKeys, program: u64) -> Self {
        let uses = BufferUses::of_plan(plan);
        Self { buffers: vec![None; plan.buffers.len()], uses, keys, place: [program, u64::from(plan.rank)] }
    }

    /// Gives an input its elements, in the order of its memory.
    pub(super) fn bind_input(&mut self, view: &BufferView, values: Vec<ExactValue>) {
        let values = match view.stored_places() {
            Some(places) => places.into_iter().map(|place| values[place]).collect(),
            None => values,
        };
        self.buffers[view.buffer.0 as usize] = Some(ExactColumn { values, degree: RationalDegree::VARIABLE });
    }

    /// Ends one use of each of the views' buffers, and frees memory without further uses.
    pub(super) fn release_views<'v>(&mut self, views: impl IntoIterator<Item = &'v BufferView>) {
        for view in views {
            if self.uses.end_use(view) {
                self.buffers[view.buffer.0 as usize] = None;
            }
        }
    }

    /// Frees a buffer whose uses are not counted.
    pub(super) fn drop_buffer(&mut self, buffer: BufferId) {
        self.buffers[buffer.0 as usize] = None;
    }

    /// All elements of a view's buffer.
    pub(super) fn read_buffer(&mut self, plan: &Plan, view: &BufferView) -> &ExactColumn {
        self.buffer_elements(plan, view)
    }

    /// Elements of a view in row-major order.
    pub(super) fn read_view(&mut self, plan: &Plan, view: &BufferView) -> ExactColumn {
        let buffer = self.buffer_elements(plan, view);
        let rows = ViewRows::new(view);
        let mut values = Vec::with_capacity(view.len());
        rows.for_each_row(|offset| {
            let elements = (0..rows.inner.extent).map(|index| offset + index * rows.inner.stride);
            values.extend(elements.map(|element| buffer.values[element]));
        });
        ExactColumn { values, degree: buffer.degree }
    }

    /// Writes elements in row-major order; there are as many as the view has.
    pub(super) fn write_view(&mut self, plan: &Plan, view: &BufferView, column: &ExactColumn) {
        let buffer = self.buffer_elements(plan, view);
        buffer.degree = buffer.degree.join_degrees(column.degree);
        let rows = ViewRows::new(view);
        let mut rest = column.values.iter();
        rows.for_each_row(|offset| {
            for (index, &value) in rest.by_ref().take(rows.inner.extent).enumerate() {
                buffer.values[offset + index * rows.inner.stride] = value;
            }
        });
    }

    /// A view's buffer, which is created at its first use.
    fn buffer_elements(&mut self, plan: &Plan, view: &BufferView) -> &mut ExactColumn {
        let at = view.buffer.0 as usize;
        let (keys, [program, rank]) = (self.keys, self.place);
        self.buffers[at].get_or_insert_with(|| {
            let hasher = keys.hasher_of(HashedSubject::UninitialisedMemory, &[program, rank, at as u64]);
            let elements = 0..plan.buffers[view.buffer].elements;
            let values = elements.map(|element| ExactValue::Number(hasher.finish_with(&[element as u64])));
            ExactColumn { values: values.collect(), degree: RationalDegree::VARIABLE }
        })
    }
}
