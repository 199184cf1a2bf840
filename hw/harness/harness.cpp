// Drives the Verilated accelerator and models its AXI4 memory (hw/README.md section 1), a cycle at a time.
// Compiled as one unit with the generated C++. All timing here is the memory's; the rest is observed.
//
// The inputs pass through registers (prepare.py): what is set in a cycle acts in the next one. So a cycle is one
// evaluation: look at the outputs, set the inputs of the next cycle, clock.

#include <cstdint>
#include <cstring>
#include <deque>
#include <memory>
#include <vector>

#include "Vvdla.h"
#include "Vvdla___024root.h"
#include "verilated.h"

#include "port.h"

namespace {

enum Status : int32_t {
    FINISHED = 0,
    RUNNING = 1,
    SHORT_OF_DATA = 2,
    STUCK = 3,
    TOO_MANY = 4,
    BAD_LAST = 5,
    NOT_LAUNCHED = 6,
    STOPPED = 7,
};

enum Response : uint8_t { OKAY = 0, SLAVE_ERROR = 2, DECODE_ERROR = 3 };

constexpr uint32_t CONTROL = 0x08, STATUS = 0x0c, PROGRAM = 0x10, COUNT = 0x18, BASE = 0x20;
constexpr uint32_t LAUNCH = 1, CLEAR = 2, STATUS_DONE = 2, STATUS_QUIET = 8;

// Cycles without anything to do, in the units or in memory, after which nothing will ever happen again. The longest way
// through the pipelines takes some dozens.
constexpr int64_t PATIENCE = 1024;

// Cycles for a run that has ended to become quiet: more than any memory with all its bursts outstanding takes.
constexpr int64_t QUIET_LIMIT = 10'000'000;

constexpr int PLACES = 16;
constexpr uint64_t ADDRESS_MASK = (1ull << ADDRESS_BITS) - 1, COUNTER_MASK = (1ull << COUNTER_BITS) - 1;

// A part of a scratchpad: the bytes of its words, first word first.
struct Block {
    const char *kind;
    void *bytes;
    uint64_t size;
};

#include "scratchpads.inc"

// library.py has the same, and says what it means. MEMORY_TIMING names the fields of isa.config.Memory.
struct Parameters {
    int64_t MEMORY_TIMING, failing;
    uint64_t manners, base, places, origins[PLACES];
    const DramCalls *dram;
    int64_t dram_cycles;
    DramCount dram_count;
    DramCounts *dram_counts;
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

// The memory at the accelerator's AXI port.
class Memory {
  public:
    Memory(uint8_t *bytes, uint64_t size, const Parameters &p) : bytes_(bytes), size_(size), p_(p) {}
    virtual ~Memory() = default;

    // Sets the accelerator's inputs for cycle `now`, from what happened before.
    virtual void drive(Vvdla &top, int64_t now) = 0;
    // What the accelerator does in cycle `now`, whose inputs are still set.
    virtual Status sample(Vvdla &top, int64_t now) = 0;
    // Takes counts, after the last cycle of the program.
    virtual void count() {}
    // Brings the bytes up to date, after the last cycle.
    virtual void finish() {}

    bool idle() const { return reads_outstanding_ == 0 && writes_outstanding_ == 0; }

    // The first burst that leaves the memory; `outside_cycle` is 0 when there was none.
    int64_t outside_cycle = 0;
    uint64_t outside_address = 0;

  protected:
    // The place of a burst's first byte in the memory.
    uint64_t place(uint64_t address, int64_t beats, int64_t now) {
        uint64_t at = 0;
        for (uint64_t i = 0; i < p_.places; i++) {
            at = (address - p_.base - p_.origins[i]) & ADDRESS_MASK;
            if (at + beats * BUS_BYTES <= size_) return at;
        }
        if (!outside_cycle) outside_cycle = now, outside_address = address;
        return at;
    }

    uint8_t *bytes_;
    uint64_t size_;
    Parameters p_;
    int64_t reads_outstanding_ = 0, writes_outstanding_ = 0;
};

// A memory with latencies in cycles (hw/README.md section 1).
class FixedMemory : public Memory {
  public:
    using Memory::Memory;

    void drive(Vvdla &top, int64_t now) override {
        if (p_.data_channels == SEPARATE) {
            if (!read_.busy && waits(reads_, now)) begin(read_, reads_, reads_served_++, STALL);
            if (!write_.busy && waits(writes_, now)) begin(write_, writes_, writes_served_++, WRITE_STALL);
        } else if (!read_.busy && !write_.busy) {
            choose(now);
        }
        top.axi_rvalid = read_.moves();
        top.axi_wready = write_.moves();
        top.axi_rlast = read_.last();
        if (top.axi_rvalid) {
            const uint64_t at = read_.place();
            top.axi_rresp = response(at);
            if (top.axi_rresp == DECODE_ERROR)
                std::memset(&top.axi_rdata, 0, BUS_BYTES);
            else
                std::memcpy(&top.axi_rdata, bytes_ + at, BUS_BYTES);
        }
        top.axi_bvalid = !responses_.empty() && responses_.front().at == now;
        if (top.axi_bvalid) top.axi_bresp = responses_.front().value;
    }

    Status sample(Vvdla &top, int64_t now) override {
        if (top.axi_arvalid) {
            const int64_t latency = p_.read_latency + noise(p_.seed, reads_accepted_++, READ, p_.jitter);
            reads_.push_back(accept(top.axi_araddr, top.axi_arlen, now, now + latency));
            if (++reads_outstanding_ > p_.outstanding_reads) return TOO_MANY;
        }
        if (top.axi_awvalid) {
            const int64_t jitter = p_.data_channels == SEPARATE ? p_.jitter : 0;
            const int64_t delay = 1 + noise(p_.seed, writes_accepted_++, WRITE, jitter);
            writes_.push_back(accept(top.axi_awaddr, top.axi_awlen, now, now + delay));
            if (++writes_outstanding_ > p_.outstanding_writes) return TOO_MANY;
        }
        if (top.axi_bvalid) {
            responses_.pop_front();
            writes_outstanding_--;
        }
        if (write_.moves()) {
            if (!top.axi_wvalid) return SHORT_OF_DATA;
            if (bool(top.axi_wlast) != write_.last()) return BAD_LAST;
            write(top, write_.place());
        }
        if (read_.step()) reads_outstanding_--;
        if (write_.step()) responses_.push_back({now + p_.write_latency, worst_});
        return FINISHED;
    }

  private:
    struct Answer {
        int64_t at;
        uint8_t value;
    };

    // A burst whose data move, on a channel of its own or on the one that reads and writes share.
    struct Transfer {
        Burst burst{};
        bool busy = false;
        int64_t moved = 0, wait = 0;

        bool moves() const { return busy && wait == 0; }
        bool last() const { return moved + 1 == burst.beats; }
        uint64_t place() const { return burst.address + moved * BUS_BYTES; }

        // The end of a cycle; whether the last beat moved in it.
        bool step() {
            if (wait > 0) {
                wait--;
                return false;
            }
            if (!busy || ++moved < burst.beats) return false;
            busy = false;
            return true;
        }
    };

    // Values of the field data_channels, and the sequences of random numbers (isa/noise.py).
    enum : int64_t { SHARED = 0, SEPARATE = 1 };
    enum : uint64_t { READ = 0, STALL = 1, WRITE = 1ull << 32, WRITE_STALL = (1ull << 32) + 1 };

    Burst accept(uint64_t address, int64_t length, int64_t now, int64_t ready) {
        return {place(address, length + 1, now), length + 1, ready};
    }

    uint8_t response(uint64_t at) const {
        if (at + BUS_BYTES > size_) return DECODE_ERROR;
        return p_.failing >= 0 && uint64_t(p_.failing) / BUS_BYTES == at / BUS_BYTES ? SLAVE_ERROR : OKAY;
    }

    void write(Vvdla &top, uint64_t at) {
        const uint8_t answer = response(at);
        if (answer != OKAY) {
            worst_ = answer;
            return;
        }
        const uint64_t strobe = top.axi_wstrb;
        if (strobe == ALL_BYTES) {
            std::memcpy(bytes_ + at, &top.axi_wdata, BUS_BYTES);
            return;
        }
        uint8_t data[BUS_BYTES];
        std::memcpy(data, &top.axi_wdata, BUS_BYTES);
        for (int i = 0; i < BUS_BYTES; i++)
            if (strobe >> i & 1) bytes_[at + i] = data[i];
    }

    static bool waits(const std::deque<Burst> &queue, int64_t now) {
        return !queue.empty() && queue.front().ready <= now;
    }

    void choose(int64_t now) {
        const bool read = waits(reads_, now), write = waits(writes_, now);
        if (!read && !write) return;
        writing_ = write && (!read || !writing_);
        begin(writing_ ? write_ : read_, writing_ ? writes_ : reads_, reads_served_++, STALL);
    }

    void begin(Transfer &transfer, std::deque<Burst> &queue, uint64_t number, uint64_t stream) {
        transfer.burst = queue.front();
        queue.pop_front();
        transfer.busy = true;
        transfer.moved = 0;
        transfer.wait = noise(p_.seed, number, stream, p_.stall);
        if (&transfer == &write_) worst_ = OKAY;
    }

    static constexpr uint64_t ALL_BYTES = ~0ull >> (64 - BUS_BYTES);

    std::deque<Burst> reads_, writes_;
    std::deque<Answer> responses_;
    Transfer read_, write_;
    bool writing_ = false;
    uint8_t worst_ = OKAY;
    uint64_t reads_accepted_ = 0, writes_accepted_ = 0;
    // Bursts served; those of both directions count as reads if they share a channel.
    uint64_t reads_served_ = 0, writes_served_ = 0;
};

// A DRAM behind LiteDRAM's controller (hw/dram.md): its RTL, in a library of its own.
class Dram : public Memory {
  public:
    Dram(uint8_t *bytes, uint64_t size, const Parameters &p)
        : Memory(bytes, size, p), calls_(*p.dram), memory_(calls_.create()) {
        calls_.copy(memory_, bytes_, size_, 1);
        calls_.reset(memory_);
        // These cycles end before the first one of the run.
        for (int64_t i = 0; i <= p_.dram_cycles; i++) calls_.step(memory_, &in_, &out_);
    }
    ~Dram() override { calls_.destroy(memory_); }

    Status sample(Vvdla &top, int64_t now) override {
        in_.ar_valid = top.axi_arvalid;
        in_.aw_valid = top.axi_awvalid;
        in_.w_valid = top.axi_wvalid;
        if (in_.ar_valid) {
            in_.ar_length = top.axi_arlen;
            in_.ar_address = place(top.axi_araddr, top.axi_arlen + 1, now);
        }
        if (in_.aw_valid) {
            in_.aw_length = top.axi_awlen;
            in_.aw_address = place(top.axi_awaddr, top.axi_awlen + 1, now);
        }
        in_.w_last = top.axi_wlast;
        std::memcpy(in_.w_data, &top.axi_wdata, BUS_BYTES);
        const uint64_t strobe = top.axi_wstrb;
        std::memcpy(in_.w_strobe, &strobe, sizeof strobe);
        reads_outstanding_ += in_.ar_valid && out_.ar_ready;
        reads_outstanding_ -= out_.r_valid && out_.r_last;
        writes_outstanding_ += in_.aw_valid && out_.aw_ready;
        writes_outstanding_ -= out_.b_valid;
        if (reads_outstanding_ > p_.outstanding_reads || writes_outstanding_ > p_.outstanding_writes) return TOO_MANY;
        calls_.step(memory_, &in_, &out_);
        return FINISHED;
    }

    void drive(Vvdla &top, int64_t) override {
        top.axi_arready = out_.ar_ready;
        top.axi_awready = out_.aw_ready;
        top.axi_wready = out_.w_ready;
        top.axi_rvalid = out_.r_valid;
        top.axi_rlast = out_.r_last;
        top.axi_bvalid = out_.b_valid;
        std::memcpy(&top.axi_rdata, out_.r_data, BUS_BYTES);
    }

    void finish() override { calls_.copy(memory_, bytes_, size_, 0); }
    void count() override { p_.dram_count(memory_, p_.dram_counts); }

  private:
    const DramCalls &calls_;
    void *memory_;
    DramInputs in_{};
    DramOutputs out_{};
};

class Harness {
  public:
    // Registers start at zero, or with a `seed` above zero at random bits.
    explicit Harness(int32_t seed) : context_(new VerilatedContext) {
        context_->randReset(seed ? 2 : 0);
        if (seed) context_->randSeed(seed);
        top_.reset(new Vvdla(context_.get(), "vdla"));
    }
    ~Harness() { top_->final(); }

    void reset() {
        auto &top = *top_;
        memory_.reset();
        release();
        top.control_awvalid = top.control_wvalid = top.control_arvalid = 0;
        top.rst = 1;
        for (int i = 0; i < 3; i++) clock();
        top.rst = 0;
        clock();
    }

    Status launch(uint8_t *bytes, uint64_t size, const Parameters &p, uint64_t program, uint32_t count) {
        auto &top = *top_;
        events.clear();
        activities.clear();
        for (int &activity : activity_) activity = -1;
        cycles = idle_ = 0;
        open_ = 0;
        release();
        manners_ = p.manners;
        refused_ = false;
        set(PROGRAM, uint32_t(program));
        set(PROGRAM + 4, uint32_t(program >> 32));
        set(COUNT, count);
        set(BASE, uint32_t(p.base));
        set(BASE + 4, uint32_t(p.base >> 32));
        write(CONTROL, CLEAR, 1);
        if (p.dram)
            memory_.reset(new Dram(bytes, size, p));
        else
            memory_.reset(new FixedMemory(bytes, size, p));
        top.control_bready = 1;
        offer(CONTROL, LAUNCH, 1);
        for (int i = 0; i < PATIENCE && !top.running; i++) clock();
        if (!top.running || refused_) return NOT_LAUNCHED;
        cycles = 1;
        return RUNNING;
    }

    // Runs until the program ends, cannot go on, or cycle `until` is reached: that one is not done yet.
    Status advance(int64_t until) {
        auto &top = *top_;
        Memory &memory = *memory_;
        while (cycles < until) {
            const Status status = memory.sample(top, cycles);
            if (status != FINISHED) return status;
            const bool moved = record(0, top.trace_load_begin, top.trace_load_end, top.trace_load_end_config) |
                               record(1, top.trace_compute_begin, top.trace_compute_end, top.trace_compute_end_config) |
                               record(2, top.trace_store_begin, top.trace_store_end, top.trace_store_end_config);
            follow(0, top.trace_load_activity);
            follow(1, top.trace_compute_activity);
            follow(2, top.trace_store_activity);
            idle_ = moved || open_ > 0 || !memory.idle() ? 0 : idle_ + 1;
            if (idle_ >= PATIENCE) return STUCK;
            memory.drive(top, cycles + 1);
            clock();
            if (!top.running) return finish();
            cycles++;
        }
        return RUNNING;
    }

    uint32_t read(uint32_t address) {
        auto &top = *top_;
        release();
        top.control_rready = 0;
        top.control_araddr = address;
        top.control_arvalid = 1;
        clock();
        for (int i = 0; i < PATIENCE && !top.control_arready; i++) clock();
        top.control_arvalid = 0;
        top.control_araddr = ~address;
        clock();
        for (int i = 0; i < PATIENCE && !top.control_rvalid; i++) clock();
        for (int i = hesitate(); i > 0; i--) clock();
        // An answer stays until it is taken.
        const bool answered = top.control_rvalid && top.control_rresp == OKAY;
        const uint32_t value = answered ? top.control_rdata : ~top.control_rdata;
        top.control_rready = 1;
        clock();
        top.control_rready = 0;
        clock();
        return value;
    }

    // Adds to what each counter holds, and to CYCLES behind them.
    void preset(const uint64_t *values) {
        for (uint64_t *place : counters(*top_->rootp)) *place = (*place + *values++) & COUNTER_MASK;
    }

    std::vector<Block> ports_there() { return ports(*top_); }

    uint64_t counters_there() { return counters(*top_->rootp).size(); }

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

    // The same in the other direction.
    uint64_t fill(const char *kind, const uint8_t *from, uint64_t size) {
        uint64_t done = 0;
        for (const Block &block : scratchpads(*top_->rootp)) {
            if (std::strcmp(block.kind, kind) != 0) continue;
            if (done + block.size <= size) std::memcpy(block.bytes, from + done, block.size);
            done += block.size;
        }
        return done;
    }

    int64_t outside_cycle() const { return memory_ ? memory_->outside_cycle : 0; }
    uint64_t outside_address() const { return memory_ ? memory_->outside_address : 0; }

    // Keeps the bytes of all ports in every cycle from now on, or no longer; one row a cycle.
    void watch(bool on) {
        watched_.clear();
        watching_ = on;
    }

    int64_t cycles = 0;
    std::vector<int64_t> events, activities;
    std::vector<uint8_t> watched_;

  private:
    void clock() {
        top_->clk = 1;
        top_->eval();
        top_->clk = 0;
        top_->eval();
        if (!watching_) return;
        for (const Block &port : ports(*top_)) {
            const uint8_t *bytes = static_cast<const uint8_t *>(port.bytes);
            watched_.insert(watched_.end(), bytes, bytes + port.size);
        }
    }

    // A memory that takes addresses and does nothing.
    void release() {
        auto &top = *top_;
        top.axi_arready = top.axi_awready = 1;
        top.axi_rvalid = top.axi_wready = top.axi_bvalid = 0;
        top.axi_rlast = 0;
        top.axi_rresp = top.axi_bresp = OKAY;
    }

    // 0 to 3 cycles, other ones each time; without manners none.
    int hesitate() {
        if (!manners_) return 0;
        manners_ = manners_ * 6364136223846793005ull + 1442695040888963407ull;
        return int(manners_ >> 62);
    }

    // With manners byte by byte, beside bytes that the strobes leave out.
    void set(uint32_t address, uint32_t value) {
        write(address, manners_ ? ~value : value, 15);
        for (int lane = 0; manners_ && lane < 4; lane++) write(address, value ^ ~(0xFFu << 8 * lane), 1 << lane);
    }

    void write(uint32_t address, uint32_t value, uint8_t strobe) {
        auto &top = *top_;
        top.control_bready = 0;
        offer(address, value, strobe);
        for (int i = 0; i < PATIENCE && !top.control_bvalid; i++) clock();
        for (int i = hesitate(); i > 0; i--) clock();
        refused_ |= !top.control_bvalid || top.control_bresp != OKAY;
        top.control_bready = 1;
        clock();
        top.control_bready = 0;
        clock();
    }

    // Address and data of a write, each when it likes. Ends in the first cycle in which the register holds the value.
    void offer(uint32_t address, uint32_t value, uint8_t strobe) {
        auto &top = *top_;
        const int when[] = {hesitate(), hesitate()};
        bool taken[] = {false, false}, shown[] = {false, false};
        for (int i = 0; i < PATIENCE && !(taken[0] && taken[1]); i++) {
            taken[0] |= shown[0] && top.control_awready;
            taken[1] |= shown[1] && top.control_wready;
            for (int k = 0; k < 2; k++) shown[k] = !taken[k] && i >= when[k];
            top.control_awvalid = shown[0];
            top.control_wvalid = shown[1];
            top.control_awaddr = shown[0] ? address : ~address;
            top.control_wdata = shown[1] ? value : ~value;
            top.control_wstrb = shown[1] ? strobe : ~strobe;
            clock();
        }
        top.control_awvalid = top.control_wvalid = 0;
    }

    // After the last cycle: memory completes what it took, then the accelerator is quiet and can be launched again.
    Status finish() {
        auto &top = *top_;
        Memory &memory = *memory_;
        memory.count();
        for (int64_t now = cycles + 1; now <= cycles + QUIET_LIMIT; now++) {
            const Status status = memory.sample(top, now);
            if (status != FINISHED) return status;
            memory.drive(top, now + 1);
            clock();
            if (memory.idle()) break;
        }
        memory.finish();
        release();
        for (int i = 0; i < 4; i++) clock();
        const uint32_t state = read(STATUS);
        return state & STATUS_DONE && state & STATUS_QUIET ? FINISHED : STOPPED;
    }

    bool record(int unit, uint32_t begin, uint32_t end, uint32_t end_config) {
        if (!(begin | end | end_config)) return false;
        const int64_t event[] = {cycles, unit, begin, end, end_config};
        events.insert(events.end(), event, event + 5);
        open_ += int64_t(begin) - end - end_config;
        return true;
    }

    // Only changes are kept.
    void follow(int unit, int activity) {
        if (activity == activity_[unit]) return;
        activity_[unit] = activity;
        const int64_t change[] = {cycles, unit, activity};
        activities.insert(activities.end(), change, change + 3);
    }

    int activity_[3] = {-1, -1, -1};
    std::unique_ptr<VerilatedContext> context_;
    std::unique_ptr<Vvdla> top_;
    std::unique_ptr<Memory> memory_;
    // Instructions that have begun and not ended; cycles since something could still happen.
    int64_t open_ = 0, idle_ = 0;
    uint64_t manners_ = 0;
    bool refused_ = false, watching_ = false;
};

}  // namespace

extern "C" {

Harness *vdla_create(int32_t seed) { return new Harness(seed); }
void vdla_destroy(Harness *harness) { delete harness; }
void vdla_reset(Harness *harness) { harness->reset(); }

int32_t vdla_launch(Harness *harness, uint8_t *bytes, uint64_t size, const Parameters *parameters, uint64_t program,
                    uint32_t count) {
    return harness->launch(bytes, size, *parameters, program, count);
}

int32_t vdla_advance(Harness *harness, int64_t until) { return harness->advance(until); }

uint64_t vdla_copy(Harness *harness, const char *kind, uint8_t *into, uint64_t size) {
    return harness->copy(kind, into, size);
}

uint64_t vdla_fill(Harness *harness, const char *kind, const uint8_t *from, uint64_t size) {
    return harness->fill(kind, from, size);
}

int64_t vdla_cycles(Harness *harness) { return harness->cycles; }
uint32_t vdla_read(Harness *harness, uint32_t address) { return harness->read(address); }
uint64_t vdla_counters(Harness *harness) { return harness->counters_there(); }
void vdla_preset(Harness *harness, const uint64_t *values) { harness->preset(values); }
int64_t vdla_outside_cycle(Harness *harness) { return harness->outside_cycle(); }
uint64_t vdla_outside_address(Harness *harness) { return harness->outside_address(); }

void vdla_watch(Harness *harness, int32_t on) { harness->watch(on); }

const uint8_t *vdla_watched(Harness *harness, uint64_t *size) {
    *size = harness->watched_.size();
    return harness->watched_.data();
}

// Port number `index` in a row of what is watched: its name, and how many bytes; a null pointer behind the last.
const char *vdla_port(Harness *harness, uint64_t index, uint64_t *size) {
    const auto all = harness->ports_there();
    if (index >= all.size()) return nullptr;
    *size = all[index].size;
    return all[index].kind;
}

// Rows of cycle, unit, begins, ends, ends of CONFIGs.
const int64_t *vdla_events(Harness *harness, int64_t *rows) {
    *rows = int64_t(harness->events.size() / 5);
    return harness->events.data();
}

// Rows of cycle, unit, activity from that cycle on.
const int64_t *vdla_activities(Harness *harness, int64_t *rows) {
    *rows = int64_t(harness->activities.size() / 3);
    return harness->activities.data();
}
}
