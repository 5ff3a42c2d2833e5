//! Connected processes as threads of one: real connections, without the rendezvous.

use super::*;
use std::net::TcpListener;

const LONG: Duration = Duration::from_secs(30);

/// Ranks 0 to `world` - 1, connected, which wait up to `timeout` for each other.
fn connected(world: u32, timeout: Duration) -> Vec<Peers> {
    let pace = Pace::new(timeout);
    let cores: Vec<Arc<Core>> = (0..world).map(|rank| Core::start(rank, world, pace)).collect();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    for core in &cores[1..] {
        let joining = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        core.add(0, joining).unwrap();
        cores[0].add(core.rank, listener.accept().unwrap().0).unwrap();
    }
    cores.into_iter().map(|core| Peers::new(core, "here".to_owned())).collect()
}

/// Does something on every rank; what each returns, by rank. A rank leaves when its work is done.
fn on_all<T: Send>(peers: Vec<Peers>, work: impl Fn(Peers) -> T + Sync) -> Vec<T> {
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
            let all = peers.gather("step", &[round, peers.rank() as u8]).unwrap();
            let expected: Vec<Vec<u8>> = (0..4).map(|rank| vec![round, rank]).collect();
            assert_eq!(all, expected);
        }
        assert_eq!(peers.finish(), Ok(()));
    });
}

/// Whoever ends first, nobody takes an end that was announced for a failure.
#[test]
fn short_runs_end_well() {
    for _ in 0..50 {
        for result in on_all(connected(3, LONG), |peers| {
            peers.gather("step", &[])?;
            peers.finish()
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
        peers.allow(20 << 20);
        peers.gather("start", &[]).unwrap();
        let all = peers.collect("outputs", &bytes(peers.rank())).unwrap();
        match peers.rank() {
            0 => assert!(all.unwrap().iter().zip(0..).all(|(found, rank)| *found == bytes(rank))),
            _ => assert_eq!(all, None),
        }
        peers.finish().unwrap();
    });
}

#[test]
fn messages_have_a_largest_size() {
    let results = on_all(connected(2, LONG), |peers| {
        let size = if peers.rank() == 1 { 40 << 20 } else { 1 };
        peers.gather("start", &vec![0; size]).unwrap_err()
    });
    let how = "it sent a message that is too long".to_owned();
    assert_eq!(results[0], ExchangeError::Lost { rank: 1, how });
}

#[test]
fn a_failure_is_heard_by_all() {
    let results = on_all(connected(4, LONG), |peers| match peers.rank() {
        2 => {
            peers.fail("H0601\n\nno file");
            None
        }
        _ => Some(peers.gather("step", &[]).unwrap_err()),
    });
    let why = "H0601\n\nno file".to_owned();
    let expected = Some(ExchangeError::Failed { rank: 2, why });
    assert_eq!(results, [expected.clone(), expected.clone(), None, expected]);
}

/// Nobody answers for a rank that leaves without a word; every other rank names it, not one that left
/// since.
#[test]
fn a_rank_that_is_gone_is_named_by_all() {
    for gone in [0, 1, 3] {
        let results = on_all(connected(4, LONG), |peers| {
            (peers.rank() != gone).then(|| peers.gather("step", &[]).unwrap_err())
        });
        for error in results.into_iter().flatten() {
            assert!(matches!(error, ExchangeError::Lost { rank, .. } if rank == gone), "{error:?}");
        }
    }
}

#[test]
fn a_rank_that_does_not_come_is_named_by_all() {
    let timeout = Duration::from_millis(1200);
    let results = on_all(connected(3, timeout), |peers| {
        if peers.rank() == 1 {
            while peers.failed().is_none() {
                std::thread::sleep(Duration::from_millis(5));
            }
            return peers.failed().unwrap();
        }
        peers.gather("tune", &[]).unwrap_err()
    });
    let what = "tune".to_owned();
    let late = ExchangeError::Late { ranks: vec![1], what, timeout };
    assert!(results.iter().all(|error| *error == late), "{results:?}");
}

#[test]
fn ranks_at_different_steps() {
    let results = on_all(connected(2, LONG), |peers| {
        let what = if peers.rank() == 0 { "load" } else { "tune" };
        peers.gather(what, &[]).unwrap_err()
    });
    assert!(results.iter().all(|error| matches!(error, ExchangeError::Broken { .. })));
}

/// What rank 0 has, it has: a process that ends afterwards is no failure.
#[test]
fn settled_is_settled() {
    on_all(connected(2, LONG), |peers| {
        peers.collect("outputs", b"x").unwrap();
        if peers.rank() == 0 {
            peers.settle();
            std::thread::sleep(Duration::from_millis(300));
            assert_eq!(peers.failed(), None);
            peers.finish().unwrap();
        } else {
            std::thread::sleep(Duration::from_millis(100));
        }
    });
}

/// Clocks that were set wrong are found over connections, as close as a message takes.
#[test]
fn clocks_are_compared_over_connections() {
    let (start, day) = (Instant::now(), 86_400_000_000_000u64);
    let skew = |rank: u32| day * u64::from((rank * 3) % 5);
    let found = on_all(connected(4, LONG), |peers| {
        let now = || start.elapsed().as_nanos() as u64 + skew(peers.rank());
        let offsets = hostir::backend::clocks::compare(&peers, &now).unwrap();
        peers.finish().unwrap();
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
