// The model of LiteDRAM's controller and of a part, as a library of C functions (port.h): one AXI port, a clock cycle a
// call. It stands in for LiteDRAM's RTL (memory.cpp).
#include <cstdint>
#include <cstring>
#include <memory>

#include "controller.h"
#include "port.h"

namespace {

class Memory {
  public:
    void reset() { controller_.reset(); }

    void step(const DramInputs &in, DramOutputs &out) {
        dram::Axi &axi = controller_.axi(0);
        axi.ar_valid = in.ar_valid;
        axi.ar_addr = uint32_t(in.ar_address);
        axi.ar_len = in.ar_length;
        axi.aw_valid = in.aw_valid;
        axi.aw_addr = uint32_t(in.aw_address);
        axi.aw_len = in.aw_length;
        axi.w_valid = in.w_valid;
        axi.w_last = in.w_last;
        axi.r_ready = !in.r_waits;
        axi.b_ready = !in.b_waits;
        std::memcpy(axi.w_data, in.w_data, BUS_BYTES);
        std::memcpy(axi.w_strb, in.w_strobe, sizeof axi.w_strb);
        controller_.clock();
        out.ar_ready = axi.ar_ready;
        out.aw_ready = axi.aw_ready;
        out.w_ready = axi.w_ready;
        out.r_valid = axi.r_valid;
        out.r_last = axi.r_last;
        out.b_valid = axi.b_valid;
        std::memcpy(out.r_data, axi.r_data, BUS_BYTES);
    }

    const dram::Controller &controller() const { return controller_; }

    uint8_t *word(uint64_t number) { return controller_.word(number); }

  private:
    dram::Controller controller_;
};

void *create() { return new Memory; }
void destroy(void *memory) { delete static_cast<Memory *>(memory); }

}  // namespace

#include "library.h"

extern "C" void dram_counts(void *memory, DramCounts *counts) {
    const dram::Controller &controller = static_cast<Memory *>(memory)->controller();
    *counts = {controller.commands(), controller.waits()};
}
