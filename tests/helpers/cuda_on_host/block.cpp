// The fibers, the memories and the meeting places of block.hpp.

#include "block.hpp"

#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#include <signal.h>
#include <stdarg.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "async_copies.hpp"

uint3 threadIdx, blockIdx;
dim3 blockDim, gridDim;

namespace host {

constexpr size_t STACK = 256 << 10;

struct Fiber {
    ucontext_t context;
    void* stack = mmap(nullptr, STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    enum { ready, waiting, ended } state;
    uint3 index;
    const char* what;  // that it waits for
    int line;
    unsigned first, members;  // the threads that meet there
    void* payload;
    bool (*holds)(void*);  // what it waits for, if it is no meeting
    AsyncCopies copies;
};

struct Kernel {
    const char* name = "none";
    size_t static_bytes = 0, dynamic_bytes = 0;
};

Kernel kernel;
std::vector<Fiber*> fibers;
size_t threads;  // of the block that runs
Fiber* running;
ucontext_t scheduler;
void (*body)(const void*);
const void* body_context;
std::mt19937 randomness;
enum { ascending, descending, shuffled } order;

void say_where() {
    fprintf(stderr, "in kernel %s, block (%u, %u, %u), thread (%u, %u, %u)\n", kernel.name, blockIdx.x, blockIdx.y,
            blockIdx.z, threadIdx.x, threadIdx.y, threadIdx.z);
}

[[noreturn]] void fail(int line, const char* format, ...) {
    va_list arguments;
    va_start(arguments, format);
    fprintf(stderr, "cuda_on_host: ");
    if (line) fprintf(stderr, "line %d: ", line);
    vfprintf(stderr, format, arguments);
    fprintf(stderr, "\n");
    va_end(arguments);
    say_where();
    _exit(3);
}

// -- shared memory: an arena in which all that is not in use is poisoned for the sanitizer

constexpr size_t ARENA = 1 << 19, DYNAMIC = 1 << 18, GAP = 64;
constexpr uint32_t WINDOW = 1024;  // the 32-bit address of the arena's beginning; the hardware keeps the first KiB
constexpr size_t STATIC_LIMIT = 48 << 10;

alignas(4096) unsigned char arena[ARENA];
size_t arena_used;
bool dynamic_placed;

struct Slot {
    unsigned char* address;
    size_t bytes;
};
std::vector<Slot> slots;

size_t placed(size_t offset, size_t alignment) {  // a multiple of `alignment`, and of nothing greater
    return (offset + 2 * alignment - 1) / (2 * alignment) * (2 * alignment) + alignment;
}

StaticShared::StaticShared(int line, size_t bytes, size_t alignment) {
    size_t offset = placed(arena_used + GAP, alignment);
    if (offset + bytes + GAP > DYNAMIC) fail(line, "%zu bytes of static shared memory", bytes);
    arena_used = offset + bytes;
    address = arena + offset;
    kernel.static_bytes += bytes;
    if (kernel.static_bytes > STATIC_LIMIT)
        fail(line, "%zu bytes of static shared memory; 49152 at most", kernel.static_bytes);
    slots.push_back({address, bytes});
    ASAN_UNPOISON_MEMORY_REGION(address, bytes);
    memset(address, POISON, bytes);
}

void* dynamic_shared(size_t alignment) {
    unsigned char* address = arena + placed(DYNAMIC, alignment);
    if (!dynamic_placed) {
        ASAN_UNPOISON_MEMORY_REGION(address, kernel.dynamic_bytes);
        memset(address, POISON, kernel.dynamic_bytes);
        dynamic_placed = true;
    }
    return address;
}

void forget_slots() {  // of a text before, which will not run again
    for (const Slot& slot : slots) ASAN_POISON_MEMORY_REGION(slot.address, slot.bytes);
    slots.clear();
    arena_used = 0;
}

void begin_shared() {
    for (const Slot& slot : slots) memset(slot.address, POISON, slot.bytes);
    ASAN_POISON_MEMORY_REGION(arena + DYNAMIC, ARENA - DYNAMIC);
    dynamic_placed = false;
}

uint32_t shared_address(const void* pointer) {
    const unsigned char* p = static_cast<const unsigned char*>(pointer);
    if (p < arena || p >= arena + ARENA) fail(0, "a pointer that is not into shared memory was converted to one");
    return WINDOW + static_cast<uint32_t>(p - arena);
}

uint32_t whole_shared_address(uint32_t low) {
    // Dynamic memory begins at a multiple of 2^18 here. Kernels have one kind or the other.
    return kernel.dynamic_bytes ? static_cast<uint32_t>(low + DYNAMIC) : low;
}

unsigned char* shared_pointer(int line, const char* what, uint32_t address, size_t alignment) {
    if (address < WINDOW || address >= WINDOW + ARENA) fail(line, "%s: address 0x%x is not in shared memory", what, address);
    if (address % alignment) fail(line, "%s: address 0x%x is not a multiple of %zu", what, address, alignment);
    return arena + (address - WINDOW);
}

// -- fibers

void resume(Fiber* fiber) {
    running = fiber;
    threadIdx = fiber->index;
    void* fake = nullptr;
    __sanitizer_start_switch_fiber(&fake, fiber->stack, STACK);
    swapcontext(&scheduler, &fiber->context);
    __sanitizer_finish_switch_fiber(fake, nullptr, nullptr);
}

const void* scheduler_stack;
size_t scheduler_stack_size;

AsyncCopies& copies_of_thread() { return running->copies; }

void check_fenced(int line, const char* what, const unsigned char* from, unsigned bytes) {
    for (size_t t = 0; t < threads; t++)
        for (const Landed& landed : fibers[t]->copies.landed)
            if (landed.destination < from + bytes && from < landed.destination + landed.bytes)
                fail(line, "%s reads what thread %zu copied and did not fence for the asynchronous proxy", what, t);
}

void give_way() {  // to the scheduler, until it resumes this thread
    Fiber* fiber = running;
    void* fake = nullptr;
    __sanitizer_start_switch_fiber(&fake, scheduler_stack, scheduler_stack_size);
    swapcontext(&fiber->context, &scheduler);
    __sanitizer_finish_switch_fiber(fake, &scheduler_stack, &scheduler_stack_size);
}

void thread_entry() {
    __sanitizer_finish_switch_fiber(nullptr, &scheduler_stack, &scheduler_stack_size);
    body(body_context);
    running->state = Fiber::ended;
    give_way();
    abort();
}

unsigned linear_thread() { return threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z); }
unsigned lane() { return linear_thread() % 32; }
unsigned warp_begin() { return linear_thread() / 32 * 32; }
unsigned warp_members() { return static_cast<unsigned>(std::min<size_t>(32, threads - warp_begin())); }

void meet(int line, const char* what, unsigned first, unsigned members, void* payload, void (*act)(void**, unsigned)) {
    if (first + members > threads) fail(line, "%s needs %u threads from %u on, but the block has %zu", what, members, first, threads);
    Fiber* self = running;
    self->state = Fiber::waiting;
    self->what = what, self->line = line, self->first = first, self->members = members, self->payload = payload;
    bool all = true;
    for (unsigned t = first; t < first + members; t++) {
        const Fiber* f = fibers[t];
        all = all && f->state == Fiber::waiting && f->line == line && !strcmp(f->what, what) && f->members == members;
    }
    if (!all) return give_way();
    void* payloads[1024];
    for (unsigned t = first; t < first + members; t++) payloads[t - first] = fibers[t]->payload;
    if (act) act(payloads, members);
    for (unsigned t = first; t < first + members; t++) fibers[t]->state = Fiber::ready;
    give_way();
}

void wait_until(int line, const char* what, bool (*holds)(void*), void* context) {
    Fiber* self = running;
    while (!holds(context)) {
        self->state = Fiber::waiting;
        self->what = what, self->line = line, self->first = self->members = 0;
        self->payload = context, self->holds = holds;
        give_way();
        self->holds = nullptr;
    }
}

void meet_block(int line, const char* what) { meet(line, what, 0, threads, nullptr, nullptr); }
void meet_warp(int line, const char* what) { meet(line, what, warp_begin(), warp_members(), nullptr, nullptr); }

Fiber* next_fiber() {
    static std::vector<Fiber*> ready;
    ready.clear();
    for (size_t t = 0; t < threads; t++) {
        Fiber* f = fibers[t];
        if (f->state == Fiber::waiting && f->holds && f->holds(f->payload)) f->state = Fiber::ready;
        if (f->state == Fiber::ready) {
            if (order == ascending) return fibers[t];
            ready.push_back(fibers[t]);
        }
    }
    if (ready.empty()) return nullptr;
    return order == descending ? ready.back() : ready[randomness() % ready.size()];
}

[[noreturn]] void report_stuck() {
    std::string text;
    size_t t = 0;
    while (t < threads) {  // runs of threads in the same state
        const Fiber* f = fibers[t];
        size_t end = t + 1;
        auto same = [&](const Fiber* g) {
            return g->state == f->state && (f->state == Fiber::ended || (g->line == f->line && !strcmp(g->what, f->what)));
        };
        while (end < threads && same(fibers[end])) end++;
        char line[200];
        if (f->state == Fiber::ended)
            snprintf(line, sizeof line, "; threads %zu to %zu have ended", t, end - 1);
        else
            snprintf(line, sizeof line, "; threads %zu to %zu wait in line %d for %s", t, end - 1, f->line, f->what);
        text += line;
        t = end;
    }
    if (text.size() > 1000) text = text.substr(0, 1000) + " ...";
    fail(0, "threads that wait for one another at different places%s", text.c_str());
}

void run_block() {
    begin_shared();
    begin_bulk();
    threads = static_cast<size_t>(blockDim.x) * blockDim.y * blockDim.z;
    while (fibers.size() < threads) fibers.push_back(new Fiber());
    for (size_t t = 0; t < threads; t++) {
        Fiber* f = fibers[t];
        f->state = Fiber::ready;
        f->index = {static_cast<unsigned>(t % blockDim.x), static_cast<unsigned>(t / blockDim.x % blockDim.y),
                    static_cast<unsigned>(t / blockDim.x / blockDim.y)};
        f->copies = {};
        f->holds = nullptr;
        getcontext(&f->context);
        f->context.uc_stack.ss_sp = f->stack;
        f->context.uc_stack.ss_size = STACK;
        f->context.uc_link = nullptr;
        makecontext(&f->context, thread_entry, 0);
    }
    while (Fiber* f = next_fiber()) resume(f);
    for (size_t t = 0; t < threads; t++)
        if (fibers[t]->state != Fiber::ended) report_stuck();
    for (size_t t = 0; t < threads; t++)
        if (const Products& products = fibers[t]->copies.products; products.issued || !products.committed.empty())
            fail(0, "a product of thread %zu is not waited for", t);
    end_bulk();
}

void launch(const char* name, dim3 grid, dim3 block, size_t dynamic_bytes, void (*call)(const void*), const void* context) {
    size_t limits[] = {block.x, block.y, block.z, size_t(block.x) * block.y * block.z};
    kernel = {name, 0, dynamic_bytes};
    if (limits[0] > 1024 || limits[1] > 1024 || limits[2] > 64 || limits[3] > 1024 || limits[3] == 0)
        fail(0, "a block of (%u, %u, %u) threads", block.x, block.y, block.z);
    if (grid.x == 0 || grid.y == 0 || grid.z == 0 || grid.x > 2147483647u || grid.y > 65535 || grid.z > 65535)
        fail(0, "a grid of (%u, %u, %u) blocks", grid.x, grid.y, grid.z);
    gridDim = grid, blockDim = block, body = call, body_context = context;
    size_t blocks = size_t(grid.x) * grid.y * grid.z;
    std::vector<size_t> numbers(blocks);
    for (size_t b = 0; b < blocks; b++) numbers[b] = order == descending ? blocks - 1 - b : b;
    if (order == shuffled) std::shuffle(numbers.begin(), numbers.end(), randomness);
    for (size_t b : numbers) {
        blockIdx = {static_cast<unsigned>(b % grid.x), static_cast<unsigned>(b / grid.x % grid.y),
                    static_cast<unsigned>(b / grid.x / grid.y)};
        run_block();
    }
}

// -- a run: buffers from the standard input, all launches once an order, buffers to the standard output

constexpr size_t REDZONE = 1 << 16, PAGE = 4096;

unsigned char* global_memory(size_t bytes) {  // 256-byte aligned and not more, poisoned on both sides; zeros
    size_t all = (REDZONE + 256 + bytes + REDZONE + PAGE - 1) / PAGE * PAGE;
    void* memory = mmap(nullptr, all, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) fail(0, "no memory");
    unsigned char* address = static_cast<unsigned char*>(memory) + REDZONE + 256;
    ASAN_POISON_MEMORY_REGION(memory, REDZONE + 256);
    ASAN_POISON_MEMORY_REGION(address + bytes, REDZONE);
    return address;
}

void free_memory(unsigned char* address, size_t bytes) {
    size_t all = REDZONE + 256 + bytes + REDZONE;
    unsigned char* memory = address - REDZONE - 256;
    ASAN_UNPOISON_MEMORY_REGION(memory, REDZONE + 256);
    ASAN_UNPOISON_MEMORY_REGION(address + bytes, REDZONE);
    munmap(memory, all);
}

void out_of_time(int) {
    fprintf(stderr, "cuda_on_host: no end of it within the time given\n");
    say_where();
    _exit(3);
}

void begin() {
    __sanitizer_set_death_callback(say_where);
    signal(SIGALRM, out_of_time);
    ASAN_POISON_MEMORY_REGION(arena, ARENA);
}

void run(const Buffer* buffers, size_t count, const Piece* pieces, size_t piece_count, unsigned orders, unsigned seconds,
        void (*launches)(unsigned char**)) {
    alarm(seconds);
    forget_slots();
    std::vector<unsigned char*> memory;
    for (size_t b = 0; b < count; b++) memory.push_back(global_memory(buffers[b].bytes));
    std::vector<std::vector<unsigned char>> given, results;
    for (size_t p = 0; p < piece_count; p++) {
        given.emplace_back(pieces[p].bytes);
        if (fread(given[p].data(), 1, given[p].size(), stdin) != given[p].size()) fail(0, "not all data were given");
    }
    for (unsigned round = 0; round < orders; round++) {
        order = round == 0 ? ascending : round == 1 ? descending : shuffled;
        randomness.seed(round);
        auto place = [&](size_t p) { return memory[pieces[p].buffer] + pieces[p].offset; };
        for (size_t p = 0; p < piece_count; p++) memcpy(place(p), given[p].data(), given[p].size());
        launches(memory.data());
        for (size_t p = 0; p < piece_count; p++) {
            std::vector<unsigned char> now(place(p), place(p) + given[p].size());
            if (round == 0) results.push_back(now);
            if (now == results[p]) continue;
            size_t at = 0;
            while (now[at] == results[p][at]) at++;
            fail(0, "%s depends on the order in which threads run: byte %zu differs", buffers[pieces[p].buffer].name,
                 pieces[p].offset + at);
        }
    }
    for (auto& result : results) fwrite(result.data(), 1, result.size(), stdout);
    for (size_t b = 0; b < count; b++) free_memory(memory[b], buffers[b].bytes);
}

}  // namespace host

// The sanitizer of undefined behaviour calls this with every report.
extern "C" void __ubsan_on_report() { host::say_where(); }
