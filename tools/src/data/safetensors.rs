//! Safetensors files: named tensors of all types that host programs have but packed FP4.

use super::DataError;
use hostir::data::HostTensor;
use hostir::diag::nearest;
use hostir::ir::DType;
use safetensors::SafeTensors;
use safetensors::tensor::{Dtype, TensorView};

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
];

/// What is wrong with reading an entry.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ReadError {
    /// The file is damaged, or the entry's type is none of ours.
    Damaged(DataError),
    /// There is no such entry, or several and none was named.
    Entry(DataError),
}

/// Reads the entry `name`, or the only one.
///
/// # Errors
/// See [`ReadError`].
pub fn read(bytes: &[u8], name: Option<&str>) -> Result<HostTensor, ReadError> {
    let damaged = |text: String| ReadError::Damaged(DataError::new(text));
    let file = SafeTensors::deserialize(bytes)
        .map_err(|error| damaged(format!("not a .safetensors file: {error}")))?;
    let entry = entry(&file, name)?;
    let view = file.tensor(&entry).map_err(|error| damaged(error.to_string()))?;
    let found = TYPES.iter().find(|(_, theirs)| *theirs == view.dtype());
    let &(dtype, _) = found.ok_or_else(|| {
        damaged(format!("`{entry}` is {:?}, which is no type of a host program", view.dtype()))
    })?;
    let tensor = HostTensor::from_bytes(dtype, view.shape(), view.data());
    tensor.ok_or_else(|| damaged(format!("the data of `{entry}` does not fit its shape")))
}

/// The name of the entry to read.
fn entry(file: &SafeTensors<'_>, name: Option<&str>) -> Result<String, ReadError> {
    let mut names = file.names();
    names.sort_unstable();
    let listed = format!("it holds {}", list(&names));
    let Some(name) = name else {
        return match names[..] {
            [only] => Ok(only.to_owned()),
            [] => Err(ReadError::Entry(DataError::new("it holds no tensor"))),
            [first, ..] => {
                let message = format!("it holds {} tensors and none is named", names.len());
                Err(ReadError::Entry(
                    DataError::new(message).note(format!("append `:{first}`; {listed}")),
                ))
            }
        };
    };
    if names.contains(&name) {
        return Ok(name.to_owned());
    }
    let near = nearest(name, names.iter().copied());
    let message = format!("it holds no tensor `{name}`");
    Err(ReadError::Entry(
        DataError::new(message).note(near.map_or(listed, |near| format!("did you mean `{near}`?"))),
    ))
}

fn list(names: &[&str]) -> String {
    const SHOWN: usize = 8;
    let mut text: Vec<String> = names.iter().take(SHOWN).map(|name| format!("`{name}`")).collect();
    if names.len() > SHOWN {
        text.push(format!("{} more", names.len() - SHOWN));
    }
    if text.is_empty() { "nothing".to_owned() } else { text.join(", ") }
}

/// Writes tensors into one file.
///
/// # Errors
/// If an element type is none of the format's.
pub fn write(tensors: &[(String, &HostTensor)]) -> Result<Vec<u8>, DataError> {
    let mut views = Vec::new();
    for (name, tensor) in tensors {
        let found = TYPES.iter().find(|(ours, _)| *ours == tensor.dtype());
        let &(_, dtype) = found.ok_or_else(|| {
            DataError::new(format!("a .safetensors file cannot hold {}", tensor.dtype().name()))
        })?;
        let view = TensorView::new(dtype, tensor.shape().to_vec(), tensor.bytes());
        views.push((name.as_str(), view.map_err(|error| DataError::new(error.to_string()))?));
    }
    safetensors::serialize(views, None).map_err(|error| DataError::new(error.to_string()))
}

/// Whether [`write()`] takes tensors of this type.
pub fn can_hold(dtype: DType) -> bool {
    TYPES.iter().any(|(ours, _)| *ours == dtype)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::generate::{Generator, fill};

    #[test]
    fn every_type_round_trips_in_one_file() {
        let tensors: Vec<(String, HostTensor)> = TYPES
            .iter()
            .filter(|(dtype, _)| *dtype != DType::Index)
            .map(|(dtype, _)| {
                (dtype.name().to_owned(), fill(Generator::Randn, *dtype, &[2, 3], 1, 0))
            })
            .collect();
        let entries: Vec<(String, &HostTensor)> =
            tensors.iter().map(|(name, tensor)| (name.clone(), tensor)).collect();
        let bytes = write(&entries).unwrap();
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
        let bytes = write(&[("w".to_owned(), &tensor)]).unwrap();
        assert_eq!(read(&bytes, None).unwrap().bytes(), tensor.bytes());
    }

    #[test]
    fn the_only_tensor_needs_no_name_and_others_are_suggested() {
        let tensor = HostTensor::zeros(DType::Int, &[1]);
        let one = write(&[("weight".to_owned(), &tensor)]).unwrap();
        assert!(read(&one, None).is_ok());
        let ReadError::Entry(error) = read(&one, Some("wieght")).unwrap_err() else { panic!() };
        assert_eq!(error.note.as_deref(), Some("did you mean `weight`?"));
        let two = write(&[("a".to_owned(), &tensor), ("b".to_owned(), &tensor)]).unwrap();
        let ReadError::Entry(error) = read(&two, None).unwrap_err() else { panic!() };
        assert_eq!(error.message, "it holds 2 tensors and none is named");
        assert_eq!(error.note.as_deref(), Some("append `:a`; it holds `a`, `b`"));
    }

    #[test]
    fn damaged_files_and_unfit_types_are_errors() {
        assert!(matches!(read(b"junk", None), Err(ReadError::Damaged(_))));
        assert!(
            write(&[("x".to_owned(), &HostTensor::zeros(DType::ComplexDouble, &[1]))]).is_err()
        );
    }
}
