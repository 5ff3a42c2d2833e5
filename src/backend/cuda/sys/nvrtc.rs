//! CUDA C++ to machine code, by NVRTC. Works on a machine without a GPU.

use super::Error;
use cudarc::nvrtc::result;
use cudarc::nvrtc::sys;
use std::ffi::CString;

/// Whether NVRTC can be opened.
pub fn is_present() -> bool {
    // SAFETY: opens a library by its usual names and asks nothing of it.
    unsafe { sys::is_culib_present() }
}

/// NVRTC's version, `(13, 0)`.
pub fn version() -> Result<(i32, i32), Error> {
    present()?;
    let (mut major, mut minor) = (0, 0);
    // SAFETY: both pointers are to integers of this frame.
    let status = unsafe { sys::nvrtcVersion(&raw mut major, &raw mut minor) };
    status.result().map_err(|error| failed("nvrtcVersion", &error))?;
    Ok((major, minor))
}

/// Returns the compile options for an architecture (`90` for `sm_90`).
pub fn options(architecture: u32) -> Vec<String> {
    vec![format!("--gpu-architecture=sm_{architecture}"), "--std=c++17".to_owned()]
}

/// The cubin of a source for an architecture (`90` for `sm_90`).
pub fn compile(source: &str, architecture: u32) -> Result<Vec<u8>, Error> {
    present()?;
    let text = CString::new(source)
        .map_err(|_| Error::Compile { log: "the source holds a zero byte".to_owned() })?;
    let program = result::create_program(&text, None)
        .map_err(|error| failed("nvrtcCreateProgram", &error))?;
    let program = Program(program);
    // SAFETY: the program was created above and lives until the end of this function.
    let compiled = unsafe { result::compile_program(program.0, &options(architecture)) };
    if compiled.is_err() {
        return Err(Error::Compile { log: program.log() });
    }
    program.cubin()
}

/// A program that is destroyed in the end.
struct Program(sys::nvrtcProgram);

impl Program {
    fn log(&self) -> String {
        // SAFETY: the program is alive.
        let log = unsafe { result::get_program_log(self.0) }.unwrap_or_default();
        let bytes: Vec<u8> = log.into_iter().map(|byte| byte as u8).collect();
        String::from_utf8_lossy(&bytes).trim_end_matches('\0').trim().to_owned()
    }

    fn cubin(&self) -> Result<Vec<u8>, Error> {
        let mut size = 0;
        // SAFETY: the program is alive; the size is an integer of this frame.
        let status = unsafe { sys::nvrtcGetCUBINSize(self.0, &raw mut size) };
        status.result().map_err(|error| failed("nvrtcGetCUBINSize", &error))?;
        let mut image = vec![0u8; size];
        // SAFETY: the image has the size that the library asked for.
        let status = unsafe { sys::nvrtcGetCUBIN(self.0, image.as_mut_ptr().cast()) };
        status.result().map_err(|error| failed("nvrtcGetCUBIN", &error))?;
        Ok(image)
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // SAFETY: created by `compile`, destroyed once.
        let _ = unsafe { result::destroy_program(self.0) };
    }
}

fn present() -> Result<(), Error> {
    if is_present() {
        return Ok(());
    }
    Err(Error::Missing { library: "NVRTC compiler", searched: "libnvrtc.so, libnvrtc.so.13" })
}

fn failed(call: &'static str, error: &result::NvrtcError) -> Error {
    Error::Call { call, status: format!("{error:?}") }
}
