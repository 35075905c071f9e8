// Rows of a list of `path,label[,label...]`.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace crema {

struct CsvRow {
  std::vector<std::string> fields;  // never empty; without spaces around them
  uint32_t line = 0;                // from 1
};

// Returns the rows of a file; ignores empty lines and a byte order mark. Fields may be quoted, with
// "" for a quote. Throws kNotFound, kIoFailure; kDataLoss with the line for malformed quotes, such
// as those of a field that does not end on its line.
std::vector<CsvRow> ReadCsvRows(const std::string& file);

}  // namespace crema
