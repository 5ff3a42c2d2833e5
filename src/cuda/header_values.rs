//! Compares the values of cudarc's constants with those of the headers of CUDA 12 and 13. Constants are passed on as
//! integers, so the compiler does not notice a change.

use cudarc::cublaslt::sys as blaslt;
use cudarc::driver::sys as driver;
use std::ffi::c_int;

#[test]
fn values_are_those_of_the_headers() {
    let statuses = [
        driver::CUresult::CUDA_ERROR_OUT_OF_MEMORY as c_int,
        driver::CUresult::CUDA_ERROR_NOT_READY as c_int,
        driver::CUresult::CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED as c_int,
    ];
    assert_eq!(statuses, [2, 600, 704]);
    let attributes = [
        driver::CUdevice_attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT as c_int,
        driver::CUdevice_attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR as c_int,
        driver::CUdevice_attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR as c_int,
        driver::CUlaunchAttributeID::CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION as c_int,
        driver::CUpointer_attribute::CU_POINTER_ATTRIBUTE_RANGE_SIZE as c_int,
    ];
    assert_eq!(attributes, [16, 75, 76, 6, 12]);
    let types = [
        blaslt::cudaDataType::CUDA_R_64F as c_int,
        blaslt::cudaDataType::CUDA_R_16BF as c_int,
        blaslt::cudaDataType::CUDA_R_8F_E4M3 as c_int,
        blaslt::cudaDataType::CUDA_R_8F_E5M2 as c_int,
        blaslt::cublasComputeType_t::CUBLAS_COMPUTE_32F as c_int,
        blaslt::cublasComputeType_t::CUBLAS_COMPUTE_64F as c_int,
        blaslt::cublasComputeType_t::CUBLAS_COMPUTE_32F_FAST_TF32 as c_int,
    ];
    assert_eq!(types, [1, 14, 28, 29, 68, 70, 77]);
    let settings = [
        blaslt::cublasLtMatmulDescAttributes_t::CUBLASLT_MATMUL_DESC_EPILOGUE as c_int,
        blaslt::cublasLtMatmulDescAttributes_t::CUBLASLT_MATMUL_DESC_B_SCALE_MODE as c_int,
        blaslt::cublasLtMatmulPreferenceAttributes_t::CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES as c_int,
        blaslt::cublasLtEpilogue_t::CUBLASLT_EPILOGUE_BIAS as c_int,
        blaslt::cublasLtMatmulMatrixScale_t::CUBLASLT_MATMUL_MATRIX_SCALE_OUTER_VEC_32F as c_int,
        blaslt::cublasLtMatmulAlgoCapAttributes_t::CUBLASLT_ALGO_CAP_CUSTOM_OPTION_MAX as c_int,
        blaslt::cublasLtMatmulAlgoConfigAttributes_t::CUBLASLT_ALGO_CONFIG_CUSTOM_OPTION as c_int,
    ];
    assert_eq!(settings, [7, 32, 8, 4, 3, 7, 5]);
}
