//! Tests of plans compiled for GPUs that need whole programs and no device. One test program, because linking takes
//! seconds; and not in the crate's unit tests, which would compile all that these reach a second time.

#![allow(clippy::panic, clippy::unwrap_used, reason = "failures panic")]

mod fp8_gemms;
mod p2p_copies;
