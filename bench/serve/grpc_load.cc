// Load on a gRPC server of the Open Inference Protocol, Crema's or another: a fixed number of calls
// is always in progress, each with one sample and its own channel.
// Usage: grpc_load HOST:PORT MODEL CALLS SECONDS
// Prints p50 in ms, p99 in ms and calls a second.
#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "inference.grpc.pb.h"

namespace {

using Clock = std::chrono::steady_clock;
using Stub = inference::GRPCInferenceService::Stub;

inference::ModelInferRequest RequestFor(Stub* stub, const std::string& model) {
  grpc::ClientContext context;
  inference::ModelMetadataRequest ask;
  inference::ModelMetadataResponse meta;
  ask.set_name(model);
  const grpc::Status status = stub->ModelMetadata(&context, ask, &meta);
  if (!status.ok()) throw std::runtime_error(status.error_message());
  inference::ModelInferRequest request;
  request.set_model_name(model);
  auto* input = request.add_inputs();
  input->set_name(meta.inputs(0).name());
  input->set_datatype("FP32");
  size_t count = 1;
  for (int axis = 0; axis < meta.inputs(0).shape_size(); ++axis) {
    input->add_shape(axis == 0 ? 1 : meta.inputs(0).shape(axis));
    count *= static_cast<size_t>(input->shape(axis));
  }
  std::string values(count * sizeof(float), '\0');
  for (size_t i = 0; i < count; ++i) {
    const float value = static_cast<float>(i % 1000) / 1000;
    values.replace(i * sizeof(float), sizeof(float), reinterpret_cast<const char*>(&value),
                   sizeof(float));
  }
  request.add_raw_input_contents(values);
  return request;
}

// One of the calls in progress; starts again after each answer.
struct Call {
  std::unique_ptr<Stub> stub;
  std::unique_ptr<grpc::ClientContext> context;
  std::unique_ptr<grpc::ClientAsyncResponseReader<inference::ModelInferResponse>> reader;
  inference::ModelInferResponse response;
  grpc::Status status;
  Clock::time_point begin;

  void Start(const inference::ModelInferRequest& request, grpc::CompletionQueue* queue) {
    context = std::make_unique<grpc::ClientContext>();
    begin = Clock::now();
    reader = stub->AsyncModelInfer(context.get(), request, queue);
    reader->Finish(&response, &status, this);
  }
};

std::unique_ptr<Stub> StubOf(const std::string& address, int channel) {
  grpc::ChannelArguments arguments;
  arguments.SetInt("channel", channel);  // equal arguments would share a connection
  return inference::GRPCInferenceService::NewStub(
      grpc::CreateCustomChannel(address, grpc::InsecureChannelCredentials(), arguments));
}

// Milliseconds of each call that ended within the time, sorted.
std::vector<double> Load(const std::string& address, const std::string& model, int calls,
                         double seconds) {
  const inference::ModelInferRequest request = RequestFor(StubOf(address, -1).get(), model);
  grpc::CompletionQueue queue;
  std::vector<Call> under_way(static_cast<size_t>(calls));
  const auto begin = Clock::now();
  const auto end = begin + std::chrono::duration<double>(seconds);
  for (int i = 0; i < calls; ++i) {
    under_way[static_cast<size_t>(i)].stub = StubOf(address, i);
    under_way[static_cast<size_t>(i)].Start(request, &queue);
  }
  std::vector<double> times;
  std::string failure;
  void* tag = nullptr;
  bool ok = false;
  for (int left = calls; left > 0 && queue.Next(&tag, &ok);) {
    Call& call = *static_cast<Call*>(tag);
    const auto now = Clock::now();
    if (!call.status.ok()) failure = call.status.error_message();
    if (now < end) times.push_back(std::chrono::duration<double>(now - call.begin).count() * 1e3);
    if (now < end && failure.empty()) {
      call.Start(request, &queue);
    } else {
      --left;
    }
  }
  if (!failure.empty()) throw std::runtime_error(failure);
  if (times.empty()) throw std::runtime_error("no call ended in that time");
  std::sort(times.begin(), times.end());
  return times;
}

}  // namespace

int main(int argc, char** argv) try {
  const int calls = argc == 5 ? std::atoi(argv[3]) : 0;
  const double seconds = argc == 5 ? std::atof(argv[4]) : 0;
  if (calls < 1 || seconds <= 0) {
    std::fprintf(stderr, "usage: grpc_load HOST:PORT MODEL CALLS SECONDS\n");
    return 2;
  }
  const std::vector<double> times = Load(argv[1], argv[2], calls, seconds);
  const auto at = [&](double share) {
    return times[static_cast<size_t>(share * static_cast<double>(times.size() - 1))];
  };
  std::printf("%.3f %.3f %.2f\n", at(0.5), at(0.99), static_cast<double>(times.size()) / seconds);
} catch (const std::exception& error) {
  std::fprintf(stderr, "grpc_load: %s\n", error.what());
  return 1;
}
