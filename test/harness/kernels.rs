//! `cargo test --test kernels`: NVRTC compiles the kernels that the programs of the tree's tests need on a GPU, with the
//! sizes that their `hir-run` lines give, one of those that differ in numbers alone (`HIR_FULL=1`: every one); and plans
//! with joined kernels compute the same. No GPU is needed.
#![allow(clippy::print_stdout, clippy::unwrap_used, reason = "a test program's own report")]

#[path = "../library/common/effort.rs"]
mod effort;
#[path = "../library/common/fused.rs"]
mod fused;
#[path = "../library/common/needs.rs"]
mod needs;
#[path = "../library/common/nvrtc.rs"]
mod nvrtc;

use hostir::backend::cpu;
use hostir::data::HostTensor;
use hostir::lower::{PreparedProgram, SizeSettings};
use hostir::plan::BufferView;
use hostir_gpu::codegen;
use hostir_gpu::codegen::wgmma_gemm::WgmmaGemm;
use hostir_gpu::fuse::fuse_kernels;
use hostir_gpu::gemm_shape::{GemmShape, MatrixElement};
use hostir_lit::directives;
use hostir_lit::programs::{self, Invocation};
use hostir_lit::shell::{self, Pipeline, Redirect};
use hostir_test::tree;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::LazyLock;

/// What the programs of the tests need: planned and run once, for all tests here.
static FOUND: LazyLock<Found> = LazyLock::new(collect);

/// Multiprocessors of the device that kernels are made for.
const SMS: u32 = 132;

/// Programs whose ranks need more memory than this together are compiled, and not run: tests plan them for a GPU.
const RUN_BYTES: u64 = 16 << 20;

/// The kernels that the tests' programs need.
#[derive(Default)]
struct Found {
    /// Kernels' texts.
    texts: BTreeSet<String>,
    /// The reasons that instructions have none, with the place of each.
    refused: BTreeMap<String, String>,
    /// The number of programs that were planned.
    programs: usize,
    /// The number of those that were run, with kernels joined and without.
    compared: usize,
    /// The programs whose joined kernels give other numbers.
    differ: Vec<String>,
}

fn main() -> std::process::ExitCode {
    if let Some(code) = nvrtc::again() {
        return code;
    }
    let mut tests = needs::tests![
        nvrtc::missing();
        nvrtc_compiles_the_kernels_of_all_tests, nvrtc_compiles_exchanges, nvrtc_compiles_products_of_tiles,
    ];
    tests.extend(needs::tests![None; every_instruction_of_the_tests_has_a_kernel]);
    needs::run(tests)
}

fn nvrtc_compiles_the_kernels_of_all_tests() {
    let found = &*FOUND;
    let texts = nvrtc::representatives(found.texts.iter().map(String::as_str));
    println!("{} programs need {} kernels, {} are compiled", found.programs, found.texts.len(), texts.len());
    nvrtc::compile_all(texts, 90);
}

fn nvrtc_compiles_exchanges() {
    let texts = [(1, 1, 1), (0, 1, 0), (7, 8, 7)].map(|(r, m, w)| codegen::p2p_kernel_source(r, m, w));
    nvrtc::compile_all(texts.iter().map(String::as_str), 90);
}

/// All tiles, for factors that are stored by rows and by columns.
fn nvrtc_compiles_products_of_tiles() {
    let ways = [[false, false], [true, false], [false, true], [true, true]];
    let elements = [MatrixElement::Bf16, MatrixElement::F16].into_iter();
    let shapes = elements.flat_map(|element| ways.map(|transposed| GemmShape::dense(element, [1024; 3], transposed)));
    let shapes: Vec<GemmShape> = shapes.collect();
    let texts: Vec<String> = shapes.iter().flat_map(WgmmaGemm::candidates).map(|kernel| kernel.source()).collect();
    assert!(texts.len() >= shapes.len());
    nvrtc::compile_all(texts.iter().map(String::as_str), 90);
}

fn every_instruction_of_the_tests_has_a_kernel() {
    let found = &*FOUND;
    assert!(found.programs > 100, "only {} programs were planned", found.programs);
    assert!(found.compared * 10 > found.programs * 9, "only {} of {} were run", found.compared, found.programs);
    assert!(found.refused.is_empty(), "{:#?}", found.refused);
    assert!(found.differ.is_empty(), "joined kernels differ: {:#?}", found.differ);
}

fn collect() -> Found {
    let mut found = Found::default();
    for path in tree::files(&tree::root().join("test"), ".hir") {
        let Ok(directives) = directives::parse_directives(&tree::read(&path)) else { continue };
        let Ok(scratch) = tempfile::tempdir() else { continue };
        for run in &directives.runs {
            let Ok(line) = tree::substitute(&run.command, &path, scratch.path()) else {
                continue;
            };
            let Ok(lists) = shell::parse_line(&line) else { continue };
            for (_, pipeline) in lists {
                follow(&pipeline, scratch.path(), &tree::relative(&path), &mut found);
            }
        }
    }
    found
}

/// Runs the commands in front of `hir-run`, and plans what it would run.
fn follow(pipeline: &Pipeline, scratch: &Path, place: &str, found: &mut Found) {
    let mut piped = Vec::new();
    for command in pipeline {
        let context = tree::context(scratch);
        let words: Vec<String> = command.words.iter().map(|word| word.text.clone()).collect();
        match words.first().map(String::as_str) {
            Some("hir-run") => return plan(&words[1..], &piped, place, found),
            Some("hir-opt" | "sed" | "cat" | "cp" | "mkdir" | "echo") => {
                let stdin = std::mem::take(&mut piped);
                piped = programs::run_program(&words, Invocation::with_input(stdin, &context)).out;
            }
            _ => return,
        }
        for redirect in &command.redirects {
            if let Redirect::File { path, append: false, .. } = redirect {
                let _ = std::fs::write(scratch.join(path), &piped);
            }
        }
    }
}

/// Plans one call of `hir-run`, if it says all sizes, and does not ask for the CPU: programs that GPUs reject do.
fn plan(words: &[String], piped: &[u8], place: &str, found: &mut Found) {
    if words.iter().any(|word| word == "--backend=cpu") {
        return;
    }
    let Some(file) = words.iter().find(|word| word.ends_with(".hir") || *word == "-") else {
        return;
    };
    let text = match file.as_str() {
        "-" => String::from_utf8_lossy(piped).into_owned(),
        file => tree::read(Path::new(file)),
    };
    let (programs, diags) = hostir::load(&text);
    let number = options(words, "--container").first().and_then(|number| number.parse().ok());
    let Some(program) = programs.get(number.unwrap_or(1usize).saturating_sub(1)) else { return };
    if diags.has_errors() {
        return;
    }
    let Ok(prepared) = hostir::lower::prepare_program(program, &sizes(words)) else { return };
    found.programs += 1;
    add(&prepared, place, found);
}

/// The values of an option.
fn options<'w>(words: &'w [String], name: &str) -> Vec<&'w str> {
    let mut values = Vec::new();
    for (at, word) in words.iter().enumerate() {
        match word.strip_prefix(name) {
            Some("") => values.extend(words.get(at + 1).map(String::as_str)),
            Some(rest) => values.extend(rest.strip_prefix('=')),
            None => {}
        }
    }
    values
}

fn sizes(words: &[String]) -> SizeSettings {
    let number = |name: &str| options(words, name).first().and_then(|value| value.parse().ok());
    let mut sizes = SizeSettings { devices: number("--devices"), ..SizeSettings::default() };
    sizes.streams = number("--streams").unwrap_or(sizes.streams);
    for (name, value) in options(words, "--set").iter().filter_map(|set| set.split_once('=')) {
        match (value.parse(), value.parse()) {
            (Ok(whole), _) => drop(sizes.set.insert(name.to_owned(), whole)),
            (_, Ok(real)) => drop(sizes.reals.insert(name.to_owned(), real)),
            _ => {}
        }
    }
    for (name, shape) in options(words, "--shape").iter().filter_map(|set| set.split_once('=')) {
        let extents = shape.split('x').filter_map(|extent| extent.parse().ok()).collect();
        let name = if name.starts_with('T') { name.to_owned() } else { format!("T{name}") };
        sizes.shapes.insert(name, extents);
    }
    sizes
}

fn add(prepared: &PreparedProgram, place: &str, found: &mut Found) {
    for plan in &prepared.plans {
        let one_by_one = plan.iter().map(|inst| fused::job(&inst.kind, SMS));
        let joined = fuse_kernels(plan).into_iter().map(|fused| fused::joined_job(plan, fused, SMS));
        for job in one_by_one.chain(joined) {
            match job {
                Ok(job) => found.texts.extend(job.launches.into_iter().map(|launch| launch.text)),
                Err(reason) => drop(found.refused.insert(reason.to_string(), place.to_owned())),
            }
        }
    }
    if prepared.plans.iter().map(|plan| plan.peak_bytes).sum::<u64>() <= RUN_BYTES {
        compare_joined(prepared, place, found);
    }
}

fn compare_joined(prepared: &PreparedProgram, place: &str, found: &mut Found) {
    let mut joined = prepared.clone();
    joined.plans = prepared.plans.iter().map(fused::applied).collect();
    // Programs that fail are other tests'.
    let Ok(plain) = run(prepared) else { return };
    found.compared += 1;
    if run(&joined) != Ok(plain) {
        found.differ.push(place.to_owned());
    }
}

/// All ranks' outputs, for inputs that count up.
fn run(prepared: &PreparedProgram) -> Result<Vec<Vec<Option<HostTensor>>>, ()> {
    let input = |view: &Option<BufferView>| match view {
        None => HostTensor::zeros(hostir::ir::DType::Float, &[0]),
        Some(view) => {
            let mut tensor = HostTensor::zeros(view.dtype, &view.shape());
            for index in 0..tensor.len() {
                tensor.set_f64(index, (index % 7) as f64 + 1.0);
            }
            tensor
        }
    };
    let inputs = prepared.plans.iter().map(|plan| plan.inputs.iter().map(input).collect());
    cpu::run_plans(prepared, inputs.collect()).map(|result| result.outputs).map_err(|_| ())
}
