//! Strongly connected components (Tarjan), and arrows against an order of modules.

use crate::imports::Arrow;
use crate::sources::Sources;
use std::collections::BTreeSet;

/// Files that all reach each other.
pub struct Cycle {
    /// The crate's name.
    pub krate: String,
    /// The files' numbers, sorted.
    pub files: Vec<usize>,
    /// Modules of the crate's root that they belong to.
    pub modules: BTreeSet<String>,
}

/// Finds all cycles of files, the largest first.
pub fn cycles(sources: &Sources, arrows: &[Arrow]) -> Vec<Cycle> {
    let mut edges = vec![Vec::new(); sources.files.len()];
    for arrow in arrows {
        edges[arrow.from].push(arrow.to);
    }
    let components = components(&edges);
    let mut found: Vec<Cycle> = components
        .into_iter()
        .filter(|files| files.len() > 1)
        .map(|files| Cycle {
            krate: crate_name(sources, files[0]),
            modules: files.iter().map(|&file| top_module(sources, file)).collect(),
            files,
        })
        .collect();
    found.sort_by_key(|cycle| (std::cmp::Reverse(cycle.files.len()), cycle.files[0]));
    found
}

/// The strongly connected components of a graph, each sorted.
pub fn components(edges: &[Vec<usize>]) -> Vec<Vec<usize>> {
    let mut tarjan = Tarjan { edges, index: vec![None; edges.len()], ..Tarjan::default() };
    tarjan.low = vec![0; edges.len()];
    tarjan.on_stack = vec![false; edges.len()];
    for node in 0..edges.len() {
        if tarjan.index[node].is_none() {
            tarjan.connect(node);
        }
    }
    tarjan.found
}

#[derive(Default)]
struct Tarjan<'e> {
    edges: &'e [Vec<usize>],
    index: Vec<Option<usize>>,
    low: Vec<usize>,
    on_stack: Vec<bool>,
    stack: Vec<usize>,
    next: usize,
    found: Vec<Vec<usize>>,
}

impl Tarjan<'_> {
    fn connect(&mut self, node: usize) {
        self.index[node] = Some(self.next);
        self.low[node] = self.next;
        self.next += 1;
        self.stack.push(node);
        self.on_stack[node] = true;
        for &to in &self.edges[node] {
            match self.index[to] {
                None => {
                    self.connect(to);
                    self.low[node] = self.low[node].min(self.low[to]);
                }
                Some(index) if self.on_stack[to] => {
                    self.low[node] = self.low[node].min(index);
                }
                Some(_) => {}
            }
        }
        if self.index[node] == Some(self.low[node]) {
            let mut files = Vec::new();
            while let Some(other) = self.stack.pop() {
                self.on_stack[other] = false;
                files.push(other);
                if other == node {
                    break;
                }
            }
            files.sort_unstable();
            self.found.push(files);
        }
    }
}

/// The module of the crate's root that a file belongs to; `lib` for the root itself.
pub fn top_module(sources: &Sources, file: usize) -> String {
    let module = sources.modules.iter().find(|module| module.file == file);
    let name = module.and_then(|module| module.path.first());
    name.map_or_else(|| "lib".to_owned(), Clone::clone)
}

/// The crate of a file.
pub fn crate_name(sources: &Sources, file: usize) -> String {
    let module = sources.modules.iter().find(|module| module.file == file);
    module.map_or_else(String::new, |module| sources.crates[module.krate].name.clone())
}

/// Arrows of a crate that point from a module to one that comes later in `order`. Modules that it does not name
/// are left out.
pub fn against<'a>(sources: &Sources, arrows: &'a [Arrow], (krate, order): (&str, &[String])) -> Vec<&'a Arrow> {
    let rank = |file| {
        let module = top_module(sources, file);
        order.iter().position(|name| *name == module)
    };
    let is_upward = |arrow: &&Arrow| {
        crate_name(sources, arrow.from) == krate
            && matches!((rank(arrow.from), rank(arrow.to)), (Some(from), Some(to)) if to > from)
    };
    arrows.iter().filter(is_upward).collect()
}
