#include <cstdint>
#include <utility>
#include <vector>

#include "ntpsim/models/hardware.h"

// Peaks are dense. `attainable` is the best measured GEMM rate over the peak (stas00/ml-engineering, best
// shape, mean of 100 runs): BF16 A100 271, H100 795, B200 1745, GB200 1822, B300 1769 TFLOP/s; FP8 H100 1403,
// H200 1453, B200 3433, GB200 3616, B300 3353 TFLOP/s. H200 has H100's tensor cores and power limit, so
// H100's BF16 figure stands for it; GB300 reaches the share of its peak that B300 does.
//
// Latencies are of one step of NCCL's Simple protocol. Over NVLink they are what ring all-reduces took beyond
// their bytes, over the number of steps: 9 us on 8 A100 (16 to 64 MiB), 6.8 us on 4 GB200 and 8 B200 (4 to 32
// MiB); Hopper, for want of a ring measured by size, takes Blackwell's. NCCL 2.28.9's tuner counts on 3.4 us.
// Over the network they are its 14 us.

namespace ntpsim::models {
namespace {

constexpr double kTera = 1e12;
constexpr double kGiga = 1e9;

FlopRate teraflops(double value) {
  return FlopRate(value * kTera);
}

Bandwidth gigabytes_per_second(double value) {
  return Bandwidth(value * kGiga);
}

Bandwidth gigabits_per_second(double value) {
  return Bandwidth(value * kGiga / 8);
}

/// NTP paper, table 1: performance per watt at 1.1 and 1.2 of TDP is lower by 2.8% and 6.5%, so the speed
/// is 1.1 x 0.972 and 1.2 x 0.935. Its boost limit is 1.3 of TDP; the table's second difference, -0.9%,
/// carried one step further puts performance per watt at -11.1% there.
PowerCurve blackwell_power_curve() {
  return PowerCurve({{1, 1}, {1.1, 1.1 * 0.972}, {1.2, 1.2 * 0.935}, {1.3, 1.3 * 0.889}});
}

/// One chip at two power limits: GEMMs of GH200 at 900 W against H100 at 700 W run at 1.043 of the speed.
PowerCurve hopper_power_curve() {
  return PowerCurve({{1, 1}, {900.0 / 700, 1.043}});
}

constexpr const char* kBlackwellCurveSource =
    "arXiv 2504.06095 table 1 (performance per watt -2.8% at 1.1 and -6.5% at 1.2 of TDP), extended to the "
    "paper's limit "
    "of 1.3 by continuing the second difference";
constexpr const char* kHopperCurveSource =
    "best BF16 GEMM of GH200 at 900 W over H100 at 700 W (stas00/ml-engineering): 1.043";

GpuSpec a100() {
  return {.name = "a100-80gb-sxm",
          .source = "NVIDIA A100 datasheet; attainable GEMM: stas00/ml-engineering",
          .peak_bf16 = teraflops(312),
          .peak_fp8 = {},
          .peak_fp4 = {},
          .attainable = 271.0 / 312,
          .attainable_fp8 = 1,
          .memory = Bytes(80 * kGiga),
          .memory_bandwidth = gigabytes_per_second(2039),
          .tdp = Power(400),
          .power_curve = {},
          .power_curve_source = ""};
}

GpuSpec h100() {
  return {.name = "h100-sxm",
          .source = "NVIDIA H100 datasheet; attainable GEMM: stas00/ml-engineering",
          .peak_bf16 = teraflops(989),
          .peak_fp8 = teraflops(1979),
          .peak_fp4 = {},
          .attainable = 795.0 / 989,
          .attainable_fp8 = 1403.0 / 1979,
          .memory = Bytes(80 * kGiga),
          .memory_bandwidth = gigabytes_per_second(3350),
          .tdp = Power(700),
          .power_curve = hopper_power_curve(),
          .power_curve_source = kHopperCurveSource};
}

GpuSpec h200() {
  GpuSpec gpu = h100();
  gpu.name = "h200-sxm";
  gpu.source = "NVIDIA H200 datasheet; attainable GEMM: stas00/ml-engineering (BF16 as H100)";
  gpu.attainable_fp8 = 1453.0 / 1979;
  gpu.memory = Bytes(141 * kGiga);
  gpu.memory_bandwidth = gigabytes_per_second(4800);
  return gpu;
}

GpuSpec b200() {
  return {.name = "b200",
          .source =
              "NVIDIA DGX B200 datasheet (1,440 GB and 64 TB/s over 8 GPUs); attainable GEMM: "
              "stas00/ml-engineering",
          .peak_bf16 = teraflops(2250),
          .peak_fp8 = teraflops(4500),
          .peak_fp4 = teraflops(9000),
          .attainable = 1745.0 / 2250,
          .attainable_fp8 = 3433.0 / 4500,
          .memory = Bytes(180 * kGiga),
          .memory_bandwidth = gigabytes_per_second(8000),
          .tdp = Power(1000),
          .power_curve = blackwell_power_curve(),
          .power_curve_source = kBlackwellCurveSource};
}

GpuSpec gb200() {
  GpuSpec gpu = b200();
  gpu.name = "gb200";
  gpu.source =
      "NVIDIA GB200 NVL72 datasheet (372 GB and 16 TB/s a pair); attainable GEMM: stas00/ml-engineering";
  gpu.peak_bf16 = teraflops(2500);
  gpu.peak_fp8 = teraflops(5000);
  gpu.peak_fp4 = teraflops(10000);
  gpu.attainable = 1822.0 / 2500;
  gpu.attainable_fp8 = 3616.0 / 5000;
  gpu.memory = Bytes(186 * kGiga);
  gpu.tdp = Power(1200);
  return gpu;
}

GpuSpec b300() {
  GpuSpec gpu = b200();
  gpu.name = "b300";
  gpu.source =
      "NVIDIA DGX B300 datasheet (2.3 TB and 64 TB/s over 8 GPUs); attainable GEMM: stas00/ml-engineering";
  gpu.peak_fp4 = teraflops(14000);
  gpu.attainable = 1769.0 / 2250;
  gpu.attainable_fp8 = 3353.0 / 4500;
  gpu.memory = Bytes(288 * kGiga);
  gpu.tdp = Power(1100);
  return gpu;
}

GpuSpec gb300() {
  GpuSpec gpu = gb200();
  gpu.name = "gb300";
  gpu.source =
      "NVIDIA GB300 NVL72 datasheet; attainable GEMM: B300's share of its peak, stas00/ml-engineering";
  gpu.peak_fp4 = teraflops(15000);
  gpu.attainable = b300().attainable;
  gpu.attainable_fp8 = b300().attainable_fp8;
  gpu.memory = Bytes(288 * kGiga);
  gpu.tdp = Power(1400);
  return gpu;
}

/// What the systems differ in.
struct Fabric {
  int domain_size = 0;
  int gpus_per_tray = 0;
  double nvlink_gb_s = 0;
  double nic_gbit_s = 0;
  std::int64_t nvlink_latency_ns = 6800;
};

SystemSpec make_system(const char* name, const char* source, GpuSpec gpu, const Fabric& fabric) {
  return {.name = name,
          .source = source,
          .gpu = std::move(gpu),
          .domain_size = fabric.domain_size,
          .gpus_per_tray = fabric.gpus_per_tray,
          .nvlink_bandwidth = gigabytes_per_second(fabric.nvlink_gb_s),
          .nic_bandwidth = gigabits_per_second(fabric.nic_gbit_s),
          .nvlink_latency = Time::from_ns(fabric.nvlink_latency_ns),
          .nic_latency = Time::from_ns(14000)};
}

/// The NTP paper's GPU is a B200 with 189 GB.
GpuSpec ntp_paper_b200() {
  GpuSpec gpu = b200();
  gpu.memory = Bytes(189 * kGiga);
  return gpu;
}

}  // namespace

std::span<const GpuSpec> gpu_catalog() {
  static const std::vector<GpuSpec> catalog = {a100(), h100(), h200(), b200(), b300(), gb200(), gb300()};
  return catalog;
}

std::span<const SystemSpec> system_catalog() {
  static const std::vector<SystemSpec> catalog = {
      make_system("dgx-a100", "NVIDIA DGX A100 datasheet; latencies: nccl-tests, NCCL 2.28.9 tuner", a100(),
                  {8, 8, 300, 200, 9000}),
      make_system("dgx-h100", "NVIDIA DGX H100 datasheet; latencies: nccl-tests, NCCL 2.28.9 tuner", h100(),
                  {8, 8, 450, 400}),
      make_system("dgx-h200", "NVIDIA DGX H200 datasheet; latencies: nccl-tests, NCCL 2.28.9 tuner", h200(),
                  {8, 8, 450, 400}),
      make_system("dgx-b200", "NVIDIA DGX B200 datasheet; latencies: nccl-tests, NCCL 2.28.9 tuner", b200(),
                  {8, 8, 900, 400}),
      make_system("dgx-b300", "NVIDIA DGX B300 datasheet; latencies: nccl-tests, NCCL 2.28.9 tuner", b300(),
                  {8, 8, 900, 800}),
      make_system("gb200-nvl72", "NVIDIA GB200 NVL72 datasheet; latencies: nccl-tests, NCCL 2.28.9 tuner",
                  gb200(), {72, 4, 900, 400}),
      make_system("gb300-nvl72", "NVIDIA GB300 NVL72 datasheet; latencies: nccl-tests, NCCL 2.28.9 tuner",
                  gb300(), {72, 4, 900, 800}),
      make_system(
          "b200-nvl32",
          "the NTP paper's set-up, arXiv 2504.06095 (1,800 GB/s both directions, 800 Gbit/s per GPU); "
          "latencies: nccl-tests, NCCL 2.28.9 tuner",
          ntp_paper_b200(), {32, 4, 900, 800}),
  };
  return catalog;
}

}  // namespace ntpsim::models
