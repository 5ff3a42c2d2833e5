//! Tests of the lowering of 8-bit GEMMs and of its results: library calls by their definition, copies and last steps
//! element by element.

use hostir::ir::DType;
use hostir::plan::{BufferId, BufferView, GemmInst, ViewDim, row_major};
use hostir_gpu::codegen::KernelJob;
use hostir_gpu::gemm_lowering::GemmCall;
use hostir_gpu::gemm_lowering::fp8::{Fp8Support, expand_gemm};
use hostir_gpu::gemm_shape::{GemmBias, GemmScales, MatrixElement, MatrixLayout};
use hostir_gpu::operand::SymbolicAddress;
use std::collections::BTreeMap;

const E4M3: DType = DType::Float8E4M3;
const E5M2: DType = DType::Float8E5M2;

fn view(buffer: u32, dtype: DType, shape: &[usize]) -> BufferView {
    BufferView { buffer: BufferId(buffer), offset: 0, dims: row_major(shape), dtype }
}

/// A vector as a bias of so many rows.
fn vector(dtype: DType, rows: usize, columns: usize) -> BufferView {
    let dims = [ViewDim { extent: rows, stride: 0 }, ViewDim { extent: columns, stride: 1 }];
    BufferView { dims: dims.into_iter().collect(), ..view(2, dtype, &[columns]) }
}

/// `linear`: the right factor is stored as `[n, k]`.
fn linear(types: [DType; 3], [m, n, k]: [usize; 3], bias: bool) -> GemmInst {
    let mut b = view(1, types[1], &[n, k]);
    b.dims.swap(0, 1);
    let bias = bias.then(|| vector(types[2], m, n));
    GemmInst { a: view(0, types[0], &[m, k]), b, bias, scales: None, out: view(3, types[2], &[m, n]) }
}

/// The GEMM with scales in buffers 4 and 5: one for each row and column, or one for each factor.
fn scaled(gemm: GemmInst, vectors: bool) -> GemmInst {
    let rank = gemm.out.dims.len();
    let scale = |buffer: u32, along: usize| {
        let mut scale = BufferView { offset: 0, ..view(buffer, DType::Float, &gemm.out.shape()) };
        let dims = scale.dims.iter_mut().enumerate();
        dims.for_each(|(axis, dim)| dim.stride = usize::from(vectors && axis == along));
        scale
    };
    GemmInst { scales: Some(Box::new([scale(4, rank - 2), scale(5, rank - 1)])), ..gemm }
}

fn matmul(types: [DType; 3], [m, n, k]: [usize; 3]) -> GemmInst {
    GemmInst { b: view(1, types[1], &[k, n]), ..linear(types, [m, n, k], false) }
}

/// Jobs before, types of the factors, type of the result, and whether a job follows.
fn summary(gemm: &GemmInst, native: bool) -> Option<(usize, [MatrixElement; 2], MatrixElement, bool)> {
    let support = if native { Fp8Support::Vectors } else { Fp8Support::Absent };
    let all = expand_gemm(gemm, support)?;
    let shape = &all.gemm_calls[0].shape;
    Some((all.before.len(), shape.factors, shape.element, all.after.is_some()))
}

#[test]
fn what_the_library_takes_goes_to_it() {
    use MatrixElement as E;
    let size = [17, 32, 48];
    let e4m3 = [E::E4m3; 2];
    for (out, element) in [(DType::Float, E::F32), (DType::Half, E::F16), (DType::BFloat16, E::Bf16)] {
        let plain = linear([E4M3, E4M3, out], size, false);
        assert_eq!(summary(&plain, true), Some((0, e4m3, element, false)));
        // The right factor of a `matmul` is transposed first.
        let turned = matmul([E4M3, E4M3, out], size);
        assert_eq!(summary(&turned, true), Some((1, e4m3, element, false)));
        // The library adds a bias of another type than `float`.
        let biased = linear([E4M3, E4M3, out], size, true);
        assert_eq!(summary(&biased, true), Some((0, e4m3, element, out == DType::Float)));
    }
    // The library's left factor is our right one.
    let mixed = linear([E4M3, E5M2, DType::Float], size, false);
    assert_eq!(summary(&mixed, true), Some((0, [E::E5m2, E::E4m3], E::F32, false)));
    // It would saturate results of 8 bits.
    let narrow = linear([E4M3, E4M3, E4M3], size, true);
    assert_eq!(summary(&narrow, true), Some((0, e4m3, E::F32, true)));
}

#[test]
fn the_rest_is_widened() {
    use MatrixElement as E;
    let (odd, even) = ([17, 30, 33], [16, 32, 48]);
    let bf16 = Some((2, [E::Bf16; 2], E::F32, false));
    assert_eq!(summary(&linear([E4M3, E4M3, DType::Float], odd, false), true), bf16);
    // No device multiplies two `__e5m2`, older ones no 8-bit floats at all.
    assert_eq!(summary(&linear([E5M2, E5M2, DType::Float], even, false), true), bf16);
    assert_eq!(summary(&linear([E4M3, E4M3, DType::Float], even, false), false), bf16);
    let half = linear([E5M2, E5M2, DType::Half], even, true);
    assert_eq!(summary(&half, true), Some((2, [E::F16; 2], E::F16, false)));
    // Nothing to multiply: a kernel of our own writes zeros.
    assert_eq!(summary(&linear([E4M3, E4M3, DType::Float], [4, 4, 0], false), true), None);
}

#[test]
fn scales_go_to_the_library_where_it_takes_them() {
    let (size, bfloat) = ([17, 32, 48], DType::BFloat16);
    let form = |gemm: &GemmInst, support: Fp8Support| {
        let all = expand_gemm(gemm, support).unwrap();
        (all.gemm_calls[0].shape.scales, all.after.is_some())
    };
    let vectors = scaled(linear([E4M3, E4M3, bfloat], size, false), true);
    assert_eq!(form(&vectors, Fp8Support::Vectors), (GemmScales::Vectors, false));
    assert_eq!(form(&vectors, Fp8Support::Factors), (GemmScales::None, true));
    assert_eq!(form(&vectors, Fp8Support::Absent), (GemmScales::None, true));
    // The scales change sides: the library's left factor is our right one.
    let all = expand_gemm(&vectors, Fp8Support::Vectors).unwrap();
    let buffers = all.gemm_calls[0].operands.each_ref().map(|view| view.as_ref().map(|view| view.buffer.0));
    assert_eq!(buffers, [Some(1), Some(0), None, Some(3), Some(5), Some(4)]);
    // The library adds a bias after the scales.
    let biased = scaled(linear([E4M3, E4M3, bfloat], size, true), true);
    assert_eq!(form(&biased, Fp8Support::Vectors), (GemmScales::Vectors, false));
    let single = scaled(linear([E4M3, E4M3, bfloat], size, false), false);
    assert_eq!(form(&single, Fp8Support::Factors), (GemmScales::Whole, false));
    let single = scaled(linear([E4M3, E4M3, DType::Float], size, false), false);
    assert_eq!(form(&single, Fp8Support::Factors), (GemmScales::Whole, false));
    // Other types, scales with gaps, and rows beside a single scale.
    let float = scaled(linear([E4M3, E4M3, DType::Float], size, false), true);
    assert_eq!(form(&float, Fp8Support::Vectors), (GemmScales::None, true));
    let mixed = scaled(linear([E4M3, E5M2, bfloat], size, false), true);
    assert_eq!(form(&mixed, Fp8Support::Vectors), (GemmScales::None, true));
    let mut gaps = vectors.clone();
    gaps.scales.as_mut().unwrap()[0].dims[0].stride = 2;
    assert_eq!(form(&gaps, Fp8Support::Vectors), (GemmScales::None, true));
    let mut rows = vectors.clone();
    rows.scales.as_mut().unwrap()[1].dims[1].stride = 0;
    assert_eq!(form(&rows, Fp8Support::Vectors), (GemmScales::None, true));
}

/// Elements by buffer; pieces are buffers.
type Memory = BTreeMap<u32, Vec<f64>>;

/// The indices of a view's elements in row-major order.
fn places(view: &BufferView) -> Vec<usize> {
    let mut all = vec![view.offset];
    for dim in &view.dims {
        let next = |at: usize| (0..dim.extent).map(move |index| at + index * dim.stride);
        all = all.into_iter().flat_map(next).collect();
    }
    all
}

fn get(memory: &Memory, view: &BufferView) -> Vec<f64> {
    let Some(data) = memory.get(&view.buffer.0) else { return Vec::new() };
    places(view).into_iter().map(|at| data[at]).collect()
}

fn set(memory: &mut Memory, view: &BufferView, values: Vec<f64>) {
    let places = places(view);
    let data = memory.entry(view.buffer.0).or_default();
    for (at, value) in places.into_iter().zip(values) {
        data.resize(data.len().max(at + 1), f64::NAN);
        data[at] = value;
    }
}

/// The views of a job: those that it reads, and at the end the one that it writes.
fn job_views(job: &KernelJob) -> Vec<&BufferView> {
    job.launches[0].params.iter().map(|param| param.as_view().expect("scratch memory is not placed yet")).collect()
}

/// A copy or a conversion.
fn run_job(memory: &mut Memory, job: &KernelJob) {
    let [input, out] = job_views(job)[..] else { panic!("a copy has one source") };
    set(memory, out, get(memory, input));
}

/// The last step of a GEMM: its sums times its scales, plus its bias.
fn run_last_job(memory: &mut Memory, job: &KernelJob, gemm: &GemmInst) {
    let views = job_views(job);
    let (out, inputs) = views.split_last().unwrap();
    let (sums, others) = inputs.split_first().unwrap();
    let (scales, bias) = others.split_at(gemm.scale_views().len());
    assert_eq!(bias.len(), usize::from(gemm.bias.is_some()));
    let mut values = get(memory, sums);
    for scale in scales {
        values.iter_mut().zip(get(memory, scale)).for_each(|(value, scale)| *value *= scale);
    }
    for bias in bias {
        values.iter_mut().zip(get(memory, bias)).for_each(|(value, term)| *value += term);
    }
    set(memory, out, values);
}

/// `d = scales * op(a) op(b) + bias` of column-major matrices.
fn run_product(memory: &mut Memory, product: &GemmCall) {
    let shape = &product.shape;
    let start = |at: usize| product.operands[at].as_ref().map(|view| (view.buffer.0, view.offset));
    let element = |memory: &Memory, at: usize, layout: &MatrixLayout, [batch, row, column]: [usize; 3]| {
        let (buffer, offset) = start(at).unwrap();
        let index = batch * layout.batch_stride as usize + column * layout.leading as usize + row;
        memory[&buffer][offset + index]
    };
    let pick = |turned: bool, row: usize, column: usize| {
        if turned { (column, row) } else { (row, column) }
    };
    let (a, b) = (&shape.a, &shape.b);
    let depth = if a.1 { a.0.rows } else { a.0.columns } as usize;
    for batch in 0..shape.batch as usize {
        for column in 0..shape.d.columns as usize {
            for row in 0..shape.d.rows as usize {
                let added = match &shape.bias {
                    GemmBias::None => 0.0,
                    GemmBias::Rows => element(memory, 2, &shape.d, [0, row, 0]),
                    GemmBias::Matrix(layout) => element(memory, 2, layout, [batch, row, column]),
                };
                let mut sum = 0.0;
                for inner in 0..depth {
                    let (i, j) = pick(a.1, row, inner);
                    let x = element(memory, 0, &a.0, [batch, i, j]);
                    let (i, j) = pick(b.1, inner, column);
                    sum += x * element(memory, 1, &b.0, [batch, i, j]);
                }
                let of_scale = |at: usize, index: usize| {
                    let (buffer, offset) = start(at).unwrap();
                    memory[&buffer][offset + index]
                };
                sum *= match shape.scales {
                    GemmScales::None => 1.0,
                    GemmScales::Whole => of_scale(4, 0) * of_scale(5, 0),
                    GemmScales::Vectors => of_scale(4, row) * of_scale(5, column),
                };
                let (buffer, offset) = start(3).unwrap();
                let at = batch * shape.d.batch_stride as usize + column * shape.d.leading as usize + row;
                let data = memory.entry(buffer).or_default();
                data.resize(data.len().max(offset + at + 1), f64::NAN);
                data[offset + at] = sum + added;
            }
        }
    }
}

/// The product by plain loops, in row-major order.
fn expected(memory: &Memory, gemm: &GemmInst) -> Vec<f64> {
    let (a, b) = (get(memory, &gemm.a), get(memory, &gemm.b));
    let shape = gemm.out.shape();
    let [m, n] = [shape[shape.len() - 2], shape[shape.len() - 1]];
    let k = gemm.a.dims.last().unwrap().extent;
    let bias = gemm.bias.as_ref().map(|bias| get(memory, bias));
    let scales: Vec<Vec<f64>> = gemm.scale_views().iter().map(|scale| get(memory, scale)).collect();
    let element = |index: usize| {
        let (batch, row, column) = (index / (m * n), index / n % m, index % n);
        let terms = (0..k).map(|l| a[(batch * m + row) * k + l] * b[(batch * k + l) * n + column]);
        let scale: f64 = scales.iter().map(|scale| scale[index]).product();
        terms.sum::<f64>() * scale + bias.as_ref().map_or(0.0, |bias| bias[index])
    };
    (0..gemm.out.len()).map(element).collect()
}

fn check(name: &str, gemm: &GemmInst) {
    for support in [Fp8Support::Vectors, Fp8Support::Factors, Fp8Support::Absent] {
        let mut memory = Memory::new();
        for buffer in 0..6 {
            let values = (0..20_000).map(|at| ((at * 7 + buffer as usize * 3) % 5) as f64 - 2.0);
            memory.insert(buffer, values.collect());
        }
        let expected = expected(&memory, gemm);
        let all = expand_gemm(gemm, support).unwrap_or_else(|| panic!("{name}: no calls"));
        let pieces = all.pieces.windows(2).all(|pair| pair[0] < pair[1] && pair[1] < all.scratch);
        assert!(pieces, "{name}");
        all.before.iter().for_each(|job| run_job(&mut memory, job));
        all.gemm_calls.iter().for_each(|product| run_product(&mut memory, product));
        all.after.iter().for_each(|job| run_last_job(&mut memory, job, gemm));
        assert_eq!(get(&memory, &gemm.out), expected, "{name}, {support:?}");
        for job in all.before.iter().chain(&all.after) {
            let placed = all.bind_scratch(job.clone());
            let params = placed.launches.iter().flat_map(|launch| &launch.params);
            let known = |param: &SymbolicAddress| match param {
                SymbolicAddress::View(view) => view.buffer.0 < 6,
                SymbolicAddress::Scratch(bytes) => *bytes < all.scratch,
                SymbolicAddress::Peer { .. } => false,
            };
            assert!(params.clone().all(known), "{name}");
        }
    }
}

#[test]
fn products_of_all_layouts() {
    let float = DType::Float;
    check("linear", &linear([E4M3, E5M2, float], [17, 32, 48], false));
    check("linear with a bias", &linear([E4M3, E4M3, float], [17, 32, 48], true));
    check("linear to half with a bias", &linear([E4M3, E4M3, DType::Half], [17, 32, 48], true));
    check("linear to 8 bits", &linear([E4M3, E4M3, E4M3], [16, 16, 16], true));
    check("matmul", &matmul([E5M2, E4M3, float], [16, 32, 48]));
    check("matmul of odd sizes", &matmul([E4M3, E4M3, DType::BFloat16], [5, 7, 9]));
    check("matmul of two e5m2", &matmul([E5M2, E5M2, E5M2], [16, 32, 16]));
    // A vector times a matrix, and a slice with an odd start.
    check("one row", &matmul([E4M3, E4M3, float], [1, 32, 48]));
    let mut slice = linear([E4M3, E4M3, float], [16, 16, 64], false);
    slice.a.dims[1].extent = 32;
    slice.a.offset = 5;
    slice.b.dims[0].extent = 32;
    slice.b.offset = 16;
    check("slices", &slice);
    let batch = |strides: [usize; 3]| {
        let mut gemm = matmul([E4M3, E4M3, float], [16, 16, 32]);
        for (view, stride) in [&mut gemm.a, &mut gemm.b, &mut gemm.out].into_iter().zip(strides) {
            view.dims.insert(0, ViewDim { extent: 3, stride });
        }
        gemm
    };
    check("batch", &batch([512, 512, 256]));
    check("batch with one right factor", &batch([512, 0, 256]));
    check("batch with one left factor", &batch([0, 512, 300]));
    let mut two = batch([512, 0, 256]);
    for (view, stride) in [&mut two.a, &mut two.b, &mut two.out].into_iter().zip([0, 512, 768]) {
        view.dims.insert(0, ViewDim { extent: 2, stride });
    }
    check("two batch axes", &two);
    let bfloat = DType::BFloat16;
    for (name, vectors) in [("rows and columns", true), ("factors", false)] {
        check(name, &scaled(linear([E4M3, E4M3, bfloat], [17, 32, 48], false), vectors));
        check(name, &scaled(linear([E4M3, E5M2, bfloat], [17, 32, 48], true), vectors));
        check(name, &scaled(linear([E4M3, E4M3, float], [17, 32, 48], true), vectors));
        check(name, &scaled(matmul([E4M3, E4M3, DType::Half], [5, 7, 9]), vectors));
        check(name, &scaled(matmul([E5M2, E5M2, bfloat], [16, 32, 16]), vectors));
        check(name, &scaled(batch([512, 512, 256]), vectors));
    }
}
