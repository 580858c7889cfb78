// What Linux says of its memory.
#pragma once

#include <cstdint>

namespace tilewright {

// The most memory a process had resident, in bytes; 0 where the system does not say.
std::uint64_t peak_memory(int process);

// Memory that is available on the machine, in bytes; 0 where the system does not say.
std::uint64_t available_memory();

}  // namespace tilewright
