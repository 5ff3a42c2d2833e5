//! The process that starts the one that runs tests, and starts another one where that is ended.
//!
//! Tools run as functions of the process that runs the tests. A panic in one is contained there; a stack that overflows
//! or an exit is not, since it ends the process. So a second process waits for the first one's end. The tests that were
//! in flight run again in a new process, one after the other, which shows which of them it is; that one then runs with
//! its tools as processes of their own, so that its verdict is that of `--spawn`.

use crate::journal::{Journal, JournalEntry, JournalState};
use crate::outcome::{Outcome, Verdict};
use hostir_tool_support::signals::ignored_signals;
use rustix::process::{Pid, Signal, kill_process};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use std::ffi::{OsStr, OsString};
use std::io::{self, Write as _};
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};

/// The hidden option of the process that runs tests: the folder that it shares with this one.
pub(crate) const WORKER: &str = "--worker-folder";
/// The name of the journal in that folder.
const JOURNAL: &str = "journal";
/// Signals that end a run.
const ENDING: [i32; 3] = [SIGHUP, SIGINT, SIGTERM];

/// The journal of a run in its folder.
pub(crate) fn journal_path(folder: &Path) -> PathBuf {
    folder.join(JOURNAL)
}

/// Runs hir-lit with these arguments in processes of their own until all tests have ended; returns the exit status.
///
/// # Errors
/// If there is no folder for files, or a process cannot be started.
pub(crate) fn run_supervised(args: &[OsString]) -> io::Result<u8> {
    let folder = tempfile::Builder::new().prefix("hir-lit-").tempdir()?;
    let journal = Journal::open(&journal_path(folder.path()))?;
    let worker = Arc::new(SignalledWorker::default());
    forward_signals(Arc::clone(&worker))?;
    loop {
        let status = run_worker(args, folder.path(), &worker)?;
        let state = JournalState::read_journal(&journal_path(folder.path()));
        if let Some(signal) = worker.received() {
            return Ok(u8::try_from(128 + signal).unwrap_or(u8::MAX));
        }
        let Some(how) = unusual_end(status, &state) else {
            return Ok(status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(u8::MAX));
        };
        // Standard error may be closed.
        let _ = writeln!(io::stderr(), "hir-lit: the process of the tests {how}; {}", next_step(&state));
        if !note_culprit(&journal, &state, &how) {
            return Ok(u8::MAX);
        }
        journal.add_entry(&JournalEntry::Resumed);
    }
}

/// Runs the process of the tests to its end.
fn run_worker(args: &[OsString], folder: &Path, worker: &SignalledWorker) -> io::Result<ExitStatus> {
    let mut command = Command::new(std::env::current_exe()?);
    command.args([OsStr::new(WORKER), folder.as_os_str()]).args(args.iter().skip(1));
    let mut child = command.spawn()?;
    worker.begin(i32::try_from(child.id()).unwrap_or(0));
    let status = child.wait();
    worker.begin(0);
    status
}

/// The end of a process that did not end by itself; `None` if it did.
fn unusual_end(status: ExitStatus, state: &JournalState) -> Option<String> {
    match (status.signal(), status.code()) {
        (Some(signal), _) => Some(format!("was ended by signal {signal}")),
        (None, Some(code)) if !state.in_flight.is_empty() => Some(format!("exited with {code}")),
        _ => None,
    }
}

fn next_step(state: &JournalState) -> String {
    match state.in_flight.iter().next() {
        Some(test) if state.in_flight.len() == 1 => format!("`{test}` did it, and runs again with --spawn"),
        _ => format!("{} tests ran, and run again one after the other", state.in_flight.len()),
    }
}

/// Writes down the test that ended the process, if it is known; `false` if no test was in flight, so that nothing would
/// change in another process.
fn note_culprit(journal: &Journal, state: &JournalState, how: &str) -> bool {
    let mut tests = state.in_flight.iter();
    match (tests.next(), tests.next()) {
        (None, _) => return false,
        (Some(test), None) if state.culprits.contains_key(test) => {
            let report = format!("hir-lit {how} while the test ran, also with --spawn\n");
            journal.add_entry(&JournalEntry::Begun(test.clone()));
            journal.add_entry(&JournalEntry::Ended(test.clone(), Outcome::without_run(Verdict::Unresolved, report)));
        }
        (Some(test), None) => journal.add_entry(&JournalEntry::Culprit(test.clone(), how.to_owned())),
        (Some(_), Some(_)) => {}
    }
    true
}

/// The process of the tests, and a signal that is for it. Each side writes its part and then looks at the other's, so
/// that a signal reaches a process that is only just starting.
#[derive(Default, Debug)]
struct SignalledWorker {
    /// 0 if there is none.
    process: AtomicI32,
    /// 0 if none came.
    signal: AtomicI32,
}

impl SignalledWorker {
    /// Takes the process that has started; 0 for one that has ended.
    fn begin(&self, process: i32) {
        self.process.store(process, Ordering::SeqCst);
        self.hand_on();
    }

    /// Takes a signal.
    fn receive(&self, signal: i32) {
        self.signal.store(signal, Ordering::SeqCst);
        self.hand_on();
    }

    /// The signal that came.
    fn received(&self) -> Option<i32> {
        Some(self.signal.load(Ordering::SeqCst)).filter(|signal| *signal != 0)
    }

    fn hand_on(&self) {
        let signal = self.received().and_then(Signal::from_named_raw);
        if let (Some(process), Some(signal)) = (Pid::from_raw(self.process.load(Ordering::SeqCst)), signal) {
            // It may just have ended.
            let _ = kill_process(process, signal);
        }
    }
}

/// Hands the signals that end a run on to the process of the tests, which cleans up and ends.
fn forward_signals(worker: Arc<SignalledWorker>) -> io::Result<()> {
    let ignored = ignored_signals();
    let mut signals = Signals::new(ENDING.into_iter().filter(|signal| ignored >> (signal - 1) & 1 == 0))?;
    let thread = std::thread::Builder::new().spawn(move || signals.forever().for_each(|signal| worker.receive(signal)));
    thread.map(drop)
}
