//! A client that speaks the protocol with the server over a connection in memory.

#![allow(clippy::panic, clippy::unwrap_used, reason = "a test that cannot go on has failed")]

/// The allocator of `hir-lsp`, whose speed is measured here.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

mod assistance;
mod client;
mod command_line;
mod diagnostics;
mod editing;
mod errors;
mod latency;
mod names;
mod own_ops;
mod random_edits;
