//! The arrows between modules: ranks of the library's modules, and no cycle of modules in any crate.
//!
//! Imports come from the crate `hostir-figures`, which follows re-exports.

use super::files;
use hostir_figures::cycles::{Cycle, against, crate_name, top_module};
use hostir_figures::report::Figures;
use hostir_figures::sources::Sources;
use hostir_test::tree;
use std::collections::BTreeSet;

/// Modules of the library, the lowest first: each may use those before it.
const RANKS: &[&str] = &[
    "diag",
    "ir",
    "data",
    "axes",
    "plan",
    "ops",
    "style",
    "resolve",
    "print",
    "hir2",
    "analysis",
    "verify",
    "lower",
    "plan_checks",
    "lib",
    "repair",
    "backend",
];

/// Most files that may import each other in a circle within one module.
const LARGEST_CYCLE: usize = 3;

/// Crates whose modules still import each other in circles, with the modules of each circle.
const STILL_CYCLIC: &[(&str, &[&str])] = &[(
    // Stand-ins of libraries that call each other, as the libraries do. Not shipped.
    "hostir_fakes",
    &["capture", "module", "world"],
)];

/// Only these modules of the library may see the crate of the syntax tree: `resolve` and `hir2` for the trees,
/// `diag` for spans, `ir` for the string interner, the root to read a text.
const SEE_SYNTAX: &[&str] = &["diag", "ir", "resolve", "hir2"];

/// The modules of the crate `hostir` that each crate must not mention (its own dependencies are Cargo's affair).
const FORBIDDEN_MODULES: &[(&str, &[&str])] = &[("passes/src", &["resolve", "backend", "data"])];

/// Files outside `src/hostir/ops` that name kinds of ops, each with the reason. Other code asks a kind for its
/// effect, its layout or its axis links.
const NAMES_KINDS: &[(&str, &str)] = &[
    ("passes/src/allocate_and_deallocate.rs", "results of matrix products need memory of their own"),
    ("passes/src/canonicalize.rs", "rewrites loops, branches and changes of the stream"),
    ("passes/src/allgather_matmul/emit.rs", "writes GEMMs that add"),
    ("passes/src/allgather_matmul/operands.rs", "finds what widens and transposes operands"),
    ("passes/src/allgather_matmul/region.rs", "finds products"),
    ("passes/src/support/slices.rs", "makes loops"),
    ("passes/src/matmul_reduce_scatter/emit.rs", "makes GEMMs"),
    ("passes/src/matmul_reduce_scatter/region.rs", "finds products and sums"),
    ("passes/src/fuse_accumulate.rs", "the pass is about one op by its name"),
    ("passes/src/chunk/class.rs", "cuts matrix products; ops whose axes an index chooses stay whole"),
    ("passes/src/chunk/rewrite.rs", "cuts matrix products and adds their parts"),
    ("passes/src/convert_op_to_communication/own_rank.rs", "statements that no rank's part is for"),
    ("passes/src/convert_op_to_communication/table.rs", "the ops that become communication"),
    ("passes/src/decompose_reshardings/products.rs", "splits matrix products"),
    ("passes/src/insert_reshardings/mod.rs", "the ops that may become communication stay as they are"),
    ("passes/src/insert_reshardings/reduce.rs", "sums are adds of parts"),
    ("passes/src/pipeline_gemm_comm.rs", "looks for matrix products beside communication"),
    ("passes/src/propagate_shardings.rs", "matrix products contract an axis; `view` splits and merges axes"),
    ("passes/src/reorder_sharded_axis.rs", "the ops that become communication"),
    ("passes/src/resize_mesh/extents.rs", "sizes, indices and views that hold an extent of the mesh"),
    ("passes/src/resize_mesh/mod.rs", "ALLOCATE holds a size beside its tensor's"),
    ("passes/src/ring_stream_buffers/order.rs", "orders messages, groups, waits and streams"),
    ("passes/src/stream_parallel_type/exchange.rs", "a copy becomes messages"),
    ("passes/src/stream_parallel_type/scatter.rs", "a reduction becomes messages and adds"),
    ("passes/src/support/builder.rs", "makes ops"),
    ("passes/src/support/carried.rs", "knows how often a loop's body and a branch run"),
    ("passes/src/support/keep.rs", "loops run their bodies more than once"),
    ("src/hostir/analysis/renewed.rs", "`FOR` over a domain unbinds what depends on its index"),
    ("src/hostir/analysis/sharding.rs", "`select` and the view of symmetric memory cross devices"),
    ("src/cuda/session/build.rs", "axes that `view` makes"),
    ("src/hostir/lower/driver.rs", "a block with ShardByStream cuts tensors by its index"),
    ("src/hostir/lower/prepare.rs", "`select` is two ops: mathematics, and HirAliasSelect of older texts"),
    ("src/hostir/lower/sizes.rs", "a post binds its unit's extents; axes that `view` makes"),
    (
        "src/hostir/lower/sizes/conflicts.rs",
        "the operands of a `matmul` may be exchanged; the names of pointwise functions",
    ),
    ("src/hostir/plan/remainder.rs", "the definition of a name may be a remainder"),
    ("src/hostir/hir2/defaults.rs", "copies have a cache hint; slices are selects"),
    ("src/hostir/hir2/read/calls.rs", "statements with a form of their own"),
    ("src/hostir/hir2/read/control.rs", "statements with a form of their own"),
    ("src/hostir/hir2/read/posts.rs", "statements with a form of their own"),
    ("src/hostir/hir2/read/slices.rs", "statements with a form of their own"),
    ("src/hostir/hir2/read/statements.rs", "statements with a form of their own"),
    ("src/hostir/hir2/write/contract.rs", "statements with a form of their own"),
    ("src/hostir/hir2/write/divisor.rs", "statements that end with an expression"),
    ("src/hostir/hir2/write/ops.rs", "statements with a form of their own"),
    ("src/hostir/hir2/write/parts.rs", "statements that a text can be cut at"),
    ("src/hostir/hir2/write/posts.rs", "statements with a form of their own"),
    ("src/hostir/hir2/write/prepare.rs", "statements with a form of their own"),
    ("src/hostir/hir2/write/slices.rs", "statements with a form of their own"),
    ("src/hostir/hir2/write/statements.rs", "statements with a form of their own"),
    ("src/hostir/hir2/write/uses.rs", "statements with a form of their own"),
    ("src/hostir/repair/twin.rs", "moves slices behind waits"),
    ("src/hostir/resolve/names.rs", "streams that GetCurrentStream names"),
    ("src/hostir/repair/text_change.rs", "names a branch by what it holds"),
    ("src/hostir/repair/memory_candidates.rs", "moves and deletes ALLOCATE and Deallocate"),
    ("src/hostir/repair/order_candidates.rs", "inserts and moves Wait and Synchronize"),
    ("src/hostir/repair/outline.rs", "follows the current stream through loops and branches"),
    ("src/hostir/repair/wait_candidates.rs", "inserts and deletes Waits of communications and groups"),
    ("src/hostir/print/forms.rs", "statements with a form of their own (`Layout::Own`)"),
    ("src/hostir/print/layouts.rs", "statements with a form of their own (`Layout::Own`)"),
    ("src/hostir/resolve/forms.rs", "statements with a form of their own (`Layout::Own`)"),
    ("src/hostir/resolve/stmt.rs", "statements with a form of their own (`Layout::Own`)"),
    ("src/hostir/resolve/style.rs", "ALLOCATE and `backend=` tell a text's style"),
    ("src/hostir/style/restyle.rs", "spellings that change ops"),
    ("src/hostir/style/roots.rs", "statements that tell the spelling"),
    ("src/hostir/style/swizzle.rs", "a CollectivePermute shifts the index of a ShardByStream"),
    ("src/hostir/lower/one_rank.rs", "peers of a CollectivePermute"),
    ("src/hostir/verify/integers.rs", "`iota` of reals takes real bounds"),
    ("src/hostir/verify/mod.rs", "loops run their bodies more than once"),
    ("src/hostir/verify/posts.rs", "pairs posts, groups and waits"),
    ("src/hostir/verify/streams.rs", "follows streams and what is posted on them"),
    ("tools/opt/lists.rs", "forms of statements for `--help-op`"),
];

pub(crate) fn violations(figures: &Figures) -> Vec<String> {
    let Figures { sources, arrows, cycles, .. } = figures;
    let order: Vec<String> = RANKS.iter().map(|name| (*name).to_owned()).collect();
    let mut bad: Vec<String> = against(sources, arrows, ("hostir", &order))
        .into_iter()
        .map(|arrow| {
            let (from, to) = (&sources.files[arrow.from].path, &sources.files[arrow.to].path);
            format!("{from}:{} uses {} of {to}, which ranks above", arrow.line, arrow.item)
        })
        .collect();
    bad.extend(unranked_modules(sources));
    bad.extend(cycles.iter().filter_map(|cycle| refused_cycle(sources, cycle)));
    bad.extend(syntax_violations());
    bad.extend(crate_violations());
    bad
}

/// Modules of the library without a rank.
fn unranked_modules(sources: &Sources) -> Vec<String> {
    let files = (0..sources.files.len()).filter(|&file| crate_name(sources, file) == "hostir");
    let modules: BTreeSet<String> = files.map(|file| top_module(sources, file)).collect();
    let unranked = modules.iter().filter(|module| !RANKS.contains(&module.as_str()));
    unranked.map(|module| format!("module {module} of the library has no rank")).collect()
}

/// The complaint about a cycle that spans modules or is too large.
fn refused_cycle(sources: &Sources, cycle: &Cycle) -> Option<String> {
    let across = cycle.modules.len() > 1;
    let tolerated = STILL_CYCLIC.iter().any(|(krate, modules)| {
        *krate == cycle.krate && cycle.modules.iter().all(|module| modules.contains(&module.as_str()))
    });
    if tolerated || !(across || cycle.files.len() > LARGEST_CYCLE) {
        return None;
    }
    let files: Vec<&str> = cycle.files.iter().map(|&at| sources.files[at].path.as_str()).collect();
    Some(format!("{} import each other in a circle", files.join(", ")))
}

fn syntax_violations() -> Vec<String> {
    let root = tree::root();
    let mut bad = Vec::new();
    for module in RANKS.iter().filter(|module| **module != "lib" && !SEE_SYNTAX.contains(module)) {
        let mut paths = tree::files(&root.join("src/hostir").join(module), ".rs");
        paths.push(root.join(format!("src/hostir/{module}.rs")));
        for path in paths.iter().filter(|path| path.exists()) {
            if without_comments(files::code(&tree::read(path))).contains("hostir_grammar::") {
                bad.push(format!("{} uses hostir_grammar", tree::relative(path)));
            }
        }
    }
    bad
}

fn crate_violations() -> Vec<String> {
    let mut bad = Vec::new();
    for (folder, forbidden) in FORBIDDEN_MODULES {
        for path in tree::files(&tree::root().join(folder), ".rs") {
            let text = tree::read(&path);
            let used = mentioned_modules(&without_comments(files::code(&text)), "hostir::");
            let wrong = forbidden.iter().filter(|name| used.contains(**name));
            bad.extend(wrong.map(|name| format!("{} uses hostir::{name}", tree::relative(&path))));
        }
    }
    bad
}

/// Files that name kinds of ops without a reason above, and reasons for files that name none.
pub(crate) fn unexplained_kinds() -> Vec<String> {
    let root = tree::root();
    let folders = ["src", "passes/src", "tools"];
    let paths = folders.iter().flat_map(|folder| tree::files(&root.join(folder), ".rs"));
    let named: BTreeSet<String> = paths
        .filter(|path| names_a_kind(&without_comments(files::code(&tree::read(path)))))
        .map(|path| tree::relative(&path).to_string())
        .filter(|path| !path.starts_with("src/hostir/ops/"))
        .collect();
    let listed: BTreeSet<String> = NAMES_KINDS.iter().map(|(path, _)| (*path).to_owned()).collect();
    let unlisted = named.difference(&listed).map(|path| format!("{path} has no reason"));
    let unused = listed.difference(&named).map(|path| format!("{path} names none any more"));
    unlisted.chain(unused).collect()
}

fn names_a_kind(code: &str) -> bool {
    code.split("OpKind::").skip(1).any(|after| after.starts_with(|c: char| c.is_ascii_uppercase()))
}

fn without_comments(text: &str) -> String {
    let lines = text.lines().filter(|line| !line.trim_start().starts_with("//"));
    lines.map(|line| format!("{line}\n")).collect()
}

/// The first path segments after `prefix`: of `use crate::{ir::X, diag}` they are `ir` and `diag`.
fn mentioned_modules(code: &str, prefix: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for after in code.split(prefix).skip(1) {
        if let Some(group) = after.strip_prefix('{') {
            found.extend(group_heads(group));
        } else {
            found.insert(path_head(after));
        }
    }
    found
}

fn path_head(text: &str) -> String {
    text.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect()
}

/// The first segments of the members of a `{...}` group whose opening brace is already gone.
fn group_heads(group: &str) -> Vec<String> {
    let mut depth = 0;
    let mut heads = vec![path_head(group.trim_start())];
    for (at, c) in group.char_indices() {
        match c {
            '{' => depth += 1,
            '}' if depth == 0 => break,
            '}' => depth -= 1,
            ',' if depth == 0 => heads.push(path_head(group[at + 1..].trim_start())),
            _ => {}
        }
    }
    heads
}
