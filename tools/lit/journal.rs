//! The journal of a run: the tests that began and ended, for a process that goes on where an earlier one was ended.
//!
//! A tool that runs in the process can end it: by a stack that overflows, or by an exit. What was in flight then is
//! known from the journal, and what has ended need not run again.

use crate::outcome::Outcome;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{self, Write as _};
use std::path::Path;
use std::sync::{Mutex, PoisonError};

/// A line of a journal. Tests go by their full names.
#[derive(Serialize, Deserialize, Debug)]
pub(crate) enum JournalEntry {
    /// A test has begun.
    Begun(String),
    /// A test has ended, and was reported.
    Ended(String, Outcome),
    /// A test has ended its process, in this way, while no other one ran.
    Culprit(String, String),
    /// A new process goes on.
    Resumed,
}

/// A journal that is written.
#[derive(Debug)]
pub(crate) struct Journal {
    file: Mutex<File>,
}

impl Journal {
    /// Opens a journal at its end.
    ///
    /// # Errors
    /// If the file cannot be opened.
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        let file = File::options().create(true).append(true).open(path)?;
        Ok(Self { file: Mutex::new(file) })
    }

    /// Adds an entry. Without it, a test runs once more.
    pub(crate) fn add_entry(&self, entry: &JournalEntry) {
        if let Ok(mut line) = serde_json::to_string(entry) {
            line.push('\n');
            let _ = self.file.lock().unwrap_or_else(PoisonError::into_inner).write_all(line.as_bytes());
        }
    }
}

/// The content of a journal.
#[derive(Default, Debug)]
pub(crate) struct JournalState {
    /// The tests that have ended.
    pub(crate) ended: BTreeMap<String, Outcome>,
    /// The tests that the last process has begun and not ended.
    pub(crate) in_flight: BTreeSet<String>,
    /// The tests that were in flight when earlier processes were ended: one of them did it.
    pub(crate) suspects: BTreeSet<String>,
    /// The tests that have ended a process, and how.
    pub(crate) culprits: BTreeMap<String, String>,
}

impl JournalState {
    /// Reads a journal; nothing is in one that does not exist. A line that was not written completely counts for
    /// nothing.
    pub(crate) fn read_journal(path: &Path) -> Self {
        let text = std::fs::read_to_string(path).unwrap_or_default();
        let mut state = Self::default();
        text.lines().filter_map(|line| serde_json::from_str(line).ok()).for_each(|entry| state.take_entry(entry));
        state
    }

    fn take_entry(&mut self, entry: JournalEntry) {
        match entry {
            JournalEntry::Begun(test) => {
                self.in_flight.insert(test);
            }
            JournalEntry::Ended(test, outcome) => {
                self.in_flight.remove(&test);
                self.ended.insert(test, outcome);
            }
            JournalEntry::Culprit(test, how) => {
                self.in_flight.remove(&test);
                self.culprits.insert(test, how);
            }
            JournalEntry::Resumed => self.suspects.append(&mut self.in_flight),
        }
    }

    /// True if an earlier process has begun the run.
    pub(crate) fn is_resumed(&self) -> bool {
        !self.suspects.is_empty() || !self.culprits.is_empty() || !self.ended.is_empty()
    }

    /// True if a test runs while no other one does, since it may end the process.
    pub(crate) fn runs_alone(&self, test: &str) -> bool {
        self.suspects.contains(test) || self.culprits.contains_key(test)
    }
}
