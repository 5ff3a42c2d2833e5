//! A program whose inputs and outputs are a caller's tensors, on the caller's streams.
//!
//! All functions here restore the calling thread's current context.

use crate::runtime::failure::global_diag;
use crate::runtime::io_binding::rank_bindings::{EnqueueError, IoBindings};
use crate::runtime::io_binding::shared_bindings::{RankTensor, find_rank_conflict};
use crate::runtime::io_binding::{DeviceTensor, IoSide, SlotTensor};
use crate::runtime::kernel_images::load_or_compile;
use crate::runtime::library_access::LibraryAccess;
use crate::runtime::loaded_program::LoadedProgram;
use crate::runtime::loaded_program::all_ranks::{FailureContext, RankError, merge_results};
use crate::runtime::options::Options;
use crate::runtime::rank::RankRuntime;
use crate::runtime::rank_threads::join_rank_thread;
use crate::sys::Error;
use crate::sys::capture::{GraphLease, OpenCapture};
use crate::sys::context::{CallerStream, SavedContext, relax_capture_mode};
use crate::sys::driver;
use crate::sys::driver::CudaStream;
use hostir::data::HostTensor;
use hostir::diag::message;
use hostir::diag::{Diag, codes};
use hostir::lower::PreparedProgram;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// A program on its devices, ready to run on tensors that a caller binds.
pub struct BoundProgram<'p> {
    // Fields drop in this order; the context is restored last.
    loaded: LoadedProgram<'p>,
    bindings: Vec<IoBindings>,
    options: Arc<Options>,
    architecture: u32,
    ran: bool,
    /// Shared with the graphs in which a caller recorded runs.
    recorded: GraphLease,
    restore: Option<SavedContext>,
}

/// Runs the prepare phase without memory for inputs and outputs.
pub(crate) fn load_bound_program<'p>(
    prepared: &'p PreparedProgram,
    options: &Options,
) -> Result<BoundProgram<'p>, Vec<Diag>> {
    let _access = LibraryAccess::acquire().map_err(call_error)?;
    // Without a driver no context is current, and loading reports that it is missing.
    let _current = driver::is_present().then(SavedContext::save);
    let mut loaded = crate::runtime::loaded_program::load_program(prepared, options, true)?;
    let timeout = options.timeout;
    let mut architecture = 0;
    let bindings: Result<Vec<IoBindings>, Vec<Diag>> = loaded
        .ranks
        .iter_mut()
        .map(|rank| {
            let made = rank.device.make_current().and_then(|()| {
                architecture = rank.device.architecture()?;
                rank.move_to_symmetric(&loaded.symmetric)?;
                IoBindings::new(rank, &loaded.symmetric)
            });
            let bound = made.map_err(|error| EnqueueError::Failed(error.into())).and_then(|mut bindings| {
                bindings.bind_symmetric(rank, prepared)?;
                Ok(bindings)
            });
            bound.map_err(|error| match error {
                EnqueueError::Refused(diag) => vec![diag],
                EnqueueError::Failed(failure) => vec![failure.to_diag(prepared, rank.plan, timeout)],
            })
        })
        .collect();
    let bindings = loaded.process_group.finish_step("ports", bindings)?;
    let options = Arc::new(options.clone());
    Ok(BoundProgram {
        loaded,
        bindings,
        options,
        architecture,
        ran: false,
        recorded: GraphLease::default(),
        restore: None,
    })
}

impl BoundProgram<'_> {
    /// Devices and versions of libraries, as text for users.
    pub fn platform_summary(&self) -> &str {
        self.loaded.platform_summary()
    }

    /// The phases of the preparation and their seconds, in order.
    pub fn phases(&self) -> &[(&'static str, f64)] {
        self.loaded.phase_times()
    }

    /// The inputs and outputs that peers address in the caller's symmetric memory.
    pub fn symmetric_slots(&self) -> &[(IoSide, usize)] {
        self.loaded.symmetric.slots()
    }

    /// The ranks of this process.
    pub fn ranks(&self) -> impl Iterator<Item = u32> {
        self.loaded.ranks.iter().map(|rank| rank.plan.rank)
    }

    /// The ordinal of a rank's device.
    pub fn device_ordinal(&self, rank: u32) -> Option<usize> {
        let rank = self.loaded.ranks.iter().find(|one| one.plan.rank == rank)?;
        Some(rank.device.ordinal())
    }

    /// Binds a tensor to a rank's input or output, by position; does nothing if the rank has no shard of it.
    ///
    /// # Errors
    /// `H0523` to `H0526` for a tensor that does not fit, `H0529` after a failure.
    ///
    /// # Safety
    /// As of [`Input::bind`](crate::session::InputHandle::bind).
    #[allow(unsafe_code, reason = "hands a caller's memory to the device")]
    pub unsafe fn bind_tensor(
        &mut self,
        rank: u32,
        side: IoSide,
        position: usize,
        tensor: &DeviceTensor,
    ) -> Result<(), Vec<Diag>> {
        self.with_rank(rank, |bindings, rank, prepared| {
            // SAFETY: as the caller promises.
            unsafe { bindings.bind_tensor(rank, prepared, side, position, tensor) }
        })
    }

    /// Refuses bound tensors that overlap where the program writes, on one rank or on several: they are one allocation.
    /// Each run makes the same check of its tensors.
    ///
    /// # Errors
    /// `H0525` if two tensors overlap, `H0529` after a failure.
    pub fn check_overlaps(&mut self) -> Result<(), Vec<Diag>> {
        let _access = self.loaded.acquire_access()?;
        let prepared = self.loaded.prepared;
        for (rank, bindings) in self.loaded.ranks.iter().zip(&self.bindings) {
            if let Err(EnqueueError::Refused(diag)) = bindings.check_overlaps(rank, prepared) {
                return Err(vec![diag]);
            }
        }
        self.check_rank_overlaps()
    }

    /// Refuses tensors of different ranks that overlap where one of them writes.
    fn check_rank_overlaps(&self) -> Result<(), Vec<Diag>> {
        let bindings = self.bindings.iter().enumerate();
        let bound: Vec<RankTensor> = bindings.flat_map(|(place, bindings)| bindings.bound_tensors(place)).collect();
        let Some(pair) = find_rank_conflict(&bound) else { return Ok(()) };
        let [(first, span), (second, other)] = pair.map(|bound| {
            let rank = self.loaded.ranks[bound.place].plan.rank;
            self.bindings[bound.place].slot_label(bound.slot, self.loaded.prepared, rank)
        });
        let message =
            message!("{} and {} are bound to overlapping memory, and the program writes to it", first, second);
        let note = "between ranks only communication orders accesses: bind them to disjoint memory, or to memory that all ranks only read";
        let diag = Diag::error(codes::BOUND_STRIDES, span, message).with_label(other, "the other binding");
        Err(vec![diag.with_note(note)])
    }

    /// Releases the tensor that is bound to a rank's input or output.
    pub fn release_binding(&mut self, rank: u32, side: IoSide, position: usize) -> Result<(), Vec<Diag>> {
        self.with_rank(rank, |bindings, _, _| {
            bindings.release_slot(side, position);
            Ok(())
        })
    }

    /// Copies a rank's shard of an input from the host to memory of the program's own. Waits for earlier runs.
    ///
    /// # Errors
    /// If an earlier run failed, this process does not have the rank, the tensor does not fit the rank's shard, or the
    /// copy fails.
    pub fn upload_input(&mut self, rank: u32, position: usize, tensor: &HostTensor) -> Result<(), Vec<Diag>> {
        self.wait()?;
        self.with_rank(rank, |bindings, rank, prepared| bindings.upload_input(rank, prepared, position, tensor))
    }

    /// Enqueues a run of every rank of this process, each on one of `streams` (in the order of
    /// [`BoundProgram::ranks`]), or on the program's own streams if there are none. Does not wait for the devices. It
    /// checks the bindings of all ranks before it enqueues anything.
    #[allow(unsafe_code, reason = "calls what also binds")]
    pub fn enqueue_run(&mut self, streams: &[CallerStream]) -> Result<(), Vec<Diag>> {
        let _access = self.loaded.acquire_access()?;
        let ranks = self.loaded.ranks.len();
        if !streams.is_empty() && streams.len() != ranks {
            let message = message!("{} streams were given for {} ranks", streams.len(), ranks);
            return Err(vec![
                Diag::global_error(codes::SESSION, message)
                    .with_note("pass one stream for each rank of this process, or none"),
            ]);
        }
        if ranks == 1 {
            // SAFETY: nothing is bound.
            return unsafe { self.enqueue_sole_rank(streams.first(), &[], &[]) };
        }
        check_streams(streams)?;
        if self.bindings.len() > 1 && self.bindings.iter().any(IoBindings::has_changed) {
            self.check_rank_overlaps()?;
        }
        let (architecture, options) = (self.architecture, self.options.clone());
        let prepared = self.loaded.prepared;
        let recording = self.find_recording(streams)?;
        self.for_each_rank(|bindings, rank, at| {
            bindings.check_completion(rank)?;
            // From here on no rank may refuse: other ranks would wait for this one.
            bindings.caller = caller_stream(rank, streams.get(at))?;
            bindings.finalize_bindings(rank, prepared, &|text| load_or_compile(text, architecture, &options))
        })?;
        if options.graph && self.loaded.ranks.iter().any(RankRuntime::lacks_graph) {
            // All ranks record before any runs: the driver may not prepare a graph while another rank's device waits.
            let timeout = options.timeout;
            self.for_each_rank(|_, rank, _| {
                if rank.lacks_graph() {
                    rank.capture_graph(timeout)?;
                }
                Ok(())
            })?;
        }
        let recorded = recording.is_some();
        self.for_each_rank(|bindings, rank, _| Ok(bindings.enqueue_run(rank, recorded)?))?;
        self.end_enqueueing(recording)
    }

    /// Binds tensors of this process's only rank at these addresses, one for each, and enqueues a run on a caller's
    /// stream. Tensors that are bound there already stay bound.
    ///
    /// # Errors
    /// As of [`BoundProgram::bind_tensor`] and [`BoundProgram::enqueue_run`]; `H0528` if this process has several
    /// ranks, or the number of addresses differs from that of tensors.
    ///
    /// # Safety
    /// As of [`Input::bind`](crate::session::InputHandle::bind), for all tensors.
    #[allow(unsafe_code, reason = "hands a caller's memory to the device")]
    pub unsafe fn enqueue_run_at(
        &mut self,
        stream: CallerStream,
        tensors: &[SlotTensor],
        addresses: &[u64],
    ) -> Result<(), Vec<Diag>> {
        self.loaded.check_usable()?;
        let ranks = self.loaded.ranks.len();
        if ranks != 1 || tensors.len() != addresses.len() {
            let message = message!(
                "{} addresses were given for {} tensors of a session with {} ranks",
                addresses.len(),
                tensors.len(),
                ranks
            );
            let note = "pass an address for each tensor, of a session with one rank in this process";
            return Err(vec![Diag::global_error(codes::SESSION, message).with_note(note)]);
        }
        // SAFETY: as the caller promises.
        unsafe { self.enqueue_sole_rank(Some(&stream), tensors, addresses) }
    }

    /// Enqueues a run of the only rank with its bound tensors.
    ///
    /// # Safety
    /// As of [`BoundProgram::enqueue_run_at`].
    #[allow(unsafe_code, reason = "hands a caller's memory to the device")]
    unsafe fn enqueue_sole_rank(
        &mut self,
        stream: Option<&CallerStream>,
        tensors: &[SlotTensor],
        addresses: &[u64],
    ) -> Result<(), Vec<Diag>> {
        let _access = self.loaded.acquire_access()?;
        let (architecture, options, prepared) = (self.architecture, self.options.clone(), self.loaded.prepared);
        let recording = self.find_recording(stream.map_or(&[], std::slice::from_ref))?;
        self.for_each_rank(|bindings, rank, _| {
            for (tensor, address) in tensors.iter().zip(addresses) {
                // SAFETY: as the caller promises.
                unsafe { bindings.bind_at(rank, prepared, tensor, *address) }?;
            }
            bindings.check_completion(rank)?;
            bindings.caller = caller_stream(rank, stream)?;
            bindings.finalize_bindings(rank, prepared, &|text| load_or_compile(text, architecture, &options))?;
            if options.graph && rank.lacks_graph() {
                rank.capture_graph(options.timeout)?;
            }
            Ok(bindings.enqueue_run(rank, recording.is_some())?)
        })?;
        self.end_enqueueing(recording)
    }

    /// Finishes a run that was enqueued on all ranks.
    fn end_enqueueing(&mut self, recording: Option<OpenCapture>) -> Result<(), Vec<Diag>> {
        match recording {
            Some(recording) => recording.keep(&self.recorded).map_err(call_error),
            None => {
                self.ran = true;
                Ok(())
            }
        }
    }

    /// Returns true if all enqueued work is done. Does not wait. Does not look at replays of a caller's graph.
    ///
    /// # Errors
    /// If a run is known to have failed.
    pub fn is_complete(&mut self) -> Result<bool, Vec<Diag>> {
        let all = AtomicBool::new(true);
        self.for_each_rank(|bindings, rank, _| {
            all.fetch_and(bindings.check_completion(rank)?, Ordering::Relaxed);
            Ok(())
        })?;
        Ok(all.into_inner())
    }

    /// Returns true if a graph of the caller's holds a run, and so uses memory, kernels and communicators of this
    /// program.
    pub fn is_recorded(&self) -> bool {
        self.recorded.is_shared()
    }

    /// The recording that the caller's stream takes part in, if this program can be recorded.
    fn find_recording(&self, streams: &[CallerStream]) -> Result<Option<OpenCapture>, Vec<Diag>> {
        let mut found = None;
        for (at, rank) in self.loaded.ranks.iter().enumerate() {
            let caller = streams.get(at).map(CallerStream::open_capture).transpose().map_err(call_error)?.flatten();
            // Unless a graph holds a run, none is being recorded.
            let own = if self.is_recorded() { rank.streams.main().open_capture().map_err(call_error)? } else { None };
            check_recording(caller, own, &self.options, self.loaded.ranks.len()).map_err(|diag| vec![diag])?;
            found = found.or(caller);
        }
        Ok(found)
    }

    /// Waits until all enqueued work is done, at most for the timeout. Reports the errors of all runs since the last
    /// wait.
    ///
    /// # Errors
    /// If a run since the last wait failed on any rank, or does not end within the timeout.
    pub fn wait(&mut self) -> Result<(), Vec<Diag>> {
        let timeout = self.options.timeout;
        let _access = LibraryAccess::acquire().map_err(call_error)?;
        self.find_recording(&[])?;
        self.for_each_rank(|bindings, rank, _| {
            rank.wait_for_end(timeout)?;
            bindings.check_completion(rank)?;
            Ok(())
        })
    }

    /// Returns the location of a rank's output after a run: the bound tensor, or one that the program owns and that
    /// lives as long as this object. `None` if the rank has no shard of the output.
    ///
    /// # Errors
    /// If this process does not have the rank, the program has failed before, or the output is kept in an input whose
    /// location is not known yet.
    pub fn output_tensor(&mut self, rank: u32, position: usize) -> Result<Option<DeviceTensor>, Vec<Diag>> {
        let mut found = None;
        self.with_rank(rank, |bindings, rank, prepared| {
            found = bindings.output_tensor(rank, prepared, position)?;
            Ok(())
        })?;
        Ok(found)
    }

    /// Returns a rank's shard of an output of the last run, on the host. Waits for the run.
    ///
    /// # Errors
    /// If nothing has run, a run failed, this process does not have the rank, or the copy fails.
    pub fn download_output(&mut self, rank: u32, position: usize) -> Result<Option<HostTensor>, Vec<Diag>> {
        self.wait()?;
        if !self.ran {
            let message = "an output was read before the first run";
            let note = "run the session first: its outputs are undefined until then";
            return Err(vec![Diag::global_error(codes::SESSION, message).with_note(note)]);
        }
        let mut found = None;
        self.with_rank(rank, |_, rank, _| {
            found = rank.fetch_output(position)?;
            Ok(())
        })?;
        Ok(found)
    }

    /// Calls `work` for one rank, in this thread.
    fn with_rank(
        &mut self,
        rank: u32,
        work: impl FnOnce(&mut IoBindings, &mut RankRuntime<'_>, &PreparedProgram) -> Result<(), EnqueueError>,
    ) -> Result<(), Vec<Diag>> {
        let _access = self.loaded.acquire_access()?;
        let (prepared, timeout) = (self.loaded.prepared, self.options.timeout);
        let queue_note = self.loaded.queue_note.as_deref();
        let failure_context =
            FailureContext { prepared, process_group: &self.loaded.process_group, queue_note, timeout };
        let mut ranks = self.loaded.ranks.iter_mut().zip(&mut self.bindings);
        let Some((rank, bindings)) = ranks.find(|(one, _)| one.plan.rank == rank) else {
            let message = message!("rank {} does not belong to this session", rank);
            let note = "a session has the ranks of its process: all ranks, or the one for which it was built";
            return Err(vec![Diag::global_error(codes::SESSION, message).with_note(note)]);
        };
        let _current = SavedContext::save();
        let done = rank.device.make_current().map_err(EnqueueError::from);
        let done = done.and_then(|()| work(bindings, rank, prepared));
        let done = merge_results(vec![done.map_err(|trouble| report_enqueue_error(trouble, rank, failure_context))]);
        self.abort_on_failure(done)
    }

    /// Makes all ranks give up after a failure. In any case no other program may reuse this program's resources.
    fn abort_on_failure(&mut self, done: Result<(), Vec<Diag>>) -> Result<(), Vec<Diag>> {
        let Err(diags) = &done else { return done };
        self.loaded.healthy = false;
        if self.loaded.has_failed() {
            self.loaded.process_group.report_failure(diags);
            self.loaded.abort_all_ranks();
        }
        done
    }

    /// Calls `work` for all ranks: one rank in this thread, several each in a thread of its own.
    fn for_each_rank<F>(&mut self, work: F) -> Result<(), Vec<Diag>>
    where
        F: Fn(&mut IoBindings, &mut RankRuntime<'_>, usize) -> Result<(), EnqueueError> + Sync,
    {
        let _access = self.loaded.acquire_access()?;
        let (prepared, timeout) = (self.loaded.prepared, self.options.timeout);
        let queue_note = self.loaded.queue_note.as_deref();
        let failure_context =
            FailureContext { prepared, process_group: &self.loaded.process_group, queue_note, timeout };
        let one = |bindings: &mut IoBindings, rank: &mut RankRuntime<'_>, at: usize, current: Result<(), Error>| {
            let alarm = rank.failures.alarm.clone();
            let _panic = alarm.panic_guard(rank.plan.rank);
            let done = current.map_err(EnqueueError::from);
            let done = done.and_then(|()| work(bindings, rank, at));
            done.map_err(|trouble| report_enqueue_error(trouble, rank, failure_context))
        };
        if let ([rank], [bindings]) = (self.loaded.ranks.as_mut_slice(), self.bindings.as_mut_slice()) {
            let saved = SavedContext::save();
            let current = saved.switch_to(&rank.device);
            let done = one(bindings, rank, 0, current);
            let done = if done.is_ok() { Ok(()) } else { failure_context.merge_ranks(vec![done]) };
            return self.abort_on_failure(done);
        }
        let one = |bindings: &mut IoBindings, rank: &mut RankRuntime<'_>, at: usize| {
            relax_capture_mode();
            let current = rank.device.make_current();
            one(bindings, rank, at, current)
        };
        let one = &one;
        let ranks = self.loaded.ranks.iter_mut().zip(&mut self.bindings).enumerate();
        let results = std::thread::scope(|scope| {
            let threads: Vec<_> =
                ranks.map(|(at, (rank, bindings))| scope.spawn(move || one(bindings, rank, at))).collect();
            threads.into_iter().map(join_rank_thread).collect()
        });
        self.abort_on_failure(failure_context.merge_ranks(results))
    }
}

impl Drop for BoundProgram<'_> {
    /// Waits for the enqueued work, which uses memory that is freed next; after a failure for less than two seconds.
    /// Memory that a device or a caller's graph may still use is never freed.
    fn drop(&mut self) {
        let Ok(_access) = LibraryAccess::acquire() else {
            std::mem::forget(std::mem::take(&mut self.bindings));
            return;
        };
        self.restore = Some(SavedContext::save());
        if self.is_recorded() {
            self.loaded.held = true;
            self.loaded.left = Some(Box::new(std::mem::take(&mut self.bindings)));
            return;
        }
        // Nobody can receive an error here.
        let _ = self.wait();
        if self.loaded.has_failed() {
            self.loaded.abort_all_ranks();
        }
        self.loaded.left = Some(Box::new(std::mem::take(&mut self.bindings)));
    }
}

/// The caller's stream for a rank, if there is one.
fn caller_stream(rank: &RankRuntime<'_>, stream: Option<&CallerStream>) -> Result<Option<CudaStream>, EnqueueError> {
    let Some(stream) = stream else { return Ok(None) };
    match stream.on_device(&rank.device)? {
        Some(stream) => Ok(Some(stream)),
        None => {
            let (rank, device) = (rank.plan.rank, rank.device.ordinal());
            let message = message!(
                "the stream given for rank {} does not belong to the primary context of device {}",
                rank,
                device
            );
            Err(EnqueueError::Refused(Diag::global_error(codes::SESSION, message).with_note(
                "create the stream while that device is current, through the CUDA runtime or in its primary context",
            )))
        }
    }
}

fn call_error(error: Error) -> Vec<Diag> {
    vec![global_diag(&error)]
}

fn refuse_recording(message: &str, note: &str) -> Result<(), Diag> {
    Err(Diag::global_error(codes::SESSION, message).with_note(note))
}

/// Refuses a run that the caller's recording cannot hold: `caller` is the recording of the caller's stream, `own` that
/// of the program's main stream.
fn check_recording(
    caller: Option<OpenCapture>,
    own: Option<OpenCapture>,
    options: &Options,
    ranks: usize,
) -> Result<(), Diag> {
    match (caller, own) {
        (None, None) => Ok(()),
        (Some(_), _) if ranks > 1 => refuse_recording(
            "a session of several ranks was called while one of the streams is being recorded",
            "record runs of sessions with one rank: give each rank a process of its own",
        ),
        (Some(_), _) if options.graph => refuse_recording(
            "a session with a graph of its own was called while the stream is being recorded",
            "build the session without `Options::graph`",
        ),
        (Some(caller), Some(own)) if caller == own => Ok(()),
        (Some(_), None) => Ok(()),
        (_, Some(_)) => refuse_recording(
            "the session was called while another stream's recording, which has a run of it, is under way",
            "end that recording first",
        ),
    }
}

/// Converts an error of a rank; a refusal leaves the rank as it was.
fn report_enqueue_error(
    trouble: EnqueueError,
    rank: &mut RankRuntime<'_>,
    failure_context: FailureContext<'_>,
) -> RankError {
    match trouble {
        EnqueueError::Refused(diag) => diag.into(),
        EnqueueError::Failed(failure) => failure_context.report_failure(rank, failure),
    }
}

/// Refuses streams that mean another stream in each thread: several ranks are issued from a thread each.
fn check_streams(streams: &[CallerStream]) -> Result<(), Vec<Diag>> {
    if streams.len() < 2 || !streams.iter().any(|stream| stream.is_per_thread()) {
        return Ok(());
    }
    let message = "a per-thread default stream was given to a session of several ranks";
    let note = "each rank issues from its own thread, where `CU_STREAM_PER_THREAD` is a different stream: pass created streams or the legacy default stream";
    Err(vec![Diag::global_error(codes::SESSION, message).with_note(note)])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_of_threads() {
        let (legacy, per_thread, other) =
            (CallerStream::from_handle(1), CallerStream::from_handle(2), CallerStream::from_handle(4096));
        assert!(check_streams(&[legacy, other]).is_ok());
        assert!(check_streams(&[per_thread]).is_ok());
        let diags = check_streams(&[other, per_thread]).unwrap_err();
        assert_eq!(diags[0].code, "H0528");
    }
}
