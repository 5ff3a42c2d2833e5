//! No input makes the parser panic or take long: prefixes, random mutations, nasty shapes.

use crate::random::Random;
use hostir_grammar::{containers_in_log, parse, parse_bytes};
use std::time::Instant;

/// One of everything, small enough to be cut at every byte.
const SAMPLE: &str = "hir 1
// a file comment

%HostIrContainer { (T0_g_float[ideviceIdx.x0{i0}, iS1{( ceilDiv(i2, 3) )}rf] (DeviceMesh{{0 1}{2 3}})) -> (T1_g___bfloat[iStreamIdx2{i0}, bS3{1 ex i5}] ca_pos( 1 ) (DeviceMesh{0 1})) : // head
  GetCurrentStream into Stream 0
  FOR StreamIdx in iStreamIdx2{i0}:
    // above
    T3_l_float[iS5{i2}]
       = HirAliasSelect( T1, axis = iStreamIdx2{i0}, index = ( StreamIdx + 1 ) % 4 ) // behind
    IF Manual ( StreamIdx == rank ):
      T4_l_std::complex<float>[?S6{i2}] = Set( T3, cache_op=Streaming )
      // end
    ELSE: {
      ShareMemHandles(P2PCommunication 7 (type=recv, buffer=T3, peer=rank, backend=NCCL), 
      EndCoalescing 9; Wait Communication 9
    }
  T5_g_float[iS7{8}]
     = where(T6
    , (double)(i4)
    , float(-inf));
  Deallocate {
    T5_g_float[iS7{8}]
  }
  Stream 0x1f = GetCurrentStream()

HostUnit0: Inputs={T0, } -> Outputs={T1, }Inputs:
  T0
Outputs:
  T1

%kernel {
T1
   = slice( T0, { {0, i2, 1} {1, i3, 1} } )
} // %kernel
} // %HostIrContainer

Aliases:{
  T5 -> T4
}
Index definitions:
  i84 = i82 % 8;
";

/// Parses and checks that every span can be sliced.
fn check(text: &str) {
    let parsed = parse(text);
    for error in &parsed.errors {
        let spans = std::iter::once(error.span).chain(error.others.iter().map(|other| other.span));
        for span in spans {
            assert!(text.get(span.as_usize_range()).is_some(), "{error:?} in {text:?}");
        }
        assert!(error.message.starts_with(|c: char| !c.is_uppercase()), "{error:?}");
        assert!(!error.message.contains('\n') && !error.message.contains("prefix"), "{error:?}");
    }
    assert!(parsed.errors.is_sorted_by_key(|error| error.span), "{text:?}");
    for stmt in &parsed.ast.stmts {
        assert!(text.get(stmt.span.as_usize_range()).is_some(), "{stmt:?} in {text:?}");
        assert!(text.get(stmt.name_span.as_usize_range()).is_some(), "{stmt:?} in {text:?}");
    }
    for (expr, span) in &parsed.ast.exprs {
        assert!(text.get(span.as_usize_range()).is_some(), "{expr:?} {span:?} in {text:?}");
    }
    for comment in &parsed.ast.comments {
        assert!(text.get(comment.span.as_usize_range()).is_some_and(|text| text.starts_with("//")));
    }
}

#[test]
fn sample_is_valid() {
    let parsed = parse(SAMPLE);
    assert!(parsed.errors.is_empty(), "{:#?}", parsed.errors);
}

#[test]
fn every_prefix() {
    for end in 0..=SAMPLE.len() {
        check(&SAMPLE[..end]);
        check(&SAMPLE[end..]);
    }
}

#[test]
fn random_mutations() {
    let mut random = Random(crate::effort::seed(0x9e37_79b9_7f4a_7c15));
    let pool = b"(){}[],;:=.-+*/%<>&|!~^ \n\tTiS0F'\"\\\0\xc3\xa4\xff";
    for _ in 0..crate::effort::cases("HIR_MUTATIONS", 6_000, 1_000_000) {
        let mut bytes = SAMPLE.as_bytes().to_vec();
        for _ in 0..=random.below(6) {
            let at = random.below(bytes.len());
            let other = random.below(bytes.len());
            match random.below(4) {
                0 => bytes[at] = pool[random.below(pool.len())],
                1 => bytes.insert(at, pool[random.below(pool.len())]),
                2 => drop(bytes.drain(at.min(other)..at.max(other).min(at.min(other) + 40))),
                _ => bytes.swap(at, other),
            }
        }
        let (text, _) = parse_bytes(&bytes);
        check(&text);
        let _ = containers_in_log(&text);
    }
}

/// Texts of one part repeated 40 000 times, each of which a quadratic step would stop for minutes.
#[test]
fn linear_time() {
    let repeated: [(&str, &str, &str); 14] = [
        ("", "(", ""),
        ("", "{", ""),
        ("%HostIrContainer { () -> () :\n", "  T1 = Set( T0\n", "}"),
        ("%HostIrContainer { () -> () :\n", "  T1_g_float[iS0{i0} = Set( T0 )\n", "}"),
        ("%HostIrContainer { () -> () :\n", "  T1 = Set( T0_g_float[\n", "}"),
        ("%HostIrContainer { () -> () :\n  i1 = i2", " + i3", ";\n}"),
        ("%HostIrContainer { () -> () :\n  i1 = ", "-", "i2;\n}"),
        ("%HostIrContainer { () -> () :\n  i1 = ", "( ", "i2;\n}"),
        ("%HostIrContainer { () -> () :\n", "FOR i in iS0{8}: {\n", ""),
        ("%HostIrContainer { () -> () :\n", "  // comment\n", "}"),
        ("", "%HostIrContainer { () -> () :\n", ""),
        ("%HostIrContainer { () -> () :\n T1_g_float[iS0{", "( ", "i2}] = Set(T0)\n}"),
        ("%HostIrContainer { () -> () :\n Set(", "T1_g_float[iS0Ragged{extents=", "\n}"),
        ("%HostIrContainer { () -> () :\n Set(T0_g_float[] (DeviceMesh", "{", ")\n}"),
    ];
    for (head, part, tail) in repeated {
        let start = Instant::now();
        let text = format!("{head}{}{tail}", part.repeat(40_000));
        let parsed = parse(&text);
        let took = start.elapsed();
        assert!(took.as_secs() < 60, "{part:?} took {took:?}, {} errors", parsed.errors.len());
    }
}
