#pragma once

#include "ntpsim/models/hardware.h"

// Seconds of matrix multiplications on one GPU.
//
// A GEMM of `rows` x `outputs` x `inputs` (m x n x k) runs in tiles of the result. Each of the S
// multiprocessors works on one tile at a time, so c m/t_m n/t_n tiles (c GEMMs grouped, each rounded up) take
// ceil(tiles/S) waves. A tile takes 2 t_m t_n (k + k0) FLOPs at its share of the long-run rate, where k0
// (`gemm_fill_bytes`) is what filling and draining the pipeline costs; smaller tiles reuse operands less and
// run at a lower rate. K may be split to fill a last wave, at one more k0 a part. The fastest of these shapes
// counts, as in a library that picks its kernel by heuristics. What memory takes for operands and result is a
// lower bound.
//
// The long-run rate is what power lets through:
//
//   peak x min(attainable, gemm x format x (w / w0)^0.63)
//
// with w the watts of TDP per peak FLOP/s, w0 those of the generation's first GPU (A100, H100, B200) and the
// exponent from the power curve of arXiv 2504.06095, table 1 (1.2 of TDP: 1.122 of the speed).

namespace ntpsim::models {

/// `count` multiplications of the same shape in one kernel: rows x inputs by inputs x outputs.
struct Gemm {
  double rows = 0;
  double outputs = 0;
  double inputs = 0;
  double count = 1;
};

/// Prices GEMMs on one kind of GPU. O(1), about 100 ns a call.
class GemmCost {
 public:
  /// REQUIRES: compute_speed > 0 (relative to TDP; divides what the tensor cores bound).
  GemmCost(const GpuSpec& gpu, double compute_speed);

  /// REQUIRES: the GPU has the precision.
  [[nodiscard]] double forward_s(const Gemm& gemm, Precision precision) const;
  /// Gradient of the input.
  [[nodiscard]] double data_gradient_s(const Gemm& gemm, Precision precision) const;
  /// Gradient of the weights, added to FP32 gradients in memory.
  [[nodiscard]] double weight_gradient_s(const Gemm& gemm, Precision precision) const;

 private:
  [[nodiscard]] double tensor_s(const Gemm& gemm, Precision precision) const;
  [[nodiscard]] double bounded_s(const Gemm& gemm, Precision precision, double result_bytes) const;

  const GpuSpec* gpu_;
  const EfficiencySet* efficiency_;
  double speed_;
  double memory_rate_;
  double multiprocessors_;
  double power_;  // (w / w0)^0.63
};

}  // namespace ntpsim::models
