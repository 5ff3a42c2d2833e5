//! strip-names: drops the names that users gave, which nvFuser's form cannot express.

use crate::framework::pass::{PassAction, PassCx, PassExample, PassInfo, StatisticSpec};
use hostir::diag::message;
use hostir::diag::{Diag, Diags};
use hostir::ir::edit::Edit;
use hostir::ir::{
    GivenNames, HostUnit, NameFinding, Program, RunHints, Symbol, Tensor, TensorId, TextFrame, UnitId, scan_names,
};
use std::collections::HashSet;

/// The pass.
pub(crate) const PASS: PassInfo = PassInfo {
    name: "strip-names",
    summary: "Remove the names that users gave",
    description: "\
Tensors, communications, streams, meshes, HostUnits and the program go back to their numbers, and the values that
the text proposes for a run are dropped, with the line `hir 1` that both need: the printed form is one that nvFuser
could have printed. Names of scalars and extents stay, and so does a size that only the first line gives. A remark
counts what was dropped.",
    example: Some(PassExample { options: "", before: EXAMPLE_BEFORE, after: EXAMPLE_AFTER }),
    options: &[],
    statistics: &[StatisticSpec { name: "names-removed", help: "names removed" }],
    action: PassAction::Rewrite(run_strip_names),
};

const EXAMPLE_BEFORE: &str = "\
hir 1 {sizes={i0=4}}
%HostIrContainer { (T0_g_float[iS0{i0}] {name=A}) -> (T1_g_float[iS1{i0}] {name=B}) {name=copy} :
  T1_g_float[iS1{i0}]
     = Set( T0_g_float[iS0{i0}], cache_op=Streaming )
} // %HostIrContainer
";
const EXAMPLE_AFTER: &str = "\
%HostIrContainer { (T0_g_float[iS0{i0}]) -> (T1_g_float[iS1{i0}]) :
  T1_g_float[iS1{i0}]
     = Set( T0_g_float[iS0{i0}], cache_op=Streaming )
} // %HostIrContainer
";

/// strip-names: names were dropped.
const STRIPPED: &str = "H0319";

fn run_strip_names(edit: &mut Edit<'_>, cx: &mut PassCx<'_>) -> Result<(), Diags> {
    let frame = edit.program().frame();
    if edit.program().has_names() {
        let count = strip_tensor_and_unit_names(edit) + given_count(edit.program());
        let sized = edit.program().given_names().sized.clone();
        edit.set_given_names(GivenNames { sized, ..GivenNames::default() });
        let sizes = needed_sizes(edit);
        edit.set_run_hints(RunHints { sizes, streams: None });
        cx.add_count("names-removed", count as u64);
        cx.add_remark(|| {
            Diag::error(STRIPPED, edit.program().source().header, message!("{} names were dropped", count))
        });
    }
    if frame.version == Some(1) && !edit.program().has_names() {
        edit.set_frame(TextFrame { version: None, ..frame });
    }
    Ok(())
}

/// The proposed sizes that the program cannot lose: those of meshes, and those that only the header binds (the `k` of
/// `topk(X, k)`).
fn needed_sizes(edit: &mut Edit<'_>) -> Vec<(Symbol, i64)> {
    let mut sizes = edit.program().run_hints().sizes.clone();
    edit.set_run_hints(RunHints::default());
    let program = edit.program();
    let mut unbound = HashSet::new();
    scan_names(program, &mut |finding| {
        if let NameFinding::Unbound(_, name) = finding {
            unbound.insert(name);
        }
    });
    let mesh_sizes = &program.given_names().sized.sizes;
    sizes.retain(|(name, _)| unbound.contains(name) || mesh_sizes.iter().any(|size| size.name == *name));
    sizes
}

/// The names of the program, its handles, streams and meshes.
fn given_count(program: &Program) -> usize {
    let given = program.given_names();
    given.handles.len() + given.streams.len() + given.meshes.len() + usize::from(given.program.is_some())
}

/// Drops the names of tensors and units, and counts them.
fn strip_tensor_and_unit_names(edit: &mut Edit<'_>) -> usize {
    let program = edit.program();
    let tensors: Vec<(TensorId, Tensor)> = program
        .tensors()
        .iter()
        .filter(|(_, tensor)| tensor.name.is_some())
        .map(|(id, tensor)| (id, Tensor { name: None, ..tensor.clone() }))
        .collect();
    let units: Vec<(UnitId, HostUnit)> = program
        .units()
        .iter()
        .filter(|(_, unit)| unit.name.is_some())
        .map(|(id, unit)| (id, HostUnit { name: None, ..unit.clone() }))
        .collect();
    let count = tensors.len() + units.len();
    tensors.into_iter().for_each(|(id, tensor)| edit.set_tensor(id, tensor));
    units.into_iter().for_each(|(id, unit)| edit.set_unit(id, unit));
    count
}
