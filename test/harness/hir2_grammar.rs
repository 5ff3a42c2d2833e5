//! The parser of `hir 2` and its grammar (`grammar/reference/src/hir2.lalrpop`) accept the same texts, and make the same
//! trees of them, places included: every program of the tree, what is written of the printed ones, and texts that are
//! damaged at random.
//!
//! `HIR_MUTATIONS=1000` damages 40 times as many, `HIR_SEED=7` starts elsewhere.

#![allow(clippy::panic, reason = "failures panic")]

use crate::effort;
use crate::random::{Random, damage};
use hostir_grammar::hir2;
use hostir_grammar_reference::dump::dump_tree;
use hostir_grammar_reference::{GRAMMAR, parse};
use hostir_test::tree;

/// The difference between the two for a text, or for one of the texts of a bundle, which the grammar reads one by one.
fn find_difference(text: &str) -> Option<String> {
    let parts = hir2::bundle::bundle_parts(text);
    let mut texts = parts.iter().map(|part| &text[part.text.clone()]).filter(|text| hir2::is_hir2(text));
    find_own_difference(hir2::bundle::own_text(text)).or_else(|| texts.find_map(find_own_difference))
}

fn find_own_difference(text: &str) -> Option<String> {
    let hand = hir2::parse_by_grammar(text);
    if hand.errors.iter().any(|error| error.code == hir2::division::DIVISION_CODE) {
        // The grammar does not read comments.
        return None;
    }
    match (hand.errors.first(), parse(text)) {
        (Some(_), None) => None,
        (Some(error), Some(_)) => Some(format!("only the grammar accepts: {}", error.message)),
        (None, None) => Some("only the parser accepts".to_owned()),
        (None, Some(file)) => {
            let (by_hand, by_grammar) = (dump_tree(&hand.file), dump_tree(&file));
            let mut lines = by_hand.lines().zip(by_grammar.lines());
            let (hand, grammar) = lines.find(|(hand, grammar)| hand != grammar)?;
            Some(format!("by hand  {hand}\ngrammar  {grammar}"))
        }
    }
}

fn check(name: &str, text: &str) {
    if let Some(why) = find_difference(text) {
        panic!("{name}: {why}\n{text}");
    }
}

/// Texts in `hir 2` without errors: those of the tree, and what is written of those in the printed form.
fn texts() -> Vec<(String, String)> {
    let paths = tree::programs();
    let read = paths.iter().filter_map(|path| Some((tree::relative(path), std::fs::read_to_string(path).ok()?)));
    let mut texts = Vec::new();
    for (name, text) in read {
        if hir2::is_hir2(&text) {
            texts.push((name, text));
            continue;
        }
        let (mut programs, diags) = hostir::load(&text);
        if !diags.has_errors() && !programs.is_empty() {
            texts.push((format!("what is written of {name}"), hostir::hir2::write::write_file(&mut programs)));
        }
    }
    texts
}

#[test]
fn programs_of_the_tree_agree() {
    let texts = texts();
    let mut sound = 0;
    for (name, text) in &texts {
        check(name, text);
        sound += usize::from(hir2::parse_by_grammar(text).errors.is_empty());
    }
    assert!(sound > 600, "only {sound} of {} texts are without errors", texts.len());
}

/// Damages texts and checks them. Gives how many of the damaged texts are without errors.
fn check_damaged(count: u64, seed: u64, damage: fn(&str, &mut Random) -> String) -> u64 {
    let (texts, mut random) = (texts(), Random(effort::seed(seed)));
    let mut sound = 0;
    for _ in 0..count {
        let (name, text) = &texts[random.below(texts.len())];
        let damaged = damage(text, &mut random);
        check(name, &damaged);
        sound += u64::from(hir2::is_hir2(&damaged) && hir2::parse_by_grammar(&damaged).errors.is_empty());
    }
    sound
}

#[test]
fn damaged_texts_agree() {
    let count = 400 * effort::cases("HIR_MUTATIONS", 25, 1_000);
    let sound = check_damaged(count, 11, damage);
    assert!(sound > count / 10, "only {sound} damaged texts are without errors");
}

/// Texts in which words and signs of the grammar stand at other places.
#[test]
fn misplaced_words_agree() {
    let count = 400 * effort::cases("HIR_MUTATIONS", 25, 1_000);
    let sound = check_damaged(count, 13, misplace_words);
    assert!(sound > count / 20, "only {sound} damaged texts are without errors");
}

/// The terminals of the grammar, with examples in the place of their kinds.
fn words() -> Vec<&'static str> {
    let terminals = GRAMMAR.lines().filter_map(|line| line.trim().strip_prefix('"')?.split_once("\" => Tok::"));
    let words = terminals.flat_map(|(terminal, _)| match terminal {
        "NEWLINE" => vec!["\n  ", "\n    ", "\n", " \n      "],
        "INT" => vec!["0", "9223372036854775808", "-1"],
        "NAME" => vec!["a", "range(2)", "FOR", "elif", "print", "Manual(a)"],
        "POSITION" => vec!["in G.0", "b.1"],
        "KIND" => vec!["r.k", "b.", "i.1.2"],
        "BOOL" => vec!["true", "not", "True"],
        "VERBATIM" => vec!["`v`"],
        "FLOAT" => vec!["0.5"],
        "HEX" => vec!["0x1f"],
        "VERSION" => vec!["hir 2.1\n"],
        "INDENT" | "DEDENT" | "ERA" => vec![" "],
        sign => vec![sign.split(' ').next().unwrap_or(sign)],
    });
    words.collect()
}

fn misplace_words(text: &str, random: &mut Random) -> String {
    let words = words();
    let mut pieces: Vec<&str> = text.split_inclusive(|c: char| !c.is_alphanumeric() && c != '_').collect();
    for _ in 0..=random.below(2) {
        let (at, other) = (random.below(pieces.len()), random.below(pieces.len()));
        match random.below(3) {
            0 => pieces[at] = words[random.below(words.len())],
            1 => pieces.insert(at, words[random.below(words.len())]),
            _ => pieces.swap(at, other),
        }
    }
    pieces.concat()
}

#[test]
fn limits_agree() {
    let in_program = |statements: &str| format!("hir 2.1\nf() -> ():\n  {statements}\n");
    for (least, most, make) in [
        (470, 490, (|n| format!("x = {}a{}", "(".repeat(n), ")".repeat(n))) as fn(usize) -> String),
        (495, 505, |n| format!("x = {}a{}", "(".repeat(n), ")".repeat(n))),
        (245, 255, |n| format!("x = {}a{}", "-(".repeat(n), ")".repeat(n))),
        (245, 255, |n| format!("x = {}!a{}, b]", "[-".repeat(n), "]".repeat(n - 1))),
        (475, 485, |n| format!("x = a{}", " + a".repeat(n))),
        (235, 245, |n| format!("x = {}a{}", "f(".repeat(n), ")".repeat(n))),
        (115, 125, |n| format!("x = {}a{}", "wrap(".repeat(n), ", 2)".repeat(n))),
        (235, 245, |n| format!("x = a{}", "[0].y".repeat(n / 2))),
        (495, 505, |n| format!("{}a(){}", "{ b = ".repeat(n), " }".repeat(n))),
        (495, 505, |n| format!("wait {{ a({}b) }}", "- ".repeat(n))),
    ] {
        for n in least..most {
            check(&format!("depth {n}"), &in_program(&make(n)));
        }
    }
    for depth in 195..205 {
        let lines = (1..=depth).map(|level| format!("{}if a:\n", " ".repeat(level)));
        check(&format!("blocks {depth}"), &format!("hir 2\nf() -> ():\n{}", lines.collect::<String>()));
    }
}
