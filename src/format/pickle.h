// Pickles of torch.save, read without executing them: an interpreter for a list of opcodes that
// only build values, and for calls of the functions that rebuild tensors. Everything else is
// refused by name.
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <vector>

#include "core/shape.h"
#include "format/stored_elements.h"

namespace crema {

inline constexpr uint64_t kMostPickleBytes = uint64_t{1} << 26;
inline constexpr size_t kMostPickledText = 1 << 20;  // bytes of one string or number

// A file of elements that tensors refer to.
struct PickledStorage {
  ElementType type = ElementType::kF32;  // of an untyped storage: kU8
  std::string_view key;
  uint64_t count = 0;  // elements
};

// A strided view. Its elements are within its storage, which has at least as many as it.
struct PickledTensor {
  ElementType type = ElementType::kF32;
  Shape shape = {};
  uint64_t offset = 0;  // in elements of `type`
  std::vector<int64_t> strides = {};
  size_t storage = 0;  // index
};

struct PickledValue {
  enum class Kind : uint8_t {
    kPlain,    // None, a bool (True: `number` is 1), a float, a large number, or an object without
               // meaning here
    kInteger,  // `number`
    kText,     // `text`
    kTuple,
    kList,
    kDict,     // `items`: key, value, key, value, ...; a later pair replaces an earlier one
    kGlobal,   // `text`: its name, `number`: its index in the list of allowed names
    kStorage,  // `number`: index
    kTensor,   // `number`: index
  };
  Kind kind = Kind::kPlain;
  int64_t number = 0;
  std::string_view text = {};        // in the bytes that were read, or of a global
  std::vector<uint32_t> items = {};  // values by index; may form cycles
};

struct Pickle {
  std::deque<PickledValue> values;
  std::deque<PickledStorage> storages;
  std::deque<PickledTensor> tensors;
  uint32_t root = 0;
  uint64_t size = 0;  // bytes read; others may follow
};

// Reads one pickle from the start of `bytes`, which must outlive the result. Messages begin with
// `name` and have the offset in `bytes`. Throws kUnsupported for an opcode, a function or a class
// that is not allowed, kDataLoss for bytes that are not a pickle. Allocates at most 256 bytes for
// each byte read, and never recurses.
Pickle ReadPickle(std::string_view bytes, const std::string& name);

}  // namespace crema
