// State dicts: the named parameters of models of other programs, in .safetensors, .pth and .pt.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "core/shape.h"
#include "core/tensor.h"
#include "format/stored_elements.h"

namespace crema {

struct StateEntry {
  std::string name;
  ElementType type = ElementType::kF32;
  Shape shape;
};

// An open file. Thread safety: one thread.
class StateDict {
 public:
  explicit StateDict(std::string path) : path_(std::move(path)) {}
  virtual ~StateDict() = default;
  StateDict(const StateDict&) = delete;
  StateDict& operator=(const StateDict&) = delete;

  const std::string& path() const { return path_; }
  // In file order; names are unique.
  const std::vector<StateEntry>& entries() const { return entries_; }
  // Returns the key of the dict within the file, such as "state_dict"; empty: the outermost.
  const std::string& key() const { return key_; }
  // Returns the values of an entry as f32. Throws kDataLoss if the file is altered.
  virtual Tensor Read(size_t entry) = 0;

 protected:
  std::vector<StateEntry> entries_;
  std::string key_;

 private:
  std::string path_;
};

// Opens a file, whose format its contents tell. Reads names and shapes only; nothing in the file
// is executed. `key` selects a dict of a PyTorch file that holds several: "model", "ema.model", or
// "." for the outermost; empty: the one that is there. Throws kNotFound, kDataLoss for a damaged
// file, kUnsupported for one that holds other things than tensors and plain values, or a format
// that this build lacks, and kInvalidArgument for a key that is not there or is needed.
std::unique_ptr<StateDict> OpenStateDict(const std::string& path, const std::string& key = "");

}  // namespace crema
