//! Output of the programs to a terminal and only there: colours, and a line that says how far a long run is.

use crate::hir_opt::hir_opt;
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::process::{Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

/// Products that take minutes: whoever starts it ends it.
const LONG: &str = "%HostIrContainer { (T0_g_float[iS0{512}, iS1{512}]) -> (T1_g_float[iS2{512}, iS3{512}]) :
  FOR i from 0 to 20000:
    T1 = matmul(T0, T0)
} // %HostIrContainer
";

/// No run in a test takes longer.
const PATIENCE: Duration = Duration::from_secs(120);

/// A terminal: what a program writes to its other end comes in pieces.
fn terminal() -> (OwnedFd, Receiver<Vec<u8>>) {
    let own = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
    grantpt(&own).unwrap();
    unlockpt(&own).unwrap();
    let name = ptsname(&own, Vec::new()).unwrap();
    let other = File::options().read(true).write(true).open(name.to_str().unwrap()).unwrap();
    let (send, receive) = channel();
    let mut own = File::from(own);
    std::thread::spawn(move || {
        let mut bytes = [0; 4096];
        // The read fails when nobody has the other end any more.
        while let Ok(count @ 1..) = own.read(&mut bytes) {
            if send.send(bytes[..count].to_vec()).is_err() {
                return;
            }
        }
    });
    (other.into(), receive)
}

/// Runs `hir-run - ARGS` with standard error on a terminal until `enough` of what it wrote, or its end.
fn on_terminal(text: &str, args: &[&str], env: &[(&str, &str)], enough: impl Fn(&str) -> bool) -> String {
    let (other, receive) = terminal();
    let mut command = Command::new(env!("CARGO_BIN_EXE_hir-run"));
    command.arg("-").args(args).arg("--backend=cpu").stdin(Stdio::piped()).stdout(Stdio::null());
    command.env_clear().env("TERM", "xterm").envs(env.iter().copied()).stderr(other);
    let mut child = command.spawn().unwrap();
    // The command has the terminal's other end too.
    drop(command);
    child.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
    let (mut seen, began) = (Vec::new(), Instant::now());
    while let Some(left) = PATIENCE.checked_sub(began.elapsed()) {
        let Ok(more) = receive.recv_timeout(left) else { break };
        seen.extend(more);
        if enough(&String::from_utf8_lossy(&seen)) {
            break;
        }
    }
    let _ = child.kill();
    child.wait().unwrap();
    String::from_utf8_lossy(&seen).into_owned()
}

#[test]
fn a_long_run_says_how_far_it_is() {
    let done = |text: &str| text.contains("% of the instructions done");
    let seen = on_terminal(LONG, &[], &[], done);
    let line = seen.rsplit("\r\x1b[K").next().unwrap_or_default();
    assert!(line.starts_with("hir-run: ") && line.contains(" s, "), "{seen:?}");
}

/// Rounds are long here; the first is in flight.
#[test]
fn a_long_benchmark_says_which_round_it_is() {
    let seen = on_terminal(LONG, &["--bench", "--iters=9", "--warmup=2"], &[], |text| text.contains("round 1 of 11"));
    assert!(seen.contains("\r\x1b[Khir-run: "), "{seen:?}");
}

/// Nothing of it where a person asked for quiet, where the terminal cannot write over a line, and in a file.
#[test]
fn others_see_no_progress() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("errors");
    let quiet = (&["-q"][..], &[("TERM", "xterm")][..], None);
    let dumb = (&[][..], &[("TERM", "dumb")][..], None);
    let piped = (&[][..], &[("TERM", "xterm")][..], Some(File::create(&file).unwrap()));
    let runs: Vec<_> = [quiet, dumb, piped]
        .into_iter()
        .map(|(args, env, to)| {
            let (other, receive) = terminal();
            let mut command = Command::new(env!("CARGO_BIN_EXE_hir-run"));
            command.arg("-").args(args).arg("--backend=cpu").env_clear();
            command.envs(env.iter().copied()).stdin(Stdio::piped()).stdout(Stdio::null());
            command.stderr(to.map_or_else(|| Stdio::from(other), Stdio::from));
            let mut child = command.spawn().unwrap();
            child.stdin.take().unwrap().write_all(LONG.as_bytes()).unwrap();
            (child, receive)
        })
        .collect();
    std::thread::sleep(Duration::from_secs(4));
    for (mut child, receive) in runs {
        assert!(child.try_wait().unwrap().is_none(), "the run is too short for this test");
        child.kill().unwrap();
        child.wait().unwrap();
        let seen: Vec<u8> = receive.into_iter().flatten().collect();
        assert!(!seen.contains(&b'\x1b'), "{:?}", String::from_utf8_lossy(&seen));
    }
    let seen = std::fs::read_to_string(file).unwrap();
    assert!(seen.starts_with("hir-run: 1 rank on the CPU") || seen.contains("plain math"), "{seen:?}");
    assert!(!seen.contains('\x1b'), "{seen:?}");
}

#[test]
fn diagnostics_are_coloured_on_a_terminal_that_can() {
    let colored = |env: &[(&str, &str)], args: &[&str]| {
        let all: Vec<&str> = ["--set", "k=1"].iter().chain(args).copied().collect();
        let seen = on_terminal(LONG, &all, env, |_| false);
        assert!(seen.contains("H0612"), "{seen:?}");
        seen.contains("\x1b[")
    };
    assert!(colored(&[], &[]));
    assert!(!colored(&[("TERM", "dumb")], &[]));
    assert!(!colored(&[("NO_COLOR", "1")], &[]));
    assert!(colored(&[("NO_COLOR", "1")], &["--color=always"]));
    assert!(colored(&[("CLICOLOR_FORCE", "1"), ("TERM", "dumb")], &[]));
    assert!(!colored(&[], &["--color=never"]));
}

/// Excerpts fit the terminal that messages go to, and are in colour there; in a pipe they are as wide as ever.
#[test]
fn excerpts_fit_the_terminal() {
    let folder = tempfile::tempdir().unwrap();
    let long = format!("{}T9) // {}", " ".repeat(60), "x".repeat(100));
    let text = LONG.replace("T0, T0)", &format!("T0, {long}"));
    std::fs::write(folder.path().join("p.hir"), text).unwrap();
    let command = || {
        let mut command = Command::new(hir_opt());
        command.arg("p.hir").current_dir(folder.path()).env_clear().env("TERM", "dumb");
        command
    };
    let widest = |text: &str| {
        let excerpt = text.lines().filter(|line| line.contains('│'));
        excerpt.map(|line| line.trim_end().chars().count()).max().unwrap()
    };
    for columns in [40, 60, 100] {
        let (other, receive) = terminal();
        let size = Winsize { ws_row: 24, ws_col: columns as u16, ws_xpixel: 0, ws_ypixel: 0 };
        tcsetwinsize(&other, size).unwrap();
        assert_eq!(command().stderr(other).status().unwrap().code(), Some(1));
        let seen: Vec<u8> = receive.into_iter().flatten().collect();
        let seen = String::from_utf8(seen).unwrap();
        assert!(seen.contains("T9) // x") && seen.contains("^^") && seen.contains('…'), "{seen}");
        assert!((columns - 16..=columns).contains(&widest(&seen)), "{columns}: {seen}");
    }
    let piped = command().output().unwrap();
    let seen = String::from_utf8(piped.stderr).unwrap();
    assert!(widest(&seen) > 160 && !seen.contains('…'), "{seen}");
}
