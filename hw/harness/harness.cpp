// Drives the Verilated accelerator and models its AXI4 memory (hw/README.md section 1), a cycle at a time.
// Compiled as one unit with the generated C++. All timing here is the memory's; the rest is observed.

#include <cstdint>
#include <cstring>
#include <deque>
#include <memory>
#include <vector>

#include "Vvdla.h"
#include "Vvdla___024root.h"
#include "verilated.h"

namespace {

enum Status : int32_t { FINISHED = 0, LIMIT = 1, SHORT_OF_DATA = 2, OUTSIDE = 3, TOO_MANY = 4, BAD_LAST = 5, NOT_LAUNCHED = 6 };

// A part of a scratchpad: the bytes of its words, first word first.
struct Block {
    const char *kind;
    const void *bytes;
    uint64_t size;
};

#include "scratchpads.inc"

struct Parameters {
    int64_t read_latency, write_latency, outstanding_reads, outstanding_writes, jitter, stall, seed;
};

struct Burst {
    uint64_t address;
    int64_t beats, ready;
};

uint64_t noise(uint64_t seed, uint64_t index, uint64_t stream, uint64_t limit) {
    if (limit == 0) return 0;
    uint64_t z = seed * 0x9E3779B97F4A7C15ull + (2 * index + stream + 1) * 0xBF58476D1CE4E5B9ull;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
    return ((z ^ (z >> 31)) >> 33) % (limit + 1);
}

class Memory {
  public:
    Memory(uint8_t *bytes, uint64_t size, const Parameters &p) : bytes_(bytes), size_(size), p_(p) {}

    // Inputs of the accelerator in cycle `now`, from what happened before.
    void drive(Vvdla &top, int64_t now) {
        if (!busy_) choose(now);
        const bool moves = busy_ && wait_ == 0;
        top.axi_arready = 1;
        top.axi_awready = 1;
        top.axi_rvalid = moves && !writing_;
        top.axi_wready = moves && writing_;
        top.axi_rlast = moved_ + 1 == current_.beats;
        top.axi_rresp = top.axi_bresp = 0;
        if (top.axi_rvalid) {
            const uint64_t at = current_.address + moved_ * BUS_BYTES;
            std::memcpy(&top.axi_rdata, bytes_ + at, BUS_BYTES);
        }
        top.axi_bvalid = !responses_.empty() && responses_.front() == now;
    }

    // What the accelerator does in cycle `now`.
    Status sample(Vvdla &top, int64_t now) {
        if (top.axi_arvalid) {
            const int64_t latency = p_.read_latency + noise(p_.seed, reads_accepted_++, 0, p_.jitter);
            reads_.push_back({top.axi_araddr, top.axi_arlen + 1, now + latency});
            if (reads_.back().address + reads_.back().beats * BUS_BYTES > size_) return OUTSIDE;
            if (++reads_outstanding_ > p_.outstanding_reads) return TOO_MANY;
        }
        if (top.axi_awvalid) {
            writes_.push_back({top.axi_awaddr, top.axi_awlen + 1, now + 1});
            if (writes_.back().address + writes_.back().beats * BUS_BYTES > size_) return OUTSIDE;
            if (++writes_outstanding_ > p_.outstanding_writes) return TOO_MANY;
        }
        if (top.axi_bvalid) {
            responses_.pop_front();
            writes_outstanding_--;
        }
        if (busy_ && wait_ > 0) {
            wait_--;
        } else if (busy_) {
            if (writing_) {
                if (!top.axi_wvalid) return SHORT_OF_DATA;
                if (bool(top.axi_wlast) != (moved_ + 1 == current_.beats)) return BAD_LAST;
                uint8_t data[BUS_BYTES];
                std::memcpy(data, &top.axi_wdata, BUS_BYTES);
                const uint64_t strobe = top.axi_wstrb;
                for (int i = 0; i < BUS_BYTES; i++)
                    if (strobe >> i & 1) bytes_[current_.address + moved_ * BUS_BYTES + i] = data[i];
            }
            if (++moved_ == current_.beats) {
                busy_ = false;
                if (writing_)
                    responses_.push_back(now + p_.write_latency);
                else
                    reads_outstanding_--;
            }
        }
        return FINISHED;
    }

  private:
    void choose(int64_t now) {
        const bool read = !reads_.empty() && reads_.front().ready <= now;
        const bool write = !writes_.empty() && writes_.front().ready <= now;
        if (!read && !write) return;
        writing_ = write && (!read || !writing_);
        auto &queue = writing_ ? writes_ : reads_;
        current_ = queue.front();
        queue.pop_front();
        busy_ = true;
        moved_ = 0;
        wait_ = noise(p_.seed, served_++, 1, p_.stall);
    }

    uint8_t *bytes_;
    uint64_t size_;
    Parameters p_;
    std::deque<Burst> reads_, writes_;
    std::deque<int64_t> responses_;
    Burst current_{};
    bool busy_ = false, writing_ = false;
    int64_t moved_ = 0, wait_ = 0, reads_outstanding_ = 0, writes_outstanding_ = 0;
    uint64_t reads_accepted_ = 0, served_ = 0;
};

class Harness {
  public:
    Harness() : context_(new VerilatedContext), top_(new Vvdla(context_.get(), "vdla")) {}
    ~Harness() { top_->final(); }

    // One clock cycle; inputs are set, outputs of this cycle can be read between the two halves.
    void settle() {
        top_->clk = 0;
        top_->eval();
    }
    void clock() {
        top_->clk = 1;
        top_->eval();
    }

    Status run(uint8_t *bytes, uint64_t size, const Parameters &p, uint64_t program, uint32_t count, int64_t limit) {
        auto &top = *top_;
        top.rst = 1;
        for (int i = 0; i < 2; i++) settle(), clock();
        top.rst = 0;
        top.control_bready = top.control_rready = 1;
        write(0x10, uint32_t(program));
        write(0x14, uint32_t(program >> 32));
        write(0x18, count);
        write(0x20, 0);
        write(0x24, 0);
        Memory memory(bytes, size, p);
        write(0x08, 1);
        for (int i = 0; i < 100 && !top.running; i++) settle(), clock();
        if (!top.running) return NOT_LAUNCHED;
        // The last edge ended cycle 0, the launch.
        for (cycles = 1; cycles <= limit; cycles++) {
            memory.drive(top, cycles);
            settle();
            const Status status = memory.sample(top, cycles);
            if (status != FINISHED) return status;
            record(0, top.trace_load_begin, top.trace_load_end, top.trace_load_end_config);
            record(1, top.trace_compute_begin, top.trace_compute_end, top.trace_compute_end_config);
            record(2, top.trace_store_begin, top.trace_store_end, top.trace_store_end_config);
            clock();
            if (!top.running) return FINISHED;
        }
        return LIMIT;
    }

    uint32_t read(uint32_t address) {
        auto &top = *top_;
        top.axi_rvalid = top.axi_bvalid = top.axi_wready = 0;
        top.control_araddr = address;
        top.control_arvalid = 1;
        settle();
        clock();
        top.control_arvalid = 0;
        settle();
        // Counters take some cycles to show themselves.
        for (int i = 0; i < 100 && !top.control_rvalid; i++) clock(), settle();
        const uint32_t value = top.control_rdata;
        clock();
        return value;
    }

    // Bytes of scratchpad `kind` copied to `into`, which has room for `size`; how many there are.
    uint64_t copy(const char *kind, uint8_t *into, uint64_t size) {
        uint64_t done = 0;
        for (const Block &block : scratchpads(*top_->rootp)) {
            if (std::strcmp(block.kind, kind) != 0) continue;
            if (done + block.size <= size) std::memcpy(into + done, block.bytes, block.size);
            done += block.size;
        }
        return done;
    }

    int64_t cycles = 0;
    std::vector<int64_t> events;

  private:
    void write(uint32_t address, uint32_t value) {
        auto &top = *top_;
        top.control_awaddr = address;
        top.control_wdata = value;
        top.control_wstrb = 15;
        top.control_awvalid = top.control_wvalid = 1;
        settle();
        clock();
        top.control_awvalid = top.control_wvalid = 0;
        // The launch bit acts at once: do not clock past its cycle 0.
        if (address == 0x08) return;
        settle();
        clock();
    }

    void record(int unit, uint32_t begin, uint32_t end, uint32_t end_config) {
        if (!(begin | end | end_config)) return;
        const int64_t event[] = {cycles, unit, begin, end, end_config};
        events.insert(events.end(), event, event + 5);
    }

    std::unique_ptr<VerilatedContext> context_;
    std::unique_ptr<Vvdla> top_;
};

}  // namespace

extern "C" {

Harness *vdla_create() { return new Harness; }
void vdla_destroy(Harness *harness) { delete harness; }

int32_t vdla_run(Harness *harness, uint8_t *bytes, uint64_t size, const Parameters *parameters, uint64_t program,
                 uint32_t count, int64_t limit) {
    return harness->run(bytes, size, *parameters, program, count, limit);
}

uint64_t vdla_copy(Harness *harness, const char *kind, uint8_t *into, uint64_t size) {
    return harness->copy(kind, into, size);
}

int64_t vdla_cycles(Harness *harness) { return harness->cycles; }
uint32_t vdla_read(Harness *harness, uint32_t address) { return harness->read(address); }

// Rows of cycle, unit, begins, ends, ends of CONFIGs.
const int64_t *vdla_events(Harness *harness, int64_t *rows) {
    *rows = int64_t(harness->events.size() / 5);
    return harness->events.data();
}
}
