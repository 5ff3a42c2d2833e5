//! The time from an edit to its diagnostics, as a measurement of a release build.
#![allow(clippy::print_stdout, reason = "a measurement's own report")]

use crate::client::{Client, position_of, untitled};
use hostir::ParsedFile;
use hostir::ReadOptions;
use hostir::diag::Diags;
use hostir_lsp::positions::TextPositions;
use hostir_lsp::snapshot::TextSection;
use lsp_types::Range;
use rustix::time::{ClockId, clock_gettime};
use serde_json::json;
use std::fmt::Write as _;
use std::time::{Duration, Instant};

/// A program of about this many ops: pointwise functions, slices, communications and their waits.
fn program_of(ops: usize) -> String {
    let mut text = String::from(
        "hir 2.1\nsizes p=4, n=8\nmesh d = 0..p\n\nf(X: f32[x:p, n], A: f32[n]) -> (G: f32[p, n], Y: f32[n]) on d:\n  G = alloc\n  V0 = relu(A)\n",
    );
    for at in 1..=ops / 5 {
        let before = at - 1;
        let _ = write!(
            text,
            "  h{at}x = allgather(X -> G)\n  W{at} = exp(V{before})\n  wait h{at}x\n  V{at} = W{at} + G[{}]\n",
            at % 4
        );
    }
    let _ = writeln!(text, "  Y = relu(V{})", ops / 5);
    text
}

/// An edit, which the next one takes back: the place, and the letters that come there.
struct EditPlace {
    name: &'static str,
    at: usize,
    letters: &'static str,
    is_error: bool,
}

/// Edits at the start, in the middle and at the end of a program of so many ops.
fn edit_places(text: &str, ops: usize) -> [EditPlace; 4] {
    let places = [
        ("a wrong op, and nothing after it is known", "relu(A)".to_owned(), "z", true),
        ("a wrong op at the end", format!("relu(V{})", ops / 5), "z", true),
        ("a wrong bracket in the middle", format!("+ G[2]\n  h{}x", ops / 10 / 4 * 4 + 3), "(", true),
        ("a comment at the start", "  V0 =".to_owned(), "  // a comment\n", false),
    ];
    places.map(|(name, part, letters, is_error)| EditPlace { name, at: text.find(&part).unwrap(), letters, is_error })
}

/// Time on the clock and of processors.
#[derive(Clone, Copy)]
struct Times {
    wall: Duration,
    cpu: Duration,
}

fn cpu_time() -> Duration {
    let now = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(now.tv_sec as u64, now.tv_nsec as u32)
}

/// The times of edits to their diagnostics, with a pause before each edit.
fn edit_times(ops: usize, count: usize, pause: Duration) -> Vec<(usize, Times)> {
    let mut text = program_of(ops);
    let places = edit_places(&text, ops);
    let mut client = Client::start(&json!({ "proof": true }));
    client.open(&untitled(), &text);
    assert_eq!(client.diagnostics(&untitled(), 0), []);
    let mut times = Vec::new();
    for version in 1..=count as i32 {
        let (number, comes) = ((version as usize - 1) / 2 % places.len(), version % 2 == 1);
        let EditPlace { at, letters, is_error, .. } = places[number];
        let (end, inserted) = if comes { (at, letters) } else { (at + letters.len(), "") };
        let range = Range::new(position_of(&text, at), position_of(&text, end));
        text.replace_range(at..end, inserted);
        std::thread::sleep(pause);
        let (start, cpu) = (Instant::now(), cpu_time());
        client.change(&untitled(), version, Some(range), inserted);
        let found = client.diagnostics(&untitled(), version);
        times.push((number, Times { wall: start.elapsed(), cpu: cpu_time() - cpu }));
        assert_eq!(found.is_empty(), !(comes && is_error), "{found:?}");
    }
    client.finish();
    times
}

/// The value at a share of a sorted list.
fn percentile<T: Copy + Ord>(values: impl Iterator<Item = T>, percent: usize) -> T {
    let mut values: Vec<T> = values.collect();
    values.sort();
    values[values.len() * percent / 100]
}

fn milliseconds(time: Duration) -> String {
    format!("{:6.1}", time.as_secs_f64() * 1e3)
}

/// The times of stages, each from the end of the one before.
struct StageClock {
    times: Vec<(&'static str, Times)>,
    last: (Instant, Duration),
}

impl StageClock {
    fn end_stage(&mut self, name: &'static str) {
        let (wall, cpu) = (self.last.0.elapsed(), cpu_time() - self.last.1);
        self.times.push((name, Times { wall, cpu }));
        self.last = (Instant::now(), cpu_time());
    }
}

/// The work of the server for one text, by stage.
fn stage_times(text: &str) -> Vec<(&'static str, Times)> {
    let mut clock = StageClock { times: Vec::new(), last: (Instant::now(), cpu_time()) };
    let positions = TextPositions::new(text);
    clock.end_stage("line index");
    let (file, mut diags) = ParsedFile::parse(text);
    clock.end_stage("lexing and parsing");
    let mut reader = file.reader_with_options(text, &ReadOptions::default()).with_declarations();
    clock.end_stage("tables of names");
    let program = reader.read_program(0, &mut diags);
    clock.end_stage("resolving");
    let mut found = Diags::default();
    match diags.has_errors() {
        true => hostir::verify::verify_partial(&program, &[], &mut found),
        false => hostir::verify::verify(&program, &mut found),
    }
    clock.end_stage("verifying");
    drop((reader, positions));
    drop((file, program));
    clock.end_stage("freeing");
    let section = TextSection::read_linked(text, &ReadOptions::default());
    clock.end_stage("all of reading");
    let placed = section.place_diags(&section.diags);
    clock.end_stage("placing diagnostics");
    assert_eq!(placed.is_empty(), found.items.is_empty() && diags.items.is_empty());
    clock.times
}

/// The least times of each stage in several rounds.
fn print_stages(title: &str, text: &str) {
    let rounds: Vec<_> = (0..7).map(|_| stage_times(text)).collect();
    println!("{title}: milliseconds on the clock and of processors");
    for (stage, (name, _)) in rounds[0].iter().enumerate() {
        let times = || rounds.iter().map(|round| round[stage].1);
        let (wall, cpu) = (times().map(|time| time.wall).min(), times().map(|time| time.cpu).min());
        println!("  {} {} {name}", milliseconds(wall.unwrap()), milliseconds(cpu.unwrap()));
    }
}

#[test]
#[ignore = "a measurement: cargo test --release -p hostir-lsp -- --ignored --nocapture stages_of_an_edit"]
fn stages_of_an_edit() {
    for ops in [10_000, 100_000] {
        let text = program_of(ops);
        print_stages(&format!("{ops} ops"), &text);
        for EditPlace { name, at, letters, .. } in edit_places(&text, ops) {
            let mut edited = text.clone();
            edited.insert_str(at, letters);
            print_stages(&format!("{ops} ops, {name}"), &edited);
        }
    }
}

/// Prints the times of edits by their place, and of all; returns the 95th percentile of all.
fn print_edits(ops: usize, times: &[(usize, Times)]) -> Duration {
    for (number, EditPlace { name, .. }) in edit_places(&program_of(ops), ops).iter().enumerate() {
        let of_place = || times.iter().filter(|(place, _)| *place == number).map(|(_, time)| time);
        let wall = percentile(of_place().map(|time| time.wall), 50);
        let cpu = percentile(of_place().map(|time| time.cpu), 50);
        println!("  {} {} median on the clock, of processors: {name}", milliseconds(wall), milliseconds(cpu));
    }
    let [median, late] = [50, 95].map(|percent| percentile(times.iter().map(|(_, time)| time.wall), percent));
    println!("  {} median, {} 95th percentile", milliseconds(median), milliseconds(late));
    late
}

#[test]
#[ignore = "a measurement: cargo test --release -p hostir-lsp -- --ignored --nocapture diagnostics_come"]
fn diagnostics_come_soon_after_an_edit() {
    let mut missed = Vec::new();
    for (ops, bar) in [(10_000, 50), (100_000, 150)] {
        // Without a pause no proof begins; in a pause of that length one does, and is under way when the edit comes.
        for (pause, count) in [(0, 80), (300, 40)] {
            println!("{ops} ops, {count} edits after {pause} ms each: bar {bar} ms");
            let found = print_edits(ops, &edit_times(ops, count, Duration::from_millis(pause)));
            if found > Duration::from_millis(bar) {
                missed.push((ops, pause, found));
            }
        }
    }
    assert!(missed.is_empty(), "{missed:?}");
}
