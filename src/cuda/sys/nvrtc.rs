//! Compiles CUDA C++ to machine code, by NVRTC. Works on a machine without a GPU.

use crate::sys::Error;
use crate::sys::tables;
use crate::sys::tables::Nvrtc;
use cudarc::nvrtc::sys::nvrtcProgram;
use hostir_gpu::cubin::is_whole;
use hostir_gpu::user_kernel::KernelHeader;
use std::ffi::{CString, c_char, c_int};

/// Returns true if NVRTC can be opened: a version whose kernels the driver can load, if there is a driver.
pub fn is_present() -> bool {
    lib().opened.is_open()
}

/// Returns true if the library is a stand-in that does not compile, but reads the notes in kernels
/// ([`hostir_gpu::codegen`]).
pub(crate) fn takes_notes() -> bool {
    // SAFETY: takes nothing; NVIDIA's library has no function of this name.
    unsafe { lib().hostirTakesNotes().code == 0 }
}

/// NVRTC's version, `(13, 0)`.
///
/// # Errors
/// [`Error::Missing`] if there is no NVRTC.
pub fn version() -> Result<(i32, i32), Error> {
    check_present()?;
    let (mut major, mut minor) = (0, 0);
    // SAFETY: both pointers are to integers of this frame.
    unsafe { lib().nvrtcVersion(&raw mut major, &raw mut minor) }.into_result()?;
    Ok((major, minor))
}

/// Returns the compile options for an architecture: `90` is `sm_90a`, which has `wgmma` and all other instructions of
/// Hopper; no other device has this number.
pub fn compile_options(architecture: u32) -> Vec<String> {
    vec![
        format!("--gpu-architecture=sm_{architecture}{}", if architecture == 90 { "a" } else { "" }),
        "--std=c++17".to_owned(),
    ]
}

/// The cubin of a source for an architecture (`90` for `sm_90`).
///
/// # Errors
/// [`Error::Missing`] if there is no NVRTC, [`Error::Compile`] with its messages if the source does not compile.
pub fn compile_cubin(source: &str, architecture: u32) -> Result<Vec<u8>, Error> {
    check_present()?;
    let text =
        CString::new(source).map_err(|_| Error::Compile { log: "the source contains a zero byte".to_owned() })?;
    let program = NvrtcProgram::new(&text)?;
    match program.compile(&compile_options(architecture)) {
        Ok(()) => program.cubin(),
        Err(_) => Err(Error::Compile { log: program.compile_log() }),
    }
}

/// The cubin of a file of the user and the files that it includes. The compiler's messages have the file's name.
pub(crate) fn compile_file(
    name: &str,
    source: &str,
    headers: &[KernelHeader],
    options: &[String],
) -> Result<Vec<u8>, Error> {
    check_present()?;
    let texts: Result<Vec<CString>, Error> = headers.iter().map(|header| file_text(name, &header.text)).collect();
    let names: Result<Vec<CString>, Error> = headers.iter().map(|header| file_text(name, &header.name)).collect();
    let program = NvrtcProgram::with_headers(&file_text(name, name)?, &file_text(name, source)?, &names?, &texts?)?;
    match program.compile(options) {
        Ok(()) => program.cubin(),
        Err(_) => Err(Error::Compile { log: program.compile_log() }),
    }
}

/// A text of the file `name` for the compiler, which reads up to a zero byte.
fn file_text(name: &str, text: &str) -> Result<CString, Error> {
    CString::new(text).map_err(|_| Error::Compile { log: format!("{name}: error: the text contains a zero byte") })
}

/// A program that is destroyed in the end.
struct NvrtcProgram(nvrtcProgram);

impl NvrtcProgram {
    fn new(source: &CString) -> Result<Self, Error> {
        let (mut program, none) = (std::ptr::null_mut(), std::ptr::null());
        // SAFETY: the source ends in zero, and the library copies it; the program has no name and no headers.
        unsafe { lib().nvrtcCreateProgram(&raw mut program, source.as_ptr(), std::ptr::null(), 0, none, none) }
            .into_result()
            .map(|()| Self(program))
    }

    /// A program with a name, and texts that it may include by their names.
    fn with_headers(name: &CString, source: &CString, names: &[CString], texts: &[CString]) -> Result<Self, Error> {
        let mut program = std::ptr::null_mut();
        let [names, texts] = [names, texts].map(|all| all.iter().map(|one| one.as_ptr()).collect::<Vec<_>>());
        let count = names.len().min(texts.len()) as c_int;
        let (names, texts) = (names.as_ptr(), texts.as_ptr());
        // SAFETY: all texts end in zero, and the library copies them; there are `count` of both.
        unsafe { lib().nvrtcCreateProgram(&raw mut program, source.as_ptr(), name.as_ptr(), count, texts, names) }
            .into_result()
            .map(|()| Self(program))
    }

    fn compile(&self, options: &[String]) -> Result<(), Error> {
        let options: Vec<CString> = options.iter().map(|one| CString::new(one.as_str()).unwrap_or_default()).collect();
        let pointers: Vec<*const c_char> = options.iter().map(|one| one.as_ptr()).collect();
        let count = pointers.len() as c_int;
        // SAFETY: the program is alive; there are as many options as the call is told, each ending in zero.
        unsafe { lib().nvrtcCompileProgram(self.0, count, pointers.as_ptr()) }.into_result()
    }

    fn compile_log(&self) -> String {
        let mut bytes = 0;
        // SAFETY: the program is alive; the pointer is to an integer of this frame.
        let status = unsafe { lib().nvrtcGetProgramLogSize(self.0, &raw mut bytes) };
        let mut log = vec![0u8; if status.code == 0 { bytes } else { 0 }];
        if !log.is_empty() {
            // SAFETY: the log has the size that the library asked for.
            let _ = unsafe { lib().nvrtcGetProgramLog(self.0, log.as_mut_ptr().cast()) };
        }
        String::from_utf8_lossy(&log).trim_end_matches('\0').trim().to_owned()
    }

    fn cubin(&self) -> Result<Vec<u8>, Error> {
        let mut size = 0;
        // SAFETY: the program is alive; the size is an integer of this frame.
        unsafe { lib().nvrtcGetCUBINSize(self.0, &raw mut size) }.into_result()?;
        let mut image = vec![0u8; size];
        // SAFETY: the image has the size that the library asked for.
        unsafe { lib().nvrtcGetCUBIN(self.0, image.as_mut_ptr().cast()) }.into_result()?;
        match is_whole(&image) {
            true => Ok(image),
            false => {
                let status = "the compiler's output is not a complete cubin".to_owned();
                Err(Error::Call { call: "nvrtcGetCUBIN", status })
            }
        }
    }
}

impl Drop for NvrtcProgram {
    fn drop(&mut self) {
        // SAFETY: created in `new`, destroyed once.
        let _ = unsafe { lib().nvrtcDestroyProgram(&raw mut self.0) };
    }
}

fn lib() -> &'static Nvrtc {
    tables::nvrtc()
}

fn check_present() -> Result<(), Error> {
    if is_present() {
        return Ok(());
    }
    let searched = lib().opened.searched.clone();
    Err(Error::Missing { library: "NVRTC compiler", searched })
}
