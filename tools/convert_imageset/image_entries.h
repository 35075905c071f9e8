// Which images a data set is made of.
#pragma once

#include <string>
#include <vector>

namespace crema::tools {

struct ImageEntry {
  std::string name;  // as it is listed, below the root
  std::string path;
  std::string place;  // "line 3 of 'list.txt'"; empty: of a folder
  int label = 0;

  // "'root/a.jpg' (line 3 of 'list.txt')", for messages.
  std::string Describe() const;
};

// Of a list as Caffe has it, `path label` a line, or of a file `path,label` whose name ends with
// .csv (a first row without a number is its heading). `root` stands before each path; a slash is
// put between where it is a folder. Throws kNotFound, kIoFailure, kDataLoss (naming the line).
std::vector<ImageEntry> ReadImageEntries(const std::string& list, const std::string& root);

// The image files below each folder in `root`, in the order of their names; a folder is a class,
// and they are numbered in the order of their names. Throws kNotFound, kDataLoss where there are
// no images.
struct ClassFolders {
  std::vector<std::string> classes;
  std::vector<ImageEntry> entries;
};
ClassFolders ReadClassFolders(const std::string& root);

}  // namespace crema::tools
