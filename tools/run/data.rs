//! Tensors of files, and comparisons of two tensors. Readers take time and memory in proportion to the file's own
//! length.

pub mod compare;
pub mod npy;
pub mod safetensors;

use hostir::data::HostTensor;
use hostir::diag::Message;
use hostir::diag::message;
use hostir::ir::DType;
use std::io::Read;

/// An error of data: one sentence, and a repair.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DataError {
    /// Lower case, without a full stop.
    pub message: Message,
    /// A repair.
    pub note: Option<Message>,
}

impl DataError {
    fn new(message: impl Into<Message>) -> Self {
        Self { message: message.into(), note: None }
    }
    fn with_note(mut self, note: impl Into<Message>) -> Self {
        self.note = Some(note.into());
        self
    }
}

/// The reason why a tensor cannot be read from a file.
#[derive(Debug)]
pub enum ReadError {
    /// The system does not give the bytes.
    Io(std::io::Error),
    /// The file is damaged, or its element type is unknown.
    Damaged(DataError),
    /// There is no such entry, or there are several and none was named.
    Entry(DataError),
}

impl From<std::io::Error> for ReadError {
    fn from(error: std::io::Error) -> Self {
        ReadError::Io(error)
    }
}

impl From<DataError> for ReadError {
    fn from(error: DataError) -> Self {
        ReadError::Damaged(error)
    }
}

/// Bytes of a tensor of this shape; `None` if they, or those of a part of it, overflow.
fn tensor_bytes(dtype: DType, shape: &[usize]) -> Option<usize> {
    // An empty tensor's other extents are multiplied elsewhere.
    let bytes = shape.iter().try_fold(16usize, |product, extent| product.checked_mul(*extent.max(&1)));
    bytes.filter(|bytes| isize::try_from(*bytes).is_ok())?;
    Some(shape.iter().product::<usize>() * dtype.byte_size())
}

/// Reads the elements of a tensor whose shape [`tensor_bytes`] has accepted.
fn read_tensor(input: &mut dyn Read, dtype: DType, shape: &[usize]) -> Result<HostTensor, ReadError> {
    let len = tensor_bytes(dtype, shape).unwrap_or(usize::MAX);
    let machine = rustix::system::sysinfo();
    let memory = (machine.totalram as u64).saturating_mul(u64::from(machine.mem_unit));
    if len as u64 > memory || Vec::<u8>::new().try_reserve_exact(len).is_err() {
        let message = message!("its data have {} bytes, which exceeds the memory of this machine", len);
        return Err(DataError::new(message).into());
    }
    // The system provides memory as it is written: a stream that announces much and sends little costs little.
    let mut tensor = HostTensor::zeros(dtype, shape);
    input.read_exact(tensor.bytes_mut()).map_err(|error| match error.kind() {
        std::io::ErrorKind::UnexpectedEof => {
            DataError::new(format!("its shape needs {len} bytes of data, but it has fewer")).into()
        }
        _ => ReadError::Io(error),
    })?;
    Ok(tensor)
}

/// `[4, 8]` of an index or shape.
pub fn bracketed_list(items: &[usize]) -> String {
    let items: Vec<String> = items.iter().map(usize::to_string).collect();
    format!("[{}]", items.join(", "))
}

/// The coordinates of a row-major element.
pub fn element_coordinates(shape: &[usize], mut index: usize) -> Vec<usize> {
    let mut coordinates = vec![0; shape.len()];
    for (coordinate, extent) in coordinates.iter_mut().zip(shape).rev() {
        *coordinate = index % extent;
        index /= extent;
    }
    coordinates
}
