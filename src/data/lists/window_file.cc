#include "data/lists/window_file.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <string_view>
#include <utility>

#include "core/error.h"
#include "core/strings.h"
#include "format/data_file.h"

namespace crema {
namespace {

constexpr std::string_view kSpace = " \t\r\n\v\f";

// Reads the words of a text and keeps track of their line.
class WordReader {
 public:
  WordReader(std::string_view text, const std::string& source) : text_(text), source_(source) {}

  bool AtEnd() {
    while (at_ < text_.size() && kSpace.find(text_[at_]) != std::string_view::npos) {
      if (text_[at_] == '\n') ++line_;
      ++at_;
    }
    return at_ == text_.size();
  }

  std::string_view Word(const char* what) {
    if (AtEnd()) Fail(StrCat("the file ends where ", what, " should stand"));
    const size_t begin = at_;
    at_ = std::min(text_.find_first_of(kSpace, at_), text_.size());
    return text_.substr(begin, at_ - begin);
  }

  // Returns the rest of the line of the next word: paths may contain spaces.
  std::string_view Line(const char* what) {
    if (AtEnd()) Fail(StrCat("the file ends where ", what, " should stand"));
    const size_t begin = at_;
    at_ = std::min(text_.find('\n', at_), text_.size());
    return Trim(text_.substr(begin, at_ - begin));
  }

  template <typename T>
  T Number(const char* what) {
    const std::string_view word = Word(what);
    T value{};
    const auto [end, error] = std::from_chars(word.begin(), word.end(), value);
    if (error != std::errc() || end != word.end()) {
      Fail(StrCat("'", word, "' stands where ", what, " should"));
    }
    return value;
  }

  [[noreturn]] void Fail(std::string message) const {
    Where where{.file = source_};
    where.line = line_;
    where.column = 1;
    crema::Fail(ErrorCode::kDataLoss, std::move(message), std::move(where));
  }

  int line() const { return line_; }

 private:
  const std::string_view text_;
  const std::string& source_;
  size_t at_ = 0;
  int line_ = 1;
};

WindowFile::Image ReadImage(WordReader& reader, const std::string& root) {
  const std::string_view mark = reader.Word("'# index'");
  if (!mark.starts_with('#')) {
    reader.Fail(StrCat("'", mark,
                       "' stands where '# index' should: the number of windows before "
                       "it may be wrong"));
  }
  if (mark == "#") reader.Word("the index of an image");
  WindowFile::Image image;
  image.path = root;
  image.path += reader.Line("the path of an image");
  image.line = reader.line();
  if (image.path.find('\0') != std::string::npos) {
    reader.Fail("the path of an image holds a zero byte: the file is damaged, or no text");
  }
  image.channels = reader.Number<int>("the number of channels");
  image.height = reader.Number<int>("the height of the image");
  image.width = reader.Number<int>("the width of the image");
  if (image.channels != 1 && image.channels != 3) {
    reader.Fail(StrCat("'", image.path, "' has ", image.channels,
                       " channels, but 1 or 3 can be "
                       "read"));
  }
  if (image.height <= 0 || image.width <= 0) {
    reader.Fail(StrCat("'", image.path, "' is ", image.height, " high and ", image.width,
                       " wide; sizes are above 0"));
  }
  return image;
}

void ReadWindow(WordReader& reader, const WindowThresholds& thresholds, WindowFile* file) {
  LabelledWindow window;
  window.image = static_cast<uint32_t>(file->images.size() - 1);
  window.label = reader.Number<int>("the label of a window");
  const auto overlap = reader.Number<float>("the overlap of a window");
  WindowBox& box = window.box;
  for (int* corner : {&box.x1, &box.y1, &box.x2, &box.y2}) {
    *corner = reader.Number<int>("a corner of a window");
  }
  const WindowFile::Image& image = file->images.back();
  if (box.x1 < 0 || box.y1 < 0 || box.x2 < box.x1 || box.y2 < box.y1 || box.x2 >= image.width ||
      box.y2 >= image.height) {
    reader.Fail(StrCat("the window ", box.x1, " ", box.y1, " ", box.x2, " ", box.y2,
                       " does not lie in '", image.path, "', which is ", image.width, " wide and ",
                       image.height, " high"));
  }
  if (std::isnan(overlap)) reader.Fail("the overlap of a window is not a number");
  if (overlap >= thresholds.foreground) {
    if (window.label <= 0) {
      reader.Fail(StrCat("a window with overlap ", overlap, " is foreground, but its label is ",
                         window.label, "; labels of foreground are above 0"));
    }
    file->foreground.push_back(window);
  } else if (overlap < thresholds.background) {
    window.label = 0;
    file->background.push_back(window);
  }
}

}  // namespace

WindowFile ReadWindowFile(const std::string& source, const std::string& root,
                          const WindowThresholds& thresholds) {
  const std::string text = ReadDataFile(source);
  WindowFile file;
  file.source = source;
  WordReader reader(text, source);
  while (!reader.AtEnd()) {
    file.images.push_back(ReadImage(reader, root));
    if (file.images.back().channels != file.images.front().channels) {
      reader.Fail(StrCat("'", file.images.back().path, "' has ", file.images.back().channels,
                         " channels, but the first image has ", file.images.front().channels));
    }
    const int count = reader.Number<int>("the number of windows");
    for (int i = 0; i < count; ++i) ReadWindow(reader, thresholds, &file);
  }
  if (file.images.empty()) {
    Fail(ErrorCode::kDataLoss, "lists no images", {.file = source});
  }
  return file;
}

}  // namespace crema
