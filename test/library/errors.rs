//! Errors of the library that no tool can provoke. Errors as they are rendered are below `test/errors`.

use crate::common::Case;

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
        hostir::backend::cpu::run_plans(&prepared, inputs).unwrap_err()[0].code
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
