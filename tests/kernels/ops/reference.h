// Ops in double precision, written for clarity, as oracles for tests. All matrices are dense,
// row-major.
#pragma once

#include <cmath>
#include <cstddef>
#include <utility>
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

// c += sums of other terms.
inline void add(Sums& c, const Sums& others) {
  for (std::size_t i = 0; i < c.value.size(); ++i) {
    c.value[i] += others.value[i];
    c.magnitude[i] += others.magnitude[i];
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

// Causal attention of one head; q, k, v, out, dout (tokens, head_dim).
struct Head {
  std::size_t tokens;
  std::size_t head_dim;
  std::vector<float> q;
  std::vector<float> k;
  std::vector<float> v;
  double scale;
  // Query i sees the keys first_visible[i] … i.
  std::vector<std::size_t> first_visible;

  double dot(const std::vector<float>& a, std::size_t i, const std::vector<float>& b,
             std::size_t j) const {
    double sum = 0;
    for (std::size_t c = 0; c < head_dim; ++c) {
      sum += static_cast<double>(a[i * head_dim + c]) * b[j * head_dim + c];
    }
    return sum;
  }
  double magnitude(const std::vector<float>& a, std::size_t i, const std::vector<float>& b,
                   std::size_t j) const {
    double sum = 0;
    for (std::size_t c = 0; c < head_dim; ++c) {
      sum += std::abs(static_cast<double>(a[i * head_dim + c]) * b[j * head_dim + c]);
    }
    return sum;
  }
};

struct AttentionForward {
  Sums out;
  std::vector<double> log_sum_exp;  // (tokens)
};

inline AttentionForward attention_forward(const Head& head) {
  const auto [tokens, head_dim] = std::pair(head.tokens, head.head_dim);
  AttentionForward result{
      {std::vector<double>(tokens * head_dim), std::vector<double>(tokens * head_dim)},
      std::vector<double>(tokens)};
  for (std::size_t i = 0; i < tokens; ++i) {
    double sum = 0;
    for (std::size_t j = head.first_visible[i]; j <= i; ++j)
      sum += std::exp(head.scale * head.dot(head.q, i, head.k, j));
    result.log_sum_exp[i] = std::log(sum);
    for (std::size_t j = head.first_visible[i]; j <= i; ++j) {
      const double p = std::exp(head.scale * head.dot(head.q, i, head.k, j)) / sum;
      for (std::size_t c = 0; c < head_dim; ++c) {
        result.out.value[i * head_dim + c] += p * head.v[j * head_dim + c];
        result.out.magnitude[i * head_dim + c] += std::abs(p * head.v[j * head_dim + c]);
      }
    }
  }
  return result;
}

struct AttentionBackward {
  Sums dq;
  Sums dk;
  Sums dv;
};

// From the probabilities that log_sum_exp gives and from `out` as it was stored.
inline AttentionBackward attention_backward(const Head& head, const std::vector<float>& dout,
                                            const std::vector<float>& out,
                                            const std::vector<float>& log_sum_exp) {
  const auto [tokens, head_dim] = std::pair(head.tokens, head.head_dim);
  const Sums zero{std::vector<double>(tokens * head_dim), std::vector<double>(tokens * head_dim)};
  AttentionBackward result{zero, zero, zero};
  const auto accumulate = [&](Sums& sums, std::size_t row, double factor, double factor_magnitude,
                              const std::vector<float>& x, std::size_t x_row) {
    for (std::size_t c = 0; c < head.head_dim; ++c) {
      const double term = x[x_row * head.head_dim + c];
      sums.value[row * head.head_dim + c] += factor * term;
      sums.magnitude[row * head.head_dim + c] += factor_magnitude * std::abs(term);
    }
  };
  for (std::size_t i = 0; i < tokens; ++i) {
    const double row_dot = head.dot(dout, i, out, i);
    for (std::size_t j = head.first_visible[i]; j <= i; ++j) {
      const double p = std::exp(head.scale * head.dot(head.q, i, head.k, j) - log_sum_exp[i]);
      const double ds = head.scale * p * (head.dot(dout, i, head.v, j) - row_dot);
      const double ds_magnitude =
          head.scale * p * (head.magnitude(dout, i, head.v, j) + head.magnitude(dout, i, out, i));
      accumulate(result.dv, j, p, p, dout, i);
      accumulate(result.dq, i, ds, ds_magnitude, head.k, j);
      accumulate(result.dk, j, ds, ds_magnitude, head.q, i);
    }
  }
  return result;
}

}  // namespace strata::ops::reference
