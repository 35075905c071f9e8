// After the first iteration, running a net allocates nothing on the heap.
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <new>

#include "crema.pb.h"
#include "support/net.h"

#ifndef CREMA_SANITIZED  // sanitizers count and check allocations themselves

namespace {
std::atomic<int64_t> g_allocations{0};
}  // namespace

void* operator new(std::size_t size) {
  ++g_allocations;
  if (void* pointer = std::malloc(size == 0 ? 1 : size)) return pointer;
  throw std::bad_alloc();
}
// Inlined, g++ takes free for the wrong partner of new.
[[gnu::noinline]] void operator delete(void* pointer) noexcept { std::free(pointer); }
[[gnu::noinline]] void operator delete(void* pointer, std::size_t) noexcept { std::free(pointer); }

namespace crema {
namespace {

const char* kAllocatingNet = R"(
layer { name: "x" type: "Input" top: "x" input_param { shape { dim: 8 dim: 3 dim: 12 dim: 12 } } }
layer { name: "label" type: "DummyData" top: "label" dummy_data_param { shape { dim: 8 } } }
layer { name: "conv" type: "Convolution" bottom: "x" top: "conv"
  convolution_param { num_output: 6 kernel_size: 3 weight_filler { type: "xavier" } } }
layer { name: "pool" type: "Pooling" bottom: "conv" top: "pool"
  pooling_param { kernel_size: 2 stride: 2 } }
layer { name: "scale" type: "Scale" bottom: "pool" top: "scale" scale_param { bias_term: true } }
layer { name: "bias" type: "Bias" bottom: "scale" top: "bias" bias_param { num_axes: 2 } }
layer { name: "lrn" type: "LRN" bottom: "bias" top: "lrn" }
layer { name: "a" type: "Sigmoid" bottom: "lrn" top: "a" }
layer { name: "b" type: "TanH" bottom: "lrn" top: "b" }
layer { name: "cat" type: "Concat" bottom: "a" bottom: "b" top: "cat" }
layer { name: "drop" type: "Dropout" bottom: "cat" top: "drop" }
layer { name: "ip" type: "InnerProduct" bottom: "drop" top: "ip"
  inner_product_param { num_output: 5 weight_filler { type: "xavier" } } }
layer { name: "relu" type: "ReLU" bottom: "ip" top: "ip" }
layer { name: "accuracy" type: "Accuracy" bottom: "ip" bottom: "label" top: "accuracy" }
layer { name: "loss" type: "SoftmaxWithLoss" bottom: "ip" bottom: "label" top: "loss" }
)";

// Layers that move elements: N x 4 x 6 x 6 all the way.
const char* kMovingNet = R"(
layer { name: "x" type: "Input" top: "x" input_param { shape { dim: 2 dim: 4 dim: 6 dim: 6 } } }
layer { name: "ip" type: "Convolution" bottom: "x" top: "ip"
  convolution_param { num_output: 4 kernel_size: 1 weight_filler { type: "xavier" } } }
layer { name: "pool" type: "Pooling" bottom: "ip" top: "pool" top: "mask"
  pooling_param { kernel_size: 2 stride: 2 } }
layer { name: "up" type: "Upsample" bottom: "pool" bottom: "mask" top: "up" }
layer { name: "slice" type: "Slice" bottom: "up" top: "s1" top: "s2" }
layer { name: "cat" type: "Concat" bottom: "s2" bottom: "s1" top: "cat" }
layer { name: "permute" type: "Permute" bottom: "cat" top: "permute"
  permute_param { order: 0 order: 1 order: 3 order: 2 } }
layer { name: "pad" type: "Pad" bottom: "permute" top: "pad" pad_param { pad: 1 mode: REFLECT } }
layer { name: "crop" type: "Crop" bottom: "pad" bottom: "x" top: "crop"
  crop_param { offset: 1 offset: 0 } }
layer { name: "shuffle" type: "ShuffleChannel" bottom: "crop" top: "shuffle"
  shuffle_channel_param { group: 2 } }
layer { name: "resize" type: "Resize" bottom: "shuffle" top: "resize"
  resize_param { height: 5 width: 7 interpolation: CUBIC } }
layer { name: "interp" type: "Interp" bottom: "resize" bottom: "x" top: "interp" }
layer { name: "volume" type: "Reshape" bottom: "interp" top: "volume"
  reshape_param { axis: 1 num_axes: 0 shape { dim: 1 } } }
layer { name: "pool3d" type: "Pooling3D" bottom: "volume" top: "pool3d"
  pooling_param { kernel_depth: 1 kernel_size: 3 pad: 1 } }
layer { name: "plane" type: "Reshape" bottom: "pool3d" top: "plane"
  reshape_param { shape { dim: 2 dim: 4 dim: 6 dim: 6 } } }
layer { name: "tile" type: "Tile" bottom: "plane" top: "tile" tile_param { tiles: 2 } }
layer { name: "select" type: "DummyData" top: "select"
  dummy_data_param { shape { dim: 2 } data_filler { value: 1 } } }
layer { name: "filter" type: "Filter" bottom: "tile" bottom: "select" top: "filter" }
layer { name: "spp" type: "SPP" bottom: "filter" top: "spp" spp_param { pyramid_height: 2 } }
layer { name: "sum" type: "Reduction" bottom: "spp" top: "sum" loss_weight: 1 }
)";

void ExpectNoAllocations(const char* net) {
  const auto plan = test::PlanText(net, TRAIN, {.threads = 2});
  Session session(plan, Weights::Make(*plan, 1), ExecContext(2, 1));
  session.Forward();
  session.Backward();
  const int64_t before = g_allocations;
  for (int i = 0; i < 5; ++i) {
    session.Forward();
    session.ZeroParameterGradients();
    session.Backward();
  }
  EXPECT_EQ(g_allocations - before, 0);
}

TEST(Allocation, NoneAfterTheFirstIteration) { ExpectNoAllocations(kAllocatingNet); }
TEST(Allocation, NoneInLayersThatMoveElements) { ExpectNoAllocations(kMovingNet); }
TEST(Allocation, NoneInLayersThatRunAgain) {
  std::string net = kAllocatingNet;
  for (const char* name : {"pool", "scale", "bias", "lrn", "a", "b", "cat", "drop"}) {
    const std::string layer = std::string("name: \"") + name + "\"";
    net.insert(net.find(layer), "recompute: true ");
  }
  ExpectNoAllocations(net.c_str());
}

const char* kSequences = R"(
layer { name: "x" type: "Input" top: "x" input_param { shape { dim: 6 dim: 4 dim: 5 } } }
layer { name: "cont" type: "Input" top: "cont" input_param { shape { dim: 6 dim: 4 } } }
layer { name: "lstm" type: "LSTM" bottom: "x" bottom: "cont" top: "lstm"
  recurrent_param { num_output: 6 weight_filler { type: "xavier" } } }
layer { name: "gru" type: "GRU" bottom: "lstm" bottom: "cont" top: "gru"
  recurrent_param { num_output: 6 direction: BIDIRECTIONAL weight_filler { type: "xavier" } } }
layer { name: "rnn" type: "RNN" bottom: "gru" bottom: "cont" top: "rnn"
  recurrent_param { num_output: 6 weight_filler { type: "xavier" } } }
layer { name: "attention" type: "Attention" bottom: "rnn" top: "y" }
layer { name: "loss" type: "Reduction" bottom: "y" top: "loss" loss_weight: 1 }
)";

TEST(Allocation, NoneBetweenChangesOfShapes) {
  const auto plan = test::PlanText(kSequences, TRAIN, {.threads = 2});
  Session session(plan, Weights::Make(*plan, 1), ExecContext(2, 1));
  for (const Shape& shape : {Shape{6, 4}, Shape{3, 2}, Shape{6, 4}}) {
    const Shape x{shape[0], shape[1], 5};
    session.Reshape("x", x);
    session.Reshape("cont", shape);
    session.Forward();
    session.Backward();
    const int64_t before = g_allocations;
    for (int i = 0; i < 5; ++i) {
      session.Reshape("x", x);
      session.Reshape("cont", shape);
      session.Forward();
      session.ZeroParameterGradients();
      session.Backward();
    }
    EXPECT_EQ(g_allocations - before, 0) << ToString(shape);
  }
}

}  // namespace
}  // namespace crema

#endif
