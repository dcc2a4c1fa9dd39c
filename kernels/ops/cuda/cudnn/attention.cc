// The graphs of scaled dot-product attention that cudnn-frontend has: causal, grouped queries, a
// sliding window; the statistics that it keeps are our log_sum_exp. Compiled where its header is.
#include <dlfcn.h>

#define NV_CUDNN_FRONTEND_USE_DYNAMIC_LOADING  // of libcudnn, from cudnn_dlhandle
#include <cudnn_frontend.h>

#include <cstdlib>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <utility>
#include <vector>

#include "kernels/base/bytes.h"
#include "kernels/base/error.h"
#include "kernels/device/cuda/cuda_error.h"
#include "kernels/ops/cuda/attention_call.h"
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
enum Uid : std::int64_t { kQ, kK, kV, kOut, kLogSums, kDout, kDq, kDk, kDv };
bool of_kv_heads(Uid uid) { return uid == kK || uid == kV || uid == kDk || uid == kDv; }

enum class Pass : std::uint8_t { forward, backward };

// Of some sequences, or of some heads of one.
struct Plan {
  AttentionShape slice;
  fe::graph::Graph graph;
};
using Plans = std::vector<std::unique_ptr<Plan>>;

// The operands as the nodes of one graph.
class Nodes {
 public:
  Nodes(Plan& plan, const PlannedAttention& planned)
      : graph_(plan.graph), slice_(plan.slice), planned_(planned) {
    graph_.set_io_data_type(fe::DataType_t::BFLOAT16)
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
    attributes.set_attn_scale(attention_call(slice_, {}, slice_.tokens, 0).scale)
        .set_diagonal_alignment(fe::DiagonalAlignment_t::TOP_LEFT)
        .set_diagonal_band_right_bound(0);
    if (planned_.window > 0 && planned_.window < slice_.tokens) {
      attributes.set_diagonal_band_left_bound(static_cast<int>(planned_.window));
    }
    return attributes;
  }

 private:
  void describe(fe::graph::Tensor_attributes& tensor, Uid uid) const {
    const auto& [batch, tokens, heads, kv_heads, head_dim] = slice_;
    tensor.set_uid(uid + 1);
    if (uid == kLogSums) {
      tensor.set_data_type(fe::DataType_t::FLOAT)
          .set_dim({batch, heads, tokens, 1})
          .set_stride({heads * tokens, tokens, 1, 1});
      return;
    }
    const std::int64_t stride = stride_of(uid);
    tensor.set_dim({batch, of_kv_heads(uid) ? kv_heads : heads, tokens, head_dim})
        .set_stride({tokens * stride, head_dim, stride, 1});
  }

  std::int64_t stride_of(Uid uid) const {
    if (uid == kOut || uid == kDout) return planned_.shape.channels();
    if (uid == kQ || uid == kK) return planned_.qk_stride;
    return planned_.shape.packed_channels();
  }

  fe::graph::Graph& graph_;
  const AttentionShape& slice_;
  const PlannedAttention& planned_;
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

class Handle {
 public:
  Handle() { check_cudnn(fe::detail::create_handle(&handle_), "cudnnCreate"); }
  ~Handle() { (void)fe::detail::destroy_handle(handle_); }
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;
  operator cudnnHandle_t() const { return handle_; }  // NOLINT(google-explicit-constructor)

 private:
  cudnnHandle_t handle_ = nullptr;
};

class LoadedCudnn final : public CudnnAttention {
 public:
  LoadedCudnn(const Scratch& workspace, const PlannedAttention& planned)
      : workspace_(workspace), planned_(planned) {
    int device = 0;
    strata::cuda::check(cudaGetDevice(&device), "cudaGetDevice");
    sm_version_ = 10 * attribute(cudaDevAttrComputeCapabilityMajor, device) +
                  attribute(cudaDevAttrComputeCapabilityMinor, device);
    forward_ = make_plans(Pass::forward, planned.shape);
    if (planned.has_backward) backward_ = make_plans(Pass::backward, backward_slice(planned));
  }

  bool forward(cudaStream_t stream, std::int64_t sequences, const Matrix& out, float* log_sum_exp,
               const Qkv& qkv) override {
    return run(stream, forward_, sequences, log_sum_exp,
               {{kQ, qkv.q}, {kK, qkv.k}, {kV, qkv.v}, {kOut, out}});
  }
  bool backward(cudaStream_t stream, std::int64_t sequences, const Qkv& gradients,
                const Matrix& dout, const Qkv& qkv, const Matrix& out,
                const float* log_sum_exp) override {
    return run(stream, backward_, sequences, const_cast<float*>(log_sum_exp),
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
  bool run(cudaStream_t stream, const Plans& plans, std::int64_t sequences, float* log_sums,
           const Operands& operands) {
    if (plans.empty()) return false;
    const std::lock_guard lock(mutex_);
    check_cudnn(fe::detail::set_stream(handle_, stream), "cudnnSetStream");
    std::int64_t sequence = 0;
    for (const std::unique_ptr<Plan>& plan : plans) {
      const AttentionShape& slice = plan->slice;
      for (; sequence + slice.batch <= sequences; sequence += slice.batch) {
        for (std::int64_t kv_head = 0; kv_head < planned_.shape.kv_heads;
             kv_head += slice.kv_heads) {
          execute(*plan, sequence, kv_head, log_sums, operands);
        }
      }
    }
    return true;
  }

  void execute(Plan& plan, std::int64_t sequence, std::int64_t kv_head, float* log_sums,
               const Operands& operands) {
    const AttentionShape& shape = planned_.shape;
    const std::int64_t head = kv_head * shape.heads_per_kv_head();
    std::unordered_map<std::int64_t, void*> addresses;
    addresses[kLogSums + 1] = log_sums + (sequence * shape.heads + head) * shape.tokens;
    for (const auto& [uid, matrix] : operands) {
      const std::int64_t element = sequence * shape.tokens * matrix.stride +
                                   (of_kv_heads(uid) ? kv_head : head) * shape.head_dim;
      addresses[uid + 1] = static_cast<std::byte*>(matrix.data) + element * bytes_of(matrix.dtype);
    }
    fe::error_t error = plan.graph.execute(handle_, addresses, workspace_.data);
    if (error.is_bad()) throw_error<CudaError>("cuDNN's attention: {}", error.get_message());
  }

  // For slices as large as this one, then for one sequence; none where cuDNN lacks one of them.
  Plans make_plans(Pass pass, const AttentionShape& largest) const {
    Plans plans;
    AttentionShape one = largest;
    one.batch = 1;
    for (const AttentionShape& slice : {largest, one}) {
      if (slice.batch == 0 || (!plans.empty() && plans.back()->slice == slice)) break;
      plans.push_back(make_plan(pass, slice));
      if (plans.back() == nullptr) return {};
    }
    return plans;
  }

  // Null: cuDNN has none that the workspace is large enough for.
  std::unique_ptr<Plan> make_plan(Pass pass, const AttentionShape& slice) const {
    auto plan = std::make_unique<Plan>();
    plan->slice = slice;
    fe::graph::Graph& graph = plan->graph;
    graph.set_sm_version(sm_version_);
    Nodes nodes(*plan, planned_);
    pass == Pass::forward ? describe_forward(nodes, graph) : describe_backward(nodes, graph);
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
    return graph.get_workspace_size() <= workspace_.bytes ? std::move(plan) : nullptr;
  }

  Scratch workspace_;
  PlannedAttention planned_;
  Handle handle_;
  int sm_version_ = 0;
  std::mutex mutex_;  // of the handle's stream
  Plans forward_;
  Plans backward_;
};

}  // namespace

std::string cudnn_version() {
  const std::size_t version = load_library();
  if (version == 0) return "";
  return fmt::format("cuDNN {}.{}.{} by cudnn-frontend {}.{}.{}", version / 10000,
                     version / 100 % 100, version % 100, CUDNN_FRONTEND_MAJOR_VERSION,
                     CUDNN_FRONTEND_MINOR_VERSION, CUDNN_FRONTEND_PATCH_VERSION);
}

std::unique_ptr<CudnnAttention> load_cudnn_attention(const Scratch& workspace,
                                                     const PlannedAttention& planned) {
  if (load_library() == 0) return nullptr;
  return std::make_unique<LoadedCudnn>(workspace, planned);
}

}  // namespace strata::ops::cuda
