// Counts the commands that a controller sends to a DRAM part, for LiteDRAM's RTL and for the model of its controller.
#pragma once
#include <cstdint>

#include "port.h"

namespace dram {

enum class Command { NONE, ACTIVATE, PRECHARGE, READ, WRITE, PRECHARGE_ALL, REFRESH, CALIBRATE };

// A command on its way to the part. `place`: the row of an ACTIVATE, the column of a READ or WRITE. `closes`: READ or
// WRITE with auto-precharge.
struct Sent {
    Command command = Command::NONE;
    int bank = 0;
    int64_t place = 0;
    bool closes = false;
};

// Adds a command that the controller accepted in `cycle`. The digest is a sum over all commands, because the order of
// commands in the phases of one cycle means nothing; a column is left out, since the data of a wrong one are wrong.
inline void count(DramCommands &counts, const Sent &sent, int64_t cycle) {
    const bool column = sent.command == Command::READ || sent.command == Command::WRITE;
    switch (sent.command) {
        case Command::NONE: return;
        case Command::ACTIVATE: counts.activates++; break;
        case Command::PRECHARGE: counts.precharges++; break;
        case Command::READ: counts.reads++; break;
        case Command::WRITE: counts.writes++; break;
        case Command::PRECHARGE_ALL: counts.all_precharges++; break;
        case Command::REFRESH: counts.refreshes++; break;
        case Command::CALIBRATE: counts.calibrations++; break;
    }
    counts.auto_precharges += column && sent.closes;
    const bool one_bank = column || sent.command == Command::ACTIVATE || sent.command == Command::PRECHARGE;
    const uint64_t parts[] = {uint64_t(cycle), uint64_t(sent.command), one_bank ? uint64_t(sent.bank) : 0,
                              sent.command == Command::ACTIVATE ? uint64_t(sent.place) : column && sent.closes};
    uint64_t hash = 0xCBF29CE484222325ull;
    for (const uint64_t part : parts) {
        hash = (hash ^ part) * 0x9E3779B97F4A7C15ull;
        hash ^= hash >> 29;
    }
    counts.digest += hash;
}

}  // namespace dram
