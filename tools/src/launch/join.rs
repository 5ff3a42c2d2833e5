//! How the processes of a run find each other: rank 0 listens, the others connect.

use super::detect::{Place, Source};
use super::handshake::{self, Answer, Claim, Verdict};
use super::hosts;
use super::peers::{Core, Pace, Peers};
use super::token::Key;
use crate::run::errors;
use hostir::backend::exchange::{self, Exchange as _, ExchangeError};
use hostir::diag::Diag;
use std::io::{Error, ErrorKind};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Between two looks for a new connection, or two attempts to make one.
const PAUSE: Duration = Duration::from_millis(10);
/// Handshakes at a time; a connection beyond them is dropped and may come again.
const MOST_GUESTS: usize = 64;
/// Refused processes that are remembered, for the message of a run that does not come about.
const MOST_REFUSED: usize = 8;
/// The name of the first step, which ends when everybody is here.
const STEP: &str = "join";

/// Joins the run. Returns when all processes are here.
///
/// # Errors
/// [`errors::LISTEN`], [`errors::UNREACHABLE`], [`errors::REFUSED`], or who did not come.
pub(crate) fn join(
    place: &Place,
    host: Option<String>,
    timeout: Duration,
) -> Result<Arc<Peers>, Diag> {
    let pace = Pace::new(timeout);
    let core = Core::start(place.rank, place.world, pace);
    let peers = Arc::new(Peers::new(core.clone(), hosts::own(host)));
    let key = Key::new(&place.token);
    let deadline = Instant::now() + timeout;
    let mut refused = Refused::default();
    if place.rank == 0 {
        let listener = listener(place)?;
        refused = lobby(&listener, &core, place.world, &key, deadline, timeout);
    } else {
        let stream = connect(place, &key, deadline, timeout)?;
        core.add(0, stream).map_err(|error| unreachable(place, timeout, &error.to_string()))?;
    }
    match (peers.gather(STEP, &[]), refused.cause) {
        (Ok(_), _) => Ok(peers),
        (Err(_), Some(cause)) => Err(cause),
        (Err(error), None) => Err(refused.notes.into_iter().fold(error.diag(), Diag::note)),
    }
}

/// Rank 0's ear: one that `--processes` made, or the coordinator's address.
fn listener(place: &Place) -> Result<TcpListener, Diag> {
    let made = if place.source == Source::Processes {
        std::io::stdin().as_fd().try_clone_to_owned().map(TcpListener::from)
    } else {
        listen(&place.host, place.port)
    };
    let ready = made.and_then(|listener| listener.set_nonblocking(true).map(|()| listener));
    ready.map_err(|error| {
        let at = address(place);
        let message = match error.kind() {
            ErrorKind::AddrInUse => format!("rank 0 cannot listen at {at}: the port is in use"),
            _ => format!("rank 0 cannot listen at {at}: {error}"),
        };
        Diag::global(errors::LISTEN, message).note(elsewhere(place.source))
    })
}

/// How another address is said.
fn elsewhere(source: Source) -> &'static str {
    match source {
        Source::Processes => "start it again: the system chooses the port",
        Source::Explicit => {
            "name an address of rank 0's host and a port that is free there in `--coordinator`, or `HIR_COORDINATOR`, on all ranks"
        }
        Source::Torchrun => {
            "`HIR_COORDINATOR=HOST:PORT` on all ranks names another address of rank 0's host; without it the port is `MASTER_PORT` + 43"
        }
        Source::Mpirun | Source::Srun | Source::Pmix => {
            "`HIR_COORDINATOR=HOST:PORT` on all ranks names another address of rank 0's host; without it the port is `MASTER_PORT` + 43, or made from the job's id"
        }
    }
}

/// Listens on the address of this name alone. A name that is not of this machine (an address that is
/// translated on the way) means all of them.
fn listen(host: &str, port: u16) -> std::io::Result<TcpListener> {
    let addresses = hosts::addresses(host, port)?;
    match TcpListener::bind(addresses.as_slice()) {
        Err(error) if error.kind() == ErrorKind::AddrNotAvailable => {
            TcpListener::bind(("0.0.0.0", port))
        }
        bound => bound,
    }
}

fn address(place: &Place) -> String {
    format!("{}:{}", place.host, place.port)
}

/// Lets processes in until all are here, the time is up, or one of them fails. Gives what it refused.
fn lobby(
    listener: &TcpListener,
    core: &Arc<Core>,
    world: u32,
    key: &Key,
    deadline: Instant,
    timeout: Duration,
) -> Refused {
    let desk = Arc::new(Desk { world, taken: Mutex::new(vec![0]), refused: Mutex::default() });
    let guests = Arc::new(AtomicUsize::new(0));
    while core.failed().is_none() {
        let absent = core.absent();
        if absent.is_empty() {
            break;
        }
        if Instant::now() > deadline {
            core.fail(ExchangeError::Late { ranks: absent, what: STEP.to_owned(), timeout });
            break;
        }
        let Ok((stream, _)) = listener.accept() else {
            std::thread::sleep(PAUSE);
            continue;
        };
        if guests.load(Ordering::Acquire) >= MOST_GUESTS {
            continue;
        }
        guests.fetch_add(1, Ordering::AcqRel);
        let (core, desk, key, guests) = (core.clone(), desk.clone(), key.clone(), guests.clone());
        std::thread::spawn(move || {
            desk.receive(&core, &key, stream);
            guests.fetch_sub(1, Ordering::AcqRel);
        });
    }
    desk.refused().clone()
}

/// What rank 0 knows of processes that it did not let in.
#[derive(Clone, Default)]
struct Refused {
    /// A sentence for each kind of them, for a run that does not come about.
    notes: Vec<String>,
    /// Why it cannot come about.
    cause: Option<Diag>,
}

/// Who may come in.
struct Desk {
    world: u32,
    taken: Mutex<Vec<u32>>,
    refused: Mutex<Refused>,
}

impl Desk {
    fn receive(&self, core: &Arc<Core>, key: &Key, stream: TcpStream) {
        let mut reserved = None;
        let admitted = stream.set_nonblocking(false).and_then(|()| {
            handshake::admit(&stream, key, |rank, world| {
                let verdict = self.verdict(rank, world);
                reserved = (verdict == Verdict::Welcome).then_some(rank);
                verdict
            })
        });
        let joined = match admitted {
            Ok(Some(claim)) if claim.verdict == Verdict::Welcome => {
                core.add(claim.rank, stream).is_ok()
            }
            Ok(Some(claim)) => {
                self.remember(core, claim);
                false
            }
            _ => false,
        };
        if let Some(rank) = reserved.filter(|_| !joined) {
            // It went away in the middle, and may come again.
            self.taken().retain(|other| *other != rank);
        }
    }

    fn taken(&self) -> std::sync::MutexGuard<'_, Vec<u32>> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn refused(&self) -> std::sync::MutexGuard<'_, Refused> {
        self.refused.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps what may explain why somebody does not come. A process that knows the token, has another
    /// idea of the run, and is missing here, ends it: waiting brings nobody else.
    fn remember(&self, core: &Core, claim: Claim) {
        let Claim { verdict, rank, world } = claim;
        let note = match verdict {
            Verdict::Welcome => return,
            Verdict::Token => format!(
                "a process that said it is rank {rank} was refused: it does not know this run's token; give all ranks the same `HIR_TOKEN`"
            ),
            Verdict::Version => format!(
                "a process that said it is rank {rank} was refused: it is of another version of hir-run"
            ),
            Verdict::World => format!(
                "a process that said it is rank {rank} of {world} was refused: rank 0 was started as one of {}",
                self.world
            ),
            Verdict::Rank => format!("two processes said that they are rank {rank}"),
        };
        let mut refused = self.refused();
        if refused.notes.len() < MOST_REFUSED && !refused.notes.contains(&note) {
            refused.notes.push(note);
        }
        if verdict != Verdict::World || self.taken().contains(&rank) || refused.cause.is_some() {
            return;
        }
        let message = format!(
            "rank {rank} was started as one of {world} processes, rank 0 as one of {}",
            self.world
        );
        let cause = Diag::global(errors::REFUSED, message)
            .note("say the same number of processes on all ranks");
        let why = exchange::report(std::slice::from_ref(&cause));
        refused.cause = Some(cause);
        drop(refused);
        core.fail(ExchangeError::Failed { rank: 0, why });
    }

    fn verdict(&self, rank: u32, world: u32) -> Verdict {
        if world != self.world {
            return Verdict::World;
        }
        let mut taken = self.taken();
        if rank >= world || taken.contains(&rank) {
            return Verdict::Rank;
        }
        taken.push(rank);
        Verdict::Welcome
    }
}

fn unreachable(place: &Place, timeout: Duration, why: &str) -> Diag {
    let message = format!(
        "rank {} cannot reach rank 0 at {} within {} ms: {why}",
        place.rank,
        address(place),
        timeout.as_millis()
    );
    Diag::global(errors::UNREACHABLE, message)
        .note("look at what rank 0 printed; its host and port have to be open to the other ranks")
}

/// Connects to rank 0, again and again until it is there.
fn connect(
    place: &Place,
    key: &Key,
    deadline: Instant,
    timeout: Duration,
) -> Result<TcpStream, Diag> {
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        let why = match attempt(place, key, left) {
            Ok((stream, Answer::Verdict(Verdict::Welcome))) => return Ok(stream),
            Ok((_, Answer::Verdict(verdict))) => return Err(refused(place, verdict)),
            Ok((_, Answer::Stranger)) => {
                let message = format!("what answers at {} is no hir-run", address(place));
                return Err(
                    Diag::global(errors::UNREACHABLE, message).note(elsewhere(place.source))
                );
            }
            Err(error) => error,
        };
        if Instant::now() + PAUSE >= deadline {
            return Err(unreachable(place, timeout, &words(&why)));
        }
        std::thread::sleep(PAUSE);
    }
}

fn words(error: &Error) -> String {
    match error.kind() {
        ErrorKind::ConnectionRefused => "nobody listens there".to_owned(),
        ErrorKind::TimedOut | ErrorKind::WouldBlock => "it does not answer".to_owned(),
        ErrorKind::UnexpectedEof | ErrorKind::ConnectionReset => {
            "it closed the connection".to_owned()
        }
        _ => error.to_string(),
    }
}

fn attempt(place: &Place, key: &Key, left: Duration) -> std::io::Result<(TcpStream, Answer)> {
    let one = |address: &SocketAddr| {
        let patience = left.clamp(PAUSE, Duration::from_secs(1));
        TcpStream::connect_timeout(address, patience)
    };
    let mut result = Err(ErrorKind::AddrNotAvailable.into());
    for address in hosts::addresses(&place.host, place.port)? {
        result = one(&address);
        if result.is_ok() {
            break;
        }
    }
    let stream = result?;
    if stream.local_addr()? == stream.peer_addr()? {
        // Where nobody listens on a port that systems hand out, a connection may reach itself.
        return Err(ErrorKind::ConnectionRefused.into());
    }
    let answer = handshake::join(&stream, key, place.rank, place.world, left)?;
    Ok((stream, answer))
}

fn refused(place: &Place, verdict: Verdict) -> Diag {
    let (rank, world) = (place.rank, place.world);
    let (why, note) = match verdict {
        Verdict::Token => (
            "its token is another".to_owned(),
            "give all ranks the same `HIR_TOKEN`; or another run listens there, and `HIR_COORDINATOR` names another port",
        ),
        Verdict::Version => {
            ("it is of another version".to_owned(), "start the same hir-run on all hosts")
        }
        Verdict::World => (
            format!("its run has not {world} processes"),
            "say the same number of processes on all ranks",
        ),
        Verdict::Rank | Verdict::Welcome => (
            format!("another process is rank {rank}"),
            "start one process for each rank, from 0 up",
        ),
    };
    let message = format!("rank 0 at {} refused rank {rank}: {why}", address(place));
    Diag::global(errors::REFUSED, message).note(note)
}
