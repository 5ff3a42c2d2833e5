static __device__ float scaled(float x, float a) { return a * x; }
