//! `--tuning=sustained` on a stand-in for a GPU: the numbers are those of the CPU, with kernels of our own, too, and a
//! later process takes the choice that an earlier one has kept.

use crate::site::{Site, run};
use sha2::{Digest, Sha256};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

const PROGRAM: &str = "hir 2\nf(A: f32[m, k], B: f32[k, n]) -> (C: f32[m, n, r.k]):\n  C = matmul(A, B)\n";
/// The bytes of a choice, after a header of the store.
const CHOICE_BYTES: usize = 8;
const HEADER_BYTES: usize = 120;

/// Products that our kernels take, in the ways that factors are stored; 2^30 operations each.
const LARGE: [&str; 3] = [
    "hir 2\nf(A: bf16[1024, 512], B: bf16[512, 1024]) -> (C: bf16[1024, 1024, r.512]):\n  C = matmul(A, B)\n",
    "hir 2\nf(A: f16[1024, 512], B: f16[1024, 512]) -> (C: f16[1024, 1024, r.512]):\n  C = linear(A, B)\n",
    "hir 2\nf(X: bf16[512, 1024], B: bf16[512, 1024]) -> (C: bf16[1024, 1024, r.512]):\n  A = Set.Permute(X, perm=[1, 0])\n  C = matmul(A, B)\n",
];
/// A product whose rows two ranks exchange before they sum them, of 2^30 operations a rank.
const SCATTERED: &str = "hir 2.1
mesh d = 0..2
f(A: bf16[x:2, 2, 256, 1024], B: bf16[x:2, 1024, 1024]) -> (C: bf16[r.2, x:2, 256, 1024]) on d:
  R: bf16[2, 256, 1024] = alloc
  C = alloc
  h = recv(R[1 - rank], from=1 - rank, via=CUDA, protocol=put)
  P = matmul(A[own, 1 - rank], B[own])
  wait send(P, to=1 - rank, via=CUDA, protocol=put)
  R[rank] = matmul(A[own, rank], B[own])
  wait h
  C[own] = reduction(R, op=add, init=bf16(0), allreduce=false)
";
/// The algorithms of a large product: two that the stand-in proposes, a variant, and four tile shapes of our kernel.
const ALGORITHMS: u8 = 7;

/// A folder with stand-ins for CUDA's libraries.
fn site_with_fakes() -> Site {
    let site = Site::new();
    let libraries = site.folder.path().join("libraries");
    std::fs::create_dir(&libraries).unwrap();
    hostir_fakes::install(&libraries).unwrap();
    site
}

/// The result of a run with these flags.
fn result_of(site: &Site, flags: &[&str]) -> Vec<u8> {
    result_on_devices(site, "1", flags)
}

/// The same on so many devices.
fn result_on_devices(site: &Site, devices: &str, flags: &[&str]) -> Vec<u8> {
    let folder = site.folder.path();
    let result = folder.join("C.safetensors");
    let mut command = site.bare();
    command.args(["f.hir", "--set", "*=512", "--output"]).arg(format!("C={}", result.display())).args(flags);
    command.env("LD_LIBRARY_PATH", folder.join("libraries")).env("HIR_FAKE_DEVICES", devices);
    command.env("HOSTIR_CACHE", folder.join("cache"));
    let (status, _, err) = run(&mut command);
    assert_eq!(status, Some(0), "{flags:?}\n{err}");
    assert!(!err.contains("warning"), "{flags:?}\n{err}");
    let bytes = std::fs::read(&result).unwrap();
    std::fs::remove_file(result).unwrap();
    bytes
}

/// The entries that are kept.
fn entries(cache: &Path) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(cache.join("kernels")) else { return Vec::new() };
    entries.map(|entry| entry.unwrap().path()).collect()
}

/// The kept choices; kernels are longer.
fn kept_choices(cache: &Path) -> Vec<PathBuf> {
    let length = (HEADER_BYTES + CHOICE_BYTES) as u64;
    entries(cache).into_iter().filter(|path| std::fs::metadata(path).unwrap().len() == length).collect()
}

/// The stand-in's kernel is its source.
fn text_of(path: &Path) -> String {
    String::from_utf8_lossy(&std::fs::read(path).unwrap()).into_owned()
}

#[test]
fn a_choice_is_kept_and_taken() {
    let site = site_with_fakes();
    let cache = site.folder.path().join("cache");
    std::fs::write(site.folder.path().join("f.hir"), PROGRAM).unwrap();
    let expected = result_of(&site, &["--backend=cpu"]);
    assert_eq!(result_of(&site, &["--backend=cuda"]), expected);
    assert!(kept_choices(&cache).is_empty(), "single runs are not kept");
    assert_eq!(result_of(&site, &["--backend=cuda", "--tuning=sustained"]), expected);
    let kept = kept_choices(&cache);
    let [path] = kept.as_slice() else { panic!("one choice, not {kept:?}") };
    // The fakes propose two algorithms, and have a variant of one. Whatever is kept is taken: nothing writes another
    // choice.
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

#[test]
fn a_kernel_of_our_own_computes_large_products() {
    for program in LARGE {
        let site = site_with_fakes();
        let cache = site.folder.path().join("cache");
        std::fs::write(site.folder.path().join("f.hir"), program).unwrap();
        let expected = result_of(&site, &["--backend=cpu"]);
        let sustained = ["--backend=cuda", "--tuning=sustained", "--gemm-kernels"];
        assert_eq!(result_of(&site, &sustained), expected);
        let kept = kept_choices(&cache);
        let [path] = kept.as_slice() else { panic!("one choice, not {kept:?}") };
        let whole = std::fs::read(path).unwrap();
        assert!(whole[HEADER_BYTES] < ALGORITHMS);
        for choice in 0..ALGORITHMS {
            std::fs::write(path, entry_with(&whole, choice)).unwrap();
            // A choice of sustained trials is taken by quick ones, too; the last one goes through a graph.
            let graph = if choice + 1 == ALGORITHMS { "--graph" } else { "--tuning=quick" };
            let flags = ["--backend=cuda", "--gemm-kernels", graph];
            assert_eq!(result_of(&site, &flags), expected, "{program}{choice}");
        }
        // Each tile shape was compiled, and kept beside the choice.
        let tiles = entries(&cache).into_iter().filter(|path| text_of(path).contains("wgmma.mma_async"));
        assert_eq!(tiles.count(), 4);
    }
}

#[test]
fn one_launch_stores_in_the_memory_of_two_ranks() {
    for devices in ["1", "2"] {
        let site = site_with_fakes();
        let cache = site.folder.path().join("cache");
        std::fs::write(site.folder.path().join("f.hir"), SCATTERED).unwrap();
        let expected = result_of(&site, &["--backend=cpu"]);
        assert_eq!(result_on_devices(&site, devices, &["--backend=cuda"]), expected);
        let sustained = ["--backend=cuda", "--tuning=sustained", "--gemm-kernels"];
        assert_eq!(result_on_devices(&site, devices, &sustained), expected);
        let kept = kept_choices(&cache);
        let [path] = kept.as_slice() else { panic!("one choice for both products, not {kept:?}") };
        let whole = std::fs::read(path).unwrap();
        for choice in 0..ALGORITHMS {
            std::fs::write(path, entry_with(&whole, choice)).unwrap();
            let flags = ["--backend=cuda", "--gemm-kernels"];
            assert_eq!(result_on_devices(&site, devices, &flags), expected, "{choice}");
        }
        let tiles = entries(&cache).into_iter().map(|path| text_of(&path));
        let tiles = tiles.filter(|text| text.contains("wgmma.mma_async"));
        assert_eq!(tiles.filter(|text| text.contains("#define PARTS 2\n")).count(), 4);
    }
}

/// The entry with another choice.
fn entry_with(whole: &[u8], choice: u8) -> Vec<u8> {
    let (mut header, mut image) = (whole[..HEADER_BYTES].to_vec(), whole[HEADER_BYTES..].to_vec());
    image[0] = choice;
    header.truncate(HEADER_BYTES - 32);
    [header, Sha256::digest(&image).to_vec(), image].concat()
}
