//! `--processes`: hir-run as its own launcher.

use super::*;
use std::os::unix::process::ExitStatusExt as _;

fn start(site: &Site, more: &[&str]) -> Child {
    let mut command = site.command();
    command.args(["-n", "4", "--processes"]).args(more).spawn().unwrap()
}

/// The children of a process, once there are four: rank r is the r-th.
pub(super) fn children(parent: u32) -> Vec<i32> {
    let until = Instant::now() + Duration::from_secs(20);
    loop {
        let path = format!("/proc/{parent}/task/{parent}/children");
        let text = std::fs::read_to_string(path).unwrap_or_default();
        let found: Vec<i32> = text.split_whitespace().map(|word| word.parse().unwrap()).collect();
        if found.len() == 4 {
            return found;
        }
        assert!(Instant::now() < until, "no children");
        std::thread::sleep(Duration::from_millis(5));
    }
}

pub(super) fn send(signal: &str, pid: i32) {
    let sent = Command::new("kill").args([signal, &pid.to_string()]).status().unwrap();
    assert!(sent.success());
}

/// Whether a process runs: gone, or dead and not yet looked at by its parent, is not running.
fn is_running(pid: i32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit(')').next().is_some_and(|rest| !rest.is_empty() && !rest.starts_with(" Z"))
}

pub(super) fn all_end(pids: &[i32]) {
    let until = Instant::now() + Duration::from_secs(20);
    while pids.iter().any(|pid| is_running(*pid)) {
        assert!(Instant::now() < until, "orphans: {pids:?}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Lets a run get into its hot loop.
fn settle() {
    std::thread::sleep(Duration::from_millis(700));
}

#[test]
fn prints_what_one_process_prints() {
    let site = Site::new();
    let (status, out, err) = end(start(&site, &[]));
    assert_eq!(status, Some(0), "{err}");
    assert_eq!(out, "followed: 4 ranks, 12 instructions; nothing was computed\n");
    let expected =
        "hir-run: 4 processes by --processes\nhir-run: 4 ranks on the null backend, 4 streams\n";
    assert_eq!(err, expected);
    let (_, out, err) = end(start(&site, &["--quiet"]));
    assert_eq!((out.as_str(), err.as_str()), ("", ""));
}

#[test]
fn exits_as_its_ranks_do() {
    let site = Site::new();
    let (status, out, err) = end(start(&site, &["--input", "T7=ones"]));
    assert_eq!((status, out.as_str()), (Some(2), ""), "{err}");
    assert_eq!(err.matches("error[H0611]").count(), 1, "{err}");
    let (status, _, err) = ended(site.command().args(["--processes"]).output().unwrap());
    assert_eq!((status, err.contains("--devices")), (Some(2), true), "{err}");
    let mut stdin = site.command();
    let (status, _, err) =
        ended(stdin.args(["-n", "2", "--processes", "--bench", "-"]).output().unwrap());
    assert_eq!((status, err.contains("H0614")), (Some(2), true), "{err}");
}

#[test]
fn a_rank_that_is_killed() {
    let site = Site::new();
    let parent = start(&site, LONG);
    let pids = children(parent.id());
    settle();
    send("-KILL", pids[2]);
    let (status, out, err) = end(parent);
    assert_eq!((status, out.as_str()), (Some(3), ""), "{err}");
    assert!(err.contains("error[H0530]: rank 2 is lost: it"), "{err}");
    assert!(err.contains("[rank 1] hir-run: ends: rank 2 is lost"), "{err}");
    assert!(err.contains("error[H0645]: rank 2 was ended by signal 9 (SIGKILL)"), "{err}");
    all_end(&pids);
}

#[test]
fn a_rank_that_is_stopped() {
    let site = Site::new();
    for rank in [0, 3] {
        let parent = start(&site, &[LONG, &["--timeout-ms", "3000"]].concat());
        let pids = children(parent.id());
        settle();
        send("-STOP", pids[rank]);
        let (status, _, err) = end(parent);
        assert_eq!(status, Some(3), "{err}");
        let lost = format!("rank {rank} is lost: nothing was heard of it for");
        assert!(err.contains(&lost), "{err}");
        let killed = format!("error[H0645]: rank {rank} did not end after the run had failed");
        assert!(err.contains(&killed), "{err}");
        all_end(&pids);
    }
}

#[test]
fn a_parent_that_is_interrupted() {
    let site = Site::new();
    for (signal, number) in [("-INT", 2), ("-TERM", 15)] {
        let parent = start(&site, LONG);
        let pids = children(parent.id());
        settle();
        send(signal, parent.id().cast_signed());
        let (status, _, err) = end(parent);
        assert_eq!(status, Some(128 + number), "{err}");
        all_end(&pids);
    }
}

/// What was ignored from the start, as under `nohup`, stays ignored; other signals end the run.
#[test]
fn a_parent_that_ignores_a_signal() {
    let site = Site::new();
    let line = format!(
        "trap '' HUP; exec {} gather.hir --backend=null --set i1=3 -n 4 --processes {}",
        env!("CARGO_BIN_EXE_hir-run"),
        LONG.join(" ")
    );
    let mut shell = Command::new("bash");
    shell.current_dir(site.folder.path()).args(["-c", &line]).env_remove("HIR_PARENT");
    let parent = shell.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let parent = parent.spawn().unwrap();
    let pids = children(parent.id());
    settle();
    send("-HUP", parent.id().cast_signed());
    settle();
    assert!(pids.iter().all(|pid| is_running(*pid)), "hung up");
    send("-TERM", parent.id().cast_signed());
    assert_eq!(end(parent).0, Some(128 + 15));
    all_end(&pids);
}

#[test]
fn a_parent_that_is_killed() {
    let site = Site::new();
    let mut parent = start(&site, LONG);
    let pids = children(parent.id());
    settle();
    send("-KILL", parent.id().cast_signed());
    assert_eq!(parent.wait().unwrap().signal(), Some(9));
    all_end(&pids);
}
