#include "ntpsim/models/hardware.h"

#include <set>
#include <string>
#include <string_view>

#include <doctest/doctest.h>

namespace ntpsim::models {

TEST_CASE("catalog names are unique and can be found") {
  std::set<std::string> names;
  for (const GpuSpec& gpu : gpu_catalog()) {
    CHECK(names.insert(gpu.name).second);
    CHECK(find_gpu(gpu.name) == &gpu);
  }
  for (const SystemSpec& system : system_catalog()) {
    CHECK(names.insert(system.name).second);
    CHECK(find_system(system.name) == &system);
  }
  CHECK(find_gpu("h100") == nullptr);
  CHECK(find_system("") == nullptr);
  for (const char* name : {"a100-80gb-sxm", "h100-sxm", "h200-sxm", "b200", "gb200", "gb300"}) {
    CHECK(find_gpu(name) != nullptr);
  }
  for (const char* name :
       {"dgx-a100", "dgx-h100", "dgx-h200", "dgx-b200", "gb200-nvl72", "gb300-nvl72", "b200-nvl32"}) {
    CHECK(find_system(name) != nullptr);
  }
}

TEST_CASE("every catalog entry is whole and names its source") {
  for (const GpuSpec& gpu : gpu_catalog()) {
    CAPTURE(gpu.name);
    CHECK_FALSE(gpu.source.empty());
    CHECK(gpu.peak_bf16.value() > 1e14);
    CHECK(gpu.attainable > 0.6);
    CHECK(gpu.attainable < 1);
    CHECK(gpu.attainable_fp8 > 0.6);
    CHECK(gpu.attainable_fp8 <= 1);
    CHECK(gpu.memory.value() >= 80e9);
    CHECK(gpu.memory_bandwidth.value() > 1e12);
    CHECK(gpu.tdp.value() >= 400);
    CHECK(gpu.power_curve.empty() == gpu.power_curve_source.empty());
  }
  for (const SystemSpec& system : system_catalog()) {
    CAPTURE(system.name);
    CHECK_FALSE(system.source.empty());
    CHECK(system.domain_size % system.gpus_per_tray == 0);
    CHECK(system.nvlink_bandwidth > system.nic_bandwidth);
    CHECK(system.nic_latency > system.nvlink_latency);
    CHECK(system.nvlink_latency > Time());
    const GpuSpec* gpu = find_gpu(system.gpu.name);
    REQUIRE(gpu != nullptr);
    CHECK(gpu->peak_bf16 == system.gpu.peak_bf16);
  }
}

TEST_CASE("units of the catalog: DGX H100 and the NTP paper's system") {
  const SystemSpec& dgx = *find_system("dgx-h100");
  CHECK(dgx.gpu.peak_bf16.value() == doctest::Approx(989e12));
  CHECK(dgx.gpu.attainable * dgx.gpu.peak_bf16.value() == doctest::Approx(795e12));
  CHECK(dgx.nvlink_bandwidth.value() == doctest::Approx(450e9));
  CHECK(dgx.nic_bandwidth.value() == doctest::Approx(50e9));
  CHECK(dgx.domain_size == 8);
  const SystemSpec& paper = *find_system("b200-nvl32");
  CHECK(paper.domain_size == 32);
  CHECK(paper.gpus_per_tray == 4);
  CHECK(paper.nic_bandwidth.value() == doctest::Approx(100e9));
  CHECK(paper.gpu.memory.value() == doctest::Approx(189e9));
}

TEST_CASE("a GPU has the formats of its generation") {
  const GpuSpec& a100 = *find_gpu("a100-80gb-sxm");
  CHECK(a100.peak(Precision::kFp16) == a100.peak_bf16);
  CHECK_FALSE(a100.peak(Precision::kFp8).has_value());
  CHECK(generation_of(a100) == GpuGeneration::kAmpere);
  const GpuSpec& h100 = *find_gpu("h100-sxm");
  CHECK(h100.peak(Precision::kFp8) == h100.peak_fp8);
  CHECK_FALSE(h100.peak(Precision::kMxfp8).has_value());
  CHECK_FALSE(h100.peak(Precision::kNvfp4).has_value());
  CHECK(generation_of(h100) == GpuGeneration::kHopper);
  const GpuSpec& gb300 = *find_gpu("gb300");
  CHECK(gb300.peak(Precision::kMxfp8) == gb300.peak_fp8);
  CHECK(gb300.peak(Precision::kNvfp4) == FlopRate(15e15));
  CHECK(generation_of(gb300) == GpuGeneration::kBlackwell);
}

TEST_CASE("precisions have distinct names and widths that fall") {
  std::set<std::string_view> names;
  double bytes = 2;
  for (const Precision precision : all_precisions()) {
    names.insert(to_string(precision));
    CHECK(bytes_of(precision) <= bytes);
    bytes = bytes_of(precision);
  }
  CHECK(names == std::set<std::string_view>{"bf16", "fp16", "fp8", "mxfp8", "nvfp4"});
  CHECK(bytes == 0.5);
}

TEST_CASE("a power curve is linear between its points") {
  const PowerCurve curve({{1, 1}, {1.2, 1.1}, {1.3, 1.12}});
  CHECK(curve.speed_at(1) == 1);
  CHECK(curve.speed_at(1.1) == doctest::Approx(1.05));
  CHECK(curve.speed_at(1.2) == doctest::Approx(1.1));
  CHECK(curve.speed_at(1.25) == doctest::Approx(1.11));
  CHECK(curve.speed_at(1.3) == doctest::Approx(1.12));
  CHECK(curve.power_for(0.5) == 1);
  CHECK(curve.power_for(1) == 1);
  CHECK(curve.power_for(1.05).value_or(0) == doctest::Approx(1.1));
  CHECK(curve.power_for(1.12).value_or(0) == doctest::Approx(1.3));
  CHECK_FALSE(curve.power_for(1.1201).has_value());
  CHECK(curve.max_power() == 1.3);
  CHECK(PowerCurve().empty());
}

TEST_CASE("power and speed of a curve are inverse to each other, and performance per watt falls") {
  for (const GpuSpec& gpu : gpu_catalog()) {
    if (gpu.power_curve.empty()) continue;
    CAPTURE(gpu.name);
    double per_watt = 1;
    for (int percent = 101; percent <= static_cast<int>(100 * gpu.power_curve.max_power()); ++percent) {
      const double power = percent / 100.0;
      const double speed = gpu.power_curve.speed_at(power);
      CHECK(gpu.power_curve.power_for(speed).value_or(0) == doctest::Approx(power));
      CHECK(speed / power < per_watt);
      per_watt = speed / power;
    }
  }
}

TEST_CASE("Blackwell's curve has the NTP paper's performance per watt") {
  const PowerCurve& curve = find_gpu("b200")->power_curve;
  CHECK(curve.speed_at(1.1) / 1.1 == doctest::Approx(1 - 0.028));
  CHECK(curve.speed_at(1.2) / 1.2 == doctest::Approx(1 - 0.065));
  CHECK(curve.max_power() == 1.3);
  CHECK(curve.speed_at(1.3) == doctest::Approx(1.1557));
  CHECK(find_gpu("a100-80gb-sxm")->power_curve.empty());
  CHECK(find_gpu("h100-sxm")->power_curve.speed_at(900.0 / 700) == doctest::Approx(1.043));
}

}  // namespace ntpsim::models
