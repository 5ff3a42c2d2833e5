//! Runs generated kernels on the host: their texts are plain C++ but for a few words of CUDA, which
//! `host.h` gives a meaning.

use crate::cases::Case;
use hostir::data::HostTensor;
use hostir_gpu::codegen::{KernelJob, KernelLaunch};
use hostir_gpu::operand::SymbolicAddress;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// A program that tests whether compiler and system have the features that these tests need.
const PROBE: &str = "#include <ucontext.h>
int main() { volatile _Float16 x = 1; ucontext_t c; return x != 1 || getcontext(&c); }
";

/// The compiler: `g++`, or what `CXX` says.
fn compiler() -> Command {
    let given = std::env::var("CXX").unwrap_or_default();
    let mut words = given.split_whitespace();
    let mut compiler = Command::new(words.next().unwrap_or("g++"));
    compiler.args(words).args(["-std=c++17", "-w", "-O0", "-fno-strict-aliasing"]);
    // Accesses that are not aligned and shifts and sums that overflow end the program.
    compiler.args(["-fsanitize=alignment,shift,signed-integer-overflow,integer-divide-by-zero"]);
    compiler.arg("-fno-sanitize-recover=all");
    compiler
}

/// The reason that kernels cannot run on the host here; `None` if they can.
pub(crate) fn missing() -> Option<&'static str> {
    let folder = folder("probe");
    let (text, program) = (folder.join("probe.cpp"), folder.join("probe"));
    std::fs::write(&text, PROBE).unwrap();
    let compiled = compiler().arg("-o").arg(&program).arg(&text).output();
    let runs = compiled.is_ok_and(|output| output.status.success())
        && Command::new(&program).output().is_ok_and(|output| output.status.success());
    let _ = std::fs::remove_dir_all(&folder);
    (!runs)
        .then_some("needs a C++ compiler with _Float16 and the undefined behaviour sanitizer: g++ 12, or CXX=<command>")
}

/// A folder of this process for programs, which may run there.
fn folder(name: &str) -> PathBuf {
    let name = format!("kernels-{}-{name}", std::process::id());
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    std::fs::create_dir_all(&folder).unwrap();
    folder
}

/// One program that runs all jobs, each on the buffers of its case; returns the buffers afterwards. `name`
/// sets its files apart from other tests'.
pub(crate) fn run(name: &str, jobs: &[(&Case, KernelJob)]) -> Vec<Vec<HostTensor>> {
    let mut texts: BTreeMap<&str, usize> = BTreeMap::new();
    for launch in jobs.iter().flat_map(|(_, job)| &job.launches) {
        let next = texts.len();
        texts.entry(&launch.text).or_insert(next);
    }
    let mut source = include_str!("host.h").to_owned();
    let mut ordered: Vec<_> = texts.iter().collect();
    ordered.sort_by_key(|(_, number)| **number);
    for (text, number) in ordered {
        add_kernel(&mut source, text, *number);
    }
    let _ = writeln!(source, "int main() {{");
    for (case, job) in jobs {
        add_case(&mut source, case, job, &texts);
    }
    source += "}\n";
    let folder = folder(name);
    let output = compile_and_run(&folder, &source, jobs);
    let _ = std::fs::remove_dir_all(&folder);
    let mut rest = output.as_slice();
    let mut results = Vec::new();
    for (case, _) in jobs {
        let mut tensors = Vec::new();
        for buffer in &case.buffers {
            let (bytes, after) = rest.split_at(buffer.bytes().len());
            rest = after;
            tensors.push(HostTensor::from_bytes(buffer.dtype(), buffer.shape(), bytes).unwrap());
        }
        results.push(tensors);
    }
    results
}

fn add_kernel(source: &mut String, text: &str, number: usize) {
    let parameters = text.split("hir(").nth(1).unwrap().split(')').next().unwrap().split(',').count();
    let arguments: Vec<String> = (0..parameters).map(|index| format!("Pointer{{args[{index}]}}")).collect();
    let _ = writeln!(source, "#define hir hir_{number}\nnamespace k{number} {{");
    // Conversions are one instruction of the device; the host has its own.
    for line in text.lines().filter(|line| !line.contains("asm(")) {
        let _ = writeln!(source, "{line}");
    }
    let arguments = arguments.join(", ");
    let _ = writeln!(source, "void call(void *const *args) {{ hir({arguments}); }}\n}}\n#undef hir");
}

fn add_case(source: &mut String, case: &Case, job: &KernelJob, texts: &BTreeMap<&str, usize>) {
    let _ = writeln!(source, "{{");
    for (index, buffer) in case.buffers.iter().enumerate() {
        let _ = writeln!(source, "char *b{index} = load({});", buffer.bytes().len());
    }
    let _ = writeln!(source, "char *scratch = room({});", job.scratch);
    for launch in &job.launches {
        add_launch(source, launch, texts[launch.text.as_str()]);
    }
    let _ = writeln!(source, "guarded(\"{}\", scratch, {}); free(scratch);", case.name, job.scratch);
    for (index, buffer) in case.buffers.iter().enumerate() {
        let _ = writeln!(source, "store(\"{}\", b{index}, {});", case.name, buffer.bytes().len());
    }
    let _ = writeln!(source, "}}");
}

fn add_launch(source: &mut String, launch: &KernelLaunch, number: usize) {
    let place = |param: &SymbolicAddress| match param {
        SymbolicAddress::View(view) => {
            format!("b{} + {}", view.buffer.0, view.offset * view.dtype.byte_size())
        }
        SymbolicAddress::Scratch(offset) => format!("scratch + {offset}"),
        SymbolicAddress::Peer { .. } => panic!("a case runs on one rank"),
    };
    let params: Vec<String> = launch.params.iter().map(place).collect();
    let [x, y, z] = launch.grid;
    let [bx, by, bz] = launch.block;
    let turns = launch.text.contains("__syncthreads") || launch.text.contains("__shfl");
    let _ = writeln!(
        source,
        "{{ void *args[] = {{{}}}; launch(k{number}::call, {{{x}, {y}, {z}}}, {{{bx}, {by}, {bz}}}, {turns}, args); }}",
        params.join(", ")
    );
}

fn compile_and_run(folder: &Path, source: &str, jobs: &[(&Case, KernelJob)]) -> Vec<u8> {
    let (text, program) = (folder.join("kernels.cpp"), folder.join("kernels"));
    std::fs::write(&text, source).unwrap();
    let output = compiler().arg("-o").arg(&program).arg(&text).output().unwrap();
    if !output.status.success() {
        let kept = Path::new(env!("CARGO_TARGET_TMPDIR")).join("kernels.cpp");
        let _ = std::fs::write(&kept, source);
        let errors = String::from_utf8_lossy(&output.stderr);
        panic!("{}: {}", kept.display(), &errors[..errors.len().min(4000)]);
    }
    let mut child = Command::new(&program).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    let bytes: Vec<u8> =
        jobs.iter().flat_map(|(case, _)| case.buffers.iter().flat_map(|buffer| buffer.bytes().to_vec())).collect();
    let writer = std::thread::spawn(move || input.write_all(&bytes));
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "the kernels end with {}", output.status);
    writer.join().unwrap().unwrap();
    output.stdout
}
