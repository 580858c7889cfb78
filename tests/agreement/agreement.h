// Does a GPU compute what the same kernels compute on the CPU? Random cases over every template; their results on the CPU travel to the
// GPU in a file, because the machine with the GPU may have no C++ compiler.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "codegen/compile.h"
#include "codegen/lower.h"
#include "llvm/Support/Error.h"
#include "ops/graph.h"
#include "ops/reference.h"
#include "ops/tensor.h"
#include "tests/codegen/inputs.h"

namespace tilewright {

// How far the two may be apart, by what the kernel computes with.
enum class Agreement {
  kBitwise,       // integers, conversions, one rounding after the other in a fixed order: every bit, the payload of a NaN excepted
  kFused,         // a product that is added: the device's compiler rounds once, the host's twice
  kFunctions,     // functions whose documented error is a few units in the last place: each element within 16 of them
  kExponentials,  // sums of fast exponentials: within 1 part in 2^20, over all elements together
  kTensor,        // sums of a tensor core: within 1 part in 2^20 of the exact sum, over all elements together
};
llvm::StringRef agreement_name(Agreement agreement);

struct AgreementCase {
  std::string template_name;  // "row softmax", "conv tf32": what the results are counted under
  Agreement agreement = Agreement::kBitwise;
  std::string description;  // JSON
  llvm::SmallVector<std::int64_t, 4> dims;
  InputChoice inputs;
  std::uint32_t shift_elements = 0;
  ConfigOverrides overrides;
  // Filled by the run on the CPU: a hash of the kernels' texts, and the bytes of each output.
  std::string sources;
  std::vector<std::string> outputs;
};

// At least 50 of each template, drawn from the seed; no output has more than 4096 elements.
std::vector<AgreementCase> draw_agreement_cases(std::uint64_t seed);

std::vector<HostTensor> agreement_inputs(const Graph& graph, const AgreementCase& c);
// For kTensor: each output without any rounding but that of the operands (to tf32 where the precision says so). Errors of
// evaluate_reference.
llvm::Expected<std::vector<ReferenceTensor>> exact_sums(const Graph& graph, const AgreementCase& c);
// Errors of parse_description and compile_program.
llvm::Expected<CompiledProgram> compile_case(const AgreementCase& c, const Target& target, Builder& builder);
// Of all kernels' texts: equal where the GPU and the CPU ran the same.
std::string sources_hash(const std::vector<std::string>& sources);

// One case a line, as JSON, the bytes in base64. Error kIo; kCorrupt for a line that is no case.
llvm::Error write_agreement_cases(const std::string& path, llvm::ArrayRef<AgreementCase> cases);
llvm::Expected<std::vector<AgreementCase>> read_agreement_cases(const std::string& path);

struct Difference {
  std::int64_t elements = 0, equal = 0;  // equal: in every bit, or NaN on both sides
  std::int64_t misplaced = 0;            // NaN or infinity on one side alone
  double units = 0;                      // largest difference of two elements, in units of the last place (integers: of 1)
  double normwise = 0;                   // ||got - want|| / ||want||, over elements that are finite in both
};
// Of one dtype and shape, row-major.
Difference difference(const HostTensor& got, const HostTensor& want);
// Less what rounding to a 16-bit dtype explains: half a unit in the last place of each element.
double normwise_error(const HostTensor& got, llvm::ArrayRef<double> want);
// `difference` with what the CPU has; `to_exact` the normwise error to the exact sums, which kTensor looks at alone.
bool agrees(Agreement agreement, DType dtype, const Difference& difference, double to_exact = 0);

}  // namespace tilewright
