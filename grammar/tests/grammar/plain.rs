//! The parser of plain statements makes the tree of the grammar: over the corpus, and over texts with mistakes.

use crate::random::Random;
use hostir_grammar::{ParseOutput, parse, parse_by_grammar};
use std::path::{Path, PathBuf};

/// Statements of all forms that the parser of plain statements knows, and of some that it leaves to the grammar.
const FORMS: &str = "%HostIrContainer { (T0_g_float[iS0{i0}, ideviceIdx.x1{i2}] (DeviceMesh{0 1}), i5) -> (T0_g_float[iS0{i0}, ideviceIdx.x1{i2}] (DeviceMesh{0 1})) :
  GetCurrentStream into Stream 0
  Stream 0x1f = GetCurrentStream()
  FOR StreamIdx in iStreamIdx6{i0}:
    SetCurrentStream to Stream ( StreamIdx % numberOfStreams )
    Synchronize Stream 0;
  FOR i7 in iS2{8} from 1 to ( i0 - 1 ) step 2:
    T1_g_float[iS3{( ceilDiv(i2, 3) )}] = HirAliasSelect( T0, axis = iS0{i0}, index = -( i7 + 2 * i0 ) )
  FOR i8 from 0 to 4:
    IF Manual ( ( i8 == rank ) && !( i8 > -1 ) ):
      EndCoalescing 9 {name=h}
    ELSE:
      Wait Communication 9
  T2 = ALLOCATE(buffer=T2, mem_type=global, size=( ( i0 * i2 ) ), zero_init=false, resets_to_zero=True).alias=T1
  Communication 1001 (type=Allgather, team=(0 1 2), input=T1, output=T2, backend=NCCL)
  Communication 1002 (type=Broadcast, root=0, team=(0), input=T1, output=T2) {name=x}
  Wait Communication 1001 (element=i8)
  ShareMemHandles(P2PCommunication 37 (type=recv, buffer=T3, peer=rank, team=(0 1 ...)), 
  T3, T4 = op(T1(Avg), float(0)(Sum))
  T5 = reduction( T1, op = add, initial value = float(0), allreduce: false )
  T6 = slice( T0, { {0, i2, 1} {1, i3, 1} } )
  T7 = full({} double(1.5), dtype=float, {i0, 2,})
  i84 = (getMetaData(T0)).logical_size[0] % 8;
  d9 = (double)(i4) + std::complex<float>((1, 2.5)) * 1e5 - 0x1f;
  T8 = LaunchKernel(Group ID: 1, message=\"rows\", T1 T1)
  Deallocate { T1 }
  StartCoalescing
} // %HostIrContainer
";

fn folder_of_tests() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// The printed programs of this repository.
fn printed_files(folder: &Path, found: &mut Vec<String>) {
    let entries = std::fs::read_dir(folder).expect("the folder can be read");
    let mut entries: Vec<PathBuf> = entries.map(|entry| entry.expect("an entry can be read").path()).collect();
    entries.sort();
    for path in entries {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if path.is_dir() && !name.starts_with('.') && name != "target" {
            printed_files(&path, found);
        } else if path.extension().is_some_and(|ext| ext == "hir" || ext == "txt")
            && let Ok(text) = std::fs::read_to_string(&path)
            && text.contains("%HostIrContainer")
            && text.len() < 1 << 18
        {
            found.push(text);
        }
    }
}

/// All that a parse gives; symbols are shown by their texts, since the two parsers may intern in another order.
fn shown(output: &ParseOutput) -> String {
    let ParseOutput { ast, errors } = output;
    let parts = (&ast.exprs, &ast.tensors, &ast.domains, &ast.args, &ast.stmts, &ast.blocks);
    let text = format!("{parts:?} {:?} {:?} {:?} {errors:?}", ast.containers, ast.comments, ast.version_attrs);
    let mut shown = String::new();
    let mut rest = text.as_str();
    while let Some((before, after)) = rest.split_once("Symbol(") {
        let (number, after) = after.split_once(')').expect("the number of a symbol ends");
        let symbol = hostir_grammar::ast::Symbol(number.parse().expect("a symbol is a number"));
        shown += before;
        shown += &format!("{:?}", ast.symbol_text(symbol));
        rest = after;
    }
    shown + rest
}

fn assert_same(text: &str) {
    let (plain, tables) = (parse(text), parse_by_grammar(text));
    assert!(shown(&plain) == shown(&tables), "the parsers disagree about this text:\n{text}");
}

#[test]
fn all_forms_give_the_tree_of_the_grammar() {
    assert_same(FORMS);
    assert!(parse(FORMS).errors.is_empty(), "{:?}", parse(FORMS).errors);
}

#[test]
fn the_corpus_gives_the_tree_of_the_grammar() {
    let mut texts = Vec::new();
    for folder in ["test", "docs/examples"] {
        printed_files(&folder_of_tests().join(folder), &mut texts);
    }
    assert!(texts.len() > 100, "{} programs were found", texts.len());
    texts.iter().for_each(|text| assert_same(text));
}

#[test]
fn mistakes_give_the_tree_and_the_errors_of_the_grammar() {
    let parts = [
        "(",
        ")",
        "{",
        "}",
        "[",
        "]",
        ",",
        ";",
        ":",
        "=",
        "-",
        "!",
        " + ",
        "*",
        "in",
        " to ",
        "from ",
        "step",
        "0",
        " 7 ",
        "99999999999",
        "T1",
        "T3_g_float[iS0{i0}]",
        "iS0{i0}",
        "Stream ",
        "FOR ",
        "IF ",
        "name",
        " x y ",
        "true",
        ".alias=",
        ".field",
        "...",
        "0.5",
        "float(0)",
        "(double)",
        "\"text\"",
        "\n",
        "\n  ",
        "Communication 3",
        "{name=h}",
        "->",
    ];
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    for _ in 0..1500 {
        let mut text = FORMS.to_owned();
        for _ in 0..1 + random.below(3) {
            let at = random.below(text.len());
            let end = (at + random.below(6)).min(text.len());
            let part = parts[random.below(parts.len())];
            text.replace_range(at..end, if random.below(4) == 0 { "" } else { part });
        }
        assert_same(&text);
    }
}
