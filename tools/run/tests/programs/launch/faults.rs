//! Faults while ranks find each other, and a full disk.

use super::*;
use std::os::unix::process::ExitStatusExt as _;

/// A token of another run.
const ANOTHER: &str = "0123456789abcdef";
const SHORT: &[&str] = &["--timeout-ms", "1500"];

#[test]
fn a_rank_that_never_starts() {
    let site = Site::new();
    let children = site.ranks(0..3, SHORT);
    for (rank, (status, out, err)) in children.into_iter().map(end).enumerate() {
        assert_eq!((status, out.as_str()), (Some(5), ""), "{err}");
        let said = err.contains("error[H0531]: rank 3 did not reach the step `join` within 1500 ms");
        assert!(said || rank > 0, "{err}");
    }
    // A later run on the same port.
    runs(&site);
}

#[test]
fn rank_0_never_starts() {
    let site = Site::new();
    let (status, _, err) = end(site.rank(2, SHORT).spawn().unwrap());
    assert_eq!(status, Some(3));
    let expected = format!(
        "error[H0644]: rank 2 cannot reach rank 0 at 127.0.0.1:{} within 1500 ms: the connection was refused",
        site.port
    );
    assert!(err.starts_with(&expected), "{err}");
}

#[test]
fn a_port_in_use() {
    let site = Site::new();
    let taken = TcpListener::bind(("127.0.0.1", site.port)).unwrap();
    let (status, _, err) = end(site.rank(0, SHORT).spawn().unwrap());
    assert_eq!(status, Some(3));
    assert!(err.contains("error[H0643]") && err.contains("the port is in use"), "{err}");
    // What listens there says nothing, or something else.
    let (status, _, err) = end(site.rank(1, SHORT).spawn().unwrap());
    assert_eq!((status, err.contains("H0644")), (Some(3), true), "{err}");
    drop(taken);
    let site = Site::new();
    let taken = TcpListener::bind(("127.0.0.1", site.port)).unwrap();
    let other = std::thread::spawn(move || {
        let (mut stream, _) = taken.accept().unwrap();
        stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").unwrap();
        let _ = stream.read(&mut [0; 64]);
    });
    // Anybody may say anything: it is told when the time is up.
    let (status, _, err) = end(site.rank(1, SHORT).spawn().unwrap());
    assert_eq!(status, Some(3));
    assert!(err.contains("error[H0644]") && err.contains("is not hir-run"), "{err}");
    other.join().unwrap();
}

/// Strangers that say nothing, garbage, half of a greeting, or very slowly something, stay outside.
#[test]
fn strangers() {
    let site = Site::new();
    let first = site.rank(0, &["--timeout-ms", "20000"]).spawn().unwrap();
    let connect = || loop {
        match TcpStream::connect(("127.0.0.1", site.port)) {
            Ok(stream) => break stream,
            Err(_) => std::thread::sleep(Duration::from_millis(5)),
        }
    };
    let silent: Vec<TcpStream> = (0..20).map(|_| connect()).collect();
    let mut noise = connect();
    let _ = noise.write_all(&[0xff; 4096]);
    let mut half = connect();
    half.write_all(b"HIRX\x01\x00half").unwrap();
    drop(half);
    let mut slow = connect();
    slow.write_all(b"H").unwrap();
    let mut old = connect();
    old.write_all(b"HIRX\x63\x00................\x01\x00\x00\x00\x04\x00\x00\x00").unwrap();
    let others = site.ranks(1..4, &["--timeout-ms", "20000"]);
    let (status, out, err) = end(first);
    assert_eq!((status, out.is_empty()), (Some(0), false), "{err}");
    for other in others.into_iter().map(end) {
        assert_eq!(other, (Some(0), String::new(), String::new()));
    }
    drop((silent, noise, slow, old));
}

#[test]
fn processes_that_do_not_belong() {
    let site = Site::new();
    let patient = &["--timeout-ms", "20000"];
    let first = site.rank(0, patient).spawn().unwrap();
    let second = site.rank(1, patient).spawn().unwrap();
    let (status, _, err) = run(site.rank(2, SHORT).env("HIR_TOKEN", ANOTHER));
    assert_eq!((status, err.contains("H0646")), (Some(3), true), "{err}");
    assert!(err.contains("does not have the token of rank 2"), "{err}");
    // Once rank 1 is there, another one does no harm.
    std::thread::sleep(Duration::from_millis(500));
    let (_, _, err) = run(&mut site.rank_of(1, 3, patient));
    assert!(err.contains("its run does not have 3 processes"), "{err}");
    let third = site.rank(2, patient).spawn().unwrap();
    // Which of two processes of one rank comes first is chance; the other one is refused.
    let twice = [site.rank(2, &["--timeout-ms", "5000"]).spawn().unwrap(), third];
    let twice: Vec<Ended> = {
        std::thread::sleep(Duration::from_millis(500));
        let last = site.rank(3, patient).spawn().unwrap();
        let twice = twice.into_iter().map(end).collect();
        assert_eq!(end(last).0, Some(0));
        twice
    };
    let refused: Vec<&Ended> = twice.iter().filter(|end| end.0 == Some(3)).collect();
    assert_eq!(refused.len(), 1, "{twice:?}");
    assert!(refused[0].2.contains("another process is rank 2"), "{}", refused[0].2);
    assert_eq!((end(first).0, end(second).0), (Some(0), Some(0)));
}

/// Nobody else comes if the ranks were told different numbers: rank 0 ends at once, and says why.
#[test]
fn ranks_of_different_worlds() {
    let site = Site::new();
    let patient = &["--timeout-ms", "30000"];
    let start = Instant::now();
    let first = site.rank_of(0, 2, patient).spawn().unwrap();
    let (status, _, err) = end(site.rank_of(1, 4, patient).spawn().unwrap());
    assert_eq!((status, err.contains("its run does not have 4 processes")), (Some(3), true), "{err}");
    let (status, _, err) = end(first);
    let expected = "error[H0646]: rank 1 was started as one of 4 processes, but rank 0 as one of 2";
    assert_eq!((status, err.contains(expected)), (Some(3), true), "{err}");
    assert!(start.elapsed() < Duration::from_secs(20), "rank 0 waited");
}

/// A process that does not know the token ends nothing, but rank 0 says that it was there.
#[test]
fn a_rank_with_another_token() {
    let site = Site::new();
    let first = site.rank_of(0, 2, &["--timeout-ms", "4000"]).spawn().unwrap();
    let (_, _, err) = run(site.rank_of(1, 2, SHORT).env("HIR_TOKEN", ANOTHER));
    assert!(err.contains("does not have the token of rank 1"), "{err}");
    let (status, _, err) = end(first);
    assert_eq!(status, Some(5), "{err}");
    assert!(err.contains("error[H0531]: rank 1 did not reach the step `join`"), "{err}");
    let note = "which may come from anybody, claimed to be rank 1 but did not prove knowledge of this run's token";
    assert!(err.contains(note), "{err}");
}

/// A rank that is killed or stopped after it joined, while others are still expected.
#[test]
fn a_rank_that_goes_while_others_are_expected() {
    for signal in [Signal::KILL, Signal::STOP] {
        let site = Site::new();
        let more = &["--timeout-ms", "4000"];
        let mut children = site.ranks(0..3, more);
        std::thread::sleep(Duration::from_millis(700));
        let victim = children.remove(2);
        send(signal, victim.id().cast_signed());
        for (rank, (status, _, err)) in children.into_iter().map(end).enumerate() {
            assert_eq!(status, Some(3), "{err}");
            assert!(err.contains("rank 2 is lost: "), "{err}");
            assert_eq!(err.contains("error[H0530]: rank 2 is lost"), rank == 0, "{err}");
        }
        let mut victim = victim;
        victim.kill().unwrap();
        victim.wait().unwrap();
        runs(&site);
    }
}

#[test]
fn a_full_disk() {
    let site = Site::new();
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let mut command = site.command();
    let (status, _, err) = run(command.args(["-n", "4", "--processes"]).stdout(full));
    assert_eq!(status, Some(3), "{err}");
    assert!(err.contains("error[H0602]: cannot write `standard output`"), "{err}");
    // No file may grow beyond one block: a write fails in the middle, as on a full disk.
    for flags in ["--output T1=y.npy", "--bench --iters 1 --json y.json"] {
        let args = format!("gather.hir --backend=cpu --set i1=3000 {flags}");
        let mut shell = site.shell("trap '' XFSZ; ulimit -f 1", &args);
        let (status, _, err) = run(&mut shell);
        if flags.contains("json") && status == Some(0) {
            // The figures fit into one block.
            std::fs::remove_file(site.folder.path().join("y.json")).unwrap();
            continue;
        }
        assert_eq!(status, Some(3), "{err}");
        assert!(err.contains("H0602"), "{err}");
        assert_eq!(std::fs::read_dir(site.folder.path()).unwrap().count(), 1, "{flags}");
    }
}

/// Ctrl-C while results are written: what is not in its place yet goes. Here a pipe that nobody reads holds the
/// last of them up.
#[test]
fn a_signal_among_results() {
    let site = Site::new();
    let path = |name: &str| site.folder.path().join(name);
    let (kind, mode) = (rustix::fs::FileType::Fifo, rustix::fs::Mode::RWXU);
    rustix::fs::mknodat(rustix::fs::CWD, path("pipe.npy"), kind, mode, 0).unwrap();
    let names = || {
        let entries = std::fs::read_dir(site.folder.path()).unwrap();
        let mut names: Vec<_> = entries.map(|entry| entry.unwrap().file_name()).collect();
        names.sort();
        names
    };
    for (signal, number) in [(Signal::INT, 2), (Signal::TERM, 15)] {
        let mut command = site.bare();
        command.args(["gather.hir", "--backend=cpu", "-q"]);
        command.args(["--set", "i1=3", "--trace", "t.json", "--output", "T1=pipe.npy"]);
        let child = command.spawn().unwrap();
        let until = Instant::now() + Duration::from_secs(20);
        while names().len() < 3 {
            assert!(Instant::now() < until, "no temporary file");
            std::thread::sleep(Duration::from_millis(5));
        }
        send(signal, child.id().cast_signed());
        assert_eq!(output(child).status.signal(), Some(number));
        assert_eq!(names(), ["gather.hir", "pipe.npy"]);
    }
}
