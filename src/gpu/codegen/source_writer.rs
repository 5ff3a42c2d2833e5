//! Writes CUDA C++: lines with indentation, and the helper functions that a text uses.

use std::fmt::Write;

/// Collects the lines of a function's body.
#[derive(Default)]
pub(super) struct SourceWriter {
    text: String,
    depth: usize,
}

impl SourceWriter {
    /// A writer for the inside of a kernel.
    pub(super) fn kernel_body() -> Self {
        Self { text: String::new(), depth: 1 }
    }
    /// One line.
    pub(super) fn line(&mut self, line: impl AsRef<str>) {
        let indent = self.depth * 2;
        // Writing to a string cannot fail.
        let _ = writeln!(self.text, "{:indent$}{}", "", line.as_ref());
    }
    /// A line that opens a block.
    pub(super) fn open_block(&mut self, head: impl AsRef<str>) {
        self.line(format!("{} {{", head.as_ref()));
        self.depth += 1;
    }
    /// A loop over `0..count` that the compiler unrolls.
    pub(super) fn open_unrolled_loop(&mut self, index: &str, count: usize) {
        self.line("#pragma unroll");
        self.open_block(format!("for (int {index} = 0; {index} < {count}; ++{index})"));
    }
    /// Ends a block.
    pub(super) fn close_block(&mut self) {
        self.depth = self.depth.saturating_sub(1);
        self.line("}");
    }
    /// Ends as many blocks.
    pub(super) fn close_all_blocks(&mut self, count: usize) {
        for _ in 0..count {
            self.close_block();
        }
    }
}

/// The start of every kernel: waits for the end of the kernel in front of it (PTX ISA, `griddepcontrol`).
pub(super) const WAIT: &str = "#if __CUDA_ARCH__ >= 900
  asm volatile(\"griddepcontrol.wait;\" ::: \"memory\");
#endif
";

/// Follows [`WAIT`]: allows the launch of the next kernel, which waits in turn. So launches overlap and work does not.
const NEXT: &str = "#if __CUDA_ARCH__ >= 900
  asm volatile(\"griddepcontrol.launch_dependents;\");
#endif
";

/// A kernel's whole text: the helpers that it uses, its `own` functions, and the entry.
///
/// `params` are C++ element types in order; all but the last are read only. On devices that support it ([`WAIT`]), the
/// kernel may start before the one in front of it has ended.
pub(super) fn kernel_source(params: &[&str], threads: u32, own: &str, body: SourceWriter) -> String {
    let mut list = Vec::new();
    for (index, ctype) in params.iter().enumerate() {
        match index + 1 == params.len() {
            true => list.push(format!("{ctype}* q")),
            false => list.push(format!("const {ctype}* p{index}")),
        }
    }
    let entry = format!(
        "extern \"C\" __global__ void __launch_bounds__({threads}) hir({}) {{\n{WAIT}{NEXT}{}}}\n",
        list.join(", "),
        body.text
    );
    let mut used: Vec<&str> = Vec::new();
    for (name, definition) in HELPERS.iter().rev() {
        let mut texts = used.iter().copied().chain([entry.as_str(), own]);
        if texts.any(|text| mentions_name(text, name)) {
            used.push(definition);
        }
    }
    let mut text = String::new();
    for definition in used.iter().rev() {
        let _ = writeln!(text, "{definition}");
    }
    text + own + &entry
}

/// Returns true if a source text uses a name as a whole word.
fn mentions_name(text: &str, name: &str) -> bool {
    text.match_indices(name).any(|(at, _)| {
        let (before, after) = (text[..at].chars().next_back(), text[at + name.len()..].chars().next());
        !before.is_some_and(is_name_char) && !after.is_some_and(is_name_char)
    })
}

fn is_name_char(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}

/// Helpers by name, each on one line (tests distinguish them by lines) and after those that it uses.
const HELPERS: &[(&str, &str)] = &[
    ("Pack", "template <typename T, int V, int A> struct alignas(A) Pack { T v[V]; };"),
    (
        "h2f",
        "static __device__ __forceinline__ float h2f(unsigned short x) { float y; asm(\"cvt.f32.f16 %0, %1;\" : \"=f\"(y) : \"h\"(x)); return y; }",
    ),
    (
        "f2h",
        "static __device__ __forceinline__ unsigned short f2h(float x) { unsigned short y; asm(\"cvt.rn.f16.f32 %0, %1;\" : \"=h\"(y) : \"f\"(x)); return y; }",
    ),
    (
        "b2f",
        "static __device__ __forceinline__ float b2f(unsigned short x) { return __uint_as_float((unsigned int)x << 16); }",
    ),
    (
        "f2b",
        "static __device__ __forceinline__ unsigned short f2b(float x) { unsigned short y; asm(\"cvt.rn.bf16.f32 %0, %1;\" : \"=h\"(y) : \"f\"(x)); return y; }",
    ),
    // As in `data/fp8.rs`, without branches: rounds to nearest even, and does not saturate.
    (
        "e4m3_to_f",
        "static __device__ __forceinline__ float e4m3_to_f(unsigned char x) { const float y = (x & 0x7f) == 0x7f ? __uint_as_float(0x7fffffffu) : __uint_as_float((x & 0x7fu) << 20) * __uint_as_float(0x7b800000u); return __uint_as_float(__float_as_uint(y) | (x & 0x80u) << 24); }",
    ),
    (
        "f_to_e4m3",
        "static __device__ __forceinline__ unsigned char f_to_e4m3(float x) { const unsigned int s = __float_as_uint(x), b = s & 0x7fffffffu; const unsigned int c = b < 0x3c800000u ? __float_as_uint(__uint_as_float(b) + 16384.0f) - 0x46800000u : ((b + 0x7ffffu + (b >> 20 & 1u)) >> 20) - 960u; return (unsigned char)((s >> 24 & 0x80u) | (c < 0x7fu ? c : 0x7fu)); }",
    ),
    (
        "e5m2_to_f",
        "static __device__ __forceinline__ float e5m2_to_f(unsigned char x) { return h2f((unsigned short)((unsigned int)x << 8)); }",
    ),
    (
        "f_to_e5m2",
        "static __device__ __forceinline__ unsigned char f_to_e5m2(float x) { const unsigned int s = __float_as_uint(x), b = s & 0x7fffffffu, m = b > 0x7f800000u ? 0x7fu : 0x7cu; const unsigned int c = b < 0x38800000u ? __float_as_uint(__uint_as_float(b) + 128.0f) - 0x43000000u : ((b + 0xfffffu + (b >> 21 & 1u)) >> 21) - 448u; return (unsigned char)((s >> 24 & 0x80u) | (c < m ? c : m)); }",
    ),
    (
        "e8m0_to_f",
        "static __device__ __forceinline__ float e8m0_to_f(unsigned char x) { return __uint_as_float(x == 0 ? 0x400000u : x == 255 ? 0x7fffffffu : (unsigned int)x << 23); }",
    ),
    (
        "f_to_e8m0",
        "static __device__ __forceinline__ unsigned char f_to_e8m0(float x) { const unsigned int b = __float_as_uint(x), e = b >> 23 & 255u; return (unsigned char)(e == 255u ? e : e + ((b & 0x7fffffu) + (e > 0u) > 0x400000u)); }",
    ),
    // Saturates; a NaN becomes 6.
    (
        "e2m1_to_f",
        "static __device__ __forceinline__ float e2m1_to_f(unsigned char x) { return __uint_as_float(__float_as_uint(__uint_as_float((x & 7u) << 22) * __uint_as_float(0x7e800000u)) | (x & 8u) << 28); }",
    ),
    (
        "f_to_e2m1",
        "static __device__ __forceinline__ unsigned char f_to_e2m1(float x) { const unsigned int s = __float_as_uint(x), b = s & 0x7fffffffu; const unsigned int c = b < 0x3f800000u ? __float_as_uint(__uint_as_float(b) + 4194304.0f) - 0x4a800000u : ((b + 0x1fffffu + (b >> 22 & 1u)) >> 22) - 252u; return (unsigned char)((b > 0x7f800000u ? 0u : s >> 28 & 8u) | (c < 7u ? c : 7u)); }",
    ),
    (
        "r2i",
        "static __device__ __forceinline__ long long r2i(double x) { return x != x ? 0 : x >= 9223372036854775808.0 ? 9223372036854775807ll : x <= -9223372036854775808.0 ? (-9223372036854775807ll - 1) : (long long)x; }",
    ),
    // A negative number wraps, as the conversion to 64 bits with a sign does.
    (
        "r2u",
        "static __device__ __forceinline__ unsigned long long r2u(double x) { return x < 9223372036854775808.0 ? (unsigned long long)r2i(x) : x >= 18446744073709551616.0 ? 18446744073709551615ull : x != x ? 0 : (unsigned long long)x; }",
    ),
    (
        "i_add",
        "static __device__ __forceinline__ long long i_add(long long a, long long b) { return (long long)((unsigned long long)a + (unsigned long long)b); }",
    ),
    (
        "i_sub",
        "static __device__ __forceinline__ long long i_sub(long long a, long long b) { return (long long)((unsigned long long)a - (unsigned long long)b); }",
    ),
    (
        "i_mul",
        "static __device__ __forceinline__ long long i_mul(long long a, long long b) { return (long long)((unsigned long long)a * (unsigned long long)b); }",
    ),
    ("i_abs", "static __device__ __forceinline__ long long i_abs(long long a) { return a < 0 ? i_sub(0, a) : a; }"),
    // An integer divided by zero is 0: a kernel cannot report it.
    (
        "i_div",
        "static __device__ __forceinline__ long long i_div(long long a, long long b) { return b == 0 ? 0 : b == -1 ? i_sub(0, a) : a / b; }",
    ),
    (
        "i_mod",
        "static __device__ __forceinline__ long long i_mod(long long a, long long b) { return b == 0 || b == -1 ? 0 : a % b; }",
    ),
    (
        "i_remainder",
        "static __device__ __forceinline__ long long i_remainder(long long a, long long b) { const long long r = i_mod(a, b); return r != 0 && (r < 0) != (b < 0) ? i_add(r, b) : r; }",
    ),
    (
        "i_ceil_div",
        "static __device__ __forceinline__ long long i_ceil_div(long long a, long long b) { return i_div(i_sub(i_add(a, b), 1), b); }",
    ),
    (
        "i_shl",
        "static __device__ __forceinline__ long long i_shl(long long a, long long b) { return b >= 0 && b < 64 ? (long long)((unsigned long long)a << b) : 0; }",
    ),
    (
        "i_shr",
        "static __device__ __forceinline__ long long i_shr(long long a, long long b) { return a >> (b < 0 ? 0 : b > 63 ? 63 : b); }",
    ),
    (
        "i_gcd",
        "static __device__ __forceinline__ long long i_gcd(long long a, long long b) { while (b != 0) { const long long r = i_mod(a, b); a = b; b = r; } return i_abs(a); }",
    ),
    // 0 if 64 bits do not hold it, of 0 it is 1.
    (
        "i_bit_ceil",
        "static __device__ __forceinline__ long long i_bit_ceil(long long a) { unsigned long long p = 1; while (p != 0 && p < (unsigned long long)a) p <<= 1; return (long long)p; }",
    ),
    // Wraps; for a negative exponent 0, except for the bases 1 and -1.
    (
        "i_pow",
        "static __device__ __forceinline__ long long i_pow(long long a, long long b) { if (b < 0) return a == 1 ? 1 : a == -1 ? (b % 2 != 0 ? -1 : 1) : 0; long long r = 1; while (b > 0) { if (b % 2 == 1) r = i_mul(r, a); a = i_mul(a, a); b /= 2; } return r; }",
    ),
    // Philox 4x32-10: word `n` for a seed and a counter, as in `ir/functions/philox.rs`.
    (
        "philox_word",
        "static __device__ __forceinline__ unsigned int philox_word(int n, unsigned long long seed, unsigned long long subsequence, unsigned long long offset) { unsigned int k0 = (unsigned int)seed, k1 = (unsigned int)(seed >> 32), c0 = (unsigned int)offset, c1 = (unsigned int)(offset >> 32), c2 = (unsigned int)subsequence, c3 = (unsigned int)(subsequence >> 32); for (int round = 0; round < 10; ++round) { const unsigned long long a = 0xd2511f53ull * c0, b = 0xcd9e8d57ull * c2; c0 = (unsigned int)(b >> 32) ^ c1 ^ k0; c1 = (unsigned int)b; c2 = (unsigned int)(a >> 32) ^ c3 ^ k1; c3 = (unsigned int)a; k0 += 0x9e3779b9u; k1 += 0xbb67ae85u; } return n == 0 ? c0 : n == 1 ? c1 : n == 2 ? c2 : c3; }",
    ),
    (
        "i_philox",
        "static __device__ __forceinline__ long long i_philox(long long s, long long q, long long o) { return (long long)(philox_word(0, s, q, o) | (unsigned long long)philox_word(1, s, q, o) << 32); }",
    ),
    (
        "i_random_32",
        "static __device__ __forceinline__ long long i_random_32(long long s, long long o, long long i) { return philox_word((int)(i & 3), s, i >> 2, o); }",
    ),
    (
        "i_random_53",
        "static __device__ __forceinline__ long long i_random_53(long long s, long long o, long long i) { const int n = (int)(i & 1) * 2; return (long long)(philox_word(n, s, i >> 1, o) ^ (unsigned long long)philox_word(n + 1, s, i >> 1, o) << 21); }",
    ),
    (
        "bits_as",
        "template <typename To, typename From> static __device__ __forceinline__ To bits_as(From x) { union { From from; To to; } bits; bits.from = x; return bits.to; }",
    ),
    // Without a sign.
    (
        "u_div",
        "static __device__ __forceinline__ unsigned long long u_div(unsigned long long a, unsigned long long b) { return b == 0 ? 0 : a / b; }",
    ),
    (
        "u_mod",
        "static __device__ __forceinline__ unsigned long long u_mod(unsigned long long a, unsigned long long b) { return b == 0 ? 0 : a % b; }",
    ),
    (
        "u_ceil_div",
        "static __device__ __forceinline__ unsigned long long u_ceil_div(unsigned long long a, unsigned long long b) { return u_div(a + b - 1, b); }",
    ),
    (
        "u_shr",
        "static __device__ __forceinline__ unsigned long long u_shr(unsigned long long a, unsigned long long b) { return b < 64 ? a >> b : 0; }",
    ),
    (
        "u_gcd",
        "static __device__ __forceinline__ unsigned long long u_gcd(unsigned long long a, unsigned long long b) { while (b != 0) { const unsigned long long r = a % b; a = b; b = r; } return a; }",
    ),
    (
        "u_pow",
        "static __device__ __forceinline__ unsigned long long u_pow(unsigned long long a, unsigned long long b) { unsigned long long r = 1; while (b > 0) { if (b % 2 == 1) r *= a; a *= a; b /= 2; } return r; }",
    ),
    // The sign of the divisor, as in torch: `r` is the remainder of `fmod`.
    (
        "r_remainder",
        "template <typename T> static __device__ __forceinline__ T r_remainder(T r, T b) { return r != 0 && (b < 0) != (r < 0) ? r + b : r; }",
    ),
    // Reaches both ends of the line.
    (
        "r_lerp",
        "template <typename T> static __device__ __forceinline__ T r_lerp(T a, T b, T w) { return w < (T)0.5 ? a + w * (b - a) : b - (b - a) * ((T)1 - w); }",
    ),
    // NaN wins.
    (
        "n_max",
        "template <typename T> static __device__ __forceinline__ T n_max(T a, T b) { return a > b || a != a ? a : b; }",
    ),
    (
        "n_min",
        "template <typename T> static __device__ __forceinline__ T n_min(T a, T b) { return a > b || b != b ? b : a; }",
    ),
];
