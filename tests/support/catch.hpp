#pragma once

// Catch2 version 2 (Debian 12) has one header, version 3 (Ubuntu 24.04) another.
#if __has_include(<catch2/catch_all.hpp>)
#include <catch2/catch_all.hpp>
#else
#include <catch2/catch.hpp>
#endif
