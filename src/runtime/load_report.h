// The outcome of loading weights, for users.
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
  // A layer of the net that matches parameters of the file under another name.
  struct Rename {
    std::string layer;
    std::string layer_of_file;
    bool fits = false;  // the shapes are the same
  };

  std::vector<std::string> loaded;      // layers whose parameters came from the file
  std::vector<Note> reshaped;           // of these, parameters with another shape in the file
  std::vector<Note> skipped;            // layers whose parameters in the file do not fit, and why
  std::vector<std::string> at_fillers;  // layers with parameters that the file lacks
  std::vector<std::string> not_in_net;  // layers of the file that are not in the net
  std::vector<Rename> renames;
  std::set<int> filled;  // learned slots (of owners) that came from the file
  int learned = 0;       // number of parameters of the net, shared ones once
};

// Merges the reports of files loaded in sequence: later ones add and override.
void MergeInto(LoadReport* all, const LoadReport& next);

// Returns a table of what was loaded, one line for each layer.
std::string DescribeLoad(const LoadReport& report, const std::string& file);

// Returns a warning if less than half of the net's parameters were loaded, with possible renames;
// else an empty text.
std::string LoadWarning(const LoadReport& report, const std::string& files);

}  // namespace crema
