//! The programs of the rows, as `tools/overlap-bench` writes them: text in front of a lowering, the lowering, and the
//! number of streams.

use super::rows::{DEVICES, Row};

/// A program and the passes that lower it.
pub(crate) struct WayProgram {
    pub(crate) text: String,
    /// None where the program is written as it runs.
    pub(crate) passes: &'static str,
    pub(crate) streams: u32,
}

const ON: &str = "(DeviceMesh{0 1 2 3})";

/// The program of a way of a row.
pub(crate) fn way_program(row: &Row, way: &str) -> WayProgram {
    let (template, passes) = match (row.kind, way) {
        ("ag", "pairwise") => (AG_PARTS, "host-ir-lower"),
        ("ag", "ring") => (AG_PARTS, "host-ir-lower{allgather=ring}"),
        ("ag", "ring-cuda") => {
            (AG_PARTS, "host-ir-lower{allgather=ring,communicator_backend=CUDA,p2p_protocol=put,p2p_stream=own}")
        }
        ("ag", "push") => (AG_PLAIN, "overlap-lower"),
        ("ag", "serial") => (AG_PLAIN, "host-ir-lower"),
        ("rs", "p2p") => (RS_PARTS, "host-ir-lower{matmul_reduce_scatter=p2p,own_part=last}"),
        ("rs", "p2p-cuda") => (
            RS_PARTS,
            "host-ir-lower{matmul_reduce_scatter=p2p,own_part=last,communicator_backend=CUDA,p2p_protocol=put,p2p_stream=own}",
        ),
        ("rs", "accumulate") => (RS_PLAIN, "overlap-lower"),
        ("rs", "serial") => (RS_PLAIN, "host-ir-lower"),
        ("ar", "accumulate") => (AR_PLAIN, "overlap-lower"),
        ("ar", "exchange") => (AR_PLAIN, "overlap-lower{matmul_allreduce=p2p}"),
        ("ar", "serial") => (AR_PLAIN, "host-ir-lower"),
        ("mlp", "overlap") => (MLP_PLAIN, "overlap-lower"),
        ("mlp", "exchange") => (MLP_PLAIN, "overlap-lower{matmul_reduce_scatter=p2p}"),
        ("mlp", "serial") => (MLP_PLAIN, "host-ir-lower"),
        ("mlp", "gemm") => (MLP_GEMM, ""),
        ("mlp", "gemm-parts") => (MLP_GEMM_PARTS, ""),
        ("mlp", _) => (MLP_COMM, ""),
        ("ag", "gemm") => (AG_GEMM, ""),
        ("ag", "gemm-parts") => (AG_GEMM_PARTS, ""),
        ("ag", _) => (AG_COMM, ""),
        (_, "gemm") => (RS_GEMM, ""),
        (_, "gemm-parts") => (RS_GEMM_PARTS, ""),
        ("rs", _) => (RS_COMM, ""),
        _ => (AR_COMM, ""),
    };
    let is_sharded = row.kind == "rs" || row.kind == "ar";
    let [rows, depth, columns] = row.sizes;
    let depth = if is_sharded { depth / DEVICES } else { depth };
    let columns = if row.kind == "mlp" { columns / DEVICES } else { columns };
    let numbers = [("$m", rows / DEVICES), ("$M", rows), ("$k", depth), ("$n", columns)];
    let text = numbers
        .iter()
        .fold(template.replace("$on", ON), |text, (name, number)| text.replace(name, &number.to_string()));
    let streams = match (row.kind, way) {
        ("rs", _) | (_, "exchange") => 4,
        _ => 2,
    };
    WayProgram { text, passes, streams }
}

const AG_PARTS: &str = "\
%HostIrContainer { (T0_g___bfloat[ideviceIdx.x0{4}, iS1{$m}, iS2{$k}] $on, T1_g___bfloat[iS3{$k}, iS4{$n}] $on) -> (T2_g___bfloat[iStreamIdx5{4}, iS6{$m}, iS7{$n}, rS8{$k}] $on) :
  T2
     = matmul(T0, T1)
} // %HostIrContainer
";

const AG_PLAIN: &str = "\
%HostIrContainer { (T0_g___bfloat[ideviceIdx.x0{4}, iS1{$m}, iS2{$k}] $on, T1_g___bfloat[iS3{$k}, iS4{$n}] $on) -> (T2_g___bfloat[iS5{4}, iS6{$m}, iS7{$n}, rS8{$k}] $on) :
  T2
     = matmul(T0, T1)
} // %HostIrContainer
";

const RS_PARTS: &str = "\
%HostIrContainer { (T0_g___bfloat[ideviceIdx.x0{4}, iStreamIdx1{4}, iS2{$m}, iS3{$k}] $on, T1_g___bfloat[ideviceIdx.x4{4}, bS5{1}, iS6{$k}, iS7{$n}] $on) -> (T4_g___bfloat[rS17{4}, ideviceIdx.x18{4}, iS19{$m}, iS20{$n}] $on) :
  T2_g___bfloat[ideviceIdx.x8{4}, iStreamIdx9{4}, iS10{$m}, iS11{$n}, rS12{$k}] $on
     = matmul(T0, T1)
  T3_g___bfloat[iStreamIdx13{4}, ideviceIdx.x14{4}, iS15{$m}, iS16{$n}] $on
     = Set( T2, cache_op=Streaming )
  T4
     = reduction( T3, op = add, initial value = __bfloat(0), allreduce = false )
} // %HostIrContainer
";

const RS_PLAIN: &str = "\
%HostIrContainer { (T0_g___bfloat[ideviceIdx.x0{4}, iS1{4}, iS2{$m}, iS3{$k}] $on, T1_g___bfloat[ideviceIdx.x4{4}, bS5{1}, iS6{$k}, iS7{$n}] $on) -> (T4_g___bfloat[rS17{4}, ideviceIdx.x18{4}, iS19{$m}, iS20{$n}] $on) :
  T2_g___bfloat[ideviceIdx.x8{4}, iS9{4}, iS10{$m}, iS11{$n}, rS12{$k}] $on
     = matmul(T0, T1)
  T4
     = reduction( T2, op = add, initial value = __bfloat(0), allreduce = false )
} // %HostIrContainer
";

const AR_PLAIN: &str = "\
hir 2
mesh d = 0..4

ar(A: bf16[x:4, 4, $m, $k], B: bf16[x:4, b.1, $k, $n]) -> (Y: bf16[r.4, 4, $m, $n]) on d:
  P: bf16[x:4, 4, $m, $n, r.$k] = matmul(A, B)
  Y = reduction(P, op=add, init=bf16(0), allreduce=false)
";

const MLP_PLAIN: &str = "\
hir 2
mesh d = 0..4

mlp(X: bf16[x:4, $m, $k], W1: bf16[x:4, b.1, $k, $n], W2: bf16[x:4, b.1, $n, $k]) -> (Y: bf16[r.4, x:4, $m, $k]) on d:
  G = broadcast(X, flags=[true, false, false, false])
  U: bf16[x:4, 4, $m, $n, r.$k] = matmul(G, W1)
  V = relu(U)
  P = matmul(V, W2)
  Y = reduction(P, op=add, init=bf16(0), allreduce=false)
";

const AG_GEMM: &str = "\
hir 2
mesh d = 0..4

gemm(X: bf16[$M, $k], W: bf16[$k, $n]) -> () on d:
  Y: bf16[$M, $n] = alloc
  Y = matmul(X, W)
";

const RS_GEMM: &str = "\
hir 2
mesh d = 0..4

gemm(X: bf16[x:4, $M, $k], W: bf16[x:4, $k, $n]) -> () on d:
  Y: bf16[x:4, $M, $n] = alloc
  Y[own] = matmul(X[own], W[own])
";

const AG_GEMM_PARTS: &str = "\
hir 2
mesh d = 0..4

parts(X: bf16[4, $m, $k], W: bf16[$k, $n]) -> () on d:
  Y: bf16[4, $m, $n] = alloc
  for p in 4: Y[p] = matmul(X[p], W)
";

const RS_GEMM_PARTS: &str = "\
hir 2
mesh d = 0..4

parts(X: bf16[x:4, 4, $m, $k], W: bf16[x:4, b.1, $k, $n]) -> () on d:
  Y: bf16[x:4, 4, $m, $n] = alloc
  for p in 4: Y[own, p] = matmul(X[own, p], W[own, 0])
";

const MLP_GEMM: &str = "\
hir 2
mesh d = 0..4

products(X: bf16[$M, $k], W1: bf16[x:4, $k, $n], W2: bf16[x:4, $n, $k]) -> () on d:
  U: bf16[x:4, $M, $n] = alloc
  Y: bf16[x:4, $M, $k] = alloc
  U[own] = matmul(X, W1[own])
  Y[own] = matmul(U[own], W2[own])
";

const MLP_GEMM_PARTS: &str = "\
hir 2
mesh d = 0..4

products(X: bf16[4, $m, $k], W1: bf16[x:4, $k, $n], W2: bf16[x:4, $n, $k]) -> () on d:
  U: bf16[x:4, 4, $m, $n] = alloc
  Y: bf16[x:4, 4, $m, $k] = alloc
  for p in 4: U[own, p] = matmul(X[p], W1[own])
  for q in 4: Y[own, q] = matmul(U[own, q], W2[own])
";

const MLP_COMM: &str = "\
hir 2
mesh d = 0..4

comm(X: bf16[x:4, $m, $k], P: bf16[x:4, 4, $m, $k]) -> () on d:
  G: bf16[4, $m, $k] = alloc
  Y: bf16[r.4, x:4, $m, $k] = alloc
  wait allgather(X -> G)
  wait reduce_scatter(P -> Y)
";

const AG_COMM: &str = "\
hir 2
mesh d = 0..4

comm(X: bf16[x:4, $m, $k]) -> () on d:
  G: bf16[4, $m, $k] = alloc
  wait allgather(X -> G)
";

const RS_COMM: &str = "\
hir 2
mesh d = 0..4

comm(P: bf16[x:4, 4, $m, $n]) -> () on d:
  Y: bf16[r.4, x:4, $m, $n] = alloc
  wait reduce_scatter(P -> Y)
";

const AR_COMM: &str = "\
hir 2
mesh d = 0..4

comm(P: bf16[x:4, $M, $n]) -> () on d:
  Y: bf16[r.4, $M, $n] = alloc
  wait allreduce(P -> Y)
";
