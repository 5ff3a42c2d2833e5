//! Errors of the library that no tool can provoke, and renumbering. Errors as they are rendered are below
//! `test/errors`.

use crate::common::Case;

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
