// The reference's reductions, softmax and cross entropy against loops written from the definitions.
#include "tests/ops/reference_support.h"

using namespace tilewright;
using namespace tilewright_tests;

namespace {

const ReduceKind kKinds[] = {ReduceKind::kSum, ReduceKind::kMean, ReduceKind::kMin, ReduceKind::kMax};

AddOp reduce_op(ReduceKind kind, const Sizes& axes, bool keepdims = false) {
  return [=](GraphBuilder& builder, llvm::ArrayRef<ValueId> in) { return builder.reduce(in[0], kind, axes, keepdims); };
}

AddOp softmax_op(std::int64_t axis) {
  return [=](GraphBuilder& builder, llvm::ArrayRef<ValueId> in) { return builder.softmax(in[0], axis); };
}

AddOp loss_op(LossReduction reduction, double smoothing = 0.0, std::int64_t ignore_index = -100) {
  CrossEntropyAttributes attributes;
  attributes.reduction = reduction;
  attributes.label_smoothing = smoothing;
  attributes.ignore_index = ignore_index;
  return [=](GraphBuilder& builder, llvm::ArrayRef<ValueId> in) { return builder.cross_entropy(in[0], in[1], attributes); };
}

// Every element of x falls into its output, one at a time. Axis d is reduced where bit d of `mask` is set.
std::vector<double> reduced(ReduceKind kind, unsigned mask, const Sizes& shape, const std::vector<double>& x) {
  Sizes kept;
  double length = 1.0;
  for (std::size_t d = 0; d < shape.size(); ++d) {
    if (mask >> d & 1u) {
      length *= static_cast<double>(shape[d]);
    } else {
      kept.push_back(shape[d]);
    }
  }
  const double start = kind == ReduceKind::kMin ? kInf : kind == ReduceKind::kMax ? -kInf : 0.0;
  std::vector<double> y(static_cast<std::size_t>(count_of(kept)), start);
  for (std::size_t i = 0; i < x.size(); ++i) {
    auto rest = static_cast<std::int64_t>(i);
    std::int64_t o = 0, scale = 1;
    for (std::size_t d = shape.size(); d-- > 0; rest /= shape[d]) {
      if (mask >> d & 1u) continue;
      o += rest % shape[d] * scale;
      scale *= shape[d];
    }
    double& out = y[static_cast<std::size_t>(o)];
    if (kind == ReduceKind::kSum || kind == ReduceKind::kMean) {
      out += x[i];
    } else if (std::isnan(x[i]) || (kind == ReduceKind::kMin ? x[i] < out : x[i] > out)) {
      out = std::isnan(out) ? out : x[i];
    }
  }
  if (kind == ReduceKind::kMean) {
    for (double& out : y) out /= length;
  }
  return y;
}

Sizes axes_of(unsigned mask, std::size_t rank) {
  Sizes axes;
  for (std::size_t d = 0; d < rank; ++d) {
    if (mask >> d & 1u) axes.push_back(static_cast<std::int64_t>(d));
  }
  return axes;
}

// exp(x) / sum exp(x), unshifted, in long double: independent of the shifted form for moderate x.
std::vector<double> softmax_rows(std::int64_t rows, std::int64_t length, const std::vector<double>& x) {
  std::vector<double> y(x.size());
  for (std::int64_t r = 0; r < rows; ++r) {
    long double sum = 0;
    for (std::int64_t c = 0; c < length; ++c) sum += std::exp(static_cast<long double>(x[static_cast<std::size_t>(r * length + c)]));
    for (std::int64_t c = 0; c < length; ++c) {
      const auto i = static_cast<std::size_t>(r * length + c);
      y[i] = static_cast<double>(std::exp(static_cast<long double>(x[i])) / sum);
    }
  }
  return y;
}

}  // namespace

TEST_CASE("reference reduce: every kind over every set of axes", "[ops]") {
  for (const Sizes& shape : {Sizes{5}, {3, 4}, {2, 3, 4}, {2, 1, 3, 2}, {2, 3, 1, 2, 5}}) {
    const std::vector<double> x = eighths(count_of(shape), 7);
    for (ReduceKind kind : kKinds) {
      for (unsigned mask = 1; mask < 1u << shape.size(); ++mask) {
        for (bool keepdims : {false, true}) {
          INFO(reduce_kind_name(kind).str() << " rank " << shape.size() << " mask " << mask);
          Sizes wanted;
          for (std::size_t d = 0; d < shape.size(); ++d) {
            if (!(mask >> d & 1u)) wanted.push_back(shape[d]);
            if (keepdims && (mask >> d & 1u)) wanted.push_back(1);
          }
          const ReferenceTensor y = reference_of({{shape, x}}, reduce_op(kind, axes_of(mask, shape.size()), keepdims));
          CHECK(sizes_of(y) == wanted);
          check_values(y.values, reduced(kind, mask, shape, x));
        }
      }
    }
  }
}

TEST_CASE("reference reduce: rows and columns longer than a piece of work, odd and strided", "[ops]") {
  for (const Sizes& shape : {Sizes{3, 40001}, {40001, 3}, {7, 333, 9}, {4000, 2, 7}}) {
    const std::vector<double> x = eighths(count_of(shape), 8);
    for (ReduceKind kind : kKinds) {
      for (unsigned mask = 1; mask < 1u << shape.size(); ++mask) {
        check_values(reference_of({{shape, x}}, reduce_op(kind, axes_of(mask, shape.size()))).values, reduced(kind, mask, shape, x));
      }
    }
  }
  const std::vector<double> x = eighths(12, 9);
  check_values(reference_of({{{3, 4}, x, DType::kF32, {1, 5}}}, reduce_op(ReduceKind::kSum, {1})).values,
               reduced(ReduceKind::kSum, 2, {3, 4}, x));
}

TEST_CASE("reference reduce: NaN propagates, infinities add as IEEE says", "[ops]") {
  const std::vector<double> x{1, kNaN, -kInf, 2, kInf, 3, kInf, -kInf, 0, -kInf, -kInf, -kInf};
  const auto rows = [&](ReduceKind kind) { return reference_of({{{4, 3}, x}}, reduce_op(kind, {1})).values; };
  const auto columns = [&](ReduceKind kind) { return reference_of({{{4, 3}, x}}, reduce_op(kind, {0})).values; };
  check_values(rows(ReduceKind::kMin), {kNaN, 2, -kInf, -kInf});
  check_values(rows(ReduceKind::kMax), {kNaN, kInf, kInf, -kInf});
  check_values(rows(ReduceKind::kSum), {kNaN, kInf, kNaN, -kInf});
  check_values(rows(ReduceKind::kMean), {kNaN, kInf, kNaN, -kInf});
  check_values(columns(ReduceKind::kMin), {-kInf, kNaN, -kInf});
  check_values(columns(ReduceKind::kMax), {kInf, kNaN, 3});
  // NaN first, in the middle and last of a row that is folded in vectors.
  for (std::size_t at : {std::size_t{0}, std::size_t{17}, std::size_t{32}}) {
    std::vector<double> row(33, 1.0);
    row[at] = kNaN;
    check_values(reference_of({{{1, 33}, row}}, reduce_op(ReduceKind::kMin, {1})).values, {kNaN});
    check_values(reference_of({{{33, 1}, row}}, reduce_op(ReduceKind::kMax, {0})).values, {kNaN});
  }
}

TEST_CASE("reference reduce: nothing gives the identity", "[ops]") {
  const auto empty = [](ReduceKind kind) { return reference_of({{{2, 0}, {}}}, reduce_op(kind, {1})).values; };
  check_values(empty(ReduceKind::kSum), {0, 0});
  check_values(empty(ReduceKind::kMean), {kNaN, kNaN});
  check_values(empty(ReduceKind::kMin), {kInf, kInf});
  check_values(empty(ReduceKind::kMax), {-kInf, -kInf});
  check_values(reference_of({{{0, 2}, {}}}, reduce_op(ReduceKind::kMin, {0})).values, {kInf, kInf});
  CHECK(reference_of({{{0, 2}, {}}}, reduce_op(ReduceKind::kSum, {1})).values.empty());
}

TEST_CASE("reference reduce: integers and booleans", "[ops]") {
  check_values(reference_of({{{2, 3}, {1, 0, 1, 0, 0, 0}, DType::kBool}}, reduce_op(ReduceKind::kSum, {1})).values, {2, 0});
  check_values(reference_of({{{2, 2}, {2147483647, 1, -5, 7}, DType::kI32}}, reduce_op(ReduceKind::kSum, {1})).values, {2147483648.0, 2});
  check_values(reference_of({{{2, 2}, {-9, 4, 3, 8}, DType::kI64}}, reduce_op(ReduceKind::kMin, {0})).values, {-9, 4});
}

TEST_CASE("reference softmax: numbers worked out by hand", "[ops]") {
  // exp of 0, ln 2, ln 5 (as f32 inputs, near enough): 1/8, 2/8, 5/8.
  check_values(reference_of({{{1, 3}, {0.0, std::log(2.0), std::log(5.0)}}}, softmax_op(1)).values, {0.125, 0.25, 0.625}, 1e-7);
  check_values(reference_of({{{3}, {4, 4, 4}}}, softmax_op(0)).values, {1.0 / 3, 1.0 / 3, 1.0 / 3}, 1e-15);
}

TEST_CASE("reference softmax: every axis against the definition", "[ops]") {
  const Sizes shape{3, 5, 7};
  const std::vector<double> x = eighths(105, 11);
  for (std::size_t axis = 0; axis < 3; ++axis) {
    // Moves the axis to the end and back, element by element.
    std::vector<double> rows(105), want(105);
    const auto place = [&](std::int64_t i) {
      const std::int64_t index[] = {i / 35, i / 7 % 5, i % 7};
      std::int64_t to = 0;
      for (std::size_t d = 0; d < 3; ++d) {
        if (d != axis) to = to * shape[d] + index[d];
      }
      return static_cast<std::size_t>(to * shape[axis] + index[axis]);
    };
    for (std::int64_t i = 0; i < 105; ++i) rows[place(i)] = x[static_cast<std::size_t>(i)];
    const std::vector<double> y = softmax_rows(105 / shape[axis], shape[axis], rows);
    for (std::int64_t i = 0; i < 105; ++i) want[static_cast<std::size_t>(i)] = y[place(i)];
    check_values(reference_of({{shape, x}}, softmax_op(static_cast<std::int64_t>(axis))).values, want, 1e-14);
  }
}

TEST_CASE("reference softmax: longer and wider than a piece of work", "[ops]") {
  const std::vector<double> x = eighths(70001, 12);
  check_values(reference_of({{{70001}, x}}, softmax_op(0)).values, softmax_rows(1, 70001, x), 1e-12);
  std::vector<double> turned(70001 * 2), want(70001 * 2);
  const std::vector<double> pairs = softmax_rows(70001, 2, eighths(70001 * 2, 13)), values = eighths(70001 * 2, 13);
  for (std::size_t r = 0; r < 70001; ++r) {
    for (std::size_t c = 0; c < 2; ++c) {
      turned[c * 70001 + r] = values[r * 2 + c];
      want[c * 70001 + r] = pairs[r * 2 + c];
    }
  }
  check_values(reference_of({{{2, 70001}, turned}}, softmax_op(0)).values, want, 1e-14);
}

TEST_CASE("reference softmax: special values", "[ops]") {
  const auto row = [](const std::vector<double>& x) {
    return reference_of({{{1, static_cast<std::int64_t>(x.size())}, x}}, softmax_op(1)).values;
  };
  check_values(row({-kInf, -kInf, -kInf}), {kNaN, kNaN, kNaN});
  check_values(row({-kInf, 0, 0, -kInf}), {0, 0.5, 0.5, 0});  // exactly 0
  check_values(row({0, kNaN, 0}), {kNaN, kNaN, kNaN});
  check_values(row({kInf, 0}), {kNaN, kNaN});
  check_values(row({3e38, 3e38, -3e38}), {0.5, 0.5, 0});  // no overflow
  check_values(row({5}), {1});
  CHECK(sizes_of(reference_of({{{0, 3}, {}}}, softmax_op(1))) == Sizes{0, 3});
  CHECK(reference_of({{{3, 0}, {}}}, softmax_op(1)).values.empty());
}

TEST_CASE("reference cross entropy: numbers worked out by hand", "[ops]") {
  // Rows of equal logits: log C whatever the target, smoothed or not.
  check_values(
      reference_of({{{2, 4}, std::vector<double>(8, 3.0)}, {{2}, {0, 3}, DType::kI64}}, loss_op(LossReduction::kMean, 0.25)).values,
      {std::log(4.0)}, 1e-15);
  // Logits 0 and 1: log(1 + e) for class 0, log(1 + e) - 1 for class 1.
  const std::vector<Input> two{{{2, 2}, {0, 1, 0, 1}}, {{2}, {0, 1}, DType::kI64}};
  const double lse = std::log(1.0 + std::exp(1.0));
  check_values(reference_of(two, loss_op(LossReduction::kNone)).values, {lse, lse - 1}, 1e-15);
  check_values(reference_of(two, loss_op(LossReduction::kSum)).values, {2 * lse - 1}, 1e-15);
  check_values(reference_of(two, loss_op(LossReduction::kMean)).values, {lse - 0.5}, 1e-15);
  // Smoothing 0.5: half of the target's loss and half of the mean over classes, lse - 0.5.
  check_values(reference_of(two, loss_op(LossReduction::kNone, 0.5)).values,
               {0.5 * lse + 0.5 * (lse - 0.5), 0.5 * (lse - 1) + 0.5 * (lse - 0.5)}, 1e-15);
}

TEST_CASE("reference cross entropy: against the definition, with ignored rows and smoothing", "[ops]") {
  const std::int64_t rows = 211, classes = 37;
  const std::vector<double> x = eighths(rows * classes, 21), p = softmax_rows(rows, classes, x);
  for (double smoothing : {0.0, 0.1, 1.0}) {
    for (std::int64_t ignore : {std::int64_t{-100}, std::int64_t{5}}) {
      std::vector<double> targets, losses;
      double sum = 0.0, count = 0.0;
      for (std::int64_t r = 0; r < rows; ++r) {
        const std::int64_t target = r % 6 == 4 ? ignore : r % classes;
        targets.push_back(static_cast<double>(target));
        double loss = 0.0;
        if (target != ignore) {
          // -sum_c q[c] log p[c] with the smoothed labels q, the definition that the formula follows from.
          for (std::int64_t c = 0; c < classes; ++c) {
            const double q = (c == target ? 1.0 - smoothing : 0.0) + smoothing / static_cast<double>(classes);
            loss -= q * std::log(p[static_cast<std::size_t>(r * classes + c)]);
          }
          count += 1.0;
        }
        losses.push_back(loss);
        sum += loss;
      }
      const std::vector<Input> inputs{{{rows, classes}, x}, {{rows}, targets, DType::kI64}};
      check_values(reference_of(inputs, loss_op(LossReduction::kNone, smoothing, ignore)).values, losses, 1e-12);
      check_values(reference_of(inputs, loss_op(LossReduction::kSum, smoothing, ignore)).values, {sum}, 1e-12);
      check_values(reference_of(inputs, loss_op(LossReduction::kMean, smoothing, ignore)).values, {sum / count}, 1e-12);
    }
  }
}

TEST_CASE("reference cross entropy: nothing that counts, and special values", "[ops]") {
  const std::vector<Input> ignored{{{2, 3}, std::vector<double>(6, 1.0)}, {{2}, {-100, -100}, DType::kI64}};
  check_values(reference_of(ignored, loss_op(LossReduction::kMean)).values, {kNaN});
  check_values(reference_of(ignored, loss_op(LossReduction::kSum)).values, {0});
  check_values(reference_of(ignored, loss_op(LossReduction::kNone)).values, {0, 0});
  const std::vector<Input> none{{{0, 3}, {}}, {{0}, {}, DType::kI64}};
  check_values(reference_of(none, loss_op(LossReduction::kMean)).values, {kNaN});
  check_values(reference_of(none, loss_op(LossReduction::kSum)).values, {0});
  const std::vector<double> x{-kInf, -kInf, 0, -kInf, 0, kNaN, kInf, 0, 3e38, -3e38};
  check_values(reference_of({{{5, 2}, x}, {{5}, {0, 1, 0, 1, 1}, DType::kI64}}, loss_op(LossReduction::kNone)).values,
               {kNaN, kInf, kNaN, kNaN, 2 * static_cast<double>(3e38f)});
}

TEST_CASE("reference cross entropy: the first bad target is named", "[ops]") {
  const auto error = [](const std::vector<double>& targets) {
    return error_of(try_reference_of({{{3, 4}, std::vector<double>(12, 0.0)}, {{3}, targets, DType::kI64}}, loss_op(LossReduction::kMean)));
  };
  CHECK(error({0, 4, 9}) == "cross_entropy: target 4 of row 1 is not a class in [0, 4) and not ignore_index (-100)");
  CHECK(contains(error({0, 1, -1}), "target -1 of row 2"));
  CHECK(error({0, 3, -100}) == "(no error)");
  CHECK(contains(error({0, 9007199254740992.0, 0}), "target 9007199254740992 of row 1"));
}
