#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "ntpsim/models/collective_cost.h"
#include "ntpsim/models/hardware.h"
#include "ntpsim/models/layer_cost.h"
#include "ntpsim/models/pipeline_layout.h"
#include "ntpsim/models/training.h"
#include "ntpsim/models/transformer.h"
#include "ntpsim/sim/pipeline.h"
#include "ntpsim/sim/step_model.h"

namespace ntpsim::sim {

// Prices what the ranks of one replica's pipeline do. Keeps references to the specs.
class StepPricing {
 public:
  StepPricing(const models::SystemSpec& system, const models::TransformerSpec& model,
              const models::TrainingSpec& training, const ReplicaShape& shape);

  [[nodiscard]] const PipelineSpec& pipeline() const { return pipeline_; }
  // Both passes of one microbatch, all chunks of the rank together.
  [[nodiscard]] const models::PieceTime& rank_time(std::int64_t rank) const {
    return rank_times_[static_cast<std::size_t>(rank)];
  }
  // The programs of a chunk's pass, in the order in which they run.
  [[nodiscard]] std::vector<models::PassProgram> programs(std::int64_t chunk, bool forward) const;

 private:
  // A layer, or the ends of the model: what it takes and holds.
  struct Piece {
    models::PieceTime time;
    models::RankWeights synced;  // weights of a core rank
    double resharded = 0;        // weights that its busiest rank sends or receives
  };

  // What TP groups of one degree have in common.
  struct Degree {
    Degree(int degree, const models::LayerCost& layer_cost) : tp_degree(degree), cost(layer_cost) {}

    int tp_degree;
    models::LayerCost cost;
    std::array<std::optional<Piece>, 8> layers;  // by kind and recomputation
    std::optional<Piece> embedding;
    std::optional<Piece> output;
  };

  [[nodiscard]] int degree_of(std::int64_t rank) const;
  [[nodiscard]] Degree& at_degree(int degree);
  [[nodiscard]] const Degree& at_degree(int degree) const { return *degrees_.at(degree); }
  [[nodiscard]] bool recomputed(std::int64_t layer_of_chunk) const;
  const Piece& layer(Degree& degree, std::int64_t layer, bool recomputed);
  const Piece& embedding(Degree& degree);
  const Piece& output(Degree& degree);
  void add_vocabulary(Piece& piece, int degree) const;
  void price_chunks();
  void price_chunk(std::int64_t chunk);
  void price_optimizer();
  [[nodiscard]] double reduce_s(const Piece& piece) const;
  [[nodiscard]] double gather_s(const Piece& piece) const;
  [[nodiscard]] double send_s(int from_degree, int to_degree) const;

  const models::SystemSpec& system_;
  const models::TransformerSpec& model_;
  const models::TrainingSpec& training_;
  ReplicaShape shape_;
  models::CollectiveCost collectives_;
  models::ReplicaGroups groups_;
  std::vector<models::ChunkLayers> layout_;
  std::map<int, std::unique_ptr<Degree>> degrees_;
  std::vector<models::PieceTime> rank_times_;
  std::vector<models::RankWeights> rank_weights_;
  PipelineSpec pipeline_;
};

}  // namespace ntpsim::sim
