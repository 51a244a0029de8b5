#include "ntpsim/plan/step_schedule.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <limits>
#include <utility>

#include "ntpsim/core/invariant.h"

namespace ntpsim::plan {
namespace {

using Indexes = std::vector<std::size_t>;

constexpr std::int64_t kMostBytes = std::numeric_limits<std::int64_t>::max();
constexpr std::int64_t kMostChunks = 200'000;              // their ops take a few hundred megabytes
constexpr std::int64_t kMostWork = std::int64_t{1} << 28;  // chunks and tensors times degree: some seconds

struct Kind {
  std::string_view name;
  Stream stream;
};

// By OpKind.
constexpr std::array<Kind, 11> kKinds = {{{"backward", Stream::kCompute},
                                          {"pre_pack", Stream::kPrePack},
                                          {"pre_sync", Stream::kPreSync},
                                          {"pre_unpack", Stream::kPreUnpack},
                                          {"all_reduce", Stream::kDataParallel},
                                          {"reduce_scatter", Stream::kDataParallel},
                                          {"optimizer", Stream::kCompute},
                                          {"all_gather", Stream::kDataParallel},
                                          {"post_pack", Stream::kPostPack},
                                          {"post_sync", Stream::kPostSync},
                                          {"post_unpack", Stream::kPostUnpack}}};

constexpr std::array<std::string_view, 8> kStreamNames = {"compute",   "data_parallel", "pre_pack",
                                                          "pre_sync",  "pre_unpack",    "post_pack",
                                                          "post_sync", "post_unpack"};

// What a tensor's reshard moves, of one unit.
std::int64_t reshard_bytes(const StepTensor& tensor, bool post, Reduction reduction) {
  const bool weights = post && reduction == Reduction::kDistributedOptimizer;
  return weights ? tensor.weight_bytes : tensor.gradient_bytes;
}

// Parts of a tensor's reshard: none is more than a chunk on any rank unless it is one unit there.
std::int64_t parts_of(const SyncPlan& plan, std::int64_t unit_bytes, std::int64_t chunk_bytes) {
  if (plan.objective() == 0) return 0;
  if (chunk_bytes == 0) return 1;
  return max_units(plan.objective(), std::max<std::int64_t>(1, chunk_bytes / unit_bytes));
}

// How many of the numbers from 0 to n - 1 leave less than `part` when divided by `parts`.
std::int64_t dealt(std::int64_t n, std::int64_t part, std::int64_t parts) {
  return n / parts * part + std::min(n % parts, part);
}

// The transfers of one part. The units that move are dealt to the parts in turn, and what a transfer has of
// one part is taken from consecutive units instead. All that a rank of a sync plan sends or receives is
// consecutive among the units that move, so a part has its even share of it, rounded up or down.
template <class Visit>
void visit_transfers(const SyncPlan& plan, const TensorPart& part, bool post, const Visit& visit) {
  std::int64_t moved = 0;
  for (Transfer transfer : plan.pre_sync().transfers()) {
    const std::int64_t begin = transfer.units.begin;
    const std::int64_t end = moved + transfer.units.size();
    const auto in_parts_before = [&](std::int64_t next) {
      return dealt(end, next, part.parts) - dealt(moved, next, part.parts);
    };
    transfer.units = {begin + in_parts_before(part.part), begin + in_parts_before(part.part + 1)};
    moved = end;
    if (post) std::swap(transfer.from, transfer.to);
    if (transfer.units.size() > 0) visit(transfer);
  }
}

// Finds everything that is wrong with the input.
class Check {
 public:
  Check(const BackwardPass& pass, const ScheduleOptions& options)
      : pass_(pass), options_(options), distributed_(options.reduction == Reduction::kDistributedOptimizer) {}

  Diagnostics errors() && {
    check_size("bucket_bytes", options_.bucket_bytes, 0);
    check_size("chunk_bytes", options_.chunk_bytes, 0);
    check_plans();
    for (std::size_t i = 0; i < pass_.tensors.size(); ++i) check_tensor(i);
    check_pieces();
    if (!errors_.has_errors()) check_totals();
    return std::move(errors_);
  }

 private:
  void error(const std::string& message) { errors_.error("", "", "step schedule: " + message); }

  void check_size(const std::string& name, std::int64_t bytes, std::int64_t least) {
    if (bytes >= least) return;
    error(name + " is " + std::to_string(bytes) + ", expected at least " + std::to_string(least));
  }

  [[nodiscard]] std::string label(std::size_t tensor) const {
    return "tensor " + std::to_string(tensor) + " (" + pass_.tensors[tensor].name + ")";
  }

  void check_plans() {
    const auto degrees = [this](std::size_t plan) {
      return std::to_string(pass_.plans[plan].compute().degree()) + " to " +
             std::to_string(pass_.plans[plan].sync().degree());
    };
    for (std::size_t i = 1; i < pass_.plans.size(); ++i) {
      if (degrees(i) == degrees(0)) continue;
      error("plan " + std::to_string(i) + " is for degrees " + degrees(i) + ", expected " + degrees(0) +
            " as plan 0");
    }
  }

  void check_tensor(std::size_t index) {
    const StepTensor& tensor = pass_.tensors[index];
    if (tensor.plan && *tensor.plan >= pass_.plans.size()) {
      error(label(index) + " has plan " + std::to_string(*tensor.plan) + ", expected none or one below " +
            std::to_string(pass_.plans.size()));
    }
    if (tensor.gradient_bytes < 1) check_size(label(index) + ": gradient_bytes", tensor.gradient_bytes, 1);
    if (distributed_ && tensor.weight_bytes < 1) {
      check_size(label(index) + ": weight_bytes", tensor.weight_bytes, 1);
    }
  }

  void check_pieces() {
    Indexes completions(pass_.tensors.size());
    for (const BackwardPiece& piece : pass_.pieces) {
      for (const std::size_t tensor : piece.ready) {
        if (tensor < completions.size()) {
          ++completions[tensor];
        } else {
          error("piece " + piece.name + " completes tensor " + std::to_string(tensor) +
                ", expected one below " + std::to_string(completions.size()));
        }
      }
    }
    for (std::size_t i = 0; i < completions.size(); ++i) {
      if (completions[i] == 1) continue;
      error(label(i) + " is completed " + std::to_string(completions[i]) + " times, expected once");
    }
  }

  void check_totals() {
    const std::int64_t ranks = pass_.plans.empty() ? 1 : pass_.plans.front().compute().degree();
    std::int64_t gradients = 0;
    std::int64_t weights = 0;
    std::int64_t chunks = 0;
    for (const StepTensor& tensor : pass_.tensors) {
      const std::int64_t units = tensor.plan ? pass_.plans[*tensor.plan].sync().units() : ranks;
      const bool fits = add_product(gradients, units, tensor.gradient_bytes) &&
                        (!distributed_ || add_product(weights, units, tensor.weight_bytes));
      if (!fits) return error("the tensors together have more bytes than 64 bits can say");
      if (!tensor.plan || options_.chunk_bytes == 0) continue;
      for (const bool post : {false, true}) {
        const std::int64_t bytes = reshard_bytes(tensor, post, options_.reduction);
        chunks += std::min(kMostChunks, parts_of(pass_.plans[*tensor.plan], bytes, options_.chunk_bytes));
      }
    }
    if (chunks >= kMostChunks) {
      error("chunk_bytes " + std::to_string(options_.chunk_bytes) + " makes " + std::to_string(kMostChunks) +
            " chunks or more, expected larger ones");
    } else if (const std::int64_t items = chunks + std::ssize(pass_.tensors); items > kMostWork / ranks) {
      error("found " + std::to_string(items) + " tensors and chunks in groups of degree " +
            std::to_string(ranks) + ", expected at most " + std::to_string(kMostWork / ranks));
    }
  }

  static bool add_product(std::int64_t& sum, std::int64_t units, std::int64_t unit_bytes) {
    if (units > (kMostBytes - sum) / unit_bytes) return false;
    sum += units * unit_bytes;
    return true;
  }

  const BackwardPass& pass_;
  const ScheduleOptions& options_;
  bool distributed_;
  Diagnostics errors_;
};

std::vector<Indexes> fill_buckets(const BackwardPass& pass, std::int64_t bucket_bytes) {
  std::vector<Indexes> buckets;
  std::int64_t room = 0;  // in the last bucket
  for (const BackwardPiece& piece : pass.pieces) {
    for (const std::size_t index : piece.ready) {
      if (room <= 0) {
        buckets.emplace_back();
        room = bucket_bytes == 0 ? kMostBytes : bucket_bytes;
      }
      buckets.back().push_back(index);
      const StepTensor& tensor = pass.tensors[index];
      room -= tensor.gradient_bytes * (tensor.plan ? pass.plans[*tensor.plan].sync().max_units() : 1);
    }
  }
  return buckets;
}

// Lists the ops of an input that has been checked.
class OpList {
 public:
  OpList(const BackwardPass& pass, const ScheduleOptions& options, std::span<const Indexes> buckets)
      : pass_(pass),
        options_(options),
        buckets_(buckets),
        degree_(pass.plans.empty() ? 1 : pass.plans.front().compute().degree()),
        distributed_(options.reduction == Reduction::kDistributedOptimizer),
        piece_of_(pass.tensors.size()),
        synced_(buckets.size()) {
    for (std::size_t piece = 0; piece < pass.pieces.size(); ++piece) {
      for (const std::size_t tensor : pass.pieces[piece].ready) piece_of_[tensor] = piece;
    }
  }

  std::vector<StepOp> list() && {
    const bool early = !distributed_ && options_.post_sync == PostSyncStart::kReduced;
    for (std::size_t bucket = 0; bucket < buckets_.size(); ++bucket) {
      const Indexes ready = pre_sync(bucket);
      collective(distributed_ ? OpKind::kReduceScatter : OpKind::kAllReduce, bucket, ready);
      if (early) post_sync(bucket);
    }
    run_backward(pass_.pieces.size());
    if (distributed_) {
      const std::size_t updated = optimizer();
      for (std::size_t bucket = 0; bucket < buckets_.size(); ++bucket) {
        collective(OpKind::kAllGather, bucket, {updated});
      }
    }
    for (std::size_t bucket = 0; bucket < buckets_.size() && !early; ++bucket) post_sync(bucket);
    if (!distributed_) optimizer();
    return std::move(ops_);
  }

 private:
  // The reshards of one direction. In the list, the transfer and the unpack of a chunk follow its pack.
  struct Lane {
    bool post;
    OpKind pack;
    OpKind sync;
    OpKind unpack;
    Indexes packs;

    [[nodiscard]] std::size_t last_unpack() const { return packs.back() + 2; }
  };

  std::size_t push(OpKind kind, const std::string& what, StepOp op, Indexes waits_for) {
    op.kind = kind;
    op.name = name_of(kind);
    if (!what.empty()) op.name.append(" ").append(what);
    std::ranges::sort(waits_for);
    op.waits_for = std::move(waits_for);
    ops_.push_back(std::move(op));
    return ops_.size() - 1;
  }

  // The first `pieces` pieces of the backward pass, as far as they are not listed yet.
  void run_backward(std::size_t pieces) {
    for (std::size_t piece = backward_.size(); piece < pieces; ++piece) {
      StepOp op;
      op.index = piece;
      backward_.push_back(push(OpKind::kBackward, pass_.pieces[piece].name, std::move(op), {}));
    }
  }

  // The ops that complete what the bucket reduces.
  Indexes pre_sync(std::size_t bucket) {
    const std::size_t chunks_before = pre_.packs.size();
    for (const std::span<const std::size_t> tensors : reshards(bucket)) {
      const std::size_t piece = piece_of_[tensors.back()];
      run_backward(piece + 1);
      reshard(pre_, bucket, tensors, {backward_[piece]});
    }
    Indexes last = {backward_[piece_of_[buckets_[bucket].back()]]};
    if (pre_.packs.size() > chunks_before) last.push_back(pre_.last_unpack());
    return last;
  }

  void post_sync(std::size_t bucket) {
    Indexes waits_for = {synced_[bucket]};
    if (!distributed_ && options_.post_sync == PostSyncStart::kAllLaunched) {
      waits_for.push_back(backward_.back());
      if (!pre_.packs.empty()) waits_for.push_back(pre_.last_unpack());
    }
    for (const std::span<const std::size_t> tensors : reshards(bucket)) {
      reshard(post_, bucket, tensors, waits_for);
    }
  }

  std::size_t optimizer() {
    Indexes waits_for;
    if (!synced_.empty()) waits_for.push_back(synced_.back());
    if (!post_.packs.empty()) waits_for.push_back(post_.last_unpack());
    return push(OpKind::kOptimizer, "", {}, std::move(waits_for));
  }

  void collective(OpKind kind, std::size_t bucket, Indexes waits_for) {
    StepOp op;
    op.index = bucket;
    for (const std::size_t index : buckets_[bucket]) {
      const StepTensor& tensor = pass_.tensors[index];
      const std::int64_t bytes = kind == OpKind::kAllGather ? tensor.weight_bytes : tensor.gradient_bytes;
      op.max_sent += bytes * (tensor.plan ? plan_of(index).sync().max_units() : 1);
      op.total_bytes += bytes * (tensor.plan ? plan_of(index).sync().units() : degree_);
    }
    op.max_received = op.max_sent;
    synced_[bucket] = push(kind, bucket_name(bucket), std::move(op), std::move(waits_for));
  }

  // The tensors that each reshard of a bucket carries.
  [[nodiscard]] std::vector<std::span<const std::size_t>> reshards(std::size_t bucket) const {
    const std::span<const std::size_t> all(buckets_[bucket]);
    if (options_.reshard_of == ReshardOf::kBucket) return {all};
    std::vector<std::span<const std::size_t>> single;
    for (std::size_t i = 0; i < all.size(); ++i) single.push_back(all.subspan(i, 1));
    return single;
  }

  void reshard(Lane& lane, std::size_t bucket, std::span<const std::size_t> tensors,
               const Indexes& waits_for) {
    std::vector<std::vector<TensorPart>> chunks = cut(tensors, lane.post);
    const bool of_bucket = options_.reshard_of == ReshardOf::kBucket;
    const std::string all = of_bucket ? bucket_name(bucket) : pass_.tensors[tensors.front()].name;
    for (std::size_t i = 0; i < chunks.size(); ++i) {
      StepOp op;
      op.index = bucket;
      op.parts = std::move(chunks[i]);
      measure(op, lane.post);
      std::string what = all;
      if (chunks.size() > 1) {
        what.append(" chunk ")
            .append(std::to_string(i + 1))
            .append("/")
            .append(std::to_string(chunks.size()));
      }
      push_chunk(lane, what, op, waits_for);
    }
  }

  void push_chunk(Lane& lane, const std::string& what, const StepOp& op, Indexes pack_waits) {
    Indexes sync_waits;
    if (lane.packs.size() >= 2) {  // the staging buffers of the chunk before the last are used again
      const std::size_t before_last = lane.packs[lane.packs.size() - 2];
      pack_waits.push_back(before_last + 1);
      sync_waits.push_back(before_last + 2);
    }
    const std::size_t pack = push(lane.pack, what, op, std::move(pack_waits));
    sync_waits.push_back(pack);
    const std::size_t sync = push(lane.sync, what, op, std::move(sync_waits));
    push(lane.unpack, what, op, {sync});
    lane.packs.push_back(pack);
  }

  // The parts in each chunk of these tensors' reshard: as many as are sure to fit.
  [[nodiscard]] std::vector<std::vector<TensorPart>> cut(std::span<const std::size_t> tensors,
                                                         bool post) const {
    std::vector<std::vector<TensorPart>> chunks;
    std::int64_t room = 0;  // in the last chunk
    for (const std::size_t index : tensors) {
      if (!pass_.tensors[index].plan) continue;
      const std::int64_t unit_bytes = reshard_bytes(pass_.tensors[index], post, options_.reduction);
      const std::int64_t parts = parts_of(plan_of(index), unit_bytes, options_.chunk_bytes);
      for (std::int64_t part = 0; part < parts; ++part) {
        const std::int64_t most = unit_bytes * max_units(plan_of(index).objective(), parts);
        if (most > room) {
          chunks.emplace_back();
          room = options_.chunk_bytes == 0 ? kMostBytes : options_.chunk_bytes;
        }
        chunks.back().push_back({index, part, parts});
        room -= most;
      }
    }
    return chunks;
  }

  void measure(StepOp& op, bool post) const {
    std::vector<std::int64_t> sent(static_cast<std::size_t>(degree_));
    std::vector<std::int64_t> received(sent.size());
    for (const TensorPart& part : op.parts) {
      const std::int64_t unit_bytes = reshard_bytes(pass_.tensors[part.tensor], post, options_.reduction);
      visit_transfers(plan_of(part.tensor), part, post, [&](const Transfer& transfer) {
        const std::int64_t bytes = unit_bytes * transfer.units.size();
        sent[static_cast<std::size_t>(transfer.from)] += bytes;
        received[static_cast<std::size_t>(transfer.to)] += bytes;
        op.total_bytes += bytes;
      });
    }
    op.max_sent = std::ranges::max(sent);
    op.max_received = std::ranges::max(received);
  }

  [[nodiscard]] const SyncPlan& plan_of(std::size_t tensor) const {
    return pass_.plans[*pass_.tensors[tensor].plan];
  }
  static std::string bucket_name(std::size_t bucket) { return "bucket " + std::to_string(bucket); }

  const BackwardPass& pass_;
  const ScheduleOptions& options_;
  std::span<const Indexes> buckets_;
  int degree_;
  bool distributed_;
  Indexes piece_of_;  // tensor -> the piece that completes its gradient
  Indexes backward_;  // piece -> its op
  Indexes synced_;    // bucket -> its last collective so far
  Lane pre_{false, OpKind::kPrePack, OpKind::kPreSync, OpKind::kPreUnpack, {}};
  Lane post_{true, OpKind::kPostPack, OpKind::kPostSync, OpKind::kPostUnpack, {}};
  std::vector<StepOp> ops_;
};

// Phase after phase, and each op after the one before.
void serialize(std::vector<StepOp>& ops) {
  std::ranges::stable_sort(ops, {}, [](const StepOp& op) {
    if (op.kind == OpKind::kBackward) return 0;
    if (op.kind < OpKind::kAllReduce) return 1;
    return op.kind == OpKind::kAllReduce || op.kind == OpKind::kReduceScatter ? 2 : 3;
  });
  for (std::size_t i = 0; i < ops.size(); ++i) {
    ops[i].waits_for.clear();
    if (i > 0 && ops[i - 1].stream() != ops[i].stream()) ops[i].waits_for.push_back(i - 1);
  }
}

}  // namespace

ScheduleOptions ScheduleOptions::upstream() {
  ScheduleOptions options;
  options.post_sync = PostSyncStart::kAllLaunched;
  options.bucket_bytes = 160'000'000;
  return options;
}

ScheduleOptions ScheduleOptions::serial() {
  ScheduleOptions options = upstream();
  options.overlap = false;
  return options;
}

std::string_view name_of(OpKind kind) {
  return kKinds.at(static_cast<std::size_t>(kind)).name;
}

std::string_view name_of(Stream stream) {
  return kStreamNames.at(static_cast<std::size_t>(stream));
}

Stream stream_of(OpKind kind) {
  return kKinds.at(static_cast<std::size_t>(kind)).stream;
}

Result<StepSchedule> StepSchedule::make(BackwardPass pass, const ScheduleOptions& options) {
  Diagnostics errors = Check(pass, options).errors();
  if (errors.has_errors()) return tl::unexpected(std::move(errors));
  StepSchedule schedule(std::move(pass), options);
  schedule.buckets_ = fill_buckets(schedule.pass_, options.bucket_bytes);
  schedule.ops_ = OpList(schedule.pass_, options, schedule.buckets_).list();
  if (!options.overlap) serialize(schedule.ops_);
  return schedule;
}

std::vector<TensorTransfer> StepSchedule::transfers(const StepOp& op) const {
  std::vector<TensorTransfer> transfers;
  for (const TensorPart& part : op.parts) {
    invariant(part.tensor < pass_.tensors.size() && pass_.tensors[part.tensor].plan,
              "an op of this schedule");
    const SyncPlan& plan = pass_.plans[*pass_.tensors[part.tensor].plan];
    visit_transfers(plan, part, op.kind >= OpKind::kPostPack,
                    [&](const Transfer& transfer) { transfers.push_back({part.tensor, transfer}); });
  }
  return transfers;
}

}  // namespace ntpsim::plan
