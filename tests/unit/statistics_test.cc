#include "ntpsim/analysis/statistics.h"

#include <cmath>

#include <doctest/doctest.h>

namespace {

using ntpsim::analysis::Accumulator;

TEST_CASE("mean, variance and Student's interval of a small sample") {
  Accumulator accumulator;
  for (const double sample : {2.0, 4.0, 4.0, 4.0, 5.0, 5.0, 7.0, 9.0}) accumulator.add(sample);
  CHECK(accumulator.mean() == doctest::Approx(5));
  CHECK(accumulator.variance() == doctest::Approx(32.0 / 7));
  const auto estimate = accumulator.estimate();
  REQUIRE(estimate.ci95.has_value());
  // t(0.975, 7 degrees of freedom) = 2.364624
  const double half = 2.364624 * std::sqrt(32.0 / 7 / 8);
  CHECK(estimate.ci95->low == doctest::Approx(5 - half));
  CHECK(estimate.ci95->high == doctest::Approx(5 + half));
}

TEST_CASE("one sample has no interval") {
  Accumulator accumulator;
  accumulator.add(3);
  CHECK(accumulator.estimate().mean == 3);
  CHECK_FALSE(accumulator.estimate().ci95.has_value());
  CHECK(accumulator.variance() == 0);
}

TEST_CASE("a large offset does not drown the variance") {
  Accumulator accumulator;
  for (int i = 0; i < 1000; ++i) accumulator.add(1e9 + (i % 2));
  CHECK(accumulator.variance() == doctest::Approx(0.25 * 1000 / 999).epsilon(1e-6));
}

}  // namespace
