//! Timelines of several processes: every rank hands its part to rank 0, which writes one file and draws
//! one chart.

use super::*;

/// The flags of a trace into a file of this name, and of a chart and a picture.
fn flags(name: &str) -> [String; 5] {
    let picture = format!("--timeline={name}.svg");
    ["--trace".to_owned(), format!("{name}.json"), "--timeline".to_owned(), picture, "-q".to_owned()]
}

fn read(site: &Site, name: &str) -> String {
    std::fs::read_to_string(site.folder.path().join(name)).unwrap()
}

/// The model's times do not depend on who runs it: what comes together from four processes is what one
/// process writes, byte for byte.
#[test]
fn four_processes_write_what_one_writes() {
    let site = Site::new();
    let alone = run(site.command().args(["-n", "4"]).args(flags("one")));
    assert_eq!(alone.0, Some(0), "{alone:?}");
    assert!(alone.1.starts_with("timeline of 4 ranks, "), "{}", alone.1);
    let own = run(site.command().args(["-n", "4", "--processes"]).args(flags("own")));
    assert_eq!((own.0, &own.1), (Some(0), &alone.1), "{own:?}");
    let by_hand = flags("hand");
    let by_hand: Vec<&str> = by_hand.iter().map(String::as_str).collect();
    let all: Vec<Ended> = site.ranks(0..4, &by_hand).into_iter().map(end).collect();
    assert_eq!((all[0].0, &all[0].1), (Some(0), &alone.1), "{all:?}");
    assert!(all[1..].iter().all(|end| *end == (Some(0), String::new(), String::new())), "{all:?}");
    for kind in ["json", "svg"] {
        let expected = read(&site, &format!("one.{kind}"));
        assert_eq!(read(&site, &format!("own.{kind}")), expected);
        assert_eq!(read(&site, &format!("hand.{kind}")), expected);
    }
    assert_eq!(std::fs::read_dir(site.folder.path()).unwrap().count(), 7);
}

/// Without a run there is one model, and rank 0 draws it.
#[test]
fn a_check_is_drawn_once() {
    let site = Site::new();
    let mut command = site.command();
    command.args(["-n", "4", "--processes", "--check-only"]).args(flags("check"));
    let checked = run(&mut command);
    assert_eq!(checked.0, Some(0), "{checked:?}");
    assert_eq!(checked.1.matches("timeline of 4 ranks").count(), 1, "{checked:?}");
    assert_eq!(std::fs::read_dir(site.folder.path()).unwrap().count(), 3);
}

/// A rank that nobody asked for its timeline does not keep the others waiting for it.
#[test]
fn all_are_asked_for_their_timeline_or_none() {
    let site = Site::new();
    let mut children = site.ranks(0..3, &["--trace", "run.json"]);
    children.extend(site.ranks(3..4, &[]));
    let all: Vec<Ended> = children.into_iter().map(end).collect();
    assert_eq!(all[0].0, Some(2), "{all:?}");
    assert!(all.iter().all(|end| end.0 == Some(2) || follows_unlike(end.0, &end.2)), "{all:?}");
    let words = "rank 3 was started with a different `--trace` or `--timeline` than rank 0";
    assert!(all[0].2.contains(words), "{all:?}");
    assert_eq!(std::fs::read_dir(site.folder.path()).unwrap().count(), 1);
}

/// A place that cannot be written is told before anything runs, once.
#[test]
fn a_place_that_cannot_be_written() {
    let site = Site::new();
    let all: Vec<Ended> = site.ranks(0..4, &["--trace", "no/run.json"]).into_iter().map(end).collect();
    assert!(all.iter().all(|end| end.0 == Some(3)), "{all:?}");
    assert!(all[0].2.contains("H0602"), "{all:?}");
}
