//! Copies and fills. Elements are only moved, so their types do not matter: where they lie in runs, 16
//! bytes are one element.

use crate::codegen::alias;
use crate::codegen::index_space::{Operand, Space};
use crate::codegen::job::Job;
use crate::codegen::pointwise::job;
use crate::codegen::source_writer::Writer;
use crate::codegen::thread_mapping::Map;
use crate::unsupported::Unsupported;
use hostir::data::fp8;
use hostir::ir::DType;
use hostir::plan::{Scalar, View};

/// The C++ type of so many bytes.
pub(super) fn raw(size: usize) -> Result<&'static str, Unsupported> {
    match size {
        1 => Ok("unsigned char"),
        2 => Ok("unsigned short"),
        4 => Ok("unsigned int"),
        8 => Ok("unsigned long long"),
        16 => Ok("ulonglong2"),
        _ => Err(Unsupported::ElementSize(size)),
    }
}

/// Joins pairs of elements to elements of double the size, up to 16 bytes, while that works for all
/// operands; they have one size.
fn widen(space: &mut Space) {
    let Some(last) = space.extents.len().checked_sub(1) else { return };
    loop {
        let fits = |operand: &Operand| {
            let (&inner, outer) = operand.strides.split_last().unwrap_or((&0, &[]));
            inner == 1
                && outer.iter().all(|stride| stride % 2 == 0)
                && operand.align.is_multiple_of(2 * operand.size)
                && operand.size < 16
        };
        if !space.extents[last].is_multiple_of(2) || !space.operands.iter().all(fits) {
            return;
        }
        space.extents[last] /= 2;
        for operand in &mut space.operands {
            operand.size *= 2;
            operand.strides[..last].iter_mut().for_each(|stride| *stride /= 2);
        }
    }
}

/// The operands of a copy or fill as one space, with wide elements. The last operand is the result.
fn moved(shape: &[usize], views: &[&View]) -> Result<Space, Unsupported> {
    let mut operands = Vec::new();
    for view in views {
        operands.push(Operand::view(view, raw(view.dtype.size())?));
    }
    let mut space = Space::new(shape, operands);
    space.order_by(views.len() - 1);
    space.collapse();
    widen(&mut space);
    for operand in &mut space.operands {
        operand.ctype = raw(operand.size)?;
    }
    // A run that has become one element is no axis any more.
    Ok(Space::new(&space.extents.clone(), space.operands))
}

/// The job of a copy between views of equal shapes and types, of any rank and strides. Where both are
/// contiguous, a copy of the runtime does the same. If they overlap, the reason is `overlap`.
pub fn copy(src: &View, dst: &View) -> Result<Job, Unsupported> {
    if src.shape() != dst.shape() || src.dtype.size() != dst.dtype.size() {
        return Err(Unsupported::Malformed("a copy between other shapes or types"));
    }
    alias::check([src], dst, true)?;
    let body = |_: &mut Writer, elements: &[String]| {
        elements.first().cloned().ok_or(Unsupported::Malformed("a copy of nothing"))
    };
    let space = moved(&dst.shape(), &[src, dst])?;
    Ok(job(Map::new(space, &body)?, dst)?.noted("copy", |note| note.view(src).view(dst)))
}

/// The job that writes one value everywhere. Types that kernels do not compute with can be filled if the
/// value is an integer of theirs, or 0.
pub fn fill(dst: &View, value: Scalar) -> Result<Job, Unsupported> {
    let mut bits = pattern(dst.dtype, value)?;
    let mut once = dst.clone();
    once.dims
        .iter_mut()
        .filter(|dim| dim.stride == 0)
        .for_each(|dim| dim.extent = dim.extent.min(1));
    let space = moved(&once.shape(), &[&once])?;
    let size = space.operands[0].size;
    while bits.len() < size {
        bits.extend_from_within(..);
    }
    let word = |part: &[u8]| part.iter().rev().fold(0u64, |all, &byte| all << 8 | u64::from(byte));
    let text = match size {
        16 => format!("make_ulonglong2({}ull, {}ull)", word(&bits[..8]), word(&bits[8..])),
        _ => format!("({})({}ull)", raw(size)?, word(&bits)),
    };
    let body = |_: &mut Writer, _: &[String]| Ok(text.clone());
    let job = job(Map::new(space, &body)?, dst)?;
    Ok(job.noted("fill", |note| note.view(dst).constant(Some(value))))
}

/// The bytes of a value of a type.
fn pattern(dtype: DType, value: Scalar) -> Result<Vec<u8>, Unsupported> {
    let single = value.as_f64() as f32;
    Ok(match dtype {
        DType::Double => value.as_f64().to_le_bytes().to_vec(),
        DType::Float => single.to_le_bytes().to_vec(),
        DType::Half => half::f16::from_f32(single).to_le_bytes().to_vec(),
        DType::BFloat16 => half::bf16::from_f32(single).to_le_bytes().to_vec(),
        DType::Bool => vec![u8::from(value.as_i64() != 0)],
        DType::ComplexFloat => [single.to_le_bytes(), [0; 4]].concat(),
        DType::ComplexDouble => [value.as_f64().to_le_bytes(), [0; 8]].concat(),
        _ if dtype.is_integer() => value.as_i64().to_le_bytes()[..dtype.size()].to_vec(),
        dtype => match fp8::encoder(dtype) {
            Some(encode) => vec![encode(single)],
            None if value.as_f64() == 0.0 => vec![0; dtype.size()],
            None => return Err(Unsupported::Fill(dtype)),
        },
    })
}
