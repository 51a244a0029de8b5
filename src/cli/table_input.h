#pragma once

#include <optional>
#include <string>

#include <boost/program_options.hpp>

#include "ntpsim/analysis/throughput_table.h"
#include "ntpsim/core/diagnostics.h"

namespace ntpsim::cli {

// --table and --models, of verbs that read measured runs.
void add_table_options(boost::program_options::options_description& options);

// The table that they name, or the one that is built in.
[[nodiscard]] Result<analysis::ThroughputTable> read_table(
    const boost::program_options::variables_map& values);

// The value of an option of text, if it is given.
[[nodiscard]] std::optional<std::string> option(const boost::program_options::variables_map& values,
                                                const char* name);

}  // namespace ntpsim::cli
