// Memory budget shared by all requests.
#pragma once

#include <atomic>
#include <cstddef>
#include <optional>
#include <utility>

namespace crema::server {

// Thread safety: any number of threads.
class ByteBudget {
 public:
  explicit ByteBudget(size_t bytes) : left_(bytes) {}

  // Returns its bytes on destruction; may be empty.
  class Lease {
   public:
    Lease(ByteBudget& budget, size_t bytes) : budget_(&budget), bytes_(bytes) {}
    ~Lease() {
      if (budget_ != nullptr) budget_->left_ += bytes_;
    }
    // Returns false, without effect, if the budget does not suffice.
    bool Grow(size_t bytes) {
      if (!budget_->Deduct(bytes)) return false;
      bytes_ += bytes;
      return true;
    }
    Lease(Lease&& other) noexcept
        : budget_(std::exchange(other.budget_, nullptr)), bytes_(other.bytes_) {}
    Lease& operator=(Lease&& other) noexcept {
      std::swap(budget_, other.budget_);
      std::swap(bytes_, other.bytes_);
      return *this;
    }

   private:
    ByteBudget* budget_;
    size_t bytes_;
  };

  // Returns nothing if the budget does not suffice.
  std::optional<Lease> Take(size_t bytes) {
    if (!Deduct(bytes)) return std::nullopt;
    return Lease(*this, bytes);
  }

 private:
  bool Deduct(size_t bytes) {
    size_t left = left_;
    do {
      if (bytes > left) return false;
    } while (!left_.compare_exchange_weak(left, left - bytes));
    return true;
  }

  std::atomic<size_t> left_;
};

}  // namespace crema::server
