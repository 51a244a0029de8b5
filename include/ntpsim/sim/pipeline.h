#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "ntpsim/core/time.h"

// Plays one training step of one replica's pipeline: p ranks, v model chunks a rank, m microbatches. Chunk c
// runs on rank c mod p, forward from chunk 0 to p v - 1 and backward the other way.
//
// Schedules are Megatron Core's: 1F1B for v = 1, where rank r runs p - r - 1 forward passes ahead; else
// interleaved 1F1B (Narayanan et al., SC'21), which takes each chunk for p microbatches in turn and runs
// 2 (p - r - 1) + (v - 1) p passes ahead. A last group of fewer
// than p microbatches leaves the turns of the others out.
//
// Every rank has a compute stream, a stream of sends and a data-parallel stream, and does one thing at a time
// on each. Weights of the chunks are gathered in order from the start of the step, and a chunk's first
// forward pass starts when its first layer has arrived and ends a layer after its last one. Gradients of a
// chunk are reduced from the first layer of its last backward pass on, and no earlier done than a layer's
// share after it. The optimizer starts when all ranks have their gradients (it needs their norm), and the
// step ends with the slowest rank's.
//
// Once full, a pipeline repeats itself every p microbatches, at first perhaps with ranks that drift apart
// until one waits for another. `play_pipeline` plays groups until nothing but a constant drift tells them
// apart, and leaves out as many as end before the next wait begins or ends. That is exact, to the nanosecond;
// tests/property/pipeline_test.cc compares with plays of all microbatches.

namespace ntpsim::sim {

/// One chunk for one microbatch, and its weights.
struct PipelineChunk {
  Time forward;
  Time backward;
  Time send_forward;        ///< to the next chunk; of the last one unused
  Time send_backward;       ///< to the chunk before; of the first one unused
  Time gather;              ///< of its weights
  Time reduce;              ///< of its gradients
  std::int64_t layers = 1;  ///< in which both are cut; at least 1

  bool operator==(const PipelineChunk&) const = default;
};

struct PipelineSpec {
  std::int64_t ranks = 1;
  std::int64_t microbatches = 1;
  std::vector<PipelineChunk> chunks;  ///< a multiple of `ranks`
  std::vector<Time> optimizer;        ///< of each rank
  bool overlap_sends = false;         ///< else the sender's next pass waits for the end of the send
  bool overlap_gather = true;         ///< else weights are gathered after the optimizer
  bool overlap_reduce = true;         ///< else gradients are reduced after a rank's last backward pass

  [[nodiscard]] std::int64_t chunks_per_rank() const {
    return static_cast<std::int64_t>(chunks.size()) / ranks;
  }
};

/// Where a step's time goes; the parts sum to the whole, and none is negative. Sends, gradient sync and
/// gathers are counted as what the step is longer by than without them.
struct PipelineTime {
  std::int64_t slowest = 0;  ///< rank whose passes take longest
  Time busy;                 ///< its passes
  Time bubble;               ///< what the step takes longer with no sends and no sync
  Time sends;                ///< exposed
  Time sync;                 ///< exposed
  Time optimizer;

  [[nodiscard]] Time total() const { return busy + bubble + sends + sync + optimizer; }
  bool operator==(const PipelineTime&) const = default;
};

/// Three plays. Cost follows the fill, the drain and how often waits come and go until the pipeline settles,
/// not the number of microbatches. REQUIRES: positive sizes, a whole number of chunks a rank, no negative
/// time, `optimizer` of every rank.
[[nodiscard]] PipelineTime play_pipeline(const PipelineSpec& spec);

/// A lower bound of the step, without a play: for every rank, the way of the first microbatch to it, its own
/// passes (and sends that hold it up), and the way of the last microbatch back from it; and a microbatch on
/// its own through all chunks. With chunks alike and no sends nor sync it is the step itself, m t + (p - 1) t
/// / v where a rank's chunks take t (Narayanan et al., SC'21). O(p v). REQUIRES: what `play_pipeline` does.
[[nodiscard]] Time pipeline_estimate(const PipelineSpec& spec);

/// What a rank does in a step, as it is played.
struct PipelineEvent {
  enum class Kind : unsigned char {
    kForward,
    kBackward,
    kSendForward,
    kSendBackward,
    kGather,
    kReduce,
    kOptimizer
  };
  Kind kind = Kind::kForward;
  std::int64_t rank = 0;
  std::int64_t chunk = 0;       ///< of all; none for the optimizer
  std::int64_t microbatch = 0;  ///< of passes and sends
  Time start;
  Time end;
};

/// Plays all microbatches, or the first `most`, and tells of every event; those of one rank and stream in
/// order of time. Returns the end of the step.
Time record_pipeline(const PipelineSpec& spec, std::int64_t most,
                     const std::function<void(const PipelineEvent&)>& record);

}  // namespace ntpsim::sim
