//! Pointers of callers. What calls these functions is the runtime, and passes what the libraries' headers ask for.
#![allow(unsafe_code, reason = "the runtime passes pointers")]

use std::ffi::{CStr, c_char, c_void};

/// A handle of a library.
pub(crate) type Handle = *mut c_void;

/// Writes where a caller wants it.
pub(crate) fn put_value<T>(place: *mut T, value: T) {
    // SAFETY: the caller passes a place for such a value, as the header asks for.
    unsafe { place.write_unaligned(value) }
}

/// Reads what a caller has put there.
pub(crate) fn get_value<T: Copy>(place: *const T) -> T {
    // SAFETY: the caller passes such a value, as the header asks for.
    unsafe { place.read_unaligned() }
}

/// Values that a caller has put one after the other.
pub(crate) fn get_values<T: Copy>(first: *const T, count: usize) -> Vec<T> {
    (0..count).map(|at| get_value(first.wrapping_add(at))).collect()
}

/// A caller's text.
pub(crate) fn text_at(text: *const c_char) -> String {
    // SAFETY: the caller passes a text that ends in zero.
    unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
}

/// Bytes of the host's memory.
pub(crate) fn read_host(from: u64, bytes: usize) -> Vec<u8> {
    if bytes == 0 {
        return Vec::new();
    }
    // SAFETY: the caller promises that so many bytes lie there until the copy has ended.
    unsafe { std::slice::from_raw_parts(from as *const u8, bytes) }.to_vec()
}

/// Writes to the host's memory.
pub(crate) fn write_host(to: u64, bytes: &[u8]) {
    // SAFETY: the caller promises that there is room for so many bytes until the copy has ended.
    unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), to as *mut u8, bytes.len()) }
}
