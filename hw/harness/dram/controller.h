// A model of LiteDRAM's controller with a DRAM part behind it and AXI masters before it, cycle by cycle (hw/dram.md).
//
// It is a second oracle of the DRAM's timing beside LiteDRAM's RTL, written from the rules in hw/dram.md and from
// LiteDRAM's source, and faster than the RTL. The compiler defines NUMBERS, the fields of isa.dram.Controller for one
// design, BUS_BYTES and MASTERS.
#pragma once
#include <cstdint>
#include <utility>

#include "blocks.h"
#include "bridge.h"
#include "part.h"

namespace dram {

// isa.dram.Controller.
struct Numbers {
    int64_t banks, phases, column_bits, bank_shift, word_bytes, queue, read_time, write_time, read_latency,
        write_latency, turnaround, t_rp, t_rcd, t_wtp, t_rc, t_ras, t_rrd, t_faw, t_ccd, t_wtr, t_refi, t_rfc, t_zqcs,
        zqcs_period, read_fifo, write_fifo;
};
constexpr Numbers N{NUMBERS};
static_assert(N.word_bytes == BUS_BYTES && N.banks <= 64);

// A request for a bus word, at a bank.
struct Request {
    bool write = false;
    int64_t row = 0, column = 0;
};

// Section 4: the state machine of a bank.
class Bank {
  public:
    enum State { REGULAR, PRECHARGE, AUTOPRECHARGE, PRECHARGING, ACTIVATE, ACTIVATING, REFRESHING };

    int grant = 0;  // The master whose requests the bank takes.

    bool held() const { return held_; }
    bool busy() const { return held_ || !queue_.empty(); }
    bool quiet() const { return !busy() && state_ == REGULAR; }
    bool room() const { return !queue_.full(); }
    const Request &request() const { return request_; }

    // The command that the bank asks for. `stops`: the refresher wants the bank to stop.
    Command asks(int64_t cycle, bool stops) const {
        switch (state_) {
            case REGULAR:
                if (stops || !row_hit()) return Command::NONE;
                return request_.write ? Command::WRITE : Command::READ;
            case PRECHARGE: return may_close(cycle) ? Command::PRECHARGE : Command::NONE;
            case ACTIVATE: return t_rc_.over(cycle) ? Command::ACTIVATE : Command::NONE;
            default: return Command::NONE;
        }
    }

    // Whether the column command of this cycle closes the row: the next request has another one.
    bool closes() const { return state_ == REGULAR && !queue_.empty() && queue_.front().row != request_.row; }

    bool ready_for_refresh(int64_t cycle) const { return state_ == REFRESHING && t_wtp_.over(cycle); }

    // Ends a cycle in which the command `asked` was accepted or not. `entering`: the request that enters the queue, or
    // null.
    void clock(int64_t cycle, bool stops, Command asked, bool accepted, const Request *entering) {
        const bool moves = accepted && (asked == Command::READ || asked == Command::WRITE);
        switch (state_) {
            case REGULAR:
                if (stops)
                    state_ = REFRESHING;
                else if (held_ && !open_)
                    state_ = ACTIVATE;
                else if (held_ && row_ != request_.row)
                    state_ = PRECHARGE;
                else if (moves && closes())
                    state_ = AUTOPRECHARGE;
                if (moves && request_.write) t_wtp_.start(cycle);
                break;
            case PRECHARGE:
                open_ = false;
                if (accepted) wait(PRECHARGING, ACTIVATE, N.t_rp - 1);
                break;
            case AUTOPRECHARGE:
                open_ = false;
                if (may_close(cycle)) wait(PRECHARGING, ACTIVATE, N.t_rp - 1);
                break;
            case ACTIVATE:
                if (asked == Command::ACTIVATE) open_ = true, row_ = request_.row;
                if (accepted) {
                    t_rc_.start(cycle);
                    t_ras_.start(cycle);
                    wait(ACTIVATING, REGULAR, N.t_rcd - 1);
                }
                break;
            case REFRESHING:
                open_ = false;
                if (!stops) state_ = REGULAR;
                break;
            default:
                if (--left_ == 0) state_ = state_ == PRECHARGING ? ACTIVATE : REGULAR;
        }
        if (!held_ || moves) {
            held_ = !queue_.empty();
            if (held_) request_ = queue_.pop();
        }
        if (entering) queue_.push(*entering);
    }

    State state() const { return state_; }
    bool row_hit() const { return held_ && open_ && row_ == request_.row; }
    bool open() const { return open_; }

  private:
    bool may_close(int64_t cycle) const { return t_wtp_.over(cycle) && t_ras_.over(cycle); }
    void wait(State state, State next, int64_t cycles) {
        state_ = cycles > 0 ? state : next;
        left_ = cycles;
    }

    State state_ = REGULAR;
    int64_t left_ = 0, row_ = 0;
    bool open_ = false, held_ = false;
    Request request_;
    Queue<Request, int(N.queue)> queue_;
    Timer<N.t_wtp> t_wtp_;
    Timer<N.t_rc> t_rc_;
    Timer<N.t_ras> t_ras_;
};

// Section 5: chooses one bank among those that ask for a command.
class Chooser {
  public:
    int grant() const { return grant_; }
    bool valid(uint64_t asks) const { return asks >> grant_ & 1; }
    // Ends a cycle. `ready`: a command of the bank that has the grant would be accepted.
    void clock(uint64_t asks, bool ready) {
        if (ready || !valid(asks)) grant_ = next_grant(grant_, asks, int(N.banks));
    }

  private:
    int grant_ = 0;
};

// Section 6: asks all banks to stop every t_refi cycles, then sends the commands of a refresh.
class Refresher {
  public:
    // Whether banks must stop, and whether this is the last cycle of a refresh.
    bool stops() const { return state_ != IDLE && !last(); }
    bool last() const {
        return (state_ == REFRESHES && sequence_ == DONE && !calibrates()) ||
               (state_ == CALIBRATES && sequence_ == CALIBRATED);
    }

    // The command to the part in this cycle, while the multiplexer is in its state refresh.
    Command command() const {
        if (state_ == IDLE || state_ == WAITS || last()) return Command::NONE;
        if (sequence_ == 1) return Command::PRECHARGE_ALL;
        if (sequence_ == N.t_rp + 1) return state_ == REFRESHES ? Command::REFRESH : Command::CALIBRATE;
        return Command::NONE;
    }

    // Ends a cycle. `ready`: the multiplexer is in its state refresh.
    void clock(bool ready) {
        const bool asked = wanted_, over = last(), calibrates = this->calibrates() && sequence_ == DONE;
        const bool calibrated = state_ == CALIBRATES && over;
        wanted_ = --until_refresh_ == 0;
        if (wanted_) until_refresh_ = N.t_refi;
        sequence_++;
        if (state_ == IDLE && asked) {
            state_ = WAITS;
        } else if (state_ == WAITS && ready) {
            state_ = REFRESHES;
            sequence_ = 1;
        } else if (state_ == REFRESHES && calibrates) {
            state_ = CALIBRATES;
            sequence_ = 1;
        } else if (over) {
            state_ = IDLE;
        }
        if (--until_calibration_ < 0 || calibrated) until_calibration_ = N.zqcs_period - 1;
    }

  private:
    enum { IDLE, WAITS, REFRESHES, CALIBRATES } state_ = IDLE;
    // A sequence begins with 1 in the cycle of its first command.
    static constexpr int64_t DONE = N.t_rp + N.t_rfc + 1, CALIBRATED = N.t_rp + N.t_zqcs + 1;

    bool calibrates() const { return N.t_zqcs >= 0 && until_calibration_ == 0 && state_ == REFRESHES; }

    int64_t sequence_ = 0, until_refresh_ = N.t_refi, until_calibration_ = N.zqcs_period - 1;
    bool wanted_ = false;
};

class Controller {
  public:
    Controller() { settle(); }

    // Goes back to the state at the end of a reset; the part keeps its bytes.
    void reset() {
        auto kept = std::move(part_);
        *this = Controller();
        part_ = std::move(kept);
    }

    Axi &axi(int master) { return bridges_[master].axi; }

    // Commands and cycles since the last reset; `waits` only if there is one master.
    const DramCommands &commands() const { return commands_; }
    const DramWaits &waits() const { return waits_; }

    // The bytes of the bus word with this number.
    uint8_t *word(uint64_t number) {
        const Place place = place_of(number);
        return part_.word(place.bank, place.row << N.column_bits | place.column);
    }

    // Ends a cycle, with the inputs of the AXI channels, and sets the outputs of the next one.
    void clock() {
        sent_row_.command = sent_column_.command = Command::NONE;
        const bool stops = refresher_.stops(), works = state_ == READS || state_ == WRITES;
        uint64_t rows = 0, opens = 0, reads = 0, writes = 0;
        for_each(active_, [&](int b) {
            const Command asked = asked_[b] = banks_[b].asks(cycle_, stops);
            const uint64_t bit = uint64_t(1) << b;
            if (asked == Command::ACTIVATE) opens |= bit;
            if (asked == Command::ACTIVATE || asked == Command::PRECHARGE) rows |= bit;
            if (asked == Command::READ) reads |= bit;
            if (asked == Command::WRITE) writes |= bit;
        });

        // Section 5: which commands are accepted.
        const bool may_open = t_rrd_.over(cycle_) && t_faw_.open();
        uint64_t columns = !works ? rows : state_ == READS ? reads : writes;
        if (works && N.phases == 1) columns |= may_open ? rows : rows & ~opens;
        const int row_grant = rows_.grant(), column_grant = columns_.grant();
        bool row_ready = false, column_ready = works && t_ccd_.over(cycle_);
        if (N.phases == 1)
            column_ready = column_ready && (may_open || !columns_.valid(columns & opens));
        else
            row_ready = works && (may_open || !rows_.valid(opens));
        const int row_bank = row_ready && rows_.valid(rows) ? row_grant : -1;
        const int column_bank = column_ready && columns_.valid(columns) ? column_grant : -1;
        if (row_bank >= 0) send(sent_row_, row_bank);
        if (column_bank >= 0) send(sent_column_, column_bank);
        rows_.clock(rows, row_ready);
        columns_.clock(columns, column_ready);

        count_cycle(stops, column_bank >= 0);
        const Command column = sent_column_.command;
        const bool opened = sent_row_.command == Command::ACTIVATE || column == Command::ACTIVATE;
        if (opened) t_rrd_.start(cycle_);
        t_faw_.clock(opened);
        const bool moved_in = column == Command::READ, moved_out = column == Command::WRITE;
        if (moved_in || moved_out) t_ccd_.start(cycle_);
        if (moved_out) t_wtr_.start(cycle_);
        const int mover = moved_in || moved_out ? banks_[column_bank].grant : -1;

        clock_multiplexer(stops, reads != 0, writes != 0);
        clock_crossbar_and_banks(stops, row_bank, column_bank);

        // Data between masters and part.
        for (int m = 0; m < MASTERS; m++) {
            const int slot = cycle_ % SLOTS;
            const bool arrives = arrivals_[slot] >> m & 1, sends = departures_[slot] >> m & 1;
            if (sends) part_.write(cycle_, bridges_[m].sent());
            bridges_[m].clock(arrives ? &part_.read(cycle_) : nullptr, sends);
        }
        arrivals_[cycle_ % SLOTS] = departures_[cycle_ % SLOTS] = 0;
        if (moved_in) arrivals_[(cycle_ + N.read_latency) % SLOTS] |= 1 << mover;
        if (moved_out) departures_[(cycle_ + N.write_latency) % SLOTS] |= 1 << mover;
        count(commands_, sent_row_, cycle_);
        count(commands_, sent_column_, cycle_);
        cycle_++;
        part_.take(sent_row_, cycle_);
        part_.take(sent_column_, cycle_);
        settle();
    }

  private:
    static constexpr int SLOTS = 64;
    static_assert(N.read_latency < SLOTS && N.write_latency < SLOTS && MASTERS <= 32);
    enum State { READS, WRITES, TO_WRITES, TO_READS, REFRESH };

    struct Place {
        int bank;
        int64_t row, column;
    };

    // Section 1.
    static Place place_of(uint64_t number) {
        const uint64_t place = number >> N.bank_shift, within = number & ((uint64_t(1) << N.bank_shift) - 1);
        const uint64_t there = place / N.banks << N.bank_shift | within;
        return {int(place % N.banks), int64_t(there >> N.column_bits),
                int64_t(there & ((uint64_t(1) << N.column_bits) - 1))};
    }

    template <typename Function>
    static void for_each(uint64_t banks, Function function) {
        for (; banks; banks &= banks - 1) function(std::countr_zero(banks));
    }

    void send(Sent &sent, int b) {
        const Request &request = banks_[b].request();
        const bool opens = asked_[b] == Command::ACTIVATE;
        sent = {asked_[b], b, opens ? request.row : request.column, !opens && banks_[b].closes()};
    }

    // Section 3: whether another bank than `bank` still works for the master.
    bool locked(int master, int bank) const {
        for (uint64_t others = busy_ & ~(uint64_t(1) << bank); others; others &= others - 1)
            if (banks_[std::countr_zero(others)].grant == master) return true;
        return false;
    }

    // Sets the requests of the bridges in this cycle, and the outputs to the masters.
    void settle() {
        for (int m = 0; m < MASTERS; m++) {
            auto &bridge = bridges_[m];
            requested_[m] = accepted_[m] = false;
            if (bridge.requests()) {
                places_[m] = place_of(bridge.word());
                const Bank &bank = banks_[places_[m].bank];
                requested_[m] = !locked(m, places_[m].bank);
                accepted_[m] = requested_[m] && bank.grant == m && bank.room();
            }
            bridge.settle(accepted_[m]);
        }
    }

    void clock_multiplexer(bool stops, bool reads, bool writes) {
        const int64_t since = cycle_ - entered_;
        State next = state_;
        switch (state_) {
            case READS:
                if (writes && (!reads || since >= N.read_time - 1)) next = N.turnaround > 0 ? TO_WRITES : WRITES;
                break;
            case WRITES:
                if (reads && (!writes || since >= N.write_time - 1)) next = TO_READS;
                break;
            case TO_WRITES:
                if (since == N.turnaround - 1) next = WRITES;
                break;
            case TO_READS:
                if (t_wtr_.over(cycle_)) next = READS;
                break;
            case REFRESH:
                if (refresher_.last()) next = READS;
                if (const Command command = refresher_.command(); command != Command::NONE) sent_row_ = {command, 0, 0};
        }
        if (stops && (state_ == READS || state_ == WRITES)) {
            bool all = true;
            for (const Bank &bank : banks_) all = all && bank.ready_for_refresh(cycle_);
            if (all) next = REFRESH;
        }
        refresher_.clock(state_ == REFRESH);
        if (next != state_) entered_ = cycle_ + 1;
        waits_.turnarounds += state_ == READS && (next == TO_WRITES || next == WRITES);
        state_ = next;
    }

    // Section 8: counts this cycle by its cause, for the only master. `accepted`: a command of the column chooser is.
    void count_cycle(bool stops, bool accepted) {
        if (MASTERS > 1) return;
        const Axi &axi = bridges_[0].axi;
        const Bank *bank = nullptr;
        for_each(busy_, [&](int b) { bank = banks_[b].held() ? &banks_[b] : bank; });
        const Command column = sent_column_.command;
        (accepted && (column == Command::READ || column == Command::WRITE) ? waits_.words
         : bank                                                          ? cause(*bank, stops)
         : waited_                                                       ? waits_.bank
         : outstanding_ || axi.ar_valid || axi.aw_valid || axi.w_valid   ? waits_.latency
                                                                         : waits_.idle)++;
        if (bank) waited_ = false;
        waited_ = waited_ || (bridges_[0].requests() && !requested_[0]);
        outstanding_ += (axi.ar_valid && axi.ar_ready) + (axi.aw_valid && axi.aw_ready);
        outstanding_ -= (axi.r_valid && axi.r_ready && axi.r_last) + (axi.b_valid && axi.b_ready);
    }

    // The cause for which the bank with the request in work has no column command in this cycle.
    int64_t &cause(const Bank &bank, bool stops) {
        if (stops || state_ == REFRESH) return waits_.refresh;
        switch (bank.state()) {
            case Bank::PRECHARGE:
            case Bank::AUTOPRECHARGE:
            case Bank::PRECHARGING: return waits_.precharge;
            case Bank::ACTIVATE:
            case Bank::ACTIVATING: return waits_.activate;
            default: break;
        }
        if (!bank.row_hit()) return bank.open() ? waits_.precharge : waits_.activate;
        return state_ == (bank.request().write ? WRITES : READS) ? waits_.bank : waits_.turnaround;
    }

    void clock_crossbar_and_banks(bool stops, int row_bank, int column_bank) {
        // An idle bank's grant moves to a master that requests it, unless the present one does.
        int grants[MASTERS], moved[MASTERS], count = 0;
        for (int m = 0; m < MASTERS; m++) {
            const int b = places_[m].bank;
            if (MASTERS == 1 || !requested_[m] || banks_[b].busy()) continue;
            uint64_t asks = 0;
            for (int other = 0; other < MASTERS; other++)
                if (requested_[other] && places_[other].bank == b) asks |= uint64_t(1) << other;
            if (asks >> banks_[b].grant & 1) continue;
            moved[count] = b;
            grants[count++] = next_grant(banks_[b].grant, asks, MASTERS);
        }
        Request entering[MASTERS];
        uint64_t active = stops ? ALL : active_;
        for (int m = 0; m < MASTERS; m++) {
            if (!accepted_[m]) continue;
            entering[m] = {bridges_[m].writes(), places_[m].row, places_[m].column};
            active |= uint64_t(1) << places_[m].bank;
        }
        active_ = busy_ = 0;
        for_each(active, [&](int b) {
            const Request *request = nullptr;
            for (int m = 0; m < MASTERS; m++)
                if (accepted_[m] && places_[m].bank == b) request = &entering[m];
            Bank &bank = banks_[b];
            bank.clock(cycle_, stops, asked_[b], b == row_bank || b == column_bank, request);
            asked_[b] = Command::NONE;
            if (bank.busy()) busy_ |= uint64_t(1) << b;
            if (!bank.quiet()) active_ |= uint64_t(1) << b;
        });
        for (int i = 0; i < count; i++) banks_[moved[i]].grant = grants[i];
    }

    static constexpr uint64_t ALL = N.banks == 64 ? ~uint64_t(0) : (uint64_t(1) << N.banks % 64) - 1;

    // Cycles count from the end of the reset. The multiplexer begins as if reads had lasted their longest time.
    int64_t cycle_ = 0, entered_ = -N.read_time;
    State state_ = READS;
    Bank banks_[N.banks];
    Command asked_[N.banks]{};
    uint64_t active_ = 0, busy_ = 0;  // Sets of banks: not quiet; with requests.
    Chooser rows_, columns_;
    Timer<N.t_rrd> t_rrd_;
    Timer<N.t_ccd> t_ccd_;
    Timer<N.t_wtr> t_wtr_;
    ActivateWindow<N.t_faw> t_faw_;
    Refresher refresher_;
    Bridge<int(N.read_fifo), int(N.write_fifo)> bridges_[MASTERS];
    bool requested_[MASTERS]{}, accepted_[MASTERS]{};
    Place places_[MASTERS]{};
    Sent sent_row_, sent_column_;
    DramCommands commands_{};
    DramWaits waits_{};
    int outstanding_ = 0;  // Bursts of the only master whose last beat or response has not moved.
    bool waited_ = false;  // The next request of the only master waited for another bank.
    uint32_t arrivals_[SLOTS]{}, departures_[SLOTS]{};
    Part<int(N.banks), int(N.column_bits), int(N.read_latency), int(N.write_latency)> part_;
};

}  // namespace dram
