#pragma once

#include <span>
#include <string>
#include <string_view>

#include <nlohmann/json_fwd.hpp>

#include "ntpsim/core/diagnostics.h"
#include "ntpsim/models/transformer.h"

namespace ntpsim::scenario {

/// The values of "model_type" that can be read, in a fixed order.
[[nodiscard]] std::span<const std::string_view> hf_model_types();

/// The dimensions in a raw Hugging Face config.json. Reports every key that is missing or malformed at once;
/// keys that do not matter for the dimensions are ignored. Multi-token prediction layers are left out.
/// `file` names the file in messages.
[[nodiscard]] Result<models::TransformerSpec> parse_hf_config(std::string_view text, const std::string& file);

/// The same for a file; "-" is standard input.
[[nodiscard]] Result<models::TransformerSpec> load_hf_config(const std::string& path);

/// The same for JSON already parsed. `pointer` is where it stands in `file`.
[[nodiscard]] Result<models::TransformerSpec> read_hf_config(const nlohmann::ordered_json& config,
                                                             const std::string& file,
                                                             const std::string& pointer);

}  // namespace ntpsim::scenario
