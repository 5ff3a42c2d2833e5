//! After any edit, the tree that is made of the one before is that of the whole text.

use crate::random::Random;
use hostir_grammar::ast::Symbol;
use hostir_grammar::hir2::ast::FileSyntax;
use hostir_grammar::hir2::{parse, reparse};
use std::path::Path;

/// Statements of all sorts; a program repeats them.
const STATEMENTS: &str = "  G = alloc(keep, size=m * 4)
  G[rank] = Set(A[own])
  // above
  h = allgather(A -> G) // after

  wait h
  for s in G.0, 1..4 step 2 on streams:
    at, B = f(wrap(rank - s, 4), `T3`)
    if [Manual] s > 0 && !(at == 3): wait h
    else: h = { send(G[:, at], to=(rank + 1) % 4); recv(V, from=d.x) }
    // the end of the loop
  stream (s % 2):
    share {
      h3 = send(B, to=1) // one
      // end
    }
  C[at][0] = Set.Permute(G[at, 1])
  V: bf16.l[x:4, r.b.1 ex n] order(1, 0) logical(n) split `ca_pos( 1 )` @d = relu(-1e3 * A)
  launch \"axpy.cu\"::axpy[4, (128, 2)](A, n, C) reads(A) writes(C)
  assert m % 4 == 0, \"rows divide\"
  print A, m
  free B, C
  alias B -> A
";

/// Programs to begin with: of all sorts of statements, and those of the examples.
fn sources() -> Vec<String> {
    let head =
        "hir 2.1\nsizes m=64\nmesh d = 0..4\n\n// of the program\nf(A: f32[m]) -> (B: f32[m]) on d: // its header\n";
    let kernel = format!("kernel g(A: f32[m]) -> (B: f32[m]):\n{}\n", "  B = exp(A)\n".repeat(20));
    let mut texts = vec![
        format!("{head}{}", STATEMENTS.repeat(3)),
        format!(
            "{head}{0}\n// of another\nmesh e = 0..p\n{kernel}\nother(A: f32[n]) -> (B: f32[n]):\n{0}  // the last line\n// after it\n",
            STATEMENTS.repeat(2)
        ),
    ];
    for folder in ["docs/examples", "docs/tutorial"] {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(folder);
        let entries = std::fs::read_dir(path).expect("a folder of programs").flatten();
        let mut files: Vec<_> = entries.map(|entry| entry.path()).collect();
        files.sort();
        let files = files.into_iter().filter(|path| path.extension().is_some_and(|end| end == "hir"));
        let read = files.map(|path| std::fs::read_to_string(path).expect("a program"));
        texts.extend(read.filter(|text| text.len() < 20_000));
    }
    texts
}

const INSERTED: &[&str] = &[
    "A",
    "W12",
    "_",
    "7",
    "\n",
    "\n\n",
    " ",
    "  ",
    "    ",
    "(",
    ")",
    "[",
    "]",
    "{",
    "}",
    ":",
    ",",
    "=",
    "->",
    ".",
    "`",
    "\"",
    "\t",
    "é",
    "// a comment",
    "\n  // a comment\n",
    "\nfile \"a.hir\"\n",
    "wait h\n  ",
    "\n  B2 = exp(A)\n",
    "\nelse: wait h\n",
    "if rank == 0:\n    ",
    "import a from \"b.hir\"\n",
    "mesh q = 0..2\n",
    "f(A: f32[m]) -> (B: f32[m]):\n",
    "x.y",
    "relu(A)",
    "0.5",
    "`T3`",
    "T7",
    "h9",
    "/*",
    "G.0",
];

/// A replacement of a few bytes, by a few others or by a line of the text.
fn random_edit(text: &str, random: &mut Random) -> String {
    let mut start = random.below(text.len() + 1);
    while !text.is_char_boundary(start) {
        start -= 1;
    }
    let mut end = match random.below(4) {
        0 | 1 => start,
        2 => start + random.below(5),
        _ => start + random.below(80),
    };
    end = end.min(text.len());
    while !text.is_char_boundary(end) {
        end += 1;
    }
    let lines: Vec<&str> = text.split_inclusive('\n').collect();
    let inserted = match random.below(5) {
        0 => "",
        1 if !lines.is_empty() => lines[random.below(lines.len())],
        _ => INSERTED[random.below(INSERTED.len())],
    };
    format!("{}{inserted}{}", &text[..start], &text[end..])
}

/// A tree with strings in the place of their numbers. Empty lists are equal wherever they are.
fn spelled_tree(file: &FileSyntax) -> String {
    let tree = format!(
        "{:?}\n{:?}\n{:?}\n{:?}\n{:?}\n{:?}\n{:?}\n{:?}\n{:?}\n{:?}\n{:?}\n{:?}\n{:?}",
        file.head,
        file.items,
        file.types,
        file.axes,
        file.exprs,
        file.expr_lists,
        file.args,
        file.index_items,
        file.targets,
        file.launches,
        file.stmts,
        file.blocks,
        file.comments,
    );
    let mut spelled = String::with_capacity(tree.len());
    for (at, part) in tree.split("Symbol(").enumerate() {
        match part.split_once(')').filter(|_| at > 0) {
            Some((number, rest)) => {
                spelled.push_str(&format!("{:?}{rest}", file.symbol_text(Symbol(number.parse().expect("a number")))));
            }
            None => spelled.push_str(part),
        }
    }
    let mut found = String::with_capacity(spelled.len());
    for (at, part) in spelled.split("NodeRange { start: ").enumerate() {
        let range = part.split_once(" }").and_then(|(range, rest)| Some((range.split_once(", end: ")?, rest)));
        match range.filter(|_| at > 0) {
            Some(((start, end), rest)) if start == end => found.push_str(&format!("empty{rest}")),
            _ => found.push_str(part),
        }
    }
    found
}

fn strings_of(file: &FileSyntax) -> Vec<&str> {
    let mut strings: Vec<&str> = file.strings.symbols().map(|symbol| file.symbol_text(symbol)).collect();
    strings.sort_unstable();
    strings
}

/// The numbers of texts that were read in part, and as a whole.
fn edit_and_compare(count: usize, seed: u64) -> (usize, usize) {
    let mut random = Random(seed);
    let mut sources = sources();
    sources.retain(|text| parse(text).errors.is_empty());
    assert!(sources.len() > 10, "programs to begin with");
    let (mut in_part, mut whole) = (0, 0);
    for _ in 0..count / 30 {
        let mut before = sources[random.below(sources.len())].clone();
        let mut file = parse(&before).file;
        let (mut after, mut right, mut faulty) = (before.clone(), before.clone(), 0);
        for _ in 0..30 {
            if after == before {
                after = random_edit(&after, &mut random);
            }
            let expected = parse(&after);
            match reparse(&mut file, &before, &after) {
                Some(errors) => {
                    assert_eq!(errors, expected.errors, "from\n{before}\nto\n{after}");
                    assert!(spelled_tree(&file) == spelled_tree(&expected.file), "from\n{before}\nto\n{after}");
                    assert_eq!(strings_of(&file), strings_of(&expected.file), "from\n{before}\nto\n{after}");
                    in_part += 1;
                }
                None => {
                    // Nothing is left of the attempt.
                    let old = parse(&before).file;
                    assert!(spelled_tree(&file) == spelled_tree(&old), "of\n{before}\nafter\n{after}");
                    assert_eq!(strings_of(&file), strings_of(&old), "of\n{before}\nafter\n{after}");
                    (file, whole) = (expected.file, whole + 1);
                }
            }
            before = after.clone();
            // After at most three edits with errors the text is the last right one again.
            faulty = if expected.errors.is_empty() { 0 } else { faulty + 1 };
            if faulty == 0 {
                right = after.clone();
            } else if faulty > random.below(3) {
                after = right.clone();
            }
        }
    }
    (in_part, whole)
}

#[test]
fn trees_after_edits_are_those_of_the_whole_text() {
    let (in_part, whole) = edit_and_compare(8000, 0x5eed);
    assert!(in_part > 1000 && whole > 100, "{in_part} read in part, {whole} as a whole");
}

#[test]
#[ignore = "takes minutes: cargo test --release -p hostir-grammar -- --ignored hundred_thousand"]
fn trees_after_a_hundred_thousand_edits_are_those_of_the_whole_text() {
    edit_and_compare(100_000, 0x0dd);
}

/// A new name letter by letter, and back: strings of earlier letters are no reason to read the whole text.
#[test]
fn typing_a_name_reads_a_part() {
    let text = |line: &str| {
        let statements = "  B = exp(A)\n".repeat(40);
        format!("hir 2\nf(A: f32[n]) -> (C: f32[n]):\n{statements}{line}{statements}")
    };
    let mut before = text("");
    let mut file = parse(&before).file;
    for name in ["W", "Wi", "Wid", "Widt", "Width", "Widt", "Wi", "W"] {
        let after = text(&format!("  {name} = exp(B)\n  C = relu({name})\n"));
        assert_eq!(reparse(&mut file, &before, &after), Some(vec![]), "{name}");
        assert_eq!(strings_of(&file), strings_of(&parse(&after).file), "{name}");
        before = after;
    }
}
