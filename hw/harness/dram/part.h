// A model of a DRAM part: open rows, bytes, and the latencies of data.
#pragma once
#include <cstdint>
#include <cstring>
#include <memory>
#include <vector>

#include "bridge.h"
#include "commands.h"

namespace dram {

template <int BANKS, int COLUMN_BITS, int READ_LATENCY, int WRITE_LATENCY>
class Part {
    static constexpr int SLOTS = 64, PAGE_WORDS = 1 << 12;
    static_assert(READ_LATENCY < SLOTS && WRITE_LATENCY < SLOTS && READ_LATENCY > 1 && WRITE_LATENCY > 0);

  public:
    // The bytes of the word with this number in a bank.
    uint8_t *word(int bank, uint64_t number) {
        auto &pages = pages_[bank];
        const uint64_t page = number / PAGE_WORDS;
        if (page >= pages.size()) pages.resize(page + 1);
        if (!pages[page]) pages[page].reset(new uint8_t[PAGE_WORDS * BUS_BYTES]());
        return &pages[page][number % PAGE_WORDS * BUS_BYTES];
    }

    // Commands that the controller accepted in the cycle before `cycle` reach the part. A column command is for the
    // row that is open: its data move `READ_LATENCY` or `WRITE_LATENCY` cycles after it was accepted.
    void take(const Sent &sent, int64_t cycle) {
        if (sent.command == Command::ACTIVATE) {
            rows_[sent.bank] = sent.place;
        } else if (sent.command == Command::READ) {
            const uint8_t *bytes = word(sent.bank, rows_[sent.bank] << COLUMN_BITS | sent.place);
            std::memcpy(read_[(cycle - 1 + READ_LATENCY) % SLOTS].data, bytes, BUS_BYTES);
        } else if (sent.command == Command::WRITE) {
            write_[(cycle - 1 + WRITE_LATENCY) % SLOTS] = {sent.bank, rows_[sent.bank] << COLUMN_BITS | sent.place};
        }
    }

    // The word that comes from the part in `cycle`, and the one that goes there.
    const Word &read(int64_t cycle) const { return read_[cycle % SLOTS]; }
    void write(int64_t cycle, const Word &given) {
        const Place &place = write_[cycle % SLOTS];
        uint8_t *bytes = word(place.bank, place.word);
        for (int i = 0; i < BUS_BYTES; i++)
            if (given.strobe[i / 8] >> i % 8 & 1) bytes[i] = given.data[i];
    }

  private:
    struct Place {
        int bank;
        int64_t word;
    };
    int64_t rows_[BANKS]{};
    Word read_[SLOTS]{};
    Place write_[SLOTS]{};
    std::vector<std::unique_ptr<uint8_t[]>> pages_[BANKS];
};

}  // namespace dram
