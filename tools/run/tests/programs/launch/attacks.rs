//! Attacks on the rendezvous, from the same machine: what a process without the token can do between, instead of
//! and beside the ranks of a run.

use super::*;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
use std::io::ErrorKind;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

const PATIENT: &[&str] = &["--timeout-ms", "20000"];

/// Connects as soon as somebody listens.
fn connect(port: u16) -> TcpStream {
    let until = Instant::now() + Duration::from_secs(60);
    loop {
        match TcpStream::connect(("127.0.0.1", port)) {
            Ok(stream) => return stream,
            Err(_) => assert!(Instant::now() < until, "nobody listens"),
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// The attack of somebody between two ranks on the frames from rank 1, from a certain one on.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Tamper {
    Nothing,
    Flip,
    Repeat,
    Drop,
    Reflect,
}

/// Goes between rank 1 and rank 0: it hands the handshake on as it is, and alters frames after it.
fn relay(tamper: Tamper, here: u16, there: u16) {
    let listener = TcpListener::bind(("127.0.0.1", here)).unwrap();
    std::thread::spawn(move || {
        for second in listener.incoming() {
            let Ok(second) = second else { return };
            let first = connect(there);
            let (mut from, mut to) = (first.try_clone().unwrap(), second.try_clone().unwrap());
            std::thread::spawn(move || {
                let _ = std::io::copy(&mut from, &mut to);
                let _ = to.shutdown(std::net::Shutdown::Both);
            });
            std::thread::spawn(move || alter(tamper, second, first));
        }
    });
}

/// The greeting has 62 bytes; a frame begins with the length of what follows its 12 bytes of head.
fn alter(tamper: Tamper, mut from: TcpStream, mut to: TcpStream) -> std::io::Result<()> {
    let mut greeting = [0; 62];
    from.read_exact(&mut greeting)?;
    to.write_all(&greeting)?;
    for number in 0.. {
        let mut frame = vec![0; 12];
        from.read_exact(&mut frame)?;
        let length = u32::from_le_bytes(frame[..4].try_into().unwrap()) as usize;
        frame.resize(12 + length, 0);
        from.read_exact(&mut frame[12..])?;
        match tamper {
            Tamper::Flip if number == 3 => *frame.last_mut().unwrap() ^= 1,
            Tamper::Repeat if number == 3 => to.write_all(&frame)?,
            Tamper::Drop if number == 3 => continue,
            Tamper::Reflect if number == 3 => from.write_all(&frame)?,
            _ => {}
        }
        to.write_all(&frame)?;
    }
    Ok(())
}

/// A process in the middle hands the handshake on, since it cannot make one, but nothing that it does after it
/// goes unnoticed; whoever notices tells the other rank.
#[test]
fn a_relay_changes_nothing() {
    for (tamper, victim, how) in [
        (Tamper::Nothing, 0, ""),
        (Tamper::Flip, 1, "frame 3 was modified"),
        (Tamper::Repeat, 1, "frame 3 was repeated, but frame 4 was expected"),
        (Tamper::Drop, 1, "frame 4 arrived, but frame 3 was expected"),
        (Tamper::Reflect, 0, "frame 3 "),
    ] {
        let site = Site::new();
        let elsewhere = Site::new().port;
        relay(tamper, elsewhere, site.port);
        let long = [PATIENT, LONG].concat();
        let more = if tamper == Tamper::Nothing { PATIENT } else { &long };
        let start = |rank: u32, port: u16| {
            let mut command = site.bare();
            command.args(["pair.hir", "--backend=null", "--world", "2"]).args(more);
            command.args(["--rank", &rank.to_string(), "--coordinator"]);
            command.arg(format!("127.0.0.1:{port}")).env("HIR_TOKEN", &site.token);
            command.spawn().unwrap()
        };
        let pair = GATHER.replace("x0{4}", "x0{2}").replace("iS2{4}", "iS2{2}");
        let pair = pair.replace("0 1 2 3", "0 1").replace("4 * i1", "6").replace("i1", "3");
        std::fs::write(site.folder.path().join("pair.hir"), pair).unwrap();
        let children = [start(0, site.port), start(1, elsewhere)];
        let all: Vec<Ended> = children.into_iter().map(end).collect();
        if tamper == Tamper::Nothing {
            assert_eq!((all[0].0, all[1].0), (Some(0), Some(0)), "{all:?}");
            continue;
        }
        let words = format!("messages from rank {victim} were altered in transit: {how}");
        for (status, out, err) in &all {
            assert_eq!((*status, out.as_str()), (Some(3), ""), "{tamper:?} {all:?}");
            assert!(err.contains(&words), "{tamper:?} {err}");
        }
        assert!(all[0].2.contains("error[H0670]"), "{all:?}");
    }
}

/// 250 connections that say nothing, renewed as often as they are closed, do not keep a rank out, nor does one
/// cost more than a little while.
#[test]
fn held_connections_keep_nobody_out() {
    let site = Site::new();
    let first = site.rank_of(0, 4, PATIENT).spawn().unwrap();
    let port = site.port;
    drop(connect(port));
    let over = Arc::new(AtomicUsize::new(0));
    let held = Arc::new(AtomicUsize::new(0));
    let attackers: Vec<_> = (0..10)
        .map(|_| {
            let (over, held) = (over.clone(), held.clone());
            std::thread::spawn(move || {
                let mut own: Vec<TcpStream> = Vec::new();
                while over.load(Ordering::Acquire) == 0 {
                    own.retain_mut(|stream| {
                        stream.set_nonblocking(true).unwrap();
                        matches!(stream.read(&mut [0; 64]), Err(error) if error.kind() == ErrorKind::WouldBlock)
                    });
                    while own.len() < 25 {
                        let Ok(stream) = TcpStream::connect(("127.0.0.1", port)) else { break };
                        own.push(stream);
                        held.fetch_add(1, Ordering::AcqRel);
                    }
                    std::thread::sleep(Duration::from_millis(20));
                }
            })
        })
        .collect();
    while held.load(Ordering::Acquire) < 250 {
        std::thread::sleep(Duration::from_millis(5));
    }
    // Rank 0 keeps few of them, and no thread for any.
    let status = std::fs::read_to_string(format!("/proc/{}/status", first.id())).unwrap();
    let threads = status.lines().find_map(|line| line.strip_prefix("Threads:")).unwrap();
    assert!(threads.trim().parse::<u32>().unwrap() < 20, "{threads} threads");
    let open = std::fs::read_dir(format!("/proc/{}/fd", first.id())).unwrap().count();
    assert!(open < 100, "{open} descriptors");
    let start = Instant::now();
    let others = site.ranks(1..4, PATIENT);
    let (status, _, err) = end(first);
    let took = start.elapsed();
    over.store(1, Ordering::Release);
    assert_eq!(status, Some(0), "{err}");
    assert!(took < Duration::from_secs(3), "joining took {took:?}");
    assert!(others.into_iter().map(end).all(|end| end.0 == Some(0)));
    attackers.into_iter().for_each(|attacker| attacker.join().unwrap());
}

/// A message that needs no token: the first message of the handshake, as rank 1 of 4.
fn greeting() -> Vec<u8> {
    let clear = [&b"HIRX\x03\x00"[..], &1u32.to_le_bytes(), &4u32.to_le_bytes()].concat();
    let prologue = [&b"hir-run rendezvous"[..], &clear].concat();
    let builder = snow::Builder::new("Noise_NNpsk2_25519_ChaChaPoly_SHA256".parse().unwrap());
    let builder = builder.psk(2, &[0; 32]).unwrap().prologue(&prologue).unwrap();
    let mut message = [0; 48];
    builder.build_initiator().unwrap().write_message(&[], &mut message).unwrap();
    [&clear[..], &message].concat()
}

/// A connection that was refused may go on to send for ever: nobody listens to it, and the clock goes on.
#[test]
fn a_flood_behind_a_refusal_stops_nothing() {
    let site = Site::new();
    let start = Instant::now();
    let first = site.rank_of(0, 4, &["--timeout-ms", "3000"]).spawn().unwrap();
    let stream = connect(site.port);
    (&stream).write_all(b"HIRX\x01\x00").unwrap();
    let stream = Arc::new(stream);
    let writers: Vec<_> = (0..3)
        .map(|_| {
            let stream = stream.clone();
            std::thread::spawn(move || {
                let bytes = vec![0xff; 1 << 20];
                while (&*stream).write_all(&bytes).is_ok() {}
            })
        })
        .collect();
    let (status, _, err) = end(first);
    let took = start.elapsed();
    assert_eq!(status, Some(5), "{err}");
    assert!(took < Duration::from_secs(15), "a limit of 3 s took {took:?}");
    assert!(err.contains("a connection, which may come from anybody, used protocol version 1"), "{err}");
    writers.into_iter().for_each(|writer| writer.join().unwrap());
}

/// 64 connections that greet as a rank does, renewed as often as they are closed: one that says something a little
/// after it came is answered all the same, and the ranks join.
#[test]
fn strangers_that_greet_keep_nobody_out() {
    let site = Site::new();
    let first = site.rank_of(0, 4, PATIENT).spawn().unwrap();
    let port = site.port;
    drop(connect(port));
    let (over, held) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let attacker = std::thread::spawn({
        let (over, held) = (over.clone(), held.clone());
        let greetings: Vec<_> = (0..64).map(|_| greeting()).collect();
        move || {
            let mut own: Vec<TcpStream> = Vec::new();
            while over.load(Ordering::Acquire) == 0 {
                // An answer may have come; a closed connection has an end after it.
                own.retain_mut(|stream| {
                    loop {
                        match stream.read(&mut [0; 64]) {
                            Ok(1..) => {}
                            Ok(0) => return false,
                            Err(error) => return error.kind() == ErrorKind::WouldBlock,
                        }
                    }
                });
                while own.len() < 64 {
                    let Ok(mut stream) = TcpStream::connect(("127.0.0.1", port)) else { break };
                    let _ = stream.write_all(&greetings[own.len()]);
                    stream.set_nonblocking(true).unwrap();
                    own.push(stream);
                    held.fetch_add(1, Ordering::AcqRel);
                }
                std::thread::sleep(Duration::from_millis(50));
            }
        }
    });
    while held.load(Ordering::Acquire) < 64 {
        std::thread::sleep(Duration::from_millis(5));
    }
    for _ in 0..5 {
        let mut late = connect(port);
        std::thread::sleep(Duration::from_millis(30));
        late.write_all(&greeting()).unwrap();
        late.set_read_timeout(Some(Duration::from_secs(3))).unwrap();
        late.read_exact(&mut [0; 54]).unwrap();
    }
    let start = Instant::now();
    let others = site.ranks(1..4, PATIENT);
    let (status, _, err) = end(first);
    let took = start.elapsed();
    over.store(1, Ordering::Release);
    assert_eq!(status, Some(0), "{err}");
    assert!(took < Duration::from_secs(5), "joining took {took:?}");
    assert!(others.into_iter().map(end).all(|end| end.0 == Some(0)));
    attacker.join().unwrap();
}

/// Rank 0 has no time, for longer than a handshake may take, just after it proved itself: the rank waits for it.
#[test]
fn a_pause_of_rank_0_loses_nobody() {
    let (site, elsewhere) = (Site::new(), Site::new().port);
    let first = site.rank_of(0, 4, PATIENT).spawn().unwrap();
    let pid = first.id().cast_signed();
    let (port, listener) = (site.port, TcpListener::bind(("127.0.0.1", elsewhere)).unwrap());
    std::thread::spawn(move || {
        for (count, second) in listener.incoming().flatten().enumerate() {
            let (mut second, mut first) = (second, connect(port));
            let mut greeting = [0; 62];
            let mut answer = [0; 54];
            second.read_exact(&mut greeting).unwrap();
            first.write_all(&greeting).unwrap();
            first.read_exact(&mut answer).unwrap();
            if count == 0 {
                send(Signal::STOP, pid);
                std::thread::spawn(move || {
                    std::thread::sleep(Duration::from_secs(6));
                    send(Signal::CONT, pid);
                });
            }
            second.write_all(&answer).unwrap();
            let (mut from, mut to) = (first.try_clone().unwrap(), second.try_clone().unwrap());
            std::thread::spawn(move || {
                let _ = std::io::copy(&mut from, &mut to);
                let _ = to.shutdown(std::net::Shutdown::Write);
            });
            std::thread::spawn(move || {
                let _ = std::io::copy(&mut second, &mut first);
                let _ = first.shutdown(std::net::Shutdown::Write);
            });
        }
    });
    let mut second = site.bare();
    second.args(["gather.hir", "--backend=null", "--set", "i1=3", "--rank", "1", "--world", "4"]);
    second.args(["--coordinator", &format!("127.0.0.1:{elsewhere}")]).args(PATIENT);
    let second = second.env("HIR_TOKEN", &site.token).spawn().unwrap();
    let others = site.ranks(2..4, PATIENT);
    let (status, _, err) = end(first);
    assert_eq!(status, Some(0), "{err}");
    assert_eq!(end(second).0, Some(0));
    assert!(others.into_iter().map(end).all(|end| end.0 == Some(0)));
}

/// Somebody listens where rank 0 should, and hears one greeting at a time, of which nothing depends on the
/// token; what it says is not believed, and rank 0 is found when it comes.
#[test]
fn a_false_rank_0_learns_nothing() {
    let site = Site::new();
    let listener = TcpListener::bind(("127.0.0.1", site.port)).unwrap();
    let second = site.rank_of(1, 4, PATIENT).spawn().unwrap();
    let third = site.rank_of(2, 4, PATIENT).spawn().unwrap();
    let fourth = site.rank_of(3, 4, PATIENT).spawn().unwrap();
    // An earlier version's answer to a process with a wrong token, one of another world, another protocol's, and none.
    let answers: [Vec<u8>; 4] = [
        [&b"HIRX\x01\x00"[..], &[7; 49]].concat(),
        [&b"HIRX\x03\x00"[..], &[7; 48], &[1; 64]].concat(),
        b"HTTP/1.1 400 Bad Request\r\n\r\n".repeat(3),
        Vec::new(),
    ];
    for answer in answers.iter().cycle().take(8) {
        let (mut stream, _) = listener.accept().unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(2))).unwrap();
        let mut greeting = [0; 62];
        stream.read_exact(&mut greeting).unwrap();
        assert_eq!(&greeting[..6], b"HIRX\x03\x00");
        stream.write_all(answer).unwrap();
        let mut more = Vec::new();
        let _ = stream.shutdown(std::net::Shutdown::Write);
        let _ = stream.read_to_end(&mut more);
        assert_eq!(more, b"", "an answer without a proof is answered");
    }
    drop(listener);
    let (status, _, err) = end(site.rank_of(0, 4, PATIENT).spawn().unwrap());
    assert_eq!(status, Some(0), "{err}");
    assert!([second, third, fourth].into_iter().map(end).all(|end| end.0 == Some(0)));
}

/// A version that does not protect what it sends is refused, and both ends say why.
#[test]
fn another_version_of_the_protocol() {
    let site = Site::new();
    let listener = TcpListener::bind(("127.0.0.1", site.port)).unwrap();
    let old = std::thread::spawn(move || {
        while let Ok((mut stream, _)) = listener.accept() {
            let mut greeting = [0; 22];
            if stream.read_exact(&mut greeting).is_err() {
                return;
            }
            stream.write_all(b"HIRX\x01\x00................").unwrap();
            if greeting[6] == 9 {
                return;
            }
        }
    });
    let (status, _, err) = run(&mut site.rank_of(1, 2, &["--timeout-ms", "1500"]));
    assert_eq!(status, Some(3), "{err}");
    let words = "uses protocol version 1, but this hir-run uses 3";
    assert!(err.contains("error[H0646]") && err.contains(words), "{err}");
    let mut last = connect(site.port);
    last.write_all(&[9; 22]).unwrap();
    old.join().unwrap();
    // The other way round: what the first version's joining process sends and reads.
    let site = Site::new();
    let first = site.rank_of(0, 2, &["--timeout-ms", "2500"]).spawn().unwrap();
    let mut joining = connect(site.port);
    joining.write_all(b"HIRX\x01\x00................\x01\x00\x00\x00\x02\x00\x00\x00").unwrap();
    let mut greeting = [0; 22];
    joining.read_exact(&mut greeting).unwrap();
    assert_eq!(&greeting[..6], b"HIRX\x03\x00");
    let (status, _, err) = end(first);
    assert_eq!(status, Some(5), "{err}");
    assert!(err.contains("used protocol version 1 instead of 3"), "{err}");
}

// ---- tokens ----

#[test]
fn tokens_are_needed_and_not_short() {
    let site = Site::new();
    let far = |token: Option<&str>| {
        let mut command = site.command();
        command.args(["--rank", "0", "--world", "4", "--coordinator", "node7:29600"]);
        command.envs(token.map(|token| ("HIR_TOKEN", token)));
        run(&mut command)
    };
    for (token, words) in [
        (None, "error[H0671]: `HIR_TOKEN` is missing: other hosts can reach node7"),
        (Some(""), "error[H0671]: `HIR_TOKEN` is empty"),
        (Some("0123456789abcde"), "error[H0671]: `HIR_TOKEN` has 15 bytes"),
    ] {
        let (status, out, err) = far(token);
        assert_eq!((status, out.as_str()), (Some(2), ""));
        assert!(err.starts_with(words) && err.contains("openssl rand -hex 16"), "{err}");
    }
    // Alone, started by hir-run or as one of several: never as an argument, which everybody can read.
    let secret = "0123456789abcdef";
    for more in [&[][..], &["-n", "4"], &["-n", "4", "--processes"], &["--rank", "0"]] {
        let (status, out, err) = run(site.command().args(["--token", secret]).args(more));
        assert_eq!((status, out.as_str()), (Some(2), ""), "{err}");
        assert!(err.starts_with("error[H0671]: `--token` would show the token"), "{err}");
        assert!(!err.contains(secret), "{err}");
    }
}

/// A file that others may read is no secret.
#[test]
fn tokens_in_files() {
    use std::os::unix::fs::PermissionsExt;
    let site = Site::new();
    let path = site.folder.path().join("token");
    std::fs::write(&path, format!("{}\n", site.token)).unwrap();
    let set = |mode| std::fs::set_permissions(&path, PermissionsExt::from_mode(mode)).unwrap();
    let start = |rank: u32| {
        let mut command = site.rank(rank, PATIENT);
        command.env_remove("HIR_TOKEN").env("HIR_TOKEN_FILE", &path);
        command
    };
    set(0o644);
    let (status, _, err) = run(&mut start(0));
    assert_eq!(status, Some(3), "{err}");
    assert!(err.starts_with("error[H0672]: cannot use `HIR_TOKEN_FILE`"), "{err}");
    assert!(err.contains("has mode 0644"), "{err}");
    set(0o600);
    // One rank has it from the variable: without the end of the line it is the same.
    let mut children: Vec<Child> = (0..3).map(|rank| start(rank).spawn().unwrap()).collect();
    children.extend(site.ranks(3..4, PATIENT));
    let all: Vec<Ended> = children.into_iter().map(end).collect();
    assert!(all.iter().all(|end| end.0 == Some(0)), "{all:?}");
}

// ---- one host ----

/// Ranks by hand on one host, without a token.
fn by_hand(site: &Site, rank: u32, host: &str, more: &[&str]) -> Child {
    let coordinator = format!("{host}:{}", site.port);
    let mut command = site.command();
    command.args(["--rank", &rank.to_string(), "--world", "4", "--coordinator", &coordinator]);
    command.args(more).spawn().unwrap()
}

/// The name of the socket at which rank 0 says that it listens.
fn socket(site: &Site) -> String {
    let (_, _, err) = end(by_hand(site, 0, "localhost", &["--timeout-ms", "1000"]));
    let name = err.lines().next().and_then(|line| line.split_once('@')).map(|(_, name)| name);
    name.unwrap_or_else(|| panic!("no socket: {err}")).to_owned()
}

/// The numbers of ports (of IPv4 and IPv6) and of Unix sockets that a process listens at.
fn listening(pid: u32) -> [usize; 2] {
    let open = std::fs::read_dir(format!("/proc/{pid}/fd")).unwrap();
    let open = open.filter_map(|entry| std::fs::read_link(entry.ok()?.path()).ok());
    let open: Vec<String> = open.filter_map(|link| Some(link.to_str()?.to_owned())).collect();
    // State 0A of TCP and flag 00010000 of Unix sockets is one that listens.
    let count = |name: &str, state: &str, inode: usize| {
        let text = std::fs::read_to_string(format!("/proc/{pid}/net/{name}")).unwrap();
        let lines = text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
        let inodes = lines.filter(|words| words.get(3) == Some(&state));
        let own = |words: &Vec<&str>| open.contains(&format!("socket:[{}]", words[inode]));
        inodes.filter(own).count()
    };
    // A machine without IPv6 has no table of it.
    let six = if std::path::Path::new("/proc/self/net/tcp6").exists() { count("tcp6", "0A", 9) } else { 0 };
    [count("tcp", "0A", 9) + six, count("unix", "00010000", 6)]
}

/// Without a token no port is open, and whoever knows the name of the socket may connect as this user alone.
#[test]
fn one_host_needs_no_token_and_opens_no_port() {
    let site = Site::new();
    // With a token rank 0 listens at a port, without one at a socket alone.
    let with_token = site.rank_of(0, 4, PATIENT).spawn().unwrap();
    drop(connect(site.port));
    assert_eq!(listening(with_token.id()), [1, 0]);
    send(Signal::KILL, with_token.id().cast_signed());
    end(with_token);
    let site = Site::new();
    let taken = TcpListener::bind(("127.0.0.1", site.port)).unwrap();
    let alone = by_hand(&site, 0, "localhost", PATIENT);
    let until = Instant::now() + Duration::from_secs(60);
    while listening(alone.id()) != [0, 1] {
        assert!(Instant::now() < until && listening(alone.id())[0] == 0, "it listens elsewhere");
        std::thread::sleep(Duration::from_millis(5));
    }
    send(Signal::KILL, alone.id().cast_signed());
    end(alone);
    let hosts = ["localhost", "127.0.0.1", "[::1]", "127.0.0.2"];
    let children: Vec<Child> = (0..4).map(|rank| by_hand(&site, rank, hosts[rank as usize], PATIENT)).collect();
    let all: Vec<Ended> = children.into_iter().map(end).collect();
    assert!(all.iter().all(|end| end.0 == Some(0)), "{all:?}");
    assert!(all[0].2.contains("rank 0 listens at the Unix socket @hir-run-"), "{all:?}");
    taken.set_nonblocking(true).unwrap();
    assert_eq!(taken.accept().unwrap_err().kind(), ErrorKind::WouldBlock, "somebody connected");
}

/// One that no process inherits which another test starts in the meantime.
fn unix_socket() -> OwnedFd {
    let (family, kind) = (AddressFamily::UNIX, SocketType::STREAM);
    rustix::net::socket_with(family, kind, SocketFlags::CLOEXEC, None).unwrap()
}

/// Another process of this user in rank 0's place, and none at all.
#[test]
fn a_socket_in_use() {
    let site = Site::new();
    let name = socket(&site);
    let holder = unix_socket();
    let address = SocketAddrUnix::new_abstract_name(name.as_bytes()).unwrap();
    rustix::net::bind(&holder, &address).unwrap();
    rustix::net::listen(&holder, 16).unwrap();
    let (status, _, err) = end(by_hand(&site, 0, "localhost", PATIENT));
    assert_eq!(status, Some(3), "{err}");
    assert!(err.contains("error[H0643]") && err.contains("another of your processes"), "{err}");
    drop(holder);
    let (status, _, err) = end(by_hand(&site, 1, "localhost", &["--timeout-ms", "1000"]));
    assert_eq!((status, err.contains("error[H0644]: rank 1 cannot reach rank 0")), (Some(3), true));
    assert!(err.contains("containers") && err.contains("HIR_COORDINATOR=HOST:PORT"), "{err}");
    assert!(err.contains("HIR_TOKEN"), "{err}");
    // Rank 0 says the same when the others do not come.
    let (status, _, err) = end(by_hand(&site, 0, "localhost", &["--timeout-ms", "1000"]));
    assert_eq!(status, Some(5), "{err}");
    assert!(err.contains("containers") && err.contains("HIR_COORDINATOR=HOST:PORT"), "{err}");
}

/// Another user who takes the name first makes the run an error, not his; and one who connects to rank 0 is
/// turned away. Only root can be another user for a while, so this needs it.
#[test]
fn another_user_is_refused() {
    if !rustix::process::geteuid().is_root() {
        // Past the test runner, which keeps what tests print to itself.
        let line = b"skipped: another_user_is_refused needs root, who alone can act as another user\n";
        return std::io::stderr().write_all(line).unwrap();
    }
    let site = Site::new();
    let name = socket(&site);
    let squatter = as_nobody(&name, |address| {
        let holder = unix_socket();
        rustix::net::bind(&holder, &address).unwrap();
        rustix::net::listen(&holder, 16).unwrap();
        holder
    });
    for rank in [0, 1] {
        let (status, _, err) = end(by_hand(&site, rank, "localhost", &["--timeout-ms", "1000"]));
        assert_eq!(status, Some(3), "{err}");
        assert!(err.contains("error[H0673]") && err.contains("belongs to user 65534"), "{err}");
    }
    // Nobody sent it anything.
    rustix::io::ioctl_fionbio(&squatter, true).unwrap();
    while let Ok(guest) = rustix::net::accept(&squatter) {
        let mut guest = UnixStream::from(guest);
        let mut heard = Vec::new();
        guest.read_to_end(&mut heard).unwrap();
        assert_eq!(heard, b"");
    }
    drop(squatter);
    let first = by_hand(&site, 0, "localhost", PATIENT);
    let guest = as_nobody(&name, |address| {
        let until = Instant::now() + Duration::from_secs(60);
        loop {
            let guest = unix_socket();
            if rustix::net::connect(&guest, &address).is_ok() {
                return guest;
            }
            assert!(Instant::now() < until, "nobody listens");
            std::thread::sleep(Duration::from_millis(5));
        }
    });
    let mut heard = Vec::new();
    let _ = UnixStream::from(guest).read_to_end(&mut heard);
    assert_eq!(heard, b"");
    let others: Vec<Child> = (1..4).map(|rank| by_hand(&site, rank, "localhost", PATIENT)).collect();
    let (status, _, err) = end(first);
    assert_eq!(status, Some(0), "{err}");
    assert!(others.into_iter().map(end).all(|end| end.0 == Some(0)));
}

/// Does something as the user nobody, in a thread of its own: on Linux each has its own users.
fn as_nobody<T: Send>(name: &str, work: impl FnOnce(SocketAddrUnix) -> T + Send) -> T {
    let address = SocketAddrUnix::new_abstract_name(name.as_bytes()).unwrap();
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            let nobody = rustix::process::Uid::from_raw(65534);
            rustix::thread::set_thread_uid(nobody).unwrap();
            work(address)
        });
        thread.join().unwrap()
    })
}

/// `--processes` opens no port, and rank 0 does not go on listening once all are here.
#[test]
fn started_processes_listen_to_nobody() {
    let site = Site::new();
    let mut command = site.command();
    command.args(["-n", "4", "--processes"]).args(LONG);
    command.env("HIR_TOKEN_FILE", "/dev/null");
    let parent = command.spawn().unwrap();
    let pids = crate::site::children(parent.id());
    std::thread::sleep(Duration::from_millis(1500));
    assert!(pids.iter().all(|pid| is_running(*pid)));
    let stdin = std::fs::read_link(format!("/proc/{}/fd/0", pids[0])).unwrap();
    assert_eq!(stdin.to_str(), Some("/dev/null"));
    for pid in &pids {
        assert_eq!(listening(pid.cast_unsigned()), [0, 0]);
    }
    send(Signal::TERM, parent.id().cast_signed());
    assert_eq!(end(parent).0, Some(128 + 15));
    crate::site::all_end(&pids);
}
