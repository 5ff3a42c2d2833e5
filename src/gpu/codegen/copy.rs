//! Copies and fills. Elements are only moved, so their types do not matter: in contiguous runs, 16 bytes count as one
//! element.

use crate::codegen::alias;
use crate::codegen::index_space::{IndexSpace, KernelOperand};
use crate::codegen::job::KernelJob;
use crate::codegen::pointwise::elementwise_job;
use crate::codegen::source_writer::SourceWriter;
use crate::codegen::thread_mapping::ElementwiseKernel;
use crate::unsupported::Unsupported;
use hostir::data::fp8;
use hostir::ir::DType;
use hostir::plan::{BufferView, ScalarValue};

/// The C++ type of so many bytes.
pub(super) fn raw_ctype(size: usize) -> Result<&'static str, Unsupported> {
    match size {
        1 => Ok("unsigned char"),
        2 => Ok("unsigned short"),
        4 => Ok("unsigned int"),
        8 => Ok("unsigned long long"),
        16 => Ok("ulonglong2"),
        _ => Err(Unsupported::ElementSize(size)),
    }
}

/// Joins pairs of elements to elements of double the size, up to 16 bytes, as long as all operands allow it; they have
/// one size.
fn widen_elements(space: &mut IndexSpace) {
    let Some(last) = space.extents.len().checked_sub(1) else { return };
    loop {
        if !space.extents[last].is_multiple_of(2) || !space.operands.iter().all(KernelOperand::allows_pairs) {
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
fn copy_space(shape: &[usize], views: &[&BufferView]) -> Result<IndexSpace, Unsupported> {
    let mut operands = Vec::new();
    for view in views {
        operands.push(KernelOperand::from_view(view, raw_ctype(view.dtype.byte_size())?));
    }
    let mut space = IndexSpace::new(shape, operands);
    space.order_by(views.len() - 1);
    space.collapse_axes();
    widen_elements(&mut space);
    for operand in &mut space.operands {
        operand.ctype = raw_ctype(operand.size)?;
    }
    // A run that is one element now has no axis.
    Ok(IndexSpace::new(&space.extents.clone(), space.operands))
}

/// The job of a copy between views of equal shapes and types, of any rank and strides. If both are contiguous, a copy
/// of the runtime does the same. If they overlap, the reason is `overlap`.
///
/// # Errors
/// [`Unsupported`] if shapes or types differ, the views overlap, or kernels cannot move elements of this size.
pub fn generate_copy(src: &BufferView, dst: &BufferView) -> Result<KernelJob, Unsupported> {
    if src.shape() != dst.shape() || src.dtype.byte_size() != dst.dtype.byte_size() {
        return Err(Unsupported::Malformed("a copy between other shapes or types"));
    }
    alias::check_overlap([src], dst, true)?;
    let space = copy_space(&dst.shape(), &[src, dst])?;
    Ok(elementwise_job(ElementwiseKernel::new(space, &copied_element)?, dst)?
        .noted("copy", |note| note.view(src).view(dst)))
}

fn copied_element(_: &mut SourceWriter, elements: &[String]) -> Result<String, Unsupported> {
    elements.first().cloned().ok_or(Unsupported::Malformed("a copy of nothing"))
}

/// The job that writes one value to all elements. Types that kernels do not compute with can be filled with an integer
/// value of the type, or 0.
///
/// # Errors
/// [`Unsupported`] if kernels cannot write the value to elements of the type.
pub fn generate_fill(dst: &BufferView, value: ScalarValue) -> Result<KernelJob, Unsupported> {
    let mut bits = fill_pattern(dst.dtype, value)?;
    let mut once = dst.clone();
    once.dims.iter_mut().filter(|dim| dim.stride == 0).for_each(|dim| dim.extent = dim.extent.min(1));
    let space = copy_space(&once.shape(), &[&once])?;
    let size = space.operands[0].size;
    while bits.len() < size {
        bits.extend_from_within(..);
    }
    let text = match size {
        16 => format!("make_ulonglong2({}ull, {}ull)", pattern_word(&bits[..8]), pattern_word(&bits[8..])),
        _ => format!("({})({}ull)", raw_ctype(size)?, pattern_word(&bits)),
    };
    let job = elementwise_job(ElementwiseKernel::new(space, &|_, _| Ok(text.clone()))?, dst)?;
    Ok(job.noted("fill", |note| note.view(dst).constant(Some(value))))
}

/// Up to eight bytes as an integer, the first of them the lowest.
fn pattern_word(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |all, &byte| all << 8 | u64::from(byte))
}

/// The bytes of a value of a type.
fn fill_pattern(dtype: DType, value: ScalarValue) -> Result<Vec<u8>, Unsupported> {
    let single = value.as_f64() as f32;
    Ok(match dtype {
        DType::Double => value.as_f64().to_le_bytes().to_vec(),
        DType::Float => single.to_le_bytes().to_vec(),
        DType::Half => half::f16::from_f32(single).to_le_bytes().to_vec(),
        DType::BFloat16 => half::bf16::from_f32(single).to_le_bytes().to_vec(),
        DType::Bool => vec![u8::from(value.as_i64() != 0)],
        DType::ComplexFloat => {
            let value = value.as_complex();
            [value.re, value.im].map(|part| (part as f32).to_le_bytes()).concat()
        }
        DType::ComplexDouble => {
            let value = value.as_complex();
            [value.re, value.im].map(f64::to_le_bytes).concat()
        }
        DType::UInt64 => value.as_u64().to_le_bytes().to_vec(),
        _ if dtype.is_integer() => value.as_i64().to_le_bytes()[..dtype.byte_size()].to_vec(),
        dtype => match fp8::encoder_for(dtype) {
            Some(encode) => vec![encode(single)],
            None if value.as_f64() == 0.0 => vec![0; dtype.byte_size()],
            None => return Err(Unsupported::Fill(dtype)),
        },
    })
}
