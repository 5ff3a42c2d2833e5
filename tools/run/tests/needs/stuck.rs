//! Runs on GPUs that do not end: with a driver that does nothing (`driver.c`), and launches that do not return.

use crate::site::{Site, all_end, children, run, send};
use crate::{needs, stand_in};
use libtest_mimic::Trial;
use rustix::process::Signal;
use std::io::{BufRead, BufReader, Read as _};
use std::process::{Child, Command};
use std::time::Duration;

/// The tests.
pub(crate) fn tests() -> Vec<Trial> {
    needs::tests![
        stand_in::missing();
        the_driver_does_for_a_run,
        a_launch_that_does_not_return,
        a_rank_that_is_stopped,
        a_rank_that_is_killed,
        a_deadline_that_passes,
        a_release_outlasts_the_run,
        a_release_outlasts_a_failure,
        processes_are_suspended,
        a_suspended_rank_is_waited_for,
        streams_share_a_hardware_queue,
    ]
}

/// Each rank sends to the next one, 1,000 times: every exchange is a kernel.
const EXCHANGE: &str = "%HostIrContainer { (T0_g_float[ideviceIdx.x0{4}, iS1{8}] (DeviceMesh{0 1 2 3})) -> (T1_g_float[ideviceIdx.x2{4}, iS3{8}] (DeviceMesh{0 1 2 3})) :
  T1 = ALLOCATE(buffer=T1, mem_type=global, size=32, zero_init=false, resets_to_zero=false)
  FOR i from 0 to 1000:
    P2PCommunication 1 (type=send, buffer=T0, peer=( ( rank + 1 ) % 4 ), backend=CUDA)
    P2PCommunication 2 (type=recv, buffer=T1, peer=( ( rank + 3 ) % 4 ), backend=CUDA)
    Wait Communication 2
    Wait Communication 1
} // %HostIrContainer
";

/// A site with the program, and the libraries that stand for NVIDIA's.
fn prepared() -> Site {
    let site = Site::new();
    let folder = site.folder.path();
    std::fs::write(folder.join("exchange.hir"), EXCHANGE).unwrap();
    stand_in::make(folder);
    site
}

/// `hir-run exchange.hir` with those libraries.
fn command(site: &Site, more: &[&str]) -> Command {
    let mut command = site.bare();
    command.args(["exchange.hir", "--backend=cuda", "--input", "0=zeros", "-n", "4"]).args(more);
    let folder = site.folder.path();
    command.env("LD_LIBRARY_PATH", folder).env("XDG_CACHE_HOME", folder);
    command
}

fn the_driver_does_for_a_run() {
    let site = prepared();
    for more in [&[][..], &["--processes"]] {
        let (status, _, err) = run(&mut command(&site, more));
        assert_eq!(status, Some(0), "{err}");
        assert!(err.contains("4 x Nothing, driver CUDA 13.0"), "{err}");
    }
}

/// The deadline passes; every rank is told with its op and iteration.
fn a_launch_that_does_not_return() {
    let site = prepared();
    let mut command = command(&site, &["--timeout-ms", "500"]);
    let (status, _, err) = run(command.env("DRIVER_LAUNCHES", "200"));
    assert_eq!(status, Some(5), "{err}");
    assert!(err.contains("error[H0511]: the run did not finish within 500 ms"), "{err}");
    assert!(err.contains("exchange.hir:5:5"), "{err}");
    // Ranks at one place are one note, and nobody is told of twice.
    let notes = err.lines().filter(|line| line.starts_with("  = rank") && line.contains(" in `P2PCommunication "));
    assert!((1..=4).contains(&notes.count()) && !err.contains("aborted in"), "{err}");
    assert!(err.contains("last done: `"), "{err}");
    assert!(err.contains("did not return; terminating the process"), "{err}");
}

/// `--processes` until its standard error has a text so many times: the parent, its ranks, the rest of what it says,
/// and what it said.
fn started(mut command: Command, text: &str, times: usize) -> (Child, Vec<i32>, impl BufRead, String) {
    let mut parent = command.spawn().unwrap();
    let pids = children(parent.id());
    let mut err = BufReader::new(parent.stderr.take().unwrap());
    let mut said = String::new();
    while said.matches(text).count() < times {
        assert!(err.read_line(&mut said).unwrap() > 0, "{said}");
    }
    (parent, pids, err, said)
}

/// A rank gets a signal; exit status, and what was said.
fn without(
    signal: Signal,
    (mut parent, pids, mut err, mut said): (Child, Vec<i32>, impl BufRead, String),
) -> (Option<i32>, String) {
    send(signal, pids[3]);
    err.read_to_string(&mut said).unwrap();
    let status = parent.wait().unwrap().code();
    all_end(&pids);
    (status, said)
}

/// A rank is stopped while all are in such a call: the others say who is lost and where they were, and nobody
/// stays.
fn a_rank_that_is_stopped() {
    let site = prepared();
    let mut command = command(&site, &["--timeout-ms", "6000", "--processes"]);
    command.env("DRIVER_LAUNCHES", "50");
    let (status, said) = without(Signal::STOP, started(command, "no launch returns", 4));
    assert_eq!(status, Some(3), "{said}");
    assert!(said.contains("error[H0530]: rank 3 is lost: it sent no heartbeat for "), "{said}");
    for rank in 0..3 {
        let place = format!("rank {rank} aborted in `P2PCommunication 2` at i=50");
        assert!(said.contains(&place), "{said}");
    }
    assert!(said.contains("rank 3 did not exit after the run had failed, and was killed"), "{said}");
}

/// Ranks that wait for their devices come back by themselves, and know where they were.
fn a_rank_that_is_killed() {
    let site = prepared();
    let mut command = command(&site, &["--timeout-ms", "20000", "--processes"]);
    command.env("DRIVER_EVENTS", "0");
    let started = started(command, "ready in", 1);
    std::thread::sleep(Duration::from_millis(500));
    let (status, said) = without(Signal::KILL, started);
    assert_eq!(status, Some(3), "{said}");
    for rank in 0..3 {
        let place = format!("rank {rank} aborted in `");
        assert!(said.contains(&place), "{said}");
    }
    assert!(
        !said.contains("did not return; terminating") && !said.contains("did not return from a library call"),
        "{said}"
    );
}

/// The status is that of the deadline on every way there.
fn a_deadline_that_passes() {
    let site = prepared();
    for more in [&[][..], &["--processes"], &["--bench"], &["--processes", "--bench"]] {
        // Processes start within it, too, which takes seconds on a loaded machine.
        let limit = if more.contains(&"--processes") { "8000" } else { "1500" };
        let mut command = command(&site, &["--timeout-ms", limit]);
        command.args(more).env("DRIVER_EVENTS", "0");
        let (status, _, err) = run(&mut command);
        assert_eq!(status, Some(5), "{more:?}: {err}");
        assert!(err.contains(&format!("error[H0511]: the run did not finish within {limit} ms")), "{err}");
        if !more.contains(&"--bench") {
            // No event comes: all ranks stand at the first exchange. One report tells of all, also of other processes.
            let place = "= ranks 0 to 3 are in `P2PCommunication 2` at i=0; last done: `P2PCommunication 1` at i=0";
            assert!(err.contains(place), "{more:?}: {err}");
            assert!(err.contains("the transfers themselves do not end"), "{err}");
        }
    }
}

/// A release that takes longer than a run waits for it (1.5 s) has ended before the library is destroyed.
fn a_release_outlasts_the_run() {
    let site = prepared();
    for more in [&[][..], &["--graph"], &["--processes"]] {
        let mut command = command(&site, more);
        let (status, _, err) = run(command.env("DRIVER_FREE_MS", "2500"));
        assert_eq!(status, Some(0), "{more:?}: {err}");
        assert!(!err.contains("stand-in:"), "{more:?}: {err}");
    }
}

/// The status of a failed run is that of the failure, whatever its teardown still does.
fn a_release_outlasts_a_failure() {
    let site = prepared();
    for more in [&[][..], &["--graph"], &["--processes"]] {
        let mut command = command(&site, &["--timeout-ms", "500"]);
        let (status, _, err) = run(command.args(more).env("DRIVER_EVENTS", "0").env("DRIVER_FREE_MS", "4000"));
        assert_eq!(status, Some(5), "{more:?}: {err}");
        assert!(err.contains("error[H0511]: the run did not finish within 500 ms"), "{more:?}: {err}");
        assert!(!err.contains("stand-in:"), "{more:?}: {err}");
    }
}

/// A run that is suspended for longer than its limit, and then goes on, ends as right.
fn processes_are_suspended() {
    let site = prepared();
    let mut command = command(&site, &["--timeout-ms", "1500", "--processes"]);
    command.env("DRIVER_RUN_MS", "1000");
    let (mut parent, pids, mut err, mut said) = started(command, "ready in", 1);
    std::thread::sleep(Duration::from_millis(100));
    pids.iter().for_each(|pid| send(Signal::STOP, *pid));
    std::thread::sleep(Duration::from_millis(4500));
    pids.iter().for_each(|pid| send(Signal::CONT, *pid));
    err.read_to_string(&mut said).unwrap();
    assert_eq!(parent.wait().unwrap().code(), Some(0), "{said}");
}

/// Without limits a rank may stand in a debugger for as long as it likes.
fn a_suspended_rank_is_waited_for() {
    let site = prepared();
    let mut command = command(&site, &["--timeout-ms", "0", "--processes"]);
    command.env("DRIVER_RUN_MS", "1000");
    let (mut parent, pids, mut err, mut said) = started(command, "ready in", 1);
    send(Signal::STOP, pids[2]);
    std::thread::sleep(Duration::from_millis(3000));
    assert!(parent.try_wait().unwrap().is_none(), "the others wait");
    send(Signal::CONT, pids[2]);
    err.read_to_string(&mut said).unwrap();
    assert_eq!(parent.wait().unwrap().code(), Some(0), "{said}");
}

/// The error of a run that does not end names the variable that gives its streams too few queues.
fn streams_share_a_hardware_queue() {
    let site = prepared();
    for (queues, named) in [("1", true), ("32", false)] {
        let mut command = command(&site, &["--timeout-ms", "500"]);
        let (status, _, err) = run(command.env("DRIVER_EVENTS", "0").env("CUDA_DEVICE_MAX_CONNECTIONS", queues));
        assert_eq!(status, Some(5), "{err}");
        let note = "share 1 hardware queues, and wait for each other there: set `CUDA_DEVICE_MAX_CONNECTIONS` to";
        assert_eq!(err.contains(note), named, "{queues}: {err}");
    }
}
