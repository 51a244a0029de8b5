#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

namespace ntpsim::models {

/// A distribution of positive spans in seconds: lifetimes and repair times. Parametrised by its mean, since
/// that is what operators measure, and by one shape parameter where the family has one.
class Distribution {
 public:
  enum class Family : unsigned char { kConstant, kExponential, kWeibull, kLognormal, kGamma };

  /// REQUIRES: mean_s finite and > 0; shape > 0 (ignored by families without one).
  Distribution(Family family, double mean_s, double shape = 1);

  [[nodiscard]] Family family() const { return family_; }
  [[nodiscard]] double mean_s() const { return mean_s_; }
  /// Weibull and gamma: the shape k; lognormal: sigma of the logarithm; otherwise 1.
  [[nodiscard]] double shape() const { return shape_; }

  /// The span that a fraction `u` of all spans does not exceed. REQUIRES: 0 < u < 1.
  [[nodiscard]] double quantile_s(double u) const;

  /// Probability that a unit observed at a random moment of its life (a renewal process in its stationary
  /// state) has at most `span_s` left: F_e(x) = 1/mean * integral of the survival function from 0 to x (Cox,
  /// Renewal Theory, 1962).
  [[nodiscard]] double residual_cdf(double span_s) const;
  /// Inverse of `residual_cdf`. REQUIRES: 0 < u < 1.
  [[nodiscard]] double residual_quantile_s(double u) const;

  bool operator==(const Distribution&) const = default;

 private:
  Family family_;
  double mean_s_;
  double shape_;
  double scale_;  // Weibull and gamma: theta; lognormal: exp(mu); otherwise the mean
};

/// What users need to know of a family.
struct FamilyInfo {
  Distribution::Family family;
  std::string_view name;             ///< in scenarios: "weibull"
  std::string_view shape_parameter;  ///< key of its shape parameter in scenarios; empty when it has none
  std::string_view description;
};

[[nodiscard]] std::span<const FamilyInfo> distribution_families();
[[nodiscard]] const FamilyInfo& info_of(Distribution::Family family);
/// The family with this name, or nothing.
[[nodiscard]] std::optional<Distribution::Family> find_family(std::string_view name);

}  // namespace ntpsim::models
