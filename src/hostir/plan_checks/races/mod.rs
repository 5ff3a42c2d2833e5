//! Races, and reads and outputs that nothing has written: what becomes of every element of every buffer.

mod findings;
mod history;
mod observer;
mod outputs;
mod report;

pub(super) use observer::{MemoryObserver, WaitUse};
pub(super) use report::report_findings;
