#include "core/tensor.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <utility>

#include "core/device_memory.h"
#include "core/error.h"

namespace crema {
namespace {

// Counts bytes that were not freed, and refuses more than `limit` bytes at once.
class CountingAllocator final : public Allocator {
 public:
  explicit CountingAllocator(size_t limit) : limit_(limit) {}
  Device device() const override { return {}; }
  void* Allocate(size_t bytes) override {
    if (bytes > limit_) Fail(ErrorCode::kOutOfMemory, "refused");
    ++live;
    return CpuAllocator().Allocate(bytes);
  }
  void Free(void* pointer, size_t bytes) noexcept override {
    --live;
    CpuAllocator().Free(pointer, bytes);
  }
  int live = 0;

 private:
  size_t limit_;
};

TEST(TensorTest, IsZeroedAndAligned) {
  Tensor tensor({3, 5}, DType::kF32);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(tensor.view().raw()) % 64, 0u);
  for (float v : tensor.view().span<float>()) EXPECT_EQ(v, 0);
  EXPECT_EQ(tensor.view().bytes(), 60u);
}

TEST(TensorTest, WithoutElementsIsStillThere) {
  Tensor tensor({0, 5}, DType::kF32);
  EXPECT_FALSE(tensor.view().empty());
  EXPECT_EQ(tensor.view().count(), 0);
  EXPECT_TRUE(ConstTensorView().empty());
  EXPECT_TRUE(TensorView().empty());
}

TEST(TensorTest, ReadingAnotherTypeThrowsInternal) {
  Tensor tensor({2}, DType::kF64);
  EXPECT_THROW(tensor.view().data<float>(), Error);
  EXPECT_NO_THROW(tensor.view().data<double>());
}

TEST(TensorTest, MovesWithItsMemoryAndFreesItOnce) {
  CountingAllocator allocator(1 << 20);
  {
    Tensor a({4}, DType::kF32, allocator);
    a.view().data<float>()[2] = 7;
    Tensor b = std::move(a);
    EXPECT_EQ(b.view().data<float>()[2], 7);
    Tensor c({2}, DType::kF32, allocator);
    c = std::move(b);
    EXPECT_EQ(c.shape(), Shape({4}));
    EXPECT_EQ(c.view().data<float>()[2], 7);
  }
  EXPECT_EQ(allocator.live, 0);
}

TEST(TensorTest, FailedAllocationLeavesNothingAllocated) {
  CountingAllocator allocator(8);
  EXPECT_THROW(Tensor({100}, DType::kF32, allocator), Error);
  EXPECT_EQ(allocator.live, 0);
}

TEST(AllocatorTest, ImpossibleSizesAreOutOfMemory) {
  try {
    CpuAllocator().Allocate(SIZE_MAX - 10);
    FAIL() << "nothing was thrown";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kOutOfMemory);
  }
}

TEST(DTypeTest, SizesAndNames) {
  EXPECT_EQ(SizeOf(DType::kF32), 4u);
  EXPECT_EQ(SizeOf(DType::kF64), 8u);
  EXPECT_EQ(SizeOf(DType::kF16), 2u);
  EXPECT_EQ(SizeOf(DType::kBF16), 2u);
  EXPECT_EQ(SizeOf(DType::kU8), 1u);
  EXPECT_EQ(SizeOf(DType::kI32), 4u);
  EXPECT_EQ(SizeOf(DType::kI64), 8u);
}

TEST(DTypeTest, DispatchChoosesByTypeAndRefusesOthers) {
  const auto size = [](auto value) { return sizeof(value); };
  EXPECT_EQ(DispatchFloat(DType::kF32, size), sizeof(float));
  EXPECT_EQ(DispatchFloat(DType::kF64, size), sizeof(double));
  EXPECT_THROW(DispatchFloat(DType::kU8, size), Error);
}

// Gives the same kibibyte for any number of bytes.
class BoundlessAllocator final : public Allocator {
 public:
  Device device() const override { return {}; }
  void* Allocate(size_t bytes) override {
    taken += bytes;
    return memory_;
  }
  void Free(void*, size_t bytes) noexcept override { taken -= bytes; }
  size_t taken = 0;

 private:
  std::byte memory_[1024] = {};
};

TEST(ByteMemory, MayBeLargerThanATensor) {
  constexpr size_t kBytes = (size_t{20} << 30) + 1;
  BoundlessAllocator allocator;
  const ExecContext context(nullptr, allocator, 1);
  EXPECT_THROW(Tensor({int64_t{1} << 31}, DType::kU8, allocator), Error);
  {
    ByteMemory memory(kBytes, context);
    EXPECT_NE(memory.data(), nullptr);
    EXPECT_GE(memory.bytes(), kBytes);
    EXPECT_EQ(allocator.taken, memory.bytes());
    const ByteMemory moved = std::move(memory);
    EXPECT_GE(moved.bytes(), kBytes);
  }
  EXPECT_EQ(allocator.taken, 0U);
  EXPECT_EQ(ByteMemory().data(), nullptr);
  EXPECT_NE(ByteMemory(0, context).data(), nullptr);
}

}  // namespace
}  // namespace crema
