// Writes whole and broken files to a folder a target, for libFuzzer to begin with.
#include <cstdio>
#include <filesystem>
#include <fstream>

#include "support/fuzz_corpus.h"

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: write_corpus FOLDER\n");
    return 2;
  }
  std::vector<crema::test::CorpusFile> files = crema::test::WholeFiles();
  for (auto& file : crema::test::BrokenFiles()) files.push_back(std::move(file));
  for (size_t i = 0; i < files.size(); ++i) {
    if (files[i].bytes.size() > 65536) continue;  // libFuzzer would cut it
    const std::filesystem::path folder = std::filesystem::path(argv[1]) / files[i].target;
    std::filesystem::create_directories(folder);
    std::ofstream(folder / std::to_string(i), std::ios::binary) << files[i].bytes;
  }
  std::printf("%zu files\n", files.size());
  return 0;
}
