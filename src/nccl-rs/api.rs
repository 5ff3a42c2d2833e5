//! The functions of the library and its plain types.

use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::path::PathBuf;
use std::sync::Arc;

/// `ncclComm_t`.
pub(crate) type CommHandle = *mut c_void;

/// `ncclResult_t`: success.
pub(crate) const SUCCESS: c_int = 0;
/// `ncclResult_t`: the call continues in the background.
pub(crate) const IN_PROGRESS: c_int = 7;

/// An error of NCCL or of loading it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Error {
    /// No library was found under these names.
    Missing(Vec<String>),
    /// The library lacks a function: it is too old.
    Symbol(String),
    /// A call failed.
    Call {
        /// The function.
        call: &'static str,
        /// NCCL's description, with its last error message.
        text: String,
    },
    /// A call did not end in time.
    Timeout {
        /// The function.
        call: &'static str,
    },
    /// A call was given up: the caller knows why.
    GivenUp {
        /// The function.
        call: &'static str,
    },
}

impl std::fmt::Display for Error {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Error::Missing(names) => {
                write!(f, "cannot open NCCL (searched: {})", names.join(", "))
            }
            Error::Symbol(text) => write!(f, "this version of NCCL is too old: {text}"),
            Error::Call { call, text } => write!(f, "{call} failed: {text}"),
            Error::Timeout { call } => write!(f, "{call} did not finish in time"),
            Error::GivenUp { call } => write!(f, "{call} was aborted"),
        }
    }
}

impl std::error::Error for Error {}

/// `ncclUniqueId`: the identifier on which the ranks of a new communicator agree.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct UniqueId {
    /// Opaque to everybody but NCCL.
    pub bytes: [u8; 128],
}

/// `ncclDataType_t`.
#[repr(i32)]
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[allow(missing_docs, reason = "the names say it")]
pub enum DataType {
    Int8 = 0,
    Uint8 = 1,
    Int32 = 2,
    Uint32 = 3,
    Int64 = 4,
    Uint64 = 5,
    Float16 = 6,
    Float32 = 7,
    Float64 = 8,
    Bfloat16 = 9,
}

/// `ncclRedOp_t`.
#[repr(i32)]
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[allow(missing_docs, reason = "the names say it")]
pub enum NcclRedOp {
    Sum = 0,
    Prod = 1,
    Max = 2,
    Min = 3,
    Avg = 4,
}

/// `ncclConfig_t` up to the field `splitShare` (NCCL 2.18); the library accepts shorter versions.
#[repr(C)]
pub(crate) struct RawConfig {
    pub(crate) size: usize,
    pub(crate) magic: c_uint,
    pub(crate) version: c_uint,
    pub(crate) blocking: c_int,
    pub(crate) cga_cluster_size: c_int,
    pub(crate) min_ctas: c_int,
    pub(crate) max_ctas: c_int,
    pub(crate) net_name: *const c_char,
    pub(crate) split_share: c_int,
}

macro_rules! functions {
    ($($field:ident = $symbol:literal : fn($($arg:ty),*) -> $ret:ty;)*) => {
        /// An open library. It stays open until the process ends: NCCL's own threads may outlive its last communicator.
        pub struct Library {
            $(pub(crate) $field: unsafe extern "C" fn($($arg),*) -> $ret,)*
            pub(crate) path: String,
        }
        impl Library {
            fn load(library: libloading::Library, path: String) -> Result<Self, Error> {
                $(
                    // SAFETY: the signature is that of NCCL's header; the library is never closed.
                    let $field = unsafe {
                        *library
                            .get::<unsafe extern "C" fn($($arg),*) -> $ret>(concat!($symbol, "\0").as_bytes())
                            .map_err(|error| Error::Symbol(error.to_string()))?
                    };
                )*
                std::mem::forget(library);
                Ok(Self { $($field,)* path })
            }
        }
    };
}

functions! {
    get_version = "ncclGetVersion": fn(*mut c_int) -> c_int;
    get_unique_id = "ncclGetUniqueId": fn(*mut UniqueId) -> c_int;
    error_string = "ncclGetErrorString": fn(c_int) -> *const c_char;
    last_error = "ncclGetLastError": fn(CommHandle) -> *const c_char;
    init_rank = "ncclCommInitRankConfig": fn(*mut CommHandle, c_int, UniqueId, c_int, *mut RawConfig) -> c_int;
    split = "ncclCommSplit": fn(CommHandle, c_int, c_int, *mut CommHandle, *mut RawConfig) -> c_int;
    destroy = "ncclCommDestroy": fn(CommHandle) -> c_int;
    abort = "ncclCommAbort": fn(CommHandle) -> c_int;
    comm_count = "ncclCommCount": fn(CommHandle, *mut c_int) -> c_int;
    comm_rank = "ncclCommUserRank": fn(CommHandle, *mut c_int) -> c_int;
    async_error = "ncclCommGetAsyncError": fn(CommHandle, *mut c_int) -> c_int;
    group_start = "ncclGroupStart": fn() -> c_int;
    group_end = "ncclGroupEnd": fn() -> c_int;
    all_gather = "ncclAllGather": fn(*const c_void, *mut c_void, usize, c_int, CommHandle, *mut c_void) -> c_int;
    all_reduce = "ncclAllReduce": fn(*const c_void, *mut c_void, usize, c_int, c_int, CommHandle, *mut c_void) -> c_int;
    reduce = "ncclReduce": fn(*const c_void, *mut c_void, usize, c_int, c_int, c_int, CommHandle, *mut c_void) -> c_int;
    reduce_scatter = "ncclReduceScatter": fn(*const c_void, *mut c_void, usize, c_int, c_int, CommHandle, *mut c_void) -> c_int;
    broadcast = "ncclBroadcast": fn(*const c_void, *mut c_void, usize, c_int, c_int, CommHandle, *mut c_void) -> c_int;
    send = "ncclSend": fn(*const c_void, usize, c_int, c_int, CommHandle, *mut c_void) -> c_int;
    recv = "ncclRecv": fn(*mut c_void, usize, c_int, c_int, CommHandle, *mut c_void) -> c_int;
}

impl std::fmt::Debug for Library {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Library").field("path", &self.path).finish_non_exhaustive()
    }
}

impl Library {
    /// Opens NCCL: the file that `HIR_NCCL_LIB` names through `path`, else `libnccl.so.2`, else `libnccl.so`, each
    /// found as the loader finds libraries.
    ///
    /// # Errors
    /// [`Error::Missing`] if there is none, [`Error::Symbol`] if it is too old.
    ///
    /// # Safety
    /// The file of the path or of these names is NCCL: a library may do anything when it is opened, and the types of
    /// its functions cannot be checked.
    pub unsafe fn open(path: Option<PathBuf>) -> Result<Arc<Self>, Error> {
        let names = match path {
            Some(path) => vec![path.display().to_string()],
            None => vec!["libnccl.so.2".to_owned(), "libnccl.so".to_owned()],
        };
        for name in &names {
            // SAFETY: as the caller promises, it is NCCL, whose initialisers rely on nothing of ours.
            if let Ok(library) = unsafe { libloading::Library::new(name) } {
                return Self::load(library, name.clone()).map(Arc::new);
            }
        }
        Err(Error::Missing(names))
    }

    /// The name that it was opened by.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// Major, minor and patch: `(2, 28, 3)`.
    ///
    /// # Errors
    /// [`Error::Call`] if NCCL reports an error.
    pub fn version(&self) -> Result<(i32, i32, i32), Error> {
        let mut version = 0;
        // SAFETY: the pointer is to an integer of this frame.
        let status = unsafe { (self.get_version)(&raw mut version) };
        self.check_status("ncclGetVersion", status, std::ptr::null_mut())?;
        Ok((version / 10_000, version / 100 % 100, version % 100))
    }

    /// Creates an identifier; one rank creates it and passes it to the others.
    ///
    /// # Errors
    /// [`Error::Call`] if NCCL reports an error.
    pub fn unique_id(&self) -> Result<UniqueId, Error> {
        let mut id = UniqueId { bytes: [0; 128] };
        // SAFETY: the pointer is to an id of this frame.
        let status = unsafe { (self.get_unique_id)(&raw mut id) };
        self.check_status("ncclGetUniqueId", status, std::ptr::null_mut())?;
        Ok(id)
    }

    /// Starts a group of calls of this thread: [`Library::group_end`] carries them out together.
    ///
    /// # Errors
    /// [`Error::Call`] if NCCL reports an error.
    pub fn group_start(&self) -> Result<(), Error> {
        // SAFETY: takes nothing.
        let status = unsafe { (self.group_start)() };
        self.check_status("ncclGroupStart", status, std::ptr::null_mut())
    }

    /// Ends a group.
    ///
    /// # Errors
    /// [`Error::Call`] if NCCL reports an error for the group or for one of its calls.
    pub fn group_end(&self) -> Result<(), Error> {
        // SAFETY: takes nothing.
        let status = unsafe { (self.group_end)() };
        self.check_status("ncclGroupEnd", status, std::ptr::null_mut())
    }

    /// An error unless the status is success or "in progress".
    pub(crate) fn check_status(&self, call: &'static str, status: c_int, comm: CommHandle) -> Result<(), Error> {
        if status == SUCCESS || status == IN_PROGRESS {
            return Ok(());
        }
        // SAFETY: takes any number.
        let text = unsafe { (self.error_string)(status) };
        // SAFETY: the communicator is null or alive.
        let last = unsafe { (self.last_error)(comm) };
        // SAFETY: null or a string of the library's own.
        let text = unsafe { c_string(text) };
        // SAFETY: as above.
        let last = unsafe { c_string(last) };
        let text = if last.is_empty() { text } else { format!("{text} ({last})") };
        Err(Error::Call { call, text })
    }
}

/// # Safety
/// Null or a string that ends in zero.
unsafe fn c_string(text: *const c_char) -> String {
    if text.is_null() {
        return String::new();
    }
    // SAFETY: as the caller promises.
    unsafe { CStr::from_ptr(text) }.to_string_lossy().trim().to_owned()
}
