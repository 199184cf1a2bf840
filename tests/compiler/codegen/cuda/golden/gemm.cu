// gemm(W, X, Y): grid (2, 3, 1), block (4, 4, 1), 0 bytes shared, overlaps

template <typename T, int N> struct alignas(sizeof(T) * N) Vector { T at[N]; };

__device__ __forceinline__ void wait_for_kernels() { asm volatile("griddepcontrol.wait;" ::: "memory"); }

__device__ __forceinline__ float maximum(float a, float b) {
    float c;
    asm("max.NaN.f32 %0, %1, %2;" : "=f"(c) : "f"(a), "f"(b));
    return c;
}

extern "C" __global__ void __launch_bounds__(16) gemm(
    const float* W, const float* X, float* __restrict__ Y) {
    __shared__ alignas(128) float b[128];  // 8 x 16
    __shared__ alignas(128) float a[128];  // 16 x 8
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
    for (int k_0 = 0; k_0 < 3; ++k_0) {
        __syncthreads();
        // b
        {
            #pragma unroll
            for (int b_step = 0; b_step < 2; ++b_step) {
                #pragma unroll
                for (int b_0 = 0; b_0 < 2; ++b_0) {
                    *(Vector<float, 2>*)&b[ty * 16 + tx * 4 + b_step * 64 + b_0 * 2] =
                            k_0 * 8 + ty + b_step * 4 < 20 && j_0 * 16 + tx * 4 + b_0 * 2 < 18
                            ? *(const Vector<float, 2>*)&W[j_0 * 16 + k_0 * 144 + ty * 18 + tx * 4 + b_step * 72
                            + b_0 * 2] : Vector<float, 2>{};
                }
            }
        }
        // a
        {
            #pragma unroll
            for (int a_step = 0; a_step < 2; ++a_step) {
                *(Vector<float, 4>*)&a[ty * 16 + tx * 4 + a_step * 64] =
                        i_0 * 16 + ty * 2 + (tx >> 1) + a_step * 8 < 35 && k_0 * 8 + (tx & 1) * 4 < 20
                        ? *(const Vector<float, 4>*)&X[i_0 * 320 + k_0 * 8 + ty * 40 + (tx >> 1) * 20 + (tx & 1) * 4
                        + a_step * 160] : Vector<float, 4>{};
            }
        }
        __syncthreads();
        // gemm
        {
            #pragma unroll
            for (int k_1 = 0; k_1 < 8; ++k_1) {
                #pragma unroll
                for (int i_1_1 = 0; i_1_1 < 4; ++i_1_1) {
                    #pragma unroll
                    for (int j_1_1 = 0; j_1_1 < 4; ++j_1_1) {
                        sum[i_1_1 * 4 + j_1_1] = fmaf(a[ty * 32 + k_1 + i_1_1 * 8], b[tx * 4 + k_1 * 16 + j_1_1],
                                sum[i_1_1 * 4 + j_1_1]);
                    }
                }
            }
        }
    }
    // post
    if (i_0 * 16 + ty * 4 < 35 && j_0 * 16 + tx * 4 < 18) {
        #pragma unroll
        for (int row_1 = 0; row_1 < 4; ++row_1) {
            if (i_0 * 16 + ty * 4 + row_1 < 35) {
                #pragma unroll
                for (int column_1 = 0; column_1 < 4; ++column_1) {
                    if (j_0 * 16 + tx * 4 + column_1 < 18) {
                        Y[i_0 * 288 + j_0 * 16 + ty * 72 + tx * 4 + row_1 * 18 + column_1] =
                                maximum(sum[row_1 * 4 + column_1], 0.0f);
                    }
                }
            }
        }
    }
}
