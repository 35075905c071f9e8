#include "data/lists/image_list.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cmath>
#include <filesystem>

#include "core/error.h"
#include "core/strings.h"
#include "format/data_file.h"
#include "format/sniff.h"

namespace crema {
namespace {

std::string Lower(std::string_view text) {
  std::string lower(text);
  for (char& c : lower) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return lower;
}

std::string ExtensionOf(std::string_view path) {
  const size_t dot = path.find_last_of("./");
  return dot == std::string_view::npos || path[dot] == '/' ? "" : Lower(path.substr(dot));
}

}  // namespace

bool LooksLikeImage(std::string_view path) {
  static constexpr std::array<std::string_view, 11> kExtensions = {
      ".jpg", ".jpeg", ".jpe", ".png", ".bmp", ".tif", ".tiff", ".webp", ".ppm", ".pgm", ".pnm"};
  return std::ranges::find(kExtensions, ExtensionOf(path)) != kExtensions.end();
}

ImageList::ImageList(const std::string& source, const std::string& root, size_t labels)
    : source_(source), root_(root), labels_(labels) {
  std::error_code ignored;
  if (std::filesystem::is_directory(source, ignored)) {
    ReadFolder();
    return;
  }
  const bool csv = ExtensionOf(source) == ".csv";
  if (csv) {
    form_ = labels > 1 ? "path,label,label" : "path,label";
    ReadCsv();
  } else {
    form_ = labels > 1 ? "path label label" : "path label";
    const std::string text = ReadDataFile(source);
    const Content content = Sniff(text);
    if (content != Content::kText && content != Content::kEmpty) {
      Fail(ErrorCode::kDataLoss, DescribeWrongContent(content, "a list of images"),
           {.file = source});
    }
    ReadLines(text);
  }
  if (entries_.empty()) {
    Fail(ErrorCode::kDataLoss, StrCat("lists no images: write `", form_, "`, one image a line"),
         {.file = source});
  }
  const std::string& first = entries_.front().path;
  if (root.empty() || root.ends_with('/') || std::filesystem::exists(first, ignored)) return;
  if (!std::filesystem::exists(StrCat(root, "/", first.substr(root.size())), ignored)) return;
  Fail(ErrorCode::kInvalidArgument,
       StrCat("is read with root folder '", root,
              "', which is put before each path as it is: write '", root, "/'"),
       {.file = source});
}

void ImageList::FailLine(uint32_t line, std::string message) const {
  Where where{.file = source_};
  where.line = static_cast<int>(line);
  where.column = 1;
  Fail(ErrorCode::kDataLoss, std::move(message), std::move(where));
}

// Requires: the right number of labels.
void ImageList::Add(std::string_view path, std::span<const std::string_view> labels,
                    uint32_t line) {
  Entry entry{.path = root_, .line = line};
  entry.path += path;
  if (path.find('\0') != std::string_view::npos) {
    FailLine(line, "the path holds a zero byte: the list is damaged, or no text");
  }
  if (path.starts_with('"') && path.ends_with('"')) {
    FailLine(line, StrCat("write ", path, " without quotes, or name the list .csv"));
  }
  if (labels_ == 0) {
    entry.label = WholeNumber(labels[0], entry);
  } else {
    for (const std::string_view label : labels) numbers_.push_back(Number(label, entry));
  }
  entries_.push_back(std::move(entry));
}

int ImageList::WholeNumber(std::string_view text, const Entry& entry) const {
  int number = 0;
  const auto [end, error] = std::from_chars(text.begin(), text.end(), number);
  if (error == std::errc() && end == text.end()) return number;
  double fraction = 0;
  const auto [stop, trouble] = std::from_chars(text.begin(), text.end(), fraction);
  const bool is_number = trouble == std::errc() && stop == text.end() && std::isfinite(fraction);
  FailLine(entry.line,
           StrCat("the label '", text, "' after '", entry.path, "' is not a whole number",
                  is_number ? " of 32 bits (the layer ImageData takes any number with "
                              "image_data_param.label_count: 1)"
                            : StrCat("; write `", form_, "`, one image a line")));
}

double ImageList::Number(std::string_view text, const Entry& entry) const {
  double number = 0;
  const auto [end, error] = std::from_chars(text.begin(), text.end(), number);
  if (error == std::errc() && end == text.end() && std::isfinite(number)) return number;
  FailLine(entry.line, StrCat("the label '", text, "' after '", entry.path,
                              "' is not a number; write `", form_, "`, one image a line"));
}

std::string ImageList::Name(const Entry& entry) const {
  if (entry.line == 0) return StrCat("'", entry.path, "'");
  return StrCat("'", entry.path, "' (line ", entry.line, " of '", source_, "')");
}

}  // namespace crema
