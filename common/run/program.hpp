#pragma once

#include <string_view>

#include "common/cli/options.hpp"
#include "common/io/training_result.hpp"

namespace ddp {

/// The whole of a stage's `main`: reads the options, trains, prints the table of results on stdout.
/// Returns the exit code; an error is one line on stderr, `error: ...`.
int run_program(int argc, char** argv, std::string_view stage,
                TrainingResult (*train)(const Options&));

/// Its table of results, on stdout.
void print_result(const TrainingResult& result);

}  // namespace ddp
