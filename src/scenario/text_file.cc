#include "ntpsim/scenario/text_file.h"

#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <memory>
#include <system_error>

namespace ntpsim::scenario {
namespace {

constexpr std::size_t kMaxBytes = std::size_t{64} << 20U;

}  // namespace

Result<std::string> read_text(const std::string& path) {
  const auto failure = [&](const std::string& reason) {
    Diagnostics diagnostics;
    diagnostics.error(path.empty() ? "''" : path, "", "cannot read it: " + reason);
    return tl::unexpected(std::move(diagnostics));
  };
  const auto reason = [] { return std::generic_category().message(errno); };
  if (path.find('\0') != std::string::npos) return failure("its name holds a NUL byte");
  const auto close = [](std::FILE* open_file) {
    if (open_file != stdin) static_cast<void>(std::fclose(open_file));
  };
  const std::unique_ptr<std::FILE, decltype(close)> file(path == "-" ? stdin : std::fopen(path.c_str(), "rb"),
                                                         close);
  if (!file) return failure(reason());
  std::string text;
  std::string chunk(std::size_t{1} << 16U, '\0');
  while (std::feof(file.get()) == 0) {
    const std::size_t size = std::fread(chunk.data(), 1, chunk.size(), file.get());
    if (std::ferror(file.get()) != 0) return failure(reason());
    text.append(chunk, 0, size);
    if (text.size() > kMaxBytes) return failure("it is larger than 64 MiB");
  }
  return text;
}

}  // namespace ntpsim::scenario
