// A product of 16-bit matrices on Hopper, added up in float: `result[m][n] = left[m][k] * right[k][n]`, row by row.
//
// A persistent kernel of three warpgroups. Two multiply (`wgmma`) 64 rows of a tile each, and write the result to shared
// memory. Of the third, one warp loads tiles of the factors through the tensor memory accelerator into a ring of stages,
// and two warps store the results of the other warpgroups, which go on to the next tile meanwhile. The blocks of a
// cluster take tiles of the same columns and load each a part of the right tile for all of them.
//
// A product may have PARTS: left factors of m rows each, and a result for each, which may be in the memory of another
// rank. The tiles of a part come before those of the next.
//
// Macros: COLUMNS of a tile, STAGES, CLUSTER, GROUP (row tiles that are taken before the next column tile), PARTS,
// LEFT_BY_COLUMN (left is stored [k][m]), RIGHT_BY_ROW (right is stored [k][n], else [n][k]) and HALF_PRECISION (elements
// are of half precision, else bfloat16).
#define ROWS 128
#define DEPTH 64
#define HALF 64
#define LEFT_BYTES (ROWS * DEPTH * 2)
#define RIGHT_BYTES (COLUMNS * DEPTH * 2)
// Shared memory of a box of 64 by 64 elements, whose rows of 128 bytes are swizzled.
#define BOX_BYTES 8192

struct alignas(64) TensorMap { Word opaque[16]; };
struct PartMaps { TensorMap part[PARTS]; };

__device__ __forceinline__ unsigned shared_address(const void* p) { return (unsigned)__cvta_generic_to_shared(p); }
__device__ __forceinline__ void barrier_init(unsigned barrier, unsigned count) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(count));
}
__device__ __forceinline__ void barrier_wait(unsigned barrier, unsigned phase) {
  asm volatile("{ .reg .pred done; again: mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1; @done bra over; bra again; over: }"
               ::"r"(barrier), "r"(phase) : "memory");
}
__device__ __forceinline__ void barrier_expect(unsigned barrier, unsigned bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes) : "memory");
}
// Relaxed: what precedes it, reads of shared memory by `wgmma`, has ended. A release for the cluster would wait for all
// stores to memory, 0.5 us each time.
__device__ __forceinline__ void barrier_arrive(unsigned barrier, unsigned block) {
  asm volatile("{ .reg .b32 remote; mapa.shared::cluster.u32 remote, %0, %1; mbarrier.arrive.relaxed.cluster.shared::cluster.b64 _, [remote]; }"
               ::"r"(barrier), "r"(block) : "memory");
}
__device__ __forceinline__ void load_box(unsigned to, const TensorMap* map, unsigned barrier, int x, int y) {
  asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4}], [%2];"
               ::"r"(to), "l"(map), "r"(barrier), "r"(x), "r"(y) : "memory");
}
__device__ __forceinline__ void load_box_for_cluster(unsigned to, const TensorMap* map, unsigned barrier, int x, int y) {
  asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%0], [%1, {%3, %4}], [%2], %5;"
               ::"r"(to), "l"(map), "r"(barrier), "r"(x), "r"(y), "h"((short)((1 << CLUSTER) - 1)) : "memory");
}
__device__ __forceinline__ void store_box(const TensorMap* map, unsigned from, int x, int y) {
  asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%0, {%2, %3}], [%1]; cp.async.bulk.commit_group;"
               ::"l"(map), "r"(from), "r"(x), "r"(y) : "memory");
}
// A matrix in shared memory, swizzled by 128 bytes, with 1,024 bytes from 8 rows to the next 8.
__device__ __forceinline__ Word descriptor(unsigned address, unsigned leading) {
  return (Word)((address & 0x3FFFF) >> 4) | (Word)(leading >> 4) << 16 | (Word)(1024 >> 4) << 32 | (Word)1 << 62;
}
__device__ __forceinline__ unsigned round_pair(float low, float high) {
  unsigned pair;
#if HALF_PRECISION
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
#else
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
#endif
  return pair;
}

// A tile: its first row and column, and its part.
struct Place { int row, column, part; };

struct Schedule {
  int row_tiles, column_tiles, depth_tiles, part_tiles, tiles, rank;
  __device__ Schedule(int m, int n, int k, int rank)
      : row_tiles((m + ROWS * CLUSTER - 1) / (ROWS * CLUSTER)), column_tiles((n + COLUMNS - 1) / COLUMNS),
        depth_tiles((k + DEPTH - 1) / DEPTH), part_tiles(row_tiles * column_tiles), tiles(part_tiles * PARTS), rank(rank) {}
  __device__ __forceinline__ Place place(int tile) const {
    int part = PARTS > 1 ? tile / part_tiles : 0;
    tile -= part * part_tiles;
    int in_group = GROUP * column_tiles, group = tile / in_group, size = min(GROUP, row_tiles - group * GROUP);
    int at = tile - group * in_group;
    return {((group * GROUP + at % size) * CLUSTER + rank) * ROWS, at / size * COLUMNS, part};
  }
};

// The two buffers for the results of a warpgroup, after the stages.
__device__ __forceinline__ unsigned result_buffers(unsigned stages, int half) {
  return stages + STAGES * (LEFT_BYTES + RIGHT_BYTES) + half * 2 * BOX_BYTES;
}

__device__ __forceinline__ void cluster_barrier() {
  asm volatile("barrier.cluster.arrive.release; barrier.cluster.wait.acquire;" ::: "memory");
}

// Loads the stages of all tiles of this block, as they become free.
__device__ __forceinline__ void load_tiles(const PartMaps* lefts, const TensorMap* right, unsigned stages, unsigned full, unsigned empty, const Schedule& schedule) {
  int stage = 0;
  unsigned phase = 0;
  for (int tile = blockIdx.x / CLUSTER; tile < schedule.tiles; tile += gridDim.x / CLUSTER) {
    Place at = schedule.place(tile);
    const TensorMap* left = &lefts->part[at.part];
    for (int d = 0; d < schedule.depth_tiles; d++) {
      barrier_wait(empty + 8 * stage, phase ^ 1);
      unsigned barrier = full + 8 * stage, a = stages + stage * LEFT_BYTES, b = stages + STAGES * LEFT_BYTES + stage * RIGHT_BYTES;
      barrier_expect(barrier, LEFT_BYTES + RIGHT_BYTES);
#if LEFT_BY_COLUMN
      for (int i = 0; i < ROWS; i += HALF) load_box(a + i * 128, left, barrier, at.row + i, d * DEPTH);
#else
      load_box(a, left, barrier, d * DEPTH, at.row);
#endif
      for (int i = schedule.rank * (COLUMNS / CLUSTER); i < (schedule.rank + 1) * (COLUMNS / CLUSTER); i += RIGHT_BY_ROW ? HALF : COLUMNS / 2) {
        int x = RIGHT_BY_ROW ? at.column + i : d * DEPTH, y = RIGHT_BY_ROW ? d * DEPTH : at.column + i;
#if CLUSTER > 1
        load_box_for_cluster(b + i * 128, right, barrier, x, y);
#else
        load_box(b + i * 128, right, barrier, x, y);
#endif
      }
      if (++stage == STAGES) stage = 0, phase ^= 1;
    }
  }
}

// The barriers of a warpgroup's two buffers of results: one for the warp that stores, one for the warpgroup that writes.
__device__ __forceinline__ int full_buffer(int group, int buffer) { return group * 4 + buffer; }
__device__ __forceinline__ int free_buffer(int group, int buffer) { return group * 4 + 2 + buffer; }
// A warpgroup and the warp that stores its results meet at a barrier: one waits there, the other only arrives.
__device__ __forceinline__ void wait_for_others(int barrier) { asm volatile("bar.sync %0, 160;" ::"r"(barrier) : "memory"); }
__device__ __forceinline__ void let_others_pass(int barrier) { asm volatile("bar.arrive %0, 160;" ::"r"(barrier) : "memory"); }

// Writes the 64 rows of a warpgroup in boxes of 64 columns to its two buffers in turn. `boxes` counts them.
__device__ __forceinline__ void write_rows(const float (&sums)[COLUMNS / 2], unsigned buffers, int group, int& boxes) {
  int thread = threadIdx.x % 128, warp = thread / 32, lane = thread % 32;
#pragma unroll
  for (int box = 0; box < COLUMNS / HALF; box++, boxes++) {
    wait_for_others(free_buffer(group, boxes & 1));
    unsigned to = buffers + (boxes & 1) * BOX_BYTES;
#pragma unroll
    for (int j = 0; j < 8; j += 2) {
      int row = warp * 16 + (lane / 8 & 1) * 8 + lane % 8, column = j + lane / 16;
      const float* v = sums + (box * 8 + j) * 4;
      asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};"
                   ::"r"(to + row * 128 + ((column ^ (row & 7)) << 4)), "r"(round_pair(v[0], v[1])), "r"(round_pair(v[2], v[3])),
                   "r"(round_pair(v[4], v[5])), "r"(round_pair(v[6], v[7])) : "memory");
    }
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    let_others_pass(full_buffer(group, boxes & 1));
  }
}

// Stores the rows of a warpgroup for all tiles of this block: the work of one warp.
__device__ __forceinline__ void store_tiles(const PartMaps* results, unsigned stages, int group, const Schedule& schedule) {
  int lane = threadIdx.x % 32, half = group - 1, boxes = 0;
  unsigned buffers = result_buffers(stages, half);
  let_others_pass(free_buffer(group, 0));
  let_others_pass(free_buffer(group, 1));
  for (int tile = blockIdx.x / CLUSTER; tile < schedule.tiles; tile += gridDim.x / CLUSTER) {
    Place at = schedule.place(tile);
#pragma unroll 1
    for (int box = 0; box < COLUMNS / HALF; box++, boxes++) {
      wait_for_others(full_buffer(group, boxes & 1));
      if (lane == 0) {
        store_box(&results->part[at.part], buffers + (boxes & 1) * BOX_BYTES, at.column + box * HALF, at.row + half * HALF);
        asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
      }
      __syncwarp();
      let_others_pass(free_buffer(group, boxes & 1));
    }
  }
  if (lane == 0) asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
}

// Multiplies the stages of all tiles of this block, 64 rows of each.
__device__ __forceinline__ void multiply_tiles(unsigned stages, unsigned full, unsigned empty, int group, const Schedule& schedule) {
  int thread = threadIdx.x % 128, half = group - 1, stage = 0, boxes = 0;
  unsigned phase = 0, buffers = result_buffers(stages, half);
  float sums[COLUMNS / 2];
  for (int tile = blockIdx.x / CLUSTER; tile < schedule.tiles; tile += gridDim.x / CLUSTER) {
    int last = -1;
    for (int d = 0; d < schedule.depth_tiles; d++) {
      barrier_wait(full + 8 * stage, phase);
      Word a = descriptor(stages + stage * LEFT_BYTES + half * BOX_BYTES, LEFT_BY_COLUMN ? BOX_BYTES : 16);
      Word b = descriptor(stages + STAGES * LEFT_BYTES + stage * RIGHT_BYTES, RIGHT_BY_ROW ? BOX_BYTES : 16);
      asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#pragma unroll
      for (int i = 0; i < DEPTH / 16; i++)
        multiply(sums, a + i * (LEFT_BY_COLUMN ? 128 : 2), b + i * (RIGHT_BY_ROW ? 128 : 2), d > 0 || i > 0);
      asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
      if (last >= 0) {
        asm volatile("wgmma.wait_group.sync.aligned 1;" ::: "memory");
        if (thread < CLUSTER) barrier_arrive(empty + 8 * last, thread);
      }
      last = stage;
      if (++stage == STAGES) stage = 0, phase ^= 1;
    }
    asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
    if (thread < CLUSTER) barrier_arrive(empty + 8 * last, thread);
    write_rows(sums, buffers, group, boxes);
  }
}

extern "C" __global__ void __launch_bounds__(384, 1) __cluster_dims__(CLUSTER, 1, 1) hir(const __grid_constant__ PartMaps lefts, const __grid_constant__ TensorMap right, const __grid_constant__ PartMaps results, Word m, Word n, Word k) {
  extern __shared__ unsigned char memory[];
  __shared__ __align__(8) Word full_barriers[STAGES], empty_barriers[STAGES];
  unsigned stages = (shared_address(memory) + 1023) & ~1023u;
  unsigned full = shared_address(full_barriers), empty = shared_address(empty_barriers);
  unsigned rank = 0;
  if (CLUSTER > 1) asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  if (threadIdx.x == 0) {
    for (int s = 0; s < STAGES; s++) barrier_init(full + 8 * s, 1), barrier_init(empty + 8 * s, 2 * CLUSTER);
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  }
  cluster_barrier();
  Schedule schedule((int)m, (int)n, (int)k, (int)rank);
  int group = threadIdx.x / 128;
  if (group == 0) {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 40;");
    int warp = threadIdx.x / 32;
    if (threadIdx.x == 0) load_tiles(&lefts, &right, stages, full, empty, schedule);
    if (warp == 1 || warp == 2) store_tiles(&results, stages, warp, schedule);
  } else {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 232;");
    multiply_tiles(stages, full, empty, group, schedule);
  }
  // No block ends while another one of its cluster may load into its memory.
  cluster_barrier();
}
