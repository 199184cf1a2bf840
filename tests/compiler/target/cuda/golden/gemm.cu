// gemm(W, X, Y): grid (2, 3, 1), block (8, 8, 1), 0 bytes shared

template <typename T, int N> struct alignas(sizeof(T) * N) Vector { T at[N]; };

__device__ __forceinline__ float maximum(float a, float b) {
    float c;
    asm("max.NaN.f32 %0, %1, %2;" : "=f"(c) : "f"(a), "f"(b));
    return c;
}

extern "C" __global__ void __launch_bounds__(64) gemm(
    const float* __restrict__ W, const float* __restrict__ X, float* __restrict__ Y) {
    __shared__ alignas(128) float b[256];
    __shared__ alignas(128) float a[256];
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
    for (int k_0 = 0; k_0 < 3; ++k_0) {
        __syncthreads();
        // b
        {
            #pragma unroll
            for (int b_0 = 0; b_0 < 2; ++b_0) {
                *(Vector<float, 2>*)&b[ty * 32 + tx * 4 + b_0 * 2] = k_0 * 8 + ty < 20 && j_0 * 32 + tx * 4 + b_0 * 2 < 50 ? *(const Vector<float, 2>*)&W[j_0 * 32 + k_0 * 400 + ty * 50 + tx * 4 + b_0 * 2] : Vector<float, 2>{};
            }
        }
        // a
        {
            *(Vector<float, 4>*)&a[ty * 32 + tx * 4] = i_0 * 32 + ty * 4 + (tx >> 1) < 70 && k_0 * 8 + (tx & 1) * 4 < 20 ? *(const Vector<float, 4>*)&X[i_0 * 640 + k_0 * 8 + ty * 80 + (tx >> 1) * 20 + (tx & 1) * 4] : Vector<float, 4>{};
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
                        sum[i_1_1 * 4 + j_1_1] = fmaf(a[ty * 32 + k_1 + i_1_1 * 8], b[tx * 4 + k_1 * 32 + j_1_1], sum[i_1_1 * 4 + j_1_1]);
                    }
                }
            }
        }
    }
    // post
    if (i_0 * 32 + ty * 4 < 70 && j_0 * 32 + tx * 4 < 50) {
        #pragma unroll
        for (int row_1 = 0; row_1 < 4; ++row_1) {
            if (i_0 * 32 + ty * 4 + row_1 < 70) {
                #pragma unroll
                for (int column_1 = 0; column_1 < 4; ++column_1) {
                    if (j_0 * 32 + tx * 4 + column_1 < 50) {
                        Y[i_0 * 1600 + j_0 * 32 + ty * 200 + tx * 4 + row_1 * 50 + column_1] = maximum(sum[row_1 * 4 + column_1], 0.0f);
                    }
                }
            }
        }
    }
}
