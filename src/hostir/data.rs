//! Tensors in host memory: the inputs and outputs of callers.

use crate::ir::DType;

pub mod fp8;
pub mod generate;

/// A dense row-major tensor. The bytes are 8-byte aligned.
#[derive(Clone, PartialEq, Debug)]
pub struct HostTensor {
    dtype: DType,
    shape: Vec<usize>,
    words: Vec<u64>,
}

/// Returns true if so many bytes of memory can be allocated.
pub(crate) fn has_room(bytes: usize) -> bool {
    let mut room = Vec::<u8>::new();
    let reserved = room.try_reserve_exact(bytes);
    // The optimiser would remove an allocation without a use.
    std::hint::black_box(&mut room);
    reserved.is_ok()
}

impl HostTensor {
    /// A tensor of zero bytes.
    pub fn zeros(dtype: DType, shape: &[usize]) -> Self {
        let bytes = shape.iter().product::<usize>() * dtype.byte_size();
        Self { dtype, shape: shape.to_vec(), words: vec![0; bytes.div_ceil(8)] }
    }
    /// A tensor of zero bytes; `None` if there is no memory for it.
    pub fn try_zeros(dtype: DType, shape: &[usize]) -> Option<Self> {
        let elements = shape.iter().try_fold(1, |elements: usize, extent| elements.checked_mul(*extent))?;
        let bytes = elements.checked_mul(dtype.byte_size())?;
        has_room(bytes.checked_next_multiple_of(8)?).then(|| Self::zeros(dtype, shape))
    }
    /// A tensor of these bytes (native byte order); `None` if their number does not fit the shape.
    pub fn from_bytes(dtype: DType, shape: &[usize], bytes: &[u8]) -> Option<Self> {
        let mut tensor = Self::zeros(dtype, shape);
        if tensor.bytes().len() != bytes.len() {
            return None;
        }
        tensor.bytes_mut().copy_from_slice(bytes);
        Some(tensor)
    }
    /// A tensor of these words; `None` if there are fewer than the shape needs.
    pub(crate) fn from_words(dtype: DType, shape: &[usize], words: Vec<u64>) -> Option<Self> {
        let bytes = shape.iter().product::<usize>() * dtype.byte_size();
        (words.len() >= bytes.div_ceil(8)).then(|| Self { dtype, shape: shape.to_vec(), words })
    }
    /// Its memory.
    pub(crate) fn into_words(self) -> Vec<u64> {
        self.words
    }
    /// Element type.
    pub fn dtype(&self) -> DType {
        self.dtype
    }
    /// Extents, outermost first.
    pub fn shape(&self) -> &[usize] {
        &self.shape
    }
    /// Number of elements.
    pub fn len(&self) -> usize {
        self.shape.iter().product()
    }
    /// Whether it has no element.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// The elements as bytes.
    pub fn bytes(&self) -> &[u8] {
        &bytemuck::cast_slice(&self.words)[..self.len() * self.dtype.byte_size()]
    }
    /// The elements as bytes.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        let len = self.len() * self.dtype.byte_size();
        &mut bytemuck::cast_slice_mut(&mut self.words)[..len]
    }
    /// The elements as `T`, whose size must be the element's.
    pub fn as_slice<T: bytemuck::Pod>(&self) -> &[T] {
        bytemuck::cast_slice(self.bytes())
    }
    /// The elements as `T`, whose size must be the element's.
    pub fn as_mut_slice<T: bytemuck::Pod>(&mut self) -> &mut [T] {
        bytemuck::cast_slice_mut(self.bytes_mut())
    }
    /// Element `index` (row-major) as a double; complex types give the real part, packed FP4 the first number.
    pub fn get_f64(&self, index: usize) -> f64 {
        match self.dtype {
            DType::Double | DType::ComplexDouble => self.as_slice::<f64>()[index * self.dtype.byte_size() / 8],
            DType::Float | DType::ComplexFloat => f64::from(self.as_slice::<f32>()[index * self.dtype.byte_size() / 4]),
            DType::Half => self.as_slice::<half::f16>()[index].to_f64(),
            DType::BFloat16 => self.as_slice::<half::bf16>()[index].to_f64(),
            DType::Int | DType::Index => self.as_slice::<i64>()[index] as f64,
            DType::UInt64 => self.as_slice::<u64>()[index] as f64,
            DType::Int32 => f64::from(self.as_slice::<i32>()[index]),
            DType::UInt32 => f64::from(self.as_slice::<u32>()[index]),
            DType::Int16 => f64::from(self.as_slice::<i16>()[index]),
            DType::UInt16 => f64::from(self.as_slice::<u16>()[index]),
            DType::Int8 => f64::from(self.as_slice::<i8>()[index]),
            DType::UInt8 | DType::Bool => f64::from(self.bytes()[index]),
            DType::Float8E4M3 | DType::Float8E5M2 | DType::Float8E8M0 | DType::Float4E2M1 => {
                fp8::decoder_for(self.dtype).map_or(f64::NAN, |decode| decode(self.bytes()[index]).into())
            }
            DType::Float4E2M1x2 => self.get_part(2 * index),
            DType::Kernel(_) => f64::NAN,
        }
    }
    /// The numbers of packed FP4 as elements of their own: the last axis is twice as long. Other tensors stay as they are.
    pub fn unpack_pairs(self) -> Self {
        let (DType::Float4E2M1x2, Some((last, outer))) = (self.dtype, self.shape.split_last()) else { return self };
        let mut unpacked = Self::zeros(DType::Float4E2M1, &[outer, &[2 * last]].concat());
        for (codes, &pair) in unpacked.bytes_mut().chunks_exact_mut(2).zip(self.bytes()) {
            codes.copy_from_slice(&fp8::pair_codes(pair));
        }
        unpacked
    }
    /// FP4 as packed pairs along the last axis; `None` for other types, and where the axis has an odd extent.
    pub fn pack_pairs(&self) -> Option<Self> {
        let (last, outer) = self.shape.split_last()?;
        if self.dtype != DType::Float4E2M1 || !last.is_multiple_of(2) {
            return None;
        }
        let mut packed = Self::zeros(DType::Float4E2M1x2, &[outer, &[last / 2]].concat());
        for (pair, codes) in packed.bytes_mut().iter_mut().zip(self.bytes().chunks_exact(2)) {
            *pair = fp8::packed_pair([codes[0], codes[1]]);
        }
        Some(packed)
    }
    /// Numbers of each element: two in complex types and in packed FP4.
    pub fn parts_per_element(&self) -> usize {
        if self.dtype.is_complex() || self.dtype == DType::Float4E2M1x2 { 2 } else { 1 }
    }
    /// Number `index` of all numbers of the elements as a double: the parts of complex numbers and of pairs follow each
    /// other.
    pub fn get_part(&self, index: usize) -> f64 {
        match self.dtype {
            DType::ComplexDouble => self.as_slice::<f64>()[index],
            DType::ComplexFloat => f64::from(self.as_slice::<f32>()[index]),
            DType::Float4E2M1x2 => {
                let code = fp8::pair_codes(self.bytes()[index / 2])[index % 2];
                fp8::decoder_for(DType::Float4E2M1).map_or(f64::NAN, |decode| decode(code).into())
            }
            _ => self.get_f64(index),
        }
    }
    /// Sets number `index` of all numbers of the elements from a double, rounded as [`Self::set_f64`] does.
    pub fn set_part(&mut self, index: usize, value: f64) {
        match self.dtype {
            DType::ComplexDouble => self.as_mut_slice::<f64>()[index] = value,
            DType::ComplexFloat => self.as_mut_slice::<f32>()[index] = value as f32,
            DType::Float4E2M1x2 => {
                let Some(encode) = fp8::encoder_for(DType::Float4E2M1) else { return };
                let mut codes = fp8::pair_codes(self.bytes()[index / 2]);
                codes[index % 2] = encode(value as f32);
                self.bytes_mut()[index / 2] = fp8::packed_pair(codes);
            }
            _ => self.set_f64(index, value),
        }
    }
    /// Sets element `index` from a double, rounded to the element type (integers truncate); the real part of a complex
    /// number, and the first one of packed FP4.
    pub fn set_f64(&mut self, index: usize, value: f64) {
        match self.dtype {
            DType::Double => self.as_mut_slice::<f64>()[index] = value,
            DType::ComplexDouble | DType::ComplexFloat => self.set_part(2 * index, value),
            DType::Float => self.as_mut_slice::<f32>()[index] = value as f32,
            DType::Half => self.as_mut_slice::<half::f16>()[index] = half::f16::from_f64(value),
            DType::BFloat16 => self.as_mut_slice::<half::bf16>()[index] = half::bf16::from_f64(value),
            DType::Int | DType::Index => self.as_mut_slice::<i64>()[index] = value as i64,
            DType::UInt64 => self.as_mut_slice::<u64>()[index] = value as u64,
            DType::Int32 => self.as_mut_slice::<i32>()[index] = value as i32,
            DType::UInt32 => self.as_mut_slice::<u32>()[index] = value as u32,
            DType::Int16 => self.as_mut_slice::<i16>()[index] = value as i16,
            DType::UInt16 => self.as_mut_slice::<u16>()[index] = value as u16,
            DType::Int8 => self.as_mut_slice::<i8>()[index] = value as i8,
            DType::UInt8 => self.bytes_mut()[index] = value as u8,
            DType::Bool => self.bytes_mut()[index] = u8::from(value != 0.0),
            DType::Float8E4M3 | DType::Float8E5M2 | DType::Float8E8M0 | DType::Float4E2M1 => {
                if let Some(encode) = fp8::encoder_for(self.dtype) {
                    self.bytes_mut()[index] = encode(value as f32);
                }
            }
            DType::Float4E2M1x2 => self.set_part(2 * index, value),
            DType::Kernel(_) => {}
        }
    }
}
