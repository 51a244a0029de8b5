#include "ntpsim/sim/step_timeline.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <tuple>

#include <fmt/format.h>

#include "ntpsim/core/invariant.h"

#include "step_pricing.h"

namespace ntpsim::sim {
namespace {

using Kind = PipelineEvent::Kind;
using models::Operation;
using models::Stream;

constexpr std::size_t kCompute = 0;
constexpr std::size_t kPipeline = 4;
constexpr std::size_t kData = 5;
constexpr std::array<const char*, 6> kTracks = {"compute",         "tensor parallel",   "context parallel",
                                                "expert parallel", "pipeline parallel", "data parallel"};

std::size_t track_of(Stream stream) {
  switch (stream) {
    case Stream::kCompute:
      return kCompute;
    case Stream::kTp:
      return 1;
    case Stream::kCp:
      return 2;
    case Stream::kEp:
      return 3;
    case Stream::kDp:
      return kData;
  }
  invariant(false, "a stream of the enumeration");
  return kCompute;
}

/// An operation within a pass.
struct PlacedOperation {
  Operation operation;
  double start_s;  ///< from the start of the pass
};

class Builder {
 public:
  Builder(const StepPricing& pricing, const StepTimelineOptions& options)
      : pricing_(pricing), options_(options) {
    for (std::int64_t rank = 0; rank < pricing.pipeline().ranks; ++rank) {
      timeline_.processes.push_back(
          {.name = fmt::format("stage {}", rank), .tracks = {kTracks.begin(), kTracks.end()}});
    }
  }

  void add(const PipelineEvent& event) {
    switch (event.kind) {
      case Kind::kForward:
        return add_pass(event, true);
      case Kind::kBackward:
        return add_pass(event, false);
      case Kind::kSendForward:
        return add_send(event, event.chunk + 1);
      case Kind::kSendBackward:
        return add_send(event, event.chunk - 1);
      case Kind::kGather:
        add_slice(event, kData, fmt::format("gather weights of chunk {}", event.chunk), "comm");
        return;
      case Kind::kReduce:
        add_slice(event, kData, fmt::format("reduce gradients of chunk {}", event.chunk), "comm");
        return;
      case Kind::kOptimizer:
        add_slice(event, kCompute, "optimizer", "compute");
        return;
    }
  }

  Timeline finish() {
    connect();
    return std::move(timeline_);
  }

 private:
  // Of a pass: forward, chunk, microbatch.
  using PassKey = std::tuple<bool, std::int64_t, std::int64_t>;
  struct Message {
    std::size_t from;
    PassKey to;
  };

  TimelineSlice& add_slice(const PipelineEvent& event, std::size_t track, std::string name,
                           const char* category) {
    return timeline_.slices.emplace_back(TimelineSlice{.process = static_cast<std::size_t>(event.rank),
                                                       .track = track,
                                                       .name = std::move(name),
                                                       .category = category,
                                                       .start = event.start,
                                                       .length = event.end - event.start});
  }

  void add_pass(const PipelineEvent& event, bool forward) {
    TimelineSlice& slice =
        add_slice(event, kCompute,
                  fmt::format("{} chunk {} microbatch {}", forward ? "forward" : "backward", event.chunk,
                              event.microbatch),
                  "compute");
    slice.arguments = {{"chunk", event.chunk}, {"microbatch", event.microbatch}};
    passes_[{forward, event.chunk, event.microbatch}] = timeline_.slices.size() - 1;
    if (event.microbatch < options_.detailed_microbatches) add_operations(event, forward);
  }

  void add_send(const PipelineEvent& event, std::int64_t to_chunk) {
    const bool forward = event.kind == Kind::kSendForward;
    add_slice(event, kPipeline,
              fmt::format("send {} of microbatch {} to chunk {}", forward ? "activations" : "gradients",
                          event.microbatch, to_chunk),
              "comm");
    messages_.push_back({.from = timeline_.slices.size() - 1, .to = {forward, to_chunk, event.microbatch}});
  }

  /// The operations of a pass. Where a pass takes longer than they do (it waits for its last gathered
  /// weights) they come first.
  void add_operations(const PipelineEvent& event, bool forward) {
    for (const PlacedOperation& placed : operations(event.chunk, forward)) {
      const Operation& operation = placed.operation;
      const Time start = event.start + Time::from_seconds(placed.start_s);
      const Time end = event.start + Time::from_seconds(placed.start_s + operation.seconds);
      if (start >= event.end || end == start) continue;
      const std::size_t track = track_of(operation.stream);
      TimelineSlice& slice = timeline_.slices.emplace_back(
          TimelineSlice{.process = static_cast<std::size_t>(event.rank),
                        .track = track,
                        .name = std::string(operation.name),
                        .category = track == kCompute ? "compute" : "comm",
                        .start = start,
                        // Each operation is rounded on its own, the pass as a whole.
                        .length = std::min(end, event.end) - start});
      if (track == kCompute) continue;
      slice.arguments = {{"Collective name", std::string(operation.name)},
                         {"Group size", operation.group_size},
                         {"In msg nelems", static_cast<std::int64_t>(std::llround(operation.bytes / 2))},
                         {"dtype", std::string("BFloat16")}};
    }
  }

  const std::vector<PlacedOperation>& operations(std::int64_t chunk, bool forward) {
    const auto [entry, fresh] = operations_.try_emplace({chunk, forward});
    if (!fresh) return entry->second;
    double offset = 0;
    std::vector<double> starts;
    for (const models::PassProgram& program : pricing_.programs(chunk, forward)) {
      const double length = program.play(starts).total_s();
      for (std::size_t i = 0; i < starts.size(); ++i) {
        entry->second.push_back({.operation = program.operations()[i], .start_s = offset + starts[i]});
      }
      offset += length;
    }
    return entry->second;
  }

  void connect() {
    for (const Message& message : messages_) {
      timeline_.flows.push_back({.name = "microbatch", .from = message.from, .to = passes_.at(message.to)});
    }
  }

  const StepPricing& pricing_;
  StepTimelineOptions options_;
  Timeline timeline_;
  std::map<PassKey, std::size_t> passes_;
  std::map<std::pair<std::int64_t, bool>, std::vector<PlacedOperation>> operations_;
  std::vector<Message> messages_;
};

}  // namespace

Timeline step_timeline(const models::SystemSpec& system, const models::TransformerSpec& model,
                       const models::TrainingSpec& training, const ReplicaShape& shape,
                       const StepTimelineOptions& options) {
  invariant(options.microbatches >= 0, "a number of microbatches");
  const StepPricing pricing(system, model, training, shape);
  Builder builder(pricing, options);
  const std::int64_t most = options.microbatches > 0 ? options.microbatches : shape.microbatches;
  record_pipeline(pricing.pipeline(), most, [&](const PipelineEvent& event) { builder.add(event); });
  return builder.finish();
}

}  // namespace ntpsim::sim
