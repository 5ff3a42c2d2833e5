//! `--processes`: hir-run as its own launcher.

use super::*;
use crate::site::children;
use std::os::unix::process::ExitStatusExt as _;

fn start(site: &Site, more: &[&str]) -> Child {
    let mut command = site.command();
    command.args(["-n", "4", "--processes"]).args(more).spawn().unwrap()
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
    let expected = "hir-run: 4 processes by --processes\nhir-run: 4 ranks on the null backend, 4 streams\n";
    assert_eq!(err, expected);
    // As many as the program needs where nobody says how many.
    let (status, out, err) = run(site.command().args(["--processes"]));
    assert_eq!((status, out.starts_with("followed: 4 ranks")), (Some(0), true), "{err}");
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
    let (status, _, err) = run(site.bare().args(["nowhere.hir", "--processes"]));
    assert_eq!((status, err.matches("error[H0601]").count()), (Some(3), 1), "{err}");
    let mut stdin = site.command();
    let (status, _, err) = run(stdin.args(["-n", "2", "--processes", "--bench", "-"]));
    assert_eq!((status, err.contains("H0614")), (Some(2), true), "{err}");
}

#[test]
fn a_rank_that_is_killed() {
    let site = Site::new();
    let parent = start(&site, LONG);
    let pids = children(parent.id());
    settle();
    send(Signal::KILL, pids[2]);
    let (status, out, err) = end(parent);
    assert_eq!((status, out.as_str()), (Some(3), ""), "{err}");
    assert!(err.contains("error[H0530]: rank 2 is lost: it"), "{err}");
    assert!(err.contains("[rank 1] hir-run: exits: rank 2 is lost"), "{err}");
    assert!(err.contains("error[H0645]: rank 2 was terminated by signal 9 (SIGKILL)"), "{err}");
    all_end(&pids);
}

#[test]
fn a_rank_that_is_stopped() {
    let site = Site::new();
    for rank in [0, 3] {
        let parent = start(&site, &[LONG, &["--timeout-ms", "3000"]].concat());
        let pids = children(parent.id());
        settle();
        send(Signal::STOP, pids[rank]);
        let (status, _, err) = end(parent);
        assert_eq!(status, Some(3), "{err}");
        let lost = format!("rank {rank} is lost: it sent no heartbeat for");
        assert!(err.contains(&lost), "{err}");
        let killed = format!("error[H0645]: rank {rank} did not exit after the run had failed");
        assert!(err.contains(&killed), "{err}");
        all_end(&pids);
    }
}

#[test]
fn a_parent_that_is_interrupted() {
    let site = Site::new();
    for (signal, number) in [(Signal::INT, 2), (Signal::TERM, 15)] {
        let parent = start(&site, LONG);
        let pids = children(parent.id());
        settle();
        send(signal, parent.id().cast_signed());
        let (status, _, err) = end(parent);
        assert_eq!(status, Some(128 + number), "{err}");
        all_end(&pids);
    }
}

/// Signals that are ignored from the start, as under `nohup`, stay ignored; others end the run.
#[test]
fn a_parent_that_ignores_a_signal() {
    let site = Site::new();
    let args = format!("gather.hir --backend=null --set i1=3 -n 4 --processes {}", LONG.join(" "));
    let parent = site.shell("trap '' HUP", &args).spawn().unwrap();
    let pids = children(parent.id());
    settle();
    send(Signal::HUP, parent.id().cast_signed());
    settle();
    assert!(pids.iter().all(|pid| is_running(*pid)), "hung up");
    send(Signal::TERM, parent.id().cast_signed());
    assert_eq!(end(parent).0, Some(128 + 15));
    all_end(&pids);
}

#[test]
fn a_parent_that_is_killed() {
    let site = Site::new();
    let mut parent = start(&site, LONG);
    let pids = children(parent.id());
    settle();
    send(Signal::KILL, parent.id().cast_signed());
    assert_eq!(parent.wait().unwrap().signal(), Some(9));
    all_end(&pids);
}

/// A parent that ignores the ends of its children is not told of them, but a run has to be.
#[test]
fn a_parent_that_ignores_the_ends_of_children() {
    let site = Site::new();
    let args = "gather.hir --backend=null --set i1=3 -n 4 --processes -q";
    let mut shell = site.shell("trap '' CHLD", args);
    assert_eq!(run(&mut shell), (Some(0), String::new(), String::new()));
}
