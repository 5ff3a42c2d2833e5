//! The programs that a calibration times: each shows one rate of a machine.

/// A program, and the rate that its time shows.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Probe {
    /// The name in the comments of the file, by which the solver finds its time.
    pub(super) name: &'static str,
    pub(super) text: String,
}

/// The edge of large products, and that of small ones.
pub(super) const EDGE: usize = 8192;
pub(super) const SMALL_EDGE: usize = 512;
/// The edges of products of 32 and of 64 bits.
pub(super) const EDGE_32: usize = 4096;
pub(super) const EDGE_64: usize = 2048;
/// The number of operations of a chain.
pub(super) const CHAIN: usize = 100;
/// The elements of 4 bytes that are copied within a GPU.
pub(super) const COPIED: usize = 1 << 27;
/// The elements of 4 bytes of a small and of a large communication of a rank.
pub(super) const FEW: usize = 1 << 18;
pub(super) const MANY: usize = 1 << 24;
/// The elements of a message that takes longer than the product beside it.
pub(super) const MOST: usize = 1 << 27;
/// The times that a small communication is repeated.
pub(super) const REPEATS: usize = 20;
/// The depth of the product whose result crosses the link.
pub(super) const SHALLOW: usize = 512;

/// The probes of so many GPUs. A product of 8-bit floats is one of them only if `has_fp8`.
pub(super) fn list_probes(devices: usize, has_fp8: bool) -> Vec<Probe> {
    let mut probes = local_probes(devices);
    if has_fp8 {
        probes.push(gemm8_probe(devices));
    }
    if devices > 1 {
        probes.extend(communication_probes(devices));
    }
    probes
}

fn probe(name: &'static str, devices: usize, body: String) -> Probe {
    Probe { name, text: format!("hir 2\nmesh d = 0..{devices}\n\n{body}") }
}

fn gemm_text(dtype: &str, edge: usize) -> String {
    format!(
        "gemm(X: {dtype}[{edge}, {edge}], W: {dtype}[{edge}, {edge}]) -> () on d:\n  \
         Y: {dtype}[{edge}, {edge}] = alloc\n  Y = matmul(X, W)\n"
    )
}

fn local_probes(devices: usize) -> Vec<Probe> {
    let small = format!(
        "gemms(X: bf16[{SMALL_EDGE}, {SMALL_EDGE}], W: bf16[{SMALL_EDGE}, {SMALL_EDGE}]) -> () on d:\n  \
         Y: bf16[{SMALL_EDGE}, {SMALL_EDGE}] = alloc\n  for i in {CHAIN}: Y = matmul(X, W)\n"
    );
    let rows = EDGE / 4;
    let parts = format!(
        "parts(X: bf16[4, {rows}, {EDGE}], W: bf16[{EDGE}, {EDGE}]) -> () on d:\n  \
         Y: bf16[4, {rows}, {EDGE}] = alloc\n  for p in 4: Y[p] = matmul(X[p], W)\n"
    );
    let copy = format!("copy(X: f32[{COPIED}]) -> () on d:\n  Y: f32[{COPIED}] = alloc\n  Y = Set(X)\n");
    let reduction = format!(
        "reduce(X: bf16[4, {rows}, {EDGE}]) -> () on d:\n  \
         Y: bf16[r.4, {rows}, {EDGE}] = reduction(X, op=add, init=bf16(0), allreduce=false)\n"
    );
    let kernels = format!("kernels(X: f32[64]) -> () on d:\n  Y: f32[64] = alloc\n  for i in {CHAIN}: Y = relu(X)\n");
    let events = format!(
        "events(X: f32[64]) -> () on d:\n  stream 0 = current\n  for i in {CHAIN}:\n    stream 1\n    sync 0\n    \
         stream 0\n    sync 1\n"
    );
    vec![
        probe("gemm16", devices, gemm_text("bf16", EDGE)),
        probe("gemm16-parts", devices, parts),
        probe("gemm16-small", devices, small),
        probe("gemm32", devices, gemm_text("f32", EDGE_32)),
        probe("gemm64", devices, gemm_text("f64", EDGE_64)),
        probe("copy", devices, copy),
        probe("reduction", devices, reduction),
        probe("kernels", devices, kernels),
        probe("events", devices, events),
    ]
}

fn gemm8_probe(devices: usize) -> Probe {
    let text = format!(
        "gemm(X: f8e4m3[{EDGE}, {EDGE}], W: f8e4m3[{EDGE}, {EDGE}]) -> () on d:\n  \
         Y: bf16[{EDGE}, {EDGE}] = alloc\n  T = Set.Permute(W, perm=[1, 0])\n  Y = matmul(X, T)\n"
    );
    probe("gemm8", devices, text)
}

fn communication_probes(devices: usize) -> Vec<Probe> {
    let d = devices;
    let scatter = format!(
        "scatter(P: f32[x:{d}, {d}, {MANY}]) -> () on d:\n  Y: f32[r.{d}, x:{d}, {MANY}] = alloc\n  \
         wait reduce_scatter(P -> Y)\n"
    );
    let sum =
        format!("sum(P: f32[x:{d}, {MANY}]) -> () on d:\n  Y: f32[r.{d}, {MANY}] = alloc\n  wait allreduce(P -> Y)\n");
    let [to, from] = ring_neighbours(d);
    let stores = format!(
        "store(A: bf16[x:{d}, {EDGE}, {SHALLOW}], B: bf16[x:{d}, {SHALLOW}, {EDGE}]) -> () on d:\n  \
         R: bf16[{EDGE}, {EDGE}] = alloc\n  h = recv(R, {from}, via=CUDA, protocol=put)\n  \
         P = matmul(A[own], B[own])\n  wait send(P, {to}, via=CUDA, protocol=put)\n  wait h\n"
    );
    vec![
        gather_probe("allgather-small", d, FEW, REPEATS),
        gather_probe("allgather", d, MANY, 1),
        probe("reduce-scatter", d, scatter),
        probe("allreduce", d, sum),
        message_probe("message-small", d, FEW, REPEATS),
        message_probe("message", d, MANY, 1),
        message_probe("message-long", d, MOST, 1),
        copy_probe("copies-tiny", d, 64, REPEATS),
        copy_probe("copies-small", d, FEW, REPEATS),
        copy_probe("copies", d, MANY, 1),
        beside_probe("beside", d, MANY),
        beside_probe("beside-long", d, MOST),
        probe("stores", d, stores),
    ]
}

/// The words for the next and for the last rank of a ring.
fn ring_neighbours(devices: usize) -> [String; 2] {
    [format!("to=(rank + 1) % {devices}"), format!("from=(rank + {}) % {devices}", devices - 1)]
}

fn gather_probe(name: &'static str, d: usize, elements: usize, repeats: usize) -> Probe {
    let body = format!(
        "gather(X: f32[x:{d}, {elements}]) -> () on d:\n  G: f32[{d}, {elements}] = alloc\n  \
         for i in {repeats}: wait allgather(X -> G)\n"
    );
    probe(name, d, body)
}

fn message_probe(name: &'static str, d: usize, elements: usize, repeats: usize) -> Probe {
    let [to, from] = ring_neighbours(d);
    let body = format!(
        "pass(X: f32[x:{d}, {elements}]) -> () on d:\n  G: f32[{elements}] = alloc\n  \
         for i in {repeats}: wait {{ send(X[own], {to}); recv(G, {from}) }}\n"
    );
    probe(name, d, body)
}

fn copy_probe(name: &'static str, d: usize, elements: usize, repeats: usize) -> Probe {
    let [to, from] = ring_neighbours(d);
    let body = format!(
        "pass(X: f32[x:{d}, {elements}]) -> () on d:\n  G: f32[{elements}] = alloc\n  for i in {repeats}:\n    \
         h = recv(G, {from}, via=CUDA, protocol=put)\n    wait send(X[own], {to}, via=CUDA, protocol=put)\n    \
         wait h\n"
    );
    probe(name, d, body)
}

fn beside_probe(name: &'static str, d: usize, elements: usize) -> Probe {
    let [to, from] = ring_neighbours(d);
    let body = format!(
        "beside(X: f32[x:{d}, {elements}], A: bf16[{EDGE}, {EDGE}], B: bf16[{EDGE}, {EDGE}]) -> () on d:\n  \
         G: f32[{elements}] = alloc\n  C: bf16[{EDGE}, {EDGE}] = alloc\n  \
         h = {{ send(X[own], {to}); recv(G, {from}) }}\n  C = matmul(A, B)\n  wait h\n"
    );
    probe(name, d, body)
}
