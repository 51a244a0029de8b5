#pragma once

#include <cstdint>
#include <optional>

namespace ntpsim::analysis {

struct Interval {
  double low = 0;
  double high = 0;
};

/// A mean over independent replications, and where the true mean lies with 95% confidence.
struct Estimate {
  double mean = 0;
  std::optional<Interval> ci95;  ///< absent for a single replication: it says nothing about its own spread
};

/// Mean and variance of samples as they come (Welford's recurrence). The order of adding matters in the last
/// bits, so add in replication order.
class Accumulator {
 public:
  void add(double sample);

  [[nodiscard]] std::int64_t count() const { return count_; }
  [[nodiscard]] double mean() const { return mean_; }
  /// Unbiased; 0 for fewer than two samples.
  [[nodiscard]] double variance() const;
  /// Student's t interval of the mean at this confidence, e.g. 0.95; nothing for fewer than two samples.
  [[nodiscard]] std::optional<Interval> interval(double confidence) const;
  [[nodiscard]] Estimate estimate() const;
  /// The same for a share: the interval is cut to [0, 1], outside of which no share lies.
  [[nodiscard]] Estimate share_estimate() const;

 private:
  std::int64_t count_ = 0;
  double mean_ = 0;
  double squares_ = 0;  // sum of squared deviations
};

}  // namespace ntpsim::analysis
