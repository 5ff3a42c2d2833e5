//! Names of element types that only kernels have.

use hostir_grammar::is_kernel_type;

#[test]
fn types_of_kernels() {
    for text in [
        "null_type",
        "float*",
        "int64_t**",
        "std::complex<float>*",
        "Array<float, 2, 1>",
        "Array<std::complex<double>, 4, 1>*",
        "Tensor<__half, 3, 1>",
        "struct { }",
        "struct { float x; int y; }",
        "struct { float* data; Array<int64_t, 2, 1> logical_size; struct { __e2m1_x2 a; } inner; }",
    ] {
        assert!(is_kernel_type(text), "{text}");
    }
    for text in [
        "",
        "float",
        "std::complex<float>",
        "flaot*",
        "Array<float>",
        "Array<float, 2, 1",
        "Array<float, x, 1>",
        "List<float, 2, 1>",
        "struct { float; }",
        "struct { float 1x; }",
        "struct { float x }",
        "float* x",
        "null_type float",
    ] {
        assert!(!is_kernel_type(text), "{text}");
    }
}
