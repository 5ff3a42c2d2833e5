//! `--tune-file` with several processes, and on stand-ins for GPUs.

use crate::site::{Site, run};
use std::process::Command;

const WHOLE: &str = "hir 2\nsizes n=64\nwhole(X: f32[4, n]) -> (Y: f32[4, n]):\n  Y = relu(X)\n";
const PARTS: &str =
    "hir 2\nsizes n=64\nparts(X: f32[4, n]) -> (Y: f32[4, n]):\n  Y = alloc\n  for i in 4:\n    Y[i] = relu(X[i])\n";

/// A folder with two ways to compute the same.
fn site_with_ways() -> Site {
    let site = Site::new();
    std::fs::write(site.folder.path().join("whole.hir"), WHOLE).unwrap();
    std::fs::write(site.folder.path().join("parts.hir"), PARTS).unwrap();
    site
}

/// A choice among the two, which keeps the times.
fn tune(site: &Site, flags: &[&str]) -> Command {
    let mut command = site.bare();
    command.args(["--tune", "whole.hir", "parts.hir", "--tune-file=choices.toml", "--tune-margin=1000"]).args(flags);
    command
}

#[test]
fn writers_at_the_same_time_keep_each_others_choices() {
    let site = site_with_ways();
    let sizes: Vec<String> = (1..=8).map(|n| format!("n={n}")).collect();
    let children = sizes.iter().map(|size| tune(&site, &["--backend=sim", "--set", size]).spawn().unwrap());
    let children: Vec<_> = children.collect();
    for child in children {
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
    let text = std::fs::read_to_string(site.folder.path().join("choices.toml")).unwrap();
    for size in sizes {
        assert!(text.contains(&format!("sizes = [\"{size}\"]")), "{size}\n{text}");
    }
    let others = std::fs::read_dir(site.folder.path())
        .unwrap()
        .filter(|entry| entry.as_ref().unwrap().file_name().to_string_lossy().ends_with(".tmp"));
    assert_eq!(others.count(), 0);
}

/// The output and the report of a choice on a stand-in for a GPU.
fn tune_on_gpu(site: &Site, flags: &[&str]) -> (String, String) {
    let mut command = tune(site, &["--backend=cuda", "--iters=6"]);
    command.args(flags).env("LD_LIBRARY_PATH", site.folder.path().join("libraries")).env("HIR_FAKE_DEVICES", "1");
    let (status, out, err) = run(&mut command);
    assert_eq!(status, Some(0), "{err}");
    (out, err)
}

#[test]
fn times_of_other_gpus_do_not_count() {
    let site = site_with_ways();
    let libraries = site.folder.path().join("libraries");
    std::fs::create_dir(&libraries).unwrap();
    hostir_fakes::install(&libraries).unwrap();
    let (first, warnings) = tune_on_gpu(&site, &[]);
    let platform = first.lines().find_map(|line| line.strip_prefix("on ")).unwrap().to_owned();
    assert!(platform.starts_with("1 x Fake"), "{first}");
    assert!(first.contains("whole.hir: ") && first.contains(" measured (95% interval "), "{first}");
    assert!(!warnings.contains("H0655"), "{warnings}");
    let file = site.folder.path().join("choices.toml");
    let text = std::fs::read_to_string(&file).unwrap();
    assert!(text.contains(&format!("platform = \"{platform}\"")), "{platform}\n{text}");
    let (second, _) = tune_on_gpu(&site, &[]);
    assert!(second.contains("nothing was measured") && !second.contains("on 1 x"), "{second}");
    // A graph is other work, which is no reason to warn.
    let (third, warnings) = tune_on_gpu(&site, &["--graph"]);
    assert!(third.contains("on 1 x") && !warnings.contains("H0655"), "{third}{warnings}");
    // The file of another machine.
    std::fs::write(&file, text.replace(&platform, "1 x Other")).unwrap();
    let (fourth, warnings) = tune_on_gpu(&site, &[]);
    assert!(fourth.contains("on 1 x"), "{fourth}");
    assert!(warnings.contains("[H0655]") && warnings.contains("for another platform: `1 x Other`, here"), "{warnings}");
}
