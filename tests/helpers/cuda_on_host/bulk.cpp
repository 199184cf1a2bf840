// Bulk tensor copies and the mbarriers that they arrive at; section names are the PTX ISA's.
//
// What a copy fills is poison from its issue on. It comes as late as it may: when a thread waits for the phase of its
// mbarrier, which is complete when all have arrived and as many bytes have come as were expected.

#include <map>
#include <vector>

#include "async_copies.hpp"
#include "ptx.hpp"

namespace host {

struct Piece16 {  // of a copy: 16 bytes of shared memory, what they will hold, and where that comes from
    unsigned char* destination;
    const unsigned char* source;  // null outside of the array
    unsigned char data[16];
};

struct BulkCopy {
    std::vector<Piece16> pieces;
    int line;
    bool rounds;
};

struct Mbarrier {
    uint32_t count, pending;
    long long expected;  // bytes, less those that have come
    bool phase;
    std::vector<BulkCopy> copies;
};

static std::map<uint32_t, Mbarrier> mbarriers;

void begin_bulk() { mbarriers.clear(); }

void end_bulk() {
    for (auto& [address, barrier] : mbarriers)
        for (const BulkCopy& copy : barrier.copies) fail(copy.line, "a bulk copy is not waited for");
}

static Mbarrier& mbarrier_at(int line, const char* what, uint32_t address) {
    auto found = mbarriers.find(address);
    if (found == mbarriers.end()) fail(line, "%s: there is no mbarrier at 0x%x", what, address);
    return found->second;
}

static bool complete(const Mbarrier& barrier) {
    long long coming = 0;
    for (const BulkCopy& copy : barrier.copies) coming += 16 * copy.pieces.size();
    return barrier.pending == 0 && barrier.expected == coming;
}

// "Phase Completion of the mbarrier object".
static void settle(Mbarrier& barrier) {
    if (!complete(barrier)) return;
    for (const BulkCopy& copy : barrier.copies)
        for (const Piece16& piece : copy.pieces) {
            if (piece.source && memcmp(piece.source, piece.data, 16))
                fail(copy.line, "the source of a bulk copy was overwritten before the wait");
            memcpy(piece.destination, piece.data, 16);
            for (unsigned i = 0; i < 16 && copy.rounds; i += 4) {
                uint32_t word;
                memcpy(&word, piece.data + i, 4);
                // To the nearest, ties to even: seen on an H100, not in the document.
                if ((word >> 23 & 255) != 255) word = (word + 0xFFF + (word >> 13 & 1)) & ~0x1FFFu;
                memcpy(piece.destination + i, &word, 4);
            }
        }
    barrier.copies.clear();
    barrier.expected = 0, barrier.pending = barrier.count, barrier.phase = !barrier.phase;
}

}  // namespace host

namespace ptx {

using host::fail;

void mbarrier_init(int line, const char* what, uint32_t address, uint32_t count) {
    host::shared_pointer(line, what, address, 8);
    if (count == 0 || count > (1 << 20) - 1) fail(line, "%s of %u arrivals", what, count);
    host::mbarriers[address] = {count, count, 0, false, {}};
}

void mbarrier_arrive(int line, const char* what, uint32_t address, uint32_t expected_bytes) {
    host::Mbarrier& barrier = host::mbarrier_at(line, what, address);
    host::settle(barrier);
    if (barrier.pending == 0) fail(line, "%s: all have arrived at 0x%x, but bytes are missing", what, address);
    barrier.expected += expected_bytes;
    if (barrier.expected > (1 << 20) - 1) fail(line, "%s: %lld bytes are expected", what, barrier.expected);
    barrier.pending--;
}

struct Awaited {
    host::Mbarrier* barrier;
    bool parity;
};

// "mbarrier.try_wait": true when the phase of that parity is over, which is the one before the present one.
static bool is_over(void* context) {
    const Awaited& awaited = *static_cast<Awaited*>(context);
    if (awaited.barrier->phase == awaited.parity) host::settle(*awaited.barrier);
    return awaited.barrier->phase != awaited.parity;
}

bool mbarrier_try_wait(int line, const char* what, uint32_t address, uint32_t parity) {
    if (parity > 1) fail(line, "%s with a parity of %u", what, parity);
    Awaited awaited = {&host::mbarrier_at(line, what, address), parity == 1};
    host::wait_until(line, what, is_over, &awaited);
    return true;
}

// "cp.async.bulk.tensor", "Tensor swizzle modes": pieces of 16 bytes trade places by bits of their addresses.
static uint32_t swizzled(uint32_t address, unsigned bytes) {
    uint32_t mask = bytes / 16 - 1;
    return address ^ (address >> 7 & mask) << 4;
}

void cp_async_bulk_tensor(int line, const char* what, uint32_t to, uint64_t map, std::initializer_list<uint32_t> at,
                          uint32_t mbarrier) {
    if (map % 64) fail(line, "%s: the tensor map is not aligned to 64 bytes", what);
    host::TensorMap tensor;
    memcpy(&tensor, reinterpret_cast<const void*>(map), sizeof tensor);
    host::Mbarrier& barrier = host::mbarrier_at(line, what, mbarrier);
    host::settle(barrier);
    if (barrier.pending == 0) fail(line, "%s: the phase before is not over at 0x%x", what, mbarrier);
    unsigned row = tensor.box[0] * tensor.element_bytes;
    if (tensor.dimensions != at.size() || row % 16 || reinterpret_cast<uintptr_t>(tensor.address) % 16)
        fail(line, "%s: a tensor map of %u dimensions, rows of %u bytes, at %p", what, tensor.dimensions, row, tensor.address);
    if (tensor.swizzle && row != tensor.swizzle) fail(line, "%s: no model of rows of %u bytes swizzled by %u", what, row, tensor.swizzle);
    host::shared_pointer(line, what, to, 128);
    if (tensor.swizzle && to % (8 * tensor.swizzle)) fail(line, "%s: address 0x%x: no model of a base offset", what, to);
    long long from[5] = {}, strides[5] = {};
    size_t rows = 1, stride = tensor.element_bytes;
    for (unsigned d = 0; d < tensor.dimensions; d++) {
        from[d] = static_cast<int32_t>(at.begin()[d]);
        if (tensor.box[d] == 0 || tensor.box[d] > 256) fail(line, "%s: a box of %u elements", what, tensor.box[d]);
        if (d && stride % 16) fail(line, "%s: a stride of %zu bytes", what, stride);
        strides[d] = stride, stride *= tensor.sizes[d];
        if (d) rows *= tensor.box[d];
    }
    host::BulkCopy copy = {{}, line, tensor.rounds != 0};
    for (size_t r = 0; r < rows; r++) {
        size_t rest = r;
        bool inside = true;
        long long offset = 0;
        for (unsigned d = 1; d < tensor.dimensions; d++) {
            long long index = from[d] + static_cast<long long>(rest % tensor.box[d]);
            rest /= tensor.box[d];
            inside = inside && index >= 0 && index < static_cast<long long>(tensor.sizes[d]);
            offset += index * strides[d];
        }
        for (unsigned byte = 0; byte < row; byte += 16) {
            uint32_t address = to + static_cast<uint32_t>(r * row) + byte;
            host::Piece16 piece = {host::shared_pointer(line, what, tensor.swizzle ? swizzled(address, tensor.swizzle) : address, 16), nullptr, {}};
            for (unsigned i = 0; i < 16; i += tensor.element_bytes) {
                long long index = from[0] + (byte + i) / tensor.element_bytes;
                if (!inside || index < 0 || index >= static_cast<long long>(tensor.sizes[0])) continue;
                memcpy(piece.data + i, tensor.address + offset + index * tensor.element_bytes, tensor.element_bytes);
            }
            long long first = from[0] + byte / tensor.element_bytes;
            if (inside && first >= 0 && first + 16 / tensor.element_bytes <= static_cast<long long>(tensor.sizes[0]))
                piece.source = tensor.address + offset + first * tensor.element_bytes;
            memset(piece.destination, host::POISON, 16);
            copy.pieces.push_back(piece);
        }
    }
    barrier.copies.push_back(copy);
}

}  // namespace ptx
