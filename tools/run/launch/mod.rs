//! Runs of several processes, one for each rank: launchers, the rendezvous, and messages between processes.
//!
//! [`detect`](mod@detect) reads a launcher's environment, `join` connects the processes, and [`SocketControlPlane`] is
//! the connection, which the library uses as a [`ControlPlane`](hostir::backend::control_plane::ControlPlane).
//! [`children`] is hir-run's own launcher. docs/launch.md is the user documentation.
//!
//! Messages have layers: `token` is the shared secret, `handshake` has the first bytes of a connection, which establish
//! keys, `wire` the frames under these keys, `payload` their contents, `peers` their use. Only `peers` has a
//! connection; `stream` and `local` are connections, `lobby` and `join` the two ends that establish one.

pub(crate) mod children;
pub(crate) mod detect;
mod failure_watchdog;
mod handshake;
mod hosts;
mod join;
mod launcher;
mod liveness;
mod lobby;
mod local;
mod outputs;
mod payload;
mod peers;
#[cfg(feature = "cuda")]
mod positions;
mod stream;
mod timeline;
mod token;
mod wire;

pub(crate) use detect::{LaunchFlags, RankAssignment};
pub(crate) use launcher::Launcher;
pub(crate) use liveness::NO_TIMEOUT;
pub(crate) use peers::SocketControlPlane;

use hostir::backend::RunResult;
use hostir::backend::control_plane::{self, ControlPlane as _, ControlPlaneError};
use hostir::backend::trace::Trace;
use hostir::diag::Diag;
use hostir::diag::message;
use hostir::lower::PreparedProgram;
use hostir_tool_support::errors;
use hostir_tool_support::io::ToolIo;
use hostir_tool_support::os_text;
use std::sync::Arc;
use std::time::Duration;

/// This process among those of its run.
#[derive(Debug)]
pub(crate) struct LaunchedProcess {
    /// The assignment by the launcher.
    pub(crate) place: RankAssignment,
    /// The connection.
    pub(crate) peers: Arc<SocketControlPlane>,
}

/// The reason why this process could not join.
pub(crate) struct JoinFailure {
    /// Its error, or another process's.
    pub(crate) diag: Box<Diag>,
    /// True if this process would have reported for the run.
    pub(crate) is_first: bool,
}

/// Refuses arguments that must not be on a command line.
///
/// # Errors
/// [`errors::TOKEN`].
pub(crate) fn check_arguments(flags: &LaunchFlags) -> Result<(), Diag> {
    if flags.token { Err(token::token_in_arguments()) } else { Ok(()) }
}

/// Finds out whether this process is one of several, and joins the others.
///
/// # Errors
/// Errors of the launchers' environments and of joining.
pub(crate) fn join_launch(
    flags: &LaunchFlags,
    devices: Option<u32>,
    timeout: Duration,
    quiet: bool,
    io: &mut ToolIo<'_>,
) -> Result<Option<LaunchedProcess>, JoinFailure> {
    let env = io.env;
    // Bytes that are no text keep their worth.
    let get = move |name: &str| {
        let text = os_text::escape_text(&env(name)?).to_string_lossy().into_owned();
        // A set but empty token was meant to be one.
        Some(text).filter(|text| !text.is_empty() || name.starts_with("HIR_TOKEN"))
    };
    let place = detect::detect_rank(flags, devices, &get)
        .map_err(|diag| JoinFailure { diag: Box::new(diag), is_first: false })?;
    let Some(place) = place else { return Ok(None) };
    let pace = liveness::LivenessTimeouts::new(timeout).with_liveness_timeout(get("HOSTIR_PEER_TIMEOUT").as_deref());
    let pace = pace.map_err(|diag| JoinFailure { diag: Box::new(diag), is_first: place.rank == 0 })?;
    if place.launcher == Launcher::Processes {
        children::end_with_parent(&get);
    }
    let mut ear = None;
    if place.rank == 0 {
        let opened =
            join::open_join_listener(&place).map_err(|diag| JoinFailure { diag: Box::new(diag), is_first: true })?;
        if !quiet {
            let at = if place.launcher == Launcher::Processes {
                String::new()
            } else {
                format!(", rank 0 listens at {}", opened.at)
            };
            let (world, name) = (place.world, place.launcher.name());
            io.print_message(&format!("hir-run: {world} processes by {name}{at}"));
        }
        ear = Some(opened);
    }
    let host = get("HIR_HOST_ID");
    let peers = join::join_run(&place, ear, host, pace)
        .map_err(|diag| JoinFailure { diag: Box::new(diag), is_first: place.rank == 0 })?;
    let status = if place.launcher == Launcher::Processes { hostir_tool_support::status::FOLLOWED } else { 3 };
    failure_watchdog::start_failure_watchdog(&peers, status);
    Ok(Some(LaunchedProcess { place, peers }))
}

impl LaunchedProcess {
    /// Whether this process speaks for the run.
    pub(crate) fn is_first(&self) -> bool {
        self.place.rank == 0
    }

    /// The reason that the run of all processes failed, once it did.
    #[cfg_attr(not(feature = "cuda"), allow(dead_code, reason = "the CUDA backend uses it"))]
    pub(crate) fn run_failure(&self) -> Option<ControlPlaneError> {
        self.peers.peer_failure()
    }

    /// Refuses processes that were started with different inputs: by name, the parts that have to be equal, in an order
    /// that is the same for all of one version.
    ///
    /// # Errors
    /// [`errors::UNLIKE`], or the error of another process.
    pub(crate) fn check_same_inputs(&self, parts: &[(&str, &[u8])]) -> Result<(), Diag> {
        let own: Vec<u8> = parts.iter().flat_map(|(_, bytes)| token::sha256_digest(bytes)).collect();
        let all = self.peers.all_gather("compare programs", &own).map_err(|error| error.diag())?;
        let first = all.first().map_or(own.as_slice(), Vec::as_slice);
        for (rank, other) in all.iter().enumerate() {
            let unlike = parts.iter().enumerate().find(|(index, _)| {
                let digest = index * 32..index * 32 + 32;
                other.get(digest.clone()) != first.get(digest)
            });
            if let Some((_, (name, _))) = unlike {
                let message = message!("rank {} was started with a different {} than rank 0", rank, name);
                return Err(Diag::global_error(errors::UNLIKE, message)
                    .with_note("start all ranks with the same file and options"));
            }
        }
        Ok(())
    }

    /// Says how large outputs get.
    pub(crate) fn announce_output_sizes(&self, prepared: &PreparedProgram) {
        self.peers.allow_bytes(outputs::most_bytes(prepared));
    }

    /// On rank 0 the outputs of all ranks; the others have sent theirs.
    ///
    /// # Errors
    /// Another process's failure.
    pub(crate) fn collect_outputs(
        &self,
        prepared: &PreparedProgram,
        run: RunResult,
    ) -> Result<Option<RunResult>, Vec<Diag>> {
        let own = run.outputs.get(self.place.rank as usize).map_or(&[][..], Vec::as_slice);
        let all = self
            .peers
            .collect_messages("collect outputs", &outputs::pack_outputs(own))
            .map_err(|error| vec![error.diag()])?;
        let Some(all) = all else { return Ok(None) };
        let outputs: Result<Vec<_>, _> = all
            .iter()
            .enumerate()
            .map(|(rank, message): (usize, &Vec<u8>)| outputs::unpack_outputs(prepared, rank, message))
            .collect();
        Ok(Some(RunResult { outputs: outputs.map_err(|error| vec![error.diag()])?, stats: run.stats }))
    }

    /// On rank 0 the timeline of all ranks; the others have sent their parts.
    ///
    /// # Errors
    /// Another process's failure.
    pub(crate) fn collect_timeline(
        &self,
        prepared: &PreparedProgram,
        trace: &Trace,
    ) -> Result<Option<Trace>, Vec<Diag>> {
        timeline::collect_trace(&self.peers, prepared, trace).map_err(|error| vec![error.diag()])
    }

    /// Ends the run on this process: reports its result to the others.
    ///
    /// # Errors
    /// A failure elsewhere.
    pub(crate) fn end_run(&self, failed: Option<&[Diag]>) -> Result<(), Diag> {
        let Some(diags) = failed else {
            return self.peers.finish_run().map_err(|error| error.diag());
        };
        if self.peers.is_complete() {
            return self.peers.finish_run().map_err(|error| error.diag());
        }
        if !diags.first().is_some_and(control_plane::is_known_to_all) {
            self.peers.report_failure(&control_plane::failure_report(diags));
        }
        Ok(())
    }

    /// Returns true if rank 0 reports the same: then nobody else needs to.
    pub(crate) fn is_reported_by_first(&self, diags: &[Diag]) -> bool {
        !self.is_first() && self.peers.is_failure_reported(0, &control_plane::failure_report(diags))
    }
}
