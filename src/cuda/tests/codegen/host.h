// Enough of CUDA to run generated kernels on the host: threads of a block are fibers that take turns at
// barriers and shuffles.
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ucontext.h>
using std::isfinite; using std::isinf; using std::signbit;

#define __global__
#define __device__
#define __forceinline__ inline
#define __launch_bounds__(n)
#define __shared__ static

struct dim3 { unsigned x, y, z; };
struct ulonglong2 { unsigned long long x, y; } __attribute__((aligned(16)));
static ulonglong2 make_ulonglong2(unsigned long long x, unsigned long long y) { return {x, y}; }
static dim3 threadIdx, blockIdx, gridDim, blockDim;

template <typename To, typename From> static To bits(From x) { To y; memcpy(&y, &x, sizeof y); return y; }
static float __uint_as_float(unsigned int x) { return bits<float>(x); }
static unsigned int __float_as_uint(float x) { return bits<unsigned int>(x); }
static float __int_as_float(int x) { return bits<float>(x); }
static double __longlong_as_double(long long x) { return bits<double>(x); }
static float rsqrtf(float x) { return 1.0f / sqrtf(x); }
static double rsqrt(double x) { return 1.0 / sqrt(x); }
// In long double, by bisection of the function that falls from infinity to minus infinity.
static long double inverse(long double (*f)(long double), long double y, long double low, long double high) {
  for (int k = 0; k < 200; ++k) {
    const long double x = (low + high) / 2;
    (f(x) > y ? low : high) = x;
  }
  return low;
}
static long double negated_erf(long double x) { return -erfl(x); }
static double erfcinv(double y);
static double erfinv(double y) {
  if (!(y >= -1 && y <= 1)) return NAN;
  if (fabs(y) > 0.5) return y > 0 ? erfcinv(1 - y) : -erfcinv(1 + y);
  // The first two terms of its series, where the next is below the precision.
  const long double t = y, pi = 3.14159265358979323846L;
  if (fabs(y) < 1e-7) return (double)(sqrtl(pi) / 2 * (t + pi / 12 * t * t * t));
  return (double)inverse(negated_erf, -t, -1.0L, 1.0L);
}
static double erfcinv(double y) {
  if (!(y >= 0 && y <= 2)) return NAN;
  // The difference is exact.
  if (y >= 0.5 && y <= 1.5) return erfinv(1 - y);
  if (y > 1) return -erfcinv(2 - y);
  return y == 0 ? INFINITY : (double)inverse(erfcl, y, 0.0L, 28.0L);
}
static float erfinvf(float x) { return (float)erfinv(x); }
static float erfcinvf(float x) { return (float)erfcinv(x); }

static float h2f(unsigned short x) { return (float)bits<_Float16>(x); }
static unsigned short f2h(float x) { return bits<unsigned short>((_Float16)x); }
static unsigned short f2b(float x) {
  unsigned int b = bits<unsigned int>(x);
  if (x != x) return 0x7fff;
  return (unsigned short)((b + 0x7fff + ((b >> 16) & 1)) >> 16);
}

static const unsigned MOST = 1024, STACK = 1 << 16;
static ucontext_t outside, fibers[MOST];
static char *stacks;
static bool done[MOST];
static unsigned current;
static void (*entry)(void *const *);
static void *const *arguments;

static void turn() { unsigned me = current; swapcontext(&fibers[me], &outside); }
static void fiber() { unsigned me = current; entry(arguments); done[me] = true; }
#define __syncthreads() turn()
template <typename T> static T __shfl_xor_sync(unsigned, T x, int h) {
  static T slots[MOST];
  slots[current] = x;
  turn();
  T y = slots[(current & ~31u) | ((current & 31u) ^ (unsigned)h)];
  turn();
  return y;
}

static void take(unsigned t) {
  current = t;
  threadIdx = {t % blockDim.x, t / blockDim.x % blockDim.y, t / blockDim.x / blockDim.y};
}
static void block(bool turns) {
  unsigned count = blockDim.x * blockDim.y * blockDim.z;
  if (!turns) {
    for (unsigned t = 0; t < count; ++t) { take(t); entry(arguments); }
    return;
  }
  for (unsigned t = 0; t < count; ++t) {
    getcontext(&fibers[t]);
    fibers[t].uc_stack.ss_sp = stacks + t * STACK;
    fibers[t].uc_stack.ss_size = STACK;
    fibers[t].uc_link = &outside;
    makecontext(&fibers[t], fiber, 0);
    done[t] = false;
  }
  for (bool live = true; live;) {
    live = false;
    for (unsigned t = 0; t < count; ++t) {
      if (done[t]) continue;
      take(t);
      swapcontext(&outside, &fibers[t]);
      live = live || !done[t];
    }
  }
}
static void launch(void (*f)(void *const *), dim3 grid, dim3 threads, bool turns, void *const *args) {
  if (!stacks) stacks = (char *)malloc((size_t)MOST * STACK);
  entry = f; arguments = args; gridDim = grid; blockDim = threads;
  for (unsigned x = 0; x < grid.x; ++x) { blockIdx = {x, 0, 0}; block(turns); }
}

struct Pointer {
  void *p;
  template <typename T> operator T *() const { return (T *)p; }
};

// Bytes behind a buffer that no kernel may change.
static const size_t GUARD = 4096;
static char *load(size_t bytes) {
  char *p = (char *)aligned_alloc(256, (bytes + GUARD + 255) / 256 * 256);
  if (bytes && fread(p, 1, bytes, stdin) != bytes) { fprintf(stderr, "input ends early\n"); exit(2); }
  memset(p + bytes, 0x5a, GUARD);
  return p;
}
static char *room(size_t bytes) {
  char *p = (char *)aligned_alloc(256, (bytes + GUARD + 255) / 256 * 256);
  memset(p, 0xff, bytes);
  memset(p + bytes, 0x5a, GUARD);
  return p;
}
static void guarded(const char *name, const char *p, size_t bytes) {
  for (size_t i = 0; i < GUARD; ++i)
    if (p[bytes + i] != 0x5a) { fprintf(stderr, "%s writes out of bounds\n", name); exit(3); }
}
static void store(const char *name, char *p, size_t bytes) {
  guarded(name, p, bytes);
  if (bytes) fwrite(p, 1, bytes, stdout);
  free(p);
}
