//! Hand-written cases: directives, input, options, and whether FileCheck accepts them.

use filecheck_rs::{Failure, FailureKind, Options, parse_checks};

/// One case.
pub(crate) struct Case {
    /// The check file.
    pub(crate) checks: String,
    /// The input.
    pub(crate) input: String,
    /// The options.
    pub(crate) args: Vec<String>,
}

/// Runs a case through the library.
pub(crate) fn check_in_process(case: &Case) -> Result<(), Failure> {
    let mut args = case.args.clone();
    args.push("case.check".to_owned());
    let line = Options::from_args(&args).map_err(|message| Failure { message, kind: FailureKind::Usage })?;
    parse_checks(&case.checks, "case.check", &line.options)?.check_input(&case.input, &line.options)
}

/// All cases, and whether the input matches.
pub(crate) fn cases() -> Vec<(Case, bool)> {
    let tables: [Table; 5] = [DIRECTIVES, GROUPS, REGEXES, STRINGS, OPTIONS];
    let case = |&(args, checks, input, passes): &(&str, &str, &str, bool)| {
        let args = args.split_whitespace().map(str::to_owned).collect();
        (Case { checks: format!("{checks}\n"), input: input.to_owned(), args }, passes)
    };
    tables.into_iter().flatten().map(case).collect()
}

/// Options, check file, input, and whether it matches.
type Table = &'static [(&'static str, &'static str, &'static str, bool)];

const DIRECTIVES: Table = &[
    ("", "CHECK: foo", "a foo b", true),
    ("", "CHECK: foo", "a fo b", false),
    ("", "CHECK:foo", "foo\n", true),
    ("", "CHECK: a\nCHECK: b", "a\nx\nb\n", true),
    ("", "CHECK: b\nCHECK: a", "a\nx\nb\n", false),
    ("", "CHECK: a\nCHECK: a", "a\n", false),
    ("", "CHECK: a\nCHECK-NEXT: b", "a\nb\n", true),
    ("", "CHECK: a\nCHECK-NEXT: b", "a\nx\nb\n", false),
    ("", "CHECK: a\nCHECK-NEXT: b", "a b\nb\n", false),
    ("", "CHECK: a\nCHECK-SAME: b", "a xx b\n", true),
    ("", "CHECK: a\nCHECK-SAME: b", "a\nb\n", false),
    ("", "CHECK: a\nCHECK-EMPTY:\nCHECK-NEXT: b", "a\n\nb\n", true),
    ("", "CHECK: a\nCHECK-EMPTY:", "a\nx\n\n", false),
    ("", "CHECK: a\nCHECK-EMPTY:", "a\n\n", true),
    ("", "CHECK: a\nCHECK-EMPTY:", "a\n", true),
    ("", "CHECK: a\nCHECK-EMPTY:", "a", false),
    ("", "CHECK: a\nCHECK-EMPTY:\nCHECK-EMPTY:\nCHECK-NEXT: b", "a\n\n\nb\n", true),
    ("", "CHECK: a\nCHECK-EMPTY: x", "a\n\n", false),
    ("", "CHECK-NEXT: a", "a\n", false),
    ("", "CHECK-SAME: a", "a\n", false),
    ("", "CHECK-EMPTY:", "\n\n", false),
    ("", "CHECK-NOT: x", "a\n", true),
    ("", "CHECK-NOT: x", "a x\n", false),
    ("", "CHECK: a\nCHECK-NOT: x\nCHECK: b", "x\na\nb\nx\n", true),
    ("", "CHECK: a\nCHECK-NOT: x\nCHECK: b", "a\nx\nb\n", false),
    ("", "CHECK: a\nCHECK-NOT: x\nCHECK-NOT: y", "a\nb\ny\n", false),
    ("", "CHECK-COUNT-3: a", "a\na a\n", true),
    ("", "CHECK-COUNT-3: a", "a\na\n", false),
    ("", "CHECK-COUNT-2: a\nCHECK-NEXT: b", "a\na\nb", true),
    ("", "CHECK-COUNT-2: a\nCHECK-NOT: a", "a\na\na", false),
    ("", "CHECK-COUNT-0: a", "a", false),
    ("", "CHECK-COUNT-x: a", "a", false),
    ("", "CHECK-COUNT-2{LITERAL}: {{a}}", "{{a}} {{a}}", true),
    ("", "CHECK{LITERAL}: [[a]] {{b}}", "x [[a]] {{b}}", true),
    ("", "CHECK{LITERAL}: {{.}}", "x", false),
    ("", "CHECK: a\nCHECK-NEXT{LITERAL}: {{", "a\n{{", true),
    ("", "CHECK{ LITERAL , LITERAL }: {{", "{{", true),
    ("", "CHECK{FOO}: a", "a", false),
    ("", "CHECK_NEXT: a", "a", false),
    ("", "CHECK: a\nCHECK-DAG-NOT: b", "a", false),
    ("", "CHECK-FOO: x\nCHECK: a", "a", true),
    ("", "XCHECK: x\n-CHECK: y\nCHECK: a", "a", true),
    ("", "no directives", "a", false),
    ("", "CHECK:   \n", "a", false),
    ("", "CHECK: a CHECK: b", "a CHECK: b", true),
    ("", "CHECK: a\r\nCHECK-NEXT: b\r\n", "a\r\nb\r\n", true),
    ("", "CHECK: a\nCHECK: b{{$}}", "a\r\nb\r\n", true),
    ("", "CHECK: a\nCHECK-NEXT: {{^}}b", "a\n b\n", false),
];

const GROUPS: Table = &[
    ("", "CHECK-DAG: a\nCHECK-DAG: b", "b\na\n", true),
    ("", "CHECK-DAG: a\nCHECK-DAG: c", "b\na\n", false),
    ("", "CHECK-DAG: a\nCHECK-DAG: a", "a\n", false),
    ("", "CHECK-DAG: a\nCHECK-DAG: a", "a a\n", true),
    ("", "CHECK-DAG: ab\nCHECK-DAG: bc\n", "abc\n", false),
    ("", "CHECK-DAG: [[X:.]]=1\nCHECK-DAG: [[X]]=2", "b=2\na=1\na=2\n", true),
    ("", "CHECK-DAG: [[X:.]]=1\nCHECK-DAG: [[X]]=2", "b=2\na=1\n", false),
    ("", "CHECK-DAG: b\nCHECK-DAG: a\nCHECK: c", "a\nb\nc\n", true),
    ("", "CHECK-DAG: b\nCHECK-DAG: a\nCHECK: c", "a\nc\nb\n", false),
    ("", "CHECK-DAG: a\nCHECK-NOT: x\nCHECK-DAG: b", "a\nb\n", true),
    ("", "CHECK-DAG: a\nCHECK-NOT: x\nCHECK-DAG: b", "a\nx\nb\n", false),
    ("", "CHECK-DAG: a\nCHECK-NOT: x\nCHECK-DAG: b", "b\na\n", false),
    ("", "CHECK-NOT: x\nCHECK-DAG: a\nCHECK-DAG: b", "b\nx\na\n", true),
    ("", "CHECK-NOT: x\nCHECK-DAG: a\nCHECK-DAG: b", "x\nb\na\n", false),
    ("", "CHECK: s\nCHECK-DAG: a\nCHECK-DAG: b\nCHECK-NEXT: c", "s\nb\na\nc\n", true),
    ("", "CHECK-LABEL: f:\nCHECK: x\nCHECK-LABEL: g:\nCHECK: y", "f:\nx\ng:\ny\n", true),
    ("", "CHECK-LABEL: f:\nCHECK: x\nCHECK-LABEL: g:\nCHECK: y", "f:\ng:\nx\ny\n", false),
    ("", "CHECK-LABEL: f:\nCHECK-NOT: x\nCHECK-LABEL: g:", "f:\ng:\nx\n", true),
    ("", "CHECK-LABEL: f:\nCHECK-NOT: x\nCHECK-LABEL: g:", "f:\nx\ng:\n", false),
    ("", "CHECK-LABEL: f:\nCHECK-DAG: a\nCHECK-LABEL: g:", "f:\ng:\na\n", false),
    ("", "CHECK-LABEL: f{{[0-9]}}:", "f7:\n", true),
    ("", "CHECK-LABEL: [[F:f.]]:", "f7:\n", false),
    ("", "CHECK: a\nCHECK-LABEL: g:", "g:\na\n", false),
];

const REGEXES: Table = &[
    ("", "CHECK: a{{b+}}c", "abbbc", true),
    ("", "CHECK: a{{b+}}c", "ac", false),
    ("", "CHECK: a{{x|y}}c", "xc ayc", true),
    ("", "CHECK: a{{x|y}}c", "ax yc", false),
    ("", "CHECK: a.c", "abc", false),
    ("", "CHECK: {{a.c}}", "a\nc", false),
    ("", "CHECK: {{[^a]}}", "aaa\n", false),
    ("", "CHECK: {{^}}b{{$}}", "a\nb\nc", true),
    ("", "CHECK: {{\\d}}", "5", false),
    ("", "CHECK: {{\\d}}", "d", true),
    ("", "CHECK: {{[[:digit:]]+x}}", "12x", true),
    ("", "CHECK: {{[[:space:]]}}b", "a\nb", true),
    ("", "CHECK: {{[]x]}}{{[^]x]}}{{[a-]}}", "]y-", true),
    ("", "CHECK: {{[[:<:]]b}}", "ab", false),
    ("", "CHECK: {{a{2,3}b}}", "aab", true),
    ("", "CHECK: {{(}}", "(", false),
    ("", "CHECK: {{a)}}", "a)", false),
    ("", "CHECK: {{a||b}}", "a", false),
    ("", "CHECK: {{*a}}", "*a", false),
    ("", "CHECK: {{a**}}", "a", false),
    ("", "CHECK: {{a{2,1}}}", "aa", false),
    ("", "CHECK: {{[z-a]}}", "z", false),
    ("", "CHECK: {{[[:foo:]]}}", "z", false),
    ("", "CHECK: {{", "{{", false),
    ("", "CHECK: {{}}", "x", false),
    ("", "CHECK: {{a{,2}}}", "a{,2}", true),
    ("", "CHECK: {{[a-c-e]}}", "b", false),
    ("", "CHECK: {{[[:alpha:]_]+[[:punct:]]}}{{[[:upper:]]}}", "a_b!C", true),
    ("", "CHECK: {{[a}}", "a", false),
    ("", "CHECK: {{a\\}}", "a", false),
    ("", "CHECK: {{()a}}{{a$*}}", "aa", true),
    ("", "CHECK: {{^*a}}", "a", false),
    ("", "CHECK: {{x{256}}}", "x", false),
    ("", "CHECK: {{\\1(a)}}", "aa", false),
    ("", "CHECK: a{{\\.}}b{{\\+}}", "a.b+", true),
    ("", "CHECK: {{a{2}}}b", "aab", false),
    ("", "CHECK: (a|b)*{{.}}", "(a|b)*x", true),
    ("", "CHECK: {{(a|ab)(c|bcd)}}\nCHECK-SAME: {{^}}x", "abcdx", true),
    ("", "CHECK: {{a|ab}}\nCHECK-SAME: b", "ab", false),
    ("", "CHECK: {{a?(ab)?}}\nCHECK-SAME: {{^}}c", "abc", true),
];

const STRINGS: Table = &[
    ("", "CHECK: def [[R:%[0-9]+]]\nCHECK: use [[R]]", "def %1\nuse %1\n", true),
    ("", "CHECK: def [[R:%[0-9]+]]\nCHECK: use [[R]]", "def %1\nuse %2\n", false),
    ("", "CHECK: [[X:.]]\nCHECK: [[X]]", ".\na\n", false),
    ("", "CHECK: [[X:a|ab]]\nCHECK: [[X]]c", "ab\nac\n", false),
    ("", "CHECK: [[X:a*]][[Y:a*b]]\nCHECK: [[Y]]{{$}}", "aab\nb\n", true),
    ("", "CHECK: [[X]]", "a", false),
    ("", "CHECK: a\nCHECK-NOT: [[X]]", "a", false),
    ("", "CHECK: [[X:a]]\nCHECK: [[X:b]]\nCHECK: [[X]]", "a\nb\nb", true),
    ("", "CHECK: [[X:]]", "a", true),
    ("", "CHECK: [[X:(]]", "a", false),
    ("", "CHECK: [[X", "a", false),
    ("", "CHECK: [[X ]]", "a", false),
    ("", "CHECK: [[1X]]", "a", false),
    ("", "CHECK: [[X+1]]", "a", false),
    ("", "CHECK: [[[X:a]]]", "[a]", true),
    ("", "CHECK: [[X:[ab]]]]", "a]", true),
    ("", "CHECK: [[@FOO]]", "2", false),
    ("", "CHECK-LABEL: e\nCHECK: [[X:a]]\nCHECK-LABEL: f\nCHECK: [[X]]", "e\na\nf\na", true),
];

const OPTIONS: Table = &[
    ("--check-prefix=FOO", "CHECK: a\nFOO: b", "b", true),
    ("--check-prefix FOO", "CHECK: a\nFOO: b", "a", false),
    ("-check-prefixes=A,B", "A: a\nB: b\nB-NEXT: c", "a\nb\nc", true),
    ("--check-prefixes=A,B", "A: a", "a", false),
    ("--check-prefixes=A,A-B", "A: a\nA-B: b", "a\nb", true),
    ("--check-prefix=A,B", "A: a", "a", false),
    ("--check-prefix=", "CHECK: a", "a", false),
    ("--check-prefixes=A,A", "A: a", "a", false),
    ("--check-prefix=COM", "COM: a", "a", false),
    ("", "COM: CHECK: a\nRUN: x CHECK: b\nCHECK: c", "c", true),
    ("", "CHECK: a  b\tc", "a\tb   c", true),
    ("--strict-whitespace", "CHECK: a  b", "a b", false),
    ("--strict-whitespace", "CHECK:  a b", "a b", true),
    ("--match-full-lines", "CHECK: a b", "x\n  a b  \ny", true),
    ("--match-full-lines", "CHECK: a b", "x\n  a b c\ny", false),
    ("--match-full-lines --strict-whitespace", "CHECK:a b", "a b\n", true),
    ("--match-full-lines --strict-whitespace", "CHECK: a b", "a b\n", false),
    ("--match-full-lines", "CHECK: a\nCHECK-NOT: b\nCHECK: c", "a\nxb\nc", false),
    ("--match-full-lines", "CHECK{LITERAL}: a", "xax", true),
    ("--allow-empty", "CHECK-NOT: x", "", true),
    ("", "CHECK-NOT: x", "", false),
    ("--allow-empty", "CHECK: x", "", false),
    ("--no-such-option", "CHECK: x", "x", false),
    ("", "CHECK: [[X:a]b]]", "a", false),
    ("--strict-whitespace", "CHECK: a\tb", "a\tb", true),
    ("--strict-whitespace", "CHECK: a\tb", "a b", false),
    ("--strict-whitespace", "CHECK: a{{$}}", "a\r\n", true),
    ("--match-full-lines", "CHECK: a{{x|y}}", "ax\n", true),
    ("--match-full-lines", "CHECK-DAG: b\nCHECK-DAG: a\nCHECK: c", "a\nb\nc\n", true),
    ("--match-full-lines", "CHECK: a\nCHECK-SAME: b", "a b\n", false),
];
