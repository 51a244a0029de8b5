#include "ntpsim/sim/pipeline.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <doctest/doctest.h>

namespace {

using ntpsim::Time;
using ntpsim::sim::PipelineChunk;
using ntpsim::sim::PipelineEvent;
using ntpsim::sim::PipelineSpec;
using ntpsim::sim::PipelineTime;
using ntpsim::sim::play_pipeline;
using ntpsim::sim::record_pipeline;
using Kind = PipelineEvent::Kind;

Time ns(std::int64_t count) {
  return Time::from_ns(count);
}

PipelineChunk passes_of(std::int64_t forward, std::int64_t backward) {
  PipelineChunk chunk;
  chunk.forward = ns(forward);
  chunk.backward = ns(backward);
  return chunk;
}

/// Chunks alike: 10 ns forward, 20 ns backward, nothing else.
PipelineSpec uniform(std::int64_t ranks, std::int64_t turns, std::int64_t microbatches) {
  return {.ranks = ranks,
          .microbatches = microbatches,
          .chunks = std::vector<PipelineChunk>(static_cast<std::size_t>(ranks * turns), passes_of(10, 20)),
          .optimizer = std::vector<Time>(static_cast<std::size_t>(ranks))};
}

std::vector<PipelineEvent> events(const PipelineSpec& spec) {
  std::vector<PipelineEvent> all;
  record_pipeline(spec, spec.microbatches, [&](const PipelineEvent& event) { all.push_back(event); });
  return all;
}

/// "F00 B00 ...": the passes of a rank in order, each with its chunk and microbatch.
std::string passes(const PipelineSpec& spec, std::int64_t rank) {
  std::string text;
  for (const PipelineEvent& event : events(spec)) {
    if (event.rank != rank || (event.kind != Kind::kForward && event.kind != Kind::kBackward)) continue;
    if (!text.empty()) text += ' ';
    text += event.kind == Kind::kForward ? 'F' : 'B';
    text += std::to_string(event.chunk) + std::to_string(event.microbatch);
  }
  return text;
}

std::string spans(const PipelineSpec& spec, Kind kind) {
  std::string text;
  for (const PipelineEvent& event : events(spec)) {
    if (event.kind != kind) continue;
    if (!text.empty()) text += ' ';
    text += std::to_string(event.start.ns()) + "-" + std::to_string(event.end.ns());
  }
  return text;
}

TEST_CASE("one rank runs its microbatches one after the other") {
  CHECK(play_pipeline(uniform(1, 1, 7)).total() == ns(210));
  CHECK(play_pipeline(uniform(1, 1, 7)).bubble == Time());
  CHECK(passes(uniform(1, 1, 2), 0) == "F00 B00 F01 B01");
}

TEST_CASE("1F1B runs the schedule of Megatron Core's forward_backward_pipelining_without_interleaving") {
  const PipelineSpec spec = uniform(3, 1, 4);
  CHECK(passes(spec, 0) == "F00 F01 F02 B00 F03 B01 B02 B03");
  CHECK(passes(spec, 1) == "F10 F11 B10 F12 B11 F13 B12 B13");
  CHECK(passes(spec, 2) == "F20 B20 F21 B21 F22 B22 F23 B23");
}

TEST_CASE("interleaved 1F1B takes chunks in turn, as in figure 4 of Narayanan et al., SC'21") {
  const PipelineSpec spec = uniform(2, 2, 4);
  CHECK(passes(spec, 0) == "F00 F01 F20 F21 F02 B20 F03 B21 F22 B00 F23 B01 B22 B23 B02 B03");
  CHECK(passes(spec, 1) == "F10 F11 F30 B30 F31 B31 F12 B10 F13 B11 F32 B32 F33 B33 B12 B13");
}

TEST_CASE("a pipeline of chunks alike has the bubble of Narayanan et al., SC'21: (p - 1) t / v") {
  for (const std::int64_t ranks : {1, 2, 4, 8}) {
    for (const std::int64_t turns : {1, 2, 4}) {
      for (const std::int64_t groups : {1, 2, 5, 100}) {
        const PipelineTime time = play_pipeline(uniform(ranks, turns, ranks * groups));
        CHECK(time.busy == ns(30 * turns * ranks * groups));
        CHECK(time.bubble == ns(30 * (ranks - 1)));
        CHECK(time.total() == time.busy + time.bubble);
      }
    }
  }
}

TEST_CASE("fewer microbatches than ranks, and a last group that is not full, run to the end") {
  CHECK(play_pipeline(uniform(4, 1, 1)).total() == ns(120));
  CHECK(play_pipeline(uniform(4, 3, 1)).total() == ns(360));
  CHECK(passes(uniform(2, 2, 3), 1) == "F10 F11 F30 B30 F31 B31 F12 B10 B11 F32 B32 B12");
}

TEST_CASE("a million microbatches take the time of a thousand and of those between") {
  PipelineSpec spec = uniform(4, 2, 1'000);
  for (std::size_t i = 0; i < spec.chunks.size(); ++i) {
    spec.chunks[i].forward += ns(static_cast<std::int64_t>(i * 7 % 5));
    spec.chunks[i].send_forward = ns(3);
    spec.chunks[i].reduce = ns(50);
  }
  const Time thousand = play_pipeline(spec).total();
  spec.microbatches = 1'004;
  const Time group = play_pipeline(spec).total() - thousand;
  spec.microbatches = 1'000'000;
  CHECK(play_pipeline(spec).total() == thousand + group * ((1'000'000 - 1'000) / 4));
}

TEST_CASE("ranks that drift apart by a nanosecond a microbatch settle when one has to wait") {
  PipelineSpec spec = uniform(2, 1, 100'000);
  spec.chunks[0] = passes_of(10'000, 20'000);
  spec.chunks[1] = passes_of(10'001, 20'000);
  const Time whole = record_pipeline(spec, spec.microbatches, [](const PipelineEvent&) {});
  CHECK(play_pipeline(spec).total() == whole);
  // The slower rank, led in by the other's forward pass and out by its backward pass.
  CHECK(whole == ns(30'001LL * 100'000 + 30'000));
}

TEST_CASE("a send delays the receiver, and holds up the sender only where it does not overlap") {
  PipelineSpec spec = uniform(2, 1, 2);
  for (PipelineChunk& chunk : spec.chunks) {
    chunk.send_forward = ns(4);
    chunk.send_backward = ns(6);
  }
  spec.overlap_sends = true;
  CHECK(spans(spec, Kind::kSendForward) == "10-14 20-24");
  CHECK(spans(spec, Kind::kSendBackward) == "44-50 74-80");
  CHECK(play_pipeline(spec).total() == ns(100));
  CHECK(play_pipeline(spec).sends == ns(10));
  spec.overlap_sends = false;
  CHECK(spans(spec, Kind::kSendForward) == "10-14 24-28");
  CHECK(spans(spec, Kind::kSendBackward) == "44-50 80-86");
  CHECK(play_pipeline(spec).total() == ns(106));
  CHECK(play_pipeline(spec).sends == ns(16));
}

TEST_CASE("sends of a rank wait for each other, also where they overlap compute") {
  PipelineSpec spec = uniform(2, 1, 3);
  spec.chunks[0].send_forward = ns(50);
  spec.overlap_sends = true;
  CHECK(spans(spec, Kind::kSendForward) == "10-60 60-110 120-170");
}

TEST_CASE("a first forward pass starts with its first layer's weights and ends a layer after the last's") {
  PipelineSpec spec = uniform(1, 1, 2);
  spec.chunks[0].gather = ns(100);
  spec.chunks[0].layers = 5;
  CHECK(spans(spec, Kind::kGather) == "0-100");
  CHECK(spans(spec, Kind::kForward) == "20-102 122-132");
  CHECK(play_pipeline(spec).sync == ns(92));
  spec.overlap_gather = false;
  spec.optimizer = {ns(40)};
  CHECK(spans(spec, Kind::kForward) == "0-10 30-40");
  CHECK(spans(spec, Kind::kOptimizer) == "60-100");
  CHECK(spans(spec, Kind::kGather) == "100-200");
  CHECK(play_pipeline(spec).sync == ns(100));
}

TEST_CASE("chunks are gathered in order on one stream") {
  PipelineSpec spec = uniform(1, 2, 1);
  for (PipelineChunk& chunk : spec.chunks) chunk.gather = ns(15);
  CHECK(spans(spec, Kind::kGather) == "0-15 15-30");
  CHECK(spans(spec, Kind::kForward) == "15-25 30-40");
}

TEST_CASE("gradients are reduced beside the last backward pass, or after it") {
  PipelineSpec spec = uniform(1, 2, 1);
  for (PipelineChunk& chunk : spec.chunks) {
    chunk.reduce = ns(8);
    chunk.layers = 4;
  }
  // Backward passes at 20-40 and 40-60: a reduction starts a layer into its own, and its last layer's
  // follows.
  CHECK(spans(spec, Kind::kReduce) == "25-42 45-62");
  CHECK(play_pipeline(spec).sync == ns(2));
  spec.overlap_reduce = false;
  CHECK(spans(spec, Kind::kReduce) == "60-68 68-76");
  CHECK(play_pipeline(spec).sync == ns(16));
}

TEST_CASE("the optimizer waits for the gradients of all ranks, and the step for its slowest") {
  PipelineSpec spec = uniform(2, 1, 1);
  spec.chunks[0].reduce = ns(100);
  spec.optimizer = {ns(5), ns(9)};
  CHECK(spans(spec, Kind::kOptimizer) == "160-165 160-169");
  const PipelineTime time = play_pipeline(spec);
  CHECK(time.optimizer == ns(9));
  CHECK(time.total() == ns(169));
}

TEST_CASE("the slowest rank is the one whose passes take longest") {
  PipelineSpec spec = uniform(3, 2, 12);
  spec.chunks[1].forward = ns(11);
  const PipelineTime time = play_pipeline(spec);
  CHECK(time.slowest == 1);
  CHECK(time.busy == ns(732));
}

TEST_CASE("a record of the first microbatches is a step of its own") {
  const PipelineSpec spec = uniform(3, 1, 1'000'000);
  std::int64_t most = 0;
  const Time end =
      record_pipeline(spec, 4, [&](const PipelineEvent& event) { most = std::max(most, event.microbatch); });
  CHECK(most == 3);
  CHECK(end == play_pipeline(uniform(3, 1, 4)).total());
}

}  // namespace
