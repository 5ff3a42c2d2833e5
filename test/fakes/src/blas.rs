//! `libcublasLt`: products as the CPU backend computes them.
#![allow(non_snake_case, reason = "the names of the header")]
#![allow(unsafe_code, reason = "functions are found by their names")]

use crate::abi::{Handle, get_value, put_value};
use crate::exit::free_slowly;
use crate::note::KernelMeaning;
use crate::task::{DeviceWork, StreamTask};
use crate::world::world;
use hostir::ir::DType;
use hostir::plan::{BufferId, BufferView, GemmInst, InstKind, ViewDim};
use std::collections::BTreeMap;
use std::ffi::{c_char, c_int, c_void};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

const INVALID: c_int = 7;

/// A matrix as the library sees it, or a description of a product.
#[derive(Clone, Debug)]
enum BlasObject {
    Handle,
    Preference,
    Layout { dtype: DType, rows: usize, columns: usize, leading: usize, batch: usize, stride: usize },
    Operation { double: bool, transposed: [bool; 2], bias: Option<u64>, scales: BlasScales },
}

/// The scales of a product's factors.
#[derive(Clone, Copy, Default, Debug)]
struct BlasScales {
    /// Whether each factor has one for each row or column, and not one alone.
    vectors: [bool; 2],
    /// Their addresses; 0 without any.
    addresses: [u64; 2],
}

fn all_objects() -> MutexGuard<'static, BTreeMap<usize, BlasObject>> {
    static OBJECTS: Mutex<BTreeMap<usize, BlasObject>> = Mutex::new(BTreeMap::new());
    OBJECTS.lock().unwrap_or_else(PoisonError::into_inner)
}

fn make_object(place: *mut Handle, object: BlasObject) -> c_int {
    let mut objects = all_objects();
    let handle = objects.last_key_value().map_or(16, |(last, _)| last + 16);
    objects.insert(handle, object);
    put_value(place, handle as Handle);
    0
}

fn destroy_object(handle: Handle) -> c_int {
    let removed = all_objects().remove(&(handle as usize));
    if removed.is_some() { 0 } else { INVALID }
}

/// The element type of a `cudaDataType`.
fn element_type(code: c_int) -> Option<DType> {
    Some(match code {
        0 => DType::Float,
        1 => DType::Double,
        2 => DType::Half,
        14 => DType::BFloat16,
        28 => DType::Float8E4M3,
        29 => DType::Float8E5M2,
        _ => return None,
    })
}

#[cfg_attr(not(test), unsafe(no_mangle))]
extern "C" fn cublasLtGetVersion() -> usize {
    130_099
}

#[cfg_attr(not(test), unsafe(no_mangle))]
extern "C" fn cublasLtGetStatusName(_: c_int) -> *const c_char {
    c"status of a stand-in".as_ptr()
}

#[cfg_attr(not(test), unsafe(no_mangle))]
extern "C" fn cublasLtCreate(handle: *mut Handle) -> c_int {
    make_object(handle, BlasObject::Handle)
}

#[cfg_attr(not(test), unsafe(no_mangle))]
extern "C" fn cublasLtDestroy(handle: Handle) -> c_int {
    free_slowly(|| destroy_object(handle))
}

#[cfg_attr(not(test), unsafe(no_mangle))]
extern "C" fn cublasLtMatrixLayoutCreate(
    layout: *mut Handle,
    code: c_int,
    rows: u64,
    columns: u64,
    leading: i64,
) -> c_int {
    let Some(dtype) = element_type(code) else { return INVALID };
    let (rows, columns, leading) = (rows as usize, columns as usize, leading as usize);
    if leading < rows {
        return INVALID;
    }
    make_object(layout, BlasObject::Layout { dtype, rows, columns, leading, batch: 1, stride: 0 })
}

#[cfg_attr(not(test), unsafe(no_mangle))]
extern "C" fn cublasLtMatrixLayoutDestroy(layout: Handle) -> c_int {
    destroy_object(layout)
}

#[cfg_attr(not(test), unsafe(no_mangle))]
extern "C" fn cublasLtMatrixLayoutSetAttribute(
    layout: Handle,
    attribute: c_int,
    value: *const c_void,
    bytes: usize,
) -> c_int {
    let mut objects = all_objects();
    let Some(BlasObject::Layout { batch, stride, .. }) = objects.get_mut(&(layout as usize)) else {
        return INVALID;
    };
    match (attribute, bytes) {
        (5, 4) => *batch = get_value(value.cast::<i32>()) as usize,
        (6, 8) => *stride = get_value(value.cast::<i64>()) as usize,
        _ => return INVALID,
    }
    0
}

#[cfg_attr(not(test), unsafe(no_mangle))]
extern "C" fn cublasLtMatmulDescCreate(operation: *mut Handle, _: c_int, scale: c_int) -> c_int {
    make_object(
        operation,
        BlasObject::Operation { double: scale == 1, transposed: [false; 2], bias: None, scales: BlasScales::default() },
    )
}

#[cfg_attr(not(test), unsafe(no_mangle))]
extern "C" fn cublasLtMatmulDescDestroy(operation: Handle) -> c_int {
    destroy_object(operation)
}

#[cfg_attr(not(test), unsafe(no_mangle))]
extern "C" fn cublasLtMatmulDescSetAttribute(
    operation: Handle,
    attribute: c_int,
    value: *const c_void,
    _: usize,
) -> c_int {
    let mut objects = all_objects();
    let Some(BlasObject::Operation { transposed, bias, scales, .. }) = objects.get_mut(&(operation as usize)) else {
        return INVALID;
    };
    match attribute {
        3 | 4 => transposed[attribute as usize - 3] = get_value(value.cast::<i32>()) == 1,
        // The epilogue: a bias.
        7 if get_value(value.cast::<i32>()) == 4 => *bias = Some(0),
        8 => *bias = Some(get_value(value.cast::<u64>())),
        17 | 18 => scales.addresses[attribute as usize - 17] = get_value(value.cast::<u64>()),
        // One scale, or a vector of them.
        31 | 32 if matches!(get_value(value.cast::<i32>()), 0 | 3) => {
            scales.vectors[attribute as usize - 31] = get_value(value.cast::<i32>()) == 3;
        }
        // Sums in fewer bits, which nothing here has; the type of the bias, which is that of the result.
        25 | 26 => {}
        _ => return INVALID,
    }
    0
}

#[cfg_attr(not(test), unsafe(no_mangle))]
extern "C" fn cublasLtMatmulPreferenceCreate(preference: *mut Handle) -> c_int {
    make_object(preference, BlasObject::Preference)
}

#[cfg_attr(not(test), unsafe(no_mangle))]
extern "C" fn cublasLtMatmulPreferenceDestroy(preference: Handle) -> c_int {
    destroy_object(preference)
}

#[cfg_attr(not(test), unsafe(no_mangle))]
extern "C" fn cublasLtMatmulPreferenceSetAttribute(_: Handle, _: c_int, _: *const c_void, _: usize) -> c_int {
    0
}

/// Two algorithms, which are the same: what tunes has something to choose from.
#[cfg_attr(not(test), unsafe(no_mangle))]
extern "C" fn cublasLtMatmulAlgoGetHeuristic(
    _: Handle,
    _: Handle,
    _: Handle,
    _: Handle,
    _: Handle,
    _: Handle,
    _: Handle,
    requested: c_int,
    proposals: *mut [u64; 12],
    returned: *mut c_int,
) -> c_int {
    let count = requested.clamp(0, 2);
    for at in 0..count as usize {
        put_value(proposals.wrapping_add(at), [0; 12]);
    }
    put_value(returned, count);
    0
}

/// Algorithms have a custom option, 0 or 1, which changes nothing.
#[cfg_attr(not(test), unsafe(no_mangle))]
extern "C" fn cublasLtMatmulAlgoCapGetAttribute(
    _: *const [u64; 8],
    attribute: c_int,
    value: *mut u32,
    bytes: usize,
    written: *mut usize,
) -> c_int {
    if (attribute, bytes) != (7, 4) {
        return INVALID;
    }
    put_value(value, 1);
    put_value(written, bytes);
    0
}

#[cfg_attr(not(test), unsafe(no_mangle))]
extern "C" fn cublasLtMatmulAlgoConfigSetAttribute(
    algorithm: *mut [u64; 8],
    attribute: c_int,
    value: *const u32,
    bytes: usize,
) -> c_int {
    if (attribute, bytes) != (5, 4) || get_value(value) > 1 {
        return INVALID;
    }
    let mut words = get_value(algorithm);
    words[5] = u64::from(get_value(value));
    put_value(algorithm, words);
    0
}

#[cfg_attr(not(test), unsafe(no_mangle))]
extern "C" fn cublasLtMatmulAlgoCheck(
    _: Handle,
    _: Handle,
    _: Handle,
    _: Handle,
    _: Handle,
    _: Handle,
    _: *const [u64; 8],
    result: *mut [u64; 12],
) -> c_int {
    put_value(result, [0; 12]);
    0
}

/// A matrix of the library as a row-major view with these last axes; `turned` exchanges them.
fn matrix_view(layout: &BlasObject, param: u32, turned: bool) -> Option<BufferView> {
    let BlasObject::Layout { dtype, rows, columns, leading, batch, stride } = *layout else {
        return None;
    };
    let mut dims = vec![
        ViewDim { extent: batch, stride },
        ViewDim { extent: columns, stride: leading },
        ViewDim { extent: rows, stride: 1 },
    ];
    if turned {
        dims.swap(1, 2);
    }
    if batch == 1 {
        dims.remove(0);
    }
    Some(BufferView { buffer: BufferId(param), offset: 0, dims: dims.into(), dtype })
}

/// The scales of the rows and of the columns of a row-major product, which are those of the library's `b` and `a`;
/// nothing for scales that the library does not take.
fn scale_views(out: &BufferView, scales: BlasScales) -> Option<Option<Box<[BufferView; 2]>>> {
    if scales.addresses == [0, 0] {
        return (scales.vectors == [false; 2]).then_some(None);
    }
    let [of_columns, of_rows] = scales.vectors;
    let batched = out.dims.len() > 2;
    if of_columns != of_rows || of_rows && (batched || out.dtype != DType::BFloat16) || scales.addresses.contains(&0) {
        return None;
    }
    let last = out.dims.len() - 1;
    let view = |param: u32, along: usize, varies: bool| {
        let mut view = BufferView { buffer: BufferId(param), dtype: DType::Float, ..out.clone() };
        let dims = view.dims.iter_mut().enumerate();
        dims.for_each(|(axis, dim)| dim.stride = usize::from(varies && axis == along));
        view
    };
    Some(Some(Box::new([view(5, last - 1, of_rows), view(4, last, of_columns)])))
}

/// The product `d = op(a) * op(b) + c` of column-major matrices: of row-major ones, the product of the right and the
/// left one.
fn row_major_product(
    matrices: [&BlasObject; 4],
    transposed: [bool; 2],
    (vector, added): (bool, bool),
    scales: BlasScales,
) -> Option<GemmInst> {
    let [a, b, c, d] = matrices;
    let out = matrix_view(d, 3, false)?;
    let bias = match (vector, added) {
        (true, _) => {
            let mut bias = BufferView { buffer: BufferId(2), ..out.clone() };
            let last = bias.dims.len() - 1;
            bias.dims[..last].iter_mut().for_each(|dim| dim.stride = 0);
            Some(bias)
        }
        (false, true) => Some(matrix_view(c, 2, false)?),
        (false, false) => None,
    };
    let vectors = scales.vectors[0];
    let scales = scale_views(&out, scales)?;
    let (left, right) = (matrix_view(b, 1, transposed[1])?, matrix_view(a, 0, transposed[0])?);
    let known = match (&scales, vectors) {
        (None, _) => true,
        (Some(_), true) => [left.dtype, right.dtype] == [DType::Float8E4M3; 2],
        (Some(_), false) => left.dtype.is_fp8_factor() && right.dtype.is_fp8_factor(),
    };
    known.then_some(GemmInst { a: left, b: right, bias, scales, out })
}

#[cfg_attr(not(test), unsafe(no_mangle))]
extern "C" fn cublasLtMatmul(
    _: Handle,
    operation: Handle,
    _: *const c_void,
    a: *const c_void,
    a_layout: Handle,
    b: *const c_void,
    b_layout: Handle,
    beta: *const c_void,
    c: *const c_void,
    c_layout: Handle,
    d: *mut c_void,
    d_layout: Handle,
    _: *const c_void,
    _: *mut c_void,
    _: usize,
    stream: Handle,
) -> c_int {
    let objects = all_objects();
    let known = |handle: Handle| objects.get(&(handle as usize));
    let (Some(a_layout), Some(b_layout), Some(c_layout), Some(d_layout)) =
        (known(a_layout), known(b_layout), known(c_layout), known(d_layout))
    else {
        return INVALID;
    };
    let Some(BlasObject::Operation { double, transposed, bias, scales }) = known(operation) else {
        return INVALID;
    };
    let added = match double {
        true => get_value(beta.cast::<f64>()) != 0.0,
        false => get_value(beta.cast::<f32>()) != 0.0,
    };
    let matrices = [a_layout, b_layout, c_layout, d_layout];
    let Some(gemm) = row_major_product(matrices, *transposed, (bias.is_some(), added), *scales) else {
        return INVALID;
    };
    let [of_a, of_b] = scales.addresses;
    let params = vec![a as u64, b as u64, bias.unwrap_or(c as u64), d as u64, of_a, of_b];
    let meaning = Arc::new(KernelMeaning::Instructions(vec![InstKind::Gemm(Box::new(gemm))]));
    let task = StreamTask::in_order([DeviceWork::Compute { meaning, params }]);
    world().enqueue_task(stream as u64, crate::driver::current_device(), task)
}
