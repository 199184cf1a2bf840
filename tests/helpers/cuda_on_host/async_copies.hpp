// What a thread has in flight: groups of asynchronous copies, and those of no group yet.

#pragma once

#include <vector>

namespace host {

struct AsyncCopy {
    unsigned char* destination;
    const unsigned char* source;
    unsigned bytes;
    unsigned char data[16];  // what the source held at issue: `from_source` bytes, then zeros
    unsigned from_source;
    int line;
};

struct AsyncCopies {
    std::vector<AsyncCopy> open;
    std::vector<std::vector<AsyncCopy>> committed;
};

AsyncCopies& copies_of_thread();

}  // namespace host
