#include "tests/planted/planted.h"

#include <chrono>
#include <thread>

#include "codegen/run_on_host.h"
#include "llvm/ADT/STLExtras.h"
#include "ops/json.h"
#include "runtime/error.h"

namespace tilewright::tests {
namespace {

constexpr const char* kTemplate = "tilewright/elementwise.cuh";
// The last statement of tw::elementwise; plants go behind it.
constexpr const char* kLastStatement = "    elementwise_detail::apply_chunk<kConfig, 1>(args, hooks, base);\n  }\n";

ConfigOverrides config_of(std::int64_t block_threads, std::int64_t vector_elems) {
  return {{"block_threads", block_threads}, {"vector_elems", vector_elems}, {"vectors_per_thread", 1}};
}

// One thread of the block looks at the block's own elements, `statement` at element i.
std::string at_own_elements(const std::string& statement) {
  return "  __syncthreads();\n  if (threadIdx.x == 0) {\n    for (i64 i = base; i < base + kChunk && i < args.elements; ++i) {\n      " +
         statement + "\n    }\n  }\n";
}

}  // namespace

std::vector<Plant> make_plants(Place place) {
  const bool gpu = place == Place::kGpu;
  // Another value at every launch.
  const std::string ticks =
      "#if defined(__CUDA_ARCH__)\n  const auto clock = clock64();\n"
      "#elif defined(__x86_64__)\n  const auto clock = __builtin_ia32_rdtsc();\n"
      "#else\n  const auto clock = __builtin_readcyclecounter();\n#endif\n"
      "  const float ticks = static_cast<float>(clock / 64 % 4096);\n";
  return {
      {"wrong in the last column",
       config_of(64, 1),
       at_own_elements("if (i % 61 == 60) hooks.out[i] += 1.0f;"),
       {Fate::kWrong},
       "beyond their bound"},
      {"wrong for NaN only",
       config_of(64, 2),
       at_own_elements("if (hooks.out[i] != hooks.out[i]) hooks.out[i] = 0.0f;"),
       {Fate::kWrong},
       "special"},
      {"writes one element outside",
       config_of(64, 4),
       "  if (base + kChunk >= args.elements && threadIdx.x == 0) hooks.out[args.elements] = 1.0f;\n",
       {Fate::kWrong},
       "out"},
      {"endless loop",
       config_of(128, 1),
       gpu ? "  while (args.elements > 0) __nanosleep(64);\n" : "  for (;;) asm volatile(\"\" ::: \"memory\");\n",
       {Fate::kTimedOut},
       "no answer within"},
      {"illegal address",
       config_of(128, 2),
       "  hooks.out[(i64{1} << 44) + threadIdx.x] = 1.0f;\n",
       {Fate::kCrashed, Fate::kWrong},
       gpu ? "llegal" : "out"},
      {"spills hugely",
       config_of(512, 1),
       "  float spilled[2048];\n  for (int i = 0; i < 2048; ++i) spilled[(i * 7 + static_cast<int>(args.elements)) % 2048] = "
       "static_cast<float>(i);\n"
       "  if (spilled[threadIdx.x] < 0.0f) hooks.out[base] = spilled[threadIdx.x + 1];\n",
       {Fate::kPruned},
       "local memory"},
      {"not deterministic",
       config_of(512, 2),
       ticks + at_own_elements("hooks.out[i] += hooks.out[i] * ticks * 0x1p-33f;"),
       {Fate::kWrong},
       "bits"},
      {"half a minute to compile", config_of(512, 4), "", {Fate::kCompileFailed}, "not compiled within", 30},
  };
}

llvm::Expected<Graph> planted_graph() {
  return parse_description(R"j({"name": "planted", "dims": {"N": {"default": 37, "min": 1, "max": 64}},
    "inputs": {"x": {"dtype": "f32", "shape": ["N", 61]}},
    "ops": [{"op": "map", "in": ["x"], "out": "y", "expr": "x * 2 + 1"}], "outputs": ["y"]})j",
                           {});
}

llvm::Expected<Space> planted_space(const Graph& graph, const CompileOptions& options) {
  auto space = make_space(graph, options);
  if (!space) return space;
  for (SpaceParameter& parameter : space->parameters) {
    if (parameter.name == "block_threads") parameter.values = {64, 128, 256, 512};
    if (parameter.name == "vector_elems") parameter.values = {1, 2, 4};
    if (parameter.name == "vectors_per_thread") parameter.values = {1};
  }
  return space;
}

const Plant* PlantedBuilders::find(const ConfigOverrides& config) const {
  const auto found = llvm::find_if(plants_, [&](const Plant& plant) { return plant.config == config; });
  return found == plants_.end() ? nullptr : &*found;
}

std::string PlantedBuilders::plant_of(const ConfigOverrides& config) const {
  const Plant* plant = find(config);
  return plant == nullptr ? "" : plant->name;
}

BuilderOptions PlantedBuilders::options(const std::string& plant, llvm::ArrayRef<MemoryHeader> headers) {
  BuilderOptions options = builder_options(headers);
  const auto found = llvm::find_if(plants_, [&](const Plant& p) { return p.name == plant; });
  if (found == plants_.end()) return options;
  auto planted = std::make_unique<std::vector<MemoryHeader>>(headers.begin(), headers.end());
  for (MemoryHeader& header : *planted) {
    if (llvm::StringRef(header.name) != kTemplate) continue;
    auto text = std::make_unique<std::string>(header.text);
    text->insert(text->find(kLastStatement) + llvm::StringRef(kLastStatement).size(), found->code);
    header.text = text->c_str();
    texts_.push_back(std::move(text));
  }
  options.headers = *planted;
  options.build_identity += ", " + plant;
  headers_.push_back(std::move(planted));
  return options;
}

Builder& PlantedBuilders::builder(const std::string& plant) {
  auto& builder = builders_[plant];
  if (!builder)
    builder = std::make_unique<Builder>(std::make_shared<Store>(StoreOptions::from_environment()), options(plant, template_headers()));
  return *builder;
}

std::unique_ptr<HostBuilder> PlantedBuilders::make_host_builder(const std::string& plant) {
  return std::make_unique<HostBuilder>(std::make_shared<Store>(StoreOptions::from_environment()), options(plant, host_headers()));
}

Candidate PlantedCompiler::compile(const ConfigOverrides& config) {
  if (const Plant* plant = builders_.find(config); plant != nullptr)
    std::this_thread::sleep_for(std::chrono::duration<double>(plant->compile_s));
  ProgramCompiler compiler(graph_, graph_.default_dims(), target_, options_, builders_.builder(builders_.plant_of(config)));
  return compiler.compile(config);
}

llvm::Expected<CandidateRunner*> PlantedRunner::runner(const ConfigOverrides& config) {
  auto& runner = runners_[builders_.plant_of(config)];
  if (!runner) {
    auto made = make_(builders_.plant_of(config));
    if (!made) return made.takeError();
    runner = std::move(*made);
  }
  return runner.get();
}

llvm::Expected<std::vector<HostTensor>> PlantedRunner::run(const ConfigOverrides& config, llvm::ArrayRef<std::int64_t> dims,
                                                           llvm::ArrayRef<HostTensor> inputs, std::uint32_t shift_elements) {
  auto chosen = runner(config);
  if (!chosen) return chosen.takeError();
  return (*chosen)->run(config, dims, inputs, shift_elements);
}

llvm::Expected<bool> PlantedRunner::renew(llvm::ArrayRef<HostTensor> inputs) {
  bool changed = false;
  for (auto& [plant, runner] : runners_) {
    auto renewed = runner->renew(inputs);
    if (!renewed) return renewed.takeError();
    changed |= *renewed;
  }
  return changed;
}

llvm::Expected<TimedSamples> PlantedRunner::time(const ConfigOverrides& config, unsigned samples) {
  auto chosen = runner(config);
  if (!chosen) return chosen.takeError();
  return (*chosen)->time(config, samples);
}

}  // namespace tilewright::tests
