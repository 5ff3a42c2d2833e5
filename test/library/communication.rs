//! Communications whose root is outside of a tensor's mesh, and errors of unverified programs. `collectives` has
//! every other combination, `test/errors/runtime/run_communications.hir` the other errors.

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
fn gather_to_a_root_outside_of_the_mesh() {
    let case =
        single("ideviceIdx.x0{2}, iS1{4}", "2 0", "iS2{2}, iS3{4}", "1", "__half", "type=Gather, team=(2 0 1), root=1");
    let (inputs, outputs) = case.run();
    assert_eq!(inputs, outputs);
}

#[test]
fn scatter_from_a_root_outside_of_the_mesh() {
    let case =
        single("iS0{2}, iS1{4}", "1", "ideviceIdx.x2{2}, iS3{4}", "2 0", "int", "type=Scatter, team=(2 0 1), root=1");
    let (inputs, outputs) = case.run();
    assert_eq!(inputs, outputs);
}

#[test]
fn broadcast_and_send() {
    let case = single("iS0{5}", "2", "iS1{5}", "0 1", "__bfloat", "type=Broadcast, team=(0 1 2), root=2");
    let (inputs, outputs) = case.run();
    assert_eq!(inputs, outputs);
    let case = single("iS0{5}", "2", "iS1{5}", "0", "bool", "type=SendRecv, team=(2 0), root=2");
    let (inputs, outputs) = case.run();
    assert_eq!(inputs, outputs);
}

#[test]
fn roots_and_teams_are_checked() {
    let case = single("iS0{5}", "0", "iS1{5}", "0 1", "float", "type=Broadcast, team=(0 1), root=7");
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
fn groups_of_unverified_programs_are_checked() {
    let text = ring("  StartCoalescing\n").fails();
    assert!(text.contains("H0414") && text.contains("no `EndCoalescing`"), "{text}");
    let text = ring("  EndCoalescing 6\n").fails();
    assert!(text.contains("H0414") && text.contains("without a `StartCoalescing`"), "{text}");
}

/// A CollectivePermute is a group of its own.
#[test]
fn permutes_in_groups_are_refused() {
    let text = "%HostIrContainer { (T0_g_float[iS0{2}] (DeviceMesh{0 1})) -> (T1_g_float[iS1{2}] (DeviceMesh{0 1})) :
  T1 = ALLOCATE(buffer=T1, mem_type=global, size=2, zero_init=false, resets_to_zero=false)
  StartCoalescing
  CollectivePermute 5 (team=(0 1), send_peer=( ( rank + 1 ) % 2 ), recv_peer=( ( rank + 1 ) % 2 ), input=T0, output=T1, backend=NCCL)
  EndCoalescing 6
  Wait Communication 6
} // %HostIrContainer
";
    let text = Case::new(text, &[]).fails();
    assert!(text.contains("H0414") && text.contains("can only contain sends and receives"), "{text}");
}

/// All outputs of a unit have memory when it is posted, or none.
#[test]
fn units_with_half_of_their_memory() {
    let text = "%HostIrContainer { (T0_g_float[iS0{2}]) -> (T1_g_float[iS1{2}], T2_g_float[iS2{2}]) :
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
    assert!(message.contains("H0409") && message.contains("T1 is allocated, but T2 is not"), "{message}");
    let whole = text.lines().filter(|line| !line.contains("ALLOCATE")).collect::<Vec<_>>().join("\n");
    let (inputs, outputs) = Case::new(&whole, &[]).run();
    let x = &inputs[0];
    assert_eq!(outputs[0], x.iter().map(|x| x + x).collect::<Vec<_>>());
    assert_eq!(outputs[1], x.iter().map(|x| x * x).collect::<Vec<_>>());
}
