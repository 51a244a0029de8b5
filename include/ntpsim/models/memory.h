#pragma once

#include "ntpsim/core/quantity.h"
#include "ntpsim/models/training.h"
#include "ntpsim/models/transformer.h"

namespace ntpsim::models {

/// What weights, gradients and optimizer state take of one GPU's memory, averaged over pipeline stages, on
/// the fullest rank of a TP group of this degree: 2 bytes of weight, 4 of gradient and 12 of optimizer state
/// (FP32 master weight and two moments) a parameter, the latter spread over the data-parallel ranks by the
/// distributed optimizer (Korthikanti et al. 2022, arXiv 2205.05198, and Megatron's defaults).
///
/// A lower bound: activations and buffers come on top, and the first and last stage hold more. A job that
/// exceeds it does not fit; one within it may not either. REQUIRES: 1 <= degree <=
/// tensor_model_parallel_size.
[[nodiscard]] Bytes model_state_per_gpu(const TransformerSpec& model, const TrainingSpec& training,
                                        int degree);

}  // namespace ntpsim::models
