#include "ntpsim/models/distribution.h"

#include <cmath>
#include <string>
#include <vector>

#include <doctest/doctest.h>

namespace {

using ntpsim::models::Distribution;
using Family = Distribution::Family;

std::vector<Distribution> examples() {
  return {{Family::kConstant, 5},     {Family::kExponential, 2},    {Family::kWeibull, 100, 0.8},
          {Family::kWeibull, 100, 2}, {Family::kLognormal, 7, 0.3}, {Family::kLognormal, 7, 1.5},
          {Family::kGamma, 3, 0.5},   {Family::kGamma, 3, 4}};
}

// Midpoint rule over the quantiles.
double mean_of_quantiles(const Distribution& distribution) {
  constexpr int kSteps = 400'000;
  double sum = 0;
  for (int i = 0; i < kSteps; ++i) sum += distribution.quantile_s((i + 0.5) / kSteps);
  return sum / kSteps;
}

// The distribution function by bisection of the quantile function.
double cdf(const Distribution& distribution, double x) {
  double low = 0;
  double high = 1;
  for (int i = 0; i < 60; ++i) {
    const double u = (low + high) / 2;
    if (u <= 0 || u >= 1) break;
    (distribution.quantile_s(u) <= x ? low : high) = u;
  }
  return low;
}

TEST_CASE("the mean of a distribution is the one it was made with") {
  for (const Distribution& distribution : examples()) {
    CAPTURE(std::string(info_of(distribution.family()).name));
    CAPTURE(distribution.shape());
    CHECK(mean_of_quantiles(distribution) == doctest::Approx(distribution.mean_s()).epsilon(2e-3));
  }
}

TEST_CASE("known quantiles") {
  CHECK(Distribution(Family::kExponential, 2).quantile_s(0.5) == doctest::Approx(2 * std::log(2.0)));
  // Weibull with shape 1 is exponential; gamma with shape 1 too.
  for (const double u : {0.01, 0.3, 0.99}) {
    const double exponential = Distribution(Family::kExponential, 9).quantile_s(u);
    CHECK(Distribution(Family::kWeibull, 9, 1).quantile_s(u) == doctest::Approx(exponential));
    CHECK(Distribution(Family::kGamma, 9, 1).quantile_s(u) == doctest::Approx(exponential));
  }
  // The median of a lognormal is exp(mu) = mean * exp(-sigma^2 / 2).
  CHECK(Distribution(Family::kLognormal, 7, 1.5).quantile_s(0.5) == doctest::Approx(7 * std::exp(-1.125)));
  CHECK(Distribution(Family::kConstant, 4).quantile_s(0.123) == 4);
}

TEST_CASE("the residual law is the integral of the survival function over the mean") {
  for (const Distribution& distribution : examples()) {
    if (distribution.family() == Family::kConstant) continue;  // its quantile function has no inverse
    CAPTURE(std::string(info_of(distribution.family()).name));
    CAPTURE(distribution.shape());
    for (const double factor : {0.1, 0.7, 2.0}) {
      const double end = factor * distribution.mean_s();
      constexpr int kSteps = 2000;
      double integral = 0;
      for (int i = 0; i < kSteps; ++i) integral += 1 - cdf(distribution, (i + 0.5) / kSteps * end);
      integral *= end / kSteps / distribution.mean_s();
      CHECK(distribution.residual_cdf(end) == doctest::Approx(integral).epsilon(2e-3));
    }
  }
}

TEST_CASE("the residual quantile inverts the residual law") {
  for (const Distribution& distribution : examples()) {
    CAPTURE(std::string(info_of(distribution.family()).name));
    for (const double u : {1e-9, 1e-3, 0.2, 0.5, 0.9, 0.9999}) {
      const double x = distribution.residual_quantile_s(u);
      CHECK(x > 0);
      CHECK(distribution.residual_cdf(x) == doctest::Approx(u).epsilon(1e-6));
    }
    CHECK(distribution.residual_cdf(0) == 0);
    CHECK(distribution.residual_cdf(-1) == 0);
    CHECK(distribution.residual_cdf(1e12) == doctest::Approx(1));
  }
}

TEST_CASE("families are found by name") {
  CHECK(ntpsim::models::find_family("weibull") == Family::kWeibull);
  CHECK_FALSE(ntpsim::models::find_family("Weibull").has_value());
  for (const auto& info : ntpsim::models::distribution_families()) {
    CHECK(ntpsim::models::find_family(info.name) == info.family);
    CHECK_FALSE(info.description.empty());
  }
}

}  // namespace
