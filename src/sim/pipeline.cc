#include "ntpsim/sim/pipeline.h"

#include <algorithm>
#include <cstddef>
#include <optional>

#include "ntpsim/core/invariant.h"

namespace ntpsim::sim {
namespace {

std::size_t at(std::int64_t index) {
  return static_cast<std::size_t>(index);
}

Time share(Time time, std::int64_t parts) {
  return Time::from_ns(time.ns() / parts);
}

struct Pass {
  bool forward = true;
  std::int64_t turn = 0;  ///< which of the rank's chunks
  std::int64_t microbatch = 0;
};

/// The order in which a rank runs its passes; of a last group of fewer microbatches than ranks, as if it were
/// whole.
class Schedule {
 public:
  Schedule(std::int64_t ranks, std::int64_t turns, std::int64_t microbatches, std::int64_t rank)
      : ranks_(ranks),
        turns_(turns),
        // Without interleaving the order of a group is no other than that of its microbatches.
        total_(turns * (turns == 1 ? microbatches : (microbatches + ranks - 1) / ranks * ranks)) {
    const std::int64_t ahead = ranks - rank - 1;
    warm_up_ = std::min(turns == 1 ? ahead : 2 * ahead + (turns - 1) * ranks, total_);
  }

  [[nodiscard]] bool done() const { return backward_.count == total_; }

  /// REQUIRES: not done.
  [[nodiscard]] Pass pass() const {
    const bool forward = is_forward();
    const Cursor& cursor = forward ? forward_ : backward_;
    return {.forward = forward,
            .turn = forward ? cursor.turn : turns_ - 1 - cursor.turn,
            .microbatch = cursor.group + cursor.within};
  }

  /// Shortens the step by whole groups. REQUIRES: none of its last passes has been run.
  void leave_out(std::int64_t microbatches) { total_ -= microbatches * turns_; }

  /// Passes of a group of microbatches.
  [[nodiscard]] std::int64_t period() const { return 2 * ranks_ * turns_; }
  /// Microbatches of the groups that have been begun.
  [[nodiscard]] std::int64_t begun() const { return forward_.group + ranks_; }

  void advance() {
    Cursor& cursor = is_forward() ? forward_ : backward_;
    ++cursor.count;
    if (++cursor.within < ranks_) return;
    cursor.within = 0;
    if (++cursor.turn < turns_) return;
    cursor.turn = 0;
    cursor.group += ranks_;
  }

 private:
  /// Groups of `ranks` microbatches go through the chunks in turn.
  struct Cursor {
    std::int64_t count = 0;
    std::int64_t within = 0;
    std::int64_t turn = 0;
    std::int64_t group = 0;  ///< its first microbatch
  };

  /// After the warm-up, passes of either kind alternate.
  [[nodiscard]] bool is_forward() const {
    return forward_.count < total_ &&
           forward_.count - backward_.count <= warm_up_ - (forward_.count < warm_up_ ? 1 : 0);
  }

  std::int64_t ranks_;
  std::int64_t turns_;
  std::int64_t total_;
  std::int64_t warm_up_ = 0;
  Cursor forward_;
  Cursor backward_;
};

struct Options {
  bool sends = true;
  bool sync = true;
};

/// One play of a step. Unless every event is wanted, whole groups are left out once the pipeline repeats
/// itself: when every pass of every rank has for a whole group ended the same time after its like in the
/// group before. What a pass waits for lies no further back than that.
class Play {
 public:
  Play(const PipelineSpec& spec, std::int64_t microbatches, Options options,
       const std::function<void(const PipelineEvent&)>* record)
      : spec_(spec),
        microbatches_(microbatches),
        turns_(spec.chunks_per_rank()),
        options_(options),
        record_(record),
        window_(kWindow * spec.ranks),
        forward_(spec.chunks.size() * at(window_)),
        backward_(spec.chunks.size() * at(window_)) {
    ranks_.reserve(at(spec.ranks));
    for (std::int64_t rank = 0; rank < spec.ranks; ++rank) {
      ranks_.push_back({.schedule = Schedule(spec.ranks, turns_, microbatches, rank),
                        .free = {},
                        .reduced = {},
                        .gathered = std::vector<Time>(at(turns_)),
                        .ends = std::vector<Time>(at(2 * spec.ranks * turns_)),
                        .pass = 0,
                        .shift = {},
                        .streak = 0});
      start(rank);
    }
  }

  Time run() {
    bool moved = true;
    while (moved) {
      moved = false;
      for (std::int64_t rank = 0; rank < spec_.ranks; ++rank) {
        while (advance(rank)) moved = true;
      }
      if (record_ == nullptr && !shortened_) leave_out_groups();
    }
    Time gradients_ready;
    for (std::int64_t rank = 0; rank < spec_.ranks; ++rank) {
      Rank& state = ranks_[at(rank)];
      invariant(state.schedule.done(), "the schedule of a pipeline ends");
      if (options_.sync && !spec_.overlap_reduce) reduce_all(rank);
      gradients_ready = std::max({gradients_ready, state.free, state.reduced});
    }
    return (options_.sync ? finish(gradients_ready) : gradients_ready) + left_out_;
  }

 private:
  // Microbatches between a pass and what waits for it, in groups.
  static constexpr std::int64_t kWindow = 4;
  // Groups after which a pipeline that does not repeat itself is put down to its slowest rank.
  static constexpr std::int64_t kMostGroups = 64;

  struct Rank {
    Schedule schedule;
    Time free;                   // compute
    Time reduced;                // data-parallel stream: reductions
    std::vector<Time> gathered;  // by turn: when the weights are there
    std::vector<Time> ends;      // of the passes of the last group
    std::size_t pass = 0;        // of these, the oldest
    Time shift;                  // of the last pass against its like in the group before
    std::int64_t streak = 0;     // passes in a row with that shift
  };

  // When the result of a microbatch's pass arrives at the next chunk.
  struct Arrival {
    Time time;
    std::int64_t microbatch = -1;
  };

  void note_end(Rank& rank) {
    Time& before = rank.ends[rank.pass];
    const Time shift = rank.free - before;
    rank.streak = shift == rank.shift ? rank.streak + 1 : 1;
    rank.shift = shift;
    before = rank.free;
    if (++rank.pass == rank.ends.size()) rank.pass = 0;
  }

  void leave_out_groups() {
    const Rank& first = ranks_.front();
    const bool repeats = std::ranges::all_of(ranks_, [&](const Rank& rank) {
      return rank.streak >= rank.schedule.period() && rank.shift == first.shift;
    });
    std::int64_t begun = 0;
    for (const Rank& rank : ranks_) begun = std::max(begun, rank.schedule.begun());
    if (!repeats && begun < kMostGroups * spec_.ranks) return;
    const std::int64_t groups = (microbatches_ - begun - 1) / spec_.ranks - 1;
    shortened_ = true;
    if (groups <= 0) return;
    const Time group = std::ranges::max_element(ranks_, {}, &Rank::shift)->shift;
    left_out_ = group * groups;
    microbatches_ -= groups * spec_.ranks;
    for (Rank& rank : ranks_) rank.schedule.leave_out(groups * spec_.ranks);
  }

  void start(std::int64_t rank) {
    Rank& state = ranks_[at(rank)];
    if (!options_.sync || !spec_.overlap_gather) return;
    Time end;
    for (std::int64_t turn = 0; turn < turns_; ++turn) {
      const std::int64_t chunk = turn * spec_.ranks + rank;
      const Time begin = end;
      end += spec_.chunks[at(chunk)].gather;
      state.gathered[at(turn)] = end;
      tell(PipelineEvent::Kind::kGather, rank, chunk, 0, begin, end);
    }
  }

  [[nodiscard]] Arrival& arrival(std::vector<Arrival>& of, std::int64_t chunk, std::int64_t microbatch) {
    return of[at(chunk * window_ + microbatch % window_)];
  }

  bool advance(std::int64_t rank) {
    Rank& state = ranks_[at(rank)];
    if (state.schedule.done()) return false;
    const Pass pass = state.schedule.pass();
    const std::int64_t chunk = pass.turn * spec_.ranks + rank;
    const auto ready = input(pass, chunk);
    if (!ready) return false;
    state.schedule.advance();
    if (pass.microbatch >= microbatches_) {
      arrival(pass.forward ? forward_ : backward_, chunk, pass.microbatch) = {.time = {},
                                                                              .microbatch = pass.microbatch};
      return true;
    }
    pass.forward ? run_forward(rank, pass, chunk, *ready) : run_backward(rank, pass, chunk, *ready);
    note_end(state);
    return true;
  }

  /// When the input of a pass is there; nothing if that is not known yet.
  std::optional<Time> input(const Pass& pass, std::int64_t chunk) {
    const auto last = static_cast<std::int64_t>(spec_.chunks.size()) - 1;
    if (pass.forward) {
      if (chunk == 0) return Time();
      const Arrival& from = arrival(forward_, chunk - 1, pass.microbatch);
      return from.microbatch == pass.microbatch ? std::optional(from.time) : std::nullopt;
    }
    const Arrival& from = chunk == last ? arrival(forward_, chunk, pass.microbatch)
                                        : arrival(backward_, chunk + 1, pass.microbatch);
    return from.microbatch == pass.microbatch ? std::optional(from.time) : std::nullopt;
  }

  void run_forward(std::int64_t rank, const Pass& pass, std::int64_t chunk, Time ready) {
    Rank& state = ranks_[at(rank)];
    const PipelineChunk& work = spec_.chunks[at(chunk)];
    Time start = std::max(state.free, ready);
    Time end = start + work.forward;
    if (pass.microbatch == 0 && state.gathered[at(pass.turn)] > Time()) {
      const Time all = state.gathered[at(pass.turn)];
      start = std::max(start, all - work.gather + share(work.gather, work.layers));
      end = std::max(start + work.forward, all + share(work.forward, work.layers));
    }
    tell(PipelineEvent::Kind::kForward, rank, chunk, pass.microbatch, start, end);
    const bool sends = at(chunk) + 1 < spec_.chunks.size();
    state.free = end;
    arrival(forward_, chunk, pass.microbatch) = {
        .time = send(rank, chunk, pass.microbatch, PipelineEvent::Kind::kSendForward,
                     sends ? work.send_forward : Time()),
        .microbatch = pass.microbatch};
  }

  void run_backward(std::int64_t rank, const Pass& pass, std::int64_t chunk, Time ready) {
    Rank& state = ranks_[at(rank)];
    const PipelineChunk& work = spec_.chunks[at(chunk)];
    const Time start = std::max(state.free, ready);
    state.free = start + work.backward;
    tell(PipelineEvent::Kind::kBackward, rank, chunk, pass.microbatch, start, state.free);
    if (options_.sync && spec_.overlap_reduce && pass.microbatch == microbatches_ - 1) {
      const Time begin = std::max(state.reduced, start + share(work.backward, work.layers));
      reduce(rank, chunk, begin, std::max(begin + work.reduce, state.free + share(work.reduce, work.layers)));
    }
    arrival(backward_, chunk, pass.microbatch) = {
        .time = send(rank, chunk, pass.microbatch, PipelineEvent::Kind::kSendBackward,
                     chunk > 0 ? work.send_backward : Time()),
        .microbatch = pass.microbatch};
  }

  /// Sends what the rank has just computed; returns when it arrives.
  Time send(std::int64_t rank, std::int64_t chunk, std::int64_t microbatch, PipelineEvent::Kind kind,
            Time length) {
    Rank& state = ranks_[at(rank)];
    const Time begin = state.free;
    if (!options_.sends || length == Time()) return begin;
    const Time end = begin + length;
    tell(kind, rank, chunk, microbatch, begin, end);
    if (!spec_.overlap_sends) state.free = end;
    return end;
  }

  void reduce(std::int64_t rank, std::int64_t chunk, Time begin, Time end) {
    if (spec_.chunks[at(chunk)].reduce == Time()) return;
    tell(PipelineEvent::Kind::kReduce, rank, chunk, 0, begin, end);
    ranks_[at(rank)].reduced = end;
  }

  void reduce_all(std::int64_t rank) {
    Rank& state = ranks_[at(rank)];
    state.reduced = state.free;
    for (std::int64_t turn = turns_ - 1; turn >= 0; --turn) {
      const std::int64_t chunk = turn * spec_.ranks + rank;
      reduce(rank, chunk, state.reduced, state.reduced + spec_.chunks[at(chunk)].reduce);
    }
  }

  /// The optimizer, and gathers that are not overlapped.
  Time finish(Time gradients_ready) {
    Time end = gradients_ready;
    for (std::int64_t rank = 0; rank < spec_.ranks; ++rank) {
      Time time = gradients_ready + spec_.optimizer[at(rank)];
      tell(PipelineEvent::Kind::kOptimizer, rank, 0, 0, gradients_ready, time);
      for (std::int64_t turn = 0; turn < turns_ && !spec_.overlap_gather; ++turn) {
        const std::int64_t chunk = turn * spec_.ranks + rank;
        const Time begin = time;
        time += spec_.chunks[at(chunk)].gather;
        tell(PipelineEvent::Kind::kGather, rank, chunk, 0, begin, time);
      }
      end = std::max(end, time);
    }
    return end;
  }

  void tell(PipelineEvent::Kind kind, std::int64_t rank, std::int64_t chunk, std::int64_t microbatch,
            Time start, Time end) const {
    if (record_ == nullptr || start == end) return;
    (*record_)(
        {.kind = kind, .rank = rank, .chunk = chunk, .microbatch = microbatch, .start = start, .end = end});
  }

  const PipelineSpec& spec_;
  std::int64_t microbatches_;
  std::int64_t turns_;
  Options options_;
  const std::function<void(const PipelineEvent&)>* record_;
  std::vector<Rank> ranks_;
  bool shortened_ = false;
  Time left_out_;
  std::int64_t window_;           // microbatches of which arrivals are kept
  std::vector<Arrival> forward_;  // by chunk and microbatch
  std::vector<Arrival> backward_;
};

void check(const PipelineSpec& spec) {
  invariant(spec.ranks >= 1 && spec.microbatches >= 1, "a pipeline has ranks and microbatches");
  invariant(!spec.chunks.empty() && spec.chunks.size() % at(spec.ranks) == 0,
            "ranks have equally many chunks");
  invariant(spec.optimizer.size() == at(spec.ranks), "every rank has an optimizer");
  for (const PipelineChunk& chunk : spec.chunks) {
    invariant(chunk.layers >= 1 && chunk.forward >= Time() && chunk.backward >= Time() &&
                  chunk.send_forward >= Time() && chunk.send_backward >= Time() && chunk.gather >= Time() &&
                  chunk.reduce >= Time(),
              "no time is negative");
  }
}

}  // namespace

PipelineTime play_pipeline(const PipelineSpec& spec) {
  check(spec);
  PipelineTime time;
  for (std::int64_t rank = 0; rank < spec.ranks; ++rank) {
    Time busy;
    for (std::size_t chunk = at(rank); chunk < spec.chunks.size(); chunk += at(spec.ranks)) {
      busy += spec.chunks[chunk].forward + spec.chunks[chunk].backward;
    }
    if (busy <= time.busy && rank > 0) continue;
    time.busy = busy;
    time.slowest = rank;
  }
  time.busy = time.busy * spec.microbatches;
  const auto length = [&](Options options) { return Play(spec, spec.microbatches, options, nullptr).run(); };
  const Time without =
      spec.ranks == 1 ? time.busy : std::max(time.busy, length({.sends = false, .sync = false}));
  const Time with_sends = std::max(without, length({.sends = true, .sync = false}));
  const Time all = length({});
  time.optimizer = *std::ranges::max_element(spec.optimizer);
  time.bubble = without - time.busy;
  time.sends = with_sends - without;
  time.sync = std::max(Time(), all - with_sends - time.optimizer);
  return time;
}

Time record_pipeline(const PipelineSpec& spec, std::int64_t most,
                     const std::function<void(const PipelineEvent&)>& record) {
  check(spec);
  invariant(most >= 1, "a step has microbatches");
  return Play(spec, std::min(most, spec.microbatches), Options{}, &record).run();
}

}  // namespace ntpsim::sim
