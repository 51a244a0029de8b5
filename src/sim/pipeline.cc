#include "ntpsim/sim/pipeline.h"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdlib>
#include <functional>
#include <iterator>
#include <limits>
#include <utility>

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
  std::int64_t chunk = 0;
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
        total_(turns * (turns == 1 ? microbatches : (microbatches + ranks - 1) / ranks * ranks)),
        forward_{.chunk = rank},
        backward_{.chunk = rank + (turns - 1) * ranks} {
    const std::int64_t ahead = ranks - rank - 1;
    warm_up_ = std::min(turns == 1 ? ahead : 2 * ahead + (turns - 1) * ranks, total_);
    next_is_forward_ = is_forward();
  }

  [[nodiscard]] bool done() const { return backward_.count == total_; }
  /// Passes that have been run.
  [[nodiscard]] std::int64_t passes() const { return forward_.count + backward_.count; }
  /// Whether the warm-up and the first pass of every chunk are over.
  [[nodiscard]] bool full() const {
    return forward_.count >= std::max(warm_up_, ranks_ * turns_) && forward_.count < total_;
  }
  /// Whole groups left to run forward of so many microbatches.
  [[nodiscard]] std::int64_t groups_left(std::int64_t microbatches) const {
    return (microbatches * turns_ - forward_.count) / (ranks_ * turns_);
  }

  /// REQUIRES: not done.
  [[nodiscard]] Pass pass() const {
    const Cursor& cursor = next_is_forward_ ? forward_ : backward_;
    return {.forward = next_is_forward_, .chunk = cursor.chunk, .microbatch = cursor.microbatch};
  }

  /// Shortens the step. REQUIRES: whole groups, none of whose passes has been run.
  void leave_out(std::int64_t microbatches) { total_ -= microbatches * turns_; }

  void advance() {
    next_is_forward_ ? step(forward_, ranks_) : step(backward_, -ranks_);
    next_is_forward_ = is_forward();
  }

 private:
  /// Groups of `ranks` microbatches go through the chunks in turn.
  struct Cursor {
    std::int64_t chunk = 0;
    std::int64_t microbatch = 0;
    std::int64_t count = 0;
    std::int64_t within = 0;  ///< its group
    std::int64_t turn = 0;
  };

  void step(Cursor& cursor, std::int64_t next_chunk) const {
    ++cursor.count;
    ++cursor.microbatch;
    if (++cursor.within < ranks_) return;
    cursor.within = 0;
    cursor.chunk += next_chunk;
    cursor.microbatch -= ranks_;
    if (++cursor.turn < turns_) return;
    cursor.turn = 0;
    cursor.chunk -= next_chunk * turns_;
    cursor.microbatch += ranks_;
  }

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
  bool next_is_forward_ = true;
};

/// When results of one chunk arrive at the next, sent and taken in the order of microbatches. A rank runs
/// less than v + 1 times p forward passes more than backward ones, so no chunk is more than 2 p microbatches
/// ahead of the next.
class Mailboxes {
 public:
  Mailboxes(std::size_t boxes, std::int64_t ranks)
      : size_(std::bit_ceil(2 * at(ranks) + 1)), times_(boxes * size_), counts_(boxes) {}

  [[nodiscard]] bool empty(std::int64_t box) const { return counts_[at(box)].sent == counts_[at(box)].taken; }

  void send(std::int64_t box, Time arrival) {
    Counts& counts = counts_[at(box)];
    invariant(counts.sent - counts.taken < size_, "a chunk is 2 p microbatches ahead of the next at most");
    times_[at(box) * size_ + (counts.sent++ & (size_ - 1))] = arrival;
  }

  /// REQUIRES: not empty.
  Time take(std::int64_t box) { return times_[at(box) * size_ + (counts_[at(box)].taken++ & (size_ - 1))]; }

  /// Calls with every time that has not been taken, in a fixed order.
  template <class Visit>
  void for_each(const Visit& visit) {
    for (std::size_t box = 0; box < counts_.size(); ++box) {
      for (std::size_t i = counts_[box].taken; i < counts_[box].sent; ++i) {
        visit(times_[box * size_ + (i & (size_ - 1))]);
      }
    }
  }

 private:
  struct Counts {
    std::size_t sent = 0;
    std::size_t taken = 0;
  };
  std::size_t size_;
  std::vector<Time> times_;
  std::vector<Counts> counts_;
};

/// Compares what a group of microbatches waits for with the group before: how many more can pass before some
/// wait begins or ends. Waits come in the same order in every group of a full pipeline.
class Waits {
 public:
  explicit Waits(std::size_t most) : margins_(most) {}

  /// `margin`: how much later one of two things that are waited for comes than the other.
  void note(Time margin) {
    if (next_ == margins_.size()) return;
    const std::int64_t before = std::exchange(margins_[next_++], margin.ns());
    if (before != margin.ns()) narrow(before, margin.ns());
  }

  /// How many groups like the last can follow it. The next wait noted is the first of a group.
  std::int64_t end_group() {
    next_ = 0;
    return std::exchange(groups_, kMost);
  }

 private:
  static constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();

  void narrow(std::int64_t before, std::int64_t margin) {
    if ((before > 0 && margin < 0) || (before < 0 && margin > 0)) {
      groups_ = 0;
    } else if (std::abs(margin) < std::abs(before)) {
      groups_ = std::min(groups_, std::abs(margin) / std::abs(before - margin));
    }
  }

  std::vector<std::int64_t> margins_;
  std::size_t next_ = 0;
  std::int64_t groups_ = kMost;
};

struct Options {
  bool sends = true;
  bool sync = true;
};

/// One play of a step. Times in it are sums and maxima of earlier times, so while the larger of each two
/// stays the larger, a group that begins from times d later than the one before ends d later, each time with
/// a d of its own. Unless every event is wanted, groups are left out for as long as that holds.
class Play {
 public:
  Play(const PipelineSpec& spec, std::int64_t microbatches, Options options,
       const std::function<void(const PipelineEvent&)>* record)
      : spec_(spec),
        microbatches_(microbatches),
        turns_(spec.chunks_per_rank()),
        last_(static_cast<std::int64_t>(spec.chunks.size()) - 1),
        options_(options),
        record_(record),
        gathered_(options.sync && spec.overlap_gather ? spec.chunks.size() : 0),
        forward_(spec.chunks.size(), spec.ranks),
        backward_(spec.chunks.size(), spec.ranks),
        waits_(record == nullptr ? 4 * at(spec.ranks) * spec.chunks.size() : 0) {
    ranks_.reserve(at(spec.ranks));
    for (std::int64_t rank = 0; rank < spec.ranks; ++rank) {
      ranks_.push_back({.schedule = Schedule(spec.ranks, turns_, microbatches, rank)});
      if (!gathered_.empty()) gather(rank);
    }
  }

  Time run() {
    const std::int64_t group = 2 * spec_.ranks * turns_;
    bool drained = false;
    for (std::int64_t most = group; !drained; most += group) {
      invariant(run_to(most), "the schedule of a pipeline ends");
      drained = std::ranges::all_of(ranks_, [](const Rank& rank) { return rank.schedule.done(); });
      if (record_ == nullptr && !drained) leave_out_groups(group);
    }
    Time gradients_ready;
    for (std::int64_t rank = 0; rank < spec_.ranks; ++rank) {
      const Rank& state = ranks_[at(rank)];
      if (options_.sync && !spec_.overlap_reduce) reduce_all(rank);
      gradients_ready = std::max({gradients_ready, state.free, state.reduced});
    }
    return options_.sync ? finish(gradients_ready) : gradients_ready;
  }

 private:
  struct Rank {
    Schedule schedule;
    Time free = {};           // compute
    Time sends_free = {};     // stream of sends
    Time reduced = {};        // data-parallel stream: reductions
    std::int64_t passes = 0;  // at the end of the last group
  };

  /// Runs passes until no rank can run another, or each has run `most`. Which passes that are depends on no
  /// time, so that in a full pipeline every group of passes is run in the same order. Whether any was.
  bool run_to(std::int64_t most) {
    bool any = false;
    for (bool moved = true; moved;) {
      moved = false;
      for (std::int64_t rank = 0; rank < spec_.ranks; ++rank) {
        const Schedule& schedule = ranks_[at(rank)].schedule;
        while (schedule.passes() < most && !schedule.done() && advance(rank)) moved = true;
      }
      any = any || moved;
    }
    return any;
  }

  /// Calls with every time that later ones follow from, in a fixed order.
  template <class Visit>
  void for_each_time(const Visit& visit) {
    for (Rank& rank : ranks_) {
      visit(rank.free);
      visit(rank.sends_free);
    }
    forward_.for_each(visit);
    backward_.for_each(visit);
  }

  /// Notes how far times have come in the last group of passes; whether every rank ran one, within a full
  /// pipeline, and times came as far as in the group before.
  bool end_group(std::int64_t group) {
    bool whole = true;
    for (Rank& rank : ranks_) {
      const std::int64_t before = std::exchange(rank.passes, rank.schedule.passes());
      whole = whole && rank.schedule.full() && rank.passes - before == group;
    }
    whole_groups_ = whole ? whole_groups_ + 1 : 0;
    std::vector<Time> times;
    times.reserve(times_.size());
    for_each_time([&](Time& time) { times.push_back(time); });
    std::vector<Time> drift;
    if (whole && times.size() == times_.size()) {
      drift.reserve(times.size());
      std::ranges::transform(times, times_, std::back_inserter(drift), std::minus());
    }
    times_ = std::move(times);
    drift.swap(drift_);
    // The first group that ends full may have begun otherwise.
    return whole_groups_ > 2 && drift == drift_;
  }

  void leave_out_groups(std::int64_t group) {
    std::int64_t groups = waits_.end_group();
    if (!end_group(group)) return;
    // Groups of the last microbatches are not whole, and their gradients are reduced.
    const std::int64_t whole = turns_ == 1 ? microbatches_ : microbatches_ - microbatches_ % spec_.ranks;
    for (const Rank& rank : ranks_) groups = std::min(groups, rank.schedule.groups_left(whole) - 1);
    if (groups <= 0) return;
    auto drift = drift_.begin();
    for_each_time([&](Time& time) { time += *drift++ * groups; });
    times_.clear();
    whole_groups_ = 0;
    microbatches_ -= groups * spec_.ranks;
    for (Rank& rank : ranks_) rank.schedule.leave_out(groups * spec_.ranks);
  }

  void gather(std::int64_t rank) {
    Time end;
    for (std::int64_t chunk = rank; chunk <= last_; chunk += spec_.ranks) {
      const Time begin = end;
      end += spec_.chunks[at(chunk)].gather;
      gathered_[at(chunk)] = end;
      tell(PipelineEvent::Kind::kGather, rank, chunk, 0, begin, end);
    }
  }

  /// The later of two times.
  Time later(Time a, Time b) {
    waits_.note(a - b);
    return std::max(a, b);
  }

  /// Runs the next pass of a rank, if its input is known.
  bool advance(std::int64_t rank) {
    Rank& state = ranks_[at(rank)];
    const Pass pass = state.schedule.pass();
    if (pass.microbatch < microbatches_) {
      const bool known = pass.forward ? run_forward(state, pass, rank) : run_backward(state, pass, rank);
      if (!known) return false;
    }
    state.schedule.advance();
    return true;
  }

  bool run_forward(Rank& state, const Pass& pass, std::int64_t rank) {
    const std::int64_t chunk = pass.chunk;
    const PipelineChunk& work = spec_.chunks[at(chunk)];
    Time start = state.free;
    if (chunk > 0) {
      if (forward_.empty(chunk - 1)) return false;
      start = later(start, forward_.take(chunk - 1));
    }
    state.free = start + work.forward;
    if (pass.microbatch == 0 && !gathered_.empty()) {
      const Time all = gathered_[at(chunk)];
      start = std::max(start, all - work.gather + share(work.gather, work.layers));
      state.free = std::max(start + work.forward, all + share(work.forward, work.layers));
    }
    tell(PipelineEvent::Kind::kForward, rank, chunk, pass.microbatch, start, state.free);
    if (chunk == last_) return true;
    forward_.send(
        chunk,
        send(state,
             {PipelineEvent::Kind::kSendForward, rank, chunk, pass.microbatch, {}, work.send_forward}));
    return true;
  }

  /// The last chunk goes back from its own forward pass, which the schedule runs before.
  bool run_backward(Rank& state, const Pass& pass, std::int64_t rank) {
    const std::int64_t chunk = pass.chunk;
    const PipelineChunk& work = spec_.chunks[at(chunk)];
    Time start = state.free;
    if (chunk < last_) {
      if (backward_.empty(chunk + 1)) return false;
      start = later(start, backward_.take(chunk + 1));
    }
    state.free = start + work.backward;
    tell(PipelineEvent::Kind::kBackward, rank, chunk, pass.microbatch, start, state.free);
    if (options_.sync && spec_.overlap_reduce && pass.microbatch == microbatches_ - 1) {
      const Time begin = std::max(state.reduced, start + share(work.backward, work.layers));
      reduce(rank, chunk, begin, std::max(begin + work.reduce, state.free + share(work.reduce, work.layers)));
    }
    if (chunk == 0) return true;
    backward_.send(
        chunk,
        send(state,
             {PipelineEvent::Kind::kSendBackward, rank, chunk, pass.microbatch, {}, work.send_backward}));
    return true;
  }

  /// Sends what a rank has just computed; `event.end` is how long that takes. Returns when it arrives.
  Time send(Rank& state, const PipelineEvent& event) {
    if (!options_.sends || event.end == Time()) return state.free;
    const Time begin = spec_.overlap_sends ? later(state.free, state.sends_free) : state.free;
    state.sends_free = begin + event.end;
    tell(event.kind, event.rank, event.chunk, event.microbatch, begin, state.sends_free);
    if (!spec_.overlap_sends) state.free = state.sends_free;
    return state.sends_free;
  }

  void reduce(std::int64_t rank, std::int64_t chunk, Time begin, Time end) {
    if (spec_.chunks[at(chunk)].reduce == Time()) return;
    tell(PipelineEvent::Kind::kReduce, rank, chunk, 0, begin, end);
    ranks_[at(rank)].reduced = end;
  }

  void reduce_all(std::int64_t rank) {
    Rank& state = ranks_[at(rank)];
    state.reduced = state.free;
    for (std::int64_t chunk = last_ - (spec_.ranks - 1 - rank); chunk >= 0; chunk -= spec_.ranks) {
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
  std::int64_t last_;  // chunk
  Options options_;
  const std::function<void(const PipelineEvent&)>* record_;
  std::vector<Rank> ranks_;
  std::vector<Time> gathered_;  // by chunk: when its weights are there
  Mailboxes forward_;           // by the chunk that sends
  Mailboxes backward_;
  Waits waits_;
  std::int64_t whole_groups_ = 0;  // in a row, just run
  std::vector<Time> times_;        // at the end of the last group
  std::vector<Time> drift_;        // of these in the last group
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
  const Time without = length({.sends = false, .sync = false});
  const Time with_sends = length({.sends = true, .sync = false});
  time.optimizer = *std::ranges::max_element(spec.optimizer);
  time.bubble = without - time.busy;
  time.sends = with_sends - without;
  time.sync = length({}) - with_sends - time.optimizer;
  return time;
}

Time pipeline_estimate(const PipelineSpec& spec) {
  check(spec);
  const std::size_t ranks = at(spec.ranks);
  const bool waits = !spec.overlap_sends;
  std::vector<Time> work(ranks);  // of a rank for one microbatch
  Time alone;                     // a microbatch through all chunks
  for (std::size_t chunk = 0; chunk < spec.chunks.size(); ++chunk) {
    const PipelineChunk& of = spec.chunks[chunk];
    const Time sends =
        (chunk + 1 < spec.chunks.size() ? of.send_forward : Time()) + (chunk > 0 ? of.send_backward : Time());
    work[chunk % ranks] += of.forward + of.backward + (waits ? sends : Time());
    alone += of.forward + of.backward + sends;
  }
  Time bound = alone;
  Time way;  // of the first microbatch to a rank, and of the last one back from it
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    const PipelineChunk& first = spec.chunks[rank];
    // The send at the end of a rank's work is on the way back, too.
    if (rank > 0) way += first.send_backward;
    const Time twice = waits && rank > 0 ? first.send_backward : Time();
    bound = std::max(bound, way + work[rank] * spec.microbatches - twice);
    way += first.forward + first.send_forward + first.backward;
  }
  return bound + *std::ranges::max_element(spec.optimizer);
}

Time record_pipeline(const PipelineSpec& spec, std::int64_t most,
                     const std::function<void(const PipelineEvent&)>& record) {
  check(spec);
  invariant(most >= 1, "a step has microbatches");
  return Play(spec, std::min(most, spec.microbatches), Options{}, &record).run();
}

}  // namespace ntpsim::sim
