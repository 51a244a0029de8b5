#include "ntpsim/core/nearest.h"

#include <array>
#include <optional>
#include <string>
#include <string_view>

#include <doctest/doctest.h>

namespace ntpsim {
namespace {

constexpr std::array<std::string_view, 6> kPolicies = {
    "dp_drop", "checkpoint_restart", "hot_spares", "ntp", "ntp_pw", "horizon"};

std::optional<std::string_view> nearest_policy(std::string_view name) {
  return nearest_name(name, kPolicies);
}

TEST_CASE("an exact name is its own nearest") {
  for (const std::string_view name : kPolicies) CHECK(nearest_policy(name) == name);
}

TEST_CASE("one slip of each kind finds the name meant") {
  CHECK(nearest_policy("dp_dropp") == "dp_drop");  // insertion
  CHECK(nearest_policy("dp_dop") == "dp_drop");    // deletion
  CHECK(nearest_policy("dp_drip") == "dp_drop");   // substitution
  CHECK(nearest_policy("dp_drpo") == "dp_drop");   // swap of neighbours
  CHECK(nearest_policy("DP_DROP") == "dp_drop");   // letter case
  CHECK(nearest_policy("hot-spares") == "hot_spares");
  CHECK(nearest_policy("checkpoint-restarts") == "checkpoint_restart");
}

TEST_CASE("a swap of neighbours is one slip, not two") {
  constexpr std::array<std::string_view, 2> kCandidates = {"abxy", "ba"};
  // "ab" is one swap from "ba" and two insertions from "abxy".
  CHECK(nearest_name("ab", kCandidates) == "ba");
}

TEST_CASE("a name far from all candidates has no nearest") {
  CHECK_FALSE(nearest_policy("quantum").has_value());
  CHECK_FALSE(nearest_policy("x").has_value());
  CHECK_FALSE(nearest_policy("").has_value());
  CHECK_FALSE(nearest_name("ntp", {}).has_value());
}

TEST_CASE("nothing in common is no slip, however short the names are") {
  constexpr std::array<std::string_view, 1> kCandidates = {"ab"};
  CHECK_FALSE(nearest_name("xy", kCandidates).has_value());
}

TEST_CASE("the nearer candidate wins, the earlier one on a tie") {
  constexpr std::array<std::string_view, 3> kCandidates = {"gpus", "gpu", "gpux"};
  CHECK(nearest_name("gpu", kCandidates) == "gpu");
  CHECK(nearest_name("gpuz", kCandidates) == "gpus");
  constexpr std::array<std::string_view, 2> kReversed = {"gpux", "gpus"};
  CHECK(nearest_name("gpuz", kReversed) == "gpux");
}

TEST_CASE("a longer name may hold more slips") {
  constexpr std::array<std::string_view, 1> kCandidates = {"tensor_model_parallel_size"};
  CHECK(nearest_name("tensor_parallel_size", kCandidates) == "tensor_model_parallel_size");
  CHECK_FALSE(nearest_name("size", kCandidates).has_value());
}

TEST_CASE("a name longer than any key is compared with nothing") {
  CHECK_FALSE(nearest_policy(std::string(100'000, 'n')).has_value());
}

}  // namespace
}  // namespace ntpsim
