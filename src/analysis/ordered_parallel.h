#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <exception>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

#include "ntpsim/analysis/progress.h"

namespace ntpsim::analysis {

// Runs `work` on the calling thread and on up to `helpers` more; fewer when the system has no more threads.
// The first exception of any of them sets `stop` for the others and is thrown here, after all have ended.
template <class Work>
void run_on_threads(unsigned helpers, std::atomic<bool>& stop, const Work& work) {
  std::mutex mutex;
  std::exception_ptr failure;
  const auto guarded = [&](bool is_caller) {
    try {
      work(is_caller);
    } catch (...) {
      stop = true;
      const std::scoped_lock lock(mutex);
      if (!failure) failure = std::current_exception();
    }
  };
  {
    std::vector<std::jthread> threads;
    try {
      while (threads.size() < helpers) threads.emplace_back(guarded, false);
    } catch (const std::system_error&) {  // NOLINT(bugprone-empty-catch): results do not depend on how many
                                          // there are
    }
    guarded(true);
  }
  if (failure) std::rethrow_exception(failure);
}

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
    std::atomic<bool> stop = false;
    run_on_threads(static_cast<unsigned>(std::min<std::int64_t>(threads, size)) - 1, stop,
                   [&](bool is_caller) {
                     for (std::int64_t i = next++; i < size && !stop; i = next++) {
                       items[static_cast<std::size_t>(i)] = produce(begin + i);
                       ++done;
                       if (is_caller && progress) progress(done, total);
                     }
                   });
    for (std::int64_t i = 0; i < size; ++i) consume(items[static_cast<std::size_t>(i)]);
    if (progress) progress(begin + size, total);
  }
}

}  // namespace ntpsim::analysis
