//! Each mistake in `hir 2` that people make, what is said about it, and that it stays alone.

use hostir_grammar::hir2::parse;

/// The errors of a text: line, the text that they point at, message and note.
fn errors(text: &str) -> String {
    let mut out = String::new();
    for error in parse(text).errors {
        let place = error.span.as_usize_range();
        let line = text[..place.start].matches('\n').count() + 1;
        assert_eq!(error.notes.len(), 1, "{error:?}");
        let note = &error.notes[0];
        out += &format!("{} {line} `{}`: {}: {note}\n", error.code, &text[place], error.message);
    }
    out
}

/// Checks the errors of statements of a program; the first has line 1.
fn check(statements: &str, expected: &str) {
    let head = "hir 2 // the first line of the program is that of its header\nf() -> ():\n";
    let text = format!("{head}{statements}\n");
    let found = errors(&text);
    let lines = found.lines().map(|line| {
        let mut words = line.splitn(3, ' ');
        let (code, number) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
        let number: usize = number.parse().expect("a number of a line");
        format!("{code} {} {}\n", number - 2, words.next().unwrap_or_default())
    });
    assert_eq!(lines.collect::<String>().trim_end(), expected, "{statements}");
}

fn check_file(text: &str, expected: &str) {
    assert_eq!(errors(text).trim_end(), expected, "{text}");
}

#[test]
fn python_words() {
    check("  # a comment", "H0024 1 `#`: comments start with `//`, not with `#`: write `// a comment`");
    check(
        "  def f(x):\n    C = alloc",
        "H0024 1 `def`: `def` begins no statement of `hir 2`: kernels and programs stand in column 1: `kernel f(..) -> (..):`",
    );
    check(
        "  while x > 0:\n    C = alloc",
        "H0024 1 `while`: `while` begins no statement of `hir 2`: loops have a fixed number of steps: `for i in 4:`",
    );
    check(
        "  return C",
        "H0024 1 `return`: `return` begins no statement of `hir 2`: leave the statement out: outputs stand in the header, after `->`, and are written by name",
    );
    check(
        "  import torch",
        "H0024 1 `import`: `import` begins no statement of `hir 2`: imports are in column 1, above the program: `import axpy from \"kernels.hir\"`",
    );
    check(
        "  pass",
        "H0024 1 `pass`: `pass` begins no statement of `hir 2`: leave the statement out: a block may be empty",
    );
    check(
        "  break",
        "H0024 1 `break`: `break` begins no statement of `hir 2`: loops run to their end: write `if c:` around what is left out",
    );
    check(
        "  with stream(1):\n    C = alloc",
        "H0024 1 `with stream(1)`: a block on a stream begins with `stream`: write `stream 1:`",
    );
    check(
        "  with open(1):\n    C = alloc",
        "H0024 1 `with`: `with` begins no statement of `hir 2`: a block on a stream is written `stream e:`",
    );
    check("  del A", "H0024 1 `del`: `del` begins no statement of `hir 2`: memory is given back by `free T`");
    check("  await h", "H0024 1 `await`: `await` begins no statement of `hir 2`: write `wait h`");
    check("  print(C)", "H0024 1 `print(C)`: `print` is a statement, whose values have no brackets: write `print C`");
    check(
        "  if a:\n    wait h\n  elif b:\n    wait g\n  else:\n    wait k",
        "H0024 3 `elif`: there is no `elif`: write `if !a && b:`, and `if !a && !b:` for the `else:`",
    );
    check("  if a: wait h\n  else if b: wait g", "H0024 2 `else if`: there is no `else if`: write `if !a && b:`");
    check("  \"\"\"a text\"\"\"", "H0024 1 `\"\"`: texts in quotes are no values: a comment starts with `//`");
    check("  x = True", "H0024 1 `True`: `True` is no truth value: write `true`");
}

#[test]
fn python_operators() {
    check("  C = A @ B", "H0024 1 `@`: `@` is no operator: a product of matrices is written `matmul(A, B)`");
    check("  C = A@B", "H0024 1 `@`: `@` is no operator: a product of matrices is written `matmul(A, B)`");
    check("  if a > 0 and b > 0: wait h", "H0024 1 `and`: `and` is no operator: write `a > 0 && b > 0`");
    check(
        "  if a > 0 or not b: wait h",
        "H0024 1 `or`: `or` is no operator: write `a > 0 || !b`\n\
         H0024 1 `not`: `not` is no operator: write `!b`, or `b == 0` for a number",
    );
    check("  x = a ** 2", "H0024 1 `**`: `**` is no operator: write `pow(a, 2)`");
    check("  x += 1", "H0024 1 `+=`: `+=` is no assignment: write `x = x + 1`");
    check("  self.x += 1", "H0024 1 `+=`: `+=` is no assignment: write `self.x = self.x + 1`");
    check("  C[i] *= A[0]", "H0024 1 `*=`: `*=` is no assignment: write `C[i] = C[i] * A[0]`");
    check("  x = a if b else c", "H0024 1 `if`: a value has no condition after it: write `x = where(b, a, c)`");
    check("  x := 4", "H0024 1 `:=`: `:=` is no assignment: write `x = 4`");
}

#[test]
fn python_loops() {
    check("  for i in range(4):\n    wait h", "H0024 1 `range(4)`: `range` is not needed: write `for i in 4:`");
    check(
        "  for i in range(1, 4):\n    wait h",
        "H0024 1 `range(1, 4)`: `range` is not needed: write `for i in 1..4:`",
    );
    check(
        "  for i in range(0, 8, 2):\n    wait h",
        "H0024 1 `range(0, 8, 2)`: `range` is not needed: write `for i in 0..8 step 2:`",
    );
    check("  for i in 0:4:\n    wait h", "H0024 1 `:`: a range is written with `..`: write `0..4`");
    check("  for i in 0...4:\n    wait h", "H0024 1 `...`: a range has two dots: write `0..4`");
    check("  for i = 0..4:\n    wait h", "H0001 1 `=`: expected `in`, found `=`: write `for i in 0..4:`");
    check("  for i 4:\n    wait h", "H0001 1 `4`: expected `in`, found `4`: write `for i in 4:`");
    check(
        "  for (i in 4):\n    wait h",
        "H0001 1 `(`: expected the name of the loop's index, found `(`: write `for i in 4:`",
    );
    check(
        "  for i, j in 4:\n    wait h",
        "H0001 1 `,`: expected `in`, found `,`: write `for i in 4:`, or `for i in 1..4:`",
    );
    check(
        "  for i in 4 on stream:\n    wait h",
        "H0001 1 `stream`: the iterations of a loop are on `streams`, not on `stream`: write `for i in 4 on streams:`",
    );
}

#[test]
fn python_slices() {
    check(
        "  V = A[0:4]",
        "H0024 1 `:`: an index is one number, not a range: `A[i]` is slice i, `A[:, i]` slice i of the second axis; a range is an op: `slice(A, ranges=[[start, end, step], ..])`, with one such list for each axis; its result needs a type",
    );
    check(
        "  V = A[:, 1:]",
        "H0024 1 `:`: an index is one number, not a range: `A[i]` is slice i, `A[:, i]` slice i of the second axis; a range is an op: `slice(A, ranges=[[start, end, step], ..])`, with one such list for each axis; its result needs a type",
    );
    check("  V = A[]", "H0001 1 `[]`: this index is empty: write the number of a slice: `A[i]`");
}

#[test]
fn printed_form() {
    check(
        "  FOR i from 0 to 4:\n    wait h",
        "H0024 1 `FOR`: `FOR` is a word of the printed form: write `for i in 0..4:`",
    );
    check("  FOR i in 4:\n    wait h", "H0024 1 `FOR`: `FOR` is a word of the printed form: write `for i in 4:`");
    check(
        "  for i from 0 to n step 2:\n    wait h",
        "H0024 1 `from`: a range is written with `..`: write `for i in 0..n step 2:`",
    );
    check(
        "  IF Manual ( a > 0 ):\n    wait h\n  ELSE:\n    wait g",
        "H0024 1 `IF`: `IF` is a word of the printed form: write `if a > 0:`\n\
         H0024 3 `ELSE`: `ELSE` is a word of the printed form: write `else:`",
    );
    check(
        "  T3_g_float[iS0{i0}] = Set( T1 )",
        "H0024 1 `T3_g_float`: `T3_g_float[..]` is the printed form of a tensor: write `T3: f32[i0] = Set( T1 )`",
    );
    check(
        "  T3_l___half[iS0{i0}, iS1{i1}] (DeviceMesh{0 1})\n     = Set( T1_g_float[iS0{i0}],\n  cache_op=Streaming )",
        "H0024 1 `T3_l___half`: `T3_l___half[..]` is the printed form of a tensor: declare it once, `T3: f16[m, n]`, and write `T3`; or put the whole statement in backquotes\n\
         H0003 3 `)`: this `)` has no opening bracket: remove it, or write the opening bracket before it",
    );
    check(
        "  X = relu(T3_g_float[])",
        "H0024 1 `T3_g_float`: `T3_g_float[..]` is the printed form of a tensor: write `X = relu(T3)`",
    );
    check("  Wait Communication 3", "H0024 1 `Wait`: `Wait` is a statement of the printed form: write `wait h3`");
    check(
        "  SetCurrentStream to Stream 1",
        "H0024 1 `SetCurrentStream`: `SetCurrentStream` is a statement of the printed form: write `stream 1`",
    );
    check(
        "  Deallocate {\n    T3_g_float[iS0{4}]\n  }",
        "H0024 1 `Deallocate`: `Deallocate` begins no statement of `hir 2`: write `free T`",
    );
    check(
        "  GetCurrentStream into Stream 0",
        "H0024 1 `GetCurrentStream`: `GetCurrentStream` is a statement of the printed form: write `stream 0 = current`",
    );
}

#[test]
fn slips() {
    check(
        "  { 1, 2 }",
        "H0001 1 `{`: expected a statement, found `{`: a statement is `name = value`, a call `f(..)`, or begins with `wait`, `for`, `if`, `stream`, `sync` or `free`",
    );
    check("  x == 4", "H0024 1 `==`: `==` compares: write `x = 4`");
    check("  if x = 4: wait h", "H0024 1 `=`: `=` compares nothing: write `==`");
    check("  if (x = 4): wait h", "H0024 1 `=`: `=` compares nothing: write `==`");
    check(
        "  x:4",
        "H0001 1 `4`: `4` is no type: `x:4` is an axis of a type, `f32[x:4, m]`; a value is given by `x = 4`",
    );
    check(
        "  x: 4 = 3",
        "H0001 1 `4`: `4` is no type: `x:4` is an axis of a type, `f32[x:4, m]`; a value is given by `x = 4`",
    );
    check("  C = f(x:4)", "H0024 1 `:`: an argument is `value` or `key=value`: write `C = f(x=4)`");
    check("  G f32[4] = alloc", "H0001 1 `f32`: expected `=`, found `f32`: write `G: f32[4] = alloc`");
    check("  int i = 3", "H0001 1 `i`: expected `=`, found `i`: write `i = 3`");
    check(
        "  fro i in 4:\n    wait h",
        "H0001 1 `fro`: `fro` begins no statement: did you mean `for`?: write `for i in 4:`",
    );
    check("  wiat h", "H0001 1 `wiat`: `wiat` begins no statement: did you mean `wait`?: write `wait h`");
    check(
        "  C = send(A, to=\"CUDA\")",
        "H0024 1 `\"CUDA\"`: texts in quotes are no values: write `C = send(A, to=CUDA)`",
    );
    check("  C = 'abc'", "H0024 1 `'abc'`: texts in quotes are no values: words are written without quotes: `abc`");
    check("  wait h, g", "H0001 1 `,`: `wait` waits for one post: write `wait h` and `wait g` on lines of their own");
    check(
        "  wait",
        "H0001 1 ``: expected a post or handle at the end of this line: write `wait h`, or `wait allgather(A -> G)`",
    );
    check("  sync", "H0001 1 ``: expected a stream at the end of this line: write `sync main`, or `sync 0`");
    check(
        "  stream",
        "H0001 1 ``: expected a stream at the end of this line: write `stream main`, or `stream 0 = current`",
    );
    check(
        "  stream 1 = curent",
        "H0001 1 `curent`: expected `current`, found `curent`: `stream 1 = current` gives the current stream this name",
    );
    check("  G: f32[x=4] = alloc", "H0001 1 `=`: expected `,` or `]`, found `=`: a spread axis is written `x:4`");
    check("  G: f32 = alloc", "H0001 1 `=`: expected `[`, found `=`: a type is an element type and axes: `f32[m, n]`");
    check("  G: = alloc", "H0001 1 `=`: expected an element type such as `f32`, found `=`: write `G: f32[m, n]`");
    check("  X = a ? b : c", "H0024 1 `?`: `?` is no operator: write `X = where(a, b, c)`");
    check("  X = A $ B", "H0020 1 `$`: unexpected character '$': names have no sign in front of them");
    check("  X = `a", "H0020 1 ``a`: this backquote has no partner: what stands in backquotes ends on the same line");
    check("  A + B", "H0001 1 `A + B`: `A + B` is no statement: a value needs a name: `X = A + B`");
    check(
        "  7 = x",
        "H0001 1 `7`: expected a statement, found `7`: a statement is `name = value`, a call `f(..)`, or begins with `wait`, `for`, `if`, `stream`, `sync` or `free`",
    );
    check("  /* a */", "H0024 1 `/*`: comments start with `//`, not with `/*`: write `// a`");
    check(
        "  x = 18446744073709551615",
        "H0009 1 `18446744073709551615`: the number `18446744073709551615` does not fit 64 bits: integers have 64 bits; a float is written with a point or exponent: `1e20`",
    );
    check(
        "  x = 9223372036854775808",
        "H0009 1 `9223372036854775808`: the number `9223372036854775808` does not fit 64 bits: the largest integer is 9223372036854775807",
    );
}

#[test]
fn brackets_and_lines() {
    check("  C = matmul(A, B\n  D = relu(C)", "H0002 1 `(`: this `(` is never closed: add `)` after `B`");
    check(
        "  C = matmul(A,\n  D = relu(C)\n  E = = 1",
        "H0002 1 `(`: this `(` is never closed: add `)`\n\
         H0001 3 `=`: expected an operand, found `=`: an operand is a number, a name, a call `f(a, b)` or a slice `A[i]`",
    );
    check("  C = matmul(A, B))", "H0003 1 `)`: this `)` has no opening bracket: write `C = matmul(A, B)`");
    check("  C = relu(D]", "H0002 1 `(`: this `(` is never closed: add `)` after `D`");
    check("  C[0 = Set(A)", "H0002 1 `[`: this `[` is never closed: add `]` after `0`");
    check("  G: f32[4, m = alloc", "H0002 1 `[`: this `[` is never closed: add `]` after `m`");
    check(
        "  h = { send(A, to=1)\n  C = alloc\n  D = alloc",
        "H0002 1 `{`: this `{` is never closed: add `}` after the last statement of the group",
    );
    check(
        "  h = {\n    send(A, to=1)\n  C = alloc",
        "H0002 1 `{`: this `{` is never closed: add `}` after the last statement of the group",
    );
    check(
        "  h = { send(A, to=1), recv(C, from=1) }",
        "H0001 1 `,`: statements of a group are separated by `;`: write `{ send(A, to=1); recv(B, from=3) }`, or each statement on a line of its own",
    );
    check(
        "  h = { send(A, to=1) recv(C, from=1) }",
        "H0001 1 `recv`: expected `;` or `}`, found `recv`: statements of a group are separated by `;` or stand on lines of their own",
    );
    check("  C = alloc;", "H0001 1 `;`: a statement ends with its line, without `;`: remove the `;`");
    check(
        "  C = alloc; D = alloc",
        "H0001 1 `;`: a line has one statement: write `C = alloc` and `D = alloc` on lines of their own",
    );
    check(
        "  C = alloc D = alloc",
        "H0001 1 `D`: expected the end of the statement, found `D`: a line has one statement",
    );
    check("  }", "H0003 1 `}`: this `}` has no opening bracket: remove it: blocks are indented, and have no braces");
    check(
        "  for i in 4 {\n    wait h\n  }",
        "H0024 1 `{`: blocks are indented, and have no braces: write `for i in 4:`, and leave out the `}`",
    );
    check(
        "  if (x) {\n    wait h\n  }",
        "H0024 1 `{`: blocks are indented, and have no braces: write `if x:`, and leave out the `}`",
    );
}

#[test]
fn headers_and_indentation() {
    check(
        "  for i in 4\n    wait h",
        "H0001 1 ``: expected `:` at the end of this line: write `for i in 4:`; its block is indented on the next lines",
    );
    check(
        "  if x\n    wait h\n  else\n    wait g",
        "H0001 1 ``: expected `:` at the end of this line: write `if x:`; its block is indented on the next lines\n\
         H0001 3 ``: expected `:` at the end of this line: write `else:`; its block is indented on the next lines",
    );
    check("  if x wait h", "H0001 1 `wait`: expected `:`, found `wait`: write `if x: wait h`");
    check(
        "  if a: if b: wait h",
        "H0001 1 `if`: `if` stands on a line of its own: write it on the next line, indented",
    );
    check(
        "  else: wait h",
        "H0024 1 `else`: `else` begins no statement of `hir 2`: an `else:` stands in the column of its `if`, directly after the block of that",
    );
    check(
        "  wait h\n    wait g",
        "H0005 2 `wait`: this line is indented by 4 blanks, the statements of its block by 2: only the block of a header that ends in `:` is indented more: write 2 blanks in front of it",
    );
    check(
        "    wait h\n  wait g\n  wait k",
        "H0005 2 `wait`: this line is indented by 2 blanks, the statements of its block by 4: statements of one block begin in one column: write 4 blanks in front of it",
    );
    check(
        "  if x:\n      wait h\n    wait g\n  wait k",
        "H0005 3 `wait`: this line is indented by 4 blanks, the statements of its block by 6: statements of one block begin in one column: write 6 blanks in front of it",
    );
    check(
        "\twait h\n\twait g",
        "H0005 1 `\t`: this line is indented by a tab: indent by blanks, two for each block; a tab counts as 8 here",
    );
    check(
        "  wait h:",
        "H0001 1 `:`: expected the end of the statement, found `:`: only the header of a block ends in `:`",
    );
    check(
        "  if a: stream 1: wait h",
        "H0001 1 `:`: expected the end of the statement, found `:`: only the header of a block ends in `:`",
    );
}

#[test]
fn heads() {
    check_file("hir 3\nf() -> ():\n", "H0017 1 `3`: this version of the language is not known: write `hir 2`");
    check_file(
        "hir 2\n",
        "H0008 2 ``: the text has no program: write the header as `name(A: f32[m, n]) -> (B: f32[m, n]) on d:`",
    );
    check_file(
        "hir 2\nsizes m = 3 k = 4\nf() -> ():\n",
        "H0001 2 `k`: sizes are written `name=number`, with `,` between them: write `sizes m=3, k=4`",
    );
    check_file(
        "hir 2\nsizes m: 3\nf() -> ():\n",
        "H0001 2 `:`: sizes are written `name=number`, with `,` between them: write `sizes m=3`",
    );
    check_file(
        "hir 2\nstreams = 3\nf() -> ():\n",
        "H0001 2 `=`: expected a number of streams, found `=`: write `streams 3`",
    );
    check_file(
        "hir 2\nstyle\nf() -> ():\n",
        "H0001 2 ``: expected a style at the end of this line: write `style 2025-06`",
    );
    check_file(
        "hir 2\nsizes m=9223372036854775808\nf() -> ():\n",
        "H0009 2 `9223372036854775808`: the number `9223372036854775808` does not fit 64 bits: the largest integer is 9223372036854775807",
    );
}

#[test]
fn meshes() {
    check_file(
        "hir 2\nmesh d = 4\nf() -> ():\n",
        "H0001 2 ``: expected `..` at the end of this line: `0..4` are the devices from 0 up to 4, exclusive; `[4]` is device 4 alone",
    );
    check_file(
        "hir 2\nmesh d = range(4)\nf() -> ():\n",
        "H0024 2 `range(4)`: a range of devices is written with `..`: write `mesh d = 0..4`",
    );
    check_file(
        "hir 2\nmesh d = DeviceMesh{0 1}\nf() -> ():\n",
        "H0024 2 `DeviceMesh{0 1}`: `DeviceMesh{0 1}` is no list of devices: write `mesh d = [0, 1]`",
    );
    check_file(
        "hir 2\nmesh d = (0, 1)\nf() -> ():\n",
        "H0024 2 `(0, 1)`: `(0, 1)` is no list of devices: write `mesh d = [0, 1]`",
    );
    check_file(
        "hir 2\nmesh d = [0, [1, 2]]\nf() -> ():\n",
        "H0015 2 `[0, [1, 2]]`: the lists of this mesh have different lengths: a mesh is a full grid: `[[0, 1], [2, 3]]`",
    );
    check_file(
        "hir 2\nmesh d = [[0], [1, 2]]\nf() -> ():\n",
        "H0015 2 `[[0], [1, 2]]`: the lists of this mesh have different lengths: a mesh is a full grid: `[[0, 1], [2, 3]]`",
    );
    check_file(
        "hir 2\nmesh d = []\nf() -> ():\n",
        "H0015 2 `[]`: this mesh has no devices: write `mesh d = 0..4`, or `mesh d = [[0, 1], [2, 3]]`",
    );
    check_file("hir 2\nmesh d = [0, 1\nf() -> ():\n", "H0002 2 `[`: this `[` is never closed: add `]` after `1`");
    check_file(
        "hir 2\nmesh d = [0 1]\nf() -> ():\n",
        "H0001 2 `1`: expected `,` or `]`, found `1`: write `,` between `0` and `1`",
    );
    check_file(
        "hir 2\nmesh d = 4..2\nf() -> ():\n",
        "H0015 2 `mesh d = 4..2`: this mesh has no devices: `4..2` are the devices from 4 up to 2, exclusive; the limit is 1048576",
    );
    check_file(
        "hir 2\nmesh d = 0..9000000\nf() -> ():\n",
        "H0015 2 `mesh d = 0..9000000`: this mesh has too many devices: `0..9000000` are the devices from 0 up to 9000000, exclusive; the limit is 1048576",
    );
    check_file(
        "hir 2\nmesh d = 9999999999..3\nf() -> ():\n",
        "H0009 2 `9999999999`: there is no device 9999999999: device numbers are less than 2147483647",
    );
    check_file(
        "hir 2\nmesh d = {}\nf() -> ():\n",
        "H0001 2 `{`: expected devices, found `{`: write `mesh d = 0..4`, or `mesh d = [[0, 1], [2, 3]]`",
    );
    check_file(
        "hir 2\nmesh d 0..4\nf() -> ():\n",
        "H0001 2 `0`: expected `=`, found `0`: write `mesh d = 0..4`, or `mesh d = [[0, 1], [2, 3]]`",
    );
    check_file(
        "hir 2\nmehs d = 0..4\nf() -> ():\n",
        "H0018 2 `mehs`: `mehs` begins neither a program nor a mesh: did you mean `mesh`?: write `mesh d = 0..4`",
    );
}

#[test]
fn items() {
    check_file(
        "hir 2\nA = alloc\nwait h\nfor i in 4:\n  C = alloc\nf() -> ():\n  x = = 1\n",
        "H0018 2 `A`: `A` begins neither a program nor a mesh: statements stand in a program, indented below a header `name(A: f32[m]) -> (B: f32[m]):`\n\
         H0001 7 `=`: expected an operand, found `=`: an operand is a number, a name, a call `f(a, b)` or a slice `A[i]`",
    );
    check_file(
        "hir 2\nf() -> ():\n  x = 1\ny = 2\nz = = 3\n",
        "H0018 4 `y`: this statement stands outside of the program: the statements of a program are indented, two blanks below its header",
    );
    check_file(
        "hir 2\n  f() -> ():\n    x = 1\ng() -> ():\n  x = = 1\n",
        "H0005 2 `f`: this line is indented, but belongs to no program: a program's header ends in `:`; other lines outside of programs begin in column 1\n\
         H0001 5 `=`: expected an operand, found `=`: an operand is a number, a name, a call `f(a, b)` or a slice `A[i]`",
    );
    check_file(
        "hir 2\n%HostIrContainer { () -> () :\n} // %HostIrContainer\n",
        "H0018 2 `%`: this is the printed form of a program: a file has one form: leave out the line `hir 2`, or convert with `hir-opt --form=hir2`",
    );
    check_file(
        "hir 2\nmain:\n  x = 1\n",
        "H0018 2 `main`: the header of `main` has no inputs and outputs: write `main(A: f32[m, n]) -> (B: f32[m, n]) on d:`",
    );
    check_file(
        "hir 2\ndef f(A: f32[m]) -> (B: f32[m]):\n  B = alloc\n",
        "H0024 2 `def`: `def` begins no program: write `f(A: f32[m]) -> (B: f32[m]):`",
    );
}

#[test]
fn program_headers() {
    check_file(
        "hir 2\nf(A: f32[m] -> (B: f32[m]):\n  x = = 1\ng() -> ():\n  y = = 1\n",
        "H0002 2 `(`: this `(` is never closed: add `)`\n\
         H0001 3 `=`: expected an operand, found `=`: an operand is a number, a name, a call `f(a, b)` or a slice `A[i]`\n\
         H0001 5 `=`: expected an operand, found `=`: an operand is a number, a name, a call `f(a, b)` or a slice `A[i]`",
    );
    check_file(
        "hir 2\nf(A f32[m]) -> (B: f32[m]):\n  x = = 1\ng() -> ():\n  y = = 1\n",
        "H0001 2 `f32`: a tensor is written `name: type`: write `f(A: f32[m]) -> (B: f32[m]):`\n\
         H0001 3 `=`: expected an operand, found `=`: an operand is a number, a name, a call `f(a, b)` or a slice `A[i]`\n\
         H0001 5 `=`: expected an operand, found `=`: an operand is a number, a name, a call `f(a, b)` or a slice `A[i]`",
    );
    check_file(
        "hir 2\nf(A: f32[m]), (B: f32[m]):\n  x = = 1\ng() -> ():\n  y = = 1\n",
        "H0001 2 `,`: expected `->`, found `,`: write the header as `name(A: f32[m, n]) -> (B: f32[m, n]) on d:`\n\
         H0001 3 `=`: expected an operand, found `=`: an operand is a number, a name, a call `f(a, b)` or a slice `A[i]`\n\
         H0001 5 `=`: expected an operand, found `=`: an operand is a number, a name, a call `f(a, b)` or a slice `A[i]`",
    );
    check_file(
        "hir 2\nf(A: f32[m]) -> B: f32[m]:\n  x = = 1\ng() -> ():\n  y = = 1\n",
        "H0001 2 `B`: expected `(`, found `B`: write `(B: f32[m])`\n\
         H0001 3 `=`: expected an operand, found `=`: an operand is a number, a name, a call `f(a, b)` or a slice `A[i]`\n\
         H0001 5 `=`: expected an operand, found `=`: an operand is a number, a name, a call `f(a, b)` or a slice `A[i]`",
    );
    check_file(
        "hir 2\nf(A: f32[m]):\n  x = = 1\ng() -> ():\n  y = = 1\n",
        "H0001 2 `:`: expected `->`, found `:`: write the header as `name(A: f32[m, n]) -> (B: f32[m, n]) on d:`\n\
         H0001 3 `=`: expected an operand, found `=`: an operand is a number, a name, a call `f(a, b)` or a slice `A[i]`\n\
         H0001 5 `=`: expected an operand, found `=`: an operand is a number, a name, a call `f(a, b)` or a slice `A[i]`",
    );
    check_file(
        "hir 2\nf() -> () on:\n  x = = 1\ng() -> ():\n  y = = 1\n",
        "H0001 2 `:`: expected the name of a mesh, found `:`: write `on d:`\n\
         H0001 3 `=`: expected an operand, found `=`: an operand is a number, a name, a call `f(a, b)` or a slice `A[i]`\n\
         H0001 5 `=`: expected an operand, found `=`: an operand is a number, a name, a call `f(a, b)` or a slice `A[i]`",
    );
    check_file(
        "hir 2\nf() -> () @d:\n  x = = 1\ng() -> ():\n  y = = 1\n",
        "H0001 2 `@`: a program's mesh stands after `on`: write `on d:`\n\
         H0001 3 `=`: expected an operand, found `=`: an operand is a number, a name, a call `f(a, b)` or a slice `A[i]`\n\
         H0001 5 `=`: expected an operand, found `=`: an operand is a number, a name, a call `f(a, b)` or a slice `A[i]`",
    );
    check_file(
        "hir 2\nf() -> ()\n  x = = 1\ng() -> ():\n  y = = 1\n",
        "H0001 2 ``: expected `:` at the end of this line: write `f() -> ():`; its block is indented on the next lines\n\
         H0001 3 `=`: expected an operand, found `=`: an operand is a number, a name, a call `f(a, b)` or a slice `A[i]`\n\
         H0001 5 `=`: expected an operand, found `=`: an operand is a number, a name, a call `f(a, b)` or a slice `A[i]`",
    );
    check_file(
        "hir 2\nf() -> () {\n  x = = 1\ng() -> ():\n  y = = 1\n",
        "H0024 2 `{`: blocks are indented, and have no braces: write `f() -> ():`\n\
         H0001 3 `=`: expected an operand, found `=`: an operand is a number, a name, a call `f(a, b)` or a slice `A[i]`\n\
         H0001 5 `=`: expected an operand, found `=`: an operand is a number, a name, a call `f(a, b)` or a slice `A[i]`",
    );
    check_file(
        "hir 2\nkernel f:\n  x = = 1\ng() -> ():\n  y = = 1\n",
        "H0001 2 `:`: expected `(`, found `:`: inputs and outputs stand in parentheses: `name(A: f32[m]) -> (B: f32[m]):`\n\
         H0001 3 `=`: expected an operand, found `=`: an operand is a number, a name, a call `f(a, b)` or a slice `A[i]`\n\
         H0001 5 `=`: expected an operand, found `=`: an operand is a number, a name, a call `f(a, b)` or a slice `A[i]`",
    );
    check_file(
        "hir 2\nf(\n  A: f32[m],\n  B: = 3,\n) -> ():\n  x = = 1\ng() -> ():\n  y = = 1\n",
        "H0001 4 `=`: expected an element type such as `f32`, found `=`: a name is a word of letters, digits and `_` that does not begin with a digit\n\
         H0001 6 `=`: expected an operand, found `=`: an operand is a number, a name, a call `f(a, b)` or a slice `A[i]`\n\
         H0001 8 `=`: expected an operand, found `=`: an operand is a number, a name, a call `f(a, b)` or a slice `A[i]`",
    );
}
