// pipelined_gemm(W, X, Y): grid (2, 2, 1), block (4, 4, 1), 0 bytes shared, overlaps

__device__ __forceinline__ void copy_async_16(void* to, const void* from, int bytes) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;"
                 :: "r"((unsigned)__cvta_generic_to_shared(to)), "l"(from), "r"(bytes) : "memory");
}

__device__ __forceinline__ void commit_async() { asm volatile("cp.async.commit_group;" ::: "memory"); }

template <int PENDING> __device__ __forceinline__ void wait_async() {
    asm volatile("cp.async.wait_group %0;" :: "n"(PENDING) : "memory");
}

__device__ __forceinline__ void wait_for_kernels() { asm volatile("griddepcontrol.wait;" ::: "memory"); }

__device__ __forceinline__ float maximum(float a, float b) {
    float c;
    asm("max.NaN.f32 %0, %1, %2;" : "=f"(c) : "f"(a), "f"(b));
    return c;
}

extern "C" __global__ void __launch_bounds__(16) pipelined_gemm(
    const float* W, const float* X, float* __restrict__ Y) {
    __shared__ alignas(128) float b[384];  // 3 x 8 x 16
    __shared__ alignas(128) float a[384];  // 3 x 16 x 8
    const int i_0 = blockIdx.y;
    const int j_0 = blockIdx.x;
    const int tx = threadIdx.x;
    const int ty = threadIdx.y;
    wait_for_kernels();
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
            #pragma unroll
            for (int b_step_ahead = 0; b_step_ahead < 2; ++b_step_ahead) {
                copy_async_16(&b[k_0_ahead * 128 + ty * 16 + tx * 4 + b_step_ahead * 64],
                        &W[j_0 * 16 + k_0_ahead * 256 + ty * 32 + tx * 4 + b_step_ahead * 128], 16);
            }
        }
        // a.ahead
        {
            #pragma unroll
            for (int a_step_ahead = 0; a_step_ahead < 2; ++a_step_ahead) {
                copy_async_16(&a[k_0_ahead * 128 + ty * 16 + tx * 4 + a_step_ahead * 64],
                        &X[i_0 * 512 + k_0_ahead * 8 + ty * 64 + (tx >> 1) * 32 + (tx & 1) * 4 + a_step_ahead * 256],
                        16);
            }
        }
        commit_async();
    }
    for (int k_0 = 0; k_0 < 4; ++k_0) {
        wait_async<1>();
        __syncthreads();
        if (k_0 < 2) {
            // b
            {
                #pragma unroll
                for (int b_step = 0; b_step < 2; ++b_step) {
                    copy_async_16(&b[(k_0 + 2) % 3 * 128 + ty * 16 + tx * 4 + b_step * 64],
                            &W[j_0 * 16 + k_0 * 256 + ty * 32 + tx * 4 + b_step * 128 + 512], 16);
                }
            }
            // a
            {
                #pragma unroll
                for (int a_step = 0; a_step < 2; ++a_step) {
                    copy_async_16(&a[(k_0 + 2) % 3 * 128 + ty * 16 + tx * 4 + a_step * 64],
                            &X[i_0 * 512 + k_0 * 8 + ty * 64 + (tx >> 1) * 32 + (tx & 1) * 4 + a_step * 256 + 16],
                            16);
                }
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
                        sum[i_1_1 * 4 + j_1_1] = fmaf(a[k_0 % 3 * 128 + ty * 32 + k_1 + i_1_1 * 8],
                                b[k_0 % 3 * 128 + tx * 4 + k_1 * 16 + j_1_1], sum[i_1_1 * 4 + j_1_1]);
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
                Y[i_0 * 512 + j_0 * 16 + ty * 128 + tx * 4 + row_1 * 32 + column_1] =
                        maximum(sum[row_1 * 4 + column_1], 0.0f);
            }
        }
    }
}
