//! Exchanges between the processes of a run beside the program: options, outputs, timelines.

use super::cli::Options;
use super::failure::Failure;
use super::program::Loaded;
use crate::launch::Here;
use hostir::backend::RunResult;
use hostir::backend::trace::Trace;
use hostir::diag::Diag;
use hostir::plan::Prepared;

/// Compares what the processes of a run were started with, and says how much they will send.
///
/// # Errors
/// A process with another program or other options.
pub(super) fn compare_processes(
    here: Option<&Here>,
    programs: &[&Loaded],
    prepared: &[&Prepared],
    options: &Options,
) -> Result<(), Failure> {
    let Some(here) = here else { return Ok(()) };
    prepared.iter().for_each(|prepared| here.expect(prepared));
    let texts: Vec<u8> = programs.iter().flat_map(|program| program.source.bytes.clone()).collect();
    let (shared, version) = (options.shared(), env!("CARGO_PKG_VERSION"));
    let mut parts: Vec<(&str, &[u8])> =
        vec![("version of hir-run", version.as_bytes()), ("program", &texts)];
    parts.extend(shared.iter().map(|(name, value)| (*name, value.as_bytes())));
    Ok(here.same(&parts)?)
}

/// All ranks' outputs; `None` on processes that have handed over theirs.
///
/// # Errors
/// Another process's failure.
pub(super) fn gather_outputs(
    here: Option<&Here>,
    prepared: &Prepared,
    run: RunResult,
) -> Result<Option<RunResult>, Vec<Diag>> {
    let Some(here) = here else { return Ok(Some(run)) };
    let run = here.collect(prepared, run)?;
    if run.is_some() {
        here.peers.settle();
    }
    Ok(run)
}

/// The timeline of all ranks, if there is one; `None` on processes that have handed over theirs.
///
/// # Errors
/// Another process's failure.
pub(super) fn gather_timeline(
    here: Option<&Here>,
    prepared: &Prepared,
    trace: Option<Trace>,
) -> Result<Option<Trace>, Vec<Diag>> {
    match (here, trace) {
        (Some(here), Some(trace)) => here.collect_timeline(prepared, &trace),
        (_, trace) => Ok(trace),
    }
}
