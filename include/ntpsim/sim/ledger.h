#pragma once

#include <array>
#include <cstddef>
#include <string_view>

#include "ntpsim/core/time.h"

namespace ntpsim::sim {

/// Where the time of a job goes. Every nanosecond of the horizon is in exactly one of them.
enum class Category : unsigned char {
  kGoodput,           ///< useful training at the healthy job's rate
  kCheckpointSave,    ///< training stands still for a save
  kWastedProgress,    ///< training that was lost and has to be done again
  kInfrastructure,    ///< detection and scheduling
  kProgramStartup,    ///< process start, NCCL init, model build
  kRestore,           ///< a checkpoint is loaded
  kSliceDown,         ///< state is moved to its owners in a smaller job
  kScaleUp,           ///< state is moved to its owners in a larger job
  kReinitialization,  ///< communicators are rebuilt
  kDegradedTp,        ///< the share of training that replicas at a reduced TP degree do not do
  kDroppedReplicas,   ///< the share of training that replicas left out do not do
  kStragglerWait,     ///< the share of training that waiting for the slowest replica costs
  kPaused,            ///< no configuration of the job can run
};
inline constexpr std::size_t kCategories = static_cast<std::size_t>(Category::kPaused) + 1;

/// The name in results: the BadputType of ml-goodput-measurement where it has one.
[[nodiscard]] std::string_view name_of(Category category);

/// Time by category. The sum is kept exactly.
class Ledger {
 public:
  void add(Category category, Time span) { at(category) += span; }
  /// Moves time that turned out to belong elsewhere. REQUIRES: `from` holds at least `span`.
  void move(Category from, Category to, Time span);

  [[nodiscard]] Time operator[](Category category) const {
    return spans_[static_cast<std::size_t>(category)];
  }
  [[nodiscard]] Time total() const;

 private:
  Time& at(Category category) { return spans_[static_cast<std::size_t>(category)]; }
  std::array<Time, kCategories> spans_{};
};

}  // namespace ntpsim::sim
