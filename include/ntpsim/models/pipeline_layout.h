#pragma once

#include <cstdint>
#include <vector>

#include "ntpsim/models/training.h"
#include "ntpsim/models/transformer.h"

// Which layers a pipeline rank has. The layers of a model are cut into p x v model chunks (pipeline ranks x
// virtual stages) of consecutive layers; chunk c runs on rank c mod p. The embedding belongs to the first
// chunk, the output layer to the last.

namespace ntpsim::models {

/// Consecutive layers.
struct ChunkLayers {
  std::int64_t first = 0;
  std::int64_t count = 0;

  bool operator==(const ChunkLayers&) const = default;
};

/// The layers of every chunk, in order. Equal but for one where they do not divide, the first and the last
/// chunk short before others (of multi-token prediction, each layer takes two places of the last chunk, as in
/// Megatron Bridge's layouts of DeepSeek-V3); or as `decoder_first_pipeline_num_layers` and
/// `decoder_last_pipeline_num_layers` say, each rank's spread evenly over its chunks and what is left evenly
/// over the other ranks. REQUIRES: the layers suffice for what the two ends are given. O(p v).
[[nodiscard]] std::vector<ChunkLayers> chunk_layers(const TransformerSpec& model,
                                                    const TrainingSpec& training);

}  // namespace ntpsim::models
