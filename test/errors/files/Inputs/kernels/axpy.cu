#include "scale.cuh"

// __global__ void not_this(int n);
extern "C" __global__ void __launch_bounds__(256) axpy(const float* A, const float* B, int n, float a, float* C) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) C[i] = scaled(A[i], a) + B[i];
}

__global__ void fill(unsigned short* C, long long n) {
  const long long i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) C[i] = 0;
}
