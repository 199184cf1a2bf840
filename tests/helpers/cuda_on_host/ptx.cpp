// The models of ptx.hpp; section names are the PTX ISA's.

#include "ptx.hpp"

#include <cmath>
#include <utility>

#include "async_copies.hpp"

namespace ptx {

using host::fail;

// -- "Data Movement and Conversion Instructions: cvt"

double from_f16(uint16_t x) {
    int exponent = x >> 10 & 31, fraction = x & 1023;
    double value = exponent == 31 ? (fraction ? NAN : INFINITY)
                   : exponent     ? std::ldexp(1024 + fraction, exponent - 25)
                                  : std::ldexp(fraction, -24);
    return x >> 15 ? -value : value;
}

uint16_t to_f16(float x) {
    uint16_t sign = std::signbit(x) ? 0x8000 : 0;
    double size = std::fabs(x);
    if (std::isnan(x)) return 0x7FFF;
    if (size >= 65520) return sign | 0x7C00;
    int exponent = size < std::ldexp(1, -14) ? -14 : std::ilogb(size);
    long steps = std::lrint(std::ldexp(size, 10 - exponent));  // 1024 to 2048, or fewer where subnormal
    return static_cast<uint16_t>(sign + ((exponent + 14) << 10) + steps);
}

uint16_t to_bf16(float x) {
    if (std::isnan(x)) return 0x7FFF;
    uint32_t b = bits(x);
    return static_cast<uint16_t>((b + 0x7FFF + (b >> 16 & 1)) >> 16);
}

uint32_t to_tf32(uint32_t x) {  // 10 bits of the fraction remain
    return (x >> 23 & 255) == 255 ? x : (x + 0x1000) & ~0x1FFFu;
}

// -- "Data Movement and Conversion Instructions: cp.async"

void cp_async(int line, const char* what, bool cg, uint32_t to, uint64_t from, unsigned bytes, unsigned from_source) {
    if (bytes != 16 && (cg || (bytes != 4 && bytes != 8))) fail(line, "%s of %u bytes", what, bytes);
    if (from_source > bytes) fail(line, "%s of %u bytes with a source size of %u", what, bytes, from_source);
    if (from % bytes)
        fail(line, "%s: source address 0x%llx is not a multiple of %u", what, (unsigned long long)from, bytes);
    host::AsyncCopy copy = {};
    copy.destination = host::shared_pointer(line, what, to, bytes);
    copy.source = reinterpret_cast<const unsigned char*>(from);
    copy.bytes = bytes, copy.from_source = from_source, copy.line = line;
    memcpy(copy.data, copy.source, from_source);
    memset(copy.destination, host::POISON, bytes);
    host::copies_of_thread().open.push_back(copy);
}

void cp_async_commit_group(int) {
    host::AsyncCopies& copies = host::copies_of_thread();
    copies.committed.push_back(std::exchange(copies.open, {}));
}

void cp_async_wait_group(int line, unsigned pending) {
    auto& groups = host::copies_of_thread().committed;
    while (groups.size() > pending) {
        for (const host::AsyncCopy& copy : groups.front()) {
            if (memcmp(copy.source, copy.data, copy.from_source))
                fail(copy.line, "the source of an asynchronous copy was overwritten before the wait in line %d", line);
            memcpy(copy.destination, copy.data, copy.bytes);
            host::copies_of_thread().landed.push_back({copy.destination, copy.bytes});
        }
        groups.erase(groups.begin());
    }
}

void cp_async_wait_all(int line) {
    cp_async_commit_group(line);
    cp_async_wait_group(line, 0);
}

void check_aligned(int line, const char* what, const void* address, size_t bytes) {
    if (reinterpret_cast<uintptr_t>(address) % bytes)
        fail(line, "%s: address %p is not a multiple of %zu", what, address, bytes);
}

// -- "Warp-level matrix load instruction: ldmatrix", "... store instruction: stmatrix". Lanes 8 m to 8 m + 7 hold the
// addresses of the rows, of 16 bytes, of matrix m; lane t has the elements 2 (t % 4) and one more of row t / 4, or,
// transposed, of that column.

struct MatrixLane {
    unsigned char* row;
    uint32_t registers[4];
    unsigned count;
    bool transposed, storing;
};

static void exchange_elements(void** lanes, unsigned) {
    auto lane = [&](unsigned t) { return static_cast<MatrixLane*>(lanes[t]); };
    for (unsigned m = 0; m < lane(0)->count; m++)
        for (unsigned t = 0; t < 32; t++)
            for (unsigned half = 0; half < 2; half++) {
                unsigned along = t % 4 * 2 + half, across = t / 4;
                unsigned row = lane(0)->transposed ? along : across, column = lane(0)->transposed ? across : along;
                unsigned char* element = lane(8 * m + row)->row + 2 * column;
                unsigned char* own = reinterpret_cast<unsigned char*>(&lane(t)->registers[m]) + 2 * half;
                lane(0)->storing ? memcpy(element, own, 2) : memcpy(own, element, 2);
            }
}

static void exchange_matrices(int line, const char* what, uint32_t address, MatrixLane& mine) {
    if (host::lane() < 8 * mine.count) mine.row = host::shared_pointer(line, what, address, 16);
    host::meet(line, what, host::warp_begin(), 32, &mine, exchange_elements);
}

void ldmatrix(int line, const char* what, bool transposed, uint32_t address, std::initializer_list<uint32_t*> to) {
    MatrixLane mine = {nullptr, {}, static_cast<unsigned>(to.size()), transposed, false};
    exchange_matrices(line, what, address, mine);
    const uint32_t* value = mine.registers;
    for (uint32_t* r : to) *r = *value++;
}

void stmatrix(int line, const char* what, bool transposed, uint32_t address, std::initializer_list<uint32_t> from) {
    MatrixLane mine = {nullptr, {}, static_cast<unsigned>(from.size()), transposed, true};
    uint32_t* value = mine.registers;
    for (uint32_t r : from) *value++ = r;
    exchange_matrices(line, what, address, mine);
}

// -- "Multiply-and-Accumulate Instruction: mma", "Matrix Fragments for mma.m16n8k..."

static unsigned element_bits(Type type) { return type == S8 || type == U8 ? 8 : type == F16 || type == BF16 ? 16 : 32; }

struct Place {
    unsigned row, column;
};

// Where element i of a lane's fragment lies in A. The formulas are those of m16n8k8 (tf32), m16n8k16 (f16, bf16) and
// m16n8k32 (s8, u8); with half of k the fragments are the first halves of these, by the same formulas.
static Place place_in_a(Type type, unsigned lane, unsigned i) {
    unsigned group = lane >> 2, in_group = lane % 4;
    switch (type) {
        case TF32:
            return {i == 0 || i == 2 ? group : group + 8, i < 2 ? in_group : in_group + 4};
        case F16:
        case BF16:
            return {i < 2 || (4 <= i && i < 6) ? group : group + 8, in_group * 2 + (i & 1) + (i < 4 ? 0 : 8)};
        default:
            return {i < 4 || (8 <= i && i < 12) ? group : group + 8, in_group * 4 + (i & 3) + (i < 8 ? 0 : 16)};
    }
}

static Place place_in_b(Type type, unsigned lane, unsigned i) {
    unsigned group = lane >> 2, in_group = lane % 4;
    switch (type) {
        case TF32:
            return {i == 0 ? in_group : in_group + 4, group};
        case F16:
        case BF16:
            return {in_group * 2 + (i & 1) + (i < 2 ? 0 : 8), group};
        default:
            return {in_group * 4 + (i & 3) + (i < 4 ? 0 : 16), group};
    }
}

static Place place_in_c(unsigned lane, unsigned i) { return {(lane >> 2) + (i < 2 ? 0 : 8), lane % 4 * 2 + (i & 1)}; }

static double element(Type type, const uint32_t* registers, unsigned i) {
    const unsigned width = element_bits(type), each = 32 / width;
    uint32_t x = registers[i / each] >> (i % each * width);
    switch (type) {
        case TF32:
            return f32(x & ~0x1FFFu);  // the low bits of the fraction are not looked at
        case F16:
            return from_f16(uint16_t(x));
        case BF16:
            return from_bf16(uint16_t(x));
        case S8:
            return int8_t(x);
        case U8:
            return uint8_t(x);
        case F32:
            return f32(x);
        default:
            return int32_t(x);
    }
}

static void put_element(Type type, uint32_t* registers, unsigned i, double value) {
    if (type == F16) {
        unsigned shift = i % 2 * 16;
        registers[i / 2] = (registers[i / 2] & ~(0xFFFFu << shift)) | uint32_t(to_f16(float(value))) << shift;
    } else if (type == S32) {
        registers[i] = uint32_t(int64_t(value));  // wraps
    } else {
        registers[i] = bits(float(value));
    }
}

struct MmaLane {
    uint32_t a[4], b[2], c[4], d[4];
    unsigned k;
    Type a_type, b_type, c_type, d_type;
};

static void multiply(void** lanes, unsigned) {
    static double A[16][32], B[32][8];
    auto lane = [&](unsigned t) { return static_cast<MmaLane*>(lanes[t]); };
    const MmaLane& all = *lane(0);
    for (unsigned t = 0; t < 32; t++) {
        for (unsigned i = 0; i < 16 * all.k / 32; i++) {
            Place p = place_in_a(all.a_type, t, i);
            A[p.row][p.column] = element(all.a_type, lane(t)->a, i);
        }
        for (unsigned i = 0; i < 8 * all.k / 32; i++) {
            Place p = place_in_b(all.b_type, t, i);
            B[p.row][p.column] = element(all.b_type, lane(t)->b, i);
        }
    }
    for (unsigned t = 0; t < 32; t++)
        for (unsigned i = 0; i < 4; i++) {
            Place p = place_in_c(t, i);
            double sum = element(all.c_type, lane(t)->c, i);
            for (unsigned j = 0; j < all.k; j++) sum += A[p.row][j] * B[j][p.column];
            put_element(all.d_type, lane(t)->d, i, sum);
        }
}

void mma(int line, const char* what, unsigned k, Type a_type, Type b_type, Type c_type, Type d_type,
         std::initializer_list<uint32_t*> d, std::initializer_list<uint32_t> a, std::initializer_list<uint32_t> b,
         std::initializer_list<uint32_t> c) {
    auto registers = [](Type type, unsigned elements) { return elements * element_bits(type) / 32; };
    if (a.size() != registers(a_type, 16 * k / 32) || b.size() != registers(b_type, 8 * k / 32) ||
        c.size() != registers(c_type, 4) || d.size() != registers(d_type, 4))
        fail(line, "%s with %zu, %zu, %zu and %zu registers", what, d.size(), a.size(), b.size(), c.size());
    MmaLane mine = {{}, {}, {}, {}, k, a_type, b_type, c_type, d_type};
    unsigned n = 0;
    for (uint32_t r : a) mine.a[n++] = r;
    n = 0;
    for (uint32_t r : b) mine.b[n++] = r;
    n = 0;
    for (uint32_t r : c) mine.c[n++] = r;
    host::meet(line, what, host::warp_begin(), 32, &mine, multiply);
    n = 0;
    for (uint32_t* r : d) *r = mine.d[n++];
}

// -- "Integer Arithmetic Instructions: dp4a"

uint32_t dp4a(bool a_signed, bool b_signed, uint32_t a, uint32_t b, uint32_t c) {
    for (int i = 0; i < 4; i++) {
        int x = a_signed ? int(int8_t(a >> 8 * i)) : int(uint8_t(a >> 8 * i));
        int y = b_signed ? int(int8_t(b >> 8 * i)) : int(uint8_t(b >> 8 * i));
        c += uint32_t(x * y);
    }
    return c;
}

}  // namespace ptx
