// tilewright/host/tensor_map.h
// What a tensor map is on the CPU: a plain description in the 128 bytes that the hardware's opaque one takes. Needs no other header.
#pragma once

namespace tw::host {

enum class Swizzle : unsigned char { kNone, k32B, k64B, k128B };

struct alignas(64) HostTensorMap {
  static constexpr unsigned long long kMagic = 0x70614d726f736e65;
  unsigned long long magic;
  unsigned char* base;
  unsigned long long dims[5];     // elements, innermost first
  unsigned long long strides[4];  // bytes between neighbours along dimensions 1 and up
  unsigned short box[5];          // elements
  unsigned char rank, element_bytes;
  Swizzle swizzle;
  bool nan_fill;       // of floating elements outside, instead of zero
  unsigned fill_bits;  // that NaN
};
static_assert(sizeof(HostTensorMap) == 128, "a tensor map has 128 bytes");

// Chunks of 16 bytes change places within rows of the swizzle's width, by the number of the row of 128 bytes.
constexpr unsigned long swizzled(unsigned long address, Swizzle swizzle) {
  const unsigned long mask = (1ul << static_cast<unsigned>(swizzle)) - 1;
  return address ^ (address >> 3 & mask << 4);
}

}  // namespace tw::host
