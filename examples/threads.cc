// One model, several threads, tensors in and out: threads MODEL.crema COUNT
// Each thread answers the same request, and all must give the same bytes.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <vector>

#include "crema/deploy.h"

namespace {

namespace deploy = crema::deploy;

// One sample where the model takes any number; every element is 0.5.
std::vector<float> Answer(const deploy::Model& model) {
  std::vector<std::vector<float>> values;
  std::vector<deploy::Tensor> inputs;
  for (const deploy::TensorInfo& info : model.inputs()) {
    deploy::Tensor input{info.name, info.type, info.extents, nullptr};
    for (int64_t& extent : input.extents) extent = extent < 0 ? 1 : extent;
    values.emplace_back(input.count(), 0.5F);
    input.data = values.back().data();
    inputs.push_back(input);
  }
  deploy::Runner runner(model);
  runner.Run(inputs);
  const deploy::Tensor output = runner.Output(model.outputs()[0].name);
  return {output.floats(), output.floats() + output.count()};
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fprintf(stderr, "usage: %s MODEL.crema COUNT\n", argv[0]);
    return 2;
  }
  try {
    const deploy::Model model = deploy::Model::Open(argv[1]);
    std::vector<std::vector<float>> answers(static_cast<size_t>(std::atoi(argv[2])));
    std::vector<std::thread> threads;
    for (auto& answer : answers) threads.emplace_back([&] { answer = Answer(model); });
    for (std::thread& thread : threads) thread.join();
    for (const auto& answer : answers) {
      if (std::memcmp(answer.data(), answers[0].data(), answer.size() * sizeof(float)) != 0) {
        std::fprintf(stderr, "two threads gave different answers\n");
        return 1;
      }
    }
    for (const float value : answers.empty() ? std::vector<float>() : answers[0]) {
      std::printf("%g\n", double{value});
    }
  } catch (const deploy::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
  return 0;
}
