//! The verifier's findings about programs, and programs that no text gives. Its diagnostics are below
//! `test/errors/verifier`.

use hostir::analysis::{ExtentClasses, is_resharding, tensor_sharding};
use hostir::diag::{Diags, render};
use hostir::ir::edit::Edit;
use hostir::ir::free_names;
use hostir::ir::{Op, OpId, Program};
use hostir::ops::OpRegistry;
use hostir::verify::verify;
use std::collections::BTreeSet;
use std::path::Path;

fn load(text: &str) -> Program {
    let (mut programs, diags) = hostir::load(text);
    assert!(diags.is_empty(), "{}", render::to_string("test.hir", text, &diags.items));
    assert_eq!(programs.len(), 1, "{text}");
    programs.remove(0)
}

fn rendered(text: &str) -> String {
    let mut diags = Diags::default();
    verify(&load(text), &mut diags);
    let rendered = render::to_string("test.hir", text, &diags.items);
    rendered.lines().map(|line| format!("{}\n", line.trim_end())).collect()
}

const MATMUL: &str = "%HostIrContainer { (T0_g_float[ideviceIdx.x1{i1}, iS0{i0}, iS2{i2}] (DeviceMesh{0 1}), \
T1_g_float[iS3{i3}, iS4{i4}] (DeviceMesh{0 1})) -> (T3_g_float[iS8{i0}, iS9{i1}, iS10{i4}, rS11{i2}] (DeviceMesh{0 1})) :
  T2_g_float[iS5{i0}, iS6{i1}, iS7{i2}] (DeviceMesh{0 1})
     = Set( T0_g_float[ideviceIdx.x1{i1}, iS0{i0}, iS2{i2}] (DeviceMesh{0 1}), cache_op=Streaming )
  T3_g_float[iS8{i0}, iS9{i1}, iS10{i4}, rS11{i2}] (DeviceMesh{0 1})
     = matmul(T2_g_float[iS5{i0}, iS6{i1}, iS7{i2}] (DeviceMesh{0 1}),
              T1_g_float[iS3{i3}, iS4{i4}] (DeviceMesh{0 1}))
} // %HostIrContainer
";

fn ops(program: &Program) -> Vec<OpId> {
    let mut ops = Vec::new();
    program.walk(program.body(), &mut |op| ops.push(op));
    ops
}

#[test]
fn extents_follow_from_ops_and_meshes() {
    assert_eq!(ExtentClasses::new(&load(MATMUL)).conflicts(), []);
    // The matmul contracts an axis that is as long as a mesh of two with one that is as long as a mesh of three.
    let text = MATMUL.replace("{i2}", "{i1}").replace("iS3{i3}", "ideviceIdx.x3{i3}");
    let text = text.replace("iS4{i4}] (DeviceMesh{0 1})", "iS4{i4}] (DeviceMesh{0 1 2})");
    let classes = ExtentClasses::new(&load(&text));
    let found: BTreeSet<(i64, i64)> =
        classes.conflicts().iter().map(|one| (one.is.min(one.needs), one.is.max(one.needs))).collect();
    assert_eq!(found, BTreeSet::from([(2, 3)]));
}

#[test]
fn a_gathering_set_reshards_and_a_matmul_of_whole_tensors_does_not() {
    let program = load(MATMUL);
    let resharding: Vec<bool> = ops(&program).iter().map(|op| is_resharding(&program, *op)).collect();
    assert_eq!(resharding, [true, false]);
    let input = program.inputs()[0].as_tensor().unwrap();
    assert_eq!(tensor_sharding(&program, input).axes, [Some(1), None, None], "the device axis stands behind iS0");
}

#[test]
fn names_of_nvfuser_may_be_free() {
    let text = "%HostIrContainer { (T0_g_float[iS0{i0}, iS1{i1}]) -> (T1_l_float[iS2{i1}]) :
  T1_l_float[iS2{i1}]
     = HirAliasSelect( T0_g_float[iS0{i0}, iS1{i1}], axis = iS0{i0}, index = i84 )
} // %HostIrContainer
";
    assert_eq!(rendered(text), "");
    let program = load(text);
    let names: Vec<&str> = free_names(&program).iter().map(|free| program.name(free.name)).collect();
    assert_eq!(names, ["i84"]);
}

#[test]
fn operands_are_counted() {
    let mut program = load(MATMUL);
    let matmul = ops(&program)[1];
    let mut op = program.op(matmul).clone();
    op.operands.pop();
    let mut edit = Edit::new(&mut program);
    edit.set_op(matmul, op);
    assert!(edit.commit());
    let mut diags = Diags::default();
    verify(&program, &mut diags);
    let found: Vec<(&str, &str)> = diags.items.iter().map(|diag| (diag.code, diag.message.as_str())).collect();
    assert_eq!(found, [("H0220", "`matmul` needs 2 tensor operands but has 1")]);
}

/// Programs that no text gives: every op of the verifier's own tests as every kind, and with parts missing.
#[test]
fn damaged_ops_never_panic() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("test/errors/verifier");
    let mut tried = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|extension| extension == "hir") {
            let text = std::fs::read_to_string(path).unwrap();
            text.split("// -----\n").for_each(damage_each_op);
            tried += text.matches("// -----\n").count();
        }
    }
    assert!(tried > 40, "only {tried} programs");
}

fn damage_each_op(text: &str) {
    let mut program = load(text);
    for id in ops(&program) {
        let whole = program.op(id).clone();
        let mut variants: Vec<Op> = OpRegistry::OURS.kinds().map(|kind| Op { kind, ..whole.clone() }).collect();
        variants.push(Op { operands: Default::default(), ..whole.clone() });
        variants.push(Op { results: Default::default(), ..whole.clone() });
        variants.push(Op { attrs: Vec::new(), ..whole.clone() });
        variants.push(Op { operands: whole.results.iter().copied().collect(), ..whole.clone() });
        for variant in variants {
            let mut edit = Edit::new(&mut program);
            edit.set_op(id, variant);
            verify(edit.program(), &mut Diags::default());
            let _ = is_resharding(edit.program(), id);
        }
    }
}
