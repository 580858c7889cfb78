// y[n,o,p] = bias[o] + sum over channels c of o's group and taps k of w[o,c,k] * x[n,c, p*stride + k*dilation - pad], x being zero outside:
// the matrix product of the weights with the gathered columns of x, a bounded number of output positions at a time.
#include <Eigen/Dense>
#include <array>

#include "ops/reference_internal.h"

namespace tilewright::reference {
namespace {

using Matrix = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

// Sizes as three spatial dimensions, leading ones filled in.
struct Spatial {
  std::array<std::int64_t, 3> in{1, 1, 1}, out{1, 1, 1}, kernel{1, 1, 1}, stride{1, 1, 1}, dilation{1, 1, 1}, pad{0, 0, 0};
  std::int64_t positions() const { return product(out); }
  std::int64_t taps() const { return product(kernel); }
  std::int64_t volume() const { return product(in); }
};

Spatial spatial_of(const ConvAttributes& attributes, const Operand& x, const Operand& w, llvm::ArrayRef<std::int64_t> out_shape) {
  Spatial s;
  const unsigned lead = 3 - attributes.spatial();
  for (unsigned d = 0; d < attributes.spatial(); ++d) {
    s.in[d + lead] = x.shape()[d + 2];
    s.out[d + lead] = out_shape[d + 2];
    s.kernel[d + lead] = w.shape()[d + 2];
    s.stride[d + lead] = attributes.stride[d];
    s.dilation[d + lead] = attributes.dilation[d];
    s.pad[d + lead] = attributes.pad_before[d];
  }
  return s;
}

// What tap k2 of the innermost dimension reads for its output positions o2, o2 + 1, ... (count of them); the input row begins at element
// `row` of x. `scratch` keeps its memory between calls.
void gather_row(const Spatial& s, const Operand& x, std::int64_t row, std::int64_t k2, std::int64_t o2, std::int64_t count, double* out,
                std::vector<double>& scratch) {
  const std::int64_t stride = s.stride[2], shift = k2 * s.dilation[2] - s.pad[2];
  // Positions whose input o * stride + shift lies in [0, in).
  const auto first_at_least = [&](std::int64_t input) { return (input - shift + stride - 1) / stride; };
  const std::int64_t begin = std::clamp(first_at_least(0), o2, o2 + count), end = std::clamp(first_at_least(s.in[2]), begin, o2 + count);
  std::fill_n(out, count, 0.0);
  if (begin == end) return;
  double* to = out + (begin - o2);
  if (stride == 1) return x.read(row + begin + shift, end - begin, to);
  scratch.resize(static_cast<std::size_t>((end - begin - 1) * stride + 1));
  x.read(row + begin * stride + shift, static_cast<std::int64_t>(scratch.size()), scratch.data());
  for (std::int64_t i = 0; i < end - begin; ++i) to[i] = scratch[static_cast<std::size_t>(i * stride)];
}

// Column p of the result holds what output position first + p multiplies: rows are (channel, tap) in the weights' order. The channels begin
// at element `image` of x.
void gather_columns(const Spatial& s, const Operand& x, std::int64_t image, std::int64_t channels, std::int64_t first, Matrix& columns) {
  std::vector<double> scratch;
  for (std::int64_t r = 0; r < channels * s.taps(); ++r) {
    const std::int64_t channel = r / s.taps(), tap = r % s.taps();
    const std::array<std::int64_t, 3> k{tap / (s.kernel[1] * s.kernel[2]), tap / s.kernel[2] % s.kernel[1], tap % s.kernel[2]};
    for (std::int64_t p = 0; p < columns.cols();) {
      const std::int64_t at = first + p, o2 = at % s.out[2];
      const std::int64_t run = std::min(columns.cols() - p, s.out[2] - o2);
      const std::int64_t i0 = at / (s.out[1] * s.out[2]) * s.stride[0] + k[0] * s.dilation[0] - s.pad[0];
      const std::int64_t i1 = at / s.out[2] % s.out[1] * s.stride[1] + k[1] * s.dilation[1] - s.pad[1];
      double* out = columns.data() + r * columns.cols() + p;
      if (i0 < 0 || i0 >= s.in[0] || i1 < 0 || i1 >= s.in[1]) {
        std::fill_n(out, run, 0.0);
      } else {
        gather_row(s, x, image + channel * s.volume() + (i0 * s.in[1] + i1) * s.in[2], k[2], o2, run, out, scratch);
      }
      p += run;
    }
  }
}

}  // namespace

ReferenceTensor conv(const ConvAttributes& attributes, const Operand& x, const Operand& w, const Operand* bias,
                     llvm::ArrayRef<std::int64_t> out_shape, unsigned threads) {
  const Spatial s = spatial_of(attributes, x, w, out_shape);
  const std::int64_t channels = w.shape()[1], outs = w.shape()[0] / attributes.groups, depth = channels * s.taps();
  ReferenceTensor y = make_tensor(out_shape);
  if (y.values.empty()) return y;
  Matrix weights(w.shape()[0], depth);
  w.read(0, weights.size(), weights.data());
  Eigen::VectorXd offsets = Eigen::VectorXd::Zero(w.shape()[0]);
  if (bias) bias->read(0, offsets.size(), offsets.data());
  constexpr std::int64_t kMatrixElements = 1 << 18;  // of the gathered columns, and of the result's piece: 2 MB a thread stay in its cache
  const std::int64_t step = std::clamp<std::int64_t>(kMatrixElements / std::max<std::int64_t>({depth, outs, 1}), 1, s.positions());
  const std::int64_t steps = (s.positions() + step - 1) / step;
  // Each piece stands for itself: output positions [first, first + count) of one group of one image.
  parallel_pieces(out_shape[0] * attributes.groups * steps, 1, threads, [&](std::int64_t piece, std::int64_t) {
    const std::int64_t plane = piece / steps, group = plane % attributes.groups;  // plane: image and group
    const std::int64_t first = piece % steps * step, count = std::min(step, s.positions() - first);
    Matrix columns(depth, count);
    gather_columns(s, x, plane * channels * s.volume(), channels, first, columns);
    Eigen::Map<Matrix, 0, Eigen::OuterStride<>> block(y.values.data() + plane * outs * s.positions() + first, outs, count,
                                                      Eigen::OuterStride<>(s.positions()));
    block.noalias() = weights.middleRows(group * outs, outs) * columns;
    block.colwise() += offsets.segment(group * outs, outs);
  });
  return y;
}

}  // namespace tilewright::reference
