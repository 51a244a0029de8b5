#pragma once

// One table per JSON object of a scenario drives its reading, its error messages, its JSON Schema and its
// output. A `Kind<V>` knows one type of value, a `Field<T>` binds a key to a member of T, a `Section<T>` is
// the table.

#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ntpsim/core/diagnostics.h"
#include "ntpsim/core/quantity.h"
#include "ntpsim/core/time.h"

#include "document.h"

namespace ntpsim::scenario {

/// Collects what is wrong with one document while it is read, and which values cannot be relied on.
class Reader {
 public:
  Reader(const Document& document, Diagnostics& diagnostics)
      : document_(document), diagnostics_(diagnostics) {}

  [[nodiscard]] const Document& document() const { return document_; }
  void error(const std::string& pointer, std::string message);
  void warning(const std::string& pointer, std::string message);
  /// An error in an option of the command line rather than in the document.
  void option_error(std::string message) { diagnostics_.error("command line", "", std::move(message)); }
  /// Makes the value at `pointer` unreliable without a message of its own.
  void mark_bad(std::string pointer) { bad_.push_back(std::move(pointer)); }
  /// Has nothing been found wrong so far?
  [[nodiscard]] bool all_good() const { return !diagnostics_.has_errors(); }
  /// May checks rely on the values at these pointers? Not if one, a part of one or its parent was refused.
  [[nodiscard]] bool good(std::initializer_list<std::string_view> pointers) const;
  /// Passes on what was found in another file that this document names.
  void append(const Diagnostics& others) { diagnostics_.append(others); }

 private:
  const Document& document_;
  Diagnostics& diagnostics_;
  std::vector<std::string> bad_;
};

/// What a message says was found: `text "8"`, `the number 8.5`, `a list`.
[[nodiscard]] std::string describe(const Json& json);
/// `; did you mean "x"?`, or the list of what is known.
[[nodiscard]] std::string suggestion(std::string_view name, std::span<const std::string_view> known);

/// One type of JSON value.
template <class V>
struct Kind {
  std::string expected;  ///< for messages: "a whole number from 1 to 4096"
  Json schema;           ///< draft-07
  /// The value, or nothing after an error was reported. Kinds of objects and lists always give a value, with
  /// what could be read.
  std::function<std::optional<V>(const Json&, const std::string& pointer, Reader&)> read;
  std::function<Json(const V&)> write;  ///< what `read` turns into the same value
};

/// The value a key has when it is absent, and an example for the schema.
struct Default {
  Json value;
};
struct Example {
  Json value;
};

/// A key of a JSON object and the member of T that it sets.
template <class T>
struct Field {
  std::string key;
  std::string description;
  std::string expected;
  Json schema;
  std::optional<Json> fallback;
  bool required = true;
  std::function<void(const Json&, const std::string& pointer, T&, Reader&)> read;
  std::function<void(const T&, Json& object)> write;

  /// A key that must be there.
  template <class Class, class V>
  Field(std::string name, V Class::* member, const Kind<V>& kind, std::string text)
      : key(std::move(name)), description(std::move(text)), expected(kind.expected), schema(kind.schema) {
    read = [member, kind](const Json& json, const std::string& pointer, T& out, Reader& reader) {
      if (auto value = kind.read(json, pointer, reader)) out.*member = *std::move(value);
    };
    write = [member, kind, name = key](const T& value, Json& object) {
      object[name] = kind.write(value.*member);
    };
    schema["description"] = description;
  }
  template <class Class, class V>
  Field(std::string name, V Class::* member, const Kind<V>& kind, std::string text, Example example)
      : Field(std::move(name), member, kind, std::move(text)) {
    schema["examples"] = Json::array({std::move(example.value)});
  }

  /// A key with a default.
  template <class Class, class V>
  Field(std::string name, V Class::* member, const Kind<V>& kind, std::string text, Default value)
      : Field(std::move(name), member, kind, std::move(text)) {
    required = false;
    schema["default"] = value.value;
    fallback = std::move(value.value);
  }

  /// A key that may be absent, which the member shows.
  template <class Class, class V>
  Field(std::string name, std::optional<V> Class::* member, const Kind<V>& kind, std::string text)
      : key(std::move(name)), description(std::move(text)), expected(kind.expected), schema(kind.schema) {
    required = false;
    read = [member, kind](const Json& json, const std::string& pointer, T& out, Reader& reader) {
      if (auto value = kind.read(json, pointer, reader)) out.*member = std::move(value);
    };
    write = [member, kind, name = key](const T& value, Json& object) {
      if (value.*member) object[name] = kind.write(*(value.*member));
    };
    schema["description"] = description;
  }
  template <class Class, class V>
  Field(std::string name, std::optional<V> Class::* member, const Kind<V>& kind, std::string text,
        Example example)
      : Field(std::move(name), member, kind, std::move(text)) {
    schema["examples"] = Json::array({std::move(example.value)});
  }
};

/// Reports the keys of `object` that are not among `known`; of very many, the first ones and how many more.
void report_unknown_keys(const Json& object, const std::string& pointer,
                         std::span<const std::string_view> known, Reader& reader);

/// The table of one JSON object.
template <class T>
struct Section {
  std::string title;
  std::string description;
  std::vector<Field<T>> fields;
  Json rules = Json::object();  ///< further schema keywords: rules between the fields

  /// Reads what can be read and reports everything that is wrong.
  void read(const Json& json, const std::string& pointer, T& out, Reader& reader) const {
    if (!json.is_object()) return reader.error(pointer, "found " + describe(json) + ", expected an object");
    std::vector<std::string_view> known;
    known.reserve(fields.size());
    for (const Field<T>& field : fields) known.push_back(field.key);
    report_unknown_keys(json, pointer, known, reader);
    for (const Field<T>& field : fields) {
      const std::string member = child_pointer(pointer, field.key);
      if (const auto found = json.find(field.key); found != json.end()) {
        field.read(*found, member, out, reader);
      } else if (field.fallback) {
        field.read(*field.fallback, member, out, reader);
      } else if (field.required) {
        reader.error(member, "missing; expected " + field.expected);
      }
    }
  }

  [[nodiscard]] Json write(const T& value) const {
    Json object = Json::object();
    for (const Field<T>& field : fields) field.write(value, object);
    return object;
  }

  [[nodiscard]] Json schema() const {
    Json properties = Json::object();
    Json required = Json::array();
    for (const Field<T>& field : fields) {
      properties[field.key] = field.schema;
      if (field.required) required.push_back(field.key);
    }
    Json schema = {{"title", title}, {"description", description}, {"type", "object"}};
    schema["properties"] = std::move(properties);
    if (!required.empty()) schema["required"] = std::move(required);
    schema["additionalProperties"] = false;
    schema.update(rules);
    return schema;
  }
};

/// The numbers from `min` to `max`, or above `min`; `or_zero`: and zero.
struct Bounds {
  double min = -std::numeric_limits<double>::infinity();
  double max = std::numeric_limits<double>::infinity();
  bool above_min = false;
  bool or_zero = false;
};

[[nodiscard]] Kind<bool> boolean();
[[nodiscard]] Kind<std::string> text();
/// Text that stands in tables and on terminals: 1 to 200 characters, none of them a control character.
[[nodiscard]] Kind<std::string> name_text();
[[nodiscard]] bool is_name(std::string_view text);
[[nodiscard]] Kind<std::int64_t> whole_number(std::int64_t min, std::int64_t max);
/// A whole number from 0 to 2^64-1.
[[nodiscard]] Kind<std::uint64_t> word();
[[nodiscard]] Kind<double> real_number(Bounds bounds);
/// Text with a unit, as a number of SI base units. Bounds are in these too.
[[nodiscard]] Kind<double> quantity_value(Dimension dimension, Bounds bounds);
/// One of these names; `what` says of what ("GPU").
[[nodiscard]] Kind<std::string> name_among(const std::string& what, std::vector<std::string_view> known);
/// A span of time from `min` to `max`.
[[nodiscard]] Kind<Time> time_span(Time min, Time max);

/// A kind of V out of a kind of U.
template <class V, class U, class To, class From>
Kind<V> converted(const Kind<U>& kind, const To& to, const From& from) {
  return {kind.expected, kind.schema,
          [read = kind.read, to](const Json& json, const std::string& pointer, Reader& reader) {
            auto value = read(json, pointer, reader);
            return value ? std::optional<V>(to(*value)) : std::nullopt;
          },
          [write = kind.write, from](const V& value) { return write(from(value)); }};
}

/// Text with a unit, as a `Quantity`.
template <class Q>
Kind<Q> quantity(Dimension dimension, Bounds bounds) {
  return converted<Q>(
      quantity_value(dimension, bounds), [](double value) { return Q(value); },
      [](const Q& value) { return value.value(); });
}

/// One of these names, as the value that goes with it.
template <class E>
Kind<E> choice(const std::string& what, const std::vector<std::pair<std::string_view, E>>& options) {
  std::vector<std::string_view> names;
  names.reserve(options.size());
  for (const auto& option : options) names.push_back(option.first);
  const auto value_of = [options](const std::string& name) {
    std::size_t i = 0;
    while (options[i].first != name) ++i;  // `name_among` lets only known names through
    return options[i].second;
  };
  const auto name_of = [options](const E& value) {
    std::size_t i = 0;
    while (options[i].second != value) ++i;
    return std::string(options[i].first);
  };
  return converted<E>(name_among(what, std::move(names)), value_of, name_of);
}

/// An object that a section describes. The section must outlive the kind.
template <class T>
Kind<T> object(const Section<T>& section) {
  return {"an object", section.schema(),
          [&section](const Json& json, const std::string& pointer, Reader& reader) {
            T value{};
            section.read(json, pointer, value, reader);
            return std::optional<T>(std::move(value));
          },
          [&section](const T& value) { return section.write(value); }};
}

/// A list. One that is too long is not read at all, so that its errors do not bury that one.
template <class V>
Kind<std::vector<V>> list_of(const Kind<V>& element, std::size_t min_size, std::size_t max_size) {
  Json schema = {{"type", "array"}, {"items", element.schema}};
  if (min_size > 0) schema["minItems"] = min_size;
  schema["maxItems"] = max_size;
  return {"a list", schema,
          [element, min_size, max_size](const Json& json, const std::string& pointer, Reader& reader) {
            std::optional<std::vector<V>> values(std::in_place);
            if (!json.is_array()) {
              reader.error(pointer, "found " + describe(json) + ", expected a list");
              return values;
            }
            if (json.size() > max_size) {
              reader.error(pointer, "found a list of " + std::to_string(json.size()) + ", expected at most " +
                                        std::to_string(max_size) + " entries");
              return values;
            }
            if (json.size() < min_size) reader.error(pointer, "found an empty list, expected an entry");
            for (std::size_t i = 0; i < json.size(); ++i) {
              if (auto value = element.read(json[i], child_pointer(pointer, i), reader)) {
                values->push_back(*std::move(value));
              }
            }
            return values;
          },
          [element](const std::vector<V>& values) {
            Json array = Json::array();
            for (const V& value : values) array.push_back(element.write(value));
            return array;
          }};
}

}  // namespace ntpsim::scenario
