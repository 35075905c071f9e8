// The inputs that Crema and its peers are given.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "runtime/session.h"

namespace crema::compare {

// Values of the Input layers of a plan, the same in each process: drawn by the blob's name.
class RunnerInputs {
 public:
  // Draws normal values; for blobs in `integers` whole numbers below the given bound.
  RunnerInputs(const Plan& plan, const std::map<std::string, Shape>& integers);

  // A pass may reuse the memory of its inputs, so that each pass begins with this.
  void CopyTo(Session* session) const;

  // Little-endian floats, a file each: `folder`/input0.f32 and so on. Returns a JSON list of name,
  // shape, file and whether it holds whole numbers.
  std::string Write(const std::string& folder) const;

 private:
  struct Input {
    std::string name;
    Shape shape;
    bool integer = false;
    std::vector<float> values;
  };
  std::vector<Input> inputs_;
};

// One of them as JSON.
std::string DescribeBlob(const std::string& name, const Shape& shape, const std::string& file,
                         bool integer);
// Writes the floats of a blob. Throws kIoFailure.
void WriteFloats(const std::string& path, std::span<const float> values);

}  // namespace crema::compare
