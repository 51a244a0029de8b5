#pragma once

#include <string>
#include <string_view>
#include <vector>

#include <tl/expected.hpp>

namespace ntpsim {

enum class Severity : unsigned char { kError, kWarning };

/// One thing to tell the user about an input.
struct Diagnostic {
  Severity severity = Severity::kError;
  std::string file;     ///< the file as the user named it, "--set" or "command line"; may be empty
  std::string pointer;  ///< JSON pointer into the file ("/training/seq_length"); empty means the whole file
  std::string message;  ///< what was found, what was expected, the nearest valid name

  bool operator==(const Diagnostic&) const = default;
};

/// "error: file: /pointer: message", one line.
[[nodiscard]] std::string to_string(const Diagnostic& diagnostic);

/// Everything found wrong or odd with the inputs of one command, in the order found.
class Diagnostics {
 public:
  void error(std::string file, std::string pointer, std::string message);
  void warning(std::string file, std::string pointer, std::string message);
  void append(const Diagnostics& other);

  [[nodiscard]] bool has_errors() const;
  [[nodiscard]] bool empty() const { return items_.empty(); }
  [[nodiscard]] const std::vector<Diagnostic>& items() const { return items_; }

 private:
  std::vector<Diagnostic> items_;
};

/// A value, or all the reasons why there is none.
template <class T>
using Result = tl::expected<T, Diagnostics>;

}  // namespace ntpsim
