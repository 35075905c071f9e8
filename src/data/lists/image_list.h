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

// Thread safety: const.
class ImageList {
 public:
  struct Entry {
    std::string path;   // with the root in front
    int label = 0;      // where a line has one whole number, else 0
    uint32_t line = 0;  // from 1; 0: of no list
  };
  // `root` is put before each path of a list as it is. `labels` are the numbers of an image, which
  // may be fractions; 0: one whole number, as in Caffe.
  // What lies at `source` decides how it is read; throws kNotFound, kIoFailure, or kDataLoss naming
  // file and line.
  //   A folder: it has a folder for each class, whose images, at any depth, are taken by their
  //     extension and in the order of their paths. Labels count the classes from 0 in the order of
  //     their names' bytes. A class without images is an error, and so are a root and `labels` > 1
  //     (kInvalidArgument). Names that begin with a dot are passed over.
  //   A file that ends with .csv: `path,label[,label...]`; fields may be quoted. A first line
  //     without a number that does not name an image is a heading.
  //   Another file: `path label[ label...]`, split at its last spaces, so paths may contain some.
  // Empty lines are passed over; a list without images is an error.
  ImageList(const std::string& source, const std::string& root, size_t labels = 0);

  // The frames of a video as image files: `pattern` has one %d, or %06d and the like, for the
  // number of the frame. They begin with number 0 or 1 and end before the first that is missing;
  // `skip` frames are left out between two. The labels are 0. Throws kInvalidArgument for a pattern
  // without a number, kNotFound without frames.
  static ImageList OfFrames(const std::string& pattern, uint32_t skip);

  const std::vector<Entry>& entries() const { return entries_; }  // never empty
  const std::string& source() const { return source_; }
  // Of classes, where the source is a folder; else empty.
  const std::vector<std::string>& classes() const { return classes_; }
  size_t label_count() const { return labels_ > 0 ? labels_ : 1; }
  double Label(size_t entry, size_t index) const {
    return labels_ > 0 ? numbers_[entry * labels_ + index] : entries_[entry].label;
  }
  // "'a.jpg' (line 3 of 'list.txt')", for messages.
  std::string Name(const Entry& entry) const;

 private:
  explicit ImageList(std::string source) : source_(std::move(source)) {}

  void ReadLines(const std::string& text);                  // image_list_text.cc
  void AddLine(std::string_view line, uint32_t number);     //
  void ReadCsv(const std::string& text);                    // image_list_csv.cc
  void AddCsvLine(std::string_view line, uint32_t number);  //
  void ReadFolder();                                        // image_list_folder.cc
  void AddClass(const std::string& folder, int label);      //
  void Add(std::string_view path, std::span<const std::string_view> labels, uint32_t line);
  int WholeNumber(std::string_view text, const Entry& entry) const;
  double Number(std::string_view text, const Entry& entry) const;
  [[noreturn]] void FailLine(uint32_t line, std::string message) const;

  std::string source_;
  std::string root_;
  size_t labels_ = 0;
  const char* form_ = "";  // how a line is written, for messages
  std::vector<Entry> entries_;
  std::vector<double> numbers_;  // labels_ for each entry
  std::vector<std::string> classes_;
};

// Whether a path ends as image files do (.jpg, .png and so on, in any case).
bool LooksLikeImage(std::string_view path);

}  // namespace crema
