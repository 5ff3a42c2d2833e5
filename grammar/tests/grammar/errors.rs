//! Each error code: where it points and that it stays alone.

use crate::printed_tree::codes;
use hostir_grammar::error::CODES;
use hostir_grammar::{parse, parse_bytes};

/// The only error of a container with these statements: its code and what it points at.
fn only(statements: &str) -> (&'static str, String) {
    let text = format!("%HostIrContainer {{ () -> () :\n{statements}\n}} // %HostIrContainer\n");
    let errors = parse(&text).errors;
    assert_eq!(errors.len(), 1, "{errors:#?}\nin\n{text}");
    assert!(CODES.iter().any(|(code, _)| *code == errors[0].code));
    assert!(!errors[0].notes.is_empty(), "{errors:#?}");
    (errors[0].code, text[errors[0].span.as_usize_range()].to_owned())
}

fn check(statements: &str, code: &str, place: &str) {
    assert_eq!(only(statements), (only(statements).0, place.to_owned()), "{statements}");
    assert_eq!(only(statements).0, code, "{statements}");
}

#[test]
fn unexpected_tokens() {
    check("  T1 = Set( T0, = 3 )", "H0001", "=");
    check("  T1 = Set( T0 T2 )", "H0021", "");
    check("  T1 = Set( T0 cache_op=Streaming )", "H0001", "cache_op");
    check("  Synchronize Stream", "H0001", "");
    check("  5 = T0", "H0001", "5");
    check("  FOR i0 iS0{8}:\n    StartCoalescing", "H0001", "iS0{8}");
}

#[test]
fn messages_are_readable() {
    let text = "%HostIrContainer { () -> () :\n  T1 = Set( T0, = 3 )\n}";
    let error = &parse(text).errors[0];
    assert_eq!(error.message, "expected `)`, `,` or a value, found `=`");
    let text = "%HostIrContainer { () -> () :\n  Synchronize Stream\n}";
    let error = &parse(text).errors[0];
    assert_eq!(error.message, "expected a value at the end of this statement");
}

#[test]
fn brackets() {
    check("  T1 = Set( T0\n  Wait Communication 3\n  StartCoalescing", "H0002", "(");
    check("  T1 = Set( T0\n  FOR i from 0 to 8:\n    StartCoalescing", "H0002", "(");
    check("  T1_g_float[iS0{i0} = Set( T0 )\n  StartCoalescing", "H0002", "[");
    check("  T1 = Set( T0 ))\n  StartCoalescing", "H0003", ")");
    check("  FOR i from 0 to 8: {\n    StartCoalescing", "H0002", "{");
}

#[test]
fn ends() {
    assert_eq!(codes("%HostIrContainer { () -> () :\n  StartCoalescing\n"), ["H0004"]);
    assert_eq!(codes("%HostIrContainer { () -> () :\n%HostIrContainer { () -> () :\n}"), ["H0004"]);
    assert_eq!(codes(""), ["H0008"]);
    assert_eq!(codes("// nothing\n"), ["H0008"]);
    assert_eq!(codes("some text\nmore text\n%HostIrContainer { () -> () :\n}\nand more"), ["H0018", "H0018"]);
    assert_eq!(codes("hir 7\n%HostIrContainer { () -> () :\n}"), ["H0017"]);
}

#[test]
fn blocks() {
    check("  StartCoalescing\n    StartCoalescing", "H0005", "StartCoalescing");
    check("  FOR i from 0 to 8:\n     StartCoalescing\n   StartCoalescing", "H0005", "StartCoalescing");
    check("  ELSE:\n    StartCoalescing", "H0006", "ELSE");
    check("  FOR i from 0 to 8\n    StartCoalescing", "H0007", "");
    let deep: String = (0..300).map(|n| format!("{}FOR i from 0 to 8:\n", " ".repeat(n))).collect();
    assert_eq!(only(&deep).0, "H0016");
    assert_eq!(only(&format!("  x = {}1{}", "(".repeat(600), ")".repeat(600))).0, "H0016");
    assert_eq!(only(&format!("  x = 1{}", " + 1".repeat(600))).0, "H0016");
}

#[test]
fn numbers_and_characters() {
    check("  x = 99999999999999999999", "H0009", "99999999999999999999");
    check("  Wait Communication 4294967296", "H0009", "Communication 4294967296");
    check("  EndCoalescing 4294967296", "H0009", "EndCoalescing");
    check("  Set( T4294967296 )", "H0009", "4294967296");
    check("  Set( T4294967296_g_float[iS0{8}] )", "H0009", "4294967296");
    check("  Set( T1_g_float[iS4294967296{8}] )", "H0009", "4294967296");
    check("  Set( T1_g_float[iS0{8}] (DeviceMesh{2147483648}) )", "H0009", "2147483648");
    let unit = |number: &str| {
        let section = format!("HostUnit{number}: Inputs={{}} -> Outputs={{}}Inputs:\nOutputs:\n");
        codes(&format!("%HostIrContainer {{ () -> () :\n\n{section}\n%kernel {{\n}} // %kernel\n}}"))
    };
    assert_eq!(unit("4294967296"), ["H0009"]);
    assert_eq!(unit("99999999999999999999"), ["H0009"]);
    assert!(unit("4294967295").is_empty());
    let largest = "  Set( T4294967295_g_float[iS4294967295{8}] )\n  Wait Communication 4294967295";
    assert!(codes(&format!("%HostIrContainer {{ () -> () :\n{largest}\n}}")).is_empty());
    // Floats beyond 64 bits, and numbers that go on as names.
    check("  d1 = 1e309;", "H0009", "1e309");
    check("  d1 = 2.e400;", "H0009", "2.e400");
    check("  d1 = float(1e39);", "H0009", "float(1e39)");
    check("  d1 = 1.e;", "H0009", "1.e");
    check("  d1 = 1.size;", "H0009", "1.size");
    let floats = "  d1 = 1.;\n  d2 = .5;\n  d3 = 1.e5;\n  d4 = float(1.);\n  d5 = double(-.5e-3);";
    assert!(codes(&format!("%HostIrContainer {{ () -> () :\n{floats}\n}}")).is_empty());
    check("  x = a $$ b", "H0020", "$$");
}

#[test]
fn references() {
    check("  Set( T1_g_flaot[iS0{8}] )", "H0010", "flaot");
    check("  Set( T1_x_float[iS0{8}] )", "H0011", "x");
    check("  Set( T1_g_float[jS0{8}] )", "H0012", "j");
    check("  Set( T1_g_float[iStreamidx0{8}] )", "H0013", "Streamidx");
    check("  FOR i in iStrimIdx0{8}:\n    StartCoalescing", "H0013", "StrimIdx");
    check("  Set( T1_g_float[iS0{8} iS1{8}] )", "H0014", "i");
    check("  Set( T1_g_float[iS0{i0 +}] )", "H0014", "");
    check("  Set( T1_g_float[iS0{8}] (DeviceMesh{{0 1}{2}}) )", "H0015", "DeviceMesh{{0 1}{2}}");
    check("  Set( T1_g_float[iS0{8}] (DeviceMesh{}) )", "H0015", "DeviceMesh{}");
    let text = "%HostIrContainer { () -> () :\n  Set( T1_g_flaot[iS0{8}] )\n}";
    assert_eq!(parse(text).errors[0].notes, ["did you mean `float`?"]);
}

#[test]
fn every_error_in_one_run() {
    let text = "%HostIrContainer { (T0) -> (T1) :
  T1 = Set( T0, = 3 )
  FOR i from 0 to:
    Wait Communication
    T1 = Set( T0
    StartCoalescing
  ELSE:
    EndCoalescing 3
  T2_g_flaot[iS0{8}] = Set( T1 )
} // %HostIrContainer
";
    assert_eq!(codes(text), ["H0001", "H0001", "H0001", "H0002", "H0006", "H0010"]);
}

#[test]
fn bytes_that_are_no_text() {
    let (text, parsed) = parse_bytes(b"%HostIrContainer { () -> () :\n  // \xff\n}");
    assert_eq!(parsed.errors.len(), 1);
    assert_eq!(parsed.errors[0].code, "H0019");
    assert!(parsed.errors[0].message.starts_with("line 2 "));
    assert_eq!(&text[parsed.errors[0].span.as_usize_range()], "\u{fffd}");
}

/// Spans are 32 bits. The zeros are never written to, so they take no memory.
#[test]
#[cfg(target_pointer_width = "64")]
fn too_large() {
    let text = String::from_utf8(vec![0; u32::MAX as usize]).unwrap_or_default();
    let parsed = parse(&text);
    assert_eq!(parsed.errors.iter().map(|error| error.code).collect::<Vec<_>>(), ["H0022"]);
}
