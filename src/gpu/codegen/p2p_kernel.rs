//! Put and get kernels for small messages: they signal semaphores, wait for semaphores and copy in one launch. On a
//! stream the same takes a dozen operations, each with its own latency.
//!
//! The text depends on the numbers of semaphores and copies, not on addresses or sizes. Parameters, all 64-bit numbers:
//! the semaphores to signal; for each copy the semaphore to wait for, from, to, bytes, the semaphore to signal
//! afterwards and a counter; the semaphores to wait for and reset at the end. A copy without semaphores has zeros for
//! them. The grid is `(blocks, copies)`.
//!
//! Order: block 0 signals before it waits. The blocks of a copy wait for its semaphore, copy, and count themselves; the
//! last one resets that semaphore and signals the other one. A rank that sees the signal therefore sees the copy (or
//! may overwrite the source) and finds the first semaphore reset. A semaphore is signalled after a fence and read with
//! acquire, at the scope of the system (PTX ISA, memory consistency model), since the other side is another device. A
//! fence takes a microsecond, so a reset has none of its own: the rank that signals the semaphore again has seen a
//! signal that its owner sent after a later fence.
//!
//! The kernel after a put or get kernel is launched only when that one has ended, although other kernels allow an
//! earlier launch: if it waited on the device for a kernel that waits for another rank, it could fill the device and
//! block the work for which that rank waits.

use crate::codegen::source_writer::WAIT;
use std::fmt::Write;

/// Threads of a block of a kernel with so many copies; semaphores alone take one warp.
pub fn exchange_threads(copies: usize) -> u32 {
    if copies > 0 { 512 } else { 32 }
}

/// Parameters of a copy.
pub const WORDS: usize = 6;

const FLAGS: &str = r#"typedef unsigned long long Word;
static __device__ __forceinline__ void fence() {
  asm volatile("fence.acq_rel.sys;" ::: "memory");
}
static __device__ __forceinline__ void set(Word flag, unsigned int value) {
  asm volatile("st.relaxed.sys.global.u32 [%0], %1;" :: "l"(flag), "r"(value) : "memory");
}
static __device__ __forceinline__ void lower(Word flag) { set(flag, 0); }
static __device__ __forceinline__ void await(Word flag) {
  unsigned int value;
  do {
    asm volatile("ld.acquire.sys.global.u32 %0, [%1];" : "=r"(value) : "l"(flag) : "memory");
  } while (value == 0);
}
"#;

const COPIES: &str = r#"template <typename T, int N> static __device__ __forceinline__ void copy(Word from, Word to, Word count) {
  const T* p = (const T*)from;
  T* q = (T*)to;
  const Word step = (Word)gridDim.x * blockDim.x;
  Word i = (Word)blockIdx.x * blockDim.x + threadIdx.x;
  for (; i + (N - 1) * step < count; i += N * step) {
    T value[N];
    #pragma unroll
    for (int n = 0; n < N; ++n) value[n] = p[i + n * step];
    #pragma unroll
    for (int n = 0; n < N; ++n) q[i + n * step] = value[n];
  }
  for (; i < count; i += step) q[i] = p[i];
}
static __device__ __forceinline__ void message(Word offer, Word from, Word to, Word bytes, Word done, Word counter) {
  if (offer != 0) {
    if (threadIdx.x == 0) await(offer);
    __syncthreads();
  }
  const Word odd = from | to;
  if (odd % 16 == 0) {
    // For one message alone 2 MB in flight are enough; more slow down reads from another device.
    if (gridDim.x > 32) copy<ulonglong2, 4>(from, to, bytes / 16);
    else copy<ulonglong2, 8>(from, to, bytes / 16);
    const Word whole = bytes / 16 * 16;
    copy<unsigned char, 1>(from + whole, to + whole, bytes - whole);
  } else if ((odd | bytes) % 4 == 0) {
    copy<unsigned int, 8>(from, to, bytes / 4);
  } else {
    copy<unsigned char, 8>(from, to, bytes);
  }
  if (done == 0) return;
  __syncthreads();
  if (threadIdx.x != 0) return;
  if (gridDim.x > 1) {
    fence();
    if (atomicAdd((unsigned int*)counter, 1u) + 1 < gridDim.x) return;
    lower(counter);
  }
  lower(offer);
  fence();
  set(done, 1);
}
"#;

/// The kernel for so many semaphores to signal, copies, and semaphores to wait for at the end.
pub fn p2p_kernel_source(signals: usize, copies: usize, waits: usize) -> String {
    let mut names = Vec::new();
    names.extend((0..signals).map(|at| format!("r{at}")));
    names.extend((0..copies * WORDS).map(|at| format!("m{at}")));
    names.extend((0..waits).map(|at| format!("w{at}")));
    let params: Vec<String> = names.iter().map(|name| format!("Word {name}")).collect();
    let mut body = String::new();
    let first = "blockIdx.x == 0 && blockIdx.y == 0 && threadIdx.x == 0";
    // Writing to a string cannot fail.
    if signals > 0 {
        let _ = writeln!(body, "  if ({first}) {{\n    fence();");
        (0..signals).for_each(|at| {
            let _ = writeln!(body, "    set(r{at}, 1);");
        });
        let _ = writeln!(body, "  }}");
    }
    if copies > 0 {
        let _ = writeln!(body, "  switch (blockIdx.y) {{");
        for at in 0..copies {
            let words: Vec<String> = (0..WORDS).map(|word| format!("m{}", at * WORDS + word)).collect();
            let _ = writeln!(body, "    case {at}: message({}); break;", words.join(", "));
        }
        let _ = writeln!(body, "  }}");
    }
    if waits > 0 {
        let _ = writeln!(body, "  if ({first}) {{");
        (0..waits).for_each(|at| {
            let _ = writeln!(body, "    await(w{at});\n    lower(w{at});");
        });
        let _ = writeln!(body, "  }}");
    }
    let (copying, threads) = (if copies > 0 { COPIES } else { "" }, exchange_threads(copies));
    format!(
        "{FLAGS}{copying}extern \"C\" __global__ void __launch_bounds__({threads}) hir({}) {{\n{WAIT}{body}}}\n",
        params.join(", ")
    )
}
