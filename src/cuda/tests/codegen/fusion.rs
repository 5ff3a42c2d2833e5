//! Joined kernels compute what the instructions one by one compute: on the CPU backend, and as generated
//! kernels on the host.

use crate::cases::Case;
use crate::chains::Chains;
use crate::{SMS, effort, fused, host};
use hostir::backend::cpu;
use hostir::data::HostTensor;
use hostir::ir::{DType, OpId, TensorId};
use hostir::lower::{PreparedProgram, SizeSettings};
use hostir::plan::{
    BufferId, BufferKind, BufferView, EventId, Function, Inst, InstId, InstKind, InstOrigin, IterationId, KernelStep,
    Plan, PlanBuffer, PointwiseKernel, ScalarValue, StepOperand, StreamSlot, row_major,
};
use hostir_gpu::codegen::KernelJob;
use hostir_gpu::fuse::fuse_kernels;
use hostir_gpu::fused_inst::FusedInst;
use smallvec::smallvec;

/// A program, and how many launches are left of it.
struct Program {
    name: &'static str,
    text: String,
    left: usize,
}

fn program(name: &'static str, ports: &str, body: &str, left: usize) -> Program {
    let text = format!("%HostIrContainer {{ {ports} :\n{body}}} // %HostIrContainer\n");
    Program { name, text, left }
}

const SUM: &str = "op = add, initial value = float(0), allreduce = false";

fn programs() -> Vec<Program> {
    let softmax = format!(
        "  T1_l_float[iS2{{6}}, iS3{{40}}]\n     = __half2float(T0);\n  T2_l_float[iS4{{6}}, iS5{{40}}]\n     = expf(T1);\n  T3_l_float[iS6{{6}}, rS7{{40}}]\n     = reduction( T2, {SUM} )\n  T4_l_float[iS8{{6}}, bS9{{1}}]\n     = broadcast( T3, flags = {{false, true}} )\n  T5_l_float[iS10{{6}}, iS11{{40}}]\n     = T2\n     / T4;\n  T6\n     = __float2half(T5);\n"
    );
    let crosswise = "  T1_l_float[iS2{40}, iS3{6}]\n     = T0\n     * 2;\n  T2_l_float[iS5{6}, iS4{40}]\n     = Set.Permute( T1, cache_op=Streaming )\n  T3_l_float[iS6{6}, iS7{4}, iS8{10}]\n     = view( T2 )\n  T4\n     = tanf(T3);\n";
    let dear = format!(
        "  T1_l_float[iS1{{40}}]\n     = tanf(T0);\n  T2_l_float[bS2{{1}}, iS3{{40}}]\n     = broadcast( T1, flags = {{true, false}} )\n  T4\n     = T2\n     + T3;\n  T5_l_float[rS4{{6}}, iS5{{40}}]\n     = reduction( T4, {SUM} )\n  T6\n     = T5\n     + T1;\n"
    );
    let diamond = "  T1_l_float[iS1{40}]\n     = tanf(T0);\n  T2_l_float[iS2{40}]\n     = T1\n     * T0;\n  T3_l_float[iS3{40}]\n     = T1\n     + T0;\n  T4\n     = T2\n     * T3;\n";
    vec![
        // The tangent is read twice, by what ends as one kernel.
        program("diamond", "(T0_g_float[iS0{40}]) -> (T4_g_float[iS4{40}])", diamond, 1),
        program("softmax", "(T0_g___half[iS0{6}, iS1{40}]) -> (T6_g___half[iS12{6}, iS13{40}])", &softmax, 2),
        program("crosswise", "(T0_g_float[iS0{40}, iS1{6}]) -> (T4_g_float[iS9{6}, iS10{4}, iS11{10}])", crosswise, 1),
        // The tangent is read twice, and the sum of it is an output.
        program(
            "dear",
            "(T0_g_float[iS0{40}], T3_g_float[iS6{6}, iS7{40}]) -> (T4_g_float[iS8{6}, iS9{40}], T6_g_float[iS10{40}])",
            &dear,
            4,
        ),
    ]
}

fn prepared(text: &str) -> PreparedProgram {
    let (programs, diags) = hostir::load(text);
    assert!(diags.is_empty(), "{}", hostir::diag::render::to_string("test", text, &diags.items));
    match hostir::lower::prepare_program(&programs[0], &SizeSettings::default()) {
        Ok(prepared) => prepared,
        Err(diags) => panic!("{}", hostir::diag::render::to_string("test", text, &diags.items)),
    }
}

fn inputs(plan: &Plan) -> Vec<HostTensor> {
    let one = |view: &BufferView| {
        let mut tensor = HostTensor::zeros(view.dtype, &view.shape());
        for index in 0..tensor.len() {
            tensor.set_f64(index, (index as f64 * 0.7).sin());
        }
        tensor
    };
    plan.inputs.iter().flatten().map(one).collect()
}

fn launches(fused: &[FusedInst], plan: &Plan) -> usize {
    let runs = |fused: &&FusedInst| match fused {
        FusedInst::Inst(position) => {
            !matches!(plan.inst(*position).kind, InstKind::Alloc { .. } | InstKind::Free { .. })
        }
        _ => true,
    };
    fused.iter().filter(runs).count()
}

/// Square matrices in rows `T4` and `T5`, and copies around products of them.
fn copies() -> Vec<Program> {
    let ports = "(T0_g_float[iS0{6}, iS1{6}], T1_g_float[iS2{6}, iS3{6}]) -> (T2_g_float[iS4{2}, iS5{6}, iS6{6}])";
    let part = |number: usize, whole: &str, axis: &str, at: usize| {
        format!(
            "  T{number}_l_float[iS{number}0{{6}}, iS{number}1{{6}}]\n     = HirAliasSelect( {whole}, axis = {axis}, index = {at} )\n"
        )
    };
    let rows = "  T4_g_float[iS7{2}, iS8{6}, iS9{6}] = ALLOCATE(buffer=T4, mem_type=global, size=72, zero_init=false, resets_to_zero=false)\n  T2 = ALLOCATE(buffer=T2, mem_type=global, size=72, zero_init=false, resets_to_zero=false)\n";
    let parts = [part(5, "T4", "iS7{2}", 0), part(6, "T4", "iS7{2}", 1)].concat();
    let results = [part(7, "T2", "iS4{2}", 0), part(8, "T2", "iS4{2}", 1)].concat();
    let set = |to: usize, from: usize| format!("  T{to}\n     = Set( T{from}, cache_op=Streaming )\n");
    let product = |to: usize, a: usize, b: usize| format!("  T{to}\n     = matmul(T{a},\n              T{b})\n");
    let all = |lines: &[String]| [rows, &parts, &results, &lines.concat()].concat();
    vec![
        // The factor of one product and the result of the other.
        program("factor", ports, &all(&[set(5, 0), product(7, 5, 1), product(8, 1, 0)]), 2),
        program("both factors", ports, &all(&[set(5, 0), product(7, 5, 5), product(8, 5, 1)]), 2),
        program("result", ports, &all(&[product(6, 0, 1), set(8, 6), product(7, 1, 0)]), 2),
        program("chain", ports, &all(&[set(5, 0), product(6, 5, 1), set(7, 6), product(8, 0, 1)]), 2),
        // The copy is read by what is no product, ...
        program("read", ports, &all(&[product(6, 0, 1), set(7, 6), "  T8\n     = T6\n     + T6;\n".to_owned()]), 3),
        // ... its place is written in between, or read by the product itself,
        program("place", ports, &all(&[set(8, 1), product(6, 8, 1), product(7, 0, 1), set(8, 6)]), 4),
        // and what was copied is overwritten before the product reads the copy.
        program("source", ports, &all(&[product(7, 0, 1), set(5, 7), product(7, 1, 0), product(8, 5, 1)]), 4),
    ]
}

pub(crate) fn joined_kernels_compute_the_same() {
    for Program { name, text, left } in programs().into_iter().chain(copies()) {
        let plain = prepared(&text);
        let mut joined = plain.clone();
        joined.plans[0] = fused::applied(&plain.plans[0]);
        let inputs = inputs(&plain.plans[0]);
        let run =
            |prepared: &PreparedProgram| cpu::run_plans(prepared, vec![inputs.clone()]).map(|result| result.outputs);
        assert_eq!(run(&plain), run(&joined), "{name}");
        let fused = fuse_kernels(&plain.plans[0]);
        assert_eq!(launches(&fused, &plain.plans[0]), left, "{name}: {fused:#?}");
    }
}

pub(crate) fn joined_random_chains_compute_the_same() {
    let (mut before, mut after) = (0, 0);
    for seed in 0..effort::cases("HIR_PROGRAMS", 400, 20_000) {
        let seed = effort::seed(seed);
        let text = Chains::program(seed);
        let plain = prepared(&text);
        let mut joined = plain.clone();
        joined.plans[0] = fused::applied(&plain.plans[0]);
        let inputs = inputs(&plain.plans[0]);
        let run = |prepared: &PreparedProgram| match cpu::run_plans(prepared, vec![inputs.clone()]) {
            Ok(result) => result.outputs,
            Err(diags) => panic!("{diags:?}\n{text}"),
        };
        assert_eq!(run(&plain), run(&joined), "program {seed}\n{text}");
        job(&plain.plans[0]);
        let plan = &plain.plans[0];
        let all: Vec<FusedInst> = plan.cursor().map(|(id, _)| FusedInst::Inst(id)).collect();
        before += launches(&all, plan);
        after += launches(&fuse_kernels(plan), plan);
    }
    println!("{before} launches become {after}");
    assert!(after * 3 < before * 2, "{before} launches become {after}");
}

/// The launches of a plan with joined kernels, as one job.
fn job(plan: &Plan) -> KernelJob {
    let mut all = KernelJob::default();
    for item in fuse_kernels(plan) {
        let job = fused::joined_job(plan, item, SMS).unwrap();
        all.scratch = all.scratch.max(job.scratch);
        all.launches.extend(job.launches);
    }
    all
}

pub(crate) fn joined_kernels_run_on_the_host() {
    let mut texts: Vec<String> = programs().into_iter().map(|program| program.text).collect();
    texts.extend((1000..1025).map(Chains::program));
    let prepared: Vec<PreparedProgram> = texts.iter().map(|text| prepared(text)).collect();
    let cases: Vec<Case> = prepared
        .iter()
        .zip(&texts)
        .map(|(prepared, text)| {
            let plan = &prepared.plans[0];
            let mut buffers: Vec<HostTensor> =
                (plan.buffers.iter()).map(|(_, buffer)| HostTensor::zeros(buffer.dtype, &[buffer.elements])).collect();
            for (view, input) in plan.inputs.iter().flatten().zip(inputs(plan)) {
                let flat = HostTensor::from_bytes(input.dtype(), &[input.len()], input.bytes());
                buffers[view.buffer.0 as usize] = flat.unwrap();
            }
            let name = text.lines().next().unwrap_or_default().to_owned();
            Case { name, buffers, kind: InstKind::GroupBegin }
        })
        .collect();
    let jobs: Vec<(&Case, KernelJob)> = cases.iter().zip(&prepared).map(|(case, p)| (case, job(&p.plans[0]))).collect();
    for (prepared, buffers) in prepared.iter().zip(host::run("fusion", &jobs)) {
        let plan = &prepared.plans[0];
        let expected = cpu::run_plans(prepared, vec![inputs(plan)]).unwrap();
        for (view, expected) in plan.outputs.iter().flatten().zip(&expected.outputs[0]) {
            let (got, expected) = (&buffers[view.buffer.0 as usize], expected.as_ref().unwrap());
            assert!(view.is_contiguous() && view.offset == 0);
            for index in 0..expected.len() {
                let (g, e) = (got.get_f64(index), expected.get_f64(index));
                let close = g == e || (g - e).abs() <= 1e-3 * e.abs().max(1.0);
                assert!(close, "{index}: {g}, CPU {e}");
            }
        }
    }
}

/// `B = -A; <between>; C = -B`, where C is an output.
fn chain(between: Vec<(InstKind, u32)>) -> Plan {
    let mut plan = Plan::default();
    plan.streams = 2;
    plan.iterations.push(Default::default());
    let view =
        |buffer: u32| BufferView { buffer: BufferId(buffer), offset: 0, dims: row_major(&[8]), dtype: DType::Float };
    for _ in 0..3 {
        let (tensor, kind) = (TensorId(0), BufferKind::Allocated);
        plan.buffers.push(PlanBuffer { elements: 8, dtype: DType::Float, tensor, kind });
    }
    plan.outputs = vec![Some(view(2))];
    let kernel = |from: u32, to: u32| {
        let float = DType::Float;
        let args = smallvec![StepOperand::Input(0)];
        let step = KernelStep { function: Function::Neg, args, compute: float, result: float };
        let inputs = smallvec![view(from)];
        InstKind::Kernel(Box::new(PointwiseKernel { inputs, output: view(to), steps: vec![step] }))
    };
    let ends = [(kernel(0, 1), 0)].into_iter().chain(between).chain([(kernel(1, 2), 0)]);
    let origin = InstOrigin { op: OpId(0), iteration: IterationId(0) };
    for (kind, stream) in ends {
        plan.push_inst(Inst { kind, stream: StreamSlot(stream), origin });
    }
    plan
}

pub(crate) fn nothing_moves_across_what_others_see() {
    let fill = |buffer: u32, from: usize| {
        let dims = row_major(&[2]);
        let dst = BufferView { buffer: BufferId(buffer), offset: from, dims, dtype: DType::Float };
        InstKind::Fill { dst: Box::new(dst), value: ScalarValue::Int(0) }
    };
    let free = |buffer: u32| InstKind::Free { buffer: BufferId(buffer) };
    let count = |between: Vec<(InstKind, u32)>| {
        let plan = chain(between);
        launches(&fuse_kernels(&plan), &plan)
    };
    assert_eq!(count(vec![]), 1);
    // The first kernel's operand changes, here or on another stream.
    assert_eq!(count(vec![(fill(0, 2), 0)]), 3);
    assert_eq!(count(vec![(fill(0, 2), 1)]), 3);
    // Somebody else writes to the result between.
    assert_eq!(count(vec![(fill(1, 2), 0)]), 3);
    // Another stream may wait until the operand has been read, and write to it then.
    assert_eq!(count(vec![(InstKind::Record { event: EventId(0) }, 0)]), 3);
    assert_eq!(count(vec![(InstKind::Record { event: EventId(0) }, 1)]), 2);
    // Memory that ends on this stream ends later; on another one nothing moves.
    assert_eq!(count(vec![(free(0), 1)]), 2);
    let plan = chain(vec![(free(0), 0), (free(1), 0)]);
    let fused = fuse_kernels(&plan);
    assert!(
        matches!(&fused[..], [FusedInst::Kernel { of, .. }, FusedInst::Inst(InstId(1))] if of == &[InstId(0), InstId(3)])
    );
}
