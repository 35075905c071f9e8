// Forward and backward of single layers, by the kernel row that a plan would choose: LeNet's, with
// batches of 64, and some of larger nets. The argument is the number of threads.
#include <benchmark/benchmark.h>
#include <google/protobuf/text_format.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "core/rng.h"
#include "graph/registry.h"

namespace {

using namespace crema;  // NOLINT: a program, not a library

struct LayerSpec {
  const char* name;
  const char* type;
  const char* fields;
  std::vector<int64_t> input;
  bool data_gradient = true;  // the first layer of a net needs none
};

const std::vector<LayerSpec>& Specs() {
  static const std::vector<LayerSpec> specs = {
      {"lenet/conv1",
       "Convolution",
       "convolution_param { num_output: 20 kernel_size: 5 }",
       {64, 1, 28, 28},
       false},
      {"lenet/pool1", "Pooling", "pooling_param { kernel_size: 2 stride: 2 }", {64, 20, 24, 24}},
      {"lenet/conv2",
       "Convolution",
       "convolution_param { num_output: 50 kernel_size: 5 }",
       {64, 20, 12, 12}},
      {"lenet/pool2", "Pooling", "pooling_param { kernel_size: 2 stride: 2 }", {64, 50, 8, 8}},
      {"lenet/ip1",
       "InnerProduct",
       "inner_product_param { num_output: 500 } fused_relu_param {}",
       {64, 50, 4, 4}},
      {"lenet/ip2", "InnerProduct", "inner_product_param { num_output: 10 }", {64, 500}},
      {"conv3x3_64",
       "Convolution",
       "convolution_param { num_output: 64 kernel_size: 3 pad: 1 }",
       {4, 64, 56, 56}},
      {"conv3x3_512",
       "Convolution",
       "convolution_param { num_output: 512 kernel_size: 3 pad: 1 }",
       {4, 512, 14, 14}},
      {"conv1x1_256",
       "Convolution",
       "convolution_param { num_output: 64 kernel_size: 1 }",
       {4, 256, 56, 56}},
      {"conv7x7_stride2",
       "Convolution",
       "convolution_param { num_output: 64 kernel_size: 7 stride: 2 pad: 3 }",
       {4, 3, 224, 224}},
      {"depthwise3x3",
       "Convolution",
       "convolution_param { num_output: 128 kernel_size: 3 pad: 1 group: 128 }",
       {4, 128, 56, 56}},
      {"maxpool3_stride2",
       "Pooling",
       "pooling_param { kernel_size: 3 stride: 2 }",
       {4, 64, 112, 112}},
      {"avgpool_global",
       "Pooling",
       "pooling_param { pool: AVE global_pooling: true }",
       {4, 2048, 7, 7}},
      {"lrn_across", "LRN", "lrn_param { alpha: 0.0001 }", {4, 96, 55, 55}},
      {"ip_batch1", "InnerProduct", "inner_product_param { num_output: 4096 }", {1, 9216}},
  };
  return specs;
}

// A layer with all that it reads and writes.
class LayerRun {
 public:
  LayerRun(const LayerType& type, const LayerSpec& spec, int threads) : context_(threads) {
    LayerParameter param;
    google::protobuf::TextFormat::ParseFromString(spec.fields, &param);
    param.set_name(spec.name);
    param.set_type(spec.type);
    layer_ = type.make(param);
    specs_ = {{Shape(std::span<const int64_t>(spec.input)), DType::kF32}};
    const InferContext infer{.phase = TRAIN, .inputs = specs_, .output_count = 1};
    info_ = layer_->Infer(infer);
    Choose(type, KernelQuery{*layer_, infer, info_, threads});
    Allocate(spec.data_gradient);
  }

  void Forward() {
    const ForwardArgs args{context_, TRAIN,      1,        inputs_, outputs_,
                           learned_, saved_out_, scratch_, nullptr};
    kernel_->forward ? kernel_->forward(*layer_, args) : layer_->Forward(args);
  }
  void Backward() {
    const BackwardArgs args{context_,      TRAIN,        1,        inputs_,        read_outputs_,
                            output_grads_, input_grads_, learned_, learned_grads_, saved_in_,
                            scratch_,      nullptr};
    kernel_->backward ? kernel_->backward(*layer_, args) : layer_->Backward(args);
  }
  int64_t macs() const { return info_.macs; }

 private:
  void Choose(const LayerType& type, const KernelQuery& query) {
    kernel_ = &*std::ranges::find_if(type.kernels, [&](const Kernel& kernel) {
      return kernel.device == DeviceType::kCpu && (!kernel.supports || kernel.supports(query).yes);
    });
    const size_t forward = kernel_->forward_scratch
                               ? kernel_->forward_scratch(query)
                               : layer_->ForwardScratch(query.context, info_, query.threads);
    const size_t backward = kernel_->backward_scratch
                                ? kernel_->backward_scratch(query)
                                : layer_->BackwardScratch(query.context, info_, query.threads);
    scratch_.resize(std::max(forward, backward) + 1);
  }

  Tensor& Add(const Shape& shape, DType dtype, bool random) {
    tensors_.push_back(std::make_unique<Tensor>(shape, dtype));
    Tensor& tensor = *tensors_.back();
    if (random) {
      const RandomStream stream(1, tensors_.size());
      uint64_t i = 0;
      for (float& value : tensor.view().span<float>()) {
        value = static_cast<float>(stream.Uniform(i++) - 0.5);
      }
    }
    return tensor;
  }

  void Allocate(bool data_gradient) {
    const Shape& input = specs_[0].shape;
    const Shape& output = info_.outputs[0].shape;
    inputs_ = {Add(input, DType::kF32, true).view()};
    outputs_ = {Add(output, DType::kF32, false).view()};
    read_outputs_ = {outputs_[0]};
    output_grads_ = {Add(output, DType::kF32, true).view()};
    input_grads_ = {data_gradient ? Add(input, DType::kF32, false).view() : TensorView()};
    for (const LearnedBlob& blob : info_.learned) {
      learned_.push_back(Add(blob.shape, DType::kF32, true).view());
      learned_grads_.push_back(Add(blob.shape, DType::kF32, false).view());
    }
    for (const BlobSpec& blob : info_.saved) {
      saved_out_.push_back(Add(blob.shape, blob.dtype, false).view());
      saved_in_.push_back(saved_out_.back());
    }
  }

  ExecContext context_;
  std::unique_ptr<const Layer> layer_;
  std::vector<BlobSpec> specs_;
  LayerInfo info_;
  const Kernel* kernel_ = nullptr;
  std::vector<std::byte> scratch_;
  std::vector<std::unique_ptr<Tensor>> tensors_;
  std::vector<ConstTensorView> inputs_, read_outputs_, output_grads_, learned_, saved_in_;
  std::vector<TensorView> outputs_, input_grads_, learned_grads_, saved_out_;
};

void Run(benchmark::State& state, const LayerSpec& spec, bool forward) {
  static const Registry registry = BuiltinRegistry();
  LayerRun run(*registry.Find(spec.type), spec, static_cast<int>(state.range(0)));
  run.Forward();
  for (auto _ : state) forward ? run.Forward() : run.Backward();
  const double passes = forward || !spec.data_gradient ? 1 : 2;
  if (run.macs() > 0) {
    state.counters["GFLOP/s"] = benchmark::Counter(2e-9 * passes * static_cast<double>(run.macs()),
                                                   benchmark::Counter::kIsIterationInvariantRate);
  }
}

const bool kRegistered = [] {
  for (const LayerSpec& spec : Specs()) {
    for (const bool forward : {true, false}) {
      benchmark::RegisterBenchmark(
          (std::string(spec.name) + (forward ? "/forward" : "/backward")).c_str(),
          [&spec, forward](benchmark::State& state) { Run(state, spec, forward); })
          ->Arg(1)
          ->Arg(2)
          ->UseRealTime()
          ->Unit(benchmark::kMillisecond);
    }
  }
  return true;
}();

}  // namespace
