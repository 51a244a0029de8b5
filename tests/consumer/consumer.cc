// Plans the gradient sync of 128 attention heads between groups of 32 GPUs and one of which 30 are left. Exit
// status 0: the plan is the one expected.
#include <cstdio>

#include "ntpsim/plan/sync_plan.h"

int main() {
  const ntpsim::plan::SyncPlan plan(128, 32, 32, 30);
  const long long heads = static_cast<long long>(plan.sync().max_units());
  const long long moved = static_cast<long long>(plan.pre_sync().total());
  std::printf("128 heads over 30 ranks: at most %lld on one; %lld move before the sync\n", heads, moved);
  return heads == 5 && moved == 8 && plan.objective() == plan.lower_bound() ? 0 : 1;
}
