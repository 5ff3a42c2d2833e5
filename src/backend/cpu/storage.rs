//! A rank's memory: buffers as bytes with a bit for every initialised element.

use super::fault::Fault;
use crate::data::HostTensor;
use crate::ir::{DType, TensorId};
use crate::plan::{BufferId, Dim, Dims, Plan, View};
use bytemuck::Pod;

/// One allocation.
#[derive(Clone, Debug)]
pub(super) struct Storage {
    words: Vec<u64>,
    elements: usize,
    size: usize,
    tensor: TensorId,
    /// What is initialised; `None` once all elements are.
    written: Option<Written>,
}

/// Which elements of an allocation are initialised.
#[derive(Clone, Debug)]
struct Written {
    /// One bit an element.
    bits: Vec<u64>,
    /// How many are not.
    missing: usize,
}

impl Storage {
    fn new(elements: usize, dtype: DType, tensor: TensorId) -> Result<Self, Fault> {
        let size = dtype.size();
        let count = elements.checked_mul(size).ok_or(Fault::NoMemory(usize::MAX))?.div_ceil(8);
        let written = Written { bits: zeros(elements.div_ceil(64))?, missing: elements };
        Ok(Self { words: zeros(count)?, elements, size, tensor, written: Some(written) })
    }

    /// All elements as `T`, which has the element's size.
    pub(super) fn slice<T: Pod>(&self) -> &[T] {
        &bytemuck::cast_slice(&self.words)[..self.elements]
    }

    fn slice_mut<T: Pod>(&mut self) -> &mut [T] {
        &mut bytemuck::cast_slice_mut(&mut self.words)[..self.elements]
    }

    /// Errors unless all elements of the view are initialised.
    fn check(&self, view: &View) -> Result<(), Fault> {
        let Some(Written { bits, .. }) = &self.written else { return Ok(()) };
        let rows = Rows::new(view);
        let mut missing = None;
        rows.each(|offset| {
            for index in 0..rows.inner.extent {
                let at = offset + index * rows.inner.stride;
                if bits[at / 64] & (1 << (at % 64)) == 0 && missing.is_none() {
                    missing = Some(at);
                }
            }
        });
        match missing {
            None => Ok(()),
            Some(element) => Err(Fault::Uninitialised { tensor: self.tensor, element }),
        }
    }

    /// Marks the view's elements as initialised.
    fn mark(&mut self, view: &View) {
        let Some(Written { bits, missing }) = &mut self.written else { return };
        if view.is_contiguous() && view.len() == self.elements {
            self.written = None;
            return;
        }
        let rows = Rows::new(view);
        rows.each(|offset| {
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
fn zeros(words: usize) -> Result<Vec<u64>, Fault> {
    let mut zeros = room(words)?;
    zeros.resize(words, 0);
    Ok(zeros)
}

/// Room for this many values.
fn room<T>(count: usize) -> Result<Vec<T>, Fault> {
    let mut room = Vec::new();
    let bytes = count.saturating_mul(size_of::<T>());
    room.try_reserve_exact(count).map_err(|_| Fault::NoMemory(bytes))?;
    Ok(room)
}

/// A view as rows: the innermost run of elements with one stride, and the axes around it.
struct Rows {
    outer: Dims,
    inner: Dim,
    offset: usize,
    empty: bool,
}

impl Rows {
    fn new(view: &View) -> Self {
        let mut outer = Dims::new();
        // Neighbouring axes that lie behind each other in memory are one axis.
        for &dim in view.dims.iter().filter(|dim| dim.extent != 1) {
            match outer.last_mut() {
                Some(last) if last.stride == dim.stride * dim.extent => {
                    *last = Dim { extent: last.extent * dim.extent, stride: dim.stride };
                }
                _ => outer.push(dim),
            }
        }
        let inner = outer.pop().unwrap_or(Dim { extent: 1, stride: 1 });
        Self { outer, inner, offset: view.offset, empty: view.is_empty() }
    }

    /// Calls `row` with the offset of each row, in row-major order.
    fn each(&self, mut row: impl FnMut(usize)) {
        if self.empty {
            return;
        }
        let mut index = vec![0usize; self.outer.len()];
        let mut offset = self.offset;
        loop {
            row(offset);
            let mut axis = self.outer.len();
            loop {
                let Some(next) = axis.checked_sub(1) else { return };
                axis = next;
                let dim = self.outer[axis];
                index[axis] += 1;
                offset += dim.stride;
                if index[axis] < dim.extent {
                    break;
                }
                offset -= dim.stride * dim.extent;
                index[axis] = 0;
            }
        }
    }
}

/// The buffers of one rank. A buffer exists from its first use to its last.
#[derive(Clone, Default, Debug)]
pub(super) struct Memory {
    buffers: Vec<Option<Storage>>,
    uses: Vec<u32>,
}

impl Memory {
    /// Memory for a plan, with its inputs. Counts how often each buffer is used.
    pub(super) fn new(plan: &Plan, inputs: Vec<HostTensor>) -> Result<Self, Fault> {
        let mut memory =
            Self { buffers: vec![None; plan.buffers.len()], uses: vec![0; plan.buffers.len()] };
        for inst in plan.iter() {
            for view in inst.kind.reads().into_iter().chain(inst.kind.writes()) {
                memory.uses[view.buffer.0 as usize] += 1;
            }
        }
        for output in plan.outputs.iter().flatten() {
            memory.uses[output.buffer.0 as usize] += 1;
        }
        for (view, tensor) in plan.inputs.iter().zip(inputs) {
            if let Some(view) = view {
                memory.bind_input(plan, view, tensor)?;
            }
        }
        Ok(memory)
    }

    fn bind_input(&mut self, plan: &Plan, view: &View, tensor: HostTensor) -> Result<(), Fault> {
        let buffer = &plan.buffers[view.buffer];
        if tensor.len() != buffer.elements || tensor.dtype() != buffer.dtype {
            let message = format!(
                "an input part of shape {:?} and type `{}` was given where {:?} of `{}` is needed",
                tensor.shape(),
                tensor.dtype().name(),
                view.shape(),
                buffer.dtype.name()
            );
            return Err(Fault::Input(message));
        }
        let storage = Storage {
            words: tensor.into_words(),
            elements: buffer.elements,
            size: buffer.dtype.size(),
            tensor: buffer.tensor,
            written: None,
        };
        self.buffers[view.buffer.0 as usize] = Some(storage);
        Ok(())
    }

    /// One use of each of the views' buffers is over; memory without further uses ends.
    pub(super) fn release<'v>(&mut self, views: impl IntoIterator<Item = &'v View>) {
        for view in views {
            let at = view.buffer.0 as usize;
            self.uses[at] = self.uses[at].saturating_sub(1);
            if self.uses[at] == 0 {
                self.buffers[at] = None;
            }
        }
    }

    fn storage(&self, buffer: BufferId) -> Option<&Storage> {
        self.buffers[buffer.0 as usize].as_ref()
    }

    /// Elements of a view in row-major order. `T` has the element's size.
    pub(super) fn read<T: Pod>(&self, plan: &Plan, view: &View) -> Result<Vec<T>, Fault> {
        if view.is_empty() {
            return Ok(Vec::new());
        }
        let Some(storage) = self.storage(view.buffer) else {
            let tensor = plan.buffers[view.buffer].tensor;
            return Err(Fault::Uninitialised { tensor, element: view.offset });
        };
        storage.check(view)?;
        debug_assert_eq!(storage.size, size_of::<T>());
        let data = storage.slice::<T>();
        let rows = Rows::new(view);
        let mut values = room(view.len())?;
        rows.each(|offset| match rows.inner {
            Dim { extent, stride: 1 } => values.extend_from_slice(&data[offset..offset + extent]),
            Dim { extent, stride } => {
                values.extend((0..extent).map(|index| data[offset + index * stride]));
            }
        });
        Ok(values)
    }

    /// Writes elements in row-major order; there are as many as the view has.
    pub(super) fn write<T: Pod>(
        &mut self,
        plan: &Plan,
        view: &View,
        values: &[T],
    ) -> Result<(), Fault> {
        if view.is_empty() {
            return Ok(());
        }
        let slot = &mut self.buffers[view.buffer.0 as usize];
        if slot.is_none() {
            let buffer = &plan.buffers[view.buffer];
            *slot = Some(Storage::new(buffer.elements, buffer.dtype, buffer.tensor)?);
        }
        let Some(storage) = slot else { return Ok(()) };
        let rows = Rows::new(view);
        let data = storage.slice_mut::<T>();
        let mut rest = values;
        rows.each(|offset| {
            let (row, behind) = rest.split_at(rows.inner.extent.min(rest.len()));
            rest = behind;
            if rows.inner.stride == 1 {
                data[offset..offset + row.len()].copy_from_slice(row);
            } else {
                for (index, &value) in row.iter().enumerate() {
                    data[offset + index * rows.inner.stride] = value;
                }
            }
        });
        storage.mark(view);
        Ok(())
    }

    /// A whole buffer's elements, of which the view's are initialised; `None` if it has none yet.
    pub(super) fn borrow<T: Pod>(&self, view: &View) -> Result<Option<&[T]>, Fault> {
        let Some(storage) = self.storage(view.buffer) else { return Ok(None) };
        storage.check(view)?;
        Ok(Some(storage.slice()))
    }

    /// Ends an output: its elements as a tensor.
    pub(super) fn take(&mut self, plan: &Plan, view: &View) -> Result<Option<HostTensor>, Fault> {
        let at = view.buffer.0 as usize;
        let whole = view.is_contiguous() && view.len() == plan.buffers[view.buffer].elements;
        if whole
            && self.uses[at] == 1
            && let Some(storage) = self.buffers[at].take_if(|storage| storage.written.is_none())
        {
            return Ok(HostTensor::from_words(view.dtype, &view.shape(), storage.words));
        }
        let bytes = self.read_bytes(plan, view)?;
        Ok(HostTensor::from_bytes(view.dtype, &view.shape(), &bytes))
    }

    /// The elements of a view as bytes.
    pub(super) fn read_bytes(&self, plan: &Plan, view: &View) -> Result<Vec<u8>, Fault> {
        Ok(match view.dtype.size() {
            1 => self.read::<u8>(plan, view)?,
            2 => bytemuck::cast_slice(&self.read::<u16>(plan, view)?).to_vec(),
            4 => bytemuck::cast_slice(&self.read::<u32>(plan, view)?).to_vec(),
            8 => bytemuck::cast_slice(&self.read::<u64>(plan, view)?).to_vec(),
            _ => return Err(Fault::Type(view.dtype)),
        })
    }

    /// Writes bytes to a view.
    pub(super) fn write_bytes(
        &mut self,
        plan: &Plan,
        view: &View,
        bytes: &[u8],
    ) -> Result<(), Fault> {
        match view.dtype.size() {
            1 => self.write::<u8>(plan, view, bytes),
            2 => self.write::<u16>(plan, view, &values_of(bytes)),
            4 => self.write::<u32>(plan, view, &values_of(bytes)),
            8 => self.write::<u64>(plan, view, &values_of(bytes)),
            _ => Err(Fault::Type(view.dtype)),
        }
    }
}

/// Values of a type from its bytes.
pub(super) fn values_of<T: Pod>(bytes: &[u8]) -> Vec<T> {
    bytes.chunks_exact(size_of::<T>().max(1)).map(bytemuck::pod_read_unaligned).collect()
}
