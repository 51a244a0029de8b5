#include "ntpsim/models/pass_program.h"

#include <algorithm>
#include <array>
#include <cstddef>

#include "ntpsim/core/invariant.h"

namespace ntpsim::models {
namespace {

std::size_t at(OperationIndex index) {
  return static_cast<std::size_t>(index);
}

double& part_of(PassTime& time, Stream stream) {
  switch (stream) {
    case Stream::kCompute:
      return time.compute_s;
    case Stream::kTp:
      return time.tp_s;
    case Stream::kCp:
      return time.cp_s;
    case Stream::kEp:
      return time.ep_s;
    case Stream::kDp:
      return time.dp_s;
  }
  invariant(false, "a stream of the enumeration");
  return time.compute_s;
}

}  // namespace

PassTime& PassTime::operator+=(const PassTime& other) {
  compute_s += other.compute_s;
  tp_s += other.tp_s;
  cp_s += other.cp_s;
  ep_s += other.ep_s;
  dp_s += other.dp_s;
  return *this;
}

OperationIndex PassProgram::compute(std::string_view name, double seconds, double host_s,
                                    OperationIndex first, OperationIndex second) {
  last_compute_ = static_cast<OperationIndex>(operations_.size());
  operations_.push_back(
      {.name = name, .seconds = seconds, .first = first, .second = second, .host_s = host_s});
  host_s_ += host_s;
  return last_compute_;
}

void PassProgram::synchronize() {
  invariant(last_compute_ != kNone, "there is an operation to wait for");
  operations_[at(last_compute_)].synchronizes = true;
  synchronizes_ = true;
}

OperationIndex PassProgram::communicate(Stream stream, std::string_view name, double seconds, double bytes,
                                        std::int64_t group_size) {
  return communicate_after(last_compute_, stream, name, seconds, bytes, group_size);
}

OperationIndex PassProgram::communicate_after(OperationIndex after, Stream stream, std::string_view name,
                                              double seconds, double bytes, std::int64_t group_size) {
  if (group_size <= 1) return after;
  operations_.push_back({.name = name,
                         .stream = stream,
                         .seconds = seconds,
                         .first = after,
                         .second = kNone,
                         .bytes = bytes,
                         .group_size = group_size});
  return static_cast<OperationIndex>(operations_.size()) - 1;
}

/// Plays a program once. The host starts `lead` seconds ahead of the pass.
class PassProgram::Clock {
 public:
  Clock(const std::vector<Operation>& operations, double lead) : operations_(&operations), host_(-lead) {
    ends_.reserve(operations.size());
  }

  PassTime run(std::vector<double>* starts) {
    for (const Operation& operation : *operations_) {
      const double start = operation.stream == Stream::kCompute ? compute(operation) : communicate(operation);
      if (starts != nullptr) starts->push_back(start);
    }
    for (const Stream stream : {Stream::kTp, Stream::kCp, Stream::kEp, Stream::kDp}) {
      const double tail = free_of(stream) - end_;
      if (tail <= 0) continue;
      part_of(time_, stream) += tail;
      end_ += tail;
    }
    return time_;
  }

  /// How far the host is ahead at the end.
  [[nodiscard]] double lead() const { return std::max(0.0, end_ - host_); }

 private:
  double& free_of(Stream stream) { return free_.at(static_cast<std::size_t>(stream)); }

  double communicate(const Operation& operation) {
    double start = free_of(operation.stream);
    for (const OperationIndex awaited : {operation.first, operation.second}) {
      if (awaited != kNone) start = std::max(start, ends_[at(awaited)]);
    }
    ends_.push_back(start + operation.seconds);
    free_of(operation.stream) = ends_.back();
    return start;
  }

  /// A wait is put down to the stream of the operation that is waited for; a wait for the host, to compute.
  double compute(const Operation& operation) {
    double start = end_;
    Stream waited_for = Stream::kCompute;
    for (const OperationIndex awaited : {operation.first, operation.second}) {
      if (awaited == kNone || ends_[at(awaited)] <= start) continue;
      start = ends_[at(awaited)];
      waited_for = (*operations_)[at(awaited)].stream;
    }
    part_of(time_, waited_for) += start - end_;
    host_ += operation.host_s;
    const double late = std::max(0.0, host_ - start);
    time_.compute_s += late + operation.seconds;
    start += late;
    end_ = start + operation.seconds;
    if (operation.synchronizes) host_ = std::max(host_, end_);
    ends_.push_back(end_);
    return start;
  }

  const std::vector<Operation>* operations_;
  std::vector<double> ends_;
  std::array<double, kStreams> free_{};
  double host_;
  double end_ = 0;  // of the compute stream
  PassTime time_;
};

PassTime PassProgram::play() const {
  std::vector<double> starts;
  return play(starts);
}

// Of equal passes in a row, one finds the host as far ahead as it left it.
PassTime PassProgram::play(std::vector<double>& starts) const {
  starts.clear();
  double lead = host_s_;
  if (synchronizes_) {
    Clock first(operations_, 0);
    first.run(nullptr);
    lead = first.lead();
  }
  PassTime time = Clock(operations_, lead).run(&starts);
  if (!synchronizes_) time.compute_s += std::max(0.0, host_s_ - time.total_s());
  return time;
}

}  // namespace ntpsim::models
