//! Temporary files and folders, which a signal that ends the process removes: Ctrl-C leaves none.

use crate::signals::ignored_signals;
use rustix::fs::{AtFlags, Mode, OFlags};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use signal_hook::low_level::emulate_default_handler;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, MutexGuard, Once, PoisonError};
use std::time::Duration;

/// Temporary files and new folders, in order of creation.
static PENDING: Mutex<Vec<Arc<PendingName>>> = Mutex::new(Vec::new());
static WATCH: Once = Once::new();
/// The time that the exit of a process may take.
const EXIT: Duration = Duration::from_secs(2);

/// A name in an open folder: even if the folder's path changes, nothing else is removed.
#[derive(Debug)]
struct PendingName {
    folder: Arc<OwnedFd>,
    name: OsString,
    is_folder: bool,
}

impl PendingName {
    fn remove(&self) {
        let flags = if self.is_folder { AtFlags::REMOVEDIR } else { AtFlags::empty() };
        let _ = rustix::fs::unlinkat(&*self.folder, &self.name, flags);
    }
}

/// A new file or folder, which is removed when this is dropped or a signal ends the process.
#[derive(Debug)]
pub(super) struct TemporaryEntry(Arc<PendingName>);

impl TemporaryEntry {
    /// Makes a file.
    ///
    /// # Errors
    /// Those of the system.
    pub(super) fn create_file(
        folder: &Arc<OwnedFd>,
        name: &OsStr,
        flags: OFlags,
        mode: Mode,
    ) -> io::Result<(Self, File)> {
        Self::create_entry(folder, name, false, || Ok(rustix::fs::openat(&**folder, name, flags, mode)?.into()))
    }

    /// Makes a folder.
    ///
    /// # Errors
    /// Those of the system.
    pub(super) fn create_folder(folder: &Arc<OwnedFd>, name: &OsStr) -> io::Result<Self> {
        let (made, ()) = Self::create_entry(folder, name, true, || {
            Ok(rustix::fs::mkdirat(&**folder, name, Mode::from_raw_mode(0o777))?)
        })?;
        Ok(made)
    }

    /// No signal comes between making and noting.
    fn create_entry<T>(
        folder: &Arc<OwnedFd>,
        name: &OsStr,
        is_folder: bool,
        make: impl FnOnce() -> io::Result<T>,
    ) -> io::Result<(Self, T)> {
        WATCH.call_once(handle_signals);
        let name = Arc::new(PendingName { folder: folder.clone(), name: name.to_owned(), is_folder });
        let mut pending = lock_pending();
        let made = make()?;
        pending.push(name.clone());
        Ok((Self(name), made))
    }

    /// Moves it to another name in its folder, and replaces that file.
    ///
    /// # Errors
    /// Those of the system.
    pub(super) fn rename(&self, name: &OsStr) -> io::Result<()> {
        rustix::fs::renameat(&*self.0.folder, &self.0.name, &*self.0.folder, name)?;
        self.forget();
        Ok(())
    }

    /// Lets it stay.
    pub(super) fn keep(self) {
        self.forget();
    }

    fn forget(&self) {
        lock_pending().retain(|known| !Arc::ptr_eq(known, &self.0));
    }
}

impl Drop for TemporaryEntry {
    fn drop(&mut self) {
        let mut pending = lock_pending();
        if let Some(at) = pending.iter().position(|known| Arc::ptr_eq(known, &self.0)) {
            self.0.remove();
            pending.remove(at);
        }
    }
}

/// Ends the process, whatever its other threads do. Runs exit handlers of libraries if `may_run_handlers` is true: no
/// thread may be inside of these libraries meanwhile.
pub fn end_process(status: i32, may_run_handlers: impl FnOnce() -> bool) -> ! {
    // Nothing more is registered or moved while this ends the process.
    let pending = lock_pending();
    remove(&pending);
    if !may_run_handlers() {
        end_at_once(status);
    }
    end_soon(status);
    std::process::exit(status)
}

/// Ends the process without any exit handler. Output has been flushed.
pub fn end_at_once(status: i32) -> ! {
    signal_hook::low_level::exit(status)
}

/// Makes sure that a process that is about to exit does. Libraries have a moment for their work at its end (the driver
/// and NCCL write their messages), but may wait for work that never ends.
pub fn end_soon(status: i32) {
    // Without a thread for it the exit is not watched.
    let _ = std::thread::Builder::new().name("exit".to_owned()).spawn(move || {
        std::thread::sleep(EXIT);
        signal_hook::low_level::exit(status)
    });
}

fn remove(pending: &[Arc<PendingName>]) {
    pending.iter().rev().for_each(|name| name.remove());
}

fn lock_pending() -> MutexGuard<'static, Vec<Arc<PendingName>>> {
    PENDING.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Makes signals that would end the process remove pending files first. Signals that were ignored when the process
/// began stay ignored. If the thread for it cannot start, signals keep their usual effect.
fn handle_signals() {
    let ignored = ignored_signals();
    let numbers = [SIGINT, SIGTERM, SIGHUP];
    let numbers = numbers.into_iter().filter(|number| ignored >> (number - 1) & 1 == 0);
    let Ok(mut signals) = Signals::new(numbers.collect::<Vec<_>>()) else { return };
    let _ = std::thread::Builder::new().name("signals".to_owned()).spawn(move || {
        for signal in signals.forever() {
            // Nothing more is registered or moved while this ends the process.
            let pending = lock_pending();
            remove(&pending);
            let _ = emulate_default_handler(signal);
        }
    });
}
