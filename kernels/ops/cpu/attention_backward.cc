#include <algorithm>

#include "kernels/ops/cpu/attention.h"
#include "kernels/ops/cpu/attention_tiles.h"
#include "kernels/ops/cpu/operands.h"

namespace strata::ops::cpu {
namespace {

struct BackwardOperands {
  Matrix dqkv;
  float* row_dots;
  Matrix dout;
  Matrix qkv;
  Matrix out;
  const float* log_sum_exp;
};

// The gradients of one head, in one worker's scratch: with P the probabilities, recomputed tile by
// tile,   dV = Pᵀ·dO,  dS = P ∘ (dO·Vᵀ - rowsum(dO ∘ O)),  dQ = scale·dS·K,  dK = scale·dSᵀ·Q
// (Dao et al. 2022, Algorithm 4).
class BackwardHead {
 public:
  BackwardHead(const AttentionCall& call, const BackwardOperands& operands, std::int64_t head,
               int worker, ScratchFrame scratch)
      : call_(call),
        operands_(operands),
        head_(head),
        worker_(worker),
        log_sum_exp_(operands.log_sum_exp + head * call.shape.tokens),
        row_dots_(operands.row_dots + head * call.shape.tokens),
        scratchpad_(scratch.take<std::byte>(kGemmScratchpadBytes)),
        scores_(scratch.take<float>(panel_elements(call.query_tile(), call.key_tile()))),
        dscores_(scratch.take<float>(panel_elements(call.query_tile(), call.key_tile()))),
        dq_(take_gradient(scratch, call.shape.tokens)),
        dk_(take_gradient(scratch, call.key_tile())),
        dv_(take_gradient(scratch, call.key_tile())),
        q_(call, scratch, call.query_tile()),
        dout_(call, scratch, call.query_tile()),
        k_(call, scratch, call.key_tile()),
        v_(call, scratch, call.key_tile()) {}

  void run() const {
    const std::int64_t tokens = call_.shape.tokens;
    call_.kernels.row_dots[operands_.out.dtype](row_dots_, call_.head(operands_.dout, head_),
                                                call_.head(operands_.out, head_));
    clear(dq_);
    for (std::int64_t first_key = 0; first_key < tokens; first_key += kKeyTile) {
      run_keys(first_key, std::min(kKeyTile, tokens - first_key));
    }
    finish(Section::q, 0, dq_, call_.scale);
  }

 private:
  Matrix take_gradient(ScratchFrame& scratch, std::int64_t rows) const {
    const std::int64_t cols = call_.shape.head_dim;
    return Matrix::dense(scratch.take<float>(rows * cols), Dtype::f32, rows, cols);
  }

  void run_keys(std::int64_t first_key, std::int64_t keys) const {
    const Matrix k = k_.load(call_.head(operands_.qkv, head_, Section::k), first_key, keys);
    const Matrix v = v_.load(call_.head(operands_.qkv, head_, Section::v), first_key, keys);
    clear(dk_);
    clear(dv_);
    for (std::int64_t first_query = first_key; first_query < call_.shape.tokens;
         first_query += kQueryTile) {
      run_tile(first_query, first_key, k, v);
    }
    finish(Section::k, first_key, top(dk_, keys), call_.scale);
    finish(Section::v, first_key, top(dv_, keys), 1.0f);
  }

  void run_tile(std::int64_t first_query, std::int64_t first_key, const Matrix& all_k,
                const Matrix& all_v) const {
    const std::int64_t queries = std::min(kQueryTile, call_.shape.tokens - first_query);
    const std::int64_t keys = std::min(all_k.rows, first_query + queries - first_key);
    const Matrix k = top(all_k, keys);
    const Matrix v = top(all_v, keys);
    const Matrix q = q_.load(call_.head(operands_.qkv, head_, Section::q), first_query, queries);
    const Matrix dout = dout_.load(call_.head(operands_.dout, head_), first_query, queries);
    const Matrix scores = panel_matrix(scores_, queries, keys);
    const Matrix dscores = panel_matrix(dscores_, queries, keys);

    multiply(scores, {q}, {k, Layout::transposed}, Into::overwrite);
    multiply(dscores, {dout}, {v, Layout::transposed}, Into::overwrite);
    call_.kernels.softmax_backward(call_.score_tile(scores, first_query, first_key), dscores_,
                                   log_sum_exp_ + first_query, row_dots_ + first_query);
    const Matrix p = call_.replaced(scores);
    const Matrix ds = call_.replaced(dscores);
    multiply(top(dv_, keys), {p, Layout::transposed}, {dout}, Into::add);
    multiply(top(dk_, keys), {ds, Layout::transposed}, {q}, Into::add);
    multiply(block(dq_, first_query, queries, 0, dq_.cols), {ds}, {k}, Into::add);
  }

  void finish(Section section, std::int64_t first, const Matrix& gradient, float scale) const {
    const Matrix head = call_.head(operands_.dqkv, head_, section);
    call_.kernels.scale[head.dtype](block(head, first, gradient.rows, 0, head.cols),
                                    static_cast<const float*>(gradient.data), scale, nullptr);
  }

  static Matrix top(const Matrix& matrix, std::int64_t rows) {
    return block(matrix, 0, rows, 0, matrix.cols);
  }
  static void clear(const Matrix& dense) {
    std::fill_n(static_cast<float*>(dense.data), dense.rows * dense.cols, 0.0f);
  }
  void multiply(const Matrix& c, const Factor& a, const Factor& b, Into into) const {
    run_gemm(call_.state.gemms, worker_, scratchpad_, c, a, b, into);
  }

  const AttentionCall& call_;
  const BackwardOperands& operands_;
  std::int64_t head_;
  int worker_;
  const float* log_sum_exp_;  // (T)
  float* row_dots_;           // (T)
  std::byte* scratchpad_;
  float* scores_;   // (queries, keys), then P
  float* dscores_;  // (queries, keys): dO·Vᵀ, then dS
  Matrix dq_;       // (T, head_dim)
  Matrix dk_;       // (keys, head_dim)
  Matrix dv_;       // (keys, head_dim)
  OperandRows q_;
  OperandRows dout_;
  OperandRows k_;
  OperandRows v_;
};

}  // namespace

std::int64_t attention_backward_scratch_bytes(std::int64_t tokens, std::int64_t head_dim) {
  const std::int64_t queries = std::min(kQueryTile, tokens);
  const std::int64_t keys = std::min(kKeyTile, tokens);
  return scratch_bytes<std::byte>(kGemmScratchpadBytes) +
         2 * scratch_bytes<float>(panel_elements(queries, keys)) +
         scratch_bytes<float>(tokens * head_dim) + 2 * scratch_bytes<float>(keys * head_dim) +
         2 * OperandRows::scratch_bytes_of(queries, head_dim) +
         2 * OperandRows::scratch_bytes_of(keys, head_dim);
}

void attention_backward(CpuDevice& device, const AttentionShape& shape, const Matrix& dqkv,
                        float* row_dots, const Matrix& dout, const Matrix& qkv, const Matrix& out,
                        const float* log_sum_exp) {
  const std::int64_t row_bytes = shape.heads * shape.rows() * kF32Bytes;
  annotate_read(dout);
  annotate_read(qkv);
  annotate_read(out);
  annotate_read(log_sum_exp, row_bytes);
  annotate_write(row_dots, row_bytes);
  annotate_write(dqkv);

  const BackwardOperands operands = {dqkv, row_dots, dout, qkv, out, log_sum_exp};
  const AttentionCall call(device, shape, qkv.dtype);
  device.workers().parallel_for(call.heads(), [&](std::int64_t head, int worker) {
    BackwardHead(call, operands, head, worker, call.state.attention_scratch.frame(worker)).run();
  });
}

}  // namespace strata::ops::cpu
