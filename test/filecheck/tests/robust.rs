//! Malformed check files, options and regular expressions are errors, never panics.

#[path = "../../library/common/effort.rs"]
mod effort;

use filecheck_rs::{CommandLine, Options, parse_checks};

const PIECES: [&str; 44] = [
    "CHECK",
    ":",
    "-NEXT",
    "-COUNT-",
    "3",
    "{LITERAL}",
    "\n",
    " ",
    "\t",
    "\r",
    "{{",
    "}}",
    "[[",
    "]]",
    "[",
    "]",
    "(",
    ")",
    "*",
    "+",
    "{",
    "}",
    "|",
    "\\",
    "#",
    "%",
    "x",
    ",",
    "@LINE",
    "X",
    "é",
    "日",
    "-",
    "==",
    "mul(",
    "$",
    "^",
    ".",
    "[:alpha:]",
    "[=",
    "-NOT",
    "-DAG",
    "-LABEL",
    "99999999999",
];

fn soup(state: &mut u64, length: usize) -> String {
    let mut text = String::new();
    for _ in 0..length {
        *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let index = usize::try_from(*state >> 33).unwrap_or_default() % PIECES.len();
        text.push_str(PIECES[index]);
    }
    text
}

#[test]
fn soup_is_never_a_panic() {
    let mut state = effort::seed(1);
    let mut parsed = 0;
    let count = effort::cases("HIR_MUTATIONS", 4_000, 400_000) as usize;
    for length in (0..count).map(|number| number % 13) {
        let checks = format!("CHECK: {}\nCHECK-DAG:{}\n", soup(&mut state, length), soup(&mut state, 3));
        let args = [format!("--check-prefix={}", soup(&mut state, 1)), soup(&mut state, 2)];
        let options = match CommandLine::parse(&args) {
            Ok(CommandLine { options, .. }) if length % 2 == 0 => options,
            _ => Options::default(),
        };
        if let Ok(checks) = parse_checks(&checks, "soup", &options) {
            parsed += 1;
            let _ignored = checks.check_input(soup(&mut state, 40), &options);
        }
    }
    assert!(parsed > count / 80, "only {parsed} of them parse");
}

#[test]
fn deep_nesting_is_an_error() {
    let options = Options::default();
    for (open, close) in [("[[#", "]]"), ("{{", "}}")] {
        for middle in ["(".repeat(100_000), format!("1{}", "+1".repeat(100_000)), "[[".repeat(9_999)] {
            let text = format!("CHECK: {open}{middle}{close}");
            if let Ok(checks) = parse_checks(&text, "deep", &options) {
                let _ignored = checks.check_input("1111", &options);
            }
        }
    }
    let nested = format!("CHECK: {{{{{}a{}}}}}", "(".repeat(150), ")".repeat(150));
    let _ignored = parse_checks(&nested, "deep", &options).map(|checks| checks.check_input("a", &options));
}
