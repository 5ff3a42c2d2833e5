//! Kernels that exchange small messages: they set flags, wait for flags and copy in one launch, where the
//! same on a stream takes a dozen operations, each with a latency of its own.
//!
//! The text depends on how many flags and copies there are, not on addresses or sizes. Parameters, all
//! 64-bit numbers: the flags to raise; for each copy the flag to wait for, from, to, bytes, the flag to
//! raise afterwards and a counter; the flags to wait for and lower at the end. A copy without flags has
//! zeros for them. The grid is `(blocks, copies)`.
//!
//! Order: block 0 raises before it waits for anything. A copy's blocks wait for its flag, copy, and count
//! themselves; the last one lowers the flag and raises the other one, so that whoever sees it raised sees
//! the copy (or may write what was read) and finds the first one low. A flag is raised after a fence and read
//! with acquire, at the scope of the system (PTX ISA, memory consistency model), since the other side is
//! another device. A fence takes a microsecond, so lowering a flag has none of its own: whoever raises it
//! again has seen what its owner raised after a later fence.
//!
//! The kernel after an exchange is not brought to the device before the exchange has ended, as other
//! kernels let it be: waiting behind one that waits for another rank, it could fill the device and keep off
//! the work which that rank waits for.

use crate::codegen::source_writer::WAIT;
use std::fmt::Write;

/// Threads of a block of a kernel with so many copies; flags alone take one warp.
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
    // For one message alone 2 MB under way are enough; more slow reads from another device down.
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

/// The kernel for so many flags to raise, copies, and flags to wait for at the end.
pub fn p2p_kernel_source(raises: usize, copies: usize, awaits: usize) -> String {
    let mut names = Vec::new();
    names.extend((0..raises).map(|at| format!("r{at}")));
    names.extend((0..copies * WORDS).map(|at| format!("m{at}")));
    names.extend((0..awaits).map(|at| format!("w{at}")));
    let params: Vec<String> = names.iter().map(|name| format!("Word {name}")).collect();
    let mut body = String::new();
    let first = "blockIdx.x == 0 && blockIdx.y == 0 && threadIdx.x == 0";
    // Writing to a string cannot fail.
    if raises > 0 {
        let _ = writeln!(body, "  if ({first}) {{\n    fence();");
        (0..raises).for_each(|at| {
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
    if awaits > 0 {
        let _ = writeln!(body, "  if ({first}) {{");
        (0..awaits).for_each(|at| {
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
