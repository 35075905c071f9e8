// Lists of image files and their labels.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace crema {

struct CsvRow;

// Returns the names of the folders in a folder, in byte order, without those that begin with a dot:
// classes by label. Throws kIoFailure if it cannot be read.
std::vector<std::string> ClassFoldersIn(const std::string& folder);

// Thread safety: const.
class ImageList {
 public:
  struct Entry {
    std::string path;   // including the root
    int label = 0;      // 0 unless a line has exactly one whole number
    uint32_t line = 0;  // from 1; 0: not from a list
  };
  // `source` is a folder, a .csv file or another text file. `root` is prepended to each path as it
  // is. `labels` is the number of labels per image, which may be fractions; 0: one whole number, as
  // in Caffe. Throws kNotFound, kIoFailure, or kDataLoss naming file and line.
  //
  // Folder: has one folder per class. Images at any depth are recognized by extension and ordered
  // by path. Labels number the classes from 0 in byte order of their names. Ignores names that
  // begin with a dot. Throws for a class without images, and kInvalidArgument for a root or
  // `labels` > 1.
  //
  // File that ends with .csv: `path,label[,label...]`; fields may be quoted. A first line that has
  // no number and does not name an image is a heading.
  //
  // Other file: `path label[ label...]`, split at its last spaces, so paths may contain spaces.
  //
  // Ignores empty lines; throws for a list without images.
  ImageList(const std::string& source, const std::string& root, size_t labels = 0);

  // Frames of a video as image files: `pattern` has one %d, or %06d and the like, for the frame
  // number. Starts at number 0 or 1 and ends before the first missing one; skips `skip` frames
  // between two. The labels are 0. Throws kInvalidArgument for a pattern without a number,
  // kNotFound without frames.
  static ImageList OfFrames(const std::string& pattern, uint32_t skip);

  const std::vector<Entry>& entries() const { return entries_; }  // never empty
  const std::string& source() const { return source_; }
  // Class names if the source is a folder; else empty.
  const std::vector<std::string>& classes() const { return classes_; }
  size_t label_count() const { return labels_ > 0 ? labels_ : 1; }
  double Label(size_t entry, size_t index) const {
    return labels_ > 0 ? numbers_[entry * labels_ + index] : entries_[entry].label;
  }
  // "'a.jpg' (line 3 of 'list.txt')", for messages.
  std::string Name(const Entry& entry) const;

 private:
  explicit ImageList(std::string source) : source_(std::move(source)) {}

  void ReadLines(const std::string& text);               // image_list_text.cc
  void AddLine(std::string_view line, uint32_t number);  //
  void ReadCsv();                                        // image_list_csv.cc
  void AddCsvRow(const CsvRow& row);                     //
  void ReadFolder();                                     // image_list_folder.cc
  void AddClass(const std::string& folder, int label);   //
  void Add(std::string_view path, std::span<const std::string_view> labels, uint32_t line);
  int WholeNumber(std::string_view text, const Entry& entry) const;
  double Number(std::string_view text, const Entry& entry) const;
  [[noreturn]] void FailLine(uint32_t line, std::string message) const;

  std::string source_;
  std::string root_;
  size_t labels_ = 0;
  const char* form_ = "";  // form of a line, for messages
  std::vector<Entry> entries_;
  std::vector<double> numbers_;  // labels_ for each entry
  std::vector<std::string> classes_;
};

// Returns true if a path has an image extension (.jpg, .png and so on, in any case).
bool LooksLikeImage(std::string_view path);

}  // namespace crema
