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

// The commands that the controller sent to the part since the last reset, up to the cycle that the last step ended.
struct DramCommands {
    int64_t activates, precharges, reads, writes;
    int64_t auto_precharges;  // READ and WRITE commands that close their row
    int64_t all_precharges, refreshes, calibrations;
    uint64_t digest;  // of all commands with cycle, bank and row
};

// Cycles since the last reset by what the controller does (hw/dram.md, section 8), and changes from reads to writes.
// Only the model of LiteDRAM's controller has them; in LiteDRAM's RTL, and for several channels, they are -1.
struct DramWaits {
    int64_t words, refresh, precharge, activate, turnaround, bank, latency, idle, turnarounds;
};

struct DramCounts {
    DramCommands commands;
    DramWaits waits;
};

// A library has the counts in a function of its own beside DramCalls, `dram_counts`.
using DramCount = void (*)(void *memory, DramCounts *counts);
