#include "ntpsim/sim/pipeline.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "ntpsim/core/random.h"

#include "draw.h"

namespace {

using ntpsim::RandomStream;
using ntpsim::Time;
using ntpsim::sim::PipelineChunk;
using ntpsim::sim::PipelineEvent;
using ntpsim::sim::PipelineSpec;
using ntpsim::sim::PipelineTime;
using ntpsim::testing::draw;
using Kind = PipelineEvent::Kind;

std::size_t at(std::int64_t index) {
  return static_cast<std::size_t>(index);
}

// The reference: every rank's whole program as a list, every pass's times in a table. It shares nothing with
// the player but the text of pipeline.h.

struct Pass {
  bool forward = true;
  std::int64_t chunk = 0;
  std::int64_t microbatch = 0;
};

/// All forward or all backward passes of a rank, in the order of the schedule. Where chunks take turns, a
/// last group is filled up to `ranks` microbatches.
std::vector<Pass> passes_of(const PipelineSpec& spec, std::int64_t rank, bool forward) {
  const std::int64_t turns = spec.chunks_per_rank();
  const std::int64_t group = turns == 1 ? 1 : spec.ranks;
  std::vector<Pass> passes;
  for (std::int64_t first = 0; first < spec.microbatches; first += group) {
    for (std::int64_t i = 0; i < turns; ++i) {
      const std::int64_t turn = forward ? i : turns - 1 - i;
      for (std::int64_t microbatch = first; microbatch < first + group; ++microbatch) {
        passes.push_back({.forward = forward, .chunk = turn * spec.ranks + rank, .microbatch = microbatch});
      }
    }
  }
  return passes;
}

/// What a rank runs: forward passes ahead, then one forward and one backward pass in turn, then backward
/// passes.
std::vector<Pass> program_of(const PipelineSpec& spec, std::int64_t rank) {
  const std::vector<Pass> forward = passes_of(spec, rank, true);
  const std::vector<Pass> backward = passes_of(spec, rank, false);
  const std::int64_t turns = spec.chunks_per_rank();
  const std::int64_t behind = spec.ranks - rank - 1;
  const std::size_t ahead =
      std::min(at(turns == 1 ? behind : 2 * behind + (turns - 1) * spec.ranks), forward.size());
  std::vector<Pass> program(forward.begin(), forward.begin() + static_cast<std::ptrdiff_t>(ahead));
  for (std::size_t i = 0; i < backward.size(); ++i) {
    if (ahead + i < forward.size()) program.push_back(forward[ahead + i]);
    program.push_back(backward[i]);
  }
  std::erase_if(program, [&](const Pass& pass) { return pass.microbatch >= spec.microbatches; });
  return program;
}

class Reference {
 public:
  explicit Reference(const PipelineSpec& spec)
      : spec_(spec),
        spans_(2 * spec.chunks.size() * at(spec.microbatches)),
        free_(at(spec.ranks)),
        sends_free_(at(spec.ranks)) {
    std::vector<std::vector<Pass>> programs;
    for (std::int64_t rank = 0; rank < spec.ranks; ++rank) programs.push_back(program_of(spec, rank));
    std::vector<std::size_t> next(programs.size());
    for (bool moved = true; moved;) {
      moved = false;
      for (std::size_t rank = 0; rank < programs.size(); ++rank) {
        while (next[rank] < programs[rank].size() && run(rank, programs[rank][next[rank]])) {
          ++next[rank];
          moved = true;
        }
      }
    }
    for (std::size_t rank = 0; rank < programs.size(); ++rank) {
      complete_ = complete_ && next[rank] == programs[rank].size();
    }
  }

  /// Whether the schedule came to its end.
  [[nodiscard]] bool complete() const { return complete_; }

  [[nodiscard]] std::pair<Time, Time> times(const Pass& pass) const {
    const Span& span = spans_[index(pass)];
    return {span.start, span.end};
  }

  [[nodiscard]] Time end() const {
    Time ready;
    for (std::int64_t rank = 0; rank < spec_.ranks; ++rank) ready = std::max(ready, reduced(rank));
    Time end;
    for (std::int64_t rank = 0; rank < spec_.ranks; ++rank) {
      Time done = ready + spec_.optimizer[at(rank)];
      for (const std::int64_t chunk : chunks(rank)) {
        if (!spec_.overlap_gather) done += spec_.chunks[at(chunk)].gather;
      }
      end = std::max(end, done);
    }
    return end;
  }

 private:
  struct Span {
    bool known = false;
    Time start;
    Time end;
    Time arrival;  ///< of its result at the next chunk
  };

  [[nodiscard]] std::vector<std::int64_t> chunks(std::int64_t rank) const {
    std::vector<std::int64_t> of_rank;
    for (std::int64_t turn = 0; turn < spec_.chunks_per_rank(); ++turn) {
      of_rank.push_back(turn * spec_.ranks + rank);
    }
    return of_rank;
  }

  [[nodiscard]] std::size_t index(const Pass& pass) const {
    return at((2 * pass.chunk + (pass.forward ? 1 : 0)) * spec_.microbatches + pass.microbatch);
  }

  /// The pass whose result a pass waits for. REQUIRES: not the first chunk's forward pass.
  [[nodiscard]] Pass before(const Pass& pass) const {
    if (pass.forward) return {.forward = true, .chunk = pass.chunk - 1, .microbatch = pass.microbatch};
    const bool last = at(pass.chunk + 1) == spec_.chunks.size();
    return {.forward = last, .chunk = pass.chunk + (last ? 0 : 1), .microbatch = pass.microbatch};
  }

  bool run(std::size_t rank, const Pass& pass) {
    Span& span = spans_[index(pass)];
    span.start = free_[rank];
    if (!pass.forward || pass.chunk > 0) {
      const Span& input = spans_[index(before(pass))];
      if (!input.known) return false;
      span.start = std::max(span.start, input.arrival);
    }
    const PipelineChunk& work = spec_.chunks[at(pass.chunk)];
    span.end = span.start + (pass.forward ? work.forward : work.backward);
    if (pass.forward && pass.microbatch == 0 && spec_.overlap_gather) wait_for_weights(pass.chunk, span);
    const bool sends = pass.forward ? at(pass.chunk + 1) < spec_.chunks.size() : pass.chunk > 0;
    const Time send = !sends ? Time() : pass.forward ? work.send_forward : work.send_backward;
    span.arrival = span.end;
    if (send > Time()) {
      sends_free_[rank] = std::max(span.end, sends_free_[rank]) + send;
      span.arrival = sends_free_[rank];
    }
    span.known = true;
    free_[rank] = spec_.overlap_sends ? span.end : span.arrival;
    return true;
  }

  /// A rank gathers its chunks in order from the start of the step.
  void wait_for_weights(std::int64_t chunk, Span& span) const {
    Time begin;
    for (std::int64_t c = chunk - spec_.ranks; c >= 0; c -= spec_.ranks) begin += spec_.chunks[at(c)].gather;
    const PipelineChunk& work = spec_.chunks[at(chunk)];
    span.start = std::max(span.start, begin + Time::from_ns(work.gather.ns() / work.layers));
    span.end = std::max(span.start + work.forward,
                        begin + work.gather + Time::from_ns(work.forward.ns() / work.layers));
  }

  /// When a rank's gradients are reduced, in the order in which its chunks' last backward passes run.
  [[nodiscard]] Time reduced(std::int64_t rank) const {
    std::vector<std::int64_t> order = chunks(rank);
    std::ranges::reverse(order);
    Time done = spec_.overlap_reduce ? Time() : free_[at(rank)];
    for (const std::int64_t chunk : order) {
      const PipelineChunk& work = spec_.chunks[at(chunk)];
      if (!spec_.overlap_reduce) {
        done += work.reduce;
        continue;
      }
      const auto [start, end] =
          times({.forward = false, .chunk = chunk, .microbatch = spec_.microbatches - 1});
      const Time first = start + Time::from_ns(work.backward.ns() / work.layers);
      done =
          std::max(std::max(done, first) + work.reduce, end + Time::from_ns(work.reduce.ns() / work.layers));
    }
    return std::max(done, free_[at(rank)]);
  }

  const PipelineSpec& spec_;
  std::vector<Span> spans_;
  std::vector<Time> free_;  ///< of each rank, after its last pass and send
  std::vector<Time> sends_free_;
  bool complete_ = true;
};

struct Range {
  std::int64_t low;
  std::int64_t high;
};

Time draw_time(RandomStream& random, Range range) {
  return Time::from_ns(draw(random, range.low, range.high));
}

/// How unlike each other the chunks of a pipeline are: nearly alike ones take longest to settle.
PipelineSpec draw_spec(RandomStream& random, std::int64_t most_microbatches) {
  constexpr std::int64_t kPass = 10'000;
  PipelineSpec spec;
  spec.ranks = draw(random, 1, 6);
  spec.microbatches = draw(random, std::int64_t{1}, most_microbatches);
  const std::int64_t spread = std::vector<std::int64_t>{0, 3, 300, 9'000}[at(draw(random, 0, 3))];
  const std::int64_t send = std::vector<std::int64_t>{0, 100, 3'000, 30'000}[at(draw(random, 0, 3))];
  const std::int64_t sync = std::vector<std::int64_t>{0, 5'000, 200'000}[at(draw(random, 0, 2))];
  const std::int64_t chunks = spec.ranks * draw(random, 1, 4);
  for (std::int64_t chunk = 0; chunk < chunks; ++chunk) {
    spec.chunks.push_back({.forward = draw_time(random, {kPass - spread, kPass + spread}),
                           .backward = draw_time(random, {2 * kPass - spread, 2 * kPass + spread}),
                           .send_forward = draw_time(random, {send / 2, send}),
                           .send_backward = draw_time(random, {send / 2, send}),
                           .gather = draw_time(random, {sync / 3, sync}),
                           .reduce = draw_time(random, {sync / 2, sync}),
                           .layers = draw(random, 1, 5)});
  }
  for (std::int64_t rank = 0; rank < spec.ranks; ++rank) {
    spec.optimizer.push_back(draw_time(random, {0, kPass}));
  }
  spec.overlap_sends = draw(random, 0, 1) == 1;
  spec.overlap_gather = draw(random, 0, 1) == 1;
  spec.overlap_reduce = draw(random, 0, 1) == 1;
  return spec;
}

void check_parts(const PipelineTime& time) {
  CHECK(time.busy >= Time());
  CHECK(time.bubble >= Time());
  CHECK(time.sends >= Time());
  CHECK(time.sync >= Time());
  CHECK(time.optimizer >= Time());
}

void note(const PipelineSpec& spec) {
  MESSAGE("ranks " << spec.ranks << ", chunks a rank " << spec.chunks_per_rank() << ", microbatches "
                   << spec.microbatches << ", overlap of sends " << spec.overlap_sends);
}

TEST_CASE("a step takes as long as a play of all its microbatches, to the nanosecond") {
  RandomStream random(7, 0, "test/pipeline");
  for (int trial = 0; trial < 1500; ++trial) {
    const PipelineSpec spec = draw_spec(random, trial % 3 == 0 ? 20 : 200);
    const Reference reference(spec);
    REQUIRE(reference.complete());
    const PipelineTime time = ntpsim::sim::play_pipeline(spec);
    check_parts(time);
    CHECK(time.total() == reference.end());
    if (time.total() != reference.end()) note(spec);
  }
}

TEST_CASE("every pass is recorded once, when the reference runs it") {
  RandomStream random(8, 0, "test/pipeline");
  for (int trial = 0; trial < 300; ++trial) {
    const PipelineSpec spec = draw_spec(random, 30);
    const Reference reference(spec);
    std::int64_t passes = 0;
    bool alike = true;
    const Time end = ntpsim::sim::record_pipeline(spec, spec.microbatches, [&](const PipelineEvent& event) {
      if (event.kind != Kind::kForward && event.kind != Kind::kBackward) return;
      ++passes;
      alike = alike && event.rank == event.chunk % spec.ranks &&
              reference.times({.forward = event.kind == Kind::kForward,
                               .chunk = event.chunk,
                               .microbatch = event.microbatch}) == std::pair(event.start, event.end);
    });
    CHECK(alike);
    CHECK(end == reference.end());
    std::int64_t expected = 0;
    for (const PipelineChunk& chunk : spec.chunks) {
      expected += (chunk.forward > Time() ? 1 : 0) + (chunk.backward > Time() ? 1 : 0);
    }
    CHECK(passes == expected * spec.microbatches);
  }
}

TEST_CASE("a rank does one thing at a time on each of its streams") {
  RandomStream random(9, 0, "test/pipeline");
  for (int trial = 0; trial < 300; ++trial) {
    const PipelineSpec spec = draw_spec(random, 30);
    enum Stream : unsigned char { kCompute, kSends, kData };
    std::map<std::pair<std::int64_t, Stream>, Time> free;
    bool apart = true;
    ntpsim::sim::record_pipeline(spec, spec.microbatches, [&](const PipelineEvent& event) {
      const bool sends = event.kind == Kind::kSendForward || event.kind == Kind::kSendBackward;
      const bool data = event.kind == Kind::kGather || event.kind == Kind::kReduce;
      Time& until = free[{event.rank, sends ? kSends : data ? kData : kCompute}];
      apart = apart && event.start >= until && event.end > event.start;
      until = std::max(until, event.end);
    });
    CHECK(apart);
    if (!apart) note(spec);
  }
}

TEST_CASE("a longer pass, send or sync never shortens a step, nor does another microbatch") {
  RandomStream random(10, 0, "test/pipeline");
  for (int trial = 0; trial < 200; ++trial) {
    PipelineSpec spec = draw_spec(random, 100);
    const Time before = ntpsim::sim::play_pipeline(spec).total();
    PipelineSpec more = spec;
    ++more.microbatches;
    CHECK(ntpsim::sim::play_pipeline(more).total() >= before);
    PipelineChunk& chunk = spec.chunks[at(static_cast<std::int64_t>(random.next_index(spec.chunks.size())))];
    const std::vector<Time*> times = {&chunk.forward,       &chunk.backward, &chunk.send_forward,
                                      &chunk.send_backward, &chunk.gather,   &chunk.reduce};
    *times[at(draw(random, 0, 5))] += Time::from_ns(1'000);
    CHECK(ntpsim::sim::play_pipeline(spec).total() >= before);
  }
}

TEST_CASE("the estimate is a lower bound, and the step itself where chunks are alike") {
  RandomStream random(11, 0, "test/pipeline");
  for (int trial = 0; trial < 1000; ++trial) {
    const PipelineSpec spec = draw_spec(random, 200);
    CHECK(ntpsim::sim::pipeline_estimate(spec) <= ntpsim::sim::play_pipeline(spec).total());
  }
  for (int trial = 0; trial < 100; ++trial) {
    PipelineSpec spec = draw_spec(random, 200);
    spec.microbatches = (spec.microbatches + spec.ranks - 1) / spec.ranks * spec.ranks;
    PipelineChunk alike;
    alike.forward = spec.chunks.front().forward;
    alike.backward = spec.chunks.front().backward;
    spec.chunks.assign(spec.chunks.size(), alike);
    CHECK(ntpsim::sim::pipeline_estimate(spec) == ntpsim::sim::play_pipeline(spec).total());
  }
}

}  // namespace
