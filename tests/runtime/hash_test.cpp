#include "runtime/hash.h"

#include "tests/runtime/support.h"

using namespace tilewright;

TEST_CASE("hash: BLAKE3 of nothing is the published value", "[runtime]") {
  // The BLAKE3 specification's test vectors, input length 0.
  CHECK(digest_hex(blake3("")) == "af1349b9f5f9a1a6a0404dea36dcc9499bcb25c9adc112b7cc9a93cae41f3262");
}

TEST_CASE("hash: pieces do not run into each other", "[runtime]") {
  const auto hash = [](std::initializer_list<std::pair<const char*, const char*>> pieces) {
    KeyHasher hasher;
    for (const auto& [label, value] : pieces) hasher.add(label, value);
    return hasher.hex();
  };
  CHECK(hash({{"a", "bc"}}) != hash({{"ab", "c"}}));
  CHECK(hash({{"a", "b"}, {"c", "d"}}) != hash({{"a", "bcd"}}));
  CHECK(hash({{"a", "b"}}) == hash({{"a", "b"}}));
}
