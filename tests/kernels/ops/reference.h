// Ops in double precision, written for clarity, as oracles for tests. All matrices are dense,
// row-major.
#pragma once

#include <cmath>
#include <cstddef>
#include <vector>

namespace strata::ops::reference {

// A result, and beside each entry the sum of the magnitudes of what was added up, which bounds the
// rounding errors of any order of summation.
struct Sums {
  std::vector<double> value;
  std::vector<double> magnitude;
};

// (m, n) = a (m, k) · b (k, n).
inline Sums matmul(const std::vector<float>& a, const std::vector<float>& b, std::size_t m,
                   std::size_t n, std::size_t k) {
  Sums c{std::vector<double>(m * n), std::vector<double>(m * n)};
  for (std::size_t i = 0; i < m; ++i) {
    for (std::size_t l = 0; l < k; ++l) {
      const double factor = a[i * k + l];
      for (std::size_t j = 0; j < n; ++j) {
        c.value[i * n + j] += factor * b[l * n + j];
        c.magnitude[i * n + j] += std::abs(factor * b[l * n + j]);
      }
    }
  }
  return c;
}

// c (m, n) += rows that are all `row` (n).
inline void add_to_rows(Sums& c, const std::vector<float>& row) {
  for (std::size_t i = 0; i < c.value.size(); ++i) {
    c.value[i] += row[i % row.size()];
    c.magnitude[i] += std::abs(row[i % row.size()]);
  }
}

// c += values.
inline void add(Sums& c, const std::vector<float>& values) {
  for (std::size_t i = 0; i < c.value.size(); ++i) {
    c.value[i] += values[i];
    c.magnitude[i] += std::abs(values[i]);
  }
}

// (1, cols) = the column sums of x (rows, cols).
inline Sums column_sums(const std::vector<float>& x, std::size_t rows, std::size_t cols) {
  return matmul(std::vector<float>(rows, 1.0f), x, 1, cols, rows);
}

// (cols, rows) of x (rows, cols).
inline std::vector<float> transpose(const std::vector<float>& x, std::size_t rows,
                                    std::size_t cols) {
  std::vector<float> y(x.size());
  for (std::size_t i = 0; i < rows; ++i) {
    for (std::size_t j = 0; j < cols; ++j) y[j * rows + i] = x[i * cols + j];
  }
  return y;
}

}  // namespace strata::ops::reference
