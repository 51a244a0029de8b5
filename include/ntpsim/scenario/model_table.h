#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>

#include "ntpsim/core/diagnostics.h"
#include "ntpsim/models/transformer.h"

namespace ntpsim::scenario {

/// Models by name.
using ModelTable = std::map<std::string, models::TransformerSpec, std::less<>>;

/// Several models in one file, under the key names of Hugging Face configs:
/// {"models": {"NAME": {"hidden_size": 4096, ...}}}. What these keys do not say (whether the output is tied
/// to the embedding, multi-token prediction) is that of the catalog's model of the same name, where there is
/// one. Reports everything that is wrong at once. `file` names the file in messages.
[[nodiscard]] Result<ModelTable> parse_model_table(std::string_view text, const std::string& file);

/// The same for a file; "-" is standard input.
[[nodiscard]] Result<ModelTable> load_model_table(const std::string& path);

}  // namespace ntpsim::scenario
