//! Environments as launchers set them, and what goes wrong with them.

use super::*;
use std::collections::BTreeMap;

type Pair = (&'static str, &'static str);
type Pairs = [Pair];

fn ask(pairs: &Pairs, flags: &Flags, devices: Option<u32>) -> Result<Option<Place>, Diag> {
    let map: BTreeMap<&str, &str> = pairs.iter().copied().collect();
    detect(flags, devices, &|name| map.get(name).map(|value| (*value).to_owned()))
}

/// Source, rank, world, local rank, host, port and token of a place.
type Parts = (&'static str, u32, u32, Option<u32>, String, u16, String);

fn found(pairs: &Pairs) -> Option<Parts> {
    let place = ask(pairs, &Flags::default(), None).unwrap()?;
    let Place { source, rank, world, local_rank, host, port, token } = place;
    Some((source.name(), rank, world, local_rank, host, port, token))
}

fn wrong(pairs: &Pairs, flags: &Flags) -> (&'static str, String) {
    let diag = ask(pairs, flags, None).unwrap_err();
    assert!(!diag.notes.is_empty(), "{}", diag.message);
    (diag.code, diag.message)
}

const TORCHRUN: &Pairs = &[
    ("RANK", "3"),
    ("WORLD_SIZE", "4"),
    ("LOCAL_RANK", "1"),
    ("LOCAL_WORLD_SIZE", "2"),
    ("MASTER_ADDR", "node1"),
    ("MASTER_PORT", "29500"),
    ("TORCHELASTIC_RUN_ID", "run7"),
];

const MPIRUN: &Pairs = &[
    ("OMPI_COMM_WORLD_RANK", "1"),
    ("OMPI_COMM_WORLD_SIZE", "2"),
    ("OMPI_COMM_WORLD_LOCAL_RANK", "1"),
    ("OMPI_COMM_WORLD_LOCAL_SIZE", "2"),
    ("PMIX_NAMESPACE", "3245735937"),
    ("PMIX_RANK", "1"),
];

const SRUN: &Pairs = &[
    ("SLURM_JOB_ID", "4711"),
    ("SLURM_STEP_ID", "0"),
    ("SLURM_PROCID", "5"),
    ("SLURM_NTASKS", "8"),
    ("SLURM_LOCALID", "1"),
    ("SLURM_NNODES", "2"),
    ("SLURM_STEP_NODELIST", "gpu[07-08]"),
    ("SLURM_TASKS_PER_NODE", "4(x2)"),
];

fn with(base: &Pairs, more: &Pairs) -> Vec<Pair> {
    base.iter().chain(more).copied().collect()
}

fn without(base: &Pairs, name: &str) -> Vec<Pair> {
    base.iter().filter(|(other, _)| *other != name).copied().collect()
}

#[test]
fn launchers() {
    let own = |text: &str| text.to_owned();
    assert_eq!(found(&[]), None);
    let torch = ("torchrun", 3, 4, Some(1), own("node1"), 29543, own("run7"));
    assert_eq!(found(TORCHRUN), Some(torch));
    let (_, _, _, _, host, _, _) = found(&with(TORCHRUN, &[("LOCAL_WORLD_SIZE", "4")])).unwrap();
    assert_eq!(host, "127.0.0.1");
    let job = "3245735937";
    let port = hosts::port_of(job);
    let mpirun = ("mpirun", 1, 2, Some(1), own("127.0.0.1"), port, own(job));
    assert_eq!(found(MPIRUN), Some(mpirun.clone()));
    assert_eq!(found(&with(MPIRUN, &[("PRTE_LAUNCHED", "1")])), Some(mpirun));
    let srun = ("srun", 5, 8, Some(1), own("gpu07"), hosts::port_of("4711.0"), own("4711.0"));
    assert_eq!(found(SRUN), Some(srun));
}

/// A port beyond the last one is taken from below.
#[test]
fn ports_stay_ports() {
    assert_eq!(found(&with(TORCHRUN, &[("MASTER_PORT", "65530")])).unwrap().5, 65487);
}

#[test]
fn slurm_counts_inside_a_step_only() {
    assert_eq!(found(&without(SRUN, "SLURM_STEP_ID")), None);
    for step in ["batch", "extern", "4294967291", "4294967292", "4294967290"] {
        let step = [("SLURM_STEP_ID", step)];
        assert_eq!(found(&with(SRUN, &step)), None, "{step:?}");
    }
}

#[test]
fn explicit_flags_override_all() {
    let flags = Flags {
        rank: Some(1),
        world: Some(2),
        coordinator: Some("127.0.0.1:7000".to_owned()),
        ..Flags::default()
    };
    let place = ask(TORCHRUN, &flags, None).unwrap().unwrap();
    assert_eq!((place.source, place.rank, place.world, place.port), (Source::Explicit, 1, 2, 7000));
    assert_eq!(ask(TORCHRUN, &Flags::default(), Some(4)).unwrap(), None);
    assert_eq!(ask(TORCHRUN, &flags, Some(4)).unwrap_err().code, "H0614");
    let by_env = [("HIR_RANK", "0"), ("HIR_WORLD", "2"), ("HIR_COORDINATOR", "localhost:7000")];
    let place = ask(&by_env, &Flags::default(), None).unwrap().unwrap();
    assert_eq!((place.source, place.rank, place.host.as_str()), (Source::Explicit, 0, "localhost"));
    assert_eq!(ask(&by_env, &Flags::default(), Some(2)).unwrap(), None);
}

/// One process alone has all ranks.
#[test]
fn a_world_of_one() {
    assert_eq!(found(&[("RANK", "0"), ("WORLD_SIZE", "1")]), None);
}

#[test]
fn launchers_nest() {
    let inner = found(&with(SRUN, TORCHRUN)).unwrap();
    assert_eq!((inner.0, inner.1, inner.2), ("torchrun", 3, 4));
    let inner = found(&with(SRUN, MPIRUN)).unwrap();
    assert_eq!((inner.0, inner.1, inner.2), ("mpirun", 1, 2));
    let alike = [("RANK", "1"), ("WORLD_SIZE", "2"), ("MASTER_PORT", "29500")];
    let both = found(&with(MPIRUN, &alike)).unwrap();
    assert_eq!((both.0, both.1, both.3, both.5), ("torchrun", 1, Some(1), 29543));
}

#[test]
fn sources_that_disagree() {
    let by_hand = [("RANK", "0"), ("WORLD_SIZE", "2"), ("MASTER_PORT", "29500")];
    let (code, message) = wrong(&with(MPIRUN, &by_hand), &Flags::default());
    assert_eq!(code, "H0641");
    assert_eq!(message, "torchrun's variables say rank 0 of 2, those of mpirun rank 1 of 2");
    assert_eq!(wrong(&with(SRUN, &by_hand), &Flags::default()).0, "H0641");
    let world = Flags { world: Some(8), ..Flags::default() };
    let (code, message) = wrong(MPIRUN, &world);
    assert_eq!((code, message.as_str()), ("H0641", "mpirun started 2 processes, `--world` says 8"));
}

#[test]
fn missing_and_damaged_parts() {
    let none = Flags::default();
    let cases: [(Vec<Pair>, &str); 9] = [
        (without(TORCHRUN, "RANK"), "`RANK` is missing"),
        (without(TORCHRUN, "WORLD_SIZE"), "`WORLD_SIZE` is missing"),
        (without(TORCHRUN, "MASTER_ADDR"), "`MASTER_ADDR` is missing"),
        (with(TORCHRUN, &[("RANK", "x")]), "`RANK` is `x`, and has to be a whole number from 0 to"),
        (with(TORCHRUN, &[("RANK", "4")]), "torchrun says rank 4 of 4"),
        (
            with(TORCHRUN, &[("MASTER_PORT", "99999")]),
            "`MASTER_PORT` is `99999`, and has to be a port",
        ),
        (with(TORCHRUN, &[("TORCHELASTIC_RUN_ID", "none")]), "`HIR_TOKEN` is missing"),
        (without(SRUN, "SLURM_PROCID"), "`SLURM_PROCID` is missing"),
        (vec![("PMIX_RANK", "0"), ("PMIX_NAMESPACE", "a")], "`--world` is missing"),
    ];
    for (pairs, expected) in cases {
        let (code, message) = wrong(&pairs, &none);
        assert_eq!(code, "H0640", "{message}");
        assert!(message.starts_with(expected), "{message}");
    }
    let (code, message) = wrong(&[], &Flags { world: Some(2), ..Flags::default() });
    assert_eq!((code, message.starts_with("`--rank` is missing")), ("H0640", true));
    let half = Flags { rank: Some(0), world: Some(2), ..Flags::default() };
    assert!(wrong(&[], &half).1.starts_with("`--coordinator` is missing"));
    let far = Flags { coordinator: Some("node7:80".to_owned()), ..half };
    assert!(wrong(&[], &far).1.starts_with("`HIR_TOKEN` is missing"));
}

/// Half of a launch by hand, which would run everything in each of its processes.
#[test]
fn variables_without_a_rank() {
    let none = Flags::default();
    let half = [("HIR_WORLD", "4"), ("HIR_COORDINATOR", "h:1")];
    for pairs in [&half[..], &half[..1], &half[1..]] {
        let (code, message) = wrong(pairs, &none);
        assert_eq!(code, "H0640");
        assert!(message.starts_with("`HIR_RANK` is missing: `HIR_"), "{message}");
        // Whoever says how many ranks this process has means it.
        assert_eq!(ask(pairs, &none, Some(4)).unwrap(), None);
    }
    // With a launcher they say what flags would.
    let place =
        ask(&with(MPIRUN, &half[1..]), &Flags { token: Some("x".to_owned()), ..none }, None);
    assert_eq!(place.unwrap().unwrap().host, "h");
    let (code, message) = wrong(&with(MPIRUN, &half), &Flags::default());
    assert_eq!(code, "H0641");
    assert_eq!(message, "mpirun started 2 processes, `HIR_WORLD` says 4");
}

/// Launchers of MPICH's kind.
#[test]
fn launchers_that_nobody_reads() {
    let pmi = [("PMI_RANK", "1"), ("PMI_SIZE", "2")];
    let diag = ask(&pmi, &Flags::default(), None).unwrap_err();
    assert_eq!(diag.code, "H0640");
    assert!(diag.message.starts_with("`PMI_SIZE` is 2: "), "{}", diag.message);
    for flag in ["--rank $PMI_RANK", "--world $PMI_SIZE", "--coordinator"] {
        assert!(diag.notes[0].contains(flag), "{}", diag.notes[0]);
    }
    assert_eq!(ask(&pmi, &Flags::default(), Some(2)).unwrap(), None);
    assert_eq!(found(&[("PMI_RANK", "0"), ("PMI_SIZE", "1")]), None);
    // srun may bring them, and is read.
    assert_eq!(found(&with(SRUN, &pmi)).unwrap().0, "srun");
}

#[test]
fn reasons_are_those_that_are_known() {
    let none = Flags::default();
    let by_hand = |rank, world, coordinator: &str| Flags {
        rank: Some(rank),
        world: Some(world),
        coordinator: Some(coordinator.to_owned()),
        ..Flags::default()
    };
    let no_id = without(TORCHRUN, "TORCHELASTIC_RUN_ID");
    let no_job = without(MPIRUN, "PMIX_NAMESPACE");
    let cases: [(Vec<Pair>, Flags, &str); 9] = [
        (no_job, none.clone(), "`MASTER_PORT` is missing: mpirun gave no id of the job"),
        (without(&no_id, "MASTER_PORT"), none.clone(), "`MASTER_PORT` is missing: `RANK` and"),
        (
            without(MPIRUN, "OMPI_COMM_WORLD_LOCAL_SIZE"),
            none.clone(),
            "`MASTER_ADDR` is missing: nothing says whether mpirun's ranks are on one host",
        ),
        (
            with(MPIRUN, &[("OMPI_COMM_WORLD_LOCAL_SIZE", "1")]),
            none.clone(),
            "`MASTER_ADDR` is missing: mpirun's ranks are on several hosts",
        ),
        (
            vec![("HIR_RANK", "0"), ("HIR_WORLD", "2"), ("HIR_COORDINATOR", "foo")],
            none.clone(),
            "`HIR_COORDINATOR` is `foo`, which is no host with a port",
        ),
        (
            with(TORCHRUN, &[("MASTER_PORT", "0")]),
            none,
            "`MASTER_PORT` is `0`, and has to be a port from 1 to 65535",
        ),
        (vec![], by_hand(0, 2, "localhost:0"), "`--coordinator` is `localhost:0`, which is no"),
        (vec![], by_hand(0, 5000, "h:1"), "`--world` says that there are 5000 processes"),
        (vec![], by_hand(0, 0, "h:1"), "`--world` says that there are 0 processes"),
    ];
    for (pairs, flags, expected) in cases {
        let (code, message) = wrong(&pairs, &flags);
        assert_eq!(code, "H0640", "{message}");
        assert!(message.starts_with(expected), "{message}");
    }
}
