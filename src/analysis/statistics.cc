#include "ntpsim/analysis/statistics.h"

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

}  // namespace ntpsim::analysis
