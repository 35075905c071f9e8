#include "math/gemm.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "core/rng.h"
#include "core/strings.h"
#include "math/cpu/simd_gemm.h"
#include "support/small_stack.h"

namespace crema {
namespace {

// Random sizes and contents, all a function of the number of the case.
class GemmDraw {
 public:
  explicit GemmDraw(uint64_t number) : stream_(99, number) {}
  int64_t Size(int64_t low, int64_t high) {
    return low + stream_.Below(next_++, static_cast<uint32_t>(high - low + 1));
  }
  bool Coin() { return Size(0, 1) == 1; }
  template <typename T>
  std::vector<T> Values(int64_t count) {
    std::vector<T> values(static_cast<size_t>(count));
    for (T& value : values) value = static_cast<T>(stream_.Uniform(next_++) - 0.5);
    return values;
  }

 private:
  RandomStream stream_;
  uint64_t next_ = 0;
};

struct Product {
  int threads;
  bool ta, tb;
  int64_t m, n, k, lda, ldb, ldc;
  double alpha, beta;
};

std::string ToString(const Product& p) {
  return StrCat("m ", p.m, " n ", p.n, " k ", p.k, " ta ", p.ta, " tb ", p.tb, " alpha ", p.alpha,
                " beta ", p.beta, " threads ", p.threads, " ld ", p.lda, " ", p.ldb, " ", p.ldc);
}

// Large cases reach over the blocks that the fast implementation works in.
Product DrawProduct(GemmDraw& draw, bool large) {
  Product p{};
  p.threads = static_cast<int>(draw.Size(1, 3));
  p.ta = draw.Coin();
  p.tb = draw.Coin();
  p.m = draw.Size(1, large ? 420 : 40);
  p.n = draw.Size(1, large ? 450 : 70);
  p.k = draw.Size(0, large ? 600 : 50);
  p.lda = (p.ta ? p.m : p.k) + draw.Size(0, 3);
  p.ldb = (p.tb ? p.k : p.n) + draw.Size(0, 3);
  p.ldc = p.n + draw.Size(0, 3);
  p.alpha = draw.Coin() ? 1 : -0.75;
  p.beta = draw.Coin() ? static_cast<double>(draw.Size(0, 1)) : 0.5;
  return p;
}

// By Gemm, or by the kernels with registers of at most `most_bytes`.
template <typename T>
void CheckProduct(GemmDraw& draw, const Product& p, double tolerance, int most_bytes = 0) {
  const std::vector<T> a = draw.Values<T>((p.ta ? p.k : p.m) * p.lda + 1);
  const std::vector<T> b = draw.Values<T>((p.tb ? p.n : p.k) * p.ldb + 1);
  const std::vector<T> before = draw.Values<T>(p.m * p.ldc);
  std::vector<T> c = before;
  const auto alpha = static_cast<T>(p.alpha), beta = static_cast<T>(p.beta);
  if (most_bytes == 0) {
    Gemm<T>(p.threads, p.ta, p.tb, p.m, p.n, p.k, alpha, a.data(), p.lda, b.data(), p.ldb, beta,
            c.data(), p.ldc);
  } else {
    RunSimdGemm<T>(FindSimdGemm<T>(most_bytes), p.ta, p.tb, p.m, p.n, p.k, alpha, a.data(), p.lda,
                   b.data(), p.ldb, beta, c.data(), p.ldc);
  }
  const auto at = [](const std::vector<T>& values, int64_t i) {
    return static_cast<double>(values[static_cast<size_t>(i)]);
  };
  for (int64_t r = 0; r < p.m; ++r) {
    for (int64_t j = 0; j < p.ldc; ++j) {
      const double old = at(before, r * p.ldc + j);
      if (j >= p.n) {
        ASSERT_EQ(at(c, r * p.ldc + j), old) << "written between rows; " << ToString(p);
        continue;
      }
      double sum = 0;
      for (int64_t i = 0; i < p.k; ++i) {
        sum += at(a, p.ta ? i * p.lda + r : r * p.lda + i) *
               at(b, p.tb ? j * p.ldb + i : i * p.ldb + j);
      }
      const double expected = p.alpha * sum + (p.beta == 0 ? 0 : p.beta * old);
      ASSERT_NEAR(at(c, r * p.ldc + j), expected, tolerance)
          << "row " << r << " column " << j << "; " << ToString(p);
    }
  }
}

TEST(Gemm, AgreesWithANaiveLoopInSinglePrecision) {
  for (uint64_t number = 0; number < 400; ++number) {
    GemmDraw draw(number);
    const Product product = DrawProduct(draw, number % 20 == 0);
    ASSERT_NO_FATAL_FAILURE(CheckProduct<float>(draw, product, 1e-4));
  }
}

TEST(Gemm, AgreesWithANaiveLoopInDoublePrecision) {
  for (uint64_t number = 1000; number < 1100; ++number) {
    GemmDraw draw(number);
    const Product product = DrawProduct(draw, number % 20 == 0);
    ASSERT_NO_FATAL_FAILURE(CheckProduct<double>(draw, product, 1e-12));
  }
}

// Processors have registers of these sizes; wider ones than this has are left out.
TEST(Gemm, AgreesWithANaiveLoopOnProcessorsOfEachKind) {
  for (const int bytes : {16, 32, 64}) {
    if (FindSimdGemm<float>(bytes).vector * static_cast<int>(sizeof(float)) < bytes) break;
    for (uint64_t number = 3000; number < 3100; ++number) {
      GemmDraw draw(number);
      const Product product = DrawProduct(draw, number % 20 == 0);
      ASSERT_NO_FATAL_FAILURE(CheckProduct<float>(draw, product, 1e-4, bytes)) << bytes;
      ASSERT_NO_FATAL_FAILURE(CheckProduct<double>(draw, product, 1e-12, bytes)) << bytes;
    }
  }
}

// As threads of other programs have that call the library.
TEST(Gemm, RunsOnASmallStack) {
  test::OnSmallStack(size_t{256} << 10, [] {
    GemmDraw draw(5);
    Product product = DrawProduct(draw, true);
    product.threads = 1;
    ASSERT_NO_FATAL_FAILURE(CheckProduct<float>(draw, product, 1e-4));
    ASSERT_NO_FATAL_FAILURE(CheckProduct<double>(draw, product, 1e-12));
  });
}

// Few long rows times a transposed matrix have code of their own.
TEST(Gemm, AgreesWithANaiveLoopOnFewLongRows) {
  for (uint64_t number = 2000; number < 2100; ++number) {
    GemmDraw draw(number);
    Product product = DrawProduct(draw, false);
    product.m = draw.Size(1, 18);
    product.k = draw.Size(250, 600);
    product.ta = false;
    product.tb = true;
    product.lda = product.k + draw.Size(0, 3);
    product.ldb = product.k + draw.Size(0, 3);
    ASSERT_NO_FATAL_FAILURE(CheckProduct<float>(draw, product, 1e-4));
  }
}

TEST(Gemm, WithoutDepthOnlyScales) {
  std::vector<float> c = {1, 2, 3, 4};
  Gemm<float>(2, false, false, 2, 2, 0, 1, nullptr, 1, nullptr, 2, 0.5F, c.data(), 2);
  EXPECT_EQ(c, (std::vector<float>{0.5F, 1, 1.5F, 2}));
  Gemm<float>(2, false, false, 2, 2, 0, 1, nullptr, 1, nullptr, 2, 0, c.data(), 2);
  EXPECT_EQ(c, (std::vector<float>{0, 0, 0, 0}));
}

TEST(Gemm, BetaZeroDoesNotReadTheResult) {
  std::vector<float> a = {1, 2}, b = {3, 4}, c = {std::nanf("")};
  Gemm<float>(1, false, true, 1, 1, 2, 1, a.data(), 2, b.data(), 2, 0, c.data(), 1);
  EXPECT_EQ(c[0], 11);
}

TEST(Gemm, GivesTheSameBitsOnEveryRun) {
  GemmDraw draw(7);
  const std::vector<float> a = draw.Values<float>(300 * 200), b = draw.Values<float>(200 * 400);
  std::vector<float> first(300 * 400), again(300 * 400);
  for (std::vector<float>* c : {&first, &again}) {
    Gemm<float>(2, false, false, 300, 400, 200, 1, a.data(), 200, b.data(), 400, 0, c->data(), 400);
  }
  EXPECT_EQ(first, again);
}

template <typename T>
void CheckGemv(uint64_t number, double tolerance) {
  GemmDraw draw(number);
  const bool transpose = draw.Coin();
  const int64_t m = draw.Size(1, 90), n = draw.Size(1, 90);
  const double beta = static_cast<double>(draw.Size(0, 2)) / 2;
  const std::vector<T> a = draw.Values<T>(m * n), x = draw.Values<T>(transpose ? m : n);
  const std::vector<T> before = draw.Values<T>(transpose ? n : m);
  std::vector<T> y = before;
  Gemv<T>(transpose, m, n, T(0.5), a.data(), x.data(), static_cast<T>(beta), y.data());
  for (size_t i = 0; i < y.size(); ++i) {
    double sum = 0;
    for (size_t j = 0; j < x.size(); ++j) {
      const size_t columns = static_cast<size_t>(n);
      sum += static_cast<double>(a[transpose ? j * columns + i : i * columns + j]) * x[j];
    }
    ASSERT_NEAR(y[i], 0.5 * sum + beta * before[i], tolerance)
        << "m " << m << " n " << n << " transpose " << transpose << " beta " << beta;
  }
}

TEST(Gemv, AgreesWithANaiveLoop) {
  for (uint64_t number = 2000; number < 2200; ++number) {
    ASSERT_NO_FATAL_FAILURE(CheckGemv<float>(number, 1e-5));
    ASSERT_NO_FATAL_FAILURE(CheckGemv<double>(number, 1e-13));
  }
}

}  // namespace
}  // namespace crema
