// y[n,o,p] = bias[o] + sum over channels c of o's group and taps k of w[o,c,k] * x[n,c, p*stride + k*dilation - pad], zero outside x: the matrix
// product of the weights with the gathered columns of x, a bounded number of output positions at a time.
#include <Eigen/Dense>

#include <array>

#include "ops/reference_internal.h"

namespace tilewright::reference {
namespace {

using Matrix = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

// Sizes as three spatial dimensions, leading ones filled in.
struct Spatial {
  std::array<std::int64_t, 3> in{1, 1, 1}, out{1, 1, 1}, kernel{1, 1, 1}, stride{1, 1, 1}, dilation{1, 1, 1}, pad{0, 0, 0};
  std::int64_t positions() const { return out[0] * out[1] * out[2]; }
  std::int64_t taps() const { return kernel[0] * kernel[1] * kernel[2]; }
  std::int64_t volume() const { return in[0] * in[1] * in[2]; }
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

// Column p of the result holds what output position first + p multiplies: rows are (channel, tap) in the weights' order.
void gather_columns(const Spatial& s, const std::vector<double>& image, std::int64_t channels, std::int64_t first, Matrix& columns) {
  std::int64_t row = 0;
  for (std::int64_t c = 0; c < channels; ++c) {
    const double* volume = image.data() + c * s.volume();
    for (std::int64_t tap = 0; tap < s.taps(); ++tap, ++row) {
      const std::array<std::int64_t, 3> k{tap / (s.kernel[1] * s.kernel[2]), tap / s.kernel[2] % s.kernel[1], tap % s.kernel[2]};
      for (std::int64_t p = 0; p < columns.cols(); ++p) {
        const std::int64_t at = first + p;
        const std::array<std::int64_t, 3> o{at / (s.out[1] * s.out[2]), at / s.out[2] % s.out[1], at % s.out[2]};
        std::int64_t offset = 0;
        bool inside = true;
        for (std::size_t d = 0; d < 3; ++d) {
          const std::int64_t i = o[d] * s.stride[d] + k[d] * s.dilation[d] - s.pad[d];
          inside = inside && i >= 0 && i < s.in[d];
          offset = offset * s.in[d] + i;
        }
        columns(row, p) = inside ? volume[offset] : 0.0;
      }
    }
  }
}

}  // namespace

ReferenceTensor conv(const ConvAttributes& attributes, const Operand& x, const Operand& w, const Operand* bias, llvm::ArrayRef<std::int64_t> out_shape,
                     unsigned threads) {
  const Spatial s = spatial_of(attributes, x, w, out_shape);
  const std::int64_t channels = w.shape()[1], outs = w.shape()[0] / attributes.groups, depth = channels * s.taps();
  ReferenceTensor y = make_tensor(out_shape);
  if (y.values.empty()) return y;
  Matrix weights(w.shape()[0], depth);
  w.read(0, weights.size(), weights.data());
  Eigen::VectorXd offsets = Eigen::VectorXd::Zero(w.shape()[0]);
  if (bias) bias->read(0, offsets.size(), offsets.data());
  constexpr std::int64_t kMatrixElements = 1 << 20;  // of the gathered columns: 8 MB a thread
  const std::int64_t step = std::clamp<std::int64_t>(kMatrixElements / std::max<std::int64_t>(depth, 1), 1, s.positions());
  parallel_for(out_shape[0] * attributes.groups, threads, [&](std::int64_t task) {
    const std::int64_t n = task / attributes.groups, g = task % attributes.groups;
    std::vector<double> image(static_cast<std::size_t>(channels * s.volume()));
    x.read((n * attributes.groups + g) * channels * s.volume(), channels * s.volume(), image.data());
    for (std::int64_t first = 0; first < s.positions(); first += step) {
      Matrix columns(depth, std::min(step, s.positions() - first));
      gather_columns(s, image, channels, first, columns);
      Matrix block = weights.middleRows(g * outs, outs) * columns;
      block.colwise() += offsets.segment(g * outs, outs);
      for (std::int64_t o = 0; o < outs; ++o) {
        double* row = y.values.data() + ((n * attributes.groups + g) * outs + o) * s.positions() + first;
        Eigen::Map<Eigen::RowVectorXd>(row, block.cols()) = block.row(o);
      }
    }
  });
  return y;
}

}  // namespace tilewright::reference
