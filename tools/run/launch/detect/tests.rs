//! Environments as launchers set them, and faulty ones.

use super::*;
use std::collections::BTreeMap;

type Pair = (&'static str, &'static str);
type Pairs = [Pair];

fn ask(pairs: &Pairs, flags: &LaunchFlags, devices: Option<u32>) -> Result<Option<RankAssignment>, Diag> {
    let map: BTreeMap<&str, &str> = pairs.iter().copied().collect();
    detect_rank(flags, devices, &|name| map.get(name).map(|value| (*value).to_owned()))
}

/// Launcher, rank, world, local rank of a place, and the meeting place of the ranks.
type Parts = (&'static str, u32, u32, Option<u32>, String);

fn found(pairs: &Pairs) -> Option<Parts> {
    let place = ask(pairs, &LaunchFlags::default(), None).unwrap()?;
    let RankAssignment { launcher, rank, world, local_rank, rendezvous, token } = place;
    assert_eq!(token.is_some(), matches!(rendezvous, RendezvousPoint::Network(..)), "{rendezvous}");
    Some((launcher.name(), rank, world, local_rank, rendezvous.to_string()))
}

/// The same with a token.
fn found_with_token(pairs: &Pairs) -> Option<Parts> {
    found(&with(pairs, TOKEN))
}

/// The name of the socket of one host's processes that get this text.
fn socket(launch_text: &str) -> String {
    format!("the Unix socket @{}", local::socket_name(launch_text))
}

const TOKEN: &Pairs = &[("HIR_TOKEN", "0123456789abcdef")];

fn wrong(pairs: &Pairs, flags: &LaunchFlags) -> (&'static str, String) {
    let diag = ask(pairs, flags, None).unwrap_err();
    assert!(!diag.notes.is_empty(), "{}", diag.message);
    (diag.code, diag.message.to_string())
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
    assert_eq!(found(&[]), None);
    let torch = |at: &str| Some(("torchrun", 3, 4, Some(1), at.to_owned()));
    assert_eq!(found_with_token(TORCHRUN), torch("node1:29543"));
    let one_host = with(TORCHRUN, &[("LOCAL_WORLD_SIZE", "4")]);
    assert_eq!(found_with_token(&one_host), torch("127.0.0.1:29543"));
    assert_eq!(found(&one_host), torch(&socket("torchrun run7 29543")));
    let port = hosts::port_of("3245735937");
    let mpirun = |at: String| Some(("mpirun", 1, 2, Some(1), at));
    assert_eq!(found_with_token(MPIRUN), mpirun(format!("127.0.0.1:{port}")));
    assert_eq!(found(MPIRUN), mpirun(socket("mpirun 3245735937 0")));
    assert_eq!(found(&with(MPIRUN, &[("PRTE_LAUNCHED", "1")])), found(MPIRUN));
    let srun = |at: String| Some(("srun", 5, 8, Some(1), at));
    let port = hosts::port_of("4711.0");
    assert_eq!(found_with_token(SRUN), srun(format!("gpu07:{port}")));
    let one_host = with(SRUN, &[("SLURM_NNODES", "1")]);
    assert_eq!(found(&one_host), srun(socket("srun 4711.0 0")));
    assert_eq!(found_with_token(&one_host), srun(format!("gpu07:{port}").replace("gpu07", "127.0.0.1")));
}

/// The ids of launchers are known to everybody, and are no tokens.
#[test]
fn several_hosts_need_a_token() {
    let none = LaunchFlags::default();
    let far = LaunchFlags {
        rank: Some(0),
        world: Some(2),
        coordinator: Some("node7:80".to_owned()),
        ..LaunchFlags::default()
    };
    let mpirun = with(MPIRUN, &[("OMPI_COMM_WORLD_LOCAL_SIZE", "1"), ("MASTER_ADDR", "node1")]);
    // Two agents on one machine are two hosts to their launcher; an explicit setting wins.
    let near = with(&mpirun, &[("HIR_COORDINATOR", "localhost:80")]);
    assert_eq!(found(&near).unwrap().4, socket("port 80"));
    let unsaid = with(&mpirun, &[("MASTER_ADDR", "localhost")]);
    let pmix = [("PMIX_RANK", "0"), ("HIR_WORLD", "2"), ("MASTER_ADDR", "a"), ("MASTER_PORT", "9")];
    let cases: [(&Pairs, &LaunchFlags, &str, &str); 6] = [
        (TORCHRUN, &none, "the ranks of torchrun are on several hosts", "before torchrun"),
        (&mpirun, &none, "the ranks of mpirun are on several hosts", "mpirun -x HIR_TOKEN"),
        (&unsaid, &none, "the ranks of mpirun are on several hosts", "mpirun -x HIR_TOKEN"),
        (SRUN, &none, "the ranks of srun are on several hosts", "before srun"),
        (&pmix, &none, "other hosts can reach a", "set it for each rank"),
        (&[], &far, "other hosts can reach node7", "set it for each rank"),
    ];
    for (pairs, flags, why, how) in cases {
        let diag = ask(pairs, flags, None).unwrap_err();
        assert_eq!(diag.code, "H0671");
        assert_eq!(diag.message, format!("`HIR_TOKEN` is missing: {why}"));
        assert!(diag.notes[0].contains("openssl rand -hex 16"), "{}", diag.notes[0]);
        assert!(diag.notes[0].contains(how), "{}", diag.notes[0]);
        assert!(diag.notes[1].contains("HIR_TOKEN_FILE"), "{}", diag.notes[1]);
    }
    for wrong in ["", "short"] {
        let diag = ask(&with(TORCHRUN, &[("HIR_TOKEN", wrong)]), &none, None).unwrap_err();
        assert_eq!(diag.code, "H0671", "{}", diag.message);
    }
}

/// However a loopback address is written, ranks of one host meet at its port.
#[test]
fn loopback_is_one_host() {
    let at = |host: &str| {
        let place = [("HIR_RANK", "1"), ("HIR_WORLD", "2")];
        let address = format!("{host}:7000");
        let map = |name: &str| match name {
            "HIR_COORDINATOR" => Some(address.clone()),
            _ => place.iter().find(|(other, _)| *other == name).map(|(_, text)| (*text).to_owned()),
        };
        detect_rank(&LaunchFlags::default(), None, &map).unwrap().unwrap().rendezvous.to_string()
    };
    for host in ["localhost", "127.0.0.1", "127.0.0.2", "[::1]"] {
        assert_eq!(at(host), socket("port 7000"), "{host}");
    }
    // torchrun's variables, set by hand.
    let by_hand = [("RANK", "1"), ("WORLD_SIZE", "2"), ("MASTER_PORT", "29500")];
    let by_hand = with(&by_hand, &[("MASTER_ADDR", "localhost")]);
    assert_eq!(found(&by_hand).unwrap().4, socket("port 29543"));
}

/// A port beyond the last one wraps to a lower one.
#[test]
fn ports_stay_ports() {
    let place = found_with_token(&with(TORCHRUN, &[("MASTER_PORT", "65530")])).unwrap();
    assert_eq!(place.4, "node1:65487");
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
    let flags = LaunchFlags {
        rank: Some(1),
        world: Some(2),
        coordinator: Some("127.0.0.1:7000".to_owned()),
        ..LaunchFlags::default()
    };
    let place = ask(TORCHRUN, &flags, None).unwrap().unwrap();
    assert_eq!((place.launcher, place.rank, place.world), (Launcher::Explicit, 1, 2));
    assert_eq!(place.rendezvous.to_string(), socket("port 7000"));
    let place = ask(&with(TORCHRUN, TOKEN), &flags, None).unwrap().unwrap();
    assert_eq!(place.rendezvous, RendezvousPoint::Network("127.0.0.1".to_owned(), 7000));
    assert_eq!(ask(TORCHRUN, &LaunchFlags::default(), Some(4)).unwrap(), None);
    assert_eq!(ask(TORCHRUN, &flags, Some(4)).unwrap_err().code, "H0614");
    let by_env = [("HIR_RANK", "0"), ("HIR_WORLD", "2"), ("HIR_COORDINATOR", "localhost:7000")];
    let place = ask(&by_env, &LaunchFlags::default(), None).unwrap().unwrap();
    assert_eq!((place.launcher, place.rank), (Launcher::Explicit, 0));
    assert_eq!(ask(&by_env, &LaunchFlags::default(), Some(2)).unwrap(), None);
}

/// One process alone has all ranks.
#[test]
fn a_world_of_one() {
    assert_eq!(found(&[("RANK", "0"), ("WORLD_SIZE", "1")]), None);
}

#[test]
fn launchers_nest() {
    let inner = found_with_token(&with(SRUN, TORCHRUN)).unwrap();
    assert_eq!((inner.0, inner.1, inner.2), ("torchrun", 3, 4));
    let inner = found(&with(SRUN, MPIRUN)).unwrap();
    assert_eq!((inner.0, inner.1, inner.2), ("mpirun", 1, 2));
    let alike = [("RANK", "1"), ("WORLD_SIZE", "2"), ("MASTER_PORT", "29500")];
    let both = found(&with(MPIRUN, &alike)).unwrap();
    assert_eq!((both.0, both.1, both.3), ("torchrun", 1, Some(1)));
    assert_eq!(both.4, socket("torchrun 3245735937 29543"));
}

#[test]
fn sources_that_disagree() {
    let by_hand = [("RANK", "0"), ("WORLD_SIZE", "2"), ("MASTER_PORT", "29500")];
    let (code, message) = wrong(&with(MPIRUN, &by_hand), &LaunchFlags::default());
    assert_eq!(code, "H0641");
    assert_eq!(message, "the variables of torchrun set rank 0 of 2, but those of mpirun set rank 1 of 2");
    assert_eq!(wrong(&with(SRUN, &by_hand), &LaunchFlags::default()).0, "H0641");
    let world = LaunchFlags { world: Some(8), ..LaunchFlags::default() };
    let (code, message) = wrong(MPIRUN, &world);
    assert_eq!((code, message.as_str()), ("H0641", "mpirun started 2 processes, but `--world` is 8"));
}

#[test]
fn missing_and_damaged_parts() {
    let none = LaunchFlags::default();
    let cases: [(Vec<Pair>, &str); 8] = [
        (without(TORCHRUN, "RANK"), "`RANK` is missing"),
        (without(TORCHRUN, "WORLD_SIZE"), "`WORLD_SIZE` is missing"),
        (without(TORCHRUN, "MASTER_ADDR"), "`MASTER_ADDR` is missing"),
        (with(TORCHRUN, &[("RANK", "x")]), "`RANK` is `x`, but must be an integer from 0 to"),
        (with(TORCHRUN, &[("RANK", "4")]), "torchrun sets rank 4 of 4"),
        (with(TORCHRUN, &[("MASTER_PORT", "99999")]), "`MASTER_PORT` is `99999`, but must be a port"),
        (without(SRUN, "SLURM_PROCID"), "`SLURM_PROCID` is missing"),
        (vec![("PMIX_RANK", "0"), ("PMIX_NAMESPACE", "a")], "`--world` is missing"),
    ];
    for (pairs, expected) in cases {
        let (code, message) = wrong(&pairs, &none);
        assert_eq!(code, "H0640", "{message}");
        assert!(message.starts_with(expected), "{message}");
    }
    let (code, message) = wrong(&[], &LaunchFlags { world: Some(2), ..LaunchFlags::default() });
    assert_eq!((code, message.starts_with("`--rank` is missing")), ("H0640", true));
    let half = LaunchFlags { rank: Some(0), world: Some(2), ..LaunchFlags::default() };
    assert!(wrong(&[], &half).1.starts_with("`--coordinator` is missing"));
}

/// An incomplete launch by hand, which would run everything in each of its processes.
#[test]
fn variables_without_a_rank() {
    let none = LaunchFlags::default();
    let half = [("HIR_WORLD", "4"), ("HIR_COORDINATOR", "h:1")];
    for pairs in [&half[..], &half[..1], &half[1..]] {
        let (code, message) = wrong(pairs, &none);
        assert_eq!(code, "H0640");
        assert!(message.starts_with("`HIR_RANK` is missing: `HIR_"), "{message}");
        // An explicit number of ranks of this process wins.
        assert_eq!(ask(pairs, &none, Some(4)).unwrap(), None);
    }
    // With a launcher they say what flags would.
    let place = found_with_token(&with(MPIRUN, &half[1..]));
    assert_eq!(place.unwrap().4, "h:1");
    let (code, message) = wrong(&with(MPIRUN, &half), &LaunchFlags::default());
    assert_eq!(code, "H0641");
    assert_eq!(message, "mpirun started 2 processes, but `HIR_WORLD` is 4");
}

/// Launchers of MPICH's kind.
#[test]
fn launchers_that_nobody_reads() {
    let pmi = [("PMI_RANK", "1"), ("PMI_SIZE", "2")];
    let diag = ask(&pmi, &LaunchFlags::default(), None).unwrap_err();
    assert_eq!(diag.code, "H0640");
    assert!(diag.message.starts_with("`PMI_SIZE` is 2, "), "{}", diag.message);
    for flag in ["--rank $PMI_RANK", "--world $PMI_SIZE", "--coordinator"] {
        assert!(diag.notes[0].contains(flag), "{}", diag.notes[0]);
    }
    assert_eq!(ask(&pmi, &LaunchFlags::default(), Some(2)).unwrap(), None);
    assert_eq!(found(&[("PMI_RANK", "0"), ("PMI_SIZE", "1")]), None);
    // srun may bring them, and is read.
    assert_eq!(found_with_token(&with(SRUN, &pmi)).unwrap().0, "srun");
}

#[test]
fn reasons_are_those_that_are_known() {
    let none = LaunchFlags::default();
    let by_hand = |rank, world, coordinator: &str| LaunchFlags {
        rank: Some(rank),
        world: Some(world),
        coordinator: Some(coordinator.to_owned()),
        ..LaunchFlags::default()
    };
    let no_id = without(TORCHRUN, "TORCHELASTIC_RUN_ID");
    let no_job = without(MPIRUN, "PMIX_NAMESPACE");
    let cases: [(Vec<Pair>, LaunchFlags, &str); 9] = [
        (no_job, none.clone(), "`MASTER_PORT` is missing: mpirun provides no job id"),
        (without(&no_id, "MASTER_PORT"), none.clone(), "`MASTER_PORT` is missing: `RANK` and"),
        (
            without(MPIRUN, "OMPI_COMM_WORLD_LOCAL_SIZE"),
            none.clone(),
            "`MASTER_ADDR` is missing: mpirun reports neither whether all ranks are on one host",
        ),
        (
            with(MPIRUN, &[("OMPI_COMM_WORLD_LOCAL_SIZE", "1")]),
            none.clone(),
            "`MASTER_ADDR` is missing: the ranks of mpirun are on several hosts",
        ),
        (
            vec![("HIR_RANK", "0"), ("HIR_WORLD", "2"), ("HIR_COORDINATOR", "foo")],
            none.clone(),
            "`HIR_COORDINATOR` is `foo`, but must be a host with a port",
        ),
        (with(TORCHRUN, &[("MASTER_PORT", "0")]), none, "`MASTER_PORT` is `0`, but must be a port from 1 to 65535"),
        (vec![], by_hand(0, 2, "localhost:0"), "`--coordinator` is `localhost:0`, but must be"),
        (vec![], by_hand(0, 5000, "h:1"), "`--world` sets the number of processes to 5000"),
        (vec![], by_hand(0, 0, "h:1"), "`--world` sets the number of processes to 0"),
    ];
    for (pairs, flags, expected) in cases {
        let (code, message) = wrong(&pairs, &flags);
        assert_eq!(code, "H0640", "{message}");
        assert!(message.starts_with(expected), "{message}");
    }
}
