// element_wise(X, Y): grid (4, 1, 1), block (64, 1, 1), 0 bytes shared, overlaps

template <typename T, int N> struct alignas(sizeof(T) * N) Vector { T at[N]; };

__device__ __forceinline__ void wait_for_kernels() { asm volatile("griddepcontrol.wait;" ::: "memory"); }

extern "C" __global__ void __launch_bounds__(64) element_wise(
    const float* X, float* __restrict__ Y) {
    const int i_0 = blockIdx.x;
    const int tx = threadIdx.x;
    wait_for_kernels();
    // soft
    if (i_0 * 64 + tx < 250) {
        const Vector<float, 4> X_vector = *(const Vector<float, 4>*)&X[i_0 * 256 + tx * 4];
        Vector<float, 4> Y_vector;
        #pragma unroll
        for (int i_2 = 0; i_2 < 4; ++i_2) {
            Y_vector.at[i_2] = X_vector.at[i_2] / ((X_vector.at[i_2] < 0.0f ? 0.0f - X_vector.at[i_2]
                    : X_vector.at[i_2]) + 1.0f);
        }
        *(Vector<float, 4>*)&Y[i_0 * 256 + tx * 4] = Y_vector;
    }
}
