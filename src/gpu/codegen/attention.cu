// Forward attention with an online softmax: a block takes ROWS queries of one head, a warp 16 of them. Keys and values
// come in tiles of KEYS rows; scores and weighted sums stay in registers.

#define PITCH_CHUNKS (PITCH / 8)
#define WARPS (ROWS / 16)
#define SCORE_STEPS ((QUERY_ELEMENTS + 15) / 16)
#define VALUE_STEPS ((VALUE_ELEMENTS + 15) / 16)

typedef unsigned int Word;

#if IS_BF16
#define MMA_TYPES "f32.bf16.bf16.f32"
#define PACK_TYPE "bf16x2"
#else
#define MMA_TYPES "f32.f16.f16.f32"
#define PACK_TYPE "f16x2"
#endif

/// The place of 8 elements of a row in shared memory, such that 8 rows of one column lie in different banks.
__device__ __forceinline__ Word chunk_address(Word tile, int row, int chunk) {
    return tile + 16 * (row * PITCH_CHUNKS + (chunk ^ (row & 7)));
}

/// Starts the copies of `count` rows from row `first` on; rows from `end` on and elements from `width` on become zero.
template <int count>
__device__ __forceinline__ void load_rows(Word tile, const unsigned short *source, long long step, int first, int end, int width) {
    for (int at = threadIdx.x; at < count * PITCH_CHUNKS; at += 32 * WARPS) {
        int row = at / PITCH_CHUNKS, chunk = at % PITCH_CHUNKS;
        bool exists = first + row < end && 8 * chunk < width;
        const unsigned short *from = exists ? source + (first + row) * step + 8 * chunk : source;
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(chunk_address(tile, row, chunk)), "l"(from), "r"(exists ? 16 : 0));
    }
    asm volatile("cp.async.commit_group;");
}

/// Waits for this thread's copies, and for all threads of the block.
__device__ __forceinline__ void finish_loads() {
    asm volatile("cp.async.wait_all;" ::: "memory");
    __syncthreads();
}

/// Four matrices of 8 by 8 elements, of whose rows each thread gives one.
__device__ __forceinline__ void read_matrices(Word (&to)[4], Word address) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];" : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3]) : "r"(address) : "memory");
}

__device__ __forceinline__ void read_transposed(Word (&to)[4], Word address) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];" : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3]) : "r"(address) : "memory");
}

/// Adds the product of 16 rows with 8 columns, 16 deep.
__device__ __forceinline__ void multiply(float (&sums)[4], const Word (&left)[4], Word right, Word next) {
    asm volatile("mma.sync.aligned.m16n8k16.row.col." MMA_TYPES " {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
        : "r"(left[0]), "r"(left[1]), "r"(left[2]), "r"(left[3]), "r"(right), "r"(next));
}

__device__ __forceinline__ Word pack(float low, float high) {
    Word both;
    asm("cvt.rn." PACK_TYPE ".f32 %0, %1, %2;" : "=r"(both) : "f"(high), "f"(low));
    return both;
}

__device__ __forceinline__ float infinity() {
    return __int_as_float(0x7f800000);
}

__device__ __forceinline__ float power_of_two(float exponent) {
    float power;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"(exponent));
    return power;
}

/// The largest value of the four threads that share a row.
__device__ __forceinline__ float row_maximum(float value) {
    value = fmaxf(value, __shfl_xor_sync(~0u, value, 1));
    return fmaxf(value, __shfl_xor_sync(~0u, value, 2));
}

__device__ __forceinline__ float row_sum(float value) {
    value += __shfl_xor_sync(~0u, value, 1);
    return value + __shfl_xor_sync(~0u, value, 2);
}

extern "C" __global__ void __launch_bounds__(32 * WARPS, BLOCKS_PER_SM) hir(
    const unsigned short *query, const unsigned short *key, const unsigned short *value, unsigned short *result, float *logsumexp) {
    // A tile of keys and one of values, whose memory the queries have before.
    __shared__ __align__(1024) unsigned char memory[2 * KEYS * PITCH * 2];
    static_assert(ROWS <= 2 * KEYS, "the queries fit in both tiles");
    const Word keys = static_cast<Word>(__cvta_generic_to_shared(memory)), values = keys + KEYS * PITCH * 2;
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    // The last rows of a triangle have the most work: they start first.
    const int first = (gridDim.x - 1 - blockIdx.x) * ROWS;
    const int inner = blockIdx.y % EXTENT_2, middle = blockIdx.y / EXTENT_2 % EXTENT_1, outer = blockIdx.y / (EXTENT_2 * EXTENT_1);
    query += outer * QUERY_STEP_0 + middle * QUERY_STEP_1 + inner * QUERY_STEP_2;
    key += outer * KEY_STEP_0 + middle * KEY_STEP_1 + inner * KEY_STEP_2;
    value += outer * VALUE_STEP_0 + middle * VALUE_STEP_1 + inner * VALUE_STEP_2;
    result += outer * RESULT_STEP_0 + middle * RESULT_STEP_1 + inner * RESULT_STEP_2;
    logsumexp += outer * LOGSUMEXP_STEP_0 + middle * LOGSUMEXP_STEP_1 + inner * LOGSUMEXP_STEP_2;

    Word queries[SCORE_STEPS][4];
    load_rows<ROWS>(keys, query, QUERY_STEP_3, first, QUERIES, QUERY_ELEMENTS);
    finish_loads();
#pragma unroll
    for (int step = 0; step < SCORE_STEPS; step++)
        read_matrices(queries[step], chunk_address(keys, 16 * warp + lane % 16, 2 * step + lane / 16));
    __syncthreads();

    float sums[2 * VALUE_STEPS][4] = {}, maxima[2] = {-infinity(), -infinity()}, totals[2] = {};
    const int own = first + 16 * warp, row = own + lane / 4;
    const int end = IS_CAUSAL && first + ROWS < ALL_KEYS ? first + ROWS : ALL_KEYS;
    load_rows<KEYS>(keys, key, KEY_STEP_3, 0, ALL_KEYS, QUERY_ELEMENTS);
    for (int tile = 0; tile < end; tile += KEYS) {
        finish_loads();
        load_rows<KEYS>(values, value, VALUE_STEP_3, tile, ALL_KEYS, VALUE_ELEMENTS);
        // A warp whose rows see none of these keys only copies.
        const bool sees = !IS_CAUSAL || tile <= own + 15;
        float scores[KEYS / 8][4] = {};
        if (sees) {
#pragma unroll
            for (int step = 0; step < SCORE_STEPS; step++)
#pragma unroll
                for (int pair = 0; pair < KEYS / 16; pair++) {
                    Word right[4];
                    read_matrices(right, chunk_address(keys, 16 * pair + lane % 8 + lane / 16 * 8, 2 * step + lane / 8 % 2));
                    multiply(scores[2 * pair], queries[step], right[0], right[1]);
                    multiply(scores[2 * pair + 1], queries[step], right[2], right[3]);
                }
        }
        finish_loads();
        if (tile + KEYS < end)
            load_rows<KEYS>(keys, key, KEY_STEP_3, tile + KEYS, ALL_KEYS, QUERY_ELEMENTS);
        if (!sees)
            continue;
        if (tile + KEYS > ALL_KEYS || (IS_CAUSAL && tile + KEYS > own + 1)) {
#pragma unroll
            for (int column = 0; column < KEYS / 8; column++)
#pragma unroll
                for (int at = 0; at < 4; at++) {
                    const int place = tile + 8 * column + lane % 4 * 2 + at % 2;
                    if (place >= ALL_KEYS || (IS_CAUSAL && place > row + at / 2 * 8))
                        scores[column][at] = -infinity();
                }
        }
#pragma unroll
        for (int half = 0; half < 2; half++) {
            float largest = maxima[half];
#pragma unroll
            for (int column = 0; column < KEYS / 8; column++)
                largest = fmaxf(largest, fmaxf(scores[column][2 * half], scores[column][2 * half + 1]));
            largest = row_maximum(largest);
            const float shrink = power_of_two((maxima[half] - largest) * SCALE_LOG2), offset = largest * SCALE_LOG2;
            maxima[half] = largest;
            float total = 0;
#pragma unroll
            for (int column = 0; column < KEYS / 8; column++)
#pragma unroll
                for (int at = 2 * half; at < 2 * half + 2; at++) {
                    scores[column][at] = power_of_two(fmaf(scores[column][at], SCALE_LOG2, -offset));
                    total += scores[column][at];
                }
            totals[half] = totals[half] * shrink + total;
#pragma unroll
            for (int column = 0; column < 2 * VALUE_STEPS; column++) {
                sums[column][2 * half] *= shrink;
                sums[column][2 * half + 1] *= shrink;
            }
        }
#pragma unroll
        for (int step = 0; step < KEYS / 16; step++) {
            const float(&low)[4] = scores[2 * step], (&high)[4] = scores[2 * step + 1];
            const Word left[4] = {pack(low[0], low[1]), pack(low[2], low[3]), pack(high[0], high[1]), pack(high[2], high[3])};
#pragma unroll
            for (int pair = 0; pair < VALUE_STEPS; pair++) {
                Word right[4];
                read_transposed(right, chunk_address(values, 16 * step + lane % 16, 2 * pair + lane / 16));
                multiply(sums[2 * pair], left, right[0], right[1]);
                multiply(sums[2 * pair + 1], left, right[2], right[3]);
            }
        }
    }
#pragma unroll
    for (int half = 0; half < 2; half++) {
        const float total = row_sum(totals[half]);
        const int place = row + 8 * half;
        if (place >= QUERIES)
            continue;
        if (lane % 4 == 0)
            logsumexp[place * LOGSUMEXP_STEP_3] = maxima[half] * SCALE + logf(total);
#pragma unroll
        for (int column = 0; column < 2 * VALUE_STEPS; column++) {
            const int element = 8 * column + lane % 4 * 2;
            if (element < VALUE_ELEMENTS)
                *reinterpret_cast<Word *>(result + place * RESULT_STEP_3 + element) = pack(sums[column][2 * half] / total, sums[column][2 * half + 1] / total);
        }
    }
}
