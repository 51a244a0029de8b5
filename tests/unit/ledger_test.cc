#include "ntpsim/sim/ledger.h"

#include <set>
#include <string>

#include <doctest/doctest.h>

namespace {

using ntpsim::Time;
using ntpsim::sim::Category;
using ntpsim::sim::Ledger;

TEST_CASE("time is moved, never lost") {
  Ledger ledger;
  ledger.add(Category::kGoodput, Time::from_ns(10));
  ledger.add(Category::kPaused, Time::from_ns(7));
  ledger.move(Category::kGoodput, Category::kWastedProgress, Time::from_ns(4));
  CHECK(ledger[Category::kGoodput] == Time::from_ns(6));
  CHECK(ledger[Category::kWastedProgress] == Time::from_ns(4));
  CHECK(ledger[Category::kPaused] == Time::from_ns(7));
  CHECK(ledger[Category::kRestore] == Time());
  CHECK(ledger.total() == Time::from_ns(17));
}

TEST_CASE("every category has a name of its own") {
  std::set<std::string> names;
  for (std::size_t i = 0; i < ntpsim::sim::kCategories; ++i) {
    names.emplace(ntpsim::sim::name_of(static_cast<Category>(i)));
  }
  CHECK(names.size() == ntpsim::sim::kCategories);
  CHECK(names.contains("WASTED_PROGRESS_FROM_DISRUPTION"));
  CHECK(names.contains("degraded_tp"));
}

}  // namespace
