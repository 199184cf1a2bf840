// Building blocks of the model of a DRAM controller (controller.h): queues, FIFOs, timers, round-robin choices.
#pragma once
#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>

namespace dram {

// Number of bits of a counter that counts down from `time` - 1.
constexpr int counter_bits(int64_t time) { return std::bit_width(uint64_t(std::max<int64_t>(time, 2) - 1)); }

// Round-robin choice: the next index after `grant`, in a circle of `count`, that is in the set `asks`; else `grant`.
inline int next_grant(int grant, uint64_t asks, int count) {
    for (int i = grant + 1; i < grant + count; i++) {
        const int index = i < count ? i : i - count;
        if (asks >> index & 1) return index;
    }
    return grant;
}

// A queue of at most SIZE elements.
template <typename T, int SIZE>
class Queue {
  public:
    int size() const { return size_; }
    bool empty() const { return size_ == 0; }
    bool full() const { return size_ == SIZE; }
    const T &front() const { return items_[first_]; }
    void push(const T &item) {
        items_[first_ + size_ < SIZE ? first_ + size_ : first_ + size_ - SIZE] = item;
        size_++;
    }
    T pop() {
        const T &item = items_[first_];
        first_ = first_ + 1 < SIZE ? first_ + 1 : 0;
        size_--;
        return item;
    }

  private:
    std::array<T, SIZE> items_{};
    int first_ = 0, size_ = 0;
};

// A FIFO whose reader sees an output register. The register takes the first of SIZE elements when it is empty or read.
template <typename T, int SIZE>
class BufferedFifo {
  public:
    bool room() const { return !waiting_.full(); }
    bool valid() const { return valid_; }
    const T &front() const { return front_; }
    int level() const { return waiting_.size() + valid_; }

    // Ends a cycle. `taken`: the reader takes the element in the register if there is one.
    void clock(bool taken, bool enters, const T &item) {
        if (!waiting_.empty() && (!valid_ || taken)) {
            front_ = waiting_.pop();
            valid_ = true;
        } else if (taken) {
            valid_ = false;
        }
        if (enters) waiting_.push(item);
    }

  private:
    Queue<T, SIZE> waiting_;
    T front_{};
    bool valid_ = false;
};

// The time TIME that must pass after a command; a negative TIME is no limit. At reset LiteDRAM's counter is 0 and
// wraps: the time is over when the counter has gone through all its values.
template <int64_t TIME>
class Timer {
  public:
    bool over(int64_t cycle) const { return cycle >= end_; }
    void start(int64_t cycle) {
        if (TIME >= 0) end_ = cycle + TIME;
    }

  private:
    int64_t end_ = TIME < 0 ? 0 : int64_t(1) << counter_bits(TIME);
};

// The window of TIME cycles with at most four ACTIVATEs; a negative TIME is no limit. LiteDRAM adds the bits of a shift
// register in a counter, which is too narrow for a 4 in a window of 4 cycles.
template <int64_t TIME>
class ActivateWindow {
    static_assert(TIME < 64);

  public:
    bool open() const { return open_; }
    void clock(bool activates) {
        if (TIME < 0) return;
        const int count = std::popcount(window_) & ((1 << counter_bits(TIME)) - 1);
        if (count < 4) open_ = count < 3 || !activates;
        window_ = (window_ << 1 | activates) & ((uint64_t(1) << std::max<int64_t>(TIME, 0)) - 1);
    }

  private:
    uint64_t window_ = 0;
    bool open_ = true;
};

}  // namespace dram
