//! NumPy's `.npy` files.
//!
//! Read: booleans, integers, floats and complex numbers of 1 to 16 bytes, either byte order, C and
//! Fortran order. Written: C order, native byte order. The format has no bfloat16 and no 8-bit floats.

use super::{DataError, byte_len};
use hostir::data::HostTensor;
use hostir::ir::DType;
use npyz::{DType as Descr, Endianness, NpyFile, Order, TypeChar};
use std::fmt::Write as _;
use std::io::Read;

const HINT: &str = "use a .safetensors file for it";

/// Reads a tensor.
///
/// # Errors
/// If the file is damaged or holds something else than numbers.
pub fn read(bytes: &[u8]) -> Result<HostTensor, DataError> {
    if shape_overflows(header_of(bytes)?) {
        return Err(DataError::new("its shape is too large"));
    }
    let file =
        NpyFile::new(bytes).map_err(|error| DataError::new(format!("not a .npy file: {error}")))?;
    let (dtype, endianness) = element(&file.header().dtype())?;
    let shape: Vec<usize> = file.shape().iter().map(|extent| *extent as usize).collect();
    let order = file.order();
    let len = byte_len(dtype, &shape).ok_or_else(|| DataError::new("its shape is too large"))?;
    let mut data = Vec::new();
    let read = file.into_inner().read_to_end(&mut data);
    read.map_err(|error| DataError::new(error.to_string()))?;
    if data.len() != len {
        return Err(DataError::new(format!(
            "its shape needs {len} bytes of data, it has {}",
            data.len()
        )));
    }
    if endianness == Endianness::Big {
        swap(&mut data, component_size(dtype));
    }
    if order == Order::Fortran {
        data = to_row_major(&data, dtype.size(), &shape);
    }
    HostTensor::from_bytes(dtype, &shape, &data)
        .ok_or_else(|| DataError::new("its data does not fit its shape"))
}

/// The header's text. npyz asks for as much memory as the file says that it needs, which may be more
/// than there is in the file.
fn header_of(bytes: &[u8]) -> Result<&[u8], DataError> {
    let (start, length) = match bytes {
        [b'\x93', b'N', b'U', b'M', b'P', b'Y', 1, _, a, b, ..] => {
            (10, usize::from(u16::from_le_bytes([*a, *b])))
        }
        [b'\x93', b'N', b'U', b'M', b'P', b'Y', 2 | 3, _, a, b, c, d, ..] => {
            (12, u32::from_le_bytes([*a, *b, *c, *d]) as usize)
        }
        // npyz says what is wrong.
        _ => return Ok(&[]),
    };
    let rest = &bytes[start..];
    rest.get(..length).ok_or_else(|| {
        let found = rest.len();
        DataError::new(format!("its header is {length} bytes long, but {found} follow"))
    })
}

/// Whether the shape's product leaves 64 bits: npyz 0.9.1 multiplies it unchecked, from either end, so that a zero
/// need not come first.
fn shape_overflows(header: &[u8]) -> bool {
    let Some(at) = header.windows(5).position(|window| window == b"shape") else { return false };
    let shape = header[at..].split(|byte| *byte == b')').next().unwrap_or_default();
    let shape = String::from_utf8_lossy(shape);
    let mut extents = shape.split(|c: char| !c.is_ascii_digit()).filter(|word| !word.is_empty());
    let product = extents
        .try_fold(16u64, |product, word| product.checked_mul(word.parse::<u64>().ok()?.max(1)));
    product.is_none()
}

/// The element type of a file.
fn element(descr: &Descr) -> Result<(DType, Endianness), DataError> {
    let unfit = || {
        DataError::new(format!(
            "its elements are {}, which is no type of a host program",
            descr.descr()
        ))
    };
    let Descr::Plain(plain) = descr else { return Err(unfit()) };
    let dtype = match (plain.type_char(), plain.size_field()) {
        (TypeChar::Bool, 1) => DType::Bool,
        (TypeChar::Float, 8) => DType::Double,
        (TypeChar::Float, 4) => DType::Float,
        (TypeChar::Float, 2) => DType::Half,
        (TypeChar::Int, 8) => DType::Int,
        (TypeChar::Int, 4) => DType::Int32,
        (TypeChar::Int, 2) => DType::Int16,
        (TypeChar::Int, 1) => DType::Int8,
        (TypeChar::Uint, 8) => DType::UInt64,
        (TypeChar::Uint, 4) => DType::UInt32,
        (TypeChar::Uint, 2) => DType::UInt16,
        (TypeChar::Uint, 1) => DType::UInt8,
        (TypeChar::Complex, 16) => DType::ComplexDouble,
        (TypeChar::Complex, 8) => DType::ComplexFloat,
        // How NumPy writes ml_dtypes' bfloat16 and 8-bit floats: bytes without a type.
        (TypeChar::RawData, _) => {
            let message =
                format!("its elements have no type ({}): .npy has no bfloat16", descr.descr());
            return Err(DataError::new(message).note(HINT));
        }
        _ => return Err(unfit()),
    };
    Ok((dtype, plain.endianness()))
}

fn component_size(dtype: DType) -> usize {
    match dtype {
        DType::ComplexDouble | DType::ComplexFloat => dtype.size() / 2,
        _ => dtype.size(),
    }
}

fn swap(data: &mut [u8], size: usize) {
    for element in data.chunks_exact_mut(size) {
        element.reverse();
    }
}

/// Elements in Fortran order as elements in C order.
fn to_row_major(data: &[u8], size: usize, shape: &[usize]) -> Vec<u8> {
    let mut out = Vec::with_capacity(data.len());
    let mut index = vec![0usize; shape.len()];
    let mut at = 0;
    while out.len() < data.len() {
        out.extend_from_slice(&data[at * size..][..size]);
        // Counts the last axis fastest; `at` follows with Fortran strides.
        let mut stride = data.len() / size;
        for axis in (0..shape.len()).rev() {
            stride /= shape[axis];
            index[axis] += 1;
            at += stride;
            if index[axis] < shape[axis] {
                break;
            }
            at -= stride * shape[axis];
            index[axis] = 0;
        }
    }
    out
}

/// Writes a tensor.
///
/// # Errors
/// If its element type is none of the format's.
pub fn write(tensor: &HostTensor) -> Result<Vec<u8>, DataError> {
    let Some(kind) = kind(tensor.dtype()) else {
        let name = tensor.dtype().name();
        return Err(DataError::new(format!("a .npy file cannot hold {name}")).note(HINT));
    };
    let mut out = header(kind, tensor.dtype().size(), tensor.shape());
    if tensor.dtype() == DType::Bool {
        out.extend(tensor.bytes().iter().map(|byte| u8::from(*byte != 0)));
    } else {
        out.extend_from_slice(tensor.bytes());
    }
    Ok(out)
}

/// NumPy's letter for a type; `None` for those it lacks.
fn kind(dtype: DType) -> Option<char> {
    match dtype {
        DType::Double | DType::Float | DType::Half => Some('f'),
        DType::Int | DType::Index | DType::Int32 | DType::Int16 | DType::Int8 => Some('i'),
        DType::UInt64 | DType::UInt32 | DType::UInt16 | DType::UInt8 => Some('u'),
        DType::Bool => Some('b'),
        DType::BFloat16
        | DType::Float8E4M3
        | DType::Float8E5M2
        | DType::Float8E8M0
        | DType::Float4E2M1
        | DType::Float4E2M1x2
        | DType::ComplexFloat
        | DType::ComplexDouble => None,
    }
}

/// The header of version 1.0, byte for byte as NumPy writes it: room for the first extent to grow to 21
/// digits, then blanks up to a multiple of 64 bytes.
fn header(kind: char, size: usize, shape: &[usize]) -> Vec<u8> {
    let order = match (size, cfg!(target_endian = "big")) {
        (1, _) => '|',
        (_, false) => '<',
        (_, true) => '>',
    };
    let mut extents = String::new();
    for extent in shape {
        let _ = write!(extents, "{extent}, ");
    }
    let extents = match shape {
        [_] => extents.trim_end(),
        _ => extents.trim_end_matches(", "),
    };
    let mut text = format!(
        "{{'descr': '{order}{kind}{size}', 'fortran_order': False, 'shape': ({extents}), }}"
    );
    if let Some(first) = shape.first() {
        let room = 21usize.saturating_sub(first.to_string().len());
        text.extend(std::iter::repeat_n(' ', room));
    }
    let unpadded = MAGIC.len() + 2 + text.len() + 1;
    text.extend(std::iter::repeat_n(' ', unpadded.next_multiple_of(64) - unpadded));
    text.push('\n');
    let mut out = MAGIC.to_vec();
    out.extend_from_slice(&(text.len() as u16).to_le_bytes());
    out.extend_from_slice(text.as_bytes());
    out
}

/// `\x93NUMPY`, version 1.0.
const MAGIC: &[u8] = b"\x93NUMPY\x01\x00";

/// Whether [`write()`] takes tensors of this type.
pub fn can_hold(dtype: DType) -> bool {
    kind(dtype).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::generate::{Generator, fill};

    /// A file as NumPy writes it, by hand.
    fn file(descr: &str, fortran: bool, shape: &str, data: &[u8]) -> Vec<u8> {
        let order = if fortran { "True" } else { "False" };
        let mut header =
            format!("{{'descr': '{descr}', 'fortran_order': {order}, 'shape': {shape}, }}");
        while (10 + header.len() + 1) % 64 != 0 {
            header.push(' ');
        }
        header.push('\n');
        let mut out = b"\x93NUMPY\x01\x00".to_vec();
        out.extend((header.len() as u16).to_le_bytes());
        out.extend(header.bytes());
        out.extend(data);
        out
    }

    #[test]
    fn every_type_of_the_format_round_trips() {
        for &dtype in DType::ALL {
            let tensor = fill(Generator::Randn, dtype, &[3, 5, 2], 7, 0);
            if can_hold(dtype) {
                let back = read(&write(&tensor).unwrap()).unwrap();
                assert_eq!(back.bytes(), tensor.bytes(), "{dtype:?}");
                assert_eq!(back.shape(), tensor.shape());
            }
        }
    }

    #[test]
    fn scalars_and_empty_tensors_round_trip() {
        for shape in [&[][..], &[0][..], &[3, 0, 2][..]] {
            let tensor = HostTensor::zeros(DType::Float, shape);
            assert_eq!(read(&write(&tensor).unwrap()).unwrap(), tensor);
        }
    }

    #[test]
    fn written_bytes_are_numpys() {
        let tensor = HostTensor::from_bytes(DType::Int32, &[2], &[1, 0, 0, 0, 2, 0, 0, 0]).unwrap();
        let written = write(&tensor).unwrap();
        assert_eq!(&written[..8], b"\x93NUMPY\x01\x00");
        assert!(written.windows(5).any(|window| window == b"'<i4'"));
        assert_eq!(&written[written.len() - 8..], tensor.bytes());
    }

    #[test]
    fn fortran_order_is_transposed() {
        let data: Vec<u8> = (0..24).collect();
        let tensor = read(&file("|u1", true, "(2, 3, 4)", &data)).unwrap();
        for index in 0..24 {
            let [i, j, k] = [index / 12, index / 4 % 3, index % 4];
            assert_eq!(tensor.bytes()[index], (i + 2 * j + 6 * k) as u8);
        }
    }

    #[test]
    fn big_endian_is_swapped() {
        let data: Vec<u8> = [1.5f32, -2.0].iter().flat_map(|value| value.to_be_bytes()).collect();
        let tensor = read(&file(">f4", false, "(2,)", &data)).unwrap();
        assert_eq!(tensor.as_slice::<f32>(), [1.5, -2.0]);
    }

    #[test]
    fn headers_end_with_their_file() {
        let rest = b"{'descr': '<f4', 'fortran_order': False, 'shape': (0,), }\n";
        for version in [1u8, 2, 3] {
            let long = if version == 1 { vec![255; 2] } else { vec![255; 4] };
            let right = (rest.len() as u32).to_le_bytes();
            let right = right[..long.len()].to_vec();
            for (length, fits) in [(long, false), (right, true)] {
                let bytes = [b"\x93NUMPY", &[version, 0][..], &length, rest].concat();
                let found = read(&bytes).map_err(|error| error.message);
                match fits {
                    true => assert_eq!(found.unwrap().shape(), [0]),
                    false => assert!(found.unwrap_err().starts_with("its header is "), "{version}"),
                }
                // No part of a file is more than an error.
                (0..bytes.len()).for_each(|end| assert!(read(&bytes[..end]).is_err()));
            }
        }
        // A header of more than 64 KiB whose shape stands at its end.
        let header = format!(
            "{{'descr': '<f4', 'fortran_order': False,{} 'shape': (99999999999, 99999999999, 99), }}",
            " ".repeat(70_000)
        );
        let length = (header.len() as u32).to_le_bytes();
        let bytes = [b"\x93NUMPY\x02\x00", &length[..], header.as_bytes()].concat();
        assert_eq!(read(&bytes).unwrap_err().message, "its shape is too large");
        let bytes = file("<f4", false, "(0, 4294967296, 4294967296)", &[]);
        assert_eq!(read(&bytes).unwrap_err().message, "its shape is too large");
    }

    #[test]
    fn bfloat16_is_refused_with_a_hint() {
        let read = read(&file("<V2", false, "(1,)", &[0, 0])).unwrap_err();
        assert!(read.message.contains("no bfloat16"), "{read:?}");
        assert_eq!(read.note.as_deref(), Some(HINT));
        let written = write(&HostTensor::zeros(DType::BFloat16, &[1])).unwrap_err();
        assert_eq!(written.message, "a .npy file cannot hold __bfloat");
    }

    #[test]
    fn damaged_files_are_errors() {
        for bytes in [&b""[..], b"\x93NUMPY", b"PK\x03\x04", &file("<f4", false, "(3,)", &[0; 8])] {
            assert!(read(bytes).is_err());
        }
        let huge = file("<f8", false, "(4294967296, 4294967296)", &[]);
        assert!(read(&huge).is_err());
        assert!(
            read(&file("<U3", false, "(1,)", &[0; 12]))
                .unwrap_err()
                .message
                .contains("no type of a host program")
        );
    }
}
