//! Lines of other languages: each is one error, whose edit is the line to write, which the parser reads.

use hostir_grammar::hir2::parse;

/// The place and message of the one error of a statement, and the statement after its edit.
fn answer(head: &str, statement: &str) -> (String, String) {
    let text = format!("hir 2.1\n{head}\n  {statement}\n");
    let errors = parse(&text).errors;
    assert_eq!(errors.len(), 1, "{statement}: {errors:#?}");
    let error = &errors[0];
    let edit = error.edit.as_ref().expect(statement);
    let mut changed = text.clone();
    changed.replace_range(edit.span.as_usize_range(), &edit.text);
    assert!(parse(&changed).errors.is_empty(), "{changed}");
    let start = text.len() - statement.len() - 1;
    let said = format!("`{}`: {}", &text[error.span.as_usize_range()], error.message);
    (said, changed[start..].trim_end().to_owned())
}

fn check(statement: &str, message: &str, meant: &str) {
    let found = answer("f(X: f32[x:p, n, n], A: f32[m, k]) -> (Y: f32[2, n]):", statement);
    assert_eq!(found, (message.to_owned(), meant.to_owned()), "{statement}");
}

/// Checks the line alone.
fn check_meant(statement: &str, meant: &str) {
    let found = answer("f(X: f32[x:p, n, n], A: f32[m, k]) -> (Y: f32[2, n]):", statement);
    assert_eq!(found.1, meant, "{statement}");
}

#[test]
fn mlir_and_the_printed_form() {
    check(
        "%0 = matmul(G, B) : f32[p, m, n]",
        "`%0`: a name has no `%` in front of it",
        "v0: f32[p, m, n] = matmul(G, B)",
    );
    check_meant("C = Set(%0)", "C = Set(v0)");
    check_meant(
        "%C = matmul(%A, %B) : (tensor<4x8xf32>, tensor<8x2xf32>) -> tensor<4x2xf32>",
        "C: f32[4, 2] = matmul(A, B)",
    );
    check_meant("C[own] = matmul(A, B) : f32[m, n];", "C[own] = matmul(A, B)");
    check_meant("wait allgather(&A -> &G);", "wait allgather(A -> G)");
    check(
        "T2_g_float[iS4{i0}, ideviceIdx.x5{4}] = matmul(T0_g_float[iS0{i0}, iS1{i1}], T1_l___bfloat[iS2{i1}]);",
        "`T2_g_float`: `T2_g_float[..]` is the printed form of a tensor",
        "T2: f32[i0, x:4] = matmul(T0, T1)",
    );
}

#[test]
fn types_in_other_places() {
    check(
        "G = alloc: f32[p, m]",
        "`: f32[p, m]`: a type stands after the name of a result, not at the end",
        "G: f32[p, m] = alloc",
    );
    check("let G: f32[p, m] = alloc", "`let`: `let` begins no statement", "G: f32[p, m] = alloc");
    check(
        "float G[p][m][k] = alloc",
        "`float`: `float` stands in front of a name: a type stands after it",
        "G: f32[p, m, k] = alloc",
    );
    check_meant("double buffer[2][n];", "buffer: f64[2, n] = alloc");
    check_meant("const auto right = (rank + 1) % p;", "right = (rank + 1) % p");
}

#[test]
fn values_with_conditions() {
    check("who = 0 if s == 0 else p - 1", "`if`: a value has no condition after it", "who = where(s == 0, 0, p - 1)");
    check_meant(
        "wait broadcast(X -> Y, root=0 if s == 0 else p - 1)",
        "wait broadcast(X -> Y, root=where(s == 0, 0, p - 1))",
    );
    check_meant("who = 0 if s == 0 else 1 if s == 1 else 2", "who = where(s == 0, 0, where(s == 1, 1, 2))");
    check("who = s == 0 ? 0 : p - 1", "`?`: `?` is no operator", "who = where(s == 0, 0, p - 1)");
    check_meant("send(X[own], to=(s == 0) ? 1 : 2)", "send(X[own], to=where(s == 0, 1, 2))");
    check("wait h if s > 0", "`if`: a statement has no condition after it", "if s > 0: wait h");
}

#[test]
fn several_assignments() {
    check(
        "right, left = (rank + 1) % p, wrap(rank - 1, p)",
        "`right, left`: a statement gives one value to one name",
        "right = (rank + 1) % p\n  left = wrap(rank - 1, p)",
    );
    check_meant("a = b = 0", "b = 0\n  a = 0");
}

#[test]
fn ranges_of_tensors() {
    let message = "an index is one number, not a range: a range is an op, `slice`";
    check("Z = A[0:2]", &format!("`[0:2]`: {message}"), "Z: f32[2, k] = slice(A, ranges=[[0, 2, 1], [0, k, 1]])");
    check_meant("Y = A[1:-1, 2]", "Y = slice(A[:, 2], ranges=[[1, m - 1, 1]])");
    check_meant("Y = relu(A[:4])", "U: f32[4, k] = slice(A, ranges=[[0, 4, 1], [0, k, 1]])\n  Y = relu(U)");
    let copied = answer("f(X: f32[x:p, n, n]) -> (Y: f32[2, n]):\n  V = X[own]", "Y = relu(V[0:2])");
    assert_eq!(copied.1, "U: f32[2, n] = slice(V, ranges=[[0, 2, 1], [0, n, 1]])\n  Y = relu(U)");
}

#[test]
fn calls_of_other_languages() {
    check_meant("printf(\"%d\", rank);", "print rank");
    check_meant("print(\"rank\", rank, s)", "print rank, s");
    check_meant("print(f\"at {rank} {s:3d}\")", "print rank, s");
    check_meant("std::cout << rank << std::endl;", "print rank");
    check_meant("assert m % p == 0 : \"rows divide\"", "assert m % p == 0, \"rows divide\"");
    check_meant("assert(m % p == 0 && \"rows divide\");", "assert m % p == 0, \"rows divide\"");
    check(
        "Y = A[own].relu()",
        "`.relu`: tensors have no methods: `relu` is written in front of its operand",
        "Y = relu(A[own])",
    );
    check_meant("Y = A[own].float()", "Y = f32(A[own])");
    check_meant("wait allreduce(X -> Y, op=\"max\")", "wait allreduce(X -> Y, op=max)");
    check_meant("h = send(X[own], to: rank + 1)", "h = send(X[own], to=rank + 1)");
}

#[test]
fn other_words_of_statements() {
    check_meant("del A", "free A");
    check_meant("await h", "wait h");
    check_meant("return Y", "");
}

#[test]
fn chains_of_branches() {
    let text = "hir 2.1\nf() -> ():\n  if s == 0:\n    wait a\n  elif s < m:\n    wait b\n  // the rest\n  else:\n    wait c\n";
    let errors = parse(text).errors;
    let edit = errors[0].edit.as_ref().expect("an edit");
    let mut changed = text.to_owned();
    changed.replace_range(edit.span.as_usize_range(), &edit.text);
    assert_eq!((errors.len(), parse(&changed).errors), (1, Vec::new()), "{changed}");
    assert!(
        changed.contains("  if s != 0 && s < m:\n    wait b\n  // the rest\n  if s != 0 && s >= m:\n    wait c\n"),
        "{changed}"
    );
    let alone = parse("hir 2.1\nf() -> ():\n  elif s == 0:\n    wait h\n").errors;
    assert!(alone.iter().all(|error| error.edit.is_none()), "{alone:?}");
}

#[test]
fn communications_of_other_libraries() {
    for (statement, meant) in [
        ("dist.all_reduce(A)", "wait allreduce(A -> A)"),
        ("dist.all_reduce(A, op=dist.ReduceOp.MAX)", "wait allreduce(A -> A, op=max)"),
        ("torch.distributed.all_reduce(A, op=dist.ReduceOp.SUM)", "wait allreduce(A -> A)"),
        ("MPI_Allreduce(A, B, n * k, MPI_FLOAT, MPI_MIN, MPI_COMM_WORLD);", "wait allreduce(A -> B, op=min)"),
        ("MPI_Allreduce(MPI_IN_PLACE, A, n, MPI_FLOAT, MPI_SUM, comm)", "wait allreduce(A -> A)"),
        ("ncclAllReduce(A, B, n, ncclFloat, ncclProd, comm, stream)", "wait allreduce(A -> B, op=product)"),
        ("dist.all_gather_into_tensor(G, A)", "wait allgather(A -> G)"),
        ("MPI_Allgather(A, n, MPI_FLOAT, G, n, MPI_FLOAT, comm)", "wait allgather(A -> G)"),
        ("dist.reduce_scatter_tensor(Y, A, op=dist.ReduceOp.AVG)", "wait reduce_scatter(A -> Y, op=avg)"),
        ("dist.all_to_all_single(Y, A)", "wait all_to_all(A -> Y)"),
        ("dist.broadcast(A, src=0)", "wait broadcast(A -> A, root=0)"),
        ("dist.broadcast(A, 2)", "wait broadcast(A -> A, root=2)"),
        ("MPI_Bcast(A, n * k, MPI_FLOAT, 0, MPI_COMM_WORLD)", "wait broadcast(A -> A, root=0)"),
        ("MPI_Reduce(A, B, n, MPI_FLOAT, MPI_SUM, 1, comm)", "wait reduce(A -> B, root=1)"),
        ("dist.send(A[own], dst=rank + 1)", "wait send(A[own], to=rank + 1)"),
        ("dist.recv(A, src=0)", "wait recv(A, from=0)"),
        ("ncclSend(A, n, ncclFloat, 1, comm, stream)", "wait send(A, to=1)"),
        ("MPI_Recv(A, n, MPI_FLOAT, rank - 1, 0, comm, status)", "wait recv(A, from=rank - 1)"),
    ] {
        check_meant(statement, meant);
    }
    // Without a peer nobody knows the line, and a call of one's own is no call of a library.
    for statement in ["dist.send(A)", "all_reduce2(A)", "broadcast(A, flags=[true])"] {
        assert_eq!(parse(&format!("hir 2.1\nf(A: f32[m]) -> ():\n  {statement}\n")).errors, [], "{statement}");
    }
}

#[test]
fn streams_of_torch_are_blocks() {
    let text = "hir 2.1\nf(A: f32[m]) -> (Y: f32[m]):\n  with torch.cuda.stream(i % 2):\n    Y = relu(A)\n";
    let errors = parse(text).errors;
    let [error] = errors.as_slice() else { panic!("{errors:#?}") };
    assert_eq!(error.edit.as_ref().map(|edit| edit.text.as_str()), Some("stream i % 2:"));
}

/// Checks the edit of a line in column 1.
fn check_item(line: &str, meant: &str) {
    let rest = if line.ends_with([':', '{']) { "  C = alloc\n" } else { "f() -> ():\n  wait h\n" };
    let text = format!("hir 2.1\n{line}\n{rest}");
    let errors = parse(&text).errors;
    assert_eq!(errors.len(), 1, "{line}: {errors:#?}");
    let edit = errors[0].edit.as_ref().expect(line);
    let mut changed = text.clone();
    changed.replace_range(edit.span.as_usize_range(), &edit.text);
    assert_eq!(changed.lines().nth(1), Some(meant), "{line}");
}

#[test]
fn lines_in_column_1() {
    check_item("sizes p=4 m=3", "sizes p=4, m=3");
    check_item("sizes p: 4; m: 3", "sizes p=4, m=3");
    check_item("mesh d = [y=a, x=b]", "mesh d = [y:a, x:b]");
    check_item("mesh d = [0..p]", "mesh d = 0..p");
    check_item("mesh d = 0:p", "mesh d = 0..p");
    check_item("g(X: f32[n]) (Y: f32[n]):", "g(X: f32[n]) -> (Y: f32[n]):");
    check_item("g(X f32[n], f32[n] Z) => (Y: f32[n]):", "g(X: f32[n], Z: f32[n]) -> (Y: f32[n]):");
    check_item("def g(X: f32[n]) -> (Y: f32[n]):", "g(X: f32[n]) -> (Y: f32[n]):");
    check_item("__global__ void g(X: f32[n]) -> (Y: f32[n]):", "kernel g(X: f32[n]) -> (Y: f32[n]):");
    check_item("kernel: g(X: f32[n]) -> (Y: f32[n]):", "kernel g(X: f32[n]) -> (Y: f32[n]):");
}

#[test]
fn words_in_another_arrangement() {
    check_meant("wait allreduce(X, Y)", "wait allreduce(X -> Y)");
    check_meant("wait all_gather(X -> Y)", "wait allgather(X -> Y)");
    check_meant("wait gather(X -> Y, root==0)", "wait gather(X -> Y, root=0)");
    check_meant("h = send(X[own], rank + 1)", "h = send(X[own], to=rank + 1)");
    check_meant("wait(h[2])", "wait h[2]");
    check_meant("wait 1", "sync 1");
    check_meant("sync 1, 2", "sync 1\n  sync 2");
    check_meant("Y = Set.Permute(A, [1, 0])", "Y = Set.Permute(A, perm=[1, 0])");
    check_meant("Y = A.t()", "Y = Set.Permute(A, perm=[1, 0])");
    check_meant("Y = relu A", "Y = relu(A)");
    check_meant("Y == relu(A)", "Y = relu(A)");
    check_meant("Y <- allgather(X)", "wait allgather(X -> Y)");
    check_meant("G: [m, k] f32 = alloc", "G: f32[m, k] = alloc");
    check_meant("G: f32[m] = zeros(m)", "G: f32[m] = alloc(zero)");
    check_meant("G: f32[m] = alloc(zero=True)", "G: f32[m] = alloc(zero)");
    check_meant("if s is not 0 then wait h", "if s != 0: wait h");
    check_meant("Y = relu(A),", "Y = relu(A)");
    check_meant("Y = pad(A, value=0.5f)", "Y = pad(A, value=f32(0.5))");
}
