//! Foreign functions, behind types that keep their handles alive and turn statuses into [`Error`]s.
//!
//! All foreign calls of the backend are here. A function that reads or writes at a caller's address is an `unsafe fn`;
//! the rank, which knows the place and lifetime of all memory ([`crate::runtime::rank`]), calls it. Only [`Error`],
//! [`nvrtc`], [`nvtx::NvtxProfiler`] and [`context::CallerStream`] of this module are visible outside of the crate.
#![allow(unsafe_code, reason = "CUDA's libraries are C; each call states what it relies on")]

pub(crate) mod blas;
pub(crate) mod capture;
pub(crate) mod context;
pub(crate) mod driver;
pub(crate) mod library;
pub(crate) mod module;
pub mod nvrtc;
pub mod nvtx;
pub(crate) mod peer;
mod tables;
pub(crate) mod tensor_map;

use hostir_gpu::unsupported::Unsupported;

/// An error of a library, or one found before any call to it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Error {
    /// A library that cannot be opened.
    Missing {
        /// `CUDA driver`, `NVRTC`, ...
        library: &'static str,
        /// File names that were tried.
        searched: String,
    },
    /// A call that failed.
    Call {
        /// The function.
        call: &'static str,
        /// The library's description of the status.
        status: String,
    },
    /// No memory of the device for this many bytes.
    NoMemory {
        /// The requested bytes.
        bytes: u64,
        /// The free bytes.
        free: u64,
    },
    /// CUDA C++ that does not compile: a bug of this library.
    Compile {
        /// The compiler's messages.
        log: String,
    },
    /// The reason why CUDA's libraries cannot be used in this process, or no longer.
    NoAccess(&'static str),
    /// An operation that the backend does not support.
    Unsupported(Unsupported),
    /// A state of the backend that its own code rules out: a bug of this library.
    Internal {
        /// The contradiction.
        what: String,
    },
}

impl std::fmt::Display for Error {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Error::Missing { library, searched } => {
                write!(f, "cannot open the {library} (searched: {searched})")
            }
            Error::Call { call, status } => write!(f, "{call} failed: {status}"),
            Error::NoMemory { bytes, free } => {
                write!(f, "out of device memory: cannot allocate {bytes} bytes ({free} are free)")
            }
            Error::Compile { log } => write!(f, "a generated kernel does not compile: {log}"),
            Error::NoAccess(why) => f.write_str(why),
            Error::Unsupported(what) => write!(f, "the CUDA backend does not support {what}"),
            Error::Internal { what } => write!(f, "internal error: {what}"),
        }
    }
}

impl std::error::Error for Error {}

impl From<Unsupported> for Error {
    fn from(what: Unsupported) -> Self {
        Error::Unsupported(what)
    }
}
