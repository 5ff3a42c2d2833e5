//! Sessions: host programs inside another process. A session works on the caller's tensors and streams, in the primary
//! contexts of the devices.
//!
//! A [`Session`] holds one program with fixed sizes, ready to run any number of times. It owns the resources it needs
//! (streams, events, kernels, communicators, memory between the ops) and changes nothing of the process: it installs no
//! signal handlers and never exits; every call restores the thread's current context. Threads that release a dropped or
//! failed session's resources may outlive the call that starts them: an exit handler waits for them, for a limited
//! time, before the exit handlers of CUDA's libraries run ([`crate::finish_library_calls`]). Sessions are independent
//! of each other. `docs/library.md` is the long version. The type adds names, sizes and errors to
//! `runtime::io_binding::bound_program`.
//!
//! ```no_run
//! use hostir::ir::DType;
//! use hostir_cuda::session::{CallerStream, DeviceTensor, Session};
//! # fn caller() -> (u64, u64, *mut std::ffi::c_void) { (0, 0, std::ptr::null_mut()) }
//! # fn main() -> Result<(), hostir_cuda::session::Error> {
//! const PROGRAM: &str = "%HostIrContainer { (T0_g_float[iS0{i0}]) -> (T1_g_float[iS1{i0}]) :
//!   T1_g_float[iS1{i0}] = relu(T0_g_float[iS0{i0}]);
//! } // %HostIrContainer
//! ";
//! // Two addresses and a stream that some other code of this process made.
//! let (x, y, stream) = caller();
//! let input = DeviceTensor::contiguous(x, DType::Float, &[1024]);
//! let output = DeviceTensor::contiguous(y, DType::Float, &[1024]);
//! // SAFETY: both addresses are of 1024 floats on device 0, which stay until the session is done with them.
//! let mut session = unsafe { Session::builder(PROGRAM).input("T0", &input) }.build()?;
//! // SAFETY: as above.
//! unsafe { session.output("T1").bind(&output) }?;
//! // SAFETY: the stream is alive, and of device 0's primary context.
//! let stream = unsafe { CallerStream::from_raw(stream) };
//! // Runs after the work on the stream, whose later work follows the run. Nothing waits here.
//! session.run_on(stream)?;
//! session.wait()?;
//! # Ok(())
//! # }
//! ```

mod build;
mod error;
mod io_handles;
mod names;

pub use crate::runtime::io_binding::{DeviceTensor, IoSide, SlotTensor};
pub use crate::runtime::options::{GemmTuning, ImageStore, NcclFile, Options, ParentCommunicator};
pub use crate::runtime::symmetric_buffers::SymmetricTensor;
pub use crate::sys::context::CallerStream;
pub use build::Builder;
pub use error::Error;
pub use io_handles::{InputHandle, OutputHandle};
pub use names::IoKey;

use crate::backend::CudaRuntime;
use crate::runtime::io_binding::bound_program::BoundProgram;
use error::DiagSource;
use hostir::data::HostTensor;
use hostir::diag::message;
use hostir::diag::{Diag, codes};
use hostir::lower::{IoTensor, PreparedProgram};
use std::sync::Arc;

self_cell::self_cell!(
    /// A prepared program and the bound program that runs it, which refers to its plans.
    struct Program {
        owner: PreparedProgram,
        #[covariant]
        dependent: BoundProgram,
    }
);

/// A program that is ready to run on a caller's tensors. One thread uses it at a time.
pub struct Session {
    program: Program,
    source: Arc<DiagSource>,
    warnings: Vec<Diag>,
}

impl std::fmt::Debug for Session {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Session").field("about", &self.describe_platform()).finish_non_exhaustive()
    }
}

impl Session {
    /// Starts the builder of a session for the program in a text.
    pub fn builder(text: &str) -> Builder {
        Builder::new(text)
    }

    /// Builds a session of a prepared program ([`hostir::lower::prepare_program`]), with nothing bound. It does not
    /// prove the program ([`hostir::plan_checks::prove_program`]). Displayed errors quote no text; spans refer to the
    /// text that the program was read from.
    ///
    /// # Errors
    /// If the devices cannot be prepared.
    pub fn of_prepared(prepared: PreparedProgram, options: Options) -> Result<Self, Error> {
        let source = DiagSource { name: "program".to_owned(), text: None };
        Self::load_prepared(prepared, Arc::new(source), options)
    }

    /// Prepares the devices.
    fn load_prepared(prepared: PreparedProgram, source: Arc<DiagSource>, options: Options) -> Result<Self, Error> {
        let cuda = CudaRuntime { options };
        let program = Program::try_new(prepared, |prepared| cuda.load_unbound(prepared));
        let program = program.map_err(|diags| Error::new(&source, diags))?;
        Ok(Self { program, source, warnings: Vec::new() })
    }

    /// Returns a description of devices and library versions.
    pub fn describe_platform(&self) -> &str {
        self.program.borrow_dependent().platform_summary()
    }

    /// The phases of the preparation of the devices and their seconds, in order.
    pub fn phases(&self) -> &[(&'static str, f64)] {
        self.program.borrow_dependent().phases()
    }

    /// Returns the verifier's warnings.
    pub fn warnings(&self) -> &[Diag] {
        &self.warnings
    }

    /// The program's inputs, in order.
    pub fn inputs(&self) -> &[IoTensor] {
        &self.prepared().inputs
    }

    /// The program's outputs, in order.
    pub fn outputs(&self) -> &[IoTensor] {
        &self.prepared().outputs
    }

    /// The ranks of this process, in order.
    pub fn ranks(&self) -> Vec<u32> {
        self.program.borrow_dependent().ranks().collect()
    }

    /// The inputs and outputs, by side and position, that peers address in the caller's memory
    /// ([`Options::symmetric`]). They are bound to it until the session is dropped. The other tensors of
    /// [`Options::symmetric`] are ordinary ones: no copy between ranks reads or writes them, they are a part or a view
    /// of a buffer of the program, or they are not aligned to 256 bytes on all ranks.
    pub fn symmetric_slots(&self) -> &[(IoSide, usize)] {
        self.program.borrow_dependent().symmetric_slots()
    }

    /// The ordinal of the device that a rank of this process runs on.
    pub fn device(&self, rank: u32) -> Option<usize> {
        self.program.borrow_dependent().device_ordinal(rank)
    }

    /// Selects an input by name (`T0`, or one of the user's) or position; on this process's only rank, or on the one
    /// that [`InputHandle::on`] names.
    pub fn input<'k>(&mut self, key: impl Into<IoKey<'k>>) -> InputHandle<'_, 'k> {
        InputHandle::new(self, key.into())
    }

    /// Selects an output, as [`Session::input`] does.
    pub fn output<'k>(&mut self, key: impl Into<IoKey<'k>>) -> OutputHandle<'_, 'k> {
        OutputHandle::new(self, key.into())
    }

    /// Enqueues a run of all ranks of this process on the session's own streams. Does not wait for the devices;
    /// [`Session::wait`] or the next call reports errors that occur there.
    ///
    /// # Errors
    /// If the session has failed before, an input has no data, or a call of CUDA fails. Errors of earlier runs are
    /// reported, too.
    pub fn run(&mut self) -> Result<(), Error> {
        self.run_on_all(&[])
    }

    /// Enqueues a run of this process's only rank on a caller's stream: after the stream's earlier work, and before
    /// its later work. If the stream is being recorded in a graph, the run becomes part of it.
    ///
    /// # Errors
    /// As [`Session::run_on_all`].
    pub fn run_on(&mut self, stream: CallerStream) -> Result<(), Error> {
        self.run_on_all(&[stream])
    }

    /// Binds tensors of this process's only rank, each at its address, and enqueues a run on a caller's stream: what
    /// [`InputHandle::bind`], [`OutputHandle::bind`] and [`Session::run_on`] do, in one step. A tensor at its address
    /// of the last run costs nothing.
    ///
    /// # Errors
    /// As of those, and `H0528` if this process has several ranks, or the number of addresses differs from that of
    /// tensors.
    ///
    /// # Safety
    /// As of [`InputHandle::bind`], for all tensors.
    #[allow(unsafe_code, reason = "binding is a promise about memory")]
    pub unsafe fn run_at(
        &mut self,
        stream: CallerStream,
        tensors: &[SlotTensor],
        addresses: &[u64],
    ) -> Result<(), Error> {
        // SAFETY: as the caller promises.
        self.with_bound(|bound| unsafe { bound.enqueue_run_at(stream, tensors, addresses) })
    }

    /// Runs as [`Session::run_on`] does, for several ranks: one stream for each, in the order of [`Session::ranks`].
    ///
    /// # Errors
    /// If the number of streams is not the number of ranks of this process, a stream belongs to another device, an
    /// input has no data, the session has failed before, or a call of CUDA fails. Errors of earlier runs are reported,
    /// too.
    pub fn run_on_all(&mut self, streams: &[CallerStream]) -> Result<(), Error> {
        self.with_bound(|bound| bound.enqueue_run(streams))
    }

    /// Waits until all runs are done. Aborts the communicators after the timeout of the options.
    ///
    /// # Errors
    /// If a run failed, on this or another process, or did not end within the timeout. The session cannot run any more
    /// after that.
    pub fn wait(&mut self) -> Result<(), Error> {
        self.with_bound(|bound| bound.wait())
    }

    /// Copies the shards of a whole input to all ranks, which must belong to this process.
    ///
    /// # Errors
    /// If there is no such input, the tensor has another shape or type, this process does not have all ranks, or the
    /// copy or an earlier run fails.
    pub fn upload_whole<'k>(&mut self, key: impl Into<IoKey<'k>>, tensor: &HostTensor) -> Result<(), Error> {
        let position = self.find_position(IoSide::Input, key.into())?;
        let io_tensor = &self.prepared().inputs[position];
        hostir::lower::shard::check_whole(io_tensor, tensor).map_err(|diag| self.make_error(vec![diag]))?;
        for rank in self.all_ranks()? {
            let part = hostir::lower::shard_input(self.prepared(), position, rank, tensor);
            if self.prepared().inputs[position].is_on_rank(rank) {
                self.with_bound(|bound| bound.upload_input(rank, position, &part))?;
            }
        }
        Ok(())
    }

    /// Assembles a whole output of the last run from the shards of all ranks, which must belong to this process. Waits
    /// for the run. Replicas that differ are an error.
    ///
    /// # Errors
    /// If there is no such output, this process does not have all ranks, no run was enqueued, a run fails, or replicas
    /// differ.
    pub fn download_whole<'k>(&mut self, key: impl Into<IoKey<'k>>) -> Result<HostTensor, Error> {
        let position = self.find_position(IoSide::Output, key.into())?;
        let mut parts = Vec::new();
        for rank in self.all_ranks()? {
            let part = self.with_bound(|bound| bound.download_output(rank, position))?;
            parts.extend(part.map(|part| (rank, part)));
        }
        hostir::lower::assemble_output(self.prepared(), position, parts).map_err(|diag| self.make_error(vec![diag]))
    }

    /// Returns true if all enqueued work is done, so that [`Session::wait`] would not wait. Does not look at runs that
    /// a caller recorded in a graph.
    ///
    /// # Errors
    /// If a run is known to have failed, on this or another process.
    pub fn is_complete(&mut self) -> Result<bool, Error> {
        let mut complete = false;
        self.with_bound(|bound| {
            complete = bound.is_complete()?;
            Ok(())
        })?;
        Ok(complete)
    }

    /// Returns true if a graph of the caller's, or an instance of one, holds a run of this session. Such a graph uses
    /// the session's memory, kernels and communicators: if the session is dropped first, they stay until the process
    /// ends.
    pub fn is_recorded(&self) -> bool {
        self.program.borrow_dependent().is_recorded()
    }

    fn prepared(&self) -> &PreparedProgram {
        self.program.borrow_owner()
    }

    fn make_error(&self, diags: Vec<Diag>) -> Error {
        Error::new(&self.source, diags)
    }

    fn with_bound<T>(&mut self, work: impl FnOnce(&mut BoundProgram<'_>) -> Result<T, Vec<Diag>>) -> Result<T, Error> {
        let done = self.program.with_dependent_mut(|_, bound| work(bound));
        done.map_err(|diags| self.make_error(diags))
    }

    fn find_position(&self, side: IoSide, key: IoKey<'_>) -> Result<usize, Error> {
        let io_tensors = if side == IoSide::Input { self.inputs() } else { self.outputs() };
        let names: Vec<&str> = io_tensors.iter().map(|io_tensor| io_tensor.name.as_str()).collect();
        names::find_position(side, &names, key).map_err(|diag| self.make_error(vec![diag]))
    }

    /// Returns the only rank, for calls that name none.
    fn only_rank(&self) -> Result<u32, Error> {
        let ranks = self.ranks();
        names::sole_rank(&ranks).map_err(|diag| self.make_error(vec![diag]))
    }

    /// All ranks of the program, if this process has them all.
    fn all_ranks(&self) -> Result<Vec<u32>, Error> {
        let (ranks, all) = (self.ranks(), self.prepared().ranks);
        if ranks.len() == all as usize {
            return Ok(ranks);
        }
        let message =
            message!("this process has {} of the {} ranks, so it cannot transfer whole tensors", ranks.len(), all);
        let diag = Diag::global_error(codes::SESSION, message).with_note("pass or read the shard of one rank instead");
        Err(self.make_error(vec![diag]))
    }
}
