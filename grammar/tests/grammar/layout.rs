//! One program in many layouts is one tree.

use crate::printed_tree::tree;

const PRINTED: &str = "
%HostIrContainer { (T0_g_float[iS0{i0}, iS1{i2}] (DeviceMesh{0 1}), i7) -> (T1_g_float[iStreamIdx2{i0}, iS3{i2}] (DeviceMesh{0 1})) :
  T1_g_float[iStreamIdx2{i0}, iS3{i2}] (DeviceMesh{0 1}) = ALLOCATE(buffer=T1_g_float[iStreamIdx2{i0}, iS3{i2}] (DeviceMesh{0 1}), mem_type=global, size=( i0 * i2 ), zero_init=false, resets_to_zero=false)
  FOR StreamIdx in iStreamIdx2{i0}:
    SetCurrentStream to Stream ( StreamIdx % numberOfStreams )
    IF Manual ( StreamIdx == rank ):
      T4_l_float[iS5{i2}] (DeviceMesh{0 1})
         = T0_g_float[iS0{i0}, iS1{i2}] (DeviceMesh{0 1})
         + T1_g_float[iStreamIdx2{i0}, iS3{i2}] (DeviceMesh{0 1});
      Deallocate {
        T4_l_float[iS5{i2}] (DeviceMesh{0 1})
      }
    ELSE:
      Communication 30 (type=Broadcast, team=(0 1), root=0, input=T0_g_float[iS0{i0}, iS1{i2}] (DeviceMesh{0 1}), output=T1_g_float[iStreamIdx2{i0}, iS3{i2}] (DeviceMesh{0 1}), backend=NCCL)
      Wait Communication 30
    IF Manual true:
    ELSE:
      StartCoalescing
  FOR i3 in iS4{8}:
  Synchronize Stream 0
} // %HostIrContainer

";

#[test]
fn other_indentation() {
    let four = PRINTED.replace("  ", "    ");
    let tabs = PRINTED.replace("  ", "\t");
    let one = PRINTED.replace("  ", " ");
    for text in [four, tabs, one] {
        assert_eq!(tree(PRINTED), tree(&text));
    }
}

#[test]
fn line_ends_and_byte_order_mark() {
    assert_eq!(tree(PRINTED), tree(&PRINTED.replace('\n', "\r\n")));
    assert_eq!(tree(PRINTED), tree(&format!("\u{feff}{PRINTED}")));
    assert_eq!(tree(PRINTED), tree(&format!("\u{feff}hir 1\n{PRINTED}")));
    assert_eq!(tree(PRINTED), tree(PRINTED.trim()));
}

#[test]
fn broken_and_joined_lines() {
    let broken = PRINTED
        .replace(", ", ",\n     ")
        .replace("[iS", "[\n  iS")
        .replace("( StreamIdx", "(\n          StreamIdx")
        .replace("root=0", "root =\n        0")
        .replace("] (Dev", "]   (Dev");
    assert_eq!(tree(PRINTED), tree(&broken));
    let joined = PRINTED
        .replace("\n         =", " =")
        .replace("\n         +", " +")
        .replace(" {\n        T4", " { T4")
        .replace("})\n      }", "}) }");
    assert_eq!(tree(PRINTED), tree(&joined));
}

#[test]
fn white_space_makes_no_new_tensor() {
    let text = "%HostIrContainer { (T0_g_float[iS0{i0}, iS1{( i1 + 2 )}] (DeviceMesh{0 1})) -> () :
  Set( T0_g_float[ iS0{i0} ,iS1{(i1+2)} ]\n     (DeviceMesh{ 0 1 }), T0_g_float[iS0{i0},iS1{( i1 + 2 )}] (DeviceMesh{0 1}) )
  Set( T1_l_float[iS0{8}, iS1{8}] (DeviceMesh{0 1}), T1_l_float[iS0{8},iS1{8}] (DeviceMesh{0  1}) )
  Set( T1_l_float[iS0{8}, iS1{8}] (DeviceMesh{0 1}), T1_l_float[iS0{8}, iS1{8}] (DeviceMesh{01}) )
}";
    let parsed = hostir_grammar::parse(text);
    assert!(parsed.errors.is_empty(), "{:#?}", parsed.errors);
    assert_eq!(parsed.ast.tensors.len(), 3);
}

#[test]
fn braces_and_semicolons() {
    let braced = "%HostIrContainer { (T0_g_float[iS0{i0}, iS1{i2}] (DeviceMesh{0 1}), i7) -> (T1_g_float[iStreamIdx2{i0}, iS3{i2}] (DeviceMesh{0 1})) :
T1_g_float[iStreamIdx2{i0}, iS3{i2}] (DeviceMesh{0 1}) = ALLOCATE(buffer=T1_g_float[iStreamIdx2{i0}, iS3{i2}] (DeviceMesh{0 1}), mem_type=global, size=( i0 * i2 ), zero_init=false, resets_to_zero=false);
FOR StreamIdx in iStreamIdx2{i0} {
SetCurrentStream to Stream ( StreamIdx % numberOfStreams ); IF Manual ( StreamIdx == rank ): {
    T4_l_float[iS5{i2}] (DeviceMesh{0 1}) = T0_g_float[iS0{i0}, iS1{i2}] (DeviceMesh{0 1}) + T1_g_float[iStreamIdx2{i0}, iS3{i2}] (DeviceMesh{0 1}); Deallocate { T4_l_float[iS5{i2}] (DeviceMesh{0 1}) } }
  ELSE {
      Communication 30 (type=Broadcast, team=(0 1), root=0, input=T0_g_float[iS0{i0}, iS1{i2}] (DeviceMesh{0 1}), output=T1_g_float[iStreamIdx2{i0}, iS3{i2}] (DeviceMesh{0 1}), backend=NCCL)
 Wait Communication 30 }
 IF Manual true { } ELSE: {
   StartCoalescing
 } }
FOR i3 in iS4{8}: { } Synchronize Stream 0 }";
    assert_eq!(tree(PRINTED), tree(braced));
}

#[test]
fn braced_block_in_an_indented_one() {
    let a = "%HostIrContainer { () -> () :
  FOR i from 0 to 8:
    FOR j from 0 to i {
Wait Communication 3
    }
    Wait Communication 4
  Wait Communication 5
}";
    let b = "%HostIrContainer { () -> () :
  FOR i from 0 to 8:
    FOR j from 0 to i:
      Wait Communication 3
    Wait Communication 4
  Wait Communication 5
} // %HostIrContainer
";
    assert_eq!(tree(a), tree(b));
}

#[test]
fn blank_lines_are_counted() {
    let text = "\n%HostIrContainer { () -> () :\n} // %HostIrContainer\n\n\nAliases:{\n}\n\n";
    let parsed = hostir_grammar::parse(text);
    assert!(parsed.errors.is_empty(), "{:#?}", parsed.errors);
    let container = &parsed.ast.containers[0];
    assert!(container.blanks.before && container.closing_label);
    assert_eq!((container.blanks.after, container.blanks.after_sections), (2, 1));
    assert_eq!(container.aliases.as_ref().map(Vec::len), Some(0));
    let bare = hostir_grammar::parse("%HostIrContainer { () -> () :\n}");
    let container = &bare.ast.containers[0];
    assert!(!container.blanks.before && !container.closing_label && container.aliases.is_none());
    assert_eq!(container.blanks.after, 0);
}
