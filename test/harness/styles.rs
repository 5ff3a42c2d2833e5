//! Every program of the repository says the same in every month's spelling.
//!
//! Each valid `.hir` file goes once around the five styles, as text: after each step it is read again, printed to
//! the same text, run where it can run, and must compute what it computed before. `HIR_STYLES=pairs` goes from
//! each style to each other one instead. Programs of the folder `HIR_DUMPS` take part where it is set.

pub(crate) mod run;

use hostir::diag::render;
use hostir::ir::edit::Edit;
use hostir::ir::{Era, Program};
use hostir_lit::directives;
use hostir_test::tree;
use run::{Ran, Setting};
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Fewer programs than this are suspicious: of the repository's, so many can be read and run at least.
const READ: usize = 380;
const RUN: usize = 330;

/// One program of a file.
struct Case {
    name: String,
    text: String,
    settings: Vec<Setting>,
}

/// The number of programs that were converted, and of those that ran.
#[derive(Default)]
struct Counts {
    read: AtomicUsize,
    ran: AtomicUsize,
}

#[test]
#[allow(clippy::print_stdout, reason = "says how many programs were converted")]
fn programs_mean_the_same_in_every_style() {
    let pairs = match std::env::var("HIR_STYLES").as_deref() {
        Ok("pairs") => true,
        Ok(other) => panic!("HIR_STYLES is `pairs` or not set, but it is `{other}`"),
        Err(_) => false,
    };
    let cases = cases();
    let (counts, failures, next) = (Counts::default(), Mutex::new(Vec::new()), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(2, usize::from) {
            scope.spawn(|| {
                while let Some(case) = cases.get(next.fetch_add(1, Ordering::Relaxed)) {
                    if let Err(text) = check(case, pairs, &counts) {
                        failures.lock().expect("no thread panics").push(text);
                    }
                }
            });
        }
    });
    let (read, ran) = (counts.read.into_inner(), counts.ran.into_inner());
    println!("{read} programs converted, {ran} of them run in every style");
    let failures = failures.into_inner().expect("no thread panics");
    assert!(failures.is_empty(), "{} programs differ\n{}", failures.len(), failures.join("\n"));
    assert!(read >= READ, "only {read} programs were read");
    assert!(ran >= RUN, "only {ran} programs ran");
}

/// The programs of all files that are meant to be valid.
fn cases() -> Vec<Case> {
    let mut files: Vec<PathBuf> = tree::programs();
    if let Some(dumps) = std::env::var_os("HIR_DUMPS") {
        files.extend(tree::files(&PathBuf::from(dumps), ".hir"));
    }
    let mut cases = Vec::new();
    for path in files {
        let text = tree::read(&path);
        let Ok(found) = directives::parse_directives(&text) else { continue };
        // Without communications and loops a select of a device axis is plain math in 2024-12, which calls HirAliasSelect
        // so too; these programs of the corpus take a rank's own part by it and do not communicate.
        let is_alone = hostir_grammar::hir2::bundle::imported_paths(&text).next().is_none();
        if tree::is_rejected(&text, &found) || !is_alone || text.contains("// expect-run") {
            continue;
        }
        let commands: Vec<&str> = found.runs.iter().map(|run| run.command.as_str()).collect();
        let settings = run::settings(&commands);
        for (part, text) in text.split("\n// -----\n").enumerate() {
            let name = format!("{}, part {}", tree::relative(&path), part + 1);
            cases.push(Case { name, text: text.to_owned(), settings: settings.clone() });
        }
    }
    cases
}

/// Reads the only program of a text that has no errors.
fn load(text: &str) -> Result<Program, String> {
    let (mut programs, mut diags) = hostir::load(text);
    if let [program] = programs.as_slice() {
        hostir::verify::verify(program, &mut diags);
    }
    match programs.pop() {
        Some(program) if !diags.has_errors() && programs.is_empty() => Ok(program),
        _ => Err(format!("{}\n{text}", render::to_string("text", text, &diags.items))),
    }
}

/// The text of a program in another style, read from its text in this one.
fn convert(text: &str, era: Era) -> Result<String, String> {
    let mut program = load(text)?;
    let mut edit = Edit::new(&mut program);
    hostir::style::restyle_program(&mut edit, era.style());
    edit.commit();
    let printed = hostir::print::print_to_string(&program);
    let again = hostir::print::print_to_string(&load(&printed)?);
    if again == printed { Ok(printed) } else { Err(format!("printed again\n{again}\n{printed}")) }
}

/// The ways through the styles: lists of styles that follow each other.
fn tours(pairs: bool) -> Vec<Vec<(Era, &'static str)>> {
    let named = |name: &str| *Era::ALL.iter().find(|(_, known)| *known == name).expect("a style");
    if !pairs {
        let around = ["2025-06", "2025-10", "2026-04", "2024-12", "2025-01", "2025-06"];
        return vec![around.map(named).to_vec()];
    }
    let to = |&from: &(Era, &'static str)| Era::ALL.iter().map(move |&to| vec![from, to, from]);
    Era::ALL.iter().flat_map(to).collect()
}

/// Converts a program along all tours. A file that holds no program, several, or one with errors is left out.
fn check(case: &Case, pairs: bool, counts: &Counts) -> Result<(), String> {
    let Ok(program) = load(&case.text) else { return Ok(()) };
    counts.read.fetch_add(1, Ordering::Relaxed);
    let expected = run::first(&program, &case.settings);
    counts.ran.fetch_add(usize::from(expected.is_some()), Ordering::Relaxed);
    for tour in tours(pairs) {
        let mut text = case.text.clone();
        let mut first = None;
        for &(era, name) in &tour {
            let failed = |why: String| format!("{}, --style={name}: {why}", case.name);
            text = convert(&text, era).map_err(failed)?;
            compare(&text, expected.as_ref()).map_err(failed)?;
            first.get_or_insert_with(|| text.clone());
        }
        let first = first.unwrap_or_default();
        if spelled_alike(&first) != spelled_alike(&text) {
            let way: Vec<&str> = tour.iter().map(|(_, name)| *name).collect();
            return Err(format!("{}, {}\n{first}\n{text}", case.name, way.join(" -> ")));
        }
    }
    Ok(())
}

fn compare(text: &str, expected: Option<&(Setting, Ran)>) -> Result<(), String> {
    let Some((setting, expected)) = expected else { return Ok(()) };
    let found = run::with(&load(text)?, setting)?;
    if found == *expected {
        return Ok(());
    }
    Err(format!("computes\n{found:?}\ninstead of\n{expected:?}\n{text}"))
}

/// A text without communications and streams does not show that its month had no HirAliasSelect.
fn spelled_alike(text: &str) -> String {
    text.replace("= HirAliasSelect(", "= select(")
}
