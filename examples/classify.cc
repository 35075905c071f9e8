// Classifies an image with a file of `deploy export`: classify MODEL.crema IMAGE
#include <cstdio>
#include <fstream>
#include <iterator>
#include <string>

#include "crema/deploy.h"

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fprintf(stderr, "usage: %s MODEL.crema IMAGE\n", argv[0]);
    return 2;
  }
  try {
    const crema::deploy::Model model = crema::deploy::Model::Open(argv[1]);
    std::ifstream file(argv[2], std::ios::binary);
    const std::string image{std::istreambuf_iterator<char>(file), {}};
    crema::deploy::Runner runner(model);
    for (const auto& best : runner.Classify(image.data(), image.size())) {
      std::printf("%.4f %d %s\n", double{best.score}, best.index, best.label.c_str());
    }
  } catch (const crema::deploy::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
  return 0;
}
