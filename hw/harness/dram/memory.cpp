// LiteDRAM's controller and model of a part, as a library of C functions: one AXI port, a clock cycle a call.
// harness.cpp calls them through pointers; both sides include the same structures (port.h).
#include <cstdint>
#include <cstring>
#include <memory>
#include <vector>

#include "Vlitedram_top.h"
#include "Vlitedram_top___024root.h"
#include "verilated.h"

#include "commands.h"
#include "port.h"

// BANKS and bank_word: the arrays of the model's banks, a bus word an element, rows first (memory.py).
#include "banks.inc"

namespace {

class Memory {
  public:
    Memory() : context_(new VerilatedContext), top_(new Vlitedram_top(context_.get(), "litedram")) {
        auto &top = *top_;
        top.m0_ar_burst = top.m0_aw_burst = 1;
        top.m0_ar_size = top.m0_aw_size = __builtin_ctz(BUS_BYTES);
    }
    ~Memory() { top_->final(); }

    void reset() {
        auto &top = *top_;
        top.m0_ar_valid = top.m0_aw_valid = top.m0_w_valid = 0;
        top.sys_rst = 1;
        for (int i = 0; i < 5; i++) clock();
        commands_ = {};
        cycle_ = 0;
        top.sys_rst = 0;
        top.sys_clk = 0;
        top.eval();
    }

    void step(const DramInputs &in, DramOutputs &out) {
        auto &top = *top_;
        top.m0_ar_valid = in.ar_valid;
        top.m0_ar_addr = uint32_t(in.ar_address);
        top.m0_ar_len = in.ar_length;
        top.m0_aw_valid = in.aw_valid;
        top.m0_aw_addr = uint32_t(in.aw_address);
        top.m0_aw_len = in.aw_length;
        top.m0_w_valid = in.w_valid;
        top.m0_w_last = in.w_last;
        top.m0_r_ready = !in.r_waits;
        top.m0_b_ready = !in.b_waits;
        std::memcpy(&top.m0_w_data, in.w_data, BUS_BYTES);
        std::memcpy(&top.m0_w_strb, in.w_strobe, sizeof top.m0_w_strb);
        clock();
        top.sys_clk = 0;
        top.eval();
        count_commands();
        out.ar_ready = top.m0_ar_ready;
        out.aw_ready = top.m0_aw_ready;
        out.w_ready = top.m0_w_ready;
        out.r_valid = top.m0_r_valid;
        out.r_last = top.m0_r_last;
        out.b_valid = top.m0_b_valid;
        std::memcpy(out.r_data, &top.m0_r_data, BUS_BYTES);
    }

    const DramCommands &commands() const { return commands_; }

    uint8_t *word(uint64_t number) {
        const uint64_t place = number >> BANK_SHIFT, within = number & ((1ull << BANK_SHIFT) - 1);
        return bank_word(*top_->rootp, place % BANKS, (place / BANKS << BANK_SHIFT) | within);
    }

  private:
    // Counts the commands in the registers of the interface to the part (DFI): those that were accepted in the cycle
    // that just ended, one in each phase. Bit 10 of the address: all banks, or auto-precharge.
    void count_commands() {
        using dram::Command;
        auto &top = *top_;
#define PHASE(p) {top.p##_cs_n, top.p##_ras_n, top.p##_cas_n, top.p##_we_n, top.p##_bank, top.p##_address},
        const uint32_t phases[][6] = {PHASES};
        for (const auto &[cs_n, ras_n, cas_n, we_n, bank, address] : phases) {
            if (cs_n) continue;
            const bool high = address >> 10 & 1;
            Command command = Command::NONE;
            switch (!ras_n << 2 | !cas_n << 1 | !we_n) {
                case 4: command = Command::ACTIVATE; break;
                case 5: command = high ? Command::PRECHARGE_ALL : Command::PRECHARGE; break;
                case 2: command = Command::READ; break;
                case 3: command = Command::WRITE; break;
                case 6: command = Command::REFRESH; break;
                case 1: command = Command::CALIBRATE; break;
            }
            dram::count(commands_, {command, int(bank), address, high}, cycle_);
        }
        cycle_++;
    }

    void clock() {
        top_->sys_clk = 0;
        top_->eval();
        top_->sys_clk = 1;
        top_->eval();
    }

    std::unique_ptr<VerilatedContext> context_;
    std::unique_ptr<Vlitedram_top> top_;
    DramCommands commands_{};
    int64_t cycle_ = 0;
};

// Memories that no run uses. Making one takes a second, since a part has some hundred megabytes; a reset makes a used one
// new, except for bytes that no program reads before it writes them.
std::vector<std::unique_ptr<Memory>> idle;

void *create() {
    if (idle.empty()) return new Memory;
    Memory *memory = idle.back().release();
    idle.pop_back();
    return memory;
}

void destroy(void *memory) { idle.emplace_back(static_cast<Memory *>(memory)); }

}  // namespace

#include "library.h"

extern "C" void dram_counts(void *memory, DramCounts *counts) {
    *counts = {static_cast<Memory *>(memory)->commands(), {-1, -1, -1, -1, -1, -1, -1, -1, -1}};
}
