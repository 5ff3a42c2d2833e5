//! Races, and uninitialised reads and outputs: follows every element of every buffer.

mod findings;
mod history;
mod latest_ends;
mod observer;
mod outputs;
mod report;

pub(super) use observer::{MemoryObserver, WaitUse};
pub(super) use report::report_findings;
