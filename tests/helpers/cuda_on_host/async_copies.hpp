// What a thread has in flight: groups of asynchronous copies, and those of no group yet; of products of warpgroups too.

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

struct Source {  // a line of a core matrix that a product reads, as it was
    const unsigned char* line;
    unsigned char data[16];
};

struct Products {  // of wgmma: sources are kept by the first thread of a warpgroup
    std::vector<Source> open;
    std::vector<std::vector<Source>> committed;
    bool fenced = false;
    bool issued = false;  // and not committed
};

struct Landed {  // what a copy filled, and no fence.proxy.async has been behind it
    const unsigned char* destination;
    unsigned bytes;
};

struct AsyncCopies {
    std::vector<AsyncCopy> open;
    std::vector<std::vector<AsyncCopy>> committed;
    std::vector<Landed> landed;
    Products products;
};

AsyncCopies& copies_of_thread();

// Of bulk copies and mbarriers (bulk.cpp): none at a block's beginning, none under way at its end.
void begin_bulk();
void end_bulk();

// Fails where a copy of any thread filled some of these bytes and its thread has not fenced it since.
void check_fenced(int line, const char* what, const unsigned char* from, unsigned bytes);

}  // namespace host
