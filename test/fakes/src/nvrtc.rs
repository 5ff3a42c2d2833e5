//! `libnvrtc`: the image of a program is its source, with all files that it includes.
#![allow(non_snake_case, reason = "the names of the header")]
#![allow(unsafe_code, reason = "functions are found by their names")]

use crate::abi::{Handle, get_value, get_values, put_value, text_at};
use crate::module::wrapped;
use crate::user_kernel::UserSource;
use std::collections::BTreeMap;
use std::ffi::{c_char, c_int};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// `NVRTC_ERROR_COMPILATION`.
const COMPILATION_FAILED: c_int = 6;

/// A program.
#[derive(Default)]
struct FakeProgram {
    image: Vec<u8>,
    /// A file of a user's, which is compiled.
    user: Option<UserSource>,
    log: String,
}

/// Programs by their handles.
fn all_programs() -> MutexGuard<'static, BTreeMap<usize, FakeProgram>> {
    static PROGRAMS: Mutex<BTreeMap<usize, FakeProgram>> = Mutex::new(BTreeMap::new());
    PROGRAMS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Says that kernels are to hold notes.
#[cfg_attr(not(test), unsafe(no_mangle))]
extern "C" fn hostirTakesNotes() -> c_int {
    0
}

/// A version that no compiler has, so that kept images are not taken for each other's.
#[cfg_attr(not(test), unsafe(no_mangle))]
extern "C" fn nvrtcVersion(major: *mut c_int, minor: *mut c_int) -> c_int {
    put_value(major, 13);
    put_value(minor, 99);
    0
}

#[cfg_attr(not(test), unsafe(no_mangle))]
extern "C" fn nvrtcGetErrorString(_: c_int) -> *const c_char {
    c"of a stand-in for a compiler".as_ptr()
}

#[cfg_attr(not(test), unsafe(no_mangle))]
extern "C" fn nvrtcCreateProgram(
    program: *mut Handle,
    source: *const c_char,
    name: *const c_char,
    count: c_int,
    headers: *const *const c_char,
    names: *const *const c_char,
) -> c_int {
    let mut programs = all_programs();
    let handle = programs.last_key_value().map_or(16, |(last, _)| last + 16);
    let text = text_at(source);
    let mut made = FakeProgram { image: wrapped(&text), ..FakeProgram::default() };
    // Files of users have names, generated kernels have none.
    if !name.is_null() {
        let texts = |all| get_values(all, count as usize).into_iter().map(text_at).collect::<Vec<_>>();
        let headers = texts(names).into_iter().zip(texts(headers)).collect();
        made.user = Some(UserSource { name: text_at(name), text, headers });
    }
    programs.insert(handle, made);
    put_value(program, handle as Handle);
    0
}

#[cfg_attr(not(test), unsafe(no_mangle))]
extern "C" fn nvrtcDestroyProgram(program: *mut Handle) -> c_int {
    c_int::from(all_programs().remove(&(get_value(program) as usize)).is_none())
}

#[cfg_attr(not(test), unsafe(no_mangle))]
extern "C" fn nvrtcCompileProgram(program: Handle, _: c_int, _: *const *const c_char) -> c_int {
    let mut programs = all_programs();
    let Some(program) = programs.get_mut(&(program as usize)) else { return 1 };
    match program.user.as_ref().map(UserSource::preprocess) {
        None => 0,
        Some(Ok(text)) => {
            program.image = wrapped(&text);
            0
        }
        Some(Err(log)) => {
            program.log = log;
            COMPILATION_FAILED
        }
    }
}

#[cfg_attr(not(test), unsafe(no_mangle))]
extern "C" fn nvrtcGetProgramLogSize(program: Handle, bytes: *mut usize) -> c_int {
    put_value(bytes, all_programs().get(&(program as usize)).map_or(0, |program| program.log.len()) + 1);
    0
}

#[cfg_attr(not(test), unsafe(no_mangle))]
extern "C" fn nvrtcGetProgramLog(program: Handle, log: *mut c_char) -> c_int {
    let text = all_programs().get(&(program as usize)).map(|program| program.log.clone()).unwrap_or_default();
    crate::abi::write_host(log as u64, &[text.as_bytes(), b"\0"].concat());
    0
}

#[cfg_attr(not(test), unsafe(no_mangle))]
extern "C" fn nvrtcGetCUBINSize(program: Handle, bytes: *mut usize) -> c_int {
    match all_programs().get(&(program as usize)) {
        Some(program) => {
            put_value(bytes, program.image.len());
            0
        }
        None => 1,
    }
}

#[cfg_attr(not(test), unsafe(no_mangle))]
extern "C" fn nvrtcGetCUBIN(program: Handle, image: *mut c_char) -> c_int {
    match all_programs().get(&(program as usize)) {
        Some(program) => {
            crate::abi::write_host(image as u64, &program.image);
            0
        }
        None => 1,
    }
}
