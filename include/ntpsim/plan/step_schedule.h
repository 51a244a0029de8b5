#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ntpsim/core/diagnostics.h"
#include "ntpsim/plan/sync_plan.h"

// What the TP groups of one compute degree do in the backward pass of the last microbatch and in the gradient
// sync after it, and in what order; never how long.
//
// A schedule is a list of ops. Each op has a stream and waits for the ops before it on that stream and for
// those of other streams that it names; nothing else orders it. All ranks of a TP group follow the same list,
// and a rank that an op gives nothing to do is done with it at once.
//
// Every kind of op has a stream of its own, but backward pieces and optimizer share `compute`, and
// collectives share `data_parallel`. So packing one chunk, moving the one before it and unpacking the one
// before that run side by side, and a post-sync that still waits for its reduction holds up no pre-sync. Nor
// do the two compete for ports: extra ranks send before the data-parallel sync and receive after it. In each
// direction a sender needs two staging buffers and a receiver two: a chunk is packed when the transfer before
// the last is over, and moved when what that brought is unpacked.
//
// Buckets depend on sync layouts only, so groups of every compute degree have the same, and their collectives
// meet. A group of the sync degree has no reshard ops.

namespace ntpsim::plan {

/// One tensor of one layer.
struct StepTensor {
  std::string name;
  /// Index of its plan; none for a tensor that no rank cuts (norm, router, latent down projection). Such a
  /// tensor is not resharded: every rank, extra ranks too, reduces its own copy with the same rank of the
  /// other groups. That is right where copies are partial sums over the ranks of a group (sequence
  /// parallelism); adding these up is not part of the schedule.
  std::optional<std::size_t> plan;
  std::int64_t gradient_bytes = 0;  ///< of a unit; of the whole tensor where there is no plan
  std::int64_t weight_bytes = 0;    ///< the same of the weights; used with the distributed optimizer only

  bool operator==(const StepTensor&) const = default;
};

/// A part of the backward pass that runs as a whole: the output layer, a transformer layer, the embedding.
struct BackwardPiece {
  std::string name;
  std::vector<std::size_t> ready;  ///< tensors whose gradients it completes, in this order

  bool operator==(const BackwardPiece&) const = default;
};

struct BackwardPass {
  std::vector<SyncPlan> plans;  ///< of the same degrees; tensors of the same shape share one
  std::vector<StepTensor> tensors;
  std::vector<BackwardPiece> pieces;  ///< in the order they run: the output layer first

  bool operator==(const BackwardPass&) const = default;
};

/// What one reshard carries.
enum class ReshardOf : unsigned char {
  kTensor,  ///< one tensor, as soon as its gradient is complete; and back, one by one
  kBucket,  ///< all tensors of a bucket
};

/// When synced gradients go back to the extra ranks.
enum class PostSyncStart : unsigned char {
  kReduced,      ///< as soon as their bucket is reduced
  kAllLaunched,  ///< as before, and not before the last bucket's reduction is launched: that is, all of the
                 ///< backward pass and the last pre-sync are over
};

enum class Reduction : unsigned char {
  kAllReduce,  ///< of gradients; their post-sync; then the optimizer
  /// Reduce-scatter of gradients; optimizer; all-gather of weights; their post-sync. `PostSyncStart` makes no
  /// difference: gathers all wait for the optimizer, and for nothing else.
  kDistributedOptimizer,
};

struct ScheduleOptions {
  ReshardOf reshard_of = ReshardOf::kTensor;
  PostSyncStart post_sync = PostSyncStart::kReduced;
  Reduction reduction = Reduction::kAllReduce;
  /// Tensors are put into buckets in the order of their gradients. A bucket is complete when the gradients
  /// that the fullest core rank reduces in it reach so many bytes. 0: a single bucket.
  std::int64_t bucket_bytes = 0;
  /// A reshard is cut between units into chunks of which no rank sends or receives more than this, unless a
  /// single unit is more. 0: not cut.
  std::int64_t chunk_bytes = 0;
  /// false: phase after phase (backward pass, pre-syncs, reductions, post-syncs), each op after the one
  /// before.
  bool overlap = true;

  /// Megatron Core's nonuniform TP: a reshard per tensor, post-syncs when all reductions are launched, whole
  /// reshards; buckets of 40 million FP32 gradients, the least that Megatron takes.
  [[nodiscard]] static ScheduleOptions upstream();
  /// The ops of `upstream`, none beside another.
  [[nodiscard]] static ScheduleOptions serial();

  bool operator==(const ScheduleOptions&) const = default;
};

enum class OpKind : unsigned char {
  kBackward,       ///< one piece
  kPrePack,        ///< extra ranks copy gradients to where they are sent from
  kPreSync,        ///< extra ranks send gradients to core ranks
  kPreUnpack,      ///< core ranks copy them into their sync shards
  kAllReduce,      ///< of one bucket's gradients, over the same rank of all groups
  kReduceScatter,  ///< the same
  kOptimizer,      ///< once, on all weights
  kAllGather,      ///< of one bucket's weights, over the same rank of all groups
  kPostPack,       ///< core ranks copy what extra ranks lack: synced gradients, or weights
  kPostSync,       ///< core ranks send it
  kPostUnpack,     ///< extra ranks copy it to its place
};

enum class Stream : unsigned char {
  kCompute,
  kDataParallel,
  kPrePack,
  kPreSync,
  kPreUnpack,
  kPostPack,
  kPostSync,
  kPostUnpack,
};

/// "pre_sync"
[[nodiscard]] std::string_view name_of(OpKind kind);
/// "data_parallel"
[[nodiscard]] std::string_view name_of(Stream stream);
[[nodiscard]] Stream stream_of(OpKind kind);

/// One of `parts` parts of a tensor's reshard, as even as whole units allow: it has a share of what each rank
/// sends and receives, so all ranks are busy in every part.
struct TensorPart {
  std::size_t tensor = 0;
  std::int64_t part = 0;
  std::int64_t parts = 1;

  bool operator==(const TensorPart&) const = default;
};

/// Where packs and unpacks are not needed (contiguous units), they may do nothing.
struct StepOp {
  OpKind kind = OpKind::kBackward;
  std::string name;                    ///< "pre_sync layers.12.mlp.fc1 chunk 2/5", "all_reduce bucket 3"
  std::size_t index = 0;               ///< of the piece (backward), else of the bucket; 0 for the optimizer
  std::vector<TensorPart> parts;       ///< what a pack, reshard or unpack works on; else empty
  std::vector<std::size_t> waits_for;  ///< ops of other streams, all of them earlier in the list; ascending

  /// The most that a rank sends and receives: a pack copies what is sent, an unpack what is received. For a
  /// collective both are the fullest rank's buffer, for backward pieces and optimizer 0.
  std::int64_t max_sent = 0;
  std::int64_t max_received = 0;
  std::int64_t total_bytes = 0;  ///< over the ranks of the TP group

  [[nodiscard]] Stream stream() const { return stream_of(kind); }
  bool operator==(const StepOp&) const = default;
};

/// Units of a tensor that one rank sends to another.
struct TensorTransfer {
  std::size_t tensor = 0;
  Transfer transfer;

  bool operator==(const TensorTransfer&) const = default;
};

/// A value: the same input gives the same schedule.
class StepSchedule {
 public:
  /// Errors: a plan of other degrees than the first; a plan or tensor index out of range; a tensor that is
  /// not completed exactly once; bytes of a unit below 1 (of weights only if used); a negative option; bytes
  /// in all beyond 64 bits; 200,000 chunks or more; more than 2^28 tensors and chunks times degree. O(parts *
  /// transfers of a plan + ops * degree).
  [[nodiscard]] static Result<StepSchedule> make(BackwardPass pass, const ScheduleOptions& options);

  [[nodiscard]] const BackwardPass& pass() const { return pass_; }
  [[nodiscard]] const ScheduleOptions& options() const { return options_; }
  /// The tensors of each bucket, in the order of their gradients.
  [[nodiscard]] std::span<const std::vector<std::size_t>> buckets() const { return buckets_; }
  /// In the order of launch on every stream.
  [[nodiscard]] std::span<const StepOp> ops() const { return ops_; }

  /// What goes from rank to rank in a pack, reshard or unpack, in the order of its parts; none for other
  /// kinds. Pack, transfer and unpack of a chunk agree. REQUIRES: an op of this schedule.
  [[nodiscard]] std::vector<TensorTransfer> transfers(const StepOp& op) const;

  bool operator==(const StepSchedule&) const = default;

 private:
  StepSchedule(BackwardPass pass, const ScheduleOptions& options)
      : pass_(std::move(pass)), options_(options) {}

  BackwardPass pass_;
  ScheduleOptions options_;
  std::vector<std::vector<std::size_t>> buckets_;
  std::vector<StepOp> ops_;
};

}  // namespace ntpsim::plan
