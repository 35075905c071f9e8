// Convolutions of one input that are computed as one, with the channels of all (Kernel::merges).
#pragma once

#include <cstdint>
#include <vector>

#include "layers/convolution/conv_epilogue.h"

namespace crema {

// Whether all of `query.siblings` differ in their channels and numbers only, and have filters of
// one pixel: those are products with a matrix, of which the larger is the faster.
bool AreAlikeSiblings(const KernelQuery& query);

// Output channels of `query.siblings`; those of the layer where there are none.
int64_t MergedChannels(const KernelQuery& query);

// Their numbers one behind the other, as one convolution takes them. Thread safety: one thread.
class ConvSiblings {
 public:
  // Requires AreAlikeSiblings.
  explicit ConvSiblings(const KernelQuery& query);

  // As ConvEpilogueNumbers::Read.
  ConvLearned Read(const ForwardArgs& args);
  // What this holds.
  static size_t Bytes(const KernelQuery& query);

 private:
  struct Member {
    ConvEpilogue epilogue;
    size_t channels;
    size_t blobs;  // learned ones, with those of what it absorbed
  };

  std::vector<Member> members_;
  bool has_bias_;
  std::vector<float> weight_;
  std::vector<float> bias_;
  std::vector<float> factor_;
  std::vector<float> shift_;
  bool read_ = false;
};

}  // namespace crema
