// Memory of packed weights, copied on write.
#pragma once

#include <cstddef>
#include <memory>
#include <utility>

#include "core/tensor.h"
#include "math/packed_weights.h"

namespace crema {

// Packed weights of one layer state, which other states may read. The same weights packed for equal
// keys are interchangeable. Key has operator==. Thread safety: one thread at a time.
template <typename Key>
class PackedWeightBuffer {
 public:
  // Allocates nothing yet. `bytes` depends on the key only.
  PackedWeightBuffer(Key key, size_t bytes) : key_(std::move(key)), bytes_(bytes) {}

  // Returns the packed weights, aligned to a cache line. With `keep`, reuses those of the last call
  // with `keep`, or of Import; otherwise calls pack(std::byte* to).
  template <typename PackInto>
  const std::byte* Get(bool keep, const PackInto& pack) {
    if (!keep || !keeps_) {
      keeps_ = false;
      // Others may read exported or imported weights.
      if (written_ == nullptr || written_.use_count() > 2) {
        current_ = written_ = std::make_shared<Values>(key_, bytes_);
      }
      pack(static_cast<std::byte*>(written_->memory.view().raw()));
    }
    keeps_ = keep;
    return static_cast<const std::byte*>(current_->memory.view().raw());
  }

  // Makes the next Get pack.
  void Forget() { keeps_ = false; }

  // Returns the packed weights; null if the next Get packs.
  SharedPackedWeights Export() const { return keeps_ ? current_ : nullptr; }
  // Uses packed weights exported by a buffer with an equal key. Returns false if the key differs.
  bool Import(const SharedPackedWeights& shared) {
    auto values = std::dynamic_pointer_cast<const Values>(shared);
    if (values == nullptr || !(values->key == key_)) return false;
    current_ = std::move(values);
    written_ = nullptr;
    return keeps_ = true;
  }

 private:
  struct Values final : PackedWeights {
    Values(const Key& k, size_t bytes)
        : key(k), memory(Shape{static_cast<int64_t>((bytes + 63) / 64), 16}, DType::kF32) {}

    const Key key;
    Tensor memory;
  };

  const Key key_;
  const size_t bytes_;
  std::shared_ptr<const Values> current_;
  std::shared_ptr<Values> written_;  // null, or `current_` if this buffer packed it
  bool keeps_ = false;
};

}  // namespace crema
