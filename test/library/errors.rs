//! Errors as they are rendered, errors of the library that no tool can provoke, and renumbering.

use crate::common::Case;

fn errors(statements: &str) -> String {
    let text = format!("%HostIrContainer {{ () -> () :\n{statements}\n}} // %HostIrContainer\n");
    let (_, diags) = hostir::load(&text);
    diags
        .items
        .iter()
        .map(|diag| {
            let place = diag.primary.as_ref().map_or("", |label| &text[label.span.range()]);
            let notes: String = diag.notes.iter().map(|note| format!("; {note}")).collect();
            format!("{} at `{place}`: {}{notes}\n", diag.code, diag.message)
        })
        .collect()
}

#[track_caller]
fn check(statements: &str, expected: &str) {
    assert_eq!(errors(statements), expected, "{statements}");
}

#[test]
fn names() {
    check(
        "  Synchronise Stream 0",
        "H0101 at `Synchronise`: unknown statement `Synchronise`; did you mean `Synchronize`?\n",
    );
    check(
        "  T1_g_float[iS0{4}] = matmull(T0_g_float[], T2_g_float[])",
        "H0101 at `matmull`: unknown statement `matmull`; did you mean `matmul`?\n",
    );
    check(
        "  i5 = ( cielDiv(i0, 3) ) + 1;",
        "H0102 at `cielDiv(i0, 3)`: unknown function `cielDiv` in a scalar; did you mean `ceilDiv`?\n",
    );
    check(
        "  T1_g_float[] = relu(T0)",
        "H0110 at `T0`: `T0` has not been written in full before; write it in full where it stands first, such as `T0_g_float[iS0{i0}]`\n",
    );
    check(
        "  Communication 1 (type=AllGater, team=(0 1), input=T0_g_float[], output=T1_g_float[], backend=NCLL)",
        "H0109 at `AllGater`: unknown type `AllGater`; did you mean `Allgather`?\nH0109 at `NCLL`: unknown backend `NCLL`; did you mean `NCCL`?\n",
    );
}

#[test]
fn arguments() {
    check(
        "  Communication 1 (type=Allgather, input=T0_g_float[], output=T1_g_float[])",
        "H0103 at `Communication`: `Communication` needs `team=`; add `team=(0 1 2 3)`; its arguments are `type=`, `team=`, `root=` (optional), `root_as=` (optional), `red_op=` (optional), `input=`, `output=`, `backend=` (optional)\n",
    );
    check(
        "  P2PCommunication 1 (type=send, buffer=T0_g_float[], pear=1)",
        "H0104 at `pear=1`: `P2PCommunication` has no argument `pear`; did you mean `peer`?\n",
    );
    check(
        "  P2PCommunication 1 (type=send, buffer=T0_g_float[], peer=1, peer=2)",
        "H0105 at `peer=2`: `P2PCommunication` has `peer` twice; remove one of them\n",
    );
    check(
        "  T1_g_float[] = matmul(T0_g_float[], 3)",
        "H0106 at `3`: this operand needs a tensor, found an integer\n",
    );
    check(
        "  T1_g_float[] = matmul(T0_g_float[], T0_g_float[], T0_g_float[])",
        "H0107 at `T0_g_float[]`: `matmul` takes 2 operands, this is one more; its arguments are a tensor, a tensor\n",
    );
    check(
        "  matmul(T0_g_float[], T0_g_float[])",
        "H0108 at `matmul`: `matmul` has 1 result, found 0; write `T1_g_float[iS0{i0}] = matmul...`\n",
    );
    check(
        "  EndCoalescing",
        "H0112 at `EndCoalescing`: `EndCoalescing` needs a number; write `EndCoalescing 1`; `Wait Communication 1` names it\n",
    );
}

#[test]
fn tensors() {
    check(
        "  T1_g_float[] = HirAliasSelect( T0_g_float[iS0{i0}, rS1{8}], axis = 1, index = 0 )",
        "H0113 at `axis = 1`: `T0` has 1 axis, found position 1; positions are 0 to 0; reductions do not count\n",
    );
    check(
        "  T2_g_float[] = T0_g_float[] + T1_g_float[] * 2;",
        "H0114 at `T1_g_float[]`: a tensor cannot stand inside a scalar expression; a statement does one operation on tensors; give the inner one a statement of its own\n",
    );
    check(
        "  T2_g_float[] = ALLOCATE(buffer=T1_g_float[], mem_type=global, size=1, zero_init=false, resets_to_zero=false)",
        "H0115 at `T2_g_float[] = ALLOCATE(buffer=T1_g_float[], mem_type=global, size=1, zero_init=false, resets_to_zero=false)`: ALLOCATE makes `T2`, but its buffer is `T1`; write the same tensor in front of `=` and behind `buffer=`\n",
    );
    check(
        "  T2_g_float[] = T0_g_float[];",
        "H0106 at `T0_g_float[]`: a tensor needs an operation, found a tensor; a copy is written `Set( T0, cache_op=Streaming )`\n",
    );
}

#[test]
fn one_error_a_statement_and_the_rest_goes_on() {
    let found = errors(
        "  FOR i1 in iS0{8}:\n    Foo 1\n    Wait Foo 3\n  StartCoalescing\n  IF Auto true:\n    Bar\n",
    );
    let codes: Vec<&str> = found.lines().filter_map(|line| line.split(' ').next()).collect();
    assert_eq!(codes, ["H0101", "H0109", "H0109", "H0101"], "{found}");
}

#[test]
fn renumbered() {
    let text = "%HostIrContainer { (T7_g_float[ideviceIdx.x9{i5}, iS8{i3}]) -> (T4_g_float[iS21{i3}, ideviceIdx.x20{i5}]) :
  T4_g_float[iS21{i3}, ideviceIdx.x20{i5}]
     = Set.Permute( T7_g_float[ideviceIdx.x9{i5}, iS8{i3}], cache_op=Streaming )
  FOR i9 in iS21{i3}:
    EndCoalescing 32
    Wait Communication 32
} // %HostIrContainer
";
    let expected = "%HostIrContainer { (T0_g_float[ideviceIdx.x1{i0}, iS0{i1}]) -> (T1_g_float[iS3{i1}, ideviceIdx.x2{i0}]) :
  T1_g_float[iS3{i1}, ideviceIdx.x2{i0}]
     = Set.Permute( T0_g_float[ideviceIdx.x1{i0}, iS0{i1}], cache_op=Streaming )
  FOR i2 in iS3{i1}:
    EndCoalescing 0
    Wait Communication 0
} // %HostIrContainer
";
    let (mut programs, diags) = hostir::load(text);
    assert!(diags.is_empty());
    for program in &mut programs {
        hostir::ir::renumber(program);
        assert_eq!(hostir::print::print(program), expected);
        hostir::ir::renumber(program);
        assert_eq!(hostir::print::print(program), expected);
    }
}

#[test]
fn inputs_that_do_not_fit_the_plan() {
    let case = Case::new(
        "%HostIrContainer { (T0_g_float[iS0{3}]) -> (T1_g_float[iS1{3}]) :
  T1
     = Set( T0, cache_op=Streaming )
} // %HostIrContainer
",
        &[],
    );
    let prepared = case.prepare().unwrap();
    let code = |inputs: Vec<Vec<hostir::data::HostTensor>>| {
        hostir::backend::cpu::run(&prepared, inputs).unwrap_err()[0].code
    };
    let tensor = |dtype, extent| hostir::data::HostTensor::zeros(dtype, &[extent]);
    assert_eq!(code(Vec::new()), "H0501");
    assert_eq!(code(vec![Vec::new()]), "H0501");
    assert_eq!(code(vec![vec![tensor(hostir::ir::DType::Float, 4)]]), "H0501");
    assert_eq!(code(vec![vec![tensor(hostir::ir::DType::Double, 3)]]), "H0501");
}

#[test]
fn memory_that_nobody_has() {
    let text = "%HostIrContainer { (T0_g_float[iS0{2}]) -> (T2_l_float[iS3{2}]) :
  T1_g_float[iS1{i0}, iS2{2}] = ALLOCATE(buffer=T1, mem_type=global, size=( i0 * 2 ), zero_init=false, resets_to_zero=false)
  T2
     = HirAliasSelect( T1, axis = iS1{i0}, index = 0 )
  T2
     = Set( T0, cache_op=Streaming )
} // %HostIrContainer
";
    let case = Case::new(text, &[("i0", 1 << 57)]).memory(u64::MAX);
    let message = case.fails();
    assert!(message.contains("H0504"), "{message}");
}

#[test]
fn deadlocks_are_found_without_data() {
    let text = "%HostIrContainer { (T0_g_float[iS0{2}] (DeviceMesh{0 1})) -> (T1_g_float[iS1{2}] (DeviceMesh{0 1})) :
  T1 = ALLOCATE(buffer=T1, mem_type=global, size=2, zero_init=false, resets_to_zero=false)
  P2PCommunication 1 (type=recv, buffer=T1, peer=( 1 - rank ), backend=NCCL)
  P2PCommunication 2 (type=send, buffer=T0, peer=( 1 - rank ), backend=NCCL)
  Wait Communication 1
  Wait Communication 2
} // %HostIrContainer
";
    let both = Case::new(text, &[]).prepare().unwrap();
    assert_eq!(hostir::backend::cpu::follow_order(&both).unwrap_err()[0].code, "H0510");
    let grouped =
        text.replace("  P2PCommunication 1", "  StartCoalescing\n  P2PCommunication 1").replace(
            "  Wait Communication 1\n  Wait Communication 2",
            "  EndCoalescing 3\n  Wait Communication 3",
        );
    let grouped = Case::new(&grouped, &[]).prepare().unwrap();
    assert!(hostir::backend::cpu::follow_order(&grouped).is_ok());
}
