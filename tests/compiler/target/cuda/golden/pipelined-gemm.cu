// pipelined_gemm(W, X, Y): grid (2, 2, 1), block (8, 8, 1), 0 bytes shared

__device__ __forceinline__ void copy_async_16(void* to, const void* from, int bytes) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;"
                 :: "r"((unsigned)__cvta_generic_to_shared(to)), "l"(from), "r"(bytes) : "memory");
}

__device__ __forceinline__ void commit_async() { asm volatile("cp.async.commit_group;" ::: "memory"); }

template <int PENDING> __device__ __forceinline__ void wait_async() {
    asm volatile("cp.async.wait_group %0;" :: "n"(PENDING) : "memory");
}

__device__ __forceinline__ float maximum(float a, float b) {
    float c;
    asm("max.NaN.f32 %0, %1, %2;" : "=f"(c) : "f"(a), "f"(b));
    return c;
}

extern "C" __global__ void __launch_bounds__(64) pipelined_gemm(
    const float* __restrict__ W, const float* __restrict__ X, float* __restrict__ Y) {
    __shared__ alignas(128) float b[768];
    __shared__ alignas(128) float a[768];
    const int i_0 = blockIdx.y;
    const int j_0 = blockIdx.x;
    const int tx = threadIdx.x;
    const int ty = threadIdx.y;
    float sum[16];
    // gemm.init
    {
        #pragma unroll
        for (int i_1_1_init = 0; i_1_1_init < 4; ++i_1_1_init) {
            #pragma unroll
            for (int j_1_1_init = 0; j_1_1_init < 4; ++j_1_1_init) {
                sum[i_1_1_init * 4 + j_1_1_init] = 0.0f;
            }
        }
    }
    for (int k_0_ahead = 0; k_0_ahead < 2; ++k_0_ahead) {
        // b.ahead
        {
            copy_async_16(&b[k_0_ahead * 256 + ty * 32 + tx * 4], &W[j_0 * 32 + k_0_ahead * 512 + ty * 64 + tx * 4], 16);
        }
        // a.ahead
        {
            copy_async_16(&a[k_0_ahead * 256 + ty * 32 + tx * 4], &X[i_0 * 1024 + k_0_ahead * 8 + ty * 128 + (tx >> 1) * 32 + (tx & 1) * 4], 16);
        }
        commit_async();
    }
    for (int k_0 = 0; k_0 < 4; ++k_0) {
        wait_async<1>();
        __syncthreads();
        if (k_0 < 2) {
            // b
            {
                copy_async_16(&b[(k_0 + 2) % 3 * 256 + ty * 32 + tx * 4], &W[j_0 * 32 + k_0 * 512 + ty * 64 + tx * 4 + 1024], 16);
            }
            // a
            {
                copy_async_16(&a[(k_0 + 2) % 3 * 256 + ty * 32 + tx * 4], &X[i_0 * 1024 + k_0 * 8 + ty * 128 + (tx >> 1) * 32 + (tx & 1) * 4 + 16], 16);
            }
        }
        commit_async();
        // gemm
        {
            #pragma unroll
            for (int k_1 = 0; k_1 < 8; ++k_1) {
                #pragma unroll
                for (int i_1_1 = 0; i_1_1 < 4; ++i_1_1) {
                    #pragma unroll
                    for (int j_1_1 = 0; j_1_1 < 4; ++j_1_1) {
                        sum[i_1_1 * 4 + j_1_1] = fmaf(a[k_0 % 3 * 256 + ty * 32 + k_1 + i_1_1 * 8], b[k_0 % 3 * 256 + tx * 4 + k_1 * 32 + j_1_1], sum[i_1_1 * 4 + j_1_1]);
                    }
                }
            }
        }
    }
    wait_async<0>();
    // post
    {
        #pragma unroll
        for (int row_1 = 0; row_1 < 4; ++row_1) {
            #pragma unroll
            for (int column_1 = 0; column_1 < 4; ++column_1) {
                Y[i_0 * 2048 + j_0 * 32 + ty * 256 + tx * 4 + row_1 * 64 + column_1] = maximum(sum[row_1 * 4 + column_1], 0.0f);
            }
        }
    }
}
