//! Handles of a session's inputs and outputs on one rank.

#![allow(unsafe_code, reason = "binding is a promise about memory")]

use crate::runtime::io_binding::IoSide;
use crate::session::{DeviceTensor, Error, IoKey, Session};
use hostir::data::HostTensor;
use hostir::diag::message;
use hostir::diag::{Diag, codes};

/// The common part of inputs and outputs: the session, the side, the key and the rank.
struct IoHandle<'s, 'k> {
    session: &'s mut Session,
    side: IoSide,
    key: IoKey<'k>,
    rank: Option<u32>,
}

impl IoHandle<'_, '_> {
    fn resolve_position(&self) -> Result<(u32, usize), Error> {
        let position = self.session.find_position(self.side, self.key)?;
        let rank = self.rank.map_or_else(|| self.session.only_rank(), Ok)?;
        Ok((rank, position))
    }

    /// # Safety
    /// As of [`InputHandle::bind`].
    unsafe fn bind(self, tensor: &DeviceTensor) -> Result<(), Error> {
        let (rank, position) = self.resolve_position()?;
        let side = self.side;
        // SAFETY: as the caller promises.
        self.session.with_bound(|bound| unsafe { bound.bind_tensor(rank, side, position, tensor) })
    }

    fn release(self) -> Result<(), Error> {
        let (rank, position) = self.resolve_position()?;
        let side = self.side;
        self.session.with_bound(|bound| bound.release_binding(rank, side, position))
    }
}

/// An input of a session on one rank.
pub struct InputHandle<'s, 'k>(IoHandle<'s, 'k>);

impl<'s, 'k> InputHandle<'s, 'k> {
    pub(super) fn new(session: &'s mut Session, key: IoKey<'k>) -> Self {
        Self(IoHandle { session, side: IoSide::Input, key, rank: None })
    }

    /// Selects the shard of a rank of this process.
    pub fn on(mut self, rank: u32) -> Self {
        self.0.rank = Some(rank);
        self
    }

    /// Binds the rank's shard: the runs from here on read it there. It stays the caller's. A contiguous and aligned
    /// tensor is used in place; another one is copied at the start of each run. Does nothing if the rank has no shard
    /// of the input.
    ///
    /// # Errors
    /// `H0523` to `H0526` for a tensor that does not fit. The driver recognizes addresses of another device, of
    /// ordinary host memory or of none, and those too close to the end of their allocation; these are refused.
    ///
    /// # Safety
    /// The driver knows where memory is, but not how long it will be. The caller promises the following for the memory
    /// of the tensor's elements. The promise begins with this call. It ends when another tensor is bound or uploaded
    /// here, the binding is released or the session is dropped, *and* the runs enqueued until then have ended on the
    /// device:
    ///
    /// - it stays allocated, and is not handed out for anything else;
    /// - nobody else writes it while a run may read it, nor reads or writes it while a run may write it. Work on the
    ///   stream that [`Session::run_on`](crate::session::Session::run_on) gets is ordered with the runs, so it may do
    ///   both before and after them; freeing in the order of that stream (`cudaFreeAsync`) is late enough;
    /// - for managed memory, which is host memory as well, this holds for the host too.
    ///
    /// After a failed call, runs may still be in flight: the memory has to stay until the device is known to have
    /// finished with it (`cudaDeviceSynchronize`), or the process ends.
    ///
    /// Safe code cannot bind:
    ///
    /// ```compile_fail,E0133
    /// # use hostir_cuda::session::{DeviceTensor, Error, Session};
    /// fn bind(session: &mut Session, anything: &DeviceTensor) -> Result<(), Error> {
    ///     session.input("T0").bind(anything)
    /// }
    /// ```
    pub unsafe fn bind(self, tensor: &DeviceTensor) -> Result<(), Error> {
        // SAFETY: as the caller promises.
        unsafe { self.0.bind(tensor) }
    }

    /// Copies the rank's shard from the host, into memory of the session's own, which replaces the bound tensor. Waits
    /// for earlier runs.
    ///
    /// # Errors
    /// If there is no such input or rank in this process, the tensor does not fit the rank's shard, or the copy or an
    /// earlier run fails.
    pub fn upload(self, tensor: &HostTensor) -> Result<(), Error> {
        let (rank, position) = self.0.resolve_position()?;
        self.0.session.with_bound(|bound| bound.upload_input(rank, position, tensor))
    }

    /// Releases the binding.
    ///
    /// # Errors
    /// If there is no such input or rank in this process, or the session has failed before.
    pub fn release(self) -> Result<(), Error> {
        self.0.release()
    }
}

/// An output of a session on one rank.
pub struct OutputHandle<'s, 'k>(IoHandle<'s, 'k>);

impl<'s, 'k> OutputHandle<'s, 'k> {
    pub(super) fn new(session: &'s mut Session, key: IoKey<'k>) -> Self {
        Self(IoHandle { session, side: IoSide::Output, key, rank: None })
    }

    /// Selects the output's shard on a rank of this process.
    pub fn on(mut self, rank: u32) -> Self {
        self.0.rank = Some(rank);
        self
    }

    /// Binds memory for the rank's shard: the runs from here on write it there. As [`InputHandle::bind`]; a tensor that
    /// is not contiguous or not aligned is written by a copy at the end of each run.
    ///
    /// # Errors
    /// As of [`InputHandle::bind`].
    ///
    /// # Safety
    /// As of [`InputHandle::bind`].
    ///
    /// ```compile_fail,E0133
    /// # use hostir_cuda::session::{DeviceTensor, Error, Session};
    /// fn bind(session: &mut Session, anything: &DeviceTensor) -> Result<(), Error> {
    ///     session.output("T1").bind(anything)
    /// }
    /// ```
    pub unsafe fn bind(self, tensor: &DeviceTensor) -> Result<(), Error> {
        // SAFETY: as the caller promises.
        unsafe { self.0.bind(tensor) }
    }

    /// Releases the binding: runs write memory of the session's own again.
    ///
    /// # Errors
    /// If there is no such output or rank in this process, or the session has failed before.
    pub fn release(self) -> Result<(), Error> {
        self.0.release()
    }

    /// Returns the location of the rank's shard after runs: the bound tensor, or memory of the session's own, which
    /// lives as long as the session and is overwritten by the next run.
    ///
    /// # Errors
    /// If there is no such output or rank in this process, the rank has no shard of the output, the session has failed
    /// before, or the output is kept in an input whose location is not known yet.
    pub fn tensor(self) -> Result<DeviceTensor, Error> {
        let (rank, position) = self.0.resolve_position()?;
        let found = self.0.session.with_bound(|bound| bound.output_tensor(rank, position))?;
        found.ok_or_else(|| absent_error(self.0.session, rank, position))
    }

    /// Returns the rank's shard of the last run, on the host. Waits for that run.
    ///
    /// # Errors
    /// If there is no such output or rank in this process, the rank has no shard of the output, no run was enqueued, or
    /// a run fails.
    pub fn download(self) -> Result<HostTensor, Error> {
        let (rank, position) = self.0.resolve_position()?;
        let found = self.0.session.with_bound(|bound| bound.download_output(rank, position))?;
        found.ok_or_else(|| absent_error(self.0.session, rank, position))
    }
}

/// The rank has no part of an output.
fn absent_error(session: &Session, rank: u32, position: usize) -> Error {
    let name = session.outputs().get(position).map_or("?", |io_tensor| io_tensor.name.as_str());
    let message = message!("rank {} has no shard of output {}", rank, name);
    session.make_error(vec![
        Diag::global_error(codes::SESSION, message)
            .with_note("use a rank of the tensor's mesh on which the program binds the output"),
    ])
}
