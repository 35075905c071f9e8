// Runs one int8 implementation on random bytes, and computes the expected result: the native method
// in double precision on the same bytes times their steps.
#pragma once

#include <string>
#include <vector>

#include "crema.pb.h"
#include "graph/registry.h"

namespace crema::test {

struct Int8Case {
  std::string type;
  std::string fields;  // of the layer, except names, precision and ranges
  std::vector<Shape> inputs;
  std::string implementation = "int8";
  bool signed_in = false;
  bool signed_out = true;
  double in_max = 2;
  double out_max = 40;
  int threads = 2;
  bool extreme = false;  // inputs are the first and last byte only, weights the largest
  double weight_scale = 1;
  int zero_output = -1;                    // the weights of this output are all 0
  int equal_output = -1;                   // the weights of this output are all equal
  bool fixed = true;                       // ForwardArgs::weights_fixed
  std::vector<LayerParameter> fused = {};  // with ranges
};

struct Int8Outcome {
  std::string refused;           // why the implementation does not support the case; empty: it ran
  std::vector<double> made;      // plain; bytes times their step
  std::vector<double> expected;  // plain, not rounded to bytes
  double step = 0;               // of the output; 0: it is float
  double lowest = 0, highest = 0;
};

Int8Outcome RunInt8Implementation(const Int8Case& c, uint64_t seed);

// Returns the largest difference; empty without one. Bytes must be the nearest to the expected
// value, except for ties that single precision rounds the other way.
std::string Difference(const Int8Outcome& outcome);

}  // namespace crema::test
