// The plan room must not see the sim room: this must not compile.
#include "ntpsim/plan/shard_layout.h"
#include "ntpsim/sim/specs.h"
