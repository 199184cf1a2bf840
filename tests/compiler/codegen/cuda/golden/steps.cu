// steps_0(X, workspace + 0, 0): grid (1, 1, 1), block (32, 1, 1), 0 bytes shared, overlaps
// steps_1(workspace + 0, Y, 0): grid (1, 1, 1), block (32, 1, 1), 0 bytes shared, overlaps
// steps_0(X, workspace + 0, 1): grid (1, 1, 1), block (32, 1, 1), 0 bytes shared, overlaps
// steps_1(workspace + 0, Y, 1): grid (1, 1, 1), block (32, 1, 1), 0 bytes shared, overlaps
// steps_0(X, workspace + 0, 2): grid (1, 1, 1), block (32, 1, 1), 0 bytes shared, overlaps
// steps_1(workspace + 0, Y, 2): grid (1, 1, 1), block (32, 1, 1), 0 bytes shared, overlaps
// steps_0(X, workspace + 0, 3): grid (1, 1, 1), block (32, 1, 1), 0 bytes shared, overlaps
// steps_1(workspace + 0, Y, 3): grid (1, 1, 1), block (32, 1, 1), 0 bytes shared, overlaps

__device__ __forceinline__ void wait_for_kernels() { asm volatile("griddepcontrol.wait;" ::: "memory"); }

extern "C" __global__ void __launch_bounds__(32) steps_0(
    const float* X, float* __restrict__ held, int t) {
    const int tx = threadIdx.x;
    wait_for_kernels();
    // double
    {
        held[tx] = X[t * 32 + tx] * 2.0f;
    }
}

extern "C" __global__ void __launch_bounds__(32) steps_1(
    const float* held, float* __restrict__ Y, int t) {
    const int tx = threadIdx.x;
    wait_for_kernels();
    // turn
    {
        Y[t * 32 + tx] = held[31 - tx];
    }
}
