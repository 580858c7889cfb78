#include "runtime/error.h"
#include "llvm/Support/JSON.h"
#include "tests/catch.h"

using tilewright::did_you_mean;
using tilewright::ErrorFacts;
using tilewright::make_error;
using tilewright::nearest_name;
using tilewright::prefix_error;
using tilewright::Status;
using tilewright::take_error_facts;

TEST_CASE("error: status and text survive", "[runtime]") {
  const ErrorFacts facts = take_error_facts(make_error(Status::kUnsupported, "weight must have shape [{}], got [{}]", 4096, 4095));
  CHECK(facts.status == Status::kUnsupported);
  CHECK(facts.message == "weight must have shape [4096], got [4095]");
}

TEST_CASE("error: a foreign error is internal with its own message", "[runtime]") {
  llvm::Expected<llvm::json::Value> value = llvm::json::parse("[1,");
  REQUIRE_FALSE(static_cast<bool>(value));
  const ErrorFacts facts = take_error_facts(value.takeError());
  CHECK(facts.status == Status::kInternal);
  CHECK(facts.message.find("1:") != std::string::npos);
}

TEST_CASE("error: joined errors give the first status and all texts", "[runtime]") {
  const ErrorFacts facts = take_error_facts(llvm::joinErrors(make_error(Status::kIo, "one"), make_error(Status::kDriver, "two")));
  CHECK(facts.status == Status::kIo);
  CHECK(facts.message == "one; two");
}

TEST_CASE("error: a prefix keeps the status and success stays success", "[runtime]") {
  const ErrorFacts facts = take_error_facts(prefix_error(make_error(Status::kCorrupt, "bad"), "file: "));
  CHECK(facts.status == Status::kCorrupt);
  CHECK(facts.message == "file: bad");
  CHECK_FALSE(static_cast<bool>(prefix_error(llvm::Error::success(), "file: ")));
}

TEST_CASE("error: every status has its own name", "[runtime]") {
  CHECK(tilewright::status_name(Status::kInvalidArgument) == "invalid argument");
  CHECK(tilewright::status_name(Status::kInternal) == "internal");
}

TEST_CASE("error: the nearest name is close or none", "[runtime]") {
  const llvm::StringRef names[] = {"stride", "padding", "dilation", "groups"};
  CHECK(nearest_name("paddin", names) == "padding");
  CHECK(nearest_name("pading", names) == "padding");
  CHECK(nearest_name("Stride", names) == "stride");
  CHECK(nearest_name("group", names) == "groups");
  CHECK(nearest_name("axis", names).empty());
  CHECK(nearest_name("", names).empty());
  CHECK(nearest_name("x", {}).empty());
  CHECK(did_you_mean("strid", names) == "; did you mean \"stride\"?");
  CHECK(did_you_mean("axis", names).empty());
}
