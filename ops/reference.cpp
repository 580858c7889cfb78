#include "ops/reference.h"

#include <cstring>

#include "llvm/ADT/STLExtras.h"
#include "ops/reference_internal.h"
#include "runtime/error.h"

namespace tilewright {
namespace reference {
namespace {

bool is_row_major(const HostTensor& tensor) {
  std::int64_t stride = 1;
  for (std::size_t d = tensor.shape.size(); d-- > 0;) {
    if (tensor.shape[d] != 1 && tensor.strides[d] != stride) return false;
    stride *= tensor.shape[d];
  }
  return true;
}

template <typename T, typename Widen>
void widen(const std::byte* bytes, std::int64_t begin, std::int64_t count, double* out, Widen widen_one) {
  for (std::int64_t i = 0; i < count; ++i) {
    T element;
    std::memcpy(&element, bytes + static_cast<std::size_t>(begin + i) * sizeof(T), sizeof(T));
    out[i] = widen_one(element);
  }
}

}  // namespace

void Operand::read(std::int64_t begin, std::int64_t count, double* out) const {
  if (dense) {
    std::copy_n(dense->values.begin() + begin, count, out);
    return;
  }
  if (!is_row_major(*stored)) {
    for (std::int64_t i = 0; i < count; ++i) out[i] = stored->at(begin + i);
    return;
  }
  const std::byte* bytes = stored->bytes.data();
  switch (stored->dtype) {
    case DType::kF32: return widen<float>(bytes, begin, count, out, [](float v) { return static_cast<double>(v); });
    case DType::kF16: return widen<std::uint16_t>(bytes, begin, count, out, [](std::uint16_t v) { return static_cast<double>(f16_to_f32(v)); });
    case DType::kBf16: return widen<std::uint16_t>(bytes, begin, count, out, [](std::uint16_t v) { return static_cast<double>(bf16_to_f32(v)); });
    case DType::kI32: return widen<std::int32_t>(bytes, begin, count, out, [](std::int32_t v) { return static_cast<double>(v); });
    case DType::kI64: return widen<std::int64_t>(bytes, begin, count, out, [](std::int64_t v) { return static_cast<double>(v); });
    case DType::kBool: return widen<std::uint8_t>(bytes, begin, count, out, [](std::uint8_t v) { return v != 0 ? 1.0 : 0.0; });
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

std::string shape_of(llvm::ArrayRef<std::int64_t> shape) { return fmt::format("[{}]", fmt::join(shape.begin(), shape.end(), ", ")); }

llvm::Error check_inputs(const Graph& graph, llvm::ArrayRef<HostTensor> inputs, llvm::ArrayRef<std::int64_t> dims) {
  if (inputs.size() != graph.inputs().size()) {
    return make_error(Status::kInvalidArgument, "reference: {} inputs given, {} declared", inputs.size(), graph.inputs().size());
  }
  for (auto [id, tensor] : llvm::zip(graph.inputs(), inputs)) {
    const Value& value = graph.value(id);
    const auto wanted = concrete_shape(value.shape, dims);
    if (tensor.dtype != value.dtype) {
      return make_error(Status::kInvalidArgument, "input {}: dtype {} given, {} declared", value.name, dtype_name(tensor.dtype), dtype_name(value.dtype));
    }
    if (wanted != tensor.shape) {
      return make_error(Status::kInvalidArgument, "input {}: shape {} given, {} declared", value.name, shape_of(tensor.shape), shape_of(wanted));
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
    for (const Op& op : graph_.ops()) {
      auto result = evaluate(op);
      if (!result) return result.takeError();
      results_[op.output] = std::move(*result);
      operands_[op.output].dense = &results_[op.output];
    }
    return llvm::Error::success();
  }

  // An output that is an input, or an output read by nobody else, is given away or copied.
  ReferenceTensor take(ValueId id) {
    if (operands_[id].dense) return results_[id];
    ReferenceTensor copy = reference::make_tensor(operands_[id].shape());
    operands_[id].read(0, static_cast<std::int64_t>(copy.values.size()), copy.values.data());
    return copy;
  }

 private:
  llvm::Expected<ReferenceTensor> evaluate(const Op& op) {
    const auto shape = concrete_shape(graph_.value(op.output).shape, dims_);
    const Operand& first = operands_[op.inputs[0]];
    if (const auto* conv = std::get_if<ConvAttributes>(&op.attributes)) {
      return reference::conv(*conv, first, operands_[op.inputs[1]], op.inputs.size() > 2 ? &operands_[op.inputs[2]] : nullptr, shape, threads_);
    }
    if (const auto* reduce = std::get_if<ReduceAttributes>(&op.attributes)) return reference::reduce(*reduce, first, shape, threads_);
    if (const auto* softmax = std::get_if<SoftmaxAttributes>(&op.attributes)) return reference::softmax(softmax->axis, first, threads_);
    if (const auto* loss = std::get_if<CrossEntropyAttributes>(&op.attributes)) {
      const Operand& targets = operands_[op.inputs[1]];
      if (targets.stored) return reference::cross_entropy(*loss, first, *targets.stored, shape, threads_);
      HostTensor computed = HostTensor::make(DType::kI64, targets.shape());
      for (std::int64_t i = 0; i < computed.element_count(); ++i) computed.set(i, targets.at(i));
      return reference::cross_entropy(*loss, first, computed, shape, threads_);
    }
    llvm::SmallVector<Operand, 4> operands;
    for (ValueId input : op.inputs) operands.push_back(operands_[input]);
    return reference::map(std::get<MapAttributes>(op.attributes), operands, shape, threads_);
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
  const unsigned threads = options.threads > 0 ? options.threads : std::max(1u, std::thread::hardware_concurrency());
  Evaluator evaluator(graph, inputs, dims, threads);
  if (llvm::Error error = evaluator.run()) return error;
  std::vector<ReferenceTensor> outputs;
  for (ValueId id : graph.outputs()) outputs.push_back(evaluator.take(id));
  return outputs;
}

}  // namespace tilewright
