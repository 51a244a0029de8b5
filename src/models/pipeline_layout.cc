#include "ntpsim/models/pipeline_layout.h"

#include <algorithm>
#include <cstddef>

#include "ntpsim/core/invariant.h"

namespace ntpsim::models {
namespace {

/// `layers` over `parts`, equal but for one. The first and the last part are short before others.
std::vector<std::int64_t> spread(std::int64_t layers, std::int64_t parts) {
  std::vector<std::int64_t> counts(static_cast<std::size_t>(parts), layers / parts);
  for (std::int64_t extra = 0; extra < layers % parts; ++extra) {
    ++counts[static_cast<std::size_t>(extra < parts - 2 ? extra + 1 : 0)];
  }
  return counts;
}

/// Layers of every chunk when nothing is said: multi-token prediction takes two places of the last chunk a
/// layer, its own and that of its pass through the output layer.
std::vector<std::int64_t> even_counts(const TransformerSpec& model, const TrainingSpec& training) {
  const std::int64_t reserved = 2 * model.mtp_num_layers;
  std::vector<std::int64_t> counts =
      spread(model.num_layers + reserved,
             training.pipeline_model_parallel_size * training.virtual_pipeline_model_parallel_size);
  std::int64_t left = reserved;
  for (auto count = counts.rbegin(); left > 0 && count != counts.rend(); ++count) {
    const std::int64_t given = std::min(left, *count);
    *count -= given;
    left -= given;
  }
  return counts;
}

/// Layers of every chunk when the first and the last rank have a given number.
std::vector<std::int64_t> uneven_counts(std::int64_t layers, const TrainingSpec& training) {
  const std::int64_t ranks = training.pipeline_model_parallel_size;
  const std::int64_t chunks_per_rank = training.virtual_pipeline_model_parallel_size;
  const std::int64_t first = training.decoder_first_pipeline_num_layers;
  const std::int64_t last = training.decoder_last_pipeline_num_layers;
  const std::int64_t free_ranks = ranks - (first > 0 ? 1 : 0) - (last > 0 ? 1 : 0);
  const std::int64_t left = layers - first - last;
  invariant(ranks > 1 && left >= 0 && (free_ranks > 0 || left == 0), "the layers suffice for both ends");

  std::vector<std::int64_t> counts(static_cast<std::size_t>(ranks * chunks_per_rank), 0);
  const std::vector<std::int64_t> middle =
      free_ranks > 0 ? spread(left, free_ranks * chunks_per_rank) : std::vector<std::int64_t>();
  std::size_t next = 0;
  for (std::int64_t chunk = 0; chunk < ranks * chunks_per_rank; ++chunk) {
    const std::int64_t rank = chunk % ranks;
    const std::int64_t turn = chunk / ranks;
    const auto own = [&](std::int64_t of_rank) {
      return of_rank / chunks_per_rank + (turn < of_rank % chunks_per_rank ? 1 : 0);
    };
    std::int64_t& count = counts[static_cast<std::size_t>(chunk)];
    if (rank == 0 && first > 0) {
      count = own(first);
    } else if (rank == ranks - 1 && last > 0) {
      count = own(last);
    } else {
      count = middle[next++];
    }
  }
  return counts;
}

}  // namespace

std::vector<ChunkLayers> chunk_layers(const TransformerSpec& model, const TrainingSpec& training) {
  const bool uneven =
      training.decoder_first_pipeline_num_layers > 0 || training.decoder_last_pipeline_num_layers > 0;
  const std::vector<std::int64_t> counts =
      uneven ? uneven_counts(model.num_layers, training) : even_counts(model, training);
  std::vector<ChunkLayers> chunks;
  std::int64_t first = 0;
  for (const std::int64_t count : counts) {
    chunks.push_back({.first = first, .count = count});
    first += count;
  }
  return chunks;
}

}  // namespace ntpsim::models
