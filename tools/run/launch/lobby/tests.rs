//! Rank 0's side, connection by connection, over pairs of sockets.

use super::super::handshake::{ANSWER, JoinHandshake};
use super::super::liveness::LivenessTimeouts;
use super::*;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};

/// Rank 0 of 2 with a token; nobody connects to its listener.
fn with_lobby(work: impl FnOnce(&mut JoinServer<'_>, &ConnectionKey)) {
    let name = format!("hir-run test {}", super::super::token::random_text().unwrap());
    let address = SocketAddr::from_abstract_name(name).unwrap();
    let listener = PeerListener::from_unix(UnixListener::bind_addr(&address).unwrap()).unwrap();
    let core = ControlPlaneCore::start_monitor(0, 2, LivenessTimeouts::new(Duration::from_secs(60))).unwrap();
    let key = ConnectionKey([1; 32]);
    work(&mut JoinServer::new(&listener, &core, 2, &key), &key);
}

/// A new connection, and its other end, which has sent something already.
fn guest(said: &[u8]) -> (PendingConnection, UnixStream) {
    let (near, mut far) = UnixStream::pair().unwrap();
    near.set_nonblocking(true).unwrap();
    far.write_all(said).unwrap();
    let (since, heard) = (Instant::now(), Vec::new());
    (PendingConnection { stream: PeerStream::Unix(near), since, heard, stage: HandshakeStage::Greeting }, far)
}

/// The first message of rank 1.
fn joining(key: &ConnectionKey) -> JoinHandshake {
    JoinHandshake::new(key, JoinClaim { rank: 1, world: 2 }).unwrap()
}

/// Goes on with the guest that came last.
fn go_on(lobby: &mut JoinServer<'_>) {
    let guest = lobby.guests.pop().unwrap();
    lobby.serve_connection(guest);
}

/// Rank 1 up to its proof, which was sent but not read.
fn up_to_proof(lobby: &mut JoinServer<'_>, key: &ConnectionKey) -> (UnixStream, FrameSealer, FrameOpener) {
    let joining = joining(key);
    let (guest, mut far) = guest(joining.hello_bytes());
    lobby.serve_connection(guest);
    let mut answer = [0; ANSWER];
    far.read_exact(&mut answer).unwrap();
    let (mut sealer, opener) = joining.verify_answer(&answer).unwrap().split_directions();
    far.write_all(&sealer.seal_frame(FrameType::Hello, &[]).unwrap()).unwrap();
    (far, sealer, opener)
}

#[test]
fn who_proves_itself_is_added() {
    with_lobby(|lobby, key| {
        let (mut far, _, mut opener) = up_to_proof(lobby, key);
        assert_eq!(lobby.core.absent_ranks(), [1]);
        go_on(lobby);
        let verdict = opener.read_frame(&mut far).unwrap();
        assert_eq!(verdict, Some((FrameType::Verdict, vec![JoinVerdict::Welcome as u8])));
        assert!(lobby.core.absent_ranks().is_empty() && lobby.guests.is_empty());
        assert!(lobby.refused.to_sentences().is_empty());
    });
}

/// Rank 0 had no time while a rank gave up: that connection is not the rank's, which may come again.
#[test]
fn who_hung_up_is_not_counted() {
    with_lobby(|lobby, key| {
        let (far, ..) = up_to_proof(lobby, key);
        drop(far);
        go_on(lobby);
        assert_eq!((lobby.core.absent_ranks(), lobby.guests.len()), (vec![1], 0));
        // A process of the run sends nothing more before it is admitted.
        let (mut far, ..) = up_to_proof(lobby, key);
        far.write_all(b"x").unwrap();
        go_on(lobby);
        assert_eq!((lobby.core.absent_ranks(), lobby.guests.len()), (vec![1], 0));
        let (_far, ..) = up_to_proof(lobby, key);
        go_on(lobby);
        assert!(lobby.core.absent_ranks().is_empty());
    });
}

/// A refused connection is not read any more, and closed after a while.
#[test]
fn what_comes_behind_a_refusal_is_not_read() {
    with_lobby(|lobby, key| {
        let (guest, mut far) = guest(b"HIRX\x01\x00");
        far.write_all(&[0xff; 20_000]).unwrap();
        lobby.serve_connection(guest);
        let mut said = Vec::new();
        far.read_to_end(&mut said).unwrap();
        assert_eq!((said.len(), &said[..6]), (22, &b"HIRX\x03\x00"[..]));
        let guest = &mut lobby.guests[0];
        assert_eq!((guest.bytes_wanted(), guest.is_overdue(Instant::now())), (0, false));
        assert!(matches!(guest.read_available(key, &mut lobby.refused), ConnectionFate::Stays));
        assert!(guest.heard.len() <= HELLO, "{}", guest.heard.len());
        guest.since -= GREETING + Duration::from_millis(1);
        go_on(lobby);
        assert!(lobby.guests.is_empty());
        let [note] = &lobby.refused.to_sentences()[..] else { panic!("one note") };
        let words = "a connection, which may come from anybody, used protocol version 1 instead of 3";
        assert!(note.starts_with(words), "{note}");
    });
}

/// The due frame has one length; another one is not waited for.
#[test]
fn a_long_proof_is_none() {
    with_lobby(|lobby, key| {
        for length in [16u32, 18, 65_535] {
            let (guest, mut far) = guest(joining(key).hello_bytes());
            lobby.serve_connection(guest);
            far.write_all(&[&length.to_le_bytes()[..], &[0; 8]].concat()).unwrap();
            go_on(lobby);
            assert!(lobby.guests.is_empty(), "{length}");
        }
        let [note] = &lobby.refused.to_sentences()[..] else { panic!("one note") };
        let words = "3 connections, which may come from anybody, claimed to be rank 1 but did not prove";
        assert!(note.starts_with(words), "{note}");
    });
}

/// Anybody may claim any rank: the memory of claims is bounded, without ranks that the run does not have.
#[test]
fn hearsay_is_counted() {
    with_lobby(|lobby, key| {
        for rank in [1, 7, 4_000_000_000, 0, 1] {
            let joining = JoinHandshake::new(key, JoinClaim { rank, world: u32::MAX }).unwrap();
            let (guest, far) = guest(joining.hello_bytes());
            lobby.serve_connection(guest);
            drop(far);
            go_on(lobby);
        }
        for version in 4..61 {
            let (guest, _far) = guest(&[b'H', b'I', b'R', b'X', version, 0]);
            lobby.serve_connection(guest);
        }
        let notes = lobby.refused.to_sentences();
        assert_eq!(notes.len(), 2, "{notes:?}");
        assert!(notes[0].starts_with("57 connections") && notes[0].contains("initially protocol version 4"));
        let words = "5 connections, which may come from anybody, claimed to be ranks 0 and 1 but did not";
        assert!(notes[1].starts_with(words), "{notes:?}");
    });
}

/// Strangers that greeted and strangers that did not replace one another of their own kind.
#[test]
fn who_makes_room() {
    let key = ConnectionKey([1; 32]);
    let mut ends = Vec::new();
    let mut many = |stages: &str| -> Vec<PendingConnection> {
        let one = |stage| {
            let said = joining(&key);
            let (mut guest, far) = guest(if stage == 'g' { b"" } else { said.hello_bytes() });
            ends.push(far);
            let _ = guest.read_available(&key, &mut RefusedJoins::default());
            if stage == 'l' {
                guest.stage = HandshakeStage::Leaving;
            }
            guest
        };
        stages.chars().map(one).collect()
    };
    for (stages, goes) in [
        // The newcomer has had no time; neither has the one before it.
        ("ppppg", 0),
        ("pppgg", 0),
        ("gpppg", 1),
        ("ggggp", 0),
        ("pgggg", 1),
        ("ggggg", 0),
        ("ppppp", 0),
        ("gpplg", 3),
        ("gplgl", 2),
    ] {
        assert_eq!(connection_to_evict(&many(stages)), goes, "{stages}");
    }
}
