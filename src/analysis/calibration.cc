#include "ntpsim/analysis/calibration.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include <fmt/format.h>

#include "ntpsim/core/invariant.h"
#include "ntpsim/models/hardware.h"

#include "run_groups.h"

namespace ntpsim::analysis {
namespace {

using models::Efficiency;
using models::EfficiencySet;
using models::Precision;
using models::PrecisionEfficiency;

std::size_t at(auto index) {
  return static_cast<std::size_t>(index);
}

/// A number that is fitted, and where it may lie.
struct Coordinate {
  std::string name;
  double* value = nullptr;
  double least = 0;
  double most = 0;
  double expected = 0;
  std::size_t rows = 0;
};

template <class Owner>
struct Member {
  const char* name;
  double Owner::* value;
  double least;
  double most;
  double expected;  ///< what single kernels reach
};

constexpr std::array kGpuMembers = {
    Member<Efficiency>{"gemm", &Efficiency::gemm, 0.3, 1.3, 0.75},
    Member<Efficiency>{"gemm_fill_bytes", &Efficiency::gemm_fill_bytes, 16, 2048, 256},
    Member<Efficiency>{"attention", &Efficiency::attention, 0.2, 1, 0.65},
    Member<Efficiency>{"dispatch", &Efficiency::dispatch, 0.5, 20, 2},
    Member<Efficiency>{"memory", &Efficiency::memory, 0.5, 0.93, 0.7},
    Member<Efficiency>{"launch_s", &Efficiency::launch_s, 0.5e-6, 60e-6, 20e-6},
};
constexpr std::array kPrecisionMembers = {
    Member<PrecisionEfficiency>{"gemm", &PrecisionEfficiency::gemm, 0.4, 1.6, 1.2},
    Member<PrecisionEfficiency>{"casts", &PrecisionEfficiency::casts, 0.3, 4, 1},
};
constexpr std::array kNarrow = {Precision::kFp8, Precision::kMxfp8, Precision::kNvfp4};
// The host's launches bound nothing until they are slow, so a search finds them from a slow start only.
constexpr std::array kLaunchStarts = {10e-6, 40e-6};

class Fit {
 public:
  explicit Fit(std::span<const MeasuredRun> runs) : efficiencies_(catalog_efficiencies()) {
    for (const MeasuredRun& run : runs) {
      if (half_of(run.stated) == Half::kFitted) runs_.push_back(run);
    }
    add_coordinates();
  }

  void run() {
    Efficiencies best = efficiencies_;
    double best_loss = loss();
    const Efficiencies start = efficiencies_;
    for (const double launch_s : kLaunchStarts) {
      efficiencies_ = start;
      for (const Coordinate& coordinate : coordinates_) {
        if (coordinate.name.ends_with("launch_s") && !coordinate.name.starts_with("ampere")) {
          *coordinate.value = launch_s;
        }
      }
      const double reached = descend();
      if (reached >= best_loss) continue;
      best = efficiencies_;
      best_loss = reached;
    }
    efficiencies_ = best;
    share();
  }

  [[nodiscard]] const Efficiencies& efficiencies() const { return efficiencies_; }

  [[nodiscard]] std::vector<Parameter> parameters() {
    std::vector<Parameter> parameters;
    for (const Coordinate& coordinate : coordinates_) {
      parameters.push_back(
          {.name = coordinate.name, .value = *coordinate.value, .catalog = 0, .rows = coordinate.rows});
    }
    efficiencies_ = catalog_efficiencies();
    for (std::size_t i = 0; i < parameters.size(); ++i) parameters[i].catalog = *coordinates_[i].value;
    return parameters;
  }

 private:
  /// Of all generations the formats of the first are searched, and copied to the others.
  void add_coordinates() {
    for (std::size_t generation = 0; generation < efficiencies_.size(); ++generation) {
      const std::size_t rows = at(std::ranges::count_if(runs_, [&](const MeasuredRun& run) {
        return at(models::generation_of(run.system.gpu)) == generation;
      }));
      for (const auto& member : kGpuMembers) {
        coordinates_.push_back({.name = fmt::format("{} {}", generation_names()[generation], member.name),
                                .value = &(efficiencies_[generation].gpu.*member.value),
                                .least = member.least,
                                .most = member.most,
                                .expected = member.expected,
                                .rows = rows});
      }
    }
    for (const Precision precision : kNarrow) {
      const std::size_t rows = at(std::ranges::count_if(
          runs_, [&](const MeasuredRun& run) { return run.stated.precision == precision; }));
      for (const auto& member : kPrecisionMembers) {
        coordinates_.push_back({.name = fmt::format("{} {}", models::to_string(precision), member.name),
                                .value = &(efficiencies_[0].precisions[at(precision)].*member.value),
                                .least = member.least,
                                .most = member.most,
                                .expected = member.expected,
                                .rows = rows});
      }
    }
  }

  /// Formats are the same on all generations, and hosts of the newer two run the same software.
  void share() {
    for (EfficiencySet& set : efficiencies_) set.precisions = efficiencies_[0].precisions;
    efficiencies_[1].gpu.launch_s = efficiencies_[2].gpu.launch_s;
  }

  [[nodiscard]] double loss() {
    share();
    constexpr double kNear = 0.08;
    constexpr double kBeyond = 8;
    double sum = 0;
    for (const ComparedRun& each : compare(runs_, efficiencies_)) {
      const double size = std::abs(std::log(each.predicted_step_s / each.measured_step_s));
      sum += size + kBeyond * std::max(0.0, size - kNear);
    }
    return sum / static_cast<double>(runs_.size()) + surprise();
  }

  /// What the rows leave open stays near what is expected.
  [[nodiscard]] double surprise() const {
    constexpr double kWeight = 5e-4;
    double sum = 0;
    for (const Coordinate& coordinate : coordinates_) {
      if (coordinate.rows == 0) continue;
      const double doublings = std::log2(*coordinate.value / coordinate.expected);
      sum += doublings * doublings;
    }
    return kWeight * sum;
  }

  double descend() {
    constexpr double kSmallest = 0.004;
    constexpr double kWorthwhile = 2e-4;
    double best = loss();
    for (double step = 0.15; step > kSmallest;) {
      const double before = best;
      for (Coordinate& coordinate : coordinates_) {
        if (coordinate.rows == 0) continue;
        for (const double factor : {1 + step, 1 / (1 + step)}) best = walk(coordinate, factor, best);
      }
      if (before - best < kWorthwhile) step /= 2;
    }
    return best;
  }

  /// Goes on in one direction while it helps.
  double walk(Coordinate& coordinate, double factor, double best) {
    for (;;) {
      const double old = *coordinate.value;
      *coordinate.value = std::clamp(old * factor, coordinate.least, coordinate.most);
      const double reached = *coordinate.value == old ? best : loss();
      constexpr double kGain = 1e-6;
      if (reached > best - kGain) {
        *coordinate.value = old;
        return best;
      }
      best = reached;
    }
  }

  std::vector<MeasuredRun> runs_;
  Efficiencies efficiencies_;
  std::vector<Coordinate> coordinates_;
};

}  // namespace

Efficiencies catalog_efficiencies() {
  return {models::efficiency_of(models::GpuGeneration::kAmpere),
          models::efficiency_of(models::GpuGeneration::kHopper),
          models::efficiency_of(models::GpuGeneration::kBlackwell)};
}

Calibration calibrate(std::string table, std::span<const MeasuredRun> runs) {
  invariant(!runs.empty(), "there are runs to fit to");
  Fit fit(runs);
  fit.run();
  Calibration calibration;
  calibration.table = std::move(table);
  calibration.efficiencies = fit.efficiencies();
  calibration.runs = compare(runs, calibration.efficiencies);
  calibration.summary = summarize(calibration.runs);
  calibration.parameters = fit.parameters();
  return calibration;
}

}  // namespace ntpsim::analysis
