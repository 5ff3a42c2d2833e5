//! Safetensors files: named tensors of all types of host programs except complex numbers of doubles.
//!
//! The format's `F4` is packed FP4: two numbers of the last axis are a byte, as of `torch.float4_e2m1fn_x2`. It is read as
//! `__e2m1_x2`, whose last axis counts bytes.

use super::{DataError, ReadError, read_tensor};
use hostir::data::HostTensor;
use hostir::diag::message;
use hostir::diag::{Message, nearest_candidate};
use hostir::ir::DType;
use safetensors::tensor::{Dtype, TensorInfo, TensorView};
use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, Visitor};
use std::borrow::Cow;
use std::io::Read;

/// Element types, ours and the format's.
const TYPES: &[(DType, Dtype)] = &[
    (DType::Double, Dtype::F64),
    (DType::Float, Dtype::F32),
    (DType::Half, Dtype::F16),
    (DType::BFloat16, Dtype::BF16),
    (DType::Float8E4M3, Dtype::F8_E4M3),
    (DType::Float8E5M2, Dtype::F8_E5M2),
    (DType::Float8E8M0, Dtype::F8_E8M0),
    (DType::Int8, Dtype::I8),
    (DType::Int16, Dtype::I16),
    (DType::Int32, Dtype::I32),
    (DType::Int, Dtype::I64),
    (DType::Index, Dtype::I64),
    (DType::UInt8, Dtype::U8),
    (DType::UInt16, Dtype::U16),
    (DType::UInt32, Dtype::U32),
    (DType::UInt64, Dtype::U64),
    (DType::Bool, Dtype::BOOL),
    (DType::ComplexFloat, Dtype::C64),
    (DType::Float4E2M1x2, Dtype::F4),
];

/// Most bytes of a header, as the format says.
const MAX_HEADER: u64 = 100_000_000;
/// Most axes of a tensor.
const MAX_AXES: usize = 64;

/// Reads the entry `name`, or the only one, from a file or stream; `size` is the file's length if that is known. Keeps
/// nothing of the other entries.
///
/// # Errors
/// See [`ReadError`].
pub fn read_safetensors(input: &mut dyn Read, size: Option<u64>, name: Option<&str>) -> Result<HostTensor, ReadError> {
    let (header, start) = read_header(input, size)?;
    let end = check_offsets(&header)?;
    if let Some(found) = size.map(|size| size.saturating_sub(start)).filter(|found| *found != end) {
        let message = message!("its tensors need {} bytes of data, but it has {}", end, found);
        return Err(DataError::new(message).into());
    }
    let (entry, info) = find_entry(&header, name)?;
    let found = TYPES.iter().find(|(_, theirs)| *theirs == info.dtype);
    let &(dtype, _) = found.ok_or_else(|| {
        let found = info.dtype;
        DataError::new(format!("the element type {found:?} of `{entry}` does not exist in host programs"))
    })?;
    let (from, to) = info.data_offsets;
    skip_bytes(input, from as u64)?;
    let shape = stored_shape(entry, dtype, &info.shape)?;
    let tensor = read_tensor(input, dtype, &shape)?;
    skip_bytes(input, end - to as u64)?;
    Ok(tensor)
}

/// The shape of a tensor in elements of ours.
fn stored_shape(entry: &str, dtype: DType, shape: &[usize]) -> Result<Vec<usize>, DataError> {
    let mut stored = shape.to_vec();
    if dtype == DType::Float4E2M1x2 {
        let Some(last) = stored.last_mut().filter(|last| last.is_multiple_of(2)) else {
            let message = message!("`{}` is F4 with an odd last axis, but two numbers are a byte", shorten_name(entry));
            return Err(DataError::new(message));
        };
        *last /= 2;
    }
    Ok(stored)
}

/// Passes over so many bytes.
fn skip_bytes(input: &mut dyn Read, bytes: u64) -> Result<(), ReadError> {
    let passed = std::io::copy(&mut input.take(bytes), &mut std::io::sink())?;
    if passed < bytes {
        return Err(DataError::new("the file ends within its data").into());
    }
    Ok(())
}

/// The tensors that a header describes, by name.
struct SafetensorsHeader(Vec<(String, TensorInfo)>);

impl<'de> Deserialize<'de> for SafetensorsHeader {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(HeaderVisitor)
    }
}

/// Keeps repeated names, which a map would not.
struct HeaderVisitor;

impl<'de> Visitor<'de> for HeaderVisitor {
    type Value = SafetensorsHeader;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("tensors by name")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<SafetensorsHeader, A::Error> {
        let mut entries = Vec::new();
        while let Some(name) = map.next_key::<String>()? {
            if name == "__metadata__" {
                map.next_value::<IgnoredAny>()?;
            } else {
                entries.push((name, map.next_value()?));
            }
        }
        Ok(SafetensorsHeader(entries))
    }
}

/// Reads the header; returns the entries in the order of their names, and the start of the data.
fn read_header(input: &mut dyn Read, size: Option<u64>) -> Result<(SafetensorsHeader, u64), ReadError> {
    let mut length = Vec::new();
    input.take(8).read_to_end(&mut length)?;
    let damaged = |message: Message| Err(DataError::new(message).into());
    let Ok(length) = length.try_into().map(u64::from_le_bytes) else {
        return damaged("not a .safetensors file: it has fewer than 8 bytes".into());
    };
    if length > MAX_HEADER {
        let message = message!(
            "not a .safetensors file: its header would have {} bytes, but the limit is {}",
            length,
            MAX_HEADER
        );
        return damaged(message);
    }
    let mut text = Vec::new();
    if size.is_none_or(|size| size.saturating_sub(8) >= length) {
        input.take(length).read_to_end(&mut text)?;
    }
    if (text.len() as u64) < length {
        return damaged(message!("its header of {} bytes extends beyond the end of the file", length));
    }
    let mut header: SafetensorsHeader = serde_json::from_slice(&text).map_err(|error| not_parsed(&error))?;
    header.0.sort_by(|(a, _), (b, _)| a.cmp(b));
    match header.0.windows(2).find(|pair| pair[0].0 == pair[1].0) {
        Some(twice) => damaged(message!("it contains `{}` twice", shorten_name(&twice[0].0))),
        None => Ok((header, 8 + length)),
    }
}

fn not_parsed(error: &serde_json::Error) -> DataError {
    let place = format!("line {}, column {}", error.line(), error.column().max(1));
    if error.is_data() {
        DataError::new(format!("its header does not describe a tensor at {place}"))
            .with_note("each tensor needs a `dtype` of the format, a `shape` and `data_offsets`")
    } else {
        DataError::new(format!("its header is not valid JSON at {place}"))
    }
}

/// Checks that the tensors follow each other without gaps and have the lengths of their shapes; returns the end of the
/// last.
fn check_offsets(header: &SafetensorsHeader) -> Result<u64, DataError> {
    let mut order: Vec<&(String, TensorInfo)> = header.0.iter().collect();
    order.sort_by_key(|(_, info)| info.data_offsets);
    let mut at = 0;
    for (name, info) in order {
        let name = shorten_name(name);
        let (from, to) = info.data_offsets;
        if info.shape.len() > MAX_AXES {
            let message = message!("the shape of `{}` has more than {} axes", name, MAX_AXES);
            return Err(DataError::new(message));
        }
        if from != at || to < from {
            let message = message!("the data of `{}` start at byte {} instead of {}", name, from, at);
            return Err(DataError::new(message));
        }
        let bits = info.shape.iter().try_fold(info.dtype.bitsize(), |bits, extent| bits.checked_mul((*extent).max(1)));
        let empty = info.shape.contains(&0);
        let needed = bits.ok_or_else(|| DataError::new(format!("the shape of `{name}` is too large")))?;
        let needed = if empty { 0 } else { needed };
        if needed != (to - from).saturating_mul(8) {
            let (needed, found) = (needed.div_ceil(8), to - from);
            let message = message!("the shape of `{}` needs {} bytes of data, but it has {}", name, needed, found);
            return Err(DataError::new(message));
        }
        at = to;
    }
    Ok(at as u64)
}

/// The entry to read.
fn find_entry<'h>(header: &'h SafetensorsHeader, name: Option<&str>) -> Result<(&'h str, &'h TensorInfo), ReadError> {
    let names: Vec<&str> = header.0.iter().map(|(name, _)| name.as_str()).collect();
    let listed = format!("it contains {}", list_names(&names));
    let Some(name) = name else {
        return match names[..] {
            [_] => Ok(entry_at(header, 0)),
            [] => Err(ReadError::Entry(DataError::new("it holds no tensor"))),
            [first, ..] => {
                let message = message!("it contains {} tensors, and none is selected", names.len());
                let note = message!("append `:{}`; {}", shorten_name(first), listed);
                Err(ReadError::Entry(DataError::new(message).with_note(note)))
            }
        };
    };
    if let Ok(at) = names.binary_search(&name) {
        return Ok(entry_at(header, at));
    }
    let near = nearest_candidate(name, names.iter().copied());
    let note = near.map_or(listed, |near| format!("did you mean `{near}`?"));
    let message = message!("it contains no tensor `{}`", name);
    Err(ReadError::Entry(DataError::new(message).with_note(note)))
}

fn entry_at(header: &SafetensorsHeader, at: usize) -> (&str, &TensorInfo) {
    (header.0[at].0.as_str(), &header.0[at].1)
}

/// The start of a name, as long as fits a message.
fn shorten_name(name: &str) -> Cow<'_, str> {
    const SHOWN: usize = 60;
    match name.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{}…", &name[..end]).into(),
        None => name.into(),
    }
}

fn list_names(names: &[&str]) -> String {
    const SHOWN: usize = 8;
    let mut text: Vec<String> = names.iter().take(SHOWN).map(|name| format!("`{}`", shorten_name(name))).collect();
    if names.len() > SHOWN {
        text.push(format!("{} more", names.len() - SHOWN));
    }
    if text.is_empty() { "nothing".to_owned() } else { text.join(", ") }
}

/// Writes tensors into one file.
///
/// # Errors
/// If an element type is none of the format's.
pub fn write_safetensors(tensors: &[(String, &HostTensor)]) -> Result<Vec<u8>, DataError> {
    let mut views = Vec::new();
    let mut packed = Vec::new();
    for (name, tensor) in tensors {
        packed.push(match tensor.dtype() {
            DType::Float4E2M1 => Cow::Owned(tensor.pack_pairs().ok_or_else(|| odd_axis(name))?),
            _ => Cow::Borrowed(*tensor),
        });
    }
    for ((name, _), tensor) in tensors.iter().zip(&packed) {
        let found = TYPES.iter().find(|(ours, _)| *ours == tensor.dtype());
        let &(_, dtype) = found
            .ok_or_else(|| DataError::new(format!("a .safetensors file cannot store {}", tensor.dtype().name())))?;
        let mut shape = tensor.shape().to_vec();
        if let (DType::Float4E2M1x2, Some(last)) = (tensor.dtype(), shape.last_mut()) {
            *last *= 2;
        }
        let view = TensorView::new(dtype, shape, tensor.bytes());
        views.push((name.as_str(), view.map_err(|error| DataError::new(error.to_string()))?));
    }
    safetensors::serialize(views, None).map_err(|error| DataError::new(error.to_string()))
}

fn odd_axis(name: &str) -> DataError {
    let message = message!("`{}` is stored as pairs along its last axis, which has an odd extent", shorten_name(name));
    DataError::new(message).with_note("cast it to `float` to store it")
}

/// True if [`write_safetensors()`] takes tensors of this type.
pub fn can_hold(dtype: DType) -> bool {
    dtype == DType::Float4E2M1 || TYPES.iter().any(|(ours, _)| *ours == dtype)
}

#[cfg(test)]
mod tests {
    use super::*;
    use hostir::data::generate::{TensorGenerator, generate_tensor};

    /// The tensor of a file of these bytes, which a stream of them gives as well.
    fn read(bytes: &[u8], name: Option<&str>) -> Result<HostTensor, ReadError> {
        let stream = super::read_safetensors(&mut &*bytes, None, name);
        let file = super::read_safetensors(&mut &*bytes, Some(bytes.len() as u64), name);
        assert_eq!(stream.is_ok(), file.is_ok(), "{stream:?} {file:?}");
        file
    }

    /// A file of this header and so many bytes of data.
    fn file(header: &str, data: usize) -> Vec<u8> {
        [&(header.len() as u64).to_le_bytes()[..], header.as_bytes(), &vec![1; data]].concat()
    }

    fn damage(bytes: &[u8]) -> String {
        match read(bytes, None) {
            Err(ReadError::Damaged(error)) => error.message.to_string(),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn what_is_wrong_is_said() {
        let one = |rest: &str| format!("{{\"a\":{{\"dtype\":\"F32\",{rest}}}}}");
        let cases = [
            (one("\"shape\":[2],\"data_offsets\":[0,8]"), 4, "its tensors need 8 bytes of data, but it has 4"),
            (one("\"shape\":[3],\"data_offsets\":[0,8]"), 8, "the shape of `a` needs 12 bytes of data, but it has 8"),
            (one("\"shape\":[2],\"data_offsets\":[4,12]"), 12, "the data of `a` start at byte 4 instead of 0"),
            (one("\"shape\":[2],\"data_offsets\":[8,0]"), 8, "the data of `a` start at byte 8 instead of 0"),
            (one("\"shape\":[0,4294967296,4294967296],\"data_offsets\":[0,0]"), 0, "the shape of `a` is too large"),
            (one("\"shape\":[2]"), 8, "its header does not describe a tensor at line 1, column 32"),
            (
                one("\"shape\":[-2],\"data_offsets\":[0,8]"),
                8,
                "its header does not describe a tensor at line 1, column 31",
            ),
            ("[".repeat(100_000), 0, "its header does not describe a tensor at line 1, column 1"),
            (
                format!("{{\"a\":{}", "{\"shape\":".repeat(100_000)),
                0,
                "its header does not describe a tensor at line 1, column 14",
            ),
            ("{\"a\"".to_owned(), 0, "its header is not valid JSON at line 1, column 4"),
        ];
        for (header, data, message) in cases {
            let bytes = file(&header, data);
            let found = match super::read_safetensors(&mut &bytes[..], Some(bytes.len() as u64), None) {
                Err(ReadError::Damaged(error)) => error.message.to_string(),
                other => panic!("{other:?}"),
            };
            assert_eq!(found, message, "{}", &header[..header.len().min(80)]);
        }
        assert_eq!(damage(b"junk"), "not a .safetensors file: it has fewer than 8 bytes");
        let huge = damage(&u64::MAX.to_le_bytes());
        assert!(huge.starts_with("not a .safetensors file: its header would have 18446744073709551615"));
        assert_eq!(damage(&99u64.to_le_bytes()), "its header of 99 bytes extends beyond the end of the file");
    }

    /// The second of two equal names would silently replace the first.
    #[test]
    fn names_come_once() {
        let tensor = "{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}";
        let twice = file(&format!("{{\"a\":{tensor},\"\\u0061\":{tensor}}}"), 1);
        assert_eq!(damage(&twice), "it contains `a` twice");
        let long = "x".repeat(1000);
        let twice = file(&format!("{{\"{long}\":{tensor},\"{long}\":{tensor}}}"), 1);
        assert_eq!(damage(&twice), format!("it contains `{}…` twice", "x".repeat(60)));
    }

    /// Every truncation, and every byte of the header as every other byte: an error or a tensor of the same bytes,
    /// never a panic.
    #[test]
    fn damaged_headers() {
        let tensor = generate_tensor(TensorGenerator::Iota, DType::Float, &[3], 0, 0);
        let mut whole = write_safetensors(&[("weight".to_owned(), &tensor)]).unwrap();
        (0..whole.len()).for_each(|end| assert!(read(&whole[..end], None).is_err(), "{end}"));
        for at in 0..whole.len() - 12 {
            let right = whole[at];
            for byte in 0..=255 {
                whole[at] = byte;
                match super::read_safetensors(&mut &whole[..], Some(whole.len() as u64), None) {
                    Ok(found) => assert_eq!(found.bytes().len(), 12, "{at} {byte}"),
                    Err(_) => assert_ne!(byte, right),
                }
            }
            whole[at] = right;
        }
    }

    #[test]
    fn every_type_round_trips_in_one_file() {
        let tensors: Vec<(String, HostTensor)> = TYPES
            .iter()
            .filter(|(dtype, _)| *dtype != DType::Index)
            .map(|(dtype, _)| (dtype.name().to_owned(), generate_tensor(TensorGenerator::Randn, *dtype, &[2, 3], 1, 0)))
            .collect();
        let entries: Vec<(String, &HostTensor)> = tensors.iter().map(|(name, tensor)| (name.clone(), tensor)).collect();
        let bytes = write_safetensors(&entries).unwrap();
        for (name, tensor) in &tensors {
            assert_eq!(read(&bytes, Some(name)).unwrap(), *tensor, "{name}");
        }
    }

    #[test]
    fn bfloat16_keeps_its_bits() {
        let mut tensor = HostTensor::zeros(DType::BFloat16, &[3]);
        for (index, value) in [1.0, -0.1, f64::NAN].into_iter().enumerate() {
            tensor.set_f64(index, value);
        }
        let bytes = write_safetensors(&[("w".to_owned(), &tensor)]).unwrap();
        assert_eq!(read(&bytes, None).unwrap().bytes(), tensor.bytes());
    }

    #[test]
    fn the_only_tensor_needs_no_name_and_others_are_suggested() {
        let tensor = HostTensor::zeros(DType::Int, &[1]);
        let one = write_safetensors(&[("weight".to_owned(), &tensor)]).unwrap();
        assert!(read(&one, None).is_ok());
        let ReadError::Entry(error) = read(&one, Some("wieght")).unwrap_err() else { panic!() };
        assert_eq!(error.note.as_deref(), Some("did you mean `weight`?"));
        let two = write_safetensors(&[("a".to_owned(), &tensor), ("b".to_owned(), &tensor)]).unwrap();
        let ReadError::Entry(error) = read(&two, None).unwrap_err() else { panic!() };
        assert_eq!(error.message, "it contains 2 tensors, and none is selected");
        assert_eq!(error.note.as_deref(), Some("append `:a`; it contains `a`, `b`"));
    }

    #[test]
    fn damaged_files_and_unfit_types_are_errors() {
        assert!(matches!(read(b"junk", None), Err(ReadError::Damaged(_))));
        assert!(write_safetensors(&[("x".to_owned(), &HostTensor::zeros(DType::ComplexDouble, &[1]))]).is_err());
    }
}
