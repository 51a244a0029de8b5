#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <thread>
#include <vector>

#include "ntpsim/analysis/progress.h"

namespace ntpsim::analysis {

// Computes produce(0), ..., produce(total - 1) on several threads and hands them to consume(result) in that
// order on the calling thread, so that what consume sums up does not depend on the number of threads. Works
// in blocks: memory is bounded whatever the total.
template <class Produce, class Consume>
void ordered_parallel(std::int64_t total, unsigned threads, const Progress& progress, const Produce& produce,
                      const Consume& consume) {
  constexpr std::int64_t kBlock = 1024;
  using Item = decltype(produce(std::int64_t{0}));
  std::vector<Item> items(static_cast<std::size_t>(std::min(total, kBlock)));
  for (std::int64_t begin = 0; begin < total; begin += kBlock) {
    const std::int64_t size = std::min(kBlock, total - begin);
    std::atomic<std::int64_t> next = 0;
    std::atomic<std::int64_t> done = begin;
    const auto work = [&](const Progress& report) {
      for (std::int64_t i = next++; i < size; i = next++) {
        items[static_cast<std::size_t>(i)] = produce(begin + i);
        ++done;
        if (report) report(done, total);
      }
    };
    {
      std::vector<std::jthread> helpers;
      const std::int64_t workers = std::min<std::int64_t>(threads, size);
      for (std::int64_t i = 1; i < workers; ++i) helpers.emplace_back(work, Progress());
      work(progress);
    }
    for (std::int64_t i = 0; i < size; ++i) consume(items[static_cast<std::size_t>(i)]);
    if (progress) progress(begin + size, total);
  }
}

}  // namespace ntpsim::analysis
