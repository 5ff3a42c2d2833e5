//! `libnvrtc`: the image of a program is its source.
#![allow(non_snake_case, reason = "the names of the header")]
#![allow(unsafe_code, reason = "functions are found by their names")]

use crate::abi::{Handle, get_value, put_value, text_at};
use crate::module::wrapped;
use std::collections::BTreeMap;
use std::ffi::{c_char, c_int};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Images by their programs.
fn all_programs() -> MutexGuard<'static, BTreeMap<usize, Vec<u8>>> {
    static PROGRAMS: Mutex<BTreeMap<usize, Vec<u8>>> = Mutex::new(BTreeMap::new());
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
    _: *const c_char,
    _: c_int,
    _: *const *const c_char,
    _: *const *const c_char,
) -> c_int {
    let mut programs = all_programs();
    let handle = programs.last_key_value().map_or(16, |(last, _)| last + 16);
    programs.insert(handle, wrapped(&text_at(source)));
    put_value(program, handle as Handle);
    0
}

#[cfg_attr(not(test), unsafe(no_mangle))]
extern "C" fn nvrtcDestroyProgram(program: *mut Handle) -> c_int {
    c_int::from(all_programs().remove(&(get_value(program) as usize)).is_none())
}

#[cfg_attr(not(test), unsafe(no_mangle))]
extern "C" fn nvrtcCompileProgram(program: Handle, _: c_int, _: *const *const c_char) -> c_int {
    c_int::from(!all_programs().contains_key(&(program as usize)))
}

#[cfg_attr(not(test), unsafe(no_mangle))]
extern "C" fn nvrtcGetProgramLogSize(_: Handle, bytes: *mut usize) -> c_int {
    put_value(bytes, 1);
    0
}

#[cfg_attr(not(test), unsafe(no_mangle))]
extern "C" fn nvrtcGetProgramLog(_: Handle, log: *mut c_char) -> c_int {
    put_value(log, 0);
    0
}

#[cfg_attr(not(test), unsafe(no_mangle))]
extern "C" fn nvrtcGetCUBINSize(program: Handle, bytes: *mut usize) -> c_int {
    match all_programs().get(&(program as usize)) {
        Some(image) => {
            put_value(bytes, image.len());
            0
        }
        None => 1,
    }
}

#[cfg_attr(not(test), unsafe(no_mangle))]
extern "C" fn nvrtcGetCUBIN(program: Handle, image: *mut c_char) -> c_int {
    match all_programs().get(&(program as usize)) {
        Some(bytes) => {
            crate::abi::write_host(image as u64, bytes);
            0
        }
        None => 1,
    }
}
