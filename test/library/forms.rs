//! Each construct prints back, and its free spellings print the canonical text. The texts are in `forms/`; they are no
//! programs that the verifier would take, so they are no `.hir` tests.

fn printed(text: &str) -> String {
    let (programs, diags) = hostir::load(text);
    let rendered = hostir::diag::render::to_string("test", text, &diags.items);
    assert!(diags.is_empty(), "{rendered}\n{text}");
    programs.iter().map(hostir::print::print_to_string).collect()
}

/// The parts of a text between lines `// -----`: each has spellings of its own.
fn parts(text: &str) -> impl Iterator<Item = &str> {
    text.split("// -----\n")
}

#[test]
fn forms_print_back() {
    for text in parts(include_str!("forms/printed.txt")) {
        assert_eq!(printed(text), text);
    }
}

#[test]
fn free_forms_print_the_canonical_text() {
    let free = include_str!("forms/free.txt");
    let canonical = include_str!("forms/canonical.txt");
    assert_eq!(parts(free).count(), parts(canonical).count());
    for (free, canonical) in parts(free).zip(parts(canonical)) {
        assert_eq!(printed(free), canonical);
    }
}

#[test]
fn frames() {
    for text in [
        "\n%HostIrContainer { () -> () :\n} // %HostIrContainer\n\n",
        "%HostIrContainer { (T0_g_float[iS0{i0}], T0_g_float[iS0{i0}], i0) -> (T0_g_float[iS0{i0}]T0_g_float[iS0{i0}]) :\n} // %HostIrContainer\n",
        "%HostIrContainer { () -> () :\n} // %HostIrContainer\n\nAliases:{\n  T1_g_float[] -> T0_g_float[]\n}\n",
        "\n%HostIrContainer { () -> () :\n} // %HostIrContainer\n\nIndex definitions:\n  i84 = i82 % 8;\n\n",
        "\n%HostIrContainer { () -> () :\n} // %HostIrContainer\n\n\n%HostIrContainer { () -> () :\n} // %HostIrContainer\n\n",
        "hir 1\n%HostIrContainer { () -> () :\n} // %HostIrContainer\n",
        "// a\n\n// b\n%HostIrContainer { () -> () : // c\n  // d\n  StartCoalescing // e\n  FOR i1 in iS0{8}: // f\n    StartCoalescing\n    // g\n  // h\n} // %HostIrContainer\n// i\n",
    ] {
        let again = printed(text);
        let comments_first = text.replace("// a\n\n// b", "// a\n// b");
        assert!(again == text || again == comments_first, "{again}\n---\n{text}");
    }
}
