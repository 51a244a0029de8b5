#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

// One pass (forward or backward) of a layer as operations on streams. Operations of a stream run one after
// the other; one of another stream is waited for where an operation names it. Time in which the compute
// stream waits is communication that is not hidden.
//
// The host launches the kernels of compute operations in order, each at a cost of its own. A kernel starts no
// earlier than it is launched; the host runs ahead, but for operations that it waits for (the counts of
// tokens for each expert, say). Where nothing is waited for, a pass takes as long as the slower of the two.

namespace ntpsim::models {

enum class Stream : unsigned char { kCompute, kTp, kCp, kEp, kDp };
inline constexpr std::size_t kStreams = 5;

/// Index of an operation in its program; kNone waits for nothing.
using OperationIndex = std::int32_t;
inline constexpr OperationIndex kNone = -1;

struct Operation {
  std::string_view name;  ///< with static storage
  Stream stream = Stream::kCompute;
  double seconds = 0;
  OperationIndex first = kNone;   ///< starts when this one is over
  OperationIndex second = kNone;  ///< and this one
  double host_s = 0;              ///< that the host takes to launch it
  bool synchronizes = false;      ///< the host waits for its end
  double bytes = 0;               ///< of a communication
  std::int64_t group_size = 1;    ///< of a communication
};

/// Seconds of one pass, by what the compute stream spends them on.
struct PassTime {
  double compute_s = 0;
  double tp_s = 0;  ///< exposed
  double cp_s = 0;  ///< exposed
  double ep_s = 0;  ///< exposed
  double dp_s = 0;  ///< exposed gathers and reductions of fully sharded weights

  [[nodiscard]] double total_s() const { return compute_s + tp_s + cp_s + ep_s + dp_s; }
  PassTime& operator+=(const PassTime& other);
};

/// The program of a pass, built front to back.
class PassProgram {
 public:
  /// Adds work of the compute stream that waits for up to two operations of other streams.
  OperationIndex compute(std::string_view name, double seconds, double host_s, OperationIndex first = kNone,
                         OperationIndex second = kNone);
  /// Makes the host wait for the last operation of the compute stream.
  void synchronize();
  /// Adds a communication that starts when everything that compute has been given so far is over.
  OperationIndex communicate(Stream stream, std::string_view name, double seconds, double bytes,
                             std::int64_t group_size);
  /// The same, starting as soon as operation `after` is over, or at once with kNone.
  OperationIndex communicate_after(OperationIndex after, Stream stream, std::string_view name, double seconds,
                                   double bytes, std::int64_t group_size);
  /// The last operation of the compute stream so far, or kNone.
  [[nodiscard]] OperationIndex last_compute() const { return last_compute_; }

  [[nodiscard]] const std::vector<Operation>& operations() const { return operations_; }
  /// Plays the program; O(operations). Its parts sum to the time at which everything is over.
  [[nodiscard]] PassTime play() const;
  /// Also says when each operation starts, in seconds from the start of the pass.
  [[nodiscard]] PassTime play(std::vector<double>& starts) const;

 private:
  class Clock;

  std::vector<Operation> operations_;
  double host_s_ = 0;
  bool synchronizes_ = false;
  OperationIndex last_compute_ = kNone;
};

}  // namespace ntpsim::models
