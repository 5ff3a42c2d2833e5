//! NCCL: communicators of all teams, warm-up of their connections, and the barrier at the start of a timed run.

pub(crate) mod init;
pub(crate) mod rank_communicators;
pub(crate) mod start_barrier;
pub(crate) mod warmup;
