//! Rendering of wide lines, distant labels and many diagnostics.

use super::{human, json};
use hostir::diag::{Diag, Span};

fn rendered(text: &str, diags: &[Diag]) -> String {
    let mut out = Vec::new();
    human(&mut out, false, "p.hir", text, diags).unwrap();
    String::from_utf8(out).unwrap()
}

#[test]
fn short_lines_are_shown_whole() {
    let diag = Diag::error("H0101", Span::new(6, 8), "tensor `T1` is not defined").here("here");
    let expected = "\
error[H0101]: tensor `T1` is not defined
  ┌─ p.hir:2:3
  │
2 │ aaT1
  │   ^^ here

";
    assert_eq!(rendered("abc\naaT1\n", &[diag]), expected);
}

#[test]
fn a_wide_line_is_cut_around_its_label() {
    let text = format!("{}WRONG{}\n", "x".repeat(300), "y".repeat(300));
    let out = rendered(&text, &[Diag::error("H0101", Span::new(300, 305), "bad")]);
    assert!(out.contains("p.hir:1:301"), "{out}");
    assert!(out.contains(&format!("1 │ …{}WRONG{}…\n", "x".repeat(40), "y".repeat(40))), "{out}");
    assert!(out.contains(&format!("  │  {}^^^^^\n", " ".repeat(40))), "{out}");
}

#[test]
fn a_wide_label_and_a_far_one_keep_the_line_short() {
    let text = format!("{}é{}\n", "x".repeat(500), "y".repeat(2000));
    let diag =
        Diag::error("H0101", Span::new(10, 400), "bad").label(Span::new(2400, 2402), "there");
    let out = rendered(&text, &[diag]);
    assert!(out.lines().all(|line| line.chars().count() < 400), "{out}");
    assert!(out.contains("there"), "{out}");
}

#[test]
fn lines_between_labels_are_left_out_with_a_mark() {
    let text = (1..=50).map(|n| format!("line {n}\n")).collect::<String>();
    let at = |n: usize| text.find(&format!("line {n}\n")).unwrap();
    let diag = Diag::error("H0101", Span::new(at(40), at(40) + 4), "bad")
        .label(Span::new(at(2), at(2) + 4), "first");
    let out = rendered(&text, &[diag]);
    assert!(
        out.contains(" 2 │ line 2\n") && out.contains("   ·\n") && out.contains("40 │ line 40\n"),
        "{out}"
    );
    assert!(!out.contains("line 3\n"), "{out}");
}

#[test]
fn a_label_of_many_lines_shows_its_ends() {
    let text = (1..=5000).map(|n| format!("line {n}\n")).collect::<String>();
    let out = rendered(&text, &[Diag::error("H0101", Span::new(0, text.len()), "bad")]);
    assert!(out.contains("line 1\n") && out.lines().count() < 20, "{out}");
}

#[test]
fn places_outside_of_the_text_do_no_harm() {
    let out = rendered("", &[Diag::error("H0101", Span::new(7, 9), "bad")]);
    assert!(out.starts_with("error[H0101]: bad"), "{out}");
    let out = rendered("é", &[Diag::error("H0101", Span::new(1, 900), "bad")]);
    assert!(out.starts_with("error[H0101]: bad"), "{out}");
}

#[test]
fn many_are_counted() {
    let diags = vec![Diag::global("H0101", "bad"); 133];
    let out = rendered("", &diags);
    assert_eq!(out.matches("error[H0101]: bad").count(), super::LIMIT);
    assert!(out.ends_with("133 diagnostics (133 errors), the first 100 are shown\n"), "{out}");
}

#[test]
fn json_has_one_object_a_line() {
    let diag = Diag::error("H0101", Span::new(5, 7), "bad \"name\"").here("this").note("rename it");
    let mut out = Vec::new();
    json::write(&mut out, "p.hir", "abc\nxT1\n", &[diag, Diag::global("H0601", "gone").warning()])
        .unwrap();
    let lines: Vec<serde_json::Value> = String::from_utf8(out)
        .unwrap()
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(lines.len(), 2);
    assert_eq!(lines[0]["code"], "H0101");
    assert_eq!((lines[0]["line"].as_u64(), lines[0]["column"].as_u64()), (Some(2), Some(2)));
    assert_eq!(lines[0]["labels"][0]["text"], "this");
    assert_eq!(lines[0]["notes"][0], "rename it");
    assert_eq!(lines[1]["severity"], "warning");
    assert!(lines[1]["line"].is_null());
}
