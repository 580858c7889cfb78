// Candidates with bugs planted in them, for searches that must survive them: the template of some configs has a few lines more. The rest of
// the way, from the description to the record, is that of `tilewright tune`.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "autotune/compile_pool.h"
#include "autotune/verifier.h"
#include "codegen/space.h"
#include "runtime/host/host_builder.h"

namespace tilewright::tests {

enum class Place : std::uint8_t { kHost, kGpu };

struct Plant {
  std::string name;
  ConfigOverrides config;
  std::string code;         // at the end of tw::elementwise
  std::vector<Fate> fates;  // one of them is its end
  std::string reason;       // a part of the reason that is kept
  double compile_s = 0;     // it takes longer to compile by that much
};
std::vector<Plant> make_plants(Place place);

// y = 2 x + 1 over [N, 61].
llvm::Expected<Graph> planted_graph();
// A dozen configs of it, eight of them planted.
llvm::Expected<Space> planted_space(const Graph& graph, const CompileOptions& options);

// Builders whose elementwise template has a plant, or none.
class PlantedBuilders {
 public:
  explicit PlantedBuilders(std::vector<Plant> plants) : plants_(std::move(plants)) {}
  llvm::ArrayRef<Plant> plants() const { return plants_; }
  // "" without a plant.
  std::string plant_of(const ConfigOverrides& config) const;
  const Plant* find(const ConfigOverrides& config) const;  // null: none
  Builder& builder(const std::string& plant);
  std::unique_ptr<HostBuilder> make_host_builder(const std::string& plant);

 private:
  BuilderOptions options(const std::string& plant, llvm::ArrayRef<MemoryHeader> headers);

  std::vector<Plant> plants_;
  std::map<std::string, std::unique_ptr<Builder>> builders_;
  std::vector<std::unique_ptr<std::string>> texts_;
  std::vector<std::unique_ptr<std::vector<MemoryHeader>>> headers_;
};

// Compiles each config by the builder of its plant. One thread.
class PlantedCompiler : public CandidateCompiler {
 public:
  PlantedCompiler(const Graph& graph, Target target, CompileOptions options, PlantedBuilders& builders)
      : graph_(graph), target_(target), options_(std::move(options)), builders_(builders) {}
  Candidate compile(const ConfigOverrides& config) override;

 private:
  const Graph& graph_;
  Target target_;
  CompileOptions options_;
  PlantedBuilders& builders_;
};

// Runs each config by the runner of its plant.
class PlantedRunner : public CandidateRunner {
 public:
  using Make = std::function<llvm::Expected<std::unique_ptr<CandidateRunner>>(const std::string& plant)>;
  PlantedRunner(const PlantedBuilders& builders, Make make) : builders_(builders), make_(std::move(make)) {}
  llvm::Expected<std::vector<HostTensor>> run(const ConfigOverrides& config, llvm::ArrayRef<std::int64_t> dims,
                                              llvm::ArrayRef<HostTensor> inputs, std::uint32_t shift_elements) override;
  llvm::Expected<bool> renew(llvm::ArrayRef<HostTensor> inputs) override;
  llvm::Expected<TimedSamples> time(const ConfigOverrides& config, unsigned samples) override;

 private:
  llvm::Expected<CandidateRunner*> runner(const ConfigOverrides& config);

  const PlantedBuilders& builders_;
  Make make_;
  std::map<std::string, std::unique_ptr<CandidateRunner>> runners_;
};

}  // namespace tilewright::tests
