#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "ntpsim/core/diagnostics.h"
#include "ntpsim/plan/limits.h"

namespace ntpsim::plan {

/// The failed GPU slots of one scale-up domain.
struct FailedDomain {
  std::int64_t domain = 0;
  std::vector<int> slots;

  bool operator==(const FailedDomain&) const = default;
};

/// Which GPUs of a cluster have failed: any slots of any domains. A value; O(failed GPUs) memory.
class FailedGpus {
 public:
  /// `failed` in any order; domains without failed slots are left out. REQUIRES: domains >= 1,
  /// domain_size >= 1; every domain in [0, domains) and named once, every slot in [0, domain_size) and named
  /// once in its domain. O(n log n).
  FailedGpus(std::int64_t domains, int domain_size, std::vector<FailedDomain> failed = {});
  /// The same for arguments that may be wrong. Errors: domain_size outside [1, kMaxDomainSize], a cluster of
  /// more than kMaxGpus, and each domain and slot that is out of range or named more than once.
  [[nodiscard]] static Result<FailedGpus> make(std::int64_t domains, int domain_size,
                                               std::vector<FailedDomain> failed = {});

  [[nodiscard]] std::int64_t domains() const { return domains_; }
  [[nodiscard]] int domain_size() const { return domain_size_; }
  /// Domains with failed GPUs, ascending, each with its failed slots, ascending.
  [[nodiscard]] std::span<const FailedDomain> failed() const { return failed_; }
  /// The failed slots of a domain, ascending. O(log domains with failures).
  /// REQUIRES: 0 <= domain < domains().
  [[nodiscard]] std::span<const int> slots(std::int64_t domain) const;
  /// Healthy GPUs of a domain. As `slots`.
  [[nodiscard]] int healthy(std::int64_t domain) const {
    return domain_size_ - static_cast<int>(slots(domain).size());
  }
  /// Failed GPUs of the cluster.
  [[nodiscard]] std::int64_t count() const { return count_; }

  bool operator==(const FailedGpus&) const = default;

 private:
  std::int64_t domains_;
  int domain_size_;
  std::vector<FailedDomain> failed_;
  std::int64_t count_ = 0;
};

/// Reads what a user types: "domain 3: gpu 4,7; domain 11: gpus 0-3; domain 12: all". Letter case and white
/// space between words and numbers do not matter. Errors name the file "--failed" and say what was found and
/// what was expected: words, numbers out of range, GPUs or domains named more than once, empty entries. A
/// cluster larger than `FailedGpus::make` accepts is an error without a file.
/// O(length * domain_size). REQUIRES: domains >= 1, domain_size >= 1.
[[nodiscard]] Result<FailedGpus> parse_failed_gpus(std::string_view text, std::int64_t domains,
                                                   int domain_size);

}  // namespace ntpsim::plan
