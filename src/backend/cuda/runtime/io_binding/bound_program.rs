//! A program whose inputs and outputs are tensors of a caller's, on the caller's streams.
//!
//! Whatever is done here leaves the calling thread's current context as it was.

use crate::runtime::failure::Failure;
use crate::runtime::io_binding::rank_bindings::{Ports, Trouble};
use crate::runtime::io_binding::{DeviceTensor, Side};
use crate::runtime::kernel_images::image;
use crate::runtime::loaded_program::Loaded;
use crate::runtime::loaded_program::all_ranks::{RankError, Telling, merged};
use crate::runtime::options::Options;
use crate::runtime::rank::Rank;
use crate::runtime::rank_threads::joined;
use crate::sys::context::{CallerStream, Current};
use crate::sys::driver;
use crate::sys::driver::Stream;
use hostir::data::HostTensor;
use hostir::diag::Diag;
use hostir::diag::codes;
use hostir::lower::Prepared;
use std::sync::Arc;

/// A program on its devices, ready to run on tensors that a caller binds.
pub struct Bound<'p> {
    // Dropped in this order; the context is put back last.
    loaded: Loaded<'p>,
    ports: Vec<Ports>,
    options: Arc<Options>,
    architecture: u32,
    ran: bool,
    restore: Option<Current>,
}

/// The prepare phase without memory for inputs and outputs.
pub(crate) fn load<'p>(prepared: &'p Prepared, options: &Options) -> Result<Bound<'p>, Vec<Diag>> {
    // Without a driver nothing is current, and loading says that there is none.
    let _current = driver::is_present().then(Current::save);
    let mut loaded = crate::runtime::loaded_program::load(prepared, options, true)?;
    let timeout = options.timeout;
    let mut architecture = 0;
    let ports: Result<Vec<Ports>, Vec<Diag>> = loaded
        .ranks
        .iter_mut()
        .map(|rank| {
            let made = rank.device.make_current().and_then(|()| {
                architecture = rank.device.architecture()?;
                Ports::new(rank)
            });
            let failed = |error| vec![Failure::from(error).diag(prepared, rank.plan, timeout)];
            made.map_err(failed)
        })
        .collect();
    let ports = loaded.joint.end("ports", ports)?;
    let options = Arc::new(options.clone());
    Ok(Bound { loaded, ports, options, architecture, ran: false, restore: None })
}

impl Bound<'_> {
    /// Devices and versions of libraries, for people.
    pub fn about(&self) -> &str {
        self.loaded.about()
    }

    /// The ranks of this process.
    pub fn ranks(&self) -> impl Iterator<Item = u32> {
        self.loaded.ranks.iter().map(|rank| rank.plan.rank)
    }

    /// The ordinal of a rank's device.
    pub fn device(&self, rank: u32) -> Option<usize> {
        let rank = self.loaded.ranks.iter().find(|one| one.plan.rank == rank)?;
        Some(rank.device.ordinal())
    }

    /// Binds a tensor to a rank's input or output, by position; where the rank has no part of it, that
    /// does nothing.
    ///
    /// # Errors
    /// `H0523` to `H0526` by what does not fit, `H0529` after a failure.
    ///
    /// # Safety
    /// As of [`Input::bind`](crate::session::Input::bind).
    #[allow(unsafe_code, reason = "hands a caller's memory to the device")]
    pub unsafe fn bind(
        &mut self,
        rank: u32,
        port: (Side, usize),
        tensor: &DeviceTensor,
    ) -> Result<(), Vec<Diag>> {
        self.here(rank, |ports, rank, prepared| {
            // SAFETY: as the caller promises.
            unsafe { ports.bind(rank, prepared, port, tensor) }
        })
    }

    /// Takes back what was bound to a rank's input or output.
    pub fn release(&mut self, rank: u32, (side, position): (Side, usize)) -> Result<(), Vec<Diag>> {
        self.here(rank, |ports, _, _| {
            ports.release(side, position);
            Ok(())
        })
    }

    /// Copies a rank's part of an input from the host, to memory of the program's own. Waits for earlier
    /// runs.
    pub fn upload(
        &mut self,
        rank: u32,
        position: usize,
        tensor: &HostTensor,
    ) -> Result<(), Vec<Diag>> {
        self.wait()?;
        self.here(rank, |ports, rank, prepared| ports.upload(rank, prepared, position, tensor))
    }

    /// Enqueues a run of every rank of this process, each on one of `streams` (in the order of
    /// [`Bound::ranks`]), or on the program's own streams if there are none. Does not wait for the
    /// devices. What is bound is checked on all ranks before anything is enqueued.
    pub fn run(&mut self, streams: &[CallerStream]) -> Result<(), Vec<Diag>> {
        self.loaded.check()?;
        let ranks = self.loaded.ranks.len();
        if !streams.is_empty() && streams.len() != ranks {
            let message = format!("{} streams were given for {ranks} ranks", streams.len());
            return Err(vec![
                Diag::global(codes::SESSION, message)
                    .note("give one stream for each rank of this process, or none"),
            ]);
        }
        check_streams(streams)?;
        let (architecture, options) = (self.architecture, self.options.clone());
        let prepared = self.loaded.prepared;
        self.each(|ports, rank, at| {
            ports.look(rank)?;
            // From here on nothing is refused: other ranks would wait for this one.
            ports.caller = stream(rank, streams.get(at))?;
            let image = |text: &str| image(text, architecture, &options);
            ports.settle(rank, prepared, &image)
        })?;
        if options.graph && self.loaded.ranks.iter().any(Rank::lacks_graph) {
            // All record before any runs: the driver may not get a graph ready while another rank's device waits.
            let timeout = options.timeout;
            self.each(|_, rank, _| {
                if rank.lacks_graph() {
                    rank.capture(timeout)?;
                }
                Ok(())
            })?;
        }
        self.each(|ports, rank, _| Ok(ports.enqueue(rank)?))?;
        self.ran = true;
        Ok(())
    }

    /// Waits until everything that was enqueued is done, at most for the timeout. Errors are those of all
    /// runs since the last wait.
    pub fn wait(&mut self) -> Result<(), Vec<Diag>> {
        let timeout = self.options.timeout;
        self.each(|ports, rank, _| {
            rank.wait(timeout)?;
            Ok(ports.look(rank)?)
        })
    }

    /// Where a rank's output lies after a run: the tensor that was bound, or one of the program's own,
    /// which lives as long as this. `None` where the rank has no part of it.
    pub fn output(
        &mut self,
        rank: u32,
        position: usize,
    ) -> Result<Option<DeviceTensor>, Vec<Diag>> {
        let mut found = None;
        self.here(rank, |ports, rank, prepared| {
            found = ports.output(rank, prepared, position)?;
            Ok(())
        })?;
        Ok(found)
    }

    /// A rank's part of an output of the last run, on the host. Waits for it.
    pub fn download(
        &mut self,
        rank: u32,
        position: usize,
    ) -> Result<Option<HostTensor>, Vec<Diag>> {
        self.wait()?;
        if !self.ran {
            let message = "an output was read before the first run";
            let note = "run the session first: its results are undefined until then";
            return Err(vec![Diag::global(codes::SESSION, message).note(note)]);
        }
        let mut found = None;
        self.here(rank, |_, rank, _| {
            found = rank.fetch(position)?;
            Ok(())
        })?;
        Ok(found)
    }

    /// Does something with one rank, in this thread.
    fn here(
        &mut self,
        rank: u32,
        work: impl FnOnce(&mut Ports, &mut Rank<'_>, &Prepared) -> Result<(), Trouble>,
    ) -> Result<(), Vec<Diag>> {
        self.loaded.check()?;
        let (prepared, timeout) = (self.loaded.prepared, self.options.timeout);
        let telling = Telling { prepared, joint: &self.loaded.joint, timeout };
        let mut ranks = self.loaded.ranks.iter_mut().zip(&mut self.ports);
        let Some((rank, ports)) = ranks.find(|(one, _)| one.plan.rank == rank) else {
            let message = format!("rank {rank} is none of this session's");
            let note =
                "a session has the ranks of its process: all, or the one that it was built for";
            return Err(vec![Diag::global(codes::SESSION, message).note(note)]);
        };
        let _current = Current::save();
        let done = rank.device.make_current().map_err(Trouble::from);
        let done = done.and_then(|()| work(ports, rank, prepared));
        let done = merged(vec![done.map_err(|trouble| told(trouble, rank, telling))]);
        self.ended(done)
    }

    /// After a failure all ranks give up. Whether it was one or not: nothing of this program is for others now.
    fn ended(&mut self, done: Result<(), Vec<Diag>>) -> Result<(), Vec<Diag>> {
        let Err(diags) = &done else { return done };
        self.loaded.sound = false;
        if self.loaded.has_failed() {
            self.loaded.joint.tell(diags);
            self.loaded.give_up();
        }
        done
    }

    /// Does something on all ranks: one in this thread, several each in a thread of its own.
    fn each<F>(&mut self, work: F) -> Result<(), Vec<Diag>>
    where
        F: Fn(&mut Ports, &mut Rank<'_>, usize) -> Result<(), Trouble> + Sync,
    {
        self.loaded.check()?;
        let (prepared, timeout) = (self.loaded.prepared, self.options.timeout);
        let telling = Telling { prepared, joint: &self.loaded.joint, timeout };
        let one = |ports: &mut Ports, rank: &mut Rank<'_>, at: usize| {
            let alarm = rank.alarm.clone();
            let _panic = alarm.guard(rank.plan.rank);
            let done = rank.device.make_current().map_err(Trouble::from);
            let done = done.and_then(|()| work(ports, rank, at));
            done.map_err(|trouble| told(trouble, rank, telling))
        };
        if let ([rank], [ports]) = (self.loaded.ranks.as_mut_slice(), self.ports.as_mut_slice()) {
            let _current = Current::save();
            let done = merged(vec![one(ports, rank, 0)]);
            return self.ended(done);
        }
        let one = &one;
        let ranks = self.loaded.ranks.iter_mut().zip(&mut self.ports).enumerate();
        let results = std::thread::scope(|scope| {
            let threads: Vec<_> = ranks
                .map(|(at, (rank, ports))| scope.spawn(move || one(ports, rank, at)))
                .collect();
            threads.into_iter().map(joined).collect()
        });
        self.ended(merged(results))
    }
}

impl Drop for Bound<'_> {
    /// Waits for what is enqueued, which uses memory that is freed next; after a failure for less than two
    /// seconds. What a device does not let go of is never freed.
    fn drop(&mut self) {
        self.restore = Some(Current::save());
        // An error was or can be told nobody.
        let _ = self.wait();
        if self.loaded.has_failed() {
            self.loaded.give_up();
        }
        self.loaded.left = Some(Box::new(std::mem::take(&mut self.ports)));
    }
}

/// The caller's stream for a rank, if there is one.
fn stream(rank: &Rank<'_>, stream: Option<&CallerStream>) -> Result<Option<Stream>, Trouble> {
    let Some(stream) = stream else { return Ok(None) };
    match stream.on(&rank.device)? {
        Some(stream) => Ok(Some(stream)),
        None => {
            let (rank, device) = (rank.plan.rank, rank.device.ordinal());
            let message = format!(
                "the stream given for rank {rank} is not of the primary context of device {device}"
            );
            Err(Trouble::Refused(
                Diag::global(codes::SESSION, message)
                    .note("create the stream with that device current, by the CUDA runtime or in its primary context"),
            ))
        }
    }
}

/// Trouble of a rank as an error; what is refused leaves the rank as it was.
fn told(trouble: Trouble, rank: &mut Rank<'_>, telling: Telling<'_>) -> RankError {
    match trouble {
        Trouble::Refused(diag) => diag.into(),
        Trouble::Failed(failure) => telling.failed(rank, failure),
    }
}

/// Refuses streams that are other ones in other threads: with several ranks each is issued from a thread of its
/// own.
fn check_streams(streams: &[CallerStream]) -> Result<(), Vec<Diag>> {
    if streams.len() < 2 || !streams.iter().any(|stream| stream.is_per_thread()) {
        return Ok(());
    }
    let message = "a per-thread default stream was given for a session of several ranks";
    let note = "each rank is issued from a thread of its own, where `CU_STREAM_PER_THREAD` is another stream: give streams that were created, or the legacy default stream";
    Err(vec![Diag::global(codes::SESSION, message).note(note)])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_of_threads() {
        let (legacy, per_thread, other) =
            (CallerStream::numbered(1), CallerStream::numbered(2), CallerStream::numbered(4096));
        assert!(check_streams(&[legacy, other]).is_ok());
        assert!(check_streams(&[per_thread]).is_ok());
        let diags = check_streams(&[other, per_thread]).unwrap_err();
        assert_eq!(diags[0].code, "H0528");
    }
}
