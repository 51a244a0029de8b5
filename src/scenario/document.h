#pragma once

#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include "ntpsim/core/diagnostics.h"

namespace ntpsim::scenario {

/// Keeps the order of the file, so that messages and output follow it.
using Json = nlohmann::ordered_json;

/// A JSON text as read, and which of its values the command line put there.
struct Document {
  Json root;
  std::string file;                       ///< as the user named it
  std::vector<std::string> set_pointers;  ///< JSON pointers of values that came from --set

  /// Where the value at `pointer` came from: "--set" when all or a part of it did, else the file.
  [[nodiscard]] std::string origin_of(std::string_view pointer) const;
  /// The value at `pointer`, or null when there is none.
  [[nodiscard]] const Json* find(std::string_view pointer) const;
};

/// User text as messages show it: cut to about 80 bytes, between characters, with "..." for the rest.
[[nodiscard]] std::string shortened(std::string_view text);
/// `shortened` in double quotes, control characters escaped.
[[nodiscard]] std::string in_quotes(std::string_view text);

/// The JSON pointer of a member of the value at `parent`, long keys shortened: pointers are for messages.
[[nodiscard]] std::string child_pointer(std::string_view parent, std::string_view key);
[[nodiscard]] std::string child_pointer(std::string_view parent, std::size_t index);
/// Is `pointer` the value at `ancestor`, or inside it?
[[nodiscard]] bool is_within(std::string_view pointer, std::string_view ancestor);

/// Parses JSON with C++ comments. Errors carry line and column. Refuses NUL bytes, nesting deeper than 64,
/// and duplicate keys, which JSON libraries silently resolve in different ways. O(n log n).
[[nodiscard]] Result<Json> parse_json(std::string_view text, const std::string& file);

/// Applies "a.b.0=value" or "/a/b/0=value". Missing objects on the path are created.
void apply_set(std::string_view assignment, Document& document, Diagnostics& diagnostics);

/// JSON text of a value for messages and output: never throws, control characters escaped.
[[nodiscard]] std::string dump(const Json& json, int indent = -1);

}  // namespace ntpsim::scenario
