#include "ops/reference.h"

#include <cstring>

#include "llvm/ADT/STLExtras.h"
#include "ops/reference_internal.h"
#include "runtime/error.h"

namespace tilewright {
namespace reference {
namespace {

template <typename T, typename Widen>
void read_run(const std::byte* bytes, std::int64_t stride, std::int64_t count, double* out, Widen widen) {
  for (std::int64_t i = 0; i < count; ++i) {
    T element;
    std::memcpy(&element, bytes + static_cast<std::size_t>(i * stride) * sizeof(T), sizeof(T));
    out[i] = static_cast<double>(widen(element));
  }
}

// `count` elements from `begin` of the storage on, `stride` apart.
void read_stored(const HostTensor& tensor, std::int64_t begin, std::int64_t stride, std::int64_t count, double* out) {
  const std::byte* bytes = tensor.bytes.data() + static_cast<std::size_t>(begin) * dtype_bytes(tensor.dtype);
  constexpr auto kSame = [](auto value) { return value; };
  switch (tensor.dtype) {
    case DType::kF32:
      // The usual case once more with a stride the compiler can see, to be vectorised.
      return stride == 1 ? read_run<float>(bytes, 1, count, out, kSame) : read_run<float>(bytes, stride, count, out, kSame);
    case DType::kF16:
      return read_run<std::uint16_t>(bytes, stride, count, out, f16_to_f32);
    case DType::kBf16:
      return read_run<std::uint16_t>(bytes, stride, count, out, bf16_to_f32);
    case DType::kI32:
      return read_run<std::int32_t>(bytes, stride, count, out, kSame);
    case DType::kI64:
      return read_run<std::int64_t>(bytes, stride, count, out, kSame);
    case DType::kBool:
      return read_run<std::uint8_t>(bytes, stride, count, out, [](std::uint8_t value) { return value != 0 ? 1.0 : 0.0; });
  }
}

}  // namespace

void Operand::read(std::int64_t begin, std::int64_t count, double* out) const {
  if (count == 0) return;
  if (dense) {
    std::copy_n(dense->values.begin() + begin, count, out);
    return;
  }
  if (stored->is_row_major()) return read_stored(*stored, begin, 1, count, out);
  const std::int64_t row = stored->shape.back();
  while (count > 0) {
    const std::int64_t run = std::min(count, row - begin % row);
    read_stored(*stored, stored->storage_offset(begin), stored->strides.back(), run, out);
    begin += run;
    count -= run;
    out += run;
  }
}

ReferenceTensor make_tensor(llvm::ArrayRef<std::int64_t> shape) {
  ReferenceTensor tensor;
  tensor.shape.assign(shape.begin(), shape.end());
  tensor.values.resize(static_cast<std::size_t>(product(shape)));
  return tensor;
}

}  // namespace reference

namespace {

using reference::Operand;

std::string shape_text(llvm::ArrayRef<std::int64_t> shape) { return fmt::format("[{}]", fmt::join(shape.begin(), shape.end(), ", ")); }

llvm::Error check_inputs(const Graph& graph, llvm::ArrayRef<HostTensor> inputs, llvm::ArrayRef<std::int64_t> dims) {
  if (dims.size() != graph.symbols().size()) {
    return make_error(Status::kInvalidArgument, "reference: {} dimensions given, {} declared", dims.size(), graph.symbols().size());
  }
  if (inputs.size() != graph.inputs().size()) {
    return make_error(Status::kInvalidArgument, "reference: {} inputs given, {} declared", inputs.size(), graph.inputs().size());
  }
  for (auto [id, tensor] : llvm::zip(graph.inputs(), inputs)) {
    const Value& value = graph.value(id);
    const auto wanted = concrete_shape(value.shape, dims);
    if (tensor.dtype != value.dtype) {
      return make_error(Status::kInvalidArgument, "input {}: dtype {} given, {} declared", value.name, dtype_name(tensor.dtype),
                        dtype_name(value.dtype));
    }
    if (wanted != tensor.shape) {
      return make_error(Status::kInvalidArgument, "input {}: shape {} given, {} declared", value.name, shape_text(tensor.shape),
                        shape_text(wanted));
    }
  }
  return llvm::Error::success();
}

class Evaluator {
 public:
  Evaluator(const Graph& graph, llvm::ArrayRef<HostTensor> inputs, llvm::ArrayRef<std::int64_t> dims, unsigned threads)
      : graph_(graph), dims_(dims), threads_(threads), results_(graph.values().size()), operands_(graph.values().size()) {
    for (auto [id, tensor] : llvm::zip(graph.inputs(), inputs)) operands_[id].stored = &tensor;
  }

  llvm::Error run() {
    for (auto [index, op] : llvm::enumerate(graph_.ops())) {
      auto result = evaluate(op);
      if (!result) return result.takeError();
      results_[op.output] = std::move(*result);
      operands_[op.output].dense = &results_[op.output];
      // What nobody reads any more is freed: intermediates of full-size problems are gigabytes.
      for (ValueId input : op.inputs) {
        if (graph_.users(input).back() == index && !graph_.is_output(input)) results_[input] = {};
      }
    }
    return llvm::Error::success();
  }

  // Gives the result away; `id` is the output of an op, for an input is no output.
  ReferenceTensor take(ValueId id) { return std::move(results_[id]); }

 private:
  llvm::Expected<ReferenceTensor> evaluate(const Op& op) {
    const auto shape = concrete_shape(graph_.value(op.output).shape, dims_);
    llvm::SmallVector<Operand, 4> in;
    for (ValueId input : op.inputs) in.push_back(operands_[input]);
    if (const auto* conv = std::get_if<ConvAttributes>(&op.attributes)) {
      return reference::conv(*conv, in[0], in[1], in.size() > 2 ? &in[2] : nullptr, shape, threads_);
    }
    if (const auto* reduce = std::get_if<ReduceAttributes>(&op.attributes)) return reference::reduce(*reduce, in[0], shape, threads_);
    if (const auto* softmax = std::get_if<SoftmaxAttributes>(&op.attributes)) return reference::softmax(softmax->axis, in[0], threads_);
    if (const auto* loss = std::get_if<CrossEntropyAttributes>(&op.attributes)) {
      if (in[1].stored) return reference::cross_entropy(*loss, in[0], *in[1].stored, shape, threads_);
      HostTensor computed = HostTensor::make(DType::kI64, in[1].shape());
      for (std::int64_t i = 0; i < computed.element_count(); ++i) computed.set(i, in[1].at(i));
      return reference::cross_entropy(*loss, in[0], computed, shape, threads_);
    }
    return reference::map(std::get<MapAttributes>(op.attributes), in, shape, threads_);
  }

  const Graph& graph_;
  llvm::ArrayRef<std::int64_t> dims_;
  unsigned threads_;
  std::vector<ReferenceTensor> results_;
  std::vector<Operand> operands_;
};

}  // namespace

llvm::Expected<std::vector<ReferenceTensor>> evaluate_reference(const Graph& graph, llvm::ArrayRef<HostTensor> inputs,
                                                                llvm::ArrayRef<std::int64_t> dims, const ReferenceOptions& options) {
  if (llvm::Error error = check_inputs(graph, inputs, dims)) return error;
  Evaluator evaluator(graph, inputs, dims, options.threads);
  if (llvm::Error error = evaluator.run()) return error;
  std::vector<ReferenceTensor> outputs;
  for (ValueId id : graph.outputs()) outputs.push_back(evaluator.take(id));
  return outputs;
}

}  // namespace tilewright
