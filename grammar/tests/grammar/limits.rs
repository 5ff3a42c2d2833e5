//! What is too long or nested too deeply ends with an error, before memory or the stack does.

use hostir_grammar::{MAX_ERRORS, parse};

const HEAD: &str = "%HostIrContainer { (T0_g_float[iS0{4}]) -> (T0) :\n";
const TAIL: &str = "\n} // %HostIrContainer\n";

/// The codes of the errors of a body.
fn codes(body: &str) -> Vec<&'static str> {
    parse(&format!("{HEAD}{body}{TAIL}")).errors.iter().map(|error| error.code).collect()
}

#[test]
fn every_nesting_has_an_end() {
    let chains: [(&str, &str, &str); 9] = [
        ("a", "[1]", ""),
        ("a", ".b", ""),
        ("a", " + a", ""),
        ("", "-", "a"),
        ("", "f(", "a"),
        ("", "f(a, ", "a"),
        ("", "a[", "a"),
        ("", "( ", "a"),
        ("", "{ ", "a"),
    ];
    for (head, part, tail) in chains {
        let closing = match part.as_bytes() {
            [.., b')'] | [.., b']'] => "",
            text if text.contains(&b'(') => ")",
            text if text.contains(&b'[') => "]",
            text if text.contains(&b'{') => " }",
            _ => "",
        };
        let text = |count: usize| {
            let (parts, closing) = (part.repeat(count), closing.repeat(count));
            format!("  i1 = {head}{parts}{tail}{closing};")
        };
        assert_eq!(codes(&text(200)), [""; 0], "{part}");
        assert_eq!(codes(&text(200_000)), ["H0016"], "{part}");
        // In an extent and in a HostUnit's lists too.
        let extent = text(30_000).replace("i1 = ", "Foo(T1_g_float[iS0{").replace(';', "}])");
        assert!(codes(&extent).iter().all(|code| ["H0016", "H0002", "H0014"].contains(code)), "{part}");
        let list = text(30_000).replace("  i1 = ", "\nHostUnit0: Inputs={").replace(';', "} -> Outputs={}");
        assert!(!codes(&list).is_empty(), "{part}");
    }
}

/// Brackets and operators, each few enough, multiply.
#[test]
fn depth_counts_through_brackets() {
    let mut text = "a".to_owned();
    for _ in 0..150 {
        text = format!("( {text}{} )", " + a".repeat(400));
    }
    assert_eq!(codes(&format!("  i1 = {text};")), ["H0016"]);
    // Long is not deep: a list of sums.
    let list = vec![format!("a{}", " + a".repeat(400)); 100].join(", ");
    assert_eq!(codes(&format!("  i1 = f({list});")), [""; 0]);
}

#[test]
fn long_words_and_references_are_one_error() {
    assert_eq!(codes(&format!("  {}(T0)", "a".repeat(100_000))), ["H0022"]);
    assert_eq!(codes(&format!("  i1 = {};", "a".repeat(4000))), [""; 0]);
    let domains = "iS0{4}, ".repeat(2_200_000);
    assert_eq!(codes(&format!("  Foo(T1_g_float[{domains}iS1{{4}}])")), ["H0022"]);
    assert_eq!(codes(&format!("  Foo({})", "a, ".repeat(600_000))), ["H0022"]);
}

#[test]
fn errors_have_an_end() {
    let errors = codes(&"  Set( = )\n".repeat(3 * MAX_ERRORS));
    assert_eq!((errors.len(), errors.last()), (MAX_ERRORS + 1, Some(&"H0023")));
}

/// A document in which nothing starts a program.
#[test]
fn a_text_without_a_program_is_one_error() {
    let texts = [
        "",
        "\n\n",
        "// a comment",
        "# Title\n\n```cpp\nint main() { return f(1; }\n```\n`%HostIrContainer` is printed.\n",
        "FOR i in iS0{8}:\n  T1 = Set( T0\n)))\n\u{1f600}",
        "hir 1\nHostIrContainer { () -> () :\n}",
    ];
    for text in texts {
        let errors = parse(text).errors;
        let codes: Vec<_> = errors.iter().map(|error| error.code).collect();
        assert_eq!(codes, ["H0008"], "{text:?}");
    }
    assert_eq!(parse("hir 7\nx").errors[0].code, "H0017");
}
