// Enough of CUDA for kernels of users on the host. The threads of all blocks run one after the other, without barriers;
// `__trap()` ends them all.
#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <type_traits>
#include <utility>

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __trap() throw hir_fake::Trap()

struct dim3 { unsigned x, y, z; };
static dim3 threadIdx, blockIdx, blockDim, gridDim;

namespace hir_fake {
struct Trap {};
template <typename... P> int count(void (*)(P...)) { return sizeof...(P); }
template <typename... P> void sizes(void (*)(P...), size_t *to) {
  const size_t all[] = {sizeof(P)..., 0};
  for (size_t at = 0; at < sizeof...(P); ++at) to[at] = all[at];
}
template <typename... P, size_t... I>
void call(void (*kernel)(P...), void *const *args, std::index_sequence<I...>) {
  kernel(*(std::remove_cv_t<P> *)args[I]...);
}
// Runs all threads; false if one ended with a trap.
template <typename... P> bool launch(void (*kernel)(P...), void *const *args, const unsigned *shape) {
  gridDim = {shape[0], shape[1], shape[2]};
  blockDim = {shape[3], shape[4], shape[5]};
  try {
    for (blockIdx.z = 0; blockIdx.z < gridDim.z; ++blockIdx.z)
      for (blockIdx.y = 0; blockIdx.y < gridDim.y; ++blockIdx.y)
        for (blockIdx.x = 0; blockIdx.x < gridDim.x; ++blockIdx.x)
          for (threadIdx.z = 0; threadIdx.z < blockDim.z; ++threadIdx.z)
            for (threadIdx.y = 0; threadIdx.y < blockDim.y; ++threadIdx.y)
              for (threadIdx.x = 0; threadIdx.x < blockDim.x; ++threadIdx.x)
                call(kernel, args, std::make_index_sequence<sizeof...(P)>());
  } catch (const Trap &) {
    return false;
  }
  return true;
}
}  // namespace hir_fake
