// y = a * x + z, with the factor and the function in another file.
#include "scale.cuh"

extern "C" __global__ void axpy(const float* __restrict__ X, const float* __restrict__ Z, int n, float a, float* Y) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) Y[i] = scaled(X[i], a) + Z[i];
}

// Not extern "C": launches name it without its parameters.
__global__ void rows(const float* X, long long m, long long n, float* Y) {
  const long long j = (long long)blockIdx.x * blockDim.x + threadIdx.x;
  const long long i = (long long)blockIdx.y * blockDim.y + threadIdx.y;
  if (i < m && j < n) Y[i * n + j] = 2.0f * X[i * n + j];
}

// In place: it reads what it writes.
extern "C" __global__ void add_one(float* Y, int n) {
  for (int i = threadIdx.x; i < n; i += blockDim.x) Y[i] += 1.0f;
}

extern "C" __global__ void numbers(int n, signed char a, short b, int c, long long d, unsigned char e, unsigned short f,
                                   unsigned int g, unsigned long long h, float x, double y, float* Y) {
  const int i = threadIdx.x;
  if (i < n) Y[i] = (float)(a + b + c + d + e + f + g + (long long)h + x + y);
}

extern "C" __global__ void halves(const unsigned short* X, unsigned short* Y, const float* none, long long n) {
  const long long i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n && none == nullptr) Y[i] = X[i] ^ 0x8000;
}
