#include "ntpsim/plan/step_schedule.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "ntpsim/core/random.h"

#include "draw.h"

namespace ntpsim::plan {
namespace {

using testing::draw;

constexpr std::size_t kStreams = 8;

std::size_t at(std::int64_t index) {
  return static_cast<std::size_t>(index);
}

struct Instance {
  BackwardPass pass;
  ScheduleOptions options;
  int full_degree = 1;
  int compute_degree = 1;
  int sync_degree = 1;
  std::vector<std::int64_t> units;  // by plan
};

Instance random_instance(RandomStream& random) {
  Instance instance;
  instance.full_degree = static_cast<int>(draw(random, 1, 9));
  instance.compute_degree = static_cast<int>(draw(random, 1, instance.full_degree));
  instance.sync_degree = static_cast<int>(draw(random, 1, instance.compute_degree));
  BackwardPass& pass = instance.pass;
  for (std::int64_t plan = draw(random, 1, 3); plan > 0; --plan) {
    instance.units.push_back(draw(random, 0, 40));
    pass.plans.emplace_back(instance.units.back(), instance.full_degree, instance.compute_degree,
                            instance.sync_degree);
  }
  for (std::int64_t piece = draw(random, 1, 5); piece > 0; --piece) {
    pass.pieces.push_back({"piece " + std::to_string(piece), {}});
  }
  for (std::int64_t i = draw(random, 0, 9); i > 0; --i) {
    StepTensor tensor{"tensor " + std::to_string(i), {}, draw(random, 1, 20), draw(random, 1, 20)};
    if (draw(random, 0, 3) > 0) tensor.plan = random.next_index(pass.plans.size());
    std::vector<std::size_t>& ready = pass.pieces[random.next_index(pass.pieces.size())].ready;
    const auto place = static_cast<std::ptrdiff_t>(random.next_index(ready.size() + 1));
    ready.insert(ready.begin() + place, pass.tensors.size());
    pass.tensors.push_back(tensor);
  }
  const auto coin = [&random] { return draw(random, 0, 1) == 1; };
  ScheduleOptions& options = instance.options;
  if (coin()) options.reshard_of = ReshardOf::kBucket;
  if (coin()) options.post_sync = PostSyncStart::kAllLaunched;
  if (coin()) options.reduction = Reduction::kDistributedOptimizer;
  if (coin()) options.bucket_bytes = draw(random, 1, 400);
  if (coin()) options.chunk_bytes = draw(random, 1, 100);
  options.overlap = draw(random, 0, 3) > 0;
  return instance;
}

StepSchedule schedule(const Instance& instance) {
  auto made = StepSchedule::make(instance.pass, instance.options);
  REQUIRE(made.has_value());
  return *std::move(made);
}

bool distributed(const StepSchedule& schedule) {
  return schedule.options().reduction == Reduction::kDistributedOptimizer;
}

// What a rank holds of a unit.
enum class Value : unsigned char {
  kNone,
  kLocal,    // the gradient of this group
  kReduced,  // of all groups
  kUpdated,  // a weight; with the distributed optimizer a share of it
  kGathered,
};

// Plays ops in any order that streams and waits allow, and checks that each finds what it needs.
class Play {
 public:
  explicit Play(const StepSchedule& schedule)
      : schedule_(schedule), degree_(schedule.pass().plans.front().compute().degree()) {
    for (const StepTensor& tensor : schedule.pass().tensors) {
      const std::int64_t units = tensor.plan ? plan(tensor).sync().units() : 1;
      values_.emplace_back(at(degree_), std::vector<Value>(at(units), Value::kNone));
    }
    done_.resize(schedule.ops().size());
    for (std::size_t i = 0; i < done_.size(); ++i) {
      queues_.at(static_cast<std::size_t>(schedule.ops()[i].stream())).push_back(i);
    }
  }

  void run(RandomStream& random) {
    for (std::size_t left = done_.size(); left > 0; --left) {
      std::vector<std::size_t> can_run;
      for (std::size_t stream = 0; stream < kStreams; ++stream) {
        if (next_[stream] == queues_[stream].size()) continue;
        const auto& waits = schedule_.ops()[queues_[stream][next_[stream]]].waits_for;
        if (std::ranges::all_of(waits, [this](std::size_t op) { return done_.at(op); })) {
          can_run.push_back(stream);
        }
      }
      REQUIRE(!can_run.empty());
      const std::size_t stream = can_run[random.next_index(can_run.size())];
      const std::size_t op = queues_[stream][next_[stream]++];
      execute(schedule_.ops()[op]);
      done_[op] = true;
    }
    check_end();
  }

 private:
  using Places = std::map<std::tuple<std::size_t, std::int64_t, std::int64_t>, Value>;

  // The staging buffers of one direction: (tensor, rank, unit) -> value.
  struct Staging {
    Places packed;
    Places arrived;
    std::int64_t chunks_packed = 0;
    std::int64_t chunks_arrived = 0;
  };

  [[nodiscard]] const SyncPlan& plan(const StepTensor& tensor) const {
    return schedule_.pass().plans[*tensor.plan];
  }

  // Calls visit(value) for all that a rank has in the compute layout, or else in the sync layout.
  template <class Visit>
  void visit_shards(std::size_t index, bool compute, const Visit& visit) {
    const StepTensor& tensor = schedule_.pass().tensors[index];
    if (!tensor.plan) {
      for (auto& rank : values_[index]) visit(rank.front());
      return;
    }
    const ShardLayout& layout = compute ? plan(tensor).compute() : plan(tensor).sync();
    for (std::int64_t unit = 0; unit < layout.units(); ++unit) {
      visit(values_[index][at(layout.owner_of(unit))][at(unit)]);
    }
  }

  void change(std::size_t tensor, bool compute, Value from, Value to) {
    visit_shards(tensor, compute, [&](Value& value) {
      REQUIRE(value == from);
      value = to;
    });
  }

  template <class Visit>
  void visit_units(const StepOp& op, const Visit& visit) {
    for (const TensorTransfer& move : schedule_.transfers(op)) {
      REQUIRE(move.transfer.units.size() > 0);
      for (std::int64_t unit = move.transfer.units.begin; unit < move.transfer.units.end; ++unit) {
        visit(move.tensor, move.transfer.from, move.transfer.to, unit);
      }
    }
  }

  void pack(const StepOp& op, Staging& staging, Value expected) {
    visit_units(op, [&](std::size_t tensor, int from, int /*to*/, std::int64_t unit) {
      REQUIRE(values_[tensor][at(from)][at(unit)] == expected);
      REQUIRE(staging.packed.try_emplace({tensor, from, unit}, expected).second);
    });
    REQUIRE(++staging.chunks_packed <= 2);
  }

  void send(const StepOp& op, Staging& staging) {
    visit_units(op, [&](std::size_t tensor, int from, int to, std::int64_t unit) {
      const auto packed = staging.packed.find({tensor, from, unit});
      REQUIRE(packed != staging.packed.end());
      REQUIRE(staging.arrived.try_emplace({tensor, to, unit}, packed->second).second);
      staging.packed.erase(packed);
    });
    --staging.chunks_packed;
    REQUIRE(++staging.chunks_arrived <= 2);
  }

  // Before the sync the receivers had nothing; after it they have what they sent.
  void unpack(const StepOp& op, Staging& staging, Value before) {
    visit_units(op, [&](std::size_t tensor, int /*from*/, int to, std::int64_t unit) {
      const auto arrived = staging.arrived.find({tensor, to, unit});
      REQUIRE(arrived != staging.arrived.end());
      Value& value = values_[tensor][at(to)][at(unit)];
      REQUIRE(value == before);
      value = arrived->second;
      staging.arrived.erase(arrived);
    });
    --staging.chunks_arrived;
  }

  void execute(const StepOp& op) {
    const BackwardPass& pass = schedule_.pass();
    const Value sent_back = distributed(schedule_) ? Value::kGathered : Value::kReduced;
    switch (op.kind) {
      case OpKind::kBackward:
        REQUIRE(op.index == pieces_run_++);
        for (const std::size_t tensor : pass.pieces[op.index].ready) {
          change(tensor, true, Value::kNone, Value::kLocal);
        }
        break;
      case OpKind::kPrePack:
        pack(op, pre_, Value::kLocal);
        break;
      case OpKind::kPreSync:
        send(op, pre_);
        break;
      case OpKind::kPreUnpack:
        unpack(op, pre_, Value::kNone);
        break;
      case OpKind::kAllReduce:
      case OpKind::kReduceScatter:
        REQUIRE((op.kind == OpKind::kReduceScatter) == distributed(schedule_));
        for (const std::size_t tensor : schedule_.buckets()[op.index]) {
          change(tensor, false, Value::kLocal, Value::kReduced);
        }
        break;
      case OpKind::kOptimizer:
        for (std::size_t tensor = 0; tensor < values_.size(); ++tensor) {
          change(tensor, !distributed(schedule_), Value::kReduced, Value::kUpdated);
        }
        break;
      case OpKind::kAllGather:
        for (const std::size_t tensor : schedule_.buckets()[op.index]) {
          change(tensor, false, Value::kUpdated, Value::kGathered);
        }
        break;
      case OpKind::kPostPack:
        pack(op, post_, sent_back);
        break;
      case OpKind::kPostSync:
        send(op, post_);
        break;
      case OpKind::kPostUnpack:
        unpack(op, post_, Value::kLocal);
        break;
    }
  }

  void check_end() {
    REQUIRE(pieces_run_ == schedule_.pass().pieces.size());
    const Value expected = distributed(schedule_) ? Value::kGathered : Value::kUpdated;
    for (std::size_t tensor = 0; tensor < values_.size(); ++tensor) {
      visit_shards(tensor, true, [&](Value value) { REQUIRE(value == expected); });
    }
    for (const Staging* staging : {&pre_, &post_}) {
      REQUIRE(staging->packed.empty());
      REQUIRE(staging->arrived.empty());
    }
  }

  const StepSchedule& schedule_;
  int degree_;
  std::vector<std::vector<std::vector<Value>>> values_;  // tensor, rank, unit
  std::array<std::vector<std::size_t>, kStreams> queues_;
  std::array<std::size_t, kStreams> next_{};
  std::vector<bool> done_;
  std::size_t pieces_run_ = 0;
  Staging pre_;
  Staging post_;
};

TEST_CASE("in any order that the schedule allows, every rank ends with what all groups agree on") {
  RandomStream random(1, 0, "test/step_schedule");
  for (int round = 0; round < 1500; ++round) {
    const StepSchedule made = schedule(random_instance(random));
    for (int order = 0; order < 3; ++order) Play(made).run(random);
  }
}

// By op: whether it must be over before the op starts.
using Before = std::vector<std::vector<bool>>;

Before before(const StepSchedule& schedule) {
  Before before;
  std::array<std::vector<std::size_t>, kStreams> earlier;
  for (const StepOp& op : schedule.ops()) {
    std::vector<bool> all(schedule.ops().size());
    std::vector<std::size_t>& same = earlier.at(static_cast<std::size_t>(op.stream()));
    std::vector<std::size_t> direct = op.waits_for;
    if (!same.empty()) direct.push_back(same.back());
    for (const std::size_t other : direct) {
      all[other] = true;
      for (std::size_t i = 0; i < all.size(); ++i) all[i] = all[i] || before[other][i];
    }
    same.push_back(before.size());
    before.push_back(std::move(all));
  }
  return before;
}

bool is_reduction(const StepOp& op) {
  return op.kind == OpKind::kAllReduce || op.kind == OpKind::kReduceScatter;
}

bool is_pre(const StepOp& op) {
  return op.kind == OpKind::kPrePack || op.kind == OpKind::kPreSync || op.kind == OpKind::kPreUnpack;
}

bool is_post(const StepOp& op) {
  return op.kind == OpKind::kPostPack || op.kind == OpKind::kPostSync || op.kind == OpKind::kPostUnpack;
}

TEST_CASE("waits are few, earlier in the list and on other streams") {
  RandomStream random(2, 0, "test/step_schedule");
  for (int round = 0; round < 1000; ++round) {
    const StepSchedule made = schedule(random_instance(random));
    for (std::size_t i = 0; i < made.ops().size(); ++i) {
      const StepOp& op = made.ops()[i];
      REQUIRE(std::ranges::is_sorted(op.waits_for));
      REQUIRE(std::ranges::adjacent_find(op.waits_for) == op.waits_for.end());
      REQUIRE(op.waits_for.size() <= 4);
      for (const std::size_t other : op.waits_for) {
        REQUIRE(other < i);
        REQUIRE(made.ops()[other].stream() != op.stream());
      }
    }
  }
}

// Early: what a post-sync waits for is of its own bucket, of earlier ones, or backward pieces before them.
void check_early_post(const StepSchedule& made, const Before& before, std::size_t post) {
  const std::size_t bucket = made.ops()[post].index;
  for (std::size_t i = 0; i < made.ops().size(); ++i) {
    const StepOp& op = made.ops()[i];
    if (!before[post][i]) continue;
    if (op.kind == OpKind::kBackward) {
      const auto& pieces = made.pass().pieces;
      const std::size_t last = made.buckets()[bucket].back();
      const auto piece_of_last = std::ranges::find_if(
          pieces, [&](const auto& piece) { return std::ranges::count(piece.ready, last) > 0; });
      REQUIRE(op.index <= at(piece_of_last - pieces.begin()));
    } else {
      REQUIRE(op.index <= bucket);
    }
  }
}

// Late: it waits for all of the backward pass and all pre-syncs, and for no reduction after its own.
void check_late_post(const StepSchedule& made, const Before& before, std::size_t post) {
  for (std::size_t i = 0; i < made.ops().size(); ++i) {
    const StepOp& op = made.ops()[i];
    if (op.kind == OpKind::kBackward || is_pre(op)) REQUIRE(before[post][i]);
    if (is_reduction(op)) REQUIRE(before[post][i] == (op.index <= made.ops()[post].index));
  }
}

TEST_CASE("post-syncs wait for what their start says, and for nothing else") {
  RandomStream random(3, 0, "test/step_schedule");
  for (int round = 0; round < 1000; ++round) {
    Instance instance = random_instance(random);
    instance.options.overlap = true;
    instance.options.reduction = Reduction::kAllReduce;
    const StepSchedule made = schedule(instance);
    const Before ancestors = before(made);
    const bool early = instance.options.post_sync == PostSyncStart::kReduced;
    for (std::size_t i = 0; i < made.ops().size(); ++i) {
      if (is_post(made.ops()[i])) (early ? check_early_post : check_late_post)(made, ancestors, i);
    }
  }
}

TEST_CASE("backward pieces wait for nothing but each other, and pre-syncs for nothing that is reduced") {
  RandomStream random(4, 0, "test/step_schedule");
  for (int round = 0; round < 1000; ++round) {
    Instance instance = random_instance(random);
    instance.options.overlap = true;
    const StepSchedule made = schedule(instance);
    const Before ancestors = before(made);
    for (std::size_t i = 0; i < made.ops().size(); ++i) {
      const bool backward = made.ops()[i].kind == OpKind::kBackward;
      if (backward) REQUIRE(made.ops()[i].waits_for.empty());
      for (std::size_t other = 0; other < i && (backward || is_pre(made.ops()[i])); ++other) {
        if (ancestors[i][other]) {
          REQUIRE((is_pre(made.ops()[other]) || made.ops()[other].kind == OpKind::kBackward));
        }
      }
    }
  }
}

int phase(const StepOp& op, bool weights) {
  if (op.kind == OpKind::kBackward) return 0;
  if (is_pre(op)) return 1;
  if (is_reduction(op)) return 2;
  if (op.kind == OpKind::kOptimizer) return weights ? 3 : 6;
  return op.kind == OpKind::kAllGather ? 4 : 5;
}

TEST_CASE("a serial schedule has the ops of an overlapped one, in phases, one at a time") {
  RandomStream random(5, 0, "test/step_schedule");
  for (int round = 0; round < 1000; ++round) {
    Instance instance = random_instance(random);
    instance.options.overlap = false;
    const StepSchedule serial = schedule(instance);
    const Before ancestors = before(serial);
    for (std::size_t i = 1; i < serial.ops().size(); ++i) {
      REQUIRE(std::ranges::count(ancestors[i], true) == static_cast<std::ptrdiff_t>(i));
      const bool weights = distributed(serial);
      REQUIRE(phase(serial.ops()[i - 1], weights) <= phase(serial.ops()[i], weights));
    }
    instance.options.overlap = true;
    const StepSchedule overlapped = schedule(instance);
    const auto without_order = [](const StepSchedule& schedule) {
      std::vector<StepOp> ops(schedule.ops().begin(), schedule.ops().end());
      for (StepOp& op : ops) op.waits_for.clear();
      std::ranges::sort(ops, {}, [](const StepOp& op) { return std::tuple(op.kind, op.name, op.index); });
      return ops;
    };
    REQUIRE(without_order(serial) == without_order(overlapped));
  }
}

struct Traffic {
  std::map<int, std::int64_t> sent;
  std::map<int, std::int64_t> received;
  std::int64_t total = 0;
  std::int64_t most_units = 0;  // that a rank sends or receives

  [[nodiscard]] static std::int64_t most(const std::map<int, std::int64_t>& by_rank) {
    std::int64_t most = 0;
    for (const auto& [rank, bytes] : by_rank) most = std::max(most, bytes);
    return most;
  }
};

Traffic traffic(const StepSchedule& schedule, const StepOp& op) {
  Traffic traffic;
  std::map<int, std::int64_t> units;  // senders and receivers are different ranks
  for (const TensorTransfer& move : schedule.transfers(op)) {
    const StepTensor& tensor = schedule.pass().tensors[move.tensor];
    const std::int64_t unit_bytes =
        is_post(op) && distributed(schedule) ? tensor.weight_bytes : tensor.gradient_bytes;
    const std::int64_t bytes = move.transfer.units.size() * unit_bytes;
    traffic.sent[move.transfer.from] += bytes;
    traffic.received[move.transfer.to] += bytes;
    traffic.total += bytes;
    units[move.transfer.from] += move.transfer.units.size();
    units[move.transfer.to] += move.transfer.units.size();
  }
  traffic.most_units = Traffic::most(units);
  return traffic;
}

TEST_CASE("bytes: each op's are those of its transfers, none is lost, and chunks keep to their size") {
  RandomStream random(6, 0, "test/step_schedule");
  for (int round = 0; round < 1000; ++round) {
    const Instance instance = random_instance(random);
    const StepSchedule made = schedule(instance);
    std::map<OpKind, std::int64_t> totals;
    for (const StepOp& op : made.ops()) {
      totals[op.kind] += op.total_bytes;
      if (!is_pre(op) && !is_post(op)) continue;
      const Traffic found = traffic(made, op);
      REQUIRE(op.max_sent == Traffic::most(found.sent));
      REQUIRE(op.max_received == Traffic::most(found.received));
      REQUIRE(op.total_bytes == found.total);
      REQUIRE(found.total > 0);
      const std::int64_t chunk_bytes = instance.options.chunk_bytes;
      const bool fits = std::max(op.max_sent, op.max_received) <= chunk_bytes;
      if (chunk_bytes > 0 && !fits) REQUIRE(found.most_units == 1);
    }
    std::int64_t gradients_to_move = 0;
    std::int64_t weights_to_move = 0;
    std::int64_t gradients = 0;
    for (const StepTensor& tensor : instance.pass.tensors) {
      const SyncPlan* plan = tensor.plan ? &instance.pass.plans[*tensor.plan] : nullptr;
      gradients +=
          tensor.gradient_bytes * (plan != nullptr ? instance.units[*tensor.plan] : instance.compute_degree);
      for (std::int64_t unit = 0; plan != nullptr && unit < instance.units[*tensor.plan]; ++unit) {
        if (plan->compute().owner_of(unit) == plan->sync().owner_of(unit)) continue;
        gradients_to_move += tensor.gradient_bytes;
        weights_to_move += tensor.weight_bytes;
      }
    }
    const std::int64_t back = distributed(made) ? weights_to_move : gradients_to_move;
    for (const OpKind kind : {OpKind::kPrePack, OpKind::kPreSync, OpKind::kPreUnpack}) {
      REQUIRE(totals[kind] == gradients_to_move);
    }
    for (const OpKind kind : {OpKind::kPostPack, OpKind::kPostSync, OpKind::kPostUnpack}) {
      REQUIRE(totals[kind] == back);
    }
    REQUIRE(totals[distributed(made) ? OpKind::kReduceScatter : OpKind::kAllReduce] == gradients);
  }
}

TEST_CASE("a tensor's reshard is cut into as few chunks as its size allows") {
  RandomStream random(7, 0, "test/step_schedule");
  for (int round = 0; round < 1000; ++round) {
    Instance instance = random_instance(random);
    instance.options.reshard_of = ReshardOf::kTensor;
    instance.options.chunk_bytes = draw(random, 1, 100);
    const StepSchedule made = schedule(instance);
    std::map<std::size_t, std::int64_t> chunks;
    for (const StepOp& op : made.ops()) {
      if (op.kind == OpKind::kPreSync) ++chunks[op.parts.front().tensor];
    }
    for (std::size_t i = 0; i < instance.pass.tensors.size(); ++i) {
      const StepTensor& tensor = instance.pass.tensors[i];
      if (!tensor.plan) continue;
      // Of the busiest rank, one unit after the other.
      std::int64_t least = 0;
      std::int64_t room = 0;
      for (std::int64_t unit = 0; unit < instance.pass.plans[*tensor.plan].objective(); ++unit) {
        if (room < tensor.gradient_bytes) {
          ++least;
          room = std::max(tensor.gradient_bytes, instance.options.chunk_bytes);
        }
        room -= tensor.gradient_bytes;
      }
      REQUIRE(chunks[i] == least);
    }
  }
}

TEST_CASE(
    "buckets hold the tensors in order, close at their size, and are the same for all compute degrees") {
  RandomStream random(8, 0, "test/step_schedule");
  for (int round = 0; round < 1000; ++round) {
    Instance instance = random_instance(random);
    const StepSchedule made = schedule(instance);
    std::vector<std::size_t> in_order;
    for (const BackwardPiece& piece : instance.pass.pieces) {
      in_order.insert(in_order.end(), piece.ready.begin(), piece.ready.end());
    }
    std::vector<std::size_t> in_buckets;
    for (std::size_t bucket = 0; bucket < made.buckets().size(); ++bucket) {
      std::int64_t bytes = 0;  // on rank 0, which no sync shard is larger than
      std::int64_t before_last = 0;
      for (const std::size_t index : made.buckets()[bucket]) {
        const StepTensor& tensor = instance.pass.tensors[index];
        before_last = bytes;
        bytes +=
            tensor.gradient_bytes * (tensor.plan ? instance.pass.plans[*tensor.plan].sync().units_of(0) : 1);
        in_buckets.push_back(index);
      }
      const bool last = bucket + 1 == made.buckets().size();
      if (instance.options.bucket_bytes == 0) REQUIRE(last);
      if (instance.options.bucket_bytes > 0) REQUIRE(before_last < instance.options.bucket_bytes);
      if (!last) REQUIRE(bytes >= instance.options.bucket_bytes);
      const auto collective = std::ranges::find_if(
          made.ops(), [&](const StepOp& op) { return is_reduction(op) && op.index == bucket; });
      REQUIRE(collective != made.ops().end());
      REQUIRE(collective->max_sent == bytes);
    }
    REQUIRE(in_buckets == in_order);

    for (int degree = instance.sync_degree; degree <= instance.full_degree; ++degree) {
      Instance other = instance;
      other.pass.plans.clear();
      for (const std::int64_t units : instance.units) {
        other.pass.plans.emplace_back(units, instance.full_degree, degree, instance.sync_degree);
      }
      const StepSchedule of_degree = schedule(other);
      REQUIRE(std::ranges::equal(of_degree.buckets(), made.buckets()));
      const bool reshards = std::ranges::any_of(of_degree.ops(), [](const StepOp& op) { return is_pre(op); });
      if (degree == instance.sync_degree) REQUIRE_FALSE(reshards);
    }
  }
}

TEST_CASE("the same input gives the same schedule") {
  RandomStream random(9, 0, "test/step_schedule");
  for (int round = 0; round < 300; ++round) {
    const Instance instance = random_instance(random);
    REQUIRE(schedule(instance) == schedule(instance));
  }
}

}  // namespace
}  // namespace ntpsim::plan
