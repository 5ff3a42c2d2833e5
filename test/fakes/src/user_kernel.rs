//! Kernels of users: their source becomes a library of the host by the C++ compiler (`CXX`, or `g++`), with
//! `user_kernel.h` for the words of CUDA.
//!
//! A launch runs on copies of the allocations that its arguments point into, which then replace these: so a kernel that
//! writes beside its operands does what it would do on a device.
#![allow(unsafe_code, reason = "a library of the host is called")]

use libloading::Library;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// The first line of an image that holds such a source, all files included.
pub(crate) const MARK: &str = "// hostir: a kernel of a user\n";

/// A source with the files that it includes, by their names.
pub(crate) struct UserSource {
    pub(crate) name: String,
    pub(crate) text: String,
    pub(crate) headers: Vec<(String, String)>,
}

/// A kernel that the host can run.
#[derive(Debug)]
pub(crate) struct HostKernel {
    library: Library,
    /// Bytes of its parameters.
    pub(crate) sizes: Vec<usize>,
}

/// Extents of the grid and of a block.
pub(crate) type LaunchShape = [u32; 6];

/// The compiler for a source file.
fn compiler(folder: &Path) -> Command {
    let given = std::env::var("CXX").unwrap_or_default();
    let mut words = given.split_whitespace();
    let mut compiler = Command::new(words.next().unwrap_or("g++"));
    compiler.args(words).args(["-std=c++17", "-w", "-O1", "-fPIC", "-ffp-contract=off", "-fno-strict-aliasing"]);
    compiler.current_dir(folder);
    compiler
}

/// Runs a compiler; its messages if it fails.
fn run(command: &mut Command) -> Result<Output, String> {
    let output = command.output().map_err(|error| format!("no C++ compiler: {error}"))?;
    match output.status.success() {
        true => Ok(output),
        false => Err(String::from_utf8_lossy(&output.stderr).into_owned()),
    }
}

/// A folder for the files of one compilation, which disappears with it.
struct WorkFolder(PathBuf);

impl WorkFolder {
    fn new() -> Result<Self, String> {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let folder = std::env::temp_dir().join(format!("hir-fake-{}-{number}", std::process::id()));
        fs::create_dir_all(&folder).map_err(|error| error.to_string())?;
        Ok(Self(folder))
    }

    fn write(&self, name: &str, text: &str) -> Result<(), String> {
        let place = self.0.join(name);
        let folder = place.parent().map_or(Ok(()), fs::create_dir_all);
        folder.and_then(|()| fs::write(place, text)).map_err(|error| error.to_string())
    }
}

impl Drop for WorkFolder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

impl UserSource {
    /// The source with all that it includes, if it compiles; else messages in the form of NVRTC.
    pub(crate) fn preprocess(&self) -> Result<String, String> {
        let folder = WorkFolder::new()?;
        for (name, text) in &self.headers {
            folder.write(name, text)?;
        }
        folder.write("user_kernel.h", include_str!("user_kernel.h"))?;
        let text = format!("#include \"user_kernel.h\"\n#line 1 \"{}\"\n{}\n", self.name, self.text);
        folder.write("source.cpp", &text)?;
        let checked = run(compiler(&folder.0).args(["-fsyntax-only", "-I.", "source.cpp"]));
        checked.map_err(|messages| in_nvrtc_form(&messages))?;
        let output = run(compiler(&folder.0).args(["-E", "-I.", "source.cpp"]))?;
        Ok(format!("{MARK}{}", String::from_utf8_lossy(&output.stdout)))
    }
}

/// `a.cu(3): error: ..` of `a.cu:3:5: error: ..`.
fn in_nvrtc_form(messages: &str) -> String {
    let line = |line: &str| -> Option<String> {
        let (place, what) = line.split_once(": error: ")?;
        let mut parts = place.rsplitn(3, ':').skip(1);
        let (number, file) = (parts.next()?, parts.next()?);
        Some(format!("{file}({number}): error: {what}"))
    };
    messages.lines().map(|text| line(text).unwrap_or_else(|| text.to_owned())).collect::<Vec<_>>().join("\n")
}

/// The kernel of this name in an image. Each is compiled once.
pub(crate) fn load(image: &str, entry: &str) -> Result<Arc<HostKernel>, String> {
    static LOADED: Mutex<BTreeMap<(String, String), Arc<HostKernel>>> = Mutex::new(BTreeMap::new());
    let mut loaded = LOADED.lock().unwrap_or_else(PoisonError::into_inner);
    let key = (image.to_owned(), entry.to_owned());
    if let Some(known) = loaded.get(&key) {
        return Ok(known.clone());
    }
    let kernel = Arc::new(build(image, entry)?);
    loaded.insert(key, kernel.clone());
    Ok(kernel)
}

fn build(image: &str, entry: &str) -> Result<HostKernel, String> {
    let folder = WorkFolder::new()?;
    let calls = format!(
        "extern \"C\" int hir_count() {{ return hir_fake::count(&::{entry}); }}\n\
         extern \"C\" void hir_sizes(size_t *to) {{ hir_fake::sizes(&::{entry}, to); }}\n\
         extern \"C\" bool hir_launch(void *const *args, const unsigned *shape) {{ return hir_fake::launch(&::{entry}, args, shape); }}\n"
    );
    folder.write("kernel.ii", &format!("{image}\n{calls}"))?;
    run(compiler(&folder.0).args(["-shared", "-o", "kernel.so", "kernel.ii"]))?;
    let text = |error: libloading::Error| error.to_string();
    // SAFETY: the library was made of a test's kernel, and does nothing when it is opened.
    let library = unsafe { Library::new(folder.0.join("kernel.so")) }.map_err(text)?;
    // SAFETY: the type is that of the text above.
    let count = unsafe { library.get::<extern "C" fn() -> i32>(b"hir_count") }.map_err(text)?();
    let mut sizes = vec![0usize; count as usize];
    // SAFETY: the type is that of the text above, and there is room for so many sizes.
    unsafe { library.get::<extern "C" fn(*mut usize)>(b"hir_sizes") }.map_err(text)?(sizes.as_mut_ptr());
    Ok(HostKernel { library, sizes })
}

impl HostKernel {
    /// Runs all threads; an error if one ends with a trap. A word holds the bytes of one parameter; addresses are the
    /// host's.
    pub(crate) fn launch(&self, words: &[u64], shape: LaunchShape) -> Result<(), String> {
        let pointers: Vec<*const u64> = words.iter().map(std::ptr::from_ref).collect();
        // SAFETY: the type is that of the text in `build`; there are as many pointers as parameters.
        let launch = unsafe { self.library.get::<extern "C" fn(*const *const u64, *const u32) -> bool>(b"hir_launch") };
        match launch.map_err(|error| error.to_string())?(pointers.as_ptr(), shape.as_ptr()) {
            true => Ok(()),
            false => Err("the kernel ended with a trap".to_owned()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::in_nvrtc_form;

    #[test]
    fn messages_have_the_form_of_nvrtc() {
        let found = in_nvrtc_form("k/a.cu: In function\nk/a.cu:3:5: error: expected ';'\n");
        assert_eq!(found, "k/a.cu: In function\nk/a.cu(3): error: expected ';'");
    }
}
