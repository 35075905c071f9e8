// Writes seed inputs for libFuzzer, one folder per target.
#include <cstdio>
#include <filesystem>
#include <fstream>

#include "server/fuzz_server.h"

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: write_server_corpus FOLDER\n");
    return 2;
  }
  for (const char* target : {"httphead", "httpbody", "multipart", "infer"}) {
    const std::filesystem::path folder = std::filesystem::path(argv[1]) / target;
    std::filesystem::create_directories(folder);
    size_t number = 0;
    for (const std::string& bytes : crema::test::ServerCorpus(target)) {
      std::ofstream(folder / std::to_string(number++), std::ios::binary) << bytes;
    }
  }
  return 0;
}
