//! NVTX: named ranges of a host thread's time, for profilers such as Nsight Systems.
//!
//! A profiler names a library in the environment. As NVTX's headers do, we open it, call its `InitializeInjectionNvtx2`
//! and pass tables of function pointers, which it fills with functions of its own (the protocol is that of NVTX 3's
//! `nvtxTypes.h`). Older ones listen to `libnvToolsExt.so.1`. The tables are the only variables of the library that
//! belong to the process: the profiler's calls come without a context.

use crate::sys::Error;
use std::ffi::{CStr, CString, c_char, c_int, c_uint, c_void};
use std::path::Path;
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicPtr, Ordering};

/// A place for a function of the profiler.
type CallbackSlot = AtomicPtr<c_void>;
type RangePush = unsafe extern "C" fn(*const c_char) -> c_int;
type RangePop = unsafe extern "C" fn() -> c_int;
type FunctionTable = unsafe extern "C" fn(c_uint, *mut *const *const CallbackSlot, *mut c_uint) -> c_int;
type ExportTable = unsafe extern "C" fn(u32) -> *const c_void;
type InjectionInit = unsafe extern "C" fn(ExportTable) -> c_int;

/// Modules of functions, numbered from 1; the first holds those without a domain.
const MODULES: usize = 6;
/// Slots of a module, the unused slot 0 included; the largest modules have as many.
const WIDTH: usize = 16;
/// `NVTX_CBID_CORE_RangePushA` and `NVTX_CBID_CORE_RangePop`.
const PUSH: usize = 9;
const POP: usize = 11;
/// `NVTX_ETID_CALLBACKS` and `NVTX_ETID_VERSIONINFO`.
const CALLBACKS: u32 = 1;
const VERSION: u32 = 3;

static SLOTS: [[CallbackSlot; WIDTH]; MODULES] =
    [const { [const { AtomicPtr::new(ptr::null_mut()) }; WIDTH] }; MODULES];

/// The addresses of all slots; null for slot 0 and after the last.
struct SlotTables([[*const CallbackSlot; WIDTH + 1]; MODULES]);

// SAFETY: the addresses never change, and the slots are atomic.
unsafe impl Sync for SlotTables {}

static TABLES: SlotTables = {
    let mut tables = [[ptr::null(); WIDTH + 1]; MODULES];
    let mut module = 0;
    while module < MODULES {
        let mut slot = 1;
        while slot < WIDTH {
            tables[module][slot] = &raw const SLOTS[module][slot];
            slot += 1;
        }
        module += 1;
    }
    SlotTables(tables)
};

/// `NvtxExportTableCallbacks`.
#[repr(C)]
struct ExportCallbacks {
    size: usize,
    function_table: FunctionTable,
}

/// `NvtxExportTableVersionInfo`.
#[repr(C)]
struct VersionInfo {
    size: usize,
    version: u32,
    reserved: u32,
    set_version: unsafe extern "C" fn(u32),
}

static CALLBACK_TABLE: ExportCallbacks = ExportCallbacks { size: size_of::<ExportCallbacks>(), function_table };
static VERSION_TABLE: VersionInfo =
    VersionInfo { size: size_of::<VersionInfo>(), version: 3, reserved: 0, set_version };

unsafe extern "C" fn set_version(_version: u32) {}

unsafe extern "C" fn export_table(id: u32) -> *const c_void {
    match id {
        CALLBACKS => (&raw const CALLBACK_TABLE).cast(),
        VERSION => (&raw const VERSION_TABLE).cast(),
        _ => ptr::null(),
    }
}

unsafe extern "C" fn function_table(
    module: c_uint,
    table: *mut *const *const CallbackSlot,
    size: *mut c_uint,
) -> c_int {
    let Some(found) = (module as usize).checked_sub(1).and_then(|at| TABLES.0.get(at)) else {
        return 0;
    };
    if !table.is_null() {
        // SAFETY: what is not null is a place of the profiler's.
        unsafe { table.write(found.as_ptr()) };
    }
    if !size.is_null() {
        // SAFETY: as above.
        unsafe { size.write(WIDTH as c_uint) };
    }
    1
}

/// A profiler that takes ranges.
#[derive(Debug)]
pub struct NvtxProfiler {
    push: RangePush,
    pop: RangePop,
    _library: Option<libloading::Library>,
}

impl NvtxProfiler {
    /// Opens the library that `injection` (of `NVTX_INJECTION64_PATH`) names, else `libnvToolsExt.so.1`.
    ///
    /// # Errors
    /// [`Error::Missing`] if there is none, [`Error::Call`] if its initialisation reports a failure.
    ///
    /// # Safety
    /// The named file is a library of a profiler that keeps to the protocol: it may do anything when it is opened, and
    /// the types of its functions cannot be checked.
    pub unsafe fn open(injection: Option<&Path>) -> Result<Self, Error> {
        let missing = Error::Missing {
            library: "NVTX library",
            searched: "NVTX_INJECTION64_PATH, which profilers set, then libnvToolsExt.so.1,".to_owned(),
        };
        match injection {
            Some(path) => {
                // SAFETY: as the caller promises; a profiler's library is made to be opened by any process.
                let library = unsafe { libloading::Library::new(path) };
                let library = library.map_err(|_| missing)?;
                // SAFETY: the protocol gives this name this type.
                let initialize = unsafe { library.get::<InjectionInit>(b"InitializeInjectionNvtx2\0") };
                let initialize = *initialize.map_err(lookup_error)?;
                Self::attach_tables(initialize, Some(library))
            }
            None => {
                // SAFETY: NVIDIA's library, which can be opened in any process.
                let library = unsafe { libloading::Library::new("libnvToolsExt.so.1") };
                let library = library.map_err(|_| missing)?;
                // SAFETY: the function has this type.
                let push = *unsafe { library.get::<RangePush>(b"nvtxRangePushA\0") }.map_err(lookup_error)?;
                // SAFETY: as above.
                let pop = *unsafe { library.get::<RangePop>(b"nvtxRangePop\0") }.map_err(lookup_error)?;
                Ok(Self { push, pop, _library: Some(library) })
            }
        }
    }

    fn attach_tables(initialize: InjectionInit, library: Option<libloading::Library>) -> Result<Self, Error> {
        // SAFETY: whoever named the profiler promised that its function keeps to the protocol.
        if unsafe { initialize(export_table) } == 0 {
            return Err(init_error("the profiler rejects the connection".to_owned()));
        }
        let [push, pop] = [PUSH, POP].map(|slot| SLOTS[0][slot].load(Ordering::Acquire));
        if push.is_null() || pop.is_null() {
            return Err(init_error("the profiler does not support ranges".to_owned()));
        }
        // SAFETY: what a profiler puts into this slot is a function of this type.
        let push = unsafe { std::mem::transmute::<*mut c_void, RangePush>(push) };
        // SAFETY: as above.
        let pop = unsafe { std::mem::transmute::<*mut c_void, RangePop>(pop) };
        Ok(Self { push, pop, _library: library })
    }

    /// A range of this thread begins.
    pub fn push(&self, name: &CStr) {
        // SAFETY: the profiler copies the text.
        let _ = unsafe { (self.push)(name.as_ptr()) };
    }

    /// This thread's innermost range ends.
    pub fn pop(&self) {
        // SAFETY: takes nothing.
        let _ = unsafe { (self.pop)() };
    }
}

fn lookup_error(error: libloading::Error) -> Error {
    init_error(error.to_string())
}

fn init_error(status: String) -> Error {
    Error::Call { call: "InitializeInjectionNvtx2", status }
}

/// A profiler, and the names of the ranges that are reported to it.
pub(crate) struct NamedRanges {
    nvtx: Arc<NvtxProfiler>,
    names: Vec<CString>,
}

impl NamedRanges {
    /// Ranges by number.
    pub(crate) fn new(nvtx: Arc<NvtxProfiler>, names: Vec<CString>) -> Self {
        Self { nvtx, names }
    }

    /// Opens a range; a range without a name is opened empty.
    pub(crate) fn push_range(&self, number: usize) {
        self.nvtx.push(self.names.get(number).map_or(c"", CString::as_c_str));
    }

    /// Closes the range that was opened last.
    pub(crate) fn pop_range(&self) {
        self.nvtx.pop();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Mutex;

    static SEEN: Mutex<Vec<String>> = Mutex::new(Vec::new());

    fn see(text: &str) -> c_int {
        let mut seen = SEEN.lock().unwrap();
        seen.push(text.to_owned());
        seen.len() as c_int
    }

    unsafe extern "C" fn push(name: *const c_char) -> c_int {
        // SAFETY: the name of a range.
        see(&unsafe { CStr::from_ptr(name) }.to_string_lossy())
    }

    unsafe extern "C" fn pop() -> c_int {
        see("end")
    }

    /// A profiler as the protocol describes it: asks for all modules, fills two slots of the first.
    #[allow(clippy::multiple_unsafe_ops_per_block, reason = "all rely on the two tables' types")]
    unsafe extern "C" fn profiler(export: ExportTable) -> c_int {
        // SAFETY: the two export tables have these types.
        unsafe {
            let version = &*export(VERSION).cast::<VersionInfo>();
            let callbacks = &*export(CALLBACKS).cast::<ExportCallbacks>();
            assert_eq!((version.version, version.size, callbacks.size), (3, 24, 16));
            assert!(export(2).is_null());
            let (mut table, mut size) = (ptr::null(), 0);
            for module in 1..=6 {
                assert_eq!((callbacks.function_table)(module, &raw mut table, &raw mut size), 1);
                assert_eq!(size, 16);
                assert!((*table).is_null() && !(*table.add(15)).is_null());
            }
            assert_eq!((callbacks.function_table)(7, ptr::null_mut(), ptr::null_mut()), 0);
            (callbacks.function_table)(1, &raw mut table, &raw mut size);
            let [first, second] = [*table.add(9), *table.add(11)];
            (*first).store(push as *mut c_void, Ordering::Release);
            (*second).store(pop as *mut c_void, Ordering::Release);
        }
        1
    }

    unsafe extern "C" fn deaf(_export: ExportTable) -> c_int {
        0
    }

    #[test]
    fn ranges_reach_the_profiler() {
        let nvtx = NvtxProfiler::attach_tables(profiler, None).unwrap();
        nvtx.push(c"T5 = matmul(T1, T2)");
        nvtx.pop();
        assert_eq!(*SEEN.lock().unwrap(), ["T5 = matmul(T1, T2)", "end"]);
        let error = NvtxProfiler::attach_tables(deaf, None).err().unwrap();
        assert_eq!(error.to_string(), "InitializeInjectionNvtx2 failed: the profiler rejects the connection");
    }

    #[test]
    #[cfg_attr(miri, ignore = "opens a library")]
    fn no_profiler() {
        // SAFETY: there is no such file.
        let opened = unsafe { NvtxProfiler::open(Some(Path::new("/nowhere/profiler.so"))) };
        let error = opened.err().unwrap();
        assert!(matches!(error, Error::Missing { library: "NVTX library", .. }), "{error}");
    }
}
