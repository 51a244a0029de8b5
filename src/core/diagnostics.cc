#include "ntpsim/core/diagnostics.h"

#include <algorithm>
#include <utility>

namespace ntpsim {

namespace {

// File names and values come from users: what could steer a terminal or break the line is shown, not sent.
std::string printable(std::string_view text) {
  constexpr std::string_view kHex = "0123456789abcdef";
  std::string shown;
  for (const char c : text) {
    const auto code = static_cast<unsigned char>(c);
    const bool control = code < 0x20 || code == 0x7f;
    if (!control) {
      shown += c;
    } else {
      shown += "\\x";
      shown += kHex[code >> 4U];
      shown += kHex[code & 0xfU];
    }
  }
  return shown;
}

}  // namespace

std::string to_string(const Diagnostic& diagnostic) {
  std::string line = diagnostic.severity == Severity::kError ? "error: " : "warning: ";
  if (!diagnostic.file.empty()) line += diagnostic.file + ": ";
  if (!diagnostic.pointer.empty()) line += diagnostic.pointer + ": ";
  return printable(line + diagnostic.message);
}

void Diagnostics::error(std::string file, std::string pointer, std::string message) {
  items_.push_back({Severity::kError, std::move(file), std::move(pointer), std::move(message)});
}

void Diagnostics::warning(std::string file, std::string pointer, std::string message) {
  items_.push_back({Severity::kWarning, std::move(file), std::move(pointer), std::move(message)});
}

void Diagnostics::append(const Diagnostics& other) {
  items_.insert(items_.end(), other.items_.begin(), other.items_.end());
}

bool Diagnostics::has_errors() const {
  return std::ranges::any_of(items_, [](const Diagnostic& d) { return d.severity == Severity::kError; });
}

}  // namespace ntpsim
