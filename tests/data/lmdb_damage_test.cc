// Reading an LMDB with damaged pages succeeds or throws an Error; it never causes a signal.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "core/error.h"
#include "core/rng.h"
#include "data/record_sets.h"
#include "data/records/lmdb.h"
#include "support/damaged_files.h"
#include "support/temp_dir.h"

namespace crema {
namespace {

namespace fs = std::filesystem;
using test::TempDir;
using testing::kLmdbPage;

constexpr uint64_t kDamagedRecords = 400;
constexpr uint64_t kDamagesOfAKind = 350;

// Several leaf pages below a branch, lists of free pages, and every tenth value on overflow pages.
std::string WriteSet(const TempDir& temp, const std::string& name, char fill) {
  const std::string path = temp.File(name);
  for (uint64_t half = 0; half < 2; ++half) {
    std::string last;
    const auto writer =
        half == 0 ? std::make_unique<LmdbWriter>(path) : std::make_unique<LmdbWriter>(path, &last);
    for (uint64_t n = half * kDamagedRecords / 2; n < (half + 1) * kDamagedRecords / 2; ++n) {
      writer->Put(testing::NumberedKey(static_cast<int>(n)),
                  std::string(n % 10 == 0 ? 5000 + n : n, fill));
    }
    writer->Close();
  }
  return path;
}

void WriteBytes(const std::string& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

enum class ReadOutcome { kSame, kOther, kError };

// Reads all records twice, in order and by number, and touches each byte.
ReadOutcome ReadAll(const std::string& path, char fill) {
  bool error = false;
  bool same = true;
  try {
    LmdbReader reader(path);
    for (uint64_t n = 0; n < 2 * kDamagedRecords; ++n) {
      try {
        const LmdbRecord record =
            n < kDamagedRecords ? reader.Next() : reader.At(n % reader.count());
        const std::string key = testing::NumberedKey(static_cast<int>(n % kDamagedRecords));
        const auto whole = static_cast<size_t>(std::ranges::count(record.value, fill));
        same = same && record.key == key && whole == record.value.size();
      } catch (const Error&) {
        error = true;
      }
    }
  } catch (const Error&) {
    error = true;
  }
  return error ? ReadOutcome::kError : same ? ReadOutcome::kSame : ReadOutcome::kOther;
}

using Damage = std::function<void(std::string*, const RandomStream&)>;

class DamagedLmdb : public ::testing::Test {
 protected:
  DamagedLmdb()
      : path_(WriteSet(temp_, "set", 'v')),
        file_(path_ + "/data.mdb"),
        whole_(temp_.Read("set/data.mdb")),
        other_(temp_.Read(WriteSet(temp_, "other", 'w').substr(temp_.path().size() + 1) +
                          "/data.mdb")) {}

  // Returns the number of files that ended with an error.
  uint64_t Run(const Damage& damage, uint64_t seed) {
    uint64_t errors = 0;
    for (uint64_t n = 0; n < kDamagesOfAKind; ++n) {
      std::string bytes = whole_;
      damage(&bytes, RandomStream(seed, n));
      WriteBytes(file_, bytes);
      errors += ReadAll(path_, 'v') == ReadOutcome::kError ? 1 : 0;
    }
    return errors;
  }

  const TempDir temp_;
  const std::string path_;
  const std::string file_;
  const std::string whole_;
  const std::string other_;
};

size_t At(const RandomStream& random, uint64_t index, size_t bytes) {
  return random.Below(index, static_cast<uint32_t>(bytes));
}
size_t PageAt(const RandomStream& random, uint64_t index, const std::string& bytes) {
  return kLmdbPage * At(random, index, bytes.size() / kLmdbPage);
}
char Byte(const RandomStream& random, uint64_t index) {
  return static_cast<char>(random.Below(index, 256));
}

TEST_F(DamagedLmdb, WholeSetIsReadAsItWasWritten) {
  EXPECT_EQ(ReadAll(path_, 'v'), ReadOutcome::kSame);
  EXPECT_EQ(ReadAll(temp_.File("other"), 'w'), ReadOutcome::kSame);
}

TEST_F(DamagedLmdb, FlippedBitsAreAnErrorOrOtherValues) {
  EXPECT_GT(Run([](std::string* bytes,
                   const RandomStream& random) { test::DamageBytes(bytes, At(random, 0, 100000)); },
                1),
            kDamagesOfAKind / 10);
}

TEST_F(DamagedLmdb, HeadersOfPagesThatChangedAreAnError) {
  const auto errors = Run(
      [](std::string* bytes, const RandomStream& random) {
        (*bytes)[PageAt(random, 0, *bytes) + At(random, 1, 64)] = Byte(random, 2);
      },
      2);
  EXPECT_GT(errors, kDamagesOfAKind / 10);
}

TEST_F(DamagedLmdb, MetaPagesThatChangedAreAnError) {
  const auto errors = Run(
      [](std::string* bytes, const RandomStream& random) {
        constexpr std::array kBytes = {'\0', '\1', '\xFF'};
        const uint32_t kind = random.Below(0, 4);
        (*bytes)[kLmdbPage * random.Below(1, 2) + At(random, 2, 152)] =
            kind < kBytes.size() ? kBytes[kind] : Byte(random, 3);
      },
      3);
  EXPECT_GT(errors, kDamagesOfAKind / 10);
}

TEST_F(DamagedLmdb, PagesOfNoiseAreAnError) {
  const auto errors = Run(
      [](std::string* bytes, const RandomStream& random) {
        const size_t page = PageAt(random, 0, *bytes);
        for (size_t n = 0; n < kLmdbPage; ++n) (*bytes)[page + n] = Byte(random, 1 + n);
      },
      4);
  EXPECT_GT(errors, kDamagesOfAKind / 4);
}

TEST_F(DamagedLmdb, NoiseAfterThePageHeaderIsAnErrorOrOtherValues) {
  const auto errors = Run(
      [](std::string* bytes, const RandomStream& random) {
        const size_t page = PageAt(random, 0, *bytes);
        for (size_t n = 16; n < kLmdbPage; ++n) (*bytes)[page + n] = Byte(random, 1 + n);
      },
      5);
  EXPECT_GT(errors, kDamagesOfAKind / 10);
}

TEST_F(DamagedLmdb, PagesOfZerosAreAnError) {
  const auto errors = Run(
      [](std::string* bytes, const RandomStream& random) {
        bytes->replace(PageAt(random, 0, *bytes), kLmdbPage, kLmdbPage, '\0');
      },
      6);
  EXPECT_GT(errors, kDamagesOfAKind / 4);
}

TEST_F(DamagedLmdb, PagesAtEachOthersPlacesAreAnError) {
  const auto errors = Run(
      [](std::string* bytes, const RandomStream& random) {
        const size_t a = PageAt(random, 0, *bytes);
        const size_t b = PageAt(random, 1, *bytes);
        std::swap_ranges(&(*bytes)[a], &(*bytes)[a] + kLmdbPage, &(*bytes)[b]);
      },
      7);
  EXPECT_GT(errors, kDamagesOfAKind / 2);
}

TEST_F(DamagedLmdb, PagesOfAnotherPlaceWithTheRightNumberAreAnErrorOrOtherValues) {
  const auto errors = Run(
      [](std::string* bytes, const RandomStream& random) {
        const size_t to = PageAt(random, 0, *bytes);
        const std::string page = bytes->substr(PageAt(random, 1, *bytes), kLmdbPage);
        bytes->replace(to + 8, kLmdbPage - 8, page, 8, kLmdbPage - 8);
      },
      8);
  EXPECT_GT(errors, kDamagesOfAKind / 4);
}

TEST_F(DamagedLmdb, PagesOfAnotherFileAreAnErrorOrOtherValues) {
  uint64_t others = 0;
  for (uint64_t n = 0; n < kDamagesOfAKind; ++n) {
    const RandomStream random(9, n);
    std::string bytes = whole_;
    const size_t page = PageAt(random, 0, bytes);
    bytes.replace(page, kLmdbPage, other_, page, kLmdbPage);
    WriteBytes(file_, bytes);
    others += ReadAll(path_, 'v') == ReadOutcome::kSame ? 0 : 1;
  }
  EXPECT_GT(others, kDamagesOfAKind / 4);
}

TEST_F(DamagedLmdb, SectorsOfOtherPlacesAreAnErrorOrOtherValues) {
  constexpr size_t kSector = 512;
  const auto errors = Run(
      [](std::string* bytes, const RandomStream& random) {
        const size_t sectors = bytes->size() / kSector;
        const size_t from = kSector * At(random, 0, sectors);
        bytes->replace(kSector * At(random, 1, sectors), kSector, bytes->substr(from, kSector));
      },
      10);
  EXPECT_GT(errors, kDamagesOfAKind / 10);
}

TEST_F(DamagedLmdb, FilesThatAreCutAreAnError) {
  const auto errors =
      Run([](std::string* bytes,
             const RandomStream& random) { bytes->resize(At(random, 0, bytes->size())); },
          11);
  EXPECT_EQ(errors, kDamagesOfAKind);
}

TEST_F(DamagedLmdb, ZerosUpToTheEndAreAnError) {
  const auto errors = Run(
      [](std::string* bytes, const RandomStream& random) {
        const size_t begin = PageAt(random, 0, *bytes);
        bytes->replace(begin, std::string::npos, bytes->size() - begin, '\0');
      },
      12);
  EXPECT_GT(errors, kDamagesOfAKind * 3 / 4);
}

// Overwrites the file during reading, and restores it.
TEST_F(DamagedLmdb, AFileThatIsOverwrittenWhileItIsReadIsAnErrorOrOtherValues) {
  uint64_t errors = 0;
  for (uint64_t n = 0; n < kDamagesOfAKind; ++n) {
    const RandomStream random(13, n);
    WriteBytes(file_, whole_);
    LmdbReader reader(path_);
    reader.Skip(random.Below(0, kDamagedRecords));
    std::string bytes = whole_;
    for (uint64_t page = 0; page < 20; ++page) {
      bytes[PageAt(random, 1 + 3 * page, bytes) + At(random, 2 + 3 * page, 64)] =
          Byte(random, 3 + 3 * page);
    }
    std::fstream(file_, std::ios::in | std::ios::out | std::ios::binary) << bytes;
    bool error = false;
    for (uint64_t record = 0; record < 2 * kDamagedRecords; ++record) {
      try {
        const LmdbRecord read =
            record < kDamagedRecords ? reader.Next() : reader.At(record - kDamagedRecords);
        EXPECT_LE(static_cast<size_t>(std::ranges::count(read.value, 'v')), read.value.size());
      } catch (const Error&) {
        error = true;
      }
    }
    errors += error ? 1 : 0;
  }
  EXPECT_GT(errors, kDamagesOfAKind / 2);
}

// liblmdb trusts the pages that it maps and writes, so each file gets its own process.
TEST_F(DamagedLmdb, AddingToADamagedSetIsAnErrorAndDoesNotKill) {
  int killed = 0;
  int refused = 0;
  constexpr int kSets = 300;
  for (int n = 0; n < kSets; ++n) {
    const RandomStream random(14, static_cast<uint64_t>(n));
    std::string bytes = whole_;
    const size_t page = PageAt(random, 0, bytes);
    const size_t begin = n % 3 == 0 ? 16 : 0;
    for (size_t at = begin; at < (n % 3 == 1 ? 64 : kLmdbPage); ++at) {
      bytes[page + at] = Byte(random, 1 + at);
    }
    WriteBytes(file_, bytes);
    const pid_t child = fork();
    if (child == 0) {
      alarm(20);  // seconds
      int code = 0;
      try {
        std::string last;
        LmdbWriter writer(path_, &last);
        for (int more = 0; more < 200; ++more) {
          writer.Put(last + testing::NumberedKey(more), std::string(1000, 'n'));
        }
        writer.Close();
      } catch (const Error&) {
        code = 1;
      }
      _exit(code);
    }
    int status = 0;
    waitpid(child, &status, 0);
    killed += WIFSIGNALED(status) ? 1 : 0;
    refused += WIFEXITED(status) && WEXITSTATUS(status) == 1 ? 1 : 0;
  }
  EXPECT_EQ(killed, 0);
  EXPECT_GT(refused, 0);
}

}  // namespace
}  // namespace crema
