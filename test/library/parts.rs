//! A text that is read in parts, by several threads, gives the same program as read by one.

use hostir::diag::Diags;
use hostir_grammar::{ParseOutput, parse, parse_in_parts};
use std::fmt::Write as _;
use std::path::Path;

/// All of a tree's programs, with spans and comments.
fn programs(parsed: &ParseOutput, text: &str) -> String {
    let mut all = String::new();
    for number in 0..parsed.ast.containers.len() {
        let mut diags = Diags::default();
        let program = hostir::resolve::resolve(&parsed.ast, number, text, &mut diags);
        let _ = writeln!(all, "{program:#?} {diags:?}");
        all.push_str(&hostir::print::print_to_string(&program));
    }
    all
}

/// The number of places at which `text` could be cut.
#[allow(clippy::panic, reason = "a test's helper")]
fn same(name: &str, text: &str) -> usize {
    let whole = parse(text);
    let wanted = programs(&whole, text);
    let parts = (2..6).filter_map(|count| Some((count, parse_in_parts(text, count)?)));
    parts
        .map(|(count, parsed)| {
            assert!(whole.errors.is_empty(), "{name}: errors are found by one thread");
            let found = programs(&parsed, text);
            if let Some((one, other)) = wanted.lines().zip(found.lines()).find(|(one, other)| one != other) {
                panic!("{name} in {count} parts differs from {name} in one: {other:?} for {one:?}");
            }
            assert_eq!(found.len(), wanted.len(), "{name} in {count} parts differs from {name} in one");
        })
        .count()
}

fn files(folder: &Path, found: &mut Vec<std::path::PathBuf>) {
    let mut entries: Vec<_> = std::fs::read_dir(folder).into_iter().flatten().flatten().map(|e| e.path()).collect();
    entries.sort();
    for path in entries {
        if path.is_dir() {
            files(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "hir") {
            found.push(path);
        }
    }
}

#[test]
fn every_program_of_the_tree() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut found = Vec::new();
    files(&root.join("test"), &mut found);
    files(&root.join("docs"), &mut found);
    let mut cut = 0;
    for path in found {
        if let Ok(text) = std::fs::read_to_string(&path)
            && !hostir_grammar::hir2::is_hir2(&text)
        {
            cut += same(&path.display().to_string(), &text);
        }
    }
    assert!(cut > 100, "only {cut} texts could be cut");
}

const TENSOR: &str = "(DeviceMesh{0 1})";

/// `count` times a copy, a loop and a comment.
fn statements(first: usize, count: usize) -> String {
    let mut text = String::new();
    for number in (first..first + 3 * count).step_by(3) {
        let (a, b, c) = (number, number + 1, number + 2);
        let _ = writeln!(
            text,
            "  // of T{a}\n  T{a}_l_float[iS{a}{{i0}}] {TENSOR} = Set( T0_g_float[iS0{{i0}}] {TENSOR}, cache_op=Streaming ) // ends\n  \
             FOR StreamIdx in iStreamIdx{b}{{4}}:\n    T{b}_l_float[iS{b}{{( i0 * 2 )}}] {TENSOR}\n       = T0_g_float[iS0{{i0}}]   {TENSOR}\n       + double(1);\n    // at the end\n  \
             T{c}_l_float[iS{c}{{i0}}] {TENSOR} = Set( T0_g_float[ iS0{{i0}} ] {TENSOR}, cache_op=Streaming )"
        );
    }
    text
}

fn container(body: &str) -> String {
    let io = format!("T0_g_float[iS0{{i0}}] {TENSOR}");
    format!("\n%HostIrContainer {{ ({io}) -> ({io}) :\n{body}}} // %HostIrContainer\n")
}

#[test]
fn loops_comments_and_odd_spacing() {
    assert_eq!(same("loops", &container(&statements(1, 40))), 4);
}

#[test]
fn two_containers() {
    let text =
        format!("// a file\n{}\n// two\n{}// end\n", container(&statements(1, 30)), container(&statements(1, 31)));
    assert_eq!(same("two containers", &text), 4);
}

/// Where nothing at the body's column can be cut at, or what stands there is no statement of the
/// body, or anything is wrong, one thread reads the text.
#[test]
fn what_cannot_be_cut() {
    let one_loop = statements(1, 40).replace("\n  ", "\n    ");
    let text = container(&format!("  FOR i1 in iS9{{4}}:\n  {one_loop}"));
    assert_eq!(same("one loop", &text), 0);
    let broken = statements(1, 40).replace("T61_l_float[iS61", "T61_l_flat[iS61");
    assert!(parse_in_parts(&container(&broken), 2).is_none());
    assert_eq!(same("a list", &container(&list(200))), 0);
}

/// A call whose arguments stand at the body's column.
fn list(count: usize) -> String {
    let lines: String = (0..count).map(|_| format!("  T0_g_float[iS0{{i0}}] {TENSOR},\n")).collect();
    format!("  T1_g_float[iS1{{i0}}] {TENSOR} = cat( {lines}  T0_g_float[iS0{{i0}}] {TENSOR}, dim=0 )\n")
}

/// Every eleventh byte in turn is left out or something else.
#[test]
fn damaged_texts() {
    let text = container(&statements(1, 6));
    let mut cut = 0;
    for at in (0..text.len()).step_by(11) {
        for other in ["", "\n", "{", "(", ",", "//"] {
            let damaged = [&text[..at], other, &text[at + 1..]].concat();
            if let Some(parts) = parse_in_parts(&damaged, 3) {
                let whole = parse(&damaged);
                assert!(whole.errors.is_empty(), "{damaged}");
                assert_eq!(programs(&parts, &damaged), programs(&whole, &damaged), "{damaged}");
                cut += 1;
            }
        }
    }
    assert!(cut > 100, "only {cut} texts could be cut");
}

/// A program in `hir 2` with so many copies of some statements, in which `#` stands for their number.
fn repeat_section(section: &str, count: usize) -> String {
    let head = "hir 2\nsizes n=8\nmesh d = 0..4\n\nf(A: f32[x:4, n]) -> (B: f32[4, n]) on d:\n";
    let sections = (0..count).map(|number| section.replace('#', &number.to_string()));
    format!("{head}  B = alloc\n  S = A[own]\n{}  wait allgather(A -> B)\n", sections.collect::<String>())
}

#[test]
fn long_programs_in_hir2_are_written_in_parts() {
    let sections = [
        "  X# = relu(A)\n  at# = rank + #\n",
        // Comments and blank lines at the seam.
        "  // Number #.\n  X#: f32[n] = alloc // a buffer\n\n",
        // Loops and slices that belong to statements, and streams that the first half binds.
        "  G#: f32[4, n] = alloc\n  for s in 4 on streams:\n    wait broadcast(S -> G#[s], root=s)\n  X# = Set(G#)\n",
        "  stream 1:\n    X# = relu(A)\n  Y# = relu(X#)\n",
        // A name that an op of the first half declares, and one that it does not.
        "  X# = relu(A)\n  if rank == #: Z# = relu(X#)\n  else: free X#\n",
    ];
    for section in sections {
        let text = repeat_section(section, 3000);
        let found = hostir::hir2::format_text(&text).unwrap_or_default();
        let first = text.lines().zip(found.lines()).find(|(wanted, found)| wanted != found);
        assert!(found == text, "{section}: {first:?}, {} and {} bytes", text.len(), found.len());
    }
}

#[test]
fn a_group_across_the_middle_is_written_whole() {
    let members: String = (0..9000).map(|number| format!("    at{number} = rank + {number}\n")).collect();
    let text = repeat_section(&format!("  post# = {{\n{members}    send(S, to=1)\n  }}\n  wait post#\n"), 1);
    assert_eq!(hostir::hir2::format_text(&text).unwrap_or_default(), text);
}
