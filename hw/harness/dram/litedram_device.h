// LiteDRAM in Verilator, as the device of streams.cpp. The compiler defines PORTS: PORT(m) for each master m.
#pragma once
#include "Vlitedram_top.h"
#include "verilated.h"

#define PORT(m)                                                                                                   \
    {                                                                                                             \
        &top.m##_ar_valid, &top.m##_ar_ready, &top.m##_aw_valid, &top.m##_aw_ready, &top.m##_w_valid,             \
            &top.m##_w_ready, &top.m##_w_last, &top.m##_r_valid, &top.m##_r_ready, &top.m##_r_last,               \
            &top.m##_b_valid, &top.m##_b_ready, &top.m##_ar_addr, &top.m##_aw_addr, &top.m##_ar_len,              \
            &top.m##_aw_len, &top.m##_ar_burst, &top.m##_aw_burst, &top.m##_ar_size, &top.m##_aw_size             \
    }

struct Port {
    CData *ar_valid, *ar_ready, *aw_valid, *aw_ready, *w_valid, *w_ready, *w_last;
    CData *r_valid, *r_ready, *r_last, *b_valid, *b_ready;
    IData *ar_addr, *aw_addr;
    CData *ar_len, *aw_len, *ar_burst, *aw_burst, *ar_size, *aw_size;
};

class Device {
  public:
    std::vector<Port> ports() { return {PORTS}; }

    void reset() {
        for (auto &port : ports()) {
            *port.ar_valid = *port.aw_valid = *port.w_valid = *port.r_ready = *port.b_ready = 0;
            *port.ar_burst = *port.aw_burst = 1;
            *port.ar_size = *port.aw_size = __builtin_ctz(BUS_BYTES);
        }
        top.sys_rst = 1;
        for (int i = 0; i < 5; i++) settle(), clock();
        top.sys_rst = 0;
    }

    // Sets the outputs from the inputs of this cycle.
    void settle() {
        top.sys_clk = 0;
        top.eval();
    }

    // Ends the cycle.
    void clock() {
        top.sys_clk = 1;
        top.eval();
    }

  private:
    Vlitedram_top top;
};
