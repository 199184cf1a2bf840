// Products of warpgroups; section names are the PTX ISA's, of "Asynchronous Warpgroup Level Matrix Instructions".
//
// A product is computed as it is issued. That it may be is checked: a fence goes before it, whatever cp.async brought
// into what it reads has been fenced for the asynchronous proxy by the thread that it belongs to, and nothing that it
// reads is overwritten before it is waited for.

#include <utility>

#include "async_copies.hpp"
#include "ptx.hpp"

namespace ptx {

using host::fail;

constexpr unsigned GROUP = 128, ROWS = 64, DEEPEST = 32, WIDEST = 256;

// "Matrix Descriptor Format".
struct Matrix {
    uint32_t start, leading, stride, row;  // bytes; a row that is swizzled, or 0
};

static Matrix decode(int line, const char* what, uint64_t descriptor) {
    auto field = [&](unsigned from) { return static_cast<uint32_t>(descriptor >> from & 0x3FFF) << 4; };
    if (descriptor >> 49 & 7) fail(line, "%s: descriptor 0x%llx: a base offset", what, (unsigned long long)descriptor);
    if (descriptor & 0x3FF1'C000'C000'C000ull) fail(line, "%s: reserved bits of descriptor 0x%llx", what, (unsigned long long)descriptor);
    const uint32_t rows[] = {0, 128, 64, 32};
    return {field(0), field(16), field(32), rows[descriptor >> 62]};
}

struct Product {
    uint32_t d[WIDEST / 2];
    uint64_t a, b;
    unsigned columns, depth;
    Type a_type, b_type, sum_type;
    bool add, transposed_a, transposed_b;
    int line;
    const char* what;
    host::AsyncCopies* copies;
};

// "Shared Memory Matrix Layout", with swizzling: line `line` of 16 bytes of core matrix number (beside, deep). Eight lines
// are rows of a block; across the depth a row has several core matrices side by side, then comes the next block.
static uint32_t swizzled_line(const Matrix& matrix, bool transposed, unsigned beside, unsigned deep, unsigned line) {
    unsigned pieces = matrix.row / 16;
    uint32_t address = matrix.start + line * matrix.row;
    if (transposed)
        address += beside / pieces * matrix.leading + beside % pieces * 16 + deep * matrix.stride;
    else
        address += beside * matrix.stride + deep * 16;
    return address ^ (address >> 7 & (pieces - 1)) << 4;
}

static double element(Type type, const unsigned char* at) {
    uint16_t half;
    uint32_t word;
    memcpy(&half, at, type == S8 || type == U8 ? 1 : 2);
    switch (type) {
        case F16:
            return from_f16(half);
        case BF16:
            return from_bf16(half);
        case S8:
            return int8_t(*at);
        case U8:
            return *at;
        default:
            memcpy(&word, at, 4);
            return f32(word & ~0x1FFFu);  // tf32: the low bits of the fraction are not looked at
    }
}

// "Shared Memory Matrix Layout": core matrices of 8 lines of 16 bytes; `index` counts rows of A or columns of B. A line
// is along the depth, or, transposed, along the index.
static void read_matrix(const Product& product, uint64_t descriptor, Type type, bool transposed, unsigned size,
                        double (*to)[DEEPEST]) {
    Matrix matrix = decode(product.line, product.what, descriptor);
    const unsigned bytes = type == TF32 ? 4 : type == S8 || type == U8 ? 1 : 2, length = 16 / bytes;
    const unsigned deep_step = transposed ? 8 : length;
    for (unsigned index = 0; index < size; index += 8)
        for (unsigned depth = 0; depth < product.depth; depth += deep_step) {
            for (unsigned line = 0; line < 8; line++) {
                unsigned beside = index / 8, deep = depth / deep_step;
                uint32_t low = matrix.row
                    ? swizzled_line(matrix, transposed, beside, deep, line)
                    : matrix.start + beside * matrix.stride + deep * matrix.leading + 16 * line;
                uint32_t address = host::whole_shared_address(low & 0x3FFFF);
                unsigned char* at = host::shared_pointer(product.line, product.what, address, 16);
                host::check_fenced(product.line, product.what, at, 16);
                host::Source source = {at, {}};
                memcpy(source.data, at, 16);
                product.copies->products.open.push_back(source);
                for (unsigned i = 0; i < length; i++)
                    to[index + (transposed ? i : line)][depth + (transposed ? line : i)] = element(type, at + i * bytes);
            }
        }
}

// "Register Fragments": D of .m64nNk16, which all have. A float sum is rounded once, a whole one wraps.
static void multiply_group(void** lanes, unsigned) {
    static double A[ROWS][DEEPEST], B[WIDEST][DEEPEST];
    auto lane = [&](unsigned t) { return static_cast<Product*>(lanes[t]); };
    const Product& all = *lane(0);
    for (unsigned t = 0; t < GROUP; t++) {
        const Product& own = *lane(t);
        if (own.a != all.a || own.b != all.b) fail(all.line, "%s: descriptors differ between threads", all.what);
        if (!own.copies->products.fenced) fail(all.line, "%s without a wgmma.fence before it", all.what);
        own.copies->products.issued = true;
    }
    read_matrix(all, all.a, all.a_type, all.transposed_a, ROWS, A);
    read_matrix(all, all.b, all.b_type, all.transposed_b, all.columns, B);
    for (unsigned t = 0; t < GROUP; t++)
        for (unsigned i = 0; i < all.columns / 2; i++) {
            unsigned warp = t / 32, group = t % 32 >> 2, in_group = t % 4;
            unsigned row = 16 * warp + group + ((i & 2) ? 8 : 0), column = 8 * (i / 4) + in_group * 2 + (i & 1);
            uint32_t& d = lane(t)->d[i];
            const bool whole = all.sum_type == S32;
            double sum = !all.add ? 0.0 : whole ? int32_t(d) : f32(d);
            for (unsigned k = 0; k < all.depth; k++) sum += A[row][k] * B[column][k];
            d = whole ? uint32_t(int64_t(sum)) : bits(static_cast<float>(sum));
        }
}

void wgmma(int line, const char* what, unsigned columns, unsigned depth, Type sum_type, Type a_type, Type b_type,
           std::initializer_list<uint32_t*> d, uint64_t a, uint64_t b, bool add, int scale_a, int scale_b,
           int transposed_a, int transposed_b) {
    const bool whole = sum_type == S32;
    if (columns % (whole && columns >= 32 ? 16 : 8) || columns < 8 || columns > WIDEST || d.size() != columns / 2)
        fail(line, "%s of %u columns with %zu registers", what, columns, d.size());
    if (scale_a != 1 || scale_b != 1) fail(line, "%s: no model of other signs", what);
    Product mine = {{}, a, b, columns, depth, a_type, b_type, sum_type, add, transposed_a != 0, transposed_b != 0, line, what, &host::copies_of_thread()};
    unsigned n = 0;
    for (uint32_t* r : d) mine.d[n++] = *r;
    host::meet(line, what, host::warp_begin() / GROUP * GROUP, GROUP, &mine, multiply_group);
    n = 0;
    for (uint32_t* r : d) *r = mine.d[n++];
}

void wgmma_fence(int) { host::copies_of_thread().products.fenced = true; }

void wgmma_commit_group(int) {
    host::Products& products = host::copies_of_thread().products;
    products.committed.push_back(std::exchange(products.open, {}));
    products.issued = false;
}

void wgmma_wait_group(int line, unsigned pending) {
    host::Products& products = host::copies_of_thread().products;
    while (products.committed.size() > pending) {
        for (const host::Source& source : products.committed.front())
            if (memcmp(source.line, source.data, 16))
                fail(line, "a factor of wgmma was overwritten before the wait");
        products.committed.erase(products.committed.begin());
    }
    // From here on registers may be used, and a fence must order that.
    products.fenced = false;
}

void fence_proxy_async(int) { host::copies_of_thread().landed.clear(); }

}  // namespace ptx
