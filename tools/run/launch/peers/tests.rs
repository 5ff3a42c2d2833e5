//! Connected processes as threads of one: real connections, without the rendezvous.

use super::super::handshake::both_ends;
use super::*;
use std::net::{TcpListener, TcpStream};

const LONG: Duration = Duration::from_secs(30);

/// Ranks 0 to `world` - 1, connected, which wait up to `timeout` for each other.
fn connected(world: u32, timeout: Duration) -> Vec<SocketControlPlane> {
    let pace = LivenessTimeouts::new(timeout);
    let cores: Vec<Arc<ControlPlaneCore>> =
        (0..world).map(|rank| ControlPlaneCore::start_monitor(rank, world, pace).unwrap()).collect();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    for core in &cores[1..] {
        let joining = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (own, first) = both_ends(core.rank);
        let ((sealer, opener), (first_sealer, first_opener)) = (own.split_directions(), first.split_directions());
        core.add_connection(0, PeerStream::Tcp(joining), sealer, opener).unwrap();
        let accepted = PeerStream::Tcp(listener.accept().unwrap().0);
        cores[0].add_connection(core.rank, accepted, first_sealer, first_opener).unwrap();
    }
    cores.into_iter().map(|core| SocketControlPlane::new(core, "here".to_owned())).collect()
}

/// Calls `work` on every rank; returns the results by rank. A rank leaves when its work is done.
fn on_all<T: Send>(peers: Vec<SocketControlPlane>, work: impl Fn(SocketControlPlane) -> T + Sync) -> Vec<T> {
    std::thread::scope(|scope| {
        let start = |peers| scope.spawn(|| work(peers));
        let threads: Vec<_> = peers.into_iter().map(start).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    })
}

#[test]
fn steps_follow_each_other() {
    on_all(connected(4, LONG), |peers| {
        for round in 0..200u8 {
            let all = peers.all_gather("step", &[round, peers.rank() as u8]).unwrap();
            let expected: Vec<Vec<u8>> = (0..4).map(|rank| vec![round, rank]).collect();
            assert_eq!(all, expected);
        }
        assert_eq!(peers.finish_run(), Ok(()));
    });
}

/// In any order of ends, an announced end is not taken for a failure.
#[test]
fn short_runs_end_well() {
    for _ in 0..50 {
        for result in on_all(connected(3, LONG), |peers| {
            peers.all_gather("step", &[])?;
            peers.finish_run()
        }) {
            assert_eq!(result, Ok(()));
        }
    }
}

#[test]
fn large_messages_go_to_rank_0() {
    let bytes = |rank: u32| {
        let word = |index: u32| (index.wrapping_mul(rank + 3) >> 5) as u8;
        (0..9_000_001).map(word).collect::<Vec<u8>>()
    };
    on_all(connected(3, LONG), |peers| {
        peers.allow_bytes(20 << 20);
        peers.all_gather("start", &[]).unwrap();
        let all = peers.collect_messages("outputs", &bytes(peers.rank())).unwrap();
        match peers.rank() {
            0 => assert!(all.unwrap().iter().zip(0..).all(|(found, rank)| *found == bytes(rank))),
            _ => assert_eq!(all, None),
        }
        peers.finish_run().unwrap();
    });
}

/// The memory that a rank with the token, or rank 0, makes another process keep is bounded by the sizes of the run.
#[test]
fn messages_have_a_largest_size() {
    let results = on_all(connected(2, LONG), |peers| {
        let size = if peers.rank() == 1 { SMALL + 1 } else { 1 };
        peers.all_gather("start", &vec![0; size]).unwrap_err()
    });
    let why = format!("the message of the step `start` has {} bytes, but the limit is {SMALL}", SMALL + 1);
    assert_eq!(results[1], ControlPlaneError::Broken { why: why.clone() });
    assert_eq!(results[0], ControlPlaneError::Broken { why });
}

/// Rank 0, or another rank, as the peer of one that sends frames of its own choice: returns the refusal.
fn refusal(rank: u32, allowed: usize, send: impl FnOnce(&mut dyn FnMut(FrameType, &[u8]))) -> String {
    let core = ControlPlaneCore::start_monitor(rank, 2, LivenessTimeouts::new(LONG)).unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let rogue = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (joining, coordinator) = both_ends(1);
    let (own, other) = if rank == 0 { (coordinator, joining) } else { (joining, coordinator) };
    let (sealer, opener) = own.split_directions();
    core.add_connection(1 - rank, PeerStream::Tcp(listener.accept().unwrap().0), sealer, opener).unwrap();
    let peers = SocketControlPlane::new(core, "here".to_owned());
    peers.allow_bytes(allowed);
    let (mut sealer, _) = other.split_directions();
    rogue.set_write_timeout(Some(Duration::from_millis(500))).unwrap();
    let mut refused = false;
    send(&mut |kind, payload| {
        // Frames of a refused process are ignored.
        refused |= refused || sealer.write_frame(&mut &rogue, kind, payload).is_err();
    });
    let until = Instant::now() + LONG;
    loop {
        match peers.peer_failure() {
            Some(ControlPlaneError::Lost { how, .. }) => return how,
            Some(other) => panic!("{other:?}"),
            None => assert!(Instant::now() < until, "not refused"),
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}

fn message(number: u64, what: &str, first_only: bool) -> Vec<u8> {
    encode_value(&MessageHead { number, step: what, is_first_only: first_only })
}

#[test]
fn frames_of_a_rogue_rank_are_refused() {
    let part = vec![0; wire::PART];
    let allowed = 3 << 20;
    let endless = refusal(0, allowed, |send| {
        (0..10_000).for_each(|_| send(FrameType::Part, &part));
    });
    assert_eq!(endless, "it sent a message that is too long");
    // Outputs may be that long, gathered messages may not.
    let gathered = refusal(0, allowed, |send| {
        (0..32).for_each(|_| send(FrameType::Part, &part));
        send(FrameType::Message, &message(0, "join", false));
    });
    assert_eq!(gathered, "it sent a message that is too long");
    // Each message is short enough, all of them together are not.
    let many = refusal(0, allowed, |send| {
        for number in 0..40 {
            (0..16).for_each(|_| send(FrameType::Part, &part));
            send(FrameType::Message, &message(number, "outputs", true));
        }
    });
    assert_eq!(many, "it sent more messages than may be in flight");
    let turns = refusal(0, allowed, |send| send(FrameType::Message, &message(7, "join", false)));
    assert_eq!(turns, "it sent a message of an unexpected step");
    let name = "x".repeat(MOST_NAME + 1);
    let named = refusal(0, allowed, |send| send(FrameType::Message, &message(0, &name, false)));
    assert_eq!(named, "it sent a message of an unexpected step");
}

#[test]
fn frames_of_a_rogue_rank_0_are_refused() {
    let part = vec![0; wire::PART];
    let endless = refusal(1, 1 << 30, |send| {
        (0..10_000).for_each(|_| send(FrameType::Part, &part));
    });
    assert_eq!(endless, "it sent a message that is too long");
    let unasked = refusal(1, 0, |send| {
        send(FrameType::Part, &[0; 2]);
        send(FrameType::Result, &encode_value(&0u64));
    });
    assert_eq!(unasked, "it sent an unexpected result");
    let greeting = refusal(1, 0, |send| send(FrameType::Hello, &[]));
    assert_eq!(greeting, "it sent a message that only the other end sends");
}

/// A relay between two ranks that changes, repeats or drops one frame ends the run, on all ranks, with one error.
#[test]
fn relays_that_alter_are_found_out() {
    for (tamper, expected) in [
        (Tamper::Flip, "was modified"),
        (Tamper::Repeat, "was repeated, but frame"),
        (Tamper::Drop, "arrived, but frame"),
    ] {
        let results = on_all(relayed(tamper), |peers| {
            for round in 0..1000u32 {
                if let Err(error) = peers.all_gather("step", &round.to_le_bytes()) {
                    return Some(error);
                }
            }
            None
        });
        for error in results {
            let Some(ControlPlaneError::Altered { rank: 1, how }) = &error else { panic!("{error:?}") };
            assert!(how.contains(expected), "{how}");
            assert_eq!(error.as_ref().unwrap().diag().code, "H0670");
        }
    }
}

#[derive(Clone, Copy, PartialEq, Debug)]
enum Tamper {
    Flip,
    Repeat,
    Drop,
}

/// Two ranks with a relay in between, which alters the 20th frame from rank 1.
fn relayed(tamper: Tamper) -> Vec<SocketControlPlane> {
    let pace = LivenessTimeouts::new(LONG);
    let cores = [0, 1].map(|rank| ControlPlaneCore::start_monitor(rank, 2, pace).unwrap());
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let connect = || {
        let one = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        (one, listener.accept().unwrap().0)
    };
    let ((first, to_first), (second, to_second)) = (connect(), connect());
    let (joining, coordinator) = both_ends(1);
    let (sealer, opener) = coordinator.split_directions();
    cores[0].add_connection(1, PeerStream::Tcp(first), sealer, opener).unwrap();
    let (sealer, opener) = joining.split_directions();
    cores[1].add_connection(0, PeerStream::Tcp(second), sealer, opener).unwrap();
    let (mut from_first, mut into_second) = (to_first.try_clone().unwrap(), to_second.try_clone().unwrap());
    std::thread::spawn(move || std::io::copy(&mut from_first, &mut into_second));
    std::thread::spawn(move || relay(tamper, to_second, to_first));
    cores.into_iter().map(|core| SocketControlPlane::new(core, "here".to_owned())).collect()
}

fn relay(tamper: Tamper, mut from: TcpStream, mut to: TcpStream) -> std::io::Result<()> {
    use std::io::{Read as _, Write as _};
    for number in 0.. {
        let mut frame = vec![0; 12];
        from.read_exact(&mut frame)?;
        let length = u32::from_le_bytes(frame[..4].try_into().unwrap()) as usize;
        frame.resize(12 + length, 0);
        from.read_exact(&mut frame[12..])?;
        match tamper {
            Tamper::Flip if number == 20 => frame[13] ^= 1,
            Tamper::Repeat if number == 20 => to.write_all(&frame)?,
            Tamper::Drop if number == 20 => continue,
            _ => {}
        }
        to.write_all(&frame)?;
    }
    Ok(())
}

#[test]
fn a_failure_is_heard_by_all() {
    let results = on_all(connected(4, LONG), |peers| match peers.rank() {
        2 => {
            peers.report_failure("H0601\n\nno file");
            None
        }
        _ => Some(peers.all_gather("step", &[]).unwrap_err()),
    });
    let why = "H0601\n\nno file".to_owned();
    let expected = Some(ControlPlaneError::Failed { rank: 2, why });
    assert_eq!(results, [expected.clone(), expected.clone(), None, expected]);
}

/// Nobody answers for a rank that leaves without a report; every other rank names it, not one that left since.
#[test]
fn a_rank_that_is_gone_is_named_by_all() {
    for gone in [0, 1, 3] {
        let results = on_all(connected(4, LONG), |peers| {
            (peers.rank() != gone).then(|| peers.all_gather("step", &[]).unwrap_err())
        });
        for error in results.into_iter().flatten() {
            assert!(matches!(error, ControlPlaneError::Lost { rank, .. } if rank == gone), "{error:?}");
        }
    }
}

#[test]
fn a_rank_that_does_not_come_is_named_by_all() {
    let timeout = Duration::from_millis(1200);
    let results = on_all(connected(3, timeout), |peers| {
        if peers.rank() == 1 {
            while peers.peer_failure().is_none() {
                std::thread::sleep(Duration::from_millis(5));
            }
            return peers.peer_failure().unwrap();
        }
        peers.all_gather("tune", &[]).unwrap_err()
    });
    let what = "tune".to_owned();
    let late = ControlPlaneError::Late { ranks: vec![1], what, timeout };
    assert!(results.iter().all(|error| *error == late), "{results:?}");
}

#[test]
fn ranks_at_different_steps() {
    let results = on_all(connected(2, LONG), |peers| {
        let what = if peers.rank() == 0 { "load" } else { "tune" };
        peers.all_gather(what, &[]).unwrap_err()
    });
    assert!(results.iter().all(|error| matches!(error, ControlPlaneError::Broken { .. })));
}

/// After rank 0 has everything, a process that ends is no failure.
#[test]
fn settled_is_settled() {
    on_all(connected(2, LONG), |peers| {
        peers.collect_messages("outputs", b"x").unwrap();
        if peers.rank() == 0 {
            peers.mark_complete();
            std::thread::sleep(Duration::from_millis(300));
            assert_eq!(peers.peer_failure(), None);
            peers.finish_run().unwrap();
        } else {
            std::thread::sleep(Duration::from_millis(100));
        }
    });
}

/// Wrong clocks are measured over connections, to within the time of a message.
#[test]
fn clocks_are_compared_over_connections() {
    let (start, day) = (Instant::now(), 86_400_000_000_000u64);
    let skew = |rank: u32| day * u64::from((rank * 3) % 5);
    let found = on_all(connected(4, LONG), |peers| {
        let now = || start.elapsed().as_nanos() as u64 + skew(peers.rank());
        let offsets = hostir::backend::clocks::compare_clocks(&peers, &now).unwrap();
        peers.finish_run().unwrap();
        offsets
    });
    println!("{:?}", found[0]);
    assert!(found.iter().all(|offsets| *offsets == found[0]));
    for (offset, rank) in found[0].iter().zip(0..) {
        let off = offset.ahead_ns - skew(rank) as i64;
        assert!(off.unsigned_abs() <= offset.error_ns, "{offset:?} is off by {off}");
        assert!(offset.error_ns < 100_000_000, "{offset:?}");
    }
}
