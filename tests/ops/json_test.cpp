#include <random>

#include "llvm/Support/MemoryBuffer.h"
#include "ops/operators.h"
#include "tests/ops/support.h"

using namespace tilewright;
using namespace tilewright_tests;

namespace {

constexpr char kWeights[] = R"("x": {"dtype": "f32", "shape": [2, 3, 8]}, "w": {"dtype": "f32", "shape": [4, 3, 3]})";

std::string error_for(const std::string& json, llvm::ArrayRef<DimValue> dims = {}) { return error_of(parse_description(json, dims)); }
std::string op_error(const std::string& op) { return error_for(with_ops(op)); }
std::string conv_error(const std::string& attributes) {
  return error_for(with_ops(R"({"op": "conv", "in": ["x", "w"], "out": "y")" + attributes + "}", kWeights));
}
ConvAttributes conv_of(const std::string& attributes) {
  const Graph graph = value_of(parse_description(with_ops(R"({"op": "conv", "in": ["x", "w"], "out": "y")" + attributes + "}", kWeights)));
  return std::get<ConvAttributes>(graph.op(0).attributes);
}
std::string file_text(const std::string& name) {
  return value_of(llvm::errorOrToExpected(llvm::MemoryBuffer::getFile(description_path(name))))->getBuffer().str();
}

const std::string kSoftmax = R"({"op": "softmax", "in": ["x"], "out": "y", "axis": -1})";

}  // namespace

TEST_CASE("json: the ready descriptions load", "[ops]") {
  const Graph conv = value_of(load_description(description_path("conv3d_min_softmax")));
  CHECK(conv.name() == "conv3d_min_softmax");
  CHECK(conv.precision() == Precision::kTf32);
  CHECK(conv.deterministic());
  REQUIRE(conv.ops().size() == 3);
  CHECK(shape_text(conv.value(conv.outputs()[0]).shape, conv.symbols()) == "[N, 24, 30, 30]");
  const Graph loss = value_of(load_description(description_path("cross_entropy")));
  CHECK(loss.default_dims()[0] == 32768);
  CHECK(shape_text(loss.value(loss.outputs()[0]).shape) == "[]");
}

TEST_CASE("json: causal_conv1d serves every case by its dimensions", "[ops]") {
  struct Case {
    std::int64_t b, d, s, w;
  };
  for (const Case& c : {Case{1, 64, 64, 4},
                        {2, 128, 128, 4},
                        {1, 256, 256, 3},
                        {1, 128, 64, 8},
                        {4, 64, 128, 4},
                        {1, 1536, 2048, 4},
                        {1, 2560, 2048, 4},
                        {1, 2560, 4096, 4}}) {
    const Graph graph = value_of(load_description(description_path("causal_conv1d"), {{"B", c.b}, {"D", c.d}, {"S", c.s}, {"W", c.w}}));
    const auto& conv = std::get<ConvAttributes>(graph.op(0).attributes);
    CHECK(conv.groups == c.d);
    CHECK(conv.pad_before[0] == c.w - 1);
    CHECK(conv.pad_after[0] == 0);
    const Shape& out = graph.value(graph.outputs()[0]).shape;
    const std::int64_t dims[] = {c.b, c.s};
    REQUIRE(graph.symbols().size() == 2);
    CHECK(out[0].evaluate(dims) == c.b);
    CHECK(out[1].is_constant(c.d));
    CHECK(out[2].evaluate(dims) == c.s);
  }
}

TEST_CASE("json: the order of inputs is the order written", "[ops]") {
  std::string inputs;
  std::string sum = "i0";
  std::string list = "\"i0\"";
  for (int i = 0; i < 40; ++i) {
    inputs += (i == 0 ? "" : ", ") + std::string("\"i") + std::to_string(i) + R"(": {"shape": [2], "dtype": "f32"})";
    if (i > 0) sum += " + i" + std::to_string(i);
    if (i > 0) list += ", \"i" + std::to_string(i) + "\"";
  }
  const Graph graph =
      value_of(parse_description(with_ops(R"({"op": "map", "in": [)" + list + R"(], "out": "y", "expr": ")" + sum + "\"}", inputs)));
  REQUIRE(graph.inputs().size() == 40);
  for (std::size_t i = 0; i < 40; ++i) CHECK(graph.value(graph.inputs()[i]).name == "i" + std::to_string(i));
}

TEST_CASE("json: malformed text gives line and column", "[ops]") {
  CHECK(error_for("") == "line 1, column 0: Unexpected EOF");
  CHECK(contains(error_for("{\n  \"name\": \"t\",\n  oops\n}"), "line 3, column "));
  CHECK(contains(error_for("{\"name\": \"t\" /* c */}"), "line 1, column "));
  CHECK(contains(error_for("// c\n{}"), "line 1, column "));
  CHECK(error_for("[1]") == "description must be an object, got [1]");
  CHECK(error_for("{\"name\": \"t\",\n \"name\": \"u\"}") == "line 2, column 2: key \"name\" is given twice");
  CHECK(contains(error_for("{\"na\\u006de\": \"t\", \"name\": \"u\"}"), "key \"name\" is given twice"));
  CHECK(contains(error_for(with_ops(replaced(kSoftmax, "\"axis\": -1", "\"axis\": -1, \"axis\": 1"))), "key \"axis\" is given twice"));
  CHECK(contains(error_for(std::string(100000, '[')), "line 1, column 65: brackets are nested deeper than 64"));
  CHECK(contains(error_for(std::string("{\"name\": \"\xff\"}")), "line 1, column "));
  // Brackets and commas inside strings are text.
  CHECK(contains(error_for("{\"name\": \"[[{,\\\"\"}"), "name must be a text of letters"));
}

TEST_CASE("json: unknown keys are refused with the nearest known one", "[ops]") {
  const std::string good = with_ops(kSoftmax);
  REQUIRE(error_for(good) == "(no error)");
  CHECK(error_for(replaced(good, "\"outputs\"", "\"output\"")) == "description: unknown key \"output\"; did you mean \"outputs\"?");
  CHECK(contains(error_for(replaced(good, "\"name\"", "\"title\"")), "description: unknown key \"title\"; known keys are name, precision"));
  CHECK(error_for(replaced(good, "\"dtype\"", "\"type\"")) == "inputs.x: unknown key \"type\"; did you mean \"dtype\"?");
  CHECK(error_for(replaced(good, "\"dims\": {}", R"("dims": {"N": {"defualt": 3}})")) ==
        "dims.N: unknown key \"defualt\"; did you mean \"default\"?");
  CHECK(op_error(R"({"op": "softmax", "in": ["x"], "out": "y", "axes": 1})") ==
        "ops[0] (softmax): unknown key \"axes\"; did you mean \"axis\"?");
  CHECK(op_error(R"({"op": "sofmax", "in": ["x"], "out": "y", "axis": 1})") ==
        "ops[0]: unknown operator \"sofmax\"; did you mean \"softmax\"?");
  CHECK(contains(op_error(R"({"op": "transpose", "in": ["x"], "out": "y"})"),
                 "ops[0]: unknown operator \"transpose\"; operators are conv, reduce"));
  CHECK(op_error(R"({"op": "relu", "in": ["x"], "out": "y", "approximate": "tanh"})").find("unknown key \"approximate\"") !=
        std::string::npos);
}

TEST_CASE("json: types and missing keys are named with their path", "[ops]") {
  const std::string good = with_ops(kSoftmax);
  CHECK(error_for(replaced(good, "8]", "\"N \"]")) == "inputs.x.shape[2] must be a non-negative integer or a dimension name, got \"N \"");
  CHECK(error_for(replaced(good, "8]", "-1]")) == "inputs.x.shape[2] must be a non-negative integer or a dimension name, got -1");
  CHECK(error_for(replaced(good, "8]", "1.5]")) == "inputs.x.shape[2] must be a non-negative integer or a dimension name, got 1.5");
  CHECK(contains(error_for(replaced(good, "8]", "99999999999999999999]")), "inputs.x.shape[2] must be a non-negative integer"));
  CHECK(error_for(replaced(good, "[2, 3, 8]", "[9223372036854775807, 3, 8]")) ==
        "input x: shape [9223372036854775807, 3, 8] has more than 2^62 elements");
  CHECK(error_for(replaced(replaced(good, "8]", "\"M\"]"), "\"dims\": {}", R"("dims": {"N": {"default": 3}})")) ==
        "inputs.x.shape[2] must be a non-negative integer or a dimension name, got \"M\"; did you mean \"N\"?");
  CHECK(error_for(replaced(good, "\"f32\"", "\"f23\"")) ==
        "inputs.x.dtype must be one of \"f32\", \"f16\", \"bf16\", \"i32\", \"i64\", \"bool\", got \"f23\"; did you mean \"f32\"?");
  CHECK(error_for(replaced(good, "[2, 3, 8]", "8")) == "inputs.x.shape must be a list of sizes, got 8");
  CHECK(error_for(replaced(good, R"({"dtype": "f32", "shape": [2, 3, 8]})", "3")) ==
        "inputs.x must be an object with dtype and shape, got 3");
  CHECK(error_for(replaced(good, R"("dtype": "f32", )", "")) == "inputs.x: \"dtype\" is missing");
  CHECK(error_for(replaced(good, R"("name": "t", )", "")) == "description: \"name\" is missing");
  CHECK(error_for(replaced(good, "\"t\"", "\"a b\"")) == "name must be a text of letters, digits, _, - and ., got \"a b\"");
  CHECK(error_for(replaced(good, "\"dims\": {}", "\"dims\": []")) == "dims must be an object, got []");
  CHECK(error_for(replaced(good, "\"dims\": {}", R"("dims": {"N": {"min": 3}})")) == "dims.N: \"default\" is missing");
  CHECK(error_for(replaced(good, "\"dims\": {}", R"("dims": {"N": {"default": "3"}})")) == "dims.N.default must be an integer, got \"3\"");
  CHECK(error_for(replaced(good, "\"dims\": {}", R"("dims": {"N": {"default": 3}})")) == "t: dimension N is in no input's shape");
  CHECK(error_for(replaced(good, "\"dims\": {}", R"("dims": {}, "precision": "tf23")")) ==
        "precision must be one of \"ieee\", \"tf32x3\", \"bf16x3\", \"tf32\", \"bf16\", got \"tf23\"; did you mean \"tf32\"?");
  CHECK(error_for(replaced(good, "\"dims\": {}", R"("dims": {}, "precision": "bf16x3")")) ==
        "t: precision \"bf16x3\" is not offered yet; use \"tf32x3\" or \"tf32\"");
  CHECK(error_for(replaced(good, "\"dims\": {}", R"("deterministic": 1)")) == "deterministic must be true or false, got 1");
  CHECK(error_for(replaced(good, "[\"y\"]", "\"y\"")) == "outputs must be a list of values' names, got \"y\"");
  CHECK(error_for(replaced(good, "[\"y\"]", "[\"yy\"]")) == "outputs[0]: unknown value \"yy\"; did you mean \"y\"?");
  CHECK(error_for(replaced(good, "8]}", "8], \"strides\": [1, 2]}")) == "input x: expected 3 strides for shape [2, 3, 8], got 2");
  CHECK(error_for(replaced(good, "8]}", "8], \"strides\": []}")) == "inputs.x.strides must be 3 numbers, got []");
  CHECK(contains(error_for(replaced(good, "8]", "\"" + std::string(300, 'q') + "\"]")), "qqq..."));
}

TEST_CASE("json: errors of an operator name its place and kind", "[ops]") {
  CHECK(op_error(R"(3)") == "ops[0] must be an object, got 3");
  CHECK(op_error(R"({"in": ["x"]})") == "ops[0]: \"op\" is missing");
  CHECK(op_error(R"({"op": 3})") == "ops[0].op must be an operator's name, got 3");
  CHECK(op_error(R"({"op": "softmax", "in": ["x"], "axis": 1})") == "ops[0] (softmax): \"out\" is missing");
  CHECK(op_error(R"({"op": "softmax", "out": "y", "axis": 1})") == "ops[0] (softmax): \"in\" is missing");
  CHECK(op_error(R"({"op": "softmax", "in": ["x"], "out": "y"})") == "ops[0] (softmax): \"axis\" is missing: integer");
  CHECK(op_error(R"({"op": "softmax", "in": ["x"], "out": "y", "axis": 3})") ==
        "ops[0] (softmax): axis of x [2, 3, 8]: expected a number in [-3, 2], got 3");
  CHECK(op_error(R"({"op": "softmax", "in": ["x"], "out": "y", "axis": 1.5})") == "ops[0] (softmax): axis must be an integer, got 1.5");
  CHECK(op_error(R"({"op": "softmax", "in": "x", "out": "y", "axis": 1})") == "ops[0] (softmax): in must be a list of operands, got \"x\"");
  CHECK(op_error(R"({"op": "softmax", "in": [2], "out": "y", "axis": 1})") == "ops[0] (softmax): in[0] must be a value's name, got 2");
  CHECK(op_error(R"({"op": "softmax", "in": ["x", "x"], "out": "y", "axis": 1})") == "ops[0] (softmax): in: expected x, got 2 operands");
  CHECK(op_error(R"({"op": "softmax", "in": ["xx"], "out": "y", "axis": 1})") ==
        "ops[0] (softmax): in[0]: unknown value \"xx\"; did you mean \"x\"?");
  CHECK(op_error(R"({"op": "softmax", "in": ["x"], "out": "x", "axis": 1})") == "ops[0] (softmax): value x: the name is taken");
  CHECK(op_error(R"({"op": "softmax", "in": ["m"], "out": "y", "axis": 1}, {"op": "relu", "in": ["x"], "out": "m"})") ==
        "ops[0] (softmax): in[0]: \"m\" is computed by ops[1]; an op stands after those it reads");
  CHECK(op_error(R"({"op": "reduce", "in": ["x"], "out": "y", "kind": "man", "axes": [1]})") ==
        "ops[0] (reduce): kind must be one of \"sum\", \"mean\", \"min\", \"max\", got \"man\"; did you mean \"mean\"?");
  CHECK(op_error(R"({"op": "reduce", "in": ["x"], "out": "y", "kind": "min", "axes": 1})") ==
        "ops[0] (reduce): axes must be a list of integers, got 1");
  CHECK(op_error(R"({"op": "reduce", "in": ["x"], "out": "y", "kind": "min", "axes": ["a"]})") ==
        "ops[0] (reduce): axes[0] must be an integer, got \"a\"");
  CHECK(op_error(R"({"op": "reduce", "in": ["x"], "out": "y", "kind": "min", "axes": [1], "keepdims": 1})") ==
        "ops[0] (reduce): keepdims must be true or false, got 1");
  CHECK(op_error(R"({"op": "add", "in": ["x"], "out": "y"})") == "ops[0] (add): in: expected a, b, got 1 operand");
  CHECK(op_error(R"({"op": "add", "in": [1, 2], "out": "y"})") == "ops[0] (add): expected at least one operand that is a value");
  CHECK(op_error(R"({"op": "map", "in": [], "out": "y", "expr": "1"})") ==
        "ops[0] (map): in: expected at least one value for in, got 0 operands");
  CHECK(op_error(R"({"op": "map", "in": ["x"], "out": "y", "expr": 1})") ==
        "ops[0] (map): expr must be a text such as \"gelu(x + z) * 0.5\", got 1");
  CHECK(op_error(R"({"op": "map", "in": ["x"], "out": "y", "expr": "x +"})") ==
        "ops[0] (map): expr, column 4: expected a value, found the end");
  CHECK(op_error(R"({"op": "cast", "in": ["x"], "out": "y", "dtype": "f64"})").find("dtype must be one of") != std::string::npos);
  CHECK(op_error(R"({"op": "cast", "in": ["x"], "out": "y"})") == "ops[0] (cast): \"dtype\" is missing: f32, f16, bf16, i32, i64, bool");
  CHECK(op_error(R"({"op": "gelu", "in": ["x"], "out": "y", "approximate": "erf"})") ==
        "ops[0] (gelu): approximate must be one of \"none\", \"tanh\", got \"erf\"");
  CHECK(op_error(R"({"op": "conv", "in": ["x"], "out": "y"})") == "ops[0] (conv): in: expected x, w, optional bias, got 1 operand");
}

TEST_CASE("json: conv reads every spelling of its attributes", "[ops]") {
  using Numbers = llvm::SmallVector<std::int64_t, 3>;
  CHECK(conv_of("").stride == Numbers{1});
  CHECK(conv_of(R"(, "stride": 2)").stride == Numbers{2});
  CHECK(conv_of(R"(, "stride": [2])").stride == Numbers{2});
  CHECK(conv_of(R"(, "padding": 2)").pad_after == Numbers{2});
  CHECK(conv_of(R"(, "padding": [2])").pad_before == Numbers{2});
  CHECK(conv_of(R"(, "padding": [[3, 1]])").pad_before == Numbers{3});
  CHECK(conv_of(R"(, "padding": [[3, 1]])").pad_after == Numbers{1});
  CHECK(conv_of(R"(, "padding": "causal")").pad_before == Numbers{2});
  CHECK(conv_of(R"(, "padding": "causal", "dilation": 3)").pad_before == Numbers{6});
  CHECK(conv_of(R"(, "padding": "causal", "dilation": 3)").pad_after == Numbers{0});
  CHECK(conv_error(R"(, "padding": [3, 1])") ==
        "ops[0] (conv): padding must be a number, 1 of number or [before, after] (one per spatial dimension), or \"causal\", got [3,1]; "
        "before and after of "
        "one dimension are written [[before, after]]");
  CHECK(contains(conv_error(R"(, "padding": "casual")"), "got \"casual\"; did you mean \"causal\"?"));
  CHECK(contains(conv_error(R"(, "padding": [[1, 2, 3]])"), "padding[0] must be a number or [before, after], got [1,2,3]"));
  CHECK(contains(conv_error(R"(, "padding": [["a", 2]])"), "padding[0] must be an integer or a baked dimension, got \"a\""));
  CHECK(contains(conv_error(R"(, "padding": -1)"), "ops[0] (conv): padding: expected a number in [0, 2147483647], got -1"));
  CHECK(contains(conv_error(R"(, "stride": [1, 2])"), "stride must be an integer or 1 (one per spatial dimension), got [1,2]"));
  CHECK(contains(conv_error(R"(, "dilation": "a")"), "dilation must be an integer or a baked dimension, got \"a\""));
  CHECK(contains(conv_error(R"(, "groups": 1.5)"), "groups must be an integer or a baked dimension, got 1.5"));
  CHECK(contains(error_for(with_ops(R"({"op": "conv", "in": ["x", "w"], "out": "y", "padding": "causal"})",
                                    R"("x": {"dtype": "f32", "shape": [2, 3, 8, 8]}, "w": {"dtype": "f32", "shape": [4, 3, 3, 3]})")),
                 "padding: \"causal\" is for one spatial dimension, x [2, 3, 8, 8] has 2"));
}

TEST_CASE("json: baked dimensions are numbers from the start", "[ops]") {
  const std::string json = with_ops(R"({"op": "conv", "in": ["x", "w"], "out": "y", "groups": "D"})",
                                    R"("x": {"dtype": "f32", "shape": ["N", "D", 8]}, "w": {"dtype": "f32", "shape": ["D", 1, 3]})",
                                    R"({"N": {"default": 2}, "D": {"default": 6, "max": 100, "baked": true}})");
  const Graph graph = value_of(parse_description(json));
  REQUIRE(graph.symbols().size() == 1);
  REQUIRE(graph.baked_dims().size() == 1);
  CHECK(graph.baked_dims()[0].name == "D");
  CHECK(std::get<ConvAttributes>(graph.op(0).attributes).groups == 6);
  const Graph other = value_of(parse_description(json, {{"D", 9}, {"N", 5}}));
  CHECK(std::get<ConvAttributes>(other.op(0).attributes).groups == 9);
  CHECK(other.default_dims()[0] == 2);
  CHECK(error_for(json, {{"D", 101}}) == "dimension D: 101 is outside its range [1, 100]");
  CHECK(error_for(json, {{"d", 1}}) == "dimension \"d\" is not in dims of t; did you mean \"D\"?");
  CHECK(contains(error_for(replaced(json, "\"groups\": \"D\"", "\"groups\": \"N\"")),
                 "groups: dimension \"N\" is open until launch; an attribute takes a number or a baked dimension"));
}

TEST_CASE("json: a file that is missing or wrong is named", "[ops]") {
  llvm::Expected<Graph> graph = load_description("/no/such/file.json");
  REQUIRE_FALSE(static_cast<bool>(graph));
  const ErrorFacts facts = take_error_facts(graph.takeError());
  CHECK(facts.status == Status::kIo);
  CHECK(contains(facts.message, "/no/such/file.json: cannot be read"));
  CHECK(contains(error_of(load_description(std::string(TILEWRIGHT_SOURCE_DIR) + "/CMakeLists.txt")), "CMakeLists.txt: line 1, column "));
}

TEST_CASE("json: every operator of the table is read", "[ops]") {
  for (const OperatorInfo& info : operator_table()) {
    INFO(info.name.str());
    CHECK_FALSE(info.formula.empty());
    CHECK_FALSE(info.result.empty());
    CHECK_FALSE(contains(op_error(R"({"op": ")" + info.name.str() + R"(", "in": ["x", "x"], "out": "y"})"), "has no reader"));
    if (info.expansion.empty() || info.name == "cast") continue;
    const std::string in = info.operands.size() == 1 ? R"(["x"])" : R"(["x", 2])";
    CHECK(op_error(R"({"op": ")" + info.name.str() + R"(", "in": )" + in + R"(, "out": "y"})") == "(no error)");
  }
}

TEST_CASE("json: a description cut anywhere is an error and never a crash", "[ops]") {
  for (const char* name : {"conv3d_min_softmax", "cross_entropy", "causal_conv1d"}) {
    const std::string text = file_text(name);
    const std::size_t whole = llvm::StringRef(text).rtrim().size();
    for (std::size_t length = 0; length < whole; ++length) {
      const std::string error = error_for(text.substr(0, length));
      INFO(length);
      REQUIRE(contains(error, "line "));
    }
  }
}

TEST_CASE("json: random changes never crash", "[ops]") {
  std::mt19937 random(11);
  const std::string pieces[] = {"{", "}",    "[",    "]",    "\"",    ",",     ":",  "-",    "0",
                                "9", "null", "true", "1e99", "\"x\"", "\"N\"", "\\", "\xc3", " "};
  unsigned accepted = 0;
  for (const char* name : {"conv3d_min_softmax", "cross_entropy", "causal_conv1d"}) {
    const std::string original = file_text(name);
    for (int round = 0; round < 1500; ++round) {
      std::string text = original;
      const unsigned changes = 1 + random() % 3;
      for (unsigned n = 0; n < changes; ++n) {
        const std::size_t at = random() % text.size();
        switch (random() % 4) {
          case 0:
            text.erase(at, 1 + random() % 5);
            break;
          case 1:
            text.insert(at, pieces[random() % std::size(pieces)]);
            break;
          case 2:
            text[at] = static_cast<char>(random() % 256);
            break;
          default: {
            const std::size_t from = random() % text.size();
            text.insert(at, text.substr(from, random() % 40));
          }
        }
        if (text.empty()) text = "{";
      }
      llvm::Expected<Graph> graph = parse_description(text);
      if (!graph) {
        REQUIRE_FALSE(llvm::toString(graph.takeError()).empty());
        continue;
      }
      ++accepted;
      REQUIRE(signature(*graph).size() == 32);
    }
  }
  CHECK(accepted > 0);
}
