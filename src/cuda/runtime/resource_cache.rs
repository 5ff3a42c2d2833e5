//! The resource cache: resources that programs leave for later programs of the process, so that these load faster.
//!
//! A program has exclusive use of the handles of cuBLASLt, memory and communicators that it takes, until it returns
//! them. Modules, kernel images and GEMM algorithms are shared. A program returns resources only if all its runs
//! succeeded and its devices are idle. Resources that other processes use are never reused: memory that they may have
//! opened, and communicators that they would have to reuse as well.
//!
//! The cache is freed with the last [`Options`](crate::runtime::options::Options), program or session that refers to
//! it.

mod eviction;

use crate::runtime::library_access::{LibraryAccess, join_background_threads};
use crate::runtime::options::{GemmTuning, NcclFile};
use crate::runtime::resource_cache::eviction::{IdleCache, SharedCache};
use crate::sys::Error;
use crate::sys::blas::BlasHandle;
use crate::sys::context::{SavedContext, relax_capture_mode};
use crate::sys::driver::{CudaDevice, DeviceMemory};
use crate::sys::module::KernelModule;
use hostir_gpu::gemm_shape::GemmShape;
use nccl_rs::NcclCommunicator;
use std::collections::BTreeMap;
use std::ops::Deref;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// The maximum bytes of idle memory on all devices together.
const IDLE_BYTES: u64 = 2 << 30;
/// A program may get idle memory of up to this many times the bytes that it needs, or of up to the bytes below.
const TOO_LARGE: u64 = 4;
const SMALL_ARENA: u64 = 256 << 20;
/// The maximum number of idle cuBLASLt handles.
const HANDLES: u64 = 64;
/// The maximum number of idle communicators, counted as ranks, and of those of worlds. Each that has carried data has
/// buffers of its own on its device, up to some hundred megabytes.
const COMMUNICATORS: u64 = 32;
const WORLDS: u64 = 8;
/// The time that an allocation without memory waits for releases that have begun.
const RELEASES: Duration = Duration::from_secs(5);
/// The maximum number of modules, and of images.
const MODULES: usize = 1024;
/// The maximum number of GEMMs whose algorithm is cached.
const CHOICES: usize = 16 << 10;

/// The identity of a set of communicators: their library, and the device of each member in order.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct CommunicatorKey {
    pub(crate) nccl: Option<NcclFile>,
    pub(crate) devices: Vec<usize>,
}

/// Resources that programs leave for later ones: see [`Options::cache`](crate::runtime::options::Options::cache).
#[derive(Default)]
pub struct ResourceCache {
    state: Mutex<CacheState>,
}

/// Fields drop in this order: users before what they use.
struct CacheState {
    /// One communicator for each member. Those of a world are split into the others and carry no data.
    worlds: IdleCache<CommunicatorKey, Vec<NcclCommunicator>>,
    teams: IdleCache<CommunicatorKey, Vec<NcclCommunicator>>,
    handles: IdleCache<usize, Arc<OwnedBlas>>,
    arenas: IdleCache<usize, Arc<DeviceMemory>>,
    /// By device and text.
    modules: SharedCache<(usize, String), Arc<KernelModule>>,
    /// By architecture and text.
    images: SharedCache<(u32, String), Arc<[u8]>>,
    /// By kind of device.
    choices: SharedCache<(String, GemmShape, GemmTuning), usize>,
    devices: BTreeMap<usize, Arc<CudaDevice>>,
    /// The number of discarded world communicators.
    discards: u64,
}

impl Default for CacheState {
    fn default() -> Self {
        Self {
            worlds: IdleCache::new(WORLDS),
            teams: IdleCache::new(COMMUNICATORS),
            handles: IdleCache::new(HANDLES),
            arenas: IdleCache::new(IDLE_BYTES),
            modules: SharedCache::new(MODULES),
            images: SharedCache::new(MODULES),
            choices: SharedCache::new(CHOICES),
            devices: BTreeMap::new(),
            discards: 0,
        }
    }
}

impl std::fmt::Debug for ResourceCache {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Pool").finish_non_exhaustive()
    }
}

impl ResourceCache {
    fn lock_state(&self) -> MutexGuard<'_, CacheState> {
        // A thread that panicked left no partial change: every change is one call of an idle cache.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Opens a device and makes it current in this thread. Its primary context lives as long as the cache.
    pub(crate) fn open_device(&self, ordinal: usize) -> Result<Arc<CudaDevice>, Error> {
        let known = self.lock_state().devices.get(&ordinal).cloned();
        if let Some(device) = known {
            device.make_current()?;
            return Ok(device);
        }
        // The lock is not held meanwhile: a context takes some hundred milliseconds. Two threads that open one get the
        // same context, and the second one drops its reference.
        let device = CudaDevice::open(ordinal)?;
        Ok(self.lock_state().devices.entry(ordinal).or_insert(device).clone())
    }

    /// Opens these devices and returns them in order. Their contexts are created at the same time; this thread's
    /// current context stays.
    pub(crate) fn open_devices(&self, ordinals: &[usize]) -> Result<Vec<Arc<CudaDevice>>, Error> {
        std::thread::scope(|scope| {
            let threads = ordinals.iter().map(|&ordinal| {
                scope.spawn(move || {
                    relax_capture_mode();
                    self.open_device(ordinal)
                })
            });
            let threads: Vec<_> = threads.collect();
            let broken = |_| Error::Call { call: "cuDevicePrimaryCtxRetain", status: "a thread stopped".into() };
            threads.into_iter().map(|thread| thread.join().map_err(broken)?).collect()
        })
    }

    // ---- what one program at a time has ----

    /// Memory of a device, which must be current: at least this many bytes, with the data that an earlier program left
    /// there.
    pub(crate) fn take_memory(self: &Arc<Self>, device: &Arc<CudaDevice>, bytes: usize) -> Result<CachedMemory, Error> {
        let least = bytes as u64;
        let most = least.saturating_mul(TOO_LARGE).max(SMALL_ARENA);
        let found = self.lock_state().arenas.take_fitting(&device.ordinal(), least, most);
        let memory = match found {
            Some(memory) => memory,
            None => Arc::new(self.allocate_memory(device, bytes)?),
        };
        Ok(CachedMemory { cache: self.clone(), memory, ordinal: device.ordinal(), keep: false })
    }

    /// New memory of a device, which must be current. If there is none, idle memory of the cache is freed first.
    pub(crate) fn allocate_memory(&self, device: &Arc<CudaDevice>, bytes: usize) -> Result<DeviceMemory, Error> {
        match DeviceMemory::new(device, bytes) {
            Err(Error::NoMemory { .. }) => {
                let idle = self.lock_state().arenas.take_all(&device.ordinal());
                drop(idle);
                device.make_current()?;
                allocate_after_releases(device, bytes)
            }
            result => result,
        }
    }

    /// A handle of cuBLASLt for a device, which must be current.
    pub(crate) fn take_blas(self: &Arc<Self>, device: &Arc<CudaDevice>) -> Result<CachedBlas, Error> {
        let found = self.lock_state().handles.take(&device.ordinal());
        let created = match found {
            Some(created) => created,
            None => Arc::new(OwnedBlas { blas: BlasHandle::new()?, device: device.clone() }),
        };
        Ok(CachedBlas { cache: self.clone(), created, keep: false })
    }

    /// Communicators of a world, by rank.
    pub(crate) fn take_world(&self, link: &CommunicatorKey) -> Option<Vec<NcclCommunicator>> {
        self.lock_state().worlds.take(link)
    }

    /// Communicators of a team, by place.
    pub(crate) fn take_team(&self, link: &CommunicatorKey) -> Option<Vec<NcclCommunicator>> {
        self.lock_state().teams.take(link)
    }

    /// The number of times that a world was discarded.
    pub(crate) fn discard_count(&self) -> u64 {
        self.lock_state().discards
    }

    /// Returns a world's communicators to the cache: those of all ranks, or none. If worlds were discarded `since` it
    /// was taken, it may be one of them.
    pub(crate) fn put_world(&self, link: CommunicatorKey, world: Vec<NcclCommunicator>, since: u64) {
        let mut state = self.lock_state();
        if state.discards != since {
            std::mem::forget(world);
            return;
        }
        let gone = state.worlds.put(link, world.len() as u64, world);
        drop(state);
        drop(gone);
    }

    /// Discards a world's communicators after a failure of one that was split off it. They are never freed: their
    /// devices may still use them, so freeing could wait without end, and an abort could reach other programs whose
    /// communicators came from the same world.
    pub(crate) fn discard_world(&self, link: &CommunicatorKey) {
        let mut state = self.lock_state();
        state.discards += 1;
        std::mem::forget(state.worlds.take_all(link));
    }

    /// Returns a team's communicators to the cache: those of all members, or none.
    pub(crate) fn put_team(&self, link: CommunicatorKey, team: Vec<NcclCommunicator>) {
        let gone = self.lock_state().teams.put(link, team.len() as u64, team);
        drop(gone);
    }

    // ---- what programs share ----

    /// The module of a kernel on a device, which must be current.
    pub(crate) fn kernel_module(
        &self,
        device: &Arc<CudaDevice>,
        text: &str,
        image: &[u8],
    ) -> Result<Arc<KernelModule>, Error> {
        let key = (device.ordinal(), text.to_owned());
        if let Some(module) = self.lock_state().modules.get(&key) {
            return Ok(module);
        }
        #[allow(unsafe_code, reason = "an image is code")]
        // SAFETY: NVRTC made the image, now or before it came to the store, whose contract is to keep it as it was.
        let module = unsafe { KernelModule::load(device, image) }?;
        let gone = self.lock_state().modules.insert_or_flush(key, module.clone());
        drop(gone);
        // The evicted modules may belong to other devices.
        device.make_current()?;
        Ok(module)
    }

    /// The image of a kernel for an architecture; compiled now unless it was compiled before.
    pub(crate) fn kernel_image(
        &self,
        architecture: u32,
        text: &str,
        make: impl FnOnce() -> Result<Vec<u8>, Error>,
    ) -> Result<Vec<u8>, Error> {
        let key = (architecture, text.to_owned());
        if let Some(image) = self.lock_state().images.get(&key) {
            return Ok(image.to_vec());
        }
        let image = make()?;
        let gone = self.lock_state().images.insert_or_flush(key, image.as_slice().into());
        drop(gone);
        Ok(image)
    }

    /// The algorithm that was chosen for a GEMM on a kind of device, with this effort or more, and its effort.
    pub(crate) fn cached_algorithm(
        &self,
        kind: &str,
        shape: &GemmShape,
        tuning: GemmTuning,
    ) -> Option<(usize, GemmTuning)> {
        let state = self.lock_state();
        let mut efforts = [GemmTuning::Sustained, GemmTuning::Quick].into_iter().filter(|effort| *effort >= tuning);
        efforts.find_map(|effort| {
            let choice = state.choices.get(&(kind.to_owned(), shape.clone(), effort))?;
            Some((choice, effort))
        })
    }

    /// Notes what all ranks agreed on.
    pub(crate) fn record_algorithm(&self, kind: &str, shape: &GemmShape, tuning: GemmTuning, choice: usize) {
        let gone = self.lock_state().choices.insert_or_flush((kind.to_owned(), shape.clone(), tuning), choice);
        drop(gone);
    }
}

/// Allocates memory of a device, and waits for the release of ended programs' memory if necessary.
fn allocate_after_releases(device: &Arc<CudaDevice>, bytes: usize) -> Result<DeviceMemory, Error> {
    match DeviceMemory::new(device, bytes) {
        Err(Error::NoMemory { .. }) => {
            join_background_threads(Instant::now() + RELEASES);
            DeviceMemory::new(device, bytes)
        }
        result => result,
    }
}

impl Drop for ResourceCache {
    fn drop(&mut self) {
        let state = self.state.get_mut().unwrap_or_else(PoisonError::into_inner);
        if state.devices.is_empty() {
            // Nothing was ever loaded, perhaps because there is no driver.
            return;
        }
        let Ok(_access) = LibraryAccess::acquire() else {
            std::mem::forget(std::mem::take(state));
            return;
        };
        // The thread that drops the last reference may have a context of its own.
        let current = SavedContext::save();
        *state = CacheState::default();
        drop(current);
    }
}

/// A handle with its device, which has to be current when the handle is destroyed.
struct OwnedBlas {
    blas: BlasHandle,
    device: Arc<CudaDevice>,
}

impl Drop for OwnedBlas {
    fn drop(&mut self) {
        // The handle is dropped next. If its context cannot be made current, there is no remedy.
        let _ = self.device.make_current();
    }
}

/// A handle that one rank has.
pub(crate) struct CachedBlas {
    cache: Arc<ResourceCache>,
    /// Nobody else refers to it.
    created: Arc<OwnedBlas>,
    /// True if the handle returns to the cache when it is dropped.
    pub(crate) keep: bool,
}

impl Deref for CachedBlas {
    type Target = BlasHandle;
    fn deref(&self) -> &BlasHandle {
        &self.created.blas
    }
}

impl Drop for CachedBlas {
    fn drop(&mut self) {
        if self.keep {
            let ordinal = self.created.device.ordinal();
            let gone = self.cache.lock_state().handles.put(ordinal, 1, self.created.clone());
            drop(gone);
        }
    }
}

/// Memory that one rank has.
pub(crate) struct CachedMemory {
    cache: Arc<ResourceCache>,
    /// Nobody else refers to it.
    memory: Arc<DeviceMemory>,
    ordinal: usize,
    /// True if the allocation returns to the cache when it is dropped. Memory that another process may have opened, or
    /// that a device may still use, must not return.
    pub(crate) keep: bool,
}

impl CachedMemory {
    /// The start address.
    pub(crate) fn address(&self) -> u64 {
        self.memory.address()
    }
}

impl Drop for CachedMemory {
    fn drop(&mut self) {
        if self.keep {
            let bytes = self.memory.byte_count() as u64;
            let gone = self.cache.lock_state().arenas.put(self.ordinal, bytes, self.memory.clone());
            drop(gone);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernels_are_compiled_once_an_architecture() {
        let cache = ResourceCache::default();
        let broken = || Err(Error::Compile { log: "no".to_owned() });
        assert!(cache.kernel_image(90, "a", broken).is_err());
        assert_eq!(cache.kernel_image(90, "a", || Ok(vec![1])), Ok(vec![1]));
        assert_eq!(cache.kernel_image(90, "a", broken), Ok(vec![1]));
        assert_eq!(cache.kernel_image(100, "a", || Ok(vec![2])), Ok(vec![2]));
        assert!(cache.kernel_image(90, "b", broken).is_err());
    }

    #[test]
    fn there_are_no_communicators_before_some_were_left() {
        let cache = ResourceCache::default();
        let link = CommunicatorKey { nccl: None, devices: vec![0, 1] };
        assert!(cache.take_team(&link).is_none() && cache.take_world(&link).is_none());
    }
}
