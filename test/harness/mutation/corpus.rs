//! The programs that are mutated: those of the tree and what passes make of them.

use super::judge::{Judgement, OracleVerdict, ToolVerdict, judge_prepared, judged_sizes, load_program};
use hostir::lower::{SizeSettings, prepare_program};
use hostir_passes::{manager, pipeline};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// The folders of the tree that hold programs.
const FOLDERS: &[&str] = &["docs/examples/printed", "test/run", "test/lowering", "test/passes", "test/verification"];

/// Pipelines whose results are mutated as well.
const PIPELINES: &[&str] = &[
    "",
    "host-ir-lower",
    "host-ir-lower{allgather=ring},ring-stream-buffers",
    "host-ir-lower{allgather=broadcast},allocate-and-deallocate",
    "host-ir-lower{communicator_backend=CUDA},insert-deallocations",
    "host-ir-lower{communicator_backend=CUDA,p2p_protocol=put},allocate-and-deallocate",
    "host-ir-lower{inter_stream_synchronization=true}",
];

/// The meshes that larger ones are replaced by.
const SMALLER_MESHES: &[&str] = &["(0 1 2 3 4 5 6 7)", "{0 1 2 3 4 5 6 7}"];

/// The most instructions of all ranks together.
const MOST_INSTRUCTIONS: usize = 1200;

/// The number of streams, less than the trip count of most loops.
pub(crate) const STREAMS: u32 = 3;

/// A program that may be mutated.
#[derive(Debug)]
pub(crate) struct PrintedProgram {
    /// The file, the number of the container, and the pipeline.
    pub(crate) name: String,
    /// The printed program.
    pub(crate) text: String,
}

/// A program to mutate.
#[derive(Debug)]
pub(crate) struct BaseProgram {
    /// The file, the number of the container, and the pipeline.
    pub(crate) name: String,
    /// The printed program.
    pub(crate) text: String,
    /// Its sizes.
    pub(crate) sizes: SizeSettings,
    /// The number of ranks.
    pub(crate) ranks: u32,
    /// The verdicts of both judges.
    pub(crate) judgement: Judgement,
}

impl BaseProgram {
    /// Whether at least one judge accepts it, and none that judges refuses.
    pub(crate) fn is_right(&self) -> bool {
        self.judgement == (Judgement { tool: ToolVerdict::Accepted, oracle: OracleVerdict::Equal })
    }
}

/// All programs whose name holds a text, in the order of their names; those equal to earlier ones are left out.
pub(crate) fn list_programs(root: &Path, only: &str, streams: u32) -> Vec<BaseProgram> {
    let printed = list_printed(root, only);
    printed.into_iter().filter_map(|printed| find_sizes(printed, streams)).collect()
}

/// The same programs without sizes and judgements.
pub(crate) fn list_printed(root: &Path, only: &str) -> Vec<PrintedProgram> {
    let mut found = Vec::new();
    let mut seen = BTreeSet::new();
    for folder in FOLDERS {
        for path in list_files(&root.join(folder)) {
            let name = path.strip_prefix(root).unwrap_or(&path).display().to_string();
            let Ok(text) = std::fs::read_to_string(&path) else { continue };
            add_file(&name, &text, only, &mut seen, &mut found);
        }
    }
    found
}

fn list_files(folder: &Path) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(folder) else { return Vec::new() };
    let mut paths: Vec<PathBuf> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
    paths.sort();
    let mut files = Vec::new();
    for path in paths {
        if path.is_dir() {
            files.extend(list_files(&path));
        } else if path.extension().is_some_and(|extension| extension == "hir") {
            files.push(path);
        }
    }
    files
}

fn add_file(name: &str, text: &str, only: &str, seen: &mut BTreeSet<String>, found: &mut Vec<PrintedProgram>) {
    let text =
        SMALLER_MESHES.iter().fold(text.to_owned(), |text, mesh| text.replace(mesh, &mesh.replace(" 4 5 6 7", "")));
    let (containers, _) = hostir::load(&text);
    for (number, container) in (1..).zip(&containers) {
        let printed = hostir::print::print_to_string(container);
        if load_program(&printed).is_err() {
            continue;
        }
        for passes in PIPELINES {
            let name = if passes.is_empty() { format!("{name}:{number}") } else { format!("{name}:{number} {passes}") };
            if !name.contains(only) {
                continue;
            }
            let Some(text) = apply_passes(&printed, passes) else { continue };
            if seen.insert(text.clone()) {
                found.push(PrintedProgram { name, text });
            }
        }
    }
}

/// The result of a pipeline; `None` if it does not take it.
fn apply_passes(printed: &str, passes: &str) -> Option<String> {
    if passes.is_empty() {
        return Some(printed.to_owned());
    }
    let parsed = pipeline::parse_pipeline(passes, hostir_passes::PASSES).ok()?;
    let mut program = load_program(printed).ok()?;
    let config = manager::Config::default();
    manager::run_pipeline(&mut program, &parsed, &config, &mut manager::SilentObserver).ok()?;
    Some(hostir::print::print_to_string(&program))
}

/// The first sizes for which a program has a small plan, and the judgement at these.
fn find_sizes(PrintedProgram { name, text }: PrintedProgram, streams: u32) -> Option<BaseProgram> {
    let program = load_program(&text).ok()?;
    for every in [4, 8, 6, 2, 1] {
        let sizes = judged_sizes(every, streams);
        let Ok(prepared) = prepare_program(&program, &sizes) else { continue };
        let instructions: usize = prepared.plans.iter().map(|plan| plan.iter().count()).sum();
        if prepared.unlowered || instructions == 0 || instructions > MOST_INSTRUCTIONS {
            return None;
        }
        let judgement = judge_prepared(&prepared);
        return Some(BaseProgram { name, text, sizes, ranks: prepared.ranks, judgement });
    }
    None
}
