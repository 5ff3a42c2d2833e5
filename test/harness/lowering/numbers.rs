//! Numbers name domains: whatever numbers people give them, passes compute the same.

use super::generate;
use super::meaning::compare_meaning;
use super::run::{Ran, apply, load, outputs};
use crate::effort;
use fastrand::Rng;
use hostir::ir::edit::Edit;
use hostir::ir::{DomainId, IterDomain, Program};
use hostir::lower;
use hostir::lower::SizeSettings;
use hostir_test::tree;
use std::collections::BTreeMap;

/// One program under two sorts of numbers.
struct Case {
    name: String,
    text: String,
    set: BTreeMap<String, i64>,
}

/// The result of a pipeline on a program: its run, or the code of the error.
type Made = Result<Ran, &'static str>;

/// Passes without an option that has to be given, and pipelines.
fn pipelines() -> Vec<String> {
    let single = hostir_passes::PASSES.iter().filter(|pass| pass.options.iter().all(|option| option.default.is_some()));
    let mut all: Vec<String> = single.map(|pass| pass.name.to_owned()).collect();
    all.extend(
        [
            "chunk{axis=T0.0,factor=2,parallel=stream},host-ir-lower",
            "chunk{axis=T0.1,factor=2}",
            "host-ir-lower,canonicalize,cse,dce,ring-stream-buffers",
            "host-ir-lower{merge=graph},segment-host-units",
            "propagate-shardings,insert-reshardings,reorder-sharded-axis,make-resharding-contiguous,convert-op-to-communication",
            "propagate-shardings,decompose-reshardings,segment-host-units,stream-parallel-type,convert-op-to-communication",
            "propagate-shardings,insert-reshardings,finalize-multidevice-domains,segment-host-units,allocate-and-deallocate",
        ]
        .map(str::to_owned),
    );
    all
}

/// Programs of the tree that run, `count` of them or all, and some random ones.
fn cases(rng: &mut Rng, count: Option<usize>) -> Vec<Case> {
    let mut found = Vec::new();
    let mut files = tree::programs();
    if count.is_some() {
        rng.shuffle(&mut files);
    }
    for path in files {
        if count.is_some_and(|count| found.len() >= count) {
            break;
        }
        let text = tree::read(&path);
        let (programs, diags) = hostir::load(&text);
        if diags.has_errors() || programs.len() > 20 {
            continue;
        }
        for (program, number) in programs.iter().zip(1..) {
            let text = hostir::print::print_to_string(program);
            let Ok(program) = load(&text) else { continue };
            let name = format!("{} container {number}", tree::relative(&path));
            let Some(set) = sizes(&program) else { continue };
            found.push(Case { name, text, set });
        }
    }
    for index in 0..count.unwrap_or(200) {
        let generated = generate::program(rng);
        let name = format!("random program {index}");
        found.push(Case { name, text: generated.text, set: generated.set });
    }
    found
}

/// Extents with which a program runs.
fn sizes(program: &Program) -> Option<BTreeMap<String, i64>> {
    let mut set = BTreeMap::new();
    for _ in 0..8 {
        if is_large(program, &set) {
            return None;
        }
        let Err(message) = outputs(program, &set, 4) else { return Some(set) };
        let (_, rest) = message.split_once("--set ")?;
        let name: String = rest.chars().take_while(char::is_ascii_alphanumeric).collect();
        if name.is_empty() || set.insert(name, 4).is_some() {
            return None;
        }
    }
    None
}

/// Whether a run takes longer than a test of many programs should.
fn is_large(program: &Program, set: &BTreeMap<String, i64>) -> bool {
    let sizes = SizeSettings { set: set.clone(), streams: 4, ..SizeSettings::default() };
    let Ok(prepared) = lower::prepare_program(program, &sizes) else { return false };
    let steps: usize = prepared.plans.iter().map(|plan| plan.iter().count()).sum();
    prepared.estimated_bytes() > 1 << 18 || steps > 5000
}

/// Other numbers for all domains, the same ones for the same ones.
fn shuffle(program: &mut Program, rng: &mut Rng) {
    let domains: Vec<IterDomain> = program.all_domains().copied().collect();
    let mut numbers: Vec<u32> = (0..domains.len() as u32 * 2 + 2).collect();
    rng.shuffle(&mut numbers);
    let mut known = BTreeMap::new();
    let mut edit = Edit::new(program);
    for (at, domain) in domains.into_iter().enumerate() {
        let Some(number) = domain.number else { continue };
        let next = known.len();
        let number = *known.entry(number).or_insert(numbers[next]);
        edit.set_domain(DomainId(at as u32), IterDomain { number: Some(number), ..domain });
    }
    edit.commit();
}

/// Runs a pipeline, prints, reads and runs what it made.
fn made(text: &str, set: &BTreeMap<String, i64>, passes: &str) -> Result<Made, String> {
    let mut program = load(text)?;
    if let Some(code) = apply(&mut program, text, passes)? {
        return Ok(Err(code));
    }
    let printed = hostir::print::print_to_string(&program);
    let again = load(&printed)?;
    if hostir::print::print_to_string(&again) != printed {
        return Err(format!("prints as something else once it is read\n{printed}"));
    }
    match outputs(&again, set, 4) {
        Ok(ran) => Ok(Ok(ran)),
        Err(message) => Err(format!("{message}\n{printed}")),
    }
}

fn close(a: &[Vec<f64>], b: &[Vec<f64>]) -> bool {
    let near = |x: f64, y: f64| x == y || (x.is_nan() && y.is_nan()) || (x - y).abs() <= 1e-4 * x.abs().max(1.0);
    let same = |x: &Vec<f64>, y: &Vec<f64>| x.len() == y.len() && x.iter().zip(y).all(|(x, y)| near(*x, *y));
    a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b))
}

/// Compares what two programs compute: by a proof, and by values where there is neither a proof nor a difference.
fn is_same(plain: &Ran, found: &Ran) -> Result<(), String> {
    match compare_meaning(&found.prepared, &plain.prepared) {
        Err(message) if message.starts_with("H0721") || !close(&plain.values, &found.values) => Err(message),
        _ => Ok(()),
    }
}

fn check(case: &Case, rng: &mut Rng, pipelines: &[String], each: bool) -> Result<(u64, u64), String> {
    let plain = outputs(&load(&case.text)?, &case.set, 4)?;
    let mut program = load(&case.text)?;
    shuffle(&mut program, rng);
    let shuffled = hostir::print::print_to_string(&program);
    let read =
        outputs(&load(&shuffled)?, &case.set, 4).map_err(|message| format!("shuffled: {message}\n{shuffled}"))?;
    if !close(&plain.values, &read.values) {
        return Err(format!("other numbers, other values\n{shuffled}"));
    }
    compare_meaning(&read.prepared, &plain.prepared).map_err(|message| format!("{message}\n{shuffled}"))?;
    let (mut equal, mut refused) = (0, 0);
    for passes in pipelines {
        if !each && rng.usize(..pipelines.len()) >= 3 {
            continue;
        }
        // A program that its pipeline breaks under its own numbers is another test's.
        let Ok(expected) = made(&case.text, &case.set, passes) else { continue };
        match (expected, made(&shuffled, &case.set, passes)) {
            (Ok(_), Ok(Ok(found))) => {
                is_same(&plain, &found).map_err(|message| format!("{passes}: {message}\n{shuffled}"))?;
                equal += 1;
            }
            (Err(a), Ok(Err(b))) if a == b => refused += 1,
            (expected, Err(message)) if expected.is_ok() => {
                return Err(format!("{passes}\n{shuffled}\n{message}"));
            }
            (expected, found) => {
                let expected = expected.map(|_| "values");
                let found = found.map(|made| made.map(|_| "(other) values"));
                return Err(format!("{passes}: {expected:?}, then {found:?}\n{shuffled}"));
            }
        }
    }
    Ok((equal, refused))
}

/// `HIR_PROGRAMS=300` takes that many programs of the tree and random ones, `HIR_FULL=1` every one of the tree
/// under every pipeline.
#[test]
#[allow(clippy::print_stdout, reason = "says how many programs were compared")]
fn passes_do_not_look_at_numbers() {
    let all = effort::number("HIR_FULL") == Some(1);
    let seed = effort::number("HIR_SEED").unwrap_or(1);
    let mut rng = Rng::with_seed(seed);
    let pipelines = pipelines();
    let (mut equal, mut refused) = (0, 0);
    let count = effort::cases("HIR_PROGRAMS", 60, 1000).min(1000) as usize;
    for case in cases(&mut rng, (!all).then_some(count)) {
        match check(&case, &mut rng, &pipelines, all) {
            Ok((more, none)) => {
                equal += more;
                refused += none;
            }
            Err(message) => panic!("{} {:?} (seed {seed}): {message}", case.name, case.set),
        }
    }
    println!("{equal} programs made and compared, {refused} refused with an error");
    assert!(equal > 50, "only {equal} programs could be compared");
}

/// Numbers ascend in the order of the axes, and the program computes the same.
#[test]
fn renumbered_programs_compute_the_same() {
    let mut rng = Rng::with_seed(effort::number("HIR_SEED").unwrap_or(2));
    for case in cases(&mut rng, Some(60)).into_iter().filter(|case| case.set.is_empty()) {
        let mut program = load(&case.text).expect("a program that ran");
        let plain = outputs(&program, &case.set, 4).expect("a program that ran");
        shuffle(&mut program, &mut rng);
        hostir::style::renumber_program(&mut program);
        let permuted = hostir::ir::order::permuted_results(&program);
        for tensor in program.tensors().ids().filter(|tensor| !permuted[tensor.0 as usize]) {
            let domains = program.domains(tensor);
            let axes = program.logical_axes(tensor);
            let numbers: Vec<u32> = axes.iter().filter_map(|at| domains[*at as usize].number).collect();
            assert!(numbers.is_sorted(), "{} {numbers:?}", case.name);
        }
        let printed = hostir::print::print_to_string(&program);
        let again = load(&printed).unwrap_or_else(|message| panic!("{}: {message}", case.name));
        let found = outputs(&again, &case.set, 4).unwrap_or_else(|m| panic!("{}: {m}", case.name));
        assert!(close(&plain.values, &found.values), "{}\n{printed}", case.name);
        let proved = compare_meaning(&found.prepared, &plain.prepared);
        proved.unwrap_or_else(|message| panic!("{}: {message}\n{printed}", case.name));
    }
}
