//! `--tuning=sustained` on a stand-in for a GPU: the numbers are those of the CPU, and a later process takes the choice that an
//! earlier one has kept.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on has failed")]

#[path = "launch/site.rs"]
mod site;

use sha2::{Digest, Sha256};
use site::{Site, run};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

const PROGRAM: &str = "hir 2\nf(A: f32[m, k], B: f32[k, n]) -> (C: f32[m, n, r.k]):\n  C = matmul(A, B)\n";
/// The bytes of a choice, behind a header of the store.
const CHOICE_BYTES: usize = 8;
const HEADER_BYTES: usize = 120;

/// The result of a run with these flags.
fn result_of(site: &Site, flags: &[&str]) -> Vec<u8> {
    let folder = site.folder.path();
    let result = folder.join("C.npy");
    let mut command = site.bare();
    command.args(["f.hir", "--set", "*=512", "--output"]).arg(format!("C={}", result.display())).args(flags);
    command.env("LD_LIBRARY_PATH", folder.join("libraries")).env("HIR_FAKE_DEVICES", "1");
    command.env("HOSTIR_CACHE", folder.join("cache"));
    let (status, _, err) = run(&mut command);
    assert_eq!(status, Some(0), "{flags:?}\n{err}");
    assert!(!err.contains("warning"), "{flags:?}\n{err}");
    let bytes = std::fs::read(&result).unwrap();
    std::fs::remove_file(result).unwrap();
    bytes
}

/// The kept choices; kernels are longer.
fn kept_choices(cache: &Path) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(cache.join("kernels")) else { return Vec::new() };
    let paths = entries.map(|entry| entry.unwrap().path());
    paths.filter(|path| std::fs::metadata(path).unwrap().len() == (HEADER_BYTES + CHOICE_BYTES) as u64).collect()
}

#[test]
fn a_choice_is_kept_and_taken() {
    let site = Site::new();
    let (libraries, cache) = (site.folder.path().join("libraries"), site.folder.path().join("cache"));
    std::fs::create_dir(&libraries).unwrap();
    hostir_fakes::install(&libraries).unwrap();
    std::fs::write(site.folder.path().join("f.hir"), PROGRAM).unwrap();
    let expected = result_of(&site, &["--backend=cpu"]);
    assert_eq!(result_of(&site, &["--backend=cuda"]), expected);
    assert!(kept_choices(&cache).is_empty(), "single runs are not kept");
    assert_eq!(result_of(&site, &["--backend=cuda", "--tuning=sustained"]), expected);
    let kept = kept_choices(&cache);
    let [path] = kept.as_slice() else { panic!("one choice, not {kept:?}") };
    // The fakes propose two algorithms, and have a variant of one. Whatever is kept is taken: nothing writes another choice.
    let whole = std::fs::read(path).unwrap();
    assert!(whole[HEADER_BYTES] < 3);
    for choice in 0..3u8 {
        let entry = entry_with(&whole, choice);
        std::fs::write(path, &entry).unwrap();
        let before = std::fs::metadata(path).unwrap().ino();
        assert_eq!(result_of(&site, &["--backend=cuda", "--tuning=sustained"]), expected);
        assert_eq!(std::fs::read(path).unwrap(), entry, "{choice} is taken");
        assert_eq!(std::fs::metadata(path).unwrap().ino(), before, "it is read, not written again");
    }
}

/// The entry with another choice.
fn entry_with(whole: &[u8], choice: u8) -> Vec<u8> {
    let (mut header, mut image) = (whole[..HEADER_BYTES].to_vec(), whole[HEADER_BYTES..].to_vec());
    image[0] = choice;
    header.truncate(HEADER_BYTES - 32);
    [header, Sha256::digest(&image).to_vec(), image].concat()
}
