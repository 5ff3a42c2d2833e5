//! Kernels of the user on stand-ins for GPUs, which compile their source for the host: what is refused, what the compiler
//! and the driver say, and what `--check-launches` finds.

use crate::needs;
use crate::site::{Ended, Site, run};
use libtest_mimic::Trial;
use std::path::Path;
use std::process::Command;

/// The tests of this file.
pub(crate) fn tests() -> Vec<Trial> {
    let found = Command::new("g++").arg("--version").output().is_ok_and(|output| output.status.success());
    let is_here = found && cfg!(not(target_env = "musl"));
    let missing = (!is_here).then_some("needs a C++ compiler, g++, and libraries that are opened at run time");
    needs::tests![missing;
        kernels_run_with_permission_alone, the_compiler_names_the_users_file_and_line,
        code_that_the_device_does_not_take_is_told, shared_memory_beyond_the_usual_is_asked_for,
        checks_find_nothing_in_right_launches, checks_find_what_is_not_declared,
        a_wrong_type_is_found_before_anything_runs,
    ]
}

/// Kernels, right and wrong ones.
const KERNELS: &str = r#"extern "C" __global__ void twice(const float* X, float* Y, int n) {
  for (int i = 0; i < n; ++i) Y[i] = 2.0f * X[i];
}
extern "C" __global__ void beside(const float* X, float* Y, int n) {
  for (int i = 0; i <= n; ++i) Y[i] = 2.0f * X[i % n];
}
extern "C" __global__ void stale(const float* X, float* Y, int n) {
  for (int i = 0; i < n; ++i) Y[i] = i == 3 ? Y[i] + 1.0f : 2.0f * X[i];
}
extern "C" __global__ void half_of_it(const float* X, float* Y, int n) {
  for (int i = 0; i < n / 2; ++i) Y[i] = 2.0f * X[i];
}
"#;

/// A program whose launch is given.
fn program(launch: &str) -> String {
    format!(
        "hir 2.1\nsizes n=8\n\nkernel doubled(X: f32[n]) -> (Y: f32[n]):\n  Y = X * f32(2)\n\n\
         kernel tripled(X: f32[n]) -> (Y: f32[n]):\n  Y = X * f32(3)\n\n\
         f(X: f32[2, n]) -> (Y: f32[2, n], Z: f32[2, n]):\n  Y = alloc\n  Z = X + X\n  Y[0] = Set(X[0])\n  Y[1] = Set(X[1])\n  {launch}\n"
    )
}

/// A folder with stand-ins and kernels.
fn site() -> Site {
    let site = Site::new();
    let folder = site.folder.path();
    std::fs::create_dir(folder.join("libraries")).unwrap();
    hostir_fakes::install(&folder.join("libraries")).unwrap();
    std::fs::write(folder.join("k.cu"), KERNELS).unwrap();
    std::fs::write(folder.join("k.ptx"), ".entry twice(.param .u64 X, .param .u64 Y, .param .u32 n) { ret; }").unwrap();
    site
}

fn start(site: &Site, text: &str, more: &[&str]) -> Ended {
    let file: &Path = &site.folder.path().join("p.hir");
    std::fs::write(file, text).unwrap();
    let mut command = site.bare();
    command.args(["p.hir", "--backend=cuda", "--quiet"]).args(more);
    command.env("LD_LIBRARY_PATH", site.folder.path().join("libraries")).env("HIR_FAKE_DEVICES", "2");
    command.env("PATH", std::env::var_os("PATH").unwrap_or_default());
    run(&mut command)
}

/// Runs a launch with `--allow-kernels`; its exit status and messages.
fn launched(site: &Site, launch: &str, more: &[&str]) -> (Option<i32>, String) {
    let (status, _, err) = start(site, &program(launch), &[&["--allow-kernels"], more].concat());
    (status, err)
}

const RIGHT: &str = "launch \"k.cu\"::twice[1, 1](X[0], Y[0], i32(n)) reads(X[0]) writes(Y[0]) reference=doubled";

fn kernels_run_with_permission_alone() {
    let site = site();
    let (status, _, err) = start(&site, &program(RIGHT), &[]);
    assert_eq!(status, Some(2), "{err}");
    assert!(err.contains("error[H0680]") && err.contains("`--allow-kernels`"), "{err}");
    let (status, err) = launched(&site, RIGHT, &[]);
    assert_eq!(status, Some(0), "{err}");
}

fn the_compiler_names_the_users_file_and_line() {
    let site = site();
    std::fs::write(site.folder.path().join("w.cu"), "#include \"w.h\"\n__global__ void w(float* Y) {\n  Y[0] = ;\n}\n")
        .unwrap();
    std::fs::write(site.folder.path().join("w.h"), "// nothing\n").unwrap();
    let (status, err) = launched(&site, "launch \"w.cu\"::w[1, 1](Y) writes(Y)", &[]);
    assert_eq!(status, Some(1), "{err}");
    assert!(err.contains("error[H0683]: `w.cu` does not compile") && err.contains("w.cu(3): error:"), "{err}");
}

fn code_that_the_device_does_not_take_is_told() {
    let site = site();
    let (status, err) = launched(&site, &RIGHT.replace("k.cu", "k.ptx"), &[]);
    assert_eq!(status, Some(3), "{err}");
    assert!(err.contains("error[H0684]: the device does not take the code of `k.ptx`"), "{err}");
}

fn shared_memory_beyond_the_usual_is_asked_for() {
    let site = site();
    for bytes in ["48 * 1024", "48 * 1024 + 8"] {
        let (status, err) = launched(&site, &RIGHT.replace("[1, 1]", &format!("[1, 1, {bytes}]")), &[]);
        assert_eq!(status, Some(0), "{bytes}: {err}");
    }
}

fn checks_find_nothing_in_right_launches() {
    let site = site();
    let (status, err) = launched(&site, RIGHT, &["--check-launches"]);
    assert_eq!(status, Some(0), "{err}");
}

fn checks_find_what_is_not_declared() {
    let site = site();
    let replaced = |kernel: &str| RIGHT.replace("::twice", &format!("::{kernel}"));
    let cases = [
        (replaced("beside"), "writes 4 bytes that its launch does not declare, the first in `Y`, element 8"),
        (replaced("stale"), "reads memory that its launch does not declare: 1 element of `Y` depend"),
        (replaced("half_of_it"), "does not write 4 elements of `Y` that its launch declares, the first at [4]"),
        (
            RIGHT.replace("writes(Y[0])", "writes(Y[1])").replace("Y[0], i32", "Y, i32"),
            "that its launch does not declare",
        ),
        (
            RIGHT.replace("reads(X[0])", "reads(X[1])").replace("X[0], Y", "X, Y"),
            "reads memory that its launch does not declare",
        ),
        (
            RIGHT.replace("=doubled", "=tripled"),
            "computes something else than its reference: 8 of 8 elements of `Y` differ",
        ),
    ];
    for (launch, expected) in cases {
        let (status, err) = launched(&site, &launch, &["--check-launches"]);
        assert_eq!(status, Some(1), "{launch}\n{err}");
        assert!(err.contains("error[H0429]") && err.contains(expected), "{launch}\n{err}");
    }
    // Without checks nobody finds that.
    assert_eq!(launched(&site, &replaced("stale"), &[]).0, Some(0));
}

fn a_wrong_type_is_found_before_anything_runs() {
    let site = site();
    let (status, err) = launched(&site, &RIGHT.replace("i32(n)", "n"), &["--check-launches"]);
    assert_eq!(status, Some(1), "{err}");
    assert!(err.contains("error[H0428]: parameter 3 of the kernel `twice` is `int n`"), "{err}");
}
