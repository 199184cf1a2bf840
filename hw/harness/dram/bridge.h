// The AXI bridge of a master of the model's DRAM controller (hw/dram.md, section 2): bursts become requests for words.
#pragma once
#include <cstdint>
#include <cstring>

#include "blocks.h"

namespace dram {

// The AXI channels of a master. The bridge sets the outputs in `settle`, and takes the inputs in `clock`.
struct Axi {
    uint8_t ar_valid = 0, ar_ready = 0, ar_len = 0, aw_valid = 0, aw_ready = 0, aw_len = 0;
    uint8_t w_valid = 0, w_ready = 0, w_last = 0, w_data[BUS_BYTES]{}, w_strb[8]{};
    uint8_t r_valid = 0, r_ready = 1, r_last = 0, r_data[BUS_BYTES]{}, b_valid = 0, b_ready = 1;
    uint32_t ar_addr = 0, aw_addr = 0;
};

// A bus word, with a strobe for each byte.
struct Word {
    uint8_t data[BUS_BYTES], strobe[8];
    bool last;
};

// An address channel: a register with one burst, of which a word is requested in a cycle.
class Addresses {
  public:
    bool valid() const { return valid_; }
    uint64_t word() const { return first_ + beat_; }
    bool last() const { return beat_ == length_; }

    // Ends a cycle. `accepted`: the request for the present word is; `offered`: the master offers a burst.
    void clock(bool accepted, bool offered, uint32_t address, uint8_t length) {
        const bool free = !valid_ || (accepted && last());
        if (accepted) beat_ = last() ? 0 : beat_ + 1;
        if (!free) return;
        valid_ = offered;
        if (offered) first_ = address / BUS_BYTES, length_ = length;
    }

  private:
    bool valid_ = false;
    uint64_t first_ = 0;
    int beat_ = 0, length_ = 0;
};

template <int READ_FIFO, int WRITE_FIFO>
class Bridge {
  public:
    Axi axi;

    // The request in this cycle: for one word, of the direction that has the grant.
    bool requests() const { return reads_ ? read_requests() : write_requests(); }
    bool writes() const { return !reads_; }
    uint64_t word() const { return reads_ ? ar_.word() : aw_.word(); }

    // Sets the outputs; `accepted`: a bank accepts the request of this cycle.
    void settle(bool accepted) {
        accepted_ = accepted;
        axi.ar_ready = !ar_.valid() || (reads_ && accepted && ar_.last());
        axi.aw_ready = !aw_.valid() || (!reads_ && accepted && aw_.last());
        axi.w_ready = write_data_.room();
        axi.r_valid = read_data_.valid();
        axi.r_last = !lasts_.empty() && lasts_.front();
        std::memcpy(axi.r_data, read_data_.front().data, BUS_BYTES);
        axi.b_valid = responses_ > 0;
    }

    // The word that leaves the write FIFO for the part in a cycle with `sends`.
    const Word &sent() const { return write_data_.front(); }

    // Ends a cycle. `arrived`: the word that comes from the part, or null; `sends`: a word leaves for the part.
    void clock(const Word *arrived, bool sends) {
        const bool asks[] = {write_requests(), read_requests()}, reads = reads_;
        const bool ends = reads ? ar_.last() : aw_.last();
        if ((!requests() || (accepted_ && ends)) && asks[!reads]) reads_ = !reads;

        const bool taken = axi.r_valid && axi.r_ready;
        if (axi.b_valid && axi.b_ready) responses_--;
        if (sends && write_data_.valid()) {
            writes_reserved_--;
            responses_ += write_data_.front().last;
        }
        if (taken) {
            reads_reserved_--;
            lasts_.pop();
        }
        if (accepted_ && reads) {
            reads_reserved_++;
            lasts_.push(ends);
        }
        writes_reserved_ += accepted_ && !reads;
        Word given;
        const bool enters = axi.w_valid && axi.w_ready;
        if (enters) {
            std::memcpy(given.data, axi.w_data, BUS_BYTES);
            std::memcpy(given.strobe, axi.w_strb, sizeof given.strobe);
            given.last = axi.w_last;
        }
        read_data_.clock(taken, arrived != nullptr, arrived ? *arrived : given);
        write_data_.clock(sends, enters, given);
        ar_.clock(accepted_ && reads, axi.ar_valid, axi.ar_addr, axi.ar_len);
        aw_.clock(accepted_ && !reads, axi.aw_valid, axi.aw_addr, axi.aw_len);
    }

  private:
    bool read_requests() const { return ar_.valid() && reads_reserved_ != READ_FIFO; }
    bool write_requests() const { return aw_.valid() && write_data_.level() > writes_reserved_; }

    Addresses ar_, aw_;
    BufferedFifo<Word, READ_FIFO> read_data_;
    BufferedFifo<Word, WRITE_FIFO> write_data_;
    // For each word requested and not yet taken: whether it is the last one of its burst.
    Queue<bool, READ_FIFO> lasts_;
    int reads_reserved_ = 0, writes_reserved_ = 0, responses_ = 0;
    bool reads_ = false, accepted_ = false;
};

}  // namespace dram
