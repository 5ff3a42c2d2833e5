//! The rendezvous of the processes of a run: rank 0 listens, the others connect.

use super::detect::{Meeting, RankAssignment};
use super::handshake::{ANSWER, Claim, HEAD, Joining, Unproven, VERSION, Verdict, version};
use super::launcher::Launcher;
use super::lobby::{Lobby, PATIENCE, Refused, STEP};
use super::peers::{Core, Pace, Peers};
use super::stream::{Listener, Stream};
use super::token::Key;
use super::wire::{Fault, Kind, Opener, Sealer};
use super::{hosts, local};
use hostir::backend::control_plane::ControlPlane as _;
use hostir::diag::Diag;
use hostir_tool_support::errors;
use std::io::{Error, ErrorKind, Read, Result as IoResult, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::os::unix::net::UnixListener;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Between two attempts to connect.
const PAUSE: Duration = Duration::from_millis(10);
/// The same where something answered that is not what was looked for.
const LONG_PAUSE: Duration = Duration::from_millis(200);
/// Advice for those who do not share a socket of this host.
const APART: &str = "ranks without `HIR_TOKEN` meet there, but those in containers, or network namespaces, of their own do not share it: give all ranks `HIR_COORDINATOR=HOST:PORT`, with an address of rank 0, and the same `HIR_TOKEN`";

/// Rank 0's ear.
pub(super) struct Ear {
    listener: Listener,
    /// Its address, for people.
    pub(super) at: String,
}

/// Joins the run; rank 0 has its ear. Returns when all processes are here, and nobody listens any more.
///
/// # Errors
/// [`errors::UNREACHABLE`], [`errors::REFUSED`], [`errors::SQUATTED`], or who did not come.
pub(super) fn join(
    place: &RankAssignment,
    ear: Option<Ear>,
    host: Option<String>,
    timeout: Duration,
) -> Result<Arc<Peers>, Diag> {
    let core = Core::start(place.rank, place.world, Pace::new(timeout));
    let peers = Arc::new(Peers::new(core.clone(), hosts::own(host)));
    let key = Key::new(place.token.as_ref());
    let deadline = Instant::now() + timeout;
    let mut refused = Refused::default();
    if let Some(ear) = ear {
        refused = Lobby::new(&ear.listener, &core, place.world, &key).run(deadline, timeout);
    } else {
        let (stream, sealer, opener) = connect(place, &key, deadline, timeout)?;
        let added = core.add(0, stream, sealer, opener);
        added.map_err(|error| unreachable(place, timeout, &error.to_string()))?;
    }
    match (peers.gather(STEP, &[]), refused.cause.take()) {
        (Ok(_), _) => Ok(peers),
        (Err(_), Some(cause)) => Err(cause),
        (Err(error), None) => {
            let local = matches!(place.meeting, Meeting::Local(_)) && place.rank == 0;
            let diag = refused.sentences().into_iter().fold(error.diag(), Diag::note);
            Err(if local && place.launcher != Launcher::Processes {
                diag.note(format!("rank 0 listens at {}; {APART}", place.meeting))
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
pub(super) fn listen(place: &RankAssignment) -> Result<Ear, Diag> {
    open(place).map(|(listener, at)| Ear { listener, at }).map_err(|error| {
        if let Some(user) = local::other_user(&error) {
            return squatted(place, user);
        }
        let at = &place.meeting;
        let message = match (error.kind(), at) {
            (ErrorKind::AddrInUse, Meeting::Local(_)) => {
                format!("rank 0 cannot listen at {at}: another process of yours does")
            }
            (ErrorKind::AddrInUse, Meeting::Network(..)) => {
                format!("rank 0 cannot listen at {at}: the port is in use")
            }
            _ => format!("rank 0 cannot listen at {at}: {error}"),
        };
        Diag::global(errors::LISTEN, message).note(elsewhere(place.launcher))
    })
}

/// The listener, and where it is.
fn open(place: &RankAssignment) -> IoResult<(Listener, String)> {
    let at = place.meeting.to_string();
    match &place.meeting {
        Meeting::Local(_) if place.launcher == Launcher::Processes => {
            let socket = std::io::stdin().as_fd().try_clone_to_owned()?;
            // Its last copy is closed when everybody is here.
            rustix::stdio::dup2_stdin(std::fs::File::open("/dev/null")?)?;
            Ok((Listener::unix(UnixListener::from(socket))?, at))
        }
        Meeting::Local(name) => Ok((Listener::unix(local::listen(name)?)?, at)),
        Meeting::Network(host, port) => {
            let (listener, all) = bind(host, &hosts::addresses(host, *port)?, *port)?;
            let at = match (all, listener.local_addr()?.ip()) {
                (Some(why), ip) => {
                    format!(
                        "port {port} of all addresses of this host ({ip}), since `{host}` {why}"
                    )
                }
                (None, ip) if ip.to_string() == *host => at,
                (None, ip) => format!("{at} ({ip})"),
            };
            Ok((Listener::tcp(listener)?, at))
        }
    }
}

/// Listens on the address of this name alone, or on all of this machine and says why: where the name is not of this
/// machine (an address that is translated on the way), or where the machine knows it as its own by an address that
/// other hosts cannot reach (`127.0.1.1 node7` in `/etc/hosts`).
fn bind(
    host: &str,
    addresses: &[SocketAddr],
    port: u16,
) -> IoResult<(TcpListener, Option<&'static str>)> {
    let inward = addresses.iter().all(|address| address.ip().is_loopback());
    if inward && !addresses.is_empty() && !hosts::is_loopback(host) {
        return bind_all(port, "stands for loopback addresses here, which no other host can reach");
    }
    match TcpListener::bind(addresses) {
        Err(error) if error.kind() == ErrorKind::AddrNotAvailable => {
            bind_all(port, "is none of them")
        }
        bound => Ok((bound?, None)),
    }
}

/// The advice on naming another address.
fn elsewhere(launcher: Launcher) -> &'static str {
    match launcher {
        Launcher::Processes => "start it again: the system chooses the socket",
        Launcher::Explicit => {
            "name an address of rank 0's host and a port that is free there in `--coordinator`, or `HIR_COORDINATOR`, on all ranks"
        }
        Launcher::Torchrun => {
            "`HIR_COORDINATOR=HOST:PORT` on all ranks names another address of rank 0's host; without it the port is `MASTER_PORT` + 43"
        }
        Launcher::Mpirun | Launcher::Srun | Launcher::Pmix => {
            "`HIR_COORDINATOR=HOST:PORT` on all ranks names another address of rank 0's host; without it the port is `MASTER_PORT` + 43, or made from the job's id"
        }
    }
}

fn squatted(place: &RankAssignment, user: u32) -> Diag {
    let message =
        format!("{} belongs to user {user}, not to you ({})", place.meeting, local::user());
    Diag::global(errors::SQUATTED, message)
        .note("nothing was told to that user's process; `HIR_COORDINATOR=HOST:PORT` on all ranks, with another port, names another socket, and `HIR_TOKEN` with it goes over the network")
}

fn unreachable(place: &RankAssignment, timeout: Duration, why: &str) -> Diag {
    let message = format!(
        "rank {} cannot reach rank 0 at {} within {} ms: {why}",
        place.rank,
        place.meeting,
        timeout.as_millis()
    );
    let note = match place.meeting {
        Meeting::Local(_) if place.launcher != Launcher::Processes => {
            format!("look at what rank 0 printed; {APART}")
        }
        Meeting::Local(_) => "look at what rank 0 printed".to_owned(),
        Meeting::Network(..) => {
            "look at what rank 0 printed; its host and port have to be open to the other ranks, and without `HIR_TOKEN` it listens elsewhere"
                .to_owned()
        }
    };
    Diag::global(errors::UNREACHABLE, message).note(note)
}

/// Why an attempt to join did not succeed.
#[derive(Debug)]
enum Trouble {
    /// There is no connection.
    Io(Error),
    /// The error of an answer without a proof that it is rank 0: it may be anybody, and rank 0 may still come.
    Unproven(Unproven),
    /// Rank 0 says so.
    Refused(Verdict),
}

impl From<Error> for Trouble {
    fn from(error: Error) -> Self {
        Trouble::Io(error)
    }
}

/// A connection to rank 0.
type Joined = (Stream, Sealer, Opener);

/// Connects to rank 0, again and again until it is there. What anybody may say is no reason to give up.
fn connect(
    place: &RankAssignment,
    key: &Key,
    deadline: Instant,
    timeout: Duration,
) -> Result<Joined, Diag> {
    let mut heard = None;
    loop {
        let (pause, why) = match attempt(place, key, deadline) {
            Ok(joined) => return Ok(joined),
            Err(Trouble::Refused(verdict)) => return Err(refused(place, verdict)),
            Err(Trouble::Unproven(unproven)) => {
                heard = Some(hearsay(place, timeout, unproven));
                (LONG_PAUSE, None)
            }
            Err(Trouble::Io(error)) => match local::other_user(&error) {
                Some(user) => {
                    heard = Some(squatted(place, user));
                    (LONG_PAUSE, None)
                }
                None => (PAUSE, Some(error)),
            },
        };
        if Instant::now() + pause >= deadline {
            let words = why.as_ref().map_or_else(String::new, words);
            return Err(heard.unwrap_or_else(|| unreachable(place, timeout, &words)));
        }
        std::thread::sleep(pause);
    }
}

fn words(error: &Error) -> String {
    match error.kind() {
        ErrorKind::ConnectionRefused => "nobody listens there".to_owned(),
        ErrorKind::TimedOut | ErrorKind::WouldBlock => "it does not answer".to_owned(),
        ErrorKind::UnexpectedEof | ErrorKind::ConnectionReset | ErrorKind::BrokenPipe => {
            "it closed the connection".to_owned()
        }
        _ => error.to_string(),
    }
}

/// Tries the socket, or each address of the host.
fn attempt(place: &RankAssignment, key: &Key, deadline: Instant) -> Result<Joined, Trouble> {
    let (host, port) = match &place.meeting {
        Meeting::Local(name) => {
            let stream = Stream::Unix(local::connect(name, local::user())?);
            return greet(stream, place, key, deadline);
        }
        Meeting::Network(host, port) => (host, *port),
    };
    let mut result = Err(Trouble::Io(ErrorKind::AddrNotAvailable.into()));
    for address in hosts::addresses(host, port)? {
        let joined = reach(&address, deadline).map_err(Trouble::Io);
        let joined = joined.and_then(|stream| greet(stream, place, key, deadline));
        match (joined, &result) {
            (Err(Trouble::Io(_)), Err(Trouble::Unproven(_))) => {}
            (Err(Trouble::Unproven(why)), _) => result = Err(Trouble::Unproven(why)),
            (Err(Trouble::Io(error)), _) => result = Err(Trouble::Io(error)),
            (end, _) => return end,
        }
    }
    result
}

fn reach(address: &SocketAddr, deadline: Instant) -> IoResult<Stream> {
    let left = deadline.saturating_duration_since(Instant::now());
    let patience = left.clamp(PAUSE, Duration::from_secs(1));
    let stream = TcpStream::connect_timeout(address, patience)?;
    if stream.local_addr()? == stream.peer_addr()? {
        // Where nobody listens on a port that systems hand out, a connection may reach itself.
        return Err(ErrorKind::ConnectionRefused.into());
    }
    Ok(Stream::Tcp(stream))
}

/// A connection whose reads and writes end at one time.
struct Within<'a> {
    stream: &'a Stream,
    deadline: Instant,
}

impl Within<'_> {
    fn left(&self) -> IoResult<Duration> {
        let left = self.deadline.saturating_duration_since(Instant::now());
        if left.is_zero() { Err(ErrorKind::TimedOut.into()) } else { Ok(left) }
    }
    fn put(&mut self, bytes: &[u8]) -> IoResult<()> {
        self.stream.set_write_timeout(Some(self.left()?))?;
        (&mut &*self.stream).write_all(bytes)
    }
}

impl Read for Within<'_> {
    fn read(&mut self, bytes: &mut [u8]) -> IoResult<usize> {
        self.stream.set_read_timeout(Some(self.left()?))?;
        (&mut &*self.stream).read(bytes)
    }
}

/// Goes through the handshake: waits a while for somebody to prove that it is rank 0, and from there on as long as
/// there is time, since rank 0 counts those that it has welcomed.
fn greet(
    stream: Stream,
    place: &RankAssignment,
    key: &Key,
    deadline: Instant,
) -> Result<Joined, Trouble> {
    let short = deadline.min(Instant::now() + PATIENCE);
    let mut line = Within { stream: &stream, deadline: short };
    let joining = Joining::new(key, Claim { rank: place.rank, world: place.world })?;
    line.put(joining.hello())?;
    let mut answer = [0; ANSWER];
    let (head, rest) = answer.split_at_mut(HEAD);
    line.read_exact(head)?;
    match head.first_chunk().and_then(version) {
        Some(VERSION) => {}
        Some(other) => return Err(Trouble::Unproven(Unproven::Version(other))),
        None => return Err(Trouble::Unproven(Unproven::Stranger)),
    }
    line.read_exact(rest)?;
    let (mut sealer, mut opener) = joining.answered(&answer).map_err(Trouble::Unproven)?.split();
    line.deadline = deadline;
    line.put(&sealer.seal(Kind::Hello, &[])?)?;
    let verdict = match opener.read(&mut line) {
        Ok(Some((Kind::Verdict, payload))) => payload.first().copied().and_then(Verdict::of),
        Ok(Some(_)) => None,
        Ok(None) => return Err(Trouble::Io(ErrorKind::UnexpectedEof.into())),
        Err(Fault::Broken(error)) => return Err(Trouble::Io(error)),
        Err(Fault::Altered(_)) => return Err(Trouble::Unproven(Unproven::Token)),
    };
    match verdict {
        Some(Verdict::Welcome) => Ok((stream, sealer, opener)),
        Some(verdict) => Err(Trouble::Refused(verdict)),
        None => Err(Trouble::Unproven(Unproven::Stranger)),
    }
}

/// Everything that was heard until the time was up.
fn hearsay(place: &RankAssignment, timeout: Duration, unproven: Unproven) -> Diag {
    let (at, within) = (&place.meeting, format!("within {} ms", timeout.as_millis()));
    match unproven {
        Unproven::Stranger => {
            let message = format!("what answers at {at} is no hir-run, and none came {within}");
            Diag::global(errors::UNREACHABLE, message).note(elsewhere(place.launcher))
        }
        Unproven::Version(version) => {
            let message = format!(
                "what answers at {at} speaks version {version} of the protocol, this hir-run version {VERSION}, and no other came {within}"
            );
            Diag::global(errors::REFUSED, message).note("start the same hir-run on all hosts")
        }
        Unproven::Token => {
            let message = format!(
                "what answers at {at} does not know the token of rank {}, and nobody came {within} who does",
                place.rank
            );
            Diag::global(errors::REFUSED, message)
                .note("give all ranks the same `HIR_TOKEN`; or another run listens there, and `HIR_COORDINATOR` names another port")
        }
    }
}

fn refused(place: &RankAssignment, verdict: Verdict) -> Diag {
    let (rank, world) = (place.rank, place.world);
    let (why, note) = match verdict {
        Verdict::World => (
            format!("its run has not {world} processes"),
            "say the same number of processes on all ranks",
        ),
        Verdict::Rank | Verdict::Welcome => (
            format!("another process is rank {rank}"),
            "start one process for each rank, from 0 up",
        ),
    };
    let message = format!("rank 0 at {} refused rank {rank}: {why}", place.meeting);
    Diag::global(errors::REFUSED, message).note(note)
}

/// Listens at all addresses of this host, for a reason.
fn bind_all(port: u16, why: &'static str) -> IoResult<(TcpListener, Option<&'static str>)> {
    Ok((TcpListener::bind(("0.0.0.0", port))?, Some(why)))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What `/etc/hosts` of Debian says of a host's own name, a name that is said to mean this host alone, and an
    /// address that is nobody's here (RFC 5737).
    #[test]
    fn names_that_other_hosts_know_too() {
        for (host, address, ip, why) in [
            ("node7", [127, 0, 1, 1], "0.0.0.0", Some("stands for loopback addresses")),
            ("localhost", [127, 0, 0, 1], "127.0.0.1", None),
            ("127.0.0.1", [127, 0, 0, 1], "127.0.0.1", None),
            ("node9", [192, 0, 2, 1], "0.0.0.0", Some("is none of them")),
        ] {
            let (listener, all) = bind(host, &[(address, 0).into()], 0).unwrap();
            assert_eq!(listener.local_addr().unwrap().ip().to_string(), ip, "{host}");
            let same = match (all, why) {
                (Some(all), Some(why)) => all.starts_with(why),
                (all, why) => all == why,
            };
            assert!(same, "{host}: {all:?}");
        }
    }
}
