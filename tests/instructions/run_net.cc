// Runs forward and backward passes of a training net on drawn inputs, on one thread, for
// instruction_counts_test. Usage: run_net NET.prototxt BATCH CHANNELS SIZE PASSES
#include <cstdlib>
#include <iostream>
#include <stdexcept>
#include <string>

#include "crema.pb.h"
#include "format/prototxt.h"
#include "graph/replace_sources.h"
#include "support/net.h"

namespace crema::test {
namespace {

int Run(const std::string& path, const Shape& images, int passes) {
  NetFile file = ReadNet(path);
  ReplaceSources({.given = {{"data", images}, {"label", {images[0]}}}}, TestRegistry(), &file.net);
  NetState state;
  state.set_phase(TRAIN);
  std::vector<Problem> warnings;
  const auto plan = MakePlan(file.net, file.source, state, TestRegistry(), {}, &warnings);
  const std::shared_ptr<Weights> weights = Weights::Make(*plan, 1);
  Session session(plan, weights, ExecContext(1));
  FillInput(&session, "data", 1);  // labels stay 0
  for (int i = 0; i < passes; ++i) {
    session.Forward();
    session.Backward();
  }
  return EXIT_SUCCESS;
}

}  // namespace
}  // namespace crema::test

int main(int argc, char** argv) {
  try {
    if (argc != 6) throw std::invalid_argument("run_net NET.prototxt BATCH CHANNELS SIZE PASSES");
    const auto number = [&](int i) { return std::stoi(argv[i]); };
    return crema::test::Run(argv[1], {number(2), number(3), number(4), number(4)}, number(5));
  } catch (const std::exception& error) {
    std::cerr << error.what() << '\n';
    return EXIT_FAILURE;
  }
}
