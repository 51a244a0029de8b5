#include "ntpsim/models/distribution.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>

#include <boost/math/distributions/normal.hpp>
#include <boost/math/special_functions/gamma.hpp>
#include <boost/math/tools/roots.hpp>

#include "ntpsim/core/invariant.h"

namespace ntpsim::models {
namespace {

using Family = Distribution::Family;

constexpr std::array kFamilies = {
    FamilyInfo{Family::kConstant, "constant", "", "always exactly the mean"},
    FamilyInfo{Family::kExponential, "exponential", "",
               "memoryless: the failure rate does not depend on age"},
    FamilyInfo{Family::kWeibull, "weibull", "shape",
               "shape below 1: infant mortality; above 1: wear-out; 1: exponential"},
    FamilyInfo{Family::kLognormal, "lognormal", "sigma",
               "the logarithm is normal with standard deviation sigma: long repairs"},
    FamilyInfo{Family::kGamma, "gamma", "shape", "sum of shape exponential stages"},
};

double normal_cdf(double z) {
  return boost::math::cdf(boost::math::normal(), z);
}

double scale_of(Family family, double mean_s, double shape) {
  switch (family) {
    case Family::kWeibull:
      return mean_s / std::tgamma(1 + 1 / shape);
    case Family::kGamma:
      return mean_s / shape;
    case Family::kLognormal:
      return mean_s * std::exp(-shape * shape / 2);
    case Family::kConstant:
    case Family::kExponential:
      return mean_s;
  }
  invariant_broken("every family has a scale", std::source_location::current());
}

// F_e(x) = (x S(x) + integral of t f(t) from 0 to x) / mean; the integral over the mean is the distribution
// function of the length-biased law, which is gamma with shape k+1 and lognormal with mu + sigma^2.
double gamma_residual_cdf(double x, double shape, double scale) {
  const double y = x / scale;
  return y / shape * boost::math::gamma_q(shape, y) + boost::math::gamma_p(shape + 1, y);
}

double lognormal_residual_cdf(double x, double mean, double sigma, double median) {
  const double z = std::log(x / median) / sigma;
  return x / mean * normal_cdf(-z) + normal_cdf(z - sigma);
}

}  // namespace

Distribution::Distribution(Family family, double mean_s, double shape)
    : family_(family),
      mean_s_(mean_s),
      shape_(info_of(family).shape_parameter.empty() ? 1 : shape),
      scale_(scale_of(family, mean_s, shape_)) {
  invariant(std::isfinite(mean_s) && mean_s > 0, "a distribution has a positive mean");
  invariant(std::isfinite(shape_) && shape_ > 0, "a distribution has a positive shape");
}

double Distribution::quantile_s(double u) const {
  switch (family_) {
    case Family::kConstant:
      return mean_s_;
    case Family::kExponential:
      return -mean_s_ * std::log1p(-u);
    case Family::kWeibull:
      return scale_ * std::pow(-std::log1p(-u), 1 / shape_);
    case Family::kLognormal:
      return scale_ * std::exp(shape_ * boost::math::quantile(boost::math::normal(), u));
    case Family::kGamma:
      return scale_ * boost::math::gamma_p_inv(shape_, u);
  }
  invariant_broken("every family has a quantile", std::source_location::current());
}

double Distribution::residual_cdf(double span_s) const {
  if (span_s <= 0) return 0;
  switch (family_) {
    case Family::kConstant:
      return std::min(1.0, span_s / mean_s_);
    case Family::kExponential:
      return -std::expm1(-span_s / mean_s_);
    case Family::kWeibull:
      // Substituting t = (x / scale)^k turns the integral of exp(-t) into an incomplete gamma function.
      return boost::math::gamma_p(1 / shape_, std::pow(span_s / scale_, shape_));
    case Family::kLognormal:
      return lognormal_residual_cdf(span_s, mean_s_, shape_, scale_);
    case Family::kGamma:
      return gamma_residual_cdf(span_s, shape_, scale_);
  }
  invariant_broken("every family has a residual law", std::source_location::current());
}

double Distribution::residual_quantile_s(double u) const {
  switch (family_) {
    case Family::kConstant:
      return u * mean_s_;
    case Family::kExponential:
      return quantile_s(u);
    case Family::kWeibull:
      return scale_ * std::pow(boost::math::gamma_p_inv(1 / shape_, u), 1 / shape_);
    case Family::kLognormal:
    case Family::kGamma:
      break;
  }
  // No closed inverse: bracket the root, starting at the mean, and let TOMS 748 close in.
  const auto error = [this, u](double x) { return residual_cdf(x) - u; };
  constexpr double kGrow = 2;
  constexpr int kBits = 48;
  std::uintmax_t iterations = 200;
  const auto [low, high] = boost::math::tools::bracket_and_solve_root(
      error, mean_s_ * u, kGrow, true, boost::math::tools::eps_tolerance<double>(kBits), iterations);
  return (low + high) / 2;
}

std::span<const FamilyInfo> distribution_families() {
  return kFamilies;
}

const FamilyInfo& info_of(Distribution::Family family) {
  const auto* const info = std::ranges::find(kFamilies, family, &FamilyInfo::family);
  invariant(info != kFamilies.end(), "every family is in the table");
  return *info;
}

std::optional<Distribution::Family> find_family(std::string_view name) {
  const auto* const info = std::ranges::find(kFamilies, name, &FamilyInfo::name);
  if (info == kFamilies.end()) return std::nullopt;
  return info->family;
}

}  // namespace ntpsim::models
