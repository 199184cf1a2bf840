// The functions of a memory (port.h) for the class `Memory` of the file that includes this header below the class and
// the functions `create` and `destroy`. A memory has `reset`, `step`, and `word(number)`, the first byte of a bus word.
#pragma once
#include <cstdint>
#include <cstring>

#include "port.h"

namespace {

void reset(void *memory) { static_cast<Memory *>(memory)->reset(); }
void step(void *memory, const DramInputs *in, DramOutputs *out) { static_cast<Memory *>(memory)->step(*in, *out); }

// Copies `size` bytes, a multiple of the bus word, into memory from its first word on (`in` is 1), or out of it.
void copy(void *memory, uint8_t *bytes, uint64_t size, int32_t in) {
    for (uint64_t i = 0; i < size / BUS_BYTES; i++) {
        uint8_t *there = static_cast<Memory *>(memory)->word(i);
        std::memcpy(in ? there : bytes + i * BUS_BYTES, in ? bytes + i * BUS_BYTES : there, BUS_BYTES);
    }
}

const DramCalls calls{create, destroy, reset, step, copy};

}  // namespace

extern "C" const DramCalls *dram_calls() { return &calls; }
