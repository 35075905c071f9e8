// Internal to the placing of memory: which values share it.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <vector>

namespace crema {

// Union-find: values that lie in the same memory, where in it, and when that memory is needed.
class AliasSets {
 public:
  struct Needs {
    int last_read = -1;        // step
    bool live_to_end = false;  // by somebody outside
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
  // Bytes from where the memory of its class starts.
  int64_t OffsetOf(int v) {
    int64_t offset = 0;
    for (; Parent(v) != v; v = Parent(v)) offset += Offset(v);
    return offset;
  }
  Needs& NeedsOf(int v) { return needs_[static_cast<size_t>(Find(v))]; }
  // b lies `distance` bytes behind a. Requires: b is at the start of its class.
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
  std::vector<int64_t> offset_;  // from where the parent lies
  std::vector<Needs> needs_;     // of the root
};

}  // namespace crema
