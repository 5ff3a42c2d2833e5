//! Mistakes of right programs, and what the messages about them are worth: whether the first error shows the line,
//! whether its advice leads back to the right program, and what is said besides. `test/README.md` has the command.

mod edits;
mod judge;
mod rules;

use crate::effort;
use edits::{Mistake, list_mistakes};
use hostir::hir2::is_hir2;
use hostir_test::tree;
use judge::{AdviceOutcome, ErrorJudgement, judge_mistake, shown_errors};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

/// The folders that hold right programs.
const FOLDERS: &[&str] = &["docs/patterns", "docs/tutorial", "docs/examples"];

/// The maximum number of lines of a program.
const MOST_LINES: usize = 60;

/// A right program by itself.
struct RightProgram {
    name: String,
    text: String,
    /// The file that holds it.
    file: PathBuf,
}

/// A mistake, its program, and the judgement of what is said.
struct JudgedMistake<'a> {
    program: &'a RightProgram,
    mistake: Mistake,
    /// `None` if the program is accepted.
    judgement: Option<ErrorJudgement>,
}

/// The sums of a kind.
#[derive(Clone, Default, Debug)]
struct KindCounts {
    made: usize,
    refused: usize,
    located: usize,
    right_edits: usize,
    other_edits: usize,
    wrong_edits: usize,
    surely_wrong: usize,
    right_words: usize,
    cascades: usize,
    no_statements: usize,
}

impl KindCounts {
    fn add(&mut self, judgement: Option<&ErrorJudgement>) {
        self.made += 1;
        let Some(judgement) = judgement else { return };
        self.refused += 1;
        self.located += usize::from(judgement.is_located);
        self.right_edits += usize::from(judgement.advice == AdviceOutcome::RightEdit);
        self.other_edits += usize::from(judgement.advice == AdviceOutcome::OtherEdit);
        self.wrong_edits += usize::from(judgement.advice == AdviceOutcome::WrongEdit);
        self.right_words += usize::from(judgement.advice == AdviceOutcome::RightWords);
        self.surely_wrong += usize::from(judgement.is_surely_wrong);
        self.cascades += judgement.cascades;
        self.no_statements += usize::from(!judgement.no_statements.is_empty());
    }

    fn failures(&self) -> usize {
        self.refused - self.located + self.other_edits + self.wrong_edits + self.cascades + self.surely_wrong
    }

    fn row(&self) -> String {
        let share = |part: usize| format!("{:.0}", 100.0 * part as f64 / self.refused.max(1) as f64);
        format!(
            "{:5} {:7} {:>7} {:>5} {:>5} {:>5} {:>4} {:>5} {:8} {:4}",
            self.made,
            self.refused,
            share(self.located),
            share(self.right_edits),
            share(self.right_words),
            share(self.other_edits + self.wrong_edits),
            self.surely_wrong,
            share(self.other_edits),
            self.cascades,
            self.no_statements,
        )
    }
}

/// The right programs of the tree, each written below a folder.
fn list_right(folder: &Path) -> Vec<RightProgram> {
    let mut found: Vec<RightProgram> = Vec::new();
    for below in FOLDERS {
        for file in tree::files(&tree::root().join(below), ".hir") {
            let text = tree::read(&file);
            let name = tree::relative(&file);
            if !is_hir2(&text) || text.lines().count() > MOST_LINES || name.contains("error") {
                continue;
            }
            let text = first_program(&text);
            let file = folder.join(format!("{}.hir", found.len()));
            std::fs::write(&file, &text).expect("a file");
            if judge::is_right(&text, &file) {
                found.push(RightProgram { name, text, file });
            }
        }
    }
    found
}

/// The lines up to the end of the first program.
fn first_program(text: &str) -> String {
    let lines: Vec<&str> = text.lines().filter(|line| !line.contains("RUN:") && !line.contains("CHECK")).collect();
    let is_head = |line: &&str| line.contains('(') && !line.starts_with([' ', '/']) && line.ends_with(':');
    let heads: Vec<usize> = (0..lines.len()).filter(|&at| is_head(&lines[at])).collect();
    let mut end = heads.get(1).copied().unwrap_or(lines.len());
    while end > 0 && (lines[end - 1].starts_with("//") || lines[end - 1].trim().is_empty()) {
        end -= 1;
    }
    lines[..end].iter().fold(String::new(), |text, line| text + line + "\n")
}

/// Some mistakes of each kind, chosen by a seed.
fn choose_mistakes(programs: &[RightProgram], each: usize) -> Vec<(usize, Mistake)> {
    let mut kinds: BTreeMap<&str, Vec<(usize, Mistake)>> = BTreeMap::new();
    let only = std::env::var("HIR_MISTAKE_KIND").unwrap_or_default();
    for (number, program) in programs.iter().enumerate() {
        for mistake in list_mistakes(&program.text).into_iter().filter(|mistake| mistake.kind.contains(&only)) {
            kinds.entry(mistake.kind).or_default().push((number, mistake));
        }
    }
    let mut random = fastrand::Rng::with_seed(effort::seed(1));
    let chosen = kinds.into_values().flat_map(|mut all| {
        random.shuffle(&mut all);
        all.truncate(each);
        all
    });
    chosen.collect()
}

fn judge_all<'a>(programs: &'a [RightProgram], chosen: &[(usize, Mistake)]) -> Vec<JudgedMistake<'a>> {
    let next = AtomicUsize::new(0);
    let work = || {
        let mut judged = Vec::new();
        while let Some((number, mistake)) = chosen.get(next.fetch_add(1, Ordering::Relaxed)) {
            let program = &programs[*number];
            let judgement = judge_mistake(mistake, &program.file);
            judged.push(JudgedMistake { program, mistake: mistake.clone(), judgement });
        }
        judged
    };
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        let running: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        running.into_iter().flat_map(|thread| thread.join().expect("no panic")).collect()
    })
}

/// Writes the mistakes with what is said about them, a file for each kind.
fn keep_examples(judged: &[JudgedMistake<'_>], folder: &Path) {
    let mut files: BTreeMap<&str, String> = BTreeMap::new();
    for JudgedMistake { program, mistake, judgement } in judged {
        let text = files.entry(mistake.kind).or_default();
        let _ = writeln!(text, "=== {} {judgement:?}\n{}", program.name, mistake.change);
        if judgement.is_some() {
            let _ = writeln!(text, "{}", shown_errors(&mistake.text));
        }
    }
    std::fs::create_dir_all(folder).expect("a folder");
    for (kind, text) in files {
        let name = kind.replace([' ', ':', '=', '.'], "_");
        std::fs::write(folder.join(format!("{name}.txt")), text).expect("a file");
    }
}

/// Judges mistakes of each kind, and prints the table.
#[expect(clippy::print_stdout, reason = "the table is what the measurement is for")]
fn measure_mistakes(each: usize) -> KindCounts {
    let folder = tempfile::tempdir().expect("a folder");
    let programs = list_right(folder.path());
    let chosen = choose_mistakes(&programs, each);
    let judged = judge_all(&programs, &chosen);
    let mut kinds: BTreeMap<&str, KindCounts> = BTreeMap::new();
    let mut all = KindCounts::default();
    for one in &judged {
        all.add(one.judgement.as_ref());
        kinds.entry(one.mistake.kind).or_default().add(one.judgement.as_ref());
    }
    let mut rows: Vec<(&str, KindCounts)> = kinds.into_iter().collect();
    rows.sort_by_key(|(kind, counts)| (std::cmp::Reverse(counts.failures()), *kind));
    println!("{} programs", programs.len());
    let kind = "kind";
    println!("{kind:40}  made refused located edit+ words+ edit- sure- other cascades nostat");
    for (kind, counts) in rows.iter().map(|(kind, counts)| (*kind, counts)).chain([("all", &all)]) {
        println!("{kind:40} {}", counts.row());
    }
    if effort::number("HIR_KEEP") == Some(1) {
        keep_examples(&judged, &tree::root().join("target/mistakes"));
    }
    all
}

/// The least share of refused programs whose first error shows the line, in percent.
const LOCATED: usize = 85;

/// The least share whose advice leads to the right program.
const ADVISED: usize = 50;

/// The most share with edits that do not.
const MISLED: usize = 6;

/// The most errors for a hundred programs that are about no line of the mistake.
const CASCADES: usize = 12;

#[test]
fn errors_show_the_mistake_and_mend_it() {
    let each = effort::cases("HIR_MISTAKES", 1, 20);
    let all = measure_mistakes(usize::try_from(each).expect("a small number"));
    let share = |part: usize| 100 * part / all.refused.max(1);
    assert!(share(all.located) >= LOCATED, "{all:?}");
    assert!(share(all.right_edits + all.right_words) >= ADVISED, "{all:?}");
    assert!(share(all.other_edits + all.wrong_edits) <= MISLED, "{all:?}");
    assert!(share(all.cascades) <= CASCADES, "{all:?}");
}
