#include "ntpsim/analysis/statistics.h"

#include <algorithm>
#include <cmath>

#include <boost/math/distributions/students_t.hpp>

namespace ntpsim::analysis {

void Accumulator::add(double sample) {
  ++count_;
  const double before = sample - mean_;
  mean_ += before / static_cast<double>(count_);
  squares_ += before * (sample - mean_);
}

double Accumulator::variance() const {
  return count_ < 2 ? 0 : squares_ / static_cast<double>(count_ - 1);
}

std::optional<Interval> Accumulator::interval(double confidence) const {
  if (count_ < 2) return std::nullopt;
  const boost::math::students_t law(static_cast<double>(count_ - 1));
  const double quantile = boost::math::quantile(law, (1 + confidence) / 2);
  const double half = quantile * std::sqrt(variance() / static_cast<double>(count_));
  return Interval{mean_ - half, mean_ + half};
}

Estimate Accumulator::estimate() const {
  constexpr double kConfidence = 0.95;
  return {mean_, interval(kConfidence)};
}

Estimate Accumulator::share_estimate() const {
  Estimate share = estimate();
  if (share.ci95) share.ci95 = Interval{std::max(share.ci95->low, 0.0), std::min(share.ci95->high, 1.0)};
  return share;
}

}  // namespace ntpsim::analysis
