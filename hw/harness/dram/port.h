// The AXI port between harness.cpp and memory.cpp, in one cycle, and the functions of a memory.
#pragma once
#include <cstdint>

constexpr int MOST_BUS_BYTES = 64;

// What the accelerator drives. It always takes data and responses; a router between may not (r_waits, b_waits).
struct DramInputs {
    uint64_t ar_address, aw_address;
    uint8_t ar_valid, ar_length, aw_valid, aw_length, w_valid, w_last, w_strobe[8], w_data[MOST_BUS_BYTES];
    uint8_t r_waits, b_waits;
};

// What the memory drives.
struct DramOutputs {
    uint8_t ar_ready, aw_ready, w_ready, r_valid, r_last, b_valid, r_data[MOST_BUS_BYTES];
};

struct DramCalls {
    void *(*create)();
    void (*destroy)(void *);
    void (*reset)(void *);
    // Ends the current cycle with these inputs; the outputs are those of the next cycle.
    void (*step)(void *, const DramInputs *, DramOutputs *);
    void (*copy)(void *, uint8_t *, uint64_t, int32_t);
};
