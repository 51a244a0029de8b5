#include "document.h"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <iterator>
#include <optional>
#include <set>
#include <system_error>
#include <utility>

#include <fmt/format.h>

namespace ntpsim::scenario {
namespace {

constexpr std::size_t kMaxDepth = 64;

// Of a character in UTF-8.
bool is_first_byte(char c) {
  return (static_cast<unsigned char>(c) & 0xC0U) != 0x80U;
}

// "line 3, column 7" of the byte at `offset`; columns count characters, not bytes.
std::string place_of(std::string_view text, std::size_t offset) {
  const std::string_view before = text.substr(0, std::min(offset, text.size()));
  const auto line = 1 + std::ranges::count(before, '\n');
  const std::size_t line_start = before.rfind('\n') + 1;  // npos + 1 is 0
  const auto column = 1 + std::ranges::count_if(before.substr(line_start), is_first_byte);
  return fmt::format("line {}, column {}", line, column);
}

// What the parser says, without its own prefix, and fit for one line of a terminal.
std::string reason_of(std::string_view what) {
  constexpr std::string_view kPlaceEnd = ": ";
  const std::size_t column = what.find("column ");
  const std::size_t id_end = what.find("] ");
  if (column != std::string_view::npos && what.find(kPlaceEnd, column) != std::string_view::npos) {
    what.remove_prefix(what.find(kPlaceEnd, column) + kPlaceEnd.size());
  } else if (id_end != std::string_view::npos) {
    what.remove_prefix(id_end + 2);
  }
  std::string reason(what);
  std::ranges::replace_if(reason, [](char c) { return c < ' ' || c > '~'; }, '?');
  return reason;
}

// Reads the text and tells how far the parser has come, which its events do not.
class TrackedIterator {
 public:
  using iterator_category = std::input_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = const char&;

  TrackedIterator(const char* at, const char** reached) : at_(at), reached_(reached) {}

  reference operator*() const { return *at_; }
  TrackedIterator& operator++() {
    *reached_ = ++at_;
    return *this;
  }
  bool operator==(const TrackedIterator& other) const { return at_ == other.at_; }

 private:
  const char* at_;
  const char** reached_;
};

// Builds the tree and refuses what the library would let through: deep nesting and duplicate keys.
class TreeBuilder final : public nlohmann::json_sax<Json> {
 public:
  TreeBuilder(std::string_view text, const std::string& file)
      : text_(text), file_(file), reached_(text.begin()) {}

  void parse() {
    const TrackedIterator begin(text_.begin(), &reached_);
    const TrackedIterator end(text_.end(), &reached_);
    Json::sax_parse(begin, end, this, nlohmann::detail::input_format_t::json, true, true);
  }

  bool null() override { return add(nullptr); }
  bool boolean(bool value) override { return add(value); }
  bool number_integer(std::int64_t value) override { return add(value); }
  bool number_unsigned(std::uint64_t value) override { return add(value); }
  bool number_float(double value, const std::string& /*text*/) override { return add(value); }
  bool string(std::string& value) override { return add(std::move(value)); }
  bool binary(Json::binary_t& /*value*/) override { return false; }
  bool start_object(std::size_t /*size*/) override { return open(Json::object()); }
  bool end_object() override { return close(); }
  bool start_array(std::size_t /*size*/) override { return open(Json::array()); }
  bool end_array() override { return close(); }

  bool key(std::string& name) override {
    Level& level = levels_.back();
    if (!level.keys.insert(name).second) {
      diagnostics_.error(file_, child_pointer(pointer(), name),
                         fmt::format("the key {} occurs twice in one object", in_quotes(name)));
    }
    level.key = std::move(name);
    return true;
  }

  bool parse_error(std::size_t position, const std::string& /*token*/,
                   const nlohmann::detail::exception& problem) override {
    // The position counts the character read last, which is the one in the way.
    const std::size_t offset = position == 0 ? 0 : position - 1;
    diagnostics_.error(file_, "", place_of(text_, offset) + ": " + reason_of(problem.what()));
    return false;
  }

  Result<Json> result() && {
    if (diagnostics_.has_errors()) return tl::unexpected(std::move(diagnostics_));
    return std::move(root_);
  }

 private:
  struct Level {
    Json* node;
    std::set<std::string> keys;
    std::string key;  // of the member being read
  };

  // The pointer of the innermost open object or array.
  [[nodiscard]] std::string pointer() const {
    std::string pointer;
    for (std::size_t i = 0; i + 1 < levels_.size(); ++i) {
      const Level& level = levels_[i];
      pointer = level.node->is_array() ? child_pointer(pointer, level.node->size() - 1)
                                       : child_pointer(pointer, level.key);
    }
    return pointer;
  }

  Json& place(Json value) {
    if (levels_.empty()) return root_ = std::move(value);
    Json& parent = *levels_.back().node;
    if (parent.is_array()) {
      parent.push_back(std::move(value));
      return parent.back();
    }
    // Appended without the library's search for the key, which would make wide objects quadratic.
    auto& members = parent.get_ref<Json::object_t&>();
    return members.Json::object_t::Container::emplace_back(levels_.back().key, std::move(value)).second;
  }

  bool add(Json value) {
    place(std::move(value));
    return true;
  }

  bool open(Json value) {
    if (levels_.size() == kMaxDepth) {
      const auto bracket = static_cast<std::size_t>(reached_ - text_.begin()) - 1;
      diagnostics_.error(
          file_, "", fmt::format("{}: nested deeper than {} levels", place_of(text_, bracket), kMaxDepth));
      return false;
    }
    levels_.push_back({&place(std::move(value)), {}, {}});
    return true;
  }

  bool close() {
    levels_.pop_back();
    return true;
  }

  std::string_view text_;
  const std::string& file_;
  const char* reached_;  // just behind the character read last
  Json root_;
  std::vector<Level> levels_;
  Diagnostics diagnostics_;
};

std::string escaped(std::string_view key) {
  std::string out;
  for (const char c : key) {
    if (c == '~') {
      out += "~0";
    } else if (c == '/') {
      out += "~1";
    } else {
      out += static_cast<unsigned char>(c) < ' ' ? '?' : c;
    }
  }
  return out;
}

std::string unescaped(std::string_view token) {
  std::string out;
  for (std::size_t i = 0; i < token.size(); ++i) {
    const bool escape =
        token[i] == '~' && i + 1 < token.size() && (token[i + 1] == '0' || token[i + 1] == '1');
    out += escape ? (token[++i] == '0' ? '~' : '/') : token[i];
  }
  return out;
}

std::vector<std::string> split(std::string_view text, char separator) {
  std::vector<std::string> parts;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(separator, begin), text.size());
    parts.emplace_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return parts;
}

std::vector<std::string> path_steps(std::string_view path) {
  if (!path.starts_with('/')) return split(path, '.');
  std::vector<std::string> steps = split(path.substr(1), '/');
  for (std::string& step : steps) step = unescaped(step);
  return steps;
}

std::optional<std::size_t> to_index(std::string_view text) {
  std::size_t index = 0;
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), index);
  if (parsed.ec != std::errc() || parsed.ptr != text.data() + text.size()) return std::nullopt;
  return index;
}

bool is_utf8(const std::string& text) {
  // The strict dump is the library's UTF-8 check.
  try {
    static_cast<void>(Json(text).dump());
    return true;
  } catch (const Json::exception&) {
    return false;
  }
}

// The value of an assignment: JSON, or text. What starts like a JSON container or string must be one.
tl::expected<Json, std::string> set_value(std::string_view text) {
  Result<Json> json = parse_json(text, "--set");
  if (json) return *std::move(json);
  if (text.find_first_of("{[\"") == 0) return tl::unexpected(json.error().items().front().message);
  return Json(std::string(text));
}

// One step down from `node`, creating what an object lacks, or a sentence that says why there is none.
tl::expected<Json*, std::string> descend(Json& node, const std::string& step) {
  if (node.is_null() || node.is_object()) return &node[step];
  if (!node.is_array()) {
    return tl::unexpected(fmt::format(
        "{} is no object, so it has no member {}; set an object in its place first",
        node.is_string() ? in_quotes(node.get_ref<const std::string&>()) : dump(node), in_quotes(step)));
  }
  const auto index = to_index(step);
  if (!index || *index >= node.size()) {
    return tl::unexpected(fmt::format("{} is no index into a list of {}", in_quotes(step), node.size()));
  }
  return &node[*index];
}

}  // namespace

std::string Document::origin_of(std::string_view pointer) const {
  const bool set = std::ranges::any_of(set_pointers, [&](const std::string& set_pointer) {
    return is_within(pointer, set_pointer) || (!pointer.empty() && is_within(set_pointer, pointer));
  });
  return set ? "--set" : file;
}

const Json* Document::find(std::string_view pointer) const {
  const Json* node = &root;
  if (pointer.empty()) return node;
  for (const std::string& step : path_steps(pointer)) {
    if (node->is_object()) {
      const auto member = node->find(step);
      if (member == node->end()) return nullptr;
      node = &*member;
    } else {
      const auto index = node->is_array() ? to_index(step) : std::nullopt;
      if (!index || *index >= node->size()) return nullptr;
      node = &(*node)[*index];
    }
  }
  return node;
}

std::string shortened(std::string_view text) {
  constexpr std::size_t kLongest = 80;
  if (text.size() <= kLongest) return std::string(text);
  std::size_t end = kLongest;
  while (end > 0 && !is_first_byte(text[end])) --end;
  return fmt::format("{}...", text.substr(0, end));
}

std::string in_quotes(std::string_view text) {
  return dump(shortened(text));
}

std::string child_pointer(std::string_view parent, std::string_view key) {
  return fmt::format("{}/{}", parent, escaped(shortened(key)));
}

std::string child_pointer(std::string_view parent, std::size_t index) {
  return fmt::format("{}/{}", parent, index);
}

bool is_within(std::string_view pointer, std::string_view ancestor) {
  return pointer.starts_with(ancestor) &&
         (pointer.size() == ancestor.size() || pointer[ancestor.size()] == '/');
}

Result<Json> parse_json(std::string_view text, const std::string& file) {
  const auto failure = [&](std::string_view reason) {
    Diagnostics diagnostics;
    diagnostics.error(file, "", std::string(reason));
    return tl::unexpected(std::move(diagnostics));
  };
  if (text.starts_with("\xFF\xFE") || text.starts_with("\xFE\xFF")) {
    return failure("line 1, column 1: this is UTF-16; save the file as UTF-8");
  }
  if (text.find_first_not_of(" \t\r\n") == std::string_view::npos) {
    return failure("line 1, column 1: the file is empty; expected a JSON object");
  }
  // The parser takes a NUL byte for the end of the text, whatever follows.
  if (const std::size_t nul = text.find('\0'); nul != std::string_view::npos) {
    return failure(place_of(text, nul) + ": a NUL byte, so this is no JSON text");
  }
  TreeBuilder builder(text, file);
  builder.parse();
  return std::move(builder).result();
}

void apply_set(std::string_view assignment, Document& document, Diagnostics& diagnostics) {
  const auto error = [&](const std::string& message) { diagnostics.error("--set", "", message); };
  if (!is_utf8(std::string(assignment))) return error("not UTF-8 text");
  const std::size_t equals = assignment.find('=');
  if (equals == std::string_view::npos || equals == 0) {
    return error(fmt::format("found {}, expected a path and a value, as in \"training.seq_length=8192\"",
                             in_quotes(assignment)));
  }
  auto value = set_value(assignment.substr(equals + 1));
  if (!value) return error(fmt::format("{}: {}", shortened(assignment.substr(0, equals)), value.error()));
  const std::vector<std::string> steps = path_steps(assignment.substr(0, equals));
  if (steps.size() > kMaxDepth) return error(fmt::format("a path of more than {} steps", kMaxDepth));
  Json* node = &document.root;
  std::string pointer;
  std::optional<std::string> created;  // the outermost value that was not there before
  for (const std::string& step : steps) {
    const bool exists = node->is_array() || node->contains(step);
    const auto next = descend(*node, step);
    if (!next) return diagnostics.error("--set", pointer, next.error());
    node = *next;
    pointer = child_pointer(pointer, step);
    if (!exists && !created) created = pointer;
  }
  *node = *std::move(value);
  document.set_pointers.push_back(created.value_or(pointer));
}

std::string dump(const Json& json, int indent) {
  return json.dump(indent, ' ', false, Json::error_handler_t::replace);
}

}  // namespace ntpsim::scenario
