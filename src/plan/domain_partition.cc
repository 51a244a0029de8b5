#include "ntpsim/plan/domain_partition.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

#include "ntpsim/core/invariant.h"

#include "errors.h"

namespace ntpsim::plan {
namespace {

std::size_t at(int index) {
  return static_cast<std::size_t>(index);
}

std::vector<ReducedDegree> in_proportion(std::span<const int> degrees, int tp_degree) {
  std::vector<ReducedDegree> reduced;
  for (const int degree : degrees) {
    reduced.push_back({degree, static_cast<double>(degree) / static_cast<double>(tp_degree)});
  }
  return reduced;
}

std::string text(double value) {
  std::array<char, 32> digits{};
  return {digits.data(), std::to_chars(digits.begin(), digits.end(), value).ptr};
}

Diagnostics errors_of(int domain_size, int tp_degree, std::span<const ReducedDegree> reduced) {
  Diagnostics errors;
  const bool some = check_range(errors, "domain_size", domain_size, 1, kMaxDomainSize);
  const int most = some ? domain_size : kMaxDomainSize;
  const bool fits = check_range(errors, "tp_degree", tp_degree, 1, most, some ? "the domain_size" : "");
  if (!fits) tp_degree = most;
  ReducedDegree last = {tp_degree, 1};
  for (std::size_t i = 0; i < reduced.size(); ++i) {
    const std::string name = "reduced degree " + std::to_string(i);
    const auto& [degree, value] = reduced[i];
    if (degree >= 1 && degree < last.degree) {
      last.degree = degree;
    } else {
      add_error(errors, name + ": found " + std::to_string(degree) +
                            ", expected at least 1 and less than the degree before it, " +
                            std::to_string(last.degree));
    }
    if (value >= 0 && value <= last.value) {
      last.value = value;
    } else {
      add_error(errors, name + ": found a value of " + text(value) + ", expected 0 to " + text(last.value));
    }
  }
  return errors;
}

/// What some groups are worth together.
struct Worth {
  double value = 0;
  std::int64_t unevenness = 0;  ///< sum of squared GPUs missing to whole groups

  [[nodiscard]] bool better_than(const Worth& other) const {
    constexpr double kSame = 1e-9;  // above the rounding of a sum of shares, below any real difference
    if (value > other.value + kSame) return true;
    return value > other.value - kSame && unevenness < other.unevenness;
  }
};

/// The best groups for each number of GPUs, found with one group more at a time.
class BestCuts {
 public:
  BestCuts(int domain_size, int tp_degree, std::span<const ReducedDegree> reduced) {
    choices_.push_back({tp_degree, 1});
    choices_.insert(choices_.end(), reduced.begin(), reduced.end());
    best_.assign(at(domain_size) + 1, {.worth = {}, .counts = std::vector<int>(choices_.size())});
    for (int groups = 0; groups < domain_size / tp_degree; ++groups) add_group(tp_degree);
  }

  [[nodiscard]] std::vector<GroupRun> groups(int gpus) const {
    std::vector<GroupRun> runs;
    for (std::size_t i = 0; i < choices_.size(); ++i) {
      const int count = best_[at(gpus)].counts[i];
      if (count > 0) runs.push_back({choices_[i].degree, count});
    }
    return runs;
  }

 private:
  struct Cut {
    Worth worth;
    std::vector<int> counts;  // by choice
  };

  void add_group(int tp_degree) {
    const std::vector<Cut> fewer = best_;
    for (int gpus = 0; gpus < static_cast<int>(best_.size()); ++gpus) {
      Cut& best = best_[at(gpus)];
      std::size_t added = choices_.size();
      for (std::size_t i = 0; i < choices_.size(); ++i) {
        const int degree = choices_[i].degree;
        if (degree > gpus) continue;
        Worth worth = fewer[at(gpus - degree)].worth;
        worth.value += choices_[i].value;
        worth.unevenness += std::int64_t{tp_degree - degree} * (tp_degree - degree);
        if (!worth.better_than(best.worth)) continue;
        best.worth = worth;
        added = i;
      }
      if (added == choices_.size()) continue;
      best.counts = fewer[at(gpus - choices_[added].degree)].counts;
      ++best.counts[added];
    }
  }

  std::vector<ReducedDegree> choices_;  // the full degree first
  std::vector<Cut> best_;               // by GPUs
};

}  // namespace

DomainPartition::DomainPartition(int domain_size, int tp_degree, std::span<const ReducedDegree> reduced)
    : domain_size_(domain_size),
      tp_degree_(tp_degree),
      reduced_(reduced.begin(), reduced.end()),
      degrees_{tp_degree} {
  invariant(tp_degree >= 1 && tp_degree <= domain_size, "a TP group fits into a domain");
  double value = 1;
  for (const ReducedDegree& each : reduced_) {
    invariant(each.degree >= 1 && each.degree < degrees_.back(),
              "reduced degrees descend from below the TP degree");
    invariant(each.value >= 0 && each.value <= value, "a group of fewer GPUs is not worth more");
    degrees_.push_back(each.degree);
    value = each.value;
  }
  const BestCuts cuts(domain_size, tp_degree, reduced_);
  for (int healthy = 0; healthy <= domain_size; ++healthy) groups_.push_back(cuts.groups(healthy));
}

DomainPartition::DomainPartition(int domain_size, int tp_degree, std::span<const int> reduced_degrees)
    : DomainPartition(domain_size, tp_degree, in_proportion(reduced_degrees, tp_degree)) {}

Result<DomainPartition> DomainPartition::make(int domain_size, int tp_degree,
                                              std::span<const ReducedDegree> reduced) {
  Diagnostics errors = errors_of(domain_size, tp_degree, reduced);
  if (errors.has_errors()) return tl::unexpected(std::move(errors));
  return DomainPartition(domain_size, tp_degree, reduced);
}

Result<DomainPartition> DomainPartition::make(int domain_size, int tp_degree,
                                              std::span<const int> reduced_degrees) {
  std::vector<ReducedDegree> reduced;
  for (const int degree : reduced_degrees) reduced.push_back({degree, 0});
  Diagnostics errors = errors_of(domain_size, tp_degree, reduced);
  if (errors.has_errors()) return tl::unexpected(std::move(errors));
  return DomainPartition(domain_size, tp_degree, reduced_degrees);
}

}  // namespace ntpsim::plan
