#include "ntpsim/plan/step_schedule.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "aborts.h"

namespace ntpsim::plan {
namespace {

using Lines = std::vector<std::string>;

StepTensor tensor(std::string name, std::optional<std::size_t> plan, std::int64_t gradient_bytes,
                  std::int64_t weight_bytes) {
  return {std::move(name), plan, gradient_bytes, weight_bytes};
}

// Two layers, each with a weight of 12 units and a norm. The extra rank of a group of 4 that syncs over 3
// computes on 3 units, one for each core rank.
BackwardPass two_layers(int compute_degree = 4) {
  BackwardPass pass;
  pass.plans = {SyncPlan(12, 4, compute_degree, 3)};
  pass.tensors = {tensor("layers.1.fc", 0, 40, 20), tensor("layers.1.norm", {}, 8, 4),
                  tensor("layers.0.fc", 0, 40, 20), tensor("layers.0.norm", {}, 8, 4)};
  pass.pieces = {{"layers.1", {0, 1}}, {"layers.0", {2, 3}}};
  return pass;
}

StepSchedule schedule(const BackwardPass& pass, const ScheduleOptions& options) {
  auto made = StepSchedule::make(pass, options);
  REQUIRE(made.has_value());
  return *std::move(made);
}

// The ops with those that they wait for: "2: pre_sync layers.1.fc <- 1".
Lines lines(const StepSchedule& schedule) {
  Lines lines;
  for (const StepOp& op : schedule.ops()) {
    std::string line = std::to_string(lines.size()) + ": " + op.name;
    if (!op.waits_for.empty()) line += " <-";
    for (const std::size_t before : op.waits_for) line += " " + std::to_string(before);
    lines.push_back(line);
  }
  return lines;
}

const StepOp& op_named(const StepSchedule& schedule, const std::string& name) {
  const auto found = std::ranges::find(schedule.ops(), name, &StepOp::name);
  REQUIRE(found != schedule.ops().end());
  return *found;
}

Lines messages(BackwardPass pass, const ScheduleOptions& options = {}) {
  const auto made = StepSchedule::make(std::move(pass), options);
  Lines messages;
  if (made) return messages;
  for (const Diagnostic& diagnostic : made.error().items()) messages.push_back(diagnostic.message);
  return messages;
}

// One bucket a layer: a core rank syncs 4 units of 40 bytes.
ScheduleOptions bucket_a_layer(ScheduleOptions options = {}) {
  options.bucket_bytes = 168;
  return options;
}

TEST_CASE("gradients go to the core ranks as they get ready, and back when their bucket is reduced") {
  const StepSchedule made = schedule(two_layers(), bucket_a_layer());
  CHECK(lines(made) == Lines{"0: backward layers.1",               //
                             "1: pre_pack layers.1.fc <- 0",       //
                             "2: pre_sync layers.1.fc <- 1",       //
                             "3: pre_unpack layers.1.fc <- 2",     //
                             "4: all_reduce bucket 0 <- 0 3",      //
                             "5: post_pack layers.1.fc <- 4",      //
                             "6: post_sync layers.1.fc <- 5",      //
                             "7: post_unpack layers.1.fc <- 6",    //
                             "8: backward layers.0",               //
                             "9: pre_pack layers.0.fc <- 8",       //
                             "10: pre_sync layers.0.fc <- 9",      //
                             "11: pre_unpack layers.0.fc <- 10",   //
                             "12: all_reduce bucket 1 <- 8 11",    //
                             "13: post_pack layers.0.fc <- 12",    //
                             "14: post_sync layers.0.fc <- 13",    //
                             "15: post_unpack layers.0.fc <- 14",  //
                             "16: optimizer <- 12 15"});
  CHECK(std::ranges::equal(made.buckets(), std::vector<std::vector<std::size_t>>{{0, 1}, {2, 3}}));
}

TEST_CASE("an op says what moves, and its bytes on the busiest rank and in all") {
  const StepSchedule made = schedule(two_layers(), bucket_a_layer());
  const StepOp& pre = op_named(made, "pre_sync layers.0.fc");
  CHECK(pre.kind == OpKind::kPreSync);
  CHECK(pre.stream() == Stream::kPreSync);
  CHECK(pre.index == 1);  // the bucket
  CHECK(pre.parts == std::vector<TensorPart>{{2, 0, 1}});
  CHECK(made.transfers(pre) ==
        std::vector<TensorTransfer>{{2, {3, 0, {9, 10}}}, {2, {3, 1, {10, 11}}}, {2, {3, 2, {11, 12}}}});
  CHECK(pre.max_sent == 120);
  CHECK(pre.max_received == 40);
  CHECK(pre.total_bytes == 120);

  const StepOp& post = op_named(made, "post_sync layers.0.fc");
  CHECK(made.transfers(post) ==
        std::vector<TensorTransfer>{{2, {0, 3, {9, 10}}}, {2, {1, 3, {10, 11}}}, {2, {2, 3, {11, 12}}}});
  CHECK(post.max_sent == 40);
  CHECK(post.max_received == 120);

  const StepOp& reduce = op_named(made, "all_reduce bucket 1");
  CHECK(reduce.max_sent == 4 * 40 + 8);          // a core rank: its sync shard and its norm
  CHECK(reduce.total_bytes == 12 * 40 + 4 * 8);  // every rank reduces its norm
  CHECK(made.transfers(reduce).empty());
}

TEST_CASE("upstream sends nothing back before the last reduction can start") {
  const StepSchedule made = schedule(two_layers(), bucket_a_layer(ScheduleOptions::upstream()));
  CHECK(lines(made) == Lines{"0: backward layers.1",                //
                             "1: pre_pack layers.1.fc <- 0",        //
                             "2: pre_sync layers.1.fc <- 1",        //
                             "3: pre_unpack layers.1.fc <- 2",      //
                             "4: all_reduce bucket 0 <- 0 3",       //
                             "5: backward layers.0",                //
                             "6: pre_pack layers.0.fc <- 5",        //
                             "7: pre_sync layers.0.fc <- 6",        //
                             "8: pre_unpack layers.0.fc <- 7",      //
                             "9: all_reduce bucket 1 <- 5 8",       //
                             "10: post_pack layers.1.fc <- 4 5 8",  // beside the all-reduce of bucket 1
                             "11: post_sync layers.1.fc <- 10",     //
                             "12: post_unpack layers.1.fc <- 11",   //
                             "13: post_pack layers.0.fc <- 5 8 9",  //
                             "14: post_sync layers.0.fc <- 13",     //
                             "15: post_unpack layers.0.fc <- 14",   //
                             "16: optimizer <- 9 15"});
}

TEST_CASE("serial: phase after phase, each op after the one before") {
  const StepSchedule made = schedule(two_layers(), bucket_a_layer(ScheduleOptions::serial()));
  CHECK(lines(made) == Lines{"0: backward layers.1",               //
                             "1: backward layers.0",               // after 0: the same stream
                             "2: pre_pack layers.1.fc <- 1",       //
                             "3: pre_sync layers.1.fc <- 2",       //
                             "4: pre_unpack layers.1.fc <- 3",     //
                             "5: pre_pack layers.0.fc <- 4",       //
                             "6: pre_sync layers.0.fc <- 5",       //
                             "7: pre_unpack layers.0.fc <- 6",     //
                             "8: all_reduce bucket 0 <- 7",        //
                             "9: all_reduce bucket 1",             //
                             "10: post_pack layers.1.fc <- 9",     //
                             "11: post_sync layers.1.fc <- 10",    //
                             "12: post_unpack layers.1.fc <- 11",  //
                             "13: post_pack layers.0.fc <- 12",    //
                             "14: post_sync layers.0.fc <- 13",    //
                             "15: post_unpack layers.0.fc <- 14",  //
                             "16: optimizer <- 15"});
}

TEST_CASE("the distributed optimizer sends weights back, after they are gathered") {
  ScheduleOptions options;  // one bucket
  options.reduction = Reduction::kDistributedOptimizer;
  options.reshard_of = ReshardOf::kBucket;
  const StepSchedule made = schedule(two_layers(), options);
  CHECK(lines(made) == Lines{"0: backward layers.1",               //
                             "1: backward layers.0",               //
                             "2: pre_pack bucket 0 <- 1",          //
                             "3: pre_sync bucket 0 <- 2",          //
                             "4: pre_unpack bucket 0 <- 3",        //
                             "5: reduce_scatter bucket 0 <- 1 4",  //
                             "6: optimizer <- 5",                  //
                             "7: all_gather bucket 0 <- 6",        //
                             "8: post_pack bucket 0 <- 7",         //
                             "9: post_sync bucket 0 <- 8",         //
                             "10: post_unpack bucket 0 <- 9"});
  CHECK(op_named(made, "pre_sync bucket 0").parts == std::vector<TensorPart>{{0, 0, 1}, {2, 0, 1}});
  CHECK(op_named(made, "pre_sync bucket 0").max_sent == 2 * 120);
  CHECK(op_named(made, "post_sync bucket 0").max_received == 2 * 60);
  CHECK(op_named(made, "all_gather bucket 0").max_received == 2 * (4 * 20 + 4));
}

TEST_CASE("chunks: pack, transfer and unpack run side by side over two staging buffers") {
  ScheduleOptions options;
  options.chunk_bytes = 50;  // one unit of 40 bytes
  BackwardPass pass = two_layers();
  pass.tensors.resize(1);
  pass.pieces = {{"layers.1", {0}}};
  const StepSchedule made = schedule(pass, options);
  const Lines all = lines(made);
  CHECK(Lines(all.begin(), all.begin() + 11) ==
        Lines{"0: backward layers.1",                      //
              "1: pre_pack layers.1.fc chunk 1/3 <- 0",    //
              "2: pre_sync layers.1.fc chunk 1/3 <- 1",    //
              "3: pre_unpack layers.1.fc chunk 1/3 <- 2",  //
              "4: pre_pack layers.1.fc chunk 2/3 <- 0",    //
              "5: pre_sync layers.1.fc chunk 2/3 <- 4",    //
              "6: pre_unpack layers.1.fc chunk 2/3 <- 5",  //
              "7: pre_pack layers.1.fc chunk 3/3 <- 0 2",  // into the buffer that 2 has sent
              "8: pre_sync layers.1.fc chunk 3/3 <- 3 7",  // into the buffer that 3 has emptied
              "9: pre_unpack layers.1.fc chunk 3/3 <- 8",  //
              "10: all_reduce bucket 0 <- 0 9"});
  CHECK(op_named(made, "pre_sync layers.1.fc chunk 2/3").max_sent == 40);
}

TEST_CASE("every part of a reshard has its share of what each rank sends and receives") {
  BackwardPass pass;
  pass.plans = {SyncPlan(24, 8, 8, 6)};  // both extra ranks have 3 units, each core rank lacks one
  pass.tensors = {tensor("fc", 0, 1, 1)};
  pass.pieces = {{"layer", {0}}};
  ScheduleOptions options;
  options.chunk_bytes = 1;
  const StepSchedule made = schedule(pass, options);
  CHECK(made.transfers(op_named(made, "pre_sync fc chunk 1/3")) ==
        std::vector<TensorTransfer>{{0, {6, 0, {18, 19}}}, {0, {7, 3, {21, 22}}}});
  CHECK(made.transfers(op_named(made, "post_pack fc chunk 2/3")) ==
        std::vector<TensorTransfer>{{0, {1, 6, {19, 20}}}, {0, {4, 7, {22, 23}}}});
}

TEST_CASE("a group of the sync degree reduces the same buckets, and reshards nothing") {
  const StepSchedule made = schedule(two_layers(3), bucket_a_layer());
  CHECK(lines(made) == Lines{"0: backward layers.1", "1: all_reduce bucket 0 <- 0", "2: backward layers.0",
                             "3: all_reduce bucket 1 <- 2", "4: optimizer <- 3"});
  CHECK(std::ranges::equal(made.buckets(), schedule(two_layers(4), bucket_a_layer()).buckets()));
}

TEST_CASE("backward pieces without tensors, and no tensors at all") {
  BackwardPass pass = two_layers(3);
  pass.pieces.insert(pass.pieces.begin(), {"loss", {}});
  pass.pieces.push_back({"embedding", {}});
  CHECK(lines(schedule(pass, {})) == Lines{"0: backward loss", "1: backward layers.1", "2: backward layers.0",
                                           "3: all_reduce bucket 0 <- 2", "4: backward embedding",
                                           "5: optimizer <- 3"});
  CHECK(lines(schedule({}, {})) == Lines{"0: optimizer"});
}

TEST_CASE("each kind of op has a name and a stream") {
  CHECK(name_of(OpKind::kReduceScatter) == "reduce_scatter");
  CHECK(name_of(OpKind::kPostUnpack) == "post_unpack");
  CHECK(name_of(stream_of(OpKind::kBackward)) == "compute");
  CHECK(name_of(stream_of(OpKind::kOptimizer)) == "compute");
  for (const OpKind kind : {OpKind::kAllReduce, OpKind::kReduceScatter, OpKind::kAllGather}) {
    CHECK(name_of(stream_of(kind)) == "data_parallel");
  }
  for (const OpKind kind : {OpKind::kPrePack, OpKind::kPreSync, OpKind::kPreUnpack, OpKind::kPostPack,
                            OpKind::kPostSync, OpKind::kPostUnpack}) {
    CHECK(name_of(stream_of(kind)) == name_of(kind));
  }
}

TEST_CASE("126 layers make a few thousand ops") {
  BackwardPass pass;
  pass.plans = {SyncPlan(128, 32, 32, 30), SyncPlan(53248, 32, 32, 30)};
  for (int layer = 125; layer >= 0; --layer) {
    BackwardPiece piece{std::to_string(layer), {}};
    for (const std::optional<std::size_t> plan : {std::optional<std::size_t>(0), {0}, {1}, {1}, {}, {}}) {
      piece.ready.push_back(pass.tensors.size());
      pass.tensors.push_back(tensor("t", plan, 1000, 500));
    }
    pass.pieces.push_back(piece);
  }
  ScheduleOptions options;
  options.bucket_bytes = 1;
  // A bucket a tensor; pack, transfer and unpack each way of the 4 tensors that are cut.
  CHECK(schedule(pass, options).ops().size() == 126 * (1 + 6 + 4 * 6) + 1);
}

TEST_CASE("errors: all of them, with what was expected") {
  BackwardPass pass = two_layers();
  pass.plans.emplace_back(12, 4, 4, 2);
  pass.tensors[0].plan = 2;
  pass.tensors[1].gradient_bytes = 0;
  pass.tensors[2].weight_bytes = -1;
  pass.pieces = {{"layers.1", {0, 7, 1}}, {"layers.0", {1, 3}}};
  ScheduleOptions options;
  options.bucket_bytes = -1;
  options.chunk_bytes = -2;
  options.reduction = Reduction::kDistributedOptimizer;
  CHECK(messages(pass, options) ==
        Lines{"step schedule: bucket_bytes is -1, expected at least 0",
              "step schedule: chunk_bytes is -2, expected at least 0",
              "step schedule: plan 1 is for degrees 4 to 2, expected 4 to 3 as plan 0",
              "step schedule: tensor 0 (layers.1.fc) has plan 2, expected none or one below 2",
              "step schedule: tensor 1 (layers.1.norm): gradient_bytes is 0, expected at least 1",
              "step schedule: tensor 2 (layers.0.fc): weight_bytes is -1, expected at least 1",
              "step schedule: piece layers.1 completes tensor 7, expected one below 4",
              "step schedule: tensor 1 (layers.1.norm) is completed 2 times, expected once",
              "step schedule: tensor 2 (layers.0.fc) is completed 0 times, expected once"});
}

TEST_CASE("errors: weights matter to the distributed optimizer only") {
  BackwardPass pass = two_layers();
  for (StepTensor& tensor : pass.tensors) tensor.weight_bytes = 0;
  CHECK(messages(pass).empty());
}

TEST_CASE("errors: bytes beyond 64 bits") {
  constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
  BackwardPass pass;
  pass.plans = {SyncPlan(12, 4, 4, 3)};
  pass.tensors = {tensor("fc", 0, kMost / 12, 1), tensor("norm", {}, 2, 1)};  // 7 bytes are left
  pass.pieces = {{"layer", {0, 1}}};
  const Lines too_many = {"step schedule: the tensors together have more bytes than 64 bits can say"};
  CHECK(messages(pass) == too_many);  // 4 copies of the norm
  pass.tensors[1].gradient_bytes = 1;
  CHECK(messages(pass).empty());
  pass.tensors[1].weight_bytes = kMost / 2;
  CHECK(messages(pass).empty());
  ScheduleOptions options;
  options.reduction = Reduction::kDistributedOptimizer;
  CHECK(messages(pass, options) == too_many);
}

TEST_CASE("errors: chunks without number") {
  BackwardPass pass;
  pass.plans = {SyncPlan(100'000'000, 4, 4, 3)};
  pass.tensors = {tensor("vocabulary", 0, 4, 2)};
  pass.pieces = {{"output", {0}}};
  ScheduleOptions options;
  options.chunk_bytes = 4;
  CHECK(messages(pass, options) ==
        Lines{"step schedule: chunk_bytes 4 makes 200000 chunks or more, expected larger ones"});
  options.chunk_bytes = 4'000'000;
  CHECK(messages(pass, options).empty());
}

TEST_CASE("ops belong to their schedule") {
  const StepSchedule made = schedule(two_layers(), {});
  StepOp op = op_named(made, "pre_sync layers.0.fc");
  for (const std::size_t other : {std::size_t{4}, std::size_t{1}}) {  // no tensor, no plan
    op.parts.front().tensor = other;
    CHECK(testing::aborts([&] { static_cast<void>(made.transfers(op)); }));
  }
}

}  // namespace
}  // namespace ntpsim::plan
