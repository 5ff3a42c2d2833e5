//! Rank 0's side of the rendezvous: admits processes until all have joined.
//!
//! One thread polls all unproven connections, and blocks on none. There are at most 64; each has little time and a
//! buffer as large as its part of the handshake. A new connection replaces a refused one, else the oldest of those in
//! the most common state: silent ones do not drive out those that greeted, nor the other way round. Proven connections
//! do not count, so strangers cost a process of the run no more than another attempt.

use super::handshake::{self, GreetingAnswer, HELLO, JoinClaim, JoinVerdict};
use super::local;
use super::peers::ControlPlaneCore;
use super::stream::{PeerListener, PeerStream};
use super::token::ConnectionKey;
use super::wire::{self, FrameOpener, FrameSealer, FrameType};
use hostir::backend::control_plane::{self, ControlPlaneError};
use hostir::diag::Diag;
use hostir::diag::message;
use hostir_tool_support::errors;
use rustix::event::{PollFd, PollFlags, poll};
use std::collections::BTreeSet;
use std::io::{ErrorKind, Read as _, Write as _};
use std::net::Shutdown;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The maximum number of unproven connections at a time.
const MOST_GUESTS: usize = 64;
/// The maximum number of connections that are accepted before all are polled again.
const MOST_AT_ONCE: usize = 16;
/// The time for a greeting, or for closing after a refusal.
const GREETING: Duration = Duration::from_secs(1);
/// The time that a handshake may take.
pub(super) const PATIENCE: Duration = Duration::from_secs(5);
/// Between two looks at the clock.
const PAUSE: rustix::time::Timespec = rustix::time::Timespec { tv_sec: 0, tv_nsec: 20_000_000 };
/// The number of refused processes that are remembered, for the message of a run that does not start.
const MOST_REFUSED: usize = 8;
/// The name of the first step, which ends when everybody has joined.
pub(super) const STEP: &str = "join";

/// Rank 0's knowledge of processes that it did not admit.
#[derive(Default)]
pub(super) struct RefusedJoins {
    /// A sentence for each kind of proven but refused process, for a run that does not start.
    notes: Vec<String>,
    /// The reason that it cannot come about.
    pub(super) cause: Option<Diag>,
    /// Processes of the run.
    world: u32,
    /// The number of connections without a proof, and the ranks of the run that they claimed, as long as these are few.
    unproved: (usize, BTreeSet<u32>),
    /// The number of connections of other versions of the protocol, and the first one's version.
    versions: (usize, u16),
}

impl RefusedJoins {
    fn add_note(&mut self, note: String) {
        if self.notes.len() < MOST_REFUSED && !self.notes.contains(&note) {
            self.notes.push(note);
        }
    }

    /// All of it as sentences. Unproven claims are counted, and come after the proven ones.
    pub(super) fn to_sentences(&self) -> Vec<String> {
        let mut all = self.notes.clone();
        if let (count @ 1.., version) = self.versions {
            let (who, own) = (count_connections(count), handshake::VERSION);
            let first = if count == 1 { "" } else { "initially " };
            all.push(format!(
                "{who} used {first}protocol version {version} instead of {own}: start the same hir-run on all hosts"
            ));
        }
        if let (count @ 1.., ranks) = &self.unproved {
            let ranks: Vec<u32> = ranks.iter().copied().collect();
            let said = match &ranks[..] {
                [] => String::new(),
                ranks => format!(" claimed to be {} but", control_plane::rank_list(ranks)),
            };
            let who = count_connections(*count);
            all.push(format!("{who}{said} did not prove knowledge of this run's token, or had no time to; if it came from your ranks, give all of them the same `HIR_TOKEN`"));
        }
        all
    }
}

/// A connection that has not proved itself.
struct PendingConnection {
    stream: PeerStream,
    since: Instant,
    heard: Vec<u8>,
    stage: HandshakeStage,
}

/// The next message of a guest.
enum HandshakeStage {
    Greeting,
    Proof(Box<(JoinClaim, FrameSealer, FrameOpener)>),
    /// It was refused; its connection is closed once it has had time to read that.
    Leaving,
}

/// The fate of a guest.
enum ConnectionFate {
    Stays,
    Goes,
    /// It knows the token.
    Proved(Box<(JoinClaim, FrameSealer, FrameOpener)>),
}

impl PendingConnection {
    /// True if its time was up at an instant.
    fn is_overdue(&self, at: Instant) -> bool {
        let patience = if matches!(self.stage, HandshakeStage::Proof(_)) { PATIENCE } else { GREETING };
        at.saturating_duration_since(self.since) > patience
    }

    /// The bytes that it has to send; a refused one is not read.
    fn bytes_wanted(&self) -> usize {
        match self.stage {
            HandshakeStage::Greeting => HELLO,
            HandshakeStage::Proof(_) => wire::frame_size(0),
            HandshakeStage::Leaving => 0,
        }
    }

    /// Reads the available bytes, no more than it has to send.
    fn read_available(&mut self, key: &ConnectionKey, refused: &mut RefusedJoins) -> ConnectionFate {
        loop {
            let mut bytes = [0; HELLO];
            let room = self.bytes_wanted().saturating_sub(self.heard.len()).min(bytes.len());
            if room == 0 {
                return ConnectionFate::Stays;
            }
            match (&self.stream).read(&mut bytes[..room]) {
                Ok(count) if count > 0 => self.heard.extend(&bytes[..count]),
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    return ConnectionFate::Stays;
                }
                Ok(_) | Err(_) => {
                    self.note_unproved(refused);
                    return ConnectionFate::Goes;
                }
            }
            match self.handle_message(key, refused) {
                ConnectionFate::Stays => {}
                next => return next,
            }
        }
    }

    /// Returns true if it hung up, or sent bytes too early.
    fn is_gone(&self) -> bool {
        loop {
            match (&self.stream).read(&mut [0]) {
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return error.kind() != ErrorKind::WouldBlock,
                Ok(_) => return true,
            }
        }
    }

    /// Refuses it with these bytes, which are the last.
    fn refuse_with(&mut self, bytes: &[u8]) -> ConnectionFate {
        let said = self.send_bytes(bytes);
        (self.since, self.stage) = (Instant::now(), HandshakeStage::Leaving);
        let _ = self.stream.shutdown(Shutdown::Write);
        said
    }

    /// Does what the bytes say that have arrived.
    fn handle_message(&mut self, key: &ConnectionKey, refused: &mut RefusedJoins) -> ConnectionFate {
        match &mut self.stage {
            HandshakeStage::Leaving => ConnectionFate::Stays,
            HandshakeStage::Greeting => match handshake::answer_greeting(key, &self.heard) {
                None => ConnectionFate::Stays,
                Some(GreetingAnswer::NoAnswer) => ConnectionFate::Goes,
                Some(GreetingAnswer::Version(version, greeting)) => {
                    let (count, first) = refused.versions;
                    refused.versions = (count + 1, if count == 0 { version } else { first });
                    self.refuse_with(&greeting)
                }
                Some(GreetingAnswer::Proof(parts)) => {
                    let (answer, claim, session) = *parts;
                    let (sealer, opener) = session.split_directions();
                    self.stage = HandshakeStage::Proof(Box::new((claim, sealer, opener)));
                    self.heard.clear();
                    self.send_bytes(&answer)
                }
            },
            HandshakeStage::Proof(parts) => match parts.2.take_frame(&self.heard, 0) {
                Ok(None) => ConnectionFate::Stays,
                Ok(Some((FrameType::Hello, _))) => match std::mem::replace(&mut self.stage, HandshakeStage::Leaving) {
                    HandshakeStage::Proof(parts) => ConnectionFate::Proved(parts),
                    HandshakeStage::Greeting | HandshakeStage::Leaving => ConnectionFate::Goes,
                },
                Ok(Some(_)) | Err(_) => {
                    self.note_unproved(refused);
                    ConnectionFate::Goes
                }
            },
        }
    }

    /// It leaves without a proof: one with another token hangs up when it sees rank 0's.
    fn note_unproved(&self, refused: &mut RefusedJoins) {
        if let HandshakeStage::Proof(parts) = &self.stage {
            let rank = parts.0.rank;
            let (count, ranks) = &mut refused.unproved;
            *count += 1;
            if rank < refused.world && ranks.len() < MOST_REFUSED {
                ranks.insert(rank);
            }
        }
    }

    /// Sends a few bytes, which a connection takes at once.
    fn send_bytes(&self, bytes: &[u8]) -> ConnectionFate {
        match (&self.stream).write_all(bytes) {
            Ok(()) => ConnectionFate::Stays,
            Err(_) => ConnectionFate::Goes,
        }
    }
}

fn count_connections(count: usize) -> String {
    match count {
        1 => "a connection, which may come from anybody,".to_owned(),
        count => format!("{count} connections, which may come from anybody,"),
    }
}

/// The connection that is replaced by the last one: a refused one, else the oldest of those in the most common state.
fn connection_to_evict(guests: &[PendingConnection]) -> usize {
    let silent = guests.iter().filter(|guest| matches!(guest.stage, HandshakeStage::Greeting)).count();
    let leaving = guests.iter().position(|guest| matches!(guest.stage, HandshakeStage::Leaving));
    let oldest = if silent * 2 > guests.len() {
        guests.iter().position(|guest| matches!(guest.stage, HandshakeStage::Greeting))
    } else {
        guests.iter().position(|guest| matches!(guest.stage, HandshakeStage::Proof(_)))
    };
    leaving.or(oldest).unwrap_or(0)
}

/// Rank 0 while it lets processes in.
pub(super) struct JoinServer<'a> {
    listener: &'a PeerListener,
    core: &'a Arc<ControlPlaneCore>,
    world: u32,
    key: &'a ConnectionKey,
    /// In the order in which they came.
    guests: Vec<PendingConnection>,
    refused: RefusedJoins,
}

impl<'a> JoinServer<'a> {
    pub(super) fn new(
        listener: &'a PeerListener,
        core: &'a Arc<ControlPlaneCore>,
        world: u32,
        key: &'a ConnectionKey,
    ) -> Self {
        let (guests, refused) = (Vec::new(), RefusedJoins { world, ..RefusedJoins::default() });
        Self { listener, core, world, key, guests, refused }
    }

    /// Admits processes until all have joined, the time is up, or one of them fails. Returns the refused ones.
    pub(super) fn admit_all(mut self, deadline: Instant, timeout: Duration) -> RefusedJoins {
        while self.core.first_failure().is_none() {
            let absent = self.core.absent_ranks();
            if absent.is_empty() {
                break;
            }
            if Instant::now() > deadline {
                let what = STEP.to_owned();
                self.guests.iter().for_each(|guest| guest.note_unproved(&mut self.refused));
                self.core.fail_run(ControlPlaneError::Late { ranks: absent, what, timeout });
                break;
            }
            self.wait_for_input();
            for guest in std::mem::take(&mut self.guests) {
                self.serve_connection(guest);
            }
            self.accept_connections();
        }
        self.refused
    }

    /// Waits until something arrives, or a moment has passed.
    fn wait_for_input(&self) {
        let listener = std::os::fd::AsFd::as_fd(self.listener);
        let mut all = vec![PollFd::from_borrowed_fd(listener, PollFlags::IN)];
        // Unread bytes would not let it wait.
        let heard = self.guests.iter().filter(|guest| guest.bytes_wanted() > 0);
        all.extend(heard.map(|guest| PollFd::new(&guest.stream, PollFlags::IN)));
        let _ = poll(&mut all, Some(&PAUSE));
    }

    /// Accepts waiting connections, at most so many that the others get time.
    fn accept_connections(&mut self) {
        for _ in 0..MOST_AT_ONCE {
            let stream = match self.listener.accept() {
                Ok(stream) => stream,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                Err(error) => {
                    match local::other_user(&error) {
                        Some(user) => self.refused.add_note(format!(
                            "a process of user {user} was rejected: this run belongs to user {}",
                            local::effective_user()
                        )),
                        // Perhaps out of descriptors: the present connections come first.
                        None => return std::thread::sleep(Duration::from_millis(10)),
                    }
                    continue;
                }
            };
            let (since, heard, stage) = (Instant::now(), Vec::new(), HandshakeStage::Greeting);
            self.serve_connection(PendingConnection { stream, since, heard, stage });
            if self.guests.len() > MOST_GUESTS {
                let guest = self.guests.remove(connection_to_evict(&self.guests));
                guest.note_unproved(&mut self.refused);
            }
        }
    }

    fn serve_connection(&mut self, mut guest: PendingConnection) {
        // The time before the poll: if rank 0 itself had no time after it, data that arrived meanwhile is still to be
        // read.
        let looked = Instant::now();
        match guest.read_available(self.key, &mut self.refused) {
            ConnectionFate::Stays if guest.is_overdue(looked) => guest.note_unproved(&mut self.refused),
            ConnectionFate::Stays => self.guests.push(guest),
            ConnectionFate::Goes => {}
            ConnectionFate::Proved(parts) => {
                let (claim, mut sealer, opener) = *parts;
                let verdict = self.judge_claim(claim);
                let Ok(frame) = sealer.seal_frame(FrameType::Verdict, &[verdict as u8]) else {
                    return;
                };
                if verdict != JoinVerdict::Welcome {
                    self.record_verdict(verdict, claim);
                    guest.refuse_with(&frame);
                    self.guests.push(guest);
                } else if !guest.is_gone() && matches!(guest.send_bytes(&frame), ConnectionFate::Stays) {
                    // A process whose connection broke may come again.
                    let _ = self.core.add_connection(claim.rank, guest.stream, sealer, opener);
                }
            }
        }
    }

    fn judge_claim(&self, claim: JoinClaim) -> JoinVerdict {
        match claim {
            JoinClaim { world, .. } if world != self.world => JoinVerdict::World,
            JoinClaim { rank, .. } if !self.core.absent_ranks().contains(&rank) => JoinVerdict::Rank,
            JoinClaim { .. } => JoinVerdict::Welcome,
        }
    }

    /// Records why somebody does not come. A process that knows the token, has another idea of the run, and is missing
    /// here, ends it: waiting brings nobody else.
    fn record_verdict(&mut self, verdict: JoinVerdict, claim: JoinClaim) {
        let (JoinClaim { rank, world }, own) = (claim, self.world);
        match verdict {
            JoinVerdict::Welcome => return,
            JoinVerdict::World => self.refused.add_note(format!(
                "a process that claimed to be rank {rank} of {world} was rejected: rank 0 was started as one of {own}"
            )),
            JoinVerdict::Rank => self.refused.add_note(format!("two processes claimed to be rank {rank}")),
        }
        let missing = self.core.absent_ranks().contains(&rank);
        if verdict != JoinVerdict::World || !missing || self.refused.cause.is_some() {
            return;
        }
        let message = message!("rank {} was started as one of {} processes, but rank 0 as one of {}", rank, world, own);
        let cause =
            Diag::global_error(errors::REFUSED, message).with_note("set the same number of processes on all ranks");
        let why = control_plane::failure_report(std::slice::from_ref(&cause));
        self.refused.cause = Some(cause);
        self.core.fail_run(ControlPlaneError::Failed { rank: 0, why });
    }
}

#[cfg(test)]
#[path = "lobby/tests.rs"]
mod tests;
