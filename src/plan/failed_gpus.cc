#include "ntpsim/plan/failed_gpus.h"

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <iterator>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "ntpsim/core/invariant.h"

#include "errors.h"

namespace ntpsim::plan {
namespace {

constexpr std::string_view kExample = R"("domain 3: gpu 4,7")";

bool is_space(char c) {
  return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

char lower(char c) {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
}

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && is_space(text.front())) text.remove_prefix(1);
  while (!text.empty() && is_space(text.back())) text.remove_suffix(1);
  return text;
}

// What the user typed, short enough for a message.
std::string shown(std::string_view text) {
  constexpr std::size_t kLongest = 40;
  text = trimmed(text);
  if (text.size() <= kLongest) return std::string(text);
  return std::string(text.substr(0, kLongest)) + "...";
}

std::string quoted(std::string_view text) {
  return trimmed(text).empty() ? "nothing" : '"' + shown(text) + '"';
}

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  for (;;) {
    const std::size_t end = text.find(separator);
    parts.push_back(text.substr(0, end));
    if (end == std::string_view::npos) return parts;
    text.remove_prefix(end + 1);
  }
}

// Takes the letters at the front off the text, in lower case.
std::string take_word(std::string_view& text) {
  text = trimmed(text);
  std::string word;
  for (; !text.empty() && lower(text.front()) >= 'a' && lower(text.front()) <= 'z'; text.remove_prefix(1)) {
    word += lower(text.front());
  }
  return word;
}

// A number that is too large for its type is the largest, and so out of every range.
std::optional<std::int64_t> number(std::string_view text) {
  text = trimmed(text);
  if (text.empty() || !std::ranges::all_of(text, is_digit)) return std::nullopt;
  std::int64_t value = 0;
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), value);
  return parsed.ec == std::errc() ? value : std::numeric_limits<std::int64_t>::max();
}

void check_slots(Diagnostics& errors, const std::string& domain, std::vector<int>& slots, int domain_size) {
  std::ranges::sort(slots);
  for (auto slot = slots.begin(); slot != slots.end(); ++slot) {
    check_range(errors, domain + " failed GPU", *slot, 0, domain_size - 1);
    if (slot == slots.begin() || *slot != *std::prev(slot)) continue;
    add_error(errors, domain + " failed GPU " + std::to_string(*slot) +
                          ": found more than once, expected each GPU once");
  }
}

class Parser {
 public:
  Parser(std::int64_t domains, int domain_size) : domains_(domains), domain_size_(domain_size) {}

  Result<FailedGpus> parse(std::string_view text) {
    if (trimmed(text).empty()) {
      error("found nothing, expected failed GPUs such as " + std::string(kExample));
    } else {
      std::size_t position = 0;
      for (const std::string_view entry : split(text, ';')) read_entry(entry, ++position);
    }
    if (errors_.has_errors()) return tl::unexpected(std::move(errors_));
    std::vector<FailedDomain> failed;
    for (auto& [domain, slots] : slots_by_domain_) failed.push_back({domain, std::move(slots)});
    return FailedGpus(domains_, domain_size_, std::move(failed));
  }

 private:
  void error(std::string message) { errors_.error("--failed", "", std::move(message)); }

  void read_entry(std::string_view entry, std::size_t position) {
    if (trimmed(entry).empty()) {
      return error("entry " + std::to_string(position) + " is empty, expected one such as " +
                   std::string(kExample));
    }
    const std::size_t colon = entry.find(':');
    if (colon == std::string_view::npos) {
      return error("found " + quoted(entry) + R"(, expected a ":" after the domain, as in )" +
                   std::string(kExample));
    }
    label_ = shown(entry.substr(0, colon));
    const std::optional<std::int64_t> domain = read_domain(entry.substr(0, colon));
    std::vector<int> slots = read_slots(entry.substr(colon + 1));
    if (domain && !slots_by_domain_.emplace(*domain, std::move(slots)).second) {
      error("domain " + std::to_string(*domain) + " is named more than once, expected all its GPUs together");
    }
  }

  std::optional<std::int64_t> read_domain(std::string_view text) {
    const std::string_view all = text;
    const std::string word = take_word(text);
    if (word != "domain") {
      error(label_ + ": found " + quoted(word.empty() ? all : word) +
            R"(, expected "domain" and its number)");
      return std::nullopt;
    }
    const std::optional<std::int64_t> domain = number(text);
    if (!domain || *domain >= domains_) {
      error(label_ + ": found " + quoted(text) + ", expected a domain from 0 to " +
            std::to_string(domains_ - 1));
      return std::nullopt;
    }
    return domain;
  }

  std::vector<int> read_slots(std::string_view text) {
    const std::string_view all = text;
    const std::string word = take_word(text);
    std::vector<bool> failed(static_cast<std::size_t>(domain_size_), false);
    if (word == "all" && trimmed(text).empty()) {
      failed.flip();
    } else if (word == "gpu" || word == "gpus") {
      for (const std::string_view item : split(text, ',')) read_item(item, failed);
    } else {
      const bool known = word.empty() || word == "all";
      error(label_ + ": found " + quoted(known ? all : word) +
            R"(, expected "gpu" or "gpus" with their numbers, or "all" alone)");
    }
    std::vector<int> slots;
    for (int slot = 0; slot < domain_size_; ++slot) {
      if (failed[static_cast<std::size_t>(slot)]) slots.push_back(slot);
    }
    return slots;
  }

  // "4" or "4-7".
  void read_item(std::string_view item, std::vector<bool>& failed) {
    const std::size_t dash = item.find('-');
    const auto first = number(item.substr(0, dash));
    const auto last = dash == std::string_view::npos ? first : number(item.substr(dash + 1));
    if (!first || !last || *first > *last || *last >= domain_size_) {
      return error(label_ + ": found " + quoted(item) + ", expected a GPU from 0 to " +
                   std::to_string(domain_size_ - 1) + ", or an ascending range of them such as 4-7");
    }
    bool again = false;
    for (auto slot = static_cast<std::size_t>(*first); slot <= static_cast<std::size_t>(*last); ++slot) {
      again = again || failed[slot];
      failed[slot] = true;
    }
    if (again) error(label_ + ": gpu " + shown(item) + " is named more than once, expected each GPU once");
  }

  std::int64_t domains_;
  int domain_size_;
  Diagnostics errors_;
  std::string label_;  // the domain at hand, as typed
  std::map<std::int64_t, std::vector<int>> slots_by_domain_;
};

}  // namespace

FailedGpus::FailedGpus(std::int64_t domains, int domain_size, std::vector<FailedDomain> failed)
    : domains_(domains), domain_size_(domain_size), failed_(std::move(failed)) {
  invariant(domains >= 1 && domain_size >= 1, "a cluster has domains of GPUs");
  std::erase_if(failed_, [](const FailedDomain& entry) { return entry.slots.empty(); });
  std::ranges::sort(failed_, {}, &FailedDomain::domain);
  std::int64_t next_domain = 0;
  for (FailedDomain& entry : failed_) {
    invariant(entry.domain >= next_domain && entry.domain < domains,
              "failed domains within the cluster, once");
    next_domain = entry.domain + 1;
    std::ranges::sort(entry.slots);
    const bool once = std::ranges::adjacent_find(entry.slots) == entry.slots.end();
    invariant(once && entry.slots.front() >= 0 && entry.slots.back() < domain_size,
              "failed slots within the domain, once");
    count_ += static_cast<std::int64_t>(entry.slots.size());
  }
}

Result<FailedGpus> FailedGpus::make(std::int64_t domains, int domain_size, std::vector<FailedDomain> failed) {
  Diagnostics errors;
  check_cluster(errors, domains, domain_size);
  if (errors.has_errors()) return tl::unexpected(std::move(errors));
  std::ranges::sort(failed, {}, &FailedDomain::domain);
  const FailedDomain* last = nullptr;
  for (FailedDomain& entry : failed) {
    check_range(errors, "failed domain", entry.domain, 0, domains - 1);
    const std::string name = "domain " + std::to_string(entry.domain);
    if (last != nullptr && last->domain == entry.domain) {
      add_error(errors, name + ": found more than once, expected all its GPUs together");
    }
    last = &entry;
    check_slots(errors, name, entry.slots, domain_size);
  }
  if (errors.has_errors()) return tl::unexpected(std::move(errors));
  return FailedGpus(domains, domain_size, std::move(failed));
}

std::span<const int> FailedGpus::slots(std::int64_t domain) const {
  invariant(domain >= 0 && domain < domains_, "domain within the cluster");
  const auto found = std::ranges::lower_bound(failed_, domain, {}, &FailedDomain::domain);
  if (found == failed_.end() || found->domain != domain) return {};
  return found->slots;
}

Result<FailedGpus> parse_failed_gpus(std::string_view text, std::int64_t domains, int domain_size) {
  invariant(domains >= 1 && domain_size >= 1, "a cluster has domains of GPUs");
  Diagnostics errors;
  check_cluster(errors, domains, domain_size);
  if (errors.has_errors()) return tl::unexpected(std::move(errors));
  return Parser(domains, domain_size).parse(text);
}

}  // namespace ntpsim::plan
