// A program of a user of the installed library: plans a net and prints its layers.
#include <cstdio>

#include "format/prototxt.h"
#include "plan/plan.h"

int main(int, char** argv) {
  const crema::NetFile file = crema::ReadNet(argv[1]);
  const crema::Registry registry = crema::BuiltinRegistry();
  std::vector<crema::Problem> warnings;
  const auto plan = crema::MakePlan(file.net, file.source, {}, registry, {}, &warnings);
  for (const auto& layer : plan->layers) std::puts(layer.name().c_str());
}
