// whole_blocks(Y, boxes of 4x8 in X, swizzled by 0): grid (2, 1, 1), block (32, 1, 1), 0 bytes shared, overlaps

__device__ __forceinline__ void wait_for_kernels() { asm volatile("griddepcontrol.wait;" ::: "memory"); }

__device__ __forceinline__ void show_to_products() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

struct alignas(64) TensorMap { unsigned char bytes[128]; };

struct Groups {  // of bulk copies: each has an mbarrier, which they use in turn
    unsigned long long* arrived;
    bool issues;  // whether this thread issues copies
    int issued, awaited, phase, flying, bytes;
};
template <int MOST> __device__ __forceinline__ Groups begin_groups(unsigned long long* arrived, bool issues) {
    for (int i = 0; i < MOST && issues; ++i) {
        asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;"
                     :: "r"((unsigned)__cvta_generic_to_shared(arrived + i)) : "memory");
    }
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    __syncthreads();
    return Groups{arrived, issues, 0, 0, 0, 0, 0};
}
template <int MOST> __device__ __forceinline__ void commit_bulk(Groups& groups) {
    if (groups.issues) {
        asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;"
                     :: "r"((unsigned)__cvta_generic_to_shared(groups.arrived + groups.issued)), "r"(groups.bytes)
                     : "memory");
    }
    groups.bytes = 0;
    groups.issued = groups.issued + 1 == MOST ? 0 : groups.issued + 1;
    ++groups.flying;
}
template <int MOST, int PENDING> __device__ __forceinline__ void wait_bulk(Groups& groups) {
    for (; groups.flying > PENDING; --groups.flying) {
        asm volatile("{.reg .pred done; again: "
                     "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1; @!done bra again;}"
                     :: "r"((unsigned)__cvta_generic_to_shared(groups.arrived + groups.awaited)), "r"(groups.phase)
                     : "memory");
        groups.awaited = groups.awaited + 1 == MOST ? 0 : groups.awaited + 1;
        groups.phase ^= groups.awaited == 0;
    }
}

__device__ __forceinline__ void copy_bulk_2d(
    Groups& groups, void* to, const TensorMap* map, int bytes, int c0, int c1) {
    groups.bytes += bytes;
    if (groups.issues) {
        asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
                     "[%0], [%1, {%3, %4}], [%2];"
                     :: "r"((unsigned)__cvta_generic_to_shared(to)), "l"(map),
                        "r"((unsigned)__cvta_generic_to_shared(groups.arrived + groups.issued)), "r"(c0), "r"(c1) : "memory");
    }
}

extern "C" __global__ void __launch_bounds__(32) whole_blocks(
    float* __restrict__ Y, const __grid_constant__ TensorMap X_map) {
    __shared__ alignas(128) float S[128];  // 4 x 4 x 8
    __shared__ alignas(8) unsigned long long arrived[2];
    const int b = blockIdx.x;
    const int tx = threadIdx.x;
    Groups groups = begin_groups<2>(arrived, tx == 0);
    wait_for_kernels();
    float total;
    // total.set
    {
        total = 0.0f;
    }
    for (int first = 0; first < 2; ++first) {
        // begin
        copy_bulk_2d(groups, &S[first * 32], &X_map, 128, first * 8 - 4, b * 4 - 1);
        commit_bulk<2>(groups);
    }
    for (int k = 0; k < 5; ++k) {
        wait_bulk<2, 1>(groups);
        show_to_products();
        __syncthreads();
        if (k < 3) {
            // bring
            copy_bulk_2d(groups, &S[((k + 2) & 3) * 32], &X_map, 128, k * 8 + 12, b * 4 - 1);
        }
        commit_bulk<2>(groups);
        // add
        {
            total = total + S[(k & 3) * 32 + tx];
        }
    }
    wait_bulk<2, 0>(groups);
    // Y.set
    {
        Y[b * 32 + tx] = total;
    }
}
