//! Launches with real processes, most on the null backend: every step of a run but the work.
//!
//! Every test has a folder, a port and a token of its own.

use rustix::process::Signal;
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::process::Child;
use std::time::{Duration, Instant};

mod attacks;
mod children;
mod faults;
mod timelines;

use crate::site::{Ended, GATHER, LONG, Site, all_end, end, is_running, output, run, send};

/// Runs all four ranks of a new site: it is unharmed by whatever happened before.
fn runs(site: &Site) {
    let all: Vec<Ended> = site.ranks(0..4, &[]).into_iter().map(end).collect();
    let expected = "followed: 4 ranks, 12 instructions; nothing was computed\n";
    assert_eq!((all[0].0, all[0].1.as_str()), (Some(0), expected), "{all:?}");
    for other in &all[1..] {
        assert_eq!(*other, (Some(0), String::new(), String::new()));
    }
}

#[test]
fn by_hand() {
    runs(&Site::new());
}

/// The variables that a launcher sets for a rank.
type Variables<'a> = &'a dyn Fn(u32) -> Vec<(&'static str, String)>;

/// Each launcher's variables, on one host.
#[test]
fn by_launchers() {
    let site = Site::new();
    let launch = |pairs: Variables<'_>| {
        let start = |rank| site.command().envs(pairs(rank)).spawn().unwrap();
        let children: Vec<Child> = (0..4).map(start).collect();
        children.into_iter().map(end).collect::<Vec<_>>()
    };
    let port = site.port;
    let torchrun = |rank: u32| {
        vec![
            ("RANK", rank.to_string()),
            ("WORLD_SIZE", "4".to_owned()),
            ("LOCAL_RANK", rank.to_string()),
            ("LOCAL_WORLD_SIZE", "4".to_owned()),
            ("MASTER_ADDR", "localhost".to_owned()),
            ("MASTER_PORT", (port - 43).to_string()),
            ("TORCHELASTIC_RUN_ID", "a".to_owned()),
        ]
    };
    let job = format!("job {port} of {}", std::process::id());
    let mpirun = |rank: u32| {
        vec![
            ("OMPI_COMM_WORLD_RANK", rank.to_string()),
            ("OMPI_COMM_WORLD_SIZE", "4".to_owned()),
            ("OMPI_COMM_WORLD_LOCAL_RANK", rank.to_string()),
            ("OMPI_COMM_WORLD_LOCAL_SIZE", "4".to_owned()),
            ("PMIX_NAMESPACE", job.clone()),
        ]
    };
    let srun = |rank: u32| {
        vec![
            ("SLURM_JOB_ID", format!("{}{port}", std::process::id())),
            ("SLURM_STEP_ID", "3".to_owned()),
            ("SLURM_PROCID", rank.to_string()),
            ("SLURM_NTASKS", "4".to_owned()),
            ("SLURM_NNODES", "1".to_owned()),
        ]
    };
    let launchers: [(&str, Variables<'_>); 3] = [("torchrun", &torchrun), ("mpirun", &mpirun), ("srun", &srun)];
    for (name, pairs) in launchers {
        let all = launch(pairs);
        assert!(all.iter().all(|end| end.0 == Some(0)), "{name}: {all:?}");
        let first = all[0].2.lines().next().unwrap();
        assert!(first.starts_with(&format!("hir-run: 4 processes by {name}")), "{first}");
    }
    // Explicit: one process runs all, whatever the launcher says.
    let alone = run(site.command().args(["-n", "4"]).envs(torchrun(3)));
    assert_eq!(alone.0, Some(0));
}

#[test]
fn the_cpu_backend_is_one_process() {
    let site = Site::new();
    let start = |rank: u32| {
        let mut command = site.bare();
        let coordinator = format!("localhost:{}", site.port);
        command.args(["gather.hir", "--set", "i1=3", "--backend=cpu", "--world", "2"]);
        command.args(["--coordinator", &coordinator, "--rank", &rank.to_string()]);
        command.spawn().unwrap()
    };
    let all: Vec<Ended> = [start(0), start(1)].into_iter().map(end).collect();
    assert_eq!((all[0].0, all[1].0), (Some(2), Some(2)), "{all:?}");
    assert!(all[0].2.contains("H0642") && all[0].2.contains("--devices 2"), "{}", all[0].2);
    assert_eq!(all[1].2, "", "rank 0 says it");
}

#[test]
fn processes_that_differ() {
    let site = Site::new();
    let mut children = site.ranks(0..3, &[]);
    children.push(site.rank(3, &["--seed", "7"]).spawn().unwrap());
    for (rank, (status, _, err)) in children.into_iter().map(end).enumerate() {
        let follows = follows_unlike(status, &err);
        assert!(status == Some(2) || follows, "{status:?}: {err}");
        let said = !follows && err.contains("rank 3 was started with a different `--seed` than rank 0");
        assert_eq!(said && err.contains("H0648"), rank == 0, "{err}");
    }
    let site = Site::new();
    let mut children = site.ranks(0..3, &[]);
    let other = GATHER.replace("Wait Communication 1", "Wait Communication 1 // again");
    std::fs::write(site.folder.path().join("other.hir"), other).unwrap();
    let first = site.rank(3, &[]);
    let mut other = site.bare();
    other.arg("other.hir").args(first.get_args().skip(1)).env("HIR_TOKEN", &site.token);
    children.push(other.spawn().unwrap());
    let all: Vec<Ended> = children.into_iter().map(end).collect();
    assert!(all[0].2.contains("rank 3 was started with a different program than rank 0"), "{all:?}");
}

/// Files of kernels are a part of the program, those of `--backend=null` too, which runs none.
#[test]
fn processes_whose_kernels_differ() {
    let site = Site::new();
    let text = "hir 2.1\nmesh d = 0..2\n\nf() -> (C: f32[x:2, 4]) on d:\n  C = alloc\n  \
                launch \"k.cu\"::f[1, 1](C) writes(C[own])\n";
    let coordinator = format!("127.0.0.1:{}", site.port);
    let start = |rank: &str, more: &str| {
        let folder = site.folder.path().join(rank);
        std::fs::create_dir(&folder).unwrap();
        std::fs::write(folder.join("p.hir"), text).unwrap();
        std::fs::write(folder.join("k.cu"), format!("__global__ void f(float* C) {{}}{more}\n")).unwrap();
        let mut command = site.bare();
        command.current_dir(folder).args([
            "p.hir",
            "--backend=null",
            "--allow-kernels",
            "--world",
            "2",
            "--rank",
            rank,
        ]);
        command.args(["--coordinator", &coordinator]).env("HIR_TOKEN", &site.token).spawn().unwrap()
    };
    let all: Vec<Ended> = [start("0", ""), start("1", " // another one")].into_iter().map(end).collect();
    assert_eq!(all[0].0, Some(2), "{all:?}");
    assert!(all[0].2.contains("rank 1 was started with a different file of a kernel than rank 0"), "{all:?}");
}

/// If a rank ended because another one had refused ranks that differ: it hears of that failure before it
/// has compared by itself.
fn follows_unlike(status: Option<i32>, err: &str) -> bool {
    status == Some(3) && err.contains("failed with H0648")
}

/// A file that one rank alone lacks is that rank's error, and everybody's end.
#[test]
fn an_error_of_one_rank() {
    let site = Site::new();
    let mut children = site.ranks(0..3, &["--timeout-ms", "20000"]);
    let mut command = site.rank(3, &["--timeout-ms", "20000"]);
    let elsewhere = tempfile::tempdir().unwrap();
    children.push(command.current_dir(elsewhere.path()).spawn().unwrap());
    let start = Instant::now();
    let all: Vec<Ended> = children.into_iter().map(end).collect();
    assert!(start.elapsed() < Duration::from_secs(15), "nobody waits for the time limit");
    assert_eq!(all.iter().map(|end| end.0).collect::<Vec<_>>(), vec![Some(3); 4]);
    assert!(all[3].2.starts_with("error[H0601]: cannot read `gather.hir`"), "{}", all[3].2);
    assert!(all[0].2.contains("error[H0530]: rank 3 failed with H0601: cannot read"), "{}", all[0].2);
    let line = "hir-run: exits: rank 3 failed with H0601: cannot read `gather.hir`";
    assert!(all[1].2.starts_with(line) && all[1].2.lines().count() == 1, "{}", all[1].2);
}

/// Rank 0 says what is wrong with the number of processes; nobody speaks of an option that nobody gave.
fn only_rank_0_says(children: Vec<Child>, expected: &str, repair: &str) {
    for (rank, (status, out, err)) in children.into_iter().map(end).enumerate() {
        assert!(status == Some(2) || rank > 0, "{err}");
        assert_eq!((out.as_str(), err.contains("--devices")), ("", false), "{err}");
        let said = err.contains(expected) && err.contains(repair);
        assert_eq!(said, rank == 0, "rank {rank}: {err}");
        assert!(rank == 0 || !err.contains("error["), "rank {rank}: {err}");
    }
}

#[test]
fn another_number_of_processes() {
    let site = Site::new();
    let three = (0..3).map(|rank| site.rank_of(rank, 3, &[]).spawn().unwrap()).collect();
    let expected =
        "error[H0533]: 3 processes were started, but the program needs 4: its meshes and teams contain device 3";
    only_rank_0_says(three, expected, "start 4 processes, or change the program's meshes");
    // More than the program needs are idle.
    let site = Site::new();
    let six: Vec<_> = (0..6).map(|rank| site.rank_of(rank, 6, &[]).spawn().unwrap()).collect();
    assert!(six.into_iter().map(end).all(|end| end.0 == Some(0)));
}

/// A program that nothing has lowered has one rank, whatever its meshes are.
#[test]
fn a_program_that_is_not_lowered() {
    let text = "%HostIrContainer { (T0_g_float[ideviceIdx.x0{4}, iS1{i1}] (DeviceMesh{0 1 2 3})) -> (T1_g_float[iS2{4}, iS3{i1}] (DeviceMesh{0 1 2 3})) :
  T1 = Set(T0, cache_op=Streaming)
} // %HostIrContainer
";
    for _ in 0..3 {
        let site = Site::new();
        std::fs::write(site.folder.path().join("gather.hir"), text).unwrap();
        let expected = "error[H0533]: 4 processes were started, but the program is not lowered";
        only_rank_0_says(site.ranks(0..4, &[]), expected, "--pass=host-ir-lower");
    }
}

#[test]
fn missing_parts() {
    let site = Site::new();
    let (status, _, err) = run(site.command().env("RANK", "1"));
    assert_eq!((status, err.starts_with("error[H0640]: `WORLD_SIZE` is missing")), (Some(2), true));
    let (status, out, err) = run(site.command().env("HIR_WORLD", "4"));
    assert_eq!((status, out.as_str()), (Some(2), ""));
    assert!(err.starts_with("error[H0640]: `HIR_RANK` is missing"), "{err}");
    let (status, out, err) = run(site.command().env("PMI_RANK", "1").env("PMI_SIZE", "2"));
    assert_eq!((status, out.as_str()), (Some(2), ""));
    assert!(err.starts_with("error[H0640]: `PMI_SIZE` is 2"), "{err}");
    let both = [("OMPI_COMM_WORLD_RANK", "0"), ("OMPI_COMM_WORLD_SIZE", "2")];
    let (status, _, err) = run(site.command().env("RANK", "1").env("WORLD_SIZE", "2").envs(both));
    assert_eq!((status, err.starts_with("error[H0641]")), (Some(2), true), "{err}");
    let results = run(site.command().args(["--expect", "T1=y.npy"]));
    assert_eq!((results.0, results.2.contains("H0614")), (Some(2), true));
}
