//! The same cases, and generated ones, against LLVM's FileCheck: one version of it, since versions differ, and only
//! where `HIR_FILECHECK` names it. What a machine happens to have is never looked at.
//! `tools/setup --llvm` installs it and says the command.
#![allow(clippy::expect_used, clippy::panic, clippy::print_stdout, reason = "a test program's own report")]

mod common;
#[path = "../../library/common/effort.rs"]
mod effort;
#[path = "../../library/common/needs.rs"]
mod needs;

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use common::Case;
use filecheck_rs::FailureKind;

/// LLVM's version, which is also in `tools/setup`.
const VERSION: &str = "19";
const ATTEMPTS: usize = 20;

fn main() -> std::process::ExitCode {
    let missing = std::env::var_os("HIR_FILECHECK").is_none();
    let missing = missing.then_some("needs LLVM's FileCheck 19: `tools/setup --llvm`, then HIR_FILECHECK=<program>");
    needs::run(needs::tests![missing; agrees_with_llvm])
}

/// The FileCheck that was asked for.
fn reference() -> PathBuf {
    let program = PathBuf::from(std::env::var_os("HIR_FILECHECK").unwrap_or_default());
    let output = Command::new(&program).arg("--version").output();
    let output = output.unwrap_or_else(|error| panic!("{}: {error}", program.display()));
    let text = String::from_utf8_lossy(&output.stdout);
    let wanted = format!("LLVM version {VERSION}.");
    assert!(text.contains(&wanted), "{} is not version {VERSION}:\n{text}", program.display());
    program
}

/// The exit code of the reference: 0, 1 or 2.
fn check_with(program: &Path, directory: &Path, case: &Case) -> Option<i32> {
    let (checks, input) = (directory.join("case.check"), directory.join("case.input"));
    std::fs::write(&checks, &case.checks).ok()?;
    std::fs::write(&input, &case.input).ok()?;
    let status = Command::new(program)
        .arg(&checks)
        .arg(format!("--input-file={}", input.display()))
        .arg("--dump-input=never")
        .args(&case.args)
        .env_remove("FILECHECK_OPTS")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    status.ok()?.code()
}

/// A directory of its own for the files of one test.
fn scratch(test: &str) -> PathBuf {
    let name = format!("filecheck-rs-{test}-{}", std::process::id());
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    std::fs::create_dir_all(&directory).expect("a temporary directory");
    directory
}

fn agrees_with_llvm() {
    let program = reference();
    let directory = scratch("cases");
    let mut random = Random(effort::seed(2024));
    let hand_written: Vec<Case> = common::cases().into_iter().map(|(case, _)| case).collect();
    let written = hand_written.len();
    let count = effort::cases("HIR_CASES", 900, 20_000);
    let generated = (0..count).map(|number| random.likely_case(number % 2 == 0));
    let (mut passed, mut differences) = (0, Vec::new());
    for case in hand_written.into_iter().chain(generated) {
        let ours = common::check_in_process(&case);
        // What is refused here may be accepted there.
        if ours.as_ref().is_err_and(|failure| failure.kind == FailureKind::Usage) {
            continue;
        }
        let theirs = check_with(&program, &directory, &case);
        passed += usize::from(ours.is_ok());
        let exit_code = ours.as_ref().map_or_else(|failure| i32::from(failure.exit_code()), |()| 0);
        // A match whose variables are in doubt is a mismatch here.
        let in_doubt = ours.as_ref().is_err_and(|failure| failure.message.contains(IN_DOUBT));
        if theirs != Some(exit_code) && !in_doubt {
            differences.push(format!(
                "{:?}\n{}\n--\n{}\n--\nours {ours:?}\ntheirs {theirs:?}",
                case.args, case.checks, case.input
            ));
        }
    }
    let removed = std::fs::remove_dir_all(&directory);
    println!(
        "compared with {}: {written} written and {count} generated cases, {passed} of them \
         matches, {} differences ({removed:?})",
        program.display(),
        differences.len()
    );
    assert!(differences.is_empty(), "{}", differences.join("\n=====\n"));
}

/// Of the message about a variable whose value is in doubt.
const IN_DOUBT: &str = "put longer alternatives first";

/// A linear congruential generator (Knuth's MMIX constants).
struct Random(u64);

const WORDS: [&str; 12] = ["a", "ab", "abc", "b", "%1", "%22", "foo", "foo.bar", "7", "12", "x=3", "(y)"];
const REGEXES: [&str; 16] = [
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
];
const SUBSTITUTIONS: [&str; 9] = [
    "[[X:ab|a]]",
    "[[X:[a-z]+]]",
    "[[X]]",
    "[[Y:%[0-9]+]]",
    "[[Y]]",
    "[[X:.*]]",
    "[[Z:(a|b)*]]",
    "[[Z]]",
    "[[X:a?]][[Y:(ab)?]]",
];
const SUFFIXES: [&str; 14] =
    ["", "", "", "-NEXT", "-NEXT", "-SAME", "-SAME", "-DAG", "-DAG", "-NOT", "-NOT", "-LABEL", "-EMPTY", "-COUNT-2"];
const FLAGS: [&str; 2] = ["--strict-whitespace", "--match-full-lines"];

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
            if !wanted || common::check_in_process(&case).is_ok() {
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
        Case { checks, input, args }
    }
}
