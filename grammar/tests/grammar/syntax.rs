//! Each construct of the language, by the tree it gives.

use crate::printed_tree::tree;
use hostir_grammar::ast::CommentPlaceSyntax;
use hostir_grammar::{containers_in_log, parse, split_input};

/// The rendering of statements in a container.
fn body(statements: &str) -> String {
    let text = format!("%HostIrContainer {{ () -> () :\n{statements}\n}} // %HostIrContainer\n");
    let tree = tree(&text);
    let lines = tree.lines().skip(1).map(|line| line.strip_prefix("  ").unwrap_or(line));
    lines.collect::<Vec<_>>().join("\n")
}

#[test]
fn streams_and_words() {
    assert_eq!(body("Synchronize Stream 0"), "Words [] Synchronize (Stream<0>)");
    assert_eq!(body("SetCurrentStream to Stream ( i0 % 4 )"), "Words [] SetCurrentStream (Stream<(<i0 % 4>)>)");
    assert_eq!(body("GetCurrentStream into Stream i5"), "Words [] GetCurrentStream (Stream<i5>)");
    assert_eq!(body("Stream 0x1f = GetCurrentStream()"), "Call [Stream<0x1f>] GetCurrentStream ()");
    assert_eq!(body("Wait Communication 39"), "Words [] Wait (Communication#39)");
    assert_eq!(body("Wait(Communication 39)"), "Call [] Wait (Communication#39)");
    assert_eq!(body("StartCoalescing\nEndCoalescing 32"), "Words [] StartCoalescing ()\nWords [] EndCoalescing #32 ()");
}

#[test]
fn communications() {
    assert_eq!(
        body("Communication 3 (type=Broadcast, team=(0 1 2 ... ), root=( i0 + 1 ), input=T0, output=T1, backend=NCCL)"),
        "Call [] Communication #3 (type: Broadcast, team: team<0, 1, 2>+, root: (<i0 + 1>), input: T0, output: T1, backend: NCCL)"
    );
    assert_eq!(body("Communication 3 (team=(5))"), "Call [] Communication #3 (team: (5))");
    assert_eq!(body("Dispatch 4 (num_experts=8, in=T0)"), "Call [] Dispatch #4 (num_experts: 8, in: T0)");
    let shared = "ShareMemHandles(P2PCommunication 7 (peer=i1), P2PCommunication 8 (peer=i2), ";
    let expected =
        "Call [] ShareMemHandles (<Call [] P2PCommunication #7 (peer: i1)>, <Call [] P2PCommunication #8 (peer: i2)>)";
    assert_eq!(body(shared), expected);
    assert_eq!(body(&format!("{shared})")), expected);
    assert_eq!(body(&format!("{shared}\nStartCoalescing")), format!("{expected}\nWords [] StartCoalescing ()"));
    assert_eq!(body(&shared.replace("), P", "),\n   P")), expected);
    assert_eq!(
        body(&format!("{shared}\nP2PCommunication 7 (peer=i1)")),
        format!("{expected}\nCall [] P2PCommunication #7 (peer: i1)")
    );
}

#[test]
fn loops_and_branches() {
    assert_eq!(body("FOR i5 in iS0{8}:"), "ForIn [] FOR (i5, iS0{8})");
    assert_eq!(body("FOR i5 in iS0{8} from 1 to i7 step 2:"), "ForIn [] FOR (i5, iS0{8}, start: 1, stop: i7, step: 2)");
    assert_eq!(body("FOR i5 from 0 to ( i7 - 1 ):"), "ForRange [] FOR (i5, 0, (<i7 - 1>))");
    assert_eq!(
        body("IF Manual b0:\nELSE:\n  StartCoalescing"),
        "If [] Manual (b0)\nelse\n  Words [] StartCoalescing ()"
    );
    assert_eq!(body("IF Inline:\n  StartCoalescing"), "If [] Inline ()\n  Words [] StartCoalescing ()");
}

#[test]
fn calls() {
    assert_eq!(body("T1 = Set.Permute( T0, cache_op=Streaming )"), "Call [T1] Set.Permute (T0, cache_op: Streaming)");
    assert_eq!(
        body("T1\n = reduction( T0, op = add, initial value = float(0), allreduce = false )"),
        "Call [T1] reduction (T0, op: add, initial value: float`0`, allreduce: false)"
    );
    assert_eq!(
        body("T1 = ALLOCATE(mem_type=global)\n    .alias=T2"),
        "Call [T1] ALLOCATE (mem_type: global, alias: T2)"
    );
    assert_eq!(
        body("LaunchKernel(\n  Group ID: 0,\n  Inputs: {T0, T1},\n  Outputs: {T2},\n)"),
        "Call [] LaunchKernel (Group ID: 0, Inputs: {T0, T1}, Outputs: {T2})"
    );
    assert_eq!(
        body("PostOnStream (HostUnit0, Inputs:{T0, }, Outputs:{T1, })"),
        "Call [] PostOnStream (HostUnit0, Inputs: {T0}, Outputs: {T1})"
    );
    assert_eq!(body("Deallocate {\n  T0\n}"), "Braces [] Deallocate (T0)");
    assert_eq!(body("T1 = select( T0, axis = iS0{i0}, index = 0 )"), "Call [T1] select (T0, axis: iS0{i0}, index: 0)");
    assert_eq!(body("T1 = full({}float(0));"), "Call [T1] full ({}, float`0`)");
    assert_eq!(body("T1 = linear(T0,\n   T2    ,\n   T3    )"), "Call [T1] linear (T0, T2, T3)");
    assert_eq!(body("T1 = slice( T0, { {i2, i3, 1} {0, i4, 1} } )"), "Call [T1] slice (T0, {{i2, i3, 1}, {0, i4, 1}})");
    assert_eq!(body("T1\n  =scatter(self = T0, dim = -1 )"), "Call [T1] scatter (self: T0, dim: -1)");
}

#[test]
fn several_results() {
    assert_eq!(body("( T1, T2 ) = topk( T0, 3 )"), "Call [T1, T2] topk (T0, 3)");
    assert_eq!(body("T1,\nT2\n  = sdpa(T0)"), "Call [T1, T2] sdpa (T0)");
    assert_eq!(body("(T1,\n T2)\n = block_quantize(T0)"), "Call [T1, T2] block_quantize (T0)");
    assert_eq!(body("T1,\n  = embedding(T0)"), "Call [T1] embedding (T0)");
    assert_eq!(
        body("T1(Avg),\nT2(Var),\nT3(Count)\n = Welford ( T4(Avg)\n  T5(Var)\n  T6(Count)\n  allreduce = false )"),
        "Call [Avg: T1, Var: T2, Count: T3] Welford (Avg: T4, Var: T5, Count: T6, allreduce: false)"
    );
    assert_eq!(
        body("  T1(Avg),\nT2(Var),\nT3(Count)\n = Welford ( T4(Avg), \n  allreduce = false )"),
        "Call [Avg: T1, Var: T2, Count: T3] Welford (Avg: T4, allreduce: false)"
    );
    assert_eq!(
        body(
            "T1(Avg),\nT2(Var),\nT3(Count)\n = Welford ( T4(Avg)\n  T5(Var)\n  T6(Count)\n  initial value = float(0)(Avg)\n  \
             float(0)(Var)\n  0(N)\n  allreduce = false )"
        ),
        "Call [Avg: T1, Var: T2, Count: T3] Welford (Avg: T4, Var: T5, Count: T6, initial value: float`0`, \
         Var: float`0`, N: 0, allreduce: false)"
    );
}

#[test]
fn statements_in_groups() {
    assert_eq!(
        body(
            "GroupedReductionOp(\n  T2 = reduction( T0, op = add, initial value = 0 )\n  T3 = reduction( T1, op = mul )\n  \
             allreduce = true )"
        ),
        "Call [] GroupedReductionOp (<Call [T2] reduction (T0, op: add, initial value: 0)>, \
         <Call [T3] reduction (T1, op: mul)>, allreduce: true)"
    );
    assert_eq!(
        body(
            "GroupedWelford(\n  T1 (Avg),\n  T2 (Var),\n  T3 (Count)\n   = Welford (     T0 (Avg),\n    float(0) (Var),\n    \
             1 (Count)\n    initial value =\n    float(0) (Avg),\n  float(0) (Var),\n   0 (Count) )\n  allreduce = false )"
        ),
        "Call [] GroupedWelford (Avg: T1, Var: T2, <Call [Count: T3] Welford (Avg: T0, Var: float`0`, Count: 1, \
         initial value: float`0`, Var: float`0`, Count: 0)>, allreduce: false)"
    );
}

#[test]
fn assignments() {
    assert_eq!(body("T1\n  = T0\n  + T2;"), "Assign [T1]  (<T0 + T2>)");
    assert_eq!(body("T1 = -T0;"), "Assign [T1]  (<-T0>)");
    assert_eq!(body("T1\n  = where(T4\n , T0\n , float(0));"), "Call [T1] where (T4, T0, float`0`)");
    assert_eq!(body("T1 = (float)std::real(T0);"), "Call [T1] (float)std::real (T0)");
    assert_eq!(body("i8 = i2 % 8;"), "Assign [i8]  (<i2 % 8>)");
    assert_eq!(body("a5 = {i0, i1}"), "Assign [a5]  (b{i0, i1})");
    assert_eq!(body("i8 = a5[2]"), "Assign [i8]  (a5[2])");
    assert_eq!(body("i8 = s5.logical_size"), "Assign [i8]  (s5.logical_size)");
    assert_eq!(body("logits = T0 * blockIdx.x"), "Assign [logits]  (<T0 * blockIdx.x>)");
}

#[test]
fn precedence() {
    let cases = [
        ("a + b * c", "<a + <b * c>>"),
        ("a * b + c", "<<a * b> + c>"),
        ("a - b - c", "<<a - b> - c>"),
        ("a || b && c == d + e * f", "<a || <b && <c == <d + <e * f>>>>>"),
        ("a + b * c - d", "<<a + <b * c>> - d>"),
        ("-a + !b", "<<-a> + <!b>>"),
        ("--5", "<--5>"),
        ("i0 - -1", "<i0 - -1>"),
        ("( rank + StreamIdx ) % 4", "<(<rank + StreamIdx>) % 4>"),
        ("( (( getMetaData(T0) )).logical_size )[0]", "(((getMetaData(T0))).logical_size)[0]"),
        ("( { i0, i1 } )", "(b{i0, i1})"),
        ("(double)(i0) / 0.5", "<(double)(i0) / f`0.5`>"),
        ("std::complex<float>((1,2.5)) + True", "<std::complex<float>`(1,2.5)` + true!>"),
        ("std::complex<float>((1,\r\n    2.5)) + True", "<std::complex<float>`(1,2.5)` + true!>"),
        ("std::complex<float>( (\n  1 , 2.5\n  ) ) + True", "<std::complex<float>`(1,2.5)` + true!>"),
        ("a < b << 2 | c", "<<a < <b << 2>> | c>"),
    ];
    for (text, expected) in cases {
        assert_eq!(body(&format!("x = {text}")), format!("Assign [x]  ({expected})"), "{text}");
    }
}

#[test]
fn tensors() {
    let cases = [
        ("T3_g_float[]", "T3:g:float[]"),
        ("T3_sym___bfloat[iS0{8}, bS3{1 ex i5}]", "T3:sym:__bfloat[iS0{8}, bS3{1 ex i5}]"),
        (
            "T3_l_std::complex<double>[?S13{( ( -( fmax(0, i1) ) ) + i2 )}rf]",
            "T3:l:std::complex<double>[?S13{(<(<-(fmax(0, i1))>) + i2>)}rf]",
        ),
        ("T3_s_int64_t*[iS{8}, iV7{2 : ( i1 - 1 ) : i1}_p_c]", "T3:s:int64_t*[iS{8}, iV7{2 : (<i1 - 1>) : i1}_p_c]"),
        ("T3_t_Array<float, 2, 1>[iUR1{i0}]", "T3:t:Array<float, 2, 1>[iUR1{i0}]"),
        ("T3_g_struct { float x; }[iUS1{i0}]", "T3:g:struct { float x; }[iUS1{i0}]"),
        (
            "T3_l_float[iS1{4}] ca_pos( 3 ) compute_with( T5, 2 ) produce_pos( 2 ) (DeviceMesh{{0 1}{2 3}})",
            "T3:l:float[iS1{4}]@ca_pos( 3 ) compute_with( T5, 2 ) produce_pos( 2 )@[2, 2][0, 1, 2, 3]",
        ),
        ("T3_g_float[iS1{4}] {perm={1, 0}, logical={iS0{2}}}", "T3:g:float[iS1{4}]@{perm: {1, 0}, logical: {iS0{2}}}"),
        (
            "T3_g_float[iS1Ragged{extents=T2_g_int[iS0{4}] (DeviceMesh{0})}]",
            "T3:g:float[iS1{Ragged(extents: T2:g:int[iS0{4}]@[1][0])}]",
        ),
        (
            "T3_g_float[ideviceIdx.x1{numberOfStreams}] (DeviceMesh{{{0 1}{2 3}}{{4 5}{6 7}}})",
            "T3:g:float[ideviceIdx.x1{numberOfStreams}]@[2, 2, 2][0, 1, 2, 3, 4, 5, 6, 7]",
        ),
    ];
    for (text, expected) in cases {
        assert_eq!(body(&format!("Use({text}, 1)")), format!("Call [] Use ({expected}, 1)"), "{text}");
    }
    assert_eq!(body("Use(T3_logits)"), "Call [] Use (T3_logits)");
}

#[test]
fn repeated_values_without_comma() {
    let tensor = "T1_g_float[iS0{8}]";
    let text = format!("%HostIrContainer {{ ({tensor}T2, {tensor}) -> (T2) :\n}}");
    let first = tree(&text).lines().next().map(str::to_owned);
    let expected = "container (T1:g:float[iS0{8}], T2, T1:g:float[iS0{8}]) -> (T2)";
    assert_eq!(first.as_deref(), Some(expected));
}

#[test]
fn sections() {
    let text = "%HostIrContainer { (T0) -> (T1) :
  PostOnStream (HostUnit12, Inputs:{T0, }, Outputs:{T1, })

HostUnit12: Inputs={T0, } -> Outputs={T1, }in_place={0}
Inputs:
  T0
  i4
Outputs:
  T1

%kernel {
T1
   = relu(T0);
} // %kernel

HostUnit3: Inputs={} -> Outputs={}Inputs:
Outputs:

%kernel {
} // %kernel
} // %HostIrContainer

Aliases:{
  T1 -> T0
  T2 -> T0
}
Index definitions:
  i84 = i82 % 8;
  i85 = i84 + 1;

";
    let expected = "container (T0) -> (T1)
  Call [] PostOnStream (HostUnit12, Inputs: {T0}, Outputs: {T1})
unit 12 {T0} -> {T1} attrs {in_place: {0}} fusion (T0, i4) -> (T1)
  Call [T1] relu (T0)
unit 3 {} -> {} attrs {} fusion () -> ()
alias T1 -> T0
alias T2 -> T0
index definitions
  Assign [i84]  (<i82 % 8>)
  Assign [i85]  (<i84 + 1>)
";
    assert_eq!(tree(text), expected);
}

#[test]
fn comment_places() {
    let text = "hir 1
// file

// of the container
%HostIrContainer { () -> () : // header
  // above
  // above too
  Wait Communication 1 // trailing
  FOR i from 0 to 8: // of the loop
    Wait(Communication 2, // inside
      3)
    // end of the loop
  // end of the body
} // %HostIrContainer
// end of file
";
    let parsed = parse(text);
    assert!(parsed.errors.is_empty(), "{:#?}", parsed.errors);
    assert_eq!(parsed.ast.version, Some(1));
    let ast = &parsed.ast;
    let top = &ast.blocks[ast.containers[0].body.index()].stmts;
    let inner = ast.stmts[top[1].index()].body.unwrap();
    let call = ast.blocks[inner.index()].stmts[0];
    let expected = [
        ("// file", CommentPlaceSyntax::File),
        ("// of the container", CommentPlaceSyntax::Container(0)),
        ("// header", CommentPlaceSyntax::Header(0)),
        ("// above", CommentPlaceSyntax::Above(top[0])),
        ("// above too", CommentPlaceSyntax::Above(top[0])),
        ("// trailing", CommentPlaceSyntax::Trailing(top[0])),
        ("// of the loop", CommentPlaceSyntax::Trailing(top[1])),
        ("// inside", CommentPlaceSyntax::Trailing(call)),
        ("// end of the loop", CommentPlaceSyntax::EndOf(inner)),
        ("// end of the body", CommentPlaceSyntax::EndOf(ast.containers[0].body)),
        ("// end of file", CommentPlaceSyntax::EndOfFile),
    ];
    let found: Vec<_> = ast.comments.iter().map(|c| (&text[c.span.as_usize_range()], c.place)).collect();
    assert_eq!(found, expected);
}

#[test]
fn logs() {
    let program = "%HostIrContainer { () -> () :\n  Wait Communication 1\n} // %HostIrContainer\n\nAliases:{\n}\n";
    assert!(matches!(containers_in_log(program), std::borrow::Cow::Borrowed(_)));
    let plain = format!("hir 1\n// text\n\n{program}\n{program}");
    assert!(matches!(containers_in_log(&plain), std::borrow::Cow::Borrowed(_)));
    let prefixed: String = program.lines().map(|line| format!("[1,0]<stdout>:{line}\n")).collect();
    let log = format!("[ RUN      ] Some.Test\n{prefixed}[       OK ] Some.Test (3 ms)\n");
    let found = containers_in_log(&log);
    assert_eq!(found, format!("\u{b}\n{program}\u{b}\n"));
    assert_eq!(tree(&found), tree(program));
    // A line of somebody else is no blank line.
    let container = &parse(&found).ast.containers[0];
    assert!(!container.blanks.before && container.blanks.after_sections == 0, "{container:?}");
    let around = format!("one\n{program}two\n");
    assert_eq!(containers_in_log(&around), format!("\u{b}\n{program}\u{b}\n"));
    // Thousands of containers with sections are looked at one after the other.
    let many = program.repeat(50_000);
    assert!(matches!(containers_in_log(&many), std::borrow::Cow::Borrowed(_)));
}

#[test]
fn split() {
    let parts = split_input("a\n// -----\nb\n  // -----\n// -----  \nc");
    assert_eq!(parts, [(0, "a\n"), (11, "b\n  // -----\n"), (35, "c")]);
}

#[test]
fn marks_of_a_terminal_are_found_wherever_they_are_in_a_long_text() {
    let program = "%HostIrContainer { () -> () :\n  StartCoalescing\n} // %HostIrContainer\n";
    // The text is searched in blocks of 32 KiB: the mark lies before the end of the first, across it, and after it.
    for at in (1 << 15) - 8..(1 << 15) + 4 {
        let log = format!("{}\n^[[0m{program}", ".".repeat(at - 1));
        assert!(!containers_in_log(&log).contains("^[["), "a mark at {at} was not found");
    }
}
