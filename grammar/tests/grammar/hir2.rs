//! Texts in `hir 2`: all forms of items, types, expressions and statements, and the owners of comments.

use crate::hir2_tree::{body, expr, tree};
use hostir_grammar::hir2::{is_hir2, parse};

#[test]
fn first_lines() {
    for text in ["hir 2", "hir 2\n", "\u{feff}hir 2\n", "// a\n\nhir 2 // b\n", "  hir   2\n", "hir 2\r\n"] {
        assert!(is_hir2(text), "{text:?}");
    }
    // Misspelt, which is an error of its own.
    assert!(is_hir2("hir2\n"));
    for text in ["", "hir 1\n", "hir 20\n", "%HostIrContainer { () -> () :\nhir 2\n"] {
        assert!(!is_hir2(text), "{text:?}");
    }
}

#[test]
fn heads_of_files() {
    let text = "hir 2\nstyle 2026-04\nsizes m=64, k=128\nstreams 3\nmesh d = 0..4\nmesh e = [[0, 1], [2, 3]]\nmesh g = [4, 2]\n\
                \nf() -> ():\n";
    let expected = "style 2026-04\nsize m 64\nsize k 128\nstreams 3\nmesh d [4] [0, 1, 2, 3]\n\
                    mesh e [2, 2] [0, 1, 2, 3]\nmesh g [2] [4, 2]\nprogram f () -> ()\n";
    assert_eq!(tree(text), expected);
    let cube = "hir 2\nmesh d = [\n  [[0, 1], [2, 3]], // front\n  [[4, 5], [6, 7]],\n]\nf() -> ():\n";
    assert!(tree(cube).starts_with("mesh d [2, 2, 2] [0, 1, 2, 3, 4, 5, 6, 7]\n"), "{}", tree(cube));
}

#[test]
fn programs_and_kernels() {
    let text = "hir 2\nmesh d = 0..2\n\nkernel axpy(X: f32[n], i0) -> (Z: f32[n]) on d:\n  Z = X * i0\n\n\
                main(A: f32[n], A) -> (C: f32[n], A):\n  C = axpy(A, 2)\n\nsecond() -> ():\n";
    let expected = "mesh d [2] [0, 1]\n\
                    kernel axpy (X: f32[n], i0) -> (Z: f32[n]) on d\n  Z = (X * i0)\n\
                    program main (A: f32[n], A) -> (C: f32[n], A)\n  C = axpy(A, 2)\n\
                    program second () -> ()\n";
    assert_eq!(tree(text), expected);
    let long = "hir 2\nf(\n  A: f32[m],\n  B: f32[m],\n) -> (\n  C: f32[m],\n) on d:\n  C = A + B\n";
    assert_eq!(tree(long), "program f (A: f32[m], B: f32[m]) -> (C: f32[m]) on d\n  C = (A + B)\n");
    // Words of the head may name programs.
    assert_eq!(tree("hir 2\nmesh() -> ():\nkernel() -> ():\n"), "program mesh () -> ()\nprogram kernel () -> ()\n");
}

#[test]
fn types() {
    let ty = |text: &str| body(&format!("  G: {text}\n")).replace("declare G: ", "");
    for text in [
        "f32[]",
        "bf16.l[x:4, m, k]",
        "i64.sym[r.k, r.x:4]",
        "f32[b.1, b.1 ex n]",
        "f32[m] order(1, 0) logical(a, b) split `ca_pos( 3 )` @d2",
        "f32[4] @all",
        "f32[st:4, `rblockIdx.x{4}rf`]",
    ] {
        assert_eq!(ty(text), text);
    }
    assert_eq!(ty("f32[x:2 * m, ceilDiv(m, 3), b.4 * n, r.4]"), "f32[x:(2 * m), ceilDiv(m, 3), b.(4 * n), r.4]");
    assert_eq!(ty("f32[b.1 ex n + 1, r.k - 1, m,]"), "f32[b.1 ex (n + 1), r.(k - 1), m]");
    assert_eq!(ty("f32[\n      m,\n      n]"), "f32[m, n]");
    assert_eq!(ty("`Array<float, 4, 1>`[m]"), "Array<float, 4, 1>[m]");
    assert_eq!(ty("f32[b.1[0] + n, b.a[0]]"), "f32[b.(1[0] + n), b.a[0]]");
}

#[test]
fn operands() {
    for (text, expected) in [
        ("7", "7"),
        ("-7", "-7"),
        ("-9223372036854775808", "-9223372036854775808"),
        ("- -7", "(--7)"),
        ("-(7)", "(-paren7)"),
        ("-7[0]", "(-7[0])"),
        ("0x1f", "0x1f"),
        ("0.5", "float 0.5"),
        ("1e-3", "float 1e-3"),
        ("true", "bool true"),
        ("false", "bool false"),
        ("f32(-inf)", "f32((-inf))"),
        ("rank", "rank"),
        ("G.1", "G.1"),
        ("d.x", "d field x"),
        ("getMetaData(T0).logical_size[0]", "getMetaData(T0) field logical_size[0]"),
        ("Set.Permute(X)", "Set.Permute(X)"),
        ("[1, [2, 3], x]", "list[1, list[2, 3], x]"),
        ("{ 1, a }", "braces{1, a}"),
        ("`a::b`", "`a::b`"),
        ("X[:, i][own]", "X[:, i][own]"),
        ("f(a, key=[1], b -> c,)", "f(a, key=list[1], b -> c)"),
        ("f()", "f()"),
        ("alloc", "alloc"),
    ] {
        assert_eq!(expr(text), expected, "{text}");
    }
}

#[test]
fn operators() {
    for (text, expected) in [
        ("a + b * c - d", "((a + (b * c)) - d)"),
        ("a - b - c", "((a - b) - c)"),
        (
            "a || b && c | d ^ e & f == g < h << i + j * k",
            "(a || (b && (c | (d ^ (e & (f == (g < (h << (i + (j * k))))))))))",
        ),
        ("a -1", "(a - 1)"),
        ("a - -1", "(a - -1)"),
        ("~a % b", "((~a) % b)"),
        ("(a + b) * c", "(paren(a + b) * c)"),
        ("a >= b != c <= d", "((a >= b) != (c <= d))"),
        ("a != 0 == b", "((a != 0) == b)"),
        ("a < b > c", "((a < b) > c)"),
        ("(a\n  + b)", "paren(a + b)"),
    ] {
        assert_eq!(expr(text), expected, "{text}");
    }
}

#[test]
fn assignments() {
    for (text, expected) in [
        ("A, B = f(X)", "A, B = f(X)"),
        ("A: f32[m], B = f(X)", "A: f32[m], B = f(X)"),
        ("G: f32[4] @d = alloc(keep, size=4)", "G: f32[4] @d = alloc(keep, size=4)"),
        ("C[at] = matmul(G[at], B)", "C[at] = matmul(G[at], B)"),
        ("wait = 3", "wait = 3"),
        ("stream = 3", "stream = 3"),
        ("free: f32[m]", "declare free: f32[m]"),
        ("step = current", "step = current"),
    ] {
        assert_eq!(body(&format!("  {text}\n")), expected, "{text}");
    }
}

#[test]
fn simple_statements() {
    for (text, expected) in [
        ("allgather(A -> B, team=[0, 1])", "allgather(A -> B, team=list[0, 1])"),
        ("wait h", "wait h"),
        ("wait send(A, to=1)", "wait send(A, to=1)"),
        ("wait { send(A, to=1); recv(B, from=1) }", "wait group{send(A, to=1); recv(B, from=1)}"),
        ("h = { send(A, to=1) }", "h = group{send(A, to=1)}"),
        ("{ send(A, to=1); V = A[1] }", "group{send(A, to=1); V = A[1]}"),
        ("h = {}", "h = group{}"),
        ("free A, B", "free A, B"),
        ("stream 0 = current", "bind stream 0"),
        ("stream main = current", "bind stream main"),
        ("stream (s + 1) % 2", "stream (paren(s + 1) % 2)"),
        ("sync main", "sync main"),
        ("alias B -> A", "alias B -> A"),
        ("`LaunchKernel(T0)`", "`LaunchKernel(T0)`"),
    ] {
        assert_eq!(body(&format!("  {text}\n")), expected, "{text}");
    }
}

#[test]
fn groups_on_several_lines() {
    let text = "  h = {\n    send(A, to=1)\n    recv(\n      B, from=1)\n  }\n  wait h\n";
    assert_eq!(body(text), "h = group{send(A, to=1); recv(B, from=1)}\nwait h");
    let text = "  share { h3 = send(A, to=1)\n    recv(B, from=1); }\n  wait h3\n";
    assert_eq!(body(text), "share:\n  h3 = send(A, to=1)\n  recv(B, from=1)\nwait h3");
    assert_eq!(body("  h = {\n  send(A, to=1)\n  }\n"), "h = group{send(A, to=1)}");
}

#[test]
fn loops() {
    for (text, expected) in [
        ("for i in 4:", "for i in to 4:"),
        ("for i in 1..n + 1:", "for i in from 1 to (n + 1):"),
        ("for i in 0..8 step 2:", "for i in from 0 to 8 step 2:"),
        ("for i in G.0:", "for i in axis 0 of G:"),
        ("for i in G.1.0, 1..7 step 2:", "for i in axis 0 of G.1 from 1 to 7 step 2:"),
        ("for i in [st:4]:", "for i in [st:4]:"),
        ("for i in [st:4], 2:", "for i in [st:4] to 2:"),
        ("for s in 4 on streams:", "for s in to 4 on streams:"),
        ("for s in [st:n], 1..n on streams:", "for s in [st:n] from 1 to n on streams:"),
    ] {
        assert_eq!(body(&format!("  {text}\n    wait h\n")), format!("{expected}\n  wait h"), "{text}");
    }
    assert_eq!(body("  for i in 4: wait h\n"), "for i in to 4:\n  wait h");
}

#[test]
fn branches() {
    assert_eq!(body("  if a: wait h\n  else: wait g\n  wait k\n"), "if a:\n  wait h\nelse:\n  wait g\nwait k");
    let nested = "  if a:\n    if b: wait h\n  else:\n    wait g\n";
    assert_eq!(body(nested), "if a:\n  if b:\n    wait h\nelse:\n  wait g");
    assert_eq!(body("  if [ReductionWrite] a:\n    wait h\n"), "if [ReductionWrite] a:\n  wait h");
    assert_eq!(body("  if [Inline]:\n    wait h\n"), "if [Inline]:\n  wait h");
    assert_eq!(body("  if Manual(a): wait h\n"), "if Manual(a):\n  wait h");
    // Blocks without statements.
    assert_eq!(body("  if a:\n  else:\n    wait h\n"), "if a:\nelse:\n  wait h");
    assert_eq!(body("  for i in 4:\n  wait h\n"), "for i in to 4:\nwait h");
}

#[test]
fn other_blocks() {
    assert_eq!(body("  stream 1:\n    wait h\n  sync 1\n"), "stream 1:\n  wait h\nsync 1");
    assert_eq!(body("  define:\n    at = i % 8\n"), "define:\n  at = (i % 8)");
    // Any indentation will do.
    let text = "     if a:\n      if b:\n               wait h\n      wait g\n     wait k\n";
    assert_eq!(body(text), "if a:\n  if b:\n    wait h\n  wait g\nwait k");
    assert_eq!(body("  wait h\r\n  wait g\r\n"), "wait h\nwait g");
}

/// The comments of a text, each with its place.
fn comments(text: &str) -> Vec<String> {
    tree(text).lines().filter(|line| line.starts_with('"')).map(str::to_owned).collect()
}

#[test]
fn comments_of_files() {
    let text = "hir 2 // version\n// of the file\n\n// of the mesh\nmesh d = 0..4 // four\n\n// detached\n\n// of f\nf() -> (): // head\n  \
                wait h\n\n// the end\n";
    let expected = [
        "\"// version\" File",
        "\"// of the file\" File",
        "\"// of the mesh\" Container(0)",
        "\"// four\" Header(0)",
        "\"// detached\" File",
        "\"// of f\" Container(1)",
        "\"// head\" Header(1)",
        "\"// the end\" EndOfFile",
    ];
    assert_eq!(comments(text), expected);
}

#[test]
fn comments_of_statements() {
    let text = "hir 2\nf() -> ():\n  // above\n  wait h // behind\n\n  // above if\n  if a: // behind if\n    wait g\n    // end\n  \
                // before else\n  else: // start\n    wait k\n  // last\n";
    let expected = [
        "\"// above\" above `wait h`",
        "\"// behind\" behind `wait h`",
        "\"\" above `if a`",
        "\"// above if\" above `if a`",
        "\"// behind if\" behind `if a`",
        "\"// end\" end of `wait g`",
        "\"// before else\" end of `wait g`",
        "\"// start\" start of `wait k`",
        "\"// last\" end of `wait h // behind`",
    ];
    assert_eq!(comments(text), expected);
}

#[test]
fn comments_before_else_end_the_branch() {
    // The last block that was read is that of the inner branch.
    let text = "hir 2\nf() -> ():\n  if a:\n    wait h\n    if b: wait g\n  // end of a\n  else: wait k\n";
    assert_eq!(comments(text), ["\"// end of a\" end of `wait h`"]);
}

#[test]
fn comments_that_are_indented_less() {
    let text = "hir 2\nf() -> ():\n  if a:\n    wait h\n // inside\n    wait g\n   // last\n  wait k\n";
    assert_eq!(comments(text), ["\"// inside\" above `wait g`", "\"// last\" above `wait k`"]);
}

#[test]
fn comments_of_groups() {
    let text = "hir 2\nf() -> ():\n  h = { // start\n    // above\n    send(A, to=1) // behind\n    // end\n  } // last\n  \
                wait f(A, // inside\n    // also\n    B) // behind\n";
    let expected = [
        "\"// start\" start of `{ // start`",
        "\"// above\" above `send(A, to=1)`",
        "\"// behind\" behind `send(A, to=1)`",
        "\"// end\" end of `{ // start`",
        "\"// last\" behind `h = { // start\n    // above\n    send(A, to=1) // behind\n    // end\n  }`",
        "\"// inside\" behind `wait f(A, // inside\n    // also\n    B)`",
        "\"// also\" behind `wait f(A, // inside\n    // also\n    B)`",
        "\"// behind\" behind `wait f(A, // inside\n    // also\n    B)`",
    ];
    let found: Vec<String> = expected.iter().map(|line| format!("{line}\n")).collect();
    let tree = tree(text);
    assert!(tree.ends_with(&found.concat()), "{tree}");
}

#[test]
fn blank_lines_are_comments() {
    let text = "hir 2\nf() -> ():\n\n  wait h\n\n\n  wait g\n  if a:\n\n    wait k\n\n  wait l\n\n";
    assert_eq!(comments(text), ["\"\" above `wait g`", "\"\" above `wait l`"]);
}

#[test]
fn programs_of_the_draft() {
    for (name, text) in [
        ("ring", include_str!("hir2/ring.hir")),
        ("mmrs", include_str!("hir2/mmrs.hir")),
        ("pipe", include_str!("hir2/pipe.hir")),
        ("mlp", include_str!("hir2/mlp.hir")),
        ("a2a", include_str!("hir2/a2a.hir")),
        ("kern", include_str!("hir2/kern.hir")),
    ] {
        let parsed = parse(text);
        assert!(parsed.errors.is_empty(), "{name}: {:#?}", parsed.errors);
        assert!(text.lines().count() <= 13 && text.len() <= 450, "{name}: {} characters", text.len());
    }
    let ring = "program ring (A: f32[x:4, m, k], B: f32[k, n]) -> (C: f32[4, m, n, r.k]) on d\n  G: f32[4, m, k] = alloc\n  \
                C = alloc\n  G[rank] = Set(A[own])\n  for s in to 4 on streams:\n    at = wrap((rank - s), 4)\n    if (s > 0):\n      \
                wait h\n    if (s < 3):\n      h = group{send(G[at], to=(paren(rank + 1) % 4)); \
                recv(G[wrap((at - 1), 4)], from=(paren(rank + 3) % 4))}\n    C[at] = matmul(G[at], B)\n";
    assert!(tree(include_str!("hir2/ring.hir")).contains(ring), "{}", tree(include_str!("hir2/ring.hir")));
}
