//! Names: no two types of one name in a crate, no function visible outside of its module whose name is a word that
//! says nothing without its place, and no word of the glossary's list of words that are not used.

use hostir_figures::names::{self, Name};
use hostir_figures::report::Figures;
use hostir_figures::sources::Module;

/// Words that are no name for a function that other modules call. `get`, `next` and other names of the standard
/// library's traits and collections have their meaning from there, and `name` on a value reads as a sentence.
const SAY_NOTHING: &[&str] = &[
    "add", "all", "apply", "at", "build", "check", "do", "end", "find", "handle", "list", "make", "of", "print",
    "process", "read", "run", "set", "start", "text", "write",
];

/// Functions of such names: how the file's path starts, the name and the reason.
const ALLOWED_FUNCTIONS: &[(&str, &str, &str)] = &[
    ("src/cuda/session.rs", "run", "the library's main call, whose object is the session"),
    ("src/cuda/session/build.rs", "build", "what a builder's last call is named everywhere"),
    ("src/cuda/session/build.rs", "set", "a step of a builder, named as the option `--set`"),
];

/// Names that several types of a crate have, those that every crate or module may have for itself left out (`Error`,
/// `Options`, `Config`, `Builder`): how their files' paths start, the name and the reason.
const ALLOWED_TYPES: &[(&str, &str, &str)] = &[];

/// Words that no name has: those of docs/glossary.md, "Words that are not used". A few of that list also have a meaning
/// that the field gives them (`scatter`, `exchange`, `part`, `post`, `lower`, `arena`): names may have them, and a
/// reviewer decides.
const STOP_WORDS: &[&str] = &[
    "apart",
    "aside",
    "awaits",
    "beat",
    "beats",
    "behind",
    "copier",
    "fresh",
    "gate",
    "home",
    "homes",
    "joint",
    "lane",
    "lanes",
    "lies",
    "mark",
    "marks",
    "meet",
    "meeting",
    "meets",
    "multiprocessor",
    "multiprocessors",
    "offer",
    "offered",
    "offerer",
    "offers",
    "product",
    "products",
    "quiet",
    "raise",
    "raised",
    "raises",
    "rebase",
    "rebased",
    "rehearse",
    "rehearsed",
    "renewed",
    "settle",
    "settled",
    "settles",
    "shelf",
    "shelves",
    "silence",
    "sound",
    "spare",
    "spoil",
    "spoilt",
    "spread",
    "stands",
    "stuck",
    "tell",
    "telling",
    "tells",
    "together",
    "told",
    "touch",
    "touched",
    "touches",
    "touching",
    "watch",
];

/// Words that no name has in some files, which have another meaning elsewhere: how the files' paths start, and the word.
const LOCAL_STOP_WORDS: &[(&str, &str)] = &[
    ("grammar/", "port"),
    ("grammar/", "ports"),
    ("passes/", "port"),
    ("passes/", "ports"),
    ("python/", "port"),
    ("python/", "ports"),
    ("src/", "port"),
    ("src/", "ports"),
    ("src/cuda/", "moves"),
    ("src/cuda/", "pool"),
    ("src/cuda/profile", "arrow"),
    ("src/cuda/profile", "slice"),
    ("src/gpu/", "moves"),
    ("src/hostir/backend/trace", "arrow"),
    ("src/hostir/backend/trace", "slice"),
    ("tools/run/run/timeline", "arrow"),
    ("tools/run/run/timeline", "slice"),
];

/// Words that no field, variant, parameter or file has as its whole name.
const STOP_NAMES: &[&str] = &["outside"];

/// Words that a function may start with: verbs.
const VERBS: &[&str] = &["mark", "raise"];

/// Names with such words: how the file's path starts, the name and the reason.
const ALLOWED_WORDS: &[(&str, &str, &str)] = &[
    ("passes/src/resize_mesh/views.rs", "checked_product", "a product of extents"),
    ("python/src/dlpack.rs", "lanes", "DLPack's field"),
    ("src/gpu/codegen/reduce/columns.rs", "lanes", "lanes of a warp"),
    ("src/gpu/codegen/reduce/rows.rs", "lanes", "lanes of a warp"),
    ("src/hostir/axes/cut.rs", "is_product", "a product of extents"),
    ("src/hostir/backend/exact/degree.rs", "product_degree", "the degree of a product of polynomials"),
    ("src/hostir/backend/exact/field.rs", "raised_to", "a number to a power"),
    ("src/hostir/backend/exact/field.rs", "sum_products", "products of numbers of a prime field"),
    ("src/hostir/ir/functions/row.rs", "Product", "a product of numbers of a prime field"),
    ("src/hostir/ops/memory/checks.rs", "FactoredProduct", "a product of extents"),
    ("src/hostir/plan/red_op.rs", "Product", "a reduction that multiplies"),
    ("tools/lit/command.rs", "quiet", "the option `--quiet`"),
    ("tools/run/launch/mod.rs", "quiet", "the option `--quiet`"),
    ("tools/run/run/arguments.rs", "quiet", "the option `--quiet`"),
    ("tools/run/run/cli.rs", "quiet", "the option `--quiet`"),
];

/// Functions whose names say nothing, and exceptions that no function needs.
pub(crate) fn empty_function_names(figures: &Figures) -> Vec<String> {
    let functions = figures.names.functions.iter();
    let found: Vec<&Name> =
        functions.filter(|name| name.visible && SAY_NOTHING.contains(&name.text.as_str())).collect();
    unexplained(figures, &found, ALLOWED_FUNCTIONS)
}

/// Types that share their name with another type of their crate, and exceptions that no type needs.
pub(crate) fn repeated_types(figures: &Figures) -> Vec<String> {
    unexplained(figures, &figures.names.repeated_in_crate(), ALLOWED_TYPES)
}

/// Types, functions, fields, variants, parameters and files with a word that is not used, and exceptions that nothing
/// needs.
pub(crate) fn unused_words(figures: &Figures) -> Vec<String> {
    let files = file_names(figures);
    let all = &figures.names;
    let nouns = [&all.members, &all.parameters, &files].into_iter().flatten();
    let nouns = nouns.filter(|name| STOP_NAMES.contains(&name.text.as_str()) || has_stop_word(figures, name, 0));
    let functions = all.functions.iter().filter(|name| {
        let first = name.text.split('_').next().unwrap_or_default();
        has_stop_word(figures, name, usize::from(VERBS.contains(&first)))
    });
    let types = all.types.iter().filter(|name| has_stop_word(figures, name, 0));
    let found: Vec<&Name> = nouns.chain(functions).chain(types).collect();
    unexplained(figures, &found, ALLOWED_WORDS)
}

/// The names of the files of shipped modules, without their endings.
fn file_names(figures: &Figures) -> Vec<Name> {
    let name_of = |module: &Module| {
        let path = &figures.sources.files[module.file].path;
        let (_, last) = path.rsplit_once('/').unwrap_or(("", path));
        let text = last.strip_suffix(".rs").unwrap_or(last).to_owned();
        Name { text, file: module.file, line: 1, krate: module.krate, visible: true }
    };
    figures.sources.shipped().map(name_of).collect()
}

/// True if a word of a name, the first few left out, is not used in its file.
fn has_stop_word(figures: &Figures, name: &Name, skipped: usize) -> bool {
    let path = &figures.sources.files[name.file].path;
    let is_stopped = |word: &String| {
        STOP_WORDS.contains(&word.as_str())
            || LOCAL_STOP_WORDS.iter().any(|(start, stopped)| path.starts_with(start) && word == stopped)
    };
    names::lowercase_words(&name.text).iter().skip(skipped).any(is_stopped)
}

/// Findings without a reason, and reasons without a finding.
fn unexplained(figures: &Figures, found: &[&Name], allowed: &[(&str, &str, &str)]) -> Vec<String> {
    let explains = |name: &Name, (file, text, _): &(&str, &str, &str)| {
        name.text == *text && figures.sources.files[name.file].path.starts_with(file)
    };
    let missing = found.iter().filter(|name| !allowed.iter().any(|entry| explains(name, entry)));
    let place = |name: &&Name| format!("{}:{}: `{}`", figures.sources.files[name.file].path, name.line, name.text);
    let mut problems: Vec<String> = missing.map(place).collect();
    let unused = allowed.iter().filter(|entry| !found.iter().any(|name| explains(name, entry)));
    problems.extend(unused.map(|(file, text, _)| format!("{file}: no exception for `{text}` is needed")));
    problems
}
