// Catch2, version 2 (Debian 12) or 3 (Ubuntu 24.04). Tests include this and keep to what both offer: TEST_CASE, SECTION, CHECK,
// REQUIRE, INFO, CAPTURE, GENERATE and, without a namespace, Approx. main comes from the build.
#pragma once

#if __has_include(<catch2/catch_all.hpp>)
#include <catch2/catch_all.hpp>
using Catch::Approx;  // where version 2 has it
#else
#include <catch2/catch.hpp>
#endif
