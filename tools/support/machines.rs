//! `--machine`: the machine for which a tool models times.

use crate::errors;
use crate::io::ToolIo;
use crate::render::DiagFormat;
use crate::source::NamedText;
use crate::status::ToolStatus;
use clap::Args;
use hostir::diag::{Diag, message};
use hostir::machine::{BUILTIN_NAMES, Machine};
use std::fs::File;

/// `--machine`.
#[derive(Args)]
pub struct MachineArgument {
    /// The file, or the name of a built-in machine.
    #[arg(
        id = "machine",
        long = "machine",
        value_name = "FILE.toml|NAME",
        help = "Machine for which times are modelled: a file, or h100x2, h100x4, h100x8, h200x2, h200x4 or h200x8 [default: h200x4]"
    )]
    pub machine: Option<String>,
}

impl MachineArgument {
    /// Reads the machine; the default if the command line names none.
    ///
    /// # Errors
    /// The exit status of an error, which was reported: of a name that no machine has, of a file that cannot be read or
    /// is not a machine.
    pub fn read_machine(&self, format: DiagFormat, io: &mut ToolIo<'_>) -> Result<Machine, ToolStatus> {
        let Some(word) = &self.machine else { return Ok(Machine::default_machine()) };
        find_machine(word, |path| io.read_source(path)).map_err(|missing| {
            let MissingMachine { source, error } = *missing;
            let status = errors::status_of_code(error.code);
            io.report(format, &source, &[error]);
            status
        })
    }
}

/// The error of a word that names no machine.
#[derive(Debug)]
pub struct MissingMachine {
    /// The file that the error is about, or the name of an empty text.
    pub source: NamedText,
    /// The error.
    pub error: Diag,
}

/// Finds the machine of a word: the built-in one of this name, or that of a file, which `read` reads.
///
/// # Errors
/// A name that no machine has, a file that cannot be read or is not a machine.
pub fn find_machine(
    word: &str,
    read: impl FnOnce(&str) -> Result<NamedText, Diag>,
) -> Result<Machine, Box<MissingMachine>> {
    if let Some(machine) = Machine::find_builtin(word) {
        return Ok(machine);
    }
    let named = || NamedText::new(word, "");
    if !is_path(word) {
        return Err(Box::new(MissingMachine { source: named(), error: unknown_name(word) }));
    }
    let source = read(word).map_err(|error| Box::new(MissingMachine { source: named(), error }))?;
    Machine::from_toml(&source.decoded_text()).map_err(|error| Box::new(MissingMachine { source, error }))
}

/// The same with the files of this process's folder.
///
/// # Errors
/// Those of [`find_machine`].
pub fn find_machine_here(word: &str) -> Result<Machine, Box<MissingMachine>> {
    find_machine(word, |path| {
        let file = File::open(path).map_err(|error| errors::cannot_read(path, &error))?;
        let length = file.metadata().map_or(0, |found| found.len());
        NamedText::read_path(path, path, file, length)
    })
}

/// The warning for a machine that the command line names, and whose rates hold for another number of GPUs than the
/// program has ranks.
pub fn devices_warning(machine: &Machine, ranks: u32) -> Option<Diag> {
    let devices = machine.devices.get();
    if ranks < 2 || devices == ranks || machine.hosts.is_some() {
        return None;
    }
    let message = message!(
        "the rates of `{}` hold for {} GPUs, but the program has {} ranks",
        machine.name,
        devices as usize,
        ranks as usize
    );
    let note = "the times of its communications are guesses: name a machine with as many GPUs, or one of several hosts";
    Some(Diag::global_error(errors::MACHINE_DEVICES, message).with_note(note).into_warning())
}

/// Returns true if a value is the path of a file: it has a folder or an ending.
fn is_path(text: &str) -> bool {
    text == "-" || text.contains(['/', '.'])
}

fn unknown_name(text: &str) -> Diag {
    let message = message!("no built-in machine has the name `{}`", text);
    let known = BUILTIN_NAMES.join(", ");
    let note = message!("built in are {}; a file is named with its ending, as in `{}.toml`", known, text);
    Diag::global_error(errors::VALUE, message).with_note(note)
}
