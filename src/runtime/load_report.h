// What loading weights did, for people to read.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "core/log.h"

namespace crema {

struct LoadReport {
  struct Note {
    std::string layer;
    std::string text;
  };
  // A layer of the net that would find blobs in the file under another name.
  struct Rename {
    std::string layer;
    std::string layer_of_file;
    bool fits = false;  // the shapes are the same
  };

  std::vector<std::string> loaded;      // layers whose blobs came from the file
  std::vector<Note> reshaped;           // of these, blobs taken under another shape
  std::vector<Note> skipped;            // layers whose blobs in the file do not fit, and why
  std::vector<std::string> at_fillers;  // layers with learned blobs that the file does not hold
  std::vector<std::string> not_in_net;  // layers of the file that the net has no use for
  std::vector<Rename> renames;
  std::set<int> filled;  // learned slots (of owners) that came from the file
  int learned = 0;       // learned blobs of the net, shared ones once
};

// What several files did one after the other: later ones add and override.
void MergeInto(LoadReport* all, const LoadReport& next);

// A table of what was loaded, a line a layer.
std::string DescribeLoad(const LoadReport& report, const std::string& file);

// A warning when less than half of the net's learned blobs was loaded, with what could be renamed;
// empty otherwise.
std::string LoadWarning(const LoadReport& report, const std::string& files);

}  // namespace crema
