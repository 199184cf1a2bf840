// What CUDA C++ has and C++ has not: vector types, built-in functions (CUDA C++ Programming Guide, "C++ Language
// Extensions"; CUDA Math API). Fast approximations are computed exactly.

#pragma once

#include <bit>
#include <cmath>

#include "block.hpp"

#define __global__
#define __device__
#define __host__
#define __constant__
#define __grid_constant__
#define __restrict__ __restrict
#define __forceinline__ inline
#define __noinline__
#define __align__(bytes) alignas(bytes)
#define __launch_bounds__(...)
#define __maxnreg__(...)

#define HOST_VECTORS(type, name, align2, align4) \
    struct name##1 { type x; };                  \
    struct alignas(align2) name##2 { type x, y; };   \
    struct name##3 { type x, y, z; };                \
    struct alignas(align4) name##4 { type x, y, z, w; }; \
    inline name##1 make_##name##1(type x) { return {x}; } \
    inline name##2 make_##name##2(type x, type y) { return {x, y}; } \
    inline name##3 make_##name##3(type x, type y, type z) { return {x, y, z}; } \
    inline name##4 make_##name##4(type x, type y, type z, type w) { return {x, y, z, w}; }

// Alignments: Programming Guide, table "Alignment Requirements".
HOST_VECTORS(signed char, char, 2, 4)
HOST_VECTORS(unsigned char, uchar, 2, 4)
HOST_VECTORS(short, short, 4, 8)
HOST_VECTORS(unsigned short, ushort, 4, 8)
HOST_VECTORS(int, int, 8, 16)
HOST_VECTORS(float, float, 8, 16)
HOST_VECTORS(long long, longlong, 16, 16)
HOST_VECTORS(unsigned long long, ulonglong, 16, 16)
HOST_VECTORS(double, double, 16, 16)

struct uint1 { unsigned x; };
struct alignas(8) uint2 { unsigned x, y; };
struct alignas(16) uint4 { unsigned x, y, z, w; };
inline uint2 make_uint2(unsigned x, unsigned y) { return {x, y}; }
inline uint3 make_uint3(unsigned x, unsigned y, unsigned z) { return {x, y, z}; }
inline uint4 make_uint4(unsigned x, unsigned y, unsigned z, unsigned w) { return {x, y, z, w}; }

// -- threads that meet

#define __syncthreads() host::meet_block(__LINE__, "__syncthreads")
#define __syncwarp(...) host::meet_warp(__LINE__, "__syncwarp")
#define __shfl_sync(mask, value, source, ...) \
    host::shuffle(__LINE__, "__shfl_sync", mask, value, [=](int lane) { return int(source) % 32; })
#define __shfl_xor_sync(mask, value, bits, ...) \
    host::shuffle(__LINE__, "__shfl_xor_sync", mask, value, [=](int lane) { return lane ^ int(bits); })
#define __shfl_down_sync(mask, value, delta, ...) \
    host::shuffle(__LINE__, "__shfl_down_sync", mask, value, [=](int lane) { return lane + int(delta); })
#define __shfl_up_sync(mask, value, delta, ...) \
    host::shuffle(__LINE__, "__shfl_up_sync", mask, value, [=](int lane) { return lane - int(delta); })
#define __threadfence()
#define __threadfence_block()

namespace host {

template <typename T, typename Source>
T shuffle(int line, const char* what, unsigned mask, T value, Source source) {
    // The lanes of the mask follow one another: the whole warp, or a part of it that begins at a multiple of its size.
    unsigned first = std::countr_zero(mask), lanes = std::popcount(mask);
    if (mask == 0 || mask >> first != (0xFFFFFFFFu >> (32 - lanes)) || first % lanes != 0 || (mask >> lane() & 1) == 0)
        fail(line, "%s of lane %u with the mask %x, which is not modelled", what, lane(), mask);
    if (mask == 0xFFFFFFFFu) lanes = warp_members();
    struct Lane {
        T value;
        int from;
        T result;
    } mine = {value, source(int(lane())) - int(first), value};
    meet(line, what, warp_begin() + first, lanes, &mine, [](void** lanes, unsigned members) {
        for (unsigned t = 0; t < members; t++) {
            Lane* to = static_cast<Lane*>(lanes[t]);
            if (to->from >= 0 && unsigned(to->from) < members) to->result = static_cast<Lane*>(lanes[to->from])->value;
        }
    });
    return mine.result;
}

}  // namespace host

// -- functions

using std::isfinite;
using std::isinf;
using std::isnan;
using std::signbit;

template <typename T> T __ldg(const T* p) { return *p; }
template <typename T> T __ldca(const T* p) { return *p; }
template <typename T> T __ldcg(const T* p) { return *p; }
template <typename T> T __ldcs(const T* p) { return *p; }
template <typename T> void __stcs(T* p, T v) { *p = v; }
template <typename T> void __stcg(T* p, T v) { *p = v; }
template <typename T> T atomicAdd(T* p, T v) { T old = *p; *p = old + v; return old; }
template <typename T> T atomicMax(T* p, T v) { T old = *p; *p = old < v ? v : old; return old; }

#define HOST_MIN_MAX(type) \
    inline type min(type a, type b) { return b < a ? b : a; } \
    inline type max(type a, type b) { return a < b ? b : a; }
HOST_MIN_MAX(int)
HOST_MIN_MAX(unsigned)
HOST_MIN_MAX(long)
HOST_MIN_MAX(unsigned long)
HOST_MIN_MAX(long long)
HOST_MIN_MAX(unsigned long long)
inline float min(float a, float b) { return fminf(a, b); }
inline float max(float a, float b) { return fmaxf(a, b); }

inline float rsqrtf(float x) { return float(1.0 / std::sqrt(double(x))); }
inline float __expf(float x) { return expf(x); }
inline float __logf(float x) { return logf(x); }
inline float __log2f(float x) { return log2f(x); }
inline float __powf(float x, float y) { return powf(x, y); }
inline float __sinf(float x) { return sinf(x); }
inline float __cosf(float x) { return cosf(x); }
inline float __tanhf(float x) { return tanhf(x); }
inline float __fdividef(float x, float y) { return x / y; }
inline float __fdiv_rn(float x, float y) { return x / y; }
inline float __fadd_rn(float x, float y) { return x + y; }
inline float __fsub_rn(float x, float y) { return x - y; }
inline float __fmul_rn(float x, float y) { return x * y; }
inline float __fmaf_rn(float x, float y, float z) { return fmaf(x, y, z); }
inline float __frcp_rn(float x) { return 1.0f / x; }
inline float __fsqrt_rn(float x) { return sqrtf(x); }
inline float __saturatef(float x) { return x > 0 ? x < 1 ? x : 1.0f : 0.0f; }

inline int __float_as_int(float x) { return std::bit_cast<int>(x); }
inline unsigned __float_as_uint(float x) { return std::bit_cast<unsigned>(x); }
inline float __int_as_float(int x) { return std::bit_cast<float>(x); }
inline float __uint_as_float(unsigned x) { return std::bit_cast<float>(x); }
inline long long __double_as_longlong(double x) { return std::bit_cast<long long>(x); }
inline double __longlong_as_double(long long x) { return std::bit_cast<double>(x); }

// Out of range to the nearest limit, not-a-number to 0: PTX ISA, cvt.
inline int __double2int_limited(double x) { return x != x ? 0 : x <= -2147483648.0 ? -2147483647 - 1 : x >= 2147483647.0 ? 2147483647 : int(x); }
inline int __float2int_rn(float x) { return __double2int_limited(std::nearbyint(double(x))); }
inline int __float2int_rz(float x) { return __double2int_limited(std::trunc(double(x))); }
inline int __float2int_rd(float x) { return __double2int_limited(std::floor(double(x))); }
inline int __float2int_ru(float x) { return __double2int_limited(std::ceil(double(x))); }
inline float __int2float_rn(int x) { return float(x); }

inline int __mulhi(int a, int b) { return int((int64_t(a) * b) >> 32); }
inline unsigned __umulhi(unsigned a, unsigned b) { return unsigned((uint64_t(a) * b) >> 32); }
inline int __popc(unsigned x) { return std::popcount(x); }
inline int __clz(unsigned x) { return std::countl_zero(x); }
inline int __ffs(unsigned x) { return __builtin_ffs(int(x)); }

inline int __dp4a(int a, int b, int c) {  // sums wrap
    unsigned sum = unsigned(c);
    for (int i = 0; i < 4; i++) sum += unsigned(int8_t(a >> 8 * i) * int8_t(b >> 8 * i));
    return int(sum);
}
inline unsigned __dp4a(unsigned a, unsigned b, unsigned c) {
    for (int i = 0; i < 4; i++) c += (a >> 8 * i & 255) * (b >> 8 * i & 255);
    return c;
}
inline unsigned __byte_perm(unsigned x, unsigned y, unsigned selector) {
    uint64_t bytes = uint64_t(y) << 32 | x;
    unsigned result = 0;
    for (int i = 0; i < 4; i++) result |= unsigned(bytes >> 8 * (selector >> 4 * i & 7) & 255) << 8 * i;
    return result;
}

inline size_t __cvta_generic_to_shared(const void* pointer) { return host::shared_address(pointer); }
inline size_t __cvta_generic_to_global(const void* pointer) { return reinterpret_cast<size_t>(pointer); }
