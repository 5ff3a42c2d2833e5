//! Several processes, one a rank: who started them, how they meet, what they tell each other.
//!
//! [`detect`](mod@detect) reads a launcher's environment, `join` connects the processes, [`Peers`] is the
//! connection, which the library sees as an [`ControlPlane`]. [`children`] is the launcher that hir-run brings.
//! docs/launch.md says all of it to users.
//!
//! What is sent is in layers: `token` is what all know, `handshake` the first bytes of a connection, which make
//! keys, `wire` frames under these keys, `payload` their contents, `peers` what they say. None of them but the last has a connection;
//! `stream` and `local` are those, `lobby` and `join` the two ends of making one.

pub(crate) mod children;
pub(crate) mod detect;
mod failure_watchdog;
mod handshake;
mod hosts;
mod join;
mod launcher;
mod lobby;
mod local;
mod outputs;
mod payload;
mod peers;
mod stream;
mod timeline;
mod token;
mod wire;

pub(crate) use detect::{Flags, RankAssignment};
pub(crate) use launcher::Launcher;
pub(crate) use peers::Peers;

use hostir::backend::RunResult;
use hostir::backend::control_plane::{self, ControlPlane as _, ControlPlaneError};
use hostir::backend::trace::Trace;
use hostir::diag::Diag;
use hostir::lower::Prepared;
use hostir_tool_support::errors;
use hostir_tool_support::io::Io;
use hostir_tool_support::os_text;
use std::sync::Arc;
use std::time::Duration;

/// This process among those of its run.
#[derive(Debug)]
pub(crate) struct Here {
    /// The assignment by the launcher.
    pub(crate) place: RankAssignment,
    /// The connection.
    pub(crate) peers: Arc<Peers>,
}

/// Why this process did not get as far as joining.
pub(crate) struct Apart {
    /// Its error, or another process's.
    pub(crate) diag: Diag,
    /// Whether this process would have spoken for the run.
    pub(crate) is_first: bool,
}

/// Refuses arguments that have no place on a command line.
///
/// # Errors
/// [`errors::TOKEN`].
pub(crate) fn check(flags: &Flags) -> Result<(), Diag> {
    if flags.token { Err(token::argument()) } else { Ok(()) }
}

/// Finds out whether this process is one of several, and joins the others.
///
/// # Errors
/// Those of [`detect::detect`] and of joining.
pub(crate) fn start(
    flags: &Flags,
    devices: Option<u32>,
    timeout: Duration,
    quiet: bool,
    io: &mut Io<'_>,
) -> Result<Option<Here>, Apart> {
    let env = io.env;
    // Bytes that are no text keep their worth.
    let get = move |name: &str| {
        let text = os_text::escape(&env(name)?).to_string_lossy().into_owned();
        // An empty token is one that somebody meant to set.
        Some(text).filter(|text| !text.is_empty() || name.starts_with("HIR_TOKEN"))
    };
    let place =
        detect::detect(flags, devices, &get).map_err(|diag| Apart { diag, is_first: false })?;
    let Some(place) = place else { return Ok(None) };
    if place.launcher == Launcher::Processes {
        children::end_with_parent(&get);
    }
    let mut ear = None;
    if place.rank == 0 {
        let opened = join::listen(&place).map_err(|diag| Apart { diag, is_first: true })?;
        if !quiet {
            let at = if place.launcher == Launcher::Processes {
                String::new()
            } else {
                format!(", rank 0 listens at {}", opened.at)
            };
            let (world, name) = (place.world, place.launcher.name());
            io.say(&format!("hir-run: {world} processes by {name}{at}"));
        }
        ear = Some(opened);
    }
    let host = get("HIR_HOST_ID");
    let peers = join::join(&place, ear, host, timeout)
        .map_err(|diag| Apart { diag, is_first: place.rank == 0 })?;
    let status = if place.launcher == Launcher::Processes {
        hostir_tool_support::status::FOLLOWED
    } else {
        3
    };
    failure_watchdog::watch_failures(&peers, status);
    Ok(Some(Here { place, peers }))
}

impl Here {
    /// Whether this process speaks for the run.
    pub(crate) fn is_first(&self) -> bool {
        self.place.rank == 0
    }

    /// Why the run of all processes failed, once it did.
    #[cfg_attr(not(feature = "cuda"), allow(dead_code, reason = "the CUDA backend uses it"))]
    pub(crate) fn failed(&self) -> Option<ControlPlaneError> {
        self.peers.failed()
    }

    /// Refuses processes that were started with something else: by name, what has to be the same, in an
    /// order that is the same for all of one version.
    ///
    /// # Errors
    /// [`errors::UNLIKE`], or that of another process.
    pub(crate) fn same(&self, parts: &[(&str, &[u8])]) -> Result<(), Diag> {
        let own: Vec<u8> = parts.iter().flat_map(|(_, bytes)| token::digest(bytes)).collect();
        let all = self.peers.gather("compare programs", &own).map_err(|error| error.diag())?;
        let first = all.first().map_or(own.as_slice(), Vec::as_slice);
        for (rank, other) in all.iter().enumerate() {
            let unlike = parts.iter().enumerate().find(|(index, _)| {
                let digest = index * 32..index * 32 + 32;
                other.get(digest.clone()) != first.get(digest)
            });
            if let Some((_, (name, _))) = unlike {
                let message = format!("rank {rank} was started with another {name} than rank 0");
                return Err(Diag::global(errors::UNLIKE, message)
                    .note("start all ranks with the same file and options"));
            }
        }
        Ok(())
    }

    /// Says how large outputs get.
    pub(crate) fn expect(&self, prepared: &Prepared) {
        self.peers.allow(outputs::most_bytes(prepared));
    }

    /// On rank 0 the outputs of all ranks; the others have handed over theirs.
    ///
    /// # Errors
    /// Another process's failure.
    pub(crate) fn collect(
        &self,
        prepared: &Prepared,
        run: RunResult,
    ) -> Result<Option<RunResult>, Vec<Diag>> {
        let own = run.outputs.get(self.place.rank as usize).map_or(&[][..], Vec::as_slice);
        let all = self
            .peers
            .collect("collect outputs", &outputs::pack(own))
            .map_err(|error| vec![error.diag()])?;
        let Some(all) = all else { return Ok(None) };
        let outputs: Result<Vec<_>, _> = all
            .iter()
            .enumerate()
            .map(|(rank, message): (usize, &Vec<u8>)| outputs::unpack(prepared, rank, message))
            .collect();
        Ok(Some(RunResult {
            outputs: outputs.map_err(|error| vec![error.diag()])?,
            stats: run.stats,
        }))
    }

    /// On rank 0 the timeline of all ranks; the others have handed over their parts.
    ///
    /// # Errors
    /// Another process's failure.
    pub(crate) fn collect_timeline(
        &self,
        prepared: &Prepared,
        trace: &Trace,
    ) -> Result<Option<Trace>, Vec<Diag>> {
        timeline::collect(&self.peers, prepared, trace).map_err(|error| vec![error.diag()])
    }

    /// Ends the run on this process: tells the others how it went here.
    ///
    /// # Errors
    /// A failure elsewhere.
    pub(crate) fn end(&self, failed: Option<&[Diag]>) -> Result<(), Diag> {
        let Some(diags) = failed else {
            return self.peers.finish().map_err(|error| error.diag());
        };
        if self.peers.is_settled() {
            return self.peers.finish().map_err(|error| error.diag());
        }
        if !diags.first().is_some_and(control_plane::is_known_to_all) {
            self.peers.fail(&control_plane::failure_report(diags));
        }
        Ok(())
    }

    /// Whether rank 0 says the same: then nobody else needs to.
    pub(crate) fn is_reported_by_first(&self, diags: &[Diag]) -> bool {
        !self.is_first() && self.peers.is_told(0, &control_plane::failure_report(diags))
    }
}
