//! NumPy's `.npy` files.
//!
//! Read: booleans, integers, floats and complex numbers of 1 to 16 bytes, either byte order, C and
//! Fortran order. Written: C order, native byte order. The format has no bfloat16 and no 8-bit floats.

mod header;

use super::{DataError, ReadError, read_tensor, tensor_bytes};
use header::NpyHeader;
use hostir::data::HostTensor;
use hostir::diag::message;
use hostir::ir::DType;
use std::fmt::Write as _;
use std::io::Read;

const HINT: &str = "use a .safetensors file instead";

/// Reads a tensor from a file or stream; `size` is the file's length if that is known.
///
/// # Errors
/// If the file cannot be read, is damaged or does not contain numbers.
pub fn read_npy(input: &mut dyn Read, size: Option<u64>) -> Result<HostTensor, ReadError> {
    let header = NpyHeader::read_header(input)?;
    let (dtype, big_endian) = parse_descr(&header.descr)?;
    let len = tensor_bytes(dtype, &header.shape).ok_or_else(|| DataError::new("its shape is too large"))?;
    let found = size.map(|size| size.saturating_sub(header.bytes as u64));
    if let Some(found) = found.filter(|found| *found != len as u64) {
        let message = message!("its shape needs {} bytes of data, but it has {}", len, found);
        return Err(DataError::new(message).into());
    }
    let mut tensor = read_tensor(input, dtype, &header.shape)?;
    if up_to_one(input)? {
        let message = message!("its shape needs {} bytes of data, but it has more", len);
        return Err(DataError::new(message).into());
    }
    if big_endian != cfg!(target_endian = "big") {
        swap_bytes(tensor.bytes_mut(), component_size(dtype));
    }
    if header.fortran {
        let data = to_row_major(tensor.bytes(), dtype.byte_size(), &header.shape);
        tensor.bytes_mut().copy_from_slice(&data);
    }
    Ok(tensor)
}

/// Tells if one more byte comes.
fn up_to_one(input: &mut dyn Read) -> std::io::Result<bool> {
    Ok(input.take(1).read_to_end(&mut Vec::new())? > 0)
}

/// The element type of a file, and whether its first byte is the most significant one.
fn parse_descr(descr: &str) -> Result<(DType, bool), DataError> {
    let (order, kind) = match descr.split_at_checked(1) {
        Some((order @ ("<" | ">" | "|" | "="), kind)) => (order, kind),
        _ => ("=", descr),
    };
    let dtype = match kind {
        "b1" => DType::Bool,
        "f8" => DType::Double,
        "f4" => DType::Float,
        "f2" => DType::Half,
        "i8" => DType::Int,
        "i4" => DType::Int32,
        "i2" => DType::Int16,
        "i1" => DType::Int8,
        "u8" => DType::UInt64,
        "u4" => DType::UInt32,
        "u2" => DType::UInt16,
        "u1" => DType::UInt8,
        "c16" => DType::ComplexDouble,
        "c8" => DType::ComplexFloat,
        // NumPy writes ml_dtypes' bfloat16 and 8-bit floats as bytes without a type.
        _ if kind.starts_with('V') => {
            let message = message!("its elements have no type ({}): .npy does not support bfloat16", descr);
            return Err(DataError::new(message).with_note(HINT));
        }
        _ => {
            let message = message!("its element type {} does not exist in host programs", descr);
            let note = "save an array of numbers; split a structured array into one file per field";
            return Err(DataError::new(message).with_note(note));
        }
    };
    let big_endian = match order {
        ">" => true,
        "<" => false,
        _ => cfg!(target_endian = "big"),
    };
    Ok((dtype, big_endian))
}

fn component_size(dtype: DType) -> usize {
    match dtype {
        DType::ComplexDouble | DType::ComplexFloat => dtype.byte_size() / 2,
        _ => dtype.byte_size(),
    }
}

fn swap_bytes(data: &mut [u8], size: usize) {
    for element in data.chunks_exact_mut(size) {
        element.reverse();
    }
}

/// Converts elements in Fortran order to C order.
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
/// If the format lacks its element type.
pub fn write_npy(tensor: &HostTensor) -> Result<Vec<u8>, DataError> {
    let Some(kind) = type_letter(tensor.dtype()) else {
        let name = tensor.dtype().name();
        return Err(DataError::new(format!("a .npy file cannot store {name}")).with_note(HINT));
    };
    let mut out = format_header(kind, tensor.dtype().byte_size(), tensor.shape());
    if tensor.dtype() == DType::Bool {
        out.extend(tensor.bytes().iter().map(|byte| u8::from(*byte != 0)));
    } else {
        out.extend_from_slice(tensor.bytes());
    }
    Ok(out)
}

/// NumPy's letter for a type; `None` for those it lacks.
fn type_letter(dtype: DType) -> Option<char> {
    match dtype {
        DType::Double | DType::Float | DType::Half => Some('f'),
        DType::Int | DType::Index | DType::Int32 | DType::Int16 | DType::Int8 => Some('i'),
        DType::UInt64 | DType::UInt32 | DType::UInt16 | DType::UInt8 => Some('u'),
        DType::Bool => Some('b'),
        DType::ComplexFloat | DType::ComplexDouble => Some('c'),
        DType::BFloat16
        | DType::Float8E4M3
        | DType::Float8E5M2
        | DType::Float8E8M0
        | DType::Float4E2M1
        | DType::Float4E2M1x2
        | DType::Kernel(_) => None,
    }
}

/// The header of version 1.0, byte for byte as NumPy writes it: room for the first extent to grow to 21
/// digits, then blanks up to a multiple of 64 bytes.
fn format_header(kind: char, size: usize, shape: &[usize]) -> Vec<u8> {
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
    let mut text = format!("{{'descr': '{order}{kind}{size}', 'fortran_order': False, 'shape': ({extents}), }}");
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

/// True if [`write_npy()`] takes tensors of this type.
pub fn can_hold(dtype: DType) -> bool {
    type_letter(dtype).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;
    use hostir::data::generate::{TensorGenerator, generate_tensor};

    /// The tensor of a file of these bytes, which a stream of them gives as well.
    fn read(bytes: &[u8]) -> Result<HostTensor, DataError> {
        let error = |error| match error {
            ReadError::Damaged(error) => error,
            other => panic!("{other:?}"),
        };
        let stream = super::read_npy(&mut &*bytes, None).map_err(error);
        let file = super::read_npy(&mut &*bytes, Some(bytes.len() as u64)).map_err(error);
        assert_eq!(stream.is_ok(), file.is_ok(), "{stream:?} {file:?}");
        file
    }

    /// A file as NumPy writes it, by hand.
    fn file(descr: &str, fortran: bool, shape: &str, data: &[u8]) -> Vec<u8> {
        let order = if fortran { "True" } else { "False" };
        let mut header = format!("{{'descr': '{descr}', 'fortran_order': {order}, 'shape': {shape}, }}");
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
            let tensor = generate_tensor(TensorGenerator::Randn, dtype, &[3, 5, 2], 7, 0);
            if can_hold(dtype) {
                let back = read(&write_npy(&tensor).unwrap()).unwrap();
                assert_eq!(back.bytes(), tensor.bytes(), "{dtype:?}");
                assert_eq!(back.shape(), tensor.shape());
            }
        }
    }

    #[test]
    fn scalars_and_empty_tensors_round_trip() {
        for shape in [&[][..], &[0][..], &[3, 0, 2][..]] {
            let tensor = HostTensor::zeros(DType::Float, shape);
            assert_eq!(read(&write_npy(&tensor).unwrap()).unwrap(), tensor);
        }
    }

    #[test]
    fn written_bytes_are_numpys() {
        let tensor = HostTensor::from_bytes(DType::Int32, &[2], &[1, 0, 0, 0, 2, 0, 0, 0]).unwrap();
        let written = write_npy(&tensor).unwrap();
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
                let found = read(&bytes).map_err(|error| error.message.to_string());
                match fits {
                    true => assert_eq!(found.unwrap().shape(), [0]),
                    false => assert!(found.unwrap_err().starts_with("its header has "), "{version}"),
                }
                // No part of a file is more than an error.
                (0..bytes.len()).for_each(|end| assert!(read(&bytes[..end]).is_err()));
            }
        }
        // A shape that stands at the end of a long header, and a header that is too long.
        for blanks in [60_000, 70_000] {
            let header = format!(
                "{{'descr': '<f4', 'fortran_order': False,{} 'shape': (99999999999, 99999999999, 99), }}",
                " ".repeat(blanks)
            );
            let length = (header.len() as u32).to_le_bytes();
            let bytes = [b"\x93NUMPY\x02\x00", &length[..], header.as_bytes()].concat();
            let message = read(&bytes).unwrap_err().message;
            match blanks {
                60_000 => assert_eq!(message, "its shape is too large"),
                _ => assert_eq!(message, "its header has 70083 bytes, but the limit is 65536"),
            }
        }
        let bytes = file("<f4", false, "(0, 4294967296, 4294967296)", &[]);
        assert_eq!(read(&bytes).unwrap_err().message, "its shape is too large");
    }

    #[test]
    fn bfloat16_is_refused_with_a_hint() {
        let read = read(&file("<V2", false, "(1,)", &[0, 0])).unwrap_err();
        assert!(read.message.contains("does not support bfloat16"), "{read:?}");
        assert_eq!(read.note.as_deref(), Some(HINT));
        let written = write_npy(&HostTensor::zeros(DType::BFloat16, &[1])).unwrap_err();
        assert_eq!(written.message, "a .npy file cannot store __bfloat");
    }

    #[test]
    fn damaged_files_are_errors() {
        for bytes in [&b""[..], b"\x93NUMPY", b"PK\x03\x04", &file("<f4", false, "(3,)", &[0; 8])] {
            assert!(read(bytes).is_err());
        }
        let huge = file("<f8", false, "(4294967296, 4294967296)", &[]);
        assert!(read(&huge).is_err());
        for (descr, data) in [("<U3", 12), ("<f16", 16), ("O", 8), ("<M8[ns]", 8), ("f3", 3)] {
            let message = read(&file(descr, false, "(1,)", &vec![0; data])).unwrap_err().message;
            assert_eq!(message, format!("its element type {descr} does not exist in host programs"));
        }
        let version = [b"\x93NUMPY\x04\x00", &[0; 20][..]].concat();
        assert_eq!(read(&version).unwrap_err().message, "version 4 of the .npy format is not supported");
    }

    #[test]
    fn records_are_refused_with_their_text() {
        let text = "{'descr': [('a', '<f4'), ('b', '<i8', (2, 2))], 'fortran_order': False, 'shape': (1,)}";
        let bytes = [b"\x93NUMPY\x01\x00", &[text.len() as u8, 0][..], text.as_bytes()].concat();
        let error = read(&bytes).unwrap_err();
        let found = "its element type [('a', '<f4'), ('b', '<i8', (2, 2))] does not exist in host programs";
        assert_eq!(error.message, found);
        assert!(error.note.unwrap().contains("one file per field"));
    }

    /// A library whose parser backtracks took minutes for this; a second would be thousands of times the expected time.
    #[test]
    fn nesting_costs_nothing() {
        for (open, close) in [("[", "]"), ("(", ")"), ("{", "}")] {
            for depth in [20, 1000, 30_000] {
                let deep = open.repeat(depth) + &close.repeat(depth);
                for text in [&deep, &open.repeat(depth)] {
                    let text = format!("{{'descr': {text}, 'fortran_order': False, 'shape': ()}}");
                    let length = (text.len() as u32).to_le_bytes();
                    let bytes = [b"\x93NUMPY\x02\x00", &length[..], text.as_bytes()].concat();
                    let began = std::time::Instant::now();
                    assert!(read(&bytes).is_err());
                    assert!(began.elapsed() < std::time::Duration::from_secs(1), "{depth} {open}");
                }
            }
        }
    }

    /// Every truncation, and every byte of the header as every other byte: an error or a tensor of the same bytes,
    /// never a panic.
    #[test]
    fn damaged_headers() {
        let data: Vec<u8> = (0..48).collect();
        let mut whole = file("<f4", false, "(3, 4)", &data);
        (0..whole.len()).for_each(|end| assert!(read(&whole[..end]).is_err(), "{end}"));
        let header = whole.len() - data.len();
        for at in 0..header {
            let right = whole[at];
            for byte in 0..=255 {
                whole[at] = byte;
                if let Ok(tensor) = read(&whole) {
                    assert_eq!(tensor.bytes().len(), data.len(), "{at} {byte}");
                } else {
                    assert_ne!(byte, right);
                }
            }
            whole[at] = right;
        }
    }

    /// A stream that announces more than there is memory for, and one that never ends.
    #[test]
    fn streams_are_bounded() {
        let huge = file("<f8", false, "(72057594037927936,)", &[]);
        let mut endless = (&huge[..]).chain(std::io::repeat(0));
        let ReadError::Damaged(error) = super::read_npy(&mut endless, None).unwrap_err() else { panic!() };
        assert!(error.message.ends_with("exceeds the memory of this machine"), "{error:?}");
        let two = file("<f8", false, "(2,)", &[]);
        let mut endless = (&two[..]).chain(std::io::repeat(0));
        let ReadError::Damaged(error) = super::read_npy(&mut endless, None).unwrap_err() else { panic!() };
        assert_eq!(error.message, "its shape needs 16 bytes of data, but it has more");
        assert!(super::read_npy(&mut std::io::repeat(0), None).is_err());
    }
}
