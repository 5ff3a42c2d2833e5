//! Kernels that read or add where an index says, over many layouts; and what they make of indices that are out of
//! range, where the CPU backend stops.

use crate::cases::{Case, Memory, TYPES, part, permuted, repeated};
use hostir::ir::DType;
use hostir::plan::{AccumulateInst, BufferView, InstKind, RedOp, TakeInst, ViewDim, ViewDims};
use hostir_gpu::codegen::{self, KernelJob};
use hostir_gpu::unsupported::Unsupported;

const RANGE: [f64; 2] = [-3.0, 3.0];

/// Elements along `axis` of `input`, chosen by an index that has one axis, in an output of `dtype`.
fn select(memory: &mut Memory, input: &BufferView, axis: usize, index: &BufferView) -> InstKind {
    let mut shape = input.shape();
    shape[axis] = index.dims[0].extent;
    let along = |at: usize| if at == axis { index.dims[0].stride } else { 0 };
    let dims = (0..shape.len()).map(|at| ViewDim { extent: shape[at], stride: along(at) }).collect();
    let output = memory.random(input.dtype, &shape, RANGE);
    let index = BufferView { dims, ..index.clone() };
    InstKind::Take(Box::new(TakeInst { input: input.clone(), index, axis, output }))
}

pub(crate) fn cases() -> Vec<(Case, f64)> {
    let mut cases = selections();
    cases.extend(gathers());
    cases.extend(sums());
    cases.extend(scatters());
    cases
}

fn selections() -> Vec<(Case, f64)> {
    let mut cases = Vec::new();
    for dtype in TYPES {
        for axis in 0..3 {
            let mut memory = Memory::default();
            let input = memory.random(dtype, &[5, 6, 48], RANGE);
            let last = [4.0, 5.0, 47.0][axis];
            let kind = if axis == 1 { DType::Int32 } else { DType::Int };
            let index = memory.random(kind, &[7], [0.0, last]);
            let kind = select(&mut memory, &input, axis, &index);
            cases.push((memory.case(format!("{} by axis {axis}", dtype.name()), kind), 0.0));
        }
    }
    let mut add = |name: &str, shape: &[usize], cut: &dyn Fn(BufferView) -> BufferView, axis: usize| {
        let mut memory = Memory::default();
        let input = cut(memory.random(DType::Float, shape, RANGE));
        let last = input.dims[axis].extent as f64 - 1.0;
        let index = memory.random(DType::Int, &[20], [0.0, last]);
        let kind = select(&mut memory, &input, axis, &part(&index, 0, 3, 9));
        cases.push((memory.case(name, kind), 0.0));
    };
    add("rows that start oddly", &[9, 40], &|view| part(&view, 1, 1, 32), 0);
    add("rows of odd length", &[9, 33], &|view| view, 0);
    add("rows with odd distances", &[9, 33], &|view| part(&view, 1, 0, 32), 0);
    add("columns", &[40, 24], &|view| permuted(&view, &[1, 0]), 0);
    add("repeated rows", &[7, 16], &|view| repeated(&view, 0, 3), 1);
    add("of one axis", &[50], &|view| view, 0);
    add("many rows", &[3000, 300], &|view| view, 1);
    cases
}

/// Indices of every shape: one for each element, some of them repeated, in another order of memory.
fn gathers() -> Vec<(Case, f64)> {
    let mut cases = Vec::new();
    for axis in 0..3 {
        let mut memory = Memory::default();
        let input = memory.random(DType::BFloat16, &[4, 6, 16], RANGE);
        let mut shape = [4, 6, 16];
        shape[axis] = 10;
        let last = [3.0, 5.0, 15.0][axis];
        let index = memory.random(DType::Int32, &shape, [0.0, last]);
        let output = memory.random(DType::BFloat16, &shape, RANGE);
        let kind = InstKind::Take(Box::new(TakeInst { input, index, axis, output }));
        cases.push((memory.case(format!("elements by axis {axis}"), kind), 0.0));
    }
    let mut memory = Memory::default();
    let input = memory.random(DType::Half, &[6, 20], RANGE);
    let index = memory.random(DType::Int, &[32, 6], [0.0, 19.0]);
    let output = memory.random(DType::Half, &[32, 6], RANGE);
    let (index, output) = (permuted(&index, &[1, 0]), permuted(&output, &[1, 0]));
    let kind = InstKind::Take(Box::new(TakeInst { input, index, axis: 1, output }));
    cases.push((memory.case("elements of a result that lies crosswise", kind), 0.0));
    let mut memory = Memory::default();
    let input = memory.random(DType::Double, &[1, 8, 1], RANGE);
    let index = memory.random(DType::Int, &[1, 1, 1], [0.0, 7.0]);
    let output = memory.random(DType::Double, &[1, 1, 1], RANGE);
    let kind = InstKind::Take(Box::new(TakeInst { input, index, axis: 1, output }));
    cases.push((memory.case("one element", kind), 0.0));
    cases
}

fn sums() -> Vec<(Case, f64)> {
    let mut cases = Vec::new();
    let mut add = |name: String, dtype, kind, shape: &[usize], count: usize, layout: Layout| {
        let mut memory = Memory::default();
        let base = memory.random(dtype, shape, RANGE);
        let index = memory.random(kind, &[count, 2], [0.0, shape[0] as f64 - 1.0]);
        let mut rows = shape.to_vec();
        rows[0] = count;
        let mut dims: ViewDims = rows.iter().map(|&extent| ViewDim { extent, stride: 0 }).collect();
        dims[0].stride = 2;
        let index = BufferView { dims, ..index };
        let value = memory.random(dtype, &rows, RANGE);
        let combine = Some(RedOp::Sum);
        let mut put = AccumulateInst { output: base.clone(), base, index, value, axis: 0, combine };
        match layout {
            Layout::InPlace => {}
            Layout::Apart => put.output = memory.random(dtype, shape, RANGE),
            Layout::Crosswise => {
                let turned: Vec<usize> = shape.iter().rev().copied().collect();
                let order: Vec<usize> = (0..shape.len()).rev().collect();
                put.output = permuted(&memory.random(dtype, &turned, RANGE), &order);
            }
        }
        cases.push((memory.case(name, InstKind::Accumulate(Box::new(put))), 0.0));
    };
    for dtype in TYPES {
        for layout in [Layout::InPlace, Layout::Apart, Layout::Crosswise] {
            let name = format!("sums of {} {layout:?}", dtype.name());
            add(name, dtype, DType::Int, &[6, 3, 8], 40, layout);
        }
    }
    add("sums of one axis".into(), DType::Float, DType::Int32, &[10], 300, Layout::Apart);
    add("many sums".into(), DType::Float, DType::Int32, &[70, 130], 900, Layout::Apart);
    add("one row".into(), DType::Half, DType::Int, &[1, 5], 3, Layout::InPlace);
    cases
}

/// Writes along each axis, where each element has an index of its own, with and without an operation.
fn scatters() -> Vec<(Case, f64)> {
    let mut cases = Vec::new();
    let ops = [None, Some(RedOp::Sum), Some(RedOp::Product), Some(RedOp::Min), Some(RedOp::Max)];
    for dtype in TYPES {
        for axis in 0..3 {
            for combine in ops {
                let mut memory = Memory::default();
                let base = memory.random(dtype, &[5, 4, 6], RANGE);
                let mut shape = [4, 3, 5];
                shape[axis] = 9;
                let last = [4.0, 3.0, 5.0][axis];
                let index = memory.random(DType::Int, &shape, [0.0, last]);
                let value = memory.random(dtype, &shape, RANGE);
                let output = memory.random(dtype, &[5, 4, 6], RANGE);
                let put = AccumulateInst { base, index, value, axis, combine, output };
                let name = format!("{} written along axis {axis} by {combine:?}", dtype.name());
                cases.push((memory.case(name, InstKind::Accumulate(Box::new(put))), 0.0));
            }
        }
    }
    cases
}

/// The memory layout of a sum's result.
#[derive(Clone, Copy, Debug)]
enum Layout {
    InPlace,
    Apart,
    Crosswise,
}

/// Jobs with indices that are out of range, and their results: reads give 0, sums leave the rest.
pub(crate) fn outside() -> Vec<(Case, KernelJob, Vec<f64>)> {
    let mut found = Vec::new();
    let mut memory = Memory::default();
    let input = memory.values(DType::Float, &[1.5, 2.5, 3.5]);
    let index = memory.values(DType::Int, &[2.0, -1.0, 3.0, 0.0, 1e18, -9e18]);
    let kind = select(&mut memory, &input, 0, &index);
    if let InstKind::Take(take) = &kind {
        let job = codegen::generate_take(take).unwrap();
        let expected = vec![3.5, 0.0, 0.0, 1.5, 0.0, 0.0];
        found.push((memory.case("a read out of range", kind), job, expected));
    }
    let mut memory = Memory::default();
    let index = memory.values(DType::Int32, &[1.0, -1.0, 1.0, 2.0, -1.0, 2147483647.0, 0.0]);
    let value = memory.values(DType::Float, &[1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0]);
    let base = memory.values(DType::Float, &[0.25, 0.5]);
    let put = AccumulateInst { output: base.clone(), base, index, value, axis: 0, combine: Some(RedOp::Sum) };
    let job = codegen::generate_accumulate(&put).unwrap();
    let kind = InstKind::Accumulate(Box::new(put));
    found.push((memory.case("a sum out of range", kind), job, vec![64.25, 5.5]));
    found
}

/// Jobs that cannot be generated, each with the reason.
pub(crate) fn refused() -> Vec<(&'static str, Result<KernelJob, Unsupported>)> {
    let mut memory = Memory::default();
    let input = memory.random(DType::Float, &[8, 8], RANGE);
    let index = memory.random(DType::Int, &[8, 8], [0.0, 7.0]);
    let take = |output: &BufferView, axis| {
        let (input, index, output) = (input.clone(), index.clone(), output.clone());
        codegen::generate_take(&TakeInst { input, index, axis, output })
    };
    let mut row = index.clone();
    row.dims[1].stride = 0;
    let put = |value: &BufferView, output: &BufferView| {
        let (base, index) = (input.clone(), row.clone());
        let (value, output) = (value.clone(), output.clone());
        let combine = Some(RedOp::Sum);
        codegen::generate_accumulate(&AccumulateInst { base, index, value, axis: 0, combine, output })
    };
    let turned = permuted(&input, &[1, 0]);
    vec![
        ("an op whose result overlaps its operand in memory", take(&input, 0)),
        ("a read by index of shapes that do not fit", take(&input, 2)),
        ("an op whose result overlaps its operand in memory", put(&input, &input)),
        (
            "an op whose result overlaps its operand in memory",
            put(&memory.random(DType::Float, &[8, 8], RANGE), &turned),
        ),
    ]
}
