//! NCCL, opened at run time.
//!
//! [`Library::open`] finds the shared library; nothing else needs it, so a program starts without NCCL
//! and says so only when it is asked to communicate. All functions return a [`Error`] instead of
//! panicking, dropping a [`Communicator`] never aborts the process, and a communicator can be split,
//! asked for asynchronous errors and aborted.
//!
//! Sources: NCCL's API documentation (communicators, collectives, group calls, fault tolerance).

#![allow(unsafe_code, reason = "NCCL is a C library; each call states what it relies on")]

mod api;
mod communicator;
mod join;

pub use api::{DataType, Error, Library, RedOp, UniqueId};
pub use communicator::{Communicator, Config};
pub use join::Patience;

/// A CUDA stream.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Stream(*mut std::ffi::c_void);

impl Stream {
    /// The stream of a `CUstream`.
    ///
    /// # Safety
    /// It is alive whenever the value is used.
    pub unsafe fn from_raw(stream: *mut std::ffi::c_void) -> Self {
        Self(stream)
    }
}

/// A device address.
pub type Address = u64;
