//! Rendering of wide lines, distant labels and many diagnostics.

use super::{OutputStyle, json, write_human};
use hostir::diag::visible::is_hidden;
use hostir::diag::{Diag, Span};
use unicode_width::UnicodeWidthStr as _;

fn rendered(text: &str, diags: &[Diag]) -> String {
    let mut out = Vec::new();
    write_human(&mut out, OutputStyle::default(), "p.hir", text, diags).unwrap();
    String::from_utf8(out).unwrap()
}

#[test]
fn short_lines_are_shown_whole() {
    let diag = Diag::error("H0101", Span::new(6, 8), "tensor `T1` is not defined").with_primary_text("here");
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
    let diag = Diag::error("H0101", Span::new(10, 400), "bad").with_label(Span::new(2400, 2402), "there");
    let out = rendered(&text, &[diag]);
    assert!(out.lines().all(|line| line.chars().count() < 400), "{out}");
    assert!(out.contains("there"), "{out}");
}

#[test]
fn lines_between_labels_are_left_out_with_a_mark() {
    let text = (1..=50).map(|n| format!("line {n}\n")).collect::<String>();
    let at = |n: usize| text.find(&format!("line {n}\n")).unwrap();
    let diag =
        Diag::error("H0101", Span::new(at(40), at(40) + 4), "bad").with_label(Span::new(at(2), at(2) + 4), "first");
    let out = rendered(&text, &[diag]);
    assert!(out.contains(" 2 │ line 2\n") && out.contains("   ·\n") && out.contains("40 │ line 40\n"), "{out}");
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
    let diags = vec![Diag::global_error("H0101", "bad"); 133];
    let out = rendered("", &diags);
    assert_eq!(out.matches("error[H0101]: bad").count(), super::LIMIT);
    assert!(out.ends_with("133 diagnostics (133 errors), of which the first 100 are shown\n"), "{out}");
}

#[test]
fn json_has_one_object_a_line() {
    let diag = Diag::error("H0101", Span::new(5, 7), "bad \"name\"").with_primary_text("this").with_note("rename it");
    let mut out = Vec::new();
    json::write_json(&mut out, "p.hir", "abc\nxT1\n", &[diag, Diag::global_error("H0601", "gone").into_warning()])
        .unwrap();
    let lines: Vec<serde_json::Value> =
        String::from_utf8(out).unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines.len(), 2);
    assert_eq!(lines[0]["code"], "H0101");
    assert_eq!((lines[0]["line"].as_u64(), lines[0]["column"].as_u64()), (Some(2), Some(2)));
    assert_eq!(lines[0]["labels"][0]["text"], "this");
    assert_eq!(lines[0]["notes"][0], "rename it");
    assert_eq!(lines[1]["severity"], "warning");
    assert!(lines[1]["line"].is_null());
}

/// Lines of an excerpt: number, text after the rule.
fn excerpt(text: &str, diag: Diag, columns: Option<usize>) -> Vec<String> {
    let mut out = Vec::new();
    write_human(&mut out, OutputStyle { color: false, columns }, "p.hir", text, &[diag]).unwrap();
    let out = String::from_utf8(out).unwrap();
    assert!(!out.contains(|c| is_hidden(c) && c != '\n'), "{out:?}");
    out.lines().map(str::to_owned).collect()
}

/// Control characters appear as their numbers, and labels stay under the marked text.
#[test]
fn what_acts_on_a_terminal_is_shown_by_its_number() {
    // `WRONG` stands after 5 characters of the text, and after 3 that are shown by numbers.
    let text = "a\u{1b}b\u{202e}\u{9b}WRONG // \u{1b}]0;title\u{7}\n";
    let at = text.find("WRONG").unwrap();
    let lines = excerpt(text, Diag::error("H0101", Span::new(at, at + 5), "bad").with_primary_text("here"), None);
    assert_eq!(lines[1], "  ┌─ p.hir:1:6");
    assert_eq!(lines[3], "1 │ a\\u{1b}b\\u{202e}\\u{9b}WRONG // \\u{1b}]0;title\\u{7}");
    assert_eq!(lines[4], format!("  │ {}^^^^^ here", " ".repeat(lines[3].find("WRONG").unwrap() - "1 │ ".len())));
    // A label on such a character marks all that stands for it.
    let lines = excerpt(text, Diag::error("H0101", Span::new(1, 2), "bad"), None);
    assert_eq!((&lines[1][..], &lines[4][..]), ("  ┌─ p.hir:1:2", "  │  ^^^^^^"));
    let from = text.find('\u{202e}').unwrap();
    let lines = excerpt(text, Diag::error("H0101", Span::new(from, at + 1), "bad"), Some(80));
    assert_eq!(lines[4], format!("  │ {}{}", " ".repeat(8), "^".repeat(8 + 6 + 1)));
}

/// Sentences, labels, notes and names of files are untrusted text too.
#[test]
fn words_of_others_do_not_act_on_a_terminal() {
    let evil = "\u{1b}[2J\u{9b}\u{202e}\n\u{7f}";
    let diag = Diag::error("H0101", Span::new(0, 1), evil)
        .with_primary_text(evil)
        .with_note(evil)
        .with_label(Span::new(2, 3), evil);
    let mut out = Vec::new();
    write_human(&mut out, OutputStyle::default(), &format!("{evil}.hir"), "T0 T1\n", std::slice::from_ref(&diag))
        .unwrap();
    let out = String::from_utf8(out).unwrap();
    assert!(!out.contains(|c| is_hidden(c) && c != '\n'), "{out:?}");
    assert_eq!(out.matches("\\u{1b}[2J\\u{9b}\\u{202e}").count(), 5, "{out}");
    // Every line has the form that the renderer gives it.
    assert!(out.lines().all(|line| !line.starts_with("\\u{7f}")), "{out}");
    let mut out = Vec::new();
    json::write_json(&mut out, evil, "T0 T1\n", &[diag]).unwrap();
    let out = String::from_utf8(out).unwrap();
    assert!(!out.contains(|c| is_hidden(c) && c != '\n'), "{out:?}");
    let object: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert_eq!((&object["message"], &object["file"]), (&evil.into(), &evil.into()));
}

/// Wide characters take two columns, combining ones none.
#[test]
fn labels_stand_under_wide_and_combining_characters() {
    let text = "// 張量e\u{301} WRONG\n";
    let at = text.find("WRONG").unwrap();
    let lines = excerpt(text, Diag::error("H0101", Span::new(at, at + 5), "bad"), Some(80));
    assert_eq!(lines[4], format!("  │ {}^^^^^", " ".repeat(3 + 4 + 1 + 1)));
}

/// On a terminal no line of an excerpt is wider than that, and every label's start is shown.
#[test]
fn excerpts_fit_the_terminal() {
    let line: String = (0..60).map(|n| format!("T{n:03}\u{1b}量 ")).collect();
    let text = format!("first\n{line}\nlast\n");
    let at = |n: usize| text.find(&format!("T{n:03}")).unwrap();
    for columns in [30, 40, 60, 80, 132, 200] {
        for n in [0, 1, 5, 20, 30, 58, 59] {
            let diag = Diag::error("H0101", Span::new(at(n), at(n) + 4), "bad").with_primary_text("it is");
            let lines = excerpt(&text, diag.clone(), Some(columns));
            let wide = |lines: &[String]| lines.iter().map(|line| line.width()).max().unwrap();
            assert!(wide(&lines) <= columns, "{columns}: {}", lines.join("\n"));
            // The mark stands under what it marks.
            let before = lines[3].split(&format!("T{n:03}")).next().unwrap().width();
            assert_eq!(lines[4].split('^').next().unwrap().width(), before, "{}", lines.join("\n"));
            assert!(columns < 60 || wide(&lines) > columns - 16, "{columns}: {}", lines.join("\n"));
            if columns >= 60 {
                let diag = diag.with_label(Span::new(at(40), at(40) + 4), "there");
                let lines = excerpt(&text, diag, Some(columns));
                let excerpt = lines.iter().filter(|line| line.contains("│") && !line.contains("there"));
                assert!(excerpt.map(|line| line.width()).max().unwrap() <= columns, "{}", lines.join("\n"));
                assert!(lines[3].contains(&format!("T{n:03}")) && lines[3].contains("T040"), "{}", lines.join("\n"));
            }
        }
        // A label that is wider than the terminal shows its start.
        let lines = excerpt(&text, Diag::error("H0101", Span::new(at(3), at(50)), "bad"), Some(columns));
        assert!(lines[3].contains("T003") && lines.iter().all(|line| line.width() <= columns), "{}", lines.join("\n"));
    }
}
