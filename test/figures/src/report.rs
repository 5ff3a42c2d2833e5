//! The table of figures, and the worst offenders of each.

use crate::cycles::{Cycle, cycles, top_module};
use crate::documentation::{Doc, docs};
use crate::imports::{Arrow, arrows};
use crate::names::{Name, Names};
use crate::percent;
use crate::shape::{Lines, Shapes, Spot, lines};
use crate::sources::{Sources, files_below};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

/// Everything that is counted.
pub struct Figures {
    /// Crates, modules and files.
    pub sources: Sources,
    /// Arrows between the files of each crate.
    pub arrows: Vec<Arrow>,
    /// Cycles of files, the largest first.
    pub cycles: Vec<Cycle>,
    /// Names of functions and types.
    pub names: Names,
    /// Doc comments.
    pub docs: Vec<Doc>,
    /// Functions, closures and tuple parameters.
    pub shapes: Shapes,
    /// Lines of code.
    pub lines: Lines,
    /// The longest Rust file, with its length.
    pub longest: (usize, String),
}

impl Figures {
    /// Reads and counts a repository.
    ///
    /// # Errors
    /// Fails if a source cannot be read or parsed.
    pub fn of(root: &Path) -> Result<Self, String> {
        let sources = Sources::read(root)?;
        let arrows = arrows(&sources);
        let lengths = files_below(root, ".rs").into_iter().map(|path| {
            let text = std::fs::read_to_string(&path).unwrap_or_default();
            (text.lines().count(), crate::sources::relative(root, &path))
        });
        Ok(Self {
            cycles: cycles(&sources, &arrows),
            names: Names::of(&sources),
            docs: docs(&sources),
            shapes: Shapes::of(&sources),
            lines: lines(root, &sources)?,
            longest: lengths.max().unwrap_or_default(),
            arrows,
            sources,
        })
    }

    /// Docs that open with What, Whether, Who, Where or How; predicates may.
    pub fn questions(&self) -> Vec<&Doc> {
        let questions = self.docs.iter().filter(|doc| doc.opens_with_question());
        questions.filter(|doc| !doc.is_predicate()).collect()
    }

    /// The table.
    pub fn table(&self) -> String {
        let mut rows = self.cycle_rows();
        rows.extend(self.name_rows());
        rows.extend(self.shape_rows());
        let width = rows.iter().map(|(what, _)| what.len()).max().unwrap_or(0);
        let lines = rows.iter().map(|(what, value)| format!("{what:<width$}  {value}\n"));
        lines.collect()
    }

    fn cycle_rows(&self) -> Vec<(&'static str, String)> {
        let sizes = |across: bool| {
            let some = self.cycles.iter().filter(|cycle| (cycle.modules.len() > 1) == across);
            let sizes: Vec<String> = some.map(|cycle| cycle.files.len().to_string()).collect();
            if sizes.is_empty() { "none".to_owned() } else { sizes.join(", ") }
        };
        vec![
            ("import cycles across modules, files of each", sizes(true)),
            ("import cycles within a module, files of each", sizes(false)),
        ]
    }

    fn name_rows(&self) -> Vec<(&'static str, String)> {
        let names = &self.names;
        let share = |part: usize, whole: usize| format!("{:.1} %  ({part} of {whole})", percent(part, whole));
        let predicates = self.docs.iter().filter(|doc| doc.opens_with_question()).count() - self.questions().len();
        let questions = share(self.questions().len(), self.docs.len());
        vec![
            ("functions with one-word names", share(names.short_functions().len(), names.functions.len())),
            ("types with one-word names", share(names.short_types().len(), names.types.len())),
            ("types whose name is defined again", share(names.repeated_types().len(), names.types.len())),
            (
                "docs that open with What, Whether, Who, Where, How",
                format!("{questions}, and {predicates} of predicates"),
            ),
        ]
    }

    fn shape_rows(&self) -> Vec<(&'static str, String)> {
        let (shapes, lines) = (&self.shapes, &self.lines);
        let mut sizes: Vec<usize> = shapes.functions.iter().map(|spot| spot.size).collect();
        sizes.sort_unstable();
        let at = |percent: usize| sizes.get(sizes.len() * percent / 100).copied().unwrap_or(0);
        let longest = sizes.last().copied().unwrap_or(0);
        let closures = shapes.closures.len() as f64 * 1000.0 / lines.shipped_all.max(1) as f64;
        vec![
            (
                "named closures per 1,000 lines",
                format!("{closures:.1}  ({} in {} lines)", shapes.closures.len(), lines.shipped_all),
            ),
            ("tuple parameters", shapes.tuples.len().to_string()),
            (
                "function length p50 / p90 / p99 / max",
                format!("{} / {} / {} / {longest}  ({} functions)", at(50), at(90), at(99), sizes.len()),
            ),
            ("longest file", format!("{}  ({})", self.longest.0, self.longest.1)),
            (
                "code lines shipped / tests / examples",
                format!("{} / {} / {}", lines.shipped, lines.tests, lines.examples),
            ),
        ]
    }

    fn place(&self, file: usize, line: usize) -> String {
        format!("{}:{line}", self.sources.files[file].path)
    }

    /// Up to `count` places of each figure.
    pub fn worst(&self, count: usize) -> String {
        let mut text = String::new();
        let name = |name: &&Name| (name.text.clone(), self.place(name.file, name.line));
        grouped(&mut text, "one-word functions", count, self.names.short_functions().iter().map(name));
        grouped(&mut text, "one-word types", count, self.names.short_types().iter().map(name));
        grouped(&mut text, "repeated types", count, self.names.repeated_types().iter().map(name));
        let questions = self.questions();
        let by_file = questions
            .iter()
            .map(|doc| (self.sources.files[doc.file].path.clone(), format!("{} `{}`", doc.line, doc.text)));
        grouped(&mut text, "docs that open with a question", count, by_file);
        self.spots(&mut text, ("closures, by file", count), &self.shapes.closures);
        self.spots(&mut text, ("tuple parameters, by file", count), &self.shapes.tuples);
        let mut long: Vec<&Spot> = self.shapes.functions.iter().collect();
        long.sort_by_key(|spot| std::cmp::Reverse(spot.size));
        let _ = writeln!(text, "\nlongest functions");
        for spot in long.iter().take(count) {
            let _ = writeln!(text, "  {:>4}  {} {}", spot.size, spot.name, self.place(spot.file, spot.line));
        }
        text
    }

    fn spots(&self, text: &mut String, (title, count): (&str, usize), spots: &[Spot]) {
        let by_file = spots
            .iter()
            .map(|spot| (self.sources.files[spot.file].path.clone(), format!("{} {}", spot.line, spot.name)));
        grouped(text, title, count, by_file);
    }

    /// The files of each cycle of at least `smallest` files, and the arrows between them, by pairs of modules if
    /// it spans several, else by pairs of files.
    pub fn cycle_text(&self, smallest: usize) -> String {
        let mut text = String::new();
        for cycle in self.cycles.iter().filter(|cycle| cycle.files.len() >= smallest) {
            let modules: Vec<&str> = cycle.modules.iter().map(String::as_str).collect();
            let (size, krate) = (cycle.files.len(), &cycle.krate);
            let _ = writeln!(text, "\ncycle of {size} files in {krate}: {}", modules.join(", "));
            for &file in &cycle.files {
                let _ = writeln!(text, "  {}", self.sources.files[file].path);
            }
            let inside = |arrow: &&Arrow| cycle.files.contains(&arrow.from) && cycle.files.contains(&arrow.to);
            let arrows: Vec<&Arrow> = self.arrows.iter().filter(inside).collect();
            self.arrow_text(&mut text, &arrows, cycle.modules.len() > 1);
        }
        text
    }

    fn arrow_text(&self, text: &mut String, arrows: &[&Arrow], across: bool) {
        let mut pairs: BTreeMap<(String, String), Vec<&Arrow>> = BTreeMap::new();
        for arrow in arrows {
            let name = |file| match across {
                true => top_module(&self.sources, file),
                false => self.sources.files[file].path.clone(),
            };
            let pair = (name(arrow.from), name(arrow.to));
            if !across || pair.0 != pair.1 {
                pairs.entry(pair).or_default().push(arrow);
            }
        }
        let mut pairs: Vec<_> = pairs.into_iter().collect();
        pairs.sort_by_key(|(_, arrows)| arrows.len());
        for ((from, to), arrows) in pairs {
            let _ = writeln!(text, "  {from} -> {to}: {} items", arrows.len());
            for arrow in arrows {
                let to = &self.sources.files[arrow.to].path;
                let place = self.place(arrow.from, arrow.line);
                let _ = writeln!(text, "      {place} uses {} of {to}", arrow.item);
            }
        }
    }
}

/// Prints the keys with the most values, each with its values on a line.
fn grouped(text: &mut String, title: &str, count: usize, pairs: impl Iterator<Item = (String, String)>) {
    let mut groups: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (key, value) in pairs {
        groups.entry(key).or_default().push(value);
    }
    let mut groups: Vec<(String, Vec<String>)> = groups.into_iter().collect();
    groups.sort_by_key(|(_, values)| std::cmp::Reverse(values.len()));
    let _ = writeln!(text, "\n{title}");
    for (key, values) in groups.iter().take(count) {
        let _ = writeln!(text, "  {:>4}  {key}: {}", values.len(), values.join(", "));
    }
}
