// Random cases of the layer types that have more than native code: odd and even sizes, batches of
// one, channels that fill whole blocks and that do not, windows, groups, and the other parameters.
#pragma once

#include <initializer_list>
#include <map>
#include <string>

#include "core/rng.h"
#include "graph/registry.h"

namespace crema::test {

// The random numbers of one case.
class Draw {
 public:
  explicit Draw(uint64_t number) : stream_(11, number) {}
  int64_t Int(int64_t low, int64_t high) {
    return low + stream_.Below(next_++, static_cast<uint32_t>(high - low + 1));
  }
  bool Chance(int percent) { return Int(1, 100) <= percent; }
  const char* Pick(std::initializer_list<const char*> words) {
    return words.begin()[Int(0, static_cast<int64_t>(words.size()) - 1)];
  }
  int64_t Batch() { return Chance(50) ? 1 : Int(2, 4); }
  // Returns whole blocks in two of three cases; 16 if this processor has no blocks.
  int64_t Channels();

 private:
  RandomStream stream_;
  uint64_t next_ = 0;
};

struct ImplementationCase {
  LayerSample sample;
  // The longest sums: of an output, of a gradient of an input, of a gradient of a parameter.
  int64_t forward_terms = 1;
  int64_t input_terms = 1;
  int64_t parameter_terms = 1;
  // Factor by which the computation may amplify rounding errors.
  double amplification = 1;
  // Factor, a power of 2, of parameter values, which are drawn from -1 to 1.
  double parameter_factor = 1;
  // A ReLU follows the sums: where an output is 0 except for rounding, gradients cannot be
  // compared.
  bool relu_after = false;
};

using Generator = ImplementationCase (*)(const LayerType& type, Draw& draw);

// By type. Those of layers with LayerInfo::any_format give blobs of whole blocks at times.
const std::map<std::string, Generator, std::less<>>& Generators();

}  // namespace crema::test
