//! No text in `hir 2` makes the parser panic, overflow the stack or take long; trees and spans are sound.

use crate::random::Random;
use hostir_grammar::ast::CommentPlaceSyntax;
use hostir_grammar::hir2::ast::{FileSyntax, ItemSyntax, StmtForm};
use hostir_grammar::hir2::parse;
use std::time::Instant;

/// One of everything, small enough to be cut at every byte.
const SAMPLE: &str = "\u{feff}hir 2 // version
style 2026-04
sizes m=64, k=0x10
streams 3
names d, main
mesh d = 0..4
mesh e = [[0, 1],
  [2, 3]]

// a kernel
kernel axpy(X: bf16.l[b.1 ex n, `rS2{3}`], i0) -> (Z: f32[r.x:4, n] order(1, 0) logical(n) split `ca_pos( 1 )` @all):
  Z = X * f32(0.5) + -1e3

ring(A: f32[x:4, m, k], A) -> (C: f32[4, m]) on d: // head
  G: f32[4, m, k] = alloc(keep, size=m * 4)

  G[rank] = Set(A[own])
  // above
  for s in G.0, 1..4 step 2 on streams:
    at, B = f(wrap(rank - s, 4), `T3`)
    if [Manual] s > 0 && !(at == 3): wait h // behind
    elif s: wait h
    else: h = { send(G[:, at], to=(rank + 1) % 4); recv(V, from=d.x) }
    stream (s % 2):
      share {
        h3 = send(B, to=1) // one
        // end
      }
    C[at][0] = Set.Permute(G[at, 1])
  FOR i from 0 to 4:
    T3_g_float[iS0{i0}] = Set( T1 )
  for i in range(1, 4): x += 1 ** 2
  stream main = current
  define:
    i = { 1, 2 }.x[0x1f]
  `Wait Communication 1`
  alias B -> A
";

/// Parses, and checks that every place can be sliced and every number is one of a node.
fn check(text: &str) {
    let parsed = parse(text);
    for error in &parsed.errors {
        let spans = std::iter::once(error.span).chain(error.others.iter().map(|other| other.span));
        for span in spans {
            assert!(text.get(span.as_usize_range()).is_some(), "{error:?} in {text:?}");
        }
        assert!(error.message.starts_with(|c: char| !c.is_uppercase()), "{error:?}");
        assert!(!error.message.contains('\n') && !error.message.ends_with('.'), "{error:?}");
        assert!(!error.notes.is_empty() || error.code == "H0023", "{error:?}");
        assert!(error.notes.iter().all(|note| !note.contains('\n')), "{error:?}");
    }
    assert!(parsed.errors.is_sorted_by_key(|error| error.span), "{text:?}");
    check_spans(&parsed.file, text);
    check_comments(&parsed.file, text);
    // What reads a tree visits all of it.
    crate::hir2_tree::render(&parsed.file, text);
    let has_error = parsed.file.stmts.iter().any(|stmt| stmt.form == StmtForm::Error);
    assert!(!has_error || !parsed.errors.is_empty(), "an error without a message in {text:?}");
}

fn check_spans(file: &FileSyntax, text: &str) {
    for stmt in &file.stmts {
        assert!(text.get(stmt.span.as_usize_range()).is_some(), "{stmt:?} in {text:?}");
    }
    for (expr, span) in &file.exprs {
        assert!(text.get(span.as_usize_range()).is_some(), "{expr:?} {span:?} in {text:?}");
    }
    for block in &file.blocks {
        assert!(text.get(block.span.as_usize_range()).is_some(), "{block:?} in {text:?}");
    }
    for item in &file.items {
        let span = match item {
            ItemSyntax::Import(import) => import.span,
            ItemSyntax::Mesh(mesh) => mesh.span,
            ItemSyntax::Kernel(program) | ItemSyntax::Program(program) => program.span.join(program.header),
        };
        assert!(text.get(span.as_usize_range()).is_some(), "{item:?} in {text:?}");
    }
}

fn check_comments(file: &FileSyntax, text: &str) {
    let mut last = 0;
    for comment in &file.comments {
        let found = text.get(comment.span.as_usize_range()).expect("the place of a comment");
        assert!(found.is_empty() || found.starts_with("//"), "{comment:?} in {text:?}");
        assert!(comment.span.start >= last, "{comment:?} is out of order in {text:?}");
        last = comment.span.start;
        let is_known = match comment.place {
            CommentPlaceSyntax::Above(stmt) | CommentPlaceSyntax::Trailing(stmt) => stmt.index() < file.stmts.len(),
            CommentPlaceSyntax::StartOf(block) | CommentPlaceSyntax::EndOf(block) => block.index() < file.blocks.len(),
            CommentPlaceSyntax::Container(item) | CommentPlaceSyntax::Header(item) => {
                (item as usize) < file.items.len()
            }
            CommentPlaceSyntax::File | CommentPlaceSyntax::EndOfFile => true,
        };
        assert!(is_known, "{comment:?} in {text:?}");
    }
}

#[test]
fn every_prefix() {
    for end in (0..=SAMPLE.len()).filter(|end| SAMPLE.is_char_boundary(*end)) {
        check(&SAMPLE[..end]);
        check(&SAMPLE[end..]);
        check(&format!("hir 2\nf() -> ():\n  {}", &SAMPLE[end..]));
    }
}

#[test]
fn random_mutations() {
    let mut random = Random(crate::effort::seed(0x9e37_79b9_7f4a_7c15));
    let pool = b"(){}[],;:=.-+*/%<>&|!~^@#`'\" \n\n\t_Ai0F\\\0\xc3\xa4\xff";
    for _ in 0..crate::effort::cases("HIR_MUTATIONS", 6_000, 1_000_000) {
        let mut bytes = SAMPLE.as_bytes().to_vec();
        for _ in 0..=random.below(6) {
            let (at, other) = (random.below(bytes.len()), random.below(bytes.len()));
            match random.below(4) {
                0 => bytes[at] = pool[random.below(pool.len())],
                1 => bytes.insert(at, pool[random.below(pool.len())]),
                2 => drop(bytes.drain(at.min(other)..at.max(other).min(at.min(other) + 40))),
                _ => bytes.swap(at, other),
            }
        }
        check(&String::from_utf8_lossy(&bytes));
    }
}

#[test]
fn random_lines() {
    let lines: Vec<&str> = SAMPLE.lines().collect();
    let mut random = Random(crate::effort::seed(0x2545_f491_4f6c_dd1d));
    for _ in 0..crate::effort::cases("HIR_MUTATIONS", 3_000, 500_000) {
        let count = 1 + random.below(12);
        let mut text = "hir 2\nf() -> ():\n".to_owned();
        for _ in 0..count {
            let line = lines[random.below(lines.len())].trim_start();
            let cut = random.below(line.len() + 1);
            let line = if random.below(3) == 0 && line.is_char_boundary(cut) { &line[..cut] } else { line };
            text += &" ".repeat(2 * random.below(5));
            text += line;
            text.push('\n');
        }
        check(&text);
    }
}

/// Texts that repeat a part very often are read in linear time, without a stack that grows with them.
#[test]
fn repetitions() {
    let start = "hir 2\nf() -> ():\n  ";
    for part in [
        "(",
        "[",
        "{",
        ")",
        "x = (",
        "- ",
        "not ",
        "!",
        "a.",
        "a[",
        "f(",
        "a + ",
        "a ** ",
        "a, ",
        "{ a(",
        "if a: ",
        "if a:\n",
        "for i in ",
        "stream (",
        "x = f(a=1,\n",
        "x = {\n",
        "elif a: b()\n  ",
        "if a: b()\n  else if a: b()\n  ",
        "else:\n",
        "b.1 * n, ",
        "G: f32[b.1 * n] = alloc\n  ",
        "/* ",
        "/* */",
        "\"",
        "`",
        "?",
        "# a\n",
        "\t\n",
        "\n\ty",
        "//\n",
        "  //\n  x = 1\n",
        "x = 1; ",
        "h = { send(A, to=1), ",
        "T3_g_float[",
        "@ ",
        "}\n  ",
        "if a {\n  ",
        "0:",
        "wait ",
        "f(\n",
        ":",
        "->",
        "..",
    ] {
        let text = format!("{start}{}", part.repeat(200_000 / part.len()));
        let begin = Instant::now();
        check(&text);
        check(&format!("hir 2\n{}", part.repeat(100_000 / part.len())));
        assert!(begin.elapsed().as_secs() < 60, "{part:?} took {:?}", begin.elapsed());
    }
}

#[test]
fn nested_blocks() {
    for (header, end) in [("if a:", ""), ("for i in 4:", ""), ("if a:", "else:"), ("stream 1:", "")] {
        for depth in [100, 199, 1_000] {
            let mut text = "hir 2\nf() -> ():\n".to_owned();
            for level in 1..=depth {
                text += &format!("{}{header}\n", " ".repeat(level));
            }
            text += &format!("{}wait h\n{}{end}\n", " ".repeat(depth + 1), " ".repeat(depth));
            let codes: Vec<&str> = parse(&text).errors.iter().map(|error| error.code).collect();
            assert_eq!(codes.first().copied(), (depth > 200).then_some("H0016"), "{header} {depth}: {codes:?}");
            check(&text);
        }
    }
}

/// Depth has the limits of the printed form, so that what is read in one can be written in the other.
#[test]
fn nested_expressions() {
    let errors = |expr: String| parse(&format!("hir 2\nf() -> ():\n  x = {expr}\n  y = 1\n")).errors;
    for (least, most, make) in [
        (480, 481, (|n| format!("a{}", " + a".repeat(n))) as fn(usize) -> String),
        (480, 481, |n| format!("{}a{}", "(".repeat(n), ")".repeat(n))),
        (480, 481, |n| format!("{}a", "!".repeat(n))),
        (240, 241, |n| format!("{}a{}", "f(".repeat(n), ")".repeat(n))),
        (240, 241, |n| format!("a{}", "[0]".repeat(n))),
        (240, 241, |n| format!("a{}", ".x".repeat(n))),
    ] {
        assert!(errors(make(least)).is_empty(), "{} of {}", least, make(2));
        let found: Vec<&str> = errors(make(most.max(501))).iter().map(|error| error.code).collect();
        assert_eq!(found, ["H0016"], "{}", make(2));
    }
}

#[test]
fn many_errors_end_the_reading() {
    let text = format!("hir 2\nf() -> ():\n{}", "  x = )\n".repeat(20_000));
    let errors = parse(&text).errors;
    assert_eq!(errors.len(), hostir_grammar::MAX_ERRORS + 1);
    assert_eq!(errors.last().map(|error| error.code), Some("H0023"));
    let text = format!("hir 2\nf() -> ():\n{}", "  x = 99999999999999999999\n".repeat(20_000));
    assert_eq!(parse(&text).errors.len(), hostir_grammar::MAX_ERRORS + 1);
    check(&text);
}
