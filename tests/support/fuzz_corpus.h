// Broken files of every kind that we know, made from intact ones.
#pragma once

#include <string>
#include <vector>

namespace crema::test {

struct CorpusFile {
  std::string name;    // the change that was made
  std::string target;  // as in fuzz_targets.h, in lower case
  std::string bytes;
  // Part of the message that it must end with; empty: it may be accepted, but nothing may break.
  std::string expect;
};

// Those of data sets, for WholeFiles.
void AddWholeData(std::vector<CorpusFile>* files);
// A file of `deploy export`.
void AddWholeModelFile(std::vector<CorpusFile>* files);
// State dicts of PyTorch, in each format.
void AddWholeStateDicts(std::vector<CorpusFile>* files);
// ONNX models of all topics.
void AddWholeOnnx(std::vector<CorpusFile>* files);

// Whole files, accepted by their targets.
std::vector<CorpusFile> WholeFiles();

// Truncated at every field of the wire format and every line of a text, bits flipped, sizes huge,
// negative or overflowing, deep nesting, cycles of blob names, far too many layers.
std::vector<CorpusFile> BrokenFiles();

}  // namespace crema::test
