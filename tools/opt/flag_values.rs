//! The values of flags that hir-opt reads by itself, for shells to complete: names of passes, ops, styles and forms.

use clap::builder::{PossibleValue, PossibleValuesParser, ValueHint};
use clap::{Arg, Command};
use hostir::ir::{Era, OpKind};
use hostir::ops::OpRegistry;
use hostir_passes::PASSES;
use std::collections::BTreeSet;

/// Flags whose value is the name of a pass, perhaps with options after it.
const OF_PASSES: [&str; 6] =
    ["pass", "pass_pipeline", "list_passes", "print_ir_before", "print_ir_after", "disable_pass"];

/// Flags whose value is a file.
const OF_FILES: [&str; 3] = ["files", "output", "reproducer"];

/// The command with these values.
pub(super) fn add_values(command: Command) -> Command {
    let command =
        OF_PASSES.iter().fold(command, |command, flag| command.mut_arg(flag, |arg| with_words(arg, passes())));
    let command = OF_FILES.iter().fold(command, |command, flag| command.mut_arg(flag, with_files));
    command
        .mut_arg("list_ops", |arg| with_words(arg, ops()))
        .mut_arg("style", |arg| with_words(arg, Era::ALL.iter().map(|(_, name)| PossibleValue::new(*name))))
        .mut_arg("form", |arg| with_words(arg, ["printed", "abbreviated", "hir2"].map(PossibleValue::new)))
}

fn passes() -> impl Iterator<Item = PossibleValue> {
    PASSES.iter().map(|pass| PossibleValue::new(pass.name).help(pass.summary))
}

fn ops() -> impl Iterator<Item = PossibleValue> {
    // Two ops have one name.
    let names: BTreeSet<&str> = OpRegistry::OURS.kinds().map(OpKind::name).collect();
    names.into_iter().map(PossibleValue::new)
}

fn with_words(arg: Arg, words: impl IntoIterator<Item = PossibleValue>) -> Arg {
    arg.value_parser(PossibleValuesParser::new(words)).hide_possible_values(true)
}

fn with_files(arg: Arg) -> Arg {
    arg.value_hint(ValueHint::FilePath)
}
