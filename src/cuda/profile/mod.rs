//! Profiles of runs: time spans of the commands on the devices, and ranges for NVIDIA's profilers.

pub(crate) mod nvtx_ranges;
pub(crate) mod probe_points;
pub(crate) mod rank_probes;
pub(crate) mod traced_run;
