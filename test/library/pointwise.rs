//! Every pointwise function on the CPU backend, on NaN, infinities, signed zeros, subnormals, negative operands and
//! the ends of integers, against a table that torch and numpy made (`test/library/pointwise/make.py`).
#![allow(clippy::panic, clippy::unwrap_used, reason = "failures panic")]

use crate::table::{Group, groups};
use hostir::backend::cpu;
use hostir::data::HostTensor;
use hostir::diag::render;
use hostir::lower;
use hostir::lower::SizeSettings;
use hostir::plan::Function;
use std::collections::BTreeSet;

/// The results of a group's program.
fn results(group: &Group) -> Vec<HostTensor> {
    let text = group.program();
    let (programs, mut diags) = hostir::load(&text);
    if let Some(program) = programs.first() {
        hostir::verify::verify(program, &mut diags);
    }
    let fail =
        |items: &[hostir::diag::Diag]| -> ! { panic!("{}\n{text}", render::to_string("program.hir", &text, items)) };
    if diags.has_errors() {
        fail(&diags.items);
    }
    let prepared = lower::prepare_program(&programs[0], &SizeSettings::default());
    let prepared = prepared.unwrap_or_else(|diags| fail(&diags.items));
    let ran = cpu::run_plans(&prepared, vec![group.operands.clone()]);
    let ran = ran.unwrap_or_else(|diags| fail(&diags));
    ran.outputs.into_iter().flatten().flatten().collect()
}

#[test]
fn pointwise_functions_give_what_torch_and_numpy_give() {
    let mut wrong = Vec::new();
    let mut elements = 0;
    for group in groups() {
        for (row, got) in group.rows.iter().zip(results(&group)) {
            assert_eq!(got.len(), row.expected.len(), "{} {}", group.name, row.text);
            elements += got.len();
            wrong.extend(row.differences(&group, &got));
        }
    }
    let few: Vec<&str> = wrong.iter().take(60).map(String::as_str).collect();
    assert!(wrong.is_empty(), "{} of {elements} elements\n{}", wrong.len(), few.join("\n"));
    assert!(elements > 20_000, "{elements} elements");
}

#[test]
fn the_table_has_every_function_that_runs() {
    let mut known = BTreeSet::new();
    for group in groups() {
        for row in &group.rows {
            let named = row.text.split('(').next().filter(|name| !name.contains('{'));
            let sign = row.text.replace("{0}", "").replace("{1}", "");
            let function = Function::parse(named.unwrap_or(&sign), group.operands.len());
            known.insert(function.unwrap_or_else(|| panic!("{}", row.text)));
        }
    }
    let missing: Vec<&str> = Function::ALL
        .iter()
        .filter(|function| !known.contains(function) && function.row().is_computed())
        // Programs name no copies and no steps of random numbers; the latter are compared with numpy's numbers in
        // `test/run/random.hir`. A cast has other names.
        .filter(|function| function.row().is_listed() || **function == Function::Cast)
        // Its words are compared with numpy's there.
        .filter(|function| **function != Function::Philox)
        // Complex numbers are compared with numpy's in `test/run/complex.hir`.
        .filter(|function| **function != Function::Complex)
        .map(|function| function.name())
        .collect();
    assert!(missing.is_empty(), "{missing:?}");
}
