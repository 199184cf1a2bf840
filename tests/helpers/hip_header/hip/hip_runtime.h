// The part of HIP's header that printed kernels use, for their compilation without ROCm. AMD's own has more.
#pragma once
#define __global__ __attribute__((global))
#define __device__ __attribute__((device))
#define __shared__ __attribute__((shared))
#define __forceinline__ inline __attribute__((always_inline))
#define __launch_bounds__(threads) __attribute__((amdgpu_flat_work_group_size(1, threads)))

struct Indices {
    unsigned x, y, z;
};
extern const __device__ __attribute__((weak)) Indices threadIdx, blockIdx;
__device__ void __syncthreads();
__device__ float __uint_as_float(unsigned);
__device__ float __int_as_float(int);
__device__ unsigned __float_as_uint(float);
__device__ float expf(float), tanhf(float), logf(float), sqrtf(float), erff(float), floorf(float), ceilf(float);
__device__ float rintf(float), truncf(float), fabsf(float), fmaf(float, float, float);
__device__ float sinf(float), cosf(float), tanf(float), asinf(float), acosf(float), atanf(float);
__device__ float sinhf(float), coshf(float), asinhf(float), acoshf(float), atanhf(float);
