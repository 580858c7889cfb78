#include "tools/tune_place.h"

#include "llvm/ADT/STLExtras.h"
#include "runtime/device.h"
#include "runtime/nvml.h"
#include "tools/cli.h"

namespace tilewright::cli {
namespace {

// f32 multiply-adds of the vector units, two operations each; 0 where the driver does not say the clock. Lanes of a multiprocessor: CUDA
// programming guide, arithmetic throughput per compute capability.
double peak_f32_flops(const Target& target, int sm_count, int core_khz) {
  const int lanes = target.number() == 80 ? 64 : 128;
  return 2.0 * lanes * sm_count * core_khz * 1e3;
}

llvm::Expected<Place> gpu_place(const Driver& driver, int ordinal, llvm::ArrayRef<int> compiler_numbers, const std::string& nvrtc) {
  auto facts = device_facts(driver, ordinal);
  if (!facts) return facts.takeError();
  auto target = target_of_device(facts->major, facts->minor, compiler_numbers);
  if (!target) return target.takeError();
  Place place;
  place.ordinal = ordinal;
  place.device = facts->name;
  place.target = *target;
  CUdevice device = 0;
  int core_khz = 0, memory_khz = 0;
  if (driver.device_get(&device, ordinal) == CUDA_SUCCESS) {
    driver.device_get_attribute(&core_khz, CU_DEVICE_ATTRIBUTE_CLOCK_RATE, device);
    driver.device_get_attribute(&memory_khz, CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE, device);
  }
  place.environment["nvrtc"] = nvrtc;
  auto nvml = tilewright::nvml();
  place.environment["nvml"] = nvml ? nvml->path : take_error_facts(nvml.takeError()).message;
  place.environment["driver"] = driver.version_text();
  place.environment["device"] = facts->name;
  place.environment["sm_count"] = facts->sm_count;
  place.environment["most_core_mhz"] = core_khz / 1000;
  place.environment["most_memory_mhz"] = memory_khz / 1000;
  place.rates = {facts->datasheet_bandwidth, peak_f32_flops(place.target, facts->sm_count, core_khz)};
  return place;
}

// "0,1"; `count`: how many "all" means.
llvm::Expected<std::vector<int>> parse_ordinals(llvm::StringRef text, int count) {
  std::vector<int> ordinals;
  if (text == "all") {
    for (int i = 0; i < count; ++i) ordinals.push_back(i);
    return ordinals;
  }
  llvm::SmallVector<llvm::StringRef, 8> parts;
  text.split(parts, ',');
  for (llvm::StringRef part : parts) {
    int ordinal = 0;
    if (part.trim().getAsInteger(10, ordinal) || ordinal < 0)
      return make_error(Status::kInvalidArgument, "--device {}: wanted ordinals such as 0 or 0,1, or all", text);
    if (llvm::is_contained(ordinals, ordinal)) return make_error(Status::kInvalidArgument, "--device {}: {} is named twice", text, ordinal);
    ordinals.push_back(ordinal);
  }
  return ordinals;
}

}  // namespace

llvm::Expected<std::vector<Place>> find_places(const TuneCommand& options, Builder& builder) {
  auto nvrtc = builder.nvrtc();
  if (!nvrtc) return nvrtc.takeError();
  auto version = (*nvrtc)->version();
  if (!version) return version.takeError();
  std::vector<Place> places;
  if (options.on == "host") {
    auto ordinals = parse_ordinals(options.devices, 1);
    if (!ordinals) return ordinals.takeError();
    for (int ordinal : *ordinals) {
      Place place;
      place.ordinal = ordinal;
      place.device = "host simulation";
      place.environment["nvrtc"] = *version;
      places.push_back(std::move(place));
    }
    return places;
  }
  auto driver = tilewright::driver();
  if (!driver) return driver.takeError();
  auto count = device_count(*driver);
  if (!count) return count.takeError();
  auto ordinals = parse_ordinals(options.devices, *count);
  if (!ordinals) return ordinals.takeError();
  if (ordinals->empty()) ordinals->push_back(0);  // whose facts say that there is none
  auto numbers = (*nvrtc)->supported_architectures();
  if (!numbers) return numbers.takeError();
  for (int ordinal : *ordinals) {
    auto place = gpu_place(*driver, ordinal, *numbers, *version);
    if (!place) return place.takeError();
    places.push_back(std::move(*place));
  }
  return places;
}

std::vector<std::vector<std::size_t>> models_of(llvm::ArrayRef<Place> places) {
  std::vector<std::vector<std::size_t>> models;
  for (auto [index, place] : llvm::enumerate(places)) {
    const auto same = llvm::find_if(models, [&](const std::vector<std::size_t>& model) {
      return places[model.front()].device == place.device && places[model.front()].target == place.target;
    });
    if (same == models.end()) {
      models.push_back({index});
    } else {
      same->push_back(index);
    }
  }
  return models;
}

}  // namespace tilewright::cli
