#include "common/run/fault.hpp"

#include <cmath>
#include <csignal>
#include <stdexcept>
#include <string>

#include "common/errors.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/environment.hpp"
#include "tests/support/error_of.hpp"

namespace ddp {
namespace {

using Catch::Matchers::Contains;
using Kind = Fault::Kind;

TEST_CASE("DDP_FAULT: every kind is read") {
  const std::pair<const char*, Kind> rows[] = {{"throw", Kind::throw_exception},
                                               {"return", Kind::error_return},
                                               {"kill", Kind::kill},
                                               {"stall", Kind::stall},
                                               {"nan", Kind::nan},
                                               {"inf", Kind::inf}};
  for (const auto& [name, kind] : rows) {
    const Fault fault = parse_fault("2:31:" + std::string(name), 3);
    CHECK(fault.rank == 2);
    CHECK(fault.step == 31);
    CHECK(fault.kind == kind);
  }
  const Fault delay = parse_fault("0:1:delay-ms:250", 1);
  CHECK(delay.kind == Kind::delay);
  CHECK(delay.delay == std::chrono::milliseconds(250));
}

TEST_CASE("DDP_FAULT: anything else is refused with the variable and its form") {
  for (const char* text : {"",
                           "0",
                           "0:3",
                           "0:3:",
                           "0:3:explode",
                           "0:3:throw:1",
                           "0:3:throw ",
                           "0:0:throw",
                           "0:-1:throw",
                           "x:3:throw",
                           "-1:3:throw",
                           "0:x:throw",
                           "0:3:delay-ms",
                           "0:3:delay-ms:",
                           "0:3:delay-ms:x",
                           "0:3:delay-ms:-1",
                           "0:3:delay-ms:1:2",
                           ":::",
                           "0:3 :throw",
                           "0:99999999999999999999:throw"}) {
    CHECK_THAT(error_of<OptionError>([&] { parse_fault(text, 1); }),
               Contains("DDP_FAULT is '" + std::string(text) + "'") && Contains("rank:step:kind") &&
                   Contains("delay-ms:MS"));
  }
  CHECK_THAT(error_of<OptionError>([&] { parse_fault("2:3:throw", 2); }),
             Contains("no rank 2 among 2"));
}

TEST_CASE("DDP_FAULT: only the rank that it names has the fault") {
  {
    const ScopedVariable unset("DDP_FAULT", std::nullopt);
    CHECK_FALSE(fault_from_environment(0, 2).has_value());
  }
  const ScopedVariable variable("DDP_FAULT", "1:3:throw");
  CHECK_FALSE(fault_from_environment(0, 2).has_value());
  CHECK(fault_from_environment(1, 2).has_value());
}

TEST_CASE("DDP_FAULT: a fault happens at its step only") {
  const std::optional<Fault> none;
  CHECK_NOTHROW(trigger(none, 3));
  const std::optional fault = parse_fault("0:3:throw", 1);
  CHECK_NOTHROW(trigger(fault, 2));
  CHECK_NOTHROW(trigger(fault, 4));
  CHECK_THAT(error_of<std::runtime_error>([&] { trigger(fault, 3); }),
             Contains("rank 0") && Contains("step 3"));
  CHECK_THAT(error_of<InputError>([] { trigger(parse_fault("0:3:return", 1), 3); }),
             Contains("rank 0") && Contains("step 3"));

  CHECK_FALSE(faulty_input(fault, 3).has_value());
  CHECK(std::isnan(faulty_input(parse_fault("0:3:nan", 1), 3).value()));
  CHECK(std::isinf(faulty_input(parse_fault("0:3:inf", 1), 3).value()));
  CHECK_FALSE(faulty_input(parse_fault("0:3:nan", 1), 2).has_value());

  const auto start = std::chrono::steady_clock::now();
  trigger(parse_fault("0:3:delay-ms:20", 1), 3);
  CHECK(std::chrono::steady_clock::now() - start >= std::chrono::milliseconds(20));
}

}  // namespace
}  // namespace ddp
