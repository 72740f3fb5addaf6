#pragma once

#include <cstdio>
#include <exception>
#include <string_view>

/// What the programs with a planted mistake share. Each is called with `right` or `wrong`, says
/// whether its result is the expected one, and ends with status 0 only if it is.
namespace ddp::planted {

/// `right` and `wrong` return whether the result was right.
inline int run(int argc, char** argv, bool (*right)(), bool (*wrong)()) {
  const std::string_view variant = argc == 2 ? argv[1] : "";
  if (variant != "right" && variant != "wrong") {
    std::fprintf(stderr, "usage: %s right|wrong\n", argv[0]);
    return 2;
  }
  try {
    const bool good = variant == "right" ? right() : wrong();
    std::printf("the result is %s\n", good ? "right" : "wrong");
    return good ? 0 : 1;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 6;
  }
}

}  // namespace ddp::planted
