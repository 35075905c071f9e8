// The values of a plan in one session: their memory and current shapes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "core/device_memory.h"
#include "core/exec_context.h"
#include "core/tensor.h"
#include "plan/plan.h"

namespace crema {

// Throws kInvalidArgument unless a tensor of `spec` fits where one of `planned` was placed. `what`
// names it in the message.
void CheckFits(BlobSpec spec, const BlobSpec& planned, const std::string& what);

// Values are indices into the plan, which must outlive this, as must the context. Thread safety:
// one thread at a time.
class SessionValues {
 public:
  // Allocates the arena. Shapes are those of the plan.
  SessionValues(const Plan& plan, const ExecContext& context);

  // Returns true if values may outgrow the plan: on the CPU, in a plan without optimizations, where
  // no two of them share memory unless they are aliases.
  bool CanGrow() const { return !plan_.options.optimize && context_.queue() == nullptr; }
  // Requires: CanGrow, or the value was planned with as many elements or more. A value that
  // outgrows its memory gets other memory, without its contents; its gradient starts from the loss
  // weight. A sub-view whose new shape does not fit into the larger value gets memory of its own,
  // once.
  void SetShape(int value, const Shape& shape);
  // Makes room for a tensor of `spec` in a slot of the plan. Requires CanGrow if it is larger than
  // planned.
  void Reserve(const ArenaSlot& slot, const BlobSpec& spec, float fill = 0);
  // Returns the owner of the memory that values have outgrown the plan into, which views made now
  // may refer to. Null: there is none.
  std::shared_ptr<const void> grown() const { return grown_; }
  const Shape& shape(int value) const { return shapes_[static_cast<size_t>(value)]; }
  // Returns the current shape with the planned type and layout.
  BlobSpec Spec(int value) const;
  // Counts the changes of shapes.
  const uint64_t& version() const { return version_; }
  // Returns true if the value lies within a larger one with its current shape: any number of
  // images up to the planned one, all else as planned.
  bool IsSubView(int value) const { return IsSubView(value, shape(value)); }

  // Returns the view of a value with its current shape, or with that of `spec`. Without memory in
  // the plan the view is empty.
  TensorView Data(int value) const { return Data(value, Spec(value)); }
  TensorView Data(int value, const BlobSpec& spec) const;
  TensorView Gradient(int value) const;
  // Returns the data that the backward pass reads: recomputation may have moved them.
  TensorView LateData(int value) const;
  // Returns a view of any slot of the plan.
  TensorView View(const ArenaSlot& slot, const BlobSpec& spec) const;

  // Sets the address of the external buffer of a value. Views made before keep the old one.
  void SetExternalBuffer(int value, std::byte* buffer) {
    external_buffers_[static_cast<size_t>(value)] = buffer;
  }

 private:
  const PlannedValue& Planned(int value) const { return plan_.values[static_cast<size_t>(value)]; }
  bool IsSubView(int value, const Shape& shape) const;
  TensorView SubView(int value, const ArenaSlot& slot, const BlobSpec& spec,
                     const std::vector<ByteMemory>& own) const;
  void AllocateOwnMemory(int value);

  const Plan& plan_;
  const ExecContext& context_;
  ByteMemory arena_;
  // By the offset of the slot that it replaces, which aliases share. Owners of earlier versions
  // keep what this one has replaced.
  using Grown = std::map<int64_t, std::shared_ptr<ByteMemory>>;
  std::shared_ptr<const Grown> grown_;
  std::vector<Shape> shapes_;  // by value
  uint64_t version_ = 0;
  std::vector<std::byte*> external_buffers_;          // by value
  std::vector<ByteMemory> own_data_, own_gradients_;  // by PlannedValue::sub_view_of
};

}  // namespace crema
