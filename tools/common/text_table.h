// Tables of text with aligned columns.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace crema::tools {

using TextRow = std::vector<std::string>;

// Returns the rows as lines. Columns are two blanks apart; the first `left` are aligned to the
// left, others, as numbers are, to the right. Rows may be shorter than others.
std::string AlignedColumns(const std::vector<TextRow>& rows, size_t left);

}  // namespace crema::tools
