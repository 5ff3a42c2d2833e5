//! A rank's memory: buffers as bytes with a bit for every initialised element.

use super::poison::poison_words;
use crate::backend::buffer_uses::BufferUses;
use crate::backend::fault::ExecutionFault;
use crate::backend::view_rows::ViewRows;
use crate::data::HostTensor;
use crate::diag::message;
use crate::ir::{DType, quoted_type};
use crate::plan::{BufferId, BufferView, Plan, ViewDim, stored_input};
use bytemuck::Pod;

/// One allocation.
#[derive(Clone, Debug)]
pub(super) struct BufferStorage {
    words: Vec<u64>,
    elements: usize,
    size: usize,
    buffer: BufferId,
    /// The map of initialised elements; `None` once all are initialised.
    written: Option<InitializedSet>,
}

/// The initialised elements of an allocation.
#[derive(Clone, Debug)]
struct InitializedSet {
    /// One bit an element.
    bits: Vec<u64>,
    /// The number of elements that are not initialised.
    missing: usize,
}

impl BufferStorage {
    fn new(elements: usize, dtype: DType, buffer: BufferId) -> Result<Self, ExecutionFault> {
        let size = dtype.byte_size();
        let count = elements.checked_mul(size).ok_or(ExecutionFault::NoMemory(usize::MAX))?.div_ceil(8);
        let written = InitializedSet { bits: zeroed_words(elements.div_ceil(64))?, missing: elements };
        Ok(Self { words: zeroed_words(count)?, elements, size, buffer, written: Some(written) })
    }

    /// All elements as `T`, which has the element's size.
    pub(super) fn slice<T: Pod>(&self) -> &[T] {
        &bytemuck::cast_slice(&self.words)[..self.elements]
    }

    fn elements_mut<T: Pod>(&mut self) -> &mut [T] {
        &mut bytemuck::cast_slice_mut(&mut self.words)[..self.elements]
    }

    /// Fails unless all elements of the view are initialised.
    fn check_initialized(&self, view: &BufferView) -> Result<(), ExecutionFault> {
        let Some(InitializedSet { bits, .. }) = &self.written else { return Ok(()) };
        let rows = ViewRows::new(view);
        let mut missing = None;
        rows.for_each_row(|offset| {
            for index in 0..rows.inner.extent {
                let at = offset + index * rows.inner.stride;
                if bits[at / 64] & (1 << (at % 64)) == 0 && missing.is_none() {
                    missing = Some(at);
                }
            }
        });
        match missing {
            None => Ok(()),
            Some(element) => Err(ExecutionFault::Uninitialised { buffer: self.buffer, element }),
        }
    }

    /// Marks the view's elements as initialised.
    fn mark_initialized(&mut self, view: &BufferView) {
        let Some(InitializedSet { bits, missing }) = &mut self.written else { return };
        if view.is_contiguous() && view.len() == self.elements {
            self.written = None;
            return;
        }
        let rows = ViewRows::new(view);
        rows.for_each_row(|offset| {
            for index in 0..rows.inner.extent {
                let at = offset + index * rows.inner.stride;
                let bit = 1 << (at % 64);
                *missing -= usize::from(bits[at / 64] & bit == 0);
                bits[at / 64] |= bit;
            }
        });
        if *missing == 0 {
            self.written = None;
        }
    }
}

/// Zeroed memory.
fn zeroed_words(words: usize) -> Result<Vec<u64>, ExecutionFault> {
    let mut zeros = reserve_values(words)?;
    zeros.resize(words, 0);
    Ok(zeros)
}

/// Room for this many values.
fn reserve_values<T>(count: usize) -> Result<Vec<T>, ExecutionFault> {
    let mut room = Vec::new();
    let bytes = count.saturating_mul(size_of::<T>());
    room.try_reserve_exact(count).map_err(|_| ExecutionFault::NoMemory(bytes))?;
    Ok(room)
}

/// The buffers of one rank. A buffer exists from its first use to its last.
#[derive(Clone, Default, Debug)]
pub(super) struct RankMemory {
    buffers: Vec<Option<BufferStorage>>,
    uses: BufferUses,
    /// True if new memory holds the patterns of [`poison_words`].
    poison: bool,
}

impl RankMemory {
    /// Memory for a plan, with its inputs.
    pub(super) fn new(plan: &Plan, inputs: Vec<HostTensor>, poison: bool) -> Result<Self, ExecutionFault> {
        let (buffers, uses) = (vec![None; plan.buffers.len()], BufferUses::of_plan(plan));
        let mut memory = Self { buffers, uses, poison };
        for (view, tensor) in plan.inputs.iter().zip(inputs) {
            if let Some(view) = view {
                memory.bind_input(plan, view, stored_input(view, tensor))?;
            }
        }
        Ok(memory)
    }

    fn bind_input(&mut self, plan: &Plan, view: &BufferView, tensor: HostTensor) -> Result<(), ExecutionFault> {
        let buffer = &plan.buffers[view.buffer];
        if tensor.len() != buffer.elements || tensor.dtype() != buffer.dtype {
            let message = message!(
                "an input shard of shape {} and type `{}` was given, but {} of `{}` is required",
                format!("{:?}", tensor.shape()),
                quoted_type(tensor.dtype()),
                format!("{:?}", view.shape()),
                quoted_type(buffer.dtype)
            );
            return Err(ExecutionFault::Input(message));
        }
        let storage = BufferStorage {
            words: tensor.into_words(),
            elements: buffer.elements,
            size: buffer.dtype.byte_size(),
            buffer: view.buffer,
            written: None,
        };
        self.buffers[view.buffer.0 as usize] = Some(storage);
        Ok(())
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

    /// The buffers of these views alone.
    pub(super) fn copy_buffers<'v>(&self, views: impl IntoIterator<Item = &'v BufferView>) -> Self {
        let mut copy =
            Self { buffers: vec![None; self.buffers.len()], uses: BufferUses::default(), poison: self.poison };
        for view in views {
            let at = view.buffer.0 as usize;
            copy.buffers[at].clone_from(&self.buffers[at]);
        }
        copy
    }

    fn buffer_storage(&self, buffer: BufferId) -> Option<&BufferStorage> {
        self.buffers[buffer.0 as usize].as_ref()
    }

    /// Elements of a view in row-major order. `T` has the element's size.
    pub(super) fn read_view<T: Pod>(&self, view: &BufferView) -> Result<Vec<T>, ExecutionFault> {
        if view.is_empty() {
            return Ok(Vec::new());
        }
        let Some(storage) = self.buffer_storage(view.buffer) else {
            return Err(ExecutionFault::Uninitialised { buffer: view.buffer, element: view.offset });
        };
        storage.check_initialized(view)?;
        debug_assert_eq!(storage.size, size_of::<T>());
        let data = storage.slice::<T>();
        let rows = ViewRows::new(view);
        let mut values = reserve_values(view.len())?;
        rows.for_each_row(|offset| match rows.inner {
            ViewDim { extent, stride: 1 } => values.extend_from_slice(&data[offset..offset + extent]),
            ViewDim { extent, stride } => {
                values.extend((0..extent).map(|index| data[offset + index * stride]));
            }
        });
        Ok(values)
    }

    /// Writes elements in row-major order; there are as many as the view has.
    pub(super) fn write_view<T: Pod>(
        &mut self,
        plan: &Plan,
        view: &BufferView,
        values: &[T],
    ) -> Result<(), ExecutionFault> {
        if view.is_empty() {
            return Ok(());
        }
        let slot = &mut self.buffers[view.buffer.0 as usize];
        if slot.is_none() {
            let buffer = &plan.buffers[view.buffer];
            let mut storage = BufferStorage::new(buffer.elements, buffer.dtype, view.buffer)?;
            if self.poison {
                poison_words(&mut storage.words, buffer.dtype);
            }
            *slot = Some(storage);
        }
        let Some(storage) = slot else { return Ok(()) };
        let rows = ViewRows::new(view);
        let data = storage.elements_mut::<T>();
        let mut rest = values;
        rows.for_each_row(|offset| {
            let (row, after) = rest.split_at(rows.inner.extent.min(rest.len()));
            rest = after;
            if rows.inner.stride == 1 {
                data[offset..offset + row.len()].copy_from_slice(row);
            } else {
                for (index, &value) in row.iter().enumerate() {
                    data[offset + index * rows.inner.stride] = value;
                }
            }
        });
        storage.mark_initialized(view);
        Ok(())
    }

    /// All elements of a buffer, of which the view's are initialised; `None` if it has none yet.
    pub(super) fn borrow_buffer<T: Pod>(&self, view: &BufferView) -> Result<Option<&[T]>, ExecutionFault> {
        let Some(storage) = self.buffer_storage(view.buffer) else { return Ok(None) };
        storage.check_initialized(view)?;
        Ok(Some(storage.slice()))
    }

    /// Ends an output: its elements as a tensor.
    pub(super) fn take_output(&mut self, plan: &Plan, view: &BufferView) -> Result<Option<HostTensor>, ExecutionFault> {
        let at = view.buffer.0 as usize;
        let whole = view.is_contiguous() && view.len() == plan.buffers[view.buffer].elements;
        if whole
            && self.uses.count_of(view.buffer) == 1
            && let Some(storage) = self.buffers[at].take_if(|storage| storage.written.is_none())
        {
            return Ok(HostTensor::from_words(view.dtype, &view.shape(), storage.words));
        }
        let bytes = self.read_bytes(view)?;
        Ok(HostTensor::from_bytes(view.dtype, &view.shape(), &bytes))
    }

    /// The elements of a view as bytes.
    pub(super) fn read_bytes(&self, view: &BufferView) -> Result<Vec<u8>, ExecutionFault> {
        Ok(match view.dtype.byte_size() {
            1 => self.read_view::<u8>(view)?,
            2 => bytemuck::cast_slice(&self.read_view::<u16>(view)?).to_vec(),
            4 => bytemuck::cast_slice(&self.read_view::<u32>(view)?).to_vec(),
            8 => bytemuck::cast_slice(&self.read_view::<u64>(view)?).to_vec(),
            16 => bytemuck::cast_slice(&self.read_view::<[u64; 2]>(view)?).to_vec(),
            _ => return Err(ExecutionFault::Type(view.dtype)),
        })
    }

    /// Writes bytes to a view.
    pub(super) fn write_bytes(&mut self, plan: &Plan, view: &BufferView, bytes: &[u8]) -> Result<(), ExecutionFault> {
        match view.dtype.byte_size() {
            1 => self.write_view::<u8>(plan, view, bytes),
            2 => self.write_view::<u16>(plan, view, &values_of(bytes)),
            4 => self.write_view::<u32>(plan, view, &values_of(bytes)),
            8 => self.write_view::<u64>(plan, view, &values_of(bytes)),
            16 => self.write_view::<[u64; 2]>(plan, view, &values_of(bytes)),
            _ => Err(ExecutionFault::Type(view.dtype)),
        }
    }
}

/// Values of a type from its bytes.
pub(super) fn values_of<T: Pod>(bytes: &[u8]) -> Vec<T> {
    bytes.chunks_exact(size_of::<T>().max(1)).map(bytemuck::pod_read_unaligned).collect()
}
