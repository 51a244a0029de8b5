#include <algorithm>
#include <array>
#include <cmath>
#include <fstream>
#include <optional>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "ntpsim/models/collective_cost.h"
#include "ntpsim/models/hardware.h"

// Collectives against published nccl-tests runs (shared/data/collectives). The ceilings and latencies of a
// generation were read off these very runs, so this says how far so few of them go, not how the model does
// on runs that it has not seen.

namespace ntpsim::models {
namespace {

constexpr double kMebi = 1024 * 1024;
constexpr double kGibi = 1024 * kMebi;

using Row = std::vector<std::string>;

std::optional<std::ifstream> open(const std::string& name) {
  std::ifstream file(NTPSIM_SHARED_DATA "/collectives/" + name);
  if (file) return file;
  MESSAGE("SKIPPED: no collectives/", name, " under " NTPSIM_SHARED_DATA "; nothing was validated");
  return std::nullopt;
}

/// Without the header; a missing last cell is empty.
std::vector<Row> rows_of(std::istream& file, std::size_t columns) {
  std::vector<Row> rows;
  std::string line;
  std::getline(file, line);
  while (std::getline(file, line)) {
    std::istringstream cells(line);
    Row& row = rows.emplace_back(columns);
    for (std::string& cell : row) std::getline(cells, cell, ',');
  }
  return rows;
}

CollectiveCost cost_of(std::string_view system) {
  const SystemSpec* found = find_system(system);
  REQUIRE(found != nullptr);
  return CollectiveCost(*found);
}

double real(std::int64_t value) {
  return static_cast<double>(value);
}

double all_reduce_bus_gb_s(const CollectiveCost& cost, double bytes, GroupSpan span) {
  return 2 * (real(span.size) - 1) / real(span.size) * bytes / cost.all_reduce_s(bytes, span) / 1e9;
}

/// Prints rows and sums up their errors.
class Table {
 public:
  explicit Table(std::string_view title) { text_ = fmt::format("{}\n", title); }

  /// The error: bandwidth modelled over measured, less one.
  double add(std::string_view what, double bytes, double measured, double modelled) {
    const double error = modelled / measured - 1;
    text_ += fmt::format("  {:>20} {:>7.0f} MiB {:>8.1f} GB/s, modelled {:>8.1f} {:>+6.1f}%\n", what,
                         bytes / kMebi, measured, modelled, 100 * error);
    sum_ += std::abs(error);
    max_ = std::max(max_, std::abs(error));
    ++count_;
    return error;
  }

  void print() const {
    MESSAGE(text_, fmt::format("  {} rows: error at most {:.1f}%, mean {:.1f}%", count_, 100 * max_,
                               100 * sum_ / std::max(count_, 1)));
  }

 private:
  std::string text_;
  double sum_ = 0;
  double max_ = 0;
  int count_ = 0;
};

}  // namespace

TEST_CASE("all-reduces in one host are within 20% from 1 MiB up") {
  struct Column {
    const char* name;
    const char* system;
    std::int64_t gpus;
  };
  constexpr std::array<Column, 6> kColumns = {{{"a100x8", "dgx-a100", 8},
                                               {"h100x8_nvls", "dgx-h100", 8},
                                               {"h200x8_nvls", "dgx-h200", 8},
                                               {"gb200x4_ring", "gb200-nvl72", 4},
                                               {"h200x8_nccl2277", "dgx-h200", 8},
                                               {"b200x8_nccl2277", "dgx-b200", 8}}};
  auto file = open("allreduce_busbw_gb_s.csv");
  if (!file) return;
  const std::vector<Row> rows = rows_of(*file, 1 + kColumns.size());
  Table table("one host");
  for (std::size_t column = 0; column < kColumns.size(); ++column) {
    const auto& [name, system, gpus] = kColumns[column];
    const CollectiveCost cost = cost_of(system);
    for (const Row& row : rows) {
      const double bytes = std::stod(row[0]);
      if (row[column + 1].empty() || bytes < kMebi) continue;
      const double measured = std::stod(row[column + 1]);
      const double modelled = all_reduce_bus_gb_s(cost, bytes, {gpus, gpus});
      CAPTURE(name);
      CAPTURE(bytes);
      CHECK(std::abs(table.add(name, bytes, measured, modelled)) < 0.20);
    }
  }
  table.print();
}

TEST_CASE("all-reduces of 1, 2 and 20 racks of 72 GB200 are within 10% from 1 GiB up") {
  auto file = open("gb200_nvl72_allreduce.csv");
  if (!file) return;
  const CollectiveCost cost = cost_of("gb200-nvl72");
  Table bound("from 1 GiB up");
  Table below("512 MiB, outside the bound");
  for (const Row& row : rows_of(*file, 5)) {
    const double bytes = std::stod(row[0]);
    const std::int64_t gpus = std::stoll(row[1]);
    // From the time: the table rounds its bandwidth to three digits.
    const double measured = 2 * (real(gpus) - 1) / real(gpus) * bytes / (std::stod(row[3]) * 1e-6) / 1e9;
    const double modelled = all_reduce_bus_gb_s(cost, bytes, {gpus, 72});
    const std::string what =
        fmt::format("{} GPUs, {}", gpus, to_string(cost.all_reduce_algorithm(bytes, {gpus, 72})));
    if (bytes < kGibi) {
      below.add(what, bytes, measured, modelled);
    } else {
      CAPTURE(what);
      CAPTURE(bytes);
      CHECK(std::abs(bound.add(what, bytes, measured, modelled)) < 0.10);
    }
  }
  bound.print();
  below.print();
}

TEST_CASE("large collectives of part of a domain and of other kinds are within 10%") {
  auto file = open("notes.json");
  if (!file) return;
  const auto notes = nlohmann::json::parse(*file);
  const double bytes = 8 * kGibi;
  Table table("large messages");
  const auto check = [&](const std::string& what, double measured, double modelled) {
    CAPTURE(what);
    CHECK(std::abs(table.add(what, bytes, measured, modelled)) < 0.10);
  };
  const auto& partial = notes["partial_domain_busbw_gb_s"];
  const CollectiveCost h200 = cost_of("dgx-h200");
  const CollectiveCost b200 = cost_of("dgx-b200");
  for (std::size_t i = 0; i < partial["gpus"].size(); ++i) {
    const auto gpus = partial["gpus"][i].get<std::int64_t>();
    for (const auto& [name, cost] : {std::pair("H200", &h200), std::pair("B200", &b200)}) {
      check(fmt::format("{} {}", gpus, name), partial[name][i].get<double>(),
            all_reduce_bus_gb_s(*cost, bytes, {gpus, gpus}));
      // Without NVLS an all-reduce is a ring, of as many bytes as two reduce-scatters.
      check(fmt::format("{} {} ring", gpus, name), partial[std::string(name) + "_no_nvls"][i].get<double>(),
            (real(gpus) - 1) / real(gpus) * bytes / cost->reduce_scatter_s(bytes, {gpus, gpus}) / 1e9);
    }
  }
  check("8 H200 all-gather", 361, 7.0 / 8 * bytes / h200.all_gather_s(bytes, {8, 8}) / 1e9);
  check("8 H200 reduce-scatter", 363, 7.0 / 8 * bytes / h200.reduce_scatter_s(bytes, {8, 8}) / 1e9);

  const auto& large = notes["large_message_busbw_gb_s"]["all_to_all"];
  const auto all_to_all = [&](const char* name, const char* system, std::int64_t gpus) {
    const double seconds = cost_of(system).all_to_all_s(bytes, {gpus, gpus});
    check(std::string(name) + " all-to-all", large[name].get<double>(),
          (real(gpus) - 1) / real(gpus) * bytes / seconds / 1e9);
  };
  all_to_all("A100x8", "dgx-a100", 8);
  all_to_all("H100x8", "dgx-h100", 8);
  all_to_all("B200x8", "dgx-b200", 8);
  all_to_all("GB200 NVL72", "gb200-nvl72", 72);
  // What leaves a host, through each GPU's NIC.
  check("H100 multi-node a2a", large["H100 multi-node"].get<double>(),
        bytes * 120 / 128 / cost_of("dgx-h100").all_to_all_s(bytes, {128, 8}) / 1e9);
  check("one 400G NIC", notes["large_message_busbw_gb_s"]["one 400G NIC"].get<double>(),
        bytes / cost_of("dgx-h100").point_to_point_s(bytes, false) / 1e9);
  table.print();
}

}  // namespace ntpsim::models
