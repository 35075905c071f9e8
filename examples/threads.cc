// One model, several threads, tensors in and out: threads MODEL.crema COUNT
// Each thread answers the same request, and all must give the same bytes.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <thread>
#include <vector>

#include "crema/deploy.h"

namespace {

namespace deploy = crema::deploy;

constexpr int kMostThreads = 256;

// One sample where the model takes any number; every element is 0.5, or the byte 127.
std::vector<float> Answer(const deploy::Model& model) {
  std::vector<std::vector<float>> values;
  std::vector<std::vector<uint8_t>> bytes;
  std::vector<deploy::Tensor> inputs;
  for (const deploy::TensorInfo& info : model.inputs()) {
    deploy::Tensor input{info.name, info.type, info.shape, nullptr};
    for (int64_t& dim : input.shape) dim = dim < 0 ? 1 : dim;
    if (info.type == deploy::Type::kUInt8) {
      bytes.emplace_back(input.count(), uint8_t{127});
      input.data = bytes.back().data();
    } else {
      values.emplace_back(input.count(), 0.5F);
      input.data = values.back().data();
    }
    inputs.push_back(input);
  }
  deploy::Runner runner(model);
  runner.Run(inputs);
  const deploy::Tensor output = runner.Output(model.outputs()[0].name);
  if (output.type == deploy::Type::kUInt8) {
    const auto* elements = static_cast<const uint8_t*>(output.data);
    return {elements, elements + output.count()};
  }
  return {output.floats(), output.floats() + output.count()};
}

// An exception that left a thread would end the program.
struct Request {
  std::vector<float> answer;
  std::exception_ptr failure;

  void Run(const deploy::Model& model) noexcept {
    try {
      answer = Answer(model);
    } catch (...) {
      failure = std::current_exception();
    }
  }
};

// Joins its threads even where the next one cannot be started.
class Threads {
 public:
  Threads() = default;
  Threads(const Threads&) = delete;
  Threads& operator=(const Threads&) = delete;
  ~Threads() {
    for (std::thread& thread : threads_) thread.join();
  }
  template <typename Body>
  void Start(const Body& body) {
    threads_.emplace_back(body);
  }

 private:
  std::vector<std::thread> threads_;
};

std::vector<Request> Ask(const deploy::Model& model, int count) {
  std::vector<Request> requests(static_cast<size_t>(count));
  {
    Threads threads;
    for (Request& request : requests) threads.Start([&] { request.Run(model); });
  }
  for (const Request& request : requests) {
    if (request.failure) std::rethrow_exception(request.failure);
  }
  return requests;
}

bool Same(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() &&
         (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0);
}

}  // namespace

int main(int argc, char** argv) {
  const int count = argc == 3 ? std::atoi(argv[2]) : 0;
  if (count < 1 || count > kMostThreads) {
    std::fprintf(stderr, "usage: %s MODEL.crema COUNT\nCOUNT is 1 to %d\n", argv[0], kMostThreads);
    return 2;
  }
  try {
    const deploy::Model model = deploy::Model::Open(argv[1]);
    const std::vector<Request> requests = Ask(model, count);
    for (const Request& request : requests) {
      if (Same(request.answer, requests[0].answer)) continue;
      std::fprintf(stderr, "two threads gave different answers\n");
      return 1;
    }
    for (const float value : requests[0].answer) std::printf("%g\n", double{value});
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
  return 0;
}
