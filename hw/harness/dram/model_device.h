// The model of LiteDRAM's controller, as the device of streams.cpp. The compiler defines MASTERS.
#pragma once
#include <memory>

#include "controller.h"

struct Port {
    uint8_t *ar_valid, *ar_ready, *aw_valid, *aw_ready, *w_valid, *w_ready, *w_last;
    uint8_t *r_valid, *r_ready, *r_last, *b_valid, *b_ready;
    uint32_t *ar_addr, *aw_addr;
    uint8_t *ar_len, *aw_len;
};

class Device {
  public:
    std::vector<Port> ports() {
        std::vector<Port> found;
        for (int m = 0; m < MASTERS; m++) {
            dram::Axi &axi = controller_->axi(m);
            found.push_back({&axi.ar_valid, &axi.ar_ready, &axi.aw_valid, &axi.aw_ready, &axi.w_valid, &axi.w_ready,
                             &axi.w_last, &axi.r_valid, &axi.r_ready, &axi.r_last, &axi.b_valid, &axi.b_ready,
                             &axi.ar_addr, &axi.aw_addr, &axi.ar_len, &axi.aw_len});
        }
        return found;
    }

    void reset() { controller_.reset(new dram::Controller); }
    void settle() {}  // The outputs of a cycle do not depend on its inputs.
    void clock() { controller_->clock(); }

  private:
    std::unique_ptr<dram::Controller> controller_;
};
