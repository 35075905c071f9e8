// Alias sets: values that share storage. Internal to memory placement.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <vector>

namespace crema {

// Union-find over values in the same memory, with their byte offsets and the lifetime of that
// memory.
class AliasSets {
 public:
  struct Needs {
    int last_read = -1;        // step
    bool live_to_end = false;  // read outside the plan
    int64_t bytes = 0;
  };

  explicit AliasSets(size_t count) : parent_(count), offset_(count), needs_(count) {
    std::iota(parent_.begin(), parent_.end(), 0);
  }
  int Find(int v) {
    while (Parent(v) != v) {
      Offset(v) += Offset(Parent(v));     // 0 for a root
      v = Parent(v) = Parent(Parent(v));  // halves the path
    }
    return v;
  }
  // Returns the offset in bytes from the start of the alias set.
  int64_t OffsetOf(int v) {
    int64_t offset = 0;
    for (; Parent(v) != v; v = Parent(v)) offset += Offset(v);
    return offset;
  }
  Needs& NeedsOf(int v) { return needs_[static_cast<size_t>(Find(v))]; }
  // Places b `distance` bytes after a. Requires: b is at the start of its alias set.
  void Join(int a, int b, int64_t distance = 0) {
    const int from = Find(b);
    const Needs taken = NeedsOf(from);
    Offset(from) = OffsetOf(a) + distance;
    Parent(from) = Find(a);
    Needs& needs = NeedsOf(a);
    needs.last_read = std::max(needs.last_read, taken.last_read);
    needs.live_to_end = needs.live_to_end || taken.live_to_end;
    needs.bytes = std::max(needs.bytes, OffsetOf(b) + taken.bytes);
  }

 private:
  int& Parent(int v) { return parent_[static_cast<size_t>(v)]; }
  int64_t& Offset(int v) { return offset_[static_cast<size_t>(v)]; }
  std::vector<int> parent_;
  std::vector<int64_t> offset_;  // from the parent, in bytes
  std::vector<Needs> needs_;     // of the root
};

}  // namespace crema
