//! The files of kernels that a program launches: found below the program's folder, read once, and checked against the
//! launches.
//!
//! A kernel may do anything to the memory of its process's GPUs, so no file is opened without `--allow-kernels`. A name
//! in a program is a plain path downwards; since links can lead elsewhere, the file that it leads to has to be in the
//! folder as well.

use super::backend_choice::RunEngine;
use super::cli::Options;
use super::failure::RunFailure;
use super::program::SourceProgram;
use hostir::diag::message;
use hostir::diag::{Diag, Diags, Message, Span, codes};
use hostir::ir::{OpId, Program, Value, quoted_expr};
use hostir::lower::PreparedProgram;
use hostir::ops::user_launch::launch_parts;
use hostir::plan::{InstKind, LaunchInst, Plan};
use hostir_gpu::user_kernel::arguments::argument_faults;
use hostir_gpu::user_kernel::{
    FoundEntry, KernelCode, KernelEntry, KernelFile, KernelFiles, KernelHeader, included_files,
};
use hostir_tool_support::errors;
use hostir_tool_support::io::ToolIo;
use rustix::fs::{Mode, OFlags};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The largest file with kernels, in bytes.
const MAX_FILE_BYTES: u64 = 256 << 20;
/// The most files that one source may include.
const MOST_HEADERS: usize = 256;

/// A launch of a plan, with its op.
type Launch = (OpId, LaunchInst);

/// Reads the files of all kernels that a program launches, if `--allow-kernels` permits it, and checks that each launch
/// fits its kernel.
///
/// # Errors
/// If a run on GPUs launches kernels without permission, a file cannot be read or leaves the program's folder, or a
/// launch does not fit.
pub(super) fn read_kernels(
    loaded: &SourceProgram,
    prepared: &PreparedProgram,
    options: &Options,
    engine: &RunEngine,
    io: &ToolIo<'_>,
) -> Result<KernelFiles, RunFailure> {
    let launches = collect_launches(prepared);
    let Some(first) = launches.first() else { return Ok(KernelFiles::new()) };
    if !options.kernels.are_allowed {
        return match engine {
            RunEngine::Cuda(_) => Err(loaded.to_failure(vec![permission_error(&loaded.program, first)])),
            RunEngine::Cpu | RunEngine::Null { .. } | RunEngine::Sim => Ok(KernelFiles::new()),
        };
    }
    let path = io.resolve_path(&options.file);
    let folder = if options.file == "-" { Some(io.cwd.as_path()) } else { path.parent() };
    let mut reader = FileReader { folder: folder.unwrap_or(&io.cwd), files: KernelFiles::new(), diags: Vec::new() };
    for (op, launch) in &launches {
        reader.add_file(&launch.kernel.file, loaded.program.op_span(*op));
    }
    let FileReader { files, mut diags, .. } = reader;
    diags.extend(launches.iter().flat_map(|(op, launch)| launch_faults(&loaded.program, *op, launch, &files)));
    let mut diags = Diags { items: diags };
    diags.sort_by_place();
    if diags.is_empty() { Ok(files) } else { Err(loaded.to_failure(diags.items)) }
}

/// The launches of the program's text that run, each as it is first in the plans: its kernel and the types of its
/// arguments are always the same.
fn collect_launches(prepared: &PreparedProgram) -> Vec<Launch> {
    let mut found: BTreeMap<OpId, LaunchInst> = BTreeMap::new();
    for inst in prepared.plans.iter().flat_map(Plan::iter) {
        if let InstKind::Launch(launch) = &inst.kind {
            found.entry(inst.origin.op).or_insert_with(|| LaunchInst::clone(launch));
        }
    }
    found.into_iter().collect()
}

fn permission_error(program: &Program, (op, launch): &Launch) -> Diag {
    let file = &*launch.kernel.file;
    let message = message!("the program launches a kernel of `{}`, which runs only with `--allow-kernels`", file);
    let note = "a kernel can read and change all GPU memory of the process: look at its source, then add \
                `--allow-kernels`; `--backend=cpu` runs references instead";
    Diag::error(errors::KERNELS_REFUSED, program.op_span(*op), message).with_note(note)
}

/// The errors of a launch that does not fit the file of its kernel.
fn launch_faults(program: &Program, op: OpId, launch: &LaunchInst, files: &KernelFiles) -> Vec<Diag> {
    let Some(file) = files.get(&launch.kernel.file) else { return Vec::new() };
    let span = program.op_span(op);
    let entry = &*launch.kernel.entry;
    let (name, names, several) = match file.find_entry(entry) {
        FoundEntry::Known(entry) => return argument_errors(program, op, launch, &entry),
        FoundEntry::Untold => return Vec::new(),
        FoundEntry::Missing(names) => (&file.name, names, false),
        FoundEntry::Several(names) => (&file.name, names, true),
    };
    vec![entry_error(name, entry, &names, several, span)]
}

/// The error for a name that no kernel of a file has, or several have.
fn entry_error(file: &str, entry: &str, names: &[String], several: bool, span: Span) -> Diag {
    let listed: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
    let message = match several {
        true => message!("`{}` has several kernels `{}`", file, entry),
        false => message!("`{}` has no kernel `{}`", file, entry),
    };
    let note = match listed.is_empty() {
        true => "declare it as `extern \"C\" __global__ void`".to_owned(),
        false => format!("it has {}", listed.join(", ")),
    };
    Diag::error(codes::KERNEL_ENTRY, span, message).with_note(note)
}

fn argument_errors(program: &Program, op: OpId, launch: &LaunchInst, entry: &KernelEntry) -> Vec<Diag> {
    let arguments = launch_parts(program.op(op)).map_or(Vec::new(), |parts| parts.arguments);
    let names: Vec<Message> = arguments.iter().map(|value| argument_name(program, *value)).collect();
    let faults = argument_faults(&launch.kernel.file, entry, &launch.arguments, &names).into_iter();
    let span = program.op_span(op);
    faults.map(|fault| Diag::error(codes::KERNEL_ARGUMENTS, span, fault.message).with_note(fault.note)).collect()
}

/// An argument of a launch as the program writes it.
fn argument_name(program: &Program, value: Value) -> Message {
    match value {
        Value::Tensor(tensor) => message!("{}", program.quoted_tensor(tensor)),
        Value::Scalar(expr) => message!("{}", quoted_expr(program, expr)),
        _ => Message::default(),
    }
}

/// Reads files below a folder.
struct FileReader<'a> {
    folder: &'a Path,
    files: KernelFiles,
    diags: Vec<Diag>,
}

/// The reason why a file is not read.
enum FileFault {
    /// A link leads out of the folder, to this place.
    Elsewhere(PathBuf),
    /// There is none.
    Absent(String),
    /// The system's or our own words.
    Unfit(String),
}

impl From<std::io::Error> for FileFault {
    fn from(error: std::io::Error) -> Self {
        let text = errors::system_message(&error);
        if error.kind() == ErrorKind::NotFound { Self::Absent(text) } else { Self::Unfit(text) }
    }
}

/// The fault of a file that is read but cannot be used, with the file's name.
fn unfit_file(name: &str, why: &str) -> (String, FileFault) {
    (name.to_owned(), FileFault::Unfit(why.to_owned()))
}

impl FileReader<'_> {
    /// Reads a file unless it is known; an error is at the launch.
    fn add_file(&mut self, name: &Arc<str>, span: Span) {
        if self.files.contains_key(name) || self.diags.iter().any(|diag| is_about(diag, name)) {
            return;
        }
        match self.read_kernel_file(name) {
            Ok(file) => {
                self.files.insert(name.clone(), file);
            }
            Err((name, fault)) => self.diags.push(file_error(&name, fault, span)),
        }
    }

    fn read_kernel_file(&self, name: &str) -> Result<KernelFile, (String, FileFault)> {
        let bytes = read_below(self.folder, Path::new(name)).map_err(|fault| (name.to_owned(), fault))?;
        let mut file = KernelFile::from_bytes(name, bytes).map_err(|why| unfit_file(name, why))?;
        if let KernelCode::Source { text, headers } = &mut file.code {
            *headers = self.read_headers(name, text)?;
        }
        Ok(file)
    }

    /// The files that a source includes in quotes, and those that these include, as far as they are in the folder: the
    /// compiler searches the others in the folders of CUDA's headers.
    fn read_headers(&self, name: &str, text: &str) -> Result<Vec<KernelHeader>, (String, FileFault)> {
        let mut found: BTreeMap<String, String> = BTreeMap::new();
        let mut open = vec![(PathBuf::from(name), text.to_owned())];
        while let Some((includer, text)) = open.pop() {
            let beside = includer.parent().unwrap_or(Path::new(""));
            for included in included_files(&text) {
                let place = beside.join(included);
                let shown = place.to_string_lossy().into_owned();
                let bytes = match read_below(self.folder, &place) {
                    Ok(bytes) => bytes,
                    Err(FileFault::Absent(_)) => continue,
                    Err(fault) => return Err((shown, fault)),
                };
                let text = String::from_utf8(bytes).map_err(|_| unfit_file(&shown, "it is not valid UTF-8"))?;
                match found.get(included) {
                    Some(known) if *known == text => continue,
                    Some(_) => return Err(unfit_file(&shown, "another file is included by this name, too")),
                    None if found.len() == MOST_HEADERS => {
                        return Err(unfit_file(&shown, "too many files are included"));
                    }
                    None => found.insert(included.to_owned(), text.clone()),
                };
                open.push((place, text));
            }
        }
        Ok(found.into_iter().map(|(name, text)| KernelHeader { name, text }).collect())
    }
}

/// Returns true if an error is about a file.
fn is_about(diag: &Diag, name: &str) -> bool {
    diag.message.contains(&format!("`{name}`"))
}

fn file_error(name: &str, fault: FileFault, span: Span) -> Diag {
    match fault {
        FileFault::Elsewhere(place) => {
            let message =
                message!("the kernel's file `{}` is outside of the program's folder: `{}`", name, place.display());
            Diag::error(errors::KERNEL_OUTSIDE, span, message)
                .with_note("put the file itself into the folder, not a link")
        }
        FileFault::Absent(why) => {
            let message = message!("the kernel's file `{}` cannot be read: {}", name, why);
            let note = "its place is below the folder of the program, or below the current one for standard input";
            Diag::error(errors::KERNEL_FILE, span, message).with_note(note)
        }
        FileFault::Unfit(why) => {
            let message = message!("the kernel's file `{}` cannot be read: {}", name, why);
            Diag::error(errors::KERNEL_FILE, span, message)
        }
    }
}

/// The bytes of a file below a folder, to which no link may lead out of it.
fn read_below(folder: &Path, name: &Path) -> Result<Vec<u8>, FileFault> {
    let folder = folder.canonicalize()?;
    let place = folder.join(name).canonicalize()?;
    if !place.starts_with(&folder) {
        return Err(FileFault::Elsewhere(place));
    }
    // No link is left in the path. Without NONBLOCK opening a pipe waits for its writer.
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let opened = rustix::fs::open(&place, flags, Mode::empty());
    let file = opened.map(File::from).map_err(std::io::Error::from)?;
    if !file.metadata()?.is_file() {
        return Err(FileFault::Unfit("it is no plain file".to_owned()));
    }
    let mut bytes = Vec::new();
    file.take(MAX_FILE_BYTES + 1).read_to_end(&mut bytes)?;
    match bytes.len() as u64 > MAX_FILE_BYTES {
        true => Err(FileFault::Unfit(format!("it is larger than {} MiB", MAX_FILE_BYTES >> 20))),
        false => Ok(bytes),
    }
}
