//! NCCL, opened at run time.
//!
//! [`Library::open`] finds the shared library, so a program starts without NCCL and fails only when it has to
//! communicate. All functions return an [`Error`] instead of panicking, and dropping a [`NcclCommunicator`] never
//! aborts the process. A communicator can be split, queried for asynchronous errors and aborted.
//!
//! Functions on device memory take addresses, which NCCL cannot check, and are `unsafe`
//! ([`NcclCommunicator`] has the contract); so is opening a library by a path ([`Library::open`]). Statuses are plain
//! numbers: a status that a newer NCCL adds is an error, not undefined behaviour.
//!
//! Sources: NCCL's API documentation (communicators, collectives, group calls, fault tolerance).

#![allow(unsafe_code, reason = "NCCL is a C library; each call states what it relies on")]

mod api;
mod communicator;
mod join;

pub use api::{DataType, Error, Library, NcclRedOp, UniqueId};
pub use communicator::{Config, NcclCommunicator};
pub use join::WaitLimits;

use std::marker::PhantomData;

/// A CUDA stream, which lives at least as long as `'s`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StreamRef<'s>(*mut std::ffi::c_void, PhantomData<&'s ()>);

impl StreamRef<'_> {
    /// The stream of a `CUstream`.
    ///
    /// # Safety
    /// It is not destroyed before the end of the lifetime that the caller chooses.
    pub unsafe fn from_raw(stream: *mut std::ffi::c_void) -> Self {
        Self(stream, PhantomData)
    }
}

/// A device address. It may be any number: each function states what it has to be.
pub type DeviceAddress = u64;
