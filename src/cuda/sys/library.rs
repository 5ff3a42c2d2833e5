//! Tables of functions of libraries that are opened at run time.
//!
//! The signatures are ours: every function returns a `c_int`, since a newer library may return a status that no
//! enumeration of today has. The names are those of the libraries' headers, with the version of the function if there
//! are several.

use crate::sys::Error;
use std::ffi::{CStr, c_char, c_int};
use std::sync::atomic::{AtomicBool, Ordering};

/// True once the process is exiting, and no library may be called.
static IS_CLOSED: AtomicBool = AtomicBool::new(false);

/// Returns true once no library may be called.
pub(crate) fn is_closed() -> bool {
    IS_CLOSED.load(Ordering::SeqCst)
}

/// Ends all calls of libraries.
pub(crate) fn close_libraries() {
    IS_CLOSED.store(true, Ordering::SeqCst);
}

/// The status of a function that the library lacks; no library has it.
pub(super) const LACKING: c_int = c_int::MIN;
/// The status of a function that is not called because the process is exiting; no library has it.
pub(super) const CLOSED: c_int = c_int::MIN + 1;

/// The status that a function of a library returned, or one of those above.
#[derive(Clone, Copy)]
#[must_use]
pub(super) struct CallStatus {
    pub(super) call: &'static str,
    pub(super) code: c_int,
    /// The library's words for a status.
    pub(super) describe: fn(c_int) -> String,
}

impl CallStatus {
    /// An error unless the call succeeded.
    pub(super) fn into_result(self) -> Result<(), Error> {
        let status = match self.code {
            0 => return Ok(()),
            LACKING => "the library is too old: it lacks this function".to_owned(),
            CLOSED => "the process is exiting".to_owned(),
            code => (self.describe)(code),
        };
        // Messages leave out the version of a function.
        Err(Error::Call { call: self.call.trim_end_matches("_v2"), status })
    }
}

/// A library that was opened, or nothing.
pub(super) struct DynamicLibrary {
    library: Option<libloading::Library>,
    /// The names that were tried, with the errors of the files that exist, as text for users.
    pub(super) searched: String,
}

impl DynamicLibrary {
    /// Opens the first of these files that exists, as the loader finds files, and for which `wrong` returns nothing.
    ///
    /// # Safety
    /// The file with these names is NVIDIA's library: its initialisers rely on nothing of ours.
    pub(super) unsafe fn open_first(names: &[String], wrong: impl Fn(&Self) -> Option<String>) -> Self {
        let mut tried = Vec::new();
        for name in names {
            // SAFETY: as the caller promises.
            let library = unsafe { libloading::Library::new(name) }.ok();
            let opened = Self { library, searched: name.clone() };
            match opened.is_open().then(|| wrong(&opened)) {
                Some(None) => return opened,
                Some(Some(why)) => tried.push(format!("{name}, which {why},")),
                None => tried.push(name.clone()),
            }
        }
        Self { library: None, searched: tried.join(", ") }
    }

    /// Whether there is one.
    pub(super) fn is_open(&self) -> bool {
        self.library.is_some()
    }

    /// Returns a function of the library, if it has one of this name.
    ///
    /// # Safety
    /// `F` is a pointer to functions of the type that the library's header gives, except that an enumeration is
    /// returned as `c_int`. The library stays open while the function is used.
    pub(super) unsafe fn symbol<F: Copy>(&self, name: &CStr) -> Option<F> {
        let library = self.library.as_ref()?;
        // SAFETY: as the caller promises.
        unsafe { library.get::<F>(name.to_bytes_with_nul()) }.ok().map(|found| *found)
    }
}

/// `struct Table` with one method for each function, with the library's name, arguments and contract, and the function
/// that describes its statuses. If the library or the function is missing, the method returns [`LACKING`], and
/// [`CLOSED`] once the process is exiting.
macro_rules! table {
    ($(#[$about:meta])* $table:ident, $describe:path { $($symbol:ident($($name:ident: $type:ty),* $(,)?);)* }) => {
        $(#[$about])*
        #[allow(non_snake_case, reason = "the names of the library's header")]
        pub(super) struct $table {
            $($symbol: Option<unsafe extern "C" fn($($type),*) -> std::ffi::c_int>,)*
            pub(super) opened: $crate::sys::library::DynamicLibrary,
        }

        #[allow(non_snake_case, reason = "the names of the library's header")]
        impl $table {
            /// Finds all functions.
            ///
            /// # Safety
            /// The library is the one of these functions, or none.
            unsafe fn of(opened: $crate::sys::library::DynamicLibrary) -> Self {
                $(
                    // SAFETY: the type is that of the header, and the library is kept beside the pointer.
                    let $symbol = unsafe {
                        const NAME: &str = concat!(stringify!($symbol), "\0");
                        const TEXT: &std::ffi::CStr =
                            match std::ffi::CStr::from_bytes_with_nul(NAME.as_bytes()) {
                                Ok(text) => text,
                                Err(_) => c"",
                            };
                        opened.symbol(TEXT)
                    };
                )*
                Self { $($symbol,)* opened }
            }

            $(
                /// The library's function of this name.
                ///
                /// # Safety
                /// Its documentation says what the arguments have to be.
                #[allow(clippy::too_many_arguments, reason = "those of the library")]
                pub(super) unsafe fn $symbol(&self $(, $name: $type)*) -> $crate::sys::library::CallStatus {
                    let code = match self.$symbol {
                        Some(_) if $crate::sys::library::is_closed() => $crate::sys::library::CLOSED,
                        // SAFETY: as the caller promises.
                        Some(function) => unsafe { function($($name),*) },
                        None => $crate::sys::library::LACKING,
                    };
                    $crate::sys::library::CallStatus { call: stringify!($symbol), code, describe: $describe }
                }
            )*
        }
    };
}
pub(super) use table;

/// A text of the library's own; `?` for null.
///
/// # Safety
/// Null, or a string that ends in zero and lives as long as the library.
pub(super) unsafe fn c_text(text: *const c_char) -> String {
    if text.is_null() {
        return "?".to_owned();
    }
    // SAFETY: as the caller promises.
    unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
}

/// The names of a library by major version, these first, and then without one.
pub(super) fn library_names(stem: &str, majors: &[i32]) -> Vec<String> {
    let versions = majors.iter().map(|major| format!("{stem}.{major}"));
    versions.chain([stem.to_owned()]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    table! {
        /// A function that the C library has, and one that it lacks.
        Known, describe_number {
            abs(number: c_int);
            hir_no_such_function(number: c_int);
        }
    }

    fn describe_number(number: c_int) -> String {
        format!("the number {number}")
    }

    #[test]
    fn a_status_is_described_by_its_library() {
        let status = |code| CallStatus { call: "cuDo_v2", code, describe: describe_number };
        assert_eq!(status(0).into_result(), Ok(()));
        assert_eq!(status(3).into_result().unwrap_err().to_string(), "cuDo failed: the number 3");
        assert!(status(LACKING).into_result().unwrap_err().to_string().ends_with("it lacks this function"));
        assert!(status(CLOSED).into_result().unwrap_err().to_string().ends_with("the process is exiting"));
    }

    #[test]
    #[cfg_attr(miri, ignore = "opens a library")]
    fn a_function_that_is_not_there_has_a_status_of_its_own() {
        let names = ["libc.so.6".to_owned()];
        // SAFETY: the C library is open in every process.
        let opened = unsafe { DynamicLibrary::open_first(&names, |_| None) };
        // SAFETY: `abs` takes and returns an integer.
        let known = unsafe { Known::of(opened) };
        // SAFETY: any integer but the least has an absolute value.
        assert_eq!(unsafe { known.abs(-3) }.code, 3);
        // SAFETY: it is not there.
        assert_eq!(unsafe { known.hir_no_such_function(-3) }.code, LACKING);
    }

    #[test]
    #[cfg_attr(miri, ignore = "opens a library")]
    fn a_library_that_is_not_there_or_does_not_fit() {
        let names = ["libc.so.6".to_owned()];
        // SAFETY: as above.
        let old = unsafe { DynamicLibrary::open_first(&names, |_| Some("is too old".to_owned())) };
        assert!(!old.is_open());
        assert_eq!(old.searched, "libc.so.6, which is too old,");
        let names = library_names("libhir-none.so", &[13]);
        // SAFETY: there is none.
        let opened = unsafe { DynamicLibrary::open_first(&names, |_| None) };
        assert!(!opened.is_open());
        assert_eq!(opened.searched, "libhir-none.so.13, libhir-none.so");
        // SAFETY: it is not open.
        let known = unsafe { Known::of(opened) };
        assert!(!known.opened.is_open());
        // SAFETY: nothing is called.
        assert_eq!(unsafe { known.abs(-3) }.code, LACKING);
    }
}
