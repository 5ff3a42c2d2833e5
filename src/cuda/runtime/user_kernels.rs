//! Kernels of the user: files that a caller hands over, compiled where they are source, and found in their modules.
//!
//! The code of a file is checked against the launches before it is loaded: its kernels are in the sections of a cubin,
//! with the sizes of their parameters. The driver checks neither: it reads as many bytes as a parameter has.

use crate::runtime::options::Options;
use crate::runtime::store_key::store_key;
use crate::sys::driver::CudaDevice;
use crate::sys::{Error, nvrtc};
use hostir::diag::{Diag, Message, codes, message};
use hostir::lower::PreparedProgram;
use hostir::plan::{InstKind, LaunchArgument, Plan, UserKernel};
use hostir_gpu::cubin::is_whole;
use hostir_gpu::schedule::RankSchedule;
use hostir_gpu::schedule::user_launches::ScheduledKernel;
use hostir_gpu::user_kernel::arguments::argument_faults;
use hostir_gpu::user_kernel::{FoundEntry, KernelCode, KernelFile, KernelHeader, find_in_cubin};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The lines of a compiler's messages that an error shows.
const MOST_LINES: usize = 40;

/// Code that the driver loads: machine code, PTX that ends in zero, or a fatbin.
pub(crate) type KernelImage = Arc<[u8]>;

/// The code of all files that ranks launch, and the names of the kernels in it.
#[derive(Default)]
pub(crate) struct UserImages {
    images: BTreeMap<Arc<str>, KernelImage>,
    names: BTreeMap<UserKernel, String>,
}

impl UserImages {
    /// The code of a kernel's file and the kernel's name in it.
    pub(crate) fn find_code(&self, kernel: &UserKernel) -> Option<(&KernelImage, &str)> {
        Some((self.images.get(&kernel.file)?, self.names.get(kernel)?))
    }
}

/// The place of a kernel's first launch.
#[derive(Clone, Copy)]
struct LaunchPlace<'a> {
    prepared: &'a PreparedProgram,
    plan: &'a Plan,
    scheduled: &'a ScheduledKernel,
}

/// Compiles the files of all kernels that these ranks launch, and finds the kernels in them.
///
/// # Errors
/// If there is no such file or kernel, source does not compile, or a launch does not fit; all of them.
pub(crate) fn compile_files(
    prepared: &PreparedProgram,
    own: &[(&Plan, RankSchedule)],
    device: &CudaDevice,
    options: &Options,
) -> Result<UserImages, Vec<Diag>> {
    let mut images = UserImages::default();
    let mut diags: Vec<Diag> = Vec::new();
    let mut failed: Vec<&str> = Vec::new();
    let kernels = own.iter().flat_map(|(plan, schedule)| schedule.user_kernels.iter().map(move |one| (*plan, one)));
    for (plan, scheduled) in kernels {
        let (place, file) = (LaunchPlace { prepared, plan, scheduled }, &scheduled.kernel.file);
        if !images.images.contains_key(file) && !failed.contains(&&**file) {
            match load_image(place, device, options) {
                Ok(image) => drop(images.images.insert(file.clone(), image)),
                Err(diag) => {
                    failed.push(file);
                    diags.push(*diag);
                }
            }
        }
        let Some(image) = images.images.get(file) else { continue };
        match find_kernel(place, image, options) {
            Ok(name) => drop(images.names.insert(scheduled.kernel.clone(), name)),
            // Ranks launch the same kernels.
            Err(found) => found.into_iter().for_each(|diag| {
                if !diags.contains(&diag) {
                    diags.push(diag);
                }
            }),
        }
    }
    if diags.is_empty() { Ok(images) } else { Err(diags) }
}

impl LaunchPlace<'_> {
    fn error(self, code: &'static str, message: impl Into<Message>) -> Diag {
        let origin = self.plan.inst(self.scheduled.inst).origin;
        Diag::error(code, self.prepared.labels.op_span(origin.op), message)
    }

    fn file_name(&self) -> &str {
        &self.scheduled.kernel.file
    }

    /// The arguments of the launch, and words for them.
    fn arguments(&self) -> (Vec<LaunchArgument>, Vec<Message>) {
        let inst = self.plan.inst(self.scheduled.inst);
        let InstKind::Launch(launch) = &inst.kind else { return (Vec::new(), Vec::new()) };
        let names = (1..=launch.arguments.len()).map(|number| message!("argument {}", number));
        (launch.arguments.clone(), names.collect())
    }
}

/// The code of a file.
fn load_image(place: LaunchPlace<'_>, device: &CudaDevice, options: &Options) -> Result<KernelImage, Box<Diag>> {
    let kernels = &options.user_kernels;
    let Some(file) = kernels.files.get(&place.scheduled.kernel.file) else {
        let message = message!("no file was handed over for the kernel's file `{}`", place.file_name());
        let note = "`hir-run --allow-kernels` reads it; a program of your own sets `Options::user_kernels`";
        return Err(Box::new(place.error(codes::KERNEL_IMAGE, message).with_note(note)));
    };
    match &file.code {
        KernelCode::Cubin(image) | KernelCode::Fatbin(image) => Ok(image.as_slice().into()),
        KernelCode::Ptx(text) => Ok([text.as_bytes(), b"\0"].concat().into()),
        KernelCode::Source { text, headers } => {
            let compiled = compile_source(file, text, headers, device, options);
            compiled.map_err(|error| Box::new(compile_error(place, &error)))
        }
    }
}

/// Takes the code of a source from this process's cache or from the store, or compiles it.
fn compile_source(
    file: &KernelFile,
    text: &str,
    headers: &[KernelHeader],
    device: &CudaDevice,
    options: &Options,
) -> Result<KernelImage, Error> {
    let architecture = device.architecture()?;
    let mut flags = nvrtc::compile_options(architecture);
    // Only what was handed over is compiled, so that the key stands for all of it.
    flags.push("--no-source-include".to_owned());
    flags.extend(options.user_kernels.include_folders.iter().map(|folder| format!("--include-path={folder}")));
    let (major, minor) = nvrtc::version()?;
    let compiler = format!("nvrtc {major}.{minor}");
    let parts = [compiler.as_str()].into_iter().chain(flags.iter().map(String::as_str)).chain(file.key_parts());
    let key = store_key("hostir user kernel", parts);
    let image = options.cache.kernel_image(architecture, &key, || {
        let kept = options.store.as_ref().and_then(|store| store.get(&key));
        if let Some(image) = kept.filter(|image| is_whole(image)) {
            return Ok(image);
        }
        let image = nvrtc::compile_file(&file.name, text, headers, &flags)?;
        if let Some(store) = &options.store {
            store.put(&key, &image);
        }
        Ok(image)
    })?;
    Ok(image.into())
}

/// The compiler's messages name the user's file and lines.
fn compile_error(place: LaunchPlace<'_>, error: &Error) -> Diag {
    let Error::Compile { log } = error else {
        return place.error(codes::DEVICE_CALL, error.to_string());
    };
    let first = log.lines().find(|line| line.contains("error")).unwrap_or_default();
    let first = first.split_once("error: ").map_or(first, |(_, what)| what);
    let message = message!("`{}` does not compile: {}", place.file_name(), first);
    let mut lines: Vec<&str> = log.lines().take(MOST_LINES).collect();
    if log.lines().nth(MOST_LINES).is_some() {
        lines.push("...");
    }
    place.error(codes::KERNEL_COMPILE, message).with_note(lines.join("\n"))
}

/// The name of a kernel in the code of its file.
fn find_kernel(place: LaunchPlace<'_>, image: &[u8], options: &Options) -> Result<String, Vec<Diag>> {
    let UserKernel { file, entry } = &place.scheduled.kernel;
    let found = match options.user_kernels.files.get(file) {
        Some(KernelFile { code: KernelCode::Source { .. } | KernelCode::Cubin(_), .. }) => find_in_cubin(image, entry),
        Some(file) => file.find_entry(entry),
        None => FoundEntry::Untold,
    };
    let (names, message) = match found {
        FoundEntry::Untold => return Ok(entry.to_string()),
        FoundEntry::Known(kernel) => {
            let (arguments, names) = place.arguments();
            let faults = argument_faults(file, &kernel, &arguments, &names);
            if faults.is_empty() {
                return Ok(kernel.name);
            }
            let errors = faults.into_iter();
            let errors = errors.map(|fault| place.error(codes::KERNEL_ARGUMENTS, fault.message).with_note(fault.note));
            return Err(errors.collect());
        }
        FoundEntry::Missing(names) => (names, message!("`{}` has no kernel `{}`", &**file, &**entry)),
        FoundEntry::Several(names) => (names, message!("`{}` has several kernels `{}`", &**file, &**entry)),
    };
    let listed: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
    Err(vec![place.error(codes::KERNEL_ENTRY, message).with_note(format!("it has {}", listed.join(", ")))])
}
