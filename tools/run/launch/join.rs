//! The rendezvous of the processes of a run: rank 0 listens, the others connect.

use super::detect::{RankAssignment, RendezvousPoint};
use super::handshake::{
    ANSWER, HEAD, JoinClaim, JoinHandshake, JoinVerdict, UnprovenAnswer, VERSION, greeting_version,
};
use super::launcher::Launcher;
use super::liveness::LivenessTimeouts;
use super::lobby::{JoinServer, PATIENCE, RefusedJoins, STEP};
use super::peers::{ControlPlaneCore, SocketControlPlane};
use super::stream::{PeerListener, PeerStream};
use super::token::ConnectionKey;
use super::wire::{FrameError, FrameOpener, FrameSealer, FrameType};
use super::{hosts, local};
use hostir::backend::control_plane::ControlPlane as _;
use hostir::diag::Diag;
use hostir::diag::message;
use hostir_tool_support::errors;
use hostir_tool_support::process_limits::cannot_start_thread;
use std::io::{Error, ErrorKind, Read, Result as IoResult, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::os::unix::net::UnixListener;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Between two attempts to connect.
const PAUSE: Duration = Duration::from_millis(10);
/// The same pause after an answer that is not rank 0's.
const LONG_PAUSE: Duration = Duration::from_millis(200);
/// Advice for ranks that do not share a socket of this host.
const APART: &str = "ranks without `HIR_TOKEN` meet there, but containers and network namespaces do not share it: give all ranks the same `HIR_TOKEN` and `HIR_COORDINATOR=HOST:PORT`, with an address of rank 0";

/// Rank 0's ear.
pub(super) struct JoinListener {
    listener: PeerListener,
    /// Its address, for people.
    pub(super) at: String,
}

/// Joins the run; rank 0 has its listener. Returns when all processes have joined, and nobody listens any more.
///
/// # Errors
/// [`errors::UNREACHABLE`], [`errors::REFUSED`], [`errors::SQUATTED`], [`errors::START`], or an error that names the
/// missing processes.
pub(super) fn join_run(
    place: &RankAssignment,
    ear: Option<JoinListener>,
    host: Option<String>,
    pace: LivenessTimeouts,
) -> Result<Arc<SocketControlPlane>, Diag> {
    let timeout = pace.timeout;
    let core = ControlPlaneCore::start_monitor(place.rank, place.world, pace)
        .map_err(|error| cannot_start_thread("that watches the other ranks", &error))?;
    let peers = Arc::new(SocketControlPlane::new(core.clone(), hosts::own_host_id(host)));
    let key = ConnectionKey::new(place.token.as_ref());
    let deadline = Instant::now() + timeout;
    let mut refused = RefusedJoins::default();
    if let Some(ear) = ear {
        refused = JoinServer::new(&ear.listener, &core, place.world, &key).admit_all(deadline, timeout);
    } else {
        let (stream, sealer, opener) = connect_until_deadline(place, &key, deadline, timeout)?;
        let added = core.add_connection(0, stream, sealer, opener);
        added.map_err(|error| unreachable_error(place, timeout, &error.to_string()))?;
    }
    match (peers.all_gather(STEP, &[]), refused.cause.take()) {
        (Ok(_), _) => Ok(peers),
        (Err(_), Some(cause)) => Err(cause),
        (Err(error), None) => {
            let local = matches!(place.rendezvous, RendezvousPoint::Local(_)) && place.rank == 0;
            let diag = refused.to_sentences().into_iter().fold(error.diag(), Diag::with_note);
            Err(if local && place.launcher != Launcher::Processes {
                diag.with_note(message!("rank 0 listens at {}; {}", place.rendezvous.to_string(), APART))
            } else {
                diag
            })
        }
    }
}

/// Rank 0 begins to listen.
///
/// # Errors
/// [`errors::LISTEN`] or [`errors::SQUATTED`].
pub(super) fn open_join_listener(place: &RankAssignment) -> Result<JoinListener, Diag> {
    open_socket(place).map(|(listener, at)| JoinListener { listener, at }).map_err(|error| {
        if let Some(user) = local::other_user(&error) {
            return squatted_error(place, user);
        }
        let at = &place.rendezvous;
        let message = match (error.kind(), at) {
            (ErrorKind::AddrInUse, RendezvousPoint::Local(_)) => {
                format!("rank 0 cannot listen at {at}: another of your processes does")
            }
            (ErrorKind::AddrInUse, RendezvousPoint::Network(..)) => {
                format!("rank 0 cannot listen at {at}: the port is in use")
            }
            _ => format!("rank 0 cannot listen at {at}: {error}"),
        };
        Diag::global_error(errors::LISTEN, message).with_note(other_address_hint(place.launcher))
    })
}

/// The listener, and where it is.
fn open_socket(place: &RankAssignment) -> IoResult<(PeerListener, String)> {
    let at = place.rendezvous.to_string();
    match &place.rendezvous {
        RendezvousPoint::Local(_) if place.launcher == Launcher::Processes => {
            let socket = std::io::stdin().as_fd().try_clone_to_owned()?;
            // Its last copy is closed when everybody has joined.
            rustix::stdio::dup2_stdin(std::fs::File::open("/dev/null")?)?;
            Ok((PeerListener::from_unix(UnixListener::from(socket))?, at))
        }
        RendezvousPoint::Local(name) => Ok((PeerListener::from_unix(local::listen_at(name)?)?, at)),
        RendezvousPoint::Network(host, port) => {
            let (listener, all) = bind_host(host, &hosts::resolve_host(host, *port)?, *port)?;
            let at = match (all, listener.local_addr()?.ip()) {
                (Some(why), ip) => {
                    format!("port {port} on all addresses of this host ({ip}), because `{host}` {why}")
                }
                (None, ip) if ip.to_string() == *host => at,
                (None, ip) => format!("{at} ({ip})"),
            };
            Ok((PeerListener::from_tcp(listener)?, at))
        }
    }
}

/// Listens on the address of this name alone, or on all of this machine, with the reason: the name does not belong to
/// this machine (an address that is translated on the way), or the machine knows it by an address that other hosts
/// cannot reach (`127.0.1.1 node7` in `/etc/hosts`).
fn bind_host(host: &str, addresses: &[SocketAddr], port: u16) -> IoResult<(TcpListener, Option<&'static str>)> {
    let inward = addresses.iter().all(|address| address.ip().is_loopback());
    if inward && !addresses.is_empty() && !hosts::is_loopback(host) {
        return bind_all(port, "resolves to loopback addresses here, which other hosts cannot reach");
    }
    match TcpListener::bind(addresses) {
        Err(error) if error.kind() == ErrorKind::AddrNotAvailable => bind_all(port, "is not one of them"),
        bound => Ok((bound?, None)),
    }
}

/// The advice on naming another address.
fn other_address_hint(launcher: Launcher) -> &'static str {
    match launcher {
        Launcher::Processes => "start hir-run again: the system chooses the socket",
        Launcher::Explicit => {
            "set `--coordinator` or `HIR_COORDINATOR` on all ranks to an address of rank 0's host with a free port"
        }
        Launcher::Torchrun => {
            "set `HIR_COORDINATOR=HOST:PORT` on all ranks to another address of rank 0's host; without it, the port is `MASTER_PORT` + 43"
        }
        Launcher::Mpirun | Launcher::Srun | Launcher::Pmix => {
            "set `HIR_COORDINATOR=HOST:PORT` on all ranks to another address of rank 0's host; without it, the port is `MASTER_PORT` + 43, or derived from the job id"
        }
    }
}

fn squatted_error(place: &RankAssignment, user: u32) -> Diag {
    let message =
        message!("{} belongs to user {}, not to you ({})", place.rendezvous.to_string(), user, local::effective_user());
    Diag::global_error(errors::SQUATTED, message)
        .with_note("that user's process received no data; set `HIR_COORDINATOR=HOST:PORT` with another port on all ranks to use another socket, and `HIR_TOKEN`, too, to use the network")
}

fn unreachable_error(place: &RankAssignment, timeout: Duration, why: &str) -> Diag {
    let message = message!(
        "rank {} cannot reach rank 0 at {} within {} ms: {}",
        place.rank,
        place.rendezvous.to_string(),
        timeout.as_millis(),
        why
    );
    let note = match place.rendezvous {
        RendezvousPoint::Local(_) if place.launcher != Launcher::Processes => {
            format!("check the output of rank 0; {APART}")
        }
        RendezvousPoint::Local(_) => "check the output of rank 0".to_owned(),
        RendezvousPoint::Network(..) => {
            "check the output of rank 0; the other ranks must be able to reach its host and port, and without `HIR_TOKEN` it listens elsewhere"
                .to_owned()
        }
    };
    Diag::global_error(errors::UNREACHABLE, message).with_note(note)
}

/// The reason why an attempt to join did not succeed.
#[derive(Debug)]
enum JoinAttemptError {
    /// There is no connection.
    Io(Error),
    /// The error for an answer without proof that it is rank 0: it may be anybody, and rank 0 may still come.
    Unproven(UnprovenAnswer),
    /// Rank 0 says so.
    Refused(JoinVerdict),
}

impl From<Error> for JoinAttemptError {
    fn from(error: Error) -> Self {
        JoinAttemptError::Io(error)
    }
}

/// A connection to rank 0.
type JoinedConnection = (PeerStream, FrameSealer, FrameOpener);

/// Connects to rank 0, again and again until it is there. Unproven answers are no reason to give up.
fn connect_until_deadline(
    place: &RankAssignment,
    key: &ConnectionKey,
    deadline: Instant,
    timeout: Duration,
) -> Result<JoinedConnection, Diag> {
    let mut heard = None;
    loop {
        let (pause, why) = match attempt_join(place, key, deadline) {
            Ok(joined) => return Ok(joined),
            Err(JoinAttemptError::Refused(verdict)) => return Err(refused_diag(place, verdict)),
            Err(JoinAttemptError::Unproven(unproven)) => {
                heard = Some(unproven_diag(place, timeout, unproven));
                (LONG_PAUSE, None)
            }
            Err(JoinAttemptError::Io(error)) => match local::other_user(&error) {
                Some(user) => {
                    heard = Some(squatted_error(place, user));
                    (LONG_PAUSE, None)
                }
                None => (PAUSE, Some(error)),
            },
        };
        if Instant::now() + pause >= deadline {
            let words = why.as_ref().map_or_else(String::new, error_text);
            return Err(heard.unwrap_or_else(|| unreachable_error(place, timeout, &words)));
        }
        std::thread::sleep(pause);
    }
}

fn error_text(error: &Error) -> String {
    match error.kind() {
        ErrorKind::ConnectionRefused => "the connection was refused".to_owned(),
        ErrorKind::TimedOut | ErrorKind::WouldBlock => "the peer does not answer".to_owned(),
        ErrorKind::UnexpectedEof | ErrorKind::ConnectionReset | ErrorKind::BrokenPipe => {
            "the peer closed the connection".to_owned()
        }
        _ => error.to_string(),
    }
}

/// Tries the socket, or each address of the host.
fn attempt_join(
    place: &RankAssignment,
    key: &ConnectionKey,
    deadline: Instant,
) -> Result<JoinedConnection, JoinAttemptError> {
    let (host, port) = match &place.rendezvous {
        RendezvousPoint::Local(name) => {
            let stream = PeerStream::Unix(local::connect_to(name, local::effective_user())?);
            return perform_handshake(stream, place, key, deadline);
        }
        RendezvousPoint::Network(host, port) => (host, *port),
    };
    let mut result = Err(JoinAttemptError::Io(ErrorKind::AddrNotAvailable.into()));
    for address in hosts::resolve_host(host, port)? {
        let joined = connect_address(&address, deadline).map_err(JoinAttemptError::Io);
        let joined = joined.and_then(|stream| perform_handshake(stream, place, key, deadline));
        match (joined, &result) {
            (Err(JoinAttemptError::Io(_)), Err(JoinAttemptError::Unproven(_))) => {}
            (Err(JoinAttemptError::Unproven(why)), _) => result = Err(JoinAttemptError::Unproven(why)),
            (Err(JoinAttemptError::Io(error)), _) => result = Err(JoinAttemptError::Io(error)),
            (end, _) => return end,
        }
    }
    result
}

fn connect_address(address: &SocketAddr, deadline: Instant) -> IoResult<PeerStream> {
    let left = deadline.saturating_duration_since(Instant::now());
    let patience = left.clamp(PAUSE, Duration::from_secs(1));
    let stream = TcpStream::connect_timeout(address, patience)?;
    if stream.local_addr()? == stream.peer_addr()? {
        // If nobody listens on a port that systems assign, a connection may reach itself.
        return Err(ErrorKind::ConnectionRefused.into());
    }
    Ok(PeerStream::Tcp(stream))
}

/// A connection whose reads and writes end at one time.
struct DeadlineStream<'a> {
    stream: &'a PeerStream,
    deadline: Instant,
}

impl DeadlineStream<'_> {
    fn time_left(&self) -> IoResult<Duration> {
        let left = self.deadline.saturating_duration_since(Instant::now());
        if left.is_zero() { Err(ErrorKind::TimedOut.into()) } else { Ok(left) }
    }
    fn send_bytes(&mut self, bytes: &[u8]) -> IoResult<()> {
        self.stream.set_write_timeout(Some(self.time_left()?))?;
        (&mut &*self.stream).write_all(bytes)
    }
}

impl Read for DeadlineStream<'_> {
    fn read(&mut self, bytes: &mut [u8]) -> IoResult<usize> {
        self.stream.set_read_timeout(Some(self.time_left()?))?;
        (&mut &*self.stream).read(bytes)
    }
}

/// Performs the handshake: waits a while for proof of rank 0, and from then on until the deadline, since rank 0 counts
/// the processes that it has admitted.
fn perform_handshake(
    stream: PeerStream,
    place: &RankAssignment,
    key: &ConnectionKey,
    deadline: Instant,
) -> Result<JoinedConnection, JoinAttemptError> {
    let short = deadline.min(Instant::now() + PATIENCE);
    let mut line = DeadlineStream { stream: &stream, deadline: short };
    let joining = JoinHandshake::new(key, JoinClaim { rank: place.rank, world: place.world })?;
    line.send_bytes(joining.hello_bytes())?;
    let mut answer = [0; ANSWER];
    let (head, rest) = answer.split_at_mut(HEAD);
    line.read_exact(head)?;
    match head.first_chunk().and_then(greeting_version) {
        Some(VERSION) => {}
        Some(other) => return Err(JoinAttemptError::Unproven(UnprovenAnswer::Version(other))),
        None => return Err(JoinAttemptError::Unproven(UnprovenAnswer::Stranger)),
    }
    line.read_exact(rest)?;
    let (mut sealer, mut opener) =
        joining.verify_answer(&answer).map_err(JoinAttemptError::Unproven)?.split_directions();
    line.deadline = deadline;
    line.send_bytes(&sealer.seal_frame(FrameType::Hello, &[])?)?;
    let verdict = match opener.read_frame(&mut line) {
        Ok(Some((FrameType::Verdict, payload))) => payload.first().copied().and_then(JoinVerdict::from_byte),
        Ok(Some(_)) => None,
        Ok(None) => return Err(JoinAttemptError::Io(ErrorKind::UnexpectedEof.into())),
        Err(FrameError::Broken(error)) => return Err(JoinAttemptError::Io(error)),
        Err(FrameError::Altered(_)) => {
            return Err(JoinAttemptError::Unproven(UnprovenAnswer::Token));
        }
    };
    match verdict {
        Some(JoinVerdict::Welcome) => Ok((stream, sealer, opener)),
        Some(verdict) => Err(JoinAttemptError::Refused(verdict)),
        None => Err(JoinAttemptError::Unproven(UnprovenAnswer::Stranger)),
    }
}

/// The error with all answers until the deadline.
fn unproven_diag(place: &RankAssignment, timeout: Duration, unproven: UnprovenAnswer) -> Diag {
    let (at, within) = (&place.rendezvous, format!("within {} ms", timeout.as_millis()));
    match unproven {
        UnprovenAnswer::Stranger => {
            let message =
                message!("the peer at {} is not hir-run, and no other peer answered {}", at.to_string(), within);
            Diag::global_error(errors::UNREACHABLE, message).with_note(other_address_hint(place.launcher))
        }
        UnprovenAnswer::Version(version) => {
            let message = message!(
                "the peer at {} uses protocol version {}, but this hir-run uses {}, and no other peer answered {}",
                at.to_string(),
                version,
                VERSION,
                within
            );
            Diag::global_error(errors::REFUSED, message).with_note("start the same hir-run on all hosts")
        }
        UnprovenAnswer::Token => {
            let message = message!(
                "the peer at {} does not have the token of rank {}, and no other peer answered {}",
                at.to_string(),
                place.rank,
                within
            );
            Diag::global_error(errors::REFUSED, message)
                .with_note("give all ranks the same `HIR_TOKEN`; if another run listens there, use another port in `HIR_COORDINATOR`")
        }
    }
}

fn refused_diag(place: &RankAssignment, verdict: JoinVerdict) -> Diag {
    let (rank, world) = (place.rank, place.world);
    let (why, note) = match verdict {
        JoinVerdict::World => {
            (format!("its run does not have {world} processes"), "set the same number of processes on all ranks")
        }
        JoinVerdict::Rank | JoinVerdict::Welcome => {
            (format!("another process is rank {rank}"), "start one process per rank, numbered from 0")
        }
    };
    let message = message!("rank 0 at {} refused rank {}: {}", place.rendezvous.to_string(), rank, why);
    Diag::global_error(errors::REFUSED, message).with_note(note)
}

/// Listens at all addresses of this host, with the reason.
fn bind_all(port: u16, why: &'static str) -> IoResult<(TcpListener, Option<&'static str>)> {
    Ok((TcpListener::bind(("0.0.0.0", port))?, Some(why)))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Names that other hosts know too: Debian's entry of `/etc/hosts` for a host's own name, a name that is meant for
    /// this host alone, and an address that is nobody's here (RFC 5737).
    #[test]
    fn names_that_other_hosts_know_too() {
        for (host, address, ip, why) in [
            ("node7", [127, 0, 1, 1], "0.0.0.0", Some("resolves to loopback addresses")),
            ("localhost", [127, 0, 0, 1], "127.0.0.1", None),
            ("127.0.0.1", [127, 0, 0, 1], "127.0.0.1", None),
            ("node9", [192, 0, 2, 1], "0.0.0.0", Some("is not one of them")),
        ] {
            let (listener, all) = bind_host(host, &[(address, 0).into()], 0).unwrap();
            assert_eq!(listener.local_addr().unwrap().ip().to_string(), ip, "{host}");
            let same = match (all, why) {
                (Some(all), Some(why)) => all.starts_with(why),
                (all, why) => all == why,
            };
            assert!(same, "{host}: {all:?}");
        }
    }
}
