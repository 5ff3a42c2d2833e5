//! A client that speaks the protocol with the server over a connection in memory.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod assistance;
mod client;
mod diagnostics;
mod editing;
mod errors;
mod latency;
mod names;
mod random_edits;
