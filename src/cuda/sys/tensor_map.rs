//! Tensor maps: matrices as the tensor memory accelerator loads and stores them, in boxes.

use crate::sys::Error;
use crate::sys::tables;
use cudarc::driver::sys::{
    CUtensorMap, CUtensorMapDataType, CUtensorMapFloatOOBfill, CUtensorMapInterleave, CUtensorMapL2promotion,
    CUtensorMapSwizzle,
};
use hostir_gpu::codegen::wgmma_gemm::TiledMatrix;
use hostir_gpu::gemm_shape::MatrixElement;
use std::ffi::{c_int, c_void};

/// A matrix of 16-bit numbers at an address, a parameter of kernels. Boxes are swizzled by 128 bytes; elements of a
/// box outside of the matrix are loaded as zeros and not stored.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub(crate) struct TensorMap(CUtensorMap);

impl TensorMap {
    /// Bytes of a parameter.
    pub(crate) const BYTES: usize = size_of::<CUtensorMap>();

    /// Describes the matrix; does not read it.
    pub(crate) fn encode(matrix: &TiledMatrix, address: u64) -> Result<Self, Error> {
        let mut map = std::mem::MaybeUninit::<CUtensorMap>::zeroed();
        let steps = [1u32; 2];
        let element = match matrix.element {
            MatrixElement::F16 => CUtensorMapDataType::CU_TENSOR_MAP_DATA_TYPE_FLOAT16,
            _ => CUtensorMapDataType::CU_TENSOR_MAP_DATA_TYPE_BFLOAT16,
        };
        // SAFETY: there is room for a map, which is aligned as its type is; all arrays have two elements, and the one
        // of strides the one that a matrix has.
        let status = unsafe {
            tables::driver().cuTensorMapEncodeTiled(
                map.as_mut_ptr(),
                element as c_int,
                2,
                address as *mut c_void,
                matrix.extents.as_ptr(),
                &raw const matrix.row_bytes,
                matrix.box_extents.as_ptr(),
                steps.as_ptr(),
                CUtensorMapInterleave::CU_TENSOR_MAP_INTERLEAVE_NONE as c_int,
                CUtensorMapSwizzle::CU_TENSOR_MAP_SWIZZLE_128B as c_int,
                CUtensorMapL2promotion::CU_TENSOR_MAP_L2_PROMOTION_L2_128B as c_int,
                CUtensorMapFloatOOBfill::CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE as c_int,
            )
        };
        status.into_result()?;
        // SAFETY: numbers that may be anything, zeros where the driver has written none.
        Ok(Self(unsafe { map.assume_init() }))
    }

    /// The place of a parameter of several maps.
    pub(super) fn as_parameter(maps: &[Self]) -> *mut c_void {
        maps.as_ptr().cast_mut().cast()
    }
}
