// Streams of AXI bursts on a memory: LiteDRAM in Verilator, or the model of its controller.
//
//     program REQUESTS TIMES
//
// REQUESTS is a sequence of int64 numbers, for each run: masters, requests of a master, reads and writes in flight, cycles
// after reset before the first address, last cycle; then the requests (write, first word, words, earliest cycle, cycles
// between words) of the first master, of the second one ...; then the stalls of each master. TIMES gets, for each request,
// the cycles in which its address is accepted, its first word arrives (-1 for writes), and it ends.
#include <cstdint>
#include <cstdio>
#include <vector>

#include "port.h"

// class Device, the memory: litedram_device.h or model_device.h.
#include DEVICE

struct Request {
    int64_t write, word, words, earliest, gap;
};

struct Times {
    int64_t accepted = -1, first = -1, end = -1;
};

struct Master {
    const Request *requests;
    Times *times;
    int64_t stall;
    std::vector<int64_t> reads, writes;  // indices of requests, in order
    int64_t next = 0, reads_done = 0, writes_done = 0, sent = 0, reading = 0, writing = 0, word = 0, pause = 0, got = 0;
};

static bool accepts(int64_t cycle, int64_t master, int64_t stall) {
    uint64_t mixed = (uint64_t(cycle) * 2654435761u + uint64_t(master) * 40503u) >> 9;
    return int64_t(mixed & 7) >= stall;
}

int main(int count, char **words) {
    if (count != 3) return 2;
    FILE *in = fopen(words[1], "rb"), *out = fopen(words[2], "wb");
    if (!in || !out) return 2;
    Device device;
    int64_t head[6];
    while (fread(head, sizeof *head, 6, in) == 6) {
        auto [masters, requests, most_reads, most_writes, start, limit] = head;
        std::vector<Request> all(masters * requests);
        std::vector<Times> times(all.size());
        std::vector<int64_t> stalls(masters);
        if (fread(all.data(), sizeof(Request), all.size(), in) != all.size()) return 3;
        if (fread(stalls.data(), sizeof(int64_t), masters, in) != size_t(masters)) return 3;
        std::vector<Master> all_masters(masters);
        for (int m = 0; m < masters; m++) {
            auto &master = all_masters[m];
            master.requests = &all[m * requests];
            master.times = &times[m * requests];
            master.stall = stalls[m];
            for (int64_t i = 0; i < requests; i++)
                (master.requests[i].write ? master.writes : master.reads).push_back(i);
        }
        device.reset();
        const std::vector<Port> ports = device.ports();
        int64_t left = masters * requests;
        for (int64_t cycle = -start; left && cycle < limit; cycle++) {
            for (int m = 0; m < masters; m++) {
                auto &master = all_masters[m];
                auto &port = ports[m];
                *port.ar_valid = *port.aw_valid = 0;
                if (cycle >= 0 && master.next < requests && cycle >= master.requests[master.next].earliest) {
                    auto &request = master.requests[master.next];
                    *(request.write ? port.aw_valid : port.ar_valid) =
                        request.write ? master.writing < most_writes : master.reading < most_reads;
                    *(request.write ? port.aw_addr : port.ar_addr) = request.word * BUS_BYTES;
                    *(request.write ? port.aw_len : port.ar_len) = request.words - 1;
                }
                bool sending = master.sent < master.writes_done + master.writing;
                *port.w_valid = sending && master.pause == 0;
                *port.w_last = sending && master.word == master.requests[master.writes[master.sent]].words - 1;
                *port.r_ready = *port.b_ready = cycle >= 0 && accepts(cycle, m, master.stall);
            }
            device.settle();
            for (int m = 0; m < masters; m++) {
                auto &master = all_masters[m];
                auto &port = ports[m];
                if (master.pause > 0) master.pause--;
                if (*port.w_valid && *port.w_ready) {
                    master.pause = master.requests[master.writes[master.sent]].gap;
                    master.word++;
                    if (*port.w_last) {
                        master.word = 0;
                        master.sent++;
                    }
                }
                if (*port.r_valid && *port.r_ready) {
                    auto &read = master.times[master.reads[master.reads_done]];
                    if (master.got++ == 0) read.first = cycle;
                    if (*port.r_last) {
                        read.end = cycle;
                        master.got = 0;
                        master.reads_done++;
                        master.reading--;
                        left--;
                    }
                }
                if (*port.b_valid && *port.b_ready) {
                    master.times[master.writes[master.writes_done++]].end = cycle;
                    master.writing--;
                    left--;
                }
                if (*port.ar_valid && *port.ar_ready) {
                    master.times[master.next++].accepted = cycle;
                    master.reading++;
                }
                if (*port.aw_valid && *port.aw_ready) {
                    master.times[master.next++].accepted = cycle;
                    master.writing++;
                }
            }
            device.clock();
        }
        fwrite(times.data(), sizeof(Times), times.size(), out);
    }
    return fclose(out) ? 2 : 0;
}
