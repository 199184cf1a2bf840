// One block of a kernel on the CPU: its threads as fibers, its shared memory, its barriers.
//
// A thread runs until it waits for others; then another one that can run is chosen: the first, the last, or any, by
// the order of the run. So between barriers a thread gets as far ahead of the others as it may, and whoever relies on
// a barrier that is not there reads what has not been written. Shared memory is filled with poison for each block.
// Whatever goes wrong ends the process with one line on the standard error that says where.

#pragma once

#include <cstddef>
#include <cstdint>

struct uint3 {
    unsigned x, y, z;
};
struct dim3 {
    unsigned x, y, z;
};

extern uint3 threadIdx, blockIdx;
extern dim3 blockDim, gridDim;
constexpr int warpSize = 32;

namespace host {

constexpr unsigned char POISON = 0xFF;  // NaN as any floating-point type, -1 or the greatest as an integer

// Ends the process: exit code 3, a line that begins "cuda_on_host:", and the place.
[[noreturn]] void fail(int line, const char* format, ...);

// All of `members` threads from `first` on meet; the last to come does `act` on what each of them brings.
void meet(int line, const char* what, unsigned first, unsigned members, void* payload, void (*act)(void**, unsigned));

// All threads of the block, or of the warp, meet.
// This thread waits until `holds` says so; asked again whenever another thread has given way.
void wait_until(int line, const char* what, bool (*holds)(void*), void* context);

void meet_block(int line, const char* what);
void meet_warp(int line, const char* what);

unsigned lane();
unsigned warp_begin();    // the number of the first thread of this thread's warp
unsigned warp_members();  // 32, or fewer in the last warp

struct StaticShared {  // a __shared__ array: one place in the arena, for good
    unsigned char* address;
    StaticShared(int line, size_t bytes, size_t alignment);
};

void* dynamic_shared(size_t alignment);
uint32_t shared_address(const void* pointer);
uint32_t whole_shared_address(uint32_t low);  // of the kernel's memory, from its lower 18 bits
unsigned char* shared_pointer(int line, const char* what, uint32_t address, size_t alignment);

// Runs a kernel: its blocks one after the other, in the order of the run.
void launch(const char* name, dim3 grid, dim3 block, size_t dynamic_bytes, void (*call)(const void*), const void* context);

template <typename Call>
void launch(const char* name, dim3 grid, dim3 block, size_t dynamic_bytes, const Call& call) {
    launch(name, grid, block, dynamic_bytes, [](const void* c) { (*static_cast<const Call*>(c))(); }, &call);
}

struct Pointer {  // converts to the type of the kernel's parameter
    unsigned char* address;
    template <typename T>
    operator T*() const {
        return reinterpret_cast<T*>(address);
    }
};

struct TensorMap {  // by value, as 128 bytes that the text knows nothing of
    unsigned char* address;
    unsigned element_bytes, swizzle, rounds, dimensions;  // rounds: float32 to tf32
    unsigned long long sizes[5];
    unsigned box[5];  // innermost first, as sizes are
    template <typename T>
    operator T() const {
        static_assert(sizeof(T) == 128 && alignof(T) == 64 && sizeof(TensorMap) <= 128);
        T result = {};
        __builtin_memcpy(&result, this, sizeof(TensorMap));
        return result;
    }
};

struct Buffer {  // global memory, zeros where no piece lies
    const char* name;
    size_t bytes;
};

struct Piece {  // of a buffer: what is given before a run and taken after it
    size_t buffer, offset, bytes;
};

void begin();  // once, before all runs

// Pieces from the standard input, all launches once an order, pieces to the standard output.
void run(const Buffer* buffers, size_t count, const Piece* pieces, size_t piece_count, unsigned orders, unsigned seconds,
        void (*launches)(unsigned char**));

}  // namespace host
