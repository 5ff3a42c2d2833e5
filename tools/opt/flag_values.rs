//! The values of flags that hir-opt reads by itself, for shells to complete: names of passes, ops, styles and forms.

use clap::builder::{PossibleValue, PossibleValuesParser, ValueHint};
use clap::{Arg, Command};
use hostir::ir::{Era, OpKind};
use hostir::ops::OpRegistry;
use hostir_passes::{PassRegistry, ToolRegistries};
use std::collections::BTreeSet;

/// Flags whose value is the name of a pass, perhaps with options after it.
const OF_PASSES: [&str; 6] =
    ["pass", "pass_pipeline", "list_passes", "print_ir_before", "print_ir_after", "disable_pass"];

/// Flags whose value is a file.
const OF_FILES: [&str; 3] = ["files", "output", "reproducer"];

/// The command with these values.
pub(super) fn add_values(command: Command, registries: ToolRegistries) -> Command {
    let ToolRegistries { ops, passes } = registries;
    let command = OF_PASSES
        .iter()
        .fold(command, |command, flag| command.mut_arg(flag, |arg| with_words(arg, pass_names(passes))));
    let command = OF_FILES.iter().fold(command, |command, flag| command.mut_arg(flag, with_files));
    command
        .mut_arg("list_ops", |arg| with_words(arg, op_names(ops)))
        .mut_arg("style", |arg| with_words(arg, Era::ALL.iter().map(|(_, name)| PossibleValue::new(*name))))
        .mut_arg("form", |arg| with_words(arg, ["printed", "abbreviated", "hir2"].map(PossibleValue::new)))
}

fn pass_names(passes: PassRegistry) -> impl Iterator<Item = PossibleValue> {
    passes.passes().map(|pass| PossibleValue::new(pass.name).help(pass.summary))
}

fn op_names(ops: OpRegistry) -> impl Iterator<Item = PossibleValue> {
    // Two ops have one name.
    let names: BTreeSet<&str> = ops.kinds().map(OpKind::name).collect();
    names.into_iter().map(PossibleValue::new)
}

fn with_words(arg: Arg, words: impl IntoIterator<Item = PossibleValue>) -> Arg {
    arg.value_parser(PossibleValuesParser::new(words)).hide_possible_values(true)
}

fn with_files(arg: Arg) -> Arg {
    arg.value_hint(ValueHint::FilePath)
}
