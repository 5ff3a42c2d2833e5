//! The same cases, and generated ones, against LLVM's FileCheck: one of two versions of it, since versions differ, and
//! only where `HIR_FILECHECK` names it. What a machine happens to have is never looked at.
//! `tools/setup --llvm` installs it and says the command.
#![allow(clippy::expect_used, clippy::panic, clippy::print_stdout, reason = "a test program's own report")]

mod common;
#[path = "../../library/common/effort.rs"]
mod effort;
#[path = "../../library/common/needs.rs"]
mod needs;

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use common::{Case, JudgedCase, describe};

const ATTEMPTS: usize = 20;

fn main() -> std::process::ExitCode {
    let missing = std::env::var_os("HIR_FILECHECK").is_none();
    let missing = missing.then_some("needs LLVM's FileCheck 19: `tools/setup --llvm`, then HIR_FILECHECK=<program>");
    needs::run(needs::tests![missing; cases_have_the_verdicts_of_llvm, generated_cases_agree_with_llvm])
}

/// LLVM's FileCheck.
struct Reference {
    program: PathBuf,
    /// Its version, which is 19 (see `tools/setup`) or 14.
    version: u32,
    /// A folder for the files of a case.
    directory: PathBuf,
}

impl Reference {
    /// The FileCheck that was asked for.
    fn named(test: &str) -> Reference {
        let program = PathBuf::from(std::env::var_os("HIR_FILECHECK").unwrap_or_default());
        let output = Command::new(&program).arg("--version").output();
        let output = output.unwrap_or_else(|error| panic!("{}: {error}", program.display()));
        let text = String::from_utf8_lossy(&output.stdout);
        let version = [19, 14].into_iter().find(|version| text.contains(&format!("LLVM version {version}.")));
        let version = version.unwrap_or_else(|| panic!("{} is neither version 19 nor 14:\n{text}", program.display()));
        let name = format!("filecheck-rs-{test}-{}", std::process::id());
        let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        std::fs::create_dir_all(&directory).expect("a temporary directory");
        Reference { program, version, directory }
    }

    /// The exit status for a case: 0, 1 or 2.
    fn status(&self, case: &Case) -> Option<i32> {
        std::fs::write(self.directory.join("case.check"), &case.checks).ok()?;
        std::fs::write(self.directory.join("case.input"), &case.input).ok()?;
        let status = Command::new(&self.program)
            .args(["case.check", "--input-file=case.input"])
            .args(&case.args)
            .current_dir(&self.directory)
            .env_remove("FILECHECK_OPTS")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status();
        status.ok()?.code()
    }
}

impl Drop for Reference {
    fn drop(&mut self) {
        let _gone = std::fs::remove_dir_all(&self.directory);
    }
}

fn cases_have_the_verdicts_of_llvm() {
    let reference = Reference::named("cases");
    let cases = common::judged_cases();
    let written = |case: &JudgedCase| if reference.version == 19 { case.llvm_19 } else { case.llvm_14 };
    let wrong = cases.iter().filter_map(|case| {
        let status = reference.status(&case.case);
        let text = || format!("{}: {status:?}, not {}\n{}", case.place, written(case), describe(&case.case));
        (status != Some(written(case))).then(text)
    });
    let wrong: Vec<String> = wrong.collect();
    let agreed = cases.iter().filter(|case| case.ours == written(case)).count();
    println!("{} cases compared with {}, of which we agree in {agreed}", cases.len(), reference.program.display());
    assert!(wrong.is_empty(), "{} wrong:\n{}", wrong.len(), wrong.join("\n=====\n"));
}

fn generated_cases_agree_with_llvm() {
    let reference = Reference::named("generated");
    if reference.version != 19 {
        println!("generated cases are compared with version 19 only");
        return;
    }
    let mut random = Random(effort::seed(2024));
    let count = effort::cases("HIR_CASES", 900, 20_000);
    let (mut passed, mut differences) = (0, Vec::new());
    for number in 0..count {
        let case = random.likely_case(number % 2 == 0);
        let ours = common::run_in_process(&case);
        let theirs = reference.status(&case);
        passed += usize::from(ours.status == 0);
        // LLVM takes an expression that is only invalid as a whole for one that matches nothing.
        let is_invalid = ours.stderr.contains("invalid backreference number");
        if theirs != Some(i32::from(ours.status)) && !is_invalid {
            differences.push(format!("{}\nours {ours:?}\ntheirs {theirs:?}", describe(&case)));
        }
    }
    println!("{count} cases compared with {}, {passed} of them matches", reference.program.display());
    assert!(differences.is_empty(), "{} differ:\n{}", differences.len(), differences.join("\n=====\n"));
}

/// A linear congruential generator (Knuth's MMIX constants).
struct Random(u64);

const WORDS: [&str; 12] = ["a", "ab", "abc", "b", "%1", "%22", "foo", "foo.bar", "7", "12", "x=3", "(y)"];
const REGEXES: [&str; 18] = [
    "{{.*}}",
    "{{a|ab}}",
    "{{[a-c]+}}",
    "{{[0-9]+}}",
    "{{^}}",
    "{{$}}",
    "{{(a|b)*}}",
    "{{[^ ]+}}",
    "{{a?(ab)?}}",
    "{{%[0-9]{1,2}}}",
    "{{.}}",
    "{{b*|c}}",
    "{{[[:space:]]}}",
    "{{(ab?)+c?}}",
    "{{x=.|y}}",
    "{{(a|ab)(c|bcd)?}}",
    "{{([a-z])\\1?}}",
    "{{[[:<:]]a}}",
];
const SUBSTITUTIONS: [&str; 19] = [
    "[[X:ab|a]]",
    "[[X:[a-z]+]]",
    "[[X]]",
    "[[Y:%[0-9]+]]",
    "[[Y]]",
    "[[X:.*]]",
    "[[Z:(a|b)*]]",
    "[[Z]]",
    "[[X:a?]][[Y:(ab)?]]",
    "[[X:a|ab]][[Y:bc|c]]",
    "[[W:[a-z]+]] [[W]]",
    "[[#N:]]",
    "[[#N]]",
    "[[#N+5]]",
    "[[#%x,M:]]",
    "[[#M]]",
    "[[#mul(N,1)-M]]",
    "[[#%d,]]",
    "[[#@LINE]]",
];
const SUFFIXES: [&str; 14] =
    ["", "", "", "-NEXT", "-NEXT", "-SAME", "-SAME", "-DAG", "-DAG", "-NOT", "-NOT", "-LABEL", "-EMPTY", "-COUNT-2"];
const FLAGS: [&str; 7] = [
    "--strict-whitespace",
    "--match-full-lines",
    "--ignore-case",
    "--implicit-check-not=zz",
    "--allow-deprecated-dag-overlap",
    "-DX=ab",
    "-D#N=7",
];

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let high = usize::try_from(self.0 >> 33).unwrap_or_default();
        high % limit
    }

    fn pick<'a>(&mut self, from: &[&'a str]) -> &'a str {
        from[self.below(from.len())]
    }

    fn line(&mut self) -> String {
        let words = self.below(5);
        let mut line = String::new();
        for i in 0..words {
            let separator = ["", " ", " ", "  ", "\t"][self.below(5)];
            line.push_str(if i > 0 || self.below(4) == 0 { separator } else { "" });
            line.push_str(self.pick(&WORDS));
        }
        line
    }

    /// A pattern made from a line of the input, with some of its words replaced.
    fn pattern(&mut self, line: &str, plain: bool) -> String {
        let words: Vec<&str> = line.split([' ', '\t']).filter(|word| !word.is_empty()).collect();
        let first = self.below(words.len().max(1));
        let count = 1 + self.below(3);
        let mut pattern = String::new();
        for word in words.iter().skip(first).take(count) {
            pattern.push_str(if pattern.is_empty() { "" } else { " " });
            pattern.push_str(&self.piece(word, plain));
        }
        if pattern.is_empty() {
            pattern.push_str(self.pick(if plain { &REGEXES } else { &SUBSTITUTIONS }));
        }
        if self.below(5) == 0 {
            pattern.push_str(self.pick(&REGEXES));
        }
        pattern
    }

    /// A word, or something that matches it, or something that may not.
    fn piece(&mut self, word: &str, plain: bool) -> String {
        let cut = word.char_indices().nth(1).map_or(word.len(), |(at, _)| at);
        let (head, tail) = word.split_at(cut);
        match self.below(if plain { 7 } else { 16 }) {
            0 => self.pick(&REGEXES).to_owned(),
            1 => format!("{head}{{{{.*}}}}"),
            2 => "{{[^ ]+|x}}{{[a-z]?}}".to_owned(),
            7 => self.pick(&SUBSTITUTIONS).to_owned(),
            8 => "[[X:[^ ]+]]".to_owned(),
            9 => "[[Y:[a-z%]*]][[Z:(a|b|[0-9])*]]".to_owned(),
            10 => format!("{head}[[X:.*]]"),
            12 if !tail.contains('(') => "[[X:abc|ab|a|foo|%1|%22]]".to_owned(),
            _ => word.to_owned(),
        }
    }

    fn directive(&mut self, number: usize, lines: &[String], at: usize) -> String {
        let suffix = match (number, self.below(3)) {
            (0, 0) => "-DAG",
            (0, _) => "",
            _ => self.pick(&SUFFIXES),
        };
        let line = if self.below(8) == 0 { self.line() } else { lines[at].clone() };
        let pattern = match suffix {
            "-EMPTY" => String::new(),
            "-NOT" if self.below(3) > 0 => " {{z|abcabc}}".to_owned(),
            "-LABEL" => format!(" {}", self.pattern(&line, true)),
            _ => format!(" {}", self.pattern(&line, false)),
        };
        let modifier = if self.below(30) == 0 { "{LITERAL}" } else { "" };
        format!("; CHECK{suffix}{modifier}:{pattern}\n")
    }

    /// A case; when a match is `wanted`, the first of some that this crate accepts.
    fn likely_case(&mut self, wanted: bool) -> Case {
        let mut case = self.case();
        for _ in 0..ATTEMPTS {
            if !wanted || common::run_in_process(&case).status == 0 {
                break;
            }
            case = self.case();
        }
        case
    }

    fn case(&mut self) -> Case {
        let lines: Vec<String> = (0..2 + self.below(7)).map(|_| self.line()).collect();
        let mut checks = String::new();
        let mut at = self.below(2);
        for number in 0..1 + self.below(5) {
            checks.push_str(&self.directive(number, &lines, at));
            at = (at + self.below(3)).min(lines.len() - 1);
        }
        let flags = [0, 0, 0, 1, 2][self.below(5)];
        let mut args: Vec<String> = (0..flags).map(|_| self.pick(&FLAGS).to_owned()).collect();
        args.dedup();
        let input = format!("{}\n", lines.join("\n"));
        Case { checks: checks.into_bytes(), input: input.into_bytes(), args }
    }
}
