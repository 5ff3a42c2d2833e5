//! Print is a fixed point: whatever blank lines and comments a text has, what is printed of it prints as
//! it stands. Programs of the tree get lines and comments at random places.
//!
//! `HIR_LAYOUTS=1000` tries that many layouts of each program, `HIR_SEED=7` starts elsewhere.

use crate::effort;
use hostir::diag::Diags;
use hostir::print::{PrintForm, PrintOptions};
use hostir_lit::directives::parse_directives;
use hostir_test::tree;

/// Layouts of each program of an ordinary test run.
const QUICK: u64 = 3;
/// Longer texts have nothing that short ones lack.
const LONGEST: usize = 6000;

/// A text as it is printed; `None` if it has errors.
fn print(text: &str, form: PrintForm) -> Option<String> {
    let text = hostir_grammar::containers_in_log(text);
    let parsed = hostir_grammar::parse(&text);
    if !parsed.errors.is_empty() {
        return None;
    }
    let mut diags = Diags::default();
    let mut out = String::new();
    for index in 0..parsed.ast.containers.len() {
        let program = hostir::resolve::resolve(&parsed.ast, index, &text, &mut diags);
        hostir::print::print_into(&program, PrintOptions { form, ..PrintOptions::default() }, &mut out);
    }
    (!diags.has_errors()).then_some(out)
}

/// The text with blank lines, comments and lines of a log at some places.
fn other_layout(rng: &mut fastrand::Rng, text: &str) -> String {
    let mut out = String::new();
    let every = rng.usize(2..12);
    for (number, line) in text.lines().enumerate() {
        for _ in 0..4 {
            if rng.usize(..every) > 0 {
                break;
            }
            let blanks = " ".repeat(rng.usize(..5));
            match rng.usize(..4) {
                0 | 1 => out.push('\n'),
                2 => out.push_str(&format!("{blanks}\n")),
                _ => out.push_str(&format!("{blanks}// comment {number}\n")),
            }
        }
        out.push_str(line);
        match rng.usize(..3 * every) {
            0 => out.push_str(" // behind"),
            1 => out.push_str("  \t"),
            _ => {}
        }
        out.push('\n');
    }
    out
}

#[test]
fn print_is_a_fixed_point() {
    let layouts = effort::cases("HIR_LAYOUTS", QUICK, 60);
    let seed = effort::number("HIR_SEED").unwrap_or(1);
    let mut tried = 0;
    for (file, path) in tree::programs().into_iter().enumerate() {
        let text = tree::read(&path);
        let valid = parse_directives(&text).is_ok_and(|directives| !tree::is_rejected(&text, &directives));
        if !valid || text.len() > LONGEST {
            continue;
        }
        for layout in 0..layouts {
            let seed = seed.wrapping_mul(1 << 40).wrapping_add((file as u64) << 20 | layout);
            let mut rng = fastrand::Rng::with_seed(seed);
            // Twice the same containers: what stands between them counts.
            let text = if rng.usize(..4) == 0 { format!("{text}\n{text}") } else { text.clone() };
            let text = other_layout(&mut rng, &text);
            let form = [PrintForm::Full, PrintForm::Short][rng.usize(..2)];
            let Some(once) = print(&text, form) else { continue };
            tried += 1;
            let twice = print(&once, form).unwrap_or_default();
            let name = tree::relative(&path);
            assert!(once == twice, "{name}, seed {seed}:\n{text}\n--- once\n{once}\n--- twice\n{twice}");
        }
    }
    assert!(tried > 300, "only {tried} layouts were valid");
}

/// What a log holds around its containers leaves nothing behind.
#[test]
fn lines_of_a_log_are_no_blank_lines() {
    let program = "%HostIrContainer { () -> () :\n  Wait Communication 1\n} // %HostIrContainer\n";
    let log = format!("start\nmore\n{program}end\nof\nthe\n\nlog\n{program}end\n");
    assert_eq!(print(&log, PrintForm::Full).as_deref(), Some(&*format!("{program}{program}")));
    // Blank lines of the log's own around a container are its own.
    let log = format!("start\n\n{program}\nend\n{program}end\n");
    assert_eq!(print(&log, PrintForm::Full).as_deref(), Some(&*format!("\n{program}\n{program}")));
    let prefixed: String = log.lines().map(|line| format!("[1,0]<stdout>:{line}\n")).collect();
    let printed = print(&prefixed, PrintForm::Full).unwrap_or_default();
    assert_eq!(printed.matches("%HostIrContainer {").count(), 2);
    assert!(!printed.contains("\n\n\n"), "{printed}");
}
