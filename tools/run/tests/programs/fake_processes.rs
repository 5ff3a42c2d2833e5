//! `--processes` on stand-ins for GPUs: each rank is a process, which reaches the others' memory by handles. The
//! outputs are those of the CPU, bit for bit.

use crate::site::{Site, run};
use std::collections::BTreeMap;
use std::path::Path;

/// Files below `test/run/communication`; their first programs run.
const PROGRAMS: [&str; 8] = [
    "allgather.hir",
    "allreduce.hir",
    "reduce_scatter.hir",
    "scatter.hir",
    "p2p_cuda_get.hir",
    "p2p_cuda_put.hir",
    "coalesced_ring_pairwise_exchange.hir",
    "gemm_reduce_scatter.hir",
];
/// All communications as copies.
const COPIES: [&str; 3] = ["--backend=cuda", "--map-backend=NCCL=CUDA", "--map-backend=UCC=CUDA"];

/// The files that a program writes, by their names.
fn outputs_of(site: &Site, program: &str, more: &[&str]) -> BTreeMap<String, Vec<u8>> {
    outputs_with(site, program, more, "0")
}

/// The files that a program writes where calls that free take `free_ms` milliseconds.
fn outputs_with(site: &Site, program: &str, more: &[&str], free_ms: &str) -> BTreeMap<String, Vec<u8>> {
    let folder = site.folder.path();
    let (libraries, outputs) = (folder.join("libraries"), folder.join("outputs"));
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../test/run/communication").join(program);
    let mut command = site.bare();
    command.arg(file).args(["--container=1", "--set", "*=4", "--out-dir"]).arg(&outputs).args(more);
    command.env("LD_LIBRARY_PATH", &libraries).env("HIR_FAKE_DEVICES", "8").env("HIR_FAKE_FREE_MS", free_ms);
    command.env("HIR_FAKE_NCCL", tempfile::tempdir_in(&libraries).unwrap().keep());
    let (status, _, err) = run(&mut command);
    assert_eq!(status, Some(0), "{program} {more:?}\n{err}");
    assert!(!err.contains("fake CUDA"), "{program}\n{err}");
    let entries = std::fs::read_dir(&outputs).unwrap().map(|entry| entry.unwrap());
    let named = |entry: std::fs::DirEntry| {
        let name = entry.file_name().to_string_lossy().into_owned();
        (name, std::fs::read(entry.path()).unwrap())
    };
    let files = entries.map(named).collect();
    std::fs::remove_dir_all(&outputs).unwrap();
    files
}

/// Runs all programs as processes with these flags.
fn compare_with_cpu(flags: &[&str]) {
    let site = Site::new();
    let libraries = site.folder.path().join("libraries");
    std::fs::create_dir(&libraries).unwrap();
    hostir_fakes::install(&libraries).unwrap();
    for program in PROGRAMS {
        let expected = outputs_of(&site, program, &["--backend=cpu"]);
        let found = outputs_of(&site, program, flags);
        assert!(!expected.is_empty() && found == expected, "{program} {flags:?}");
    }
}

#[test]
fn copies_are_as_on_the_cpu() {
    compare_with_cpu(&[&COPIES[..], &["--processes"]].concat());
}

#[test]
fn recorded_copies_are_as_on_the_cpu() {
    compare_with_cpu(&[&COPIES[..], &["--processes", "--graph"]].concat());
}

#[test]
fn nccl_is_as_the_cpu() {
    compare_with_cpu(&["--backend=cuda", "--map-backend=UCC=NCCL", "--processes"]);
}

/// Communicators, handles and memory are released before the libraries are destroyed, however long that takes.
#[test]
fn releases_end_before_the_process() {
    let site = Site::new();
    let libraries = site.folder.path().join("libraries");
    std::fs::create_dir(&libraries).unwrap();
    hostir_fakes::install(&libraries).unwrap();
    let program = "gemm_reduce_scatter.hir";
    let expected = outputs_of(&site, program, &["--backend=cpu"]);
    for more in [&["--processes"][..], &["--processes", "--graph"], &["--graph"], &[]] {
        let flags = [&["--backend=cuda", "--map-backend=UCC=NCCL"], more].concat();
        let found = outputs_with(&site, program, &flags, "700");
        assert!(!expected.is_empty() && found == expected, "{more:?}");
    }
}
