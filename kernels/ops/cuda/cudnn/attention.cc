// The graphs of scaled dot-product attention that cudnn-frontend has: causal, grouped queries, a
// sliding window; the statistics that it keeps are our log_sum_exp. Compiled where its header is.
#include <dlfcn.h>

#define NV_CUDNN_FRONTEND_USE_DYNAMIC_LOADING  // of libcudnn, from cudnn_dlhandle
#include <cudnn_frontend.h>

#include <array>
#include <cmath>
#include <compare>
#include <cstdlib>
#include <map>
#include <mutex>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "kernels/base/error.h"
#include "kernels/device/cuda/cuda_error.h"
#include "kernels/ops/cuda/attention_choice.h"

namespace cudnn_frontend {
void* cudnn_dlhandle = nullptr;
}

namespace strata::ops::cuda {
namespace {

namespace fe = cudnn_frontend;
using Tensor = std::shared_ptr<fe::graph::Tensor_attributes>;

constexpr const char* kFile = "libcudnn.so.9";
// Before it cudnn-frontend pads sequences by copies from the host at each call.
constexpr std::size_t kVersionMin = 91600;

std::size_t load_library() {
  if (std::getenv("STRATA_OWN_ATTENTION") != nullptr) return 0;
  void* const library = ::dlopen(kFile, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (library == nullptr) return 0;
  fe::cudnn_dlhandle = library;
  const std::size_t version = fe::detail::get_backend_version();
  return version < kVersionMin ? 0 : version;
}

void check_cudnn(cudnnStatus_t status, const char* call) {
  if (status == CUDNN_STATUS_SUCCESS) return;
  throw_error<CudaError>("{}: {}", call, fe::detail::get_error_string(status));
}

int attribute(cudaDeviceAttr of, int device) {
  int value = 0;
  strata::cuda::check(cudaDeviceGetAttribute(&value, of, device), "cudaDeviceGetAttribute");
  return value;
}

// The graph's own names of its operands.
enum Uid : std::int64_t { kQ, kK, kV, kOut, kLogSums, kDout, kDq, kDk, kDv, kUids };
bool of_kv_heads(Uid uid) { return uid == kK || uid == kV || uid == kDk || uid == kDv; }
using Strides = std::array<std::int64_t, kUids>;

enum class Pass : std::uint8_t { forward, backward };

struct Kind {
  Pass pass;
  AttentionShape shape;
  Strides strides;
  std::int64_t window;
  float scale;
  auto operator<=>(const Kind&) const = default;
};

struct Plan {
  fe::graph::Graph graph;
  std::int64_t workspace_bytes = 0;
};

// The operands as the nodes of one graph.
class Nodes {
 public:
  Nodes(fe::graph::Graph& graph, const Kind& kind) : graph_(graph), kind_(kind) {
    graph.set_io_data_type(fe::DataType_t::BFLOAT16)
        .set_intermediate_data_type(fe::DataType_t::FLOAT)
        .set_compute_data_type(fe::DataType_t::FLOAT);
  }

  Tensor input(Uid uid) {
    fe::graph::Tensor_attributes attributes;
    describe(attributes, uid);
    return graph_.tensor(attributes);
  }
  void output(const Tensor& tensor, Uid uid) {
    describe(*tensor, uid);
    tensor->set_output(true);
  }
  template <typename Attributes>
  Attributes masked(Attributes attributes) const {
    attributes.set_attn_scale(kind_.scale)
        .set_diagonal_alignment(fe::DiagonalAlignment_t::TOP_LEFT)
        .set_diagonal_band_right_bound(0);
    if (kind_.window > 0 && kind_.window < kind_.shape.tokens) {
      attributes.set_diagonal_band_left_bound(static_cast<int>(kind_.window));
    }
    return attributes;
  }

 private:
  void describe(fe::graph::Tensor_attributes& tensor, Uid uid) const {
    const auto& [batch, tokens, heads, kv_heads, head_dim] = kind_.shape;
    tensor.set_uid(uid + 1);
    if (uid == kLogSums) {
      tensor.set_data_type(fe::DataType_t::FLOAT)
          .set_dim({batch, heads, tokens, 1})
          .set_stride({heads * tokens, tokens, 1, 1});
      return;
    }
    const std::int64_t stride = kind_.strides[uid];
    tensor.set_dim({batch, of_kv_heads(uid) ? kv_heads : heads, tokens, head_dim})
        .set_stride({tokens * stride, head_dim, stride, 1});
  }

  fe::graph::Graph& graph_;
  const Kind& kind_;
};

void describe_forward(Nodes& nodes, fe::graph::Graph& graph) {
  auto [out, log_sums] =
      graph.sdpa(nodes.input(kQ), nodes.input(kK), nodes.input(kV),
                 nodes.masked(fe::graph::SDPA_attributes().set_generate_stats(true)));
  nodes.output(out, kOut);
  nodes.output(log_sums, kLogSums);
}

void describe_backward(Nodes& nodes, fe::graph::Graph& graph) {
  auto [dq, dk, dv] = graph.sdpa_backward(
      nodes.input(kQ), nodes.input(kK), nodes.input(kV), nodes.input(kOut), nodes.input(kDout),
      nodes.input(kLogSums),
      nodes.masked(fe::graph::SDPA_backward_attributes().set_deterministic_algorithm(true)));
  nodes.output(dq, kDq);
  nodes.output(dk, kDk);
  nodes.output(dv, kDv);
}

class LoadedCudnn final : public CudnnAttention {
 public:
  explicit LoadedCudnn(const Scratch& workspace) : workspace_(workspace) {
    check_cudnn(fe::detail::create_handle(&handle_), "cudnnCreate");
    int device = 0;
    strata::cuda::check(cudaGetDevice(&device), "cudaGetDevice");
    sm_version_ = 10 * attribute(cudaDevAttrComputeCapabilityMajor, device) +
                  attribute(cudaDevAttrComputeCapabilityMinor, device);
  }
  ~LoadedCudnn() override { (void)fe::detail::destroy_handle(handle_); }
  LoadedCudnn(const LoadedCudnn&) = delete;
  LoadedCudnn& operator=(const LoadedCudnn&) = delete;

  bool forward(cudaStream_t stream, const AttentionShape& shape, const AttentionOptions& options,
               const Matrix& out, float* log_sum_exp, const Qkv& qkv) override {
    return run(stream, Pass::forward, shape, shape, options, log_sum_exp,
               {{kQ, qkv.q}, {kK, qkv.k}, {kV, qkv.v}, {kOut, out}});
  }
  bool backward(cudaStream_t stream, const AttentionShape& shape, const AttentionOptions& options,
                const Qkv& gradients, const Matrix& dout, const Qkv& qkv, const Matrix& out,
                const float* log_sum_exp) override {
    const AttentionShape slice = backward_slice(shape, workspace_.bytes);
    if (slice.batch == 0) return false;
    return run(stream, Pass::backward, shape, slice, options, const_cast<float*>(log_sum_exp),
               {{kQ, qkv.q},
                {kK, qkv.k},
                {kV, qkv.v},
                {kOut, out},
                {kDout, dout},
                {kDq, gradients.q},
                {kDk, gradients.k},
                {kDv, gradients.v}});
  }

 private:
  using Operands = std::vector<std::pair<Uid, Matrix>>;

  // Slice by slice, in order.
  bool run(cudaStream_t stream, Pass pass, const AttentionShape& shape, const AttentionShape& slice,
           const AttentionOptions& options, float* log_sums, const Operands& operands) {
    const auto dim = static_cast<double>(shape.head_dim);
    Kind kind = {.pass = pass,
                 .shape = slice,
                 .strides = {},
                 .window = options.window,
                 .scale = options.scale.value_or(static_cast<float>(1 / std::sqrt(dim)))};
    for (const auto& [uid, matrix] : operands) kind.strides[uid] = matrix.stride;
    const std::lock_guard lock(mutex_);
    Plan* const plan = plan_for(kind);
    if (plan == nullptr) return false;
    check_cudnn(fe::detail::set_stream(handle_, stream), "cudnnSetStream");
    for (std::int64_t sequence = 0; sequence < shape.batch; sequence += slice.batch) {
      for (std::int64_t kv_head = 0; kv_head < shape.kv_heads; kv_head += slice.kv_heads) {
        const std::int64_t head = kv_head * shape.heads_per_kv_head();
        std::unordered_map<std::int64_t, void*> addresses;
        addresses[kLogSums + 1] = log_sums + (sequence * shape.heads + head) * shape.tokens;
        for (const auto& [uid, matrix] : operands) {
          const std::int64_t element = sequence * shape.tokens * matrix.stride +
                                       (of_kv_heads(uid) ? kv_head : head) * shape.head_dim;
          addresses[uid + 1] =
              static_cast<std::byte*>(matrix.data) + element * bytes_of(matrix.dtype);
        }
        fe::error_t error = plan->graph.execute(handle_, addresses, workspace_.data);
        if (error.is_bad()) throw_error<CudaError>("cuDNN's attention: {}", error.get_message());
      }
    }
    return true;
  }

  // Null: cuDNN has none that the workspace is large enough for.
  Plan* plan_for(const Kind& kind) {
    const auto [at, is_new] = plans_.try_emplace(kind);
    if (is_new) at->second = make_plan(kind);
    return at->second.get();
  }

  std::unique_ptr<Plan> make_plan(const Kind& kind) const {
    auto plan = std::make_unique<Plan>();
    fe::graph::Graph& graph = plan->graph;
    graph.set_sm_version(sm_version_);
    Nodes nodes(graph, kind);
    kind.pass == Pass::forward ? describe_forward(nodes, graph) : describe_backward(nodes, graph);
    if (graph.validate().is_bad() || graph.build_operation_graph(handle_).is_bad() ||
        graph.create_execution_plans({fe::HeurMode_t::A}).is_bad() ||
        graph.check_support().is_bad()) {
      return nullptr;
    }
    fe::error_t error = graph.build_plans();
    if (error.is_bad()) {
      throw_error<CudaError>(
          "cuDNN's plan of attention: {}; with STRATA_OWN_ATTENTION=1 in the environment it is not "
          "used",
          error.get_message());
    }
    plan->workspace_bytes = graph.get_workspace_size();
    return plan->workspace_bytes <= workspace_.bytes ? std::move(plan) : nullptr;
  }

  Scratch workspace_;
  cudnnHandle_t handle_ = nullptr;
  int sm_version_ = 0;
  std::mutex mutex_;  // of what follows, and of the handle's stream
  std::map<Kind, std::unique_ptr<Plan>> plans_;
};

}  // namespace

std::string cudnn_version() {
  const std::size_t version = load_library();
  if (version == 0) return "";
  return fmt::format("cuDNN {}.{}.{}", version / 10000, version / 100 % 100, version % 100);
}

std::unique_ptr<CudnnAttention> load_cudnn_attention(const Scratch& workspace) {
  if (load_library() == 0) return nullptr;
  return std::make_unique<LoadedCudnn>(workspace);
}

}  // namespace strata::ops::cuda
