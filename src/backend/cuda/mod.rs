//! The CUDA backend: each rank on a GPU of its own, one thread a rank, all libraries opened at run time.
//!
//! [`Cuda::load`] is the prepare phase. It turns each rank's plan into a list of calls (`schedule`),
//! decides where every buffer lies (`memory`), compiles the kernels ([`codegen`], [`nvrtc`]), loads all
//! modules, asks cuBLASLt for products (`gemm`) and times its proposals, joins the communicators
//! (`comm`) and lets NCCL make all connections (`rank::rehearse`). Each of these steps ends on all ranks
//! before the next begins, so a rank that fails leaves nobody waiting. After it a run (`rank`) only
//! indexes and calls the driver. What copies, launches or frees at an address stays inside:
//!
//! ```compile_fail,E0603
//! use hostir::backend::cuda::sys::driver::Stream;
//! ```
//!
//! Ranks are threads of one process, or, with a [`ControlPlane`], processes (`joint`).

mod alarm;
mod bind;
mod bounds;
pub mod codegen;
mod comm;
mod gate;
mod gemm;
mod joint;
mod listing;
mod load;
mod memory;
mod messages;
mod peers;
mod pool;
mod rank;
mod room;
mod schedule;
mod shortage;
mod sys;
mod teardown;
mod traced;
mod watch;

pub use bind::{DeviceTensor, Side};
pub use listing::list_calls;
pub use load::Loaded;
pub use load::bound::Bound;
pub use messages::{Route, Routes};
pub use pool::Pool;
pub use sys::context::CallerStream;
pub use sys::{Error, nvrtc, nvtx};
pub use watch::{Place, Watch};

use super::control_plane::{ControlPlane, ControlPlaneError};
use crate::diag::{Diag, codes};
use crate::lower::Prepared;
use crate::plan::{InstId, Plan};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// Compiled kernels by their text.
pub(crate) type Images = BTreeMap<String, Vec<u8>>;

/// Whether NVIDIA's driver can be opened.
pub fn has_driver() -> bool {
    sys::driver::is_present()
}

/// The number of GPUs that this process sees, which may be 0.
///
/// # Errors
/// [`Error::Missing`] without NVIDIA's driver, [`Error::Call`] if the driver finds that it cannot work.
pub fn devices() -> Result<usize, Error> {
    sys::driver::devices()
}

/// A file that is NCCL's library.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NcclFile(PathBuf);

#[allow(unsafe_code, reason = "a path is a promise of what the file is")]
impl NcclFile {
    /// A file by its path, or by a name that the loader finds.
    ///
    /// # Safety
    /// It is NCCL: a library may do anything when it is opened, and the types of its functions cannot be checked.
    pub unsafe fn new(path: impl Into<PathBuf>) -> Self {
        Self(path.into())
    }
}

/// Keeps compiled kernels from one process to the next.
///
/// # Safety
/// What [`ImageStore::get`] returns under a key is what [`ImageStore::put`] was given under it, by this process or
/// one that runs the same library, byte for byte: it is code that runs on the device. Images that are damaged so
/// that they are no longer whole are refused, others cannot be told from what was kept.
#[allow(unsafe_code, reason = "what a store returns is run")]
pub unsafe trait ImageStore: Send + Sync {
    /// Returns the image that was kept under a key, byte for byte, or `None`. A key is 64 hexadecimal digits and
    /// stands for all that a kernel depends on; whoever can change what the store returns decides what code runs.
    fn get(&self, key: &str) -> Option<Vec<u8>>;
    /// Keeps an image; what cannot be kept is compiled again.
    fn put(&self, key: &str, image: &[u8]);
}

/// How programs run.
#[derive(Clone)]
pub struct Options {
    /// Whether `float` products may round their factors to TF32.
    pub tf32: bool,
    /// What carries the communications of each backend.
    pub routes: Routes,
    /// Whether a run is recorded as a CUDA graph and replayed.
    pub graph: bool,
    /// How long connecting, or one run, may take.
    pub timeout: Duration,
    /// NCCL's library; found by its usual names if `None`.
    pub nccl: Option<NcclFile>,
    /// Where compiled kernels are kept.
    pub store: Option<Arc<dyn ImageStore>>,
    /// Without a control plane: the device of each rank, by its number. Empty: rank 0 takes device 0, rank 1
    /// device 1, and so on.
    pub devices: Vec<usize>,
    /// The other processes of the run, one a rank; without it this process has all ranks.
    pub control_plane: Option<Arc<dyn ControlPlane>>,
    /// With a control plane: the device of this process, by its number. `None`: the n-th process of a host
    /// takes its n-th device.
    pub device: Option<usize>,
    /// What programs leave behind for the next ones: communicators, memory, modules, handles, chosen
    /// algorithms, primary contexts. Clones of these options share it, so a program that is loaded with
    /// them after another one was dropped starts sooner; programs that live at the same time never share
    /// what only one can use. It is freed with the last clone, and the last program, that refers to it.
    pub pool: Arc<Pool>,
    /// Where other threads see whether runs end.
    pub watch: Arc<Watch>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            tf32: false,
            routes: Routes::default(),
            graph: false,
            timeout: Duration::from_secs(60),
            nccl: None,
            store: None,
            devices: Vec::new(),
            control_plane: None,
            device: None,
            pool: Arc::default(),
            watch: Arc::default(),
        }
    }
}

/// The CUDA backend.
#[derive(Clone, Default)]
pub struct Cuda {
    /// How programs run.
    pub options: Options,
}

impl std::fmt::Debug for Cuda {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Cuda").finish_non_exhaustive()
    }
}

impl Cuda {
    /// Gets a program ready to run: everything that happens once.
    pub fn load<'p>(&self, prepared: &'p Prepared) -> Result<Loaded<'p>, Vec<Diag>> {
        load::load(prepared, &self.options, false)
    }

    /// Gets a program ready to run on tensors that a caller binds ([`Bound`]).
    pub fn load_unbound<'p>(&self, prepared: &'p Prepared) -> Result<Bound<'p>, Vec<Diag>> {
        load::bound::load(prepared, &self.options)
    }
}

/// Why a rank failed, and in which instruction if that is known.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Failure {
    cause: Cause,
    inst: Option<InstId>,
    /// The last instruction that may be meant, if there are several.
    until: Option<InstId>,
    /// Why the instruction is not known, where a caller can change that.
    hint: Option<&'static str>,
}

/// How far a run came.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Reached {
    /// The first instruction that is not known to be done.
    Inst(InstId),
    /// One of the instructions that wait for other ranks, from the first to the last of these.
    Among(InstId, InstId),
    /// All that waits for other ranks is done; the rank's own work is not.
    Own,
    /// Nobody knows: several runs are under way, and marks are those of the last.
    Queued,
    /// The run has not begun: the rank waits for the others to start it with them.
    Before,
}

#[derive(Clone, PartialEq, Debug)]
enum Cause {
    Cuda(Error),
    Nccl(nccl_rs::Error),
    Timeout,
    Peer(ControlPlaneError),
    /// Another rank of this process failed.
    Sibling(u32),
    /// A rank of another process gave up while this one worked, and has not said why.
    Poisoned(u32),
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::of(Cause::Cuda(error))
    }
}

impl From<nccl_rs::Error> for Failure {
    fn from(error: nccl_rs::Error) -> Self {
        Self::of(Cause::Nccl(error))
    }
}

impl Failure {
    fn of(cause: Cause) -> Self {
        Self { cause, inst: None, until: None, hint: None }
    }

    fn timeout() -> Self {
        Self::of(Cause::Timeout)
    }

    fn sibling(rank: u32) -> Self {
        Self::of(Cause::Sibling(rank))
    }

    fn poisoned(rank: u32) -> Self {
        Self::of(Cause::Poisoned(rank))
    }

    fn peer(error: ControlPlaneError) -> Self {
        Self::of(Cause::Peer(error))
    }

    fn at(self, inst: InstId) -> Self {
        Self { inst: self.inst.or(Some(inst)), ..self }
    }

    /// In the instruction that was reached, if that is known.
    fn within(self, reached: Reached) -> Self {
        if matches!(self.cause, Cause::Cuda(_)) {
            // A call that failed says nothing of what other calls wait for.
            return self;
        }
        let own = "every communication of the rank had ended: what had not is work of its own";
        let queued = "several runs were enqueued, and which of them did not end is not known: with a wait after each the op is named";
        let before = "the rank was between two runs, and waited for the others before the next one";
        match reached {
            Reached::Inst(inst) => self.at(inst),
            Reached::Among(first, last) => Self { until: Some(last), ..self.at(first) },
            Reached::Own => Self { hint: Some(own), ..self },
            Reached::Before => Self { hint: Some(before), ..self },
            Reached::Queued => Self { hint: Some(queued), ..self },
        }
    }

    /// As a diagnostic about a rank.
    fn diag(&self, prepared: &Prepared, plan: &Plan, timeout: Duration) -> Diag {
        let mut diag = self.placed(prepared, plan, timeout);
        diag.notes.extend(self.hint.map(str::to_owned));
        if let Some(last) = self.until.and_then(|inst| plan.find_inst(inst)) {
            let place = prepared.labels.origin(plan, last.origin);
            let note =
                format!("or in a communication behind it, up to {place}: `graph` tells which");
            diag.notes.push(note);
        }
        diag
    }

    fn placed(&self, prepared: &Prepared, plan: &Plan, timeout: Duration) -> Diag {
        let (code, message) = match &self.cause {
            Cause::Cuda(error @ Error::Missing { .. }) => (codes::DEVICE, error.to_string()),
            Cause::Cuda(error @ Error::NoMemory { .. }) => {
                return shortage::diag(error.to_string(), prepared, plan);
            }
            Cause::Cuda(error) => (codes::DEVICE_CALL, error.to_string()),
            Cause::Nccl(error @ (nccl_rs::Error::Missing(_) | nccl_rs::Error::Symbol(_))) => {
                (codes::DEVICE, error.to_string())
            }
            Cause::Nccl(nccl_rs::Error::Timeout { call }) => {
                (codes::TIMEOUT, format!("{call} did not end within {} ms", timeout.as_millis()))
            }
            Cause::Nccl(error) => (codes::DEVICE_CALL, error.to_string()),
            Cause::Timeout => {
                (codes::TIMEOUT, format!("the run did not end within {} ms", timeout.as_millis()))
            }
            Cause::Peer(error) => return self.of_peer(error.diag(), prepared, plan),
            Cause::Sibling(rank) => {
                let diag = Diag::global(codes::PROCESS, format!("rank {rank} failed"));
                return self.of_peer(diag, prepared, plan);
            }
            Cause::Poisoned(other) => {
                let message = format!(
                    "rank {other} gave up before the run of rank {} had ended, whose results are not to be used",
                    plan.rank
                );
                let diag = Diag::global(codes::PROCESS, message)
                    .note("look at what that rank printed last");
                return self.of_peer(diag, prepared, plan);
            }
        };
        let labels = &prepared.labels;
        match self.inst.and_then(|inst| plan.find_inst(inst)) {
            None => Diag::global(code, format!("rank {}: {message}", plan.rank)),
            Some(inst) => {
                let place = labels.origin(plan, inst.origin);
                Diag::error(code, labels.span(inst.origin.op), message)
                    .note(format!("rank {}, in {place}", plan.rank))
            }
        }
    }

    /// Another process's failure, with where this rank was.
    fn of_peer(&self, diag: Diag, prepared: &Prepared, plan: &Plan) -> Diag {
        match self.inst {
            Some(inst) => watch::gave_up(diag, inst, prepared, plan),
            None => diag,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lower::{Sizes, prepare};

    const COPY: &str = "%HostIrContainer { (T0_g_float[iS0{4}]) -> (T1_g_float[iS1{4}]) :
  T1_g_float[iS1{4}] = Set( T0_g_float[iS0{4}], cache_op=Streaming )
} // %HostIrContainer
";

    /// A program of one rank and one instruction, of four elements.
    pub(super) fn prepared() -> Prepared {
        let (programs, diags) = crate::load(COPY);
        assert!(diags.is_empty());
        prepare(&programs[0], &Sizes::default()).unwrap()
    }

    /// Code, message and notes of a failure in the first instruction.
    fn told(failure: Failure) -> (&'static str, String, String) {
        let prepared = prepared();
        let diag =
            failure.at(InstId(0)).diag(&prepared, &prepared.plans[0], Duration::from_millis(1500));
        (diag.code, diag.message, diag.notes.join("; "))
    }

    #[test]
    fn failures_name_rank_and_op() {
        let (code, message, notes) = told(Failure::timeout());
        assert_eq!((code, message.as_str()), ("H0511", "the run did not end within 1500 ms"));
        assert_eq!(notes, "rank 0, in `T1 = Set`");
        let full = Error::NoMemory { bytes: 4096, free: 512 };
        let (code, message, notes) = told(full.into());
        assert_eq!(
            (code, message.as_str()),
            ("H0521", "no device memory for 4096 bytes (512 are free)")
        );
        assert!(notes.contains("the largest buffer is T0, 16 bytes, input number 0"), "{notes}");
        let call = Error::Call { call: "cuLaunchKernel", status: "CUDA_ERROR_X (why)".to_owned() };
        let (code, message, _) = told(call.into());
        assert_eq!(
            (code, message.as_str()),
            ("H0522", "cuLaunchKernel failed: CUDA_ERROR_X (why)")
        );
        let nccl = nccl_rs::Error::Timeout { call: "ncclCommInitRankConfig" };
        assert_eq!(told(nccl.into()).0, "H0511");
    }

    #[test]
    fn how_far_runs_came() {
        let prepared = prepared();
        let plan = &prepared.plans[0];
        let failure = Failure::timeout().within(Reached::Own);
        let diag = failure.diag(&prepared, plan, Duration::from_millis(1500));
        assert_eq!(diag.message, "rank 0: the run did not end within 1500 ms");
        assert!(diag.primary.is_none() && diag.notes[0].contains("work of its own"));
        let queued = Failure::timeout().within(Reached::Queued);
        let diag = queued.diag(&prepared, plan, Duration::from_millis(1500));
        assert!(diag.notes[0].starts_with("several runs were enqueued"));
        let failure = Failure::timeout().within(Reached::Inst(InstId(0)));
        let diag = failure.diag(&prepared, plan, Duration::from_millis(1500));
        assert_eq!(diag.notes, ["rank 0, in `T1 = Set`"]);
    }

    #[test]
    fn failures_of_peers_name_both_places() {
        let lost = ControlPlaneError::Lost { rank: 3, how: "its connection closed".to_owned() };
        let (code, message, notes) = told(Failure::peer(lost));
        assert_eq!((code, message.as_str()), ("H0530", "rank 3 is lost: its connection closed"));
        assert!(notes.ends_with("; rank 0 gave up in `T1 = Set`"), "{notes}");
    }

    #[test]
    fn a_library_that_is_not_there() {
        // SAFETY: there is no such file.
        #[allow(unsafe_code, reason = "a library that is not there")]
        let opened = unsafe { nccl_rs::Library::open(Some("/nowhere/libnccl.so".into())) };
        let error = opened.err().unwrap();
        let (code, message, _) = told(error.into());
        assert_eq!(code, "H0520");
        assert_eq!(message, "NCCL cannot be opened (searched: /nowhere/libnccl.so)");
    }

    #[test]
    fn several_that_share_a_mark_are_told() {
        let prepared = prepared();
        let failure = Failure::timeout().within(Reached::Among(InstId(0), InstId(0)));
        let diag = failure.diag(&prepared, &prepared.plans[0], Duration::from_millis(1500));
        assert_eq!(diag.notes[0], "rank 0, in `T1 = Set`");
        assert!(diag.notes[1].starts_with("or in a communication behind it, up to `T1 = Set`"));
    }

    #[test]
    fn ranks_that_gave_up_are_named() {
        let (code, message, notes) = told(Failure::poisoned(2));
        assert_eq!(code, "H0530");
        assert!(message.starts_with("rank 2 gave up before the run of rank 0"), "{message}");
        assert!(notes.ends_with("; rank 0 gave up in `T1 = Set`"), "{notes}");
        assert_eq!(told(Failure::sibling(1)).1, "rank 1 failed");
    }

    /// Where there is no GPU, a program is refused before anything else happens.
    #[test]
    fn no_gpu() {
        if has_driver() {
            return;
        }
        let prepared = prepared();
        let diags = Cuda::default().load(&prepared).err().unwrap();
        assert_eq!(diags[0].code, "H0520");
        assert!(diags[0].message.contains("libcuda.so"), "{}", diags[0].message);
    }
}
