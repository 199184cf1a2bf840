// Instructions of inline assembly, as the PTX ISA describes them (its chapter 9, "Instruction Set").
//
// Registers are bits: uint16_t, uint32_t, uint64_t. `assembly.py` turns each instruction into one call here.

#pragma once

#include <bit>
#include <cstring>
#include <initializer_list>
#include <type_traits>

#include "block.hpp"

namespace ptx {

// -- operands of the asm statement

template <typename R, typename T>
R take(const T& value) {  // the bits of a C++ operand
    if constexpr (std::is_pointer_v<T>)
        return static_cast<R>(reinterpret_cast<uintptr_t>(value));
    else if constexpr (std::is_same_v<T, float>)
        return static_cast<R>(std::bit_cast<uint32_t>(value));
    else if constexpr (std::is_same_v<T, double>)
        return static_cast<R>(std::bit_cast<uint64_t>(value));
    else
        return static_cast<R>(value);
}

template <typename T, typename R>
void give(T& operand, R bits) {
    static_assert(sizeof(T) == sizeof(R), "an operand's constraint must be of its size");
    operand = std::bit_cast<T>(bits);
}

inline float f32(uint32_t bits) { return std::bit_cast<float>(bits); }
inline uint32_t bits(float value) { return std::bit_cast<uint32_t>(value); }

// -- conversions (cvt): to the nearest, ties to even; rna: ties away from zero

double from_f16(uint16_t x);
uint16_t to_f16(float x);
inline float from_bf16(uint16_t x) { return f32(uint32_t(x) << 16); }
uint16_t to_bf16(float x);
uint32_t to_tf32(uint32_t x);

// -- asynchronous copies (cp.async): what is in flight is poison at its destination until its wait

void cp_async(int line, const char* what, bool cg, uint32_t to, uint64_t from, unsigned bytes, unsigned from_source);
void cp_async_commit_group(int line);
void cp_async_wait_group(int line, unsigned pending);
void cp_async_wait_all(int line);

// -- loads and stores of vectors (ld, st)

void check_aligned(int line, const char* what, const void* address, size_t bytes);

template <typename R>
void load(int line, const char* what, const void* address, std::initializer_list<R*> registers) {
    check_aligned(line, what, address, sizeof(R) * registers.size());
    const unsigned char* from = static_cast<const unsigned char*>(address);
    for (R* r : registers) memcpy(r, from, sizeof(R)), from += sizeof(R);
}

template <typename R>
void store(int line, const char* what, void* address, std::initializer_list<R> registers) {
    check_aligned(line, what, address, sizeof(R) * registers.size());
    unsigned char* to = static_cast<unsigned char*>(address);
    for (R r : registers) memcpy(to, &r, sizeof(R)), to += sizeof(R);
}

// -- warps: ldmatrix, stmatrix, mma.sync

void ldmatrix(int line, const char* what, bool transposed, uint32_t address, std::initializer_list<uint32_t*> to);
void stmatrix(int line, const char* what, bool transposed, uint32_t address, std::initializer_list<uint32_t> from);

enum Type { TF32, F16, BF16, S8, U8, F32, S32 };

// D = A B + C of a warp: A is 16 x k, B k x 8, C and D 16 x 8.
void mma(int line, const char* what, unsigned k, Type a_type, Type b_type, Type c_type, Type d_type,
         std::initializer_list<uint32_t*> d, std::initializer_list<uint32_t> a, std::initializer_list<uint32_t> b,
         std::initializer_list<uint32_t> c);

// -- warpgroups: wgmma (wgmma.cpp)

// D = A B + D of 128 threads, or A B; A is 64 x `depth`, B `depth` x `columns`, both by descriptors.
void wgmma(int line, const char* what, unsigned columns, unsigned depth, Type sum_type, Type a_type, Type b_type,
           std::initializer_list<uint32_t*> d, uint64_t a, uint64_t b, bool add, int scale_a = 1, int scale_b = 1,
           int transposed_a = 0, int transposed_b = 0);
void wgmma_fence(int line);
void wgmma_commit_group(int line);
void wgmma_wait_group(int line, unsigned pending);
void fence_proxy_async(int line);

// -- bulk tensor copies and mbarriers (bulk.cpp)

void mbarrier_init(int line, const char* what, uint32_t address, uint32_t count);
void mbarrier_arrive(int line, const char* what, uint32_t address, uint32_t expected_bytes);
bool mbarrier_try_wait(int line, const char* what, uint32_t address, uint32_t parity);
void cp_async_bulk_tensor(int line, const char* what, uint32_t to, uint64_t map, std::initializer_list<uint32_t> at,
                          uint32_t mbarrier);

// -- integers: dp4a, the sum of whose products wraps

uint32_t dp4a(bool a_signed, bool b_signed, uint32_t a, uint32_t b, uint32_t c);

}  // namespace ptx
