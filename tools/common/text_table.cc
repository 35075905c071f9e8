#include "common/text_table.h"

#include <algorithm>

namespace crema::tools {

std::string AlignedColumns(const std::vector<TextRow>& rows, size_t left) {
  std::vector<size_t> widths;
  for (const TextRow& row : rows) {
    widths.resize(std::max(widths.size(), row.size()));
    for (size_t c = 0; c < row.size(); ++c) widths[c] = std::max(widths[c], row[c].size());
  }
  std::string text;
  for (const TextRow& row : rows) {
    std::string line;
    for (size_t c = 0; c < row.size(); ++c) {
      const std::string blanks(widths[c] - row[c].size(), ' ');
      line += (c == 0 ? "" : "  ") + (c < left ? row[c] + blanks : blanks + row[c]);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
  }
  return text;
}

}  // namespace crema::tools
