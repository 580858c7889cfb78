// The reference's convolution against loops written from the formula, over every attribute.
#include "tests/ops/reference_support.h"

using namespace tilewright;
using namespace tilewright_tests;

namespace {

struct Problem {
  Sizes x, w;  // as given to the op
  Sizes stride, dilation, before, after;
  std::int64_t groups = 1;
  bool bias = true;
};

ConvAttributes attributes_of(const Problem& p) {
  ConvAttributes attributes;
  attributes.stride.assign(p.stride.begin(), p.stride.end());
  attributes.dilation.assign(p.dilation.begin(), p.dilation.end());
  attributes.pad_before.assign(p.before.begin(), p.before.end());
  attributes.pad_after.assign(p.after.begin(), p.after.end());
  attributes.groups = p.groups;
  return attributes;
}

// Calls body with every index of a box.
template <typename Body>
void for_each_index(const Sizes& sizes, Body body) {
  for (std::int64_t linear = 0; linear < count_of(sizes); ++linear) {
    Sizes index(sizes.size());
    std::int64_t rest = linear;
    for (std::size_t d = sizes.size(); d-- > 0; rest /= sizes[d]) index[d] = rest % sizes[d];
    body(linear, index);
  }
}

std::int64_t linear_of(const Sizes& sizes, const Sizes& index) {
  std::int64_t linear = 0;
  for (std::size_t d = 0; d < sizes.size(); ++d) linear = linear * sizes[d] + index[d];
  return linear;
}

struct Result {
  Sizes shape;
  std::vector<double> values;
};

// The formula, one output at a time.
Result by_definition(const Problem& p, const std::vector<double>& x, const std::vector<double>& w, const std::vector<double>& bias) {
  Result y;
  y.shape = {p.x[0], p.w[0]};
  for (std::size_t d = 0; d + 2 < p.x.size(); ++d) {
    y.shape.push_back((p.x[d + 2] + p.before[d] + p.after[d] - p.dilation[d] * (p.w[d + 2] - 1) - 1) / p.stride[d] + 1);
  }
  y.values.resize(static_cast<std::size_t>(count_of(y.shape)));
  const Sizes taps(p.w.begin() + 2, p.w.end());
  for_each_index(y.shape, [&](std::int64_t linear, const Sizes& out) {
    const std::int64_t group = out[1] / (p.w[0] / p.groups);
    double sum = bias.empty() ? 0.0 : bias[static_cast<std::size_t>(out[1])];
    for (std::int64_t c = 0; c < p.w[1]; ++c) {
      for_each_index(taps, [&](std::int64_t, const Sizes& k) {
        Sizes at{out[0], group * p.w[1] + c}, tap{out[1], c};
        for (std::size_t d = 0; d < k.size(); ++d) {
          at.push_back(out[d + 2] * p.stride[d] + k[d] * p.dilation[d] - p.before[d]);
          tap.push_back(k[d]);
          if (at.back() < 0 || at.back() >= p.x[d + 2]) return;
        }
        sum += x[static_cast<std::size_t>(linear_of(p.x, at))] * w[static_cast<std::size_t>(linear_of(p.w, tap))];
      });
    }
    y.values[static_cast<std::size_t>(linear)] = sum;
  });
  return y;
}

std::vector<Input> inputs_of(const Problem& p, const std::vector<double>& x, const std::vector<double>& w, const std::vector<double>& bias,
                             DType dtype = DType::kF32) {
  std::vector<Input> inputs{{p.x, x, dtype}, {p.w, w, dtype}};
  if (p.bias) inputs.push_back({{p.w[0]}, bias});
  return inputs;
}

AddOp conv_op(const Problem& p) {
  return [&p](GraphBuilder& builder, llvm::ArrayRef<ValueId> in) {
    return builder.conv(in[0], in[1], p.bias ? std::optional(in[2]) : std::nullopt, attributes_of(p));
  };
}

// Multiples of 1/8 make every sum exact in double, so that the order of additions does not matter.
void check_conv(const Problem& p, DType dtype = DType::kF32) {
  const std::vector<double> x = eighths(count_of(p.x), 1), w = eighths(count_of(p.w), 2);
  const std::vector<double> bias = p.bias ? eighths(p.w[0], 3) : std::vector<double>();
  const Result want = by_definition(p, x, w, bias);
  const ReferenceTensor got = reference_of(inputs_of(p, x, w, bias, dtype), conv_op(p));
  CHECK(sizes_of(got) == want.shape);
  check_values(got.values, want.values);
}

}  // namespace

TEST_CASE("reference conv: a sum worked out by hand", "[ops]") {
  // [1 2 3 4] with taps (10, 1), causal: 0*10+1, 1*10+2, ...
  const Problem causal{{1, 1, 4}, {1, 1, 2}, {1}, {1}, {1}, {0}};
  const ReferenceTensor y = reference_of({{{1, 1, 4}, {1, 2, 3, 4}}, {{1, 1, 2}, {10, 1}}, {{1}, {0.5}}}, conv_op(causal));
  check_values(y.values, {1.5, 12.5, 23.5, 34.5});
}

TEST_CASE("reference conv: one, two and three dimensions", "[ops]") {
  check_conv({{2, 3, 11}, {4, 3, 3}, {1}, {1}, {0}, {0}});
  check_conv({{2, 3, 6, 7}, {4, 3, 3, 2}, {1, 1}, {1, 1}, {0, 0}, {0, 0}});
  check_conv({{2, 3, 4, 5, 6}, {4, 3, 3, 2, 3}, {1, 1, 1}, {1, 1, 1}, {0, 0, 0}, {0, 0, 0}});
  check_conv({{2, 3, 4, 5, 6}, {4, 3, 3, 2, 3}, {1, 1, 1}, {1, 1, 1}, {0, 0, 0}, {0, 0, 0}, 1, false});
  check_conv({{1, 1, 1}, {1, 1, 1}, {1}, {1}, {0}, {0}});
}

TEST_CASE("reference conv: stride, dilation and asymmetric padding", "[ops]") {
  for (std::int64_t stride : {1, 2, 3}) {
    for (std::int64_t dilation : {1, 2}) {
      for (const auto& [before, after] : {std::pair<std::int64_t, std::int64_t>{0, 0}, {2, 0}, {0, 3}, {5, 4}}) {
        INFO("stride " << stride << " dilation " << dilation << " padding " << before << " " << after);
        check_conv({{2, 2, 13}, {3, 2, 3}, {stride}, {dilation}, {before}, {after}});
        check_conv({{1, 2, 9, 8}, {2, 2, 3, 2}, {stride, 1}, {1, dilation}, {before, 1}, {after, 0}});
        check_conv({{1, 2, 4, 5, 7}, {2, 2, 2, 2, 3}, {1, 2, stride}, {2, 1, dilation}, {1, 0, before}, {3, 2, after}});
      }
    }
  }
}

TEST_CASE("reference conv: padding beyond the whole input gives the bias", "[ops]") {
  const Problem wide{{1, 1, 2}, {1, 1, 1}, {1}, {1}, {3}, {3}};
  check_values(reference_of({{{1, 1, 2}, {5, 7}}, {{1, 1, 1}, {1}}, {{1}, {0.25}}}, conv_op(wide)).values,
               {0.25, 0.25, 0.25, 5.25, 7.25, 0.25, 0.25, 0.25});
  check_conv({{1, 1, 3}, {1, 1, 2}, {2}, {5}, {4}, {6}});
}

TEST_CASE("reference conv: groups and depthwise", "[ops]") {
  check_conv({{2, 6, 9}, {4, 3, 3}, {1}, {1}, {1}, {1}, 2});
  check_conv({{2, 6, 9}, {6, 1, 4}, {1}, {1}, {3}, {0}, 6});                    // depthwise, causal
  check_conv({{2, 3, 5, 5}, {6, 1, 3, 3}, {2, 2}, {1, 1}, {1, 1}, {1, 1}, 3});  // two outputs a channel
}

TEST_CASE("reference conv: more output positions than one piece of work", "[ops]") {
  check_conv({{1, 2, 300000}, {2, 2, 2}, {1}, {1}, {1}, {0}});
  check_conv({{3, 8, 40, 50}, {5, 8, 3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}});
}

TEST_CASE("reference conv: f16 and bf16 operands, strided input", "[ops]") {
  const Problem p{{2, 3, 5, 4}, {2, 3, 2, 2}, {1, 2}, {1, 1}, {1, 0}, {0, 1}};
  check_conv(p, DType::kF16);
  check_conv(p, DType::kBf16);
  const std::vector<double> x = eighths(120, 1), w = eighths(24, 2), bias = eighths(2, 3);
  std::vector<Input> inputs = inputs_of(p, x, w, bias);
  inputs[0].strides = {70, 1, 14, 3};  // channels last, with gaps
  check_values(reference_of(inputs, conv_op(p)).values, by_definition(p, x, w, bias).values);
}

TEST_CASE("reference conv: the same bits for any number of threads", "[ops]") {
  const Problem p{{2, 3, 700}, {4, 3, 5}, {1}, {1}, {2}, {2}};
  std::vector<double> x(2 * 3 * 700), w(4 * 3 * 5);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = std::sin(static_cast<double>(i));
  for (std::size_t i = 0; i < w.size(); ++i) w[i] = std::cos(static_cast<double>(i));
  const std::vector<Input> inputs = inputs_of(p, x, w, {1, 2, 3, 4});
  CHECK(reference_of(inputs, conv_op(p), 1).values == reference_of(inputs, conv_op(p), 7).values);
}

TEST_CASE("reference conv: NaN and infinity reach what reads them and nothing else", "[ops]") {
  const Problem p{{1, 1, 9}, {1, 1, 2}, {1}, {1}, {0}, {0}, 1, false};
  const std::vector<double> x{1, kNaN, 1, kInf, 1, -kInf, kInf, 1, 1};
  check_values(reference_of({{{1, 1, 9}, x}, {{1, 1, 2}, {1, 1}}}, conv_op(p)).values, {kNaN, kNaN, kInf, kInf, -kInf, kNaN, kInf, 2});
  check_values(reference_of({{{1, 1, 9}, x}, {{1, 1, 2}, {0, 1}}}, conv_op(p)).values, {kNaN, kNaN, kInf, kNaN, -kInf, kNaN, kNaN, 1});
}

TEST_CASE("reference conv: empty batch, no channels", "[ops]") {
  const Problem none{{0, 2, 5}, {3, 2, 2}, {1}, {1}, {0}, {0}};
  const ReferenceTensor y = reference_of(inputs_of(none, {}, eighths(12, 1), {1, 2, 3}), conv_op(none));
  CHECK(sizes_of(y) == Sizes{0, 3, 4});
  CHECK(y.values.empty());
  const Problem hollow{{1, 1, 0}, {2, 1, 2}, {1}, {1}, {1}, {2}};  // padding alone
  check_values(reference_of(inputs_of(hollow, {}, {1, 2, 3, 4}, {0.5, 1.5}), conv_op(hollow)).values, {0.5, 0.5, 1.5, 1.5});
}
