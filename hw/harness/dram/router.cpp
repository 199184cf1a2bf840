// The router's RTL between one AXI port and several memories (hw/dram.md, section 9), as one memory behind port.h.
//
// EACH_CHANNEL(X) is X(0) X(1) ...; CHANNELS, CHANNEL_BYTES: how many channels there are, and the bytes of a piece.
#include <cstdint>
#include <cstring>
#include <memory>
#include <vector>

#include "Vaxi_router.h"
#include "verilated.h"

#include "port.h"

namespace {

const DramCalls *inner;
DramCount inner_count;

class Routed {
  public:
    Routed() : context_(new VerilatedContext), top_(new Vaxi_router(context_.get(), "router")) {
        for (int i = 0; i < CHANNELS; i++) memories_.push_back(inner->create());
        auto &top = *top_;
        top.master_arburst = top.master_awburst = 1;
        top.master_arsize = top.master_awsize = __builtin_ctz(BUS_BYTES);
        top.master_rready = top.master_bready = 1;
    }
    ~Routed() {
        for (void *memory : memories_) inner->destroy(memory);
        top_->final();
    }

    void reset() {
        for (void *memory : memories_) inner->reset(memory);
        auto &top = *top_;
        top.master_arvalid = top.master_awvalid = top.master_wvalid = 0;
        top.rst = 1;
        for (int i = 0; i < 3; i++) clock();
        top.rst = 0;
        for (auto &out : outs_) out = {};
    }

    void step(const DramInputs &in, DramOutputs &out) {
        auto &top = *top_;
        top.master_arvalid = in.ar_valid;
        top.master_araddr = in.ar_address;
        top.master_arlen = in.ar_length;
        top.master_awvalid = in.aw_valid;
        top.master_awaddr = in.aw_address;
        top.master_awlen = in.aw_length;
        top.master_wvalid = in.w_valid;
        top.master_wlast = in.w_last;
        std::memcpy(&top.master_wdata, in.w_data, BUS_BYTES);
        std::memcpy(&top.master_wstrb, in.w_strobe, sizeof top.master_wstrb);
        top.clk = 0;
        top.eval();
#define STEP(k)                                                              \
    {                                                                        \
        DramInputs given{};                                                  \
        given.ar_valid = top.channel_##k##_arvalid;                          \
        given.ar_address = top.channel_##k##_araddr;                         \
        given.ar_length = top.channel_##k##_arlen;                           \
        given.aw_valid = top.channel_##k##_awvalid;                          \
        given.aw_address = top.channel_##k##_awaddr;                         \
        given.aw_length = top.channel_##k##_awlen;                           \
        given.w_valid = top.channel_##k##_wvalid;                            \
        given.w_last = top.channel_##k##_wlast;                              \
        std::memcpy(given.w_data, &top.channel_##k##_wdata, BUS_BYTES);      \
        std::memcpy(given.w_strobe, &top.channel_##k##_wstrb, sizeof top.channel_##k##_wstrb); \
        given.r_waits = !top.channel_##k##_rready;                           \
        given.b_waits = !top.channel_##k##_bready;                           \
        inner->step(memories_[k], &given, &outs_[k]);                        \
    }
        EACH_CHANNEL(STEP)
        top.clk = 1;
        top.eval();
#define SHOW(k)                                                              \
    top.channel_##k##_arready = outs_[k].ar_ready;                           \
    top.channel_##k##_awready = outs_[k].aw_ready;                           \
    top.channel_##k##_wready = outs_[k].w_ready;                             \
    top.channel_##k##_rvalid = outs_[k].r_valid;                             \
    top.channel_##k##_rlast = outs_[k].r_last;                               \
    top.channel_##k##_bvalid = outs_[k].b_valid;                             \
    std::memcpy(&top.channel_##k##_rdata, outs_[k].r_data, BUS_BYTES);
        EACH_CHANNEL(SHOW)
        top.clk = 0;
        top.eval();
        out.ar_ready = top.master_arready;
        out.aw_ready = top.master_awready;
        out.w_ready = top.master_wready;
        out.r_valid = top.master_rvalid;
        out.r_last = top.master_rlast;
        out.b_valid = top.master_bvalid;
        std::memcpy(out.r_data, &top.master_rdata, BUS_BYTES);
    }

    // The sums of the commands to all channels.
    DramCommands commands() const {
        DramCommands sum{};
        for (void *memory : memories_) {
            DramCounts counts{};
            inner_count(memory, &counts);
            const DramCommands &one = counts.commands;
            sum.activates += one.activates;
            sum.precharges += one.precharges;
            sum.reads += one.reads;
            sum.writes += one.writes;
            sum.auto_precharges += one.auto_precharges;
            sum.all_precharges += one.all_precharges;
            sum.refreshes += one.refreshes;
            sum.calibrations += one.calibrations;
            sum.digest = sum.digest * 0x9e3779b97f4a7c15 + one.digest;
        }
        return sum;
    }

    void copy(uint8_t *bytes, uint64_t size, int32_t in) {
        std::vector<uint8_t> own;
        for (uint64_t k = 0; k < CHANNELS; k++) {
            own.clear();
            each_piece(k, size, [&](uint64_t from, uint64_t count) { own.insert(own.end(), bytes + from, bytes + from + count); });
            inner->copy(memories_[k], own.data(), own.size(), in);
            if (in) continue;
            uint64_t done = 0;
            each_piece(k, size, [&](uint64_t from, uint64_t count) {
                std::memcpy(bytes + from, own.data() + done, count);
                done += count;
            });
        }
    }

  private:
    void clock() {
        top_->clk = 0;
        top_->eval();
        top_->clk = 1;
        top_->eval();
    }

    // Calls `use` with the first byte and the size of each piece of channel `k` in a memory of `size` bytes.
    template <typename Use> static void each_piece(uint64_t k, uint64_t size, Use use) {
        for (uint64_t from = k * CHANNEL_BYTES; from < size; from += uint64_t(CHANNELS) * CHANNEL_BYTES)
            use(from, size - from < CHANNEL_BYTES ? size - from : CHANNEL_BYTES);
    }

    std::unique_ptr<VerilatedContext> context_;
    std::unique_ptr<Vaxi_router> top_;
    std::vector<void *> memories_;
    DramOutputs outs_[CHANNELS]{};
};

void *create() { return new Routed; }
void destroy(void *memory) { delete static_cast<Routed *>(memory); }
void reset(void *memory) { static_cast<Routed *>(memory)->reset(); }
void step(void *memory, const DramInputs *in, DramOutputs *out) { static_cast<Routed *>(memory)->step(*in, *out); }
void copy(void *memory, uint8_t *bytes, uint64_t size, int32_t in) { static_cast<Routed *>(memory)->copy(bytes, size, in); }

const DramCalls calls{create, destroy, reset, step, copy};

}  // namespace

// The functions of a memory whose channels are memories of `channel`; `count` counts the commands of a channel. A library
// routes to channels of one kind.
extern "C" const DramCalls *routed_calls(const DramCalls *channel, DramCount count) {
    inner = channel;
    inner_count = count;
    return &calls;
}

extern "C" void dram_counts(void *memory, DramCounts *counts) {
    *counts = {static_cast<Routed *>(memory)->commands(), {-1, -1, -1, -1, -1, -1, -1, -1, -1}};
}
