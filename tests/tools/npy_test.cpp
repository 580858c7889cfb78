// .npy files: what is written is what NumPy would read, and nothing malformed is taken.
#include "tools/npy.h"

#include <filesystem>
#include <fstream>

#include "runtime/error.h"
#include "tests/tools/tool_process.h"

using namespace tilewright;
using namespace tilewright_tests;

namespace {

std::string file_of(const std::string& header, const std::string& data, char version = 1) {
  std::string bytes = "\x93NUMPY";
  bytes += version;
  bytes += '\0';
  for (int i = 0; i < (version == 1 ? 2 : 4); ++i) bytes += static_cast<char>(header.size() >> (8 * i) & 0xff);
  return bytes + header + data;
}

std::string header_of(const std::string& descr, const std::string& shape, const std::string& order = "False") {
  return "{'descr': '" + descr + "', 'fortran_order': " + order + ", 'shape': " + shape + ", }\n";
}

std::string npy_error(const std::string& bytes) {
  auto tensor = cli::decode_npy(bytes, "a.npy");
  if (tensor) return "(no error)";
  const ErrorFacts facts = take_error_facts(tensor.takeError());
  CHECK(facts.status == Status::kInvalidArgument);
  CHECK(contains(facts.message, "a.npy"));
  return facts.message;
}

HostTensor decoded(const std::string& bytes) {
  auto tensor = cli::decode_npy(bytes, "a.npy");
  if (!tensor) FAIL(llvm::toString(tensor.takeError()));
  return std::move(*tensor);
}

const std::string kTwoFloats("\0\0\x80\x3f\0\0\0\xc0", 8);  // 1, -2

}  // namespace

TEST_CASE("npy: every dtype and rank comes back as it was", "[tools]") {
  for (DType dtype : {DType::kF32, DType::kF16, DType::kBf16, DType::kI32, DType::kI64, DType::kBool}) {
    for (const llvm::SmallVector<std::int64_t, 6>& shape :
         {llvm::SmallVector<std::int64_t, 6>{}, {5}, {2, 3}, {2, 1, 3}, {2, 3, 1, 2}, {0}, {3, 0, 2}}) {
      HostTensor t = HostTensor::make(dtype, shape);
      for (std::int64_t i = 0; i < t.element_count(); ++i)
        t.set(i, dtype == DType::kBool ? static_cast<double>(i % 2) : 1.5 * static_cast<double>(i) - 2);
      const std::string bytes = cli::encode_npy(t);
      CHECK((bytes.size() - t.bytes.size()) % 64 == 0);
      const HostTensor back = decoded(bytes);
      CHECK(back.dtype == dtype);
      CHECK(back.shape == shape);
      CHECK(back.bytes == t.bytes);
    }
  }
}

TEST_CASE("npy: the header is what NumPy writes", "[tools]") {
  const auto text = [](DType dtype, llvm::ArrayRef<std::int64_t> shape) {
    return cli::encode_npy(HostTensor::make(dtype, shape)).substr(10);
  };
  CHECK(contains(text(DType::kF32, {}), "{'descr': '<f4', 'fortran_order': False, 'shape': (), }"));
  CHECK(contains(text(DType::kI64, {7}), "{'descr': '<i8', 'fortran_order': False, 'shape': (7,), }"));
  CHECK(contains(text(DType::kBf16, {2, 30}), "{'descr': '<V2', 'fortran_order': False, 'shape': (2, 30), }"));
}

TEST_CASE("npy: the bytes of numpy.save are read and written", "[tools]") {
  // numpy.save(f, numpy.array([[1, 2], [3, -4.5]], numpy.float32)).
  std::string header = "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 2), }";
  header.resize(117, ' ');
  const std::string file = file_of(header + '\n', std::string("\0\0\x80\x3f\0\0\0\x40\0\0\x40\x40\0\0\x90\xc0", 16));
  const HostTensor t = decoded(file);
  CHECK(t.dtype == DType::kF32);
  CHECK(t.shape == llvm::SmallVector<std::int64_t, 6>{2, 2});
  CHECK(t.at(2) == 3.0);
  CHECK(t.at(3) == -4.5);
  CHECK(cli::encode_npy(t) == file);
  // Other order of keys and other quotes, a scalar.
  CHECK(decoded(file_of(R"({"shape": (), "fortran_order": False, "descr": "<f4"})", kTwoFloats.substr(0, 4))).at(0) == 1.0);
}

TEST_CASE("npy: a strided tensor is written in row-major order", "[tools]") {
  HostTensor t = HostTensor::make(DType::kI32, {2, 3}, {1, 2});
  for (std::int64_t i = 0; i < 6; ++i) t.set(i, static_cast<double>(i));
  const HostTensor back = decoded(cli::encode_npy(t));
  CHECK(back.is_row_major());
  for (std::int64_t i = 0; i < 6; ++i) CHECK(back.at(i) == static_cast<double>(i));
}

TEST_CASE("npy: versions 1, 2 and 3 are read, others refused", "[tools]") {
  for (char version : {1, 2, 3}) {
    const HostTensor t = decoded(file_of(header_of("<f4", "(2,)"), kTwoFloats, version));
    CHECK(t.at(0) == 1.0);
    CHECK(t.at(1) == -2.0);
  }
  CHECK(contains(npy_error(file_of(header_of("<f4", "(2,)"), kTwoFloats, 4)), "version 4"));
  CHECK(contains(npy_error(file_of(header_of("<f4", "(2,)"), kTwoFloats, 0)), "version 0"));
}

TEST_CASE("npy: another order or dtype is refused by name", "[tools]") {
  CHECK(contains(npy_error(file_of(header_of("<f4", "(2,)", "True"), kTwoFloats)), "Fortran order"));
  CHECK(contains(npy_error(file_of(header_of(">f4", "(2,)"), kTwoFloats)), "big-endian"));
  CHECK(contains(npy_error(file_of(header_of("<f8", "(1,)"), kTwoFloats)), "float64"));
  CHECK(contains(npy_error(file_of(header_of("<c8", "(1,)"), kTwoFloats)), "'<c8'"));
  CHECK(contains(npy_error(file_of("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (2,), }", kTwoFloats)), "structured"));
  CHECK(contains(npy_error(file_of("{'fortran_order': False, 'shape': (2,), }", kTwoFloats)), "descr"));
  CHECK(contains(npy_error(file_of("{'descr': <f4, 'fortran_order': False, 'shape': (2,), }", kTwoFloats)), "its descr is no string"));
  CHECK(contains(npy_error(file_of(header_of("<\n\x1b[1m" + std::string(100, 'z'), "(2,)"), kTwoFloats)),
                 "'<??[1m" + std::string(26, 'z') + "...'"));
  CHECK(contains(npy_error(file_of("{'descr': '<f4', 'shape': (2,), }", kTwoFloats)), "fortran_order"));
  CHECK(contains(npy_error(file_of("{'descr': '<f4', 'fortran_order': False, }", kTwoFloats)), "shape"));
  CHECK(contains(npy_error(file_of(header_of("<f4", "(-2,)"), kTwoFloats)), "'-2'"));
  CHECK(contains(npy_error(file_of(header_of("<f4", "(4294967296, 4294967296)"), kTwoFloats)), "larger than memory"));
  CHECK(contains(npy_error(file_of(header_of("<f4", "(0, 9223372036854775807, 9223372036854775807)"), "")), "larger than memory"));
}

TEST_CASE("npy: a file cut at any byte, too long or with a wrong magic is refused", "[tools]") {
  for (char version : {1, 2}) {
    const std::string whole = file_of(header_of("<f4", "(2,)"), kTwoFloats, version);
    REQUIRE(npy_error(whole) == "(no error)");
    for (std::size_t n = 0; n < whole.size(); ++n) {
      CAPTURE(n);
      CHECK(npy_error(whole.substr(0, n)) != "(no error)");
    }
    CHECK(contains(npy_error(whole + '\0'), "9 bytes of data"));
    CHECK(contains(npy_error(whole.substr(0, 20)), "its header is cut off"));
    for (std::size_t i = 0; i < 6; ++i) {
      std::string wrong = whole;
      wrong[i] ^= 1;
      CHECK(contains(npy_error(wrong), "not an .npy file"));
    }
  }
}

TEST_CASE("npy: a boolean byte other than 0 is true", "[tools]") {
  const HostTensor t = decoded(file_of(header_of("|b1", "(3,)"), std::string("\0\1\xff", 3)));
  CHECK(t.bytes == std::vector<std::byte>{std::byte{0}, std::byte{1}, std::byte{1}});
}

TEST_CASE("npy: a file is written whole, and a place that cannot be written is left as it was", "[tools]") {
  namespace fs = std::filesystem;
  ScratchDirectory scratch;
  const fs::path directory = fs::path(scratch.write("a.npy", "old")).parent_path();
  const HostTensor t = decoded(file_of(header_of("<f4", "(2,)"), kTwoFloats));
  const auto entries = [&] { return std::distance(fs::directory_iterator(directory), fs::directory_iterator()); };
  const auto before = entries();
  std::ifstream reader(directory / "a.npy");  // who reads the old file meanwhile keeps it
  auto saved = cli::save_npy((directory / "a.npy").string(), t);
  REQUIRE_FALSE(static_cast<bool>(saved));
  std::string old;
  CHECK(reader >> old);
  CHECK(old == "old");
  CHECK(entries() == before);  // no temporary file beside it
  auto back = cli::load_npy((directory / "a.npy").string());
  REQUIRE(static_cast<bool>(back));
  CHECK(back->bytes == t.bytes);
  auto odd_name = cli::save_npy((directory / "100%%.npy").string(), t);
  REQUIRE_FALSE(static_cast<bool>(odd_name));
  CHECK(fs::exists(directory / "100%%.npy"));
  // A directory in the way of the name, and a directory that is not there.
  fs::create_directories(directory / "taken.npy" / "full");
  const auto with_taken = entries();
  for (const fs::path& path : {directory / "taken.npy", directory / "absent" / "a.npy"}) {
    const ErrorFacts facts = take_error_facts(cli::save_npy(path.string(), t));
    CHECK(facts.status == Status::kIo);
    CHECK(contains(facts.message, path.string()));
    CHECK(entries() == with_taken);
  }
  CHECK_FALSE(fs::exists(directory / "absent"));
  auto missing = cli::load_npy((directory / "none.npy").string());
  REQUIRE_FALSE(static_cast<bool>(missing));
  CHECK(take_error_facts(missing.takeError()).status == Status::kIo);
}
