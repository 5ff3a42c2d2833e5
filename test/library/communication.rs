//! Communications of every type on the CPU, with odd team orders and roots, against plain loops; and errors that
//! the verifier reports first. Other errors are in `test/errors/run_communications.hir`.

use crate::common::Case;

const MESH: &str = "(DeviceMesh{0 1 2})";

/// One communication `T0 -> T1` on three devices with T1 allocated: domains of both, the meshes of
/// both, and the attributes.
fn single(input: &str, from: &str, output: &str, to: &str, dtype: &str, attrs: &str) -> Case {
    let text = format!(
        "%HostIrContainer {{ (T0_g_{dtype}[{input}] (DeviceMesh{{{from}}})) -> (T1_g_{dtype}[{output}] (DeviceMesh{{{to}}})) :
  T1 = ALLOCATE(buffer=T1, mem_type=global, size=1, zero_init=false, resets_to_zero=false)
  Communication 9 ({attrs}, input=T0, output=T1, backend=NCCL)
  Wait Communication 9
}} // %HostIrContainer
"
    );
    Case::new(&text, &[])
}

#[test]
fn allgather_in_team_order() {
    let case = single(
        "ideviceIdx.x0{3}, iS1{4}",
        "2 0 1",
        "iS2{3}, iS3{4}",
        "2 0 1",
        "float",
        "type=Allgather, team=(2 0 1)",
    );
    let (inputs, outputs) = case.run();
    assert_eq!(inputs, outputs);
}

#[test]
fn gather_to_a_root_inside_and_outside() {
    let case = single(
        "ideviceIdx.x0{3}, iS1{4}",
        "1 2 0",
        "iS2{3}, iS3{4}",
        "2",
        "double",
        "type=Gather, team=(1 2 0), root=2",
    );
    let (inputs, outputs) = case.run();
    assert_eq!(inputs, outputs);
    let case = single(
        "ideviceIdx.x0{2}, iS1{4}",
        "2 0",
        "iS2{2}, iS3{4}",
        "1",
        "__half",
        "type=Gather, team=(2 0 1), root=1",
    );
    let (inputs, outputs) = case.run();
    assert_eq!(inputs, outputs);
}

#[test]
fn scatter_from_a_root_inside_and_outside() {
    let case = single(
        "iS0{3}, iS1{4}",
        "1",
        "ideviceIdx.x2{3}, iS3{4}",
        "2 1 0",
        "int64_t",
        "type=Scatter, team=(2 1 0), root=1",
    );
    let (inputs, outputs) = case.run();
    assert_eq!(inputs, outputs);
    let case = single(
        "iS0{2}, iS1{4}",
        "1",
        "ideviceIdx.x2{2}, iS3{4}",
        "2 0",
        "int",
        "type=Scatter, team=(2 0 1), root=1",
    );
    let (inputs, outputs) = case.run();
    assert_eq!(inputs, outputs);
}

#[test]
fn broadcast_and_send() {
    let case =
        single("iS0{5}", "2", "iS1{5}", "0 1", "__bfloat", "type=Broadcast, team=(0 1 2), root=2");
    let (inputs, outputs) = case.run();
    assert_eq!(inputs, outputs);
    let case = single("iS0{5}", "2", "iS1{5}", "0", "bool", "type=SendRecv, team=(2 0), root=2");
    let (inputs, outputs) = case.run();
    assert_eq!(inputs, outputs);
    let case = single("iS0{5}", "1", "iS1{5}", "1", "float", "type=SendRecv, team=(1), root=1");
    let (inputs, outputs) = case.run();
    assert_eq!(inputs, outputs);
}

fn fold(values: &[f64], parts: usize, f: fn(f64, f64) -> f64) -> Vec<f64> {
    let size = values.len() / parts;
    (0..size).map(|i| (1..parts).fold(values[i], |all, p| f(all, values[p * size + i]))).collect()
}

#[test]
fn reduce_to_roots() {
    for (root, mesh) in [(0, "0"), (2, "2")] {
        let attrs = format!("type=Reduce, team=(1 2 0), root={root}");
        let case =
            single("ideviceIdx.x0{3}, iS1{4}", "1 2 0", "rS2{3}, iS3{4}", mesh, "float", &attrs);
        let (inputs, outputs) = case.run();
        assert_eq!(outputs[0], fold(&inputs[0], 3, |a, b| a + b));
    }
    // A root outside of the senders.
    let case = single(
        "ideviceIdx.x0{2}, iS1{4}",
        "1 2",
        "rS2{2}, iS3{4}",
        "0",
        "float",
        "type=Reduce, team=(1 2 0), root=0, red_op=max",
    );
    let (inputs, outputs) = case.run();
    assert_eq!(outputs[0], fold(&inputs[0], 2, f64::max));
}

#[test]
fn allreduce_operations() {
    type Op = (&'static str, &'static str, fn(f64, f64) -> f64);
    let ops: [Op; 7] = [
        ("sum", "float", |a, b| a + b),
        ("product", "double", |a, b| a * b),
        ("min", "__half", f64::min),
        ("max", "__bfloat", f64::max),
        ("band", "int", |a, b| ((a as i64) & (b as i64)) as f64),
        ("bor", "int64_t", |a, b| ((a as i64) | (b as i64)) as f64),
        ("bxor", "int64_t", |a, b| ((a as i64) ^ (b as i64)) as f64),
    ];
    for (word, dtype, f) in ops {
        let attrs = format!("type=Allreduce, team=(2 0 1), red_op={word}");
        let case =
            single("ideviceIdx.x0{3}, iS1{4}", "2 0 1", "rS2{3}, iS3{4}", "2 0 1", dtype, &attrs);
        let (inputs, outputs) = case.run();
        assert_eq!(outputs[0], fold(&inputs[0], 3, f), "{word}");
    }
    let case = single(
        "ideviceIdx.x0{3}, iS1{4}",
        "2 0 1",
        "rS2{3}, iS3{4}",
        "2 0 1",
        "double",
        "type=Allreduce, team=(2 0 1), red_op=avg",
    );
    let (inputs, outputs) = case.run();
    let average: Vec<f64> = fold(&inputs[0], 3, |a, b| a + b).iter().map(|x| x / 3.0).collect();
    assert_eq!(outputs[0], average);
}

#[test]
fn reduce_scatter_in_team_order() {
    let case = single(
        "ideviceIdx.x0{3}, iS1{3}, iS2{2}",
        "2 0 1",
        "rS3{3}, ideviceIdx.x4{3}, iS5{2}",
        "2 0 1",
        "float",
        "type=ReduceScatter, team=(2 0 1)",
    );
    let (inputs, outputs) = case.run();
    assert_eq!(outputs[0], fold(&inputs[0], 3, |a, b| a + b));
}

#[test]
fn all_to_all() {
    let case = single(
        "ideviceIdx.x0{3}, iS1{3}, iS2{2}",
        "0 1 2",
        "iS3{3}, ideviceIdx.x4{3}, iS5{2}",
        "0 1 2",
        "float",
        "type=AllToAll, team=(0 1 2)",
    );
    let (inputs, outputs) = case.run();
    // Part j of member i is part i of member j: the whole tensors are equal.
    assert_eq!(inputs, outputs);
}

#[test]
fn roots_and_teams_are_checked() {
    let case =
        single("iS0{5}", "0", "iS1{5}", "0 1", "float", "type=Broadcast, team=(0 1), root=7");
    assert!(case.fails().contains("the root 7 is not in the team"));
}

/// A ring: every rank sends its part to the right and receives from the left; `body` has the posts.
fn ring(body: &str) -> Case {
    let text = format!(
        "%HostIrContainer {{ (T0_g_float[ideviceIdx.x0{{3}}, iS1{{4}}] {MESH}) -> (T1_g_float[ideviceIdx.x2{{3}}, iS3{{4}}] {MESH}) :
  T1 = ALLOCATE(buffer=T1, mem_type=global, size=1, zero_init=false, resets_to_zero=false)
{body}}} // %HostIrContainer
"
    );
    Case::new(&text, &[])
}

#[test]
fn a_coalesced_ring_shifts() {
    let case = ring(
        "  StartCoalescing
  P2PCommunication 4 (type=recv, buffer=T1, peer=( ( rank + 2 ) % 3 ), backend=NCCL)
  P2PCommunication 5 (type=send, buffer=T0, peer=( ( rank + 1 ) % 3 ), backend=NCCL)
  EndCoalescing 6
  Wait Communication 6
",
    );
    let (inputs, outputs) = case.run();
    let shifted: Vec<f64> =
        [2, 0, 1].iter().flat_map(|&r| inputs[0][r * 4..][..4].to_vec()).collect();
    assert_eq!(outputs[0], shifted);
}

#[test]
fn a_ring_on_the_stream_sends_first() {
    let send =
        "  P2PCommunication 5 (type=send, buffer=T0, peer=( ( rank + 1 ) % 3 ), backend=CUDA)\n";
    let recv =
        "  P2PCommunication 4 (type=recv, buffer=T1, peer=( ( rank + 2 ) % 3 ), backend=CUDA)\n";
    let waits = "  Wait P2PCommunication 5\n  Wait P2PCommunication 4\n".replace("P2P", "");
    let (inputs, outputs) = ring(&format!("{send}{recv}{waits}")).run();
    assert_eq!(outputs[0][..4], inputs[0][8..]);
}

#[test]
fn groups_of_unverified_programs_are_checked() {
    let text = ring("  StartCoalescing\n").fails();
    assert!(text.contains("H0414") && text.contains("no `EndCoalescing`"), "{text}");
    let text = ring("  EndCoalescing 6\n").fails();
    assert!(text.contains("H0414") && text.contains("without a `StartCoalescing`"), "{text}");
}

/// In the spelling of 2026 the root is a position in the team.
#[test]
fn roots_of_2026_are_positions() {
    let text = "%HostIrContainer { (T0_g_float[iS0{4}] (DeviceMesh{2})) -> (T1_g_float[iS1{4}] (DeviceMesh{0 1 2})) :
  T1 = ALLOCATE(mem_type=global, zero_init=false)
  Communication 9 (type=Broadcast, team=(2 0 1), root=0, input=T0, output=T1, backend=NCCL)
  Wait(Communication 9)
} // %HostIrContainer
";
    let (inputs, outputs) = Case::new(text, &[]).run();
    assert_eq!(inputs, outputs);
    let other =
        text.replace("Wait(Communication 9)", "Wait Communication 9").replace("root=0", "root=2");
    let (inputs, outputs) = Case::new(&other, &[]).run();
    assert_eq!(inputs, outputs);
}

/// All outputs of a unit have memory when it is posted, or none.
#[test]
fn units_with_half_of_their_memory() {
    let text =
        "%HostIrContainer { (T0_g_float[iS0{2}]) -> (T1_g_float[iS1{2}], T2_g_float[iS2{2}]) :
  T1 = ALLOCATE(buffer=T1, mem_type=global, size=2, zero_init=false, resets_to_zero=false)
  PostOnStream (HostUnit0, Inputs:{T0, }, Outputs:{T1, T2, })

HostUnit0: Inputs={T0_g_float[iS0{2}]} -> Outputs={T1_g_float[iS1{2}], T2_g_float[iS2{2}]}
Inputs:
  T0_g_float[iS0{2}]
Outputs:
  T1_g_float[iS1{2}]
  T2_g_float[iS2{2}]

%kernel {
T1
   = T0
   + T0;
T2
   = T0
   * T0;
} // %kernel
} // %HostIrContainer
";
    let message = Case::new(text, &[]).fails();
    assert!(
        message.contains("H0409") && message.contains("T1 has memory and T2 has none"),
        "{message}"
    );
    let whole =
        text.lines().filter(|line| !line.contains("ALLOCATE")).collect::<Vec<_>>().join("\n");
    let (inputs, outputs) = Case::new(&whole, &[]).run();
    let x = &inputs[0];
    assert_eq!(outputs[0], x.iter().map(|x| x + x).collect::<Vec<_>>());
    assert_eq!(outputs[1], x.iter().map(|x| x * x).collect::<Vec<_>>());
}
