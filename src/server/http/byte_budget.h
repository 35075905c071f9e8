// Memory that all requests together may fill.
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

  // Given back when it goes.
  class Lease {
   public:
    Lease(ByteBudget& budget, size_t bytes) : budget_(&budget), bytes_(bytes) {}
    ~Lease() {
      if (budget_ != nullptr) budget_->left_ += bytes_;
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

  // Nothing where there is not so much left.
  std::optional<Lease> Take(size_t bytes) {
    size_t left = left_;
    do {
      if (bytes > left) return std::nullopt;
    } while (!left_.compare_exchange_weak(left, left - bytes));
    return Lease(*this, bytes);
  }

 private:
  std::atomic<size_t> left_;
};

}  // namespace crema::server
